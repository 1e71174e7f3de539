// Simulations that run while one looks: rates beside their ideals, delays beside bounds, of one scheduler or two.

import uPlot from "uplot";
import type { Engine } from "./engine";
import { rate, time } from "./format";
import type { CheckDocument, ClassReport, RunStep } from "./types";

/** Simulated seconds between two points. */
const POINT_S = 0.02;
/** Time for simulating in each frame of the screen, in ms. */
const BUDGET_MS = 12;
/** Most points that are kept. */
const POINTS = 5000;
/** Colours that remain different for people who see fewer (Okabe and Ito, 2008). */
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a00", "#888888"];
/** Leaves that are drawn; the table has all. */
const DRAWN = 8;

class Run {
  readonly box = document.createElement("div");
  private readonly heading = document.createElement("h2");
  private readonly chart = document.createElement("div");
  private readonly table = document.createElement("table");
  private plot: uPlot | undefined;
  private leaves: string[] = [];
  private data: (number | null)[][] = [];
  private before = new Map<string, number>();
  now = 0;
  done = false;

  constructor(readonly name: string, readonly scheduler: string | null, title: string) {
    this.heading.textContent = title;
    this.table.className = "results";
    this.box.append(this.heading, this.chart, this.table);
  }

  async start(engine: Engine, scenario: string): Promise<void> {
    await engine.ask({ do: "start", name: this.name, scenario, scheduler: this.scheduler, seed: null });
  }

  async step(engine: Engine, until: number, check: CheckDocument): Promise<void> {
    const { now_s, done, run } = await engine.ask<RunStep>({ do: "step", name: this.name, until_s: until });
    const span = now_s - this.now;
    this.now = now_s;
    this.done = done;
    if (!run || span <= 0) return;
    const leaves = run.link.classes.filter(({ leaf }) => leaf);
    if (!this.plot || leaves.some(({ name }) => !this.leaves.includes(name))) this.open(leaves);
    const ideals = new Map(run.link.spans?.at(-1)?.classes.map(({ name, rates }) => [name, rates?.ideal_bps ?? null]));
    this.data[0]?.push(now_s);
    this.leaves.forEach((name, at) => {
      const sent = leaves.find((leaf) => leaf.name === name)?.counts?.sent.bytes ?? 0;
      this.data[2 * at + 1]?.push(((sent - (this.before.get(name) ?? 0)) * 8) / span / 1e6);
      const ideal = ideals.get(name);
      this.data[2 * at + 2]?.push(ideal == null ? null : ideal / 1e6);
      this.before.set(name, sent);
    });
    for (const { name, counts } of leaves) if (!this.leaves.includes(name)) this.before.set(name, counts?.sent.bytes ?? 0);
    if ((this.data[0]?.length ?? 0) > POINTS) this.data.forEach((series) => series.shift());
    this.plot?.setData(this.data as uPlot.AlignedData);
    this.rows(leaves, check);
  }

  private open(leaves: ClassReport[]): void {
    this.leaves = leaves.slice(0, DRAWN).map(({ name }) => name);
    this.data = Array.from({ length: 1 + 2 * this.leaves.length }, () => []);
    // Classes that a change has added begin with nothing; the others have what they had.
    this.before = new Map(leaves.map(({ name }) => [name, this.before.get(name) ?? 0]));
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const front = style.getPropertyValue("color");
    const grid = { stroke: "rgba(128,128,128,.25)", width: 1 };
    const axis = { stroke: front, grid, ticks: grid };
    const series = this.leaves.flatMap((name, at) => {
      const stroke = COLORS[at % COLORS.length] as string;
      return [
        { label: name, stroke, width: 2, points: { show: false } },
        { label: `${name}, ideal`, stroke: front, width: 1.5, dash: [2, 6], points: { show: false } },
      ];
    });
    const width = Math.max(280, this.chart.clientWidth || this.box.clientWidth);
    const options: uPlot.Options = {
      width,
      height: 260,
      scales: { x: { time: false } },
      axes: [{ ...axis, label: "time (s)" }, { ...axis, label: "rate (Mbit/s)" }],
      series: [{ label: "time (s)" }, ...series],
    };
    this.plot = new uPlot(options, this.data as uPlot.AlignedData, this.chart);
  }

  private rows(leaves: ClassReport[], check: CheckDocument): void {
    const cells = (kind: "td" | "th", texts: string[]) => {
      const row = document.createElement("tr");
      row.append(...texts.map((text) => Object.assign(document.createElement(kind), { textContent: text })));
      return row;
    };
    const head = cells("th", ["class", "sent", "dropped", "delay p50", "p99", "max", "bound"]);
    const body = leaves.map(({ name, counts, delay_s }) => {
      const bound = check.link.scheduler === this.scheduler || this.scheduler === null ? check.link.classes.find((one) => one.name === name)?.bounds?.delay_bound_s : null;
      const sent = counts ? rate((counts.sent.bytes * 8) / this.now) : "–";
      const row = cells("td", [name, sent, String(counts?.dropped.packets ?? 0), time(delay_s?.p50), time(delay_s?.p99), time(delay_s?.max), bound == null ? "none" : time(bound)]);
      return row;
    });
    this.table.replaceChildren(head, ...body);
  }

  resize(): void {
    this.plot?.setSize({ width: Math.max(280, this.chart.clientWidth), height: 260 });
  }
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
