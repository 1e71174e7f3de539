// What the chosen class gets, and why.

import type { Engine } from "./engine";
import { bytes, rate, rateText, time } from "./format";
import type { CheckDocument, ClassReport, ExplainDocument } from "./types";

function element<K extends keyof HTMLElementTagNameMap>(kind: K, text?: string): HTMLElementTagNameMap[K] {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  return made;
}

export interface Setting {
  key: "guarantee" | "weight" | "ceiling";
  value: number | null;
}

/** The class's setting that a slider moves. */
function settings({ terms }: ClassReport): Setting[] {
  const all: Setting[] = [];
  if (terms?.guarantee_bps != null) all.push({ key: "guarantee", value: terms.guarantee_bps });
  else if (terms?.weight != null) all.push({ key: "weight", value: terms.weight });
  if (terms?.ceiling_bps != null) all.push({ key: "ceiling", value: terms.ceiling_bps });
  return all;
}

export class Details {
  private asked = 0;

  constructor(
    private readonly place: HTMLElement,
    private readonly engine: Engine,
    /** Shows what a value would give, while the slider moves. */
    private readonly slide: (name: string, key: string, value: number) => void,
    private readonly set: (name: string, key: string, to: string) => void,
  ) {}

  async show(check: CheckDocument, report: ClassReport | undefined, link: string, demand: string | null): Promise<void> {
    const number = ++this.asked;
    if (!report) {
      this.place.replaceChildren(element("p", "Choose a class to see its bounds, and what limits it."));
      return;
    }
    const checked = check.link.classes.find(({ name }) => name === report.name);
    const list = element("dl");
    const row = (key: string, value: string) => list.append(element("dt", key), element("dd", value));
    row("rate", rate(report.ideal?.allocation_bps));
    row("limited by", report.ideal?.limited_by ?? (report.ideal?.satisfied ? "its own demand" : "–"));
    row("share, all busy", rate(checked?.terms?.share_all_busy_bps));
    if (report.leaf) {
      row("delay bound", checked?.bounds?.delay_bound_s == null ? "none" : time(checked.bounds.delay_bound_s));
      row("fairness, as time", time(checked?.bounds?.fairness_s));
      if (checked?.bounds?.transmission_gap_s != null) row("transmission gap", time(checked.bounds.transmission_gap_s));
    }
    const sliders = element("div");
    for (const { key, value } of checked ? settings(checked) : []) sliders.append(this.slider(report.name, key, value ?? 0, check.link.capacity_bps));
    const why = element("pre", "…");
    this.place.replaceChildren(element("h2", report.name), list, sliders, element("h2", "Why"), why);
    try {
      const found = await this.engine.ask<ExplainDocument>({ do: "explain", link, class: report.name, demand });
      if (number === this.asked) why.textContent = found.text ?? found.notes.join("\n");
    } catch (error) {
      if (number === this.asked) why.textContent = (error as Error).message;
    }
  }

  private slider(name: string, key: Setting["key"], value: number, capacity: number): HTMLElement {
    const label = element("label", `${key} `);
    const range = element("input");
    const shown = element("output");
    range.type = "range";
    range.min = "1";
    range.max = key === "weight" ? String(Math.max(100, 2 * value)) : "1000";
    const step = capacity / 1000;
    range.value = key === "weight" ? String(value) : String(Math.max(1, Math.round(value / step)));
    const now = () => (key === "weight" ? Number(range.value) : Math.round(Number(range.value) * step));
    const tell = () => (shown.textContent = key === "weight" ? range.value : rate(Number(range.value) * step));
    tell();
    range.addEventListener("input", () => {
      tell();
      this.slide(name, key, now());
    });
    range.addEventListener("change", () => this.set(name, key, key === "weight" ? range.value : JSON.stringify(rateText(now()))));
    label.append(range, " ", shown);
    return label;
  }
}

export function summary(check: CheckDocument): string {
  const leaves = check.link.classes.filter(({ leaf }) => leaf).length;
  return `${rate(check.link.capacity_bps)}, ${check.link.classes.length} classes, ${leaves} leaves, at most ${bytes(check.link.memory_bytes)} for the scheduler`;
}
