"""How much log-likelihood approximate eigenpairs leave on the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Array


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
