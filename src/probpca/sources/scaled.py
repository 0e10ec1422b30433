"""The rows of another source in other units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

from probpca.rows.block import with_units

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.rows import Block
    from probpca.sources.protocol import M, Source
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """Each column multiplied by a constant, block by block, as the rows are read."""

    source: Source
    scale: Array  # (d,)

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

    def keep(self, prepare: Callable[[Block], Any]) -> Source:
        """Scale each block, then prepare it."""
        return self.source.keep(partial(_after_scaling, prepare, self.scale))

    def fold(self, summarise: Callable[[Block], M]) -> M:
        """Scale each block, then summarise it."""
        return self.source.fold(partial(_after_scaling, summarise, self.scale))

    def map(self, function: Callable[[Block], Any]) -> Any:
        """Scale each block, then apply the function."""
        return self.source.map(partial(_after_scaling, function, self.scale))


def _after_scaling(function: Callable[[Block], Any], scale: Array, block: Block) -> Any:
    return function(replace(block, values=with_units(block.values, scale)))
