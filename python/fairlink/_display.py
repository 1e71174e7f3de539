"""HTML for notebooks: trees and tables. It needs no style sheet and no script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from . import _engine
from .documents import ProblemReport

MAX_ROWS = 200
"""Most rows of a table in a notebook; the tables have all."""

_SHARE = "#0072b2"
_ROOM = "#dbe9f4"


def rate(bps: float | None) -> str:
    """A rate in bit/s as the command prints it; a dash if it is unknown."""
    return "-" if bps is None else _engine.show_rate(bps)


def time(seconds: float | None) -> str:
    """A time in seconds as the command prints it; a dash if it is unknown."""
    return "-" if seconds is None else _engine.show_time(seconds)


def _share_of(row: dict[str, Any]) -> float | None:
    """The rate of a class that its bar shows."""
    for part, key in (("rates", "rate_bps"), ("ideal", "allocation_bps"), ("terms", "share_all_busy_bps")):
        value = row.get(part, {}).get(key)
        if value is not None:
            return float(value)
    return None


def class_table(link: dict[str, Any], problems: Iterable[ProblemReport]) -> str:
    """Returns the classes of a link as a tree with bars, and what is known of each."""
    capacity = float(link.get("capacity_bps") or 0)
    rows: list[dict[str, Any]] = link.get("classes", [])
    known: dict[str, Callable[[dict[str, Any]], str]] = {
        "guarantee": lambda row: rate(row["terms"].get("guarantee_bps")),
        "ceiling": lambda row: rate(row["terms"].get("ceiling_bps")),
        "rate": lambda row: rate(_share_of(row)),
        "delay bound": lambda row: time(row["bounds"].get("delay_bound_s")),
        "mean delay": lambda row: time(row["delay_s"].get("mean")),
        "99 %": lambda row: time(row["delay_s"].get("p99")),
        "dropped": lambda row: f"{row['counts']['dropped']['packets']} packets",
        "limited by": lambda row: row["ideal"].get("limited_by") or "-",
    }
    parts = {
        "guarantee": "terms", "ceiling": "terms", "rate": "", "delay bound": "bounds", "mean delay": "delay_s",
        "99 %": "delay_s", "dropped": "counts", "limited by": "ideal",
    }  # fmt: skip
    heads = [head for head, part in parts.items() if not part or any(part in row for row in rows)]
    depths: dict[str, int] = {}
    lines = []
    for row in rows[:MAX_ROWS]:
        depths[row["name"]] = depth = depths.get(row.get("parent") or "", -1) + 1
        share = _share_of(row)
        width = 0.0 if share is None or not capacity else min(100.0, 100.0 * share / capacity)
        cells = [
            f'<td style="text-align:left;padding-left:{depth + 0.5:g}em">{escape(row["name"])}</td>',
            f'<td style="min-width:8em"><div style="background:{_ROOM}"><div style="background:{_SHARE};'
            f'height:0.8em;width:{width:.1f}%"></div></div></td>',
        ]
        for head in heads:
            there = not parts[head] or parts[head] in row
            cells.append(f"<td>{escape(known[head](row)) if there else '-'}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    more = len(rows) - MAX_ROWS
    caption = f"{rate(capacity)} shared by {escape(str(link.get('scheduler', '')))}"
    if more > 0:
        caption += f"; {more} more classes"
    head = "".join(f"<th>{escape(text)}</th>" for text in ["class", "of the link", *heads])
    told = [*(str(note) for note in link.get("notes", [])), *(problem.message for problem in problems)]
    table = f"<table><caption>{caption}</caption><tr>{head}</tr>{''.join(lines)}</table>"
    return table + "".join(f"<p>{escape(text)}</p>" for text in told)


def html_table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns rows as a table, without columns that no row has a value for."""
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name, value in row.items() if value is not None))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = "".join(
        "<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>" for row in rows[:MAX_ROWS]
    )
    more = f"<p>{len(rows) - MAX_ROWS} more rows</p>" if len(rows) > MAX_ROWS else ""
    return f"<table><tr>{head}</tr>{lines}</table>{more}"


def _cell(value: object) -> str:
    return "" if value is None else escape(f"{value:g}" if isinstance(value, float) else str(value))


def notes_html(text: str) -> str:
    """Returns text with its lines and columns."""
    return f'<pre style="font-family:monospace;white-space:pre;overflow-x:auto">{escape(text)}</pre>'
