// Configurations of other tools, by their text.

import { Refused, type Engine } from "./engine";
import type { ImportDocument } from "./types";

/** Returns the tool whose configuration a text is; `null` for a link file, which needs no engine to be known. */
export async function toolOf(engine: Engine, name: string, text: string): Promise<string | null> {
  if (name.endsWith(".toml") || /^\s*\[link\]/m.test(text)) return null;
  return engine.ask<string | null>({ do: "recognise", text });
}

/** A rate such as `100mbit` in bit/s; `null` if it is none. */
export function readRate(text: string): number | null {
  const match = /^\s*([0-9.]+)\s*([kmg]?)(bit)?(\/s)?\s*$/i.exec(text);
  const unit = { "": 1, k: 1e3, m: 1e6, g: 1e9 }[match?.[2]?.toLowerCase() as "" | "k" | "m" | "g"];
  const bps = Math.round(Number(match?.[1]) * (unit ?? NaN));
  return bps >= 1 ? bps : null;
}

/** Reads a configuration; `askRate` is asked where the file has no rate of the link. */
export async function importText(
  engine: Engine,
  tool: string,
  name: string,
  text: string,
  askRate: (why: string) => string | null,
): Promise<ImportDocument | null> {
  const ask = (rate_bps: number | null) => engine.ask<ImportDocument>({ do: "import", tool, name, text, rate_bps });
  try {
    return await ask(null);
  } catch (error) {
    if (!(error instanceof Refused) || !error.problems.some(({ message, help }) => /\brate\b/.test(`${message} ${help ?? ""}`))) throw error;
    const answer = askRate(error.message);
    if (answer === null) return null;
    const rate = readRate(answer);
    if (rate === null) throw new Error(`"${answer}" is no rate; write one such as 100mbit`);
    return ask(rate);
  }
}
