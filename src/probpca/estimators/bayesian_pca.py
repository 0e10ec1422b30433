"""BayesianPCA: principal components with a posterior distribution of the parameters, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from probpca.cached_property import cached_property
from probpca.estimators.base import fit_replaced, generator, open_training, progress_bar
from probpca.estimators.constraints import check_parameters, nothing, table_constraints, whole
from probpca.estimators.queries import TableEstimator, TableFit, distances_of_fit
from probpca.estimators.storage import (
    calibration_record,
    choice_record,
    read_calibration,
    read_choice,
    read_story,
    story_record,
)
from probpca.estimators.summary import table_summary
from probpca.inference.imputation import ParameterCovariance
from probpca.inference.sampling import sample_parameters
from probpca.learning.bayesian.fit import BeliefResult, fit_variational
from probpca.learning.settings import Settings
from probpca.models.serialization import belief_arrays, belief_from_arrays
from probpca.result_tables import WIDTH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from probpca.models import LinearGaussian, ParameterBelief
    from probpca.typing import Array


@dataclass(frozen=True, eq=False)
class BeliefFit(TableFit):
    """What a fit of ``BayesianPCA`` found."""

    result: BeliefResult
    draw_seed: int

    @cached_property
    def scaled_model(self) -> LinearGaussian:
        """The distribution of a new row of the columns as the fit saw them."""
        return self.result.scaled_model

    @cached_property
    def doubt(self) -> ParameterCovariance:
        """Uncertainty of the parameters that imputed cells inherit."""
        belief = self.result.belief
        return ParameterCovariance(belief.centre.noise_variance, belief.covariance).without(self.result.empty)

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        numbers, arrays = story_record(self.result)
        chosen, scales = choice_record(self.result)
        arrays |= scales
        numbers |= chosen | {
            "lower_bound_": self.result.lower_bound,
            "n_samples_": self.result.weight,
            "n_observed_": self.result.cells,
            "draw_seed_": self.draw_seed,
        }
        obstacle, reference = calibration_record(self.calibration)
        arrays |= reference | {"empty_features_": self.result.empty}
        return numbers | obstacle, {**belief_arrays(self.result.belief), **arrays}

    @classmethod
    def from_record(cls, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        belief = belief_from_arrays(arrays)
        result = BeliefResult(
            belief=belief,
            model=belief.predictive(),
            lower_bound=numbers["lower_bound_"],
            weight=numbers["n_samples_"],
            cells=numbers["n_observed_"],
            empty=arrays["empty_features_"],
            **read_story(numbers, arrays),
            **read_choice(numbers, arrays),
        )
        return cls(result, numbers["draw_seed_"], training=read_calibration(numbers, arrays))


class BayesianPCA(TableEstimator):
    r"""Bayesian principal component analysis, which also chooses the number of components.

    .. math::
        x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \sigma^2 I_d), \quad
        w_{jk} \sim N(0, 1 / \alpha_k)

    Each row x with d columns is a linear function of q latent variables z, the component scores, plus noise. Unlike
    ``PPCA``, which finds the most likely loadings and mean, this estimator computes their posterior distribution,
    approximated as independent of that of the latent variables (variational Bayes). The precision :math:`\alpha_k` of
    each component is learned: if the data do not support a component, its loadings shrink to zero and it is removed
    (automatic relevance determination). With few observed cells for each parameter this predicts missing cells better
    than maximum likelihood, and its intervals keep their nominal coverage.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components to start with, less than the number of columns d. Components that the data do not support
        are removed. None: min(d - 1, n - 2, 50) for n rows, or min(d - 1, n - 2, 20) if cells are missing.
    standardize : bool, default=False
        Whether to scale columns to unit variance, as one should if they have different units. Components, loadings,
        relevance and variances then describe the scaled columns. All methods still take and return rows in the units
        of the data.
    tol : float, default=1e-3
        Iterations stop when the lower bound of the log evidence is estimated to be within ``tol`` of its maximum.
    max_iter : int, default=1000
        Largest number of iterations.
    missing : "nan" or "unstored", default="nan"
        NaN always marks a missing cell. With "unstored" the cells that a sparse matrix does not store are missing
        too, as in a table of ratings; with "nan" they are zero.
    n_jobs : int or None, default=None
        Number of threads. None: as many as the linear algebra library (BLAS) uses. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Determines the starting values, and the draws of ``sample``, ``explore`` and ``impute_draws``.

    Attributes
    ----------
    n_components_ : int
        Number of components that the data support.
    rule_ : str
        How many of the initial components were kept, in words.
    notes_ : tuple of str
        Remarks on the choice of the number of components; empty if there are none.
    relevance_ : ndarray (n_components,)
        Expected squared loading of each component, :math:`1 / \alpha_k = E\|w_k\|^2 / d`: small for components
        that matter little. d is the number of columns with observed cells.
    mean_ : ndarray (n_features,)
        Posterior mean of the mean mu, in the units of the data.
    scale_ : ndarray (n_features,) or None
        If ``standardize=True``, the standard deviations that the columns were divided by (1 for a constant column);
        otherwise None. The components, loadings and variances below then describe the scaled columns.
    components_ : ndarray (n_components, n_features)
        Orthonormal principal axes, one per row. The largest entry of each, in magnitude, is positive.
    loadings_ : ndarray (n_features, n_components)
        Posterior mean of the loadings W along the principal axes.
    explained_variance_ : ndarray (n_components,)
        Variance of a new row along each principal axis, largest first. It includes the uncertainty of the loadings.
    explained_variance_ratio_ : ndarray (n_components,)
        Share of the total variance that each component explains.
    noise_variance_ : float
        Variance sigma2 of the noise, without the uncertainty of the parameters.
    column_std_ : ndarray (n_features,) or None
        Standard deviation of each training column, 0 if constant; None if ``standardize=True``.
    lower_bound_ : float
        Lower bound of the log evidence, up to a constant that does not depend on the number of components.
    belief_ : ParameterBelief
        Posterior mean and covariance of the parameters of each feature, in the units of the data.
    model_ : LinearGaussian
        Predictive distribution of a new row in the units of the data, approximated by a Gaussian in which the
        uncertainty of the parameters counts as noise. All methods use it; ``impute`` and ``impute_interval`` with
        ``training=True`` use ``belief_`` instead.
    calibration_ : Calibration
        Reference distribution of the p-values that ``outliers`` computes, matched to the training rows.
    draw_seed_ : int
        Seed of the parameter draws of ``impute_draws``.
    n_samples_ : float
        Number of training rows; a row counts ``sample_weight`` times.
    n_observed_ : float
        Number of observed cells; a row counts ``sample_weight`` times.
    empty_features_ : ndarray of int
        Positions of the columns without any observed cell. Their loadings and mean are 0.
    n_features_in_ : int
        Number of columns of the training data.
    feature_names_in_ : ndarray of str
        Names of the columns, if the training data have names.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit reached the maximum of the lower bound to within ``tol``.
    status_ : Status
        How the fit ended; ``status_.value`` is a sentence that explains it.
    trace_ : ndarray (n_iter + 1,)
        Lower bound of the log evidence before each iteration and at the end.

    Notes
    -----
    Results include the uncertainty of the parameters: ``score`` is the log predictive density of new rows, intervals
    of missing cells are wider where parameters are uncertain, and ``impute_draws`` draws parameters from their
    posterior, so that it needs no training rows. Because latent variables and parameters are approximated as
    independent, the posterior variance of each parameter is somewhat too small. ``partial_fit``, ``merge`` and
    ``uncertainty`` exist for ``PPCA`` only.

    References
    ----------
    Bishop, "Variational principal components" (1999). Ilin & Raiko, "Practical approaches to principal component
    analysis in the presence of missing values", JMLR 11 (2010).

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import BayesianPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 12)) + rng.standard_normal((100, 12)) / 2
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> bayesian = BayesianPCA(n_components=8, random_state=0).fit(X)
    >>> bayesian.n_components_, bayesian.rule_
    (3, '3 of 8 initial components kept')
    >>> low, high = bayesian.impute_interval(X)
    >>> bool((low <= high).all())
    True
    """

    _constraints: ClassVar[dict[str, Any]] = {"n_components": (whole(1), nothing()), **table_constraints()}
    _fit_type = BeliefFit

    def __init__(
        self,
        n_components: int | None = None,
        *,
        standardize: bool = False,
        tol: float = 1e-3,
        max_iter: int = 1000,
        missing: str = "nan",
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        """Store the parameters; ``fit`` checks them."""
        self.n_components = n_components
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Self:
        """Fit the model to rows with or without missing cells.

        Parameters
        ----------
        X : array, sparse matrix, dataframe, file name, Dask or Spark rows, or batches
            The rows to fit, of shape (n, n_features). Batches are a list of matrices or dataframes, an iterator, or an
            object that can be iterated over repeatedly. NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,) or None, default=None
            Frequency of each row: a row of weight 2 counts twice, and a row of weight 0 not at all. Weights must sum to
            at least 2.
        cell_weight : array-like of shape (n, n_features) or None, default=None
            Relative precision of each cell: its noise variance is sigma2 / weight. A cell of weight 0 counts as
            missing.

        Returns
        -------
        BayesianPCA
            The fitted estimator itself.
        """
        check_parameters(self, self._constraints)
        rng = generator(self.random_state)
        with fit_replaced(self):
            with progress_bar(self.verbose, "bound") as bar:
                source = open_training(self, X, sample_weight, cell_weight, None if bar is None else bar.parts)
                settings = Settings(tol=self.tol, max_iter=self.max_iter, watch=bar)
                result = fit_variational(source, self.n_components, settings, rng, standardize=bool(self.standardize))
            training = distances_of_fit(source, result)
        return self._finish(BeliefFit(result._replace(sample=None), int(rng.integers(2**63)), training=training))

    @property
    def belief_(self) -> ParameterBelief:
        """Posterior mean and covariance of the parameters of each feature, in the units of the data."""
        return self._state.result.belief

    @property
    def lower_bound_(self) -> float:
        """Lower bound of the log evidence, in nats, up to a constant."""
        return self._state.result.lower_bound

    @property
    def relevance_(self) -> Array:
        """Expected squared loading of each component, small for those that matter little: (n_components,)."""
        return 1.0 / self._state.result.scaled_belief.precision

    @property
    def noise_variance_(self) -> float:
        """Variance sigma2 of the noise, without the uncertainty of the parameters: a float.

        With ``standardize=True`` it is that of the scaled columns.
        """
        return float(self._state.result.scaled_belief.centre.noise_variance)

    def summary(self, feature_names: Any = None, *, width: int = WIDTH) -> str:
        """Describe the fit as text: the number of components, the variance of each, and how the fit ended.

        Parameters
        ----------
        feature_names : sequence of str or None, default=None
            Names of the columns. None: those of the training data, or x0, x1, ...
        width : int, default=88
            Largest number of characters in a line of a table.

        Returns
        -------
        str
            Several lines of text, ready to print.
        """
        return table_summary(self, ("lower bound", self.lower_bound_), feature_names, width)

    def _training_belief(self) -> ParameterBelief:
        return self.belief_

    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        fit: BeliefFit = self._state
        rngs = np.random.default_rng(fit.draw_seed).spawn(n_draws)
        return [sample_parameters(fit.result.belief, rng=rng) for rng in rngs]
