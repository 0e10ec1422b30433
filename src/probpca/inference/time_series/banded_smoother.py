"""Smoother for state-space models by one banded Cholesky factorisation, without a loop over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.cached_property import cached_property
from probpca.inference.likelihood import LOG_2PI
from probpca.inference.time_series.emissions import collapse, squared_residuals
from probpca.inference.time_series.row_filter import KnownState
from probpca.linalg.packed import pack, unpack
from probpca.linalg.rotations import cholesky_or_none
from probpca.linalg.tridiagonal import BlockTridiagonal

if TYPE_CHECKING:
    from probpca.blocks.sequences import Sequences
    from probpca.inference.time_series.emissions import Collapsed
    from probpca.linalg.tridiagonal import InverseBlocks
    from probpca.models import StateSpace
    from probpca.typing import Array

WORST_CONDITION = 1e7
"""Condition number up to which the banded form is accurate to ten digits."""


@final
@dataclass(frozen=True, eq=False)
class Trajectory:
    r"""Joint posterior of all states of all sequences given all rows.

    Its precision matrix is block-tridiagonal, with

    .. math:: J_t + Q^{-1} + A^\top Q^{-1} A \quad\text{on and}\quad -Q^{-1} A \quad\text{below the diagonal,}

    where :math:`P_1^{-1}` replaces :math:`Q^{-1}` at the first step and :math:`A^\top Q^{-1} A` is absent at the last.
    One banded Cholesky factorisation gives means, covariances and the log-likelihood.
    """

    model: StateSpace
    rows: Sequences
    data: Collapsed
    prior: Prior
    precision: BlockTridiagonal  # of all sequences; of a single one if all are complete and of equal length

    @classmethod
    def of(cls, model: StateSpace, rows: Sequences) -> Trajectory | None:
        """Factor the precision matrix; None if it is too ill-conditioned, so that the Kalman filter is needed."""
        prior = Prior.of(model)
        if prior is None:
            return None
        data = collapse(model.emission, rows.observed)
        first = data.information[:, :1] if rows.missing is None else data.information[:, rows.starts]
        if prior.condition(model, first) > WORST_CONDITION:
            return None
        alike = rows.missing is None and len(rows.lengths) > 1 and bool((rows.lengths == rows.lengths[0]).all())
        starts, lengths = (rows.starts[:1], rows.lengths[:1]) if alike else (rows.starts, rows.lengths)
        n = int(lengths.sum())
        diagonal = data.information[:, :n] + prior.diagonal
        diagonal[:, starts] += prior.first
        diagonal[:, starts + lengths - 1] -= prior.last
        factored = BlockTridiagonal.factor(diagonal, prior.below, rows.linked[: n - 1])
        if factored is None:
            return None
        unit = np.diagonal(model.process_noise)
        largest = (diagonal[np.cumsum(np.arange(1, unit.size + 1)) - 1].max(axis=1) * unit).max()
        uneven = largest > WORST_CONDITION * (np.square(factored.pivots).min(axis=0) * unit).min()
        return None if uneven else cls(model, rows, data, prior, factored)

    @cached_property
    def right(self) -> Array:
        """Right-hand side of the linear system for the means, from rows, initial state and inputs: (n, q)."""
        right = self.data.score.T.copy()
        right[self.rows.starts] += self.prior.start
        if self.rows.inputs is not None:
            pushes = self.model.pushes(self.rows.inputs, self.rows.n_steps)
            drive = np.where(np.append(self.rows.linked, False)[:, None], pushes, 0.0)
            right -= drive @ (self.prior.whiten.T @ self.prior.whiten @ self.model.transition)
            right[1:] += drive[:-1] @ (self.prior.whiten.T @ self.prior.whiten)
        return right

    @cached_property
    def mean(self) -> Array:
        """Smoothed means: (n, q)."""
        right = self.right.reshape(self.copies, -1, self.model.n_components)
        return self.precision.solve(right).reshape(self.right.shape)

    @property
    def copies(self) -> int:
        """Number of sequences that share the factored precision."""
        return self.rows.n_steps // len(self.precision.band)

    @cached_property
    def covariances(self) -> InverseBlocks:
        """Smoothed covariances, and covariances of each state with the next; of one sequence if all share them."""
        return self.precision.inverse_blocks()

    def last_states(self) -> list[KnownState]:
        """Last state of each sequence given its rows."""
        ends = self.rows.starts + self.rows.lengths - 1
        roots = self.precision.last_roots(ends[: len(ends) // self.copies])
        return list(map(KnownState, self.mean[ends], np.tile(roots, (self.copies, 1, 1))))

    def sample(self, noise: Array) -> Array:
        """Draw trajectories from the posterior, given standard normal ``noise`` (draws, n, q): (draws, n, q)."""
        shape = (len(noise) * self.copies, -1, noise.shape[2])
        return self.mean + self.precision.backward(noise.reshape(shape)).reshape(noise.shape)

    def log_likelihood(self, squares: Array | None = None) -> float:
        """Log density of all rows, from sums of squares at the smoothed means.

        ``squares`` are the squared residuals summed by feature (d,), if they have been computed already.
        """
        model, rows, x = self.model, self.rows, self.mean
        if squares is None:
            squares = squared_residuals(model.emission, rows.observed, x.T)
        distance = float((squares / model.emission.noise_variance).sum())
        first = self.prior.whiten_initial @ (x[rows.starts] - model.initial.mean).T
        moves = x[1:] - x[:-1] @ model.transition.T
        if rows.inputs is not None:
            moves -= model.pushes(rows.inputs, rows.n_steps)[:-1]
        moves[rows.starts[1:] - 1] = 0.0  # no transition from one sequence to the next
        moves = moves @ self.prior.whiten.T
        distance += float(np.square(first).sum() + np.square(moves).sum())
        noise = np.broadcast_to(model.emission.noise_variance, rows.counts.shape)
        constant = float(rows.counts @ (LOG_2PI + np.log(noise)))
        k = len(rows.lengths)
        logdet = k * self.prior.logdet_initial + (rows.n_steps - k) * self.prior.logdet
        logdet += self.copies * self.precision.logdet
        return -0.5 * (constant + distance + logdet)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Contribution of the dynamics to the precision matrix of a trajectory."""

    diagonal: Array  # Q^{-1} + A' Q^{-1} A, packed: (entries, 1)
    first: Array  # P1^{-1} - Q^{-1}, packed: (entries, 1)
    last: Array  # A' Q^{-1} A, packed: (entries, 1)
    below: Array  # -Q^{-1} A: (q, q)
    start: Array  # P1^{-1} p1: (q,)
    whiten: Array  # K with K'K = Q^{-1}: (q, q)
    whiten_initial: Array  # K with K'K = P1^{-1}: (q, q)
    logdet: float  # log |Q|
    logdet_initial: float  # log |P1|

    @classmethod
    def of(cls, model: StateSpace) -> Prior | None:
        """Compute the terms of the dynamics; None if Q or P1 is singular."""
        root, initial = cholesky_or_none(model.process_noise), cholesky_or_none(model.initial.covariance)
        if root is None or initial is None:
            return None
        K, K1 = np.asarray(np.linalg.inv(root)), np.asarray(np.linalg.inv(initial))
        logdet, logdet_initial = (2.0 * float(np.log(np.diagonal(one)).sum()) for one in (root, initial))
        KA = K @ model.transition
        own, moved, first = K.T @ K, KA.T @ KA, K1.T @ K1
        packed = [pack(matrix)[:, None] for matrix in (own + moved, first - own, moved)]
        start = first @ model.initial.mean
        return cls(packed[0], packed[1], packed[2], -K.T @ KA, start, K, K1, logdet, logdet_initial)

    def condition(self, model: StateSpace, first: Array) -> float:
        """Estimated condition number of the precision matrix, with the information J = ``first`` at the first step.

        Computed in coordinates with Q = I, so that it does not depend on the units of the state.
        """
        back = np.linalg.inv(self.whiten)
        moved = self.whiten @ model.transition @ back
        known = (
            unpack(first if first.shape[1] == 1 else np.unique(first, axis=1))
            + self.whiten_initial.T @ self.whiten_initial
        )
        least = float(np.linalg.eigvalsh(back.T @ known @ back).min())
        return float(1.0 + np.linalg.norm(moved, 2) ** 2) / min(1.0, least) if least > 0 else np.inf
