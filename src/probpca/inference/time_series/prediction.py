"""Forecasts, imputation, one-step-ahead errors and simulation of time series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy.special import erfc

from probpca.available_memory import OBJECT_BYTES, require_memory
from probpca.blocks.block import unmasked
from probpca.blocks.sequences import Sequences
from probpca.cached_property import cached_property
from probpca.errors import ShapeError, require_finite
from probpca.inference.calibration import chi2_tail, log10_chi2_tail
from probpca.inference.imputation import Imputed
from probpca.inference.masked_rows import doubled
from probpca.inference.time_series.kalman import advance, believe, covariances, filter_states, last_states, rows_of
from probpca.linalg.packed import pack, row_order
from probpca.linalg.rotations import symmetric_root
from probpca.linalg.tridiagonal import solve_bidiagonal
from probpca.models.gaussian import central_interval

if TYPE_CHECKING:
    from probpca.models import Gaussian, LinearGaussian, StateSpace
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, eq=False)
class Forecast:
    """Forecast of the next h rows of a sequence, with their uncertainty.

    Attributes
    ----------
    state_mean : ndarray of shape (h, q)
        Predicted states.
    state_covariance : ndarray of shape (h, q, q)
        Covariances of the predicted states.
    emission : LinearGaussian
        Observation equation of the model.
    unknown : ndarray of int or None
        Positions of features that were never observed.
    """

    state_mean: Array
    state_covariance: Array
    emission: LinearGaussian
    unknown: Index | None = None

    @cached_property
    def mean(self) -> Array:
        """Expected rows: (h, d)."""
        return self.state_mean @ self.emission.loadings.T + self.emission.mean

    @cached_property
    def std(self) -> Array:
        """Standard deviation of each cell, including the noise: (h, d)."""
        std = np.sqrt(cell_variances(self.emission, pack(self.state_covariance)))
        std[:, [] if self.unknown is None else self.unknown] = np.inf
        return std

    @property
    def covariance(self) -> Array:
        """Dense covariance C P C' + R of each row: (h, d, d).

        A feature that was never observed has infinite variance and zero covariance with the others.
        """
        C, noise = self.emission.loadings, self.emission.noise_variance
        dense = np.asarray(C @ self.state_covariance @ C.T + np.diag(np.broadcast_to(noise, (len(C),))))
        if self.unknown is not None:
            dense[:, self.unknown, :] = dense[:, :, self.unknown] = 0.0
            dense[:, self.unknown, self.unknown] = np.inf
        return dense

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of prediction intervals, (h, d) each, with coverage ``level``."""
        return central_interval(self.mean, self.std, level)


class Innovations(NamedTuple):
    """One-step-ahead prediction errors of a time series.

    Attributes
    ----------
    residual : ndarray of shape (n, d)
        Difference of each cell from its prediction given the earlier rows; NaN if missing.
    normalised : ndarray of shape (n, d)
        Residuals divided by their standard deviations.
    distance : ndarray of shape (n,)
        Squared Mahalanobis distance e' S^{-1} e of each row from its prediction.
    degrees : ndarray of shape (n,)
        Degrees of freedom of ``distance``: the number of observed cells.
    log_likelihood : ndarray of shape (n,)
        Log density of each row given the earlier rows.
    """

    residual: Array
    normalised: Array
    distance: Array
    degrees: Array
    log_likelihood: Array

    @property
    def p_value(self) -> Array:
        """Probability of a row at least as far from its prediction (chi-square); 1 for empty rows: (n,)."""
        return chi2_tail(self.distance, self.degrees)

    @property
    def log10_p_value(self) -> Array:
        """Base-10 logarithm of ``p_value``, accurate far below the smallest float: (n,)."""
        return log10_chi2_tail(self.distance, self.degrees)

    @property
    def cell_p_value(self) -> Array:
        """Two-sided p-value of each cell given the earlier rows; NaN for missing cells: (n, d)."""
        return np.asarray(erfc(np.abs(self.normalised) / np.sqrt(2.0)))


def cell_variances(emission: LinearGaussian, covariance: Array) -> Array:
    """Variance of each cell C x + noise, from packed covariances (entries, n) of the states: (n, d)."""
    return np.asarray(covariance.T @ doubled(emission.loadings.T) + emission.noise_variance)


def innovations(model: StateSpace, y: Any, *, inputs: Any = None) -> Innovations:
    """One-step-ahead prediction errors, with p-values of each row and each cell.

    ``y`` is a matrix (n, d) with NaN in missing cells, or a list of matrices, one per sequence, whose results are
    concatenated. ``inputs`` are shaped alike, with u columns.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import innovations
    >>> from probpca.models import Gaussian, LinearGaussian, StateSpace
    >>> walk = StateSpace(Gaussian([0.0], [[1.0]]), [[1.0]], [[1.0]], LinearGaussian([0.0], [[1.0]], 1.0))
    >>> found = innovations(walk, [[1.0], [2.0], [9.0]])
    >>> found.residual.round(2).ravel(), found.p_value.round(3)
    (array([1. , 1.5, 7.6]), array([0.48 , 0.343, 0.   ]))
    """
    rows = rows_of(model, y, inputs)
    if (parts := model.parts()) is not None:
        each = [innovations(part.model, column) for part, column in zip(parts, _columns(rows), strict=True)]
        return Innovations(
            *(np.hstack([one[k] for one in each]) for k in (0, 1)),
            *(np.sum([one[k] for one in each], axis=0) for k in (2, 3, 4)),
        )
    found = filter_states(model, rows)
    residual = rows.values - (found.predicted.mean @ model.emission.loadings.T + model.emission.mean)
    std = np.sqrt(cell_variances(model.emission, pack(found.predicted.covariance)))
    degrees = np.count_nonzero(~np.isnan(residual), axis=1).astype(np.float64)
    return Innovations(residual, residual / std, found.distance, degrees, found.log_likelihood)


def forecast(model: StateSpace, y: Any, horizon: int, *, inputs: Any = None, future: Any = None) -> list[Forecast]:
    """Forecast the next ``horizon`` rows of each sequence, with their uncertainty.

    ``y`` is a matrix (n, d) with NaN in missing cells, or a list of matrices, one per sequence; the result has one
    ``Forecast`` per sequence. The last row of ``inputs`` affects the first forecast; ``future`` holds the later
    inputs, a matrix of at least ``horizon - 1`` rows for all sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import forecast
    >>> from probpca.models import Gaussian, LinearGaussian, StateSpace
    >>> walk = StateSpace(Gaussian([0.0], [[1.0]]), [[1.0]], [[1.0]], LinearGaussian([0.0], [[1.0]], 1.0))
    >>> [ahead] = forecast(walk, [[1.0], [2.0]], 3)
    >>> ahead.mean.ravel().round(2), ahead.std.ravel().round(2)
    (array([1.4, 1.4, 1.4]), array([1.61, 1.9 , 2.14]))
    """
    rows = rows_of(model, y, inputs)
    last = None if rows.inputs is None else rows.inputs[rows.starts + rows.lengths - 1]
    states = [state.gaussian for state in last_states(model, rows)]
    return forecast_from(model, states, horizon, last, future)


def forecast_from(
    model: StateSpace, states: list[Gaussian], horizon: Any, inputs: Array | None = None, future: Any = None
) -> list[Forecast]:
    """Forecasts from the last states of k sequences and their last inputs (k, u)."""
    if not isinstance(horizon, int | np.integer) or horizon < 1:
        msg = f"horizon must be an int of at least 1; got {horizon!r}."
        raise ShapeError(msg)
    require_memory_for_steps(int(horizon), len(states), model.n_components)
    pushes = _pushes(model, inputs, len(states), horizon, future)
    return [_ahead(model, state, push) for state, push in zip(states, pushes, strict=True)]


def require_memory_for_steps(horizon: int, k: int = 1, q: int = 1) -> None:
    """Raise ``NotEnoughMemoryError`` if forecasts of k sequences with q states do not fit into memory."""
    needed = k * horizon * (OBJECT_BYTES + 2 * 8 * (q + q * q))
    require_memory(f"forecasts for {horizon:,} steps", needed, "forecast fewer steps")


def _pushes(model: StateSpace, inputs: Array | None, k: int, horizon: Any, future: Any) -> Array:
    """Shift B u of the state of each sequence at each step ahead: (k, horizon, q)."""
    if model.input_loadings is None or inputs is None:
        if future is not None:
            msg = "the model has no inputs, so that future must be None.\nHint: omit future."
            raise ShapeError(msg)
        return np.zeros((k, horizon, model.n_components))
    later = np.zeros((0, model.n_inputs)) if future is None else np.asarray(unmasked(future), dtype=np.float64)
    if later.ndim != 2 or later.shape[1] != model.n_inputs or len(later) < horizon - 1:
        msg = (
            f"a forecast of {horizon} steps needs future inputs of shape ({horizon - 1}, {model.n_inputs}); "
            f"got {later.shape}."
        )
        raise ShapeError(msg)
    require_finite("future inputs", later)
    each = [np.vstack([last, later[: horizon - 1]]) for last in inputs]
    return np.array(each) @ model.input_loadings.T


def _ahead(model: StateSpace, state: Gaussian, pushes: Array) -> Forecast:
    states = []
    for push in pushes:
        state = advance(model, state, push)
        states.append(state)
    mean, covariance = np.array([s.mean for s in states]), np.array([s.covariance for s in states])
    return Forecast(mean, covariance, model.emission)


def impute_series(model: StateSpace, y: Any, *, inputs: Any = None) -> Imputed:
    """Impute missing cells from all observed cells of their sequence, earlier and later, with standard deviations.

    ``y`` is a matrix (n, d) with NaN in missing cells, or a list of matrices, one per sequence, whose results are
    concatenated. Observed cells are returned unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import impute_series
    >>> from probpca.models import Gaussian, LinearGaussian, StateSpace
    >>> walk = StateSpace(Gaussian([0.0], [[100.0]]), [[1.0]], [[1.0]], LinearGaussian([0.0], [[1.0]], 0.01))
    >>> impute_series(walk, [[1.0], [np.nan], [3.0]]).values.round(2).ravel()
    array([1., 2., 3.])
    """
    rows = rows_of(model, y, inputs)
    if (parts := model.parts()) is not None:
        each = [impute_series(part.model, column) for part, column in zip(parts, _columns(rows), strict=True)]
        return Imputed(np.hstack([one.values for one in each]), np.hstack([one.std for one in each]))
    states = believe(model, rows)
    missing = np.isnan(rows.values)
    fitted = states.mean @ model.emission.loadings.T + model.emission.mean
    i, j = row_order(model.n_components)
    std = np.sqrt(cell_variances(model.emission, covariances(states).diagonal[i, j]))
    return Imputed(np.where(missing, fitted, rows.values), np.where(missing, std, 0.0))


def _columns(rows: Sequences) -> list[Sequences]:
    """Sequences of each feature alone."""
    return [Sequences(column[:, None], rows.lengths) for column in rows.values.T]


class Simulated(NamedTuple):
    """Time series drawn from a state-space model.

    Attributes
    ----------
    states : ndarray of shape (n, q)
        States.
    rows : ndarray of shape (n, d)
        Observed rows.
    """

    states: Array
    rows: Array


def sample_series(model: StateSpace, n: int, *, rng: np.random.Generator, inputs: Any = None) -> Simulated:
    """Draw a time series of ``n`` steps from the model.

    ``inputs`` (n, u) shift the states of a model with inputs. The first state is drawn from ``model.initial``.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import sample_series
    >>> from probpca.models import Gaussian, LinearGaussian, StateSpace
    >>> walk = StateSpace(Gaussian([0.0], [[1.0]]), [[1.0]], [[1.0]], LinearGaussian([0.0], [[1.0]], 1.0))
    >>> drawn = sample_series(walk, 5, rng=np.random.default_rng(0))
    >>> drawn.states.shape, drawn.rows.shape
    ((5, 1), (5, 1))
    """
    if n < 1:
        msg = f"the number of steps must be at least 1; got {n}."
        raise ShapeError(msg)
    q, d = model.n_components, model.n_features
    require_memory(f"{n:,} steps of {d:,} columns", 8 * int(n) * (2 * q + 3 * d), "draw fewer steps")
    drive = rng.standard_normal((n, q)) @ symmetric_root(model.process_noise).T
    drive[0] = model.initial.mean + symmetric_root(model.initial.covariance) @ rng.standard_normal(q)
    if model.input_loadings is None and inputs is not None:
        msg = "the model has no inputs, so that inputs must be None.\nHint: omit inputs."
        raise ShapeError(msg)
    if model.input_loadings is not None:
        given = np.asarray(unmasked(inputs), dtype=np.float64)
        if given.shape != (n, model.n_inputs):
            msg = f"inputs must have shape {(n, model.n_inputs)}; got {given.shape}."
            raise ShapeError(msg)
        require_finite("inputs", given)
        drive[1:] += given[:-1] @ model.input_loadings.T
    states = solve_bidiagonal(np.broadcast_to(model.transition, (n, q, q)), drive)
    noise = rng.standard_normal((n, d)) * np.sqrt(model.emission.noise_variance)
    return Simulated(states, states @ model.emission.loadings.T + model.emission.mean + noise)
