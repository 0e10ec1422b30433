"""From eigenpairs of the sample covariance to the maximum-likelihood model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.linalg.rotations import fix_signs
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array

EPS = float(np.finfo(np.float64).eps)
SINGLE_EPS = 6e-8
"""Rounding error of float32."""
NOISE_FLOOR = 1e-12
"""Noise variance, as a share of the mean variance, of a model that explains the data completely."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The largest eigenpairs of S, and the energy outside their span."""

    weight: float  # n
    count: int  # rows with a positive weight
    mean: Array  # xbar: (d,)
    values: Array  # l_1 >= ... >= l_k: (k,)
    axes: Array  # orthonormal: (d, k)
    tail: float  # tr S - sum of values, computed without cancellation where that matters
    resolution: float  # eigenvalues up to here are indistinguishable from zero
    n_products: int = 0  # products with a block of vectors that an iterative method needed
    certified: bool = True  # did it reach what was asked of it?

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.axes.shape[0])

    @property
    def total(self) -> float:
        """Total variance, the trace of S."""
        return float(self.values.sum() + self.tail)

    def residual(self, q: int) -> float:
        """Energy outside the first q axes: a sum of numbers that are not negative."""
        return float(np.maximum(self.values[q:], 0.0).sum() + max(self.tail, 0.0))


def resolution_of_squares(values: Array) -> float:
    """Smallest eigenvalue that a matrix of squares can tell from zero."""
    return 64 * EPS * float(values[0])


def resolution_of_rows(total: float, mean: Array) -> float:
    """Smallest eigenvalue that a decomposition of the rows themselves can tell from zero."""
    return (32 * EPS) ** 2 * (total + float(mean @ mean))


class Noise(NamedTuple):
    """The noise variance of the best model with q components."""

    variance: float
    collapsed: bool


def noise_of(spectrum: Spectrum, q: int) -> Noise:
    """Mean of the d - q smallest eigenvalues; every solver that ends in a spectrum ends here."""
    d = spectrum.n_features
    variance = spectrum.residual(q) / (d - q)
    if variance > spectrum.resolution:
        return Noise(variance, collapsed=False)
    return Noise(NOISE_FLOOR * spectrum.total / d, collapsed=True)


def model_of(spectrum: Spectrum, q: int) -> LinearGaussian:
    r"""The maximum-likelihood model with q components.

    .. math:: W = U_q (\Lambda_q - \sigma^2 I)^{1/2}, \qquad \sigma^2 = \frac{1}{d-q} \sum_{j>q} \lambda_j

    Tipping & Bishop (1999), with the rotation that makes the columns of W principal axes.
    """
    sigma2 = noise_of(spectrum, q).variance
    scale = np.sqrt(np.maximum(spectrum.values[:q] - sigma2, 0.0))
    return LinearGaussian(spectrum.mean, fix_signs(spectrum.axes[:, :q]) * scale, np.asarray(sigma2))


def log_likelihood_of(spectrum: Spectrum, q: int) -> float:
    r"""Total log-likelihood of ``model_of(spectrum, q)``, from the eigenvalues alone.

    .. math::
        -\tfrac n2 \Big[ d \log 2\pi + \sum_{j \le q} \log \lambda_j + (d - q) \log \sigma^2 + q
        + \tfrac{1}{\sigma^2} \sum_{j>q} \lambda_j \Big]
    """
    d, n = spectrum.n_features, spectrum.weight
    sigma2 = noise_of(spectrum, q).variance
    seen = np.maximum(spectrum.values[:q], 0.0)
    explained = np.maximum(seen, sigma2)
    logdet = np.log(explained).sum() + (d - q) * np.log(sigma2)
    distance = (seen / explained).sum() + spectrum.residual(q) / sigma2
    return float(-0.5 * n * (d * LOG_2PI + logdet + distance))


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """A stopping test for ``block_krylov``: would exact eigenpairs bring less than ``tol`` nats?"""

    n: float  # rows
    d: int  # features
    k: int  # components
    total: float  # tr S
    tol: float  # nats, over all rows

    def __call__(self, values: Array, residuals: Array) -> bool:
        """Is what is missing below ``tol``, or hidden by rounding?"""
        rounding = 16 * np.finfo(float).eps * values[0]
        return self.missing(values, residuals) < self.tol or bool((residuals[: self.k] < rounding).all())

    def missing(self, values: Array, residuals: Array) -> float:
        r"""Upper estimate of the gain in log-likelihood that exact eigenpairs would bring.

        An eigenvalue is above its Ritz value by at most :math:`\|r_j\|^2 / \mathrm{gap}_j`
        (Kato-Temple), and by at most :math:`\|r_j\|`; the log-likelihood rises by
        :math:`\tfrac n2 (1/\sigma^2 - 1/\theta_j)` for each unit. ``values`` and ``residuals``
        hold k + 1 pairs: the last one says where the rest of the spectrum begins. A Ritz value below
        the noise says that its axis is yet to be found, and is charged in full.
        """
        theta, r = values[: self.k], residuals[: self.k]
        eps, tiny = np.finfo(float).eps, np.finfo(float).tiny
        noise = max((self.total - theta.sum()) / (self.d - self.k), eps * theta[0])
        gap = np.maximum(theta - values[self.k], tiny)
        shortfall = np.minimum(r, r * (r / gap))
        slope = 1 / noise - np.where(theta > noise, 1 / np.maximum(theta, noise), 0.0)
        return float(0.5 * self.n * (slope @ shortfall))

    def loss_from_values(self, values: Array, error: float) -> float:
        r"""Upper estimate of what errors of this size in every eigenvalue cost, the axes being right.

        The log-likelihood is at its maximum in the eigenvalues and in the noise variance that follows
        from them, so that it falls with the square of their relative errors, by n/4 for each dimension.
        """
        theta, rest = values[: self.k], self.d - self.k
        noise = max((self.total - theta.sum()) / rest, np.finfo(float).tiny)
        relative = error / np.append(theta, noise * rest / self.k)
        return float(0.25 * self.n * (relative**2 @ np.append(np.ones(self.k), rest)))
