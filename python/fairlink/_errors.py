"""Errors of the package."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ._decode import decode
from .documents import ProblemReport


def problems_of(text: str) -> tuple[ProblemReport, ...]:
    """Reads a list of problems from JSON."""
    return tuple(decode(ProblemReport, problem) for problem in json.loads(text))


class Refused(ValueError):
    """A text or an argument was refused, and nothing was computed.

    The message has a line for each problem, as the command prints them: place, value, limit and remedy.

    Attributes:
        problems: The problems, each with `code`, `file`, `line`, `column`, `message` and `help`.
    """

    problems: tuple[ProblemReport, ...]

    def __init__(self, message: str, problems: str | Iterable[ProblemReport] = ()) -> None:
        super().__init__(message)
        self.problems = problems_of(problems) if isinstance(problems, str) else tuple(problems)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.problems)


class Incomplete(RuntimeError):
    """A campaign is not complete; the message says how much of it is there, and how to go on."""


class MissingExtra(ImportError):
    """A package that is not installed is needed; the message says how to install it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed; "
            f"install it with: pip install 'fairlink[{extra}]'",
            name=package,
        )
        self._made_of = (package, extra, purpose)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of
