"""Factors that make variances estimated from the less distant rows, or cells, those of all Gaussian ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammainc, gammainccinv

from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.typing import Array


def chi2_quantile(share: float, degrees: Array) -> Array:
    """Squared distance below which the share of Gaussian rows with so many observed cells lies: (n,)."""
    return 2.0 * gammainccinv(0.5 * np.maximum(degrees, 1.0), 1.0 - share)


def trimming_factor(degrees: Array, weight: Array, share: float) -> float:
    r"""Factor for the covariance of Gaussian rows of which only the nearest share h was used.

    .. math:: c = \frac{\sum_i w_i k_i}{\sum_i w_i k_i F_{k_i + 2}(\chi^2_{k_i, h}) / h}

    Row i has :math:`k_i` observed cells and weight :math:`w_i`, and :math:`F_k` is the distribution function of
    :math:`\chi^2_k`. The factor is 1 if all rows were used.
    """
    if share >= 1 or not (degrees * weight).sum() > 0:
        return 1.0
    inner = gammainc(0.5 * degrees + 1.0, 0.5 * chi2_quantile(share, degrees)) / share
    return float((weight * degrees).sum() / (weight * degrees * inner).sum())


def weighting_factor(weight_of: Callable[[Array], Array], nodes: int = 32) -> Array:
    r"""Mean square of standard normal scores under the weights that they get: (d,).

    .. math:: c = E[\omega(z) z^2] / E[\omega(z)], \qquad z \sim N(0, 1)

    ``weight_of`` maps scores (nodes,) to their weights in each column, (d, nodes). The expectations are computed by
    Gauss-Hermite quadrature. Variances estimated with these weights are too small by this factor.
    """
    z, probability = np.polynomial.hermite_e.hermegauss(nodes)
    omega = weight_of(z)
    return np.asarray((omega @ (probability * z * z)) / np.maximum(omega @ probability, 1e-300))


def inflated(model: LinearGaussian, factor: float) -> LinearGaussian:
    """Model whose covariance is multiplied by a factor."""
    if factor == 1:
        return model
    return LinearGaussian(model.mean, model.loadings * np.sqrt(factor), model.noise_variance * factor)
