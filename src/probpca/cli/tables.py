"""Tables in files: which columns hold numbers, which go along, and why."""

from __future__ import annotations

import re
from collections import Counter
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from probpca.cli.output import note
from probpca.errors import DataError, ShapeError, SourceError
from probpca.sources import open_source
from probpca.sources.files import arrow_module, delimiter_of, format_of, has_names
from probpca.sources.readers.csv import require_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.sources import Source
    from probpca.sources.arrow_columns import Column
    from probpca.sources.source import Watch


CODES = "codes"
NAMING = ("text", "dates", "index")
"""What columns that name rows hold."""
IDENTIFIER = re.compile(r"(^|[_\s.-])(id|ids|idx|index|key|nr|no|number|row|rowid|uuid|code)$", re.IGNORECASE)


class Table(NamedTuple):
    """A file of rows, looked at but not read."""

    place: Path
    columns: tuple[Column, ...]
    numbers: tuple[str, ...]  # names of the columns for a model, in their order
    others: dict[str, str]  # names of all others, and why they are not among them
    named: bool  # .npy has no names

    def source(self, n_jobs: int | None, watch: Watch | None = None) -> Source:
        """The numbers, wherever they are."""
        return open_source(self.place, columns=self.numbers if self.named else None, n_jobs=n_jobs, watch=watch)

    def choose(self, row_names: str | None, exclude: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Columns for a model as somebody asks for them; ``numbers`` are among them though they look like codes."""
        names = [column.name for column in self.columns]
        for name in (*exclude, *numbers, *filter(None, [row_names])):
            require_column(self.place, names, name)
        for column in (column for column in self.columns if column.name in numbers and column.kind != "numbers"):
            why = f" ({column.why})" if column.why else ""
            msg = f"--numbers {column.name}: the column holds {column.kind}{why}, and cannot be taken for numbers."
            raise DataError(msg)
        others = {c.name: why for c in self.columns if (why := _why_not(c, row_names, exclude, numbers))}
        if others and not self.named:
            msg = f"{self.place} holds an array, whose columns have no names.\nHint: leave out --id and --exclude."
            raise SourceError(msg)
        return self._replace(numbers=tuple(name for name in names if name not in others), others=others)

    def without(self, empty: Sequence[str]) -> Table:
        """Columns of which nothing was observed are for no model."""
        others = {**self.others, **dict.fromkeys(empty, "empty")}
        return self._replace(numbers=tuple(name for name in self.numbers if name not in others), others=others)


def open_table(path: str) -> Table:
    """Look at a file, and decide which of its columns hold numbers for a model."""
    place = Path(path)
    if not place.exists():
        msg = f"there is no file {place}."
        raise SourceError(msg)
    if not place.is_dir():
        format_of(place)
        if place.stat().st_size == 0:
            msg = f"{place} is empty."
            raise SourceError(msg)
        _tell_dialect(place)
    elif any("=" in found.parent.name for found in place.rglob("*.parquet")):
        note(f"names of folders in {place}, as year=2024, are not read as columns.")
    columns: tuple[Column, ...] = arrow_module("probpca.sources.arrow_columns").columns_of(place)
    names = [column.name for column in columns]
    _check_names(place, names)
    return Table(place, columns, (), {}, has_names(place)).choose(None, ())


def require_column(place: Path, names: Sequence[str], name: str) -> None:
    """Raise ``SourceError`` unless there is a column of this name."""
    if name not in names:
        close = get_close_matches(name, names, 1)
        some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        hint = f"Hint: {close[0]} is there." if close else f"Hint: it has {some}."
        msg = f"{place} has no column {name!r}.\n{hint}"
        raise SourceError(msg)


def _why_not(column: Column, row_names: str | None, exclude: Sequence[str], numbers: Sequence[str]) -> str:
    """Why a column is not for a model; nothing if it is."""
    if column.name == row_names:
        return "--id"
    if column.name in exclude:
        return "--exclude"
    if not column.name:
        return "no name"
    if column.kind == "numbers" and column.name in numbers:
        return ""
    if column.why:
        return f"{CODES if column.kind == 'numbers' else column.kind}: {column.why}"
    return "" if column.kind == "numbers" else column.kind


def _tell_dialect(place: Path) -> None:
    """Say so if a text file is not written as its name lets expect."""
    if format_of(place) == "csv":
        written = arrow_module("probpca.sources.readers.csv").dialect(place)
        if written != (delimiter_of(place), "."):
            note(f"cells of {place} are separated by {written}.")


def _check_names(place: Path, names: list[str]) -> None:
    if not place.is_dir() and format_of(place) == "csv":
        require_names(names, place, "put a line of names on top.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        found = f"{place} has several that are called {twice[0]!r}"
        msg = f"columns must have names of their own; {found}.\nHint: rename them."
        raise DataError(msg)


def matched(table: Table, names: tuple[str, ...] | None, n_features: int) -> tuple[str, ...]:
    """The columns that a model was fitted to, by their names; by their places where one of the two has no names."""
    if names is not None and table.named:
        known = {column.name: column for column in table.columns}
        lacking = [name for name in names if name not in known]
        if lacking:
            some = ", ".join(map(repr, lacking[:3])) + (f" and {len(lacking) - 3:,} more" if len(lacking) > 3 else "")
            msg = (
                f"{table.place} lacks {len(lacking):,} of the {len(names):,} columns of the model: {some}.\n"
                "Hint: columns are known by their names; their order does not matter."
            )
            raise ShapeError(msg)
        for name in names:
            _require_numbers(table.place, known[name])
        return names
    if len(table.numbers) != n_features:
        msg = f"{table.place} must have {n_features:,} columns of numbers, as the model; it has {len(table.numbers):,}."
        raise ShapeError(msg)
    return table.numbers


def _require_numbers(place: Path, column: Column) -> None:
    if column.kind not in ("numbers", "true or false", "empty"):
        why = f"{column.kind}: {column.why}" if column.why else column.kind
        msg = f"column {column.name!r} of {place} must hold numbers, as it did at the fit; it holds {why}."
        raise DataError(msg)


def row_names(table: Table, features: Sequence[str], chosen: str | None) -> str | None:
    """The column that names rows: the one that was asked for, the first that holds names, or one called so."""
    if chosen is not None:
        require_column(table.place, [column.name for column in table.columns], chosen)
        return chosen
    known = set(features)
    others = [column for column in table.columns if column.name not in known]
    named = [c.name for c in others if c.kind in NAMING or c.why or not c.name]
    return next(iter([*named, *(c.name for c in others if IDENTIFIER.search(c.name))]), None)
