"""Rows, wherever they live: what is known about them, and an engine that runs functions on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, final

import numpy as np

from probpca.blocks import Block
from probpca.blocks.block import MAX_PIECE_ROWS, PIECE_BYTES, deviations_or_zero, with_units
from probpca.errors import DataError
from probpca.sources.engines.local import LocalEngine, itself

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from probpca.typing import Array, Index

Function = Callable[[Any], Any]
Watch = Callable[[int, int], None]
"""Called with the number of parts that a pass over the rows has finished, and the number of all parts."""

FEW_ROWS = 256
"""Rows in memory are not cut into smaller blocks than this for the sake of having several for each thread."""


class Mergeable(Protocol):
    """A summary of rows that can be merged with the summary of other rows."""

    def merge(self, other: Self, /) -> Self:
        """Summary of both sets of rows."""
        ...


M = TypeVar("M", bound=Mergeable)


@final
@dataclass(frozen=True, kw_only=True)
class Info:
    """Facts about the rows of a source, known without reading them."""

    n_features: int
    n_rows: int | None = None
    n_stored: int | None = None  # cells in memory or in the file: n_rows * n_features unless sparse
    columns: tuple[str, ...] | None = None  # names, if all columns have one
    single_precision: bool = False  # are the values float32?
    repeatable: bool = True  # can the rows be read more than once?
    in_memory: bool = False  # are all rows in the memory of this process?
    sparse: bool = False  # are only some cells stored?
    unstored_zero: bool = False  # are the cells that sparse rows do not store zeros?
    n_jobs: int = 1  # threads or workers


class Engine(Protocol):
    """How functions run on the blocks of a source: in threads of this process, in Dask or in Spark."""

    def keep(self, prepare: Function) -> Engine | None:
        """Engine that keeps every block prepared where it lies; None if this engine reads blocks anew in each pass."""
        ...

    def fold(self, summarise: Function) -> Any:
        """Merged summaries of all blocks, in their order; None if there are no rows."""
        ...

    def map(self, function: Function) -> Any:
        """Answers to a row-wise function in this engine's kind of container; None if there are no rows."""
        ...

    def answers(self, function: Function) -> Iterator[Any]:
        """Answers to a row-wise function, block by block and in order."""
        ...

    def hold(self) -> list[Any]:
        """All blocks in the memory of this process."""
        ...


def _unknown() -> bool:
    return True


@final
@dataclass(frozen=True, eq=False)
class Source:
    """Rows in blocks, on which an engine runs functions.

    Functions travel to the rows and small summaries come back: learning needs no more than ``fold``,
    and row-wise questions no more than ``map`` or ``answers``.
    """

    info: Info
    engine: Engine
    prepare: Function | None = None  # applied to every block whenever it is read
    glance: Callable[[], bool] = _unknown

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.info.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or None if only a pass over the rows could tell."""
        return self.info.n_rows

    @property
    def n_stored(self) -> int | None:
        """Number of stored cells, or None if unknown: n_rows * n_features unless the rows are sparse."""
        return self.info.n_stored

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, or None if they have none."""
        return self.info.columns

    @property
    def single_precision(self) -> bool:
        """Whether the values are float32."""
        return self.info.single_precision

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Type of the values: float32 or float64."""
        return np.float32 if self.info.single_precision else np.float64

    @property
    def is_sparse(self) -> bool:
        """Whether some cells are zeros, or missing, that are not stored."""
        return self.info.sparse

    @property
    def repeatable(self) -> bool:
        """Whether the rows can be read more than once."""
        return self.info.repeatable

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in the memory of this process."""
        return self.info.in_memory

    @property
    def n_jobs(self) -> int:
        """Number of threads or workers that share the work."""
        return self.info.n_jobs

    def starts_incomplete(self) -> bool:
        """Read the first rows to see whether cells are missing; true where nobody knows."""
        return self.glance()

    @classmethod
    def of_block(cls, block: Block, n_jobs: int = 1, columns: tuple[str, ...] | None = None) -> Source:
        """Source of rows in memory; they are cut into views for the threads and never copied."""
        stored = int(block.values.nnz if block.is_sparse else block.values.size)
        info = Info(
            n_features=block.n_features,
            n_rows=block.n_rows,
            n_stored=stored,
            columns=columns,
            single_precision=bool(block.values.dtype == np.float32),
            in_memory=True,
            sparse=block.is_sparse,
            unstored_zero=block.is_sparse and not block.unstored_missing,
            n_jobs=n_jobs,
        )
        engine = LocalEngine(_cut(block, stored, n_jobs), n_jobs=n_jobs, held=(block,))
        return cls(info, engine)

    @classmethod
    def of_blocks(cls, blocks: Sequence[Any], n_features: int, n_jobs: int = 1, *, single: bool = False) -> Source:
        """Source of blocks in memory that need not be cut, such as blocks that were prepared."""
        n_rows = sum(block.n_rows for block in blocks)
        info = Info(n_features=n_features, n_rows=n_rows, single_precision=single, in_memory=True, n_jobs=n_jobs)
        return cls(info, LocalEngine(tuple(blocks), n_jobs=n_jobs, held=tuple(blocks)))

    def keep(self, prepare: Function | None = None) -> Source:
        """Source of the same rows with every block prepared by a function.

        Blocks are prepared once and kept where that is possible: in memory if the rows are there, or if they
        can be read only once; in the cluster if they are there. Blocks of files are prepared whenever they
        are read. Without a function the blocks are kept as they are.
        """
        together = in_turn(self.prepare, prepare or itself)
        if self.in_memory or not self.repeatable:
            blocks = list(self.engine.answers(together))
            return Source.of_blocks(blocks, self.n_features, self.n_jobs, single=self.single_precision)
        engine = self.engine.keep(together)
        return replace(self, prepare=together) if engine is None else Source(self.info, engine, glance=_unknown)

    def fold(self, summarise: Callable[[Any], M]) -> M:
        """Summarise every block where it lies and merge the summaries in the order of the rows."""
        total: M | None = self.engine.fold(in_turn(self.prepare, summarise))
        if total is None:
            msg = "at least 2 rows are needed to learn a distribution; there are none."
            raise DataError(msg)
        return total

    def map(self, function: Function) -> Any:
        """Apply a row-wise function to all rows; the answer is an array, a Dask array or a Spark DataFrame."""
        work = in_turn(self.prepare, function)
        found = self.engine.map(work)
        return work(Block(np.empty((0, self.n_features)))) if found is None else found

    def answers(self, function: Function) -> Iterator[Any]:
        """Apply a row-wise function block by block; the answers come in order, and are not collected.

        Raises ``SourceError`` if the rows are in a cluster.
        """
        return self.engine.answers(in_turn(self.prepare, function))

    def hold(self) -> list[Any]:
        """All rows as a list of blocks in memory. Raises ``SourceError`` if the rows are in a cluster."""
        return self.engine.hold() if self.prepare is None else list(self.answers(itself))

    def spread(self, count: int) -> list[Any]:
        """Blocks with ``count`` rows of those in memory, or all if they are not more.

        They are spread over the whole table at irregular distances, so that no period of it is met.
        """
        blocks, n = self.engine.hold(), self.n_rows or 0
        if count < n:
            places = spread_places(count, n)
            blocks = [blocks[0].pick(places)] if len(blocks) == 1 else _picked(blocks, places)
        return blocks if self.prepare is None else [self.prepare(block) for block in blocks]

    def scaled(self, scale: Array) -> Source:
        """Source of the same rows with each column multiplied by a constant: (d,)."""
        return replace(self, prepare=in_turn(self.prepare, partial(_scale, scale)))

    def centred_and_filled(self, centre: Array) -> Source:
        """Source of complete rows: deviations of the same rows from ``centre`` (d,), 0 where a cell is missing."""
        sparse = self.info.sparse and not self.info.unstored_zero
        info = replace(self.info, sparse=sparse, unstored_zero=sparse, single_precision=False)
        return replace(self, info=info, prepare=in_turn(self.prepare, partial(deviations_or_zero, centre)))

    def arranged(self, order: Sequence[int]) -> Source:
        """Source of the same rows with their columns in another order."""
        columns = None if self.columns is None else tuple(self.columns[j] for j in order)
        prepare = in_turn(self.prepare, partial(_arrange, list(order)))
        return replace(self, info=replace(self.info, columns=columns), prepare=prepare)


def _picked(blocks: list[Block], places: Index) -> list[Block]:
    """Rows at places, in order, that count through all blocks."""
    ends = np.cumsum([block.n_rows for block in blocks])
    parts = zip(blocks, np.split(places, np.searchsorted(places, ends[:-1])), ends, strict=True)
    return [block.pick(part - (end - block.n_rows)) for block, part, end in parts if part.size]


@lru_cache(maxsize=8)
def spread_places(count: int, n: int) -> Index:
    """Places of ``count`` of n rows, in order, one in each stretch of n / count: (count,).

    Where in its stretch is a multiple of the golden ratio, modulo 1: these are spread evenly and have no period.
    """
    i = np.arange(count)
    places = ((i + i * 0.6180339887498949 % 1.0) * (n / count)).astype(np.intp)
    places.setflags(write=False)
    return places


def in_turn(first: Function | None, second: Function) -> Function:
    """Composition of two functions of a block."""
    return second if first is None else partial(_in_turn, first, second)


def _in_turn(first: Function, second: Function, block: Any) -> Any:
    return second(first(block))


def _scale(scale: Array, block: Block) -> Block:
    return replace(block, values=with_units(block.values, scale))


def _arrange(order: list[int], block: Block) -> Block:
    """Rows whose columns have names are dense."""
    precision = None if block.precision is None else block.precision[:, order]
    return replace(block, values=block.values[:, order], precision=precision)


def _cut(block: Block, stored: int, n_jobs: int) -> tuple[Block, ...]:
    """Two blocks for each thread, because each block costs a merge; none smaller than the cache or a few rows."""
    n = block.n_rows
    smallest = min(max(PIECE_BYTES * n // (8 * max(stored, 1)), 1), MAX_PIECE_ROWS)
    smallest = max(smallest, min(FEW_ROWS, -(-n // n_jobs)))
    step = max(-(-n // (2 * n_jobs)), smallest)
    if step >= n:
        return (block,)
    return tuple(block.take(slice(start, min(start + step, n))) for start in range(0, n, step))
