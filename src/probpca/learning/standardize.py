"""Fit to columns of unit variance, and speak in the units of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.learning.fit import fit_ppca
from probpca.learning.uncertainty import turned_information
from probpca.learning.units import units
from probpca.sources import scaled

if TYPE_CHECKING:
    from probpca.learning.closed_form import Components
    from probpca.learning.results import FitResult, Settings
    from probpca.sources import Source


def fit_standardized(
    source: Source, n_components: Components, settings: Settings, rng: np.random.Generator
) -> FitResult:
    """PPCA of x / std, with loadings and noise mapped back: one noise variance per feature.

    A constant column keeps its unit. The log-likelihood is that of the data, not of the scaled
    columns: it differs by the logarithm of the change of units.
    """
    std, observed = units(source)
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
