"""A diagonal plus a low-rank matrix, C = diag(v) + F F', used without ever forming it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.linalg.blas import dgemm

from probpca.cached_property import cached_property

if TYPE_CHECKING:
    from probpca.typing import Array, Index


class Whitened(NamedTuple):
    """Thin singular value decomposition of diag(v)^{-1/2} F = U diag(s) V'."""

    scale: Array  # sqrt(v): () or (d,)
    axes: Array  # U: (d, r), r = min(d, q)
    singular: Array  # s: (r,)
    rotation: Array  # V: (q, r)


class SplitDistance(NamedTuple):
    """Squared Mahalanobis distances split into two parts, each a sum of squares."""

    inside: Array  # within the span of the factor: (n,)
    outside: Array  # orthogonal to the span, in whitened coordinates: (n,)


@final
@dataclass(frozen=True, eq=False)
class DiagPlusLowRank:
    r"""The covariance :math:`C = \mathrm{diag}(v) + F F^\top`, with O(d q) memory.

    Every method uses the singular values of the whitened factor, so that quadratic forms are sums of squares. The
    textbook inversion lemma subtracts two nearly equal numbers and loses all its digits when the diagonal is tiny.
    """

    diagonal: Array  # v: () or (d,)
    factor: Array  # F: (d, q)

    @property
    def size(self) -> int:
        """Number of rows d."""
        return self.factor.shape[0]

    @cached_property
    def whitened(self) -> Whitened:
        """Decomposition of the whitened factor that all methods share, computed once in O(d q^2)."""
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
        """Trace of C."""
        return float(np.broadcast_to(self.diagonal, (self.size,)).sum() + np.sum(self.factor**2))

    def diag(self) -> Array:
        """Diagonal of C: (d,)."""
        return self.diagonal + np.einsum("ij,ij->i", self.factor, self.factor)

    def coordinates(self, rows: Array) -> tuple[Array, Array]:
        """Whiten ``rows`` (n, d); return their coordinates in the span (n, r) and their parts outside it (n, d)."""
        scale, axes, _, _ = self.whitened
        white = rows * (1.0 / scale)  # (n, d)
        inside = white @ axes  # (n, r)
        _subtract_product(white, inside, axes)
        if axes.shape[1] == self.size:
            white[:] = 0.0  # the span is the whole space, and the remainder only rounding error
        return inside, white

    def split_distance(self, rows: Array) -> SplitDistance:
        """Squared distance x' C^{-1} x of each row, split into its two parts."""
        return self.split_distance_at(*self.coordinates(rows))

    def split_distance_at(self, inside: Array, outside: Array) -> SplitDistance:
        """Squared distance x' C^{-1} x of each row, split into its two parts, from the result of ``coordinates``."""
        return SplitDistance(np.square(inside) @ (1.0 / self.eigenvalues), np.einsum("ij,ij->i", outside, outside))

    def inner_products(self, rows: Array) -> tuple[Array, Array]:
        """F' diag(v)^{-1} x (n, q) and x' diag(v)^{-1} x (n,) of each row, which determine its distance.

        If the diagonal is a single number, F'x and x'x are returned instead, which saves operations.
        """
        factor = self.factor
        if self.diagonal.ndim:
            scale = self.whitened.scale
            rows, factor = rows * (1.0 / scale), factor / scale[:, None]
        return rows @ factor, np.einsum("ij,ij->i", rows, rows)

    def split_distance_of(self, products: Array, squares: Array) -> SplitDistance:
        """Squared distance x' C^{-1} x, split into its two parts, from the result of ``inner_products``.

        The part outside the span is a difference with an error of a few eps times ``squares``: accurate enough to
        compare rows with each other if the diagonal is not below 1e-12 of the variances, and for nothing else.
        """
        _, _, singular, rotation = self.whitened
        if not self.diagonal.ndim:
            products, squares = products / self.diagonal, squares / self.diagonal
        known = singular > 1e-12 * singular.max(initial=0.0)
        inside = np.square(products @ rotation[:, known] / singular[known])  # (n, r)
        return SplitDistance(inside @ (1.0 / self.eigenvalues[known]), np.maximum(squares - inside.sum(axis=1), 0.0))

    def squared_mahalanobis(self, rows: Array) -> Array:
        """Squared distance x' C^{-1} x of each row: (n,)."""
        parts = self.split_distance(rows)
        return parts.inside + parts.outside

    def solve(self, rows: Array) -> Array:
        """Product C^{-1} x for each row: (n, d)."""
        return self.solve_at(*self.coordinates(rows))

    def solve_at(self, inside: Array, outside: Array) -> Array:
        """Product C^{-1} x for each row, (n, d), from the result of ``coordinates``."""
        return (outside + (inside / self.eigenvalues) @ self.whitened.axes.T) / self.whitened.scale

    def inverse_diag(self) -> Array:
        r"""Diagonal of C^{-1}: (d,), as two sums of squares.

        :math:`v_j [C^{-1}]_{jj} = |e_j - U U^\top e_j|^2 + \sum_k u_{jk}^2 / (1 + s_k^2)`.
        """
        axes = self.whitened.axes
        damped = (axes**2 / self.eigenvalues).sum(axis=1)
        return (self._uncovered() + damped) / self.diagonal

    def _uncovered(self) -> Array:
        """Squared distance of each unit vector from the span of U: (d,)."""
        axes = self.whitened.axes
        distance = 1.0 - np.einsum("ij,ij->i", axes, axes)
        # The difference has no digits left for unit vectors that lie almost in the span. There are at most
        # about r of them, so that their residuals can be computed and squared one by one.
        near = np.flatnonzero(distance < 1e-4)
        distance[near] = np.square(self.coordinates(_unit_rows(near, self.size) * self.whitened.scale)[1]).sum(axis=1)
        return distance

    def dense(self) -> Array:
        """Dense matrix C: (d, d)."""
        return self.factor @ self.factor.T + np.diag(np.broadcast_to(self.diagonal, (self.size,)))

    def dense_inverse(self) -> Array:
        """Dense inverse C^{-1}: (d, d)."""
        return self.solve(np.eye(self.size))


def _divide_rows(matrix: Array, scale: Array) -> Array:
    return matrix / scale if scale.ndim == 0 else matrix / scale[:, None]


def _subtract_product(white: Array, inside: Array, axes: Array) -> None:
    """Subtract ``inside @ axes.T`` from ``white`` in place, without a temporary array of its size."""
    if white.size and white.flags.c_contiguous:
        dgemm(-1.0, axes.T, inside.T, 1.0, white.T, trans_a=True, overwrite_c=True)
    else:
        white -= inside @ axes.T


def _unit_rows(positions: Index, size: int) -> Array:
    rows = np.zeros((positions.size, size))
    rows[np.arange(positions.size), positions] = 1.0
    return rows
