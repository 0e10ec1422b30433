"""Eigenpairs of the sample covariance, and the maximum-likelihood model they determine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.linalg.packed import unpack
from probpca.linalg.rotations import fix_signs
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.statistics import Regression
    from probpca.typing import Array

EPS = float(np.finfo(np.float64).eps)
SINGLE_EPS = 6e-8
"""Rounding error of float32."""
NOISE_FLOOR = 1e-12
"""Noise variance, relative to the mean variance, that is assigned if the components explain the data completely."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Largest eigenpairs of the sample covariance S, and the variance outside their span."""

    weight: float  # total weight n of the rows
    count: int  # number of rows with positive weight; 0 if unknown
    mean: Array  # mean of the rows: (d,)
    values: Array  # eigenvalues l_1 >= ... >= l_k: (k,)
    axes: Array  # orthonormal eigenvectors: (d, k)
    tail: float  # variance outside the axes, tr S - sum of values, without cancellation if it matters
    resolution: float  # eigenvalues up to this size are indistinguishable from zero
    n_products: int = 0  # number of products with a block of vectors by an iterative method
    certified: bool = True  # whether the requested accuracy was reached

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.axes.shape[0])

    @property
    def total(self) -> float:
        """Total variance, the trace of S."""
        return float(self.values.sum() + self.tail)

    def residual(self, q: int) -> float:
        """Variance outside the first q axes, as a sum of non-negative terms."""
        return float(np.maximum(self.values[q:], 0.0).sum() + max(self.tail, 0.0))


def resolution_of_squares(values: Array) -> float:
    """Smallest eigenvalue that can be distinguished from zero in a matrix of squares."""
    return 64 * EPS * float(values[0])


def resolution_of_rows(total: float, mean: Array, *, varies: npt.NDArray[np.bool_] | bool = True) -> float:
    """Smallest eigenvalue that can be distinguished from zero in a decomposition of the rows themselves.

    Values are rounded in proportion to their size, except those of columns that do not vary: (d,).
    """
    offset = np.where(varies, mean, 0.0)
    return (32 * EPS) ** 2 * (total + float(offset @ offset))


class Noise(NamedTuple):
    """Noise variance of the maximum-likelihood model with q components."""

    variance: float
    collapsed: bool  # whether the components explain the data completely


def noise_of(spectrum: Spectrum, q: int) -> Noise:
    """Maximum-likelihood noise variance with q components: the mean of the d - q smallest eigenvalues."""
    d = spectrum.n_features
    variance = spectrum.residual(q) / (d - q)
    if variance > spectrum.resolution:
        return Noise(variance, collapsed=False)
    return Noise(NOISE_FLOOR * spectrum.total / d, collapsed=True)


def model_of(spectrum: Spectrum, q: int) -> LinearGaussian:
    r"""Maximum-likelihood model with q components.

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


def spectrum_of_span(
    model: LinearGaussian, sums: Regression, *, varies: npt.NDArray[np.bool_] | bool = True
) -> Spectrum:
    """Rayleigh-Ritz approximation within the span of W, from the statistics of least-squares latent variables.

    ``varies`` tells which columns are not constant: (d,).
    """
    latent, n = unpack(sums.latent) / sums.weight, sums.weight
    mean, left = latent[-1, :-1], sums.score[-1] / n  # mean latent variables, and mean residual
    basis, root = np.linalg.qr(model.loadings)
    values, rotation = np.linalg.eigh(root @ (latent[:-1, :-1] - np.outer(mean, mean)) @ root.T)
    values = np.maximum(values[::-1], 0.0)
    tail = max(float(sums.squares.sum()) / n - float(left @ left), 0.0)
    centre = model.mean + model.loadings @ mean + left
    resolution = resolution_of_rows(float(values.sum()) + tail, centre, varies=varies)
    return Spectrum(n, 0, centre, values, basis @ rotation[:, ::-1], tail, resolution)


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """Stopping test for ``block_krylov``: whether exact eigenpairs would gain less than ``tol`` in log-likelihood."""

    n: float  # total weight of the rows
    d: int  # number of features
    k: int  # number of components
    total: float  # total variance tr S
    tol: float  # in nats, over all rows

    def __call__(self, values: Array, residuals: Array) -> bool:
        """Whether the possible gain is below ``tol``, or below rounding error."""
        rounding = 16 * np.finfo(float).eps * values[0]
        return self.missing(values, residuals) < self.tol or bool((residuals[: self.k] < rounding).all())

    def missing(self, values: Array, residuals: Array) -> float:
        r"""Upper bound on the gain in log-likelihood that exact eigenpairs would bring.

        An eigenvalue exceeds its Ritz value by at most :math:`\|r_j\|^2 / \mathrm{gap}_j` (Kato-Temple), and by at
        most :math:`\|r_j\|`; the log-likelihood rises by :math:`\tfrac n2 (1/\sigma^2 - 1/\theta_j)` per unit.
        ``values`` and ``residuals`` hold k + 1 pairs, the last of which shows where the rest of the spectrum begins.
        A Ritz value below the noise means that its axis has not been found yet, and counts in full.
        """
        theta, r = values[: self.k], residuals[: self.k]
        eps, tiny = np.finfo(float).eps, np.finfo(float).tiny
        noise = max((self.total - theta.sum()) / (self.d - self.k), eps * theta[0])
        gap = np.maximum(theta - values[self.k], tiny)
        shortfall = np.minimum(r, r * (r / gap))
        slope = 1 / noise - np.where(theta > noise, 1 / np.maximum(theta, noise), 0.0)
        return float(0.5 * self.n * (slope @ shortfall))

    def loss_from_values(self, values: Array, error: float) -> float:
        r"""Upper bound on the loss of log-likelihood by an error of this size in every eigenvalue, with exact axes.

        The log-likelihood is at its maximum with respect to the eigenvalues and the noise variance, so that it
        decreases with the square of their relative errors, by n/4 per dimension.
        """
        theta, rest = values[: self.k], self.d - self.k
        noise = max((self.total - theta.sum()) / rest, np.finfo(float).tiny)
        relative = error / np.append(theta, noise * rest / self.k)
        return float(0.25 * self.n * (relative**2 @ np.append(np.ones(self.k), rest)))
