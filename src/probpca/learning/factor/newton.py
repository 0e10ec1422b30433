"""Newton's method for factor analysis: damped steps in the log noise variances, from the correlation matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from probpca.learning.loop import Iterated, Progress
from probpca.learning.result import Status

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.learning.factor.profile import Point, Profile
    from probpca.learning.settings import FactorSettings, Settings
    from probpca.typing import Array


def newton(profile: Profile, matrix: Array, start: Array, settings: Settings) -> Iterated[Point]:
    """Maximise the profile likelihood from some noise variances by damped Newton steps; the trace never falls.

    ``matrix`` is the correlation matrix. Log noise variances stay between that of the floor and 0. The iteration ends
    when neither the Newton step nor the best step along the scaled gradient promises a gain of more than a share of
    ``settings.tol``. A step that would lower the likelihood is tried again with more damping (Levenberg 1944).
    """
    how, half = settings.factor, 0.5 * profile.weight
    point, damping = profile.at(start), how.damping
    trace = [profile.log_likelihood(point)]
    while len(trace) <= settings.max_iter:
        model = QuadraticModel.at(point, matrix, how)
        step, new = _descend(profile, point, model, damping, how.promise * settings.tol / half)
        if settings.watch is not None:
            remaining = half * max(step.promised, model.promised_along_gradient)
            settings.watch(Progress(len(trace) - 1, trace[-1], remaining, settings.max_iter, settings.tol))
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


def _descend(
    profile: Profile, point: Point, model: QuadraticModel, damping: float, enough: float
) -> tuple[Step, Point | None]:
    """Take the first step that does not raise F; no point if less than ``enough`` is promised, or rounding is all."""
    while True:
        step = model.step(damping)
        if max(step.promised, model.promised_along_gradient) < enough or damping > 1e8:
            return step, None
        new = profile.at(point.log_noise + step.change, point) if step.promised > 0 else None
        if new is not None and new.value <= point.value:
            return step, new
        damping = max(8 * damping, 1e-2)


@final
@dataclass(frozen=True, slots=True, eq=False)
class QuadraticModel:
    r"""Gradient and Hessian of F at a point, within the box of allowed steps.

    With :math:`A = S^* - U T U^\top`, :math:`B = I - U U^\top`, and :math:`\circ` the product entry by entry,

    .. math::
        H = A \circ B + \sum_{k \le q < m} (u_k \circ u_m)(u_k \circ u_m)^\top (1 - t_m) \frac{t_k + t_m}{t_k - t_m}
        \approx A \circ B + U U^\top \circ (B - A) + 2 (U T^{-1} U^\top) \circ (A - A^2)

    The quotient is expanded in :math:`t_m / t_k`, so that only the q largest eigenpairs are needed. The first term is
    never negative, and serves alone where the sum of all is not positive definite.
    """

    gradient: Array  # (d,)
    hessian: Array  # H: (d, d)
    convex: Array  # A o B: (d, d)
    free: npt.NDArray[np.bool_]  # whether a feature may move: not at a side of the box that it would leave: (d,)
    lower: Array  # smallest and largest allowed steps: (d,)
    upper: Array
    farthest: float  # largest step

    @classmethod
    def at(cls, point: Point, matrix: Array, settings: FactorSettings) -> QuadraticModel:
        """Model at a point of the profile likelihood, from the correlation matrix."""
        x, U, least = point.log_noise, point.axes, float(np.log(settings.floor))
        root, gradient = np.exp(-x / 2), point.gradient
        covered = U @ U.T
        A = matrix * root
        A *= root[:, None]
        A -= (U * point.values) @ U.T
        convex = A * -covered
        _diagonal(convex)[:] = point.outside * point.uncovered
        hessian = convex - covered * (A + covered)
        _diagonal(hessian)[:] += np.diagonal(covered)
        if x.size <= settings.second_order:
            hessian += 2 * ((U / point.values) @ U.T) * (A - A @ A)
        free = ~((x <= least) & (gradient > 0) | (x >= 0) & (gradient < 0))
        return cls(gradient, hessian, convex, free, least - x, -x, settings.farthest)

    @property
    def ridge(self) -> Array:
        """Diagonal that damping multiplies: (d,)."""
        return np.maximum(np.diagonal(self.convex), 1e-10)

    @property
    def promised_along_gradient(self) -> float:
        """Decrease of F that the model promises at its minimum along the gradient, scaled by the diagonal."""
        along = np.where(self.free, self.gradient / self.ridge, 0.0)
        slope, curvature = float(self.gradient @ along), float(along @ self.hessian @ along)
        if curvature <= 0:
            curvature = max(float(along @ self.convex @ along), 1e-10 * slope)
        return 0.5 * slope * (slope / curvature) if slope > 0 else 0.0

    def step(self, damping: float) -> Step:
        """Newton step with some damping, cut to the box and to the largest step."""
        ridge = np.diag(damping * self.ridge + 1e-10)
        hessian, change = self.hessian, self._minimiser(self.hessian + ridge)
        if change is None:
            hessian, change = self.convex, self._minimiser(self.convex + ridge)
        if change is None:  # rounding
            change = np.where(self.free, -self.gradient / (self.ridge * (1 + damping)), 0.0)
            change = np.clip(change, self.lower, self.upper)
        change *= min(1.0, self.farthest / max(float(np.abs(change).max()), np.finfo(float).tiny))
        return Step(change, -float(self.gradient @ change + 0.5 * change @ hessian @ change), damping)

    def _minimiser(self, hessian: Array) -> Array | None:
        """Minimum of the model in the box, near enough: what leaves it is held at its side. None if H is indefinite."""
        change, free = np.zeros(self.gradient.size), self.free.copy()
        while free.any():
            every = bool(free.all())
            root, failed = dpotrf(hessian if every else hessian[np.ix_(free, free)], lower=1, clean=0)
            if failed:
                return None
            held = 0.0 if every else hessian[np.ix_(free, ~free)] @ change[~free]
            change[free] = dpotrs(root, -(self.gradient[free] + held), lower=1)[0]
            outside = free & ((change < self.lower) | (change > self.upper))
            np.clip(change, self.lower, self.upper, out=change)
            if not outside.any():
                break
            free &= ~outside
        return change


def _diagonal(matrix: Array) -> Array:
    """Writable view of the diagonal of a square matrix: (d,)."""
    return np.einsum("jj->j", matrix)
