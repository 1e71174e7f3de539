"""Progress of a run: a bar, or a function that is called."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from ._tables import need

Progress: TypeAlias = bool | Callable[[float, float], object] | None

EVERY_S = 0.05
"""Shortest time between two calls."""


class Shown:
    """Calls a function, or moves a bar, at most 20 times a second and at the end."""

    def __init__(self, progress: Progress, start_s: float, end_s: float, unit: str = "s simulated") -> None:
        self._call: Callable[[float, float], object] | None = None
        self._bar: Any = None
        self._end_s = end_s
        self._last = time.monotonic()
        if callable(progress):
            self._call = progress
        elif progress:
            tqdm = need("tqdm.auto", "progress", "progress=True")
            form = "{l_bar}{bar}| {n:.3g}/{total:.3g} " + unit + " [{elapsed}<{remaining}]"
            self._bar = tqdm.tqdm(total=end_s, initial=start_s, bar_format=form)

    def at(self, now_s: float, last: bool = False) -> None:
        """Reports that everything before `now_s` has happened."""
        if self._call is None and self._bar is None:
            return
        clock = time.monotonic()
        if not last and clock - self._last < EVERY_S:
            return
        self._last = clock
        if self._call is not None:
            self._call(now_s, self._end_s)
        else:
            self._bar.update(now_s - self._bar.n)

    def close(self) -> None:
        """Ends the bar where it is."""
        if self._bar is not None:
            self._bar.close()
