"""Newton's method for factor analysis: damped steps in the log noise variances, from the correlation matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from probpca.learning.loop import Iterated, Progress
from probpca.learning.result import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from probpca.learning.factor.profile import Point, Profile
    from probpca.learning.settings import FactorSettings, Settings
    from probpca.typing import Array

TINY = float(np.finfo(float).tiny)


def newton(
    profile: Profile, matrix: Array, start: Array, settings: Settings, best: Point | None = None
) -> Iterated[Point]:
    """Maximise the profile likelihood from some noise variances by damped Newton steps; the trace never falls.

    ``matrix`` is the correlation matrix. Log noise variances stay between that of the floor and 0. The iteration ends
    when neither the Newton step nor the best step along the scaled gradient promises a gain of more than a share of
    ``settings.tol``. A step that would lower the likelihood is tried again with more damping (Levenberg 1944). An
    iteration that leads back to the maximum ``best``, or nowhere near its height, is given up, and has not converged.
    """
    how, half = settings.factor, 0.5 * profile.weight
    point, damping = profile.at(start), how.damping
    trace = [profile.log_likelihood(point)]
    while len(trace) <= settings.max_iter:
        model = QuadraticModel.at(point, matrix, how)
        step = model.step(damping, swap=True)
        promised = max(step.promised, model.promised_along_gradient)
        if settings.watch is not None:
            remaining = half * promised
            settings.watch(Progress(len(trace) - 1, trace[-1], remaining, settings.max_iter, settings.tol))
        if best is not None and _is_vain(point, step, promised, best, how):
            break
        enough = how.promise * settings.tol / half
        step, new = (step, None) if promised < enough else _descend(profile, point, model, step, enough)
        if new is None:
            return Iterated(point, Status.CONVERGED, tuple(trace))
        ratio = (point.value - new.value) / step.promised
        damping = max(step.damping * (0.2 if ratio > 0.7 else 1.0 if ratio > 0.25 else 4.0), 1e-6)
        point = new
        trace.append(profile.log_likelihood(point))
    return Iterated(point, Status.MAX_ITER, tuple(trace))


class Step(NamedTuple):
    """A step in the log noise variances, and the decrease of F that the quadratic model promises."""

    change: Array  # (d,)
    promised: float
    damping: float


def _is_vain(point: Point, step: Step, promised: float, best: Point, settings: FactorSettings) -> bool:
    """Whether an iteration below a known maximum returns to it, or can hardly reach its height."""
    if point.value <= best.value:
        return False
    distance = float(np.abs(point.log_noise + step.change - best.log_noise).max())
    returns = distance < settings.returning * min(float(np.abs(step.change).max()), 1.0)
    return returns or settings.hopeless * promised < point.value - best.value


def _descend(
    profile: Profile, point: Point, model: QuadraticModel, step: Step, enough: float
) -> tuple[Step, Point | None]:
    """Take the first step that does not raise F; no point if less than ``enough`` is promised, or rounding is all."""
    while max(step.promised, model.promised_along_gradient) >= enough and step.damping <= 1e8:
        new = profile.at(point.log_noise + step.change, point) if step.promised > 0 else None
        if new is not None and new.value <= point.value:
            return step, new
        step = model.step(max(8 * step.damping, 1e-2))
    return step, None


@final
@dataclass(frozen=True, slots=True, eq=False)
class QuadraticModel:
    r"""Gradient and Hessian of F at a point, within the box of allowed steps.

    With :math:`A = S^* - U T U^\top`, :math:`B = I - U U^\top`, and :math:`\circ` the product entry by entry,

    .. math::
        H = A \circ B + \sum_{k \le q < m} (u_k \circ u_m)(u_k \circ u_m)^\top (1 - t_m) \frac{t_k + t_m}{t_k - t_m}
        \approx A \circ B + U U^\top \circ (B - A) + 2 (U T^{-1} U^\top) \circ (A - A^2)

    The quotient is expanded in :math:`t_m / t_k`, so that only the q largest eigenpairs are needed, except for the next
    eigenpair, which may be near. If the sum is not positive definite, the expansion serves alone, and if that is not
    either, the first term, which is never negative.

    The sum is not positive definite between two maxima, one for each of the two factors q and q + 1. An iteration would
    stay there for long, because the gradient is small; a step along :math:`u_q \circ u_{q+1}` swaps the factors.
    """

    gradient: Array  # (d,)
    hessian: Array  # H: (d, d)
    expansion: Array  # H without the part of the next eigenpair: (d, d)
    outside: Array  # A, right only off the diagonal: (d, d)
    covered: Array  # U U', likewise: (d, d)
    ridge: Array  # diagonal of A o B, which damping multiplies: (d,)
    swapping: Array  # u_q o u_{q+1}: (d,)
    free: npt.NDArray[np.bool_]  # whether a feature may move: not at a side of the box that it would leave: (d,)
    lower: Array  # smallest and largest allowed steps: (d,)
    upper: Array
    settings: FactorSettings

    @classmethod
    def at(cls, point: Point, matrix: Array, settings: FactorSettings) -> QuadraticModel:
        """Model at a point of the profile likelihood, from the correlation matrix."""
        x, U, t, least = point.log_noise, point.axes, point.values, float(np.log(settings.floor))
        root, gradient, convex = np.exp(-x / 2), point.gradient, point.outside * point.uncovered
        covered = U @ U.T
        A = matrix * root
        A *= root[:, None]
        A -= (U * t) @ U.T
        expansion = -covered * (2 * A + covered)
        _diagonal(expansion)[:] = convex + (1 - point.uncovered) * gradient
        second = x.size <= settings.second_order
        if second:
            expansion += 2 * ((U / t) @ U.T) * (A - A.T @ A)
        pairs, ratio = U * point.next_axis[:, None], point.next_value / t
        rest = 2 * (1 - point.next_value) * (ratio * ratio if second else ratio) / np.maximum(1 - ratio, 1e-9)
        hessian = expansion + (pairs * rest) @ pairs.T
        swapping = pairs[:, -1] if t.size else np.zeros(x.size)
        free = ~((x <= least) & (gradient > 0) | (x >= 0) & (gradient < 0))
        ridge = np.maximum(convex, 1e-10)
        return cls(gradient, hessian, expansion, A, covered, ridge, swapping, free, least - x, -x, settings)

    @property
    def convex(self) -> Array:
        """First term of H, A o B: (d, d)."""
        out = -self.outside * self.covered
        _diagonal(out)[:] = self.ridge
        return out

    @property
    def promised_along_gradient(self) -> float:
        """Decrease of F that the model promises at its minimum along the gradient, scaled by the diagonal."""
        along = np.where(self.free, self.gradient / self.ridge, 0.0)
        slope, curvature = float(self.gradient @ along), float(along @ self.hessian @ along)
        if curvature <= 0:
            curvature = max(float(along @ self.convex @ along), 1e-10 * slope)
        return 0.5 * slope * (slope / curvature) if slope > 0 else 0.0

    def step(self, damping: float, *, swap: bool = False) -> Step:
        """Newton step with some damping, cut to the box and to the largest step; ``swap`` allows to swap factors."""
        ridge = damping * self.ridge + 1e-10
        for hessian in self._forms():
            change = self._minimiser(hessian, ridge)
            if change is not None:
                break
        else:  # rounding
            change = np.where(self.free, -self.gradient / (self.ridge * (1 + damping)), 0.0)
        step = self._cut(change, hessian, damping)
        if not swap or hessian is self.hessian:
            return step
        other = self._cut(step.change + self._swap(), self.hessian, damping)
        return other if other.promised > self.settings.stuck * step.promised else step

    def _forms(self) -> Iterator[Array]:
        """Yield the Hessian, and what takes its place where it is not positive definite."""
        yield self.hessian
        yield self.expansion
        yield self.convex

    def _swap(self) -> Array:
        """A step downhill that swaps the last factor and the next one: (d,)."""
        change = np.where(self.free, self.swapping / self.ridge, 0.0)
        largest = max(float(np.abs(change).max()), TINY)
        return change * (-np.copysign(self.settings.swap, change @ self.gradient) / largest)

    def _cut(self, change: Array, hessian: Array, damping: float) -> Step:
        """Cut a step to the box and to the largest step."""
        change = np.minimum(np.maximum(change, self.lower), self.upper)
        change *= min(1.0, self.settings.farthest / max(float(np.abs(change).max()), TINY))
        return Step(change, -float(self.gradient @ change + 0.5 * change @ hessian @ change), damping)

    def _minimiser(self, hessian: Array, ridge: Array) -> Array | None:
        """Minimum of the model in the box, near enough: what leaves it is held at its side. None if H is indefinite."""
        change, free = np.zeros(self.gradient.size), self.free.copy()
        while free.any():
            every = bool(free.all())
            part = hessian.copy() if every else hessian[np.ix_(free, free)]
            _diagonal(part)[:] += ridge if every else ridge[free]
            root, failed = dpotrf(part.T, lower=1, clean=0, overwrite_a=1)
            if failed:
                return None
            held = 0.0 if every else hessian[np.ix_(free, ~free)] @ change[~free]
            change[free] = dpotrs(root, -(self.gradient[free] + held), lower=1)[0]
            outside = free & ((change < self.lower) | (change > self.upper))
            if not outside.any():
                break
            np.clip(change, self.lower, self.upper, out=change)
            free &= ~outside
        return change


def _diagonal(matrix: Array) -> Array:
    """Writable view of the diagonal of a square matrix: (d,)."""
    return np.einsum("jj->j", matrix)
