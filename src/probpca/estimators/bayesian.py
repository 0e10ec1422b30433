"""BayesianPCA: principal components with a belief about parameters, behind scikit-learn's verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from probpca.estimators.parameters import BAYESIAN_CONSTRAINTS
from probpca.estimators.reading import open_table, warn_of_flaws
from probpca.estimators.table import TableEstimator
from probpca.inference.imputation import ParameterCovariance
from probpca.inference.sampling import sample_parameters
from probpca.learning.bayesian.fit import fit_variational, fit_variational_standardized
from probpca.learning.progress import ProgressBar
from probpca.learning.result import Settings
from probpca.learning.seeds import generator
from probpca.models.serialization import belief_arrays, belief_from_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from probpca.learning.bayesian.fit import BeliefResult
    from probpca.models import LinearGaussian, ParameterBelief
    from probpca.typing import Array


class BayesianPCA(TableEstimator):
    r"""Principal component analysis that believes instead of fitting, and finds how many components there are.

    .. math::
        x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \sigma^2 I_d), \quad
        w_{jk} \sim N(0, 1 / \alpha_k)

    Loadings and mean have a posterior distribution, approximated as independent of that of the latent variables
    (variational Bayes). The precision :math:`\alpha_k` of each component is learned: where the rows do not support
    a component, its loadings are drawn to zero and it is removed (automatic relevance determination). Where cells
    are few for each parameter this predicts missing cells better than maximum likelihood, with intervals that hold,
    and more components than there are do no harm.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components to begin with, less than the number of columns; those that are not supported are
        removed. None: min(d - 1, n - 2, 50), where cells are missing min(d - 1, n - 2, 20).
    standardize : bool, default=False
        Fit to columns scaled to unit variance, and express the model in the units of the data.
    tol : float, default=1e-3
        Stop when the lower bound of the log evidence is estimated to rise by less than this, in nats.
    max_iter : int, default=1000
        Largest number of steps.
    missing : "nan" or "unstored", default="nan"
        NaN is a missing cell always. "unstored": so is what a sparse matrix does not store.
    n_jobs : int or None, default=None
        Threads over blocks of rows. None: as many as BLAS may use. -1: all cores.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Decides the starting vectors and what ``sample``, ``explore`` and ``impute_draws`` draw.

    Attributes
    ----------
    n_components_ : int
        Number of components that are left.
    relevance_ : ndarray (n_components,)
        Expected squared loading of each component, :math:`1 / \alpha_k = E\|w_k\|^2 / d`: small for components
        that matter little. d counts the columns of which something was observed.
    mean_, loadings_, components_
        Posterior means of the mean and of the loadings along their principal axes, and these axes.
    noise_variance_ : float, or ndarray (n_features,) when ``standardize=True``
    explained_variance_, explained_variance_ratio_ : ndarray (n_components,)
        Of a new row along each axis: doubt about loadings is part of its variance.
    lower_bound_ : float
        Of the log evidence, up to a constant that does not depend on the number of components.
    belief_ : ParameterBelief
        Mean and covariance of the parameters of each feature.
    model_ : LinearGaussian
        The Gaussian of a new row with doubt about parameters counted as noise: what all questions are put to.
    n_observed_, empty_features_, n_iter_, converged_, status_, trace_
        As ``PPCA`` has them; ``trace_`` is the bound before each step.

    Notes
    -----
    All methods are those of ``PPCA``, but for streams (``partial_fit``, ``merge``) and ``uncertainty``. Answers count
    doubt about parameters: ``score`` is the log density of new rows, intervals of missing cells are those of a row
    whose parameters are not known exactly, and ``impute_draws`` draws parameters from the belief, so that no training
    rows are needed. The belief takes latents and parameters for independent, and is somewhat too sure of each
    parameter.

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
    (3, '3 of 8 are relevant')
    >>> low, high = bayesian.impute_interval(X)
    >>> bool((low <= high).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = BAYESIAN_CONSTRAINTS
    _stored_numbers: ClassVar[tuple[str, ...]] = (
        "lower_bound_",
        "n_iter_",
        "n_samples_",
        "n_observed_",
        "rule_",
        "n_features_in_",
        "draw_seed_",
    )
    _stored_arrays: ClassVar[tuple[str, ...]] = ("trace_", "empty_features_")
    belief_: ParameterBelief

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
        """Store the parameters; ``fit`` looks at them."""
        self.n_components = n_components
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, cell_weight: Any = None) -> Self:
        """Fit the model to rows, of which cells may be missing; ``X`` and the weights are as ``PPCA`` takes them."""
        self._validate_params()
        for name in ("model_", "belief_", "lower_bound_", "n_components_", "trace_", "status_"):
            self.__dict__.pop(name, None)  # a fit that fails leaves nothing half fitted behind
        rng = generator(self.random_state)
        fit = fit_variational_standardized if self.standardize else fit_variational
        with ProgressBar(enabled=bool(self.verbose), objective="bound") as bar:
            source = open_table(self, X, sample_weight, cell_weight, bar.parts)
            settings = Settings(tol=self.tol, max_iter=self.max_iter, watch=bar)
            self._keep_belief(fit(source, self.n_components, settings, rng))
        self.draw_seed_ = int(rng.integers(2**63))
        warn_of_flaws(self)
        return self

    @property
    def relevance_(self) -> Array:
        """Expected squared loading of each component: (n_components,)."""
        return 1.0 / self.belief_.precision

    @property
    def noise_variance_(self) -> Any:
        """Noise variance without what doubt about parameters adds: a number, or one per feature."""
        noise = self.belief_.centre.noise_variance
        return float(noise) if noise.ndim == 0 else noise

    def _keep_belief(self, result: BeliefResult) -> None:
        self._keep_story(result)
        self.belief_ = result.belief
        self.n_samples_, self.n_observed_ = result.weight, result.cells
        self.rule_, self.empty_features_ = result.rule, result.empty

    def _parts(self) -> dict[str, Any]:
        return belief_arrays(self.belief_)

    def _take_parts(self, path: str | Path, arrays: Mapping[str, Any]) -> None:
        self.belief_ = belief_from_arrays(path, arrays)
        self.model_ = self.belief_.predictive()

    def _doubt(self) -> ParameterCovariance:
        doubt = ParameterCovariance(self.belief_.centre.noise_variance, self.belief_.covariance)
        return doubt.without(self.empty_features_)

    def _parameters(self, n_draws: int) -> list[LinearGaussian]:
        seeds = np.random.default_rng(self.draw_seed_).integers(2**63, size=n_draws)
        return [sample_parameters(self.belief_, rng=np.random.default_rng(int(seed))) for seed in seeds]
