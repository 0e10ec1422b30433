"""Fit to columns of unit variance, and speak in the units of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.learning.checks import require_usable
from probpca.learning.fit import fit_ppca
from probpca.sources import Scaled
from probpca.statistics import Spread

if TYPE_CHECKING:
    from probpca.learning.closed_form import Components
    from probpca.learning.results import FitResult, Settings
    from probpca.sources import Source

ROUNDING = 1e-13


def fit_standardized(
    source: Source, n_components: Components, settings: Settings, rng: np.random.Generator
) -> FitResult:
    """PPCA of x / std, with loadings and noise mapped back: one noise variance per feature.

    A constant column keeps its unit. The log-likelihood is that of the data, not of the scaled
    columns: it differs by the logarithm of the change of units.
    """
    spread = source.fold(Spread.of)
    require_usable(source, spread.count, spread.mean, spread.total)
    std = np.sqrt(spread.squares / spread.weight)
    # The mean of a long constant column is off by some hundred eps: that is no variation.
    std = np.where(std > ROUNDING * np.abs(spread.mean), std, 1.0)
    result = fit_ppca(Scaled(source, 1 / std), n_components, settings, rng)
    shift = -spread.weight * float(np.log(std).sum())
    return result._replace(
        model=result.model.rescale(std).principal(),
        log_likelihood=result.log_likelihood + shift,
        trace=tuple(value + shift for value in result.trace),
    )
