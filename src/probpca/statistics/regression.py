"""Regression of the observed cells on the latent variables, which every M-step solves."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.linalg.packed import identity, multiply, packed_size, solve, turn, unpack
from probpca.linalg.rotations import cholesky_or_none

if TYPE_CHECKING:
    from probpca.typing import Array

EPS = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    r"""Sufficient statistics of the regression of each feature on the latent variables.

    The parameters of feature j are :math:`\theta_j = [w_j; \mu_j]` and its regressors :math:`t = [z; 1]`, with z
    distributed as its posterior given the row. Summed over the rows :math:`R_j` in which feature j was observed, its
    expected squared residual is quadratic in a change :math:`\Delta` of its parameters,

    .. math:: Q_j(\theta_j + \Delta) = Q_j - 2 \Delta^\top g_j + \Delta^\top A_j \Delta

    The statistics are taken at the current parameters and solved for their change. Near the optimum the residual
    that gives the noise variance is then a small number, not a difference of large ones.

    Attributes
    ----------
    weight : float
        Sum of the weights w of rows with at least one observed cell.
    counts : ndarray of shape (d or 1,)
        N_j, the sum of w over R_j; one entry if all features share it.
    log_likelihood : float
        Log-likelihood of the rows at the current parameters.
    latent : ndarray of shape ((q + 1)(q + 2) / 2,)
        Sum of w E[t t'], packed by rows.
    gram : ndarray of shape ((q + 1)(q + 2) / 2, d or 1)
        A_j, the sum over R_j of w omega E[t t'], packed by rows; one column if all features share it.
    score : ndarray of shape (q + 1, d)
        g_j, the sum over R_j of w omega E[(x_j - theta_j' t) t].
    squares : ndarray of shape (d,)
        Q_j, the sum over R_j of w omega E[(x_j - theta_j' t)^2].
    """

    weight: float
    counts: Array
    log_likelihood: float
    latent: Array
    gram: Array
    score: Array
    squares: Array

    @classmethod
    def zero(cls, d: int, q: int) -> Regression:
        """Sums over no rows, for d features and q latent variables."""
        p = packed_size(q + 1)
        return cls(0.0, np.zeros(1), 0.0, np.zeros(p), np.zeros((p, 1)), np.zeros((q + 1, d)), np.zeros(d))

    @property
    def cells(self) -> float:
        """Sum of w over the observed cells of all features."""
        return float(self.counts.sum()) * (self.squares.size / self.counts.size)

    def merge(self, other: Regression) -> Regression:
        """Sums over both sets of rows."""
        return Regression(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float) -> Regression:
        """Sums multiplied by ``factor``; merging sums scaled by -1 removes their rows."""
        return Regression(*(factor * getattr(self, f.name) for f in fields(self)))

    def moved(self, change: Array) -> Regression:
        """Sums over the same rows at other parameters, given their change (q + 1, d)."""
        score = self.score - multiply(self.gram, change)
        return replace(self, score=score, squares=self.squares_after(change))

    def turned(self, basis: Array) -> Regression:
        """Sums over the same rows for the regressors B't, with B of shape (q + 1, q + 1)."""
        latent = turn(self.latent[:, None], basis)[:, 0]
        return replace(self, latent=latent, gram=turn(self.gram, basis), score=basis.T @ self.score)

    def change(self) -> Array:
        """Change of the parameters that minimises the expected squared residuals, A^{-1} g: (q + 1, d).

        It is zero for a feature that was never observed.
        """
        if self.gram.shape[1] == 1:
            return _shared_solve(unpack(self.gram[:, 0]), self.score)
        seen = self.gram[-1] > 0
        if seen.all():
            return solve(self.gram, self.score)
        return np.where(seen, solve(np.where(seen, self.gram, identity(len(self.score))), self.score), 0.0)

    def squares_after(self, change: Array) -> Array:
        """Expected squared residuals of each feature after a change of the parameters: (d,)."""
        return self.squares + np.einsum("kd,kd->d", change, multiply(self.gram, change) - 2 * self.score)


def _shared_solve(matrix: Array, right: Array) -> Array:
    """Solve the normal equations; the minimum-norm solution if they are singular up to rounding."""
    root = cholesky_or_none(matrix)
    # Singular: no noise, and fewer rows or a lower rank than latent variables. Rounding may leave tiny pivots.
    if root is None or np.square(np.diag(root)).min() <= EPS * np.diag(matrix).max():
        return np.asarray(np.linalg.lstsq(matrix, right)[0])
    return np.asarray(np.linalg.solve(root.T, np.linalg.solve(root, right)))
