"""Time series in, time series out: lists of sequences, and the time index that a forecast continues."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from probpca.errors import FileFormatError
from probpca.estimators.base import rounded, table_of
from probpca.estimators.time_axis import TimeAxis
from probpca.result_tables import (
    FIRST_ROWS,
    Names,
    ResultTable,
    frame_of,
    interval_table,
    several,
    shown_as_table,
)
from probpca.sources.readers.frames import is_frame

if TYPE_CHECKING:
    from probpca.blocks.time_grid import Stamps
    from probpca.estimators.series_tables import SeriesTable
    from probpca.inference.time_series.prediction import Forecast
    from probpca.typing import Array


def in_precision_of(X: Any, values: Array) -> Any:
    """Round the values to float32 if all cells of ``X`` are float32."""
    if is_frame(X):
        kinds = nw.from_native(X, eager_only=True).schema.values()
        single = all(kind == nw.Float32 for kind in kinds)
    else:
        single = getattr(X, "dtype", None) == np.float32
    return rounded(values, np.float32 if single else np.float64)


class Remembered(NamedTuple):
    """What a forecast needs to know of a training table: its kind, its columns, and how its time index continues."""

    backend: Any = None  # the library of the dataframe; None for an array
    columns: list[Any] | None = None  # names
    index: Any = None  # of pandas, if there is no axis; from a file a record of its last labels
    length: int = 0  # number of steps
    headings: list[Any] | None = None  # what pandas calls each level of its columns
    later: int = 0  # number of rows that arrived after those of the table
    axis: TimeAxis | None = None  # the time of the last row and the step

    @classmethod
    def of(cls, table: SeriesTable, length: int) -> Remembered:
        """Look at a table that has some number of steps."""
        X, axis = table.features, table.axis
        last = None if axis is None else axis.last()
        if nw.dependencies.is_pandas_dataframe(X):
            index = X.index if axis is None else None
            return cls("pandas", list(X.columns), index, length, list(X.columns.names), axis=last)
        if nw.dependencies.is_into_dataframe(X):
            frame = nw.from_native(X, eager_only=True)
            return cls(frame.implementation.value, frame.columns, None, length, axis=last)
        return cls(length=length)

    def record(self) -> dict[str, Any]:
        """Return what JSON can hold of this; an index that cannot be continued from a file is an error."""
        columns = None if self.columns is None else [name if type(name) is int else str(name) for name in self.columns]
        index = self.index if self.index is None or isinstance(self.index, dict) else _index_record(self.index)
        table = {"backend": self.backend, "columns": columns, "index": index, "length": self.length}
        return table | {"later": self.later, "axis": None if self.axis is None else self.axis.record()}

    def portable(self) -> Remembered:
        """The same with a record of the last labels instead of an index of pandas, if a record can describe it."""
        if self.index is None or isinstance(self.index, dict):
            return self
        try:
            record = _index_record(self.index)
            same = record is None or _index(record)[-1] == self.index[-1]
        except (FileFormatError, ValueError, TypeError, LookupError):  # labels or time zones of other libraries
            return self
        return self._replace(index=record) if same else self

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Remembered:
        """Read what ``record`` returned; the index is made when a forecast needs it."""
        axis = None if record["axis"] is None else TimeAxis.from_record(record["axis"])
        return cls(**{**record, "axis": axis})

    def frame(self, values: Array) -> Any:
        """Return the rows of a forecast in the form of the table that they continue."""
        if self.backend is None:
            return values
        if self.backend == "pandas":
            index, pandas = self._pandas_index(len(values)), import_module("pandas")
            columns = pandas.Index(self.columns)
            columns = columns if self.headings is None else columns.set_names(self.headings)
            return self._with_times(pandas.DataFrame(values, index=index, columns=columns))
        return self._with_times(table_of(values, self.columns, self.backend))

    def _with_times(self, frame: Any) -> Any:
        """The frame with a column of times before the others, if the table has one."""
        if self.axis is None or not self.axis.is_column:
            return frame
        times = self.axis.column(self._ahead(self.axis, len(frame)), self.backend).to_native()
        if self.backend == "pandas":
            times.index = frame.index
            frame.insert(0, self.axis.name, times)
            return frame
        made = nw.from_native(frame, eager_only=True)
        times = nw.from_native(times, series_only=True).alias(self.axis.name)
        return made.select(times, nw.all()).to_native()

    def _ahead(self, axis: TimeAxis, horizon: int) -> Stamps:
        """Times of the steps after the last row."""
        try:
            return axis.at(np.arange(self.later + 1, self.later + 1 + horizon))
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            msg = f"the times after {axis.stamps.ticks[-1]} cannot be told ({error})."
            raise FileFormatError(msg) from error

    def _pandas_index(self, horizon: int) -> Any:
        if self.axis is not None and self.axis.is_column:
            start = self.length + self.later
            return import_module("pandas").RangeIndex(start, start + horizon)
        return self.following(horizon)

    def following(self, horizon: int) -> Any:
        """Labels of the rows after the table: an index of pandas, dates, or row numbers: (horizon,)."""
        if self.axis is not None:
            return self.axis.labels(self._ahead(self.axis, horizon), self.backend)
        if self.backend != "pandas":
            return np.arange(self.length + self.later, self.length + self.later + horizon)
        if not isinstance(self.index, dict):
            return _following(self.index, self.length, horizon, self.later)
        try:
            return _following(_index(self.index), self.length, horizon, self.later)
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            msg = (
                f"the model file must hold a time index that pandas can continue; got {self.index} ({error}).\n"
                "Hint: it was damaged or changed, or comes from another version of pandas; fit again."
            )
            raise FileFormatError(msg) from error


def _following(index: Any, length: int, n: int, later: int = 0) -> Any:
    """Return n labels after an index and ``later`` more, by its frequency or last difference; else row numbers."""
    pandas = import_module("pandas")
    step = None if index is None else _step(index)
    if step is None:
        return pandas.RangeIndex(length + later, length + later + n)
    labels = [index[-1] + step if later == 0 else index[-1] + (later + 1) * step]
    for _ in range(n - 1):
        labels.append(labels[-1] + step)
    return pandas.Index(labels[:n], name=index.name)


def _step(index: Any) -> Any:
    """The step from each label of a pandas index to the next; None if there is none."""
    pandas = import_module("pandas")
    if isinstance(index, pandas.DatetimeIndex) and index.freq is None:
        index = pandas.DatetimeIndex(index, freq="infer")
    step = getattr(index, "freq", getattr(index, "step", None))
    if step is None and pandas.api.types.is_numeric_dtype(index.dtype):  # numbers that do not increase are no times
        return None
    try:
        step = index[-1] - index[-2] if step is None else step
        _ = index[-1] + step
    except (IndexError, TypeError):  # one label, or labels without differences
        return None
    return step


def _index_record(index: Any) -> dict[str, Any] | None:
    """The last labels of a pandas index as text or numbers, and its frequency; None if it has no step."""
    pandas = import_module("pandas")
    if _step(index) is None:
        return None
    kinds = (pandas.DatetimeIndex, pandas.PeriodIndex, pandas.TimedeltaIndex, pandas.RangeIndex)
    if not (isinstance(index, kinds) or pandas.api.types.is_numeric_dtype(index.dtype)):
        msg = f"a time index of type {index.dtype} cannot be written to a file.\nHint: use dates, periods or numbers."
        raise FileFormatError(msg)
    step = _step(index)
    freq = index.freqstr if isinstance(index, pandas.PeriodIndex) else getattr(step, "freqstr", None)
    last = index[-1:] if freq or isinstance(index, pandas.RangeIndex) else index[-2:]
    numbers = pandas.api.types.is_numeric_dtype(index.dtype)
    return {
        "kind": type(index).__name__,
        "labels": last.tolist() if numbers else [str(label) for label in last],
        "step": step if isinstance(index, pandas.RangeIndex) else None,
        "freq": freq,
        "unit": getattr(index, "unit", None),
        "tz": None if getattr(index, "tz", None) is None else str(index.tz),
        "name": index.name if isinstance(index.name, str) else None,
    }


def _index(record: dict[str, Any]) -> Any:
    """The last labels of a pandas index again, with its frequency."""
    pandas = import_module("pandas")
    labels, freq, name = record["labels"], record["freq"], record["name"]
    match record["kind"]:
        case "DatetimeIndex":
            times = pandas.DatetimeIndex(pandas.to_datetime(labels, utc=True)).as_unit(record["unit"])
            return pandas.DatetimeIndex(times.tz_convert(record["tz"]), freq=freq, name=name)
        case "PeriodIndex":
            return pandas.PeriodIndex(labels, freq=freq, name=name)
        case "TimedeltaIndex":
            return pandas.TimedeltaIndex(labels, freq=freq, name=name).as_unit(record["unit"])
        case "RangeIndex":
            return pandas.RangeIndex(labels[0], labels[0] + record["step"], record["step"], name=name)
    return pandas.Index(labels, name=name)


@shown_as_table
class SeriesForecast:
    r"""Forecast of the next rows of a sequence, with its uncertainty.

    .. math:: y_{T+h} \mid y_{1:T} \sim N(C m_h + c, \; C P_h C^\top + R)

    The result of ``LinearDynamicalSystem.forecast``. If the sequence is a dataframe, means, standard deviations and
    intervals are dataframes that continue its time index. ``print`` and a notebook show means with intervals, one line
    for each step; ``to_frame()`` has one line for each step and feature.

    Attributes
    ----------
    mean : array or dataframe (horizon, n_features)
        Expected value of each cell.
    std : array or dataframe (horizon, n_features)
        Standard deviation of each cell, including the noise.
    covariance : ndarray (horizon, n_features, n_features)
        Covariance of the features at each step.
    state_mean : ndarray (horizon, q)
        Expected state at each step.
    state_covariance : ndarray (horizon, q, q)
        Covariance of the state at each step.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from probpca import LinearDynamicalSystem
    >>> level = np.cumsum(np.random.default_rng(0).standard_normal(120))
    >>> months = pd.period_range("2015-01", periods=120, freq="M")
    >>> Y = pd.DataFrame({"north": level, "south": 10 - level}, index=months)
    >>> LinearDynamicalSystem(n_components=1, random_state=0).fit(Y).forecast(3)
    Forecast of 3 steps x 2 features: mean and 95% interval
    time                    north                    south
    2025-01  9.64 (7.59 to 11.70)  0.356 (-1.700 to 2.411)
    2025-02  9.54 (6.66 to 12.43)  0.455 (-2.425 to 3.336)
    2025-03  9.45 (5.95 to 12.94)  0.553 (-2.943 to 4.048)
    """

    def __init__(self, found: Forecast, table: Remembered, feature_names: Any) -> None:
        """Store the forecast, the form of the table that it continues, and the names of its features."""
        self._found, self._table = found, table
        self._names = Names(tuple(map(str, feature_names)), table.following(len(found.mean)), table.backend)
        self.state_mean, self.state_covariance = found.state_mean, found.state_covariance

    @property
    def mean(self) -> Any:
        """Expected value of each cell: an array or dataframe (horizon, n_features)."""
        return self._table.frame(self._found.mean)

    @property
    def std(self) -> Any:
        """Standard deviation of each cell, including the noise: an array or dataframe (horizon, n_features)."""
        return self._table.frame(self._found.std)

    @property
    def covariance(self) -> Array:
        """Covariance of the features at each step: (horizon, n_features, n_features)."""
        return self._found.covariance

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Prediction intervals of each cell.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval contains the future value.

        Returns
        -------
        low, high : arrays or dataframes of shape (horizon, n_features)
            Lower and upper ends.
        """
        low, high = self._found.interval(level)
        return self._table.frame(low), self._table.frame(high)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Return the forecast as columns with one entry for each step and feature.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        dict of str to array
            Columns "time", "feature", "mean", "std", "low" and "high", each of length horizon * n_features.
        """
        low, high = self._found.interval(level)
        found = self._found
        return self._names.long_columns("time", mean=found.mean, std=found.std, low=low, high=high)

    def to_frame(self, level: float = 0.95, *, backend: str | None = None) -> Any:
        """Return a dataframe with one line for each step and feature: time, feature, mean, std, low and high.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.
        backend : "pandas", "polars", "pyarrow" or None, default=None
            Library of the dataframe. None: that of the sequence, or pandas if it is an array.
        """
        return frame_of(self.to_dict(level), backend or self._names.backend)

    def table(self, most: int = FIRST_ROWS, *, level: float = 0.95) -> ResultTable:
        """Means and intervals of the first ``most`` steps, as a table that prints as text or HTML."""
        h, d = self._found.mean.shape
        heading = f"Forecast of {several(h, 'step')} x {several(d, 'feature')}: mean and {100 * level:.4g}% interval"
        ends = self._found.interval(level)
        return interval_table(heading, ("time", "step"), self._names, (self._found.mean, *ends), most)
