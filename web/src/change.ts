// A change of a running link: what differs, what a reload would do, and the reload.

import type { Engine } from "./engine";
import { rate, time } from "./format";
import type { CheckDocument, ClassReport, ReloadDocument } from "./types";

export class Change {
  private link: string | null = null;
  private running = "";
  /** The text that was tried: only that is committed. */
  private tried: string | null = null;

  constructor(
    private readonly by: (id: string) => HTMLElement,
    private readonly engine: Engine,
    private readonly text: () => string,
  ) {
    by("change-compare").onclick = () => void this.compare();
    by("change-try").onclick = () => void this.send(true);
    by("change-commit").onclick = () => void this.send(false);
    by("change-forget").onclick = () => this.end();
  }

  begin(link: string, running: string): void {
    this.link = link;
    this.running = running;
    this.by("change").hidden = false;
    this.by("change-title").textContent = `A change of ${link}: edit the file, compare, try, and commit.`;
    this.by("change-result").replaceChildren();
    this.edited();
  }

  private end(): void {
    this.link = null;
    this.by("change").hidden = true;
  }

  /** The file is another one now. */
  edited(): void {
    if (this.link === null) return;
    if (this.tried !== this.text()) this.tried = null;
    (this.by("change-commit") as HTMLButtonElement).disabled = this.tried === null;
  }

  private say(text: string): void {
    this.by("change-result").replaceChildren(Object.assign(document.createElement("pre"), { textContent: text }));
  }

  private table(head: string[], rows: string[][]): void {
    const table = document.createElement("table");
    table.className = "results";
    const line = (kind: "td" | "th", texts: string[]) => {
      const row = document.createElement("tr");
      row.append(...texts.map((text) => Object.assign(document.createElement(kind), { textContent: text })));
      return row;
    };
    table.append(line("th", head), ...rows.map((texts) => line("td", texts)));
    this.by("change-result").append(table);
  }

  private async compare(): Promise<void> {
    try {
      const ask = async (link: string) => (await this.engine.ask<CheckDocument>({ do: "check", link, scheduler: null })).link;
      const [old, now] = [await ask(this.running), await ask(this.text())];
      const lines = [
        old.capacity_bps === now.capacity_bps ? "" : `rate of the link: ${rate(old.capacity_bps)} → ${rate(now.capacity_bps)}`,
        old.scheduler === now.scheduler ? "" : `scheduler: ${old.scheduler} → ${now.scheduler}`,
      ];
      const before = new Map(old.classes.map((one) => [one.name, one]));
      const values = (one: ClassReport | undefined) =>
        one
          ? [rate(one.terms?.guarantee_bps), one.terms?.weight == null ? "–" : String(one.terms.weight), rate(one.terms?.ceiling_bps), rate(one.terms?.share_all_busy_bps), one.bounds?.delay_bound_s == null ? "none" : time(one.bounds.delay_bound_s)]
          : ["", "", "", "", ""];
      const rows: string[][] = [];
      const after = new Map(now.classes.map((one) => [one.name, one]));
      const names = new Set([...now.classes, ...old.classes].map(({ name }) => name));
      for (const name of names) {
        const [was, is] = [before.get(name), after.get(name)];
        const [from, to] = [values(was), values(is)];
        if (was && is && from.join() === to.join() && was.parent === is.parent) continue;
        const change = !was ? "new" : !is ? "gone" : was.parent !== is.parent ? `below ${is.parent ?? "the link"}` : "";
        rows.push([name, change, ...from.map((value, at) => (value === to[at] ? value : `${value || "–"} → ${to[at] || "–"}`))]);
      }
      const text = lines.filter((line) => line).join("\n");
      this.say(text || (rows.length ? "" : "No share and no bound differs."));
      if (rows.length) this.table(["class", "", "guarantee", "weight", "ceiling", "share, all busy", "delay bound"], rows);
    } catch (error) {
      this.say((error as Error).message);
    }
  }

  /** Asks the gateway to reload, or what a reload would do. */
  private async send(dry: boolean): Promise<void> {
    const text = this.text();
    const token = (this.by("change-token") as HTMLInputElement).value.trim();
    if (this.link === null || (!dry && this.tried !== text)) return;
    try {
      const answer = await fetch(`api/v1/links/${encodeURIComponent(this.link)}/reload?dry_run=${dry}`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/toml" },
        body: text,
      });
      if (!answer.ok) {
        this.say(await answer.text());
        return;
      }
      this.told((await answer.json()) as ReloadDocument);
      this.tried = dry ? text : null;
      if (!dry) this.running = text;
      this.edited();
    } catch {
      this.say(dry ? "The gateway does not answer. Nothing has changed." : "The gateway does not answer. Look at the live view to see whether the change was made.");
    }
  }

  private told({ links, committed }: ReloadDocument): void {
    this.by("change-result").replaceChildren();
    for (const link of links) {
      const changed = link.classes.filter(({ fate, before, after }) => fate !== "kept" || JSON.stringify(before) !== JSON.stringify(after));
      const done = link.committed;
      const lines = [
        committed ? `Committed as change ${done?.generation}. The file on the disk stays as it is: a restart or \`fairlink ctl reload\` reads it again.` : "Nothing has changed yet. A commit would do this:",
        link.link_bps[0] === link.link_bps[1] ? "" : `rate of the link: ${rate(link.link_bps[0])} → ${rate(link.link_bps[1])}`,
        link.scheduler[0] === link.scheduler[1] ? "" : `scheduler: ${link.scheduler[0]} → ${link.scheduler[1]}`,
        done ? `${done.kept_packets} waiting packets stay, ${done.removed_packets + done.dropped_packets} were dropped; the data thread was held up for ${time(done.took_s)}.` : "",
        ...link.notes,
        changed.length ? "" : "No class changes.",
      ];
      this.say(lines.filter((line) => line).join("\n"));
      const share = (terms: { share_all_busy_bps: number | null } | null) => (terms ? rate(terms.share_all_busy_bps) : "–");
      if (changed.length) this.table(["class", "what happens", "share before", "after"], changed.map(({ name, fate, moved_to, before, after }) => [name, moved_to ? `packets go to ${moved_to}` : fate, share(before), share(after)]));
    }
  }
}
