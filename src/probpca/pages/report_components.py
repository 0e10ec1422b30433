"""What the components of a report are: loadings with intervals, shares of the variance, and a sentence for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.inputs import eigenvalue_shares, has_factors
from probpca.errors import DataError
from probpca.learning.uncertainty.estimate import largest_first
from probpca.pages.page import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.learning.uncertainty.estimate import ParameterUncertainty
    from probpca.pages.page import Table
    from probpca.typing import Array, Index


@dataclass(frozen=True)
class ComponentSettings:
    """How components are described, and how much work may go into it."""

    level: float = 0.95  # of intervals of loadings
    n_draws: int = 100  # resampled fits behind these intervals
    fewest_draws: int = 30  # fewer give no reliable interval
    most_resampled: int = 20_000_000  # cells that all resampled fits together may read
    most_read: int = 100_000_000  # cells that the standard errors of factors may read if some are missing
    most_eigenvalues: int = 1_000  # of the smaller side of a table whose eigenvalues are computed
    most_loadings: int = 25  # of one component in its chart
    most_named: int = 6  # columns in the sentence about a component
    named_from: float = 0.5  # they have at least this share of the largest loading
    level_from: float = 0.4  # loadings of one sign, all at least this share of the largest, are an overall level
    small_loading: float = 0.3  # standardized loadings below it are pale in the table of all loadings
    poor_rmsea: float = 0.1  # root mean square error of approximation from which on more factors are advised


class Loadings(NamedTuple):
    """Loadings of all components with the ends of their intervals."""

    values: Array  # (d, q)
    low: Array | None  # (d, q)
    high: Array | None
    how: str  # a sentence about the intervals, or why there are none

    @property
    def sure(self) -> Any:
        """Which loadings differ from zero, as far as their intervals say; all of them without intervals: (d, q)."""
        if self.low is None or self.high is None:
            return self.values != 0
        return ~((self.low <= 0) & (self.high >= 0))


class Shares(NamedTuple):
    """Share of the variance that each of all components explains."""

    values: Array  # those of the model first: (m,)
    how: str  # a sentence about the components that the model does not keep; empty if their shares are exact


def loadings_of(estimator: Any, X: Any, table: Table, settings: ComponentSettings, *, training: bool) -> Loadings:
    """Loadings with intervals: from resampled rows of the fit, or from large-sample formulas."""
    if has_factors(estimator):
        return _factor_loadings(estimator, X, table, settings, training=training)
    values = np.asarray(estimator.loadings_)
    if not hasattr(type(estimator), "uncertainty"):
        kind = type(estimator).__name__
        return Loadings(values, None, None, f"Intervals of the loadings are not available for {kind}.")
    draws = min(settings.n_draws, settings.most_resampled // table.cells.size)
    resample = training and draws >= settings.fewest_draws
    try:
        sure = estimator.uncertainty(X, n_draws=draws, random_state=0) if resample else estimator.uncertainty()
    except DataError as error:
        reason = str(error).partition("\n")[0]
        return Loadings(values, None, None, f"Intervals of the loadings are not shown: {reason}")
    low, high = sure.loadings.interval(settings.level)
    return Loadings(values, low, high, _how(sure, settings))


def _how(sure: ParameterUncertainty, settings: ComponentSettings) -> str:
    method = f"{sure.n_draws} fits to resampled rows" if sure.n_draws else "large-sample formulas"
    return f"Lines are {100 * settings.level:g}% intervals ({method}); pale bars have an interval that includes zero."


def _factor_loadings(estimator: Any, X: Any, table: Table, settings: ComponentSettings, *, training: bool) -> Loadings:
    """Standardized loadings of factors with intervals by the information of the likelihood.

    With missing cells the information needs the training rows, and about 2 d (q + 2) passes over them.
    """
    values = np.asarray(estimator.standardized_loadings_)
    work = 2 * len(values) * (values.shape[1] + 2) * table.cells.size
    incomplete = training and bool(np.isnan(table.cells).any())
    if incomplete and work > settings.most_read:
        return Loadings(values, None, None, "Intervals of the loadings are not shown: the table is large.")
    rows = X if incomplete else None
    try:
        sure = estimator.uncertainty(rows)
    except DataError as error:
        reason = str(error).partition("\n")[0]
        return Loadings(values, None, None, f"Intervals of the loadings are not shown: {reason}")
    low, high = sure.loadings.interval(settings.level)
    said = f"Lines are {100 * settings.level:g}% intervals ({sure.information} information)"
    none = " Heywood cases have no intervals." if sure.n_fixed else ""
    return Loadings(values, low, high, f"{said}; pale bars have an interval that includes zero.{none}")


def shares_of(estimator: Any, cells: Array, settings: ComponentSettings) -> Shares:
    """Shares of the variance of all components, those of the model first; of factors those of the model only.

    The rest is divided as the eigenvalues of the rows are, if these agree with the model: complete rows of the fit.
    Otherwise each of the other components has their average.
    """
    kept = np.asarray(estimator.explained_variance_ratio_)
    if has_factors(estimator):
        return Shares(kept, "")
    n, d = cells.shape
    rest = max(1.0 - float(kept.sum()), 0.0)
    if not np.isnan(cells).any() and min(n, d) <= settings.most_eigenvalues:
        found = eigenvalue_shares(cells if estimator.scale_ is None else cells / estimator.scale_)
        if found.size >= kept.size and np.allclose(found[: kept.size], kept, atol=0.02):
            others = found[kept.size :]
            total = float(others.sum())
            return Shares(np.append(kept, others * (rest / total) if total > 0 else others), "")
    why = "cells are missing" if np.isnan(cells).any() else "the model was not fitted to exactly these rows"
    if min(n, d) > settings.most_eigenvalues:
        why = "the table is large"
    how = f"The bars after the line show the average of the other components, because {why}."
    return Shares(np.append(kept, np.full(d - kept.size, rest / max(d - kept.size, 1))), how)


class Meaning(NamedTuple):
    """Columns that say what a component is."""

    high: list[int]  # columns that are high where the component is high, largest loadings first
    low: list[int]  # columns that are low there
    level: bool = False  # do all columns rise and fall together?


def meaning_of(loadings: Loadings, k: int, settings: ComponentSettings) -> Meaning:
    """The columns with the largest loadings of component k that differ from zero."""
    w, sure = loadings.values[:, k], loadings.sure[:, k]
    largest = np.abs(w).max(initial=0.0)
    same_sign = (w > 0).all() or (w < 0).all()
    if w.size > 2 and largest > 0 and same_sign and np.abs(w).min() >= settings.level_from * largest:
        return Meaning([], [], level=True)
    important = [int(j) for j in largest_first(w, w.size) if sure[j] and abs(w[j]) >= settings.named_from * largest]
    return Meaning([j for j in important if w[j] > 0], [j for j in important if w[j] < 0])


def meaning_in_words(meaning: Meaning, features: Sequence[str], settings: ComponentSettings) -> str:
    """What a component is, as the end of a sentence that begins with its name."""
    if meaning.level:
        return f"the overall level: all {len(features):,} columns are high together, or low together"
    high, low = meaning.high, meaning.low
    if not high and not low:
        return "no column stands out: none of its loadings clearly differs from zero"
    most = settings.most_named
    n_high = min(len(high), most - min(len(low), most // 3))
    sides = (high, n_high, "high"), (low, min(len(low), most - n_high), "low")
    parts = [f"{_named(columns, count, features)} {side}" for columns, count, side in sides if columns]
    return f"high where {' and '.join(parts)}"


def _named(columns: list[int], count: int, features: Sequence[str]) -> str:
    """The first ``count`` columns by name, and how many more; a run of neighbours by its ends."""
    ends = min(columns), max(columns)
    if len(columns) > max(count, 2) and ends[1] - ends[0] + 1 == len(columns):
        return f"{features[ends[0]]} to {features[ends[1]]} are"
    names = [features[j] for j in columns[:count]]
    if len(columns) > count:
        names.append(f"{len(columns) - count:,} more")
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"


def loadings_data(loadings: Loadings, settings: ComponentSettings) -> list[dict[str, Any]]:
    """The largest loadings of each component, for the scripts of the page."""
    return [_component_data(loadings, k, settings) for k in range(loadings.values.shape[1])]


def _component_data(loadings: Loadings, k: int, settings: ComponentSettings) -> dict[str, Any]:
    columns: Index = largest_first(loadings.values[:, k], settings.most_loadings)
    out = {"columns": columns.tolist(), "values": rounded(loadings.values[columns, k], 5)}
    if loadings.low is None or loadings.high is None:
        return out
    return out | {"low": rounded(loadings.low[columns, k], 5), "high": rounded(loadings.high[columns, k], 5)}
