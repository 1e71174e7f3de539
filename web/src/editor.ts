// The link file as text, with problems at their places.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Change } from "./text";
import type { Problem } from "./types";

const colors = HighlightStyle.define([
  { tag: tags.comment, color: "light-dark(#57606a, #9aa4ae)" },
  { tag: tags.string, color: "light-dark(#0b6e4f, #7fd1ae)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "light-dark(#8a3b00, #f0b27a)" },
  { tag: [tags.heading, tags.propertyName, tags.bracket], color: "light-dark(#005a9c, #8ec9ff)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--front)", backgroundColor: "var(--back)", height: "var(--editor)", fontSize: "13px" },
  ".cm-gutters": { color: "var(--soft)", backgroundColor: "var(--back)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--chosen) 40%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--front)" },
  ".cm-tooltip": { color: "var(--front)", backgroundColor: "var(--back)", border: "1px solid var(--line)" },
});

export class Editor {
  private readonly view: EditorView;

  constructor(place: HTMLElement, changed: () => void) {
    // In a shadow tree the editor's styles are sheets of objects, which the page's policy allows, and not elements, which it forbids.
    const root = place.attachShadow({ mode: "open" });
    this.view = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        extensions: [
          lineNumbers(),
          history(),
          highlightActiveLine(),
          lintGutter(),
          StreamLanguage.define(toml),
          syntaxHighlighting(colors),
          look,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "Link file" }),
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.updateListener.of((update) => update.docChanged && changed()),
        ],
      }),
    });
    // Long lines and files can be scrolled by keys without changing them.
    this.view.scrollDOM.tabIndex = 0;
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  change(changes: Change | Change[]): void {
    this.view.dispatch({ changes });
  }

  show(problems: Problem[]): void {
    const doc = this.view.state.doc;
    const diagnostics = problems.map((problem) => {
      const line = problem.line ? doc.line(Math.min(problem.line, doc.lines)) : doc.line(1);
      // Columns count characters; positions count units of UTF-16.
      const units = (characters: number) => [...line.text].slice(0, characters).join("").length;
      const from = line.from + units((problem.column ?? 1) - 1);
      const to = problem.column ? line.from + units(problem.column - 1 + (problem.length ?? 0)) : line.to;
      const message = problem.help ? `${problem.message}\n${problem.help}` : problem.message;
      return { from: Math.min(from, doc.length), to: Math.max(from, Math.min(to, doc.length)), severity: problem.severity, message };
    });
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }
}
