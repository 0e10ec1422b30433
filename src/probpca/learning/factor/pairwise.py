"""Factor analysis of pairwise correlations: a start for the fit to rows with missing cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.learning.components import Count
from probpca.learning.describe import column_std
from probpca.learning.factor.complete import fit_moments
from probpca.models import LinearGaussian
from probpca.statistics import Moments, Pairs

if TYPE_CHECKING:
    from probpca.learning.settings import Settings
    from probpca.sources import Source
    from probpca.statistics import ColumnSummary
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class PairwiseFit:
    """Factor models fitted to the correlations over the rows in which two columns were both observed.

    They are near the maximum of the likelihood of the observed cells if few cells are missing, also where factors
    explain some features almost completely, which takes EM many steps.
    """

    moments: Moments  # those of complete rows with these correlations
    empty: Array  # whether a feature was never observed: (d,)
    settings: Settings
    rng: np.random.Generator

    @classmethod
    def of(cls, rows: Source, summary: ColumnSummary, settings: Settings, rng: np.random.Generator) -> PairwiseFit:
        """Compute the correlations in one pass over the rows."""
        std, n = column_std(summary), summary.total_weight
        R = pairwise_correlations(rows.fold(partial(Pairs.of, summary.mean)), settings.factor.floor)
        moments = Moments(n, summary.mean, n * R * np.outer(std, std), summary.count)
        # A noise variance near zero would take EM many steps to leave, if it is wrong.
        factor = replace(settings.factor, floor=settings.factor.least_start)
        return cls(moments, summary.observed == 0, replace(settings, watch=None, n_init=1, factor=factor), rng)

    def model(self, q: int) -> LinearGaussian:
        """Model with q factors; features that were never observed have unit noise."""
        model = fit_moments(self.moments, Count(q), self.settings, self.rng).model
        return LinearGaussian(model.mean, model.loadings, np.where(self.empty, 1.0, model.noise_variance))


def pairwise_correlations(pairs: Pairs, least: float) -> Array:
    """Correlations of pairs of columns, 0 for pairs that never met, with eigenvalues of at least about ``least``."""
    covariance = np.divide(pairs.products, pairs.counts, out=np.zeros_like(pairs.products), where=pairs.counts > 0)
    R = _with_unit_diagonal(covariance)
    values, axes = np.linalg.eigh(R)
    if values[0] >= least:
        return R
    return _with_unit_diagonal((axes * np.maximum(values, least)) @ axes.T)


def _with_unit_diagonal(matrix: Array) -> Array:
    """Matrix scaled to a diagonal of ones; features with a variance of zero are left alone: (d, d)."""
    variance = np.diag(matrix)
    scale = np.divide(1.0, np.sqrt(variance), out=np.zeros(variance.size), where=variance > 0)
    scaled = matrix * np.outer(scale, scale)
    np.fill_diagonal(scaled, 1.0)
    return scaled
