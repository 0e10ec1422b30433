"""Gradient of the log-likelihood, and maximum likelihood by L-BFGS."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize

from probpca.learning.em.e_step import expect
from probpca.learning.loop import Coordinates, Iterated
from probpca.learning.result import Status
from probpca.sources import open_source

if TYPE_CHECKING:
    from probpca.learning.loop import Monitor
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.statistics import Regression
    from probpca.typing import Array


class Gradient(NamedTuple):
    """Derivatives of the total log-likelihood with respect to the parameters of a model.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        Derivative with respect to the mean mu.
    loadings : ndarray of shape (d, q)
        Derivative with respect to the loadings W.
    log_noise_variance : ndarray of shape () or (d,)
        Derivative with respect to the logarithm of the noise variance, or of that of each feature.
    """

    mean: Array
    loadings: Array
    log_noise_variance: Array


def value_and_gradient(model: LinearGaussian, source: Source) -> tuple[float, Gradient]:
    """Total log-likelihood of the rows of a source, and its gradient, in one pass.

    The gradient is with respect to mu, W and the logarithm of the noise variance, and takes missing cells into
    account.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning import fit_ppca, value_and_gradient
    >>> from probpca.sources import open_source
    >>> X = load_iris().data
    >>> value, gradient = value_and_gradient(fit_ppca(X, 2).model, open_source(X))
    >>> round(value, 2), bool(np.abs(gradient.loadings).max() < 1e-6)
    (-404.96, True)
    """
    sums = open_source(source).fold(partial(expect, model))
    return sums.log_likelihood, gradient_of(model, sums)


def gradient_of(model: LinearGaussian, sums: Regression) -> Gradient:
    r"""Gradient of the log-likelihood from the statistics of an E-step, by Fisher's identity.

    .. math::
        \frac{\partial \mathcal L}{\partial w_j} = \tfrac{1}{\psi_j} \sum_{i \in R_j} (r_{ij} m_i - P_i w_j),\quad
        \frac{\partial \mathcal L}{\partial \mu_j} = \tfrac{1}{\psi_j} \sum_{i \in R_j} r_{ij},\quad
        \frac{\partial \mathcal L}{\partial \log \psi_j}
        = \tfrac{1}{2 \psi_j} \sum_{i \in R_j} \big(r_{ij}^2 + w_j^\top P_i w_j\big) - \tfrac{N_j}{2}

    with sums over the :math:`N_j` rows :math:`R_j` in which feature j was observed. The last one is summed over the
    features if they share one noise variance. For complete rows the first is
    :math:`n (C^{-1} S C^{-1} - C^{-1}) W`, computed without a d x d matrix.
    """
    psi = model.noise_variance
    score = sums.score / psi
    if psi.ndim:
        log_noise = 0.5 * (sums.squares / psi - sums.counts)
    else:  # one difference of totals: those of the features would each be rounded
        log_noise = np.asarray(0.5 * (sums.squares.sum() / psi - sums.cells))
    return Gradient(score[-1], score[:-1].T, log_noise)


def ascend(
    source: Source, start: LinearGaussian, floor: float | Array, monitor: Monitor, largest: float = 10.0
) -> Iterated[LinearGaussian]:
    """Maximise the log-likelihood by L-BFGS from ``start``.

    The noise variance stays above ``floor``, and its logarithm within ``largest`` of that of the mean variance at
    the start.
    """
    coordinates = Coordinates.around(start, floor)
    sums = source.fold(partial(expect, start))
    weight = sums.weight
    monitor.record(sums.log_likelihood)

    def objective(vector: Array) -> tuple[float, Array]:
        value, gradient = value_and_gradient(coordinates.restore(vector), source)
        return -value / weight, -coordinates.flatten_gradient(*gradient) / weight

    def after_step(intermediate_result: object) -> None:
        if monitor.record(-weight * intermediate_result.fun):  # type: ignore[attr-defined]
            raise StopIteration

    vector = coordinates.flatten(start)
    lowest = coordinates.log_noise(floor)
    bounds = [(None, None)] * (vector.size - lowest.size) + [(low, largest) for low in lowest.tolist()]
    options = {"maxiter": monitor.max_iter, "maxfun": 20 * monitor.max_iter, "maxcor": 20, "ftol": 0.0, "gtol": 1e-12}
    found = minimize(
        objective, vector, jac=True, method="L-BFGS-B", bounds=bounds, callback=after_step, options=options
    )
    # Status 2: the line search found no better point, which is not a failure at the limit of precision.
    gain = monitor.trace[-1] - monitor.trace[-2] if len(monitor.trace) > 1 else np.inf
    stuck = found.status == 2 and gain < 1e-12 * abs(monitor.trace[-1])
    arrived = monitor.stopped or found.success or stuck or monitor.remaining() < max(monitor.tol, 1e-9)
    status = Status.CONVERGED if arrived else Status.MAX_ITER
    return Iterated(coordinates.restore(found.x), status, tuple(monitor.trace))
