"""Are the rows usable? Asked of their sums, which costs nothing; answered cell by cell if not."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.errors import DataError

if TYPE_CHECKING:
    from probpca.rows import Block
    from probpca.sources import Source
    from probpca.statistics import Columns
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
