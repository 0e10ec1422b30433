"""Backtests: forecasts from several origins in the past, compared with what came and with naive forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.cached_property import cached_property
from probpca.result_tables import (
    FIRST_ROWS,
    Column,
    Names,
    ResultTable,
    Section,
    frame_of,
    rest,
    several,
    shown_as_table,
    words,
)

if TYPE_CHECKING:
    from probpca.typing import Array

METHODS = ("model", "naive", "seasonal_naive", "drift")
"""The forecasts that are compared, the one of the model first."""
TITLES = {"model": "model", "naive": "naive", "seasonal_naive": "seasonal naive", "drift": "drift"}
CLOSER = 1.05
"""Error of the model, relative to that of a simple rule, from which on the rule is called closer."""
LOW_COVERAGE = 0.85
"""Share of values within 95 % intervals below which they are called too narrow."""


def naive_forecasts(past: Array, horizon: int, period: int = 1) -> dict[str, Array]:
    """Forecasts without a model: the last value, that of the last season, and the line through first and last.

    Missing values are skipped: the last observed value counts, and that of an earlier season. NaN for a feature without
    any observed value: (horizon, d) each.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import naive_forecasts
    >>> past = np.array([[1.0], [5.0], [2.0], [7.0], [np.nan]])
    >>> {name: forecast.ravel().tolist() for name, forecast in naive_forecasts(past, 2, period=2).items()}
    {'naive': [7.0, 7.0], 'seasonal_naive': [7.0, 2.0], 'drift': [11.0, 13.0]}
    """
    n, d = past.shape
    seen = ~np.isnan(past)
    some = seen.any(axis=0)
    last = n - 1 - seen[::-1].argmax(axis=0)  # (d,)
    first = seen.argmax(axis=0)
    columns = np.arange(d)
    level = np.where(some, past[last, columns], np.nan)
    rise = np.where(last > first, (level - past[first, columns]) / np.maximum(last - first, 1), 0.0)
    ahead = np.arange(1, horizon + 1)[:, None]
    steps = n - 1 + ahead - last  # from the last observed value: (horizon, d)
    return {
        "naive": np.repeat(level[None], horizon, axis=0),
        "seasonal_naive": _seasonal(past, level, horizon, period),
        "drift": level + rise * steps,
    }


def _seasonal(past: Array, level: Array, horizon: int, period: int) -> Array:
    """The latest observed value of the same phase of the season; the last value where there is none."""
    found = np.repeat(level[None], horizon, axis=0)
    if period < 2:
        return found
    for phase in range(min(period, horizon)):
        same = past[(len(past) + phase) % period :: period]
        seen = ~np.isnan(same)
        some = seen.any(axis=0)
        at = len(same) - 1 - seen[::-1].argmax(axis=0) if len(same) else np.zeros(past.shape[1], int)
        values = same[at, np.arange(past.shape[1])] if len(same) else level
        found[phase::period] = np.where(some, values, level)
    return found


@shown_as_table
@final
@dataclass(frozen=True, eq=False, repr=False)
class Backtest:
    r"""Forecasts from several origins in the past, compared with the values that came, and with naive forecasts.

    The error of a method is the root of its mean squared error over all origins and steps ahead. Relative errors are
    divided by that of the naive forecast, which repeats the last value; below 1 is better than naive.

    ``print`` and a notebook show one line for each feature; ``BacktestDisplay.from_backtest`` draws it.

    Attributes
    ----------
    actual : ndarray (k, horizon, d)
        Values that came, of k forecasts: one for each origin and sequence; NaN if missing.
    forecasts : dict of str to ndarray (k, horizon, d)
        Forecasts of each method: "model", "naive", "seasonal_naive" and "drift".
    low, high : ndarray (k, horizon, d)
        Prediction intervals of the model.
    origins : ndarray of int (k,)
        Number of steps of its sequence that each forecast has seen.
    sequences : ndarray of int (k,)
        Position of the sequence of each forecast.
    level : float
        Probability of the intervals.
    period : int
        Steps of the season of "seasonal_naive"; 1 without a season.
    span : str
        The time that was forecast, in words, such as "the last 24 months".
    rows : list of ndarray (n, d)
        The sequences, with empty rows at steps without a row.
    times : list of ndarray (n,)
        Times of these steps: dates, or numbers.
    names : Names
        Names of the features, and the library of the table.
    """

    actual: Array
    forecasts: dict[str, Array]
    low: Array
    high: Array
    origins: Array
    sequences: Array
    level: float
    period: int
    span: str
    rows: list[Array]
    times: list[Any]
    names: Names

    @property
    def horizon(self) -> int:
        """Number of steps of each forecast."""
        return self.actual.shape[1]

    @property
    def n_origins(self) -> int:
        """Number of forecasts."""
        return len(self.actual)

    @cached_property
    def errors(self) -> dict[str, Array]:
        """Values that came minus forecasts of each method, NaN if missing: (k, horizon, d) each."""
        return {name: self.actual - found for name, found in self.forecasts.items()}

    @cached_property
    def rmse(self) -> dict[str, Array]:
        """Root of the mean squared error of each method and feature; NaN for features without values: (d,) each."""
        return {name: np.sqrt(_means(np.square(error), (0, 1))) for name, error in self.errors.items()}

    @cached_property
    def relative(self) -> dict[str, Array]:
        """Errors of each method and feature divided by those of the naive forecast; NaN if that has none: (d,) each."""
        naive = self.rmse["naive"]
        known = naive > 0
        return {
            name: np.divide(error, naive, out=np.full(naive.shape, np.nan), where=known)
            for name, error in self.rmse.items()
        }

    @cached_property
    def relative_error(self) -> dict[str, float]:
        """Geometric mean of the relative errors of all features, of each method; NaN if there is none."""
        return {name: _geometric_mean(values) for name, values in self.relative.items()}

    @cached_property
    def coverage(self) -> Array:
        """Share of the values that lie within the intervals of the model, of each feature: (d,)."""
        inside = (self.low <= self.actual) & (self.actual <= self.high)
        return _means(np.where(np.isnan(self.actual), np.nan, inside), (0, 1))

    @property
    def mean_coverage(self) -> float:
        """Share of all values that lie within the intervals of the model."""
        known = ~np.isnan(self.actual)
        inside = (self.low <= self.actual) & (self.actual <= self.high)
        return float(inside[known].mean()) if known.any() else float("nan")

    @property
    def by_step(self) -> dict[str, Array]:
        """Relative errors of each method at each step ahead, geometric mean over features: (horizon,) each."""
        rmse = {name: np.sqrt(_means(np.square(error), 0)) for name, error in self.errors.items()}
        naive = np.where(rmse["naive"] > 0, rmse["naive"], np.nan)
        return {name: np.array([_geometric_mean(row) for row in found / naive]) for name, found in rmse.items()}

    def sentence(self) -> str:
        """The result in one sentence."""
        error, share = self.relative_error["model"], 100 * self.mean_coverage
        off = "had no error to compare with" if np.isnan(error) else f"was off by {error:.2f} of the naive forecast"
        return f"on {self.span} this model {off}; its {100 * self.level:g}% intervals held {share:.0f}%."

    @property
    def notes(self) -> tuple[str, ...]:
        """What speaks against relying on the forecasts, in sentences; empty if nothing does."""
        found, errors = [], self.relative_error
        rivals = {name: errors[name] for name in METHODS[1:] if np.isfinite(errors[name])}
        if rivals and errors["model"] > CLOSER * min(rivals.values()):
            best = min(rivals, key=lambda name: rivals[name])
            what = {"naive": "repeating the last value", "seasonal_naive": "repeating the last season"}
            better = what.get(best, "a straight line from the first to the last value")
            found.append(f"{better} was closer than the model ({rivals[best]:.2f} v {errors['model']:.2f}).")
        wanted = LOW_COVERAGE * self.level / 0.95
        if self.mean_coverage < wanted:
            share = 100 * self.mean_coverage
            found.append(f"the {100 * self.level:g}% intervals are too narrow: they held {share:.0f}% of the values.")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return columns with one entry for each feature: its errors by method, and the coverage of the model.

        Returns
        -------
        dict of str to array
            Columns "feature", "relative_error", "coverage", and "rmse_model", "rmse_naive", ... in units of the data.
        """
        rmse = {f"rmse_{name}": values for name, values in self.rmse.items()}
        features = np.array(self.names.column_names(self.actual.shape[2]), dtype=object)
        return {"feature": features, "relative_error": self.relative["model"], "coverage": self.coverage, **rmse}

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a dataframe with one line for each feature, with the columns of ``to_dict``.

        Parameters
        ----------
        backend : "pandas", "polars", "pyarrow" or None, default=None
            Library of the dataframe. None: that of the table, or pandas if it is an array.
        """
        return frame_of(self.to_dict(), backend or self.names.backend)

    def table(self, most: int = FIRST_ROWS) -> ResultTable:
        """Relative errors and coverage of the first ``most`` features, as a table that prints as text or HTML."""
        d = self.actual.shape[2]
        shown = [name for name in METHODS if name != "seasonal_naive" or self.period > 1]
        features = self.names.column_names(d)[:most]
        total = ["all"] if d > 1 else []
        columns = [words("feature", [*features, *total])]
        for name in shown:
            values = [*self.relative[name][:most], *([self.relative_error[name]] * len(total))]
            columns.append(_relative(TITLES[name], values))
        held = [*self.coverage[:most], *([self.mean_coverage] * len(total))]
        columns.append(Column("coverage", ["" if np.isnan(share) else f"{100 * share:.0f}%" for share in held]))
        heading = f"Backtest: {several(self.n_origins, 'forecast')} of {several(self.horizon, 'step')}, errors / naive"
        sentence = self.sentence()
        remarks = (*rest(d - most, "more feature"), sentence[0].upper() + sentence[1:], *self.notes)
        return ResultTable((Section(heading, tuple(columns), remarks),))


def _relative(title: str, values: Any) -> Column:
    return Column(title, ["" if np.isnan(value) else f"{value:.2f}" for value in values])


def _means(values: Any, axes: Any) -> Array:
    """Mean over some axes without NaN; NaN if there is nothing else."""
    known = ~np.isnan(values)
    count = known.sum(axis=axes)
    total = np.where(known, values, 0.0).sum(axis=axes)
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)


def _geometric_mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(known).mean())) if known.size else float("nan")
