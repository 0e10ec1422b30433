"""Correlations of the columns of a complete or incomplete table, for parallel analysis."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import eigvalsh

from probpca.learning.complete.dense import Gram
from probpca.learning.complete.leading_spectrum import leading_pairs
from probpca.learning.describe import Description, column_std
from probpca.learning.selection.criteria import Curve, n_above
from probpca.learning.selection.parallel_analysis import Correlations, parallel_analysis
from probpca.learning.settings import ParallelSettings
from probpca.statistics import Moments, Pairs, Root

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.learning.settings import Settings
    from probpca.statistics import ColumnSummary
    from probpca.typing import Array, Index


class Parallel(NamedTuple):
    """Number of components chosen by parallel analysis."""

    n_components: int  # 1 if the correlations do not exceed chance
    curve: Curve
    notes: tuple[str, ...]  # remarks on the choice


def count_by_parallel(
    correlations: Correlations, limit: int, settings: ParallelSettings = ParallelSettings()
) -> Parallel:
    """Number of leading eigenvalues above chance, at most ``limit``, with remarks on the choice."""
    n, d, notes = correlations.n_rows, correlations.n_features, correlations.notes
    curve, first = Curve(np.ones(1, np.intp), np.zeros(1)), 0.0
    if d > 1:
        curve, values = parallel_analysis(correlations, int(max(min(limit, d - 1, n - 2), 1)), settings)
        first = float(values[0])
    if curve.score[0] <= 1:
        notes = ("The correlations do not exceed chance; the minimum of one is fitted.", *notes)
    elif d > 2 and first > settings.general_factor * d:
        dominant = (
            "The first component is so large that parallel analysis may miss weaker ones: compare other criteria."
        )
        notes = (dominant, *notes)
    return Parallel(n_above(curve), curve, notes)


def choose_by_correlations(
    table: Description, settings: Settings, rng: np.random.Generator, limit: int | None = None
) -> Parallel:
    """Number of components of a table by parallel analysis, at most ``limit`` or the limit in the settings."""
    most = settings.search.complete if limit is None else limit
    return count_by_parallel(correlations_of(table, settings, rng), most, settings.parallel)


def correlations_of(table: Description, settings: Settings, rng: np.random.Generator) -> Correlations:
    """Correlations of the columns that are not constant, from the sums of the first pass if they suffice."""
    deviation = column_std(table.sums)
    if table.complete:
        return _of_complete(table, deviation, settings, rng)
    if table.source.n_features <= settings.parallel.most_pairs:
        return pair_correlations(table.source.fold(partial(Pairs.of, table.sums.mean)), table.sums, deviation > 0)
    filled = Description(table.source.centred_and_filled(table.sums.mean), None, complete=True)
    summary = filled.summarise()
    return _of_complete(replace(filled, sums=summary), column_std(summary), settings, rng)


def correlations_of_moments(moments: Moments) -> Correlations:
    """Correlations of the columns of complete rows that are not constant, from their moments."""
    deviation = column_std(moments)
    kept = np.flatnonzero(deviation > 0)
    matrix = moments.covariance[np.ix_(kept, kept)] / np.outer(deviation[kept], deviation[kept])

    def leading(k: int) -> Array:
        values = eigvalsh(matrix, subset_by_index=[kept.size - k, kept.size - 1], check_finite=False)
        return np.asarray(np.maximum(values[::-1], 0.0))

    return Correlations(moments.weight, kept.size, leading)


def _of_complete(table: Description, deviation: Array, settings: Settings, rng: np.random.Generator) -> Correlations:
    """Eigenvalues of the correlations of complete rows, by the eigensolver that the sums of the first pass suit."""
    varies = deviation > 0
    sums, source = table.sums, table.source
    if (np.abs(deviation[varies] - 1) > 1e-6).any() or not varies.all():
        scale = np.divide(1.0, deviation, out=np.zeros(deviation.size), where=varies)
        source = source.scaled(scale)
        sums = None if isinstance(sums, Gram) else sums.rescaled(scale)
    solver = {Moments: "covariance", Root: "svd", Gram: "gram"}.get(type(table.sums), "auto")
    # A hundredth of a nat per row is a thousandth of an eigenvalue near the noise, accurate enough here.
    settings = replace(settings, solver=solver, tol=max(0.01 * table.total_weight, 1.0))
    scaled = Description(source, sums, complete=True)

    def leading(k: int) -> Array:
        return leading_pairs(scaled, k, settings, rng).values

    return Correlations(table.total_weight, int(varies.sum()), leading)


def pair_correlations(pairs: Pairs, summary: ColumnSummary, varies: npt.NDArray[np.bool_]) -> Correlations:
    r"""Pairwise correlations over the rows in which both columns were observed, scaled to equal uncertainty.

    With :math:`\rho_j` the observed share of column j and :math:`n_{jk}` the number of rows with both,

    .. math::
        M_{jk} = \sqrt{\rho_j \rho_k} \, R_{jk}, \quad M_{jj} = 1, \qquad
        n_e^{-1} = \operatorname{mean}_{j \ne k} \rho_j \rho_k / n_{jk}

    The variance of :math:`M_{jk}` is about :math:`\rho_j \rho_k / n_{jk}`, nearly the same for all pairs however
    unevenly cells are missing, and M has as many components as R. It is compared with :math:`n_e` complete rows. M
    need not be positive definite, because only its largest eigenvalues are used.
    """
    kept = np.flatnonzero(varies)
    counts, products = pairs.counts[np.ix_(kept, kept)], pairs.products[np.ix_(kept, kept)]
    share = summary.observed[kept] / summary.total_weight
    std = np.sqrt(np.diag(products) / np.diag(counts))
    weight = np.outer(share, share)
    mean_product = np.divide(products, counts, out=np.zeros_like(products), where=counts > 0)
    matrix = np.sqrt(weight) * mean_product / np.outer(std, std)
    np.fill_diagonal(matrix, 1.0)
    apart = ~np.eye(kept.size, dtype=bool)
    met = apart & (counts > 0)
    noise = weight[met] / counts[met]
    n = max(1 / float(noise.mean()), 3.0) if noise.size else 3.0

    def leading(k: int) -> Array:
        d = kept.size
        values = eigvalsh(matrix, subset_by_index=[d - k, d - 1], check_finite=False)
        return np.asarray(np.maximum(values[::-1], 0.0))

    return Correlations(n, kept.size, leading, _about_pairs(apart & ~met, kept))


def _about_pairs(unmet: npt.NDArray[np.bool_], kept: Index) -> tuple[str, ...]:
    """Note about pairs of columns that were never observed together; empty if there are none."""
    number = int(unmet.sum()) // 2
    if not number:
        return ()
    first, second = kept[np.argwhere(unmet)[0]]
    pairs = "1 pair of columns was" if number == 1 else f"{number:,} pairs of columns were"
    which = f"{pairs} never observed together (first: columns {first} and {second}, counted from 0)"
    return (f"{which}: parallel analysis may find too many components.",)
