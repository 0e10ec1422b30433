"""LinearDynamicalSystem: a hidden state that moves in time, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils._set_output import _get_output_config

from probpca.blocks.sequences import is_several
from probpca.errors import DataError, ShapeError
from probpca.estimators.base import (
    Estimator,
    Fit,
    check_parameters,
    checked_latents,
    generator,
    progress_bar,
    rounded,
)
from probpca.estimators.constraints import Option, array, iteration_constraints, nothing, number, one_of, whole
from probpca.estimators.ppca import PPCA, PPCAFit
from probpca.estimators.storage import read_story, story_record
from probpca.estimators.summary import dynamics_summary
from probpca.estimators.time_index import (
    Remembered,
    SeriesForecast,
    answer,
    checked,
    in_form_of,
    in_precision_of,
)
from probpca.inference.time_series import kalman, prediction
from probpca.inference.time_series.kalman import FilteredStates, Smoothed, last_states
from probpca.learning import Settings
from probpca.learning.components import given_count
from probpca.learning.dynamics import Chosen, SeriesResult, Structure, choose_states, fit_series, n_parameters
from probpca.learning.result import FitResult, complete_information
from probpca.models import Gaussian
from probpca.models.serialization import state_space_arrays, state_space_from_arrays
from probpca.result_tables import WIDTH

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from probpca.blocks.sequences import Sequences
    from probpca.inference.imputation import Imputed
    from probpca.inference.time_series.prediction import Innovations
    from probpca.models import StateSpace
    from probpca.typing import Array


@dataclass(frozen=True, eq=False)
class SeriesFit(Fit):
    """What a fit of ``LinearDynamicalSystem`` found, and what a forecast needs to know of the training sequences."""

    result: SeriesResult
    rule: str
    scores: dict[int, float]  # of each number of states that was tried
    n_steps: int
    counts: Array  # observed cells of each feature: (d,)
    last_states: list[Gaussian]  # of each sequence, given all of its steps
    last_inputs: Array | None
    tables: list[Remembered]
    several: bool

    def __getstate__(self) -> dict[str, Any]:
        """State for pickle, copy and skops, which knows no index of pandas."""
        return {**self.__dict__, "tables": [table.portable() for table in self.tables]}

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        numbers, arrays = story_record(self.result)
        numbers |= {
            "log_likelihood_": self.result.log_likelihood,
            "n_observed_": self.result.n_observed,
            "rule_": self.rule,
            "selection_scores_": list(self.scores.items()),
            "n_steps_": self.n_steps,
            "tables": [table.record() for table in self.tables],
            "several": self.several,
        }
        arrays |= {
            "empty_features_": self.result.empty,
            "counts": self.counts,
            "last_mean": np.stack([state.mean for state in self.last_states]),
            "last_covariance": np.stack([state.covariance for state in self.last_states]),
        }
        if self.last_inputs is not None:
            arrays["last_inputs"] = self.last_inputs
        return numbers, {**state_space_arrays(self.result.model), **arrays}

    @classmethod
    def from_record(cls, path: str | Path, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        result = SeriesResult(
            model=state_space_from_arrays(path, arrays),
            log_likelihood=numbers["log_likelihood_"],
            n_observed=numbers["n_observed_"],
            empty=arrays["empty_features_"],
            **read_story(numbers, arrays),
        )
        return cls(
            result,
            rule=numbers["rule_"],
            scores=dict(numbers["selection_scores_"]),
            n_steps=numbers["n_steps_"],
            counts=arrays["counts"],
            last_states=list(map(Gaussian, arrays["last_mean"], arrays["last_covariance"])),
            last_inputs=arrays.get("last_inputs"),
            tables=[Remembered.from_record(table) for table in numbers["tables"]],
            several=numbers["several"],
        )


class LinearDynamicalSystem(Estimator):
    r"""A linear-Gaussian state-space model, learned by EM from series with missing cells.

    .. math::
        x_{t+1} = A x_t + B u_t + w_t, \quad w_t \sim N(0, Q), \qquad y_t = C x_t + c + v_t, \quad v_t \sim N(0, R)

    PPCA and factor analysis are the case without memory, A = 0 and Q = I. Rows are time steps. NaN is a missing cell;
    the other cells of its row are still used. Several sequences are passed as a list.

    Parameters
    ----------
    n_components : int, "bic", "cv" or None, default=None
        Number of states q, or the criterion that chooses it: "bic" (also None), or "cv", which predicts cells that
        are held out at random.
    transition : "free", "diagonal", "stable" or array (q, q), default="free"
        Form of A. "stable" keeps its eigenvalues within the unit circle; an array is used as it is.
    process_noise : "free", "diagonal", "identity" or array (q, q), default="free"
        Form of Q. If A, C and Q are all free the fitted system is in canonical form, with Q = I.
    noise : "diagonal", "isotropic", float or array (d,), default="diagonal"
        Form of R: a variance for each feature, or one for all.
    loadings, offset : "free" or array, default="free"
        C (d, q) and c (d,), learned or fixed.
    initial_mean : "free" or array (q,), default="free"
    initial_covariance : "auto", "free", "stationary", "identity" or array (q, q), default="auto"
        Covariance of the first state. "auto" learns it if there are at least ten sequences for each state, and
        otherwise is "stationary": the process noise times the ratio that it has in the stationary state of the
        initialisation, because an estimate from few sequences would shrink to zero. "identity": the process noise.
    ridge : float, default=0
        Weight of a prior that shrinks A: a number of additional transitions from each unit vector to zero.
    solver : "auto" or "em", default="auto"
        EM with extrapolation if it is slow, or plain EM. Neither ever decreases the likelihood.
    n_init : int, default=1
        Number of starts, of which the best is kept.
    tol : float, default=1e-3
        Stop when the log-likelihood, over all sequences, is estimated to rise by less than this.
    max_iter : int, default=1000
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None

    Attributes
    ----------
    model_ : StateSpace
        The fitted system, for the functions of ``probpca.inference``.
    transition_, process_noise_, loadings_, offset_, noise_variance_, initial_mean_, initial_covariance_
        Parameters of the system; also ``input_loadings_`` if it has inputs.
    eigenvalues_, time_constants_
        Eigenvalues of A, the slowest first, and the number of steps in which each mode decays to 1/e.
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

    _constraints: ClassVar[dict[str, Any]] = {
        "n_components": (whole(1), one_of("bic", "cv"), nothing()),
        "transition": (Option("a str", (str,)), array()),
        "process_noise": (Option("a str", (str,)), array()),
        "noise": (Option("a str or a float", (str, Real)), array()),
        "loadings": (Option("a str", (str,)), array()),
        "offset": (Option("a str", (str,)), array()),
        "initial_mean": (Option("a str", (str,)), array()),
        "initial_covariance": (Option("a str", (str,)), array()),
        "ridge": (number("[", 0, np.inf, ")"),),
        "solver": (one_of("auto", "em"),),
        "n_init": (whole(1),),
        **iteration_constraints(),
    }
    _fit_type = SeriesFit
    _component = "F"
    model_: StateSpace

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
        """Store the parameters; ``fit`` checks them."""
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

        ``inputs``, with as many rows, drive the state: those of step t affect the state of step t + 1.
        """
        check_parameters(self, self._constraints)
        if isinstance(self.n_components, bool):
            msg = f"n_components must be a number, 'bic', 'cv' or None; got {self.n_components}."
            raise ShapeError(msg)
        self._fitted = None  # a fit that fails leaves no fit behind
        rows = checked(self, X, inputs, reset=True)
        with progress_bar(self.verbose) as bar:
            chosen = self._learn(rows, Settings(self.solver, self.tol, self.max_iter, bar, self.n_init))
        fit = SeriesFit(
            chosen.result,
            chosen.rule,
            chosen.scores,
            rows.n_steps,
            rows.counts,
            last_states(chosen.result.model, rows),
            None if rows.inputs is None else rows.inputs[rows.starts + rows.lengths - 1],
            [Remembered.of(x) for x in (X if is_several(X) else [X])],
            is_several(X),
        )
        return self._finish(fit)

    def _learn(self, rows: Sequences, settings: Settings) -> Chosen:
        rng, structure = generator(self.random_state), self._structure()
        count = given_count(self.n_components)
        if count is None:
            return choose_states(rows, self.n_components or "bic", settings, rng, structure)
        _warn_of_too_many(rows, structure, count)
        return Chosen(fit_series(rows, count, settings, rng, structure), "as given", {})

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

    @property
    def transition_(self) -> Array:
        """Transition matrix A: (q, q)."""
        return self.model_.transition

    @property
    def process_noise_(self) -> Array:
        """Covariance Q of the process noise: (q, q)."""
        return self.model_.process_noise

    @property
    def loadings_(self) -> Array:
        """Loadings C of the observations: (n_features, q)."""
        return self.model_.emission.loadings

    @property
    def offset_(self) -> Array:
        """Offset c of the observations: (n_features,)."""
        return self.model_.emission.mean

    @property
    def noise_variance_(self) -> Any:
        """Noise variance R of the observations: a number, or one for each feature."""
        noise = self.model_.emission.noise_variance
        return float(noise) if noise.ndim == 0 else noise

    @property
    def input_loadings_(self) -> Array | None:
        """Effect B of the inputs on the next state: (q, n_inputs); None without inputs."""
        return self.model_.input_loadings

    @property
    def initial_mean_(self) -> Array:
        """Mean of the first state: (q,)."""
        return self.model_.initial.mean

    @property
    def initial_covariance_(self) -> Array:
        """Covariance of the first state: (q, q)."""
        return self.model_.initial.covariance

    @property
    def eigenvalues_(self) -> npt.NDArray[np.complex128]:
        """Eigenvalues of the transition matrix, the slowest mode first: (q,)."""
        return self.model_.eigenvalues

    @property
    def time_constants_(self) -> Array:
        """Number of steps in which each mode decays to 1/e: (q,)."""
        return self.model_.time_constants

    @property
    def log_likelihood_(self) -> float:
        """Log-likelihood of the training sequences."""
        return self._state.result.log_likelihood

    @property
    def rule_(self) -> str:
        """How the number of states was chosen."""
        return self._state.rule

    @property
    def n_observed_(self) -> int:
        """Number of observed cells of the training sequences."""
        return self._state.result.n_observed

    @property
    def n_steps_(self) -> int:
        """Number of steps of the training sequences."""
        return self._state.n_steps

    @property
    def selection_scores_(self) -> dict[int, float]:
        """Criterion for each number of states that was tried; empty if the number was given."""
        return self._state.scores

    def summary(self, feature_names: Any = None, *, width: int = WIDTH) -> str:
        """Describe the fit as text: the modes, the loadings of each state, and how the fit ended.

        Tables have lines of at most ``width`` letters.
        """
        return dynamics_summary(self, ("log-likelihood", self.log_likelihood_), feature_names, width)

    def score(self, X: Any, y: Any = None, *, inputs: Any = None) -> float:
        """Mean log-likelihood of a time step."""
        rows = self._rows(X, inputs)
        return kalman.series_log_likelihood(self.model_, rows) / rows.n_steps

    def log_likelihood(self, X: Any, *, inputs: Any = None) -> float:
        """Total log-likelihood of the sequences."""
        rows = self._rows(X, inputs)
        return kalman.series_log_likelihood(self.model_, rows)

    def score_samples(self, X: Any, *, inputs: Any = None) -> Any:
        """Log-likelihood of each step given those before it: (n,)."""
        rows = self._rows(X, inputs)
        return answer(X, kalman.filter_states(self.model_, rows).log_likelihood)

    def transform(self, X: Any, *, inputs: Any = None) -> Any:
        """Smoothed means of the states, given all steps of their sequence: (n, q)."""
        rows = self._rows(X, inputs)
        if is_several(X) and _get_output_config("transform", self)["dense"] != "default":
            msg = "set_output goes with one sequence; several were given.\nHint: transform them one by one."
            raise DataError(msg)
        return answer(X, kalman.believe(self.model_, rows).mean, in_precision_of)

    def fit_transform(self, X: Any, y: Any = None, *, inputs: Any = None) -> Any:
        """Fit, then return the smoothed means of the states: (n, q)."""
        return self.fit(X, inputs=inputs).transform(X, inputs=inputs)

    def inverse_transform(self, X: Any) -> Array:
        """Rows predicted from states, C x + c: (n, n_features)."""
        states = checked_latents(X, self.n_components_)
        return rounded(states @ self.loadings_.T + self.offset_, states.dtype)

    def smooth(self, X: Any, *, inputs: Any = None) -> Any:
        """Smoothed states, given all steps of their sequence: means, covariances, and lag-one covariances."""
        rows = self._rows(X, inputs)
        found = kalman.smooth(self.model_, rows)
        parts = [Smoothed(*part) for part in zip(*map(rows.split, found), strict=True)]
        return parts if is_several(X) else parts[0]

    def filter(self, X: Any, *, inputs: Any = None) -> Any:
        """Predicted states, given the steps before them, and filtered states, given their own step too."""
        rows = self._rows(X, inputs)
        found = kalman.filter_states(self.model_, rows)
        if not is_several(X):
            return found
        cut = [rows.split(value) for value in (*_fields(found.predicted), *_fields(found.filtered))]
        rest = zip(rows.split(found.log_likelihood), rows.split(found.distance), strict=True)
        return [
            FilteredStates(Gaussian(a, b), Gaussian(c, d), *pair) for a, b, c, d, pair in zip(*cut, rest, strict=True)
        ]

    def forecast(self, horizon: int, X: Any = None, *, inputs: Any = None, future: Any = None) -> Any:
        """Forecast the next ``horizon`` rows of ``X``, or of the training data, with their uncertainty.

        ``future`` are the inputs after the last one, ``horizon - 1`` rows. The forecast of a dataframe is a dataframe
        that continues its time index.
        """
        fit: SeriesFit = self._state
        if X is None:
            found = prediction.forecast_from(self.model_, fit.last_states, horizon, fit.last_inputs, future)
            tables, several = fit.tables, fit.several
        else:
            found = prediction.forecast(self.model_, self._rows(X, inputs), horizon, future=future)
            tables, several = [Remembered.of(x) for x in (X if is_several(X) else [X])], is_several(X)
        known = [replace(one, unknown=self.empty_features_) for one in found]
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        forecasts = [SeriesForecast(one, table, names) for one, table in zip(known, tables, strict=True)]
        return forecasts if several else forecasts[0]

    def impute(self, X: Any, *, inputs: Any = None, return_std: bool = False) -> Any:
        """Fill in missing cells from all of their sequence; with ``return_std`` also their standard deviations."""
        found = self._imputed(X, inputs)
        values = answer(X, found.values, in_form_of)
        return (values, answer(X, found.std, in_form_of)) if return_std else values

    def impute_interval(self, X: Any, level: float = 0.95, *, inputs: Any = None) -> tuple[Any, Any]:
        """Lower and upper ends of intervals that contain each missing cell with probability ``level``.

        Both ends of an observed cell are its value.
        """
        low, high = self._imputed(X, inputs).interval(level)
        return answer(X, low, in_form_of), answer(X, high, in_form_of)

    def _imputed(self, X: Any, inputs: Any = None) -> Imputed:
        """Completed steps of all sequences with the standard deviation of each cell: infinite in empty features."""
        found = prediction.impute_series(self.model_, self._rows(X, inputs))
        empty = np.isin(np.arange(self.model_.n_features), self.empty_features_)
        return found._replace(std=np.where(empty & (found.std > 0), np.inf, found.std))

    def anomalies(self, X: Any, *, inputs: Any = None) -> Any:
        """Distance of each step from its prediction by the steps before it, with p-values by step and by cell."""
        rows = self._rows(X, inputs)
        found = prediction.innovations(self.model_, rows)
        parts: list[Innovations] = [type(found)(*part) for part in zip(*map(rows.split, found), strict=True)]
        return parts if is_several(X) else parts[0]

    def sample(self, n_steps: int = 1, *, inputs: Any = None, random_state: Any = None) -> Array:
        """Draw a series: (n_steps, n_features)."""
        model = self.model_
        return prediction.sample_series(model, n_steps, rng=self._generator(random_state), inputs=inputs).rows

    def sample_states(self, X: Any, n_draws: int = 1, *, inputs: Any = None, random_state: Any = None) -> Any:
        """Draw trajectories of the state given all observed cells: (n_draws, n, q)."""
        rows = self._rows(X, inputs)
        rng = self._generator(random_state)
        drawn = kalman.sample_trajectories(self.model_, rows, n_draws, rng=rng)
        parts = np.split(drawn, rows.starts[1:], axis=1)
        return parts if is_several(X) else parts[0]

    def to_ppca(self) -> PPCA:
        """Return the stationary distribution of a single row as a fitted PPCA.

        Exact if A = 0; otherwise it ignores that rows depend on those before them. If features have noise variances
        of their own the model is that of factor analysis.
        """
        fit: SeriesFit = self._state
        model = self.model_
        if model.n_components >= model.n_features:
            msg = f"PPCA needs fewer components than features; got {model.n_components} and {model.n_features}."
            raise DataError(msg)
        ppca = PPCA(n_components=model.n_components, random_state=self.random_state)
        # The states of a row alone have moments 0 and I, so that each observed cell adds I to the information.
        information = complete_information(1.0, model.n_components) * fit.counts
        result = FitResult(
            model.marginal().principal(),
            fit.result.status,
            np.nan,
            (),
            0,
            float(fit.n_steps),
            "from a dynamical system",
            float(fit.result.n_observed),
            information[:, :1] if (fit.counts == fit.n_steps).all() else information,
            fit.result.empty,
        )
        ppca._fitted = PPCAFit(result)  # noqa: SLF001
        ppca.n_features_in_ = model.n_features
        if hasattr(self, "feature_names_in_"):
            ppca.feature_names_in_ = self.feature_names_in_
        return ppca

    def _rows(self, X: Any, inputs: Any) -> Sequences:
        return kalman.rows_of(self.model_, checked(self, X, inputs))


def _warn_of_too_many(rows: Sequences, structure: Structure, count: int) -> None:
    inputs = 0 if rows.inputs is None else rows.inputs.shape[1]
    free = n_parameters(structure, count, rows.n_features, inputs, len(rows.lengths))
    observed = int(np.count_nonzero(~np.isnan(rows.values)))
    if 0 < observed < free:
        msg = (
            f"{count} states have {free:,} parameters to learn from {observed:,} observed cells: the fit follows the "
            "noise, and its intervals are too narrow. Take fewer n_components."
        )
        warnings.warn(msg, UserWarning, stacklevel=4)


def _fields(belief: Gaussian) -> tuple[Array, Array]:
    return belief.mean, belief.covariance
