"""Recognise what holds the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from probpca.errors import DataError, ShapeError, SourceError
from probpca.sources.batches import Batches
from probpca.sources.memory import in_memory

if TYPE_CHECKING:
    from probpca.sources.protocol import Source
    from probpca.typing import Array


def open_source(rows: Any, *, weight: Any = None, n_jobs: int | None = None) -> Source:
    """Make a source of an array, a memory map, a sparse matrix or an iterable of batches.

    A nested list is a matrix; an iterable of matrices is a stream of batches. ``weight`` says how
    often each row counts: 2 is the row twice, 0 a row that is not there.
    """
    if is_source(rows):
        _no_weight(weight, "a source")
        return rows
    if isinstance(rows, np.ndarray) or sparse.issparse(rows) or _is_matrix_like(rows):
        return _open_matrix(rows, weight, n_jobs)
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
        _no_weight(weight, "an iterable of batches")
        return Batches(rows, n_jobs)
    msg = (
        f"rows must be an array, a sparse matrix or an iterable of batches; got {type(rows).__name__}.\n"
        "Hint: a dataframe goes through an estimator, or df.to_numpy()."
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


def _open_matrix(rows: Any, weight: Any, n_jobs: int | None) -> Source:
    source = in_memory(rows, None, n_jobs)
    if weight is None:
        return source
    w = check_weight(weight, source.n_rows)
    if (w == 0).any():
        present = np.flatnonzero(w)
        return in_memory(source.block.values[present], w[present], n_jobs)
    return in_memory(source.block.values, w, n_jobs)


def _is_matrix_like(rows: Any) -> bool:
    """A list of rows, as opposed to a list of batches: what is two levels down is a number."""
    try:
        cell = rows[0][0]
    except (TypeError, IndexError, KeyError):
        return False
    return not isinstance(rows, str) and np.ndim(cell) == 0


def _no_weight(weight: Any, what: str) -> None:
    if weight is not None:
        msg = f"weights go with a matrix of rows; {what} has none.\nHint: repeat the rows, or pass one matrix."
        raise SourceError(msg)
