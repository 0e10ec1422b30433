"""Rows of which few cells are observed: only those are stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.rows.block import row_of_cell, transposed, with_data
from probpca.rows.operators import Stored

if TYPE_CHECKING:
    from probpca.typing import Array

GATHER = 2**18
"""Cells whose rows of a table are gathered at a time."""


@final
@dataclass(frozen=True, eq=False)
class StoredCells:
    """The observed cells in compressed rows: costs and memory grow with their number alone."""

    stored: Any  # omega y: CSR (b, d)
    precision: Array | None = None  # omega of the stored cells: (stored,); None: 1
    pattern: None = None

    @property
    def mask(self) -> Stored:
        """Omega."""
        data = np.ones(self.stored.nnz) if self.precision is None else self.precision
        return Stored(with_data(self.stored, data))

    @property
    def values(self) -> Stored:
        """Omega y."""
        return Stored(self.stored)

    def ready(self) -> StoredCells:
        """In double precision."""
        return self if self.stored.dtype == np.float64 else StoredCells(self.stored.astype(np.float64), self.precision)

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return np.diff(self.stored.indptr).astype(np.float64)

    def log_precision(self) -> Array | float:
        """Sum of log omega."""
        if self.precision is None:
            return 0.0
        return np.asarray(
            np.bincount(row_of_cell(self.stored), np.log(self.precision), self.stored.shape[0]), np.float64
        )

    def square_sums(self, weight: Array) -> Array:
        """Sum of w omega y^2."""
        return StoredResidual(self.stored.data.astype(np.float64), self).column_squares(weight)

    def residual(self, left: Array, right: Array) -> StoredResidual:
        """What is left."""
        fitted = np.empty(self.stored.nnz)
        rows, columns = row_of_cell(self.stored), self.stored.indices
        by_feature, by_row = np.ascontiguousarray(left.T), np.ascontiguousarray(right.T)
        for start in range(0, fitted.size, GATHER):
            part = slice(start, start + GATHER)
            fitted[part] = np.einsum("ck,ck->c", by_feature[columns[part]], by_row[rows[part]])
        if self.precision is not None:
            fitted *= self.precision
        return StoredResidual(self.stored.data - fitted, self)


@final
@dataclass(frozen=True, eq=False)
class StoredResidual:
    """A residual for every stored cell."""

    weighted: Array  # omega r: (stored,)
    cells: StoredCells

    def row_squares(self) -> Array:
        """Sum over features of omega r^2: (b,)."""
        n = self.cells.stored.shape[0]
        return np.asarray(np.bincount(row_of_cell(self.cells.stored), self._squares, n), np.float64)

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        values = self.cells.stored
        by_cell = self._squares * np.repeat(weight, np.diff(values.indptr))
        return np.asarray(np.bincount(values.indices, by_cell, values.shape[1]), np.float64)

    def sums(self, moments: Array) -> Array:
        """Sum over rows of omega r times (p, b): (p, d)."""
        return (transposed(self._matrix()) @ np.ascontiguousarray(moments.T)).T

    def dense(self) -> Array:
        """Omega r: (b, d)."""
        return self._matrix().toarray()

    def _matrix(self) -> Any:
        return with_data(self.cells.stored, self.weighted)

    @cached_property
    def _squares(self) -> Array:
        precision = 1.0 if self.cells.precision is None else self.cells.precision
        return self.weighted**2 / precision
