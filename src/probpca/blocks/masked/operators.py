"""Matrices of rows and features, known by their products.

Tables with a column per feature become tables with a column per row, and moments with a column per row
become sums with a column per feature. Everything that missing cells ask of a solver is in these two products,
with the precisions of the cells and with their values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from probpca.blocks.block import transposed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.scratch import Workspace
    from probpca.typing import Array


class Operator(Protocol):
    """A matrix M of b rows, or patterns of rows, and d features."""

    def products(self, table: Array) -> Array:
        """Sum over features of M times (p, d): (p, b)."""
        ...

    def add_sums(self, moments: Array, out: Array) -> None:
        """Add the sum over rows of M times (p, b) to ``out``: (p, d)."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Every entry is stored, as small as it may be; products are in double precision."""

    entries: Any  # M', uint8, float32 or float64: (d, b)
    name: str  # of the buffer for entries in double precision
    work: Workspace | None = None  # the workspace that has this buffer; None: fresh memory each time
    whole_cells: int = 2**20  # size up to which entries are made double once for several products
    slab_cells: int = 2**17  # cells of the features that are multiplied at a time in a larger matrix

    def ready(self, work: Workspace | None = None) -> Dense:
        """Entries in double precision if they are not many, else converted slab by slab at every product."""
        if self.entries.dtype == np.float64:
            return self
        if self.entries.size > self.whole_cells:
            return replace(self, work=work)
        return Dense(self._floats(slice(None), work), self.name, work)

    def products(self, table: Array) -> Array:
        """Sum over features."""
        if self.entries.size <= self.whole_cells:
            return table @ self._floats(slice(None), self.work)
        first, *others = self._slabs()
        out = table[:, first] @ self._floats(first, self.work)
        for slab in others:
            out += table[:, slab] @ self._floats(slab, self.work)
        return out

    def add_sums(self, moments: Array, out: Array) -> None:
        """Sum over rows."""
        if self.entries.size <= self.whole_cells:
            out += moments @ self._floats(slice(None), self.work).T
            return
        for slab in self._slabs():
            out[:, slab] += moments @ self._floats(slab, self.work).T

    def _slabs(self) -> Iterator[slice]:
        d, b = self.entries.shape
        step = max(self.slab_cells // b, 1)
        yield from (slice(start, min(start + step, d)) for start in range(0, d, step))

    def _floats(self, slab: slice, work: Workspace | None) -> Array:
        if self.entries.dtype == np.float64:
            return self.entries[slab]
        entries = self.entries[slab]
        if work is None:
            return entries.astype(np.float64)
        out = work.array(self.name, entries.shape)
        np.copyto(out, entries, casting="safe")
        return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Entries that are not zero, in compressed rows."""

    entries: Any  # CSR (b, d), float64

    def products(self, table: Array) -> Array:
        """Sum over features."""
        return np.ascontiguousarray((self.entries @ np.ascontiguousarray(table.T)).T)

    def add_sums(self, moments: Array, out: Array) -> None:
        """Sum over rows."""
        out += (transposed(self.entries) @ np.ascontiguousarray(moments.T)).T


@final
@dataclass(frozen=True, slots=True, eq=False)
class Complement:
    """One everywhere, less what is stored."""

    holes: Any  # 1 at the holes: CSR (b, d), float64

    def products(self, table: Array) -> Array:
        """Sum over features."""
        return table.sum(axis=1)[:, None] - Stored(self.holes).products(table)

    def add_sums(self, moments: Array, out: Array) -> None:
        """Sum over rows."""
        Stored(self.holes).add_sums(-moments, out)
        out += moments.sum(axis=1)[:, None]
