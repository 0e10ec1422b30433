"""A plain sum of arrays, and two summaries in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.rows import Block
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """An array that is added up over blocks."""

    value: Array

    def merge(self, other: Sum) -> Sum:
        """Add."""
        return Sum(self.value + other.value)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """Two summaries of the same rows."""

    first: Any
    second: Any

    @classmethod
    def of(cls, first: Callable[[Block], Any], second: Callable[[Block], Any], block: Block) -> Both:
        """Summarise a block twice."""
        return cls(first(block), second(block))

    def merge(self, other: Both) -> Both:
        """Merge each with its like."""
        return Both(self.first.merge(other.first), self.second.merge(other.second))
