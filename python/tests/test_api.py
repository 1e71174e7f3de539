"""Every public item has a docstring, and every number its unit."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlink
from fairlink import documents

NUMBER = re.compile(r"\b(int|float)\b")
UNIT_OF_NAME = re.compile(r"_(bps|s|bytes|packets|gbps|ns)_?$")
UNIT_OF_TEXT = re.compile(
    r"bit/s|[Ss]econds?\b|[Bb]ytes?\b|[Pp]ackets?\b|[Nn]umber of|[Cc]ounters? of|characters|\b(a|as a|The) part\b|%|[Ss]hare of"
    r"|unit\b|`unit`|[Ww]eights?\b"
)
# Numbers that have no unit.
PLAIN = {"seed", "line", "column"}


def classes() -> Iterator[type]:
    """All public classes."""
    for module in (fairlink, documents):
        names = module.__all__ if hasattr(module, "__all__") else [name for name in vars(module) if name[0] != "_"]
        for name in names:
            item = getattr(module, name)
            if isinstance(item, type) and item.__module__.startswith("fairlink"):
                yield item


def own(kind: type) -> Iterator[tuple[str, object]]:
    """The public members of a class that the package defines."""
    for base in kind.__mro__:
        if base.__module__.startswith("fairlink"):
            for name, member in vars(base).items():
                if not name.startswith("_"):
                    yield name, member


def source(module: str) -> ast.Module:
    return ast.parse(Path(inspect.getfile(__import__(module, fromlist=["_"]))).read_text())


def described(body: list[ast.stmt]) -> dict[str, str]:
    """Variables with the text that stands below them."""
    texts = {}
    for one, below in zip(body, [*body[1:], ast.Pass()], strict=True):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                said = below.value if isinstance(below, ast.Expr) else None
                texts[target.id] = str(said.value) if isinstance(said, ast.Constant) else ""
    return texts


def attributes(kind: type) -> dict[str, str]:
    """The attributes that a class declares, each with its text: below it, or in the class's docstring."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("fairlink.") or base.__module__ == "fairlink._engine":
            continue
        for node in source(base.__module__).body:
            if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                texts |= described(node.body)
        section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", inspect.getdoc(base) or "", re.MULTILINE)
        items = re.split(r"^    (\w+): ", section[1], flags=re.MULTILINE)[1:] if section else []
        texts |= {name: " ".join(text.split()) for name, text in zip(items[::2], items[1::2], strict=True)}
    return texts


def test_every_public_item_has_a_docstring() -> None:
    for name in fairlink.__all__:
        item = getattr(fairlink, name)
        if name != "__version__":
            assert inspect.getdoc(item), name
    for kind in classes():
        assert kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("), kind
        for name, member in own(kind):
            if callable(member) or isinstance(member, property | classmethod | staticmethod):
                assert inspect.getdoc(getattr(kind, name, member)), f"{kind.__name__}.{name}"
        for name, text in attributes(kind).items():
            assert text, f"{kind.__name__}.{name}"
    for name, text in described(source("fairlink.documents").body).items():
        assert text, f"documents.{name}"


def test_every_number_of_a_document_has_a_unit() -> None:
    seen = 0
    for kind in classes():
        if not dataclasses.is_dataclass(kind):
            continue
        texts = attributes(kind)
        for field in dataclasses.fields(kind):
            if NUMBER.search(str(field.type)):
                seen += 1
                named = UNIT_OF_NAME.search(field.name) or field.name in PLAIN
                assert named or UNIT_OF_TEXT.search(texts[field.name]), f"{kind.__name__}.{field.name}: {texts[field.name]}"
    assert seen > 150


def functions() -> Iterator[tuple[str, typing.Any]]:
    """All public functions and methods."""
    for name in fairlink.__all__:
        item = getattr(fairlink, name)
        if inspect.isfunction(item):
            yield name, item
        elif isinstance(item, type):
            for part, member in own(item):
                function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if inspect.isfunction(function):
                    yield f"{name}.{part}", function
            init = vars(item).get("__init__")
            if inspect.isfunction(init) and init.__doc__:
                yield f"{name}.__init__", init


@pytest.mark.parametrize("name", [name for name, _ in functions()])
def test_every_number_that_a_function_takes_has_a_unit(name: str) -> None:
    function = dict(functions())[name]
    text = inspect.getdoc(function) or ""
    if "See `" in text or "as in `" in text or "; see `" in text or "are those of" in text:
        return
    lines = re.split(r"^    (\w+): ", text.partition("Args:")[2], flags=re.MULTILINE)[1:]
    said = dict(zip(lines[::2], lines[1::2], strict=True))
    for parameter in inspect.signature(function).parameters.values():
        if re.search(r"\b(int|float|Rate|Size|Time|Demands)\b", str(parameter.annotation)):
            told = said.get(parameter.name, text if f"`{parameter.name}`" in text else "")
            known = UNIT_OF_TEXT.search(told) or parameter.name in PLAIN
            assert known, f"{name}({parameter.name}: {parameter.annotation}): {told!r}"
