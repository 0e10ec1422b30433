"""The units in which columns have unit variance."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from probpca.learning.checks import MissingCellsError, require_observed, require_usable
from probpca.statistics import Columns, Spread

if TYPE_CHECKING:
    from probpca.sources import Source
    from probpca.typing import Array

ROUNDING = 1e-13


def units(source: Source) -> tuple[Array, Array]:
    """Standard deviation of each column, 1 if it is constant; and how many cells of it were observed."""
    mean, variance, observed = _columns(source)
    std = np.sqrt(variance)
    # The mean of a long constant column is off by some hundred eps: that is no variation.
    return np.where(std > ROUNDING * np.abs(mean), std, 1.0), observed


def _columns(source: Source) -> tuple[Array, Array, Array]:
    """Mean and variance of what was observed of each column, and how many cells that is."""
    if not source.incomplete:
        spread = source.fold(Spread.of)
        with suppress(MissingCellsError):
            require_usable(source, spread.count, spread.mean, spread.total)
            return spread.mean, spread.squares / spread.weight, np.full(spread.mean.size, spread.weight)
    columns = source.fold(Columns.of)
    require_observed(source, columns)
    return columns.mean, columns.variance, columns.observed
