"""Criteria for the number of components that are computed from eigenvalues, for all numbers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln

from probpca.errors import DataError
from probpca.learning.complete.spectrum import SINGLE_EPS, log_likelihood_of, noise_of

if TYPE_CHECKING:
    from probpca.learning.complete.spectrum import Spectrum
    from probpca.typing import Array, Index

SAME = 1e-12
"""Relative difference up to which two eigenvalues count as equal."""


class Curve(NamedTuple):
    """Values of a criterion for several numbers of components; larger is better."""

    n_components: Index  # numbers of components: (m,)
    score: Array  # values of the criterion: (m,)

    @property
    def best(self) -> int:
        """Number of components with the largest score."""
        return int(self.n_components[self.score.argmax()])


def exact_rank(spectrum: Spectrum, *, single: bool = False) -> int | None:
    """Rank of the rows up to rounding, if it is low; None if there is noise.

    ``single`` tells that the rows are float32, whose rounding errors are larger.
    """
    d, resolution = spectrum.n_features, spectrum.resolution
    if single:
        resolution = max(resolution, SINGLE_EPS**2 * (spectrum.total + float(spectrum.mean @ spectrum.mean)) / d)
    most = min(d - 1, spectrum.values.size)
    rank = next((q for q in range(1, most + 1) if spectrum.residual(q) <= resolution * (d - q)), None)
    if rank is None:
        return None
    variance = np.square(spectrum.axes[:, :rank]) @ spectrum.values[:rank]
    return rank if is_low_rank(rank, int((variance > resolution).sum()), spectrum.weight) else None


def is_low_rank(rank: int, n_varying: int, n_rows: float, largest_share: float = 0.75) -> bool:
    """Whether a rank is at most ``largest_share`` of the largest rank that varying columns and rows allow.

    A few columns that are sums of others, or a few repeated rows, reduce the rank only a little, and there is still
    noise in most directions: such a rank is not low. Constant columns do not count as varying.
    """
    return rank < n_varying - 1 and rank <= largest_share * min(n_varying, n_rows - 1)


def n_parameters(d: int, q: int, n_noise: int = 1) -> int:
    """Number of parameters: loadings up to rotation, ``n_noise`` noise variances (1 for PPCA), and mean."""
    return d * q - q * (q - 1) // 2 + n_noise + d


def n_free_parameters(d: int, q: int, n_noise: int = 1) -> int:
    """Number of parameters that are free: at most those of a mean and a covariance without any structure."""
    return min(n_parameters(d, q, n_noise), d * (d + 1) // 2 + d)


def bic(spectrum: Spectrum, largest: int) -> Curve:
    r"""Bayesian information criterion :math:`\mathcal L - \tfrac12 p \log n` for 1 .. ``largest`` components."""
    d, n = spectrum.n_features, spectrum.weight
    # A model that explains the data completely has an unbounded likelihood, which is not informative.
    sound = [q for q in range(1, largest + 1) if not noise_of(spectrum, q).collapsed] or [1]
    penalty = 0.5 * np.log(n)
    score = [log_likelihood_of(spectrum, q) - penalty * n_parameters(d, q) for q in sound]
    return _before_the_end(Curve(np.array(sound), np.array(score)), spectrum)


def evidence(spectrum: Spectrum) -> Curve:
    r"""Laplace approximation of the evidence (Minka 2000), from all nonzero eigenvalues.

    With fewer rows than features, the criterion is computed in the n - 1 dimensions that the rows span. Minka (2000),
    "Automatic choice of dimensionality for PCA".
    """
    # The spectrum holds all eigenvalues but one, which is the variance outside their axes.
    values = np.append(spectrum.values, spectrum.tail)
    values = values[values > max(spectrum.resolution, 1e-12 * values[0])]
    m, n = values.size, spectrum.weight
    if m < 2:
        msg = "the evidence needs data that vary in at least two directions; these vary in one."
        raise DataError(msg)
    counts = np.arange(1, m)
    noise = np.cumsum(values[::-1])[-2::-1] / (m - counts)  # v of each k: (m - 1,)
    score = _log_prior(m)[:-1] - 0.5 * n * (np.cumsum(np.log(values))[:-1] + (m - counts) * np.log(noise))
    free = m * counts - counts * (counts + 1) / 2
    score += 0.5 * (free + counts) * np.log(2 * np.pi) - 0.5 * counts * np.log(n)
    return _before_the_end(Curve(counts, score - 0.5 * _log_curvature(values, noise, n)), spectrum)


def _before_the_end(curve: Curve, spectrum: Spectrum) -> Curve:
    """With fewer rows than features, cut the curve after the score has decreased twice in a row.

    With nearly as many components as rows, the noise vanishes and the likelihood increases without bound: a maximum
    there is not informative.
    """
    if spectrum.weight > spectrum.n_features:
        return curve
    falls = np.flatnonzero((np.diff(curve.score[:-1]) < 0) & (np.diff(curve.score[1:]) < 0))
    last = int(falls[0]) + 3 if falls.size else curve.score.size
    return Curve(curve.n_components[:last], curve.score[:last])


def _log_prior(m: int) -> Array:
    """Log of the uniform density on k orthonormal axes in m dimensions, k = 1 .. m."""
    half = (m - np.arange(m)) / 2
    return np.cumsum(gammaln(half) - half * np.log(np.pi) - np.log(2.0))


def _log_curvature(values: Array, noise: Array, n: float) -> Array:
    """Log-determinant of the Hessian at the maximum, for k = 1 .. m - 1.

    A pair (i, j) has the entry n (l_i - l_j)(l_i - h_j) / (l_i h_j), with h_j = l_j for the first k and the noise v
    beyond. Only one row of the matrix of pairs is in memory at a time.
    """
    m = values.size
    inner, outer, beyond = np.zeros(m), np.zeros(m), np.zeros(m - 1)
    logs, counts = np.log(values), np.arange(1, m)
    for i in range(m - 1):
        gap = _log_gap(values[i], values[i + 1 :], n)  # j = i + 1 .. m - 1
        inner[i + 1 :] += 2 * gap - logs[i] - logs[i + 1 :] + np.log(n)
        outer[i:-1] += np.cumsum(gap[::-1])[::-1]  # over j > k, for k = i + 1 .. m - 1
        beyond[i:] += _log_gap(values[i], noise[i:], n) - logs[i] - np.log(noise[i:])
    return np.cumsum(inner)[:-1] + outer[:-1] + (m - counts) * (beyond + counts * np.log(n))


def _log_gap(larger: float, smaller: Array, n: float) -> Array:
    """Log of the difference of two eigenvalues, bounded below for nearly equal ones.

    Axes with equal eigenvalues can rotate freely, and the integral over their angle is pi, which equals that of a
    Gaussian with the relative gap (2 / (pi n))^(1/2).
    """
    gap = larger - smaller
    return np.log(np.where(gap > SAME * larger, gap, larger * np.sqrt(2 / (np.pi * n))))


def share_of_variance(spectrum: Spectrum, share: float) -> int | None:
    """Smallest number of components that explain ``share`` of the variance; None if the spectrum is too short."""
    held = np.cumsum(spectrum.values) / spectrum.total
    enough = np.flatnonzero(held >= share * (1 - 1e-12))
    return int(enough[0]) + 1 if enough.size else None


def n_above(curve: Curve) -> int:
    """Number of leading scores above 1, at least 1."""
    below = curve.score <= 1
    return max(int(below.argmax()) if below.any() else int(curve.score.size), 1)


def gavish_donoho(spectrum: Spectrum) -> Curve:
    r"""Singular values relative to the optimal hard threshold; components with values above 1 are kept.

    .. math:: \tau = \omega(\beta) \, y_\text{med}, \qquad \omega(\beta) = \lambda_*(\beta) / \sqrt{m_\beta}

    with beta the aspect ratio of the table and m the median of the Marchenko-Pastur distribution. Centred rows count
    as n - 1. Gavish & Donoho (2014), "The optimal hard threshold for singular values is 4 / sqrt 3".
    """
    d, rows = spectrum.n_features, max(spectrum.weight - 1, 1.0)
    short = int(min(rows, d))
    values = np.zeros(max(short, spectrum.values.size + 1))
    values[: spectrum.values.size] = spectrum.values
    values[spectrum.values.size] = max(spectrum.tail, 0.0) if spectrum.values.size == d - 1 else 0.0
    values = np.where(values[:short] > spectrum.resolution, values[:short], 0.0)
    singular = np.sqrt(values)
    threshold = threshold_factor(min(rows, d) / max(rows, d)) * float(np.median(singular))
    if threshold <= 0:
        msg = (
            "half of the singular values are zero, so that their median does not estimate the noise.\n"
            "Hint: drop columns that repeat others, or use n_components='bic'."
        )
        raise DataError(msg)
    counts = np.arange(1, min(short, d - 1) + 1)
    return Curve(counts, singular[: counts.size] / threshold)


def threshold_factor(beta: float) -> float:
    """Optimal threshold relative to the median singular value, for a table with aspect ratio beta <= 1."""
    return known_noise_factor(beta) / float(np.sqrt(marchenko_pastur_median(beta)))


def known_noise_factor(beta: float) -> float:
    """Optimal threshold relative to the noise times the root of the longer side: 4 / sqrt(3) for a square table."""
    return float(np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + np.sqrt(beta**2 + 14 * beta + 1))))


def marchenko_pastur_median(beta: float) -> float:
    r"""Median of the Marchenko-Pastur distribution for unit noise variance and aspect ratio beta <= 1.

    With :math:`t = 1 + \beta + 2 \sqrt\beta \cos\phi` the density becomes the smooth
    :math:`2 \sin^2\phi / (\pi t)` on :math:`0 < \phi < \pi`.
    """
    root = np.sqrt(beta)

    def above(angle: float) -> float:
        return quad(lambda phi: 2 * np.sin(phi) ** 2 / (np.pi * (1 + beta + 2 * root * np.cos(phi))), 0, angle)[0] - 0.5

    # At beta = 1 the density has a pole at t = 0, the end of the interval: stay away from it.
    angle = brentq(above, 0.0, np.pi * (1 - 1e-9), xtol=1e-13)
    return float(1 + beta + 2 * root * np.cos(angle))
