"""Time series in, time series out: names, indices and lists of sequences."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils.validation import validate_data

from probpca.blocks.sequences import as_sequences, is_several
from probpca.estimators.frames import table_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.blocks import Sequences
    from probpca.inference.time_series.prediction import Forecast
    from probpca.typing import Array


def checked(estimator: Any, X: Any, inputs: Any = None, *, reset: bool = False) -> Sequences:
    """Sequences that scikit-learn's checks have looked at; NaN is a cell that was not observed."""
    options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    if not is_several(X):
        least = 3 if reset else 1
        return as_sequences(validate_data(estimator, X, reset=reset, ensure_min_samples=least, **options), None, inputs)
    tables = [validate_data(estimator, x, reset=reset and k == 0, **options) for k, x in enumerate(X)]
    return as_sequences(tables, None, inputs)


def answer(rows: Sequences, X: Any, found: Any, wrap: Callable[[Any, Any], Any] | None = None) -> Any:
    """Something with an entry per step, cut into sequences if several were given, each as its sequence came."""
    parts = rows.split(found) if is_several(X) else [found]
    given = X if is_several(X) else [X]
    wrapped = parts if wrap is None else [wrap(x, part) for x, part in zip(given, parts, strict=True)]
    return list(wrapped) if is_several(X) else wrapped[0]


class Remembered(NamedTuple):
    """What a forecast has to know of a dataframe: its kind, its columns, and where its time goes on."""

    backend: Any  # None: an array
    columns: Any
    index: Any  # the last labels of a pandas index

    @classmethod
    def of(cls, X: Any) -> Remembered:
        """Look at a table."""
        if nw.dependencies.is_pandas_dataframe(X):
            return cls("pandas", X.columns, X.index)
        if nw.dependencies.is_into_dataframe(X):
            frame = nw.from_native(X, eager_only=True)
            return cls(frame.implementation, frame.columns, None)
        return cls(None, None, None)

    def frame(self, values: Array) -> Any:
        """The rows that follow, as the table that they follow."""
        if self.backend is None:
            return values
        if self.index is not None:
            index = _following(self.index, len(values))
            return sys.modules["pandas"].DataFrame(values, index=index, columns=self.columns)
        return table_of(values, self.columns, self.backend)


def _following(index: Any, n: int) -> Any:
    """The n labels after an index: at its frequency, or as far apart as its last two; else counted on."""
    pandas = sys.modules["pandas"]
    if isinstance(index, pandas.DatetimeIndex) and index.freq is None:
        index = pandas.DatetimeIndex(index, freq="infer")
    step = getattr(index, "freq", getattr(index, "step", None))
    last, labels = index[-1], []
    try:
        step = index[-1] - index[-2] if step is None else step
        for _ in range(n):
            last = last + step
            labels.append(last)
    except (IndexError, TypeError):  # one label, or labels that no step leads from
        return pandas.RangeIndex(len(index), len(index) + n)
    return pandas.Index(labels, name=index.name)


class SeriesForecast:
    """The next rows of a sequence, as a dataframe with a time index if it came as one.

    Attributes
    ----------
    mean, std : (horizon, n_features)
    covariance : ndarray (horizon, n_features, n_features)
    state_mean, state_covariance : ndarray (horizon, q) and (horizon, q, q)
    """

    def __init__(self, found: Forecast, table: Remembered) -> None:
        """Remember what was found, and how to tell it."""
        self._found, self._table = found, table
        self.state_mean, self.state_covariance = found.state_mean, found.state_covariance

    @property
    def mean(self) -> Any:
        """Expected rows."""
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
        """Lower and upper ends that hold each cell with probability ``level``."""
        low, high = self._found.interval(level)
        return self._table.frame(low), self._table.frame(high)
