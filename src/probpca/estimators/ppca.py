"""PPCA: probabilistic principal component analysis behind scikit-learn's verbs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from probpca.errors import SourceError
from probpca.estimators.files import read_estimator, write_estimator
from probpca.estimators.queries import LinearGaussianQueries, generator
from probpca.estimators.summary import summary
from probpca.learning import SOLVERS, Settings, fit_ppca
from probpca.learning.progress import ProgressBar
from probpca.learning.standardize import fit_standardized
from probpca.sources import open_source
from probpca.sources.opening import is_source

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.learning import FitResult, Status
    from probpca.sources import Source


class PPCA(ClassNamePrefixFeaturesOutMixin, LinearGaussianQueries, BaseEstimator):  # type: ignore[misc]
    r"""Probabilistic principal component analysis by exact maximum likelihood.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \sigma^2 I_d)

    Parameters
    ----------
    n_components : int, float, "bic", "evidence" or None, default=None
        Number of components q < d; or the share of variance that they must hold; or the criterion
        that chooses them. None is BIC over 1 .. min(d - 1, n - 2, 50).
    solver : str, default="auto"
        "auto" and "closed_form" compute the exact maximum with the eigensolver that fits the shape;
        "covariance", "gram", "krylov" and "svd" name that eigensolver. "em", "px_em" (parameter
        expanded), "em_zero_noise" (Roweis) and "gradient" (L-BFGS) iterate to the same model.
    standardize : bool, default=False
        Fit to columns scaled to unit variance, and express the model in the units of the data: the
        noise variance then differs between features.
    tol : float, default=1e-3
        Stop when the log-likelihood, summed over the rows, is estimated to rise by less than this.
    max_iter : int, default=1000
        Largest number of steps of an iterative solver.
    n_jobs : int or None, default=None
        Threads over blocks of rows. None: as many as BLAS may use. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
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
    n_iter_, converged_, status_, trace_
        How the fit went; ``status_.value`` says what to do about it. ``n_iter_`` counts steps, and for
        the closed form passes over the rows.
    model_ : LinearGaussian
        The model itself, for the functions of this library.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
            StrOptions({"bic", "evidence"}),
            None,
        ],
        "solver": [StrOptions(set(SOLVERS))],
        "standardize": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: Any = None,
        *,
        solver: str = "auto",
        standardize: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
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
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to complete rows.

        ``X`` is an array, a sparse matrix, a dataframe, or an iterator of batches of rows.
        ``sample_weight`` are frequencies: 2 is the row twice, 0 a row that is not there.
        """
        self._validate_params()
        self.__dict__.pop("model_", None)  # a fit that fails leaves nothing half fitted behind
        source = self._open(X, sample_weight)
        rng = generator(self.random_state)
        fit = fit_standardized if self.standardize else fit_ppca
        with ProgressBar(enabled=bool(self.verbose)) as bar:
            settings = Settings(self.solver, self.tol, self.max_iter, bar)
            self._keep(fit(source, self.n_components, settings, rng))
        if not self.converged_:
            warnings.warn(self.status_.value, ConvergenceWarning, stacklevel=2)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, then return the posterior means of the same rows."""
        if isinstance(X, Iterator):
            msg = "fit_transform reads its rows twice; an iterator can be read once.\nHint: pass a list of batches."
            raise SourceError(msg)
        return self.fit(X, y, sample_weight=sample_weight).transform(X)

    @property
    def converged_(self) -> bool:
        """Is the model the maximum of the likelihood, to within ``tol``?"""
        status: Status = self.status_
        return status.converged

    def summary(self, feature_names: Any = None) -> str:
        """A table for people: how many components, what they hold, how the fit ended."""
        return summary(self, feature_names)

    def to_file(self, path: str | Path) -> None:
        """Write parameters and fitted model to one file that holds no code."""
        write_estimator(self, path)

    @classmethod
    def from_file(cls, path: str | Path) -> PPCA:
        """Read what ``to_file`` wrote."""
        return read_estimator(cls, path)

    def _open(self, X: Any, sample_weight: Any) -> Source:
        if is_source(X) or isinstance(X, Iterator):
            source = open_source(X, weight=sample_weight, n_jobs=self.n_jobs)
            self.n_features_in_ = source.n_features
            self.__dict__.pop("feature_names_in_", None)  # of a table fitted before
            return source
        # Values that are not finite show in the sums that the solver makes anyway.
        rows = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=2,
            ensure_min_features=2,
        )
        return open_source(rows, weight=sample_weight, n_jobs=self.n_jobs)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _keep(self, result: FitResult) -> None:
        self.model_ = result.model
        self.status_ = result.status
        self.log_likelihood_ = result.log_likelihood
        self.trace_ = np.array(result.trace)
        self.n_iter_ = result.n_iter
        self.n_components_ = result.model.n_components
        self.n_samples_ = result.weight
        self.rule_ = result.rule

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
