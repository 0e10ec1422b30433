"""How many components: criteria computed from the spectrum, for every number at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from probpca.errors import DataError, ShapeError
from probpca.learning.spectrum import log_likelihood_of, noise_of

if TYPE_CHECKING:
    from probpca.learning.spectrum import Spectrum
    from probpca.typing import Array, Index


class Curve(NamedTuple):
    """A criterion, larger is better, for each number of components."""

    n_components: Index  # (m,)
    score: Array  # (m,)

    @property
    def best(self) -> int:
        """The number of components with the largest score."""
        return int(self.n_components[self.score.argmax()])


def n_parameters(d: int, q: int) -> int:
    """Free parameters of PPCA: loadings up to rotation, noise variance, mean."""
    return d * q - q * (q - 1) // 2 + 1 + d


def bic(spectrum: Spectrum, largest: int) -> Curve:
    r"""Schwarz's criterion, :math:`\mathcal L - \tfrac12 p \log n`, for 1 .. ``largest`` components."""
    d, n = spectrum.n_features, spectrum.weight
    # A model that explains the data completely has an unbounded likelihood, which says nothing.
    sound = [q for q in range(1, largest + 1) if not noise_of(spectrum, q).collapsed] or [1]
    penalty = 0.5 * np.log(n)
    score = [log_likelihood_of(spectrum, q) - penalty * n_parameters(d, q) for q in sound]
    return Curve(np.array(sound), np.array(score))


def evidence(spectrum: Spectrum) -> Curve:
    r"""Minka's Laplace approximation of the evidence, from all eigenvalues that are not zero.

    With fewer rows than features the data live in their n - 1 dimensions, and the criterion is
    that of those. Minka (2000), "Automatic choice of dimensionality for PCA".
    """
    # All but one eigenvalue are in the spectrum; what lies outside their axes is the last one.
    values = np.append(spectrum.values, spectrum.tail)
    values = values[values > max(spectrum.resolution, 1e-12 * values[0])]
    m, n = values.size, spectrum.weight
    if m < 2:
        msg = "the evidence needs at least two directions in which the data vary; they vary in one."
        raise DataError(msg)
    counts = np.arange(1, m)
    noise = np.cumsum(values[::-1])[-2::-1] / (m - counts)  # v of each k: (m - 1,)
    score = _log_prior(m)[:-1] - 0.5 * n * (np.cumsum(np.log(values))[:-1] + (m - counts) * np.log(noise))
    free = m * counts - counts * (counts + 1) / 2
    score += 0.5 * (free + counts) * np.log(2 * np.pi) - 0.5 * counts * np.log(n)
    return Curve(counts, score - 0.5 * _log_curvature(values, noise, n))


def _log_prior(m: int) -> Array:
    """Log of the uniform density on k orthonormal axes in m dimensions, k = 1 .. m."""
    half = (m - np.arange(m)) / 2
    return np.cumsum(gammaln(half) - half * np.log(np.pi) - np.log(2.0))


def _log_curvature(values: Array, noise: Array, n: float) -> Array:
    """Log-determinant of the Hessian at the maximum, for k = 1 .. m - 1.

    Pairs (i, j) with i <= k < j see the noise v in place of the j-th eigenvalue. Only a row of the
    table of pairs is held at a time.
    """
    m = values.size
    inverse = 1 / values
    tiny = np.finfo(float).tiny
    inner, outer = np.zeros(m), np.zeros(m)  # pairs within the first k; sums of log(l_i - l_j) over j > k
    gaps = np.zeros(m)
    for i in range(m - 1):
        difference = np.log(np.maximum(values[i] - values[i + 1 :], tiny))  # j = i + 1 .. m - 1
        inner[i + 1 :] += np.log(np.maximum(inverse[i + 1 :] - inverse[i], tiny)) + difference + np.log(n)
        outer[i:] += np.concatenate([[difference.sum()], difference.sum() - np.cumsum(difference)])
    counts = np.arange(1, m)
    within = np.cumsum(inner)[:-1]
    for k in counts:
        gaps[k - 1] = np.log(np.maximum(1 / noise[k - 1] - inverse[:k], tiny)).sum() * (m - k)
    return within + outer[:-1] + gaps[:-1] + counts * (m - counts) * np.log(n)


def share_of_variance(spectrum: Spectrum, share: float) -> int | None:
    """The fewest components that hold ``share`` of the variance; None if the spectrum is too short."""
    held = np.cumsum(spectrum.values) / spectrum.total
    enough = np.flatnonzero(held >= share * (1 - 1e-12))
    return int(enough[0]) + 1 if enough.size else None


def given_count(n_components: Any) -> int | None:
    """The number of components, if it is one and not a rule that has to find it."""
    given = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    return int(n_components) if given else None


def check_count(q: int, d: int) -> None:
    """Raise ``ShapeError`` unless 1 <= q < d."""
    if d == 1:
        msg = "n_features must be at least 2; got 1 feature(s).\nHint: one column has no components to find."
        raise ShapeError(msg)
    if q < 1 or q >= d:
        msg = (
            f"n_components must lie between 1 and n_features - 1 = {d - 1}; got {q}.\n"
            f"Hint: n_components={d - 1} already fits every Gaussian; more leaves no noise to estimate."
        )
        raise ShapeError(msg)
