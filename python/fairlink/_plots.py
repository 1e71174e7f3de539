"""Pictures by matplotlib, in the look of those of the command: its colours, grey axes, units in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._display import rate
from ._tables import Row, need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#00795a", "#cc79a7", "#8b3d00", "#56b4e9", "#000000")
"""Colours of curves, which people who are colour-blind can tell apart; as `crates/figures/src` has them."""
DASHES = ((), (9, 4), (14, 3, 3, 3), (5, 3), (18, 5), (8, 3, 3, 3, 3, 3))
"""Dashes of curves in points; neighbours differ."""
MARKERS = ("o", "s", "^", "D", "x", "+", "v")
GREY = "#8c8c8c"
TEXT = "#222222"
ROOM = "#dbe9f4"

MOST_CURVES = 28
"""Most curves of a picture: more cannot be told apart."""


def plot_style() -> dict[str, Any]:
    """Returns the look of `plot()` as settings of matplotlib, for pictures of your own.

    ```python
    import matplotlib.pyplot as plt

    plt.rcParams.update(fairlink.plot_style())
    ```
    """
    return {
        "axes.edgecolor": GREY,
        "axes.labelcolor": TEXT,
        "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": TEXT,
        "figure.constrained_layout.use": True,
        "figure.figsize": (8.0, 4.5),
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "text.color": TEXT,
        "xtick.color": TEXT,
        "ytick.color": TEXT,
    }


def _figure(height: float) -> tuple[Figure, Axes]:
    need("matplotlib.figure", "plot", "plot()")
    matplotlib = need("matplotlib", "plot", "plot()")
    from ._picture import Picture

    with matplotlib.rc_context(plot_style()):
        figure = Picture(figsize=(8.0, height))
        axes: Axes = figure.subplots()
    return figure, axes


def _unit(values: Sequence[float]) -> tuple[float, str]:
    """Returns the unit in which the largest rate is between 1 and 1000."""
    largest = max(values, default=0.0)
    for factor, name in ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if largest >= factor:
            return factor, name
    return 1.0, "bit/s"


def shares(link: dict[str, Any]) -> Figure:
    """Draws a bar for each class: its rate, up to its ceiling or the link's rate, with a mark at its guarantee."""
    rows: list[dict[str, Any]] = link.get("classes", [])
    capacity = float(link.get("capacity_bps") or 0)
    factor, unit = _unit([capacity])
    figure, axes = _figure(1.0 + 0.32 * max(1, len(rows)))
    depths: dict[str, int] = {}
    names = []
    for place, row in enumerate(rows):
        depths[row["name"]] = depth = depths.get(row.get("parent") or "", -1) + 1
        names.append("    " * depth + row["name"])
        terms, ideal = row.get("terms", {}), row.get("ideal", {})
        room = terms.get("ceiling_bps") or ideal.get("request_bps") or capacity
        value = ideal.get("allocation_bps", terms.get("share_all_busy_bps"))
        axes.barh(place, min(float(room), capacity) / factor, color=ROOM, height=0.7)
        if value is not None:
            axes.barh(place, float(value) / factor, color=COLOURS[0], height=0.7)
        if terms.get("guarantee_bps"):
            mark = terms["guarantee_bps"] / factor
            axes.plot([mark, mark], [place - 0.4, place + 0.4], color=COLOURS[1], linewidth=2.5)
    axes.set_yticks(range(len(names)), names)
    for label in axes.get_yticklabels():
        label.set_horizontalalignment("left")
    axes.tick_params(axis="y", length=0, pad=8 + 6 * max((len(name) for name in names), default=0))
    axes.invert_yaxis()
    axes.set_xlim(0, capacity / factor if capacity else None)
    guaranteed = any(row.get("terms", {}).get("guarantee_bps") for row in rows)
    axes.set_xlabel(f"rate in {unit}" + ("; orange: guarantee" if guaranteed else ""))
    axes.set_title(f"{rate(capacity)} shared by {link.get('scheduler', '')}", color=TEXT)
    return figure


def _legend(figure: Figure, axes: Axes) -> None:
    """Puts the legend above the curves, where it hides none of them."""
    handles, names = axes.get_legend_handles_labels()
    longest = max((len(name) for name in names), default=1)
    columns = max(1, min(len(names), 84 // (longest + 7)))
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.21 * ((len(names) - 1) // columns))
    figure.legend(handles, names, loc="outside upper center", ncols=columns, frameon=False, labelcolor=TEXT)


def over_time(rows: list[Row]) -> Figure:
    """Draws the rates of the leaves against time, window by window."""
    names = list(dict.fromkeys(row["class"] for row in rows))
    if len(names) > MOST_CURVES:
        raise ValueError(
            f"plot: {len(names)} classes; the limit is {MOST_CURVES}; draw some of table(\"windows\") yourself"
        )
    factor, unit = _unit([row["rate_bps"] for row in rows if row.get("rate_bps") is not None])
    figure, axes = _figure(4.5)
    for place, name in enumerate(names):
        own = [row for row in rows if row["class"] == name and row.get("rate_bps") is not None]
        times = [row["start_s"] for row in own] + [row["end_s"] for row in own[-1:]]
        rates = [row["rate_bps"] / factor for row in own]
        # The first of curves that coincide is the widest.
        width = 1.6 + 0.8 * min(len(names) - place - 1, 3)
        dash = [length / width for length in DASHES[place % len(DASHES)]]
        axes.step(
            times,
            rates + rates[-1:],
            where="post",
            label=name,
            color=COLOURS[place % len(COLOURS)],
            linestyle=(0, dash) if dash else "-",
            linewidth=width,
            marker=MARKERS[(place + 3 * (place // len(COLOURS))) % len(MARKERS)],
            markersize=6,
            markevery=(place * len(times) // (8 * len(names)), max(1, len(times) // 8)),
        )
    axes.set_xlabel("time in s")
    axes.set_ylabel(f"rate in {unit}")
    axes.set_ylim(bottom=0)
    _legend(figure, axes)
    return figure


def phases(rows: list[Row]) -> Figure:
    """Draws the rate of each class in each phase as a bar, with a black mark at its ideal."""
    starts = sorted({row["start_s"] for row in rows})
    names = list(dict.fromkeys(row["class"] for row in rows))
    if len(names) > MOST_CURVES:
        raise ValueError(
            f"plot: {len(names)} classes; the limit is {MOST_CURVES}; draw some of table(\"phases\") yourself"
        )
    factor, unit = _unit([row["rate_bps"] for row in rows if row.get("rate_bps") is not None])
    figure, axes = _figure(4.5)
    width = 0.8 / max(1, len(names))
    for place, name in enumerate(names):
        own = {row["start_s"]: row for row in rows if row["class"] == name}
        at = [starts.index(start) + (place + 0.5) * width - 0.4 for start in own]
        rates = [(row.get("settled_bps") or row.get("rate_bps") or 0.0) / factor for row in own.values()]
        axes.bar(at, rates, width=0.9 * width, color=COLOURS[place % len(COLOURS)], label=name)
        for x, row in zip(at, own.values(), strict=True):
            if row.get("ideal_bps") is not None:
                ideal = row["ideal_bps"] / factor
                axes.plot([x - width / 2, x + width / 2], [ideal, ideal], color="#000000", linewidth=2.0)
    ends = {row["start_s"]: row["end_s"] for row in rows}
    axes.set_xticks(range(len(starts)), [f"{start:g} .. {ends[start]:g} s" for start in starts])
    axes.set_ylabel(f"rate in {unit}; black: ideal")
    _legend(figure, axes)
    return figure
