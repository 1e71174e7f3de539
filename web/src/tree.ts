// The tree of the plan: what each class gets, and what each leaf wants.

import { rate } from "./format";
import { Rows } from "./rows";
import type { ClassReport } from "./types";

/** What a leaf wants: `inf`, `0`, or a rate as link files have it. */
export type Demands = Map<string, string>;

/** Distance in pixels from which a press is dragging. */
const NEAR = 4;

export interface TreeEvents {
  choose(name: string): void;
  demand(name: string, to: string): void;
  move(name: string, below: string | null): void;
  /** The number of a class that its bar shows while it is dragged, and when it is let go; null if the browser ends the dragging. */
  drag(report: ClassReport, bps: number | null, done: boolean): void;
}

export class Tree extends Rows<ClassReport> {
  private capacity = 1;
  private demands: Demands = new Map();
  /** Rates under another scheduler. */
  private beside = new Map<string, number | null>();

  constructor(box: HTMLElement, events: TreeEvents) {
    super(box, {
      choose: events.choose,
      move: events.move,
      cells: (report) => {
        const value = document.createElement("span");
        value.className = "rate";
        const other = this.beside.get(report.name);
        value.textContent = rate(report.ideal?.allocation_bps) + (other === undefined ? "" : ` | ${rate(other)}`);
        value.title = report.ideal?.limited_by ? `limited by ${report.ideal.limited_by}` : "";
        const last = report.leaf ? demand(report, this.demands, events.demand) : document.createElement("span");
        return [this.dragged(bar(report, this.capacity, this.beside.get(report.name)), report, events), value, last];
      },
    });
  }

  /** Dragging in the bar of a class with a guarantee sets it. */
  private dragged(bar: SVGElement, report: ClassReport, events: TreeEvents): SVGElement {
    if (report.terms?.guarantee_bps == null) return bar;
    bar.classList.add("drags");
    // The rows are drawn anew meanwhile.
    let [left, width] = [0, 1];
    const tell = (event: PointerEvent, done: boolean) => {
      const part = Math.min(1, Math.max(0.001, (event.clientX - left) / Math.max(1, width)));
      events.drag(report, Math.round(part * 1000) * Math.max(1, Math.round(this.capacity / 1000)), done);
    };
    bar.addEventListener("pointerdown", (event) => {
      this.held = true;
      ({ left, width } = bar.getBoundingClientRect());
      let moves = false;
      const move = (moved: PointerEvent) => {
        // A click chooses the class.
        moves ||= Math.abs(moved.clientX - event.clientX) > NEAR;
        if (moves) tell(moved, false);
      };
      const end = () => {
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", up);
        removeEventListener("pointercancel", cancel);
        this.held = false;
      };
      const up = (last: PointerEvent) => {
        end();
        if (moves) tell(last, true);
      };
      const cancel = () => {
        end();
        if (moves) events.drag(report, null, true);
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", up);
      addEventListener("pointercancel", cancel);
    });
    return bar;
  }

  /** Shows shares of a link with this capacity in bit/s. */
  shares(classes: ClassReport[], capacity: number, demands: Demands, beside: ClassReport[] = []): void {
    this.capacity = capacity;
    this.demands = demands;
    this.beside = new Map(beside.map(({ name, ideal }) => [name, ideal?.allocation_bps ?? null]));
    this.show(classes);
  }
}

function bar({ ideal, terms }: ClassReport, capacity: number, beside?: number | null): SVGElement {
  const part = Math.min(1, (ideal?.allocation_bps ?? 0) / capacity);
  const svg = svgElement("svg", { class: "share", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(svgElement("rect", { class: "all", width: "100", height: "14" }));
  svg.append(svgElement("rect", { class: "part", width: String(100 * part), height: "14" }));
  if (beside != null) {
    svg.append(svgElement("rect", { class: "beside", y: "9", width: String(100 * Math.min(1, beside / capacity)), height: "5" }));
  }
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
