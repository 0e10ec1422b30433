"""The number of components by several criteria."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from probpca.estimators.base import generator
from probpca.learning.selection.choose import ask, open_rows

if TYPE_CHECKING:
    from probpca.learning.selection.result import Selection


def select_n_components(
    X: Any,
    criteria: Any = None,
    *,
    max_components: int | None = None,
    sample_weight: Any = None,
    missing: str = "nan",
    standardize: bool = False,
    n_jobs: int | None = None,
    verbose: bool = False,
    random_state: Any = None,
) -> Selection:
    r"""Choose the number of components of a table by several criteria.

    Parameters
    ----------
    X : rows
        As for ``PPCA.fit``; cells may be missing. Of rows that are not in memory a sample is used.
    criteria : str, list of str or None, default=None
        Any of

        - "parallel": eigenvalues of the correlations above the 95 % quantile of those of independent columns;
        - "bic": Schwarz's criterion, :math:`\mathcal L - \tfrac12 p \log n`;
        - "evidence": Minka's approximation of the probability of the rows given q;
        - "cv": log density of held-out cells, in five folds; the smallest number of components within one standard
          error of the best, where the standard error is that of the difference between rows. At least ten numbers are
          tried, and then more until five in a row are no better;
        - "ard": the components that remain in a Bayesian fit that starts with many;
        - "gavish_donoho": singular values above the optimal hard threshold.

        "parallel" is for structure, components to be interpreted; "cv" and "ard" are for prediction; "bic",
        "evidence" and "gavish_donoho" suit tables whose columns have the same noise variance. "evidence" and
        "gavish_donoho" need complete rows. For a complete table without noise
        every criterion takes the rank, if that is low.
        None: all criteria; the result gives the reason why some do not apply.
    max_components : int or None, default=None
        Largest number of components to try. None: 50 for "bic" and "parallel", 20 for criteria that need fits.
    sample_weight : array-like or None, default=None
        Frequencies: a row of weight 2 counts twice, one of weight 0 not at all.
    missing : "nan" or "unstored", default="nan"
        As for ``PPCA``.
    standardize : bool, default=False
        Scale columns to unit variance first.
    n_jobs : int or None, default=None
        Number of threads. None: as many as BLAS may use. The result does not depend on it.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Determines which cells are held out together, and where iterative fits begin.

    Returns
    -------
    Selection
        The curve and the choice of each criterion; ``print`` shows a table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import select_n_components
    >>> found = select_n_components(load_iris().data, ["parallel", "bic", "cv"], random_state=0)
    >>> found.choices
    {'parallel': 1, 'bic': 3, 'cv': 3}
    """
    source = open_rows(X, sample_weight, missing, n_jobs)
    rng = generator(random_state)
    return ask(source, criteria, rng, largest=max_components, standardize=standardize, verbose=verbose)
