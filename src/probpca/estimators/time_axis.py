"""The time axis of a table: an index of pandas, or a column of dates or numbers of any dataframe."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from datetime import tzinfo
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast, final

import narwhals.stable.v2 as nw
import numpy as np

from probpca.blocks.time_grid import Stamps, Step, is_known_unit, times_at, zone_of
from probpca.errors import DataError, FileFormatError
from probpca.sources.readers.frames import is_frame

if TYPE_CHECKING:
    import numpy.typing as npt

LOOKS_DATED = re.compile(r"\d{4}[-/.]\d{1,2}\b|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}\b")
"""Text that is likely to be a date, such as "2024-01-31", "2024-01" or "31/1/2024"."""


@final
@dataclass(frozen=True, eq=False)
class TimeAxis:
    """Times of the rows of a table, and how labels of other times are written like them."""

    kind: str  # "datetime", "date", "period", "duration", "range" or "number"
    stamps: Stamps  # of all rows; of the last row alone where only the future matters
    name: Any = None  # of the index or the column
    is_column: bool = False
    freq: str | None = None  # of periods
    step: Step | None = None

    def last(self) -> TimeAxis:
        """The same with the last row alone."""
        return replace(self, stamps=replace(self.stamps, ticks=self.stamps.ticks[-1:]))

    def at(self, steps: Any) -> Stamps:
        """Times that are some numbers of steps after the last row; row numbers if there is no step."""
        return times_at(self.last().stamps, self.step or Step("number", 1), steps)

    def index(self, stamps: Stamps) -> Any:
        """Times as an index of pandas."""
        pandas: Any = import_module("pandas")
        ticks, name = stamps.ticks, self.name
        if self.kind == "range":
            step = 1 if self.step is None else int(self.step.count)
            return pandas.RangeIndex(ticks[0], ticks[0] + len(ticks) * step, step, name=name)
        if self.kind == "number":
            return pandas.Index(ticks, name=name)
        if self.kind == "duration":
            return pandas.TimedeltaIndex(ticks.astype(f"timedelta64[{stamps.unit or self.freq}]"), name=name)
        dates = stamps.dates.astype("datetime64[s]") if stamps.unit == "D" else stamps.dates
        index = pandas.DatetimeIndex(dates, name=name)
        if self.kind == "period":
            return index.to_period(self.freq)
        return index if stamps.zone is None else index.tz_localize("UTC").tz_convert(stamps.zone)

    def column(self, stamps: Stamps, backend: Any) -> nw.Series[Any]:
        """Times as a column of a library."""
        name, native = str(self.name), cast("Any", nw.Implementation.from_backend(backend))
        if self.kind == "number":
            return nw.new_series(name, stamps.ticks, backend=native)
        dates = stamps.dates.astype("datetime64[ms]") if stamps.unit in ("D", "s") else stamps.dates
        column: nw.Series[Any] = nw.new_series(name, dates, backend=native)
        if self.kind == "date":
            return column.cast(nw.Date)
        column = column.cast(nw.Datetime("ms" if stamps.unit in ("D", "s") else stamps.unit))  # type: ignore[arg-type]
        if stamps.zone is None:
            return column
        return column.dt.replace_time_zone("UTC").dt.convert_time_zone(str(stamps.zone))

    def labels(self, stamps: Stamps, backend: str | None) -> Any:
        """Times as a table of results shows them: an index of pandas, or dates: (n,)."""
        if backend == "pandas" and not self.is_column:
            return self.index(stamps)
        if self.kind in ("number", "range"):
            return stamps.ticks
        if self.kind == "date":
            return stamps.dates.astype("datetime64[D]")
        return stamps.dates if stamps.zone is None else np.array(self.column(stamps, backend).to_list(), dtype=object)

    def record(self) -> dict[str, Any]:
        """Return what a file holds of the last row and the step."""
        zone = None if self.stamps.zone is None else str(self.stamps.zone)
        try:
            _ = None if zone is None else zone_of(zone)
        except ValueError as error:
            msg = f"a time zone that has no name cannot be written to a file; got {zone}.\nHint: use zoneinfo.ZoneInfo."
            raise FileFormatError(msg) from error
        step = self.step and {"unit": self.step.unit, "count": self.step.count, "month_end": self.step.month_end}
        return {
            "kind": self.kind,
            "name": self.name if type(self.name) in (str, int) else None,
            "is_column": self.is_column,
            "freq": self.freq,
            "unit": self.stamps.unit,
            "zone": zone,
            "tick": self.stamps.ticks[-1].item(),
            "step": step,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Read what ``record`` returned."""
        try:
            zone = None if record["zone"] is None else zone_of(record["zone"])
        except ValueError as error:
            msg = f"the zone of a time axis must be the name of a time zone; got {record['zone']!r}."
            raise FileFormatError(msg) from error
        step = None if record["step"] is None else Step(**record["step"])
        stamps = Stamps(np.array([record["tick"]]), record["unit"], zone)
        return cls(record["kind"], stamps, record["name"], record["is_column"], record["freq"], step)


def axis_of(X: Any, time: Any = None) -> TimeAxis | None:
    """Find the time axis of a table: the column ``time``, an index of pandas, or the only column of dates.

    None: rows are only counted, because this is an array, or a table without times.
    """
    if not is_frame(X):
        if time is not None:
            msg = f"time={time!r} names a column; an array has none.\nHint: pass a dataframe."
            raise DataError(msg)
        return None
    if time is not None:
        return _column_axis(X, time)
    found = _index_axis(X.index) if nw.dependencies.is_pandas_dataframe(X) else None
    if found is not None and found.kind not in ("range", "number"):
        return found
    dates = date_columns(X)
    if len(dates) > 1:
        msg = f"columns {', '.join(map(str, dates))} hold dates.\nHint: time= names the time; drop the others."
        raise DataError(msg)
    return _column_axis(X, dates[0]) if dates else found


def date_columns(X: Any) -> list[Any]:
    """Names of the columns that hold dates or times of day and date."""
    if nw.dependencies.is_pandas_dataframe(X):
        kinds = {name: getattr(kind, "kind", "O") for name, kind in X.dtypes.items()}
        arrow = {name for name, kind in X.dtypes.items() if str(kind).startswith(("date32", "timestamp"))}
        return [name for name, kind in kinds.items() if kind == "M" or name in arrow]
    return [name for name, kind in nw.from_native(X, eager_only=True).schema.items() if kind in (nw.Date, nw.Datetime)]


def without(X: Any, names: list[Any]) -> Any:
    """The table without some columns."""
    if not names:
        return X
    if nw.dependencies.is_pandas_dataframe(X):
        return X.drop(columns=names)
    return nw.from_native(X, eager_only=True).drop(names).to_native()


def _column_axis(X: Any, name: Any) -> TimeAxis:
    frame = nw.from_native(X if not nw.dependencies.is_pandas_dataframe(X) else X[[name]] if name in X.columns else X)
    if name not in frame.columns:
        msg = f"time must be the name of a column; got {name!r}. The columns are {', '.join(map(str, X.columns))}."
        raise DataError(msg)
    column = frame.get_column(name)
    empty = np.flatnonzero(column.is_null().to_numpy())
    if empty.size:
        msg = f"column {name} holds the times and must have one in each row; row {empty[0] + 1:,} has none."
        raise DataError(msg)
    if column.dtype.is_numeric():
        return TimeAxis("number", Stamps(column.to_numpy()), name, is_column=True)
    if column.dtype == nw.Date:
        return TimeAxis("date", Stamps.of_dates(_naive(column.cast(nw.Datetime("ms"))).astype("M8[D]")), name, True)
    if column.dtype != nw.Datetime:
        msg = (
            f"column {name} must hold dates or numbers to be the time; got {column.dtype}.\nHint: convert it to dates."
        )
        raise DataError(msg)
    zone = getattr(column.dtype, "time_zone", None)
    if zone is None:
        return TimeAxis("datetime", Stamps.of_dates(_naive(column)), name, is_column=True)
    stamps = Stamps.of_dates(_naive(column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)), zone_of(str(zone)))
    return TimeAxis("datetime", stamps, name, is_column=True)


def _naive(column: nw.Series[Any]) -> npt.NDArray[np.datetime64]:
    return np.asarray(column.to_numpy())


def _index_axis(index: Any) -> TimeAxis | None:
    """Times of an index of pandas; None if it holds text, several levels, or numbers that do not increase."""
    pandas: Any = import_module("pandas")
    if isinstance(index, pandas.RangeIndex):
        step = Step("number", index.step)
        return TimeAxis("range", Stamps(np.asarray(index)), index.name, step=step) if index.step > 0 else None
    if isinstance(index, pandas.DatetimeIndex | pandas.PeriodIndex | pandas.TimedeltaIndex):
        if index.hasnans:
            row = int(index.isna().argmax()) + 1
            msg = f"the index holds the times and must have one in each row; row {row:,} has none."
            raise DataError(msg)
        return _dated_axis(index, pandas)
    if isinstance(index, pandas.MultiIndex):
        if any(isinstance(level, pandas.DatetimeIndex | pandas.PeriodIndex) for level in index.levels):
            msg = (
                "an index of several levels, one of which holds dates, may stack several series.\n"
                "Hint: pass X.reset_index() and name their column with series=, or keep the level of dates alone."
            )
            raise DataError(msg)
        return None
    if getattr(index.dtype, "kind", "O") not in "iuf":
        return _axis_of_labels(index, pandas)
    ticks = np.asarray(index, np.float64 if index.dtype.kind == "f" else np.int64)
    if ticks.size < 2 or not (np.diff(ticks) > 0).all():  # not of NaN either
        return None
    return TimeAxis("number", Stamps(ticks), index.name)


def _axis_of_labels(index: Any, pandas: Any) -> TimeAxis | None:
    """Times of an index of dates of Python; None of text, with a warning if it looks like dates."""
    kind = index.inferred_type
    if kind in ("date", "datetime"):
        return _index_axis(pandas.DatetimeIndex(index))
    if kind == "string" and len(index) and all(LOOKS_DATED.match(str(label)) for label in (index[0], index[-1])):
        msg = (
            f"the index holds text such as {index[0]!r}, which is not a time: rows are only counted, and no season is "
            "looked for.\nHint: X.index = pandas.to_datetime(X.index) makes dates of it."
        )
        warnings.warn(msg, UserWarning, stacklevel=6)
    return None


def _dated_axis(index: Any, pandas: Any) -> TimeAxis | None:
    if isinstance(index, pandas.TimedeltaIndex):
        return TimeAxis("duration", Stamps(index.to_numpy().astype(np.int64)), index.name, freq=index.unit)
    if index.freq is not None and not is_known_unit(index.freqstr.removeprefix("-")):
        return None  # such as the last weekday of a month, which pandas continues
    if isinstance(index, pandas.PeriodIndex):
        return TimeAxis("period", Stamps.of_dates(index.to_timestamp().to_numpy()), index.name, freq=index.freqstr)
    naive = index if index.tz is None else index.tz_convert("UTC").tz_localize(None)
    return TimeAxis("datetime", Stamps.of_dates(naive.to_numpy(), _zone(index.tz)), index.name)


def _zone(zone: Any) -> tzinfo | None:
    """A zone as zoneinfo knows it; one of another library as it is."""
    try:
        return None if zone is None else zone_of(str(zone))
    except ValueError:
        return zone if isinstance(zone, tzinfo) else None
