"""The claims of the papers: listed, and tried."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TypeAlias

from . import _engine, documents
from ._decode import decode
from ._display import html_table
from ._progress import Progress, Shown
from ._results import Result
from ._tables import Row, Tabular
from .documents import ClaimReport

Ids: TypeAlias = str | Iterable[str]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper, not yet tried.

    Attributes:
        id: Its id, such as `hls.alpha`, for `reproduce`.
        paper: The key of its paper; `beyond` for results beyond the papers.
        place: Its place in the paper.
        about: The claim as a sentence.
        says: The value or the ordering that the paper gives, in words.
        sentence: The sentence of the paper that is judged. Empty beyond the papers: `about` is judged then.
        timed: True if times on this machine are measured: its numbers differ from run to run.
    """

    id: str
    paper: str
    place: str
    about: str
    says: str
    sentence: str
    timed: bool


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper with claims.

    Attributes:
        key: Its key, with which the ids of its claims begin.
        authors: Its authors.
        title: Its title.
    """

    key: str
    authors: str
    title: str


class Claims(Tabular):
    """Claims in the order of the papers. Make them by `claims`.

    Attributes:
        papers: The papers by their keys, also those without a claim here.
    """

    papers: dict[str, Paper]

    def __init__(self, found: list[Claim], papers: list[Paper]) -> None:
        self._by_id = {claim.id: claim for claim in found}
        self.papers = {paper.key: paper for paper in papers}

    @property
    def ids(self) -> list[str]:
        """Their ids."""
        return list(self._by_id)

    def __getitem__(self, id: str) -> Claim:
        """Returns a claim by its id."""
        return self._by_id[id]

    def __contains__(self, id: object) -> bool:
        return id in self._by_id

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables: `claims`."""
        return ("claims",)

    def table(self, name: str | None = None) -> list[Row]:
        """Returns a row for each claim."""
        self._chosen(name)
        return [{field.name: getattr(claim, field.name) for field in fields(claim)} for claim in self]

    def __repr__(self) -> str:
        return f"<Claims: {len(self)} of {', '.join(dict.fromkeys(claim.paper for claim in self))}>"

    def _repr_html_(self) -> str:
        return html_table([{key: row[key] for key in ("id", "place", "about", "says")} for row in self.table()])


class Reproduction(Result[documents.ReproduceDocument]):
    """Claims beside what was found of them: `fairlink-lab reproduce --json`."""

    _kind = documents.ReproduceDocument

    @property
    def claims(self) -> list[ClaimReport]:
        """The claims in the order of the papers. Numbers are in the `unit` of their claim or quantity."""
        return self.view.claims

    @property
    def disagreeing(self) -> list[str]:
        """Ids of the claims with the verdict `disagrees`; the command ends with status 1 if there are some."""
        return [claim.id for claim in self.claims if claim.verdict == "disagrees"]

    def __getitem__(self, id: str) -> ClaimReport:
        """Returns a claim by its id."""
        for claim in self.claims:
            if claim.id == id:
                return claim
        raise KeyError(id)

    def __contains__(self, id: object) -> bool:
        return any(claim.id == id for claim in self.claims)

    def __iter__(self) -> Iterator[ClaimReport]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables: `claims` (with the quantity that agrees least), `checks` (all quantities)."""
        return ("claims", "checks")

    def table(self, name: str | None = None) -> list[Row]:
        """Returns the rows of `claims` or `checks`. Their numbers are in the column `unit`."""
        if self._chosen(name) == "claims":
            return [{key: one for key, one in claim.items() if key != "checks"} for claim in self.document["claims"]]
        return [{"id": claim["id"], **check} for claim in self.document["claims"] for check in claim["checks"]]

    def _repr_html_(self) -> str:
        heads = ("id", "place", "about", "expected", "measured", "ci95", "unit", "verdict")
        return html_table([{head: row[head] for head in heads} for row in self.table()])


def _words(ids: Ids) -> list[str]:
    return [ids] if isinstance(ids, str) else list(ids)


def claims(ids: Ids = "all") -> Claims:
    """Lists claims of the papers, with their places and sentences, and tries none.

    Args:
        ids: An id such as `"hls.alpha"`, the key of a paper (`"hls"`, `"hfsc"`, `"htb"`, `"drrpp"`, `"sds"`, and
            `"beyond"` for results beyond them), `"all"`, or several of these.

    Raises:
        Refused: A word that names no claim and no paper, with the nearest names; no word.
    """
    found, papers = json.loads(_engine.claims_json(_words(ids)))
    return Claims([decode(Claim, one) for one in found], [decode(Paper, one) for one in papers])


def reproduce(
    ids: Ids, *, quick: bool = False, workers: int | None = None, progress: Progress = None
) -> Reproduction:
    """Tries claims of the papers with the schedulers of this package: `fairlink-lab reproduce --json`.

    The numbers are those of the command, except in claims that measure times (`Claim.timed`). Real packets and figures
    in files are the command's alone (`--real`, `--out`).

    Args:
        ids: What to try, as in `claims`. `"all"` takes a minute or two with `quick`, and more than an hour without.
        quick: Makes fewer and shorter runs; confidence intervals are wider.
        workers: Number of threads; that of the processors if it is not given. Results do not depend on it.
        progress: True for a bar (by tqdm), or a function that is called with the claims that are done and all.

    Raises:
        Refused: A word that names no claim and no paper, with the nearest names; no word.
        KeyboardInterrupt: After Ctrl-C, within 100 ms. The claims that were done are lost: try them one by one to keep
            them. A step that a thread computes then goes on for up to some seconds.
    """
    trial = _engine.Trial(_words(ids), quick=quick, workers=workers)
    shown = Shown(progress, 0, len(trial), unit="claims")
    try:
        ended = False
        while not ended:
            # Python looks for signals between two waits.
            done, ended = trial.wait()
            shown.at(done, last=ended)
        return Reproduction(trial.document())
    finally:
        trial.stop()
        shown.close()
