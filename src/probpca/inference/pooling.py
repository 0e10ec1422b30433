"""One answer from several imputed tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from probpca.typing import Array

TINY = 1e-3
"""Degrees of freedom so few that intervals have no end."""


class Pooled(NamedTuple):
    """An estimate that knows what imputation left open."""

    estimate: Array  # mean over the imputed tables
    variance: Array  # within and between them
    degrees: Array  # of freedom of the t distribution; infinite if nothing varies between tables
    fraction_missing: Array  # of the information about the estimate, r + 2 / (degrees + 3) over r + 1

    @property
    def std_error(self) -> Array:
        """Standard error of the estimate."""
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends that hold the truth with probability ``level``."""
        if not 0 < level < 1:
            msg = f"level must lie between 0 and 1; got {level}."
            raise DataError(msg)
        quantile = stdtrit(np.clip(self.degrees, TINY, 1e12), 0.5 + level / 2)
        width = np.where(self.std_error > 0, quantile * self.std_error, 0.0)
        return self.estimate - width, self.estimate + width


def pool(estimates: Any, variances: Any, df_complete: float | None = None) -> Pooled:
    r"""Pool the same estimate from m imputed tables, with its squared standard errors, by Rubin's rules.

    .. math::
        \bar Q = \tfrac1m \sum Q_k, \qquad T = \bar U + (1 + \tfrac1m) B, \qquad
        \nu = (m - 1) \left(1 + \frac{\bar U}{(1 + 1/m) B}\right)^2

    with :math:`\bar U` the mean variance within tables and B the variance of the estimates between them.
    ``df_complete``, the degrees of freedom that a complete table would have had, corrects
    :math:`\nu` for small samples. Barnard & Rubin (1999).

    Examples
    --------
    >>> from probpca import pool
    >>> pooled = pool([1.0, 1.2, 0.8], [0.1, 0.1, 0.1], df_complete=50)
    >>> round(float(pooled.estimate), 3), round(float(pooled.std_error), 3), round(float(pooled.degrees), 1)
    (1.0, 0.392, 10.8)
    """
    q, u = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if q.shape != u.shape or q.ndim < 1 or len(q) < 2:
        msg = f"pool needs at least 2 estimates, and a variance for each; got shapes {q.shape} and {u.shape}."
        raise ShapeError(msg)
    if not (np.isfinite(q).all() and np.isfinite(u).all() and (u >= 0).all()):
        msg = "estimates and variances must be finite, and variances not negative."
        raise DataError(msg)
    m = len(q)
    within, between = u.mean(axis=0), (1 + 1 / m) * q.var(axis=0, ddof=1)
    total = within + between
    share = np.divide(between, total, out=np.zeros_like(total), where=total > 0)  # gamma
    degrees = np.divide(m - 1.0, share**2, out=np.full_like(total, np.inf), where=share > 0)
    if df_complete is not None and not df_complete > 0:
        msg = f"df_complete must be positive; got {df_complete}."
        raise DataError(msg)
    if df_complete is not None and np.isfinite(df_complete):
        observed = (df_complete + 1) / (df_complete + 3) * df_complete * (1 - share)
        degrees = 1 / (1 / degrees + np.divide(1.0, observed, out=np.full_like(total, np.inf), where=observed > 0))
    return Pooled(q.mean(axis=0), total, degrees, _fraction(share, degrees))


def _fraction(share: Array, degrees: Array) -> Array:
    """Fraction of missing information, corrected for few tables; with the degrees of freedom that are reported."""
    odds = np.divide(share, 1 - share, out=np.full_like(share, np.inf), where=share < 1)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(odds), 1.0, (odds + 2 / (degrees + 3)) / (odds + 1))
