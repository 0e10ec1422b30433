"""Recognise what holds the rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from probpca.errors import SourceError
from probpca.sources.engines.local import resolve_jobs
from probpca.sources.files import arrow_module, file_format
from probpca.sources.readers.batches import Batches
from probpca.sources.readers.npy import open_npy

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from probpca.sources.source import Source, Watch

from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy import sparse

from probpca.blocks import Block, as_block
from probpca.blocks.block import row_of_cell
from probpca.errors import DataError, ShapeError
from probpca.sources.engines.dask import is_dask, open_dask
from probpca.sources.engines.spark import is_spark, open_spark
from probpca.sources.files import is_path
from probpca.sources.readers.frames import as_text, frame_values, is_frame
from probpca.sources.source import in_memory

if TYPE_CHECKING:
    from probpca.sources.source import InMemory, Source, Watch
    from probpca.typing import Array

Kind: TypeAlias = Literal["dask", "spark", "source", "file", "frame", "matrix", "batches", "nothing"]
PLACES: dict[Kind, str] = {
    "dask": "a cluster",
    "spark": "a cluster",
    "source": "a source",
    "file": "a file",
    "batches": "an iterable of batches",
}


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
    read, all by default. What separates the cells of a text, and its decimals, is told from its first lines.
    ``watch(done, parts)`` is called as a pass over a file proceeds. Also a Dask array or dataframe, a list of
    delayed matrices, or a Spark DataFrame, which stay where they are.

    A nested list is a matrix; an iterable of matrices or dataframes is a stream of batches. NaN is a cell that was
    not observed; so is, with ``unstored_missing``, what a sparse matrix does not store. ``weight`` says
    how often each row counts: 2 is the row twice, 0 a row that is not there. ``cell_weight`` are
    relative precisions of cells, shaped like the rows: noise variance over weight, 0 a missing cell.
    """
    kind = kind_of(rows)
    if kind in PLACES:
        _no_weight(weight, cell_weight, PLACES[kind])
    if columns is not None and kind != "file":
        msg = "columns are chosen of a file; these rows are not in one.\nHint: pass only the columns that are wanted."
        raise SourceError(msg)
    if unstored_missing:
        _require_unstored_missing(rows, kind)
    match kind:
        case "dask" | "spark":
            return open_dask(rows, n_jobs) if kind == "dask" else open_spark(rows, n_jobs)
        case "source":
            source: Source = rows
            return source
        case "file":
            return open_file(rows, columns, n_jobs, watch)
        case "frame" | "matrix":
            values, names = frame_values(rows) if kind == "frame" else (rows, None)
            found = _open_matrix(values, weight, cell_weight, n_jobs, unstored_missing=unstored_missing)
            return replace(found, columns=as_text(names))
        case "batches":
            return Batches(rows, n_jobs, unstored_missing=unstored_missing)
    msg = (
        "rows must be an array, a sparse matrix, a dataframe, the name of a file or an iterable of batches; "
        f"got {type(rows).__name__}.\nHint: np.asarray(rows) if that is a matrix."
    )
    raise SourceError(msg)


def kind_of(rows: Any) -> Kind:
    """What holds these rows?"""
    return next((kind for kind, is_kind in KINDS.items() if is_kind(rows)), "nothing")


def is_table(rows: Any) -> bool:
    """Is this one table in memory, or nothing that holds rows?"""
    return kind_of(rows) in ("frame", "matrix", "nothing")


def _is_source(rows: Any) -> bool:
    """Some dataframes have a fold or a map of their own."""
    return all(hasattr(rows, name) for name in ("fold", "map", "repeatable"))


def _is_matrix(rows: Any) -> bool:
    """A list of numbers or of rows is one; a list of matrices is not."""
    if sparse.issparse(rows) or hasattr(rows, "__array__"):
        return True
    if not isinstance(rows, Sequence) or isinstance(rows, bytes) or len(rows) == 0:
        return False
    first = rows[0]
    if isinstance(first, Block) or is_frame(first):
        return False
    try:
        return np.ndim(first) < 2
    except ValueError:  # rows of different lengths
        return False


def _is_iterable(rows: Any) -> bool:
    return isinstance(rows, Iterable) and not isinstance(rows, bytes | Mapping | AbstractSet)


KINDS: dict[Kind, Callable[[Any], bool]] = {  # Dask first: what is delayed has every attribute
    "dask": is_dask,
    "spark": is_spark,
    "source": _is_source,
    "file": is_path,
    "frame": is_frame,
    "matrix": _is_matrix,
    "batches": _is_iterable,
}


def _require_unstored_missing(rows: Any, kind: Kind) -> None:
    """Raise ``SourceError`` where nobody would ask what a sparse matrix does not store."""
    if kind == "source" and getattr(rows, "takes_unstored_for_zero", False):
        msg = (
            "cells that are not stored should be missing; this source was opened to take them for zeros.\n"
            "Hint: open_source(rows, unstored_missing=True)."
        )
        raise SourceError(msg)
    if kind == "dask" and (isinstance(rows, list | tuple) or sparse.issparse(getattr(rows, "_meta", None))):
        msg = (
            "cells that are not stored are zeros where Dask holds the blocks; they should be missing.\n"
            "Hint: blocks with NaN for missing cells, or batches that are read here."
        )
        raise SourceError(msg)


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


def _no_weight(weight: Any, cell_weight: Any, what: str) -> None:
    if weight is not None or cell_weight is not None:
        msg = f"weights go with a matrix of rows; {what} has none.\nHint: repeat the rows, or pass one matrix."
        raise SourceError(msg)


def open_file(
    path: str | os.PathLike[str], columns: Sequence[str] | None, n_jobs: int | None, watch: Watch | None
) -> Source:
    """Open a file of rows, or a folder of Parquet files, and read some columns, or all."""
    place = Path(path)
    if not place.exists():
        msg = f"there is no file {place}."
        raise SourceError(msg)
    kind = file_format(place)
    jobs = resolve_jobs(n_jobs)
    if kind == "npy":
        return open_npy(place, columns, jobs, watch)
    if kind == "csv":
        return Batches(arrow_module("probpca.sources.readers.csv").Csv.of(place, columns, watch), n_jobs)
    arrow = arrow_module("probpca.sources.readers.arrow")
    open_parts = arrow.open_parquet if kind == "parquet" else arrow.open_feather
    source: Source = open_parts(place, columns, jobs, watch)
    return source
