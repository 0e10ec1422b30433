"""Observed cells of rows that have a value for every cell: three of the forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.rows.operators import Complement, Dense

if TYPE_CHECKING:
    from probpca.typing import Array, Floats, Index


@final
@dataclass(frozen=True, slots=True, eq=False)
class DenseResidual:
    """A residual for every cell, zero at those that were not observed."""

    weighted: Array  # omega r: (d, b)
    precision: Array | None  # omega: (d, b); None: 1 or 0

    def row_squares(self) -> Array:
        """Sum over features of omega r^2: (b,)."""
        return np.einsum("db,db->b", self.weighted, self._plain())

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        if (weight == 1.0).all():
            return np.einsum("db,db->d", self.weighted, self._plain(), dtype=np.float64)  # values may be float32
        return np.einsum("db,db,b->d", self.weighted, self._plain(), weight)

    def sums(self, moments: Array) -> Array:
        """Sum over rows of omega r times (p, b): (p, d)."""
        return moments @ self.weighted.T

    def dense(self) -> Array:
        """Omega r: (b, d)."""
        return self.weighted.T

    def _plain(self) -> Array:
        if self.precision is None:
            return self.weighted
        return self.weighted / np.where(self.precision > 0, self.precision, 1.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class MaskedCells:
    """A mask and zero-filled values: two dense matrix products each way."""

    mask: Dense  # observed or not, or omega
    values: Dense  # omega y
    binary: bool  # is omega 1 or 0?
    pattern: None = None

    @classmethod
    def of(cls, mask: Any, values: Floats) -> MaskedCells:
        """From arrays with a column per row: (d, b)."""
        return cls(Dense(mask, "mask"), Dense(values, "values"), mask.dtype == np.uint8)

    @property
    def precision(self) -> Array | None:
        """Omega; None: 1 or 0."""
        return None if self.binary else self.mask.entries

    def ready(self) -> MaskedCells:
        """In double precision."""
        return MaskedCells(self.mask.ready(), self.values.ready(), self.binary)

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return np.count_nonzero(self.mask.entries, axis=0).astype(np.float64)

    def log_precision(self) -> Array | float:
        """Sum of log omega."""
        if self.precision is None:
            return 0.0
        return np.log(np.where(self.precision > 0, self.precision, 1.0)).sum(axis=0)

    def square_sums(self, weight: Array) -> Array:
        """Sum of w omega y^2."""
        return DenseResidual(self.values.entries, self.precision).column_squares(weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """What is left."""
        fitted = left.T @ right
        fitted *= self.mask.entries
        weighted = np.subtract(self.values.entries, fitted, out=fitted)
        return DenseResidual(weighted, self.precision)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Holes:
    """Few cells are missing: products with all of them, less those with the holes."""

    mask: Complement
    values: Dense  # y, zero at the holes
    pattern: None = None

    @classmethod
    def of(cls, holes: Any, values: Floats) -> Holes:
        """From a sparse matrix (b, d) that stores 1 at the holes, and values with a column per row: (d, b)."""
        return cls(Complement(holes), Dense(values, "values"))

    def ready(self) -> Holes:
        """In double precision."""
        return replace(self, values=self.values.ready())

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return float(self.mask.holes.shape[1]) - np.diff(self.mask.holes.indptr)

    def log_precision(self) -> float:
        """No precisions here."""
        return 0.0

    def square_sums(self, weight: Array) -> Array:
        """Sum of w y^2."""
        return DenseResidual(self.values.entries, None).column_squares(weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """What is left."""
        fitted = left.T @ right
        weighted = np.subtract(self.values.entries, fitted, out=fitted)
        weighted.T[self.mask.holes.nonzero()] = 0.0
        return DenseResidual(weighted, None)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Many rows with few patterns, complete rows above all: what depends on the mask is done once a pattern."""

    mask: Dense  # of each pattern
    values: Dense  # y of each row, zero where nothing was observed
    pattern: Index  # ascending: (b,)

    @classmethod
    def of(cls, masks: Array, values: Floats, pattern: Index) -> Patterns:
        """From arrays with a column per pattern, and per row."""
        return cls(Dense(masks, "mask"), Dense(values, "values"), pattern)

    def ready(self) -> Patterns:
        """In double precision."""
        return replace(self, values=self.values.ready())

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return self.mask.entries.sum(axis=0)[self.pattern]

    def log_precision(self) -> float:
        """No precisions here."""
        return 0.0

    def square_sums(self, weight: Array) -> Array:
        """Sum of w y^2."""
        return DenseResidual(self.values.entries, None).column_squares(weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """What is left."""
        fitted = left.T @ right
        if not self.mask.entries.all():
            fitted *= self.mask.entries[:, self.pattern]
        return DenseResidual(np.subtract(self.values.entries, fitted, out=fitted), None)
