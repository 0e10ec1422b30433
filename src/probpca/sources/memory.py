"""Rows in an array, a memory map or a sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks.block import MAX_PIECE_ROWS, PIECE_BYTES
from probpca.sources.local import fold_blocks, map_blocks, resolve_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from probpca.blocks import Block
    from probpca.sources.protocol import M, Source

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
