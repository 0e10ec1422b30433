"""Summary of each feature: how much of it was observed, its mean, its squared deviations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.blocks.block import row_of_cell
from probpca.scratch import workspace
from probpca.statistics.moments import TINY, centre_near_mean, deviations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from probpca.blocks import Block
    from probpca.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSummary:
    """Mean and squared deviations of the observed cells of each feature, and what is missing or infinite.

    Summaries of two sets of rows merge into the summary of both, whatever their order and sizes.
    """

    count: int  # rows with a positive weight and an observed cell
    total_weight: float  # sum of w over rows with an observed cell
    observed: Array  # sum of w over the observed cells of each feature: (d,)
    precision: Array  # sum of w omega over the observed cells of each feature; equals observed if omega = 1: (d,)
    mean: Array  # mean of the observed cells, weighted by w omega; 0 where nothing was observed: (d,)
    squares: Array  # sum of w omega (x - mean)^2: (d,)
    missing: Array  # number of cells not observed in each feature, each counted once: (d,)
    infinite: Array  # number of infinite cells in each feature, each counted once: (d,)
    complete: bool  # whether rows were stored as complete: every cell observed, all with the same precision

    @property
    def variance(self) -> Array:
        """Variance of each feature over its observed cells: (d,)."""
        return self.squares / np.maximum(self.precision, TINY)

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all features; for complete rows the trace of their covariance."""
        return float(self.variance.sum())

    @property
    def is_finite(self) -> bool:
        """Whether all observed values are finite, and small enough for their squares to be finite too."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.squares).all())

    @classmethod
    def of(cls, block: Block, dtype: type[np.floating[Any]] = np.float64) -> Self:
        """Summarise a block; ``dtype`` is the type of the squares within a piece of complete rows.

        Rows count as complete until a sum is not finite. From there on a mask of the observed cells is
        formed, so that complete rows never pay for one.
        """
        if block.is_sparse:
            pieces = block.stored_pieces(2**20)
            return cls._merged(map(cls._of_sparse, map(block.take, pieces)), block.n_features)
        if block.precision is not None:
            return cls._of_masked(block)
        return cls._of_complete(block, dtype)

    @classmethod
    def _merged(cls, summaries: Iterator[Self], d: int) -> Self:
        zeros = np.zeros(d)
        empty = cls(0, 0.0, zeros, zeros, zeros, zeros, zeros, zeros, complete=True)
        return reduce(cls.merge, summaries, next(summaries, empty))

    @classmethod
    def _of_complete(cls, block: Block, dtype: type[np.floating[Any]]) -> Self:
        """Sums about a point near the mean; what follows the first sum that is not finite goes the other way."""
        centre = centre_near_mean(block)
        if not np.isfinite(centre).all():
            return cls._of_masked(block)
        sums, squares = np.zeros(centre.size), np.zeros(centre.size)
        summed = block.n_rows
        with workspace() as work:
            for rows, weighted, centred in deviations(block, centre, dtype, work):
                about = np.einsum("ij,ij->j", centred, centred)
                if not np.isfinite(weighted.sum() + about.sum()):
                    summed = rows.start
                    break
                sums += weighted
                squares += about
        start = block.take(slice(0, summed)) if summed < block.n_rows else block
        found = cls._from_sums(start, centre, sums, squares)
        return found if start is block else found.merge(cls._of_masked(block.take(slice(summed, block.n_rows))))

    @classmethod
    def _from_sums(cls, block: Block, centre: Array, sums: Array, squares: Array) -> Self:
        weight, d = block.total_weight, centre.size
        shift = sums / max(weight, TINY)
        observed, none = np.full(d, weight), np.zeros(d)
        squares = np.maximum(squares - weight * shift**2, 0.0)
        return cls(block.count, weight, observed, observed, centre + shift, squares, none, none, complete=True)

    @classmethod
    def _of_masked(cls, block: Block) -> Self:
        pieces = block.pieces(min_rows=1, size=2**21)  # bytes: a mask and two copies fit a cache
        return cls._merged(map(cls._of_cells, map(block.take, pieces)), block.n_features)

    @classmethod
    def _of_cells(cls, block: Block) -> Self:
        """The observed cells of dense rows, by a mask."""
        w, seen = block.weights, ~np.isnan(block.values)
        if block.precision is not None:
            seen &= block.precision > 0
        x = np.where(seen, block.values, 0.0).astype(np.float64, copy=False)
        mask = seen.astype(np.float64)
        omega = mask if block.precision is None else np.where(seen, block.precision, 0.0)
        observed = w @ mask
        missing = block.n_rows - (observed if block.weight is None else np.count_nonzero(seen, axis=0))
        precision = observed if omega is mask else w @ omega
        mean = (w @ (x if omega is mask else omega * x)) / np.maximum(precision, TINY)
        infinite = np.zeros(mean.size) if np.isfinite(mean).all() else np.isinf(x).sum(axis=0)
        x -= mean
        x *= mask
        squares = w @ np.square(x, out=x) if omega is mask else np.einsum("ij,ij,ij,i->j", x, x, omega, w)
        present = seen.any(axis=1)
        count, weight = int(np.count_nonzero(w[present])), float(w @ present)
        complete = block.precision is None and not missing.any()
        return cls(count, weight, observed, precision, mean, squares, missing, infinite, complete)

    @classmethod
    def _of_sparse(cls, block: Block) -> Self:
        """From the stored cells; the others are missing, or zeros as far from the mean as the mean from zero."""
        values, d, n, w = block.values, block.n_features, block.n_rows, block.weights
        of_cell = np.repeat(w, np.diff(values.indptr))
        seen = ~np.isnan(values.data)
        omega = seen.astype(np.float64) if block.precision is None else np.where(seen, block.precision, 0.0)
        seen &= omega > 0
        x = np.where(seen, values.data, 0.0)

        def sums(of_stored: Array) -> Array:
            return np.asarray(np.bincount(values.indices, of_stored, minlength=d), np.float64)

        zeros = np.zeros(d) if block.unstored_missing else w.sum() - sums(of_cell)
        observed, precision = sums(of_cell * seen) + zeros, sums(of_cell * omega) + zeros
        mean = sums(of_cell * omega * x) / np.maximum(precision, TINY)
        squares = sums(of_cell * omega * (x - mean[values.indices]) ** 2) + zeros * mean**2
        missing = n - sums(seen) if block.unstored_missing else sums(~seen)
        infinite = np.zeros(d) if np.isfinite(mean).all() else sums(np.isinf(x))
        stored = np.bincount(row_of_cell(values), seen, n)
        present = stored > 0 if block.unstored_missing else np.diff(values.indptr) - stored < d
        count, weight = int(np.count_nonzero(w[present])), float(w @ present)
        complete = block.precision is None and not (block.unstored_missing or missing.any())
        return cls(count, weight, observed, precision, mean, squares, missing, infinite, complete)

    def merge(self, other: Self) -> Self:
        """Pairwise update of each feature; never subtracts two large second moments."""
        precision = self.precision + other.precision
        share = other.precision / np.maximum(precision, TINY)
        with np.errstate(over="ignore", invalid="ignore"):  # is_finite reports infinite sums
            shift = other.mean - self.mean
            mean = self.mean + shift * share
            squares = self.squares + other.squares + shift**2 * (self.precision * share)
        return type(self)(
            self.count + other.count,
            self.total_weight + other.total_weight,
            self.observed + other.observed,
            precision,
            mean,
            squares,
            self.missing + other.missing,
            self.infinite + other.infinite,
            self.complete and other.complete,
        )


class Columns(ColumnSummary):
    """A summary under the names that older callers use."""

    __slots__ = ()

    @property
    def rows(self) -> float:
        """Total weight of the rows with an observed cell."""
        return self.total_weight

    @property
    def weight(self) -> Array:
        """Sum of w omega of each feature: (d,)."""
        return self.precision


class Spread(ColumnSummary):
    """A summary of complete rows under the names that older callers use; its mean is NaN if a cell is missing."""

    __slots__ = ()

    @classmethod
    def of(cls, block: Block, dtype: type[np.floating[Any]] = np.float64) -> Spread:
        """Summarise a block."""
        found = super().of(block, dtype)
        return found if found.complete else replace(found, mean=np.where(found.missing > 0, np.nan, found.mean))

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return self.total_weight

    @property
    def total(self) -> float:
        """Sum of the variances of all features."""
        return self.total_variance
