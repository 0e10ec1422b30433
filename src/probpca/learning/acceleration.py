"""Fewer steps of a slow method: extrapolate, and take back what does not help."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from probpca.learning.coordinates import Coordinates
from probpca.learning.loop import Iterated
from probpca.learning.results import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.learning.loop import Monitor
    from probpca.models import LinearGaussian
    from probpca.typing import Array

S = TypeVar("S")
MEMORY = 5
FARTHEST = 5.0
"""Change of the logarithm of the noise variance that no extrapolation is believed."""
SLOW = 0.4
"""Share of a gain that the next one keeps from which on a method is worth accelerating."""


def iterate_accelerated(
    step: Callable[[LinearGaussian], tuple[LinearGaussian, float]],
    start: LinearGaussian,
    monitor: Monitor,
    floor: float,
) -> Iterated[LinearGaussian]:
    """Repeat ``step`` and extrapolate in W, mu and log s2, which stays above that of ``floor``."""
    coordinates = Coordinates.around(start)
    lowest = float(np.log(floor) - 2 * np.log(coordinates.unit))

    def place(jump: Array) -> LinearGaussian:
        jump[-1] = max(jump[-1], lowest)
        return coordinates.unpack(jump)

    return accelerate(step, start, monitor, coordinates.pack, place)


def accelerate(
    step: Callable[[S], tuple[S, float]],
    start: S,
    monitor: Monitor,
    pack: Callable[[S], Array],
    place: Callable[[Array], S | None],
) -> Iterated[S]:
    r"""Repeat ``step``; while it is slow, extrapolate from the last steps (Anderson 1965).

    With :math:`f_k = g(x_k) - x_k` what a step changes, the next point is the combination of the last
    :math:`g(x_k)` whose combined :math:`f_k` is shortest. A point at which the log-likelihood is
    lower than at the one before is given up for the plain step, so that the trace rises always.
    Plain steps, and only they, say when to stop. ``pack`` makes vectors, the logarithm of a noise variance
    last, and ``place`` makes states of them, or None of a vector that is no state.
    """
    state, plain, fallback = start, True, start
    history = _History(pack)
    if len(monitor.trace) > monitor.max_iter:  # an earlier process has used them up
        monitor.record(step(state)[1])
    while len(monitor.trace) <= monitor.max_iter:
        following, value = step(state)
        if not plain and not value >= monitor.trace[-1]:
            state, plain = fallback, True
            history.clear()
            continue
        if monitor.record(value, plain=plain):
            return Iterated(state, Status.CONVERGED, tuple(monitor.trace))
        if len(monitor.trace) > monitor.max_iter:
            break  # the state is the one whose value was recorded last
        history.append(state, following)
        jump = history.extrapolated() if _is_slow(monitor) else None
        placed = None if jump is None else place(jump)
        fallback, plain = following, placed is None
        state = following if placed is None else placed
    return Iterated(state, Status.MAX_ITER, tuple(monitor.trace))


def _is_slow(monitor: Monitor) -> bool:
    """Does the last gain promise many more like it, too large to be neglected?"""
    if len(monitor.trace) < 3:
        return False
    before, last = np.diff(monitor.trace[-3:])
    if monitor.plain_steps == 0:  # extrapolating: go on for as long as it pays
        return bool(last > monitor.tol)
    return bool(last > SLOW * before and monitor.remaining() > monitor.tol)


class _History:
    """The last few points and where a plain step took them; vectors are made of them when they are needed."""

    def __init__(self, pack: Callable[[Any], Array]) -> None:
        self._pack = pack
        self._steps: deque[tuple[Any, Any]] = deque(maxlen=MEMORY + 1)

    def append(self, point: Any, image: Any) -> None:
        self._steps.append((point, image))

    def clear(self) -> None:
        self._steps.clear()

    def extrapolated(self) -> Array | None:
        """The next point; None as long as there is but one step to go by."""
        if len(self._steps) < 2:
            return None
        images = np.array([self._pack(image) for _, image in self._steps])
        changes = images - np.array([self._pack(point) for point, _ in self._steps])
        differences = np.diff(changes, axis=0)  # (m, N)
        norms = np.linalg.norm(differences, axis=1, keepdims=True)
        scaled = differences / np.where(norms > 0, norms, 1.0)
        weights = np.linalg.lstsq(scaled @ scaled.T, scaled @ changes[-1], rcond=1e-10)[0]
        jump = np.asarray(images[-1] - (weights / np.where(norms > 0, norms, 1.0)[:, 0]) @ np.diff(images, axis=0))
        believable = np.isfinite(jump).all() and abs(jump[-1] - images[-1][-1]) < FARTHEST
        return jump if believable else None
