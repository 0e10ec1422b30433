"""Weight, mean and scatter, centred from the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.rows.scratch import scratch

if TYPE_CHECKING:
    from probpca.rows import Block
    from probpca.typing import Array, Floats


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Weight, mean and the sum of squared deviations of each feature."""

    weight: float
    mean: Array  # (d,)
    squares: Array  # sum w (x - mean)^2: (d,)
    count: int  # rows with a positive weight

    @classmethod
    def of(cls, block: Block) -> Spread:
        """Summarise a block, piece by piece."""
        if block.is_sparse:
            return Spread._of_sparse(block)
        d = block.n_features
        total = Spread(0.0, np.zeros(d), np.zeros(d), 0)
        for rows in block.pieces():
            w = block.weight_of(rows)
            mean, centred = _deviations(block, rows, w, np.dtype(np.float64))
            squares = np.einsum("ij,ij->j", centred, centred)
            total = total.merge(cls(float(w.sum()), mean, squares, int(np.count_nonzero(w))))
        return total

    @staticmethod
    def _of_sparse(block: Block) -> Spread:
        """From the stored cells; the others are zeros, each as far from the mean as the mean is from zero."""
        d, values = block.n_features, block.values
        w = block.weight_of(slice(0, block.n_rows))
        weight = float(w.sum())
        cell_weight = np.repeat(w, np.diff(values.indptr))
        stored = np.bincount(values.indices, cell_weight, minlength=d)
        mean = np.bincount(values.indices, cell_weight * values.data, minlength=d) / max(weight, 1e-300)
        deviation = values.data - mean[values.indices]
        squares = np.bincount(values.indices, cell_weight * deviation**2, minlength=d)
        return Spread(weight, mean, squares + (weight - stored) * mean**2, int(np.count_nonzero(w)))

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

        Pieces are at least twice as long as wide, so that their products dominate the sums.
        """
        d = block.n_features
        total = Moments(0.0, np.zeros(d), np.zeros((d, d)), 0)
        for rows in block.pieces(min_rows=2 * d):
            total = total._absorb(block, rows, np.dtype(dtype))
        return total

    def _absorb(self, block: Block, rows: slice, dtype: np.dtype[np.floating]) -> Moments:
        d = block.n_features
        w = block.weight_of(rows)
        mean, centred = _deviations(block, rows, w, dtype)
        product = np.matmul(centred.T, centred, out=scratch("product", (d, d), dtype))
        # The total is this call's own array: add in place, a fresh d x d matrix a piece is felt.
        scatter = self.scatter
        scatter += product
        weight = self.weight + float(w.sum())
        shift = mean - self.mean
        if weight > 0:
            share = float(w.sum()) / weight
            _add_outer(scatter, shift, self.weight * share)
            mean = self.mean + shift * share
        return Moments(weight, mean, scatter, self.count + int(np.count_nonzero(w)))

    def merge(self, other: Moments) -> Moments:
        """Pairwise update; never subtracts two large second moments."""
        weight = self.weight + other.weight
        if weight == 0:
            return self
        shift = other.mean - self.mean
        scatter = self.scatter + other.scatter
        _add_outer(scatter, shift, self.weight * other.weight / weight)
        return Moments(weight, self.mean + shift * (other.weight / weight), scatter, self.count + other.count)

    @property
    def covariance(self) -> Array:
        """S = scatter / weight."""
        # Divide by n, not n - 1: the closed form maximises the likelihood only with the biased covariance.
        return self.scatter / self.weight


def _add_outer(matrix: Array, shift: Array, factor: float) -> None:
    if factor > 0:
        matrix += np.outer(shift * factor, shift)


def _deviations(block: Block, rows: slice, w: Array, dtype: np.dtype[np.floating]) -> tuple[Array, Floats]:
    """Mean of a piece, and its rows minus that mean, times the root of their weights, in scratch."""
    part = block.raw(rows)
    total = w.sum()
    if total == 0:
        return np.zeros(part.shape[1]), scratch("centred", (0, part.shape[1]), dtype)
    centre = (w.astype(part.dtype, copy=False) @ part) / part.dtype.type(total)
    centred = scratch("centred", part.shape, dtype)
    np.subtract(part, centre.astype(dtype, copy=False), out=centred)
    mean = centre.astype(np.float64)
    if part.dtype == np.float32:
        # A sum of float32 values is only roughly their mean; the mean of what is left repairs it.
        left = (w.astype(dtype, copy=False) @ centred) / dtype.type(total)
        centred -= left
        mean += left
    if block.weight is not None:
        centred *= np.sqrt(w).astype(dtype, copy=False)[:, None]
    return mean, centred
