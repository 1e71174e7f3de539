// Rates of classes over time beside their dotted ideals.

import uPlot from "uplot";

/** Colours that remain different for people who see fewer (Okabe and Ito, 2008). */
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a00", "#888888"];
/** Classes that are drawn. */
export const DRAWN = 8;
const HEIGHT = 260;

export class RateChart {
  private plot: uPlot | undefined;
  private data: (number | null)[][] = [];
  names: string[] = [];

  /** `points`: most points that are kept. `clock`: times are seconds since 1970. */
  constructor(private readonly place: HTMLElement, private readonly points: number, private readonly clock = false) {}

  private width(): number {
    return Math.max(280, this.place.clientWidth);
  }

  /** Begins anew with the first of these classes. */
  open(names: string[]): void {
    this.names = names.slice(0, DRAWN);
    this.data = Array.from({ length: 1 + 2 * this.names.length }, () => []);
    this.plot?.destroy();
    const front = getComputedStyle(document.documentElement).getPropertyValue("color");
    const grid = { stroke: "rgba(128,128,128,.25)", width: 1 };
    const axis = { stroke: front, grid, ticks: grid };
    const series = this.names.flatMap((name, at) => {
      const stroke = COLORS[at % COLORS.length] as string;
      return [
        { label: name, stroke, width: 2, points: { show: false } },
        { label: `${name}, ideal`, stroke: front, width: 1.5, dash: [2, 6], points: { show: false } },
      ];
    });
    const time = this.clock ? "time" : "time (s)";
    const options: uPlot.Options = {
      width: this.width(),
      height: HEIGHT,
      scales: { x: { time: this.clock } },
      axes: [{ ...axis, label: time }, { ...axis, label: "rate (Mbit/s)" }],
      series: [{ label: time }, ...series],
    };
    this.plot = new uPlot(options, this.data as uPlot.AlignedData, this.place);
  }

  /** Adds a point; rates and ideals in bit/s, in the order of the names. */
  add(at: number, rates: (number | null)[], ideals: (number | null)[]): void {
    const mega = (bps: number | null | undefined) => (bps == null ? null : bps / 1e6);
    this.data[0]?.push(at);
    this.names.forEach((_, place) => {
      this.data[2 * place + 1]?.push(mega(rates[place]));
      this.data[2 * place + 2]?.push(mega(ideals[place]));
    });
    if ((this.data[0]?.length ?? 0) > this.points) this.data.forEach((series) => series.shift());
  }

  draw(): void {
    this.plot?.setData(this.data as uPlot.AlignedData);
  }

  resize(): void {
    this.plot?.setSize({ width: this.width(), height: HEIGHT });
  }
}
