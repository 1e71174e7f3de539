"""Packets of a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _engine
from ._tables import need

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Trace:
    """The packets of a link, in the order of arrival: columns and units are those of `fairlink sim --trace FILE.csv`.

    It is a stream of Arrow (`__arrow_c_stream__`): pyarrow, polars, pandas and DuckDB read the memory that the
    simulation wrote, without a copy.

    Columns: `packet` (from 1), `class`, `arrival_s`, `start_s` and `departure_s` (its transmission begins and ends),
    `bytes` (of the frame), `accounted_bytes`, `queueing_delay_s`, `dropped_s` and `dropped` (time and reason). Values of
    events that did not occur are null.
    """

    def __init__(self, packets: _engine.Trace) -> None:
        self._packets = packets

    def __len__(self) -> int:
        """Number of packets."""
        return len(self._packets)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._packets.columns

    def __arrow_c_schema__(self) -> object:
        return self._packets.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._packets.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """Returns the packets as a `pyarrow.Table`."""
        table: pyarrow.Table = need("pyarrow", "arrow", "to_arrow()").table(self)
        return table

    def to_polars(self) -> polars.DataFrame:
        """Returns the packets as a `polars.DataFrame`."""
        frame: polars.DataFrame = need("polars", "polars", "to_polars()").DataFrame(self)
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the packets as a `pandas.DataFrame`."""
        need("pandas", "pandas", "to_pandas()")
        need("pyarrow", "pandas", "to_pandas()")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} packets>"
