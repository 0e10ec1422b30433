"""The regression of cells on latent variables, which every M-step solves."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.linalg.packed import identity, multiply, packed_size, solve, turn, unpack
from probpca.linalg.rotations import cholesky_or_none

if TYPE_CHECKING:
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    r"""Sums over rows, taken at some current parameters :math:`\theta_j = [w_j; \mu_j]`.

    With :math:`t = [z; 1]`, z distributed as the row's cells say, and :math:`R_j` the rows in which
    feature j was observed, the expected squared residual of feature j is quadratic in its parameters,

    .. math:: Q_j(\theta_j + \Delta) = Q_j - 2 \Delta^\top g_j + \Delta^\top A_j \Delta

    and these are its value, half its negative gradient and half its curvature. Changes, not parameters:
    near the optimum what makes the noise variance is then a small number and not a difference of
    large ones. Where every row is complete all features share one A.
    """

    weight: float  # sum w, of rows with something observed
    cells: float  # sum w, of cells
    log_likelihood: float  # of the rows under the current parameters
    latent: Array  # sum w E[t t'], packed by rows: ((q + 1)(q + 2) / 2,)
    gram: Array  # A_j = sum over R_j of w omega E[t t'], packed: (., d), or (., 1) if all are the same
    score: Array  # g_j = sum over R_j of w omega E[(x_j - theta_j' t) t]: (q + 1, d)
    squares: Array  # Q_j = sum over R_j of w omega E[(x_j - theta_j' t)^2]: (d,)

    @classmethod
    def zero(cls, d: int, q: int) -> Regression:
        """The sums over no rows."""
        p = packed_size(q + 1)
        return cls(0.0, 0.0, 0.0, np.zeros(p), np.zeros((p, 1)), np.zeros((q + 1, d)), np.zeros(d))

    def merge(self, other: Regression) -> Regression:
        """Add the sums."""
        return Regression(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def scaled(self, factor: float) -> Regression:
        """Every row counted ``factor`` times; -1 takes rows away."""
        return Regression(*(factor * getattr(self, f.name) for f in fields(self)))

    def moved(self, change: Array) -> Regression:
        """These sums taken at other parameters, given their change: (q + 1, d)."""
        score = self.score - multiply(self.gram, change)
        return replace(self, score=score, squares=self.squares_after(change))

    def turned(self, basis: Array) -> Regression:
        """These sums for latents t' = B' t, B (q + 1, q + 1)."""
        latent = turn(self.latent[:, None], basis)[:, 0]
        return replace(self, latent=latent, gram=turn(self.gram, basis), score=basis.T @ self.score)

    def change(self) -> Array:
        """The change of parameters that minimises the expected squares, A^{-1} g: (q + 1, d).

        A feature that was never observed stays where it is.
        """
        if self.gram.shape[1] == 1:
            return _shared_solve(unpack(self.gram[:, 0]), self.score)
        seen = self.gram[-1] > 0
        if seen.all():
            return solve(self.gram, self.score)
        return np.where(seen, solve(np.where(seen, self.gram, identity(len(self.score))), self.score), 0.0)

    def squares_after(self, change: Array) -> Array:
        """Expected squares at the changed parameters: (d,)."""
        return self.squares + np.einsum("kd,kd->d", change, multiply(self.gram, change) - 2 * self.score)


def _shared_solve(matrix: Array, right: Array) -> Array:
    """Solve normal equations; the shortest of many solutions where latents are dependent."""
    root = cholesky_or_none(matrix)
    if root is None:  # without noise, when there are fewer rows than latents
        return np.asarray(np.linalg.lstsq(matrix, right)[0])
    return np.asarray(np.linalg.solve(root.T, np.linalg.solve(root, right)))
