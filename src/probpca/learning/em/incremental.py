"""Incremental EM: the statistics of one piece of rows are updated at a time, each followed by an M-step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.blocks import Block, Observed
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.em.m_step import latent_moments, maximise, pooled_noise, theta_of, whitening_basis
from probpca.learning.loop import Iterated
from probpca.learning.result import Status
from probpca.sources.engines.local import itself

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.learning.checkpoint import Saver
    from probpca.learning.loop import Monitor
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array


class _Known(NamedTuple):
    """Statistics of one piece of rows when it was last read, with the parameters and latent axes at that time."""

    sums: Regression
    entropy: float  # of the posterior of its latent variables
    theta: Array  # [W'; mu']: (q + 1, d)
    axes: Array  # transformation of the initial latent axes into those at that time: (q + 1, q + 1)


@final
@dataclass(frozen=True, slots=True)
class Incremental:
    r"""Incremental EM of Neal & Hinton (1998): s <- s - s_i(old) + s_i(new) for one piece i, then an M-step.

    The objective is the free energy

    .. math:: F = \sum_i \mathbb{E}_{q_i}[\log p(x_i, z_i \mid \theta)] + H(q_i)

    which no step decreases, and which equals the log-likelihood if every :math:`q_i` is the posterior at
    :math:`\theta`. In the limit of zero noise, where F is not defined, the objective is the expected squared residual:
    incremental EM for classical PCA.
    """

    expect: Any  # E-step, (model, rows) -> Regression
    floor: float | Array  # smallest noise variance: () or (d,)
    noise_free: bool = False  # whether to take the limit of zero noise
    piece_rows: int = 1024  # number of rows whose statistics are updated at a time
    enough: int = 4  # observed cells per parameter that are needed before the first M-step

    def run(
        self, rows: Source, start: LinearGaussian, monitor: Monitor, saver: Saver | None = None
    ) -> Iterated[LinearGaussian]:
        """Repeat passes over the rows until convergence; the trace holds the objective after each pass.

        The free energy falls short of the log-likelihood, because the statistics of most pieces belong to earlier
        models. One more pass gives the log-likelihood of the last model, at the end of the trace.
        """
        walk = _Walk(self, start)
        walk.over(rows, eager=not monitor.trace)
        while not monitor.record(walk.objective()) and len(monitor.trace) <= monitor.max_iter:
            if saver is not None:
                saver.save(walk.model, monitor.trace[-1])
            walk.over(rows)
        status = Status.CONVERGED if monitor.stopped else Status.MAX_ITER
        if not self.noise_free:
            monitor.trace[-1] = rows.fold(partial(self.expect, walk.model)).log_likelihood
        return Iterated(walk.model, status, tuple(monitor.trace))


class _Walk:
    """State of the iteration: the model, the total statistics, and those of each piece as last computed."""

    def __init__(self, method: Incremental, model: LinearGaussian) -> None:
        self.method, self.model = method, model
        self.axes = np.eye(model.n_components + 1)
        self.known: list[_Known] = []
        self.total: Regression | None = None
        self.entropy = 0.0

    def over(self, rows: Source, *, eager: bool = True) -> None:
        """Make one pass over the rows; with ``eager`` there is an M-step after each piece of the first pass too."""
        first = not self.known
        for number, piece in enumerate(_pieces(rows, self.method.piece_rows)):
            sums = self.method.expect(self.model, piece)
            if first:
                self.known.append(self._enter(sums))
            else:
                self._leave(self.known[number])
                self.known[number] = self._enter(sums)
            if eager and (not first or self._has_enough()):
                self._step()
        self._sum_afresh()

    def _has_enough(self) -> bool:
        """Whether enough rows have been read for an M-step."""
        return self.total is not None and self.total.cells >= self.method.enough * theta_of(self.model).size

    def objective(self) -> float:
        """Free energy at the model, or the corresponding objective in the limit of zero noise."""
        sums = self.total
        assert sums is not None  # noqa: S101
        if self.method.noise_free:
            pooled = pooled_noise(sums.squares, sums, np.asarray(0.0), self.method.floor)
            return -0.5 * sums.cells * (LOG_2PI + float(np.log(pooled)) + 1)
        return self.entropy - 0.5 * _energy(sums, self.model.noise_variance)

    def _enter(self, sums: Regression) -> _Known:
        """Add the statistics of a piece at the current model."""
        entropy = 0.0
        if not self.method.noise_free:
            entropy = sums.log_likelihood + 0.5 * _energy(sums, self.model.noise_variance)
        self.total = sums if self.total is None else self.total.merge(sums)
        self.entropy += entropy
        return _Known(sums, entropy, theta_of(self.model), self.axes)

    def _leave(self, known: _Known) -> None:
        """Subtract the earlier statistics of a piece."""
        sums, entropy = self._as_of_now(known)
        assert self.total is not None  # noqa: S101
        self.total = self.total.merge(sums.scaled(-1.0))
        self.entropy -= entropy

    def _as_of_now(self, known: _Known) -> tuple[Regression, float]:
        """Statistics and entropy of a piece, converted to the current axes and parameters."""
        basis = np.asarray(np.linalg.solve(known.axes, self.axes), np.float64)  # t (current) = B' t (earlier)
        theta = np.linalg.solve(basis, known.theta)
        sums = known.sums.turned(basis).moved(theta_of(self.model) - theta)
        return sums, known.entropy + sums.weight * _log_scale(basis)

    def _sum_afresh(self) -> None:
        """Recompute the total from all pieces, once per pass, because repeated subtraction loses digits."""
        self.total, self.entropy = None, 0.0
        for known in self.known:
            sums, entropy = self._as_of_now(known)
            self.total = sums if self.total is None else self.total.merge(sums)
            self.entropy += entropy

    def _step(self) -> None:
        """M-step, followed by the parameter expansion that gives latent variables mean 0 and covariance I."""
        sums, before = self.total, self.model
        assert sums is not None  # noqa: S101
        after = maximise(before, sums, self.method.floor)
        sums = sums.moved(theta_of(after) - theta_of(before))
        if not self.method.noise_free:
            moments = latent_moments(sums)
            model = after.whiten(moments)
            basis = whitening_basis(moments)
            sums = sums.turned(basis)
            self.axes = self.axes @ basis
            self.entropy += sums.weight * _log_scale(basis)
            after = model
        self.total, self.model = sums, after


def _pieces(rows: Source, piece_rows: int) -> Iterator[Any]:
    """Yield the rows in pieces that are the same in every pass."""
    for block in rows.answers(itself):
        if isinstance(block, Observed):
            yield from (replace(block, groups=(group,)) for group in block.groups)
        else:
            yield from _cut(block, piece_rows)


def _cut(block: Block, piece_rows: int) -> Iterator[Block]:
    for start in range(0, block.n_rows, piece_rows):
        yield block.take(slice(start, min(start + piece_rows, block.n_rows)))


def _energy(sums: Regression, noise: Array) -> float:
    """Minus twice the expected log joint density, up to a constant that is also left out of the entropy."""
    q = int(np.sqrt(2 * sums.latent.size)) - 1
    diagonal = np.cumsum(np.arange(1, q + 1)) - 1
    prior = float(sums.latent[diagonal].sum())
    return float((sums.counts * (LOG_2PI + np.log(noise)) + sums.squares / noise).sum()) + prior


def _log_scale(basis: Array) -> float:
    """Change of the entropy per row by a transformation of the latent axes."""
    return float(np.linalg.slogdet(basis)[1])
