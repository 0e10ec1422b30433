"""A plain sum of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """An array that is added up over blocks."""

    value: Array

    def merge(self, other: Sum) -> Sum:
        """Add."""
        return Sum(self.value + other.value)
