"""Fit to columns of unit variance, and speak in the units of the data."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from probpca.learning.checks import MissingCellsError, require_observed, require_usable
from probpca.learning.fit import fit_ppca
from probpca.learning.uncertainty import turned_information
from probpca.sources import scaled
from probpca.statistics import Columns, Spread

if TYPE_CHECKING:
    from probpca.learning.closed_form import Components
    from probpca.learning.results import FitResult, Settings
    from probpca.sources import Source
    from probpca.typing import Array

ROUNDING = 1e-13


def fit_standardized(
    source: Source, n_components: Components, settings: Settings, rng: np.random.Generator
) -> FitResult:
    """PPCA of x / std, with loadings and noise mapped back: one noise variance per feature.

    A constant column keeps its unit. The log-likelihood is that of the data, not of the scaled
    columns: it differs by the logarithm of the change of units.
    """
    mean, variance, observed = _columns(source)
    std = np.sqrt(variance)
    # The mean of a long constant column is off by some hundred eps: that is no variation.
    std = np.where(std > ROUNDING * np.abs(mean), std, 1.0)
    result = fit_ppca(scaled(source, 1 / std), n_components, settings, rng)
    shift = -float(observed @ np.log(std))
    model = result.model.rescale(std)
    information = result.information
    if information is not None:
        information = turned_information(information, model.principal_rotation)
    model = model.principal()
    return result._replace(
        model=model,
        information=information,
        log_likelihood=result.log_likelihood + shift,
        trace=tuple(value + shift for value in result.trace),
    )


def _columns(source: Source) -> tuple[Array, Array, Array]:
    """Mean and variance of what was observed of each column, and how many cells that is."""
    if not source.incomplete:
        spread = source.fold(Spread.of)
        with suppress(MissingCellsError):
            require_usable(source, spread.count, spread.mean, spread.total)
            return spread.mean, spread.squares / spread.weight, np.full(spread.mean.size, spread.weight)
    columns = source.fold(Columns.of)
    require_observed(source, columns)
    return columns.mean, columns.variance, columns.observed
