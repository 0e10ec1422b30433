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
    r"""Compare several criteria for the number of components or factors of a table.

    Parameters
    ----------
    X : array, sparse matrix, dataframe, file name, or rows read in batches
        The rows; NaN marks a missing cell. If they are not in memory, a sample is used.
    criteria : str, list of str or None, default=None
        Criteria to compute:

        - "parallel": parallel analysis counts the eigenvalues of the correlation matrix above the 95% quantile of
          those of independent columns;
        - "bic": Bayesian information criterion, :math:`\mathcal L - \tfrac12 p \log n`, with log-likelihood
          :math:`\mathcal L`, p parameters and n rows;
        - "evidence": Minka's approximation of the probability of the rows given the number of components;
        - "cv": cross-validation, the log density of held-out cells in five folds. It chooses the smallest number of
          components within one standard error of the best. At least ten numbers are tried, then more until five in a
          row are no better;
        - "ard": automatic relevance determination, the components that remain in a Bayesian fit that starts with many;
        - "gavish_donoho": singular values above the optimal hard threshold of Gavish and Donoho;
        - "fa_bic" and "fa_aic": :math:`\mathcal L - \tfrac12 p \log n` and Akaike's :math:`\mathcal L - p` of factor
          analysis, which has a noise variance for each column: the numbers of factors that ``FactorAnalysis("bic")``
          and ``FactorAnalysis("aic")`` choose. At most as many factors are tried as the Ledermann bound allows.

        "parallel" finds components or factors to interpret; "cv" and "ard" are for prediction and imputation by PPCA;
        "bic", "evidence" and "gavish_donoho" suit tables whose columns have the same noise variance. "evidence" and
        "gavish_donoho" need complete rows. For a complete table without noise every criterion chooses the rank, if
        that is low. None: all criteria; for those that do not apply the result gives the reason.
    max_components : int or None, default=None
        Largest number of components or factors to try. None: 50 for "parallel", and for "bic", "fa_bic" and "fa_aic"
        of complete rows; 20 for criteria of missing cells and others that need slow fits.
    sample_weight : array-like or None, default=None
        Frequency of each row: a row of weight 2 counts twice, and a row of weight 0 not at all. Weights must sum to
        at least 2.
    missing : "nan" or "unstored", default="nan"
        NaN always marks a missing cell. With "unstored" the cells that a sparse matrix does not store are missing
        too, as in a table of ratings; with "nan" they are zero.
    standardize : bool, default=False
        Whether to scale columns to unit variance first.
    n_jobs : int or None, default=None
        Number of threads. None: as many as the linear algebra library (BLAS) uses. The result does not depend on it.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Determines the folds of the cross-validation and the starting values of iterative fits.

    Returns
    -------
    Selection
        ``choices``, the number of components that each criterion chooses; ``agreement``, a comparison in words;
        ``selection["bic"]``, the scores of one criterion. ``print`` and a notebook show a table.

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
