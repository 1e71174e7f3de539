"""Rows of documents as flat tables, and as data frames of other packages.

The name of a column is the path of keys that leads to its value, without containers that say nothing more
(`counts.sent.bytes` is `sent_bytes`, `delay_s.mean` is `delay_mean_s`). It ends in its unit: `_bps` bit/s, `_s`
seconds, `_bytes` bytes, `_packets` packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import MissingExtra

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import xarray

Row = dict[str, Any]

# Containers whose keys are names of columns.
_PLAIN = frozenset({"counts", "rates", "terms", "ideal", "counters", "bounds"})
_UNITS = {"bps": "bit/s", "s": "s", "bytes": "B", "packets": "packets"}


def need(package: str, extra: str, purpose: str) -> Any:
    """Imports a package that is not always installed."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtra(package, extra, purpose) from error


def flat(part: Mapping[str, Any], prefix: str = "") -> Row:
    """Returns the values of an object by the names of their columns. Lists are left out."""
    row: Row = {}
    for key, value in part.items():
        if isinstance(value, dict):
            inner = prefix if key in _PLAIN else f"{prefix}{key}_"
            within: Row = {}
            if key.endswith("_s"):
                # Statistics of times: the unit comes last, and packets are counted.
                stem = key[:-1]
                within = {f"{prefix}{stem}{k}" + ("" if k == "packets" else "_s"): v for k, v in value.items()}
            else:
                within = flat(value, inner)
            for name, one in within.items():
                row[name if name not in row else f"{key}_{name}"] = one
        elif not isinstance(value, list):
            row[f"{prefix}{key}"] = value
    return row


def columns(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Returns rows as columns; values that a row lacks are `None`."""
    all_rows = list(rows)
    names = dict.fromkeys(name for row in all_rows for name in row)
    return {name: [row.get(name) for row in all_rows] for name in names}


def unit_of(name: str) -> str | None:
    """Returns the unit of a column, which is the end of its name."""
    return _UNITS.get(name.rsplit("_", 1)[-1])


class Tabular:
    """Something with tables. The first of them is the default of all conversions."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        raise NotImplementedError

    def table(self, name: str | None = None) -> list[Row]:
        """Returns the rows of a table as dictionaries."""
        raise NotImplementedError

    def _chosen(self, name: str | None) -> str:
        """Returns the name of a table, or of the default one."""
        chosen = self.tables[0] if name is None else name
        if chosen not in self.tables:
            raise ValueError(f"table: {chosen!r} is not one of {', '.join(self.tables)}")
        return chosen

    def to_pandas(self, table: str | None = None) -> pandas.DataFrame:
        """Returns a table as a `pandas.DataFrame`."""
        package = need("pandas", "pandas", "to_pandas()")
        frame: pandas.DataFrame = package.DataFrame(columns(self.table(table)))
        return frame

    def to_polars(self, table: str | None = None) -> polars.DataFrame:
        """Returns a table as a `polars.DataFrame`."""
        package = need("polars", "polars", "to_polars()")
        cells = columns(self.table(table))
        frame: polars.DataFrame = package.DataFrame(cells, strict=False, infer_schema_length=None)
        return frame

    def to_arrow(self, table: str | None = None) -> pyarrow.Table:
        """Returns a table as a `pyarrow.Table`; fields have their unit as metadata."""
        package = need("pyarrow", "arrow", "to_arrow()")
        made = package.table(columns(self.table(table)))
        fields = [
            field.with_metadata({"unit": unit}) if (unit := unit_of(field.name)) else field for field in made.schema
        ]
        found: pyarrow.Table = made.cast(package.schema(fields))
        return found

    def to_xarray(self, table: str | None = None) -> xarray.Dataset:
        """Returns a table as an `xarray.Dataset`, by class and, where a table has one, by start of the span.

        Variables have the attribute `units`.
        """
        package = need("xarray", "xarray", "to_xarray()")
        frames = need("pandas", "xarray", "to_xarray()")
        chosen = self._chosen(table)
        cells = columns(self.table(chosen))
        keys = [key for key in _DIMENSIONS if key in cells and (key == "class" or len(set(cells[key])) > 1)]
        if not keys:
            keys = [next(iter(cells))] if cells else []
        frame = frames.DataFrame(cells)
        dataset: xarray.Dataset = package.Dataset.from_dataframe(frame.set_index(keys) if keys else frame)
        for name in dataset.variables:
            if unit := unit_of(str(name)):
                dataset[name].attrs["units"] = unit
        return dataset


# Columns that tell rows of one table apart.
_DIMENSIONS = ("scheduler", "seed", "start_s", "class")
