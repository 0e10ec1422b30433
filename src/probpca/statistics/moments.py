"""Weight, mean, squared deviations of each feature, and scatter: centred from the start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks.block import MIN_PIECE_ROWS, row_of_cell
from probpca.scratch import workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

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
    def variance(self) -> Array:
        """Variance of each feature: (d,)."""
        return np.diagonal(self.scatter) / max(self.weight, TINY)

    def rescaled(self, scale: Array) -> Moments:
        """Moments of the same rows with each feature multiplied by a constant: (d,)."""
        return replace(self, mean=self.mean * scale, scatter=self.scatter * np.outer(scale, scale))

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


@final
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

    def rescaled(self, scale: Array) -> Self:
        """Summary of the same rows with each feature multiplied by a constant: (d,)."""
        return replace(self, mean=self.mean * scale, squares=self.squares * np.square(scale))

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
