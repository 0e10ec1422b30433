"""Time series in, time series out: lists of sequences, and the time index that a forecast continues."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils.validation import validate_data

from probpca.blocks.block import unmasked
from probpca.blocks.sequences import as_sequences, is_several
from probpca.errors import FileFormatError
from probpca.estimators.base import like, rounded, table_of
from probpca.sources.readers.frames import is_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.blocks import Sequences
    from probpca.inference.time_series.prediction import Forecast
    from probpca.typing import Array


def checked(estimator: Any, X: Any, inputs: Any = None, *, reset: bool = False) -> Sequences:
    """Return sequences after scikit-learn's checks of shape and names; NaN is a missing cell."""
    options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    if not is_several(X):
        least = 3 if reset else 1
        rows = validate_data(estimator, unmasked(X), reset=reset, ensure_min_samples=least, **options)
        return as_sequences(rows, None, inputs)
    tables = [validate_data(estimator, unmasked(x), reset=reset and k == 0, **options) for k, x in enumerate(X)]
    return as_sequences(tables, None, inputs)


def answer(X: Any, found: Any, wrap: Callable[[Any, Any], Any] | None = None) -> Any:
    """Return an array with a row per step, cut into a list if ``X`` is a list of sequences; ``wrap`` gives the form."""
    if not is_several(X):
        return found if wrap is None else wrap(X, found)
    parts = np.split(found, np.cumsum([len(x) for x in X])[:-1])
    return parts if wrap is None else [wrap(x, part) for x, part in zip(X, parts, strict=True)]


def in_precision_of(X: Any, values: Array) -> Any:
    """Round the values to float32 if all cells of ``X`` are float32."""
    if is_frame(X):
        kinds = nw.from_native(X, eager_only=True).schema.values()
        single = all(kind == nw.Float32 for kind in kinds)
    else:
        single = getattr(X, "dtype", None) == np.float32
    return rounded(values, np.float32 if single else np.float64)


def in_form_of(X: Any, values: Array) -> Any:
    """Return the values in the precision of ``X``, and as a dataframe if ``X`` is one."""
    return like(X, in_precision_of(X, values))


class Remembered(NamedTuple):
    """What a forecast needs to know of a training table: its kind, its columns, and how its time index continues."""

    backend: Any = None  # the library of the dataframe; None for an array
    columns: Any = None
    index: Any = None  # of pandas; from a file a record of its last labels
    length: int = 0  # number of rows

    @classmethod
    def of(cls, X: Any) -> Remembered:
        """Look at a table."""
        if nw.dependencies.is_pandas_dataframe(X):
            return cls("pandas", X.columns, X.index, len(X))
        if nw.dependencies.is_into_dataframe(X):
            frame = nw.from_native(X, eager_only=True)
            return cls(frame.implementation.value, frame.columns, None, len(frame))
        return cls()

    def record(self) -> dict[str, Any]:
        """Return what JSON can hold of this; an index that cannot be continued from a file is an error."""
        columns = None if self.columns is None else [name if type(name) is int else str(name) for name in self.columns]
        index = self.index if self.index is None or isinstance(self.index, dict) else _index_record(self.index)
        return {"backend": self.backend, "columns": columns, "index": index, "length": self.length}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Remembered:
        """Read what ``record`` returned; the index is made when a forecast needs it."""
        return cls(**record)

    def frame(self, values: Array) -> Any:
        """Return the rows of a forecast in the form of the table that they continue."""
        if self.backend is None:
            return values
        if self.backend == "pandas":
            known = _index(self.index) if isinstance(self.index, dict) else self.index
            index = _following(known, self.length, len(values))
            return import_module("pandas").DataFrame(values, index=index, columns=self.columns)
        return table_of(values, self.columns, self.backend)


def _following(index: Any, length: int, n: int) -> Any:
    """Return the n labels after an index, by its frequency or the difference of its last two; else row numbers."""
    pandas = import_module("pandas")
    step = None if index is None else _step(index)
    if step is None:
        return pandas.RangeIndex(length, length + n)
    labels = [index[-1] + step]
    for _ in range(n - 1):
        labels.append(labels[-1] + step)
    return pandas.Index(labels[:n], name=index.name)


def _step(index: Any) -> Any:
    """The step from each label of a pandas index to the next; None if there is none."""
    pandas = import_module("pandas")
    if isinstance(index, pandas.DatetimeIndex) and index.freq is None:
        index = pandas.DatetimeIndex(index, freq="infer")
    step = getattr(index, "freq", getattr(index, "step", None))
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


class SeriesForecast:
    """Forecast of the next rows of a sequence; of a dataframe, a dataframe with a time index.

    Attributes
    ----------
    mean, std : (horizon, n_features)
    covariance : ndarray (horizon, n_features, n_features)
    state_mean, state_covariance : ndarray (horizon, q) and (horizon, q, q)
    """

    def __init__(self, found: Forecast, table: Remembered) -> None:
        """Store the forecast and the form of the table that it continues."""
        self._found, self._table = found, table
        self.state_mean, self.state_covariance = found.state_mean, found.state_covariance

    @property
    def mean(self) -> Any:
        """Expected value of each cell of the next rows."""
        return self._table.frame(self._found.mean)

    @property
    def std(self) -> Any:
        """Standard deviation of each cell, noise included."""
        return self._table.frame(self._found.std)

    @property
    def covariance(self) -> Array:
        """Covariance of each row."""
        return self._found.covariance

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of intervals that contain each cell with probability ``level``."""
        low, high = self._found.interval(level)
        return self._table.frame(low), self._table.frame(high)
