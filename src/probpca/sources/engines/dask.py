"""Rows in a Dask array, a Dask dataframe or delayed blocks, processed by the workers that hold them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse

from probpca.blocks import Block, as_block
from probpca.errors import DataError, ShapeError, SourceError
from probpca.sources.engines.local import itself, merged, one_blas_thread, quietly, refuse, resolve_jobs
from probpca.sources.source import Info, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from probpca.sources.source import M


@final
@dataclass(frozen=True, eq=False)
class DaskEngine:
    """Engine that runs functions on Dask workers and collects only their small summaries."""

    parts: tuple[Any, ...]  # delayed matrices, or prepared blocks
    lengths: tuple[float, ...]  # number of rows of each part; NaN if Dask does not know it
    example: Any  # two rows, to find the shape and type of the result of a function
    read: Callable[[Any], Any]  # makes a block of a part

    def keep(self, prepare: Callable[[Any], Any]) -> DaskEngine:
        """Prepare the blocks on the workers and keep them there; Dask recomputes those of a lost worker."""
        prepared = import_module("dask").persist(*self._each(prepare))
        return replace(self, parts=prepared, example=prepare(self.example), read=itself)

    def fold(self, summarise: Callable[[Any], M]) -> M:
        """Summarise each part on its worker and merge the summaries in order, as a tree.

        Each task merges eight summaries, because the scheduler spends about a millisecond per task.
        """
        level = self._each(summarise)
        while len(level) > 1:
            level = [_later(merged)(level[i : i + 8]) for i in range(0, len(level), 8)]
        return level[0].compute()

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Apply a row-wise function lazily; the result is a Dask array, or a named tuple of them."""
        return self._joined(self._each(function), quietly(function, self.example))

    def answers(self, function: Callable[[Any], Any]) -> Iterator[Any]:
        """Raise ``SourceError``: the rows are not in this process."""
        del function
        refuse("Dask")

    def hold(self) -> list[Any]:
        """Raise ``SourceError``: the rows are not in this process."""
        refuse("Dask")

    def has_missing(self) -> bool:
        """Whether the first part, which is computed to find out, has missing cells."""
        return not _later(_work)(attrgetter("is_complete"), self.read, self.parts[0]).compute()

    def _each(self, function: Callable[[Any], Any]) -> list[Any]:
        shared = _later(function)  # one node of the graph, shared by all tasks: sent once, not once per task
        return [_later(_work)(shared, self.read, part) for part in self.parts]

    def _joined(self, answers: list[Any], like: Any) -> Any:
        """Results of all parts as one Dask array, with a row per row unless the example shows otherwise."""
        if isinstance(like, tuple):
            fields = ([_later(itemgetter(i))(answer) for answer in answers] for i in range(len(like)))
            return type(like)(*map(self._joined, fields, like))
        if isinstance(like, str | None):  # the same for all rows
            return like
        lengths = self.lengths if len(like) == self.example.n_rows else (np.nan,) * len(answers)
        return _stacked(answers, lengths, like)


def open_dask(rows: Any, n_jobs: int | None = None) -> Source:
    """Make a source of a Dask array, a Dask dataframe, or a list of delayed matrices."""
    columns = None
    match type(rows).__name__:
        case "Array":
            array = rows
        case "DataFrame":
            array, columns = _numbers(rows), tuple(map(str, rows.columns))
        case "list" | "tuple":  # the first block is computed to find the number of columns
            like = _later(_work)(attrgetter("values"), as_block, rows[0])[:0].compute()
            array = _stacked([_later(block) for block in rows], (np.nan,) * len(rows), like)
        case kind:
            msg = f"rows must be a Dask array, a Dask dataframe or a list of delayed matrices; got {kind}."
            raise SourceError(msg)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        msg = f"rows must form a matrix (n, d) of numbers; got shape {array.shape} and dtype {array.dtype}."
        raise (ShapeError if array.ndim != 2 else DataError)(msg)
    array = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
    single, d = bool(array.dtype == np.float32), array.shape[1]
    n, cells = (None, None) if np.isnan(array.shape[0]) else (len(array), len(array) * d)
    jobs = _worker_threads() if n_jobs is None else resolve_jobs(n_jobs)
    info = Info(n_features=d, n_rows=n, n_stored=cells, columns=columns, single_precision=single, n_jobs=jobs)
    example = Block(np.zeros((2, d), np.float32 if single else np.float64))
    engine = DaskEngine(tuple(array.to_delayed()[:, 0]), array.chunks[0], example, partial(_block, d))
    return Source(info, engine, glance=engine.has_missing)


def may_be_sparse(rows: Any) -> bool:
    """Whether the blocks are sparse matrices, or may be because Dask does not know their type."""
    return isinstance(rows, list | tuple) or (type(rows).__name__ == "Array" and sparse.issparse(rows._meta))  # noqa: SLF001


def _numbers(frame: Any) -> Any:
    for name, dtype in frame.dtypes.items():
        if dtype.kind not in "biuf":
            msg = f"every column must be numeric; column {name!r} has dtype {dtype}.\nHint: encode or drop it."
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


def _work(function: Callable[[Any], Any], read: Callable[[Any], Any], part: Any) -> Any:
    block = read(part)
    with one_blas_thread():  # workers run in parallel already
        return quietly(function, block)


def _block(d: int, part: Any) -> Block:
    block = as_block(part)
    if block.n_features != d:
        msg = f"every block must have {d} columns, like the first; got {block.n_features}."
        raise ShapeError(msg)
    return block
