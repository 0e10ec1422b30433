"""PPCA: probabilistic principal component analysis behind scikit-learn's verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from probpca.estimators.parameters import PPCA_CONSTRAINTS
from probpca.estimators.reading import open_table, warn_of_flaws
from probpca.estimators.streaming import StreamQueries
from probpca.estimators.table import TableEstimator
from probpca.estimators.uncertainty import UncertaintyQueries
from probpca.learning import Settings, fit_ppca
from probpca.learning.progress import ProgressBar
from probpca.learning.seeds import generator
from probpca.learning.uncertainty.parameter_draws import require_rows_in_memory


class PPCA(StreamQueries, UncertaintyQueries, TableEstimator):
    r"""Probabilistic principal component analysis by exact maximum likelihood.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \sigma^2 I_d)

    Parameters
    ----------
    n_components : int, float, str or None, default=None
        Number of components q < d; or the share of variance that they must hold; or the criterion
        that chooses them: "bic", "cv" and "ard", and for complete rows "evidence", "parallel" and
        "gavish_donoho"; see ``select_n_components``. None is BIC over 1 .. min(d - 1, n - 2, 50);
        where cells are missing over 1 .. min(d - 1, n - 2, 20), up to where it has fallen twice.
    solver : str, default="auto"
        For complete rows "auto" and "closed_form" compute the exact maximum with the eigensolver that
        fits the shape; "covariance", "gram", "krylov" and "svd" name that eigensolver. "em", "px_em"
        (parameter expanded), "em_zero_noise" (Roweis) and "gradient" (L-BFGS) iterate to the same model.
        Where cells are missing "auto" and "px_em" are parameter-expanded EM, accelerated; "em" and
        "gradient" reach the same maximum.
    missing : "nan" or "unstored", default="nan"
        NaN is a missing cell always. "unstored": so is what a sparse matrix does not store, as in a
        table of ratings; otherwise it is zero.
    n_init : int, default=1
        Where cells are missing the likelihood may have several maxima: the best of so many starts is
        kept. It matters when few cells are observed for each parameter.
    standardize : bool, default=False
        Fit to columns scaled to unit variance, and express the model in the units of the data: the
        noise variance then differs between features.
    tol : float, default=1e-3
        Stop when the log-likelihood, summed over the rows, is estimated to rise by less than this.
    max_iter : int, default=1000
        Largest number of steps of an iterative solver.
    checkpoint : path or None, default=None
        A file to which a fit to rows with missing cells writes what it has after each step; a fit that finds
        it goes on from there, and removes it when it is done. With ``n_components`` given, or rows in a file.
    bias_correction : bool, default=False
        Free the noise variance and the variances of the components of the bias that they have where columns
        are many for the rows. Complete rows only; the model is then not that of largest likelihood.
    half_life : float or None, default=None
        For ``partial_fit``: number of rows after which a row counts for half of what it did, so that the
        model follows a stream that drifts. None: all rows count the same.
    n_jobs : int or None, default=None
        Threads over blocks of rows. None: as many as BLAS may use. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
    keep_source : bool, default=False
        Keep the training rows at hand, so that ``impute_draws`` can learn how sure the parameters are.
    n_parameter_draws : int, default=0
        Make so many draws of the parameters at the end of the fit, for ``impute_draws``: an
        alternative to ``keep_source`` that holds models instead of rows.
    random_state : int, RandomState, Generator or None, default=None
        Decides the starting vectors of iterative solvers and what ``sample`` and ``explore`` draw.

    Attributes
    ----------
    mean_ : ndarray (n_features,)
    components_ : ndarray (n_components, n_features)
        Orthonormal principal axes; the entry largest in magnitude is positive.
    loadings_ : ndarray (n_features, n_components)
        W, along the principal axes.
    noise_variance_ : float, or ndarray (n_features,) when ``standardize=True``
    explained_variance_, explained_variance_ratio_ : ndarray (n_components,)
    log_likelihood_ : float
        Total over the training rows.
    n_components_ : int
    n_observed_ : float
        Number of observed cells, as rows count.
    empty_features_ : ndarray
        Positions of columns of which nothing was observed; their loadings and mean are 0.
    n_iter_, converged_, status_, trace_
        How the fit went; ``status_.value`` says what to do about it. ``n_iter_`` counts steps, and for
        the closed form passes over the rows.
    model_ : LinearGaussian
        The model itself, for the functions of this library.
    information_ : ndarray
        Sums of E[t t'], t = [z; 1], over the rows in which each feature was observed, packed: what
        intervals know of the doubt about loadings and mean. One column if all features share it.
    draw_seed_ : int
        From which ``impute_draws`` draws parameters.

    Notes
    -----
    ``transform`` is the posterior mean of z: unit prior scale, shrunk towards 0 as the noise demands.
    ``inverse_transform`` is W z + mu. For the orthogonal projection of classical PCA use ``project``
    and ``reconstruct``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import PPCA
    >>> X = load_iris().data
    >>> ppca = PPCA(n_components=2).fit(X)
    >>> ppca.components_.round(3)
    array([[ 0.361, -0.085,  0.857,  0.358],
           [ 0.657,  0.73 , -0.173, -0.075]])
    >>> ppca.transform(X).shape
    (150, 2)
    >>> round(ppca.score(X), 4)
    -2.6998
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = PPCA_CONSTRAINTS

    def __init__(
        self,
        n_components: Any = None,
        *,
        solver: str = "auto",
        standardize: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
        missing: str = "nan",
        n_init: int = 1,
        keep_source: bool = False,
        n_parameter_draws: int = 0,
        checkpoint: Any = None,
        bias_correction: bool = False,
        half_life: float | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        """Store the parameters; ``fit`` looks at them."""
        self.n_components = n_components
        self.solver = solver
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.n_init = n_init
        self.keep_source = keep_source
        self.n_parameter_draws = n_parameter_draws
        self.checkpoint = checkpoint
        self.bias_correction = bias_correction
        self.half_life = half_life
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Self:
        """Fit the model to rows, of which cells may be missing (NaN).

        ``X`` is an array, a sparse matrix, a dataframe, the name of a file, rows in Dask or Spark, or batches:
        a list of matrices or dataframes, an object whose ``__iter__`` starts afresh, or an iterator.
        ``sample_weight`` are frequencies: 2 is the row twice, 0 a row that is not there.
        ``cell_weight`` are relative precisions, shaped like ``X``: a cell has noise variance s2 / weight,
        and one of weight 0 is missing.
        """
        self._validate_params()
        for name in (
            "model_",
            "source_",
            "stream_",
            "parameter_draws_",
        ):  # a fit that fails leaves nothing half fitted behind
            self.__dict__.pop(name, None)
        rng = generator(self.random_state)
        with ProgressBar(enabled=bool(self.verbose)) as bar:
            source = open_table(self, X, sample_weight, cell_weight, bar.parts)
            if self.keep_source or self.n_parameter_draws:
                require_rows_in_memory(source)
            checkpoint = None if self.checkpoint is None else Path(self.checkpoint)
            corrected = bool(self.bias_correction)
            settings = Settings(self.solver, self.tol, self.max_iter, bar, self.n_init, checkpoint, corrected)
            self._keep(fit_ppca(source, self.n_components, settings, rng, standardize=bool(self.standardize)))
        self.draw_seed_ = int(rng.integers(2**63))
        if self.keep_source:
            self.source_ = source
        if self.n_parameter_draws:
            self.parameter_draws_ = self._draw_parameters(source, 0, self.n_parameter_draws)
        warn_of_flaws(self)
        return self
