// Numbers as people read them.

const RATES: [number, string][] = [
  [1e9, "Gbit/s"],
  [1e6, "Mbit/s"],
  [1e3, "kbit/s"],
];

function digits(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** A rate in bit/s. */
export function rate(bps: number | null | undefined): string {
  if (bps === null || bps === undefined) return "–";
  const [unit, name] = RATES.find(([unit]) => Math.abs(bps) >= unit) ?? [1, "bit/s"];
  return `${digits(bps / unit)} ${name}`;
}

/** A rate as link files have it, exactly. */
export function rateText(bps: number): string {
  const whole = Math.max(1, Math.round(bps));
  for (const [unit, name] of [[1e9, "gbit"], [1e6, "mbit"], [1e3, "kbit"]] as const) {
    if (whole % unit === 0) return `${whole / unit}${name}`;
  }
  return `${whole}bit`;
}

/** A time in seconds. */
export function time(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds >= 1) return `${digits(seconds)} s`;
  return seconds >= 1e-3 ? `${digits(seconds * 1e3)} ms` : `${digits(seconds * 1e6)} µs`;
}

export function bytes(count: number | null | undefined): string {
  if (count === null || count === undefined) return "–";
  if (count >= 1 << 20) return `${digits(count / (1 << 20))} MiB`;
  return count >= 1024 ? `${digits(count / 1024)} KiB` : `${count} B`;
}
