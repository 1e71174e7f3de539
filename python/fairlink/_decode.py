"""Documents as dataclasses. Keys that a document lacks, because they were not measured, become `None`."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")
_Reader = Callable[[Any], Any]


def decode(kind: type[T], value: dict[str, Any]) -> T:
    """Makes a dataclass of `fairlink.documents` from its part of a document."""
    arguments: dict[str, Any] = {}
    for name, key, reader in _fields(kind):
        if key in value:
            part = value[key]
            arguments[name] = part if reader is None or part is None else reader(part)
    return kind(**arguments)


_Field = tuple[str, str, "_Reader | None"]
_FIELDS: dict[Any, tuple[_Field, ...]] = {}


def _fields(kind: Any) -> tuple[_Field, ...]:
    found = _FIELDS.get(kind)
    if found is None:
        hints = typing.get_type_hints(kind)
        # Names that Python reserves have an underscore behind them.
        found = _FIELDS[kind] = tuple(
            (field.name, field.name.rstrip("_"), _reader(hints[field.name])) for field in dataclasses.fields(kind)
        )
    return found


def _reader(hint: Any) -> _Reader | None:
    """Returns the function that reads a value of this type; `None` if it stays as it is."""
    if dataclasses.is_dataclass(hint):
        return lambda value: decode(cast("type[Any]", hint), value)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        readers = [reader for reader in map(_reader, arguments) if reader is not None]
        return readers[0] if readers else None
    item = _reader(arguments[-1]) if origin in (list, dict) else None
    if item is None:
        return None
    return _each(item) if origin is list else _values(item)


def _each(item: _Reader) -> _Reader:
    return lambda value: [item(one) for one in value]


def _values(item: _Reader) -> _Reader:
    return lambda value: {key: item(one) for key, one in value.items()}
