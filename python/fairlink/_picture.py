"""A figure of matplotlib that notebooks show, also before anything of `matplotlib.pyplot` was used."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

DOTS_PER_INCH = 100
"""Dots of an inch, as notebooks count them."""


class Picture(Figure):
    """A figure that draws itself in notebooks, with twice the dots for screens that have them."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=2 * DOTS_PER_INCH)
        width, height = (round(inches * DOTS_PER_INCH) for inches in self.get_size_inches())
        return drawn.getvalue(), {"width": width, "height": height}
