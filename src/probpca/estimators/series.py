"""What a fitted dynamical system can be asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from probpca.blocks.sequences import is_several
from probpca.errors import DataError, ShapeError
from probpca.estimators.frames import like
from probpca.estimators.ppca import PPCA
from probpca.estimators.summary import dynamics_summary
from probpca.estimators.time_index import Remembered, SeriesForecast, answer, checked
from probpca.inference.time_series import kalman, prediction as series
from probpca.inference.time_series.kalman import FilteredStates, Smoothed
from probpca.learning.result import FitResult
from probpca.learning.seeds import generator
from probpca.models import Gaussian

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.blocks import Sequences
    from probpca.inference.imputation import Imputed
    from probpca.inference.time_series.prediction import Innovations
    from probpca.learning import Status
    from probpca.models import StateSpace
    from probpca.typing import Array


class SeriesQueries(TransformerMixin):  # type: ignore[misc]
    """Questions to ``model_``; a list of sequences is answered by a list."""

    model_: StateSpace
    status_: Status
    empty_features_: Any
    last_states_: list[Gaussian]
    last_inputs_: Array | None
    tables_: list[Remembered]
    several_: bool
    random_state: Any

    @property
    def transition_(self) -> Array:
        """A: (q, q)."""
        return self.model_.transition

    @property
    def process_noise_(self) -> Array:
        """Q: (q, q)."""
        return self.model_.process_noise

    @property
    def loadings_(self) -> Array:
        """C: (n_features, q)."""
        return self.model_.emission.loadings

    @property
    def offset_(self) -> Array:
        """Offset c of the observations: (n_features,)."""
        return self.model_.emission.mean

    @property
    def noise_variance_(self) -> Any:
        """R: a number, or one for each feature."""
        noise = self.model_.emission.noise_variance
        return float(noise) if noise.ndim == 0 else noise

    @property
    def input_loadings_(self) -> Array | None:
        """B: (q, n_inputs); None without inputs."""
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
        """Of A, the slowest first."""
        return self.model_.eigenvalues

    @property
    def time_constants_(self) -> Array:
        """Steps in which each mode decays to 1/e."""
        return self.model_.time_constants

    @property
    def _n_features_out(self) -> int:
        return self.model_.n_components

    def summary(self, feature_names: Any = None) -> str:
        """A table for people: the modes, what they move, and how the fit ended."""
        return dynamics_summary(self, feature_names)

    def score(self, X: Any, y: Any = None, *, inputs: Any = None) -> float:
        """Mean log-likelihood of a step of time."""
        rows = self._rows(X, inputs)
        return kalman.series_log_likelihood(self.model_, rows) / rows.n_steps

    def log_likelihood(self, X: Any, *, inputs: Any = None) -> float:
        """Total log-likelihood of the sequences."""
        rows = self._rows(X, inputs)
        return kalman.series_log_likelihood(self.model_, rows)

    def score_samples(self, X: Any, *, inputs: Any = None) -> Any:
        """Log-likelihood of each step given those before it: (n,)."""
        rows = self._rows(X, inputs)
        return answer(rows, X, kalman.filter_states(self.model_, rows).log_likelihood)

    def transform(self, X: Any, *, inputs: Any = None) -> Any:
        """Smoothed means of the states, given all steps of their sequence: (n, q)."""
        rows = self._rows(X, inputs)
        if is_several(X) and _get_output_config("transform", self)["dense"] != "default":
            msg = "set_output goes with one sequence; several were given.\nHint: transform them one by one."
            raise DataError(msg)
        return answer(rows, X, kalman.believe(self.model_, rows).mean)

    def fit_transform(self, X: Any, y: Any = None, *, inputs: Any = None) -> Any:
        """Fit, then the smoothed means of the states: (n, q)."""
        return self.fit(X, inputs=inputs).transform(X, inputs=inputs)

    def inverse_transform(self, X: Any) -> Array:
        """Rows that states would show without noise, C x + c: (n, n_features)."""
        check_is_fitted(self)
        states = np.asarray(X, dtype=np.float64)
        if states.ndim != 2 or states.shape[1] != self.model_.n_components:
            msg = f"states must form a matrix (n, {self.model_.n_components}); got shape {states.shape}."
            raise ShapeError(msg)
        return states @ self.loadings_.T + self.offset_

    def smooth(self, X: Any, *, inputs: Any = None) -> Any:
        """States given all steps of their sequence: means, covariances, and lag-one covariances."""
        rows = self._rows(X, inputs)
        found = kalman.smooth(self.model_, rows)
        parts = [Smoothed(*part) for part in zip(*map(rows.split, found), strict=True)]
        return parts if is_several(X) else parts[0]

    def filter(self, X: Any, *, inputs: Any = None) -> Any:
        """States given the steps before them, and given their own too."""
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
        """The next ``horizon`` rows of ``X``, or of what was fitted, with their uncertainty.

        ``future`` are the inputs after the last one, ``horizon - 1`` rows. A dataframe is followed by one, its time
        index continued.
        """
        check_is_fitted(self)
        if X is None:
            found = series.forecast_from(self.model_, self.last_states_, horizon, self.last_inputs_, future)
            tables, several = self.tables_, self.several_
        else:
            found = series.forecast(self.model_, self._rows(X, inputs), horizon, future=future)
            tables, several = [Remembered.of(x) for x in (X if is_several(X) else [X])], is_several(X)
        known = [replace(one, unknown=self.empty_features_) for one in found]
        told = [SeriesForecast(one, table) for one, table in zip(known, tables, strict=True)]
        return told if several else told[0]

    def impute(self, X: Any, *, inputs: Any = None, return_std: bool = False) -> Any:
        """Missing cells filled in from all of their sequence; with ``return_std`` also how unsure each one is."""
        rows = self._rows(X, inputs)
        found = self._imputed(rows)
        values = answer(rows, X, found.values, like)
        return (values, answer(rows, X, found.std, like)) if return_std else values

    def impute_interval(self, X: Any, level: float = 0.95, *, inputs: Any = None) -> tuple[Any, Any]:
        """Lower and upper ends that hold each missing cell with probability ``level``; observed cells as they are."""
        rows = self._rows(X, inputs)
        low, high = self._imputed(rows).interval(level)
        return answer(rows, X, low, like), answer(rows, X, high, like)

    def _imputed(self, rows: Sequences) -> Imputed:
        """Of features of which nothing was ever observed nothing is known."""
        found = series.impute_series(self.model_, rows)
        unseen = np.isin(np.arange(self.model_.n_features), self.empty_features_)
        return found._replace(std=np.where(unseen & (found.std > 0), np.inf, found.std))

    def anomalies(self, X: Any, *, inputs: Any = None) -> Any:
        """How far each step is from what the steps before it let expect, with p-values by step and by cell."""
        rows = self._rows(X, inputs)
        found = series.innovations(self.model_, rows)
        parts: list[Innovations] = [type(found)(*part) for part in zip(*map(rows.split, found), strict=True)]
        return parts if is_several(X) else parts[0]

    def sample(self, n_steps: int = 1, *, inputs: Any = None, random_state: Any = None) -> Array:
        """Draw a series: (n_steps, n_features)."""
        check_is_fitted(self)
        return series.sample_series(self.model_, n_steps, rng=self._generator(random_state), inputs=inputs).rows

    def sample_states(self, X: Any, n_draws: int = 1, *, inputs: Any = None, random_state: Any = None) -> Any:
        """Draw whole trajectories of the state given all that was observed: (n_draws, n, q)."""
        rows = self._rows(X, inputs)
        rng = self._generator(random_state)
        drawn = kalman.sample_trajectories(self.model_, rows, n_draws, rng=rng)
        parts = np.split(drawn, rows.starts[1:], axis=1)
        return parts if is_several(X) else parts[0]

    def to_ppca(self) -> PPCA:
        """The distribution of a single row, its past unknown, as PPCA (or factor analysis, if noises differ).

        Exact if A = 0; otherwise what is left of the system when time is forgotten.
        """
        check_is_fitted(self)
        model = self.model_
        if model.n_components >= model.n_features:
            msg = f"PPCA needs fewer components than features; got {model.n_components} and {model.n_features}."
            raise DataError(msg)
        still = model.marginal().principal()
        fitted = PPCA(n_components=model.n_components, random_state=self.random_state)
        weight = float(self.n_steps_)
        fitted._keep(FitResult(still, self.status_, np.nan, (), 0, weight, "from a dynamical system"))  # noqa: SLF001
        fitted.n_features_in_ = model.n_features
        if hasattr(self, "feature_names_in_"):
            fitted.feature_names_in_ = self.feature_names_in_
        return fitted

    def _rows(self, X: Any, inputs: Any) -> Sequences:
        check_is_fitted(self)
        return kalman.rows_of(self.model_, checked(self, X, inputs))

    def _generator(self, random_state: Any) -> np.random.Generator:
        return generator(self.random_state if random_state is None else random_state)


def _fields(belief: Gaussian) -> tuple[Array, Array]:
    return belief.mean, belief.covariance
