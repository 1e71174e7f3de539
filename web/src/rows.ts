// Classes as rows of a tree: only those in sight are in the document, so that ten thousand scroll as ten do.

export const ROW = 30;
/** Type of what is dragged. */
const CLASS = "application/x-fairlink-class";

/** A class: its name, that of the class above it, and whatever its cells show. */
export interface Item {
  name: string;
  parent: string | null;
}

interface Node<T> {
  report: T;
  depth: number;
  children: Node<T>[];
}

export interface RowEvents<T> {
  /** Cells behind the name. */
  cells(item: T): Element[];
  choose(name: string): void;
  /** A class was dragged onto another one, or onto the empty part: null. Rows cannot be dragged without it. */
  move?(name: string, below: string | null): void;
}

export class Rows<T extends Item> {
  private roots: Node<T>[] = [];
  private rows: Node<T>[] = [];
  private folded = new Set<string>();
  private search = "";
  chosen: string | null = null;
  /** True while a part of a row is dragged. */
  protected held = false;
  private readonly sheet = document.createElement("div");

  constructor(private readonly box: HTMLElement, private readonly events: RowEvents<T>) {
    this.box.append(this.sheet);
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("dragover", (event) => event.dataTransfer?.types.includes(CLASS) && event.preventDefault());
    this.box.addEventListener("drop", (event) => {
      const moved = event.dataTransfer?.getData(CLASS);
      if (!moved || !this.events.move) return;
      event.preventDefault();
      event.stopPropagation();
      this.events.move(moved, null);
    });
  }

  /** Shows these classes, parents before their children. */
  show(classes: T[]): void {
    const byName = new Map<string, Node<T>>();
    this.roots = [];
    for (const report of classes) {
      const parent = report.parent === null ? undefined : byName.get(report.parent);
      const node: Node<T> = { report, depth: parent ? parent.depth + 1 : 0, children: [] };
      byName.set(report.name, node);
      (parent ? parent.children : this.roots).push(node);
    }
    if (this.chosen !== null && !byName.has(this.chosen)) this.chosen = null;
    this.lay();
  }

  find(search: string): void {
    this.search = search.toLowerCase();
    this.lay();
  }

  private lay(): void {
    this.rows = [];
    const visit = (nodes: Node<T>[]) => {
      for (const node of nodes) {
        if (!this.search || node.report.name.toLowerCase().includes(this.search)) this.rows.push(node);
        if (this.search || !this.folded.has(node.report.name)) visit(node.children);
      }
    };
    visit(this.roots);
    this.sheet.style.height = `${this.rows.length * ROW}px`;
    this.box.style.height = `${Math.min(this.rows.length, 18) * ROW + 2}px`;
    this.draw();
  }

  /** Draws the rows in sight again. */
  draw(): void {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 2);
    const last = Math.min(this.rows.length, first + Math.ceil(this.box.clientHeight / ROW) + 4);
    // A select that is open would close if it were replaced.
    const active = document.activeElement;
    const held = active instanceof HTMLSelectElement && this.sheet.contains(active) ? active.dataset["name"] : undefined;
    this.sheet.replaceChildren(...this.rows.slice(first, last).map((node, at) => this.row(node, first + at)));
    if (held !== undefined) this.sheet.querySelector<HTMLElement>(`select[data-name=${CSS.escape(held)}]`)?.focus();
  }

  private row(node: Node<T>, at: number): HTMLElement {
    const { report, depth, children } = node;
    const row = document.createElement("div");
    row.className = "row";
    row.id = `row-${at}`;
    row.style.top = `${at * ROW}px`;
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", String(depth + 1));
    row.setAttribute("aria-selected", String(report.name === this.chosen));
    if (report.name === this.chosen) this.box.setAttribute("aria-activedescendant", row.id);
    if (children.length) row.setAttribute("aria-expanded", String(!this.folded.has(report.name)));
    row.addEventListener("click", () => this.choose(report.name));
    if (this.events.move) this.draggable(row, report.name);

    const name = document.createElement("span");
    name.style.paddingLeft = `${depth * 1.2}rem`;
    if (children.length) {
      const fold = document.createElement("button");
      fold.className = "fold";
      fold.tabIndex = -1;
      fold.textContent = this.folded.has(report.name) ? "▸" : "▾";
      fold.setAttribute("aria-label", this.folded.has(report.name) ? `Unfold ${report.name}` : `Fold ${report.name}`);
      fold.addEventListener("click", (event) => {
        event.stopPropagation();
        this.fold(report.name);
      });
      name.append(fold);
    }
    name.append(report.name);
    name.title = report.name;

    row.append(name, ...this.events.cells(report));
    return row;
  }

  private draggable(row: HTMLElement, name: string): void {
    row.draggable = true;
    row.addEventListener("dragstart", (event) => {
      // A bar that is dragged is not the row.
      if (this.held) event.preventDefault();
      else event.dataTransfer?.setData(CLASS, name);
    });
    row.addEventListener("dragover", (event) => event.dataTransfer?.types.includes(CLASS) && event.preventDefault());
    row.addEventListener("drop", (event) => {
      const moved = event.dataTransfer?.getData(CLASS);
      if (!moved) return;
      event.preventDefault();
      event.stopPropagation();
      if (moved !== name) this.events.move?.(moved, name);
    });
  }

  private choose(name: string): void {
    this.chosen = name;
    this.draw();
    this.events.choose(name);
  }

  private fold(name: string): void {
    if (!this.folded.delete(name)) this.folded.add(name);
    this.lay();
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.box) return;
    const at = this.rows.findIndex((node) => node.report.name === this.chosen);
    const node = this.rows[at];
    const go = (to: number) => {
      const target = this.rows[Math.max(0, Math.min(this.rows.length - 1, to))];
      if (!target) return;
      const top = this.rows.indexOf(target) * ROW;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      if (top + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW - this.box.clientHeight;
      this.choose(target.report.name);
    };
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 1);
    const steps: Record<string, () => void> = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at < 0 ? 0 : at - 1),
      Home: () => go(0),
      End: () => go(this.rows.length - 1),
      PageDown: () => go(at + page),
      PageUp: () => go(at - page),
      ArrowRight: () => node?.children.length && this.folded.has(node.report.name) && this.fold(node.report.name),
      ArrowLeft: () => node?.children.length && !this.folded.has(node.report.name) && this.fold(node.report.name),
      Enter: () => this.sheet.querySelector<HTMLElement>(`[aria-selected="true"] select`)?.focus(),
    };
    const step = steps[event.key];
    if (step) {
      event.preventDefault();
      step();
    }
  }
}
