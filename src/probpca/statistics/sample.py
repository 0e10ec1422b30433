"""Samples of rows that do not depend on their order or cuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks import Block
from probpca.blocks.block import dense_values, mixed

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The rows with the largest keys; a key is a hash of some of the row's own values.

    Equal rows have equal keys, and the first of them are taken: the sample is that of the whole
    table, however it is cut into blocks.
    """

    size: int
    keys: npt.NDArray[np.uint64]  # descending: (m,), m <= size
    rows: Array  # (m, d)

    @classmethod
    def of(cls, size: int, seed: int, block: Block, n_key_columns: int = 8) -> Sample:
        """Draw from one block, by keys from a few of its columns."""
        columns = np.unique(np.linspace(0, block.n_features - 1, n_key_columns).astype(np.intp))
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
