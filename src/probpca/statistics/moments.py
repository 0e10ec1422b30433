"""Weight, mean and scatter, centred from the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks.block import MIN_PIECE_ROWS
from probpca.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.blocks import Block
    from probpca.typing import Array, Floats

SAMPLE_ROWS = 64, 1024
TINY = 1e-300
NEAR = 3.0
"""Distance of zero from the mean, in standard deviations, up to which rows are summed as they are."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Weight, mean and the sum of squared deviations of each feature."""

    weight: float
    mean: Array  # (d,)
    squares: Array  # sum w (x - mean)^2: (d,)
    count: int  # rows with a positive weight

    @property
    def total(self) -> float:
        """Variance of all features together, tr S; 0 without rows."""
        return float(self.squares.sum()) / self.weight if self.weight else 0.0

    @classmethod
    def of(cls, block: Block, dtype: type[np.floating[Any]] = np.float64) -> Spread:
        """Summarise a block; ``dtype`` is that of the squares within one piece, sums are float64."""
        if block.is_sparse:
            return Spread._of_sparse(block)
        centre = _centre(block)
        sums, squares = np.zeros(centre.size), np.zeros(centre.size)
        for weighted, deviations in _deviations(block, centre, dtype):
            sums += weighted
            squares += np.einsum("ij,ij->j", deviations, deviations)
        weight = block.total_weight
        shift = sums / max(weight, TINY)
        squares = np.maximum(squares - weight * shift**2, 0.0)
        return Spread(weight, centre + shift, squares, block.count)

    @staticmethod
    def _of_sparse(block: Block) -> Spread:
        """From the stored cells; the others are zeros, each as far from the mean as the mean is from zero."""
        d, values = block.n_features, block.values
        w = block.weights
        weight = block.total_weight
        cell_weight = np.repeat(w, np.diff(values.indptr))
        stored = np.bincount(values.indices, cell_weight, minlength=d)
        mean = np.bincount(values.indices, cell_weight * values.data, minlength=d) / max(weight, TINY)
        deviation = values.data - mean[values.indices]
        squares = np.bincount(values.indices, cell_weight * deviation**2, minlength=d)
        return Spread(weight, mean, squares + (weight - stored) * mean**2, block.count)

    def merge(self, other: Spread) -> Spread:
        """Pairwise update; never subtracts two large second moments."""
        weight = self.weight + other.weight
        if weight == 0:
            return self
        shift = other.mean - self.mean
        return Spread(
            weight,
            self.mean + shift * (other.weight / weight),
            self.squares + other.squares + shift**2 * (self.weight * other.weight / weight),
            self.count + other.count,
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Weight, mean and scatter matrix: all that complete data say about a Gaussian."""

    weight: float
    mean: Array  # (d,)
    scatter: Array  # sum w (x - mean)(x - mean)': (d, d)
    count: int  # rows with a positive weight

    @classmethod
    def of(cls, block: Block, dtype: type[np.floating[Any]] = np.float64) -> Moments:
        """Summarise a block; ``dtype`` is that of the products within one piece, sums are float64.

        Pieces are half as long again as wide, or longer, so that their products dominate the sums.
        """
        centre = _centre(block)
        d = centre.size
        sums, scatter = np.zeros(d), np.zeros((d, d))
        for weighted, deviations in _deviations(block, centre, dtype, min_rows=3 * d // 2):
            sums += weighted
            scatter += np.matmul(deviations.T, deviations, out=scratch("product", (d, d), dtype))
        weight = block.total_weight
        shift = sums / max(weight, TINY)
        _add_outer(scatter, shift, -weight)
        return Moments(weight, centre + shift, scatter, block.count)

    def merge(self, other: Moments) -> Moments:
        """Pairwise update; never subtracts two large second moments."""
        weight = self.weight + other.weight
        if weight == 0:
            return self
        shift = other.mean - self.mean
        scatter = self.scatter + other.scatter
        _add_outer(scatter, shift, self.weight * other.weight / weight)
        return Moments(weight, self.mean + shift * (other.weight / weight), scatter, self.count + other.count)

    def faded(self, share: float) -> Moments:
        """Every row counted for a ``share`` of what it was."""
        return Moments(share * self.weight, self.mean, share * self.scatter, self.count)

    @property
    def covariance(self) -> Array:
        """S = scatter / weight."""
        # Divide by n, not n - 1: the closed form maximises the likelihood only with the biased covariance.
        return self.scatter / self.weight


def _add_outer(matrix: Array, shift: Array, factor: float) -> None:
    if factor != 0:
        matrix += np.outer(shift * factor, shift)


def _centre(block: Block) -> Array:
    """A point near the mean, to take deviations from, that the rows can be subtracted from exactly.

    The mean of up to a thousand rows spread over the block: what the sums about it must be corrected by
    is at most n over their number times what is left: a thousand rows lose at most a digit, a million
    three, in contrived cases only.
    With weights anything may happen to such a sample, and the mean itself is taken. Where zero is as
    near as makes no difference to the digits, it is zero, and nothing need be subtracted.
    """
    n, d = block.n_rows, block.n_features
    if block.weight is None:
        size = int(np.clip(n // 16, *SAMPLE_ROWS))
        sample = block.values[:: -(-n // size)] if n else np.zeros((1, d))
        centre = np.asarray(sample.mean(axis=0, dtype=np.float64)).reshape(d)
        if not block.is_sparse and (np.abs(centre) <= NEAR * sample.std(axis=0)).all():
            return np.zeros(d)
    else:
        sums = sum((block.weight[rows] @ block.raw(rows) for rows in block.pieces()), np.zeros(d))
        centre = sums / max(block.total_weight, TINY)
    return centre.astype(block.values.dtype).astype(np.float64)


def _deviations(
    block: Block, centre: Array, dtype: type[np.floating[Any]], min_rows: int = MIN_PIECE_ROWS
) -> Iterator[tuple[Array, Floats]]:
    """Pieces of rows minus ``centre`` times the roots of their weights, in scratch, and their weighted sums."""
    as_they_are = block.weight is None and block.values.dtype == dtype and not block.is_sparse and not centre.any()
    for rows in block.pieces(min_rows=min_rows):
        centred = block.raw(rows) if as_they_are else block.centred(rows, centre, dtype)
        w = block.weight_of(rows).astype(dtype, copy=False)
        weighted = (w @ centred).astype(np.float64, copy=False)
        if block.weight is not None:
            centred *= np.sqrt(w)[:, None]
        yield weighted, centred
