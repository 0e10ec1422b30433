"""The rows that a report shows one by one, and everything that the estimator says about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from probpca.views.pages.asking import model_data, row_data
from probpca.views.pages.packing import packed, packed_bits, rounded
from probpca.views.reading import table_of, taken

if TYPE_CHECKING:
    from probpca.inference.outliers import Outliers
    from probpca.typing import Array, Index
    from probpca.views.pages.asking import Table

MOST_ROWS = 5_000
"""Rows that a page can hold and a person can look through."""
MOST_CELLS = 300_000
"""Cells of these rows: more make a file that is slow to open."""
FEWEST_ROWS = 50
"""Rows that are shown however wide they are."""
MOST_COMPONENTS = 6
"""Components with a posterior covariance: each pair of them is a number for each row."""
LEVEL = 0.95


class RowFacts(NamedTuple):
    """How unusual all rows are, and what else the estimator says about those that have a place in the page."""

    found: Outliers  # of all rows
    score: float  # mean log-likelihood of all rows
    shown: Index  # positions of those shown: (k,)
    values: Array  # completed rows: (k, d)
    std: Array  # of the cells that were filled in, 0 of the others: (k, d)
    latent: Array  # posterior mean: (k, q)
    covariance: Array  # posterior covariance: (k, q, q)

    @property
    def unusual_first(self) -> Index:
        """Positions of all rows, the least believable first: (n,)."""
        return np.argsort(self.found.log10_p_value, kind="stable")


def ask_rows(estimator: Any, X: Any, table: Table) -> RowFacts:
    """Ask how unusual every row is, choose those to show, and ask the rest about them."""
    found, score = estimator.outliers(X), estimator.score(X)
    n, d = table.cells.shape
    shown = choose_rows(found.log10_p_value, d)
    some = X if shown.size == n else taken(X, shown)
    values, std = estimator.impute(some, return_std=True)
    belief = estimator.posterior(some)
    return RowFacts(found, score, shown, table_of(values), table_of(std), belief.mean, belief.covariance)


def choose_rows(log10_p_value: Array, d: int) -> Index:
    """All rows; of too many the most unusual for one half, and of the others as many at random: sorted positions."""
    n = log10_p_value.size
    most = min(MOST_ROWS, max(FEWEST_ROWS, MOST_CELLS // d))
    if n <= most:
        return np.arange(n)
    order = np.argsort(log10_p_value, kind="stable")
    half = most // 2
    others = np.random.default_rng(0).choice(order[half:], most - half, replace=False)
    return np.sort(np.concatenate([order[:half], others]))


def rows_data(table: Table, facts: RowFacts) -> dict[str, Any]:
    """The same for scripts, in little space."""
    missing = np.isnan(table.cells[facts.shown])
    covariance = facts.covariance[:, :MOST_COMPONENTS, :MOST_COMPONENTS]
    shared = facts.covariance.strides[0] == 0  # complete rows share one
    lower = np.tril_indices(covariance.shape[1])
    return {
        **model_data(table),
        **row_data(table, facts.shown),
        "values": packed(table.scaled(facts.values)),
        "missing": packed_bits(missing),
        "std": packed((facts.std / table.scale)[missing]),
        "latent": packed(facts.latent),
        "covariance": packed((covariance[:1] if shared else covariance)[:, lower[0], lower[1]]),
        "width": float(ndtri(0.5 + LEVEL / 2)),
        "radius": float(np.sqrt(-2.0 * np.log(1.0 - LEVEL))),
        **_outlier_data(facts.found, facts.shown),
    }


def _outlier_data(found: Outliers, chosen: Index) -> dict[str, Any]:
    """Distances and probabilities of rows, and the part of each cell."""
    return {
        "distance": rounded(found.distance[chosen]),
        "inside": rounded(found.latent_distance[chosen]),
        "outside": rounded(found.residual_distance[chosen]),
        "p": rounded(found.p_value[chosen]),
        "log10p": rounded(found.log10_p_value[chosen]),
        "insideP": rounded(found.latent_p_value[chosen]),
        "outsideP": rounded(found.residual_p_value[chosen]),
        "contributions": packed(found.contributions[chosen]),
        "scores": packed(found.cell_scores[chosen]),
    }
