"""Sums of arrays, and blocks of rows stacked in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.blocks.block import PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from probpca.blocks import Block
    from probpca.scratch import Workspace
    from probpca.typing import Array, Floats


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """Sum of an array over blocks of rows.

    Attributes
    ----------
    value : ndarray
        The sum so far.
    """

    value: Array

    def merge(self, other: Sum) -> Sum:
        """Sum over both sets of rows."""
        return Sum(self.value + other.value)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Blocks of rows in order, as one table. Rows in memory are views and are not copied.

    Attributes
    ----------
    blocks : tuple of Block
        The blocks, in the order of the rows.
    """

    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, block: Block) -> Stack:
        """Stack of one block; sparse rows are stored by columns, because columns are read from them."""
        return cls((replace(block, values=block.values.tocsc()) if block.is_sparse else block,))

    def merge(self, other: Stack) -> Stack:
        """Stack with the rows of ``other`` below those of ``self``."""
        return Stack(self.blocks + other.blocks)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return sum(block.n_rows for block in self.blocks)

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.blocks[0].n_features

    @property
    def weight(self) -> Array:
        """Row weights: (n,)."""
        return np.concatenate([block.weights for block in self.blocks])

    @property
    def is_weighted(self) -> bool:
        """Whether any block has row weights."""
        return any(block.weight is not None for block in self.blocks)

    def panels(self) -> Iterator[slice]:
        """Ranges of columns narrow enough for all their rows to fit into cache."""
        step = max(PIECE_BYTES // (8 * max(self.n_rows, 1)), 64)
        for start in range(0, self.n_features, step):
            yield slice(start, min(start + step, self.n_features))

    def panel(self, columns: slice, dtype: npt.DTypeLike, work: Workspace | None = None) -> Floats:
        """All rows of a range of columns, (n, columns), in the buffer "panel" of a workspace if one is given."""
        shape = self.n_rows, columns.stop - columns.start
        out = np.empty(shape, dtype) if work is None else work.array("panel", shape, dtype)
        start = 0
        for block in self.blocks:
            part = block.values[:, columns]
            out[start : start + block.n_rows] = part.toarray() if block.is_sparse else part
            start += block.n_rows
        return out
