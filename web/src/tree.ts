// The tree of the plan: what each class gets, and what each leaf wants.

import { rate } from "./format";
import { Rows } from "./rows";
import type { ClassReport } from "./types";

/** What a leaf wants: `inf`, `0`, or a rate as link files have it. */
export type Demands = Map<string, string>;

export interface TreeEvents {
  choose(name: string): void;
  demand(name: string, to: string): void;
}

export class Tree extends Rows<ClassReport> {
  private capacity = 1;
  private demands: Demands = new Map();

  constructor(box: HTMLElement, events: TreeEvents) {
    super(box, {
      choose: events.choose,
      cells: (report) => {
        const value = document.createElement("span");
        value.className = "rate";
        value.textContent = rate(report.ideal?.allocation_bps);
        value.title = report.ideal?.limited_by ? `limited by ${report.ideal.limited_by}` : "";
        const last = report.leaf ? demand(report, this.demands, events.demand) : document.createElement("span");
        return [bar(report, this.capacity), value, last];
      },
    });
  }

  /** Shows shares of a link with this capacity in bit/s. */
  shares(classes: ClassReport[], capacity: number, demands: Demands): void {
    this.capacity = capacity;
    this.demands = demands;
    this.show(classes);
  }
}

function bar({ ideal, terms }: ClassReport, capacity: number): SVGElement {
  const part = Math.min(1, (ideal?.allocation_bps ?? 0) / capacity);
  const svg = svgElement("svg", { class: "share", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(svgElement("rect", { class: "all", width: "100", height: "14" }));
  svg.append(svgElement("rect", { class: "part", width: String(100 * part), height: "14" }));
  if (terms?.ceiling_bps) {
    const x = String(Math.min(100, (100 * terms.ceiling_bps) / capacity));
    svg.append(svgElement("line", { class: "ceiling", x1: x, x2: x, y1: "0", y2: "14", "vector-effect": "non-scaling-stroke" }));
  }
  return svg;
}

function demand({ name }: ClassReport, demands: Demands, change: (name: string, to: string) => void): HTMLElement {
  const select = document.createElement("select");
  select.dataset["name"] = name;
  select.setAttribute("aria-label", `Demand of ${name}`);
  const now = demands.get(name) ?? "inf";
  const options: [string, string][] = [["inf", "all it can"], ["0", "idle"], ["rate", "so much …"]];
  if (now !== "inf" && now !== "0") options.unshift([now, now]);
  for (const [value, text] of options) select.append(new Option(text, value, false, value === now));
  select.addEventListener("click", (event) => event.stopPropagation());
  select.addEventListener("change", () => change(name, select.value));
  return select;
}

export function svgElement(kind: string, attributes: Record<string, string>): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
