"""Recognise what holds the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from probpca.errors import DataError, ShapeError, SourceError
from probpca.rows import Block, as_block
from probpca.rows.block import row_of_cell
from probpca.sources.batches import Batches
from probpca.sources.dask import is_dask, open_dask
from probpca.sources.files import is_path, open_file
from probpca.sources.frames import frame_values, is_frame
from probpca.sources.memory import in_memory
from probpca.sources.spark import is_spark, open_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.sources.memory import InMemory
    from probpca.sources.protocol import Source, Watch
    from probpca.typing import Array


def open_source(  # noqa: PLR0913
    rows: Any,
    *,
    weight: Any = None,
    cell_weight: Any = None,
    unstored_missing: bool = False,
    columns: Sequence[str] | None = None,
    n_jobs: int | None = None,
    watch: Watch | None = None,
) -> Source:
    """Make a source of whatever holds rows.

    An array, a memory map, a sparse matrix, a dataframe (pandas, polars, pyarrow), an iterable of batches,
    or the name of a file: .npy, Parquet (also a folder of them), Feather, CSV, of which ``columns`` are
    read, all by default. ``watch(done, parts)`` is called as a pass over a file proceeds. Also a Dask array or
    dataframe, a list of delayed matrices, or a Spark DataFrame, which stay where they are.

    A nested list is a matrix; an iterable of matrices is a stream of batches. NaN is a cell that was
    not observed; so is, with ``unstored_missing``, what a sparse matrix does not store. ``weight`` says
    how often each row counts: 2 is the row twice, 0 a row that is not there. ``cell_weight`` are
    relative precisions of cells, shaped like the rows: noise variance over weight, 0 a missing cell.
    """
    if is_dask(rows) or is_spark(rows):  # before anything is asked of them: what is delayed has every attribute
        _no_weight(weight, cell_weight, "a cluster")
        return open_dask(rows, n_jobs) if is_dask(rows) else open_spark(rows, n_jobs)
    if is_source(rows):
        _no_weight(weight, cell_weight, "a source")
        return rows
    if is_path(rows):
        _no_weight(weight, cell_weight, "a file")
        return open_file(rows, columns, n_jobs, watch)
    if columns is not None:
        msg = "columns are chosen of a file; these rows are at hand.\nHint: pass only the columns that are wanted."
        raise SourceError(msg)
    if is_frame(rows):
        values, names = frame_values(rows)
        return replace(_open_matrix(values, weight, cell_weight, n_jobs, unstored_missing=False), columns=names)
    if isinstance(rows, np.ndarray) or sparse.issparse(rows) or _is_matrix_like(rows):
        return _open_matrix(rows, weight, cell_weight, n_jobs, unstored_missing=unstored_missing)
    if isinstance(rows, Iterable) and not isinstance(rows, bytes):
        _no_weight(weight, cell_weight, "an iterable of batches")
        return Batches(rows, n_jobs)
    msg = (
        "rows must be an array, a sparse matrix, a dataframe, the name of a file or an iterable of batches; "
        f"got {type(rows).__name__}.\nHint: np.asarray(rows) if that is a matrix."
    )
    raise SourceError(msg)


def is_source(rows: Any) -> bool:
    """Does this keep the contract of a source? Some dataframes have a fold or a map of their own."""
    return all(hasattr(rows, name) for name in ("fold", "map", "repeatable"))


def check_weight(weight: Any, n_rows: int) -> Array:
    """Row weights as an array (n,): finite, not negative, not all zero."""
    try:
        w = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"sample_weight must be numbers; {error}."
        raise DataError(msg) from error
    if w.shape not in ((n_rows,), ()):
        msg = f"sample_weight must have one entry for each of the {n_rows} rows; got shape {w.shape}."
        raise ShapeError(msg)
    w = np.broadcast_to(w, (n_rows,))
    if not np.isfinite(w).all() or (w < 0).any():
        bad = int(np.flatnonzero(~(np.isfinite(w) & (w >= 0)))[0])
        msg = f"sample_weight must be finite and not negative; entry {bad} is {w[bad]}."
        raise DataError(msg)
    if not w.any():
        msg = "sample_weight must not be zero for every row: a weight of 0 is a row that is not there."
        raise DataError(msg)
    return w


def check_cell_weight(cell_weight: Any, values: Any) -> Array:
    """Precisions of cells as an array (n, d), or of the stored cells of a sparse matrix."""
    given = cell_weight
    try:
        omega = _stored_like(given, values) if sparse.issparse(values) else np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"cell_weight must be numbers, one for each cell; {error}."
        raise DataError(msg) from error
    if omega.shape != (values.data.shape if sparse.issparse(values) else values.shape):
        msg = f"cell_weight must have the shape of the rows, {values.shape}; got {np.shape(given)}."
        raise ShapeError(msg)
    if not (np.isfinite(omega).all() and (omega >= 0).all()):
        msg = "cell_weight must be finite and not negative.\nHint: 0 is a missing cell."
        raise DataError(msg)
    if not omega.any():
        msg = "cell_weight must not be zero for every cell: a weight of 0 is a missing cell."
        raise DataError(msg)
    return omega


def _stored_like(cell_weight: Any, values: Any) -> Array:
    """Weights of the cells that ``values`` stores."""
    rows = row_of_cell(values)
    if np.shape(cell_weight) != values.shape:
        msg = f"rows have shape {values.shape}, weights {np.shape(cell_weight)}"
        raise ValueError(msg)
    table = sparse.csr_array(cell_weight) if sparse.issparse(cell_weight) else np.asarray(cell_weight)
    return np.asarray(table[rows, values.indices], dtype=np.float64).reshape(-1)


def _open_matrix(rows: Any, weight: Any, cell_weight: Any, n_jobs: int | None, *, unstored_missing: bool) -> InMemory:
    values = as_block(rows).values
    unstored_missing = unstored_missing and sparse.issparse(values)
    if cell_weight is not None and sparse.issparse(values) and not unstored_missing:
        msg = "cell_weight goes with a dense matrix, or with a sparse one whose unstored cells are missing."
        raise SourceError(msg)
    omega = None if cell_weight is None else check_cell_weight(cell_weight, values)
    w = None if weight is None else check_weight(weight, values.shape[0])
    if w is not None and (w == 0).any():
        present = np.flatnonzero(w)
        if omega is not None and sparse.issparse(values):
            kept = np.repeat(w > 0, np.diff(values.indptr))
            omega = omega[kept]
        elif omega is not None:
            omega = omega[present]
        values, w = values[present], w[present]
    return in_memory(Block(values, w, omega, unstored_missing), n_jobs)


def _is_matrix_like(rows: Any) -> bool:
    """A list of rows, as opposed to a list of batches: what is two levels down is a number."""
    try:
        cell = rows[0][0]
    except (TypeError, IndexError, KeyError):
        return False
    return not isinstance(rows, str) and np.ndim(cell) == 0


def _no_weight(weight: Any, cell_weight: Any, what: str) -> None:
    if weight is not None or cell_weight is not None:
        msg = f"weights go with a matrix of rows; {what} has none.\nHint: repeat the rows, or pass one matrix."
        raise SourceError(msg)
