"""A diagonal plus a low-rank matrix, C = diag(v) + F F', handled without ever forming it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Array


class Whitened(NamedTuple):
    """Thin singular value decomposition of diag(v)^{-1/2} F = U diag(s) V'."""

    scale: Array  # sqrt(v): () or (d,)
    axes: Array  # U: (d, r), r = min(d, q)
    singular: Array  # s: (r,)
    rotation: Array  # V: (q, r)


class SplitDistance(NamedTuple):
    """The squared Mahalanobis distance in two parts, each a sum of squares."""

    inside: Array  # within the span of the factor: (n,)
    outside: Array  # orthogonal to it in whitened coordinates: (n,)


@final
@dataclass(frozen=True, eq=False)
class DiagPlusLowRank:
    r"""The covariance :math:`C = \mathrm{diag}(v) + F F^\top`, with O(d q) memory.

    Every query goes through the singular values of the whitened factor, so that quadratic
    forms are sums of squares. The textbook inversion lemma subtracts two nearly equal numbers
    and has no correct digit left when the diagonal is tiny.
    """

    diagonal: Array  # v: () or (d,)
    factor: Array  # F: (d, q)

    @property
    def size(self) -> int:
        """Number of rows d."""
        return self.factor.shape[0]

    @cached_property
    def whitened(self) -> Whitened:
        """The decomposition that all queries share; O(d q^2), computed once."""
        scale = np.sqrt(self.diagonal)
        axes, singular, rotation = np.linalg.svd(_divide_rows(self.factor, scale), full_matrices=False)
        return Whitened(scale, axes, singular, rotation.T)

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues 1 + s^2 of the whitened matrix inside the span: (r,)."""
        return 1.0 + self.whitened.singular**2

    def logdet(self) -> float:
        """Log |C| = sum log v + sum log(1 + s^2)."""
        d = self.size
        diagonal = np.broadcast_to(self.diagonal, (d,))
        return float(np.log(diagonal).sum() + np.log(self.eigenvalues).sum())

    def trace(self) -> float:
        """Tr C."""
        return float(np.broadcast_to(self.diagonal, (self.size,)).sum() + np.sum(self.factor**2))

    def diag(self) -> Array:
        """The diagonal of C: (d,)."""
        return self.diagonal + np.einsum("ij,ij->i", self.factor, self.factor)

    def coordinates(self, rows: Array) -> tuple[Array, Array]:
        """Whiten ``rows`` (n, d); return coordinates in the span (n, r) and what is left (n, d)."""
        scale, axes, _, _ = self.whitened
        white = rows / scale  # (n, d)
        inside = white @ axes  # (n, r)
        white -= inside @ axes.T
        return inside, white

    def split_distance(self, rows: Array) -> SplitDistance:
        """The two parts of x' C^{-1} x for each row."""
        inside, outside = self.coordinates(rows)
        return SplitDistance(
            (inside**2 / self.eigenvalues).sum(axis=1),
            np.einsum("ij,ij->i", outside, outside),
        )

    def squared_mahalanobis(self, rows: Array) -> Array:
        """X' C^{-1} x for each row: (n,)."""
        parts = self.split_distance(rows)
        return parts.inside + parts.outside

    def solve(self, rows: Array) -> Array:
        """C^{-1} x for each row: (n, d)."""
        inside, white = self.coordinates(rows)
        white += (inside / self.eigenvalues) @ self.whitened.axes.T
        return white / self.whitened.scale

    def inverse_diag(self) -> Array:
        r"""The diagonal of C^{-1}: (d,), as two sums of squares where the axes leave room.

        :math:`v_j [C^{-1}]_{jj} = (1 - \sum_k u_{jk}^2) + \sum_k u_{jk}^2 / (1 + s_k^2)`.
        """
        axes = self.whitened.axes
        covered = np.einsum("ij,ij->i", axes, axes)
        damped = (axes**2 / self.eigenvalues).sum(axis=1)
        return (np.maximum(1.0 - covered, 0.0) + damped) / self.diagonal

    def dense(self) -> Array:
        """C itself, (d, d): for small d, and for people who ask for it."""
        return self.factor @ self.factor.T + np.diag(np.broadcast_to(self.diagonal, (self.size,)))

    def dense_inverse(self) -> Array:
        """C^{-1} itself, (d, d)."""
        return self.solve(np.eye(self.size))


def _divide_rows(matrix: Array, scale: Array) -> Array:
    return matrix / scale if scale.ndim == 0 else matrix / scale[:, None]
