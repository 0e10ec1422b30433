"""Kalman filter and smoother, likelihood, and draws of state trajectories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from probpca.available_memory import require_memory
from probpca.blocks import Sequences, as_sequences
from probpca.errors import ShapeError
from probpca.inference.time_series.banded_smoother import Trajectory
from probpca.inference.time_series.separate_features import SeparateTrajectories
from probpca.inference.time_series.square_root_filter import FilteredTrajectory
from probpca.linalg.tridiagonal import InverseBlocks
from probpca.models import Gaussian

if TYPE_CHECKING:
    from probpca.inference.time_series.row_filter import KnownState
    from probpca.models import StateSpace
    from probpca.typing import Array


class Smoothed(NamedTuple):
    """Smoothed states: the distribution of the state at each step given all rows of its sequence.

    Attributes
    ----------
    mean : ndarray of shape (n, q)
        Mean of the state at each step.
    covariance : ndarray of shape (n, q, q)
        Covariance of the state at each step.
    lag_one : ndarray of shape (n, q, q)
        Covariance of the state at each step with the next, Cov(x_t, x_{t+1}); zero at the last step of a sequence.
    """

    mean: Array
    covariance: Array
    lag_one: Array


@final
@dataclass(frozen=True, eq=False)
class FilteredStates:
    """Result of the Kalman filter.

    Attributes
    ----------
    predicted : Gaussian
        State at each step given the rows before it: mean (n, q) and covariance (n, q, q).
    filtered : Gaussian
        State at each step given the rows up to and including it.
    log_likelihood : ndarray of shape (n,)
        Log density of each row given the rows before it.
    distance : ndarray of shape (n,)
        Squared Mahalanobis distance e' S^{-1} e of each row from its one-step-ahead prediction.
    """

    predicted: Gaussian
    filtered: Gaussian
    log_likelihood: Array
    distance: Array


def rows_of(model: StateSpace, y: Any, inputs: Any = None) -> Sequences:
    """Convert ``y`` to ``Sequences``; raise ``ShapeError`` if features or inputs do not match the model."""
    rows = as_sequences(y, model.n_features, inputs)
    if rows.n_features != model.n_features:
        msg = f"rows must have {model.n_features} features, as the model has; got {rows.n_features}."
        raise ShapeError(msg)
    given = 0 if rows.inputs is None else rows.inputs.shape[1]
    if given != model.n_inputs:
        msg = f"the model has {model.n_inputs} inputs; got {given}."
        raise ShapeError(msg)
    return rows


Posterior: TypeAlias = Trajectory | FilteredTrajectory | SeparateTrajectories


def believe(model: StateSpace, rows: Sequences) -> Posterior:
    """Posterior of all states, by a banded factorisation or, if that is ill-conditioned, by a square-root filter.

    States of single features may have no noise, and unknown starts: they take the square-root way.
    """
    if model.has_own_states:
        return SeparateTrajectories.of(model, rows) or FilteredTrajectory.of(model, rows)
    return Trajectory.of(model, rows) or FilteredTrajectory.of(model, rows)


def covariances(states: Posterior) -> InverseBlocks:
    """Covariances of all states, and of each state with the next: (q, q, n) each."""
    if states.copies == 1:
        return states.covariances
    return InverseBlocks(*(np.tile(block, states.copies) for block in states.covariances))


def smooth(model: StateSpace, y: Any, *, inputs: Any = None) -> Smoothed:
    """Kalman smoother: means, covariances and lag-one covariances of the states given all rows of their sequence.

    ``y`` is a matrix (n, d) with NaN in missing cells, or a list of matrices, one per sequence, whose results are
    concatenated. ``inputs`` are shaped alike, with u columns. Costs O(d q + q^3) per step, O(d q^2 + q^3) for rows
    with missing cells.

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
    """Kalman filter: states given the rows before each step, and given the rows up to it.

    ``y`` is a matrix (n, d) with NaN in missing cells, or a list of matrices, one per sequence, whose results are
    concatenated. ``inputs`` are shaped alike, with u columns. The filter is in square-root form, and uses the steady
    state over long stretches in which the same features are observed.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import filter_states
    >>> from probpca.models import Gaussian, LinearGaussian, StateSpace
    >>> walk = StateSpace(Gaussian([0.0], [[1.0]]), [[1.0]], [[1.0]], LinearGaussian([0.0], [[1.0]], 1.0))
    >>> filter_states(walk, [[1.0], [2.0], [np.nan]]).filtered.mean.round(3)
    array([[0.5],
           [1.4],
           [1.4]])
    """
    rows = rows_of(model, y, inputs)
    states = SeparateTrajectories.of(model, rows) or FilteredTrajectory.of(model, rows)
    if isinstance(states, FilteredTrajectory):
        before, after = _predicted(states), _filtered(states)
    else:
        before, after = (_joined(states, [one(part) for part in states.found]) for one in (_predicted, _filtered))
    return FilteredStates(before, after, states.row_likelihoods(), states.distance)


def _predicted(states: FilteredTrajectory) -> Gaussian:
    found = states.found
    return Gaussian(found.predicted, found.predicted_root @ np.swapaxes(found.predicted_root, 1, 2))


def _filtered(states: FilteredTrajectory) -> Gaussian:
    found = states.found
    return Gaussian(found.mean, found.root @ np.swapaxes(found.root, 1, 2))


def _joined(states: SeparateTrajectories, each: list[Gaussian]) -> Gaussian:
    covariance = states.block_diagonal([one.covariance for one in each])
    return Gaussian(states.together([one.mean for one in each]), covariance)


def series_log_likelihood(model: StateSpace, y: Any, *, inputs: Any = None, piece_steps: int = 2**15) -> float:
    """Log-likelihood of all observed cells of all sequences.

    ``y`` is a matrix (n, d) with NaN in missing cells, or a list of matrices, one per sequence. ``inputs`` are shaped
    alike, with u columns. At most about ``2 * piece_steps`` states are in memory at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import log_likelihood, series_log_likelihood
    >>> from probpca.models import LinearGaussian, StateSpace
    >>> model, rows = LinearGaussian(np.zeros(2), [[1.0], [0.5]], 0.1), np.eye(2)
    >>> bool(np.isclose(series_log_likelihood(StateSpace.memoryless(model), rows), log_likelihood(model, rows).sum()))
    True
    """
    rows = rows_of(model, y, inputs)
    return sum(_piece_likelihood(model, piece, piece_steps) for piece in rows.pieces(piece_steps))


def _piece_likelihood(model: StateSpace, rows: Sequences, piece_steps: int) -> float:
    """Log-likelihood of a few sequences, or of one long sequence cut into stretches that continue each other."""
    total, n = 0.0, rows.n_steps
    if len(rows.lengths) > 1 or n <= 2 * piece_steps:
        return believe(model, rows).log_likelihood()
    for start in range(0, n, piece_steps):
        stop = min(start + piece_steps, n)
        stretch = rows.steps(slice(start, stop), np.array([stop - start]))
        states = believe(model, stretch)
        total += states.log_likelihood()
        push = model.pushes(stretch.inputs, stretch.n_steps)[-1]
        layout = None if model.layout is None else replace(model.layout, unscored=0)
        model = replace(model, initial=advance(model, states.last_states()[0].gaussian, push), layout=layout)
    return total


def last_states(model: StateSpace, rows: Sequences) -> list[KnownState]:
    """Last state of each sequence given its rows."""
    return believe(model, rows).last_states()


def advance(model: StateSpace, state: Gaussian, push: Array) -> Gaussian:
    """Distribution of the state one step later, N(A m + B u, A P A' + Q); ``push`` is B u (q,)."""
    A = model.transition
    P = A @ state.covariance @ A.T + model.process_noise
    return Gaussian(A @ state.mean + push, (P + P.T) / 2)


def sample_trajectories(
    model: StateSpace, y: Any, n_draws: int, *, rng: np.random.Generator, inputs: Any = None
) -> Array:
    """Draw trajectories of the states from their joint posterior given all rows: (n_draws, n, q).

    ``y`` is a matrix (n, d) with NaN in missing cells, or a list of matrices, one per sequence, whose results are
    concatenated. ``inputs`` are shaped alike, with u columns.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import sample_trajectories
    >>> from probpca.models import Gaussian, LinearGaussian, StateSpace
    >>> walk = StateSpace(Gaussian([0.0], [[1.0]]), [[1.0]], [[1.0]], LinearGaussian([0.0], [[1.0]], 1.0))
    >>> sample_trajectories(walk, [[1.0], [np.nan], [3.0]], 4, rng=np.random.default_rng(0)).shape
    (4, 3, 1)
    """
    if n_draws < 1:
        msg = f"n_draws must be at least 1; got {n_draws}."
        raise ShapeError(msg)
    rows = rows_of(model, y, inputs)
    n, q = rows.n_steps, model.n_components
    what = f"{n_draws:,} trajectories of {n:,} steps and {q:,} states"
    require_memory(what, 2 * 8 * int(n_draws) * n * q, "draw fewer trajectories at a time")
    noise = rng.standard_normal((n_draws, n, q))
    return believe(model, rows).sample(noise)
