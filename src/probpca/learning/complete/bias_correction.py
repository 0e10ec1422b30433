"""Bias correction of eigenvalues and noise variance for tables with about as many columns as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.learning.result import FitResult, Status
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array


class Unbiased(NamedTuple):
    """Bias-corrected variances of the signal and of the noise."""

    spikes: Array  # variances a of the signal, in excess of the noise: (q,)
    noise: float  # noise variance sigma2


def unbiased(
    values: Array, noise: float, n: float, d: int, *, max_iter: int = 200, largest_share: float = 0.5
) -> Unbiased:
    r"""Correct the leading eigenvalues of a sample covariance, and the noise variance, for their bias at large d / n.

    With c = d / (n - 1), sample eigenvalues converge to the first expression, and the maximum-likelihood noise
    variance has the expected value

    .. math::
        \ell_i \to (a_i + \sigma^2) \Big(1 + \frac{c \sigma^2}{a_i}\Big), \qquad
        E[\hat\sigma^2] = \sigma^2 \Big[1 - \frac{c}{d - q} \Big(q + \sigma^2 \sum_i \frac{1}{a_i}\Big)\Big]

    which are solved alternately for a and the noise. A component whose eigenvalue is within the range of noise, below
    :math:`\sigma^2 (1 + \sqrt c)^2`, has no solution: its a is set to the smallest detectable value,
    :math:`\sigma^2 \sqrt c`. The correction of the noise variance is limited to the share ``largest_share``.
    Passemier, Li & Yao (2017), "On estimation of the noise variance in high dimensional probabilistic principal
    component analysis".
    """
    q, rows = values.size, max(n - 1, 1.0)
    c, exact = d / rows, n / rows  # the mean was estimated, which leaves n - 1 degrees of freedom
    values, least = exact * values, exact * noise
    found = Unbiased(values - least, least)
    for _ in range(max_iter):
        spikes = _spikes(values, found.noise, c)
        share = c * (q + found.noise * float((1 / spikes).sum())) / (d - q)
        noise = least / (1 - min(share, largest_share))
        done = abs(noise - found.noise) <= 1e-14 * noise
        found = Unbiased(spikes, noise)
        if done:
            break
    return found


def _spikes(values: Array, noise: float, c: float) -> Array:
    """Larger root of a^2 - t a + c s2^2 with t = l - s2 (1 + c), or s2 sqrt(c) if there is none."""
    least = noise * np.sqrt(c)
    t = values - noise * (1 + c)
    detected = t > 2 * least
    root = np.sqrt(np.where(detected, t**2 - 4 * least**2, 0.0))
    return np.where(detected, (t + root) / 2, least)


def without_bias(result: FitResult) -> FitResult:
    """Correct eigenvalues and noise of a fit to complete rows for their bias; the log-likelihood becomes lower."""
    if result.status in (Status.NOISE_COLLAPSED, Status.LOW_RANK):
        return result
    model, n = result.model, result.weight
    W, noise, d = model.loadings, float(model.noise_variance), model.n_features
    squares = np.square(W).sum(axis=0)  # the columns of W are orthogonal
    found = unbiased(squares + noise, noise, n, d)
    size = np.sqrt(np.divide(found.spikes, squares, out=np.zeros_like(squares), where=squares > 0))
    variances = found.spikes + found.noise
    rest = d - squares.size
    # The log-likelihood of the rows under the corrected model follows from their variances along and off the axes.
    distance = ((squares + noise) / variances).sum() + rest * noise / found.noise
    logdet = np.log(variances).sum() + rest * np.log(found.noise)
    value = float(-0.5 * n * (d * LOG_2PI + logdet + distance))
    kept = LinearGaussian(model.mean, W * size, np.asarray(found.noise))
    return result._replace(model=kept, log_likelihood=value, trace=(*result.trace[:-1], value))
