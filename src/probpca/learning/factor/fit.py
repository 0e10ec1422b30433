"""Maximum-likelihood fit of factor analysis to rows of any kind."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.learning.components import Components
from probpca.learning.describe import column_std, describe, in_unit_precision, rows_in_memory
from probpca.learning.factor.complete import first_pass, fit_complete
from probpca.learning.missing.fit import fit_missing
from probpca.learning.settings import Settings
from probpca.sources import open_source

if TYPE_CHECKING:
    from probpca.learning.components import NFactors
    from probpca.learning.result import FitResult


def fit_factor_analysis(
    rows: Any,
    n_components: NFactors = None,
    settings: Settings = Settings(),
    rng: np.random.Generator | None = None,
) -> FitResult:
    r"""Fit factor analysis by maximum likelihood to complete rows, or to the observed cells of incomplete rows.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad
        \varepsilon \sim N(0, \operatorname{diag}(\psi_1, \dots, \psi_d))

    The latent axes of the model are those along which :math:`W^\top \Psi^{-1} W` is diagonal.

    Parameters
    ----------
    rows : array, sparse matrix, dataframe, file name, iterable of batches, Dask or Spark collection
        The data, as accepted by ``open_source``. NaN is a missing cell.
    n_components : int, str or None
        Number of factors, or a rule: "parallel", "bic" or "aic". None means "parallel".
    settings : Settings
        Tolerance and other options; ``settings.factor`` holds those of factor analysis.
    rng : numpy.random.Generator or None
        Random number generator; None creates one with a random seed.

    Returns
    -------
    FitResult
        The fitted model, its log-likelihood and how the fit ended.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from probpca.learning import fit_factor_analysis
    >>> result = fit_factor_analysis(load_wine().data, 3)
    >>> result.model.noise_variance.shape, result.status.name
    ((13,), 'CONVERGED')
    """
    rng, settings = np.random.default_rng(rng), replace(settings, noise="per_feature")
    opened = open_source(rows)
    source, unit = in_unit_precision(opened.loaded())
    wanted = Components.parse_factors(n_components, source.n_features)
    table = describe(source, rng, partial(first_pass, settings), settings.sample)
    solve = fit_complete if table.complete else fit_missing
    result = solve(table, wanted, settings, rng).in_precision_unit(unit)
    return result._replace(column_std=column_std(table.sums), sample=rows_in_memory(opened, table))
