"""Quasi-Newton steps between steps of a method that never decreases its objective, where that method is slow."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final

import numpy as np

from probpca.learning.loop import is_slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.learning.loop import Monitor
    from probpca.typing import Array

S = TypeVar("S")


@final
@dataclass(frozen=True, slots=True)
class QuasiNewtonSettings:
    """Options of quasi-Newton steps."""

    memory: int = 10  # number of differences of gradients that correct the information matrix
    # The first proposal comes after so many plain steps, when the mean change of the log noise variance is so small.
    first_steps: int = 2
    settled: float = 0.1
    slow: float = 0.4  # convergence rate, the ratio of successive gains, above which steps are proposed
    farthest: float = 2.0  # largest change of a log noise variance in one step
    # Share of a proposed step that is taken: it is multiplied by ``shorter`` if the objective falls, and by ``longer``
    # otherwise, between ``shortest`` and 1.
    shorter: float = 0.25
    longer: float = 2.0
    tries: int = 2  # proposals from one state before a plain step
    shortest: float = 1e-3
    curved: float = 1e-8  # smallest cosine of a step and the change of the gradient for which it is used


class Surface(Protocol[S]):
    """Protocol of objectives as functions of vectors.

    Gradients are per unit of ``rows``, so that they are of moderate size whatever the weights.
    """

    rows: float  # weight that gradients were divided by

    @property
    def n_noise(self) -> int:
        """Number of logarithms of noise variances at the end of a vector."""
        ...

    @property
    def is_applicable(self) -> bool:
        """Whether the approximate information at the state that was kept last is good enough."""
        ...

    @property
    def noise_change(self) -> float:
        """Mean absolute change of the log noise variances by the plain step from the state that was kept last."""
        ...

    def slope_at(self, state: S) -> tuple[Array, Array]:
        """Convert a state to a vector, and compute the gradient there."""
        ...

    def keep(self, state: S, following: S) -> Callable[[Array], Array] | None:
        """Take note of a state and the plain step from it: the next steps start here.

        Returns how to convert earlier vectors to the present coordinates; None if these are the same.
        """
        ...

    def free(self, gradient: Array) -> Array:
        """Entries of a vector that may change, given the gradient, as 1 or 0."""
        ...

    def solve(self, gradient: Array) -> Array:
        """Product of the inverse of the approximate information with a gradient."""
        ...

    def place(self, vector: Array) -> S:
        """Convert a vector to a state."""
        ...


@final
class QuasiNewton(Generic[S]):
    """Steps by the limited-memory BFGS method, from an approximate information matrix.

    The gradient comes with each plain step, and the changes of the gradient along the last steps correct the
    approximate information (Nocedal 1980). The step from a proposal that lowers the objective is a plain one.
    """

    def __init__(self, surface: Surface[S], how: QuasiNewtonSettings = QuasiNewtonSettings()) -> None:
        """Set the objective and the options."""
        self.begun, self.expected = False, np.inf
        self._surface, self._how = surface, how
        self._point, self._gradient = np.empty(0), np.empty(0)
        self._pairs: deque[tuple[Array, Array]] = deque(maxlen=how.memory)
        self._proposed: S | None = None
        self._share, self._rejected, self._pause = 1.0, 0, 0

    def append(self, state: S, following: S) -> None:
        """Take note of the gradient at a state that was kept, and of the step from it."""
        if state is self._proposed:
            self._share, self._rejected = min(self._share * self._how.longer, 1.0), 0
        self._point, self._gradient = self._note(state)
        convert = self._surface.keep(state, following)
        if convert is not None:
            self._point, self._gradient = convert(self._point), convert(self._gradient)
            self._pairs = deque(((convert(s), convert(y)) for s, y in self._pairs), self._how.memory)

    def reject(self, state: S) -> S | None:
        """Propose a shorter step, corrected by the gradient of one that went too far; after some, a plain step."""
        self._note(state)
        if state is not self._proposed:
            return None
        self._rejected += 1
        self._share = max(self._share * self._how.shorter, self._how.shortest)
        if self._rejected % self._how.tries:
            return self._propose()
        self._pause = self._rejected // self._how.tries  # plain steps before the next proposal
        return None

    def _note(self, state: S) -> tuple[Array, Array]:
        """Coordinates of a state and the gradient there; their changes since the last state are kept."""
        point, gradient = self._surface.slope_at(state)
        if self._point.size and np.isfinite(gradient).all():
            step, change = point - self._point, self._gradient - gradient
            if _is_curved(step, change, self._how.curved):
                self._pairs.append((step, change))
        return point, gradient

    def propose(self, monitor: Monitor) -> S | None:
        """Propose a quasi-Newton step; None while plain steps are fast, and for some steps after failures."""
        self._proposed = None
        settled = self._surface.noise_change < self._how.settled and len(monitor.trace) > self._how.first_steps
        self.begun = self.begun or (settled and is_slow(monitor, self._how.slow))
        if not self.begun or self._pause or not self._surface.is_applicable:
            self._pause = max(self._pause - 1, 0)
            return None
        return self._propose()

    def _propose(self) -> S | None:
        """Propose a step from the state that was kept last; None if the gradients contradict each other."""
        step = self._step()
        slope = float(self._gradient @ step)
        self.expected = self._surface.rows * slope / 2
        if not (np.isfinite(step).all() and slope > 0):
            self._pairs.clear()
            return None
        far = np.abs(step[-self._surface.n_noise :]).max()
        share = self._share * min(1.0, self._how.farthest / max(far, 1e-300))
        self._proposed = self._surface.place(self._point + share * step)
        return self._proposed

    def _step(self) -> Array:
        """Product of the inverse information with the gradient, by the two loops of limited-memory BFGS."""
        free = self._surface.free(self._gradient)

        def solve(vector: Array) -> Array:
            return self._surface.solve(vector) * free

        pairs = [(s * free, y * free) for s, y in self._pairs] if not free.all() else list(self._pairs)
        known = [(s, y, 1 / (s @ y)) for s, y in pairs if _is_curved(s, y, self._how.curved)]
        rest, weights = self._gradient * free, []
        for s, y, scale in reversed(known):
            weights.append(scale * float(s @ rest))
            rest = rest - weights[-1] * y
        step = solve(rest)
        if known:  # the last curvature sets the size of the whole
            _, y, scale = known[-1]
            step /= scale * float(y @ solve(y))
        for (s, y, scale), weight in zip(known, reversed(weights), strict=True):
            step = step + s * (weight - scale * float(y @ step))
        return step


def _is_curved(step: Array, change: Array, least: float) -> bool:
    """Whether the gradient falls along a step, by more than rounding errors."""
    return bool(step @ change > least * np.sqrt((step @ step) * (change @ change)))
