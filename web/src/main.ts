// The page: the file, what follows from it, and what one does with both.

import { Change as Reload } from "./change";
import { Editor } from "./editor";
import { Engine, Refused, type Request } from "./engine";
import { rateText } from "./format";
import { importText, toolOf } from "./import";
import { Live } from "./live";
import { Details, summary } from "./plan";
import { picture, points } from "./picture";
import { Play } from "./play";
import { fromFragment, toFragment, LONGEST } from "./share";
import { addClass, removeClasses, renameClass, setKey, type Change } from "./text";
import { Tree, type Demands } from "./tree";
import type { CheckDocument, ClassReport, FluidDocument, SchedulersDocument } from "./types";

declare const EXAMPLES: { title: string; name: string; text: string }[];

const by = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const message = by("message");
/** What is wrong with the file. */
const tell = (text: string) => (message.textContent = text);
/** What an action did, until the next one. */
const notice = (text: string) => (by("notice").textContent = text);

const engine = new Engine("engine.wasm");
/** Reads configurations of other tools; fetched when there is one. */
const importer = new Engine("import.wasm");
const demands: Demands = new Map();
let check: CheckDocument | undefined;
let classes: ClassReport[] = [];

const tree = new Tree(by("tree"), {
  choose: () => void explain(),
  demand: (name, to) => {
    const asked = to === "rate" ? prompt(`Demand of ${name}, such as 3mbit`, "1mbit") : to;
    if (asked === "inf") demands.delete(name);
    else if (asked) demands.set(name, asked);
    void work();
  },
  move: (name, below) => move(name, below),
  drag: ({ name }, bps, done) => {
    if (bps === null) restore();
    else if (done) edit(setKey(editor.text, name, "guarantee", JSON.stringify(rateText(bps))));
    else void slide(name, "guarantee", bps);
  },
});
const details = new Details(by("details"), engine, (name, key, value) => void slide(name, key, value), (name, key, to) => edit(setKey(editor.text, name, key, to)));
const editor = new Editor(by("editor"), () => {
  reload.edited();
  later();
});
const reload: Reload = new Reload(by, engine, () => editor.text);
/** True for a page that a gateway serves. */
const served = document.documentElement.hasAttribute("data-live");
const play = new Play(engine, by("plots"), notice, (playing, clock, started) => {
  by("run").textContent = playing ? "Pause" : "Run";
  by("clock").textContent = clock;
  by<HTMLButtonElement>("apply").disabled = !started;
});

let timer: ReturnType<typeof setTimeout> | undefined;
function later(): void {
  clearTimeout(timer);
  timer = setTimeout(() => void work(), 150);
}

function edit(changes: Change | Change[] | null): void {
  if (changes === null) {
    notice("This class is not written as a [[class]] table of its own: edit it in the file.");
    restore();
  } else editor.change(changes);
}

/** Puts a class below another one, or below the link. */
function move(name: string, below: string | null): void {
  const parents = new Map(classes.map((one) => [one.name, one.parent]));
  if (below !== null && !parents.has(below)) {
    notice(`There is no class ${below}.`);
    return;
  }
  for (let above = below; above !== null; above = parents.get(above) ?? null) {
    if (above === name) {
      notice(`${below} is ${name} itself, or below it.`);
      return;
    }
  }
  edit(setKey(editor.text, name, "parent", below === null ? null : JSON.stringify(below)));
}

/** The demands of all leaves, because those that are not named would be idle; null if all want as much as they can get. */
function demandText(leaves: ClassReport[]): string | null {
  if (!demands.size) return null;
  return leaves.filter(({ leaf }) => leaf).map(({ name }) => `${name}=${demands.get(name) ?? "inf"}`).join(",");
}

const chosenScheduler = () => by<HTMLSelectElement>("scheduler").value || null;

/** The file with another scheduler. */
function under(scheduler: string | null): string {
  const text = editor.text;
  const change = scheduler === null ? null : setKey(text, null, "scheduler", JSON.stringify(scheduler));
  return change ? text.slice(0, change.from) + change.insert + text.slice(change.to) : text;
}

let working = false;
let again = false;

/** Computes all that follows from the file. Only the last text counts; one before it that is not done yet is left out. */
async function work(): Promise<void> {
  again = true;
  if (working) return;
  working = true;
  while (again) {
    again = false;
    const link = editor.text;
    try {
      const checked = await engine.ask<CheckDocument>({ do: "check", link, scheduler: chosenScheduler() });
      const leaves = new Set(checked.link.classes.map(({ name }) => name));
      for (const name of demands.keys()) if (!leaves.has(name)) demands.delete(name);
      const demand = demandText(checked.link.classes);
      const shares = (scheduler: string | null) => engine.ask<FluidDocument>({ do: "fluid", link: under(scheduler), demand });
      const fluid = await shares(chosenScheduler());
      const other = by<HTMLSelectElement>("plan-beside").value;
      const beside = other ? await shares(other) : null;
      const bounds = new Map(checked.link.classes.map((one) => [one.name, one]));
      check = checked;
      classes = fluid.link.classes.map((one) => ({ ...one, terms: bounds.get(one.name)?.terms }));
      editor.show(checked.problems);
      tree.shares(classes, checked.link.capacity_bps, demands, beside?.link.classes);
      by("besides").textContent = beside ? [`Under ${fluid.link.scheduler} | ${beside.link.scheduler}`, ...(beside.link.notes ?? [])].join(": ") : "";
      by("summary").textContent = summary(checked);
      tell("");
      await explain();
    } catch (error) {
      if (error instanceof Refused) editor.show(error.problems);
      tell(error instanceof Refused ? error.problems.map(({ line, message, help }) => `${line ? `line ${line}: ` : ""}${message}${help ? `; ${help}` : ""}`).join("\n") : (error as Error).message);
    }
  }
  working = false;
}

/** The number that a slider has now, until the engine has seen it. */
let sliding: { name: string; key: string; value: number } | undefined;
/** The file that the engine keeps read for sliders, with its demands. */
let planned: string | undefined;
let slides = false;

/** Shows the rates for another number of a class. The file follows when the slider is let go. */
async function slide(name: string, key: string, value: number): Promise<void> {
  sliding = { name, key, value };
  if (slides) return;
  slides = true;
  try {
    const [link, demand] = [under(chosenScheduler()), demandText(classes)];
    const now = `${engine.generation} ${demand}\n${link}`;
    if (planned !== now) await engine.ask({ do: "plan", link, demand });
    planned = `${engine.generation} ${demand}\n${link}`;
    while (sliding) {
      const next = sliding;
      sliding = undefined;
      // The engine has the link first.
      const rates = await engine.ask<number[]>({ do: "set", class: next.name, key: next.key, value: next.value });
      classes.forEach(({ ideal }, at) => {
        if (ideal) ideal.allocation_bps = rates[at + 1] ?? 0;
      });
      tree.draw();
      tell("");
    }
  } catch (error) {
    // A value that is refused leaves the engine with the link as it was.
    if (!(error instanceof Refused)) planned = undefined;
    tell((error as Error).message);
  }
  slides = false;
}

/** Shows the rates of the file again, after a number that did not get into it. */
function restore(): void {
  sliding = undefined;
  // The engine has the link with that number.
  planned = undefined;
  void work();
}

async function explain(): Promise<void> {
  if (check) await details.show(check, classes.find(({ name }) => name === tree.chosen), under(chosenScheduler()), demandText(check.link.classes));
}

function view(name: "live" | "plan" | "play"): void {
  for (const one of ["live", "plan", "play"]) {
    by(one).hidden = one !== name;
    by(`view-${one}`).setAttribute("aria-pressed", String(one === name));
  }
  by("file").hidden = name === "live";
}

function wire(): void {
  by("view-live").onclick = () => view("live");
  by("view-plan").onclick = () => view("plan");
  by("view-play").onclick = () => view("play");
  by<HTMLInputElement>("search").oninput = ({ target }) => tree.find((target as HTMLInputElement).value);
  by("scheduler").onchange = () => {
    play.reset();
    void work();
  };
  by("beside").onchange = () => play.reset();
  by("plan-beside").onchange = () => void work();
  by("add").onclick = () => {
    const name = prompt("Name of the new class");
    if (name) edit(addClass(editor.text, name, tree.chosen, "weight", "1"));
  };
  by("rename").onclick = () => {
    const name = tree.chosen;
    const to = name && prompt(`New name of ${name}`, name);
    if (name && to) {
      tree.chosen = to;
      edit(renameClass(editor.text, name, to));
    }
  };
  by("move").onclick = () => {
    const name = tree.chosen;
    const below = name && prompt(`Class above ${name}; nothing for the link`, classes.find((one) => one.name === name)?.parent ?? "");
    if (name && below !== null) move(name, below || null);
  };
  by("remove").onclick = () => {
    if (!tree.chosen) return;
    const names = new Set([tree.chosen]);
    // Parents come before their children.
    for (const { name, parent } of classes) if (parent !== null && names.has(parent)) names.add(name);
    edit(removeClasses(editor.text, names));
  };
  const schedulers = () => [chosenScheduler(), ...(by<HTMLSelectElement>("beside").value ? [by<HTMLSelectElement>("beside").value] : [])];
  by("run").onclick = () => check && void play.run(editor.text, check, schedulers());
  by("step").onclick = () => check && void play.step(editor.text, check, schedulers());
  by("apply").onclick = () => check && void play.apply(editor.text, check);
  by("share").onclick = async () => {
    const link = location.href.replace(/#.*/, "") + (await toFragment(editor.text));
    history.replaceState(null, "", link);
    await navigator.clipboard?.writeText(link).catch(() => undefined);
    notice("The address of this page holds the file now.");
  };
  by<HTMLSelectElement>("download").onchange = async ({ target }) => {
    const select = target as HTMLSelectElement;
    const kind = select.value;
    select.value = "";
    try {
      await download(kind);
    } catch (error) {
      notice((error as Error).message);
    }
  };
  const examples = by<HTMLSelectElement>("example");
  EXAMPLES.forEach(({ title }, at) => examples.append(new Option(title, String(at))));
  examples.onchange = () => load(EXAMPLES[Number(examples.value)]?.text ?? "");
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (file) void take(file);
  });
}

/** Most classes in a picture: browsers draw no canvas that is longer. */
const MOST_DRAWN = 600;

async function download(kind: string): Promise<void> {
  let blob: Blob;
  if (kind === "toml") blob = new Blob([editor.text], { type: "application/toml" });
  else {
    if (!check) throw new Error("There is nothing to draw yet.");
    if (classes.length > MOST_DRAWN) throw new Error(`A picture has up to ${MOST_DRAWN} classes, and these are ${classes.length}.`);
    const svg = picture(classes, check.link.capacity_bps);
    blob = kind === "svg" ? new Blob([svg.outerHTML], { type: "image/svg+xml" }) : await points(svg);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `link.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Most classes of a file: the engine refuses more. */
const MOST_CLASSES = 100_000;
/** Longest file whose classes are counted, in bytes: the command line reads no longer one. */
const LONGEST_COUNTED = 256 << 20;

/** The number of tables [[class]] of a file that is not kept in memory. */
async function classesIn(file: File): Promise<number> {
  const header = "[[class]]";
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let [count, rest] = [0, ""];
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const pieces = (rest + part.value).split(header);
    count += pieces.length - 1;
    // A header may be cut in two.
    rest = pieces.at(-1)?.slice(-header.length + 1) ?? "";
  }
  return count;
}

async function take(file: File): Promise<void> {
  if (file.size > LONGEST) {
    const classes = file.size > LONGEST_COUNTED ? "" : ` and ${await classesIn(file)} tables [[class]]`;
    notice(`${file.name} has ${file.size} B${classes}; the page takes up to ${LONGEST} B and ${MOST_CLASSES} classes: use the command line (fairlink check ${file.name}), or a part of the file`);
    return;
  }
  const text = await file.text();
  let tool: string | null = null;
  try {
    tool = await toolOf(importer, file.name, text);
    if (tool === null) {
      load(text);
      return;
    }
    const made = await importText(importer, tool, file.name, text, (why) => prompt(`${why}\nRate of the link, such as 100mbit`));
    const [first, ...others] = made?.files ?? [];
    if (!made || !first) return;
    load(first.text);
    const told = [...made.changed, ...made.left_out].map(({ line, message }) => `${line ? `line ${line}: ` : ""}${message}`);
    const more = others.length ? [`${others.length} more links of ${file.name} are not shown: import them with the command line`] : [];
    notice([`${file.name}, read as ${tool}:`, ...more, ...told].join("\n"));
  } catch (error) {
    notice(`${file.name}${tool === null ? "" : `, read as ${tool}`}: ${(error as Error).message}`);
  }
}

function load(text: string): void {
  play.reset();
  demands.clear();
  tree.chosen = null;
  editor.text = text;
}

/** The file that the address holds: its text, or the name of an example. */
async function held(): Promise<string | null> {
  const name = /^#example=(.+)$/.exec(location.hash)?.[1];
  if (name === undefined) return fromFragment(location.hash);
  const at = EXAMPLES.findIndex((example) => example.name === decodeURIComponent(name));
  if (at < 0) throw new Error(`There is no example ${name}.`);
  by<HTMLSelectElement>("example").value = String(at);
  return EXAMPLES[at]?.text ?? null;
}

async function begin(): Promise<void> {
  wire();
  try {
    load((await held()) ?? EXAMPLES[0]?.text ?? "");
  } catch (error) {
    load(EXAMPLES[0]?.text ?? "");
    notice((error as Error).message);
  }
  addEventListener("hashchange", () => void held().then((text) => text !== null && load(text), (error: Error) => notice(error.message)));
  if (served) {
    by("view-live").hidden = false;
    view("live");
    const plan = (link: string, text: string) => {
      load(text);
      reload.begin(link, text);
      view("plan");
    };
    void new Live(by, { plan, tell: notice }).start().catch((error: Error) => notice(error.message));
  }
  const { schedulers } = await engine.ask<SchedulersDocument>({ do: "schedulers" });
  for (const [id, first] of [["scheduler", "of the file"], ["beside", "none"], ["plan-beside", "none"]] as const) {
    by<HTMLSelectElement>(id).append(new Option(first, ""), ...schedulers.map(({ name }) => new Option(name, name)));
  }
}

// For tests, and for whoever opens the console.
Object.assign(window, { fairlink: { text: (request: Request) => engine.text(request), load, link: () => editor.text, stop: () => engine.stop("the engine has stopped") } });

begin().catch((error: Error) => tell(error.message));
