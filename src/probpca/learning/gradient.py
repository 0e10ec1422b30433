"""Type-II maximum likelihood by its gradient, and L-BFGS on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.optimize import minimize

from probpca.errors import ShapeError
from probpca.learning.expectation import expect
from probpca.learning.loop import Iterated
from probpca.learning.results import Status
from probpca.models import LinearGaussian
from probpca.sources import open_source

if TYPE_CHECKING:
    from probpca.learning.loop import Monitor
    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array


class Gradient(NamedTuple):
    """Derivatives of the total log-likelihood."""

    mean: Array  # (d,)
    loadings: Array  # (d, q)
    log_noise_variance: float


def value_and_gradient(model: LinearGaussian, source: Source) -> tuple[float, Gradient]:
    """Total log-likelihood of the rows and its gradient in mu, W and log s2, in one pass."""
    if model.noise_variance.ndim:
        msg = "the gradient is that of one noise variance; this model has one per feature."
        raise ShapeError(msg)
    sums = open_source(source).fold(partial(expect, model))
    return sums.log_likelihood, gradient_of(model, sums)


def gradient_of(model: LinearGaussian, sums: Regression) -> Gradient:
    r"""The gradient from the sums of an E-step (Fisher's identity).

    .. math::
        \frac{\partial \mathcal L}{\partial W} = \tfrac{1}{\sigma^2}\Big[\sum r m^\top - W \sum P\Big],\quad
        \frac{\partial \mathcal L}{\partial \mu} = \tfrac{1}{\sigma^2} \sum r,\quad
        \frac{\partial \mathcal L}{\partial \log \sigma^2}
        = \tfrac{1}{2 \sigma^2} \sum \big(\|r\|^2 + \operatorname{tr} W P W^\top\big) - \tfrac{nd}{2}

    Equal to :math:`n (C^{-1} S C^{-1} - C^{-1}) W` and its companions, without a d x d matrix.
    """
    W, sigma2 = model.loadings, float(model.noise_variance)
    doubt = W @ sums.latent_covariance  # (d, q)
    spread = sums.residual_squares.sum() + (doubt * W).sum()
    return Gradient(
        sums.residual / sigma2,
        (sums.residual_products - doubt) / sigma2,
        float(0.5 * (spread / sigma2 - sums.weight * model.n_features)),
    )


@final
@dataclass(frozen=True, slots=True)
class _Coordinates:
    """Parameters as one vector of numbers near 1: W and mu in units of the data, log s2."""

    mean: Array
    unit: float
    q: int

    def pack(self, model: LinearGaussian) -> Array:
        log_noise = np.log(model.noise_variance / self.unit**2)
        shift = (model.mean - self.mean) / self.unit
        return np.concatenate([model.loadings.ravel() / self.unit, shift, [log_noise]])

    def unpack(self, vector: Array) -> LinearGaussian:
        d = self.mean.size
        loadings = vector[: d * self.q].reshape(d, self.q) * self.unit
        shift = vector[d * self.q : -1] * self.unit
        return LinearGaussian(self.mean + shift, loadings, np.exp(vector[-1]) * self.unit**2)

    def pack_gradient(self, gradient: Gradient) -> Array:
        noise = np.array([gradient.log_noise_variance])
        return np.concatenate([gradient.loadings.ravel() * self.unit, gradient.mean * self.unit, noise])


def ascend(source: Source, start: LinearGaussian, floor: float, monitor: Monitor) -> Iterated[LinearGaussian]:
    """Maximise the log-likelihood by L-BFGS from ``start``; s2 stays above ``floor``."""
    unit = float(np.sqrt(start.covariance.trace() / start.n_features))
    coordinates = _Coordinates(start.mean, unit, start.n_components)
    sums = source.fold(partial(expect, start))
    weight = sums.weight
    monitor.record(sums.log_likelihood)

    def objective(vector: Array) -> tuple[float, Array]:
        value, gradient = value_and_gradient(coordinates.unpack(vector), source)
        return -value / weight, -coordinates.pack_gradient(gradient) / weight

    def after_step(intermediate_result: object) -> None:
        if monitor.record(-weight * intermediate_result.fun):  # type: ignore[attr-defined]
            raise StopIteration

    vector = coordinates.pack(start)
    bounds = [(None, None)] * (vector.size - 1) + [(float(np.log(floor / unit**2)), None)]
    options = {"maxiter": monitor.max_iter, "maxfun": 20 * monitor.max_iter, "maxcor": 20, "ftol": 0.0, "gtol": 1e-12}
    found = minimize(
        objective, vector, jac=True, method="L-BFGS-B", bounds=bounds, callback=after_step, options=options
    )
    # At the limit of precision a line search may find nothing, which is no failure.
    arrived = monitor.stopped or found.success or monitor.remaining() < max(monitor.tol, 1e-9)
    status = Status.CONVERGED if arrived else Status.MAX_ITER
    return Iterated(coordinates.unpack(found.x), status, tuple(monitor.trace))
