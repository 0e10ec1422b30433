"""Observed cells of rows that have a value for every cell: three of the forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from probpca.rows.block import transposed
from probpca.scratch import scratch

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.typing import Array, Floats, Index

    Mask: TypeAlias = "npt.NDArray[np.uint8] | Array"


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
@dataclass(frozen=True, eq=False)
class MaskedCells:
    """A mask and zero-filled values: two dense matrix products each way."""

    mask: Mask  # observed or not (uint8), or omega (float64): (d, b)
    values: Floats  # omega y: (d, b)
    pattern: None = None

    def ready(self) -> MaskedCells:
        """In double precision."""
        return MaskedCells(_as_float(self.mask, "mask"), _as_float(self.values, "values"))

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return np.count_nonzero(self.mask, axis=0).astype(np.float64)

    def log_precision(self) -> Array | float:
        """Sum of log omega."""
        if self.mask.dtype == np.uint8:
            return 0.0
        return np.log(np.where(self.mask > 0, self.mask, 1.0)).sum(axis=0)

    def mask_products(self, table: Array) -> Array:
        """Features to rows."""
        return table @ self.mask

    def value_products(self, table: Array) -> Array:
        """Features to rows."""
        return table @ self.values

    def mask_sums(self, moments: Array) -> Array:
        """Rows to features."""
        return moments @ self.mask.T

    def value_sums(self, moments: Array) -> Array:
        """Rows to features."""
        return moments @ self.values.T

    def square_sums(self, weight: Array) -> Array:
        """Sum of w omega y^2."""
        return self.residual(np.zeros((1, len(self.mask))), np.zeros((1, self._b))).column_squares(weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """What is left."""
        fitted = left.T @ right
        fitted *= self.mask
        weighted = np.subtract(self.values, fitted, out=fitted)
        return DenseResidual(weighted, None if self.mask.dtype == np.uint8 else np.asarray(self.mask, np.float64))

    @property
    def _b(self) -> int:
        return self.mask.shape[1]


@final
@dataclass(frozen=True, eq=False)
class Holes:
    """Few cells are missing: products with all of them, less those with the holes."""

    holes: Any  # 1 at the missing cells: CSR (b, d)
    values: Floats  # y, zero at the holes: (d, b)
    pattern: None = None

    def ready(self) -> Holes:
        """In double precision."""
        return Holes(self.holes, _as_float(self.values, "values"))

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return float(self.holes.shape[1]) - np.diff(self.holes.indptr)

    def log_precision(self) -> float:
        """No precisions here."""
        return 0.0

    def mask_products(self, table: Array) -> Array:
        """Features to rows."""
        return table.sum(axis=1)[:, None] - (self.holes @ np.ascontiguousarray(table.T)).T

    def value_products(self, table: Array) -> Array:
        """Features to rows."""
        return table @ self.values

    def mask_sums(self, moments: Array) -> Array:
        """Rows to features."""
        return moments.sum(axis=1)[:, None] - (transposed(self.holes) @ np.ascontiguousarray(moments.T)).T

    def value_sums(self, moments: Array) -> Array:
        """Rows to features."""
        return moments @ self.values.T

    def square_sums(self, weight: Array) -> Array:
        """Sum of w y^2."""
        return np.einsum("db,db,b->d", self.values, self.values, weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """What is left."""
        fitted = left.T @ right
        weighted = np.subtract(self.values, fitted, out=fitted)
        weighted.T[self.holes.nonzero()] = 0.0
        return DenseResidual(weighted, None)


@final
@dataclass(frozen=True, eq=False)
class Patterns:
    """Many rows with few patterns, complete rows above all: what depends on the mask is done once a pattern."""

    masks: Array  # (d, patterns)
    values: Floats  # y, zero where nothing was observed: (d, b)
    pattern: Index  # ascending: (b,)

    def ready(self) -> Patterns:
        """In double precision."""
        return Patterns(self.masks, _as_float(self.values, "values"), self.pattern)

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return self.masks.sum(axis=0)[self.pattern]

    def log_precision(self) -> float:
        """No precisions here."""
        return 0.0

    def mask_products(self, table: Array) -> Array:
        """Features to patterns."""
        return table @ self.masks

    def value_products(self, table: Array) -> Array:
        """Features to rows."""
        return table @ self.values

    def mask_sums(self, moments: Array) -> Array:
        """Patterns to features."""
        return moments @ self.masks.T

    def value_sums(self, moments: Array) -> Array:
        """Rows to features."""
        return moments @ self.values.T

    def square_sums(self, weight: Array) -> Array:
        """Sum of w y^2."""
        return np.einsum("db,db,b->d", self.values, self.values, weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """What is left."""
        fitted = left.T @ right
        fitted *= self.masks[:, self.pattern]
        return DenseResidual(np.subtract(self.values, fitted, out=fitted), None)


def _as_float(stored: Any, name: str) -> Array:
    """Stored small, multiplied in double precision."""
    if stored.dtype == np.float64:
        return stored
    out = scratch(name, stored.shape, np.float64)
    np.copyto(out, stored, casting="safe")
    return out
