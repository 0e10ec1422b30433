"""Are the rows usable? Asked of their sums, which costs nothing; answered cell by cell if not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.errors import DataError

if TYPE_CHECKING:
    from probpca.rows import Block
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


def _blame(source: Source) -> None:
    flaws = source.fold(Flaws.of) if source.repeatable else None
    if flaws is not None and flaws.n_nan + flaws.n_infinite == 0:
        msg = (
            "the squares of the values must stay below 1e308; these are too large.\n"
            "Hint: change the units of the data, e.g. divide by 1e100."
        )
        raise DataError(msg)
    where = (
        "" if flaws is None else f" ({flaws.n_nan} NaN, {flaws.n_infinite} infinity; first in column {flaws.column})"
    )
    msg = (
        f"rows must be complete and finite; X contains NaN or infinity{where}.\n"
        "Hint: drop those rows or fill the cells before fitting."
    )
    raise DataError(msg)
