"""Maximum-likelihood fit of PPCA to rows of any kind."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from probpca.learning.complete.closed_form import first_pass, fit_closed_form
from probpca.learning.complete.iterative import condense, fit_iteratively
from probpca.learning.components import Components, Rule
from probpca.learning.describe import column_std, describe, in_unit_precision, in_unit_variance, rows_in_memory
from probpca.learning.missing.fit import fit_missing
from probpca.learning.selection.choose import choose_by_rows
from probpca.learning.settings import Iterative, Settings
from probpca.sources import open_source

if TYPE_CHECKING:
    from probpca.learning.components import NComponents
    from probpca.learning.describe import Description, Pass
    from probpca.learning.result import FitResult, Solver
    from probpca.sources import Source


def fit_ppca(
    rows: Any,
    n_components: NComponents = None,
    settings: Settings = Settings(),
    rng: np.random.Generator | None = None,
    *,
    standardize: bool = False,
) -> FitResult:
    r"""Fit probabilistic PCA by maximum likelihood to complete rows, or to the observed cells of incomplete rows.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \sigma^2 I_d)

    Complete rows are fitted by the closed form of Tipping & Bishop (1999), unless ``settings.solver`` names an
    iterative solver; rows with missing cells by expectation-maximisation.

    Parameters
    ----------
    rows : array, sparse matrix, dataframe, file name, iterable of batches, Dask or Spark collection
        The data, as accepted by ``open_source``. NaN is a missing cell.
    n_components : int, float, str or None
        Number of components, a share of variance between 0 and 1, or a rule: "parallel", "bic", "evidence", "cv",
        "ard" or "gavish_donoho". None means "parallel".
    settings : Settings
        Solver, tolerance and other options.
    rng : numpy.random.Generator or None
        Random number generator; None creates one with a random seed.
    standardize : bool
        Fit the columns scaled to unit variance. The model is then in the units of the data, with the principal axes
        of the scaled columns, and ``scale`` of the result holds the standard deviations.

    Returns
    -------
    FitResult
        The fitted model, its log-likelihood and how the fit ended.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning import fit_ppca
    >>> result = fit_ppca(load_iris().data, 2)
    >>> round(result.log_likelihood, 2), result.status.name
    (-404.96, 'EXACT')
    """
    rng = np.random.default_rng(rng)
    opened = open_source(rows)
    if standardize:
        return in_unit_variance(fit_ppca, opened, n_components, settings, rng)
    source, unit = in_unit_precision(opened.loaded())
    wanted = Components.parse(n_components, source.n_features)
    if isinstance(wanted, Rule) and wanted.by_rows:
        source, wanted = choose_by_rows(source, wanted, settings, rng)
    table = describe(source, rng, partial(begin, wanted, settings), settings.sample)
    result = plan(table, settings)(table, wanted, settings, rng).in_precision_unit(unit)
    return result._replace(column_std=column_std(table.sums), sample=rows_in_memory(opened, table))


def begin(wanted: Components, settings: Settings, source: Source) -> Pass:
    """First pass over the rows for the solver of complete rows that the settings name."""
    iterative = settings.solver in get_args(Iterative)
    return condense(settings, source) if iterative else first_pass(wanted, settings, source)


def plan(table: Description, settings: Settings) -> Solver:
    """Solver for a described table."""
    if not table.complete:
        return fit_missing
    return fit_iteratively if settings.solver in get_args(Iterative) else fit_closed_form
