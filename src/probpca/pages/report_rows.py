"""The rows of a report: outlier scores, imputed cells and posteriors, and the cells that the page shows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from probpca.displays.inputs import table_of, taken
from probpca.pages.page import model_data, packed, packed_bits, packed_positions, row_data

if TYPE_CHECKING:
    from probpca.inference.mixture_outlier_scores import MixtureOutliers
    from probpca.inference.outlier_scores import Outliers
    from probpca.pages.page import Table
    from probpca.pages.report import ReportSettings
    from probpca.typing import Array, Index


class RowFacts(NamedTuple):
    """Outlier scores of all rows, and imputed values and posteriors of the rows that the page shows."""

    found: Outliers  # of all rows
    score: float  # mean log-likelihood of all rows
    shown: Index  # positions of the rows on the page: (k,)
    columns: Index  # positions of the columns that the page shows of each of them, in order: (k, c)
    values: Array  # completed rows: (k, d)
    std: Array  # standard deviation of imputed cells, 0 of the others: (k, d)
    latent: Array  # posterior mean: (k, q)
    covariance: Array  # posterior covariance: (k, q, q)
    settings: ReportSettings
    training: bool  # whether the rows are those of the fit

    @property
    def n_unusual(self) -> int:
        """Number of rows with a p-value below that of the settings."""
        return int((self.found.p_value < self.settings.p).sum())

    @property
    def by_chance(self) -> float:
        """Number of such rows that chance alone would give."""
        return self.settings.p * self.found.p_value.size

    @property
    def unusual_first(self) -> Index:
        """Positions of all rows, the least probable first: (n,)."""
        return np.argsort(self.found.log10_p_value, kind="stable")


def ask_rows(estimator: Any, X: Any, table: Table, settings: ReportSettings, *, training: bool) -> RowFacts:
    """Score all rows, choose those to show, and impute these."""
    found, score = estimator.outliers(X, training=training), estimator.score(X)
    n, d = table.cells.shape
    shown = choose_rows(found.log10_p_value, settings.limits.rows(n), settings.most_unusual)
    some = X if shown.size == n else taken(X, shown)
    answers = estimator.impute(some, return_std=True, training=training)
    values, std = (table_of(answer) for answer in answers)
    belief = estimator.posterior(some)
    weight = np.where(np.isnan(table.cells[shown]), std / table.scale, np.abs(found.contributions[shown]))
    columns = choose_columns(weight, settings.limits.columns(shown.size, d))
    return RowFacts(found, score, shown, columns, values, std, belief.mean, belief.covariance, settings, training)


def choose_rows(log10_p_value: Array, count: int, most_unusual: int) -> Index:
    """Sorted positions of all rows, or of ``count``: the ``most_unusual`` and a random share of the others."""
    if count >= log10_p_value.size:
        return np.arange(log10_p_value.size)
    order = np.argsort(log10_p_value, kind="stable")
    first = min(most_unusual, count)
    others = np.random.default_rng(0).choice(order[first:], count - first, replace=False)
    return np.sort(np.concatenate([order[:first], others]))


def choose_columns(weight: Array, count: int) -> Index:
    """Sorted positions of the ``count`` columns with the largest weight in each row: (n, count)."""
    n, d = weight.shape
    if count >= d:
        return np.broadcast_to(np.arange(d), (n, d))
    known = np.where(np.isfinite(weight), weight, 0.0)
    return np.sort(np.argpartition(-known, count - 1, axis=1)[:, :count], axis=1)


def rows_data(table: Table, facts: RowFacts) -> dict[str, Any]:
    """Model and rows for the scripts of the page, encoded to save space."""
    shown, columns = facts.shown, facts.columns
    missing = np.take_along_axis(np.isnan(table.cells[shown]), columns, axis=1)
    std = np.take_along_axis(facts.std / table.scale, columns, axis=1)
    most, level = facts.settings.most_components, facts.settings.level
    covariance = facts.covariance[:, :most, :most]
    shared = facts.covariance.strides[0] == 0  # complete rows share one
    lower = np.tril_indices(covariance.shape[1])
    is_whole = columns.shape[1] == len(table.features)
    return {
        **model_data(table),
        **row_data(table, shown),
        "cellsPerRow": columns.shape[1],
        "columns": None if is_whole else packed_positions(columns),
        "values": packed(np.take_along_axis(table.scaled(facts.values), columns, axis=1)),
        "missing": packed_bits(missing),
        "missingCounts": packed_positions(np.isnan(table.cells[shown]).sum(axis=1)),
        "std": packed(std[missing]),
        "latent": packed(facts.latent),
        "covariance": packed((covariance[:1] if shared else covariance)[:, lower[0], lower[1]]),
        "width": float(ndtri(0.5 + level / 2)),
        "radius": float(np.sqrt(-2.0 * np.log(1.0 - level))),
        "inside": packed(facts.found.latent_distance[shown]),
        "outside": packed(facts.found.residual_distance[shown]),
        "insideP": packed(facts.found.latent_p_value[shown]),
        "outsideP": packed(facts.found.residual_p_value[shown]),
        **outlier_data(facts.found, shown, columns),
    }


def outlier_data(found: Outliers | MixtureOutliers, shown: Index, columns: Index) -> dict[str, Any]:
    """Distances and p-values of rows, and the contribution of each cell."""
    return {
        "distance": packed(found.distance[shown]),
        "p": packed(found.p_value[shown]),
        "log10p": packed(found.log10_p_value[shown]),
        "modelP": packed(found.model_p_value[shown]),
        "log10modelP": packed(found.log10_model_p_value[shown]),
        "contributions": packed(np.take_along_axis(found.contributions[shown], columns, axis=1)),
        "scores": packed(np.take_along_axis(found.cell_scores[shown], columns, axis=1)),
    }
