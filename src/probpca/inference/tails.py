"""Chi-square tail probabilities that do not run out of range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincc, gammaln

if TYPE_CHECKING:
    from probpca.typing import Array

FRACTION_TERMS = 200
SMALLEST = 1e-290


def chi2_tail(distance: Array, degrees: int | Array) -> Array:
    """P(chi2 > distance), degrees of freedom being one for all or one each; 1 when there are none."""
    half = 0.5 * np.asarray(degrees)
    return np.where(half > 0, gammaincc(np.where(half > 0, half, 1.0), 0.5 * distance), 1.0)


def log10_chi2_tail(distance: Array, degrees: int | Array) -> Array:
    """Its logarithm to base 10, right far beyond the smallest float."""
    degrees = np.broadcast_to(np.asarray(degrees, dtype=np.float64), distance.shape)
    tail = chi2_tail(distance, degrees)
    tiny = tail < SMALLEST
    out = np.log10(np.where(tiny, 1.0, tail))
    far = tiny & np.isfinite(distance)
    out[tiny] = -np.inf
    out[far] = _log_upper_gamma(0.5 * degrees[far], 0.5 * distance[far]) / np.log(10.0)
    return out


def _log_upper_gamma(a: Array, x: Array) -> Array:
    """Log of Gamma(a, x) / Gamma(a) for x well above a, by Lentz's continued fraction."""
    b = x + 1.0 - a
    c = np.full_like(x, 1e300)
    d = 1.0 / b
    h = d.copy()
    for i in range(1, FRACTION_TERMS):
        factor = -i * (i - a)
        b = b + 2.0
        d = 1.0 / (factor * d + b)
        c = b + factor / c
        h *= d * c
    return np.asarray(a * np.log(x) - x - gammaln(a) + np.log(h))
