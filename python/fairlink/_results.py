"""Results: documents of the one schema, which the command prints with `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from . import documents
from ._decode import decode
from ._display import class_table, html_table, notes_html
from ._tables import Row, Tabular, flat
from .documents import ClassReport, LinkReport, ProblemReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ._trace import Trace

V = TypeVar("V")
S = TypeVar("S", "documents.CheckDocument", "documents.FluidDocument")


class Result(Tabular, Generic[V]):
    """A document, as a dictionary, as dataclasses and as tables.

    Attributes:
        json: The text that the command prints with `--json`.
    """

    _kind: ClassVar[type[Any]]
    json: str

    def __init__(self, text: str) -> None:
        self.json = text

    @cached_property
    def document(self) -> dict[str, Any]:
        """The document. A key that is absent was not measured or computed; one that is `None` is known to be none."""
        document: dict[str, Any] = json.loads(self.json)
        return document

    @cached_property
    def view(self) -> V:
        """The document as dataclasses of `fairlink.documents`, whose docstrings have the units."""
        view: V = decode(self._kind, self.document)
        return view

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Result) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __reduce__(self) -> tuple[Any, ...]:
        # The packets of a simulation stay where they are: they may be larger than all else together.
        return type(self), (self.json,)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(self.table(name))} rows" for name in self.tables)
        return f"<{type(self).__name__} {sizes}>"


class _OfLink(Result[V]):
    """A result about the classes of one link."""

    @property
    def link(self) -> LinkReport:
        """The link."""
        raise NotImplementedError

    @property
    def classes(self) -> list[ClassReport]:
        """The classes in the order of the file."""
        return self.link.classes or []

    @cached_property
    def _by_name(self) -> dict[str, ClassReport]:
        return {row.name: row for row in self.classes}

    def __getitem__(self, name: str) -> ClassReport:
        """Returns a class by its name."""
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[ClassReport]:
        return iter(self.classes)

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def tables(self) -> tuple[str, ...]:
        return ("classes",)

    def table(self, name: str | None = None) -> list[Row]:
        self._chosen(name)
        return [class_row(row) for row in self.document["link"].get("classes", [])]


def class_row(row: dict[str, Any]) -> Row:
    """Returns a class of a document as a row."""
    return {"class": row["name"], **{key: value for key, value in flat(row).items() if key != "name"}}


def _metrics_row(row: dict[str, Any]) -> Row:
    """Returns the metrics of a class as a row; the unit comes last."""
    found: Row = {"class": row["name"]}
    for key, value in row.items():
        if key in ("burst_rate_bps", "conforms"):
            found[key] = value
        elif key != "name":
            stem, unit = key.rsplit("_", 1)
            for part in ("measured", "bound", "margin"):
                found[f"{stem}_{part}_{unit}"] = None if value is None else value[part]
    return found


class _Shares(_OfLink[S]):
    """A link with its classes, their shares or rates, and warnings."""

    @property
    def link(self) -> LinkReport:
        """The link; `link.notes` gives the reasons for absent numbers."""
        return self.view.link

    @property
    def problems(self) -> list[ProblemReport]:
        """Warnings."""
        return self.view.problems

    def plot(self) -> Figure:
        """Draws the classes: shares while all are busy, guarantees and ceilings, or rates beside requests."""
        from ._plots import shares

        return shares(self.document["link"])

    def _repr_html_(self) -> str:
        return class_table(self.document["link"], self.view.problems)


class Check(_Shares["documents.CheckDocument"]):
    """Bounds that a scheduler promises: `fairlink check --json`."""

    _kind = documents.CheckDocument


class Fluid(_Shares["documents.FluidDocument"]):
    """Rates in the long run for a demand: `fairlink fluid --json`."""

    _kind = documents.FluidDocument

    @property
    def rule(self) -> str:
        """The rule: a scheduler, or `max-min fairness`."""
        return self.view.rule


class Explanation(Result["documents.ExplainDocument"]):
    """Why a class has its rate, and what would give it more: `fairlink explain --json`."""

    _kind = documents.ExplainDocument

    @property
    def text(self) -> str:
        """All of it in words; the notes if the rule of the scheduler gives no rates."""
        return self.view.text if self.view.text is not None else "\n".join(self.view.notes)

    @property
    def tables(self) -> tuple[str, ...]:
        return ("steps",)

    def table(self, name: str | None = None) -> list[Row]:
        self._chosen(name)
        return [class_row(step) for step in self.document.get("steps", [])]

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return notes_html(self.text)


class Diff(Result["documents.DiffDocument"]):
    """Differences of two links, and their effects on classes: `fairlink diff --json`."""

    _kind = documents.DiffDocument

    @property
    def same(self) -> bool:
        """True if there is no difference."""
        return self.view.same

    @property
    def tables(self) -> tuple[str, ...]:
        return ("classes", "keys")

    def table(self, name: str | None = None) -> list[Row]:
        rows: list[Row] = []
        keys = self._chosen(name) == "keys"
        for link in self.document["links"]:
            of_link = {"link": link.get("name")}
            if keys:
                rows += [{**of_link, "class": None, **key} for key in link.get("keys", [])]
            for one in link.get("classes", []):
                row = {**of_link, "class": one["name"]}
                if keys:
                    rows += [{**row, **key} for key in one.get("keys", [])]
                else:
                    row["change"] = one["change"]
                    for quantity in ("share_all_busy_bps", "delay_bound_s", "most_bps"):
                        for side in ("old", "new"):
                            row[f"{side}_{quantity}"] = one.get(quantity, {}).get(side)
                    rows.append(row)
        return rows

    def _repr_html_(self) -> str:
        return "<p>No difference.</p>" if self.same else html_table(self.table()) + html_table(self.table("keys"))


class Sim(_OfLink["documents.SimDocument"]):
    """Measurements of a simulation: `fairlink sim --json`.

    Attributes:
        traces: The packets of each link by its name, if they were recorded; those of the first are `trace`.
    """

    _kind = documents.SimDocument
    traces: dict[str, Trace]

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.traces = {}

    @property
    def trace(self) -> Trace:
        """The packets of the link."""
        if not self.traces:
            raise ValueError("trace: no packets were recorded; simulate with trace=True")
        return next(iter(self.traces.values()))

    @property
    def runs(self) -> list[documents.RunDocument]:
        """The runs."""
        return self.view.runs

    @property
    def link(self) -> LinkReport:
        """The link of the first run."""
        return self.view.runs[0].link

    @property
    def expectations(self) -> list[documents.Judged]:
        """The expectations of the scenario, judged."""
        return self.view.expectations or []

    @property
    def met(self) -> bool:
        """True if all expectations of the scenario are met."""
        return all(expectation.met for expectation in self.expectations)

    @property
    def tables(self) -> tuple[str, ...]:
        return ("classes", "phases", "windows", "metrics")

    def table(self, name: str | None = None) -> list[Row]:
        """Returns the rows of `classes` (whole runs), `phases` or `windows` (parts of the time), or `metrics`.

        A row of `metrics` has what was measured of each promise to a class, its bound and the margin between them, such
        as `fairness_measured_bytes`, `fairness_bound_bytes` and `fairness_margin_bytes`.
        """
        chosen = self._chosen(name)
        rows: list[Row] = []
        for run in self.document["runs"]:
            link = run["link"]
            of_run = {"scheduler": link.get("scheduler"), "seed": run["seed"]}
            if chosen == "classes":
                rows += [{**of_run, **class_row(one)} for one in link.get("classes", [])]
                continue
            if chosen == "metrics":
                rows += [{**of_run, **_metrics_row(one)} for one in run.get("metrics") or []]
                continue
            for span in link.get("spans", []):
                if f"{span['kind']}s" == chosen:
                    times = {**of_run, "start_s": span["start_s"], "end_s": span["end_s"]}
                    rows += [{**times, **class_row(one)} for one in span.get("classes", [])]
        return rows

    def plot(self) -> Figure:
        """Draws rates of the leaves against time, if windows were recorded; else beside the ideal, phase by phase."""
        from ._plots import over_time, phases

        leaves = {row["class"] for row in self.table() if row["leaf"]}
        windows, whole = (
            [row for row in self.table(name) if row["class"] in leaves] for name in ("windows", "phases")
        )
        return over_time(windows) if windows else phases(whole)

    def _repr_html_(self) -> str:
        return "".join(class_table(run["link"], []) for run in self.document["runs"])


class Schedulers(Result["documents.SchedulersDocument"]):
    """Schedulers with some features: `fairlink schedulers --json`."""

    _kind = documents.SchedulersDocument

    @property
    def names(self) -> list[str]:
        """Their names, the best choice first; without needs in the order of the registry."""
        return [one.name for one in self.view.schedulers]

    @property
    def nearest(self) -> list[documents.Nearest]:
        """If none has all features: those that lack fewest."""
        return self.view.nearest or []

    def __iter__(self) -> Iterator[documents.SchedulerReport]:
        return iter(self.view.schedulers)

    def __len__(self) -> int:
        return len(self.view.schedulers)

    @property
    def tables(self) -> tuple[str, ...]:
        return ("schedulers",)

    def table(self, name: str | None = None) -> list[Row]:
        self._chosen(name)
        joined = ("features", "bounds")
        return [{**one, **{key: ", ".join(one[key]) for key in joined}} for one in self.document["schedulers"]]

    def _repr_html_(self) -> str:
        return html_table(self.table())
