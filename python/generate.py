"""Writes fairlink/documents.py from the JSON schemas that `fairlink` and `fairlink-lab`, beside it, print.

python generate.py FAIRLINK           prints it
python generate.py FAIRLINK --write   writes it
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

# Documents that the package returns, with the names of their classes.
ROOTS = {
    "check": "CheckDocument",
    "diff": "DiffDocument",
    "explain": "ExplainDocument",
    "fluid": "FluidDocument",
    "import": "ImportDocument",
    "keys": "KeysDocument",
    "reproduce": "ReproduceDocument",
    "schedulers": "SchedulersDocument",
    "sim": "SimDocument",
}
# Definitions with names that say nothing outside their file, by the key that holds them.
BY_KEY = {"changes": "Improvements", "helpful": "Improvement", "useless": "Improvement", "strategy": "Strategy"}
HEAD = '''"""Views of the documents of fairlink: a dataclass for each object of the JSON schema.

Made by python/generate.py from the schemas of documents of the commands; do not edit. Keys end in their units: `_bps` is bit/s of
accounted bytes, `_s` seconds, `_bytes` bytes. A value that a document lacks was not measured or computed; it is `None`
here, as one that is known to be none. `Result.document` keeps the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ._view import View
'''


class Generator:
    """Translates definitions as they are reached."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.definitions: dict[str, Any] = schema["$defs"]
        self.names: dict[str, str] = {}
        self.made: dict[str, str] = {}

    def name(self, reference: str, key: str) -> str:
        """Returns the class of a definition, which is made if it is new."""
        definition = reference.rsplit("/", 1)[1]
        if definition not in self.names:
            plain = re.sub(r"\d+$", "", definition)
            plain = plain.removesuffix("Doc") if plain.endswith("Doc") else plain
            name = BY_KEY.get(key, plain) if plain in ("Entry", "One") or plain != definition else plain
            # A definition with a number is one of the same name with other types: one class has both.
            self.names[definition] = name
            if name not in self.made:
                self.make(name, [self.definitions[d] for d in self.definitions if self.same(d, definition)])
        return self.names[definition]

    def same(self, one: str, other: str) -> bool:
        """True for definitions that differ by a number at the end and in the types of equal keys."""
        if one == other:
            return True
        if re.sub(r"\d+$", "", one) != re.sub(r"\d+$", "", other):
            return False
        keys = [set(self.definitions[d].get("properties", {})) for d in (one, other)]
        return bool(keys[0]) and keys[0] == keys[1]

    def make(self, name: str, forms: list[dict[str, Any]]) -> None:
        """Makes a class; that of a choice has the keys of all forms."""
        first = forms[0]
        text = clean(first.get("description", ""))
        choices = first.get("oneOf") or first.get("anyOf")
        if choices and all("const" in choice for choice in choices):
            text += "".join(
                f"\n\n- `{json.dumps(choice['const'])}`: {clean(choice.get('description', ''))}" for choice in choices
            )
            kind = f"Literal[{', '.join(json.dumps(choice['const']) for choice in choices)}]"
            self.made[name] = alias(name, kind, text)
            return
        if choices and not any("properties" in choice for choice in choices):
            self.made[name] = alias(name, " | ".join(dict.fromkeys(self.type(one, name) for one in choices)), text)
            return
        if choices:
            text += " One of: " + " ".join(clean(choice.get("description", "")) for choice in choices)
            forms = choices
        self.made[name] = ""  # Reserved: definitions may contain themselves.
        keys: dict[str, tuple[str, list[str]]] = {}
        for form in forms:
            # The schema has keys by name, and those that are always there also in the order of the documents.
            given: dict[str, Any] = form.get("properties", {})
            for key in dict.fromkeys([*form.get("required", []), *given]):
                value = given[key]
                form_of = "Its form." if choices and "const" in value else ""
                _, known = keys.setdefault(key, (clean(value.get("description", form_of)), []))
                known.extend(kind for kind in self.type(value, key).split(" | ") if kind not in known)
        needed = set.intersection(*(set(form.get("required", [])) for form in forms))
        lines = ["@dataclass(frozen=True, kw_only=True, repr=False)", f"class {name}(View):"]
        doc = textwrap.wrap(text or f"{name} of a document.", 112)
        described = [(python(key), said) for key, (said, _) in keys.items() if said]
        if described:
            doc += ["", "Attributes:"]
            for key, said in described:
                doc += textwrap.wrap(f"{key}: {said}", 108, initial_indent="    ", subsequent_indent="        ")
        lines.append(f'    """{doc[0]}' + ('"""' if len(doc) == 1 else ""))
        lines += [f"    {line}".rstrip() for line in doc[1:]] + (['    """'] if len(doc) > 1 else [])
        lines.append("")
        for key, (_, kinds) in keys.items():
            kind = " | ".join(kinds)
            if key not in needed:
                kind = kind if "None" in kinds else f"{kind} | None"
                kind += " = None"
            lines.append(f"    {python(key)}: {kind}")
        if not keys:
            lines.append("    pass")
        self.made[name] = "\n".join(lines) + "\n"

    def type(self, value: Any, key: str) -> str:
        """Returns the type of a value."""
        if value is True or value == {}:
            return "Any"
        if "$ref" in value:
            return self.name(value["$ref"], key)
        for choice in ("anyOf", "oneOf"):
            if choice in value:
                return " | ".join(dict.fromkeys(self.type(one, key) for one in value[choice]))
        if "const" in value:
            return f"Literal[{value['const']!r}]" if isinstance(value["const"], bool) else (
                f"Literal[{json.dumps(value['const'])}]"
            )
        kinds = value.get("type")
        parts = []
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if kind == "array":
                parts.append(f"list[{self.type(value.get('items', True), key)}]")
            elif kind == "object":
                parts.append(f"dict[str, {self.type(value.get('additionalProperties', True), key)}]")
            else:
                known = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
                parts.append(known.get(kind, "Any"))
        return " | ".join(parts)


def alias(name: str, kind: str, text: str) -> str:
    """Returns a name for a type, with its description."""
    paragraphs = (text or f"{name} of a document.").split("\n\n")
    wrapped = [textwrap.fill(part, 116, subsequent_indent="  " if part.startswith("- ") else "") for part in paragraphs]
    joined = "\n".join(wrapped) if len(wrapped) == 1 else wrapped[0] + "\n\n" + "\n".join(wrapped[1:])
    return f'{name} = {kind}\n"""{joined}"""\n'


def python(key: str) -> str:
    """Returns the name of a key in Python."""
    return f"{key}_" if keyword.iskeyword(key) else key


def clean(text: str) -> str:
    """Returns a description without the marks of Rust's documentation."""
    text = re.sub(r"\[`([^`]+)`\](\([^)]*\))?", r"`\1`", text).replace("\\[", "[").replace("\\]", "]")
    text = re.sub(r"`null`|\b[Nn]ull\b", "`None`", text)
    return " ".join(text.replace("\\", "\\\\").split())


def generate(program: str) -> str:
    """Returns the module that the schemas of `program` and of the laboratory beside it make."""
    aliases: list[str] = []
    classes: list[str] = []
    for name in (program, f"{program}-lab"):
        schema = json.loads(subprocess.run([name, "schema", "documents"], check=True, capture_output=True).stdout)
        generator = Generator(schema)
        for document in schema["anyOf"]:
            kind = document["properties"]["document"]["const"]
            reference = document["allOf"][0]["$ref"]
            if kind in ROOTS and not reference.endswith("RefusedDoc"):
                generator.names[reference.rsplit("/", 1)[1]] = ROOTS[kind]
                generator.make(ROOTS[kind], [generator.definitions[reference.rsplit("/", 1)[1]]])
        for text in generator.made.values():
            made = classes if text.startswith("@") else aliases
            # Both programs may have documents with the same part.
            if text not in made:
                made.append(text)
    return HEAD + "\n" + "".join(aliases) + "\n\n" + "\n\n".join(classes)


if __name__ == "__main__":
    made = generate(sys.argv[1])
    if "--write" in sys.argv:
        Path(__file__).with_name("fairlink").joinpath("documents.py").write_text(made)
    else:
        sys.stdout.write(made)
