"""Parallel analysis: comparison of the eigenvalues of correlations with those of independent columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal

from probpca.learning.selection.criteria import Curve
from probpca.learning.settings import ParallelSettings
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.typing import Array


class Correlations(NamedTuple):
    """Leading eigenvalues of a correlation matrix, and the size of the table for the comparison."""

    n_rows: float  # number of complete rows whose correlations would be equally uncertain
    n_features: int  # number of features that are not constant
    leading: Callable[[int], Array]  # function that returns the k largest eigenvalues, largest first: (k,)
    notes: tuple[str, ...] = ()  # warnings about the correlations


class Scree(NamedTuple):
    """Leading eigenvalues of a correlation matrix, and those that independent columns have by chance."""

    values: Array  # largest first: (k,)
    by_chance: Array  # 95% quantiles of the eigenvalues of independent columns: (k,)
    n_features: int  # number of features that are not constant, which is the sum of all eigenvalues

    @property
    def n_above(self) -> int:
        """Number of leading eigenvalues that are all above chance."""
        return int(np.append(self.values > self.by_chance, False).argmin())


def scree(correlations: Correlations, count: int, settings: ParallelSettings = ParallelSettings()) -> Scree:
    """The ``count`` largest eigenvalues of the correlations, or all of them, beside their values by chance."""
    n, d, leading, _ = correlations
    k = max(min(count, d, int(n) - 1), 1)
    return Scree(leading(k), null_eigenvalues(n, d, k, settings), d)


def parallel_analysis(
    correlations: Correlations, most: int, settings: ParallelSettings = ParallelSettings()
) -> tuple[Curve, Array]:
    """Ratio of each eigenvalue of the correlations to its value by chance, and the eigenvalues (k,).

    The value by chance is the 95% quantile of the k-th largest eigenvalue in tables of independent normal columns of
    the same size (Horn 1965). It depends on that size alone, so that the result is the same in every call. Components
    are kept up to the first ratio that is not above 1, and at most ``most``.
    """
    n, d, leading, _ = correlations
    k = min(settings.first, most)
    while True:
        values, null = leading(k), null_eigenvalues(n, d, k, settings)
        score = np.divide(values, (1 + settings.rounding) * null, out=np.zeros(k), where=null > 0)
        if k == most or (score <= 1).any():
            return Curve(np.arange(1, k + 1), score), values
        k = min(2 * k, most)


def null_eigenvalues(n: float, d: int, k: int, settings: ParallelSettings = ParallelSettings()) -> Array:
    """Quantiles of the k largest eigenvalues of the correlations of n rows of d independent normal columns: (k,)."""
    rng = np.random.default_rng(settings.seed)
    with one_blas_thread():
        if d > settings.exact:
            drawn = _wishart_eigenvalues(n, d, k, settings, rng)
        else:
            drawn = _correlation_eigenvalues(n, d, settings.draws_of(d), rng)[:, :k]
    return np.asarray(np.quantile(drawn, settings.quantile, axis=0))


def _correlation_eigenvalues(n: float, d: int, draws: int, rng: np.random.Generator) -> Array:
    """All eigenvalues of correlation matrices, largest first: (draws, min(d, n))."""
    if n > d:
        # Bartlett's triangular factor of a scatter matrix, without drawing rows.
        sides = np.tril(rng.standard_normal((draws, d, d)), -1)
        place = np.arange(d)
        sides[:, place, place] = np.sqrt(rng.chisquare(n - 1 - place, (draws, d)))
        sides /= np.linalg.norm(sides, axis=2, keepdims=True)
    else:
        rows = rng.standard_normal((draws, max(round(n), 2), d))
        rows -= rows.mean(axis=1, keepdims=True)
        sides = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.linalg.eigvalsh(sides @ sides.transpose(0, 2, 1))[:, ::-1], np.float64)


def _wishart_eigenvalues(n: float, d: int, k: int, settings: ParallelSettings, rng: np.random.Generator) -> Array:
    r"""Draw the k largest eigenvalues of white Wishart matrices, scaled to trace d: (draws, k).

    A Wishart matrix has the eigenvalues of a tridiagonal matrix of chi variates (Dumitriu & Edelman 2002), and its
    leading eigenvalues are those of a leading corner of about :math:`m^{1/3} k^{2/3}` rows, to nine digits. They are
    slightly larger than those of correlations: by up to 1% for 100 to 200 columns and more rows, by up to 3% for
    fewer rows.
    """
    m, most = min(n - 1, d), max(n - 1, d)
    m = max(int(m), 1)
    c = min(m, max(int(settings.corner * m ** (1 / 3) * (k / 4) ** (2 / 3)), k + 1))
    place, draws = np.arange(c), settings.draws_of(d)
    upper = rng.chisquare(most - place, (draws, c))
    lower = rng.chisquare(m - 1 - place[:-1], (draws, c - 1))
    diagonal = upper.copy()
    diagonal[:, 1:] += lower
    beside = np.sqrt(upper[:, :-1] * lower)
    outside = m * most - float(
        (most - place).sum() + (m - 1 - place[:-1]).sum()
    )  # degrees of freedom outside the corner
    trace = diagonal.sum(axis=1) + (rng.chisquare(outside, draws) if c < m else 0.0)
    out = np.zeros((draws, k))
    for i in range(draws):
        top = eigh_tridiagonal(
            diagonal[i],
            beside[i],
            eigvals_only=True,
            select="i",
            select_range=(max(c - k, 0), c - 1),
            check_finite=False,
        )
        out[i, : top.size] = top[::-1]
    return out * (d / trace)[:, None]
