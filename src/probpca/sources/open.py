"""Recognition of the kinds of data that hold rows, and sources made of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy import sparse

from probpca.blocks import Block, as_block
from probpca.blocks.block import as_floats, row_of_cell, unmasked
from probpca.errors import DataError, ShapeError, SourceError
from probpca.sources.engines.local import resolve_jobs
from probpca.sources.files import TableFile, arrow_module, file_format, is_path
from probpca.sources.source import Source
from probpca.sources.table_format import TableFormat

if TYPE_CHECKING:
    import os

    from probpca.sources.source import Watch
    from probpca.typing import Array


@runtime_checkable
class SupportsArray(Protocol):
    """Protocol of objects that NumPy converts to an array by ``__array__``."""

    def __array__(self) -> Any:
        """Convert the object to an array."""


LARGEST_RATIO = 1e100
"""Largest ratio of two positive weights of cells."""
LARGEST_PRODUCT = 1e280
"""Largest product of the total weight of the rows and the weight of a cell, far enough below the largest float."""

Kind: TypeAlias = Literal["matrix", "source", "file", "dask", "spark", "frame", "batches", "nothing"]


def open_source(  # noqa: PLR0913
    rows: Any,
    *,
    weight: Any = None,
    cell_weight: Any = None,
    unstored_missing: bool = False,
    columns: Sequence[str] | None = None,
    others: Sequence[str] | None = None,
    table_format: TableFormat | None = None,
    n_jobs: int | None = None,
    watch: Watch | None = None,
) -> Source:
    """Make a source of rows in memory, in files or in a cluster.

    Parameters
    ----------
    rows : array, sparse matrix, dataframe, file name, iterable of batches, Dask or Spark collection
        The data: an array or a memory map, a nested list, a sparse matrix, a dataframe (pandas, polars, pyarrow), an
        iterable of matrices or dataframes, or the name of a file: .npy, Parquet (also a folder of them), Feather, CSV,
        or a workbook (.xlsx, .xls, .ods). A Dask array or dataframe, a list of delayed matrices, and a Spark DataFrame
        are processed where they are. NaN is a missing cell, as is a masked cell of a NumPy masked array.
    weight : array of shape (n,) or None
        Frequency of each row: a weight of 2 counts the row twice, a weight of 0 leaves it out. For rows in memory.
    cell_weight : array of shape (n, d) or None
        Relative precision of each cell: its noise variance is divided by the weight, and 0 means missing.
    unstored_missing : bool
        Whether cells that a sparse matrix does not store are missing; otherwise they are zeros.
    columns : sequence of str or None
        Columns of a file to read as features; None for all.
    others : sequence of str or None
        Further columns of a file, which are available as ``Block.others``.
    table_format : TableFormat or None
        How to read a file, for what cannot be detected, such as codes of missing cells or the sheet of a workbook. The
        delimiter, the decimal mark and title lines of a text file are detected.
    n_jobs : int or None
        Number of threads; None for as many as BLAS uses, -1 for all cores.
    watch : callable or None
        Progress callback ``watch(done, parts)`` of passes over a file.

    Returns
    -------
    Source
        The rows, to be read in blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.sources import open_source
    >>> source = open_source([[1.0, 2.0], [3.0, np.nan]])
    >>> source.n_rows, source.n_features
    (2, 2)
    """
    kind = kind_of(rows)
    if weight is not None or cell_weight is not None:
        _require_matrix(kind)
    if table_format is not None and kind != "file":
        msg = "table_format must be None unless rows are read from a file.\nHint: omit it."
        raise SourceError(msg)
    if (columns is not None or others is not None) and kind != "file":
        msg = "columns can be chosen only when rows are read from a file.\nHint: pass only the columns to use."
        raise SourceError(msg)
    if unstored_missing:
        _require_unstored_missing(rows, kind)
    match kind:
        case "matrix" | "frame":
            return _open_table(rows, kind, weight, cell_weight, resolve_jobs(n_jobs), unstored_missing=unstored_missing)
        case "source":
            return rows if isinstance(rows, Source) else Source.of_block(rows, resolve_jobs(n_jobs))
        case "file":
            return _open_file(rows, table_format or TableFormat(), resolve_jobs(n_jobs), watch, (columns, others))
        case "batches":
            from probpca.sources.readers.batches import open_batches  # noqa: PLC0415

            return open_batches(rows, resolve_jobs(n_jobs), unstored_missing=unstored_missing)
        case "dask" | "spark":
            return _open_cluster(rows, kind, n_jobs)
    hint = "rows.collect()" if hasattr(rows, "collect") else "np.asarray(rows) if that is a matrix"
    msg = (
        "rows must be an array, a sparse matrix, a dataframe, the name of a file or an iterable of batches; "
        f"got {type(rows).__name__}.\nHint: {hint}."
    )
    raise SourceError(msg)


def kind_of(rows: Any) -> Kind:
    """Kind of container of the rows, found without importing the libraries that define such containers."""
    if isinstance(rows, np.ndarray):
        return "matrix"
    tests: dict[Kind, Callable[[Any], bool]] = {
        "dask": is_dask,  # first, because a delayed object passes every other test
        "spark": is_spark,
        "source": lambda rows: isinstance(rows, Source | Block),
        "file": is_path,
        "frame": _is_frame,
        "matrix": _is_matrix,
        "batches": _is_iterable,
    }
    return next((kind for kind, is_kind in tests.items() if is_kind(rows)), "nothing")


def is_table(rows: Any) -> bool:
    """Whether ``rows`` is a single table in memory, or of no recognised kind."""
    return isinstance(rows, np.ndarray) or kind_of(rows) in ("frame", "matrix", "nothing")


def is_dask(rows: Any) -> bool:
    """Whether ``rows`` is a Dask collection."""
    first = rows[0] if isinstance(rows, list | tuple) and rows else rows
    return type(first).__module__.split(".")[0] == "dask"


def is_spark(rows: Any) -> bool:
    """Whether ``rows`` is a Spark DataFrame."""
    return type(rows).__module__.startswith("pyspark.sql") and type(rows).__name__ == "DataFrame"


def _is_frame(rows: Any) -> bool:
    """Whether ``rows`` is a dataframe, tested without importing narwhals for lists and sparse matrices."""
    if type(rows).__module__.split(".")[0] in ("builtins", "numpy", "scipy"):
        return False
    from probpca.sources.readers.frames import is_frame  # noqa: PLC0415

    return is_frame(rows)


def _is_matrix(rows: Any) -> bool:
    """Whether ``rows`` is a list of numbers or rows, or converts to an array; a list of matrices is a stream."""
    if sparse.issparse(rows) or isinstance(rows, SupportsArray):
        return True
    if not isinstance(rows, Sequence) or isinstance(rows, bytes) or len(rows) == 0:
        return False
    first = rows[0]
    if isinstance(first, Block) or _is_frame(first):
        return False
    try:
        return np.ndim(first) < 2
    except ValueError:  # rows of different lengths
        return False


def _is_iterable(rows: Any) -> bool:
    return isinstance(rows, Iterable) and not isinstance(rows, bytes | Mapping | AbstractSet)


def _require_unstored_missing(rows: Any, kind: Kind) -> None:
    """Raise ``SourceError`` if unstored cells of these rows cannot be treated as missing."""
    if isinstance(rows, Source) and rows.info.unstored_zero:
        msg = (
            "unstored cells should be missing, but this source was opened with unstored cells as zeros.\n"
            "Hint: use open_source(rows, unstored_missing=True)."
        )
        raise SourceError(msg)
    if kind == "dask":
        from probpca.sources.engines.dask import may_be_sparse  # noqa: PLC0415

        if may_be_sparse(rows):
            msg = (
                "unstored cells should be missing, but are zeros in blocks that Dask holds.\n"
                "Hint: pass blocks with NaN for missing cells, or an iterable of batches."
            )
            raise SourceError(msg)


def check_weight(weight: Any, n_rows: int) -> Array:
    """Row weights as an array (n,): finite, not negative, not all zero."""
    try:
        w = as_floats(np.asarray(unmasked(weight))).astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"sample_weight must be numbers; {error}."
        raise DataError(msg) from error
    if w.shape not in ((n_rows,), ()):
        msg = f"sample_weight must have one entry for each of the {n_rows} rows; got shape {w.shape}."
        raise ShapeError(msg)
    w = np.broadcast_to(w, (n_rows,))
    if not np.isfinite(w).all() or (w < 0).any():
        bad = int(np.flatnonzero(~(np.isfinite(w) & (w >= 0)))[0])
        what = "masked" if np.ma.is_masked(weight) and np.isnan(w[bad]) else w[bad]
        msg = f"sample_weight must be finite and not negative; entry {bad} is {what}.\nHint: 0 leaves a row out."
        raise DataError(msg)
    if not w.any():
        msg = "sample_weight must not be zero for every row: a weight of 0 leaves a row out."
        raise DataError(msg)
    return w


def check_cell_weight(cell_weight: Any, values: Any) -> Array:
    """Precisions of cells as an array (n, d), or of the stored cells of a sparse matrix."""
    given = unmasked(cell_weight)  # a masked weight is NaN, which is an error
    try:
        omega = _stored_like(given, values) if sparse.issparse(values) else as_floats(np.asarray(given))
        omega = omega.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"cell_weight must be numbers, one for each cell; {error}."
        raise DataError(msg) from error
    if omega.shape != (values.data.shape if sparse.issparse(values) else values.shape):
        msg = f"cell_weight must have the shape of the rows, {values.shape}; got {np.shape(given)}."
        raise ShapeError(msg)
    if not (np.isfinite(omega).all() and (omega >= 0).all()):
        msg = "cell_weight must be finite and not negative.\nHint: use 0 for a missing cell."
        raise DataError(msg)
    if not omega.any():
        msg = "cell_weight must not be zero for every cell: a weight of 0 means a missing cell."
        raise DataError(msg)
    lowest, highest = float(np.min(omega, where=omega > 0, initial=np.inf)), float(omega.max())
    if lowest < highest / LARGEST_RATIO:
        msg = (
            f"the largest cell_weight must be at most {LARGEST_RATIO:.0e} times the smallest positive one; got weights "
            f"from {lowest:.3g} to {highest:.3g}.\nHint: use 0 for cells that carry no information."
        )
        raise DataError(msg)
    return omega


def _stored_like(cell_weight: Any, values: Any) -> Array:
    """Weights of the stored cells of the sparse matrix ``values``."""
    rows = row_of_cell(values)
    if np.shape(cell_weight) != values.shape:
        msg = f"rows have shape {values.shape}, weights {np.shape(cell_weight)}"
        raise ValueError(msg)
    table = sparse.csr_array(cell_weight) if sparse.issparse(cell_weight) else np.asarray(cell_weight)
    return as_floats(np.asarray(table[rows, values.indices])).reshape(-1)


def _open_cluster(rows: Any, kind: Kind, n_jobs: int | None) -> Source:
    """Make a source of a Dask or Spark collection."""
    if kind == "dask":
        from probpca.sources.engines.dask import open_dask  # noqa: PLC0415

        return open_dask(rows, n_jobs)
    from probpca.sources.engines.spark import open_spark  # noqa: PLC0415

    return open_spark(rows, n_jobs)


def _open_table(rows: Any, kind: Kind, weight: Any, cell_weight: Any, n_jobs: int, *, unstored_missing: bool) -> Source:
    """Make a source of one matrix or dataframe in memory; rows of weight zero are left out."""
    columns = None
    if kind == "frame":
        from probpca.sources.readers.frames import as_text, frame_values  # noqa: PLC0415

        rows, names = frame_values(rows)
        columns = as_text(names)
    values = as_block(rows).values
    is_sparse = sparse.issparse(values)
    unstored_missing = unstored_missing and is_sparse
    if cell_weight is not None and is_sparse and not unstored_missing:
        msg = "cell_weight needs a dense matrix, or a sparse one whose unstored cells are missing."
        raise SourceError(msg)
    omega = None if cell_weight is None else check_cell_weight(cell_weight, values)
    w = None if weight is None else check_weight(weight, values.shape[0])
    if omega is not None:
        _require_product(np.ones(values.shape[0]) if w is None else w, omega)
    if w is not None and (w == 0).any():
        present = np.flatnonzero(w)
        if omega is not None:
            omega = omega[np.repeat(w > 0, np.diff(values.indptr)) if is_sparse else present]
        values, w = values[present], w[present]
    return Source.of_block(Block(values, w, omega, unstored_missing), n_jobs, columns)


def _require_product(w: Array, omega: Array) -> None:
    """Raise ``DataError`` if sums of products of both kinds of weights could overflow."""
    largest, total = float(omega.max(initial=0.0)), float((w / w.max()).sum())
    if np.log10(w.max()) + np.log10(total) + np.log10(max(largest, 1e-300)) > np.log10(LARGEST_PRODUCT):
        msg = (
            f"the sum of sample_weight times the largest cell_weight must be below {LARGEST_PRODUCT:g}; got weights of "
            f"rows up to {w.max():.3g} and of cells up to {largest:.3g}.\n"
            "Hint: divide cell_weight by its mean, which changes only the unit of the noise variance."
        )
        raise DataError(msg)


def _require_matrix(kind: Kind) -> None:
    """Raise ``SourceError`` for weights of rows that are not one matrix."""
    places: dict[Kind, str] = {
        "dask": "a cluster",
        "spark": "a cluster",
        "source": "a source",
        "file": "a file",
        "batches": "an iterable of batches",
    }
    if kind in places:
        msg = f"weights go with a matrix of rows; {places[kind]} has none.\nHint: repeat the rows, or pass one matrix."
        raise SourceError(msg)


def look_at(path: str | os.PathLike[str], table_format: TableFormat = TableFormat()) -> TableFile:
    """Inspect the columns of a file of rows, or of a folder of Parquet files."""
    place = Path(path)
    if not place.exists():
        msg = f"there is no file {place}."
        raise SourceError(msg)
    kind = file_format(place)
    table_format.require_for(kind, place)
    file: TableFile
    if kind == "npy":
        from probpca.sources.readers.npy import NpyFile  # noqa: PLC0415

        file = NpyFile(place, table_format)
    elif kind == "csv":
        file = arrow_module("probpca.sources.readers.csv").TextFile.look(place, table_format)
    elif kind == "workbook":
        file = arrow_module("probpca.sources.readers.workbook").open_workbook(place, table_format)
    else:
        file = arrow_module("probpca.sources.readers.arrow").ArrowFile(place, table_format)
    return _turned(file, table_format)


def look_at_bytes(name: str, content: bytes, table_format: TableFormat = TableFormat()) -> TableFile:
    """Inspect a table in memory, for instance from standard input; its first bytes show its format."""
    place = Path(name)
    if not content:
        msg = f"{name} is empty."
        raise SourceError(msg)
    file: TableFile = arrow_module("probpca.sources.readers.memory").table_in_memory(place, content, table_format)
    return _turned(file, table_format)


def _turned(file: TableFile, table_format: TableFormat) -> TableFile:
    if not table_format.transpose:
        return file
    turned: TableFile = arrow_module("probpca.sources.readers.memory").transposed(file)
    return turned


def _open_file(
    path: str | os.PathLike[str],
    table_format: TableFormat,
    n_jobs: int,
    watch: Watch | None,
    chosen: tuple[Sequence[str] | None, Sequence[str] | None],
) -> Source:
    """Make a source of the chosen columns of a file, and warn about skipped lines and columns that were left out."""
    file = look_at(path, table_format)
    for text in file.notes:
        warnings.warn(f"{text}.", UserWarning, stacklevel=4)
    columns, others = chosen
    return file.source(columns, n_jobs, watch, others)
