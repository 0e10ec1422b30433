"""Rows that come in batches from any iterable."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.errors import ShapeError, SourceError
from probpca.rows import Block, as_block
from probpca.sources.local import fold_blocks, map_blocks, resolve_jobs
from probpca.sources.memory import join, keep_blocks
from probpca.sources.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from probpca.sources.protocol import M, Source


@final
class Batches:
    """Matrices with the same columns, one after the other; they need not fit memory together.

    A list, or any object whose ``__iter__`` starts afresh, can be read as often as a solver likes.
    An iterator or a generator can be read once, which is enough for the closed form.
    """

    in_memory = False

    def __init__(self, batches: Iterable[Any], n_jobs: int | None = None) -> None:
        """Look at the first batch to learn the number of features."""
        self._batches = batches
        self.n_jobs = resolve_jobs(n_jobs)
        self._rest = iter(batches)
        self.repeatable = self._rest is not batches
        try:
            self._first: Block | None = as_block(next(self._rest))
        except StopIteration:
            msg = "an iterable of batches must yield at least one batch of rows; it yielded none."
            raise SourceError(msg) from None
        self.n_features = self._first.n_features
        self.n_rows = None
        self.n_stored = None
        self.columns: tuple[str, ...] | None = getattr(batches, "columns", None)
        self.single_precision = bool(self._first.values.dtype == np.float32)

    @property
    def incomplete(self) -> bool:
        """Does the first batch have missing cells?"""
        return self._first is not None and not self._first.is_complete

    def keep(self, prepare: Callable[[Block], Any]) -> Source:
        """Batches that can be read again are prepared whenever they are; others are kept in memory."""
        if self.repeatable:
            return Prepared(self, prepare)
        return keep_blocks(self, prepare, self._blocks())

    def fold(self, summarise: Callable[[Block], M]) -> M:
        """Summarise batches in threads, as they come, and merge the summaries."""
        return fold_blocks(summarise, self._blocks(), self.n_jobs)

    def map(self, function: Callable[[Block], Any]) -> Any:
        """Apply a row-wise function to each batch; arrays come back as one array."""
        return join(list(self.answers(function)))

    def answers(self, function: Callable[[Block], Any]) -> Iterator[Any]:
        """Apply a row-wise function; the answers batch by batch, in order."""
        return map_blocks(function, self._blocks(), self.n_jobs)

    @property
    def blocks(self) -> Iterator[Block]:
        """Batch after batch, one at a time."""
        return (block for block in self._blocks() if block.n_rows)

    def _blocks(self) -> Iterator[Block]:
        if self.repeatable:
            return (self._checked(batch) for batch in self._batches)
        if self._first is None:
            msg = (
                "this iterator of batches was read already, and the solver needs to read it again.\n"
                "Hint: pass a list, or an object whose __iter__ starts afresh."
            )
            raise SourceError(msg)
        first, self._first = self._first, None
        return chain([first], (self._checked(batch) for batch in self._rest))

    def _checked(self, batch: Any) -> Block:
        block = as_block(batch)
        if block.n_features != self.n_features:
            msg = f"every batch must have {self.n_features} columns, as the first one; got {block.n_features}."
            raise ShapeError(msg)
        return block
