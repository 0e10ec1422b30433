"""Rows that come in batches from any iterable."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks import Block, as_block
from probpca.errors import ShapeError, SourceError
from probpca.sources.engines.local import fold_blocks, map_blocks, resolve_jobs
from probpca.sources.readers.frames import as_text, frame_values, is_frame, order_of
from probpca.sources.source import Prepared, join, keep_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from probpca.sources.source import M, Source


@final
class Batches:
    """Matrices with the same columns, one after the other; they need not fit memory together.

    A list, or any object whose ``__iter__`` starts afresh, can be read as often as a solver likes.
    An iterator or a generator can be read once, which is enough for the closed form.
    """

    in_memory = False

    def __init__(self, batches: Iterable[Any], n_jobs: int | None = None, *, unstored_missing: bool = False) -> None:
        """Look at the first batch to learn the number of features and, if it is a dataframe, their names."""
        self._batches = batches
        self.n_jobs = resolve_jobs(n_jobs)
        rest = iter(batches)
        self.repeatable = rest is not batches
        try:
            batch = next(rest)
        except StopIteration:
            msg = "an iterable of batches must yield at least one batch of rows; it yielded none."
            raise SourceError(msg) from None
        self._unstored_missing = unstored_missing
        self._names = frame_values(batch)[1] if is_frame(batch) else None
        first = self._block(batch)
        self.n_features = first.n_features
        self.n_rows = None
        self.n_stored = None
        self.columns: tuple[str, ...] | None = as_text(getattr(batches, "columns", self._names))
        self.single_precision = bool(first.values.dtype == np.float32)
        self.incomplete = not first.is_complete
        self.takes_unstored_for_zero = first.is_sparse and not first.unstored_missing
        self._left = None if self.repeatable else chain([first], map(self._checked, rest))
        if self.repeatable and hasattr(rest, "close"):
            rest.close()  # what it has opened

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
            return map(self._checked, self._batches)
        if self._left is None:
            msg = (
                "this iterator of batches was read already, and the solver needs to read it again.\n"
                "Hint: pass a list, or an object whose __iter__ starts afresh."
            )
            raise SourceError(msg)
        left, self._left = self._left, None
        return left

    def _checked(self, batch: Any) -> Block:
        block = self._block(batch)
        if block.n_features != self.n_features:
            msg = f"every batch must have {self.n_features} columns, as the first one; got {block.n_features}."
            raise ShapeError(msg)
        return block

    def _block(self, batch: Any) -> Block:
        """A batch as a block, its columns in the order of the first one."""
        if is_frame(batch):
            batch, names = frame_values(batch)
            order = None if self._names is None else order_of(names, self._names)
            batch = batch if order is None else batch[:, order]
        block = as_block(batch)
        return replace(block, unstored_missing=True) if self._unstored_missing and block.is_sparse else block
