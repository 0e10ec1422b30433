"""The rows of another source, changed block by block as they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

from probpca.blocks.block import with_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from probpca.blocks import Block
    from probpca.sources.protocol import M, Source
    from probpca.typing import Array


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
