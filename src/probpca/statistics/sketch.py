"""Factors R of a scatter matrix R'R, exact (``Root``) or of limited size (``Sketch``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from probpca.statistics.moments import subtract_mean

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """Total weight, mean and a factor R of the scatter matrix R'R, computed by orthogonal transformations.

    A scatter matrix loses every singular value of the data below sqrt(eps) times the largest; its factor keeps them
    down to eps.

    Attributes
    ----------
    weight : float
        Sum of the row weights.
    mean : ndarray of shape (d,)
        Weighted mean of the rows.
    factor : ndarray of shape (r, d)
        The factor R; r is at most d, and at most the number of rows.
    count : int
        Number of rows with positive weight.
    complete : bool
        Whether every cell is observed and finite; if not, ``mean`` and ``factor`` are NaN.
    """

    weight: float
    mean: Array
    factor: Array
    count: int
    complete: bool = True

    @classmethod
    def of(cls, block: Block) -> Root:
        """Compute the factor of a block piece by piece, stopping at the first missing or infinite cell."""
        d = block.n_features
        total = Root(0.0, np.zeros(d), np.empty((0, d)), 0)
        plain = block.precision is None and not block.unstored_missing
        for rows in block.pieces(min_rows=2 * d):
            x, w = block.raw(rows).astype(np.float64), block.weight_of(rows)
            if not (plain and (np.isfinite((w @ x).sum()) or np.isfinite(x).all())):
                return cls(block.total_weight, np.full(d, np.nan), np.full((1, d), np.nan), block.count, complete=False)
            if w.sum() > 0:
                total = total.merge(cls._of_rows(x, w))
        return total

    @classmethod
    def _of_rows(cls, x: Array, w: Array) -> Root:
        weight = float(w.sum())
        mean = subtract_mean(x, w)
        x *= np.sqrt(w)[:, None]
        return cls(weight, mean, _triangle(x), int(np.count_nonzero(w)))

    def merge(self, other: Root) -> Root:
        """Factor of both sets of rows, by QR of the two factors and a row for the difference of the means."""
        if not (self.complete and other.complete):
            weight, count = self.weight + other.weight, self.count + other.count
            return replace(other if self.complete else self, weight=weight, count=count)
        if other.weight == 0:
            return self
        weight, mean, rows = stacked(self, other)
        return Root(weight, mean, _triangle(rows), self.count + other.count)

    @property
    def energy(self) -> float:
        """Trace of the scatter matrix; infinite, without a warning, if the squares overflow."""
        with np.errstate(over="ignore"):
            return float(np.square(self.factor).sum())

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all features; 0 without rows."""
        return self.energy / self.weight if self.weight else 0.0

    @property
    def variance(self) -> Array:
        """Variance of each feature: (d,)."""
        return np.einsum("ij,ij->j", self.factor, self.factor) / self.weight

    def rescaled(self, scale: Array) -> Root:
        """Factor for the same rows with each feature multiplied by a constant: (d,)."""
        return replace(self, mean=self.mean * scale, factor=self.factor * scale)

    def as_rows(self) -> tuple[Array, Array]:
        """Rows (2r, d) and weights (2r,) that have the same total weight, mean and scatter matrix.

        A fit to these few rows gives the same result as a fit to the original complete rows.
        """
        r = self.factor.shape[0]
        deviation = self.factor * np.sqrt(r / self.weight)
        rows = np.vstack([self.mean + deviation, self.mean - deviation])
        return rows, np.full(2 * r, self.weight / (2 * r))


class Factor(Protocol):
    """Protocol of summaries with a total weight, a mean and a factor R of the scatter matrix R'R."""

    @property
    def weight(self) -> float:
        """Sum of the row weights."""
        ...

    @property
    def mean(self) -> Array:
        """Mean of the rows: (d,)."""
        ...

    @property
    def factor(self) -> Array:
        """Factor R of the scatter matrix: (r, d)."""
        ...


def stacked(one: Factor, other: Factor) -> tuple[float, Array, Array]:
    """Weight, mean and factor of two summaries together: both factors and a row for the difference of the means."""
    weight = one.weight + other.weight
    shift = other.mean - one.mean
    joint = np.sqrt(one.weight * (other.weight / weight)) * shift
    rows = np.vstack([one.factor, other.factor, joint]) if one.weight else other.factor
    return weight, one.mean + shift * (other.weight / weight), rows


def _triangle(x: Array) -> Array:
    if x.shape[0] <= x.shape[1]:
        return x
    return np.asarray(np.linalg.qr(x, mode="r"))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    r"""Total weight, mean and an approximate factor B of the scatter matrix with at most ``size`` rows.

    Rows are appended to B, and the smallest singular values are dropped when it is full (Ross, Lim, Lin & Yang
    2008). The error has a known bound: with A the centred rows,

    .. math:: B^\top B \preceq A^\top A \preceq B^\top B + \delta I

    where :math:`\delta` is the sum, over all truncations, of the largest squared singular value dropped. The trace
    and the diagonal of the scatter matrix are exact.

    Attributes
    ----------
    size : int
        Largest number of rows of the factor.
    weight : float
        Sum of the row weights.
    mean : ndarray of shape (d,)
        Weighted mean of the rows.
    factor : ndarray of shape (r, d)
        The factor B, r <= ``size``.
    dropped : float
        Dropped part of the trace, tr A'A - tr B'B.
    lost : float
        The bound :math:`\delta` on the error of every eigenvalue of the scatter matrix.
    count : int
        Number of rows with positive weight.
    squares : ndarray of shape (d,)
        Exact diagonal of A'A.
    """

    size: int
    weight: float
    mean: Array
    factor: Array
    dropped: float
    lost: float
    count: int
    squares: Array

    @classmethod
    def empty(cls, size: int, d: int) -> Sketch:
        """Sketch of an empty table with ``d`` features."""
        return cls(size, 0.0, np.zeros(d), np.empty((0, d)), 0.0, 0.0, 0, np.zeros(d))

    @classmethod
    def of(cls, size: int, block: Block) -> Sketch:
        """Sketch of a block with at most ``size`` rows."""
        total = cls.empty(size, block.n_features)
        for start in range(0, block.n_rows, size):
            rows = slice(start, min(start + size, block.n_rows))
            w = block.weight_of(rows)
            if w.sum() > 0:
                total = total.merge(cls._of_rows(size, block.raw(rows).astype(np.float64), w))
        return total

    @classmethod
    def _of_rows(cls, size: int, x: Array, w: Array) -> Sketch:
        weight = float(w.sum())
        mean = subtract_mean(x, w)
        x *= np.sqrt(w)[:, None]
        return cls(size, weight, mean, x, 0.0, 0.0, int(np.count_nonzero(w)), np.einsum("ij,ij->j", x, x))

    def merge(self, other: Sketch) -> Sketch:
        """Sketch of both sets of rows: stack the factors and drop the smallest singular values."""
        if other.weight == 0:
            return self
        weight, mean, rows = stacked(self, other)
        factor, squares = _leading(rows, self.size)
        between = np.square(other.mean - self.mean) * (self.weight * (other.weight / weight))
        return Sketch(
            self.size,
            weight,
            mean,
            factor,
            self.dropped + other.dropped + float(squares.sum()),
            self.lost + other.lost + float(squares.max(initial=0.0)),
            self.count + other.count,
            self.squares + other.squares + between,
        )

    @property
    def variance(self) -> Array:
        """Variance of each feature: (d,)."""
        return self.squares / max(self.weight, 1e-300)

    def faded(self, share: float) -> Sketch:
        """Sketch with the weight of every row multiplied by ``share``."""
        return replace(
            self,
            weight=share * self.weight,
            factor=np.sqrt(share) * self.factor,
            dropped=share * self.dropped,
            lost=share * self.lost,
            squares=share * self.squares,
        )


def _leading(rows: Array, size: int) -> tuple[Array, Array]:
    """Leading right singular vectors times their singular values, (size, d), and the squares of the others."""
    if len(rows) <= size:
        return rows, np.zeros(0)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return vectors[:, : -size - 1 : -1].T @ rows, np.maximum(values[:-size], 0.0)
