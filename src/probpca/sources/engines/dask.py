"""Rows in a Dask array, a Dask dataframe or delayed blocks, processed by the workers that hold them."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import accumulate
from operator import attrgetter, itemgetter
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy import sparse

from probpca.blocks import Block, as_block
from probpca.errors import DataError, ProbpcaError, ShapeError, SourceError
from probpca.sources.engines.cluster_errors import causes, first_line, losses_named, partition_named, refuse
from probpca.sources.engines.local import itself, merged, one_blas_thread, quietly, resolve_jobs
from probpca.sources.readers.batches import BatchReader
from probpca.sources.readers.frames import as_text, frame_values, is_frame
from probpca.sources.source import Info, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from probpca.sources.source import M


@final
@dataclass(frozen=True, eq=False)
class DaskEngine:
    """Engine that runs functions on Dask workers and collects only their small summaries."""

    parts: tuple[Any, ...]  # delayed matrices, or prepared blocks
    lengths: tuple[float, ...]  # number of rows of each part; NaN if Dask does not know it
    example: Any  # two rows, to find the shape and type of the result of a function
    read: Callable[[Any], Any]  # makes a block of a part
    starts: tuple[int, ...] = ()  # position of the first row of each part; empty if blocks need not know it
    merged_at_once: int = 8  # number of summaries that one task merges

    def keep(self, prepare: Callable[[Any], Any]) -> DaskEngine:
        """Prepare the blocks on the workers and keep them there; Dask recomputes those of a lost worker."""
        with losses_named(partial(_loss, self.parts)):
            prepared = import_module("dask").persist(*self._each(prepare))
        return replace(self, parts=prepared, example=prepare(self.example), read=itself, starts=())

    def fold(self, summarise: Callable[[Any], M]) -> M:
        """Summarise each part on its worker and merge the summaries in order, as a tree.

        A level of the tree takes the scheduler and the workers several milliseconds, so that each task merges many
        summaries, unless these may be large.
        """
        level, k = self._each(summarise), self.merged_at_once
        while len(level) > 1:
            level = [_later(merged)(level[i : i + k]) for i in range(0, len(level), k)]
        return _computed(level[0], self.parts)

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
        first = _later(_work)(attrgetter("is_complete"), self.read, 0, self.parts[0])
        return not _computed(first, self.parts)

    def _each(self, function: Callable[[Any], Any]) -> list[Any]:
        # A large function is one node of the graph: sent once, not once per task, but later than the tasks themselves.
        shared = function if _size(function) * len(self.parts) <= COPIED_BYTES else _later(function)
        starts = self.starts or (None,) * len(self.parts)
        numbered = enumerate(zip(self.parts, starts, strict=True))
        return [_later(_work)(shared, self.read, number, part, start) for number, (part, start) in numbered]

    def _joined(self, answers: list[Any], like: Any) -> Any:
        """Results of all parts as one Dask array, with a row per row unless the example shows otherwise."""
        if isinstance(like, tuple):
            fields = ([_later(itemgetter(i))(answer) for answer in answers] for i in range(len(like)))
            return type(like)(*map(self._joined, fields, like))
        if isinstance(like, str | None):  # the same for all rows
            return like
        lengths = self.lengths if len(like) == self.example.n_rows else (np.nan,) * len(answers)
        return _stacked(answers, lengths, like)


COPIED_BYTES = 2**20
"""Total size up to which every task gets a copy of a pickled function."""
MERGED_BYTES = 2**26
"""Total size up to which one task merges more than a few matrices of a number for each pair of columns."""


def open_dask(rows: Any, n_jobs: int | None = None) -> Source:
    """Make a source of a Dask array, a Dask dataframe, or a list of delayed matrices or dataframes.

    The type of the cells that Dask announces need not be the one that a partition has: the workers check each one.
    """
    match type(rows).__name__:
        case "Array":
            found = _of_array(rows)
        case "DataFrame":
            found = _of_frame(rows)
        case "list" | "tuple":
            found = _of_delayed(rows)
        case kind:
            msg = f"rows must be a Dask array, a Dask dataframe or a list of delayed matrices; got {kind}."
            raise SourceError(msg)
    d, known = found.example.n_features, not np.isnan(found.lengths).any()
    n = int(sum(found.lengths)) if known else None
    read = partial(_block, BatchReader(found.names, False, d), found.announced)
    starts = tuple(int(start) for start in accumulate(found.lengths[:-1], initial=0)) if known else ()
    many = int(np.clip(MERGED_BYTES // (8 * max(d, 1) ** 2), 8, 32))
    engine = DaskEngine(found.parts, found.lengths, found.example, read, starts, many)
    info = Info(
        n_features=d,
        n_rows=n,
        n_stored=None if n is None else n * d,
        numbered=known,
        columns=found.columns,
        single_precision=bool(found.example.values.dtype == np.float32),
        n_jobs=_worker_threads() if n_jobs is None else resolve_jobs(n_jobs),
    )
    return Source(info, engine, glance=engine.has_missing)


class _Partitions(NamedTuple):
    """Delayed partitions of a collection and what is known without computing them."""

    parts: tuple[Any, ...]
    lengths: tuple[float, ...]  # NaN where Dask does not know the number of rows
    example: Block  # two rows
    names: tuple[Any, ...] | None = None  # of the columns in each partition, if these are dataframes
    columns: tuple[str, ...] | None = None
    announced: Any = None  # type of the cells that Dask announces, by name for dataframes; None if it announces none


def _example(d: int, *, single: bool) -> Block:
    return Block(np.zeros((2, d), np.float32 if single else np.float64))


def _of_array(array: Any) -> _Partitions:
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        msg = f"rows must form a matrix (n, d) of numbers; got shape {array.shape} and dtype {array.dtype}."
        raise (ShapeError if array.ndim != 2 else DataError)(msg)
    if array.numblocks[1] > 1:  # chunks are checked before NumPy joins them, which turns numbers beside text into text
        array = array.map_blocks(_chunk, array.dtype, meta=array._meta).rechunk({1: -1})  # noqa: SLF001
    example = _example(array.shape[1], single=array.dtype == np.float32)
    return _Partitions(tuple(array.to_delayed()[:, 0]), array.chunks[0], example, announced=array.dtype)


def _of_frame(frame: Any) -> _Partitions:
    for name, dtype in frame.dtypes.items():
        if dtype.kind not in "biuf":
            msg = f"every column must be numeric; column {name!r} has dtype {dtype}.\nHint: encode or drop it."
            raise DataError(msg)
    names, single = tuple(frame.columns), all(dtype == np.float32 for dtype in frame.dtypes)
    parts, example = tuple(frame.to_delayed()), _example(len(names), single=single)
    columns, announced = tuple(map(str, names)), dict(frame.dtypes.items())
    return _Partitions(parts, _UNKNOWN * len(parts), example, names, columns, announced)


def _of_delayed(blocks: Sequence[Any]) -> _Partitions:
    """Compute the first block to find the number, the type and the names of the columns."""
    values, names = _computed(_later(_work)(itself, _first, 0, blocks[0]), blocks)
    example = _example(values.shape[1], single=values.dtype == np.float32)
    return _Partitions(tuple(map(_later, blocks)), _UNKNOWN * len(blocks), example, names, as_text(names))


_UNKNOWN = (float("nan"),)


def may_be_sparse(rows: Any) -> bool:
    """Whether the blocks are sparse matrices, or may be because Dask does not know their type."""
    return isinstance(rows, list | tuple) or (type(rows).__name__ == "Array" and sparse.issparse(rows._meta))  # noqa: SLF001


def _stacked(blocks: list[Any], lengths: tuple[float, ...], like: Any) -> Any:
    da = import_module("dask.array")
    arrays = [da.from_delayed(b, (n, *like.shape[1:]), like.dtype) for b, n in zip(blocks, lengths, strict=True)]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def _worker_threads() -> int:
    try:
        client = import_module("distributed").default_client()
    except (ImportError, ValueError):
        client = None
    if client is None or client.status != "running":  # a client that was closed may still be the default one
        return resolve_jobs(None)
    with losses_named(partial(_loss, ())):
        return max(sum(client.nthreads().values()), 1)


def _size(function: Any) -> float:
    """Size of a pickled function in bytes; infinite if only Dask can pickle it."""
    try:
        return len(pickle.dumps(function))
    except (pickle.PicklingError, AttributeError, TypeError):
        return float("inf")


def _later(function: Any) -> Any:
    return import_module("dask").delayed(function, pure=False, traverse=False)


def _computed(value: Any, parts: Sequence[Any]) -> Any:
    with losses_named(partial(_loss, parts)):
        return value.compute()


def _loss(parts: Sequence[Any], error: Exception) -> str:
    """Say what a cluster that holds these parts has lost, and how to replace it; empty if the error is another one."""
    found = first_line(error)
    if isinstance(error, MemoryError):
        return f"a Dask task ran out of memory ({found}).\nHint: use smaller partitions or workers with more memory"
    if type(error).__name__ == "KilledWorker":
        return (
            f"Dask workers died again and again while they processed the same rows ({found}).\n"
            "Hint: their logs say why; if it was lack of memory, use smaller partitions or workers with more memory"
        )
    if not any(map(_is_of_distributed, causes(error))) and not _are_lost(parts):
        return ""
    return (
        f"the Dask cluster was stopped or restarted, or the connection to it was lost ({found}).\n"
        "Hint: connect to a running cluster, load the rows again if they were persisted on the lost one"
    )


def _is_of_distributed(error: BaseException) -> bool:
    """Whether the scheduler's library raised the error: one of its own, or one of a connection that it made.

    A connection fails with an ``OSError`` or a ``TimeoutError`` that the library raises itself, or that comes from the
    modules it connects with; whoever called these is then asked, because a task may use them too.
    """
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    raised_in = next((module for module in reversed(modules) if module.split(".")[0] not in _CONNECTING), "")
    return any(module.startswith("distributed.") for module in (type(error).__module__, raised_in))


_CONNECTING = {"asyncio", "concurrent", "contextlib", "selectors", "socket", "ssl", "threading", "tornado"}
"""Packages with which ``distributed`` connects and waits."""


def _are_lost(parts: Sequence[Any]) -> bool:
    """Whether a cluster that is gone held some of the parts; other schedulers then raise errors of their own."""
    client = sys.modules.get("distributed.client")
    return client is not None and any(future.cancelled() for future in client.futures_of(list(parts)))


def _work(
    function: Callable[[Any], Any], read: Callable[[Any], Any], number: int, part: Any, start: int | None = None
) -> Any:
    with partition_named(number):
        block = read(part) if start is None else replace(read(part), start=start)
    with one_blas_thread():  # workers run in parallel already
        return quietly(function, block)


def _first(part: Any) -> tuple[Any, tuple[Any, ...] | None]:
    """Empty array of the width and type of a partition, and the names of its columns if it is a dataframe."""
    values, names = frame_values(part) if is_frame(part) else (as_block(part).values, None)
    return values[:0], names


def _chunk(chunk: Any, announced: Any, block_info: Any = None) -> Any:
    """Cells of a chunk of an array that is also cut by columns, as floats; a sparse matrix is only checked."""
    try:
        _require_announced(chunk, announced)
        values = as_block(chunk).values
    except ProbpcaError as error:
        place = block_info[0]
        start = place["array-location"][1][0]
        msg = f"partition {place['chunk-location'][0]}, in the chunk that begins at column {start}: {error}"
        raise type(error)(msg) from error
    return chunk if sparse.issparse(chunk) else values


def _require_announced(part: Any, announced: Any) -> None:
    """Raise ``DataError`` for truth values where Dask announces numbers: these are hardly the cells that were meant."""
    if isinstance(announced, dict) and is_frame(part):
        kinds = [(f"column {name!r}", kind, announced.get(name, kind)) for name, kind in part.dtypes.items()]
    else:
        kinds = [("an array", getattr(part, "dtype", announced), announced)]
    for what, kind, wanted in kinds:
        if getattr(kind, "kind", "") == "b" and getattr(wanted, "kind", "b") != "b":
            msg = (
                f"cells must be numbers, because Dask announces {wanted}; got {what} of {kind}, which are truth values."
                "\nHint: convert them with astype(float) if 0 and 1 are meant, or announce booleans (meta=)."
            )
            raise DataError(msg)


def _block(reader: BatchReader, announced: Any, part: Any) -> Block:
    _require_announced(part, announced)
    block = reader.block(part)
    if block.n_features != reader.n_features:
        msg = f"every block must have {reader.n_features} columns, like the first; got {block.n_features}."
        raise ShapeError(msg)
    return block
