// Edits of a link file as text, so that comments and order stay. A class is the lines from its `[[class]]` to the next table.

export interface Change {
  from: number;
  to: number;
  insert: string;
}

interface Line {
  from: number;
  text: string;
}

interface Block {
  head: Line;
  lines: Line[];
  /** Behind its last line that is not empty or a comment. */
  end: number;
}

function quoted(name: string): string {
  return JSON.stringify(name);
}

function linesOf(text: string): Line[] {
  const lines: Line[] = [];
  let from = 0;
  for (const line of text.split("\n")) {
    lines.push({ from, text: line });
    from += line.length + 1;
  }
  return lines;
}

/** The tables of this kind, such as `[[class]]` or `[link]`. */
function blocks(text: string, head: string): Block[] {
  const found: Block[] = [];
  let current: Block | undefined;
  for (const line of linesOf(text)) {
    const bare = line.text.trim();
    if (bare.startsWith("[")) {
      current = bare.replace(/\s*#.*$/, "") === head ? { head: line, lines: [], end: line.from + line.text.length } : undefined;
      if (current) found.push(current);
    } else if (current) {
      current.lines.push(line);
      if (bare !== "" && !bare.startsWith("#")) current.end = line.from + line.text.length;
    }
  }
  return found;
}

function value(block: Block, key: string): { line: Line; at: number; text: string } | undefined {
  for (const line of block.lines) {
    const match = new RegExp(`^(\\s*${key}\\s*=\\s*)("(?:[^"\\\\]|\\\\.)*"|'[^']*'|[^#\\s]+)`).exec(line.text);
    if (match) return { line, at: line.from + (match[1] ?? "").length, text: match[2] ?? "" };
  }
  return undefined;
}

function nameOf(block: Block, key = "name"): string | undefined {
  const text = value(block, key)?.text;
  if (text?.startsWith('"')) {
    try {
      return JSON.parse(text) as string;
    } catch {
      return undefined;
    }
  }
  return text?.replace(/^'|'$/g, "");
}

function classBlock(text: string, name: string): Block | undefined {
  return blocks(text, "[[class]]").find((block) => nameOf(block) === name);
}

/** Sets a key of a class, or of the link if `name` is null; removes it if `to` is null. Returns null if the class is not written as a table. */
export function setKey(text: string, name: string | null, key: string, to: string | null): Change | null {
  const block = name === null ? blocks(text, "[link]")[0] : classBlock(text, name);
  if (!block) return null;
  const found = value(block, key);
  if (found && to === null) return { from: found.line.from, to: Math.min(text.length, found.line.from + found.line.text.length + 1), insert: "" };
  if (found && to !== null) return { from: found.at, to: found.at + found.text.length, insert: to };
  if (to === null) return null;
  const behind = value(block, "name")?.line ?? block.head;
  const at = behind.from + behind.text.length;
  return { from: at, to: at, insert: `\n${key} = ${to}` };
}

/** Adds a class below `parent`; null is the link. */
export function addClass(text: string, name: string, parent: string | null, key: string, to: string): Change {
  const all = blocks(text, "[[class]]");
  const at = (parent !== null ? classBlock(text, parent) : all.at(-1))?.end ?? blocks(text, "[link]")[0]?.end ?? text.length;
  const below = parent === null ? "" : `\nparent = ${quoted(parent)}`;
  return { from: at, to: at, insert: `\n\n[[class]]\nname = ${quoted(name)}${below}\n${key} = ${to}` };
}

/** Removes classes and their sources. */
export function removeClasses(text: string, names: Set<string>): Change[] {
  const cut = (block: Block) => ({ from: block.head.from, to: Math.min(text.length, block.end + 1), insert: "" });
  const is = (name: string | undefined) => name !== undefined && names.has(name);
  const own = blocks(text, "[[class]]").filter((block) => is(nameOf(block)));
  return [...own, ...blocks(text, "[[source]]").filter((block) => is(nameOf(block, "class")))].map(cut);
}

/** Gives a class another name wherever it is used as one. */
export function renameClass(text: string, name: string, to: string): Change[] {
  const changes: Change[] = [];
  const put = (block: Block, key: string) => {
    const found = value(block, key);
    if (found && (found.text === quoted(name) || found.text === `'${name}'`)) {
      changes.push({ from: found.at, to: found.at + found.text.length, insert: quoted(to) });
    }
  };
  for (const block of blocks(text, "[[class]]")) {
    put(block, "name");
    put(block, "parent");
  }
  for (const block of blocks(text, "[[source]]")) put(block, "class");
  for (const block of blocks(text, "[link]")) put(block, "default");
  return changes;
}
