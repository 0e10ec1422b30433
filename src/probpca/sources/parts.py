"""Rows in parts that are read when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks import Block
from probpca.errors import SourceError
from probpca.sources.local import map_blocks, merged
from probpca.sources.memory import join
from probpca.sources.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from probpca.sources.protocol import M, Source, Watch


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
