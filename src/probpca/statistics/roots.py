"""A square root of the scatter matrix: twice the work of the matrix, twice the digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

if TYPE_CHECKING:
    from probpca.rows import Block
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

    @classmethod
    def of(cls, block: Block) -> Root:
        """Summarise a block, piece by piece."""
        d = block.n_features
        total = Root(0.0, np.zeros(d), np.empty((0, d)), 0)
        for rows in block.pieces(min_rows=2 * d):
            w = block.weight_of(rows)
            if w.sum() > 0:
                total = total.merge(cls._of_rows(block.raw(rows).astype(np.float64), w))
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
        if other.weight == 0:
            return self
        weight, mean, rows = stacked(self, other)
        return Root(weight, mean, _triangle(rows), self.count + other.count)

    @property
    def energy(self) -> float:
        """Trace of the scatter; infinite, without a warning, when the squares are out of range."""
        with np.errstate(over="ignore"):
            return float(np.square(self.factor).sum())

    def as_rows(self) -> tuple[Array, Array]:
        """Rows (2r, d) and weights (2r,) with this weight, mean and scatter.

        Complete data of any length are worth these few rows to every solver of this library.
        """
        r = self.factor.shape[0]
        spread = self.factor * np.sqrt(r / self.weight)
        rows = np.vstack([self.mean + spread, self.mean - spread])
        return rows, np.full(2 * r, self.weight / (2 * r))


class Factor(Protocol):
    """Rows R about a mean, that stand for more rows with the same scatter R'R."""

    @property
    def weight(self) -> float:
        """How many rows those are."""
        ...

    @property
    def mean(self) -> Array:
        """Their mean: (d,)."""
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
