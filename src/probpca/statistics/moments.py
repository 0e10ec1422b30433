"""Means, variances and scatter matrices, computed from centred values throughout."""

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
    """Total weight, mean and scatter matrix: the sufficient statistics of a Gaussian for complete rows.

    Attributes
    ----------
    weight : float
        Sum of the row weights.
    mean : ndarray of shape (d,)
        Weighted mean of the rows.
    scatter : ndarray of shape (d, d)
        Sum of w (x - mean)(x - mean)'.
    count : int
        Number of rows with positive weight.
    complete : bool
        Whether every cell is observed and finite; if not, ``mean`` and ``scatter`` are NaN.
    """

    weight: float
    mean: Array
    scatter: Array
    count: int
    complete: bool = True

    @classmethod
    def of(cls, block: Block, dtype: type[np.floating[Any]] = np.float64) -> Moments:
        """Compute the moments of a block.

        Products within a piece of the block are computed in ``dtype``, and added up in float64. Pieces have at least
        1.5 d rows, so that most of the time is spent in matrix products. In float32 the diagonal is summed separately,
        because rounding errors of sums of squares do not cancel out. The computation stops at the first missing or
        infinite cell, and ``complete`` is then false.
        """
        centre = centre_near_mean(block)
        d, weight = centre.size, block.total_weight
        if not _may_be_complete(block, centre):
            return cls._incomplete(block)
        sums, squares, scatter = np.zeros(d), np.zeros(d), np.zeros((d, d))
        with workspace() as work:
            for rows, weighted, centred in deviations(block, centre, dtype, work, min_rows=3 * d // 2):
                if not (np.isfinite(weighted.sum()) or np.isfinite(block.raw(rows)).all()):
                    return cls._incomplete(block)
                sums += weighted
                scatter += np.matmul(centred.T, centred, out=work.array("product", (d, d), dtype))
                if dtype == np.float32:
                    squares += column_squares(centred)
        if dtype == np.float32:
            np.fill_diagonal(scatter, squares)
        shift = sums / max(weight, TINY)
        _add_outer(scatter, shift, -weight)
        return cls(weight, centre + shift, scatter, block.count)

    @classmethod
    def _incomplete(cls, block: Block) -> Moments:
        d = block.n_features
        return cls(block.total_weight, np.full(d, np.nan), np.full((d, d), np.nan), block.count, complete=False)

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows, by a pairwise update that never subtracts two large second moments."""
        weight, count = self.weight + other.weight, self.count + other.count
        if not (self.complete and other.complete):
            return replace(other if self.complete else self, weight=weight, count=count)
        if weight == 0:
            return self
        shift = other.mean - self.mean
        scatter = self.scatter + other.scatter
        _add_outer(scatter, shift, self.weight * (other.weight / weight))
        return Moments(weight, self.mean + shift * (other.weight / weight), scatter, count)

    def faded(self, share: float) -> Moments:
        """Moments with the weight of every row multiplied by ``share``."""
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


CHUNK_ROWS = 32
"""Number of rows that are summed in float32 one after the other: rounding errors of longer sums do not cancel out."""


def column_squares(x: Floats) -> Array:
    """Sum of the squares of each column, of a few rows at a time in the precision of x: (d,)."""
    if x.dtype == np.float64:
        return np.einsum("ij,ij->j", x, x)
    whole = len(x) // CHUNK_ROWS * CHUNK_ROWS
    chunks, last = x[:whole].reshape(-1, CHUNK_ROWS, x.shape[1]), x[whole:]
    total = np.einsum("abj,abj->aj", chunks, chunks).sum(axis=0, dtype=np.float64)
    return np.asarray(total + np.einsum("ij,ij->j", last, last))


def column_sums(w: Floats, x: Floats) -> Array:
    """Sum of w x over the rows for each column, of a few rows at a time in the precision of x: (d,)."""
    if x.dtype == np.float64:
        return np.asarray(w @ x)
    whole = len(x) // CHUNK_ROWS * CHUNK_ROWS
    chunks, of_chunk = x[:whole].reshape(-1, CHUNK_ROWS, x.shape[1]), w[:whole].reshape(-1, 1, CHUNK_ROWS)
    total = (of_chunk @ chunks).sum(axis=(0, 1), dtype=np.float64)
    return np.asarray(total + w[whole:] @ x[whole:])


def _add_outer(matrix: Array, shift: Array, factor: float) -> None:
    if factor != 0:
        matrix += np.outer(shift * factor, shift)


def centre_near_mean(block: Block, sample_rows: tuple[int, int] = (64, 1024), near: float = 3.0) -> Array:
    """Return a point near the mean (d,), in the precision of the rows, to compute deviations from.

    The point is the mean of up to a thousand rows spread over the block. Correcting the sums for its distance from
    the true mean costs at most one digit for a thousand rows and three for a million, in contrived cases only. With
    weights such a sample could be far off, and the weighted mean itself is used. If zero is within ``near`` standard
    deviations of the mean in every column, the point is zero and nothing needs to be subtracted. For a constant
    column the point is its value, so that deviations are exactly zero however large the value is.
    """
    n, d = block.n_rows, block.n_features
    if not n:
        return np.zeros(d)
    if block.weight is None:
        first = block.raw(slice(0, 1))[0].astype(np.float64)
        size = int(np.clip(n // 16, *sample_rows))
        sample = block.centred(slice(0, n, -(-n // size)), first)
        shift = sample.mean(axis=0)
        if not block.is_sparse:
            square = np.einsum("ij,ij->j", sample, sample) / len(sample) - shift**2
            if ((first + shift) ** 2 <= near**2 * square).all():
                return np.zeros(d)
    else:
        start = int(np.argmax(block.weight))
        first, sums = block.raw(slice(start, start + 1))[0].astype(np.float64), np.zeros(d)
        with workspace() as work:
            for rows in block.pieces():
                sums += block.weight[rows] @ block.centred(rows, first, work=work)
        shift = sums / max(block.total_weight, TINY)
    return (first + shift).astype(block.values.dtype).astype(np.float64)


def subtract_mean(x: Any, w: Array) -> Array:
    """Subtract the weighted mean of some rows from them, in place, and return it: (d,).

    Deviations from the row of the largest weight are averaged, so that a constant column becomes exactly zero however
    large its value is. A second round removes the rounding error of the first, which matters if the noise is tiny.
    """
    first = x[np.argmax(w)].copy()
    relative = (w / w.max()).astype(x.dtype)  # equal weights are 1, with which whole numbers are summed exactly
    x -= first
    mean, total = first.astype(np.float64), relative.sum()
    for _ in range(2):
        shift = relative @ x / total
        x -= shift
        mean += shift
    return np.asarray(mean)


def _may_be_complete(block: Block, centre: Array) -> bool:
    """Whether the block can be complete; all cells are checked only if the centre is not finite."""
    if block.precision is not None or block.unstored_missing:
        return False
    if np.isfinite(centre).all():
        return True
    return all(bool(np.isfinite(block.raw(rows)).all()) for rows in block.pieces())


def deviations(
    block: Block, centre: Array, dtype: type[np.floating[Any]], work: Workspace, *, min_rows: int = MIN_PIECE_ROWS
) -> Iterator[tuple[slice, Array, Floats]]:
    """Yield for each piece of a block its rows, the weighted sum of x - centre (d,), and sqrt(w) (x - centre).

    The last array lives in the workspace and is overwritten by the next piece.
    """
    as_they_are = block.weight is None and block.values.dtype == dtype and not block.is_sparse and not centre.any()
    for rows in block.pieces(min_rows=min_rows):
        centred = block.raw(rows) if as_they_are else block.centred(rows, centre, dtype, work)
        w = block.weight_of(rows).astype(dtype, copy=False)
        weighted = column_sums(w, centred)
        if block.weight is not None:
            centred *= np.sqrt(w)[:, None]
        yield rows, weighted, centred


@final
@dataclass(frozen=True, slots=True, eq=False)
class ColumnSummary:
    """Mean, variance and numbers of missing and infinite cells of each feature.

    Here w is the weight of a row and omega the relative precision of a cell.

    Attributes
    ----------
    count : int
        Number of rows with positive weight and at least one observed cell.
    total_weight : float
        Sum of w over the rows with at least one observed cell.
    observed : ndarray of shape (d,)
        Sum of w over the observed cells of each feature.
    precision : ndarray of shape (d,)
        Sum of w omega over the observed cells of each feature; equal to ``observed`` if omega = 1.
    mean : ndarray of shape (d,)
        Mean of the observed cells, weighted by w omega; 0 for a feature that was never observed.
    squares : ndarray of shape (d,)
        Sum of w omega (x - mean)^2.
    missing : ndarray of shape (d,)
        Unweighted number of missing cells of each feature.
    infinite : ndarray of shape (d,)
        Unweighted number of infinite cells of each feature.
    complete : bool
        Whether every cell is observed and all have the same precision.
    """

    count: int
    total_weight: float
    observed: Array
    precision: Array
    mean: Array
    squares: Array
    missing: Array
    infinite: Array
    complete: bool

    @property
    def variance(self) -> Array:
        """Variance of each feature over its observed cells: (d,)."""
        return self.squares / np.maximum(self.precision, TINY)

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all features; for complete rows the trace of the covariance matrix."""
        return float(self.variance.sum())

    def rescaled(self, scale: Array) -> Self:
        """Summary of the same rows with each feature multiplied by a constant: (d,)."""
        return replace(self, mean=self.mean * scale, squares=self.squares * np.square(scale))

    @property
    def is_finite(self) -> bool:
        """Whether all observed values and the sums of their squares are finite."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.squares).all())

    @classmethod
    def of(cls, block: Block, dtype: type[np.floating[Any]] = np.float64) -> Self:
        """Summarise the columns of a block; squares within a piece of complete rows are computed in ``dtype``.

        Rows are treated as complete until a sum is not finite. Only the rows after that point are summed with a mask
        of their observed cells, so that complete data never pay for one.
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
        """Summarise rows as complete up to the first sum that is not finite, and the rest with a mask."""
        centre = centre_near_mean(block)
        if not np.isfinite(centre).all():
            return cls._of_masked(block)
        sums, squares = np.zeros(centre.size), np.zeros(centre.size)
        summed = block.n_rows
        with workspace() as work:
            for rows, weighted, centred in deviations(block, centre, dtype, work):
                about = column_squares(centred)
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
        pieces = block.pieces(min_rows=1, size=2**21)  # bytes: a mask and two copies fit into cache
        return cls._merged(map(cls._of_cells, map(block.take, pieces)), block.n_features)

    @classmethod
    def _of_cells(cls, block: Block) -> Self:
        """Summarise dense rows with a mask of their observed cells."""
        w, seen = block.weights, ~np.isnan(block.values)
        if block.precision is not None:
            seen &= block.precision > 0
        mask = seen.astype(np.float64)
        omega = mask if block.precision is None else np.where(seen, block.precision, 0.0)
        heavy = (seen if block.weight is None and omega is mask else omega * w[:, None]).argmax(axis=0)
        first = block.values[heavy, np.arange(block.n_features)].astype(np.float64)
        first = np.where(seen[heavy, np.arange(block.n_features)], first, 0.0)
        x = np.where(seen, block.values, first)
        x -= first  # exactly zero in a constant column, however large its value is
        observed = w @ mask
        missing = block.n_rows - (observed if block.weight is None else np.count_nonzero(seen, axis=0))
        precision = observed if omega is mask else w @ omega
        shift = (w @ (x if omega is mask else omega * x)) / np.maximum(precision, TINY)
        mean = first + shift
        infinite = np.zeros(mean.size) if np.isfinite(mean).all() else (np.isinf(block.values) & seen).sum(axis=0)
        x -= shift
        x *= mask
        squares = w @ np.square(x, out=x) if omega is mask else np.einsum("ij,ij,ij,i->j", x, x, omega, w)
        present = seen.any(axis=1)
        count, weight = int(np.count_nonzero(w[present])), float(w @ present)
        complete = block.precision is None and not missing.any()
        return cls(count, weight, observed, precision, mean, squares, missing, infinite, complete)

    @classmethod
    def _of_sparse(cls, block: Block) -> Self:
        """Summarise sparse rows from their stored cells; cells that are not stored are missing, or zeros."""
        values, d, n, w = block.values, block.n_features, block.n_rows, block.weights
        plain = block.weight is None and block.precision is None and not block.unstored_missing
        if plain and np.isfinite(values.data.sum(dtype=np.float64)):
            return cls._of_stored(values)
        of_cell = np.repeat(w, np.diff(values.indptr))
        seen = ~np.isnan(values.data)
        omega = seen.astype(np.float64) if block.precision is None else np.where(seen, block.precision, 0.0)
        seen &= omega > 0

        def sums(of_stored: Array) -> Array:
            return np.asarray(np.bincount(values.indices, of_stored, minlength=d), np.float64)

        counted = (of_cell > 0).astype(np.float64)
        full = block.unstored_missing | (sums(counted) == np.count_nonzero(w))  # a difference would be rounded
        zeros, first = np.where(full, 0.0, w.sum() - sums(of_cell)), np.zeros(d)
        order = np.argsort(of_cell * omega, kind="stable")
        order = order[seen[order] & (of_cell[order] > 0)]
        first[values.indices[order]] = values.data[order]  # of the heaviest row: the value of a constant column
        first = np.where(zeros > 0, 0.0, first)
        x = np.where(seen, values.data - first[values.indices], 0.0)
        observed, precision = sums(of_cell * seen) + zeros, sums(of_cell * omega) + zeros
        mean = first + sums(of_cell * omega * x) / np.maximum(precision, TINY)
        x = np.where(seen, values.data - mean[values.indices], 0.0)
        squares = sums(of_cell * omega * x**2) + zeros * mean * mean
        missing = n - sums(seen) if block.unstored_missing else sums(~seen)
        infinite = np.zeros(d) if np.isfinite(mean).all() else sums(np.isinf(values.data) & seen)
        stored = np.bincount(row_of_cell(values), seen, n)
        present = stored > 0 if block.unstored_missing else np.diff(values.indptr) - stored < d
        count, weight = int(np.count_nonzero(w[present])), float(w @ present)
        complete = block.precision is None and not (block.unstored_missing or missing.any())
        return cls(count, weight, observed, precision, mean, squares, missing, infinite, complete)

    @classmethod
    def _of_stored(cls, values: Any) -> Self:
        """Summarise finite sparse rows of weight 1 whose cells are zero where none is stored."""
        n, d = values.shape
        columns, none = values.indices.astype(np.intp), np.zeros(d)
        counts, first = np.bincount(columns, minlength=d), np.zeros(d)
        head = slice(0, int(values.indptr[min(n, 1)]))
        first[columns[head]] = values.data[head]
        first[counts < n] = 0.0
        x = values.data - first[columns]  # exactly zero in a constant column, however large its value is
        shift = np.bincount(columns, x, d) / max(n, 1)
        mean = first + shift
        x -= shift[columns]
        squares = np.bincount(columns, np.square(x, out=x), d) + (n - counts) * mean * mean
        observed = np.full(d, float(n))
        return cls(n if d else 0, float(n if d else 0), observed, observed, mean, squares, none, none, complete=True)

    def merge(self, other: Self) -> Self:
        """Summary of both sets of rows, by a pairwise update that never subtracts two large second moments."""
        precision = self.precision + other.precision
        share = other.precision / np.maximum(precision, TINY)
        with np.errstate(over="ignore", invalid="ignore"):  # is_finite reports infinite sums
            shift = other.mean - self.mean
            mean = self.mean + shift * share
            squares = self.squares + other.squares + shift * (self.precision * share) * shift
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
