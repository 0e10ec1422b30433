"""Random samples of rows that do not depend on the order of the rows or on how they are cut into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.blocks import Block
from probpca.blocks.block import dense_values, mixed
from probpca.cached_property import cached_property
from probpca.scratch import workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Random sample of rows: those with the largest keys, a key being a hash of some of the row's own values.

    The sample of a table is the same however the table is cut into blocks. Equal rows have equal keys, and the first
    of them are taken.

    Attributes
    ----------
    size : int
        Largest number of rows to keep.
    keys : ndarray of shape (m,)
        Keys of the sampled rows, in descending order; m <= ``size``.
    rows : ndarray of shape (m, d)
        The sampled rows.
    """

    size: int
    keys: npt.NDArray[np.uint64]
    rows: Array

    @classmethod
    def of(cls, size: int, seed: int, block: Block, n_key_columns: int = 8) -> Sample:
        """Draw a sample of one block, by keys from ``n_key_columns`` of its columns."""
        columns = np.unique(np.linspace(0, block.n_features - 1, n_key_columns).astype(np.intp))
        part = block.values[:, columns]
        part = part.toarray() if block.is_sparse else part
        keys = mixed(np.ascontiguousarray(part.T, dtype=np.float64).view(np.uint64), seed)
        best = np.argsort(~keys, kind="stable")[:size]
        rows = block.values[best]
        rows = rows.toarray() if block.is_sparse else rows
        return Sample(size, keys[best], rows.astype(np.float64))

    def merge(self, other: Sample) -> Sample:
        """Sample of both sets of rows; on a tie the rows of ``self`` come first."""
        keys = np.concatenate([self.keys, other.keys])
        best = np.argsort(~keys, kind="stable")[: self.size]
        return Sample(self.size, keys[best], np.concatenate([self.rows, other.rows])[best])


class _Drawn(NamedTuple):
    """Distinct rows with their keys and weights."""

    keys: npt.NDArray[np.uint64]  # descending: (m,)
    rows: Array  # NaN in missing cells: (m, d)
    weight: Array  # (m,)


@final
@dataclass(frozen=True, eq=False)
class Distinct:
    """Random sample of distinct rows, each with its total weight; a key is a hash of the whole row.

    Rows with the largest keys are kept. Equal rows are kept or left out together, so that each kept row carries the
    weight of all its copies and a weighted mean over the sample is unbiased. The sample of a table depends neither on
    the order of its rows nor on how they are cut into blocks.

    Attributes
    ----------
    size : int
        Largest number of distinct rows to keep.
    parts : tuple
        Samples of the blocks merged so far; use ``rows``, ``weight`` and ``keys`` to read the sample.
    """

    size: int
    parts: tuple[_Drawn, ...]

    @classmethod
    def of(cls, size: int, seed: int, block: Block, share: float = 1.0) -> Distinct:
        """Draw a sample of one block, or of a random ``share`` of its rows, which costs less."""
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
        """Sample of both sets of rows."""
        parts = self.parts + other.parts
        if sum(part.weight.size for part in parts) > 3 * self.size:
            parts = (_joined(parts, self.size),)
        return Distinct(self.size, parts)

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Keys of the sampled rows, in descending order: (m,), m <= ``size``."""
        return self._drawn.keys

    @property
    def rows(self) -> Array:
        """The sampled rows, with NaN in missing cells: (m, d)."""
        return self._drawn.rows

    @property
    def weight(self) -> Array:
        """Total weight of all copies of each sampled row: (m,)."""
        return self._drawn.weight

    @cached_property
    def _drawn(self) -> _Drawn:
        return self.parts[0] if len(self.parts) == 1 else _joined(self.parts, self.size)


def _joined(parts: tuple[_Drawn, ...], size: int) -> _Drawn:
    keys, weights = np.concatenate([part.keys for part in parts]), np.concatenate([part.weight for part in parts])
    best, weight = _largest(keys, weights, size)
    rows = np.empty((best.size, parts[0].rows.shape[1]))
    start = 0
    for part in parts:  # without a copy of all rows
        chosen = np.flatnonzero((best >= start) & (best < start + len(part.rows)))
        rows[chosen] = part.rows[best[chosen] - start]
        start += len(part.rows)
    return _Drawn(keys[best], rows, weight)


HASHED_BYTES = 2**18
"""Size of the pieces of a block whose keys are computed at a time: small enough to stay in cache."""


def _keys(block: Block, seed: int) -> npt.NDArray[np.uint64]:
    """Key of each row: the bits of its cells as integers, times odd numbers, summed modulo 2^64."""
    with workspace() as work:
        plain = not block.is_sparse and block.precision is None
        values = block.values if plain else dense_values(block)
        by_columns = values.strides[0] < values.strides[1]
        values = values.T if by_columns else values
        cells = np.add(values, 0.0, out=work.array("hashed", values.shape))  # -0.0 becomes 0.0
        if cells.size and np.isnan(np.min(cells)):
            cells[np.isnan(cells)] = np.nan  # one bit pattern for all NaN
        words = cells.view(np.uint64)
        words ^= np.right_shift(words, np.uint64(32), out=work.array("shifted", words.shape, np.uint64))
        sums = np.einsum("ji,j->i" if by_columns else "ij,j->i", words, _odd(block.n_features, seed))
        return mixed(sums[None], seed)


def _quick_keys(block: Block, seed: int) -> Any:
    """Cheap hash of each row, from one pass over its bits; different rows may share a value."""
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
    """First positions of the ``size`` largest keys among rows of positive weight, and the total weight of each."""
    there = np.flatnonzero(weight)
    if there.size > 4 * size:  # sorting only the largest is cheaper, and enough unless many are copies
        least = np.partition(keys[there], -2 * size)[-2 * size]
        largest = there[keys[there] >= least]
        if np.unique(keys[largest]).size >= size:
            there = largest
    _, first, which = np.unique(~keys[there], return_index=True, return_inverse=True)
    total = np.zeros(first.size)
    np.add.at(total, which, weight[there])
    return there[first[:size]], total[:size]


@lru_cache(maxsize=8)
def spread_places(count: int, n: int) -> Index:
    """Ascending positions of ``count`` of n rows, one in each stretch of n / count rows: (count,).

    The position within a stretch is a multiple of the golden ratio modulo 1, an evenly spread sequence without
    period.
    """
    i = np.arange(count)
    places = ((i + i * 0.6180339887498949 % 1.0) * (n / count)).astype(np.intp)
    places.setflags(write=False)
    return places


@final
@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Rows at positions that are spread over the whole table, found in blocks that know where they start.

    Attributes
    ----------
    parts : tuple of Block
        The chosen rows of the blocks merged so far, in the order of the table.
    """

    parts: tuple[Block, ...]

    @classmethod
    def of(cls, count: int, n: int, block: Block) -> Spread:
        """Choose among the rows of one block of a table with n rows, so that ``count`` of all rows are chosen."""
        places, start = spread_places(count, n), block.start or 0
        first, last = np.searchsorted(places, (start, start + block.n_rows))
        return cls((block.pick(places[first:last] - start),) if last > first else ())

    def merge(self, other: Spread) -> Spread:
        """Chosen rows of both sets of rows, the other ones below."""
        return Spread(self.parts + other.parts)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """Two different summaries of the same rows, computed in one pass.

    Attributes
    ----------
    first, second : objects with a ``merge`` method
        The two summaries.
    """

    first: Any
    second: Any

    @classmethod
    def of(cls, first: Callable[[Block], Any], second: Callable[[Block], Any], block: Block) -> Both:
        """Apply both summary functions to a block."""
        return cls(first(block), second(block))

    def merge(self, other: Both) -> Both:
        """Merge the first summaries with each other and the second summaries with each other."""
        return Both(self.first.merge(other.first), self.second.merge(other.second))
