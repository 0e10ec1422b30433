"""How many components? Every criterion asked about one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from probpca.learning.seeds import generator
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
    r"""Ask several criteria how many components a table has.

    Parameters
    ----------
    X : rows
        As ``PPCA.fit`` takes them; cells may be missing. Rows that are not in memory are judged by a sample.
    criteria : str, list of str or None, default=None
        Any of

        - "bic": Schwarz's criterion, :math:`\mathcal L - \tfrac12 p \log n`;
        - "evidence": Minka's approximation of the probability of the rows given q;
        - "cv": log density of cells that were held out, five folds of them; the fewest components that fall short of
          the best by no more than one standard error, which is that of the difference between rows;
        - "ard": the components that stay alive in a Bayesian fit that begins with many;
        - "parallel": eigenvalues above the 95 % quantile of those of columns shuffled one by one;
        - "gavish_donoho": singular values above the optimal hard threshold.

        "evidence", "parallel" and "gavish_donoho" need complete rows. None asks all, and those that do not apply
        say why.
    max_components : int or None, default=None
        The largest number to look at. None: 50 for "bic" and "parallel", 20 where fits are needed.
    sample_weight : array-like or None, default=None
        Frequencies: 2 is the row twice, 0 a row that is not there. "parallel" takes whole numbers.
    missing : "nan" or "unstored", default="nan"
        As ``PPCA`` has it.
    standardize : bool, default=False
        Scale columns to unit variance first.
    n_jobs : int or None, default=None
        Threads. None: as many as BLAS may use. The answer does not depend on it.
    verbose : bool, default=False
        Show what is being done.
    random_state : int, RandomState, Generator or None, default=None
        Decides which cells are held out together, and how columns are shuffled.

    Returns
    -------
    Selection
        The curve and the choice of each criterion. Print it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import select_n_components
    >>> found = select_n_components(load_iris().data, ["bic", "cv", "parallel"], random_state=0)
    >>> found.choices
    {'bic': 3, 'cv': 3, 'parallel': 1}
    """
    source = open_rows(X, sample_weight, missing, n_jobs)
    rng = generator(random_state)
    return ask(source, criteria, rng, largest=max_components, standardize=standardize, verbose=verbose)
