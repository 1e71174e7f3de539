// Simulations that run while one looks: rates beside their ideals, delays beside bounds, of one scheduler or two.

import { RateChart } from "./chart";
import type { Engine } from "./engine";
import { rate, time } from "./format";
import { svgElement } from "./tree";
import type { CheckDocument, ClassReport, RunStep } from "./types";

/** Simulated seconds between two points. */
const POINT_S = 0.02;
/** Time for simulating in each frame of the screen, in ms. */
const BUDGET_MS = 12;
/** Most points that are kept. */
const POINTS = 5000;
class Run {
  readonly box = document.createElement("div");
  private readonly heading = document.createElement("h2");
  private readonly chart: RateChart;
  private readonly table = document.createElement("table");
  private leaves = "";
  private before = new Map<string, number>();
  private blind = false;
  now = 0;
  done = false;

  constructor(readonly name: string, readonly scheduler: string | null, title: string) {
    this.heading.textContent = title;
    this.table.className = "results";
    const place = document.createElement("div");
    this.chart = new RateChart(place, POINTS);
    this.box.append(this.heading, place, this.table);
  }

  async start(engine: Engine, scenario: string): Promise<void> {
    await engine.ask({ do: "start", name: this.name, scenario, scheduler: this.scheduler, seed: null });
  }

  async step(engine: Engine, until: number, check: CheckDocument): Promise<void> {
    const { now_s, done, run } = await engine.ask<RunStep>({ do: "step", name: this.name, until_s: until });
    const span = now_s - this.now;
    this.now = now_s;
    this.done = done;
    if (!run || span <= 0) {
      this.blind ||= !run;
      return;
    }
    const leaves = run.link.classes.filter(({ leaf }) => leaf);
    const names = leaves.map(({ name }) => name);
    if (this.leaves !== names.join("\n")) {
      this.leaves = names.join("\n");
      this.chart.open(names);
    }
    const ideals = new Map(run.link.spans?.at(-1)?.classes.map(({ name, rates }) => [name, rates?.ideal_bps ?? null]));
    // Classes that a change has added begin with nothing; the others have what they had.
    const sent = new Map(leaves.map(({ name, counts }) => [name, counts?.sent.bytes ?? 0]));
    // While nothing is measured, such as during a warm-up, nothing is known of what was sent.
    const blind = this.blind;
    this.blind = false;
    if (blind) {
      this.before = sent;
      return;
    }
    const rates = this.chart.names.map((name) => (((sent.get(name) ?? 0) - (this.before.get(name) ?? 0)) * 8) / span);
    this.chart.add(now_s, rates, this.chart.names.map((name) => ideals.get(name) ?? null));
    this.before = sent;
    this.chart.draw();
    this.rows(leaves, check);
  }

  private rows(leaves: ClassReport[], check: CheckDocument): void {
    const cells = (kind: "td" | "th", texts: string[]) => {
      const row = document.createElement("tr");
      row.append(...texts.map((text) => Object.assign(document.createElement(kind), { textContent: text })));
      return row;
    };
    const head = cells("th", ["class", "sent", "dropped", "delay p50", "p99", "max", "bound", "p50 to p99, longest, bound"]);
    const boundOf = (name: string) =>
      check.link.scheduler === this.scheduler || this.scheduler === null ? (check.link.classes.find((one) => one.name === name)?.bounds?.delay_bound_s ?? null) : null;
    const ends = leaves.flatMap(({ name, delay_s }) => [delay_s?.p50, delay_s?.max, boundOf(name)]).filter((s): s is number => s != null && s > 0);
    const [least, most] = [Math.min(...ends), Math.max(...ends)];
    const body = leaves.map(({ name, counts, delay_s }) => {
      const bound = boundOf(name);
      const sent = counts ? rate((counts.sent.bytes * 8) / this.now) : "–";
      const row = cells("td", [name, sent, String(counts?.dropped.packets ?? 0), time(delay_s?.p50), time(delay_s?.p99), time(delay_s?.max), bound == null ? "none" : time(bound), ""]);
      if (delay_s?.max != null) row.lastElementChild?.append(delayBox(delay_s, bound, least, most));
      return row;
    });
    this.table.replaceChildren(head, ...body);
  }

  resize(): void {
    this.chart.resize();
  }
}

/** Delays on a scale of powers: a box from the median to the 99th percentile, a line to the longest, and the bound. */
function delayBox(delay: { p50: number | null; p99: number | null; max: number | null }, bound: number | null, least: number, most: number): SVGElement {
  const place = (seconds: number | null) => String(1 + 98 * (Math.log(Math.max(seconds ?? least, least) / least) / Math.max(1e-9, Math.log(most / least))));
  const svg = svgElement("svg", { class: "delay", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  const [from, to] = [place(delay.p50), place(delay.p99)];
  svg.append(svgElement("line", { class: "range", x1: from, x2: place(delay.max), y1: "7", y2: "7", "vector-effect": "non-scaling-stroke" }));
  svg.append(svgElement("rect", { class: "box", x: from, y: "2", width: String(Math.max(0.5, Number(to) - Number(from))), height: "10" }));
  if (bound !== null) svg.append(svgElement("line", { class: "bound", x1: place(bound), x2: place(bound), y1: "0", y2: "14", "vector-effect": "non-scaling-stroke" }));
  return svg;
}

export class Play {
  private runs: Run[] = [];
  private playing = false;
  private check: CheckDocument | undefined;
  private generation = 0;

  constructor(
    private readonly engine: Engine,
    private readonly place: HTMLElement,
    private readonly tell: (message: string) => void,
    private readonly changed: (playing: boolean, clock: string, started: boolean) => void,
  ) {
    new ResizeObserver(() => this.runs.forEach((run) => run.resize())).observe(place);
  }

  /** Forgets the runs: the next one starts from the beginning. */
  reset(): void {
    this.playing = false;
    this.runs = [];
    this.place.replaceChildren();
    this.changed(false, "", false);
  }

  private async begin(scenario: string, check: CheckDocument, schedulers: (string | null)[]): Promise<void> {
    this.check = check;
    this.runs = schedulers.map((scheduler, at) => new Run(`run ${at}`, scheduler, scheduler ?? check.link.scheduler));
    this.place.replaceChildren(...this.runs.map(({ box }) => box));
    for (const run of this.runs) await run.start(this.engine, scenario);
    this.generation = this.engine.generation;
  }

  /** Runs until the end, or until it is paused. */
  async run(scenario: string, check: CheckDocument, schedulers: (string | null)[]): Promise<void> {
    if (this.playing) {
      this.playing = false;
      return;
    }
    this.playing = true;
    try {
      if (!this.runs.length || this.runs.every(({ done }) => done)) await this.begin(scenario, check, schedulers);
      while (this.playing && !this.runs.every(({ done }) => done)) {
        const frame = await new Promise(requestAnimationFrame);
        do await this.advance();
        while (this.playing && performance.now() - frame < BUDGET_MS && !this.runs.every(({ done }) => done));
      }
    } catch (error) {
      this.fail(error as Error);
    }
    this.playing = false;
    this.report();
  }

  async step(scenario: string, check: CheckDocument, schedulers: (string | null)[]): Promise<void> {
    try {
      if (!this.runs.length || this.runs.every(({ done }) => done)) await this.begin(scenario, check, schedulers);
      await this.advance();
    } catch (error) {
      this.fail(error as Error);
    }
    this.report();
  }

  private async advance(): Promise<void> {
    const until = (this.runs[0]?.now ?? 0) + POINT_S;
    for (const run of this.runs) if (this.check) await run.step(this.engine, until, this.check);
    this.report();
  }

  /** Gives the runs the link of another text, as a reload does. */
  async apply(text: string, check: CheckDocument): Promise<void> {
    try {
      for (const run of this.runs) await this.engine.ask({ do: "change", name: run.name, link: text, scheduler: null });
      this.check = check;
      this.tell("");
    } catch (error) {
      this.tell(`The runs go on unchanged: ${(error as Error).message}`);
    }
  }

  private fail(error: Error): void {
    const lost = this.generation !== this.engine.generation && this.generation > 0;
    this.tell(lost ? `${error.message}. The runs are lost; Run starts them again.` : error.message);
    if (lost) this.runs = [];
  }

  private report(): void {
    const now = this.runs[0]?.now ?? 0;
    const done = this.runs.length > 0 && this.runs.every((run) => run.done);
    this.changed(this.playing, this.runs.length ? `${now.toFixed(2)} s${done ? ", the end" : ""}` : "", this.runs.length > 0 && !done);
  }
}
