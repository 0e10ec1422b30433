"""A few sums by which rows are known again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from probpca.rows.keys import mixed
from probpca.statistics import Sum

if TYPE_CHECKING:
    from probpca.rows import Observed
    from probpca.sources import Source
    from probpca.statistics import Columns
    from probpca.typing import Array

WAVES = 8
CONSTANT = 1e-7
"""Spread, as a share of the mean, below which a column says too little beside rounding."""
ROUNDING = 1e-6
"""What a sum may differ by in a row, if rows are cut or rounded in another way."""


def fingerprint(rows: Source, columns: Columns) -> Array:
    """Sums over rows of sines and cosines of mixtures of their cells: (2 * WAVES,). One pass.

    Neither cuts nor the order of rows matter. Rows mirrored about their mean have other sines, and rows whose
    cells have changed places have other mixtures, though mean and variance of each column are the same.
    """
    spread = np.sqrt(columns.variance)
    says = spread > CONSTANT * np.abs(columns.mean)
    d = spread.size
    keys = mixed(np.arange(WAVES * d, dtype=np.uint64)[None, :]).reshape(WAVES, d)
    even = (keys.astype(np.float64) / 2.0**64 - 0.5) * np.sqrt(12 / d)
    table = np.where(says, even / np.where(says, spread, 1.0), 0.0)
    return rows.fold(partial(_waves, table, columns.mean)).value


def _waves(table: Array, mean: Array, block: Observed) -> Sum:
    total = np.zeros(2 * len(table))
    for part in block.parts:
        cells = part.cells.ready()
        beside = cells.mask.products(table * (block.centre - mean))
        phase = cells.values.products(table) + (beside if cells.pattern is None else beside[:, cells.pattern])
        total += np.concatenate([np.sin(phase), np.cos(phase)]) @ part.weight
    return Sum(total)


def is_same(found: Array, wanted: Array, columns: Columns) -> bool:
    """Do two fingerprints belong to the same rows?"""
    return found.shape == wanted.shape and bool((np.abs(found - wanted) <= ROUNDING * columns.rows).all())
