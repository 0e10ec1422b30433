"""Rows, wherever they live: the contract of a source, and rows in memory, in parts, prepared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar, final

import numpy as np

from probpca.blocks import Block
from probpca.blocks.block import MAX_PIECE_ROWS, PIECE_BYTES, with_units
from probpca.errors import SourceError
from probpca.sources.engines.local import fold_blocks, map_blocks, merged, resolve_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from probpca.typing import Array


class Mergeable(Protocol):
    """A summary of rows that knows how to absorb another one."""

    def merge(self, other: Self, /) -> Self:
        """Summary of both sets of rows."""
        ...


M = TypeVar("M", bound=Mergeable)
Watch: TypeAlias = Callable[[int, int], None]
"""Is told how many parts of a pass over the rows are done, of how many."""


class Source(Protocol):
    """Rows, wherever they live."""

    @property
    def n_features(self) -> int:
        """Number of columns."""
        ...

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where that is known without reading them."""
        ...

    @property
    def n_stored(self) -> int | None:
        """Number of cells that are stored, where that is known: n_rows * n_features unless sparse."""
        ...

    @property
    def repeatable(self) -> bool:
        """Can the rows be read more than once?"""
        ...

    @property
    def in_memory(self) -> bool:
        """Are all rows at hand, in this process?"""
        ...

    @property
    def single_precision(self) -> bool:
        """Are the values float32?"""
        ...

    @property
    def n_jobs(self) -> int:
        """Number of threads or workers."""
        ...

    @property
    def incomplete(self) -> bool:
        """Is it known, without reading all rows, that cells are missing?"""
        ...

    def keep(self, prepare: Callable[[Block], Any]) -> Source:
        """The same rows with every block prepared, once where it can be kept, else whenever it is read."""
        ...

    def fold(self, summarise: Callable[[Block], M]) -> M:
        """Summarise every block where it lies and merge the summaries, in order."""
        ...

    def map(self, function: Callable[[Block], Any]) -> Any:
        """Apply a row-wise function; the answer stays in this source's own kind of container."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Every block goes through a function first."""

    source: Source
    prepare: Callable[[Any], Any]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.source.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if known."""
        return self.source.n_rows

    @property
    def n_stored(self) -> int | None:
        """Number of stored cells, if known."""
        return self.source.n_stored

    @property
    def repeatable(self) -> bool:
        """As the source below."""
        return self.source.repeatable

    @property
    def in_memory(self) -> bool:
        """As the source below."""
        return self.source.in_memory

    @property
    def single_precision(self) -> bool:
        """As the source below."""
        return self.source.single_precision

    @property
    def n_jobs(self) -> int:
        """As the source below."""
        return self.source.n_jobs

    @property
    def incomplete(self) -> bool:
        """As the source below."""
        return self.source.incomplete

    @property
    def blocks(self) -> Iterator[Any]:
        """Prepared blocks, one at a time."""
        below: Any = self.source
        return map(self.prepare, below.blocks)

    @property
    def answers(self) -> Callable[[Callable[[Any], Any]], Iterator[Any]]:
        """Apply a row-wise function to prepared blocks, one after the other, where the source below can."""
        below: Any = self.source
        ask = below.answers
        return lambda function: ask(partial(_in_turn, self.prepare, function))

    def keep(self, prepare: Callable[[Any], Any]) -> Source:
        """Prepare each block further, and keep it where the source below can."""
        return self.source.keep(partial(_in_turn, self.prepare, prepare))

    def fold(self, summarise: Callable[[Any], M]) -> M:
        """Prepare each block, then summarise it."""
        return self.source.fold(partial(_in_turn, self.prepare, summarise))

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Prepare each block, then apply the function."""
        return self.source.map(partial(_in_turn, self.prepare, function))


def scaled(source: Source, scale: Array) -> Prepared:
    """Each column multiplied by a constant: (d,)."""
    return Prepared(source, partial(_scale, scale))


def arranged(source: Source, order: Sequence[int]) -> Prepared:
    """The same columns in another order."""
    return Prepared(source, partial(_arrange, list(order)))


def _in_turn(first: Callable[[Any], Any], second: Callable[[Any], Any], block: Block) -> Any:
    return second(first(block))


def _scale(scale: Array, block: Block) -> Block:
    return replace(block, values=with_units(block.values, scale))


def _arrange(order: list[int], block: Block) -> Block:
    """Rows that have names are dense."""
    precision = None if block.precision is None else block.precision[:, order]
    return replace(block, values=block.values[:, order], precision=precision)


BLOCKS_PER_THREAD = 2
FEW_ROWS = 256
"""Blocks are not made smaller for the sake of having several for each thread."""
GLANCE = 1000
"""Rows that are looked at to see whether cells are missing."""


@final
@dataclass(frozen=True, eq=False)
class InMemory:
    """Rows that can be sliced: dense array, memory map or scipy sparse matrix, never copied."""

    block: Block
    n_jobs: int = 1
    columns: tuple[str, ...] | None = None  # their names

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.block.n_features

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.block.n_rows

    @property
    def n_stored(self) -> int:
        """Number of stored cells."""
        return int(self.block.values.nnz if self.block.is_sparse else self.block.values.size)

    @property
    def repeatable(self) -> bool:
        """Yes."""
        return True

    @property
    def in_memory(self) -> bool:
        """Yes."""
        return True

    @property
    def single_precision(self) -> bool:
        """Are the values float32?"""
        return bool(self.block.values.dtype == np.float32)

    @property
    def incomplete(self) -> bool:
        """Do the first rows have missing cells?"""
        return not self.block.take(slice(0, min(self.n_rows, GLANCE))).is_complete

    @property
    def takes_unstored_for_zero(self) -> bool:
        """Are cells that a sparse matrix does not store zeros?"""
        return self.block.is_sparse and not self.block.unstored_missing

    def keep(self, prepare: Callable[[Block], Any]) -> Kept:
        """Prepare the blocks now, in threads, and keep them."""
        return keep_blocks(self, prepare, self.blocks)

    def fold(self, summarise: Callable[[Block], M]) -> M:
        """Summarise blocks in threads and merge the summaries."""
        return fold_blocks(summarise, self.blocks, self.n_jobs)

    def map(self, function: Callable[[Block], Any]) -> Any:
        """Apply a row-wise function in threads; arrays come back as one array."""
        return join(list(self.answers(function)))

    def answers(self, function: Callable[[Block], Any]) -> Iterator[Any]:
        """Apply a row-wise function; the answers block by block, in order."""
        return map_blocks(function, self.blocks, self.n_jobs)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Few large blocks, for each one has a summary to merge; none smaller than a cache."""
        n = self.n_rows
        smallest = max(PIECE_BYTES * n // (8 * max(self.n_stored, 1)), 1)
        smallest = min(smallest, MAX_PIECE_ROWS)
        smallest = max(smallest, min(FEW_ROWS, -(-n // self.n_jobs)))
        step = max(-(-n // (self.n_jobs * BLOCKS_PER_THREAD)), smallest)
        cuts = range(0, max(n, 1), step)
        return tuple(self.block.take(slice(start, min(start + step, n))) for start in cuts)


@final
class Kept:
    """The rows of another source, prepared and held in memory."""

    n_stored = None
    repeatable = True
    in_memory = True
    incomplete = True

    def __init__(self, blocks: list[Any], n_features: int, n_jobs: int = 1, *, single_precision: bool = False) -> None:
        """Hold the prepared blocks."""
        self.blocks = blocks
        self.n_features, self.n_jobs, self.single_precision = n_features, n_jobs, single_precision

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(block.n_rows for block in self.blocks)

    def keep(self, prepare: Callable[[Any], Any]) -> Kept:
        """Prepare further."""
        return keep_blocks(self, prepare, self.blocks)

    def fold(self, summarise: Callable[[Any], M]) -> M:
        """Summarise blocks in threads and merge the summaries."""
        return fold_blocks(summarise, self.blocks, self.n_jobs)

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Apply a row-wise function in threads."""
        return join(list(map_blocks(function, self.blocks, self.n_jobs)))


def keep_blocks(source: Source, prepare: Callable[[Any], Any], blocks: Iterable[Any]) -> Kept:
    """Prepare blocks of a source in threads, and keep them."""
    prepared = list(map_blocks(prepare, blocks, source.n_jobs))
    return Kept(prepared, source.n_features, source.n_jobs, single_precision=source.single_precision)


def join(answers: list[Any]) -> Any:
    """Put the answers of successive blocks together: arrays, or named tuples of arrays."""
    first = answers[0]
    if len(answers) == 1:
        return first
    if isinstance(first, tuple):
        return type(first)(*(join(list(parts)) for parts in zip(*answers, strict=True)))
    return np.concatenate(answers)


def in_memory(block: Block, n_jobs: int | None = None) -> InMemory:
    """Open rows that are at hand."""
    return InMemory(block, resolve_jobs(n_jobs))


def held(source: Source) -> list[Block]:
    """The rows of a source in blocks, in memory."""
    if isinstance(source, InMemory):
        return [source.block]
    kept: Any = source.keep(as_it_is)
    return list(kept.blocks)


def as_it_is(block: Block) -> Block:
    """A block that needs no preparation."""
    return block


@final
@dataclass(frozen=True, eq=False)
class Parts:
    """Each worker takes a part, reads it block by block, and summarises what it has read.

    One worker reads while another computes, and no more than a block for each of them is held.
    """

    parts: Sequence[Any]
    read: Callable[[Any], Iterator[Block]]
    n_features: int
    n_rows: int
    n_jobs: int
    single_precision: bool
    columns: tuple[str, ...] | None = None
    watch: Watch | None = None

    repeatable = True
    in_memory = False

    @property
    def n_stored(self) -> int:
        """Number of cells."""
        return self.n_rows * self.n_features

    @property
    def incomplete(self) -> bool:
        """Do the first rows have missing cells?"""
        return any(not block.is_complete for block in self._glance())

    def keep(self, prepare: Callable[[Block], Any]) -> Source:
        """Prepare blocks whenever they are read."""
        return Prepared(self, prepare)

    def fold(self, summarise: Callable[[Block], M]) -> M:
        """Summarise parts in threads and merge the summaries, in order."""
        found = self._in_order(partial(_summarised, self.read, summarise))
        total = merged(summary for summary in found if summary is not None)
        if total is None:
            msg = "there are no rows to read."
            raise SourceError(msg)
        return total

    def map(self, function: Callable[[Block], Any]) -> Any:
        """Apply a row-wise function in threads; arrays come back as one array."""
        found = [answer for part in self._in_order(partial(_answered, self.read, function)) for answer in part]
        return join(found or [function(Block(np.empty((0, self.n_features))))])

    def answers(self, function: Callable[[Block], Any]) -> Iterator[Any]:
        """Apply a row-wise function; the answers block by block, in order. A part may be too large to be held."""
        return map_blocks(function, self._watched(), self.n_jobs)

    @property
    def blocks(self) -> Iterator[Block]:
        """Block after block, one at a time."""
        for part in self.parts:
            yield from (block for block in self.read(part) if block.n_rows)

    def _watched(self) -> Iterator[Block]:
        """The same, and whoever watches is told."""
        for done, part in enumerate(self.parts, 1):
            yield from (block for block in self.read(part) if block.n_rows)
            self._tell(done)

    def _in_order(self, work: Callable[[Any], Any]) -> Iterator[Any]:
        for done, result in enumerate(map_blocks(work, self.parts, self.n_jobs), 1):
            self._tell(done)
            yield result

    def _tell(self, done: int) -> None:
        if self.watch is not None:
            self.watch(done, len(self.parts))

    def _glance(self) -> Iterator[Block]:
        """The first block that has rows."""
        yield from islice(self.blocks, 1)


def _summarised(read: Callable[[Any], Iterator[Block]], summarise: Callable[[Block], M], part: Any) -> M | None:
    return merged(summarise(block) for block in read(part) if block.n_rows)


def _answered(read: Callable[[Any], Iterator[Block]], function: Callable[[Block], Any], part: Any) -> list[Any]:
    return [function(block) for block in read(part) if block.n_rows]
