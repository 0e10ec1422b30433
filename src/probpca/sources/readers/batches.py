"""Rows that come in batches from any iterable."""

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
class _Reader:
    """Turns a batch into a block; all batches have the columns of the first one, in any order if they have names."""

    names: tuple[Any, ...] | None
    unstored_missing: bool
    n_features: int | None = None

    def __call__(self, batch: Any) -> tuple[Block, ...]:
        block = self.block(batch)
        if block.n_features != self.n_features:
            msg = f"every batch must have {self.n_features} columns, as the first one; got {block.n_features}."
            raise ShapeError(msg)
        return (block,) if block.n_rows else ()

    def block(self, batch: Any) -> Block:
        """Block of a batch, whatever its number of columns."""
        if is_frame(batch):
            batch, names = frame_values(batch)
            order = None if self.names is None else order_of(names, self.names)
            batch = batch if order is None else batch[:, order]
        block = as_block(batch)
        return replace(block, unstored_missing=True) if self.unstored_missing and block.is_sparse else block


@final
class _Once(Iterable[Any]):
    """The batches of an iterator, which can be read once."""

    def __init__(self, first: Any, rest: Iterator[Any]) -> None:
        """Put the first batch, which was looked at, before the others."""
        self._left: Iterator[Any] | None = chain([first], rest)

    def __iter__(self) -> Iterator[Any]:
        """Hand the iterator out, once."""
        if self._left is None:
            msg = (
                "this iterator of batches was read already, and the solver needs to read it again.\n"
                "Hint: pass a list, or an object whose __iter__ starts afresh."
            )
            raise SourceError(msg)
        left, self._left = self._left, None
        return left


def _count(batches: Iterable[Any]) -> int | None:
    """Number of rows of a list of arrays or dataframes; None if only a pass over the batches could tell."""
    if not isinstance(batches, list | tuple):
        return None
    shapes: list[tuple[int, ...]] = [getattr(batch, "shape", ()) for batch in batches]
    return sum(shape[0] for shape in shapes) if all(len(shape) == 2 for shape in shapes) else None


def open_batches(batches: Iterable[Any], n_jobs: int, *, unstored_missing: bool = False) -> Source:
    """Make a source of matrices or dataframes with the same columns; together they need not fit in memory.

    A list, or any object whose ``__iter__`` starts afresh, can be read as often as a solver needs.
    An iterator or a generator can be read once, which is enough for the closed form. The first batch
    tells the number of features and, if it is a dataframe, their names.
    """
    rest = iter(batches)
    repeatable = rest is not batches
    first = next(rest, None)
    if first is None:
        msg = "an iterable of batches must yield at least one batch of rows; it yielded none."
        raise SourceError(msg)
    names = frame_values(first)[1] if is_frame(first) else None
    reader = _Reader(names, unstored_missing)
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
        rest.close()  # releases what it has opened
    parts = batches if repeatable else _Once(block, rest)
    engine = LocalEngine(parts, replace(reader, n_features=block.n_features), n_jobs)
    complete = block.is_complete
    return Source(info, engine, glance=lambda: not complete)
