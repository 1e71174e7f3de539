"""Campaigns: many simulations of a scenario, as files that threads, Dask or Ray write together."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _engine
from ._errors import Incomplete, Refused
from ._progress import Progress, Shown
from ._scenario import Scenario
from ._sources import Path
from ._tables import need

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow
    from pyarrow import dataset

Value: TypeAlias = str | int | float
Engine: TypeAlias = Any
"""`"threads"`, `"ray"`, or a client of Dask (`dask.distributed.Client`)."""

GO_ON = "run the same again to go on"
"""How a campaign that stopped is completed, as the engine says it for files."""

AHEAD = 4
"""Parts for each worker that an engine has at a time, so that none waits and a long campaign needs no more memory."""


def sweep(scenario: Scenario | Path, over: Mapping[str, Value | Iterable[Value]], *, runs: int = 1) -> Sweep:
    """Plans a campaign: a scenario with every combination of other values.

    Args:
        scenario: A `Scenario`, a path, or a text, which is a `str` with a line break.
        over: Values by key: paths of numbers in the scenario, as of `fairlink sim --sweep` (`"link.rate"`,
            `"class.voice.guarantee"`, `"seed"`), and `"scheduler"`. A value is written as in the file, with its unit
            (`"10mbit"`); plain numbers are for keys without unit.
        runs: Number of simulations of each combination, with seeds from the scenario's own upwards.

    Raises:
        TypeError: A value that is neither a text nor a number.
        OSError: The file of the scenario cannot be opened.
    """
    return Sweep(Scenario.of(scenario), over, runs)


def _texts(key: str, values: Value | Iterable[Value]) -> list[str]:
    if isinstance(values, str | int | float):
        values = [values]
    texts = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            # Numbers of numpy and the like.
            item = getattr(value, "item", None)
            value = item() if callable(item) else value
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise TypeError(f"{key}: a text or a number is needed, not {type(value).__name__}")
        texts.append(value if isinstance(value, str) else repr(value))
    if not texts:
        raise ValueError(f"{key}: it has no value")
    return texts


class Sweep:
    """A campaign that is planned, and made by `run`. Make one by `sweep`."""

    def __init__(self, scenario: Scenario, over: Mapping[str, Value | Iterable[Value]], runs: int) -> None:
        if not 1 <= runs < 1 << 32:
            raise ValueError(f"runs: {runs} is not from 1 to 4294967295")
        self._scenario, self._runs = scenario, runs
        texts = {key: _texts(key, values) for key, values in over.items()}
        self._schedulers = texts.pop("scheduler", [])
        self._over = texts

    def run(
        self,
        out: Path | None = None,
        *,
        on: Engine = "threads",
        workers: int | None = None,
        format: str = "parquet",
        progress: Progress = None,
    ) -> Campaign:
        """Makes all simulations that are not there yet, and returns their results.

        Args:
            out: The directory of the files, which all workers see under this name. It is made if it is missing; one that
                has a part of the same campaign is completed. Without it the files vanish with the result.
            on: `"threads"`, `"ray"` (extra `ray`), or a client of Dask (extra `dask`). The results do not depend on it.
            workers: Number of threads, or parts at a time for an engine; that of the processors if it is not given.
            format: `"parquet"` or `"csv"`.
            progress: True for a bar (by tqdm), or a function that is called with the simulations that are done and all.

        Raises:
            Refused: Before the first simulation: an unknown key, with the nearest name; an unknown scheduler; a scenario
                that cannot be read with the first values. A simulation that fails later is in `Campaign.failures`.
            Incomplete: A worker, a file or the engine failed. What is done stays: call `run` again with the same `out`.
            KeyboardInterrupt: After Ctrl-C. What is done stays.
        """
        _known(on)
        temporary = None
        if out is None:
            temporary = tempfile.TemporaryDirectory(prefix="fairlink-campaign-")
            out = temporary.name
        over = list(self._over.items())
        # Workers need not have the directory of this process.
        dir = os.path.abspath(os.fspath(out))
        engine = _engine.Campaign.begin(dir, self._scenario._source, over, self._schedulers, self._runs, format)
        campaign = Campaign(engine)
        campaign._temporary = temporary
        campaign._work(on, workers or os.cpu_count() or 1, progress)
        return campaign

    def __repr__(self) -> str:
        keys = [*self._over, *(["scheduler"] if self._schedulers else [])]
        return f"<Sweep of {self._scenario._source.name!r} over {', '.join(keys) or 'nothing'}>"


def _known(on: Engine) -> None:
    """Refuses what is no engine."""
    if on not in ("threads", "ray") and not (hasattr(on, "submit") and hasattr(on, "scheduler_info")):
        raise TypeError(f'on: "threads", "ray" or a client of Dask is needed, not {on!r}')


@lru_cache(maxsize=8)
def _opened(dir: str) -> _engine.Campaign:
    return _engine.Campaign.open(dir)


def write_part(dir: str, part: int) -> int:
    """Makes the simulations of a part in a worker, and writes its file. Returns the number of those that failed."""
    return _opened(dir).write(part)


class Campaign:
    """The results of a campaign: a row for each class of each simulation, in base units, in files of one directory.

    Columns: `job` (number of the simulation), `scheduler`, `seed`, the swept keys as `set.KEY` with their units, the
    link, and the class with counts, rates, terms and delays under the names that tables of `Sim` have; `error` has the
    reason of a simulation that failed, in one row without a class.
    """

    _temporary: tempfile.TemporaryDirectory[str] | None = None

    def __init__(self, engine: _engine.Campaign) -> None:
        self._engine = engine
        self._whole: tuple[str, int, int] | None = None

    @classmethod
    def open(cls, dir: Path) -> Campaign:
        """Opens the campaign in a directory, complete or not, whoever made it.

        Raises:
            FileNotFoundError: There is none.
        """
        return cls(_engine.Campaign.open(os.path.abspath(os.fspath(dir))))

    def run(self, *, on: Engine = "threads", workers: int | None = None, progress: Progress = None) -> Campaign:
        """Makes the simulations that are missing; see `Sweep.run`."""
        _known(on)
        self._work(on, workers or os.cpu_count() or 1, progress)
        return self

    # Work.

    def _work(self, on: Engine, workers: int, progress: Progress) -> None:
        missing = self._engine.missing()
        done = self.jobs - sum(self._jobs(part) for part in missing)
        shown = Shown(progress, done, self.jobs, unit="simulations")
        try:
            for part in self._made(on, workers, missing):
                done += self._jobs(part)
                shown.at(done, last=done == self.jobs)
        except (KeyboardInterrupt, Refused):
            raise
        except Exception as error:
            # Engines have the whole call stack of a worker in their text.
            there, said = self.parts - len(self._engine.missing()), str(error).strip().splitlines()
            text = next(iter(said), type(error).__name__)
            remedy = "" if GO_ON in text else f"; {GO_ON}"
            raise Incomplete(
                f"{there} of {self.parts} parts are in {self.dir} and stay: {text}{remedy}",
            ) from error
        finally:
            shown.close()

    def _jobs(self, part: int) -> int:
        first, end = self._engine.jobs_of(part)
        return end - first

    def _made(self, on: Engine, workers: int, missing: list[int]) -> Iterator[int]:
        """Makes parts, and yields each that is there."""
        if on == "threads":
            return self._by_threads(workers, missing)
        if on == "ray":
            return self._by_ray(workers, missing)
        return self._by_dask(on, missing)

    def _by_threads(self, workers: int, missing: list[int]) -> Iterator[int]:
        self._engine.stop(False)
        with ThreadPoolExecutor(workers) as pool:
            waiting: dict[Future[int], int] = {}
            left = iter(missing)
            try:
                while True:
                    for part in left:
                        waiting[pool.submit(self._engine.write, part)] = part
                        if len(waiting) >= workers * AHEAD:
                            break
                    if not waiting:
                        return
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        part = waiting.pop(future)
                        future.result()
                        yield part
            finally:
                # After an error or Ctrl-C the others end at once.
                if waiting:
                    self._engine.stop(True)
                    pool.shutdown(wait=True, cancel_futures=True)

    def _by_dask(self, client: Any, missing: list[int]) -> Iterator[int]:
        distributed = need("dask.distributed", "dask", "on=Client")
        workers = max(1, sum(client.nthreads().values()))
        left = iter(missing)
        running = distributed.as_completed()
        parts: dict[str, int] = {}

        def submit(part: int) -> None:
            # A part whose worker is lost is made again by another.
            future = client.submit(write_part, self.dir, part, pure=False, retries=3)
            parts[future.key] = part
            running.add(future)

        for part in islice(left, workers * AHEAD):
            submit(part)
        try:
            for future in running:
                future.result()
                yield parts.pop(future.key)
                for part in left:
                    submit(part)
                    break
        finally:
            with contextlib.suppress(Exception):
                client.cancel(list(running.futures))

    def _by_ray(self, workers: int, missing: list[int]) -> Iterator[int]:
        ray = need("ray", "ray", 'on="ray"')
        if not ray.is_initialized():
            ray.init(include_dashboard=False, configure_logging=False, num_cpus=workers)
        # A part whose worker is lost is made again by another.
        remote = ray.remote(max_retries=3)(write_part)
        waiting: dict[Any, int] = {}
        left = iter(missing)
        try:
            while True:
                # Any call would begin another one, which has not the parts of this one.
                if not ray.is_initialized():
                    raise RuntimeError("Ray was shut down")
                for part in left:
                    waiting[remote.remote(self.dir, part)] = part
                    if len(waiting) >= workers * AHEAD:
                        break
                if not waiting:
                    return
                for found in ray.wait(list(waiting), num_returns=1)[0]:
                    part = waiting.pop(found)
                    ray.get(found)
                    yield part
        finally:
            for found in waiting if ray.is_initialized() else ():
                with contextlib.suppress(Exception):
                    ray.cancel(found)

    # What it is, and how far.

    @property
    def dir(self) -> str:
        """The directory."""
        return os.fspath(self._engine.dir)

    @property
    def jobs(self) -> int:
        """Number of simulations."""
        return self._engine.jobs

    @property
    def parts(self) -> int:
        """Number of files."""
        return self._engine.parts

    @property
    def complete(self) -> bool:
        """True if all files are there."""
        return not self._engine.missing()

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [name for name, _ in self._engine.columns()]

    @property
    def files(self) -> list[str]:
        """The files that are there, in the order of the simulations."""
        missing = set(self._engine.missing())
        return [os.fspath(self._engine.file_of(part)) for part in range(self.parts) if part not in missing]

    def _read(self) -> tuple[str, int, int]:
        if self._whole is None:
            self._whole = self._engine.whole()
        if self._whole is None:
            left = len(self._engine.missing())
            raise Incomplete(f"{left} of {self.parts} parts are missing in {self.dir}: make them by run()")
        return self._whole

    @property
    def digest(self) -> str:
        """SHA-256 of all rows in the order of the simulations: it does not depend on engine, format or interruptions.

        Raises:
            Incomplete: Files are missing.
        """
        return self._read()[0]

    @property
    def rows(self) -> int:
        """Number of rows.

        Raises:
            Incomplete: Files are missing.
        """
        return self._read()[1]

    @property
    def failed(self) -> int:
        """Number of simulations that failed; their rows have the reason in `error`.

        Raises:
            Incomplete: Files are missing.
        """
        return self._read()[2]

    # Reading.

    def dataset(self) -> dataset.Dataset:
        """Returns the files as a `pyarrow.dataset.Dataset`, which reads what a query needs."""
        module = need("pyarrow.dataset", "arrow", "dataset()")
        if self._engine.format == "parquet":
            found: dataset.Dataset = module.dataset(self.files, format="parquet")
            return found
        arrow, csv = need("pyarrow", "arrow", "dataset()"), need("pyarrow.csv", "arrow", "dataset()")
        types = {"whole": arrow.uint64(), "number": arrow.float64(), "flag": arrow.bool_(), "text": arrow.string()}
        schema = arrow.schema([(name, types[kind]) for name, kind in self._engine.columns()])
        convert = csv.ConvertOptions(column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False)
        form = module.CsvFileFormat(convert_options=convert)
        found = module.dataset(self.files, schema=schema, format=form)
        return found

    def to_arrow(self) -> pyarrow.Table:
        """Returns all rows as a `pyarrow.Table`."""
        return self.dataset().to_table()

    def to_pandas(self) -> pandas.DataFrame:
        """Returns all rows as a `pandas.DataFrame`."""
        need("pandas", "pandas", "to_pandas()")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def scan(self) -> polars.LazyFrame:
        """Returns the files as a `polars.LazyFrame`, which reads what a query needs."""
        module = need("polars", "polars", "scan()")
        if self._engine.format == "parquet":
            found: polars.LazyFrame = module.scan_parquet(self.files)
            return found
        types = {"whole": module.UInt64, "number": module.Float64, "flag": module.Boolean, "text": module.String}
        schema = {name: types[kind] for name, kind in self._engine.columns()}
        found = module.scan_csv(self.files, schema=schema)
        return found

    def to_polars(self) -> polars.DataFrame:
        """Returns all rows as a `polars.DataFrame`."""
        return self.scan().collect()

    def to_duckdb(self) -> duckdb.DuckDBPyRelation:
        """Returns the files as a relation of DuckDB, which reads what a query needs."""
        found: duckdb.DuckDBPyRelation = need("duckdb", "duckdb", "to_duckdb()").from_arrow(self.dataset())
        return found

    def failures(self) -> list[dict[str, Any]]:
        """Returns a row for each simulation that failed, with `job`, the values of the swept keys, and `error`."""
        table = self.dataset()
        field = need("pyarrow.compute", "arrow", "failures()").field
        found: list[dict[str, Any]] = table.to_table(filter=~field("error").is_null()).to_pylist()
        return [{key: value for key, value in row.items() if value is not None} for row in found]

    def __len__(self) -> int:
        """Number of simulations."""
        return self.jobs

    def __repr__(self) -> str:
        left = len(self._engine.missing())
        how_far = "complete" if not left else f"{left} of {self.parts} parts are missing"
        return f"<Campaign of {self.jobs} simulations in {self.dir!r}: {how_far}>"
