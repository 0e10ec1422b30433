"""Accelerated fixed point for factor analysis of many columns, from the largest eigenpairs alone."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from probpca.learning.loop import Iterated, Progress
from probpca.learning.result import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.learning.factor.profile import Point, Profile
    from probpca.learning.settings import FactorSettings, Settings
    from probpca.typing import Array

History = deque[tuple["Array", "Array"]]


def fixed_point(profile: Profile, start: Array, settings: Settings) -> Iterated[Point]:
    r"""Maximise the profile likelihood from some noise variances by accelerated fixed-point steps.

    The plain step :math:`\psi \leftarrow \operatorname{diag}(R - W W^\top) = \psi \circ (1 - \nabla F)` never lowers
    the likelihood, but is slow where factors explain a feature well. The relaxed step divides its change of
    :math:`\log \psi_j` by :math:`B_{jj}`, about the curvature of F, and the extrapolated step combines the last relaxed
    ones (Anderson 1965). The first of extrapolated, relaxed and plain step that does not lower the likelihood is taken.
    The iteration ends when a relaxed step promises much less than ``settings.tol``, or three successive gains are below
    a fifth of it.
    """
    how = settings.factor
    point, relaxation, small = profile.at(start), 1.0, 0
    trace = [profile.log_likelihood(point)]
    history: History = deque(maxlen=how.memory + 1)
    while len(trace) <= settings.max_iter:
        if small == 3 or profile.weight * _promised(point, how) < how.little * settings.tol:
            return Iterated(point, Status.CONVERGED, tuple(trace))
        relaxed = _step(point, relaxation, how)
        history.append((point.log_noise, relaxed))
        for proposal in _proposals(history, point, relaxed, how):
            new = profile.at(proposal, point)
            if new.value <= point.value:
                break
            history.clear()
            relaxation *= 0.5 if proposal is relaxed else 1.0
        else:
            new = point  # rounding
        relaxation = min(1.2 * relaxation, 1.0)
        point = new
        trace.append(profile.log_likelihood(point))
        remaining = 5 * (trace[-1] - trace[-2])
        if settings.watch is not None:
            settings.watch(Progress(len(trace) - 1, trace[-1], remaining, settings.max_iter, settings.tol))
        small = small + 1 if remaining < settings.tol else 0
    return Iterated(point, Status.MAX_ITER, tuple(trace))


def _proposals(history: History, point: Point, relaxed: Array, settings: FactorSettings) -> Iterator[Array]:
    """Yield the next noise variances to try: extrapolated, relaxed, plain."""
    if len(history) > 1:
        yield _boxed(_extrapolated(history), settings)
    yield relaxed
    yield _step(point, 0.0, settings)


def _promised(point: Point, settings: FactorSettings) -> float:
    """Decrease of F / 2 by a relaxed step, if its Hessian were the diagonal of B."""
    free = (point.log_noise > np.log(settings.floor)) | (point.gradient < 0)
    return 0.25 * float(np.square(point.gradient) @ (free / np.maximum(point.uncovered, 1 / settings.relaxation)))


def _step(point: Point, relaxation: float, settings: FactorSettings) -> Array:
    """Next log noise variances by a plain step (``relaxation`` 0), a relaxed one (1) or one between: (d,)."""
    move = np.log(np.maximum(1 - point.gradient, np.finfo(float).tiny))
    longer = 1 / np.maximum(point.uncovered, 1 / settings.relaxation) - 1
    move = np.clip(move * (1 + relaxation * longer), -settings.farthest, settings.farthest)
    return _boxed(point.log_noise + move, settings)


def _boxed(log_noise: Array, settings: FactorSettings) -> Array:
    return np.clip(log_noise, np.log(settings.floor), 0.0)


def _extrapolated(history: History) -> Array:
    """Combination of the last images of steps whose combined change is shortest (Anderson 1965)."""
    points, images = np.array(history).swapaxes(0, 1)
    changes = images - points
    differences = np.diff(changes, axis=0)
    norms = np.maximum(np.linalg.norm(differences, axis=1), np.finfo(float).tiny)
    unit = differences / norms[:, None]
    weights = np.linalg.lstsq(unit @ unit.T, unit @ changes[-1], rcond=1e-10)[0] / norms
    return np.asarray(images[-1] - weights @ np.diff(images, axis=0))
