"""Factor analysis that predicts missing cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from probpca.learning.components import EXACT_RANK, given_count
from probpca.learning.factor.complete import most_factors
from probpca.learning.factor.fit import fit_factor_analysis
from probpca.learning.fit import fit_ppca
from probpca.learning.settings import FactorSettings, Settings
from probpca.linalg.packed import turn_bordered

if TYPE_CHECKING:
    from probpca.learning.components import NFactors
    from probpca.learning.result import FitResult
    from probpca.sources import Source

PREDICTION = FactorSettings(floor_cells=0.1, cells_per_loading=8.0)
"""Options for prediction: a floor that the observed cells can tell from zero, and enough of them to learn from."""


def fit_to_predict(
    rows: Source, n_components: NFactors, settings: Settings, rng: np.random.Generator | None = None
) -> FitResult:
    """Fit factor analysis with limits that keep intervals of imputed cells as wide as they must be.

    The noise variance of a column with N observed cells is at least 0.1 / N of its variance, and a rule chooses at most
    so many factors that columns have on average 8 observed cells for each of their loadings and their mean.

    A table without any noise allows more factors. If a rule wants as many as the limit, PPCA tells whether the table
    has a low rank, and its fit then takes the place of that with noise.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.learning import Settings
    >>> from probpca.learning.factor.prediction import fit_to_predict
    >>> from probpca.sources import open_source
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 20))  # of rank 4
    >>> result = fit_to_predict(open_source(x), "bic", Settings(), rng)
    >>> result.model.n_components, result.rule
    (4, 'exact rank of the table')
    """
    settings = replace(settings, factor=PREDICTION)
    result = fit_factor_analysis(rows, n_components, settings, rng)
    if given_count(n_components) is None and rows.repeatable and _is_limited(result):
        exact = fit_ppca(rows, "bic", replace(settings, watch=None, noise="shared"), rng, standardize=True)
        return _as_factors(exact, result) if exact.rule == EXACT_RANK else result
    return result


def _is_limited(result: FitResult) -> bool:
    """Whether a rule chose as many factors as the limits for prediction allow."""
    d, varying = result.model.n_features, int(np.count_nonzero(result.column_std))  # type: ignore[arg-type]
    cells = result.weight if result.cells is None else result.cells / d
    return result.model.n_components >= most_factors(varying, cells, PREDICTION)


def _as_factors(result: FitResult, earlier: FitResult) -> FitResult:
    """Fit of PPCA to scaled columns in the latent axes of factor analysis, with the columns of an earlier fit."""
    rotation = result.model.canonical_rotation
    information = None if result.information is None else turn_bordered(result.information, rotation)
    heywood = np.flatnonzero(np.any(result.model.loadings != 0, axis=1))
    return result._replace(
        model=result.model.rotate(rotation),
        information=information,
        heywood=heywood,
        scale=None,
        column_std=earlier.column_std,
        sample=earlier.sample,
    )
