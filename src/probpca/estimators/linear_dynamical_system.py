"""LinearDynamicalSystem: a hidden state that moves in time, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils._set_output import _get_output_config

from probpca.errors import DataError, ShapeError
from probpca.estimators.backtest import About, Origin, origins_of, run_backtest, span_words
from probpca.estimators.base import (
    Estimator,
    Fit,
    checked_latents,
    generator,
    names_for,
    progress_bar,
    rounded,
)
from probpca.estimators.constraints import (
    Option,
    array,
    check_parameters,
    iteration_constraints,
    nothing,
    number,
    one_of,
    whole,
)
from probpca.estimators.online import one_input, one_row, place_of, steps_to
from probpca.estimators.own_components import SEASON_WORDS, TREND_WORDS, asked_components, is_stationary
from probpca.estimators.ppca import PPCA, PPCAFit
from probpca.estimators.series_tables import Reading, SeriesTables, read_tables, tables_of
from probpca.estimators.storage import read_story, story_record
from probpca.estimators.summary import dynamics_summary
from probpca.estimators.time_index import Remembered, SeriesForecast, in_precision_of
from probpca.inference.time_series import kalman, prediction
from probpca.inference.time_series.decomposition import SeriesComponents, decompose
from probpca.inference.time_series.kalman import FilteredStates, Smoothed, last_states
from probpca.inference.time_series.row_filter import KnownState, RowFilter
from probpca.learning import Settings
from probpca.learning.components import given_count
from probpca.learning.dynamics import (
    Chosen,
    SeriesResult,
    Structure,
    choose_states,
    fit_series,
    fit_stationary,
    fit_structured,
    n_parameters,
)
from probpca.learning.result import FitResult, complete_information
from probpca.models import Gaussian
from probpca.models.components import seasons_of, trends_of
from probpca.models.serialization import layout_record, state_space_arrays, state_space_from_arrays
from probpca.result_tables import WIDTH, default_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from probpca.blocks.sequences import Sequences
    from probpca.inference.imputation import Imputed
    from probpca.inference.time_series.backtest import Backtest
    from probpca.inference.time_series.prediction import Innovations
    from probpca.inference.time_series.row_filter import Update
    from probpca.models import StateSpace
    from probpca.typing import Array


@dataclass(frozen=True, eq=False)
class SeriesFit(Fit):
    """Fitted state of ``LinearDynamicalSystem``, with what a forecast needs to know about the training sequences."""

    result: SeriesResult
    rule: str
    scores: dict[int, float]  # of each number of states that was tried
    n_steps: int
    counts: Array  # observed cells of each feature: (d,)
    last_states: list[KnownState]  # of each sequence, given all of its steps
    last_inputs: Array | None  # of each sequence: (s, u)
    tables: list[Remembered]
    several: bool
    reading: Reading  # how later tables are read
    n_inserted: int  # absent rows that were added as empty ones
    row_filter: RowFilter | None = None  # prepared by the first update

    def __getstate__(self) -> dict[str, Any]:
        """State for pickle, copy and skops, which knows no index of pandas."""
        return {**self.__dict__, "tables": [table.portable() for table in self.tables], "row_filter": None}

    def updated(self, k: int, row: Array, inputs: Array | None) -> tuple[Self, Update]:
        """Return the fit with sequence ``k`` continued by a row and its inputs, and what the row says."""
        model, last = self.result.model, self.last_inputs
        row_filter = RowFilter(model) if self.row_filter is None else self.row_filter
        push = None if last is None else model.input_loadings @ last[k]
        state, told = row_filter.update(self.last_states[k], row, push)
        states, tables = list(self.last_states), list(self.tables)
        states[k], tables[k] = state, tables[k]._replace(later=tables[k].later + 1)
        if last is not None:
            last = last.copy()
            last[k] = inputs
        return replace(self, last_states=states, last_inputs=last, tables=tables, row_filter=row_filter), told

    def record(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the numbers and arrays that go into a file."""
        numbers, arrays = story_record(self.result)
        numbers |= {
            "log_likelihood_": self.result.log_likelihood,
            "n_observed_": self.result.n_observed,
            "rule_": self.rule,
            "selection_scores_": list(self.scores.items()),
            "n_steps_": self.n_steps,
            "layout": layout_record(self.result.model),
            "tables": [table.record() for table in self.tables],
            "several": self.several,
            "reading": self.reading.record(),
            "n_inserted_": self.n_inserted,
            "steady": [state.steady for state in self.last_states],
        }
        arrays |= {
            "empty_features_": self.result.empty,
            "counts": self.counts,
            "last_mean": np.stack([state.mean for state in self.last_states]),
            "last_root": np.stack([state.root for state in self.last_states]),
        }
        if self.last_inputs is not None:
            arrays["last_inputs"] = self.last_inputs
        return numbers, {**state_space_arrays(self.result.model), **arrays}

    @classmethod
    def from_record(cls, numbers: Mapping[str, Any], arrays: Mapping[str, Any]) -> Self:
        """Build the fit from the numbers and arrays of a file."""
        result = SeriesResult(
            model=state_space_from_arrays(arrays, numbers["layout"]),
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
            last_states=list(map(KnownState, arrays["last_mean"], arrays["last_root"], numbers["steady"])),
            last_inputs=arrays.get("last_inputs"),
            tables=[Remembered.from_record(table) for table in numbers["tables"]],
            several=numbers["several"],
            reading=Reading.from_record(numbers["reading"]),
            n_inserted=numbers["n_inserted_"],
        )


class LinearDynamicalSystem(Estimator):
    r"""Linear dynamical system (linear-Gaussian state-space model) for time series with missing cells.

    .. math::
        x_{t+1} = A x_t + B u_t + w_t, \quad w_t \sim N(0, Q), \qquad y_t = C x_t + c + v_t, \quad v_t \sim N(0, R)

    Hidden states x evolve over time and are observed through the features y with noise; u are optional inputs. Rows are
    time steps. NaN marks a missing cell; the other cells of its row are still used. Several sequences are passed as a
    list.

    By default each feature j has states of its own, a level l, a slope b and a season s, as far as its data ask for
    them:

    .. math::
        y_{tj} = l_{tj} + s_{tj} + v_{tj}, \quad l_{t+1} = l_t + b_t + w^l_t, \quad b_{t+1} = \phi b_t + w^b_t,
        \quad s_{t+1} = G s_t + w^s_t

    G turns pairs of seasonal states by :math:`2 \pi k / p`, with p the steps of a season. Kind of trend, season or no
    season, and all variances are the best of a grid of candidates by BIC, on rows that all candidates predict. Starts
    are unknown (variance 1e6): the first rows, one more than a feature has states, determine them and are not scored.
    Variances include the uncertainty of their scale, and are raised if forecasts of several steps within the rows were
    worse than the model expects.

    With ``n_components=k``, k factors f are common to all features. They are stationary by construction:

    .. math::
        y_t = l_t + s_t + C f_t + v_t, \quad f_{t+1} = A f_t + w_t, \quad w_t \sim N(0, I - A A^\top), \quad
        A = S (I + S^\top S)^{-1/2}

    with :math:`f_1 \sim N(0, I)` and any matrix S. The levels are constant if that predicts better than trends. PPCA
    and factor analysis are the special case without memory, A = 0 and Q = I. In the shapes below q is the number of
    states and d the number of features.

    Parameters
    ----------
    n_components : int, "bic", "cv" or None, default=None
        Number of factors, or the criterion that chooses it: "bic", or "cv", which predicts cells that are held out at
        random, without trends. 0: no factors. None: no factors, but two or three in place of the trend of a single
        feature without a season, if its BIC is clearly better. None with ``trend=None``, or with a parameter that is
        about factors (a word or an array from ``transition`` to ``ridge``, or inputs): the same as "bic".
    trend : "auto", "constant", "level", "drift", "damped", "slope", "ar", None, or a list of these, default="auto"
        Trend of all features, or of each: a "constant" level (None is the same); a "level" that moves as a random walk;
        one with a fixed slope ("drift"), a slope that fades ("damped") or one that moves ("slope"); or a constant level
        with an autoregressive deviation ("ar"). "auto": chosen by BIC for each feature.
    seasonal : "auto", "fixed", "stochastic" or None, default="auto"
        Season of the features: one that repeats itself, one that changes slowly, or none. "auto": chosen by BIC for
        each feature.
    seasonal_periods : int or "auto", default="auto"
        Number of steps of a season. "auto": by the time index of a pandas dataframe, 12 for months, 4 for quarters, 52
        for weeks, 7 for days (5 without weekends), 24 for hours; 1, no season, without one. None is the same.
    transition : "auto", "stationary", "free", "diagonal", "stable" or array (q, q), default="auto"
        Transition matrix A of the factors. "stationary": by construction, in coordinates with stationary covariance I,
        where :math:`Q = I - A A^\top` and A has singular values below 1. "free": any matrix; "diagonal": a diagonal
        one; "stable": one whose eigenvalues stay within the unit circle. An array is used as given and not learned.
        "auto": "stationary"; with inputs, or if another parameter of the factors is restricted, "stable".
    process_noise : "free", "diagonal", "identity" or array (q, q), default="free"
        Covariance Q of the process noise w. If A, C and Q are all free, the scale of the states is arbitrary, and the
        fitted system is rescaled so that Q = I. An array is used as given and not learned.
    noise : "diagonal", "isotropic", float or array (d,), default="diagonal"
        Covariance R of the observation noise v: one variance for each feature ("diagonal"), or one for all
        ("isotropic"). Numbers are used as given and not learned.
    loadings : "free" or array (d, q), default="free"
        Loadings C: learned ("free") or fixed.
    offset : "free" or array (d,), default="free"
        Offset c: learned ("free") or fixed.
    initial_mean : "free" or array (q,), default="free"
        Mean of the first state: learned ("free") or fixed.
    initial_covariance : "auto", "free", "stationary", "identity" or array (q, q), default="auto"
        Covariance of the first state. "free": learned. "stationary": the process noise multiplied by the ratio of the
        stationary covariance to the process noise at initialisation. "identity": equal to the process noise. "auto":
        "free" if there are at least ten sequences for each state, otherwise "stationary", because an estimate from few
        sequences would shrink to zero.
    ridge : float, default=0
        Strength of a prior that shrinks A towards 0, as ``ridge`` additional transitions from each unit vector to 0
        would.
    solver : "auto" or "em", default="auto"
        "em" is plain EM. "auto" is EM with extrapolation where EM is slow. The likelihood never decreases with either.
    n_init : int, default=1
        Number of random starts; the fit with the largest likelihood is kept.
    tol : float, default=1e-3
        Iterations stop when the total log-likelihood is estimated to be within ``tol`` of its maximum.
    max_iter : int, default=1000
        Largest number of iterations.
    verbose : bool, default=False
        Show a progress bar.
    random_state : int, RandomState, Generator or None, default=None
        Determines the starting values, the cells that "cv" holds out, and the draws of ``sample`` and
        ``sample_states``.

    Attributes
    ----------
    model_ : StateSpace
        The fitted system, for the functions of ``probpca.inference``.
    transition_ : ndarray (q, q)
        Transition matrix A.
    process_noise_ : ndarray (q, q)
        Covariance Q of the process noise.
    loadings_ : ndarray (d, q)
        Loadings C of the features on the states.
    offset_ : ndarray (d,)
        Offset c of the features.
    noise_variance_ : float or ndarray (d,)
        Variance R of the observation noise: one for all features, or one for each.
    input_loadings_ : ndarray (q, n_inputs) or None
        Effect B of the inputs on the next state; None without inputs.
    initial_mean_ : ndarray (q,)
        Mean of the first state of a sequence.
    initial_covariance_ : ndarray (q, q)
        Covariance of the first state of a sequence.
    eigenvalues_ : ndarray of complex (n_components,)
        Eigenvalues of the transition matrix of the factors, the slowest mode first.
    time_constants_ : ndarray (n_components,)
        Number of steps in which each mode of the factors decays to 1/e.
    trend_ : list of str
        Trend of each feature: "constant", "ar", "level", "drift", "damped" or "slope".
    seasonal_ : list of str or None
        Season of each feature: "fixed", "stochastic" or None.
    seasonal_periods_ : int
        Number of steps of a season; 1 if no season was looked for.
    factors_ : tuple of ndarray
        Transition (q, q) and loadings (d, q) of the q factors.
    log_likelihood_ : float
        Total log-likelihood of the training sequences, of the rows that are scored.
    n_components_ : int
        Number of factors; states of single features are not counted.
    rule_ : str
        How trend and season, or the number of factors, were chosen, in words.
    selection_scores_ : dict of int to float
        Score of each number of factors that was tried, larger is better; empty if ``n_components`` is a number.
    n_steps_ : int
        Number of time steps in the training sequences.
    n_inserted_ : int
        Number of time steps that have no row in the training tables, and count as empty rows.
    n_observed_ : int
        Number of observed cells in the training sequences.
    empty_features_ : ndarray of int
        Positions of the features without any observed cell.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of str
        Names of the features, if the training data have names.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit reached the maximum of the likelihood to within ``tol``.
    status_ : Status
        How the fit ended; ``status_.value`` is a sentence that explains it.
    trace_ : ndarray (n_iter + 1,)
        Log-likelihood before each iteration and at the end.

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
    (array([0.99]), array([1., 1., 1.]))
    >>> system.forecast(3).mean.shape
    (3, 3)

    Without ``n_components``, each feature has a trend and a season of its own:

    >>> t = np.arange(72)
    >>> births = 0.5 * t + 4 * np.sin(2 * np.pi * t / 12) + rng.standard_normal(72)
    >>> system = LinearDynamicalSystem(seasonal_periods=12).fit(births[:, None])
    >>> system.trend_, system.seasonal_
    (['drift'], ['fixed'])
    >>> system.forecast(3).mean.round(0).ravel()
    array([36., 38., 40.])
    """

    _constraints: ClassVar[dict[str, Any]] = {
        "n_components": (whole(0), one_of("bic", "cv"), nothing()),
        "trend": (one_of(*TREND_WORDS), Option("a list of str", (list, tuple)), nothing()),
        "seasonal": (one_of(*SEASON_WORDS), nothing()),
        "seasonal_periods": (whole(1), one_of("auto"), nothing()),
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
        trend: Any = "auto",
        seasonal: str | None = "auto",
        seasonal_periods: Any = "auto",
        transition: Any = "auto",
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
        self.trend = trend
        self.seasonal = seasonal
        self.seasonal_periods = seasonal_periods
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

    def fit(
        self, X: Any, y: Any = None, *, inputs: Any = None, time: Any = None, series: Any = None, step: Any = None
    ) -> Self:
        """Fit the system to one sequence or several.

        The times of a dataframe are its pandas index, or its only column of dates. Rows that are absent between them
        count as empty rows, so that time does not close up; other methods read their tables in the same way.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Known inputs u that drive the states: those of step t affect the state of step t + 1.
        time : column name or None, default=None
            Column that holds the times, as dates or numbers. None: a pandas index of dates, periods or numbers, or
            the only column of dates.
        series : column name or None, default=None
            Column that names the series of each row, if several are stacked in one table (long format). If each row
            has one value, the series become the features of one sequence; otherwise they become several sequences.
        step : str, timedelta, number or None, default=None
            Length of a step, such as "month", "D", "h" or "15min"; each row goes to its month or day, or to the
            nearest step of another length. None: the step that all rows are multiples of apart; an error if there is
            none.

        Returns
        -------
        LinearDynamicalSystem
            The fitted estimator itself.
        """
        check_parameters(self, self._constraints)
        if isinstance(self.n_components, bool):
            msg = f"n_components must be a whole number, 'bic', 'cv' or None; got {self.n_components}."
            raise ShapeError(msg)
        self._fitted = None  # a fit that fails leaves no fit behind
        found, reading = read_tables(self, X, inputs, reading=Reading(time, series, step), reset=True)
        rows = found.rows
        with progress_bar(self.verbose) as bar:
            settings = Settings(self.solver, self.tol, self.max_iter, bar, self.n_init)
            chosen = self._learn(rows, settings, reading.season)
        fit = SeriesFit(
            chosen.result,
            chosen.rule,
            chosen.scores,
            rows.n_steps,
            rows.counts,
            chosen.last_states or last_states(chosen.result.model, rows),
            None if rows.inputs is None else rows.inputs[rows.starts + rows.lengths - 1],
            list(map(Remembered.of, found.tables, rows.lengths.tolist())),
            found.several,
            reading,
            found.n_inserted,
        )
        return self._finish(fit)

    def _learn(self, rows: Sequences, settings: Settings, period: int) -> Chosen:
        count = given_count(self.n_components)
        own = asked_components(self, rows.n_features, period, inputs=rows.inputs is not None)
        if own is not None:
            if count:
                _warn_of_too_many(rows, self._structure(), count)
            asked = self.n_components if count is None else count
            return fit_structured(rows, *own, asked, settings, generator(self.random_state))
        rng, structure = generator(self.random_state), self._structure()
        stationary = is_stationary(self, inputs=rows.inputs is not None)
        if count is None:
            fit = _fit_stationary if stationary else fit_series
            return choose_states(rows, self.n_components or "bic", settings, rng, structure, fit)
        _warn_of_too_many(rows, structure, count)
        if stationary:
            return Chosen(fit_stationary(rows, count, settings, rng), "as given", {})
        return Chosen(fit_series(rows, count, settings, rng, structure), "as given", {})

    def _structure(self) -> Structure:
        word = isinstance(self.transition, str) and self.transition in ("auto", "stationary")
        return Structure(
            "stable" if word else self.transition,
            self.process_noise,
            self.noise,
            self.loadings,
            self.offset,
            self.initial_mean,
            self.initial_covariance,
            float(self.ridge),
        )

    @property
    def n_components_(self) -> int:
        """Number of factors: states that all features share."""
        return self.model_.n_factors

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.n_components)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the columns that ``transform`` returns.

        Parameters
        ----------
        input_features : sequence of str or None, default=None
            Names of the input columns. They only have to match those of the fit, as in scikit-learn.

        Returns
        -------
        ndarray of str, shape (n_states,)
            F1, F2, ... for factors; the name of a feature with "level", "slope" or "season 1" for its own states.
        """
        names = super().get_feature_names_out(input_features)
        layout = self.model_.layout
        return names if layout is None else np.array(layout.names(self._feature_names()), dtype=object)

    def _feature_names(self) -> list[str]:
        return list(map(str, getattr(self, "feature_names_in_", default_names(self.n_features_in_))))

    @property
    def trend_(self) -> list[str]:
        """Trend of each feature: "constant", "ar", "level", "drift", "damped" or "slope"."""
        return trends_of(self.model_)

    @property
    def seasonal_(self) -> list[str | None]:
        """Season of each feature: "fixed", "stochastic" or None."""
        return seasons_of(self.model_)

    @property
    def seasonal_periods_(self) -> int:
        """Number of steps of a season; 1 if no season was looked for."""
        layout = self.model_.layout
        return 1 if layout is None else layout.period

    @property
    def factors_(self) -> tuple[Array, Array]:
        """Transition of the factors (q, q) and their loadings (n_features, q), with q = ``n_components_``."""
        model = self.model_
        some = np.arange(model.n_components) if model.layout is None else model.layout.factors
        return model.transition[np.ix_(some, some)], model.emission.loadings[:, some]

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
        """Offset c of the observations, their mean when the state is 0: (n_features,)."""
        return self.model_.emission.mean

    @property
    def noise_variance_(self) -> Any:
        """Variance R of the observation noise: a float, or one for each feature, (n_features,)."""
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
        """Number of steps in which each mode decays to 1/e, infinite if it does not decay: (q,)."""
        return self.model_.time_constants

    @property
    def log_likelihood_(self) -> float:
        """Total log-likelihood of the training sequences, in nats."""
        return self._state.result.log_likelihood

    @property
    def rule_(self) -> str:
        """How the model was chosen, in words: such as "trend by BIC among 220 candidates" or "as given"."""
        return self._state.rule

    @property
    def n_observed_(self) -> int:
        """Number of observed cells in the training sequences."""
        return self._state.result.n_observed

    @property
    def n_steps_(self) -> int:
        """Number of time steps in the training sequences."""
        return self._state.n_steps

    @property
    def n_inserted_(self) -> int:
        """Number of time steps of the training sequences that have no row and count as empty."""
        return self._state.n_inserted

    @property
    def selection_scores_(self) -> dict[int, float]:
        """Score of each number of states that was tried, larger is better; empty if the number was given."""
        return self._state.scores

    def summary(self, feature_names: Any = None, *, width: int = WIDTH) -> str:
        """Describe the fit as text: trends and seasons, modes and loadings of factors, and how the fit ended.

        A mode belongs to an eigenvalue of the transition matrix. Its modulus is the factor by which it shrinks in each
        step; the time constant is the number of steps in which it decays to 1/e, and the period that of an oscillation.

        Parameters
        ----------
        feature_names : sequence of str or None, default=None
            Names of the features. None: those of the training data, or x0, x1, ...
        width : int, default=88
            Largest number of characters in a line of a table.

        Returns
        -------
        str
            Several lines of text, ready to print.
        """
        return dynamics_summary(self, ("log-likelihood", self.log_likelihood_), feature_names, width)

    def score(self, X: Any, y: Any = None, *, inputs: Any = None) -> float:
        """Mean log-likelihood per time step: larger is better.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        float
            Log-likelihood divided by the number of steps, in nats.
        """
        rows = self._tables(X, inputs).rows
        return kalman.series_log_likelihood(self.model_, rows) / rows.n_steps

    def log_likelihood(self, X: Any, *, inputs: Any = None) -> float:
        """Total log-likelihood of one sequence or several.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        float
            Log-likelihood in nats.
        """
        return kalman.series_log_likelihood(self.model_, self._tables(X, inputs).rows)

    def score_samples(self, X: Any, *, inputs: Any = None) -> Any:
        """Log-likelihood of each time step given the steps before it.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        ndarray of shape (n_steps,)
            Log-likelihoods in nats; 0 for the first rows if they determine unknown starts. A list of results if ``X``
            is a list.
        """
        tables = self._tables(X, inputs)
        return tables.arrays(kalman.filter_states(self.model_, tables.rows).log_likelihood)

    def transform(self, X: Any, *, inputs: Any = None) -> Any:
        """Smoothed means of the states: their expected values given all steps of the sequence, past and future.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        ndarray of shape (n_steps, n_components), or a dataframe after ``set_output``
            Columns are named F1, F2, ..., or by a feature and the role of the state, such as "births level". A list of
            results if ``X`` is a list.
        """
        tables = self._tables(X, inputs)
        if (tables.several or tables.tables[0].given is not X) and _is_framed(self):
            msg = "set_output needs a single sequence; got a list of several.\nHint: transform them one by one."
            raise DataError(msg)
        return tables.arrays(kalman.believe(self.model_, tables.rows).mean, in_precision_of)

    def components(self, X: Any, *, inputs: Any = None) -> Any:
        r"""Parts of each series: level, slope, season, the part of the factors, and the noise that is left.

        .. math:: y_t = l_t + a_t + s_t + C f_t + v_t

        Each is its expected value given all steps of the sequence, past and future. All but the slope, which is the
        change of the level, sum to the observed cells.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        SeriesComponents
            ``level``, ``slope``, ``deviation`` (autoregressive), ``season``, ``factors`` and ``noise``, each of shape
            (n_steps, n_features); dataframes if ``X`` is one. A list of results if ``X`` is a list.

        Examples
        --------
        >>> import numpy as np
        >>> from probpca import LinearDynamicalSystem
        >>> t = np.arange(72)
        >>> y = 0.5 * t + 4 * np.sin(2 * np.pi * t / 12) + np.random.default_rng(0).standard_normal(72)
        >>> parts = LinearDynamicalSystem(seasonal_periods=12).fit(y[:, None]).components(y[:, None])
        >>> bool(np.allclose(parts.level + parts.season + parts.noise, y[:, None])), parts.slope[0].round(1)
        (True, array([0.5]))
        """
        tables = self._tables(X, inputs)
        found = [tables.frames(part, in_precision_of) for part in decompose(self.model_, tables.rows)]
        if not tables.several:
            return SeriesComponents(*found)
        return [SeriesComponents(*parts) for parts in zip(*found, strict=True)]

    def fit_transform(self, X: Any, y: Any = None, *, inputs: Any = None) -> Any:
        """Fit the system to ``X`` and return the smoothed means of its states.

        The same as ``fit(X).transform(X)``.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        y : ignored
            Present for compatibility with scikit-learn.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Known inputs u that drive the states: those of step t affect the state of step t + 1.

        Returns
        -------
        ndarray of shape (n_steps, n_components), or a dataframe after ``set_output``
            A list of results if ``X`` is a list.
        """
        return self.fit(X, inputs=inputs).transform(X, inputs=inputs)

    def inverse_transform(self, X: Any) -> Array:
        """Rows predicted from states: C x + c.

        Parameters
        ----------
        X : array of shape (n_steps, n_components)
            States, such as ``transform`` returns.

        Returns
        -------
        ndarray of shape (n_steps, n_features)
            Predicted rows, without noise.
        """
        states = checked_latents(X, self.model_.n_components)
        return rounded(states @ self.loadings_.T + self.offset_, states.dtype)

    def smooth(self, X: Any, *, inputs: Any = None) -> Any:
        """Smoothed states (Kalman smoother): their distribution given all steps of the sequence, past and future.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        Smoothed
            ``mean`` (n_steps, q) and ``covariance`` (n_steps, q, q) of each state, and ``lag_one`` (n_steps, q, q), the
            covariance of each state with the next. A list of results if ``X`` is a list.
        """
        tables = self._tables(X, inputs)
        found = kalman.smooth(self.model_, tables.rows)
        return tables.answer([Smoothed(*part) for part in zip(*map(tables.split, found), strict=True)])

    def filter(self, X: Any, *, inputs: Any = None) -> Any:
        """Filtered states (Kalman filter): their distribution given the steps up to now.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        FilteredStates
            ``predicted``, the states given the steps before them, and ``filtered``, the states given their own step
            too, each a Gaussian with ``mean`` (n_steps, q) and ``covariance`` (n_steps, q, q); ``log_likelihood`` and
            ``distance`` of each step, (n_steps,). A list of results if ``X`` is a list.
        """
        tables = self._tables(X, inputs)
        found = kalman.filter_states(self.model_, tables.rows)
        cut = [tables.split(value) for value in (*_fields(found.predicted), *_fields(found.filtered))]
        rest = zip(tables.split(found.log_likelihood), tables.split(found.distance), strict=True)
        parts = [
            FilteredStates(Gaussian(a, b), Gaussian(c, d), *pair) for a, b, c, d, pair in zip(*cut, rest, strict=True)
        ]
        return tables.answer(parts)

    def forecast(self, horizon: int, X: Any = None, *, inputs: Any = None, future: Any = None) -> Any:
        """Forecast the next rows of a sequence, with their uncertainty.

        Parameters
        ----------
        horizon : int
            Number of steps to forecast.
        X : array or dataframe of shape (n_steps, n_features), a list of them, or None, default=None
            The sequence to continue. None: the training data, and the rows of ``update`` after them.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step of ``X``, if the system was fitted with inputs.
        future : array of shape (horizon - 1, n_inputs), a list of them, or None, default=None
            Inputs of the steps after the last one of ``X``, if the system was fitted with inputs.

        Returns
        -------
        SeriesForecast
            ``mean`` and ``std`` of shape (horizon, n_features), and ``interval(level)``. If the sequence is a dataframe
            these are dataframes that continue its time index. A list of results if ``X`` is a list.

        Examples
        --------
        >>> import numpy as np
        >>> from probpca import LinearDynamicalSystem
        >>> rng = np.random.default_rng(0)
        >>> Y = np.outer(np.cumsum(rng.standard_normal(200)), [1.0, -1.0]) + rng.standard_normal((200, 2))
        >>> system = LinearDynamicalSystem(n_components=1, random_state=0).fit(Y)
        >>> forecast = system.forecast(3)
        >>> forecast.mean.shape, bool((forecast.std[2] > forecast.std[0]).all())
        ((3, 2), True)
        """
        fit: SeriesFit = self._state
        if X is None:
            states = [state.gaussian for state in fit.last_states]
            found = prediction.forecast_from(self.model_, states, horizon, fit.last_inputs, future)
            tables, several = fit.tables, fit.several
        else:
            given = self._tables(X, inputs)
            found = prediction.forecast(self.model_, given.rows, horizon, future=future)
            tables = list(map(Remembered.of, given.tables, given.rows.lengths.tolist()))
            several = given.several
        known = [replace(one, unknown=self.empty_features_) for one in found]
        names = getattr(self, "feature_names_in_", default_names(self.n_features_in_))
        forecasts = [SeriesForecast(one, table, names) for one, table in zip(known, tables, strict=True)]
        return forecasts if several else forecasts[0]

    def backtest(
        self,
        X: Any,
        horizon: int,
        n_origins: int = 4,
        *,
        level: float = 0.95,
        inputs: Any = None,
        time: Any = None,
        series: Any = None,
        step: Any = None,
    ) -> Backtest:
        """Judge forecasts by the past: fit to the rows before several origins, and compare with the rows that came.

        The last forecast ends with the last row; origins are half a horizon apart. Every fit has the parameters of
        this estimator and sees only the rows before its origin. The same values are forecast by the last value
        (naive), by the last season (seasonal naive) and by the line through the first and the last value (drift).
        The fit of this estimator, if there is one, stays as it is.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        horizon : int
            Number of steps of each forecast.
        n_origins : int, default=4
            Number of origins; fewer are used if there are few rows.
        level : float, default=0.95
            Probability of the prediction intervals.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Known inputs u of each step. Forecasts know those of their steps.
        time, series, step : default=None
            How to read the times of a dataframe, as in ``fit``. None: as the fit of this estimator did, if there is
            one.

        Returns
        -------
        Backtest
            Errors beside those of the naive forecasts and coverage of the intervals. ``print`` shows a line for each
            feature; ``BacktestDisplay.from_backtest`` draws it.

        Examples
        --------
        >>> import numpy as np
        >>> from probpca import LinearDynamicalSystem
        >>> steps = np.arange(120)
        >>> season = np.sin(2 * np.pi * steps / 12)[:, None] * [3.0, 1.0]
        >>> Y = season + 0.05 * steps[:, None] + 0.3 * np.random.default_rng(0).standard_normal((120, 2))
        >>> found = LinearDynamicalSystem(seasonal_periods=12).backtest(Y, horizon=12)
        >>> found.relative_error["model"] < found.relative_error["seasonal_naive"] < 1
        True
        >>> found.actual.shape, round(found.mean_coverage, 1)
        ((4, 12, 2), 0.9)
        """
        check_parameters(self, self._constraints)
        probe = clone(self)
        reading = Reading(time, series, step)
        if self._fitted is not None and (time, series, step) == (None, None, None):
            reading = self._state.reading
        tables, reading = read_tables(probe, X, inputs, reading=reading, reset=True)
        period = _season(probe, reading)
        origins = origins_of(tables.rows, horizon, n_origins, period)
        settings = Settings(self.solver, self.tol, self.max_iter, n_init=self.n_init)

        def predict(origin: Origin) -> list[prediction.Forecast]:
            model = probe._learn(origin.past, settings, reading.season).result.model  # noqa: SLF001
            last = last_states(model, origin.past)
            found = []
            for k, (state, later) in enumerate(zip(last, origin.inputs, strict=True)):
                ends = origin.past.starts + origin.past.lengths - 1
                known = None if origin.past.inputs is None else origin.past.inputs[ends[k : k + 1]]
                found += prediction.forecast_from(model, [state.gaussian], horizon, known, later)
            return found

        names = names_for(tables.tables[0].features, getattr(probe, "feature_names_in_", None))
        span = span_words(reading.step, horizon + max(horizon // 2, 1) * (len(origins) - 1), reading.time)
        rows = tables.rows.split(tables.rows.values)
        about = About(period, level, span, rows, tables.times(), replace(names, rows=None))
        return run_backtest(origins, predict, horizon, about)

    def impute(self, X: Any, *, inputs: Any = None, return_std: bool = False) -> Any:
        """Replace missing cells by their expected values given all observed cells of the sequence, past and future.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.
        return_std : bool, default=False
            Whether to return the standard deviation of each cell too.

        Returns
        -------
        completed : array or dataframe of shape (n_steps, n_features)
            A dataframe if ``X`` is one. A list of results if ``X`` is a list.
        std : array or dataframe of shape (n_steps, n_features)
            Only if ``return_std=True``: standard deviations of missing cells, including the noise; 0 for observed
            cells.

        Examples
        --------
        >>> import numpy as np
        >>> from probpca import LinearDynamicalSystem
        >>> rng = np.random.default_rng(0)
        >>> Y = np.outer(np.cumsum(rng.standard_normal(200)), [1.0, -1.0]) + rng.standard_normal((200, 2))
        >>> Y[50:60, 0] = np.nan
        >>> system = LinearDynamicalSystem(n_components=1, random_state=0).fit(Y)
        >>> completed, std = system.impute(Y, return_std=True)
        >>> bool(np.isnan(completed).any()), bool((std[50:60, 0] > 0).all()), float(std[0, 0])
        (False, True, 0.0)
        """
        tables, found = self._imputed(X, inputs)
        values = tables.frames(found.values, in_precision_of)
        return (values, tables.frames(found.std, in_precision_of)) if return_std else values

    def impute_interval(self, X: Any, level: float = 0.95, *, inputs: Any = None) -> tuple[Any, Any]:
        """Prediction intervals of missing cells, given all observed cells of the sequence.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        level : float, default=0.95
            Probability that an interval contains the true value of its cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        low, high : arrays or dataframes of shape (n_steps, n_features)
            Lower and upper ends. Both ends of an observed cell are its value. A list of results if ``X`` is a list.
        """
        tables, found = self._imputed(X, inputs)
        low, high = found.interval(level)
        return tables.frames(low, in_precision_of), tables.frames(high, in_precision_of)

    def _imputed(self, X: Any, inputs: Any = None) -> tuple[SeriesTables, Imputed]:
        """Completed steps of all sequences with the standard deviation of each cell: infinite in empty features."""
        tables = self._tables(X, inputs)
        found = prediction.impute_series(self.model_, tables.rows)
        empty = np.isin(np.arange(self.model_.n_features), self.empty_features_)
        return tables, found._replace(std=np.where(empty & (found.std > 0), np.inf, found.std))

    def anomalies(self, X: Any, *, inputs: Any = None) -> Any:
        """Compare each time step with its prediction from the steps before it.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.

        Returns
        -------
        Innovations
            ``p_value`` and squared Mahalanobis ``distance`` of each step, (n_steps,); ``cell_p_value`` and ``residual``
            of each cell, (n_steps, n_features). Small p-values mark unusual steps and cells. A list of results
            if ``X`` is a list.

        Examples
        --------
        >>> import numpy as np
        >>> from probpca import LinearDynamicalSystem
        >>> rng = np.random.default_rng(0)
        >>> Y = np.outer(np.cumsum(rng.standard_normal(200)), [1.0, -1.0]) + rng.standard_normal((200, 2))
        >>> Y[120, 0] += 10
        >>> system = LinearDynamicalSystem(n_components=1, random_state=0).fit(Y)
        >>> found = system.anomalies(Y)
        >>> int(found.p_value.argmin()), bool(found.cell_p_value[120, 0] < 1e-6)
        (120, True)
        """
        tables = self._tables(X, inputs)
        found = prediction.innovations(self.model_, tables.rows)
        parts: list[Innovations] = [type(found)(*part) for part in zip(*map(tables.split, found), strict=True)]
        return tables.answer(parts)

    def update(self, y: Any, *, inputs: Any = None, sequence: int | None = None) -> Update:
        r"""Take the next row of a sequence as it arrives, and compare it with its prediction.

        .. math:: e = y - (C \hat x + c), \qquad S = C \hat P C^\top + R, \qquad p = P(\chi^2 > e^\top S^{-1} e)

        The state moves by one step and is conditioned on the observed cells of the row, as ``filter`` does for all
        rows of a sequence. The estimator remembers the state: the next ``update`` and ``forecast`` continue from it,
        and so do those of the file of ``to_file``. The parameters of the model stay as they are.

        Parameters
        ----------
        y : array-like of shape (n_features,), pandas Series, or dataframe of one row
            The row after the last one; NaN marks a missing cell. A row of NaN: only time moves on. A dataframe with
            dates as the training table has them, or a row of one as ``iterrows`` gives it, may leave out steps, which
            count as empty rows.
        inputs : array-like of shape (n_inputs,) or None, default=None
            Inputs u of this step, which affect the next one, if the system was fitted with inputs.
        sequence : int or None, default=None
            Position of the training sequence that the row continues. None: the only one.

        Returns
        -------
        Update
            ``state_mean`` (q,) and ``state_covariance`` (q, q) of the filtered state; ``predicted``, ``std`` and
            ``residual`` of each cell, (n_features,); ``p_value``, ``distance`` and ``log_likelihood`` of the row.

        Examples
        --------
        >>> import numpy as np
        >>> from probpca import LinearDynamicalSystem
        >>> rng = np.random.default_rng(0)
        >>> Y = np.outer(np.cumsum(rng.standard_normal(200)), [1.0, -1.0]) + rng.standard_normal((200, 2))
        >>> system = LinearDynamicalSystem(n_components=1, random_state=0).fit(Y[:190])
        >>> found = [system.update(row) for row in Y[190:]]
        >>> bool(np.allclose(found[-1].state_mean, system.filter(Y).filtered.mean[-1]))
        True
        >>> system.update(Y[-1] + [10.0, np.nan]).p_value < 0.001
        True
        """
        fit: SeriesFit = self._state
        place = place_of(sequence, len(fit.last_states))
        y, ahead = steps_to(y, fit.tables[place], fit.reading.time)
        row, given = one_row(self, y), one_input(fit.result.model.n_inputs, inputs)
        if ahead > 1 and given is not None:
            msg = f"inputs must be known at every step, but y is {ahead} steps after the last row."
            raise DataError(msg)
        for _ in range(ahead - 1):
            fit, _ = fit.updated(place, np.full_like(row, np.nan), None)
        self._fitted, told = fit.updated(place, row, given)
        return told

    def sample(self, n_steps: int = 1, *, inputs: Any = None, random_state: Any = None) -> Array:
        """Draw a new sequence from the model.

        Levels, slopes and seasons of single features have unknown starts, and are drawn with their variance of 1e6:
        such sequences begin far from the data. Draw from a system with ``trend=None``, or continue the data by
        ``forecast``.

        Parameters
        ----------
        n_steps : int, default=1
            Number of time steps.
        inputs : array of shape (n_steps, n_inputs) or None, default=None
            Inputs u of each step, if the system was fitted with inputs.
        random_state : int, RandomState, Generator or None, default=None
            Source of random numbers. None: the ``random_state`` of the estimator.

        Returns
        -------
        ndarray of shape (n_steps, n_features)
            Rows with noise.
        """
        model = self.model_
        return prediction.sample_series(model, n_steps, rng=self._generator(random_state), inputs=inputs).rows

    def sample_states(self, X: Any, n_draws: int = 1, *, inputs: Any = None, random_state: Any = None) -> Any:
        """Draw trajectories of the states from their posterior, given all observed cells of the sequence.

        Parameters
        ----------
        X : array or dataframe of shape (n_steps, n_features), or a list of them
            One sequence, or several. Rows are time steps; NaN marks a missing cell.
        n_draws : int, default=1
            Number of trajectories.
        inputs : array of shape (n_steps, n_inputs), a list of them, or None, default=None
            Inputs u of each step, if the system was fitted with inputs.
        random_state : int, RandomState, Generator or None, default=None
            Source of random numbers. None: the ``random_state`` of the estimator.

        Returns
        -------
        ndarray of shape (n_draws, n_steps, n_components)
            Drawn states. A list of results if ``X`` is a list.
        """
        tables = self._tables(X, inputs)
        rng = self._generator(random_state)
        drawn = kalman.sample_trajectories(self.model_, tables.rows, n_draws, rng=rng)
        return tables.answer(tables.split(drawn, axis=1))

    def to_ppca(self) -> PPCA:
        """Return the stationary distribution of a single row as a fitted ``PPCA``.

        The result describes rows as if they were independent of each other, which is exact if A = 0. If each feature
        has its own noise variance, the model is factor analysis.

        Returns
        -------
        PPCA
            A fitted estimator with the same number of components and features.
        """
        fit: SeriesFit = self._state
        model = self.model_
        if model.has_own_states:
            msg = (
                "to_ppca() needs a stationary system; the levels, slopes and seasons of single features do not return "
                "to a mean.\nHint: fit with trend=None."
            )
            raise DataError(msg)
        if model.n_components >= model.n_features:
            msg = (
                f"to_ppca() needs fewer states than features; got {model.n_components} and {model.n_features}.\n"
                "Hint: fit with fewer n_components."
            )
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

    def _tables(self, X: Any, inputs: Any) -> SeriesTables:
        tables = tables_of(self, X, inputs)
        kalman.rows_of(self.model_, tables.rows)
        return tables


def _warn_of_too_many(rows: Sequences, structure: Structure, count: int) -> None:
    inputs = 0 if rows.inputs is None else rows.inputs.shape[1]
    free = n_parameters(structure, count, rows.n_features, inputs, len(rows.lengths))
    observed = int(np.count_nonzero(~np.isnan(rows.values)))
    if 0 < observed < free:
        msg = (
            f"{count} states have {free:,} parameters, more than the {observed:,} observed cells: the fit follows the "
            "noise, and its intervals are too narrow.\nHint: use fewer n_components."
        )
        warnings.warn(msg, UserWarning, stacklevel=4)


def _fit_stationary(
    rows: Sequences, q: int, settings: Settings, rng: np.random.Generator, _: Structure
) -> SeriesResult:
    return fit_stationary(rows, q, settings, rng)


def _season(estimator: LinearDynamicalSystem, reading: Reading) -> int:
    """Steps of a season: those that were given, or those that the times suggest; 1 if seasons are not wanted."""
    given = estimator.seasonal_periods
    if estimator.seasonal is None:
        return 1
    return reading.season if given is None or isinstance(given, str) else int(given)


def _is_framed(estimator: Any) -> bool:
    """Whether ``set_output`` wants dataframes."""
    return bool(_get_output_config("transform", estimator)["dense"] != "default")


def _fields(belief: Gaussian) -> tuple[Array, Array]:
    return belief.mean, belief.covariance
