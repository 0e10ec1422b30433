"""Questions about a time series: what comes next, what is missing, what is strange."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy.special import erfc

from probpca.blocks.block import unmasked
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
    """The next rows of one sequence."""

    state_mean: Array  # (h, q)
    state_covariance: Array  # (h, q, q)
    emission: LinearGaussian
    unknown: Index | None = None  # features of which nothing was ever observed

    @cached_property
    def mean(self) -> Array:
        """Expected rows: (h, d)."""
        return self.state_mean @ self.emission.loadings.T + self.emission.mean

    @cached_property
    def std(self) -> Array:
        """Standard deviation of each cell, noise included: (h, d)."""
        std = np.sqrt(cell_variances(self.emission, pack(self.state_covariance)))
        std[:, [] if self.unknown is None else self.unknown] = np.inf
        return std

    @property
    def covariance(self) -> Array:
        """Covariance of each row, C P C' + R, dense: (h, d, d).

        A feature that was never observed has an infinite variance, and no covariance with the others.
        """
        C, noise = self.emission.loadings, self.emission.noise_variance
        dense = np.asarray(C @ self.state_covariance @ C.T + np.diag(np.broadcast_to(noise, (len(C),))))
        if self.unknown is not None:
            dense[:, self.unknown, :] = dense[:, :, self.unknown] = 0.0
            dense[:, self.unknown, self.unknown] = np.inf
        return dense

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends, (h, d) each, that hold each cell with probability ``level``."""
        return central_interval(self.mean, self.std, level)


class Innovations(NamedTuple):
    """Differences of rows from their predictions given the rows before them."""

    residual: Array  # y_t less its prediction, NaN where it was not observed: (n, d)
    normalised: Array  # residuals in units of their own standard deviation: (n, d)
    distance: Array  # e' S^{-1} e of each row, chi-square with as many degrees of freedom as cells: (n,)
    degrees: Array  # observed cells: (n,)
    log_likelihood: Array  # of each row given those before it: (n,)

    @property
    def p_value(self) -> Array:
        """Probability of a row at least as far from its prediction; 1 if nothing was observed: (n,)."""
        return chi2_tail(self.distance, self.degrees)

    @property
    def log10_p_value(self) -> Array:
        """Log10 of the p-value, accurate far beyond the smallest float: (n,)."""
        return log10_chi2_tail(self.distance, self.degrees)

    @property
    def cell_p_value(self) -> Array:
        """Two-sided probability of a cell at least as far from its prediction; NaN if not observed: (n, d)."""
        return np.asarray(erfc(np.abs(self.normalised) / np.sqrt(2.0)))


def cell_variances(emission: LinearGaussian, covariance: Array) -> Array:
    """Variance of C x + noise of each row, from packed covariances (entries, n): (n, d)."""
    return np.asarray(covariance.T @ doubled(emission.loadings.T) + emission.noise_variance)


def innovations(model: StateSpace, y: Any, *, inputs: Any = None) -> Innovations:
    """One-step-ahead errors, their normalised form, and the p-value of each row and of each cell."""
    rows = rows_of(model, y, inputs)
    found = filter_states(model, rows)
    residual = rows.values - (found.predicted.mean @ model.emission.loadings.T + model.emission.mean)
    std = np.sqrt(cell_variances(model.emission, pack(found.predicted.covariance)))
    degrees = np.count_nonzero(~np.isnan(residual), axis=1).astype(np.float64)
    return Innovations(residual, residual / std, found.distance, degrees, found.log_likelihood)


def forecast(model: StateSpace, y: Any, horizon: int, *, inputs: Any = None, future: Any = None) -> list[Forecast]:
    """The next ``horizon`` rows of each sequence, with their uncertainty.

    The last input of a sequence enters its first forecast; ``future`` holds the inputs after it, one matrix
    of ``horizon - 1`` rows (or more) that all sequences share.
    """
    rows = rows_of(model, y, inputs)
    last = None if rows.inputs is None else rows.inputs[rows.starts + rows.lengths - 1]
    return forecast_from(model, last_states(model, rows), horizon, last, future)


def forecast_from(
    model: StateSpace, states: list[Gaussian], horizon: Any, inputs: Array | None = None, future: Any = None
) -> list[Forecast]:
    """Forecasts from the last states of the sequences, and their last inputs: (k, u)."""
    if not isinstance(horizon, int | np.integer) or horizon < 1:
        msg = f"horizon must be at least 1, and a whole number of steps; got {horizon!r}."
        raise ShapeError(msg)
    pushes = _pushes(model, inputs, len(states), horizon, future)
    return [_ahead(model, state, push) for state, push in zip(states, pushes, strict=True)]


def _pushes(model: StateSpace, inputs: Array | None, k: int, horizon: Any, future: Any) -> Array:
    """B u of each sequence and step ahead: (k, horizon, q)."""
    if model.input_loadings is None or inputs is None:
        if future is not None:
            msg = "the model has no inputs, so that future ones cannot be taken into account.\nHint: leave future out."
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
    """Fill in missing cells from all observed cells of their sequence, before and after, with standard deviations.

    Observed cells are returned bit for bit.
    """
    rows = rows_of(model, y, inputs)
    states = believe(model, rows)
    missing = np.isnan(rows.values)
    fitted = states.mean @ model.emission.loadings.T + model.emission.mean
    i, j = row_order(model.n_components)
    std = np.sqrt(cell_variances(model.emission, covariances(states).diagonal[i, j]))
    return Imputed(np.where(missing, fitted, rows.values), np.where(missing, std, 0.0))


class Simulated(NamedTuple):
    """A series drawn from the model."""

    states: Array  # (n, q)
    rows: Array  # (n, d)


def sample_series(model: StateSpace, n: int, *, rng: np.random.Generator, inputs: Any = None) -> Simulated:
    """Draw ``n`` steps: the states by one triangular solve, then the rows."""
    if n < 1:
        msg = f"the number of steps must be at least 1; got {n}."
        raise ShapeError(msg)
    q, d = model.n_components, model.n_features
    drive = rng.standard_normal((n, q)) @ symmetric_root(model.process_noise).T
    drive[0] = model.initial.mean + symmetric_root(model.initial.covariance) @ rng.standard_normal(q)
    if model.input_loadings is None and inputs is not None:
        msg = "the model has no inputs; some were given.\nHint: leave inputs out."
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
