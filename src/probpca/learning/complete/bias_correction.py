"""Eigenvalues and noise of tables with about as many columns as rows, freed of their bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.learning.result import FitResult, Status
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array


class Unbiased(NamedTuple):
    """Variances beyond the noise, and the noise."""

    spikes: Array  # a: (q,)
    noise: float  # sigma2


def unbiased(
    values: Array, noise: float, n: float, d: int, *, max_iter: int = 200, largest_share: float = 0.5
) -> Unbiased:
    r"""Undo what d / n does to the leading eigenvalues of a sample covariance, and to the noise that is left.

    With c = d / (n - 1), a sample eigenvalue and the maximum-likelihood noise variance tend to

    .. math::
        \ell_i \to (a_i + \sigma^2) \Big(1 + \frac{c \sigma^2}{a_i}\Big), \qquad
        E[\hat\sigma^2] = \sigma^2 \Big[1 - \frac{c}{d - q} \Big(q + \sigma^2 \sum_i \frac{1}{a_i}\Big)\Big]

    which are solved for a and the noise in turn. A component whose eigenvalue lies within those of noise, below
    :math:`\sigma^2 (1 + \sqrt c)^2`, has no solution: its a is set to the smallest that can be detected,
    :math:`\sigma^2 \sqrt c`. The components took at most ``largest_share`` of the noise variance.
    Passemier, Li & Yao (2017), "On estimation of the noise variance in high dimensional probabilistic principal
    component analysis".
    """
    q, rows = values.size, max(n - 1, 1.0)
    c, exact = d / rows, n / rows  # a mean was estimated: deviations from it are worth n - 1 rows
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
    """The larger root of a^2 - t a + c s2^2, with t = l - s2 (1 + c); where there is none, s2 sqrt c."""
    least = noise * np.sqrt(c)
    t = values - noise * (1 + c)
    detected = t > 2 * least
    root = np.sqrt(np.where(detected, t**2 - 4 * least**2, 0.0))
    return np.where(detected, (t + root) / 2, least)


def without_bias(result: FitResult) -> FitResult:
    """A fit to complete rows with eigenvalues and noise freed of their bias; its log-likelihood is lower."""
    if result.status is Status.NOISE_COLLAPSED:
        return result
    model, n = result.model, result.weight
    W, noise, d = model.loadings, float(model.noise_variance), model.n_features
    squares = np.square(W).sum(axis=0)  # principal axes: its columns are orthogonal
    found = unbiased(squares + noise, noise, n, d)
    size = np.sqrt(np.divide(found.spikes, squares, out=np.zeros_like(squares), where=squares > 0))
    variances = found.spikes + found.noise
    rest = d - squares.size
    # Along the axes the rows have the variances that were there before, and beside them the noise that was there.
    distance = ((squares + noise) / variances).sum() + rest * noise / found.noise
    logdet = np.log(variances).sum() + rest * np.log(found.noise)
    value = float(-0.5 * n * (d * LOG_2PI + logdet + distance))
    kept = LinearGaussian(model.mean, W * size, np.asarray(found.noise))
    return result._replace(model=kept, log_likelihood=value, trace=(*result.trace[:-1], value))
