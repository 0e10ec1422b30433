"""Data sources: facts about some rows, and an engine that runs functions on them wherever they are stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, final

import numpy as np

from probpca.blocks import Block
from probpca.blocks.block import MAX_PIECE_ROWS, PIECE_BYTES, deviations_or_zero, joined, with_units
from probpca.errors import DataError
from probpca.sources.engines.local import LocalEngine, itself
from probpca.statistics.sample import spread_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from probpca.typing import Array, Index

Function = Callable[[Any], Any]
Watch = Callable[[int, int], None]
"""Progress callback ``watch(done, parts)``: finished and total number of parts of a pass over the rows."""

FEW_ROWS = 256
"""Smallest number of rows of the blocks that rows in memory are cut into for the threads."""

COPIED_CELLS = 2**21
"""Largest number of cells of the blocks of rows in memory that are copied in every pass."""


HELD_BYTES = 2**26
"""Files with up to this many bytes of numbers are read once for a fit; larger ones are read again in every pass."""


class Mergeable(Protocol):
    """Protocol of a summary of rows that can be merged with the summary of other rows."""

    def merge(self, other: Self, /) -> Self:
        """Summary of both sets of rows."""
        ...


M = TypeVar("M", bound=Mergeable)


@final
@dataclass(frozen=True, kw_only=True)
class Info:
    """Facts about the rows of a source that are known without reading them.

    Attributes
    ----------
    n_features : int
        Number of columns.
    n_rows : int or None
        Number of rows; None if a pass over the rows is needed to count them.
    n_stored : int or None
        Number of stored cells: ``n_rows * n_features`` unless the rows are sparse; None if unknown.
    numbered : bool
        Whether the number of rows is known and blocks know the positions of their rows.
    columns : tuple of str or None
        Names of the columns; None if they have none.
    single_precision : bool
        Whether the values are float32.
    single_digits : bool
        Whether the values are float64, but were computed from float32 values and have no more digits.
    repeatable : bool
        Whether the rows can be read more than once.
    in_memory : bool
        Whether all rows are in the memory of this process.
    sparse : bool
        Whether only some of the cells are stored.
    unstored_zero : bool
        Whether cells that sparse rows do not store are zeros; otherwise they are missing.
    n_jobs : int
        Number of threads or workers.
    file_bytes : int or None
        Memory that the numbers of a file would take, estimated by the first rows of a text, and 0 if nothing is known;
        None unless the rows are in a file.
    """

    n_features: int
    n_rows: int | None = None
    n_stored: int | None = None
    numbered: bool = False
    columns: tuple[str, ...] | None = None
    single_precision: bool = False
    single_digits: bool = False
    repeatable: bool = True
    in_memory: bool = False
    sparse: bool = False
    unstored_zero: bool = False
    n_jobs: int = 1
    file_bytes: int | None = None


class Engine(Protocol):
    """Protocol of what runs functions on the blocks of a source: threads of this process, Dask or Spark."""

    def keep(self, prepare: Function) -> Engine | None:
        """Engine that stores every block prepared by a function; None if blocks are read again in every pass."""
        ...

    def fold(self, summarise: Function) -> Any:
        """Summarise all blocks and merge the summaries in order; None if there are no rows."""
        ...

    def map(self, function: Function) -> Any:
        """Results of a row-wise function, in this engine's kind of container; None if there are no rows."""
        ...

    def answers(self, function: Function) -> Iterator[Any]:
        """Yield the results of a row-wise function block by block, in order."""
        ...

    def hold(self) -> list[Any]:
        """List of all blocks, in the memory of this process."""
        ...


def _unknown() -> bool:
    return True


@final
@dataclass(frozen=True, eq=False)
class Source:
    """Rows in memory, in files or in a cluster, processed in blocks; ``open_source`` makes one.

    Functions are sent to the rows, and only small summaries or row-wise results come back. Learning uses ``fold``;
    transforming and imputing use ``map`` or ``answers``.

    Attributes
    ----------
    info : Info
        Facts about the rows that are known without reading them.
    engine : Engine
        Runs functions on the blocks.
    prepare : callable or None
        Function that is applied to every block when it is read.
    glance : callable
        Function that returns whether cells are missing, as far as the first rows tell.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.sources import open_source
    >>> from probpca.statistics import Moments
    >>> source = open_source(np.arange(6.0).reshape(3, 2))
    >>> source.n_rows, source.fold(Moments.of).mean
    (3, array([2., 3.]))
    """

    info: Info
    engine: Engine
    prepare: Function | None = None
    glance: Callable[[], bool] = _unknown

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.info.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or None if a pass over the rows is needed to count them."""
        return self.info.n_rows

    @property
    def n_stored(self) -> int | None:
        """Number of stored cells, ``n_rows * n_features`` unless the rows are sparse; None if unknown."""
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
    def rounded_to_single(self) -> bool:
        """Whether the values are float32, or were computed from float32 values."""
        return self.info.single_precision or self.info.single_digits

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Type of the values, float32 or float64."""
        return np.float32 if self.info.single_precision else np.float64

    @property
    def is_sparse(self) -> bool:
        """Whether only some of the cells are stored; the others are zeros, or missing."""
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
    def local(self) -> bool:
        """Whether the rows can be read in this process: not if they are in a cluster."""
        return isinstance(self.engine, LocalEngine)

    @property
    def n_jobs(self) -> int:
        """Number of threads or workers."""
        return self.info.n_jobs

    def starts_incomplete(self) -> bool:
        """Whether cells are missing in the first rows, which are read to find out; true if that is not possible."""
        return self.glance()

    @classmethod
    def of_block(cls, block: Block, n_jobs: int = 1, columns: tuple[str, ...] | None = None) -> Source:
        """Source of rows in memory, which are cut into views for the threads and not copied."""
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
        """Source of blocks in memory that are used as they are, such as prepared blocks."""
        n_rows = sum(block.n_rows for block in blocks)
        info = Info(n_features=n_features, n_rows=n_rows, single_precision=single, in_memory=True, n_jobs=n_jobs)
        return cls(info, LocalEngine(tuple(blocks), n_jobs=n_jobs, held=tuple(blocks)))

    def loaded(self) -> Source:
        """Source of the same rows in memory if they are in a file and take at most ``HELD_BYTES``; else this source.

        The file is read once, as far as is needed to find out.
        """
        size, engine = self.info.file_bytes, self.engine
        if self.in_memory or size is None or size > HELD_BYTES or not isinstance(engine, LocalEngine):
            return self
        blocks = engine.load(HELD_BYTES)
        if not blocks:
            return self
        return replace(Source.of_block(joined(blocks), self.n_jobs, self.columns), prepare=self.prepare)

    def keep(self, prepare: Function | None = None) -> Source:
        """Source of the same rows with every block prepared by a function, or as it is without one.

        Blocks are prepared once and stored if possible: in memory if the rows are in memory or can be read only
        once, in the cluster if they are there. Blocks of files are prepared whenever they are read.
        """
        together = in_turn(self.prepare, prepare or itself)
        if self.in_memory or not self.repeatable:
            blocks = list(self.engine.answers(together))
            return Source.of_blocks(blocks, self.n_features, self.n_jobs, single=self.single_precision)
        engine = self.engine.keep(together)
        return replace(self, prepare=together) if engine is None else Source(self.info, engine, glance=_unknown)

    def fold(self, summarise: Callable[[Any], M]) -> M:
        """Summarise every block and merge the summaries in the order of the rows.

        ``summarise`` maps a block to an object with a ``merge`` method. It runs where the rows are stored, so that it
        must be a module-level function or a ``functools.partial`` of one for rows in a cluster.
        """
        total: M | None = self.engine.fold(in_turn(self.prepare, summarise))
        if total is None:
            msg = "at least 2 rows are needed to fit a model; got none."
            raise DataError(msg)
        return total

    def map(self, function: Function) -> Any:
        """Apply a row-wise function to all rows; the result is an array, a Dask array or a Spark DataFrame."""
        work = in_turn(self.prepare, function)
        found = self.engine.map(work)
        return work(Block(np.empty((0, self.n_features)))) if found is None else found

    def answers(self, function: Function) -> Iterator[Any]:
        """Yield the results of a row-wise function block by block, in the order of the rows.

        Raises ``SourceError`` if the rows are in a cluster.
        """
        return self.engine.answers(in_turn(self.prepare, function))

    def hold(self) -> list[Any]:
        """List of all blocks, in memory. Raises ``SourceError`` if the rows are in a cluster."""
        return self.engine.hold() if self.prepare is None else list(self.answers(itself))

    def spread(self, count: int) -> list[Any]:
        """Blocks with a sample of ``count`` rows spread over the whole table; all rows if there are no more.

        Only for rows in memory. Distances between the sampled rows are irregular, so that the sample does not follow
        a periodic pattern in the table.
        """
        blocks, n = self.engine.hold(), self.n_rows or 0
        if count < n:
            places = spread_places(count, n)
            blocks = [blocks[0].pick(places)] if len(blocks) == 1 else _picked(blocks, places)
        return blocks if self.prepare is None else [self.prepare(block) for block in blocks]

    def scaled(self, scale: Array) -> Source:
        """Source of the same rows with each column multiplied by a constant (d,), in float64."""
        info = replace(self.info, single_precision=False, single_digits=self.rounded_to_single)
        engine = self.engine
        if self.in_memory and isinstance(engine, LocalEngine):
            engine = replace(engine, parts=_small(engine.parts))
        return replace(self, info=info, engine=engine, prepare=in_turn(self.prepare, partial(_scale, scale)))

    def with_precision_unit(self, unit: float) -> Source:
        """Source of the same rows with the relative precision of every cell divided by a constant."""
        return replace(self, prepare=in_turn(self.prepare, partial(_divide_precision, unit)))

    def centred_and_filled(self, centre: Array) -> Source:
        """Source of the deviations of the same rows from ``centre`` (d,), with 0 in missing cells."""
        sparse = self.info.sparse and not self.info.unstored_zero
        info = replace(self.info, sparse=sparse, unstored_zero=sparse, single_precision=False)
        return replace(self, info=info, prepare=in_turn(self.prepare, partial(deviations_or_zero, centre)))

    def arranged(self, order: Sequence[int]) -> Source:
        """Source of the same rows with their columns in the given order."""
        columns = None if self.columns is None else tuple(self.columns[j] for j in order)
        prepare = in_turn(self.prepare, partial(_arrange, list(order)))
        return replace(self, info=replace(self.info, columns=columns), prepare=prepare)


def _picked(blocks: list[Block], places: Index) -> list[Block]:
    """Select rows by ascending positions that are counted through all blocks."""
    ends = np.cumsum([block.n_rows for block in blocks])
    parts = zip(blocks, np.split(places, np.searchsorted(places, ends[:-1])), ends, strict=True)
    return [block.pick(part - (end - block.n_rows)) for block, part, end in parts if part.size]


def in_turn(first: Function | None, second: Function) -> Function:
    """Composition of two functions of a block."""
    return second if first is None else partial(_in_turn, first, second)


def _in_turn(first: Function, second: Function, block: Any) -> Any:
    return second(first(block))


def _scale(scale: Array, block: Block) -> Block:
    return replace(block, values=with_units(block.values, scale))


def _divide_precision(unit: float, block: Block) -> Block:
    return block if block.precision is None else replace(block, precision=block.precision / unit)


def _arrange(order: list[int], block: Block) -> Block:
    """Reorder the columns of a block, which is dense because its columns have names."""
    precision = None if block.precision is None else block.precision[:, order]
    return replace(block, values=block.values[:, order], precision=precision)


def _cut(block: Block, stored: int, n_jobs: int) -> tuple[Block, ...]:
    """Cut a block into about two per thread, none with fewer than ``FEW_ROWS`` rows or smaller than the cache."""
    n = block.n_rows
    smallest = min(max(PIECE_BYTES * n // (8 * max(stored, 1)), 1), MAX_PIECE_ROWS)
    smallest = max(smallest, min(FEW_ROWS, -(-n // n_jobs)))
    step = max(-(-n // (2 * n_jobs)), smallest)
    return (block,) if step >= n else _slices(block, step)


def _small(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Cut blocks so small that a copy of each takes little memory."""
    return tuple(part for block in blocks for part in _slices(block, max(COPIED_CELLS // block.n_features, FEW_ROWS)))


def _slices(block: Block, step: int) -> tuple[Block, ...]:
    n = block.n_rows
    return tuple(block.take(slice(start, min(start + step, n))) for start in range(0, n, step))
