"""Posterior of the states of a time series: filter, smoother, likelihood, trajectories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.blocks import Sequences, as_sequences
from probpca.errors import ShapeError
from probpca.inference.time_series.banded_smoother import Trajectory
from probpca.inference.time_series.square_root_filter import FilteredTrajectory
from probpca.linalg.tridiagonal import InverseBlocks
from probpca.models import Gaussian

if TYPE_CHECKING:
    from probpca.models import StateSpace
    from probpca.typing import Array


class Smoothed(NamedTuple):
    """The state at each step given all rows of its sequence."""

    mean: Array  # (n, q)
    covariance: Array  # (n, q, q)
    lag_one: Array  # Cov(x_t, x_{t+1}), zero at the last step of a sequence: (n, q, q)


@final
@dataclass(frozen=True, eq=False)
class FilteredStates:
    """The state at each step given the rows before it, and given that row too."""

    predicted: Gaussian
    filtered: Gaussian
    log_likelihood: Array  # of each row given those before it: (n,)
    distance: Array  # e' S^{-1} e of each row, e the one-step-ahead error: (n,)


def rows_of(model: StateSpace, y: Any, inputs: Any = None) -> Sequences:
    """Sequences that the model can explain, or an error that says why not."""
    rows = as_sequences(y, model.n_features, inputs)
    if rows.n_features != model.n_features:
        msg = f"rows must have {model.n_features} features, as the model has; got {rows.n_features}."
        raise ShapeError(msg)
    given = 0 if rows.inputs is None else rows.inputs.shape[1]
    if given != model.n_inputs:
        msg = f"the model has {model.n_inputs} inputs; got {given} with the rows."
        raise ShapeError(msg)
    return rows


def believe(model: StateSpace, rows: Sequences) -> Trajectory | FilteredTrajectory:
    """Posterior of all states, by the banded form or, where its condition would cost digits, by recursions."""
    return Trajectory.of(model, rows) or FilteredTrajectory.of(model, rows)


def covariances(states: Trajectory | FilteredTrajectory) -> InverseBlocks:
    """Covariances of all states, and of each with the next: (q, q, n) each."""
    if states.copies == 1:
        return states.covariances
    return InverseBlocks(*(np.tile(block, states.copies) for block in states.covariances))


def smooth(model: StateSpace, y: Any, *, inputs: Any = None) -> Smoothed:
    """Mean and covariance of every state given all rows of its sequence; lag-one covariances too.

    Costs O(d q) a step, O(d q^2) where cells are missing, and O(q^3). Sequences of a list come end to end.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import smooth
    >>> from probpca.models import LinearGaussian, StateSpace
    >>> model = StateSpace.memoryless(LinearGaussian(np.zeros(2), [[1.0], [0.0]], 1.0))
    >>> smooth(model, [[3.0, 5.0], [np.nan, 0.0]]).mean.round(6)
    array([[1.5],
           [0. ]])
    """
    states = believe(model, rows_of(model, y, inputs))
    return Smoothed(states.mean, *(np.ascontiguousarray(np.moveaxis(block, -1, 0)) for block in covariances(states)))


def filter_states(model: StateSpace, y: Any, *, inputs: Any = None) -> FilteredStates:
    """The Kalman filter: what was known of each state at its time.

    Step by step, in square-root form; stretches in which the same cells are observed use the steady state.
    """
    states = FilteredTrajectory.of(model, rows_of(model, y, inputs))
    found = states.found
    before = Gaussian(found.predicted, found.predicted_root @ np.swapaxes(found.predicted_root, 1, 2))
    after = Gaussian(found.mean, found.root @ np.swapaxes(found.root, 1, 2))
    return FilteredStates(before, after, states.row_likelihoods(), states.distance)


def series_log_likelihood(model: StateSpace, y: Any, *, inputs: Any = None, piece_steps: int = 2**15) -> float:
    """Log density of all observed cells of all sequences.

    At most about twice ``piece_steps`` states are held at a time, however long the sequences are.
    """
    rows = rows_of(model, y, inputs)
    return sum(_piece_likelihood(model, piece, piece_steps) for piece in rows.pieces(piece_steps))


def _piece_likelihood(model: StateSpace, rows: Sequences, piece_steps: int) -> float:
    """Log density of a few sequences, or of a long one, stretch by stretch: each starts where the last one ended."""
    total, n = 0.0, rows.n_steps
    if len(rows.lengths) > 1 or n <= 2 * piece_steps:
        return believe(model, rows).log_likelihood()
    for start in range(0, n, piece_steps):
        stop = min(start + piece_steps, n)
        stretch = rows.steps(slice(start, stop), np.array([stop - start]))
        states = believe(model, stretch)
        total += states.log_likelihood()
        push = model.pushes(stretch.inputs, stretch.n_steps)[-1]
        model = replace(model, initial=advance(model, states.last_states()[0], push))
    return total


def last_states(model: StateSpace, rows: Sequences) -> list[Gaussian]:
    """The state at the end of each sequence, given its rows."""
    return believe(model, rows).last_states()


def advance(model: StateSpace, state: Gaussian, push: Array) -> Gaussian:
    """The state one step later: N(A m + B u, A P A' + Q)."""
    A = model.transition
    P = A @ state.covariance @ A.T + model.process_noise
    return Gaussian(A @ state.mean + push, (P + P.T) / 2)


def sample_trajectories(
    model: StateSpace, y: Any, n_draws: int, *, rng: np.random.Generator, inputs: Any = None
) -> Array:
    """Draw whole trajectories of the state given all rows: (n_draws, n, q)."""
    if n_draws < 1:
        msg = f"n_draws must be at least 1; got {n_draws}."
        raise ShapeError(msg)
    rows = rows_of(model, y, inputs)
    noise = rng.standard_normal((n_draws, rows.n_steps, model.n_components))
    return believe(model, rows).sample(noise)
