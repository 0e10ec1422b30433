"""The one loop: trace, stopping in nats, status, somebody watching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from probpca.learning.results import Status

S = TypeVar("S")
Watch: TypeAlias = Callable[["Progress"], None]


FIRST_STEPS = 6
SLOWEST = 0.99
HIDDEN = 0.95
"""The slowest rate that is thought to hide behind faster ones in the first steps."""


class Progress(NamedTuple):
    """What somebody who watches is told after each step."""

    iteration: int
    log_likelihood: float
    remaining: float  # estimated gain still to come, in nats; infinite when it cannot be told
    max_iter: int
    tol: float  # a remaining gain that is small enough


class Iterated(NamedTuple, Generic[S]):
    """Where the loop ended."""

    state: S
    status: Status
    trace: tuple[float, ...]


class Monitor:
    r"""Keeps the trace and says when to stop.

    With gains :math:`\delta_k` that shrink by :math:`c = \delta_k / \delta_{k-1}` a step, the gain
    still to come is :math:`\delta_k c / (1 - c)` (Aitken). The last gain alone says little: a slow
    method gains little in each step and much in all. Where gains are not steady, as those of a
    quasi-Newton method, twice what the last ten steps gained stands for it. Stop when the estimate is
    below ``tol`` twice in a row. In the first steps gains shrink fast while a slow direction is still
    hidden among them: there, stop only if even a slow one would have less than ``tol`` to give.
    """

    def __init__(
        self,
        tol: float,
        max_iter: int,
        watch: Watch | None = None,
        *,
        steady: bool = True,
        trace: tuple[float, ...] = (),
    ) -> None:
        """Remember the rule, and the trace to go on from; a method that is not ``steady`` gains in fits and starts."""
        self.trace: list[float] = list(trace)
        self.tol, self.max_iter, self.watch, self.steady = tol, max_iter, watch, steady
        self._below = 0
        self._slowest = 0.0  # of the rates seen so far: after extrapolation a slow direction may be hidden
        self.plain_steps = 0  # how many of the last steps were not extrapolated
        self.stopped = False

    def record(self, log_likelihood: float, *, plain: bool = True) -> bool:
        """Append a value of the objective, reached by a ``plain`` step or not; is it time to stop?"""
        self.trace.append(log_likelihood)
        self.plain_steps = self.plain_steps + 1 if plain else 0
        remaining = self.remaining()
        self._slowest = max(self._slowest, min(self._rate(), SLOWEST))
        self._below = self._below + 1 if remaining < self.tol else 0
        if self.watch is not None:
            self.watch(Progress(len(self.trace) - 1, log_likelihood, remaining, self.max_iter, self.tol))
        enough = self._below >= 2 and len(self.trace) > FIRST_STEPS
        self.stopped = enough or (self.steady and self.remaining(HIDDEN) < self.tol)
        return self.stopped

    def forget(self) -> None:
        """The method is about to jump: gains up to that say nothing about those to come."""
        self._slowest, self._below = 0.0, 0
        self.plain_steps = -2  # neither the value before the jump nor the gain of the jump make a rate

    def remaining(self, least_rate: float = 0.0) -> float:
        """Estimated gain still to come, in nats, if no share smaller than ``least_rate`` of a gain is kept."""
        if not self.steady:
            return 2 * (self.trace[-1] - self.trace[-11]) if len(self.trace) > 10 else np.inf
        if len(self.trace) < 3 or self.plain_steps < 2:
            return np.inf
        last = self.trace[-1] - self.trace[-2]
        if last <= 1e-14 * abs(self.trace[-1]):
            return 0.0
        rate = max(self._rate(), self._slowest, least_rate)
        return last * rate / (1 - rate) if rate < 1 else np.inf

    def _rate(self) -> float:
        """What share of a gain the next one keeps, by the last two plain steps; infinite if gains grow."""
        if len(self.trace) < 3 or self.plain_steps < 2:
            return 0.0
        before, last = np.diff(self.trace[-3:])
        return float(last / before) if before > 0 else np.inf


def iterate(step: Callable[[S], tuple[S, float]], state: S, monitor: Monitor) -> Iterated[S]:
    """Repeat ``step``, which returns the next state and the objective at the one it was given."""
    while len(monitor.trace) < monitor.max_iter:
        following, objective = step(state)
        if monitor.record(objective):
            return Iterated(state, Status.CONVERGED, tuple(monitor.trace))
        state = following
    monitor.record(step(state)[1])
    return Iterated(state, Status.MAX_ITER, tuple(monitor.trace))
