"""Triangular factors of the scatter, exact or sketched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """Weight, mean and a factor R with R'R = scatter, by orthogonal transformations only.

    A scatter matrix loses every singular value of the data below sqrt(eps) times the largest;
    its root keeps them down to eps. At most d rows, fewer when there are fewer rows of data.
    """

    weight: float
    mean: Array  # (d,)
    factor: Array  # R: (r, d), r <= d
    count: int  # rows with a positive weight
    complete: bool = True  # whether every cell is observed and finite; mean and factor mean nothing if not

    @classmethod
    def of(cls, block: Block) -> Root:
        """Summarise a block, piece by piece, up to the first piece with a cell that is missing or infinite."""
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
        mean = (w @ x) / weight
        x -= mean
        left = (w @ x) / weight  # the rounding error of the mean, which tiny noise can feel
        x -= left
        x *= np.sqrt(w)[:, None]
        return cls(weight, mean + left, _triangle(x), int(np.count_nonzero(w)))

    def merge(self, other: Root) -> Root:
        """Triangularise both factors and the row that joins their means."""
        if not (self.complete and other.complete):
            weight, count = self.weight + other.weight, self.count + other.count
            return replace(other if self.complete else self, weight=weight, count=count)
        if other.weight == 0:
            return self
        weight, mean, rows = stacked(self, other)
        return Root(weight, mean, _triangle(rows), self.count + other.count)

    @property
    def energy(self) -> float:
        """Trace of the scatter; infinite, without a warning, when the squares are out of range."""
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
        """Root of the scatter of the same rows with each feature multiplied by a constant: (d,)."""
        return replace(self, mean=self.mean * scale, factor=self.factor * scale)

    def as_rows(self) -> tuple[Array, Array]:
        """Rows (2r, d) and weights (2r,) with this weight, mean and scatter.

        Complete data of any length are worth these few rows to every solver of this library.
        """
        r = self.factor.shape[0]
        deviation = self.factor * np.sqrt(r / self.weight)
        rows = np.vstack([self.mean + deviation, self.mean - deviation])
        return rows, np.full(2 * r, self.weight / (2 * r))


class Factor(Protocol):
    """Rows R about a mean, that stand for more rows with the same scatter R'R."""

    @property
    def weight(self) -> float:
        """How many rows those are."""
        ...

    @property
    def mean(self) -> Array:
        """Mean of the rows: (d,)."""
        ...

    @property
    def factor(self) -> Array:
        """R: (r, d)."""
        ...


def stacked(one: Factor, other: Factor) -> tuple[float, Array, Array]:
    """Weight, mean and factor of both: the rows of the two, and one more that joins their means."""
    weight = one.weight + other.weight
    shift = other.mean - one.mean
    joint = np.sqrt(one.weight * other.weight / weight) * shift
    rows = np.vstack([one.factor, other.factor, joint]) if one.weight else other.factor
    return weight, one.mean + shift * (other.weight / weight), rows


def _triangle(x: Array) -> Array:
    if x.shape[0] <= x.shape[1]:
        return x
    return np.asarray(np.linalg.qr(x, mode="r"))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    r"""Weight, mean and a factor B of at most ``size`` rows, with a certificate.

    Rows are appended and the smallest singular values are dropped (Ross, Lim, Lin & Yang 2008). With A the
    centred rows,

    .. math:: B^\top B \preceq A^\top A \preceq B^\top B + \delta I

    where :math:`\delta`, ``lost``, adds up the largest squared singular value of each time, and the energy
    of all that was dropped, ``dropped``, is known exactly: so are the trace of the scatter and its diagonal.
    """

    size: int
    weight: float
    mean: Array  # (d,)
    factor: Array  # B: (r, d), r <= size
    dropped: float  # tr A'A - tr B'B
    lost: float  # no eigenvalue of A'A is further above that of B'B
    count: int  # rows with a positive weight
    squares: Array  # diagonal of A'A: (d,)

    @classmethod
    def empty(cls, size: int, d: int) -> Sketch:
        """Sketch of no rows of ``d`` features."""
        return cls(size, 0.0, np.zeros(d), np.empty((0, d)), 0.0, 0.0, 0, np.zeros(d))

    @classmethod
    def of(cls, size: int, block: Block) -> Sketch:
        """Summarise a block, piece by piece."""
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
        mean = (w @ x) / weight
        x -= mean
        x *= np.sqrt(w)[:, None]
        return cls(size, weight, mean, x, 0.0, 0.0, int(np.count_nonzero(w)), np.einsum("ij,ij->j", x, x))

    def merge(self, other: Sketch) -> Sketch:
        """Put both factors and the row that joins their means on top of each other, and drop what is too much."""
        if other.weight == 0:
            return self
        weight, mean, rows = stacked(self, other)
        factor, squares = _leading(rows, self.size)
        between = np.square(other.mean - self.mean) * (self.weight * other.weight / weight)
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
        """Every row counted for a ``share`` of what it was."""
        return replace(
            self,
            weight=share * self.weight,
            factor=np.sqrt(share) * self.factor,
            dropped=share * self.dropped,
            lost=share * self.lost,
            squares=share * self.squares,
        )


def _leading(rows: Array, size: int) -> tuple[Array, Array]:
    """The leading singular vectors times their values: (size, d); and the squares of the other values."""
    if len(rows) <= size:
        return rows, np.zeros(0)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return vectors[:, : -size - 1 : -1].T @ rows, np.maximum(values[:-size], 0.0)
