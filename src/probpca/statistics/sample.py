"""A few rows, drawn so that neither cuts nor workers decide which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.rows.keys import mixed

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.rows import Block
    from probpca.typing import Array

COLUMNS = 8


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The rows with the largest keys; a key is a hash of some of the row's own values.

    Equal rows have equal keys, of which the first ones are taken: the sample is that of the whole
    table, however it is cut into blocks.
    """

    size: int
    keys: npt.NDArray[np.uint64]  # descending: (m,), m <= size
    rows: Array  # (m, d)

    @classmethod
    def of(cls, size: int, seed: int, block: Block) -> Sample:
        """Draw from one block, by keys from a few of its columns."""
        columns = np.unique(np.linspace(0, block.n_features - 1, COLUMNS).astype(np.intp))
        part = block.values[:, columns]
        part = part.toarray() if block.is_sparse else part
        keys = mixed(np.ascontiguousarray(part.T, dtype=np.float64).view(np.uint64), seed)
        best = np.argsort(~keys, kind="stable")[:size]
        rows = block.values[best]
        rows = rows.toarray() if block.is_sparse else rows
        return Sample(size, keys[best], rows.astype(np.float64))

    def merge(self, other: Sample) -> Sample:
        """Draw from both; on a tie the rows of this one come first."""
        keys = np.concatenate([self.keys, other.keys])
        best = np.argsort(~keys, kind="stable")[: self.size]
        return Sample(self.size, keys[best], np.concatenate([self.rows, other.rows])[best])
