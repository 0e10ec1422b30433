"""Rows from an iterable of batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, final

import numpy as np

from probpca.blocks import Block, as_block
from probpca.errors import ShapeError, SourceError
from probpca.sources.engines.local import LocalEngine
from probpca.sources.readers.frames import as_text, frame_values, is_frame, order_of
from probpca.sources.source import Info, Source


@final
@dataclass(frozen=True, eq=False)
class BatchReader:
    """Turn a batch into a block; batches must have the columns of the first, in any order if columns have names."""

    names: tuple[Any, ...] | None
    unstored_missing: bool
    n_features: int | None = None

    def __call__(self, batch: Any) -> tuple[Block, ...]:
        """Blocks of a batch: one, or none if it has no rows."""
        block = self.block(batch)
        if block.n_features != self.n_features:
            msg = f"every batch must have {self.n_features} columns, like the first; got {block.n_features}."
            raise ShapeError(msg)
        return (block,) if block.n_rows else ()

    def block(self, batch: Any) -> Block:
        """Convert a batch to a block, without a check of its number of columns."""
        if is_frame(batch):
            batch, names = frame_values(batch)
            order = None if self.names is None else order_of(names, self.names)
            batch = batch if order is None else batch[:, order]
        block = as_block(batch)
        return replace(block, unstored_missing=True) if self.unstored_missing and block.is_sparse else block


@final
class _Once(Iterable[Any]):
    """Batches of an iterator, which can be read only once."""

    def __init__(self, first: Any, rest: Iterator[Any]) -> None:
        """Store the first batch, which was already read, and the iterator of the others."""
        self._left: Iterator[Any] | None = chain([first], rest)

    def __iter__(self) -> Iterator[Any]:
        """Return the iterator; raise ``SourceError`` the second time."""
        if self._left is None:
            msg = (
                "the solver needs to read the batches more than once, but this iterator was already read.\n"
                "Hint: pass a list of batches, or an object whose __iter__ returns a new iterator."
            )
            raise SourceError(msg)
        left, self._left = self._left, None
        return left


def _count(batches: Iterable[Any]) -> int | None:
    """Number of rows of a list of arrays or dataframes; None if a pass over the batches is needed to count them."""
    if not isinstance(batches, list | tuple):
        return None
    shapes: list[tuple[int, ...]] = [getattr(batch, "shape", ()) for batch in batches]
    return sum(shape[0] for shape in shapes) if all(len(shape) == 2 for shape in shapes) else None


def open_batches(batches: Iterable[Any], n_jobs: int, *, unstored_missing: bool = False) -> Source:
    """Make a source of an iterable of matrices or dataframes with the same columns.

    Together the batches need not fit in memory. A list, or an object whose ``__iter__`` returns a new iterator, can
    be read as often as a solver needs; an iterator or a generator only once, which is enough for the closed form. The
    first batch gives the number of features and, if it is a dataframe, their names.
    """
    rest = iter(batches)
    repeatable = rest is not batches
    first = next(rest, None)
    if first is None:
        msg = "an iterable of batches must yield at least one batch of rows; got none."
        raise SourceError(msg)
    names = frame_values(first)[1] if is_frame(first) else None
    reader = BatchReader(names, unstored_missing)
    block = reader.block(first)
    info = Info(
        n_features=block.n_features,
        n_rows=_count(batches),
        columns=as_text(names),
        single_precision=bool(block.values.dtype == np.float32),
        repeatable=repeatable,
        sparse=block.is_sparse,
        unstored_zero=block.is_sparse and not block.unstored_missing,
        n_jobs=n_jobs,
    )
    if isinstance(rest, Generator) and repeatable:
        rest.close()  # release the files that the generator has opened
    parts = batches if repeatable else _Once(block, rest)
    engine = LocalEngine(parts, replace(reader, n_features=block.n_features), n_jobs)
    complete = block.is_complete
    return Source(info, engine, glance=lambda: not complete)
