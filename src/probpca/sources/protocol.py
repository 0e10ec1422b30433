"""The contract of a source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from probpca.blocks import Block


class Mergeable(Protocol):
    """A summary of rows that knows how to absorb another one."""

    def merge(self, other: Self, /) -> Self:
        """Summary of both sets of rows."""
        ...


M = TypeVar("M", bound=Mergeable)
Watch: TypeAlias = Callable[[int, int], None]
"""Is told how many parts of a pass over the rows are done, of how many."""


class Source(Protocol):
    """Rows, wherever they live."""

    @property
    def n_features(self) -> int:
        """Number of columns."""
        ...

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where that is known without reading them."""
        ...

    @property
    def n_stored(self) -> int | None:
        """Number of cells that are stored, where that is known: n_rows * n_features unless sparse."""
        ...

    @property
    def repeatable(self) -> bool:
        """Can the rows be read more than once?"""
        ...

    @property
    def in_memory(self) -> bool:
        """Are all rows at hand, in this process?"""
        ...

    @property
    def single_precision(self) -> bool:
        """Are the values float32?"""
        ...

    @property
    def n_jobs(self) -> int:
        """Number of threads or workers."""
        ...

    @property
    def incomplete(self) -> bool:
        """Is it known, without reading all rows, that cells are missing?"""
        ...

    def keep(self, prepare: Callable[[Block], Any]) -> Source:
        """The same rows with every block prepared, once where it can be kept, else whenever it is read."""
        ...

    def fold(self, summarise: Callable[[Block], M]) -> M:
        """Summarise every block where it lies and merge the summaries, in order."""
        ...

    def map(self, function: Callable[[Block], Any]) -> Any:
        """Apply a row-wise function; the answer stays in this source's own kind of container."""
        ...
