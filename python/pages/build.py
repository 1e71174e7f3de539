"""Builds pages of the public items of the package from their docstrings, by pdoc.

python pages/build.py DIRECTORY

The package `fairlink` must be installed. Items of private modules are shown where the package exports them; a page that
would name a private module is an error.
"""

from __future__ import annotations

import functools
import re
import sys
import types
import warnings
from pathlib import Path
from typing import Any

from pdoc import doc, render
from pygments.formatters import HtmlFormatter

import fairlink

ATTRIBUTES = re.compile(r"\n*^Attributes:\n(?P<list>(?:[ \t]+.*\n?|\n)+)", re.MULTILINE)
ITEM = re.compile(r"^    (\w+): ", re.MULTILINE)
OTHERS = (
    "duckdb", "matplotlib", "matplotlib.axes", "matplotlib.figure", "pandas", "polars", "pyarrow", "pyarrow.dataset",
    "xarray",
)  # fmt: skip
DOT = r'(?:\.|</span><span class="o">\.</span><span class="n">)'
PRIVATE = re.compile(rf"\bfairlink({DOT})_\w+{DOT}")


def exported() -> dict[tuple[str, str], str]:
    """Returns the names under which the package exports classes, by module and name of their definition."""
    items = {name: getattr(fairlink, name) for name in fairlink.__all__}
    return {(one.__module__, one.__qualname__): name for name, one in items.items() if isinstance(one, type)}


EXPORTED = exported()


class Other(types.ModuleType):
    """A package that the pages name and that need not be installed. Its classes have the names of its manual."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


def attributes(text: str) -> tuple[str, dict[str, str]]:
    """Splits the docstring of a class: the text without the section of attributes, and the text of each attribute."""
    section = ATTRIBUTES.search(text)
    if section is None:
        return text, {}
    parts = ITEM.split(section["list"])[1:]
    texts = {name: " ".join(said.split()) for name, said in zip(parts[::2], parts[1::2], strict=True)}
    return (text[: section.start()] + "\n" + text[section.end() :]).strip(), texts


def shown(cls: Any) -> list[Any]:
    """Returns the members of a class, with those of private classes below it."""
    found = [
        member
        for origin, members in cls._members_by_origin.items()
        if origin == cls.taken_from or (origin[0].startswith("fairlink.") and origin not in EXPORTED)
        for member in members
    ]
    place = {name: place for place, name in enumerate(cls.members)}
    return sorted(found, key=lambda member: place[member.name])


def public_bases(cls: Any) -> list[tuple[str, str, str]]:
    """Returns the nearest base that has a public name: its module, its name, and the text to show."""
    for base in cls.obj.__mro__[1:-1]:
        name = EXPORTED.get((base.__module__, base.__qualname__))
        if name is not None or base.__module__ == "builtins":
            name = name or base.__name__
            return [("fairlink" if name in EXPORTED.values() else "builtins", name, name)]
    return []


def inherited(cls: Any) -> list[tuple[str, list[str]]]:
    """Returns the public classes below a class, each with the names of the members that come from it."""
    return [
        (EXPORTED[origin], [member.name for member in members if not member.name.startswith("_")])
        for origin, members in cls.inherited_members.items()
        if origin in EXPORTED and origin != cls.taken_from
    ]


def describe(module: Any) -> None:
    """Moves what the docstring of a class says of its attributes to them."""
    for member in module.members.values():
        if isinstance(member, doc.Class):
            text, texts = attributes(member.docstring)
            known = {name: said for name, said in texts.items() if name in member.members}
            if known == texts:
                member.docstring = text
                for name, said in known.items():
                    member.members[name].docstring = said


def build(out: Path) -> None:
    """Writes the pages."""
    for name in OTHERS:
        package, _, part = name.rpartition(".")
        sys.modules[name] = Other(name)
        if package:
            setattr(sys.modules[package], part, sys.modules[name])
    # Colours of code on a dark page.
    dark = HtmlFormatter(style="github-dark").get_style_defs(".pdoc-code")
    render.configure(
        docformat="google",
        show_source=False,
        footer_text=f"fairlink {fairlink.__version__}",
        template_directory=Path(__file__).parent,
    )
    doc.Class.own_members = property(shown)
    doc.Class.bases = property(public_bases)
    render.env.filters["inherited"] = inherited
    render.env.globals["dark_code"] = dark
    linkify = render.env.filters["linkify"]

    @functools.wraps(linkify)
    def public(context: Any, code: str, *arguments: Any, **options: Any) -> Any:
        return linkify(context, PRIVATE.sub(r"fairlink\1", str(code)), *arguments, **options)

    render.env.filters["linkify"] = public
    modules = {name: doc.Module.from_name(name) for name in ("fairlink", "fairlink.calculus", "fairlink.documents")}
    out.mkdir(parents=True, exist_ok=True)
    for name, module in modules.items():
        describe(module)
        text = render.html_module(module, modules)
        # Also in text that is marked up.
        if private := re.search(r"\bfairlink\._\w+", re.sub(r"<[^>]*>", "", text)):
            raise SystemExit(f"the page of {name} names a private module: {private[0]}")
        page = out / f"{name.replace('.', '/')}.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)
    (out / "index.html").write_text(render.html_index(modules))
    (out / "search.js").write_text(PRIVATE.sub(r"fairlink\1", render.search_index(modules)))


if __name__ == "__main__":
    warnings.simplefilter("error")
    # `array` takes a type since Python 3.12; before it is shown as it is written.
    warnings.filterwarnings("ignore", message=r".*array\[float\]")
    build(Path(sys.argv[1]))
