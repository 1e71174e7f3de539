"""The base of all views of documents."""

from __future__ import annotations

import dataclasses
from typing import Any


class View:
    """An object of a document. Its text has the values that are known."""

    def __repr__(self) -> str:
        fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(self)  # type: ignore[arg-type]
        known = ((field.name, getattr(self, field.name)) for field in fields)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in known if value is not None)})"
