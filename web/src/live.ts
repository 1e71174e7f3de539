// A running gateway: rates beside ideals as they come, delays beside bounds, drops, and what limits each class.

import { DRAWN, RateChart } from "./chart";
import { rate, time } from "./format";
import { Rows } from "./rows";
import { svgElement } from "./tree";
import type { HistoryDocument, LiveMoment, LiveTree, StatsDocument } from "./types";

/** Points that the chart keeps: 15 minutes of a point every second. */
const POINTS = 900;
/** Time until a stream that the gateway has refused is asked for again, in ms. */
const AGAIN_MS = 2000;

interface Row {
  name: string;
  parent: string | null;
  at: number;
}

export interface LiveEvents {
  /** Plan a change of a link that runs with this file. */
  plan(link: string, text: string): void;
  tell(message: string): void;
}

function element<K extends keyof HTMLElementTagNameMap>(kind: K, text: string, name = ""): HTMLElementTagNameMap[K] {
  return Object.assign(document.createElement(kind), { textContent: text, className: name });
}

export class Live {
  private readonly rows: Rows<Row>;
  private readonly chart: RateChart;
  private source: EventSource | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private link = "";
  private tree: LiveTree | undefined;
  private moment: LiveMoment | undefined;
  private drawn: number[] = [];
  private asked = 0;
  private stats = { name: "", text: "" };

  constructor(private readonly by: (id: string) => HTMLElement, private readonly events: LiveEvents) {
    this.chart = new RateChart(by("live-plot"), POINTS, true);
    this.rows = new Rows<Row>(by("live-tree"), {
      cells: ({ at }) => this.cells(at),
      choose: () => {
        void this.open();
        this.show();
      },
    });
    new ResizeObserver(() => this.chart.resize()).observe(by("live-plot"));
    (by("live-search") as HTMLInputElement).oninput = ({ target }) => this.rows.find((target as HTMLInputElement).value);
    by("live-plan").onclick = () => void this.plan();
    (by("live-link") as HTMLSelectElement).onchange = ({ target }) => this.follow((target as HTMLSelectElement).value);
  }

  /** Follows the first link. */
  async start(): Promise<void> {
    const { links } = (await (await fetch("api/v1/links")).json()) as { links: string[] };
    const select = this.by("live-link") as HTMLSelectElement;
    select.replaceChildren(...links.map((name) => new Option(name, name)));
    (select.parentElement as HTMLElement).hidden = links.length < 2;
    if (links[0] !== undefined) this.follow(links[0]);
    else this.state("No link is served now.");
  }

  private path(what: string): string {
    return `api/v1/links/${encodeURIComponent(this.link)}/${what}`;
  }

  private state(text: string): void {
    this.by("live-state").textContent = text;
  }

  private follow(link: string): void {
    if (link !== this.link) {
      this.link = link;
      this.tree = this.moment = undefined;
      this.rows.chosen = null;
      this.drawn = [];
      this.stats = { name: "", text: "" };
    }
    clearTimeout(this.retry);
    this.source?.close();
    this.state("Connecting …");
    const source = new EventSource(this.path("events"));
    this.source = source;
    source.addEventListener("tree", ({ data }) => {
      const before = this.tree;
      this.tree = JSON.parse(data as string) as LiveTree;
      const { classes, parent } = this.tree;
      this.rows.show(classes.slice(1).map((name, at) => ({ name, parent: parent[at + 1] ? (classes[parent[at + 1] as number] as string) : null, at: at + 1 })));
      // The chart goes on if the gateway has come back with the same classes; the time between has no points.
      if (before && before.classes.join("\n") === classes.join("\n")) this.chart.add(Date.now() / 1000, [], []);
      else void this.open();
    });
    source.addEventListener("moment", ({ data }) => {
      const moment = JSON.parse(data as string) as LiveMoment;
      // What was seen stays while the data thread does not answer.
      if (moment.up) this.moment = moment;
      this.show(moment.up);
      const { at_s, rate_bps, ideal_bps, interval_s } = moment;
      if (interval_s > 0) {
        this.chart.add(at_s, this.drawn.map((at) => rate_bps[at] ?? null), this.drawn.map((at) => ideal_bps[at] ?? null));
        this.chart.draw();
      }
    });
    source.onerror = () => {
      this.state("The gateway does not answer; trying again. What is shown is from before.");
      if (source.readyState === EventSource.CLOSED) this.retry = setTimeout(() => this.follow(this.link), AGAIN_MS);
    };
  }

  /** Draws the classes below the chosen one, or those of the highest level, with their history. */
  private async open(): Promise<void> {
    const tree = this.tree;
    if (!tree) return;
    const below = (parent: number) => tree.parent.flatMap((one, at) => (one === parent ? [at] : []));
    const chosen = this.rows.chosen === null ? 0 : tree.classes.indexOf(this.rows.chosen);
    const children = below(Math.max(0, chosen));
    const classes = (children.length ? children : [chosen]).slice(0, DRAWN);
    if (classes.join() === this.drawn.join() && this.chart.names.join() === classes.map((at) => tree.classes[at]).join()) return;
    this.drawn = classes;
    const names = classes.map((at) => tree.classes[at] as string);
    this.chart.open(names);
    const number = ++this.asked;
    const query = names.map((name) => `class=${encodeURIComponent(name)}`).join("&");
    const answer = await fetch(this.path(`history?${query}`)).catch(() => undefined);
    if (!answer?.ok || number !== this.asked) return;
    const history = (await answer.json()) as HistoryDocument;
    const place = names.map((name) => history.classes.indexOf(name));
    this.chart.open(names);
    history.at_s.forEach((at, point) => {
      this.chart.add(at, place.map((one) => history.rate_bps[one]?.[point] ?? null), place.map((one) => history.ideal_bps[one]?.[point] ?? null));
    });
    this.chart.draw();
  }

  private cells(at: number): Element[] {
    const { tree, moment } = this;
    const whole = tree?.capacity_bps ?? 1;
    const svg = svgElement("svg", { class: "share", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" });
    const width = (bps: number | null | undefined) => String(Math.min(100, (100 * (bps ?? 0)) / whole));
    svg.append(svgElement("rect", { class: "all", width: "100", height: "14" }));
    svg.append(svgElement("rect", { class: "part", width: width(moment?.rate_bps[at]), height: "14" }));
    if (moment?.ideal_bps[at] != null) {
      const x = width(moment.ideal_bps[at]);
      svg.append(svgElement("line", { class: "ideal", x1: x, x2: x, y1: "0", y2: "14", "vector-effect": "non-scaling-stroke" }));
    }
    const bound = tree?.delay_bound_s[at];
    const p99 = moment?.delay_p99_s[at];
    const delay = element("span", time(p99), "rate");
    delay.title = bound == null ? "no delay bound" : `bound ${time(bound)}, for traffic within its guarantee`;
    const limit = moment?.limit[at];
    const by = moment?.limited_by[at];
    return [svg, element("span", rate(moment?.rate_bps[at]), "rate"), delay, element("span", limit === "parent" && by != null ? `below ${tree?.classes[by] ?? ""}` : (limit ?? ""), "limit")];
  }

  private show(up = true): void {
    if (!up) {
      this.state("The data thread does not answer. What is shown is from before.");
      return;
    }
    const { tree, moment } = this;
    if (!tree || !moment) return;
    this.rows.draw();
    this.state(`${tree.scheduler}, ${rate(moment.rate_bps[0])} of ${rate(tree.capacity_bps)}, delay p99 ${time(moment.delay_p99_s[0])}, ${moment.dropped_packets[0]} packets dropped, up for ${time(Math.floor(moment.uptime_s))}`);
    this.by("live-notes").textContent = (moment.notes ?? []).join("\n");
    this.details();
  }

  private details(): void {
    const { tree, moment } = this;
    const name = this.rows.chosen;
    const at = name === null ? -1 : (tree?.classes.indexOf(name) ?? -1);
    const place = this.by("live-details");
    if (!tree || !moment || name === null || at < 0) {
      place.replaceChildren(element("p", "Choose a class to see its delays, its drops, and what limits it."));
      return;
    }
    const list = document.createElement("dl");
    const row = (key: string, value: string) => list.append(element("dt", key), element("dd", value));
    const by = moment.limited_by[at];
    row("rate", rate(moment.rate_bps[at]));
    row("ideal", moment.ideal_bps[at] == null ? "not computed" : rate(moment.ideal_bps[at]));
    row("demand", rate(moment.demand_bps[at]));
    row("guarantee", rate(tree.guarantee_bps[at]));
    row("ceiling", rate(tree.ceiling_bps[at]));
    row("limited by", moment.limit[at] == null ? "–" : by == null ? String(moment.limit[at]) : `${moment.limit[at]} (${tree.classes[by] ?? ""})`);
    row("delay p50, p99", `${time(moment.delay_p50_s[at])}, ${time(moment.delay_p99_s[at])}`);
    row("delay bound", tree.delay_bound_s[at] == null ? "none" : `${time(tree.delay_bound_s[at])}, for traffic within its guarantee`);
    row("waiting", `${moment.queued_packets[at]} packets`);
    row("dropped", this.stats.name === name ? this.stats.text : `${moment.dropped_packets[at]} packets`);
    place.replaceChildren(element("h2", name), list);
    void this.causes(name);
  }

  /** Reads the causes of drops of a class. */
  private async causes(name: string): Promise<void> {
    const glob = name.replace(/[*]/g, "?");
    const answer = await fetch(this.path(`stats?class=${encodeURIComponent(glob)}`)).catch(() => undefined);
    if (!answer?.ok) return;
    const { links } = (await answer.json()) as StatsDocument;
    const counts = links[0]?.classes.find((one) => one.name === name)?.counts;
    const causes = Object.entries(counts?.dropped_by ?? {}).filter(([, amount]) => amount.packets > 0);
    const text = causes.map(([cause, amount]) => `${amount.packets} ${cause.replaceAll("_", " ")}`).join(", ");
    this.stats = { name, text: text ? `${counts?.dropped.packets} packets: ${text}` : "none" };
  }

  private async plan(): Promise<void> {
    const answer = await fetch(this.path("file")).catch(() => undefined);
    const text = await answer?.text();
    if (answer?.ok && text !== undefined) this.events.plan(this.link, text);
    else this.events.tell(text ?? "The gateway does not answer.");
  }
}
