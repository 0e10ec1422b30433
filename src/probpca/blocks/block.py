"""Blocks: the rows that one worker processes at a time."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

import numpy as np
from scipy import sparse

from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from probpca.scratch import Workspace
    from probpca.typing import Array, Floats, Index

    Words = npt.NDArray[np.uint64]

PIECE_BYTES = 4 * 2**20
MIN_PIECE_ROWS = 64
MAX_PIECE_ROWS = 8192


@final
@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Dense or sparse rows with their weights; NaN is a missing cell.

    A block may be as large as the table, because functions process it in pieces that fit into cache.
    """

    values: Any  # (b, d) ndarray of float32 / float64, or scipy CSR
    weight: Array | None = None  # weights of the rows, as frequencies: (b,); None if all are 1
    precision: Any = None  # relative precision of each cell, 0 if missing: (b, d), or like CSR data; None if all are 1
    unstored_missing: bool = False  # whether cells that a CSR matrix does not store are missing; otherwise zeros
    others: Any = None  # columns of the same rows that are not features: a pyarrow RecordBatch
    start: int | None = None  # position of the first row in the table; None if it is not known

    @property
    def n_rows(self) -> int:
        """Number of rows b."""
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return int(self.values.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are a sparse matrix."""
        return sparse.issparse(self.values)

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return float(self.n_rows) if self.weight is None else float(self.weight.sum())

    @property
    def count(self) -> int:
        """Number of rows with positive weight."""
        return self.n_rows if self.weight is None else int(np.count_nonzero(self.weight))

    @property
    def weights(self) -> Array:
        """Weights of all rows: (b,)."""
        return self.weight_of(slice(0, self.n_rows))

    def weight_of(self, rows: slice) -> Array:
        """Weights of a range of rows: (rows,)."""
        if self.weight is None:
            return np.ones(rows.stop - rows.start)
        return self.weight[rows]

    def pieces(self, *, min_rows: int = MIN_PIECE_ROWS, size: int = PIECE_BYTES) -> Iterator[slice]:
        """Ranges of rows of about equal length, of about ``size`` bytes each, but at least ``min_rows`` rows."""
        n, step = self.n_rows, min(size // (8 * max(self.n_features, 1)), MAX_PIECE_ROWS)
        count = min(-(-n // max(step, 1)), n // min_rows)
        step = max(-(-n // max(count, 1)), 1)
        for start in range(0, self.n_rows, step):
            yield slice(start, min(start + step, self.n_rows))

    def stored_pieces(self, cells: int) -> Iterator[slice]:
        """Ranges of sparse rows that store about ``cells`` values each, but at least 64 rows."""
        step = max(int(cells * self.n_rows / max(self.values.nnz, 1)), MIN_PIECE_ROWS)
        for start in range(0, self.n_rows, step):
            yield slice(start, min(start + step, self.n_rows))

    def raw(self, rows: slice) -> Floats:
        """A range of rows as a dense array, as a view if possible."""
        part = self.values[rows]
        return cast("Floats", part.toarray() if self.is_sparse else part)

    def centred(
        self, rows: slice, mean: Array, dtype: npt.DTypeLike = np.float64, work: Workspace | None = None
    ) -> Any:
        """A range of rows minus ``mean``, (rows, d), in the buffer "centred" of a workspace if one is given."""
        x = self.raw(rows)
        out = np.empty(x.shape, dtype) if work is None else work.array("centred", x.shape, dtype)
        if x.dtype == out.dtype:
            return np.subtract(x, mean.astype(dtype, copy=False), out=out)
        # Two passes over a cached piece are faster than numpy's buffered mixed-type subtraction.
        np.copyto(out, x, casting="same_kind")
        out -= mean.astype(dtype, copy=False)
        return out

    def take(self, rows: slice) -> Block:
        """Block of a range of rows, sharing the memory of this one."""
        precision = self.precision
        if self.is_sparse:
            values = _sparse_rows(self.values, rows)
            stored = slice(self.values.indptr[rows.start], self.values.indptr[rows.stop])
            precision = None if precision is None else precision[stored]
        else:
            values = self.values[rows]
            precision = None if precision is None else precision[rows]
        weight = None if self.weight is None else self.weight[rows]
        others = None if self.others is None else self.others.slice(rows.start, rows.stop - rows.start)
        start = None if self.start is None else self.start + rows.start
        return Block(values, weight, precision, self.unstored_missing, others, start)

    def pick(self, rows: Index) -> Block:
        """Copy of the rows at the given positions, without the other columns."""
        precision = self.precision
        if precision is not None:
            precision = with_data(self.values, precision)[rows].data if self.is_sparse else precision[rows]
        weight = None if self.weight is None else self.weight[rows]
        values = self.values[rows] if self.is_sparse else self.values.take(rows, axis=0)
        return Block(values, weight, precision, self.unstored_missing)

    @property
    def is_complete(self) -> bool:
        """Whether every cell is observed and all have the same precision; reads the rows once."""
        stored = self.values.data if self.is_sparse else self.values
        plain = self.precision is None and not self.unstored_missing
        return plain and not (stored.size and np.isnan(np.min(stored)))


def dense_values(block: Block) -> Array:
    """Rows as a dense float64 array with NaN in missing cells: (b, d)."""
    if not block.is_sparse:
        values = np.array(block.values, dtype=np.float64)
        if block.precision is not None:
            values[block.precision == 0] = np.nan
        return values
    stored = block.values.data if block.precision is None else np.where(block.precision > 0, block.values.data, np.nan)
    return _filled(block, stored, np.nan if block.unstored_missing else 0.0)


def dense_precision(block: Block) -> Array:
    """Relative precisions of the cells as a dense array (b, d); a view of ones if all are equal."""
    if block.precision is None:
        return np.broadcast_to(1.0, block.values.shape)
    return _filled(block, block.precision, 0.0) if block.is_sparse else block.precision


def _filled(block: Block, stored: Any, elsewhere: float) -> Array:
    out = np.full(block.values.shape, elsewhere)
    out[row_of_cell(block.values), block.values.indices] = stored
    return out


def row_of_cell(values: Any) -> Index:
    """Row of each cell that a CSR matrix stores: (stored,)."""
    return np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))


def with_data(values: Any, data: Any) -> Any:
    """CSR matrix with the same stored cells and other values; explicit zeros stay stored."""
    return share(sparse.csr_array(values.shape, dtype=data.dtype), data, values.indices, values.indptr)


def _sparse_rows(values: Any, rows: slice) -> Any:
    """Range of rows of a CSR matrix, without a copy."""
    first, last = values.indptr[rows.start], values.indptr[rows.stop]
    part = sparse.csr_array((rows.stop - rows.start, values.shape[1]), dtype=values.dtype)
    pointers = values.indptr[rows.start : rows.stop + 1] - first
    return share(part, values.data[first:last], values.indices[first:last], pointers)


def with_units(values: Any, scale: Array) -> Any:
    """Dense or CSR matrix with each column multiplied by a constant, in float64; explicit zeros stay stored.

    In float32 the products would be rounded in proportion to the values, which may be far from zero and close together.
    """
    if not sparse.issparse(values):
        return values * scale
    return with_data(values, values.data * scale[values.indices])


def observed_cells(block: Block) -> Any:
    """Whether each cell is observed: (b, d), or for each stored cell of sparse rows."""
    stored = block.values.data if block.is_sparse else block.values
    seen = ~np.isnan(stored)
    return seen if block.precision is None else seen & (block.precision > 0)


def deviations_or_zero(centre: Array, block: Block) -> Block:
    """Deviations of the rows from ``centre`` (d,), with 0 in missing cells.

    Sparse rows whose unstored cells are missing stay sparse.
    """
    if not (block.is_sparse and block.unstored_missing):
        deviation = dense_values(block) - centre
        return Block(np.where(np.isnan(deviation), 0.0, deviation), block.weight)
    values = block.values
    deviation = np.where(observed_cells(block), values.data - centre[values.indices], 0.0)
    return Block(with_data(values, deviation), block.weight)


def transposed(values: Any) -> Any:
    """Transpose of a CSR matrix, without a copy."""
    turned = sparse.csc_array(values.shape[::-1], dtype=values.dtype)
    return share(turned, values.data, values.indices, values.indptr)


def share(matrix: Any, data: Any, indices: Any, pointers: Any) -> Any:
    """Set the arrays of a sparse matrix without the copies of views that its constructor would make."""
    matrix.data, matrix.indices, matrix.indptr = data, indices, pointers
    return matrix


Rows: TypeAlias = "Block | Floats | sparse.sparray | sparse.spmatrix | list[Any]"
"""Rows that inference accepts: a block, or anything that converts to a matrix of floats."""


def as_block(x: Any, n_features: int | None = None) -> Block:
    """Convert a matrix-like ``x`` to a block; a single row may be a vector of length ``n_features``.

    Masked cells of a NumPy masked array are missing.
    """
    block = x if isinstance(x, Block) else Block(_matrix(x))
    if n_features is not None and block.n_features != n_features:
        msg = f"rows must have {n_features} features, as the model has; got {block.n_features}."
        raise ShapeError(msg)
    return block


def unmasked(x: Any) -> Any:
    """Convert a NumPy masked array, or a list with masked rows, to an array with NaN in masked cells.

    Other values are returned unchanged. Call it before NumPy or scikit-learn convert ``x``: both silently drop masks.
    """
    if isinstance(x, list | tuple) and any(isinstance(row, np.ma.MaskedArray) and row.ndim for row in x):
        x = np.ma.array(x)
    if not isinstance(x, np.ma.MaskedArray):
        return x
    if x.dtype.kind in "cmMV":
        return x.data  # complex numbers, times and records are refused by name, masked or not
    # Objects and text are judged after masked cells have become NaN, because masked values need not be numbers.
    holder = {"f": x.dtype, "b": np.float64, "i": np.float64, "u": np.float64}.get(x.dtype.kind, object)
    values: Any = x.astype(holder, copy=False)
    return values.filled(np.nan)


def _matrix(x: Any) -> Any:
    try:
        values = as_floats(_canonical(x) if sparse.issparse(x) else np.asarray(unmasked(x)))
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"rows must be numbers; {error}.\nHint: encode or drop the columns that hold text; {NUMBERS_AS_TEXT}."
        raise DataError(msg) from error
    if values.ndim == 1:
        values = values[None, :]
    if values.ndim != 2:
        msg = f"rows must form a matrix (n, d); got an array of shape {values.shape}."
        raise ShapeError(msg)
    return values


def _canonical(x: Any) -> Any:
    """CSR matrix in which every cell is stored once; duplicates are summed, in a copy."""
    values = sparse.csr_array(x)
    if not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()
    return values


def as_floats(values: Any) -> Any:
    """Convert an array or a sparse matrix to floats, None to NaN; raise ``TypeError`` if its entries are not numbers.

    Arrays of float32 and float64 are returned unchanged.
    """
    if values.dtype in (np.float32, np.float64):
        return values
    if reason := not_numbers(values):
        raise TypeError(reason)
    return (without_pandas_na(values) if values.dtype == object else values).astype(np.float64)


def not_numbers(values: Any) -> str:
    """Say which entries of an array are not numbers: text, times, complex numbers or records; empty if all are.

    Text is not a number, even if it looks like one: NumPy would read "1_000" as 1000, and take dates for the number
    of days since 1970. Truth values are the numbers 0 and 1. Other objects are not judged, but cannot be converted.
    """
    if values.dtype.kind in "fiub":
        return ""
    if values.dtype != object:
        return f"got {values.dtype} entries{', which are text' * (values.dtype.kind in 'SUT')}"
    kinds = tuple(kind for kind in set(map(type, values.flat)) if issubclass(kind, _NOT_NUMBERS))
    if not kinds:
        return ""
    place = next(i for i, value in enumerate(values.flat) if isinstance(value, kinds))
    where = zip(("row", "column"), np.unravel_index(place, values.shape), strict=False)
    value = values.flat[place]
    what = "text" if isinstance(value, str | bytes) else "an entry"
    return f"got {what} such as {value!r} in {', '.join(f'{axis} {i}' for axis, i in where)}"


_TIMES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)
_NOT_NUMBERS = (str, bytes, bytearray, memoryview, complex, np.complexfloating, list, tuple, *_TIMES)
"""Types of objects that are not numbers, although NumPy converts some of them to floats."""
NUMBERS_AS_TEXT = "numbers that are stored as text must be converted first, for instance by astype(float)"
"""Hint for text that looks like numbers."""


def without_pandas_na(values: Any) -> Any:
    """Objects with NaN in place of pandas.NA, which Python cannot convert to a float."""
    null = np.frompyfunc(_is_pandas_na, 1, 1)(values).astype(bool)
    return np.where(null, np.nan, values) if null.any() else values


def _is_pandas_na(value: object) -> bool:
    return type(value).__name__ == "NAType"


def joined(blocks: list[Block]) -> Block:
    """Concatenate successive blocks."""
    if len(blocks) == 1:
        return blocks[0]
    stack = sparse.vstack if blocks[0].is_sparse else np.concatenate
    weight = None if all(b.weight is None for b in blocks) else np.concatenate([b.weights for b in blocks])
    precision = None if blocks[0].precision is None else np.concatenate([b.precision for b in blocks])
    values = stack([b.values for b in blocks])
    values = sparse.csr_array(values) if blocks[0].is_sparse else values
    return Block(values, weight, precision, blocks[0].unstored_missing)


def mixed(words: Words, seed: int = 0) -> Words:
    """Hash each column of 64-bit words, (w, n), to a key (n,)."""
    mixer = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, which separates consecutive numbers
    keys = np.full(words.shape[1], seed, np.uint64)
    for word in words:
        keys = (keys ^ word) * mixer
        keys ^= keys >> np.uint64(29)
    return keys
