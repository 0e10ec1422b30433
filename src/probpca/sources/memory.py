"""Rows in an array, a memory map or a sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.rows import Block, as_block
from probpca.rows.block import MAX_PIECE_ROWS, PIECE_BYTES
from probpca.sources.local import fold_blocks, map_blocks, resolve_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.sources.protocol import M

BLOCKS_PER_THREAD = 2


@final
@dataclass(frozen=True, eq=False)
class InMemory:
    """Rows that can be sliced: dense array, memory map or scipy sparse matrix, never copied."""

    block: Block
    n_jobs: int = 1

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
    def single_precision(self) -> bool:
        """Are the values float32?"""
        return bool(self.block.values.dtype == np.float32)

    def fold(self, summarise: Callable[[Block], M]) -> M:
        """Summarise blocks in threads and merge the summaries."""
        return fold_blocks(summarise, self.blocks, self.n_jobs)

    def map(self, function: Callable[[Block], Any]) -> Any:
        """Apply a row-wise function in threads; arrays come back as one array."""
        return join(list(map_blocks(function, self.blocks, self.n_jobs)))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Few large blocks, for each one has a summary to merge; none smaller than a cache."""
        n = self.n_rows
        smallest = max(PIECE_BYTES * n // (8 * max(self.n_stored, 1)), 1)
        smallest = min(smallest, MAX_PIECE_ROWS)
        step = max(-(-n // (self.n_jobs * BLOCKS_PER_THREAD)), smallest)
        cuts = range(0, max(n, 1), step)
        return tuple(self.block.take(slice(start, min(start + step, n))) for start in cuts)


def join(answers: list[Any]) -> Any:
    """Put the answers of successive blocks together: arrays, or named tuples of arrays."""
    first = answers[0]
    if len(answers) == 1:
        return first
    if isinstance(first, tuple):
        return type(first)(*(join(list(parts)) for parts in zip(*answers, strict=True)))
    return np.concatenate(answers)


def in_memory(x: Any, weight: Any = None, n_jobs: int | None = None) -> InMemory:
    """Open an array or a sparse matrix, with row weights or without."""
    block = as_block(x)
    return InMemory(Block(block.values, weight), resolve_jobs(n_jobs))
