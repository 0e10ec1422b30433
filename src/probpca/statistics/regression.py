"""What every M-step consumes: the regression of rows on latent variables."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    r"""Sums over rows, taken at some current parameters.

    With :math:`r_i = x_i - \mu - W m_i` the residual at the current parameters and
    :math:`z_i \mid x_i \sim N(m_i, P_i)`. Residuals, not rows: near the optimum the sums that
    make the noise variance are then small numbers instead of differences of large ones.
    """

    weight: float  # sum w
    log_likelihood: float  # of the rows under the current parameters
    latent: Array  # sum w m: (q,)
    latent_products: Array  # sum w m m': (q, q)
    latent_covariance: Array  # sum w P: (q, q)
    residual: Array  # sum w r: (d,)
    residual_products: Array  # sum w r m': (d, q)
    residual_squares: Array  # sum w r^2: (d,)

    @classmethod
    def zero(cls, d: int, q: int) -> Regression:
        """The sums over no rows."""
        square = np.zeros((q, q))
        return cls(0.0, 0.0, np.zeros(q), square, square, np.zeros(d), np.zeros((d, q)), np.zeros(d))

    def scored(self, log_likelihood: float) -> Regression:
        """The same sums with their log-likelihood filled in."""
        return replace(self, log_likelihood=log_likelihood)

    def merge(self, other: Regression) -> Regression:
        """Add the sums."""
        return Regression(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))
