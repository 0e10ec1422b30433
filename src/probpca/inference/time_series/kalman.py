"""What a time series says about the state behind it: filter, smoother, likelihood, trajectories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.blocks import Sequences, as_sequences
from probpca.errors import ShapeError
from probpca.inference.time_series.banded_smoother import IllConditionedError, Trajectory
from probpca.inference.time_series.emissions import distances, noise_constants
from probpca.inference.time_series.square_root_filter import filter_rows, sample_filtered, smooth_filtered
from probpca.linalg.tridiagonal import InverseBlocks
from probpca.models import Gaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.inference.time_series.square_root_filter import Filtered
    from probpca.models import StateSpace
    from probpca.typing import Array

PIECE_STEPS = 2**15
"""Steps whose states are held at a time where only their likelihood is asked for."""


class StateBelief(NamedTuple):
    """All states given all rows, as learning wants them."""

    mean: Array  # (n, q)
    shared: InverseBlocks  # (q, q, n) each; of one sequence if it stands for all of them
    copies: int  # for how many
    log_likelihood: Callable[[Array], float]  # given the squared residuals of each feature at the mean: (d,)

    @property
    def covariance(self) -> InverseBlocks:
        """Covariances of all states, and of each with the next: (q, q, n) each."""
        return (
            InverseBlocks(*(np.tile(block, self.copies) for block in self.shared)) if self.copies > 1 else self.shared
        )


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


def believe(model: StateSpace, rows: Sequences) -> StateBelief:
    """Smooth, by the banded form or, where its condition would cost digits, step by step."""
    try:
        whole = Trajectory.of(model, rows)
    except IllConditionedError:
        found = filter_rows(model, rows)
        mean, blocks = smooth_filtered(model, rows, found)
        value = float(_row_likelihoods(model, rows, found, _distances(model, rows, found)).sum())
        return StateBelief(mean, blocks, 1, lambda _: value)
    return StateBelief(whole.mean, whole.covariances, whole.copies, whole.log_likelihood)


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
    belief = believe(model, rows_of(model, y, inputs))
    return Smoothed(belief.mean, *(np.ascontiguousarray(np.moveaxis(block, -1, 0)) for block in belief.covariance))


def filter_states(model: StateSpace, y: Any, *, inputs: Any = None) -> FilteredStates:
    """The Kalman filter: what was known of each state at its time.

    Step by step, in square-root form; stretches in which the same cells are observed use the steady state.
    """
    rows = rows_of(model, y, inputs)
    found = filter_rows(model, rows)
    distance = _distances(model, rows, found)
    likelihood = _row_likelihoods(model, rows, found, distance)
    before = Gaussian(found.predicted, found.predicted_root @ np.swapaxes(found.predicted_root, 1, 2))
    after = Gaussian(found.mean, found.root @ np.swapaxes(found.root, 1, 2))
    return FilteredStates(before, after, likelihood, distance)


def _distances(model: StateSpace, rows: Sequences, found: Filtered) -> Array:
    """E' S^{-1} e of each row, as a sum of squares: what is left at the filtered mean, and how far that had to move."""
    return distances(model.emission, rows.observed, found.mean.T) + found.surprise


def _row_likelihoods(model: StateSpace, rows: Sequences, found: Filtered, distance: Array) -> Array:
    return np.asarray(-0.5 * (noise_constants(model.emission, rows.observed) + found.logdet + distance))


def series_log_likelihood(model: StateSpace, y: Any, *, inputs: Any = None) -> float:
    """Log density of all observed cells of all sequences, in memory that does not grow with their length."""
    rows = rows_of(model, y, inputs)
    return sum(_piece_likelihood(model, piece) for piece in rows.pieces(PIECE_STEPS))


def _piece_likelihood(model: StateSpace, rows: Sequences) -> float:
    """Of a few sequences together, or of a long one, part by part: each starts where the last one ended."""
    total, n = 0.0, rows.n_steps
    if len(rows.lengths) > 1 or n <= 2 * PIECE_STEPS:
        return _log_likelihood(model, rows)
    for start in range(0, n, PIECE_STEPS):
        stop = min(start + PIECE_STEPS, n)
        part = rows.steps(slice(start, stop), np.array([stop - start]))
        total += _log_likelihood(model, part)
        push = model.pushes(part.inputs, part.n_steps)[-1]
        model = replace(model, initial=advance(model, last_states(model, part)[0], push))
    return total


def _log_likelihood(model: StateSpace, rows: Sequences) -> float:
    try:
        return Trajectory.of(model, rows).log_likelihood()
    except IllConditionedError:
        found = filter_rows(model, rows)
        return float(_row_likelihoods(model, rows, found, _distances(model, rows, found)).sum())


def last_states(model: StateSpace, rows: Sequences) -> list[Gaussian]:
    """The state at the end of each sequence, given its rows."""
    ends = rows.starts + rows.lengths - 1
    try:
        whole = Trajectory.of(model, rows)
        mean, root = whole.mean[ends], whole.last_roots()
    except IllConditionedError:
        found = filter_rows(model, rows)
        mean, root = found.mean[ends], found.root[ends]
    return [Gaussian(m, r @ r.T) for m, r in zip(mean, root, strict=True)]


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
    try:
        whole = Trajectory.of(model, rows)
    except IllConditionedError:
        return sample_filtered(model, rows, filter_rows(model, rows), noise)
    return whole.sample(noise)
