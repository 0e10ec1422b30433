"""Weight, mean and scatter, centred from the start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks.block import MIN_PIECE_ROWS
from probpca.scratch import workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.blocks import Block
    from probpca.scratch import Workspace
    from probpca.typing import Array, Floats

TINY = 1e-300


@final
@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Weight, mean and scatter matrix: all that complete data say about a Gaussian."""

    weight: float
    mean: Array  # (d,)
    scatter: Array  # sum w (x - mean)(x - mean)': (d, d)
    count: int  # rows with a positive weight
    complete: bool = True  # whether every cell is observed and finite; mean and scatter mean nothing if not

    @classmethod
    def of(cls, block: Block, dtype: type[np.floating[Any]] = np.float64) -> Moments:
        """Summarise a block; ``dtype`` is the type of the products within one piece, sums are float64.

        Pieces are half as long again as wide, or longer, so that their products dominate the sums. The sum stops
        at the first piece with a cell that is missing or infinite, and ``complete`` is then false.
        """
        centre = centre_near_mean(block)
        d, weight = centre.size, block.total_weight
        if not _may_be_complete(block, centre):
            return cls._incomplete(block)
        sums, scatter = np.zeros(d), np.zeros((d, d))
        with workspace() as work:
            for rows, weighted, centred in deviations(block, centre, dtype, work, min_rows=3 * d // 2):
                if not (np.isfinite(weighted.sum()) or np.isfinite(block.raw(rows)).all()):
                    return cls._incomplete(block)
                sums += weighted
                scatter += np.matmul(centred.T, centred, out=work.array("product", (d, d), dtype))
        shift = sums / max(weight, TINY)
        _add_outer(scatter, shift, -weight)
        return cls(weight, centre + shift, scatter, block.count)

    @classmethod
    def _incomplete(cls, block: Block) -> Moments:
        d = block.n_features
        return cls(block.total_weight, np.full(d, np.nan), np.full((d, d), np.nan), block.count, complete=False)

    def merge(self, other: Moments) -> Moments:
        """Pairwise update; never subtracts two large second moments."""
        weight, count = self.weight + other.weight, self.count + other.count
        if not (self.complete and other.complete):
            return replace(other if self.complete else self, weight=weight, count=count)
        if weight == 0:
            return self
        shift = other.mean - self.mean
        scatter = self.scatter + other.scatter
        _add_outer(scatter, shift, self.weight * other.weight / weight)
        return Moments(weight, self.mean + shift * (other.weight / weight), scatter, count)

    def faded(self, share: float) -> Moments:
        """Multiply the weight of every row by ``share``."""
        return replace(self, weight=share * self.weight, scatter=share * self.scatter)

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all features; 0 without rows."""
        return float(np.trace(self.scatter)) / self.weight if self.weight else 0.0

    @property
    def covariance(self) -> Array:
        """Covariance of the rows, scatter / weight: (d, d)."""
        # Divide by n, not n - 1: the closed form maximises the likelihood only with the biased covariance.
        return self.scatter / self.weight


def _add_outer(matrix: Array, shift: Array, factor: float) -> None:
    if factor != 0:
        matrix += np.outer(shift * factor, shift)


def centre_near_mean(block: Block, sample_rows: tuple[int, int] = (64, 1024), near: float = 3.0) -> Array:
    """A point near the mean, to take deviations from, that the rows can be subtracted from exactly.

    The mean of up to a thousand rows spread over the block: what the sums about it must be corrected by
    is at most n over their number times what is left: a thousand rows lose at most a digit, a million
    three, in contrived cases only.
    With weights anything may happen to such a sample, and the mean itself is taken. Where zero is as
    near as makes no difference to the digits, within ``near`` standard deviations, it is zero, and nothing need be
    subtracted.
    """
    n, d = block.n_rows, block.n_features
    if block.weight is None:
        size = int(np.clip(n // 16, *sample_rows))
        sample = block.values[:: -(-n // size)] if n else np.zeros((1, d))
        centre = np.asarray(sample.mean(axis=0, dtype=np.float64)).reshape(d)
        if not block.is_sparse:
            square = np.einsum("ij,ij->j", sample, sample) / max(len(sample), 1)
            if ((1 + near**2) * centre**2 <= near**2 * square).all():
                return np.zeros(d)
    else:
        sums = sum((block.weight[rows] @ block.raw(rows) for rows in block.pieces()), np.zeros(d))
        centre = sums / max(block.total_weight, TINY)
    return centre.astype(block.values.dtype).astype(np.float64)


def _may_be_complete(block: Block, centre: Array) -> bool:
    """Whether nothing seen so far is missing or infinite; looks at all cells only if the centre is not finite."""
    if block.precision is not None or block.unstored_missing:
        return False
    if np.isfinite(centre).all():
        return True
    return all(bool(np.isfinite(block.raw(rows)).all()) for rows in block.pieces())


def deviations(
    block: Block, centre: Array, dtype: type[np.floating[Any]], work: Workspace, *, min_rows: int = MIN_PIECE_ROWS
) -> Iterator[tuple[slice, Array, Floats]]:
    """Pieces of a block: their rows, weighted sums of x - centre (d,), and sqrt(w) (x - centre), in the workspace."""
    as_they_are = block.weight is None and block.values.dtype == dtype and not block.is_sparse and not centre.any()
    for rows in block.pieces(min_rows=min_rows):
        centred = block.raw(rows) if as_they_are else block.centred(rows, centre, dtype, work)
        w = block.weight_of(rows).astype(dtype, copy=False)
        weighted = (w @ centred).astype(np.float64, copy=False)
        if block.weight is not None:
            centred *= np.sqrt(w)[:, None]
        yield rows, weighted, centred
