"""Samples of rows that do not depend on their order or cuts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.blocks import Block
from probpca.blocks.block import dense_values, mixed
from probpca.scratch import workspace

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


class _Drawn(NamedTuple):
    """Different rows, each with its key and its weight."""

    keys: npt.NDArray[np.uint64]  # descending: (m,)
    rows: Array  # missing cells NaN: (m, d)
    weight: Array  # (m,)


@final
@dataclass(frozen=True, eq=False)
class Distinct:
    """The different rows with the largest keys, each with its weight; a key is a hash of the whole row.

    Equal rows are in or out together, so each counts as often as it came: a weighted mean over them is
    unbiased. What is among the largest keys of the table is so in every block: neither the cuts nor the order
    of the rows decide who is drawn, and no weight is lost.
    """

    size: int
    parts: tuple[_Drawn, ...]  # of blocks; rows that are not among the largest are left out now and then

    @classmethod
    def of(cls, size: int, seed: int, block: Block, share: float = 1.0) -> Distinct:
        """Draw from one block; from about this ``share`` of the rows only, chosen by a key that costs less."""
        if share < 1.0:
            quick = _quick_keys(block, seed)
            block = block.pick(np.flatnonzero(quick >= quick.dtype.type((1.0 - share) * 2.0 ** (8 * quick.itemsize))))
        keys = np.empty(block.n_rows, np.uint64)
        for piece in block.pieces(size=HASHED_BYTES):
            keys[piece] = _keys(block.take(piece), seed)
        best, weight = _largest(keys, block.weights, size)
        rows = dense_values(Block(block.values[best], unstored_missing=block.unstored_missing))
        return cls(size, (_Drawn(keys[best], rows, weight),))

    def merge(self, other: Distinct) -> Distinct:
        """Draw from both."""
        parts = self.parts + other.parts
        if sum(part.weight.size for part in parts) > 3 * self.size:
            parts = (_joined(parts, self.size),)
        return Distinct(self.size, parts)

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Keys of the rows, the largest first: (m,), m <= size."""
        return self._drawn.keys

    @property
    def rows(self) -> Array:
        """The rows, missing cells NaN: (m, d)."""
        return self._drawn.rows

    @property
    def weight(self) -> Array:
        """How often each row came: (m,)."""
        return self._drawn.weight

    @cached_property
    def _drawn(self) -> _Drawn:
        return self.parts[0] if len(self.parts) == 1 else _joined(self.parts, self.size)


def _joined(parts: tuple[_Drawn, ...], size: int) -> _Drawn:
    keys, rows, weights = (np.concatenate(found) for found in zip(*parts, strict=True))
    best, weight = _largest(keys, weights, size)
    return _Drawn(keys[best], rows[best], weight)


HASHED_BYTES = 2**18
"""Size of the pieces of a block whose keys are computed at a time: several passes over what a cache holds."""


def _keys(block: Block, seed: int) -> npt.NDArray[np.uint64]:
    """A key for each row: its cells as whole numbers, times odd ones, summed modulo 2^64."""
    with workspace() as work:
        plain = not block.is_sparse and block.precision is None
        values = block.values if plain else dense_values(block)
        by_columns = values.strides[0] < values.strides[1]
        values = values.T if by_columns else values
        cells = np.add(values, 0.0, out=work.array("hashed", values.shape))  # zero has two forms
        if cells.size and np.isnan(np.min(cells)):
            cells[np.isnan(cells)] = np.nan  # which has many
        words = cells.view(np.uint64)
        words ^= np.right_shift(words, np.uint64(32), out=work.array("shifted", words.shape, np.uint64))
        sums = np.einsum("ji,j->i" if by_columns else "ij,j->i", words, _odd(block.n_features, seed))
        return mixed(sums[None], seed)


def _quick_keys(block: Block, seed: int) -> Any:
    """A whole number for each row, from one pass over its bits as they are; rows that differ may share one."""
    values = block.values
    if block.is_sparse:
        stored = values.data.astype(np.float64).view(np.uint64) * _odd(block.n_features, seed)[values.indices]
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(stored)])  # modulo 2^64
        return running[values.indptr[1:]] - running[values.indptr[:-1]]
    words: Any = np.uint64 if values.dtype == np.float64 else np.uint32
    turned = values.strides[0] < values.strides[1]
    cells = np.ascontiguousarray(values.T if turned else values).view(words)
    return np.einsum("ji,j->i" if turned else "ij,j->i", cells, _odd(block.n_features, seed).astype(words))


def _odd(count: int, seed: int) -> npt.NDArray[np.uint64]:
    return mixed(np.arange(count, dtype=np.uint64)[None], seed) | np.uint64(1)


def _largest(keys: npt.NDArray[np.uint64], weight: Array, size: int) -> tuple[Index, Array]:
    """Where the largest keys are first met among rows that are there, and the weight of each."""
    there = np.flatnonzero(weight)
    if there.size > 4 * size:  # to sort a few of the largest costs less, and is enough unless they are copies
        least = np.partition(keys[there], -2 * size)[-2 * size]
        largest = there[keys[there] >= least]
        if np.unique(keys[largest]).size >= size:
            there = largest
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
