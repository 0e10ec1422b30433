"""A few rows in place of many: for streams whose scatter matrix would be too large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.statistics.roots import stacked

if TYPE_CHECKING:
    from probpca.rows import Block
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    r"""Weight, mean and a factor B of at most ``size`` rows, with a certificate.

    Rows are appended and the smallest singular values are dropped (Ross, Lim, Lin & Yang 2008). With A the
    centred rows,

    .. math:: B^\top B \preceq A^\top A \preceq B^\top B + \delta I

    where :math:`\delta`, ``lost``, adds up the largest squared singular value of each time, and the energy
    of all that was dropped, ``dropped``, is known exactly: so is the trace of the scatter.
    """

    size: int
    weight: float
    mean: Array  # (d,)
    factor: Array  # B: (r, d), r <= size
    dropped: float  # tr A'A - tr B'B
    lost: float  # no eigenvalue of A'A is further above that of B'B
    count: int  # rows with a positive weight

    @classmethod
    def of(cls, size: int, block: Block) -> Sketch:
        """Summarise a block, piece by piece."""
        total = cls(size, 0.0, np.zeros(block.n_features), np.empty((0, block.n_features)), 0.0, 0.0, 0)
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
        return cls(size, weight, mean, x, 0.0, 0.0, int(np.count_nonzero(w)))

    def merge(self, other: Sketch) -> Sketch:
        """Put both factors and the row that joins their means on top of each other, and drop what is too much."""
        if other.weight == 0:
            return self
        weight, mean, rows = stacked(self, other)
        factor, squares = _leading(rows, self.size)
        return Sketch(
            self.size,
            weight,
            mean,
            factor,
            self.dropped + other.dropped + float(squares.sum()),
            self.lost + other.lost + float(squares.max(initial=0.0)),
            self.count + other.count,
        )

    def faded(self, share: float) -> Sketch:
        """Every row counted for a ``share`` of what it was."""
        return replace(
            self,
            weight=share * self.weight,
            factor=np.sqrt(share) * self.factor,
            dropped=share * self.dropped,
            lost=share * self.lost,
        )


def _leading(rows: Array, size: int) -> tuple[Array, Array]:
    """The leading singular vectors times their values: (size, d); and the squares of the other values."""
    if len(rows) <= size:
        return rows, np.zeros(0)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return vectors[:, : -size - 1 : -1].T @ rows, np.maximum(values[:-size], 0.0)
