"""One look at all rows before a fit: how many, what is missing, what cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import numpy as np

from probpca.cli.tables import IDENTIFIER, Table
from probpca.errors import DataError
from probpca.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from probpca.sources import Source
    from probpca.sources.source import Watch
    from probpca.typing import Array, Floats, Index

HELD_BYTES = 2**28
"""Tables up to this size are read once and held in memory; larger ones are read again in every pass."""
JUDGED_ROWS = 100_000
"""Rows by which a column is judged to be a list of identifiers."""


@final
@dataclass(frozen=True, eq=False)
class Survey:
    """What a pass over the rows has found."""

    n_rows: int
    n_empty: int  # rows of which nothing was observed
    observed: Index  # cells of each column: (d,)
    low: Array  # smallest and largest value of each column, reversed if there is none: (d,)
    high: Array
    infinite: tuple[int, int] | None  # row and column of the first such cell
    listed: Floats  # values of columns that are called as identifiers are: (rows, suspects)
    kept: tuple[Floats, ...] | None  # all rows, one piece below the other, while they are small

    def merge(self, other: Self) -> Survey:
        """Survey of both sets of rows, the other ones below."""
        later = None if other.infinite is None else (self.n_rows + other.infinite[0], other.infinite[1])
        return Survey(
            self.n_rows + other.n_rows,
            self.n_empty + other.n_empty,
            self.observed + other.observed,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.infinite or later,
            np.concatenate([self.listed, other.listed])[:JUDGED_ROWS],
            self._kept_with(other),
        )

    def _kept_with(self, other: Self) -> tuple[Floats, ...] | None:
        if self.kept is None or other.kept is None or self.n_bytes + other.n_bytes > HELD_BYTES:
            return None
        return self.kept + other.kept

    def choose(self, kept: Index, suspects: Sequence[int]) -> Survey:
        """The same of some columns."""
        return replace(
            self,
            observed=self.observed[kept],
            low=self.low[kept],
            high=self.high[kept],
            listed=self.listed[:, np.isin(suspects, kept)],
            kept=None if self.kept is None else tuple(x[:, kept] for x in self.kept),
        )

    @property
    def missing_share(self) -> float:
        """Of all cells."""
        cells = self.n_rows * self.observed.size
        return 1.0 - float(self.observed.sum()) / cells if cells else 0.0

    @property
    def n_bytes(self) -> int:
        """That the numbers take in memory."""
        return 8 * self.n_rows * self.observed.size


def suspects_among(names: Sequence[str]) -> list[int]:
    """Columns that are called as identifiers are."""
    return [j for j, name in enumerate(names) if IDENTIFIER.search(name)]


class Looked(NamedTuple):
    """A table of which all rows were looked at once."""

    table: Table  # without columns that are empty
    found: Survey
    rows: Source  # in memory, if they are small


def look_at(table: Table, n_jobs: int | None, watch: Watch | None = None) -> Looked:
    """Look at all rows, and leave out columns of which nothing was observed."""
    source, suspects = table.source(n_jobs, watch), suspects_among(table.numbers)
    if source.n_rows == 0:
        msg = f"{table.place} has no rows."
        raise DataError(msg)
    found = survey(source, suspects)
    require_sound(found, table.place, table.numbers)
    seen = np.flatnonzero(found.observed)
    if table.named and seen.size < len(table.numbers):
        table = table.without([name for j, name in enumerate(table.numbers) if not found.observed[j]])
        found = found.choose(seen, suspects)
        source = source if found.kept is not None else table.source(n_jobs, watch)
    return Looked(table, found, held(source, found, table.numbers if table.named else None))


def survey(source: Source, suspects: Sequence[int]) -> Survey:
    """Look at all rows."""
    return source.fold(partial(_survey_block, list(suspects)))


def _survey_block(suspects: list[int], block: Any) -> Survey:
    x = np.asarray(block.values)
    seen = ~np.isnan(x)
    infinite = np.argwhere(np.isinf(x))
    return Survey(
        len(x),
        int((~seen.any(axis=1)).sum()),
        seen.sum(axis=0),
        np.fmin.reduce(x, axis=0, initial=np.inf).astype(np.float64),
        np.fmax.reduce(x, axis=0, initial=-np.inf).astype(np.float64),
        (int(infinite[0, 0]), int(infinite[0, 1])) if len(infinite) else None,
        x[:JUDGED_ROWS, suspects],
        (x,) if x.size * 8 <= HELD_BYTES else None,
    )


def require_sound(found: Survey, place: Path, names: Sequence[str]) -> None:
    """Raise ``DataError`` for infinite cells, and for tables that are too small to learn from."""
    if found.infinite is not None:
        row, column = found.infinite
        msg = (
            f"{place}, row {row + 1:,}, column {names[column]!r} holds an infinite number.\n"
            "Hint: leave the cell empty if it is missing."
        )
        raise DataError(msg)
    if found.n_rows < 2:
        msg = f"{place} has {found.n_rows} row{'s' * (found.n_rows != 1)}; a model needs two or more."
        raise DataError(msg)
    if not found.observed.any():
        msg = f"{place} holds no number: all {found.n_rows:,} rows are empty."
        raise DataError(msg)


def identifiers(found: Survey, names: Sequence[str]) -> list[str]:
    """Columns of whole numbers that are all different, and that are called as identifiers are."""
    return [
        names[j]
        for j, values in zip(suspects_among(names), found.listed.T, strict=True)
        if np.array_equal(values, np.round(values)) and np.unique(values).size == len(values)
    ]


def constants(found: Survey, names: Sequence[str]) -> list[str]:
    """Columns in which every observed cell is the same."""
    return [names[int(j)] for j in np.flatnonzero((found.low == found.high) & (found.observed > 1))]


def held(source: Source, found: Survey, names: Sequence[str] | None) -> Source:
    """The rows in memory if they are small, else the source as it is."""
    if found.kept is None:
        return source
    inside: Any = open_source(np.concatenate(found.kept), n_jobs=source.n_jobs)
    return replace(inside, columns=None if names is None else tuple(names))
