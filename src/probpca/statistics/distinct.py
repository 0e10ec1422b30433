"""Different rows, and how often each of them came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.rows import Block
from probpca.rows.block import dense_values
from probpca.rows.keys import mixed

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True, eq=False)
class Distinct:
    """The different rows with the largest keys, each with its weight; a key is a hash of the whole row.

    Equal rows are in or out together, so each counts as often as it came: a weighted mean over them is
    unbiased. What is among the largest keys of the table is so in every block: neither the cuts nor the order
    of the rows decide who is drawn, and no weight is lost.
    """

    size: int
    keys: npt.NDArray[np.uint64]  # descending: (m,), m <= size
    rows: Array  # missing cells NaN: (m, d)
    weight: Array  # (m,)

    @classmethod
    def of(cls, size: int, seed: int, block: Block) -> Distinct:
        """Draw from one block."""
        pieces = [_keys(block.take(rows), seed) for rows in block.pieces()]
        keys = np.concatenate([np.empty(0, np.uint64), *pieces])
        best, weight = _largest(keys, block.weights, size)
        rows = dense_values(Block(block.values[best], unstored_missing=block.unstored_missing))
        return cls(size, keys[best], rows, weight)

    def merge(self, other: Distinct) -> Distinct:
        """Draw from both."""
        keys = np.concatenate([self.keys, other.keys])
        best, weight = _largest(keys, np.concatenate([self.weight, other.weight]), self.size)
        return Distinct(self.size, keys[best], np.concatenate([self.rows, other.rows])[best], weight)


def _keys(block: Block, seed: int) -> npt.NDArray[np.uint64]:
    values = dense_values(block)
    values[np.isnan(values)] = np.nan  # which has many forms, as zero has two
    values += 0.0
    return mixed(np.ascontiguousarray(values.T).view(np.uint64), seed)


def _largest(keys: npt.NDArray[np.uint64], weight: Array, size: int) -> tuple[Index, Array]:
    """Where the largest keys are first met among rows that are there, and the weight of each."""
    there = np.flatnonzero(weight)
    _, first, which = np.unique(~keys[there], return_index=True, return_inverse=True)
    total = np.zeros(first.size)
    np.add.at(total, which, weight[there])
    return there[first[:size]], total[:size]
