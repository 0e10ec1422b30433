"""Asymptotic standard errors of a fit to complete rows, from the model alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.errors import DataError
from probpca.learning.uncertainty.estimate import Estimate, ParameterUncertainty

if TYPE_CHECKING:
    from probpca.models import LinearGaussian
    from probpca.typing import Array

ROWS_PER_FEATURE = 2
"""Number of rows per feature below which the result carries a note that the formulas may be inaccurate."""
COMFORTABLE = 5
"""Number of rows per feature above which the formulas are accurate and the bootstrap is not needed."""


class Bias(NamedTuple):
    """Bias of the variance estimates: how much too large they are on average."""

    explained_variance: Array  # (q,)
    noise_variance: float


def asymptotic_uncertainty(model: LinearGaussian, weight: float, *, corrected: bool = False) -> ParameterUncertainty:
    r"""Asymptotic standard errors of a fit to complete rows with total weight ``weight``, assuming the model holds.

    With :math:`\lambda_j` the variances along the axes :math:`u_j`,

    .. math::
        \operatorname{sd}(\lambda_j) = \lambda_j \sqrt{2/n}, \qquad
        \operatorname{sd}(\sigma^2) = \sigma^2 \sqrt{2 / (n (d - q))}, \qquad
        \operatorname{Cov}(\mu) = C / n, \\
        \operatorname{Cov}(u_j) = \frac{\lambda_j}{n} \Big[ \sum_{k \le q, k \ne j}
        \frac{\lambda_k}{(\lambda_k - \lambda_j)^2} u_k u_k^\top
        + \frac{\sigma^2}{(\lambda_j - \sigma^2)^2} (I - U U^\top) \Big]

    (Anderson 1963). Only diagonals are computed, in O(d q^2). Loadings, :math:`u_j` times
    :math:`(\lambda_j - \sigma^2)^{1/2}` with independent factors, follow by the delta method. Variances are corrected
    for their bias by ``bias_of_variances``, unless the fit was corrected already.
    """
    if model.noise_variance.ndim:
        msg = (
            "asymptotic standard errors need a model with one noise variance; this one has one per feature.\n"
            "Hint: use method='bootstrap', which includes the uncertainty of the standard deviations."
        )
        raise DataError(msg)
    axes, singular = model.principal_axes
    sigma2, n = float(model.noise_variance), weight
    (d, q), lam = axes.shape, singular**2 + sigma2
    df, bias = n - 1, Bias(np.zeros(q), 0.0) if corrected else bias_of_variances(lam, sigma2, n, d)
    sd_lam, sd_noise = lam * np.sqrt(2 / n), sigma2 * np.sqrt(2 / (n * (d - q)))
    turning = axis_variances(axes, lam, sigma2, n)  # (d, q)
    scaling = _scale_variances(singular**2, np.hypot(sd_lam, sd_noise))  # (q,)
    loadings = np.sqrt(turning * singular**2 + axes**2 * scaling)
    centre = np.sqrt(model.covariance.diag() / n)
    return ParameterUncertainty(
        "asymptotic",
        Estimate(lam, sd_lam, df, bias.explained_variance, positive=True),
        Estimate(np.asarray(sigma2), np.asarray(sd_noise), df, bias.noise_variance, positive=True),
        Estimate(model.principal().loadings, loadings, df),
        Estimate(axes.T, np.sqrt(turning).T, df),
        Estimate(model.mean, centre, df),
        note=_note(n, d),
    )


def axis_variances(axes: Array, lam: Array, sigma2: float, n: float) -> Array:
    """Variances of the entries of principal axes, the diagonals of Cov(u_j): (d, q).

    They are limited to 1, because the entries of a unit vector cannot vary more, however close two variances are.
    """
    gap = lam[:, None] - lam
    np.fill_diagonal(gap, np.inf)  # no term for an axis with itself
    noise_gap = lam - sigma2
    with np.errstate(divide="ignore", invalid="ignore"):
        # Products of ratios, because squares of variances overflow long before the variances do.
        within = np.square(axes) @ ((lam[:, None] / gap) * (lam / gap))
        outside = np.maximum(1 - np.square(axes).sum(axis=1), 0.0)[:, None] * (sigma2 / noise_gap * (lam / noise_gap))
        variances = (within + outside) / n
    return np.where(variances < 1, variances, 1.0)


def bias_of_variances(lam: Array, sigma2: float, n: float, d: int) -> Bias:
    r"""Bias of the variances estimated from n rows, to first order.

    .. math::
        b(\lambda_j) = \frac{\lambda_j}{n} \Big[ \frac{(d - q) \sigma^2}{\lambda_j - \sigma^2} - 1 \Big], \qquad
        b(\sigma^2) = -\frac{\sigma^2}{n} \Big[ 1 + \sum_j \frac{\lambda_j}{\lambda_j - \sigma^2} \Big]

    The largest eigenvalues absorb noise that happens to point in their direction (Lawley 1956). His terms for pairs
    of components are left out: they sum to zero, and are misleading if two variances are close.
    """
    q = lam.size
    # A component closer to the noise than this cannot be distinguished from it.
    gap = np.maximum(lam - sigma2, sigma2 * np.sqrt((d - q) / n))
    above = lam / n * ((d - q) * sigma2 / gap - 1)
    return Bias(np.minimum(above, lam - sigma2), -sigma2 / n * (1 + float((lam / gap).sum())))


def _scale_variances(signal: Array, error: Array) -> Array:
    """Variances of sqrt(a) given standard errors of a, by the delta method; bounded if a is below its error."""
    return error * (error / np.maximum(4 * signal, error))


def _note(n: float, d: int) -> str:
    if n >= ROWS_PER_FEATURE * d:
        return ""
    return f"{n:,.0f} rows for {d:,} features: the formulas assume many rows per feature. method='bootstrap' does not."
