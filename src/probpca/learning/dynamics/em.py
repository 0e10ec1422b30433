"""Expectation-maximisation for linear dynamical systems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.inference.time_series.kalman import believe
from probpca.learning.em.e_step import regress_on
from probpca.learning.em.m_step import pooled_noise
from probpca.linalg.packed import packed_size, row_order
from probpca.linalg.rotations import symmetric_root
from probpca.models import Gaussian, LinearGaussian, StateSpace

if TYPE_CHECKING:
    from probpca.blocks import Sequences
    from probpca.inference.time_series.kalman import Posterior
    from probpca.learning.dynamics.structure import Structure
    from probpca.statistics import Regression
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class SeriesSums:
    """Expected sufficient statistics of an E-step over all sequences."""

    emission: Regression  # regression of the cells on [x; 1]
    moves: Array  # sum over transitions of E[v v'], v = [x_t; u_t; x_{t+1}]: (q + u + q, q + u + q)
    n_moves: int  # number of transitions
    first: Array  # smoothed mean of the first state of each sequence: (k, q)
    first_covariance: Array  # average covariance of the first states: (q, q)
    log_likelihood: float


def expect_series(model: StateSpace, rows: Sequences) -> SeriesSums:
    """E-step: smooth the states and sum their expected statistics."""
    belief = believe(model, rows)
    x, P = belief.mean, belief.covariances.diagonal
    i, j = row_order(model.n_components)
    emission, squares = regress_on(model.emission, rows.observed, np.ascontiguousarray(x.T), P[i, j], rows.squares)
    first = P[:, :, rows.starts[rows.starts < P.shape[2]]].mean(axis=2)
    moves, n = _moves(belief, rows)
    return SeriesSums(emission, moves, n, x[rows.starts], first, belief.log_likelihood(squares))


def _moves(belief: Posterior, rows: Sequences) -> tuple[Array, int]:
    """Sum over transitions of E[v v'] with v = [x_t; u_t; x_{t+1}], and the number of transitions."""
    x, (P, beside), copies = belief.mean, belief.covariances, belief.copies
    q, linked = x.shape[1], rows.linked
    if rows.inputs is None:
        moves = _second_moments(x, rows)
    else:
        v = np.hstack([x[:-1], rows.inputs[:-1], x[1:]])[linked]
        moves = v.T @ v
    within = linked[: P.shape[2] - 1]  # transitions of the sequences that P covers
    moves[:q, :q] += copies * (P[:, :, :-1] @ within)
    moves[-q:, -q:] += copies * (P[:, :, 1:] @ within)
    cross = copies * beside.sum(axis=2)  # covariance of x_t with x_{t+1}; zero between sequences
    moves[:q, -q:] += cross
    moves[-q:, :q] += cross.T
    return moves, int(np.count_nonzero(linked))


def _second_moments(x: Array, rows: Sequences) -> Array:
    """Sum over the transitions within sequences of v v' with v = [x_t; x_{t+1}]."""
    starts, ends = x[rows.starts], x[rows.starts + rows.lengths - 1]
    whole, next_ = x.T @ x, x[:-1].T @ x[1:] - ends[:-1].T @ starts[1:]
    return np.block([[whole - ends.T @ ends, next_], [next_.T, whole - starts.T @ starts]])


@final
@dataclass(frozen=True, slots=True, eq=False)
class SeriesEM:
    """EM for a linear dynamical system of a given structure; no step decreases the objective."""

    structure: Structure
    floor: Array  # smallest noise variance of each feature: (d,)
    process_floor: Array  # square root of the smallest process noise: (q, q)
    ratio: float | None  # ratio of the initial covariance to Q if it is tied to Q, else None
    learn_initial_covariance: bool = False

    def step(self, model: StateSpace, rows: Sequences) -> tuple[StateSpace, float]:
        """Model after one iteration, and the objective at the given model."""
        sums = expect_series(model, rows)
        return self.advance(model, sums), sums.log_likelihood + self.log_prior(model)

    def log_prior(self, model: StateSpace) -> float:
        """Log prior density of A given by the ridge penalty, -ridge tr(A' Q^{-1} A) / 2."""
        if self.structure.ridge == 0:
            return 0.0
        return (
            -0.5
            * self.structure.ridge
            * float(np.trace(model.transition.T @ np.linalg.solve(model.process_noise, model.transition)))
        )

    def advance(self, model: StateSpace, sums: SeriesSums) -> StateSpace:
        """Model after one iteration, given the statistics of the E-step at ``model``."""
        free = self.structure.says("initial_mean", "free")
        mean = sums.first.mean(axis=0) if free else model.initial.mean
        deviation = sums.first - mean
        first = sums.first_covariance + deviation.T @ deviation / len(deviation)  # average of E[(x_1 - p1)(x_1 - p1)']
        A, B, Q = self._dynamics(model, sums, first)
        P = first if self.learn_initial_covariance else model.initial.covariance
        initial = Gaussian(mean, P if self.ratio is None else self.ratio * Q)
        return StateSpace(initial, A, Q, self._emission(model.emission, sums.emission), B)

    def _dynamics(self, model: StateSpace, sums: SeriesSums, first: Array) -> tuple[Array, Array | None, Array]:
        """Updated A, B and Q, each maximising the objective given those before it."""
        q, structure = model.n_components, self.structure
        moves = sums.moves.copy()
        moves[:q, :q] += structure.ridge * np.eye(q)
        known, cross = moves[:-q, :-q], moves[-q:, :-q]
        AB = _regress(known, cross)
        A = AB[:, :q]
        if structure.fixed("transition") is not None:
            A = model.transition
        elif structure.says("transition", "diagonal"):
            A = _diagonal_transition(model, known, cross)
        elif structure.says("transition", "stable"):
            A = _stable(model.transition, A, structure.largest_radius)
        B = None
        if model.input_loadings is not None:
            B = _regress(known[q:, q:], cross[:, q:] - A @ known[:q, q:])
        left = np.hstack([-A, np.eye(q)] if B is None else [-A, -B, np.eye(q)])
        total, n = _turned(left, moves), sums.n_moves
        if self.ratio is not None:  # first states have the covariance of the process noise times the ratio
            k = len(sums.first)
            total, n = total + k * first / self.ratio, n + k
        return A, B, self.process_noise(model, total / n)

    def process_noise(self, model: StateSpace, free: Array) -> Array:
        """Process noise of the given structure that maximises the objective, from the unconstrained maximum."""
        if not self.structure.says("process_noise", "free", "diagonal"):
            return model.process_noise
        if self.structure.says("process_noise", "diagonal"):
            free = np.diag(np.diagonal(free))
        return _above(free, self.process_floor)

    def _emission(self, model: LinearGaussian, sums: Regression) -> LinearGaussian:
        structure, q = self.structure, model.n_components
        counts = sums.gram[-1]
        if structure.fixed("loadings") is None and structure.fixed("offset") is None:
            change = sums.change()
        else:
            change = np.zeros_like(sums.score)
            if structure.fixed("offset") is None:
                change[-1] = np.divide(sums.score[-1], counts, out=np.zeros_like(counts), where=counts > 0)
            elif structure.fixed("loadings") is None:
                change[:q] = replace(sums, gram=sums.gram[: packed_size(q)], score=sums.score[:q]).change()
        following = LinearGaussian(model.mean + change[-1], model.loadings + change[:-1].T, model.noise_variance)
        if structure.fixed("noise") is not None:
            return following
        shared = model.noise_variance.ndim == 0
        floor = self.floor.mean() if shared else self.floor
        noise = pooled_noise(sums.squares_after(change), sums, model.noise_variance, floor)
        return replace(following, noise_variance=noise)


def _above(covariance: Array, root: Array) -> Array:
    """Most likely covariance not smaller than L L': in coordinates in which L L' = I, raise eigenvalues to 1."""
    scaled = np.linalg.solve(root, np.linalg.solve(root, covariance).T)
    values, axes = np.linalg.eigh((scaled + scaled.T) / 2)
    if values[0] >= 1.0:
        return covariance
    raised = root @ (axes * np.sqrt(np.maximum(values, 1.0)))
    return np.asarray(raised @ raised.T)


def _regress(known: Array, cross: Array) -> Array:
    """Solve X known = cross; the minimum-norm solution if it is not unique."""
    return np.asarray(np.linalg.lstsq(known, cross.T, rcond=1e-13)[0].T)


def _turned(left: Array, moments: Array) -> Array:
    """Product D M D' as a sum of squares, so that it stays positive semidefinite."""
    root = left @ symmetric_root(moments)
    return np.asarray(root @ root.T)


def _diagonal_transition(model: StateSpace, known: Array, cross: Array) -> Array:
    """Diagonal A that maximises the objective given Q and B: (Q^{-1} * S00) a = diag(Q^{-1} S10)."""
    q = model.n_components
    precision = np.linalg.inv(model.process_noise)
    target = cross[:, :q]
    if model.input_loadings is not None:
        target = target - model.input_loadings @ known[q:, :q]
    return np.diag(np.linalg.solve(precision * known[:q, :q], np.diagonal(precision @ target)))


def _stable(old: Array, new: Array, largest_radius: float) -> Array:
    """Stable transition matrix on the line from ``old``, which is stable, to ``new``, as near to ``new`` as possible.

    The objective is concave along this line, so that it does not decrease.
    """

    def radius(share: float) -> float:
        return float(np.abs(np.linalg.eigvals(old + share * (new - old))).max())

    if radius(1.0) <= largest_radius:
        return new
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if radius(middle) <= largest_radius else (low, middle)
    return old + low * (new - old)
