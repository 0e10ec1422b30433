"""Rows in a Dask array, a Dask dataframe or delayed blocks, summarised by the workers that hold them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks import Block, as_block
from probpca.errors import DataError, ShapeError, SourceError
from probpca.sources.engines.local import merged, one_blas_thread, quietly, resolve_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.sources.source import M

FAN_IN = 8  # summaries that one task merges: the scheduler spends about a millisecond on each task


@final
@dataclass(frozen=True, eq=False)
class DaskRows:
    """Parts that stay where Dask has them: a function goes there, a small summary comes back."""

    parts: tuple[Any, ...]  # delayed matrices, or blocks once they are prepared
    lengths: tuple[float, ...]  # rows of each part; NaN where Dask does not know
    example: Any  # two rows: they show of what kind the answer of a function is
    n_features: int
    n_rows: int | None
    n_stored: int | None
    single_precision: bool
    n_jobs: int
    columns: tuple[str, ...] | None

    in_memory, repeatable = False, True

    @cached_property
    def incomplete(self) -> bool:
        """Does the first part have missing cells? Computes it."""
        return not _later(_work)(_is_complete, self.n_features, self.parts[0]).compute()

    def keep(self, prepare: Callable[[Any], Any]) -> DaskRows:
        """Prepare the blocks where they are, and keep them there; what a lost worker held is computed again."""
        prepared = import_module("dask").persist(*self._each(prepare))
        return replace(self, parts=prepared, example=prepare(self.example))

    def fold(self, summarise: Callable[[Any], M]) -> M:
        """Summarise each part where it is and merge the summaries in order, as a tree."""
        level = self._each(summarise)
        while len(level) > 1:
            level = [_later(merged)(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
        return level[0].compute()

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Apply a row-wise function when Dask is asked to: a Dask array, or a named tuple of them."""
        return self._joined(self._each(function), quietly(function, self.example))

    def _each(self, function: Callable[[Any], Any]) -> list[Any]:
        shared = _later(function)  # one node of the graph that all tasks point to: sent once, not once a task
        return [_later(_work)(shared, self.n_features, part) for part in self.parts]

    def _joined(self, answers: list[Any], like: Any) -> Any:
        """Answers as one array, as long as the rows unless the example says otherwise."""
        if isinstance(like, tuple):
            fields = ([_later(itemgetter(i))(answer) for answer in answers] for i in range(len(like)))
            return type(like)(*map(self._joined, fields, like))
        lengths = self.lengths if len(like) == self.example.n_rows else (np.nan,) * len(answers)
        return _stacked(answers, lengths, like)


def is_dask(rows: Any) -> bool:
    """Does Dask hold these rows? Asked without importing it."""
    first = rows[0] if isinstance(rows, list | tuple) and rows else rows
    return type(first).__module__.split(".")[0] == "dask"


def open_dask(rows: Any, n_jobs: int | None = None) -> DaskRows:
    """Make a source of a Dask array, a Dask dataframe, or a list of delayed matrices."""
    columns = None
    match type(rows).__name__:
        case "Array":
            array = rows
        case "DataFrame":
            array, columns = _numbers(rows), tuple(map(str, rows.columns))
        case "list" | "tuple":  # the first block is computed, to see how wide they are
            like = _later(_work)(attrgetter("values"), None, rows[0])[:0].compute()
            array = _stacked([_later(block) for block in rows], (np.nan,) * len(rows), like)
        case kind:
            msg = f"rows must be a Dask array, a Dask dataframe or a list of delayed matrices; got {kind}."
            raise SourceError(msg)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        msg = f"rows must form a matrix (n, d) of numbers; got shape {array.shape} and dtype {array.dtype}."
        raise (ShapeError if array.ndim != 2 else DataError)(msg)
    array = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
    single, d = bool(array.dtype == np.float32), array.shape[1]
    example = Block(np.zeros((2, d), np.float32 if single else np.float64))
    n, cells = (None, None) if np.isnan(array.shape[0]) else (len(array), len(array) * d)
    jobs = _worker_threads() if n_jobs is None else resolve_jobs(n_jobs)
    parts = tuple(array.to_delayed()[:, 0])
    return DaskRows(parts, array.chunks[0], example, d, n, cells, single, jobs, columns)


def _numbers(frame: Any) -> Any:
    for name, dtype in frame.dtypes.items():
        if dtype.kind not in "biuf":
            msg = f"every column must hold numbers; column {name!r} has dtype {dtype}.\nHint: encode or drop it."
            raise DataError(msg)
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    return frame.astype(np.float32 if single else np.float64).to_dask_array()  # nulls become NaN


def _stacked(blocks: list[Any], lengths: tuple[float, ...], like: Any) -> Any:
    da = import_module("dask.array")
    arrays = [da.from_delayed(b, (n, *like.shape[1:]), like.dtype) for b, n in zip(blocks, lengths, strict=True)]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def _worker_threads() -> int:
    try:
        return max(sum(import_module("distributed").default_client().nthreads().values()), 1)
    except (ImportError, ValueError):
        return resolve_jobs(None)  # no cluster is running


def _later(function: Any) -> Any:
    return import_module("dask").delayed(function, pure=False, traverse=False)


def _work(function: Callable[[Any], Any], d: int | None, part: Any) -> Any:
    block = part if hasattr(part, "n_features") else as_block(part)
    if d not in (None, block.n_features):
        msg = f"every block must have {d} columns, as the first one; got {block.n_features}."
        raise ShapeError(msg)
    with one_blas_thread():  # workers run side by side already
        return quietly(function, block)


def _is_complete(block: Any) -> bool:
    return bool(getattr(block, "is_complete", False))
