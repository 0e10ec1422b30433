"""LinearDynamicalSystem: a hidden state that moves in time, learned by EM."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import Interval, StrOptions

from probpca.blocks.sequences import Sequences, is_several
from probpca.errors import ShapeError
from probpca.estimators.fitted import FitStory
from probpca.estimators.reading import warn_of_flaws
from probpca.estimators.series import SeriesQueries
from probpca.estimators.time import Remembered, checked
from probpca.inference.time_series.kalman import last_states
from probpca.learning import Settings
from probpca.learning.components import given_count
from probpca.learning.dynamics import Chosen, Structure, choose_states, fit_series, n_parameters
from probpca.learning.progress import ProgressBar
from probpca.learning.seeds import generator


class LinearDynamicalSystem(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    FitStory,
    SeriesQueries,
    BaseEstimator,  # type: ignore[misc]
):
    r"""A linear-Gaussian state-space model, learned by EM from series with missing cells.

    .. math::
        x_{t+1} = A x_t + B u_t + w_t, \quad w_t \sim N(0, Q), \qquad y_t = C x_t + c + v_t, \quad v_t \sim N(0, R)

    PPCA and factor analysis are its memoryless case, A = 0 and Q = I. Rows are steps of time; NaN is a cell that was
    not observed, and every other cell of its row still counts. Several sequences come as a list.

    Parameters
    ----------
    n_components : int, "bic", "cv" or None, default=None
        Number of states q. "bic" (and None) or "cv" (cells held out at random) choose it.
    transition : "free", "diagonal", "stable" or array (q, q), default="free"
        Form of A. "stable" keeps its eigenvalues within the unit circle; an array is kept as it is.
    process_noise : "free", "diagonal", "identity" or array (q, q), default="free"
        Form of Q. Where A, C and Q are all free the fitted system is told in canonical form, with Q = I.
    noise : "diagonal", "isotropic", float or array (d,), default="diagonal"
        Form of R: a variance for each feature, or one for all.
    loadings, offset : "free" or array, default="free"
        C (d, q) and c (d,), learned or kept.
    initial_mean : "free" or array (q,), default="free"
    initial_covariance : "auto", "free", "stationary", "identity" or array (q, q), default="auto"
        Covariance of the first state. "auto" learns it from ten sequences or more for each state; where they are
        fewer it is "stationary": as many times the process noise as in the stationary state of the first guess, for
        its own estimate would shrink for ever. "identity": as large as the process noise.
    ridge : float, default=0
        Weight of a prior that holds A back: so many additional transitions from each unit vector to zero.
    solver : "auto" or "em", default="auto"
        EM with extrapolation where it is slow, or plain EM. Neither ever lowers the likelihood.
    n_init : int, default=1
        The best of so many starts is kept.
    tol : float, default=1e-3
        Stop when the log-likelihood, over all sequences, is estimated to rise by less than this.
    max_iter : int, default=1000
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None

    Attributes
    ----------
    model_ : StateSpace
        The system itself, for the functions of this library.
    transition_, process_noise_, loadings_, offset_, noise_variance_, initial_mean_, initial_covariance_
        Its parameters; ``input_loadings_`` if it has inputs.
    eigenvalues_, time_constants_
        Of A, the slowest first; a time constant is in steps.
    log_likelihood_ : float
        Total over the training sequences.
    n_components_, n_iter_, converged_, status_, trace_, rule_, n_steps_, n_observed_, empty_features_

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import LinearDynamicalSystem
    >>> rng = np.random.default_rng(0)
    >>> level = np.cumsum(rng.standard_normal(300))
    >>> Y = np.outer(level, [1.0, 0.5, -1.0]) + rng.standard_normal((300, 3))
    >>> Y[50:60, 0] = np.nan
    >>> system = LinearDynamicalSystem(n_components=1, random_state=0).fit(Y)
    >>> system.eigenvalues_.real.round(2), system.noise_variance_.round(1)
    (array([0.99]), array([0.9, 0.9, 0.9]))
    >>> system.forecast(3).mean.shape
    (3, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"bic", "cv"}), None],
        "transition": [str, "array-like"],
        "process_noise": [str, "array-like"],
        "noise": [str, Real, "array-like"],
        "loadings": [str, "array-like"],
        "offset": [str, "array-like"],
        "initial_mean": [str, "array-like"],
        "initial_covariance": [str, "array-like"],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({"auto", "em"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: Any = None,
        *,
        transition: Any = "free",
        process_noise: Any = "free",
        noise: Any = "diagonal",
        loadings: Any = "free",
        offset: Any = "free",
        initial_mean: Any = "free",
        initial_covariance: Any = "auto",
        ridge: float = 0.0,
        solver: str = "auto",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        """Store the parameters; ``fit`` looks at them."""
        self.n_components = n_components
        self.transition = transition
        self.process_noise = process_noise
        self.noise = noise
        self.loadings = loadings
        self.offset = offset
        self.initial_mean = initial_mean
        self.initial_covariance = initial_covariance
        self.ridge = ridge
        self.solver = solver
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, inputs: Any = None) -> Self:
        """Learn the system from one sequence (T, d), a dataframe, or a list of them.

        ``inputs``, of as many rows, drive the state: those of step t enter what comes after it.
        """
        self._validate_params()
        if isinstance(self.n_components, bool):
            msg = f"n_components must be a number, 'bic', 'cv' or None; got {self.n_components}."
            raise ShapeError(msg)
        self.__dict__.pop("model_", None)  # a fit that fails leaves nothing half fitted behind
        rows = checked(self, X, inputs, reset=True)
        rng, structure = generator(self.random_state), self._structure()
        count = given_count(self.n_components)
        with ProgressBar(enabled=bool(self.verbose)) as bar:
            settings = Settings(self.solver, self.tol, self.max_iter, bar, self.n_init)
            if count is not None:
                _warn_of_too_many(rows, structure, count)
                chosen = Chosen(fit_series(rows, count, settings, rng, structure), "given", {})
            else:
                chosen = choose_states(rows, self.n_components or "bic", settings, rng, structure)
        self._keep(chosen)
        self.n_steps_ = rows.n_steps
        self.last_states_ = last_states(self.model_, rows)
        self.last_inputs_ = None if rows.inputs is None else rows.inputs[rows.starts + rows.lengths - 1]
        self.tables_ = [Remembered.of(x) for x in (X if is_several(X) else [X])]
        self.several_ = is_several(X)
        warn_of_flaws(self)
        return self

    def _structure(self) -> Structure:
        return Structure(
            self.transition,
            self.process_noise,
            self.noise,
            self.loadings,
            self.offset,
            self.initial_mean,
            self.initial_covariance,
            float(self.ridge),
        )

    def _keep(self, chosen: Chosen) -> None:
        result = chosen.result
        self._keep_story(result)
        self.n_observed_ = result.n_observed
        self.empty_features_ = result.empty
        self.rule_ = chosen.rule
        self.selection_scores_ = chosen.scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _warn_of_too_many(rows: Sequences, structure: Structure, count: int) -> None:
    inputs = 0 if rows.inputs is None else rows.inputs.shape[1]
    free = n_parameters(structure, count, rows.n_features, inputs, len(rows.lengths))
    observed = int(np.count_nonzero(~np.isnan(rows.values)))
    if 0 < observed < free:
        msg = (
            f"{count} states have {free:,} parameters to learn from {observed:,} observed cells: the fit follows the "
            "noise, and its intervals are too narrow. Take fewer n_components."
        )
        warnings.warn(msg, UserWarning, stacklevel=3)
