"""Cells of a table dealt into folds, so that every row and every column loses about as much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.rows.block import row_of_cell
from probpca.rows.patterns import patterns

if TYPE_CHECKING:
    from probpca.rows import Block
    from probpca.typing import Array, Index

LARGEST_MASK = 2**26
"""Cells of a table, observed or not, up to which rows are sorted by what was observed of them."""


class Listed(NamedTuple):
    """Observed cells, row after row."""

    rows: Index  # ascending: (N,)
    columns: Index  # (N,)
    values: Array  # (N,)
    precision: Array | None  # omega: (N,); None: 1
    shape: tuple[int, int]

    @classmethod
    def of(cls, block: Block) -> Listed:
        """Of a dense block, or of a sparse one whose unstored cells are missing."""
        omega = block.precision
        stored = block.values.data if block.is_sparse else block.values
        seen = ~np.isnan(stored) if omega is None else ~np.isnan(stored) & (omega > 0)
        if block.is_sparse:
            rows, columns = row_of_cell(block.values)[seen], block.values.indices[seen].astype(np.intp)
        else:
            rows, columns = np.nonzero(seen)
        precision = None if omega is None else omega[seen].astype(np.float64)
        return cls(rows, columns, stored[seen].astype(np.float64), precision, block.values.shape)

    def take(self, which: Any) -> Listed:
        """Some of them, as a mask or as ascending positions."""
        precision = None if self.precision is None else self.precision[which]
        return Listed(self.rows[which], self.columns[which], self.values[which], precision, self.shape)

    @property
    def pointers(self) -> Index:
        """Where the cells of each row begin, and where the last ones end: (n + 1,)."""
        return np.searchsorted(self.rows, np.arange(self.shape[0] + 1))

    def of_rows(self, rows: Index) -> tuple[Index, Index]:
        """Positions of the cells of some rows, and for each of them which of these rows it is in."""
        pointers = self.pointers
        lengths = np.diff(pointers)[rows]
        which = np.repeat(np.arange(rows.size), lengths)
        begins = pointers[rows] - np.cumsum(lengths) + lengths
        return begins[which] + np.arange(which.size), which


def deal(cells: Listed, n_folds: int, rng: np.random.Generator) -> Index:
    """The fold of each observed cell: (N,).

    Columns are shuffled; the observed cells of a row are then dealt to the folds in turn, each row beginning one
    fold later than the one before it in a random order. A row with r cells loses r / K of them, up to rounding, in
    each of the K folds. So does a column of a complete table, whose rows then have K different sets of cells held
    out, which makes the fits quick.
    """
    n, d = cells.shape
    rows = cells.rows
    turn = np.lexsort((rng.permutation(d)[cells.columns], rows))
    folds = np.empty(rows.size, np.intp)
    folds[turn] = np.arange(rows.size) - cells.pointers[rows]  # sorting within rows leaves each row its range
    first = np.empty(n, np.intp)
    first[_order(cells, rng)] = np.arange(n)
    folds = (folds + first[rows]) % n_folds
    _spread(folds, cells, n_folds)
    return folds


def _order(cells: Listed, rng: np.random.Generator) -> Index:
    """Rows at random within their pattern, so that the columns of each pattern lose as much as each other."""
    n, d = cells.shape
    shuffled = rng.permutation(n)
    if n * d > LARGEST_MASK:
        return shuffled
    observed = np.zeros((n, d), bool)
    observed[cells.rows, cells.columns] = True
    return np.lexsort((shuffled, patterns(observed, certain=True)[0]))


def _spread(folds: Index, cells: Listed, n_folds: int) -> None:
    """Move a cell of every column whose cells, two or more, all lie in one fold."""
    d = cells.shape[1]
    low, high = np.full(d, n_folds), np.full(d, -1)
    np.minimum.at(low, cells.columns, folds)
    np.maximum.at(high, cells.columns, folds)
    for column in np.flatnonzero((np.bincount(cells.columns, minlength=d) > 1) & (low == high)):
        cell = int(np.flatnonzero(cells.columns == column)[0])
        beside = np.flatnonzero(cells.rows == cells.rows[cell])
        others = folds[beside[beside != cell]]
        free = [f for f in range(n_folds) if f != folds[cell] and not (others.size and (others == f).all())]
        if free:
            folds[cell] = free[0]
