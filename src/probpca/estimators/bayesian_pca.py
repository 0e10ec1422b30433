"""BayesianPCA: principal components with a posterior distribution of the parameters, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from probpca.estimators.base import check_parameters, generator, open_training, progress_bar
from probpca.estimators.constraints import nothing, table_constraints, whole
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
    from pathlib import Path

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
    def from_record(cls, path: str | Path, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        belief = belief_from_arrays(path, arrays)
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
    r"""Bayesian principal component analysis, which also finds the number of components.

    .. math::
        x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \sigma^2 I_d), \quad
        w_{jk} \sim N(0, 1 / \alpha_k)

    Loadings and mean have a posterior distribution, approximated as independent of that of the latent variables
    (variational Bayes). The precision :math:`\alpha_k` of each component is learned: if the rows do not support a
    component, its loadings shrink to zero and it is removed (automatic relevance determination). If there are few
    cells for each parameter this predicts missing cells better than maximum likelihood, with intervals that have
    their nominal coverage, and superfluous components do no harm.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components to start with, less than the number of columns; those that the rows do not support are
        removed. None: min(d - 1, n - 2, 50), or min(d - 1, n - 2, 20) if cells are missing.
    standardize : bool, default=False
        Scale columns to unit variance, as is right if they have different units. Components, loadings, relevance and
        variances are then those of the scaled columns; all methods take and return rows in the units of the data.
    tol : float, default=1e-3
        Stop when the lower bound of the log evidence is estimated to rise by less than this, in nats.
    max_iter : int, default=1000
        Largest number of steps.
    missing : "nan" or "unstored", default="nan"
        NaN always marks a missing cell. With "unstored" the cells that a sparse matrix does not store are missing too.
    n_jobs : int or None, default=None
        Number of threads, which share the rows. None: as many as BLAS may use. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Determines the starting vectors, and the draws of ``sample``, ``explore`` and ``impute_draws``.

    Attributes
    ----------
    n_components_ : int
        Number of components that the rows support.
    relevance_ : ndarray (n_components,)
        Expected squared loading of each component, :math:`1 / \alpha_k = E\|w_k\|^2 / d`: small for components
        that matter little. d is the number of columns with observed cells.
    mean_, scale_
        Posterior mean of the mean, in the units of the data, and the scales of the columns, as for ``PPCA``. The other
        attributes that describe components are those of the columns divided by ``scale_``.
    loadings_, components_
        Posterior mean of the loadings along their principal axes, and these axes.
    noise_variance_ : float
        Variance of the noise, without what uncertainty about the parameters adds.
    explained_variance_, explained_variance_ratio_ : ndarray (n_components,)
        Variance of a new row along each axis, which includes the uncertainty of the loadings.
    lower_bound_ : float
        Lower bound of the log evidence, up to a constant that does not depend on the number of components.
    belief_ : ParameterBelief
        Mean and covariance of the parameters of each feature, in the units of the data.
    model_ : LinearGaussian
        Predictive distribution of a new row in the units of the data, approximated by a Gaussian in which the
        uncertainty of the parameters counts as noise. All methods use it, unless ``training=True`` says that rows are
        those of the fit.
    calibration_ : Calibration
        Reference distribution of the p-values of ``outliers``, matched to the rows of the fit.
    n_observed_, empty_features_, n_iter_, converged_, status_, trace_
        As for ``PPCA``; ``trace_`` is the lower bound before each step.

    Notes
    -----
    The methods are those of ``PPCA`` without streams (``partial_fit``, ``merge``) and ``uncertainty``. Results include
    the uncertainty of the parameters: ``score`` is the log density of new rows, intervals of missing cells allow for
    uncertain parameters, and ``impute_draws`` draws parameters from their posterior, so that it needs no training
    rows. Because latent variables and parameters are approximated as independent, the posterior variance of each
    parameter is somewhat too small.

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
        """Fit the model to rows with or without missing cells; ``X`` and the weights are those of ``PPCA.fit``."""
        check_parameters(self, self._constraints)
        self._fitted = None  # a fit that fails leaves no fit behind
        rng = generator(self.random_state)
        with progress_bar(self.verbose, "bound") as bar:
            source = open_training(self, X, sample_weight, cell_weight, None if bar is None else bar.parts)
            settings = Settings(tol=self.tol, max_iter=self.max_iter, watch=bar)
            result = fit_variational(source, self.n_components, settings, rng, standardize=bool(self.standardize))
        training = distances_of_fit(source, result)
        return self._finish(BeliefFit(result._replace(sample=None), int(rng.integers(2**63)), training=training))

    @property
    def belief_(self) -> ParameterBelief:
        """Mean and covariance of the parameters of each feature, in the units of the data."""
        return self._state.result.belief

    @property
    def lower_bound_(self) -> float:
        """Lower bound of the log evidence."""
        return self._state.result.lower_bound

    @property
    def relevance_(self) -> Array:
        """Expected squared loading of each component, of scaled columns if standardised: (n_components,)."""
        return 1.0 / self._state.result.scaled_belief.precision

    @property
    def noise_variance_(self) -> float:
        """Noise variance, of scaled columns if standardised, without the uncertainty of the parameters."""
        return float(self._state.result.scaled_belief.centre.noise_variance)

    def summary(self, feature_names: Any = None, *, width: int = WIDTH) -> str:
        """Describe the fit as text: the number of components, the variance of each, and how the fit ended.

        Tables have lines of at most ``width`` letters.
        """
        return table_summary(self, ("lower bound", self.lower_bound_), feature_names, width)

    def _training_belief(self) -> ParameterBelief:
        return self.belief_

    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        fit: BeliefFit = self._state
        rngs = np.random.default_rng(fit.draw_seed).spawn(n_draws)
        return [sample_parameters(fit.result.belief, rng=rng) for rng in rngs]
