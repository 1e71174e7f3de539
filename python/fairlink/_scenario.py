"""Scenarios and their simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from . import _engine, _toml
from ._errors import problems_of
from ._link import Link, Time, Tree
from ._progress import Progress, Shown
from ._results import Sim
from ._sources import Path, Sourced, text_or_file
from ._trace import Trace
from .documents import ProblemReport

Sources: TypeAlias = "Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]"
"""Traffic by class: the keys of a `[[source]]`, or those of several, as link files have them (docs/link-files.md).
Numbers are in bit/s, bytes, seconds and packets."""


class Scenario(Sourced):
    """A link, its sources and the length of a run.

    Make one by `from_file`, `from_toml` or `from_link`; it is read by each run.
    """

    def __init__(self) -> None:
        raise TypeError("make a scenario by Scenario.from_file, Scenario.from_toml or Scenario.from_link")

    @classmethod
    def _read(cls, source: _engine.Source, made_of: tuple[str, tuple[Any, ...]]) -> Scenario:
        scenario = cls.__new__(cls)
        scenario._source, scenario._made_of = source, made_of
        return scenario

    @classmethod
    def from_link(
        cls,
        link: Link | Tree,
        sources: Sources,
        *,
        duration: Time,
        warmup: Time | None = None,
        seed: int | None = None,
        name: str = "scenario.toml",
    ) -> Scenario:
        """Makes a scenario of a link, also of one that was imported, and of traffic.

        ```python
        Scenario.from_link(
            tree,
            {
                "voice": {"model": "cbr", "packets_per_second": 50, "packet": 200},
                "web": {"model": "greedy", "packet": "1500B", "active": ["0s..5s"]},
            },
            duration=10,
        )
        ```

        Args:
            link: The link. It must not have sources.
            sources: The traffic of its leaves.
            duration: Length of the run in seconds, or a text such as `"10s"`.
            warmup: Time at the start that averages exclude, in seconds.
            seed: The seed of all random numbers; 1 if it is not given.
            name: Name of the text in messages.

        Raises:
            TypeError: A value that has no meaning in a scenario.
            Refused: What is wrong with the text, when it is simulated.
        """
        if not isinstance(link, Link | Tree):
            raise TypeError(f"link: a Link or a Tree is needed, not {type(link).__name__}")
        given = {"duration": duration, "warmup": warmup, "seed": seed}
        head = [
            f"{key} = {_toml.value(key, value, '' if key == 'seed' else 'time')}"
            for key, value in given.items()
            if value is not None
        ]
        body = [link.to_toml() if isinstance(link, Tree) else link.to_toml(expanded=True)]
        for leaf, some in sources.items():
            for source in [some] if isinstance(some, Mapping) else some:
                if not isinstance(source, Mapping):
                    raise TypeError(f"sources[{leaf!r}]: a dict of keys is needed, not {type(source).__name__}")
                lines = (
                    f"{key} = {_toml.value(key, value, _toml.SOURCE.get(key, ''))}" for key, value in source.items()
                )
                body.append("\n".join(["[[source]]", f"class = {_toml.value('class', leaf, '')}", *lines]) + "\n")
        return cls.from_toml("\n".join([*head, "", *body]), name)

    @classmethod
    def of(cls, scenario: Scenario | Path) -> Scenario:
        """Returns a scenario as it is, or reads it from a text (a `str` with a line break) or a file."""
        if isinstance(scenario, Scenario):
            return scenario
        if isinstance(scenario, str) and "\n" in scenario:
            return cls.from_toml(scenario, "scenario.toml")
        return cls.from_file(scenario)

    @property
    def link(self) -> Link:
        """The link alone, for `check`, `fluid` and `explain`."""
        method, arguments = self._made_of
        found: Link = getattr(Link, method)(*arguments)
        return found

    def simulate(
        self,
        *,
        scheduler: str | None = None,
        seed: int | None = None,
        window: Time | None = None,
        lenient: bool = False,
        metrics: bool = False,
        trace: bool | int = False,
        progress: Progress = None,
    ) -> Sim:
        """Simulates from the start to the end; see `simulate`."""
        return simulate(
            self,
            scheduler=scheduler,
            seed=seed,
            window=window,
            lenient=lenient,
            metrics=metrics,
            trace=trace,
            progress=progress,
        )

    def __repr__(self) -> str:
        return f"<Scenario {self._source.name!r}>"


class Simulation:
    """A run of a scenario, step by step. However it is cut into steps, the same happens.

    It is safe to use from several threads. A step can be interrupted with Ctrl-C, and continued.
    """

    def __init__(
        self,
        scenario: Scenario | Path,
        *,
        scheduler: str | None = None,
        seed: int | None = None,
        window: Time | None = None,
        lenient: bool = False,
        metrics: bool = False,
        trace: bool | int = False,
    ) -> None:
        """Starts a run; the arguments are those of `simulate`."""
        self._scenario = Scenario.of(scenario)
        limit = _engine.MAX_TRACED if trace is True else trace
        if seed is not None and not 0 <= seed < 1 << 64:
            raise ValueError(f"seed: {seed} is not from 0 to 2^64 - 1")
        if limit < 0:
            raise ValueError(f"trace: {limit} packets; write True, or a limit of at least 1")
        self._run = _engine.Simulation(
            self._scenario._source,
            scheduler=scheduler,
            seed=seed,
            window=window,
            lenient=lenient,
            metrics=metrics,
            trace=limit or None,
        )
        self._traced = limit > 0

    @property
    def now(self) -> float:
        """Time in seconds up to which everything has happened."""
        return self._run.now_s

    @property
    def duration(self) -> float:
        """Length of the run in seconds."""
        return self._run.duration_s

    @property
    def done(self) -> bool:
        """True if the run has come to its end."""
        return self._run.done

    @cached_property
    def warnings(self) -> tuple[ProblemReport, ...]:
        """Warnings about the scenario; settings that a scheduler ignores are in the notes of the report."""
        return problems_of(self._run.warnings())

    def step_until(self, seconds: Time, progress: Progress = None) -> None:
        """Runs until everything before this time has happened, or the run has ended.

        Args:
            seconds: A number in seconds, or a text such as `"100ms"`.
            progress: As in `simulate`.

        Raises:
            Refused: A fault of the scheduler, or a planned change that it refuses.
            KeyboardInterrupt: After Ctrl-C. The run can be continued.
        """
        shown = Shown(progress, self.now, self.duration)
        try:
            # Python looks for signals between two parts, which take some milliseconds each.
            while not self._run.reached(seconds):
                shown.at(self._run.advance(seconds))
            shown.at(self.now, last=True)
        finally:
            shown.close()

    def run(self, progress: Progress = None) -> Sim:
        """Runs until the end, and reports, with the traces if packets were recorded."""
        self.step_until(self.duration + 1.0, progress)
        found = self.report()
        if self._traced:
            found.traces = {name or "link": self.trace(name) for name in self._run.links()}
        return found

    def offer(self, name: str, size: int, at: Time | None = None) -> None:
        """Offers a packet of `size` bytes to a leaf, beside those of the sources.

        Args:
            name: The leaf; one of a `[[peer]]` is `PEER:CLASS`.
            size: Bytes of the frame.
            at: Its arrival in seconds, now if it is not given.

        Raises:
            Refused: A class that is not there or no leaf, a time that has passed or is not before the end.
        """
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"size: a number of bytes is needed, not {type(size).__name__}")
        if not 0 < size < 1 << 32:
            raise ValueError(f"size: {size} B is not from 1 B to 4294967295 B")
        self._run.offer(name, size, at)

    def change(self, link: Link | Path, scheduler: str | None = None) -> None:
        """Replaces the link by another one now; classes of the same name keep their packets.

        Raises:
            Refused: A link that the scheduler refuses; sources whose class is gone; a scenario of several links, or with
                windows or metrics. The simulation then continues unchanged.
        """
        source = link._source if isinstance(link, Link) else text_or_file(link, "change.toml")
        self._run.change(source, scheduler)

    def report(self) -> Sim:
        """Returns the measurements until now; at the end they are those that the command prints.

        Raises:
            Refused: Nothing is measured as long as the warm-up lasts.
        """
        return Sim(self._run.document())

    def trace(self, link: str | None = None) -> Trace:
        """Returns the packets so far: of the scenario's link, or of a `[[peer]]` by its name.

        Raises:
            Refused: The run was started without `trace`; an unknown link.
        """
        return Trace(self._run.trace(link))

    def __repr__(self) -> str:
        return f"<Simulation of {self._scenario._source.name!r} at {self.now:g} of {self.duration:g} s>"


def simulate(
    scenario: Scenario | Path,
    *,
    scheduler: str | None = None,
    seed: int | None = None,
    window: Time | None = None,
    lenient: bool = False,
    metrics: bool = False,
    trace: bool | int = False,
    progress: Progress = None,
) -> Sim:
    """Simulates a scenario from the start to the end.

    Args:
        scenario: A `Scenario`, a path, or a text, which is a `str` with a line break.
        scheduler: The scheduler, instead of the scenario's own.
        seed: The seed of all random numbers, instead of the scenario's own. The same seed gives the same document.
        window: Length in seconds of the windows in which rates, delays, queues and drops are recorded against time.
        lenient: Ignores settings that the scheduler does not support; the report has notes of them.
        metrics: Measures fairness, gaps and delays beside their bounds; slower.
        trace: Records every packet, for `Sim.trace`: True, or the most packets. 66 bytes each.
        progress: True for a bar (by tqdm), or a function that is called with the simulated time and its end in seconds.

    Raises:
        OSError: The file cannot be opened.
        Refused: What is wrong with the scenario, at its place; settings that the scheduler refuses.
        KeyboardInterrupt: After Ctrl-C, within 100 ms.
    """
    run = Simulation(
        scenario, scheduler=scheduler, seed=seed, window=window, lenient=lenient, metrics=metrics, trace=trace
    )
    return run.run(progress)
