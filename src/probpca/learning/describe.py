"""What is in a table: are the rows usable, complete, constant, and in which units?"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.errors import DataError
from probpca.sources import open_source
from probpca.statistics import Columns, Root, Spread

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.sources import Source
    from probpca.typing import Array

ENOUGH_ROWS = 2


@final
@dataclass(frozen=True, slots=True)
class Flaws:
    """How many cells are not finite, and the first column that has one."""

    n_nan: int
    n_infinite: int
    column: int

    @classmethod
    def of(cls, block: Block) -> Flaws:
        """Count them in a block."""
        n_nan, n_infinite, column = 0, 0, block.n_features
        for rows in block.pieces():
            part = block.raw(rows)
            bad = ~np.isfinite(part)
            n_nan += int(np.isnan(part).sum())
            n_infinite += int(np.isinf(part).sum())
            if bad.any():
                column = min(column, int(bad.any(axis=0).argmax()))
        return cls(n_nan, n_infinite, column)

    def merge(self, other: Flaws) -> Flaws:
        """Add counts."""
        column = min(self.column, other.column)
        return Flaws(self.n_nan + other.n_nan, self.n_infinite + other.n_infinite, column)


class MissingCellsError(DataError):
    """Rows that should have been complete are not."""


class NothingToLearnError(DataError):
    """Too few cells were observed, or they do not differ: more rows may help."""


def warn_of_no_checkpoint(when: str) -> None:
    """Say that a fit will start afresh if it is stopped."""
    warnings.warn(f"no checkpoint is written {when}; a fit that is stopped starts afresh.", UserWarning, stacklevel=2)


def require_usable(source: Source, count: int, mean: Array, total: float) -> None:
    """Raise ``DataError`` unless there are two rows, all finite, that differ."""
    if count < ENOUGH_ROWS:
        msg = f"at least 2 rows are needed to learn a distribution; got n_samples={count}."
        raise DataError(msg)
    if not (np.isfinite(total) and np.isfinite(mean).all()):
        _blame(source)
    if total <= 0:
        msg = "all rows are identical: there is no variation to explain.\nHint: check how the table was read."
        raise DataError(msg)


def require_observed(source: Source, columns: Columns) -> None:
    """Raise ``DataError`` unless two rows have something observed, all of it finite, that differs."""
    if not columns.is_finite:
        _blame_observed(source)
    if columns.count < ENOUGH_ROWS:
        msg = f"at least 2 rows with observed cells are needed to learn a distribution; got {columns.count:.0f}."
        raise NothingToLearnError(msg)
    if columns.squares.sum() <= 0:
        msg = "all observed values of each column are identical: there is no variation to explain."
        raise NothingToLearnError(msg)


def require_counted(columns: Columns) -> None:
    """Raise ``DataError`` where weights do not count rows: how many there are decides what can be believed."""
    if columns.rows < ENOUGH_ROWS:
        msg = (
            f"sample_weight counts rows; these add up to {columns.rows:.3g}, and {ENOUGH_ROWS} or more are needed.\n"
            "Hint: multiply the weights so that they add up to the number of rows."
        )
        raise DataError(msg)


def _blame_observed(source: Source) -> None:
    flaws = source.fold(Flaws.of)
    if flaws.n_infinite:
        msg = f"observed values must be finite; X contains infinity ({flaws.n_infinite} cells)."
    else:
        msg = "the squares of the values must stay below 1e308; these are too large.\nHint: change the units."
    raise DataError(msg)


def _blame(source: Source) -> None:
    flaws = source.fold(Flaws.of) if source.repeatable else None
    if flaws is not None and flaws.n_nan + flaws.n_infinite == 0:
        msg = (
            "the squares of the values must stay below 1e308; these are too large.\n"
            "Hint: change the units of the data, e.g. divide by 1e100."
        )
        raise DataError(msg)
    if flaws is not None and flaws.n_infinite == 0:
        msg = f"rows must be complete; X contains NaN ({flaws.n_nan} cells; first in column {flaws.column})."
        raise MissingCellsError(msg)
    where = (
        "" if flaws is None else f" ({flaws.n_nan} NaN, {flaws.n_infinite} infinity; first in column {flaws.column})"
    )
    msg = (
        f"rows must be finite; X contains NaN or infinity{where}.\n"
        "Hint: infinity is no value; NaN stands for a missing cell, and needs rows that can be read again."
    )
    raise DataError(msg)


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


LARGEST_ROOT = 2000
"""Features up to which rows are boiled down to a square root of their scatter before iterating."""


def boiled_down(source: Source) -> Source:
    """Complete rows are worth as many as there are features to any of these solvers: one pass."""
    many = source.n_rows is None or source.n_rows > 2 * source.n_features
    if not many or source.n_features > LARGEST_ROOT:
        return source
    root = source.fold(Root.of)
    require_usable(source, root.count, root.mean, root.energy)
    rows, weight = root.as_rows()
    return open_source(rows, weight=weight, n_jobs=source.n_jobs)
