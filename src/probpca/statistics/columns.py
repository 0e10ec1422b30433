"""What is observed of each feature: how often, where, how spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.blocks.block import row_of_cell

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.typing import Array

TINY = 1e-300
PIECE_CELLS = 2**18


@final
@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Mean and squared deviations of the observed cells of each feature."""

    rows: float  # sum w of rows with something observed
    count: float  # how many such rows there are
    observed: Array  # sum w over observed cells: (d,)
    weight: Array  # sum w omega: (d,)
    mean: Array  # (d,), 0 where nothing was observed
    squares: Array  # sum w omega (x - mean)^2: (d,)

    @property
    def variance(self) -> Array:
        """Variance of each feature over its observed cells: (d,)."""
        return self.squares / np.maximum(self.weight, TINY)

    @property
    def is_finite(self) -> bool:
        """Are all sums?"""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.squares).all())

    @classmethod
    def of(cls, block: Block) -> Columns:
        """Summarise a block, piece by piece."""
        d = block.n_features
        total = cls(0.0, 0.0, np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d))
        if block.is_sparse:
            summarise, pieces = cls._of_sparse, block.stored_pieces(4 * PIECE_CELLS)
        else:
            summarise, pieces = cls._of_dense, block.pieces(min_rows=1, size=8 * PIECE_CELLS)
        for rows in pieces:
            total = total.merge(summarise(block.take(rows)))
        return total

    @classmethod
    def _of_dense(cls, block: Block) -> Columns:
        seen = ~np.isnan(block.values)
        omega = None
        if block.precision is not None:
            seen &= block.precision > 0
            omega = np.where(seen, block.precision, 0.0)
        w = block.weights
        return cls._of_cells(np.where(seen, block.values, 0.0), seen, omega, w)

    @classmethod
    def _of_cells(cls, x: Array, seen: Array, omega: Array | None, w: Array) -> Columns:
        mask = seen.astype(np.float64)
        precise = mask if omega is None else omega
        weight = w @ precise
        mean = (w @ (x if omega is None else omega * x)) / np.maximum(weight, TINY)
        x -= mean
        x *= mask
        squares = np.einsum("ij,ij,ij,i->j", x, x, precise, w) if omega is not None else w @ np.square(x, out=x)
        present = seen.any(axis=1)
        return cls(float(w @ present), float(present.sum()), w @ mask, weight, mean, squares)

    @classmethod
    def _of_sparse(cls, block: Block) -> Columns:
        """From the stored cells; the others are missing, or zeros as far from the mean as the mean from zero."""
        values, d = block.values, block.n_features
        w = block.weights
        of_cell = np.repeat(w, np.diff(values.indptr))
        seen = ~np.isnan(values.data)
        omega = seen.astype(np.float64) if block.precision is None else np.where(seen, block.precision, 0.0)
        x = np.where(seen, values.data, 0.0)
        observed = np.bincount(values.indices, of_cell * (omega > 0), minlength=d)
        weight = np.bincount(values.indices, of_cell * omega, minlength=d)
        zeros = np.zeros(d) if block.unstored_missing else w.sum() - np.bincount(values.indices, of_cell, minlength=d)
        mean = np.bincount(values.indices, of_cell * omega * x, minlength=d) / np.maximum(weight + zeros, TINY)
        rest = (x - mean[values.indices]) ** 2
        squares = np.bincount(values.indices, of_cell * omega * rest, minlength=d) + zeros * mean**2
        stored = np.bincount(row_of_cell(values), omega > 0, block.n_rows)
        present = stored > 0 if block.unstored_missing else np.diff(values.indptr) - stored < d
        return cls(float(w @ present), float(present.sum()), observed + zeros, weight + zeros, mean, squares)

    def merge(self, other: Columns) -> Columns:
        """Pairwise update, feature by feature."""
        weight = self.weight + other.weight
        share = other.weight / np.maximum(weight, TINY)
        shift = other.mean - self.mean
        return Columns(
            self.rows + other.rows,
            self.count + other.count,
            self.observed + other.observed,
            weight,
            self.mean + shift * share,
            self.squares + other.squares + shift**2 * (self.weight * share),
        )
