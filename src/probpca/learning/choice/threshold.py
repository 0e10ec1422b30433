"""Singular values above which a component is worth keeping, with the noise read off their median."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from probpca.errors import DataError
from probpca.learning.selection import Curve

if TYPE_CHECKING:
    from probpca.learning.spectrum import Spectrum


def gavish_donoho(spectrum: Spectrum) -> Curve:
    r"""Singular values in units of the optimal hard threshold; those above 1 are kept.

    .. math:: \tau = \omega(\beta) \, y_\text{med}, \qquad \omega(\beta) = \lambda_*(\beta) / \sqrt{m_\beta}

    with beta the ratio of the sides of the table and m the median of the Marchenko-Pastur law. Rows less their mean are
    worth n - 1 of them. Gavish & Donoho (2014), "The optimal hard threshold for singular values is 4 / sqrt 3".
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
            "half of the singular values are zero: their median does not tell the noise.\n"
            "Hint: drop columns that repeat others; or n_components='bic'."
        )
        raise DataError(msg)
    counts = np.arange(1, min(short, d - 1) + 1)
    return Curve(counts, singular[: counts.size] / threshold)


def threshold_factor(beta: float) -> float:
    """The optimal threshold in units of the median singular value, for a table with ratio of sides beta <= 1."""
    return known_noise_factor(beta) / float(np.sqrt(marchenko_pastur_median(beta)))


def known_noise_factor(beta: float) -> float:
    """The optimal threshold in units of the noise times the root of the longer side: 4 / sqrt 3 for a square."""
    return float(np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + np.sqrt(beta**2 + 14 * beta + 1))))


def marchenko_pastur_median(beta: float) -> float:
    r"""Median of the eigenvalues of white noise, of variance 1 and ratio of sides beta <= 1, in the limit.

    With :math:`t = 1 + \beta + 2 \sqrt\beta \cos\phi` the density becomes the smooth
    :math:`2 \sin^2\phi / (\pi t)` on :math:`0 < \phi < \pi`.
    """
    root = np.sqrt(beta)

    def above(angle: float) -> float:
        return quad(lambda phi: 2 * np.sin(phi) ** 2 / (np.pi * (1 + beta + 2 * root * np.cos(phi))), 0, angle)[0] - 0.5

    # At beta = 1 the density has a pole at t = 0, which is half of the way: stay short of it.
    angle = brentq(above, 0.0, np.pi * (1 - 1e-9), xtol=1e-13)
    return float(1 + beta + 2 * root * np.cos(angle))
