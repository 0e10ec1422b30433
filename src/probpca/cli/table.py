"""Tables in files: which columns hold numbers, which go with them as labels, and what one pass over the rows shows."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import numpy as np

from probpca.blocks import Block
from probpca.cli.identifiers import Steps, calendar_columns, is_time, row_axes
from probpca.cli.screen import is_terminal
from probpca.cli.text import note
from probpca.errors import DataError, ShapeError, SourceError
from probpca.result_tables import clip
from probpca.sources import Source, TableFormat
from probpca.sources.engines.local import resolve_jobs
from probpca.sources.files import Column, TableFile, delimiter_of, file_format, is_identifier, kind_of_bytes
from probpca.sources.open import look_at, look_at_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from probpca.sources.source import Watch
    from probpca.typing import Array, Floats, Index

USUAL_CODES = ("-99", "-999", "-9999", "-99999")
"""Numbers that often mean a missing cell."""
NEARLY = "numbers must look like -1234.5"
"""How the reason ends why a column that nearly holds numbers is text."""


class Table(NamedTuple):
    """A file of rows with known columns; no rows have been read yet."""

    file: TableFile
    columns: tuple[Column, ...]
    numbers: tuple[str, ...]  # names of the columns for a model, in their order
    others: dict[str, str]  # names of all other columns, and why they are not for a model
    chosen: tuple[str, ...] = ()  # names of columns that --numbers puts into the model
    stored: bool = True  # standard input is not a file that could be read again

    @property
    def place(self) -> Path:
        """Name of the file."""
        return self.file.place

    @property
    def named(self) -> bool:
        """Whether columns have names; those of a .npy file have none."""
        return self.file.named

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return [column.name for column in self.columns]

    def source(
        self,
        n_jobs: int | None,
        watch: Watch | None = None,
        *,
        numbers: Sequence[str] | None = None,
        others: Sequence[str] = (),
    ) -> Source:
        """Source of columns of numbers, by default those for a model; other columns may go with them."""
        columns = numbers or self.numbers
        if not self.named:
            return self.file.source(None, resolve_jobs(n_jobs), watch)
        return self.file.source(columns, resolve_jobs(n_jobs), watch, others)

    def choose(self, row_names: str | None, exclude: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Choose columns for a model; ``numbers`` are among them though they look like codes."""
        for name in (*exclude, *numbers, *filter(None, [row_names])):
            require_column(self, name)
        for column in (column for column in self.columns if column.name in numbers and column.kind != "numbers"):
            why = f" ({column.why})" if column.why else ""
            msg = f"--numbers {column.name}: the column holds {column.kind}{why}, not numbers."
            raise DataError(msg)
        others = {c.name: why for c in self.columns if (why := _why_not(c, row_names, exclude, numbers))}
        if others and not self.named:
            msg = f"{self.place} holds an array, whose columns have no names.\nHint: leave out --id and --exclude."
            raise SourceError(msg)
        kept = tuple(name for name in self.names if name not in others)
        return self._replace(numbers=kept, others=others, chosen=tuple(numbers))

    def without(self, left_out: Mapping[str, str]) -> Table:
        """Leave out columns, each for a reason."""
        others = {**self.others, **left_out}
        return self._replace(numbers=tuple(name for name in self.numbers if name not in others), others=others)

    def about_labels(self) -> list[str]:
        """Remarks on columns of numbers, or nearly of numbers, that are not for the model."""
        found = [text for name, why in self.others.items() if (text := _about_label(name, why))]
        unnamed = [j for j, column in enumerate(self.columns) if j and not column.name and column.kind == "numbers"]
        return [
            *found,
            *(f"column {j + 1} has no name and is not part of the model; give it a name to use it." for j in unnamed),
        ]


def _about_label(name: str, why: str) -> str:
    """Why a column that holds numbers, or nearly so, is not for the model, and how to use it all the same."""
    kind, _, detail = why.partition(": ")
    option = shlex.quote(name)
    ways = f"not part of the model; --id {option} uses it to name the rows, --numbers {option} models it."
    match kind:
        case "numbers the rows":
            return f"column {name} numbers the rows and is {ways}"
        case "identifier":
            return f"column {name} looks like an identifier and is {ways}"
        case "time axis":
            return f"column {name} is a time axis ({detail}) and is {ways}"
        case "codes":
            return f"column {name} is used as a label: {detail}; --numbers {option} models it."
    ways = (
        "see --parse-units, --thousands and --decimal"
        if detail.endswith(NEARLY)
        else "if this means a missing cell, use --missing"
    )
    return f"column {name} is used as a label: {detail}; {ways}." if detail else ""


class Input(NamedTuple):
    """What a command reads a table from: a file, a folder, or standard input."""

    path: str
    kind: str  # the format
    content: bytes | None = None  # of standard input

    @classmethod
    def find(cls, path: str) -> Input:
        """Find a file by its name; - is standard input, which is held in memory."""
        if path != "-":
            return cls(path, _format_of_file(Path(path)))
        if sys.stdin is None:
            msg = "standard input is closed; - reads the table from it."
            raise SourceError(msg)
        if is_terminal() and sys.stdin.isatty():
            note("the table is read from standard input.")
        content = sys.stdin.buffer.read()
        return cls(path, kind_of_bytes(content), content)

    def look(self, table_format: TableFormat) -> TableFile:
        """Look at the columns of the table."""
        if self.content is None:
            return look_at(self.path, table_format)
        return look_at_bytes("standard input", self.content, table_format)


def _format_of_file(place: Path) -> str:
    if not place.exists():
        msg = f"there is no file {place}.\nHint: check the name and the folder."
        raise SourceError(msg)
    if place.suffix.lower() == ".npz":
        msg = f"{place} is not a table.\nHint: a .npz file holds a model; give a table, such as a .csv or .xlsx file."
        raise SourceError(msg)
    kind = file_format(place)
    if not place.is_dir() and place.stat().st_size == 0:
        msg = f"{place} is empty."
        raise SourceError(msg)
    if place.is_dir() and any("=" in found.parent.name for found in place.rglob("*.parquet")):
        note(f"folder names such as year=2024 in {place} are not read as columns.")
    return kind


def open_table(path: str | Path | Input, table_format: TableFormat = TableFormat()) -> Table:
    """Look at a file, and decide which of its columns hold numbers for a model."""
    given = path if isinstance(path, Input) else Input.find(str(path))
    file = given.look(table_format)
    if given.kind == "csv" and not table_format.transpose:
        _check_text(file, table_format)
    columns = file.columns()
    for text in [*file.notes, *_about_units(columns)]:
        note(f"{text}.")
    twice = [name for name, count in Counter(column.name for column in columns).items() if count > 1]
    if twice:
        what, hint = f"several called {twice[0]!r}", "rename them; spaces around names are ignored"
        if not twice[0]:
            what, hint = "several without a name", "name them, or skip lines above the column names with --skip-rows"
        msg = f"columns must have different names; {file.place} has {what}.\nHint: {hint}."
        raise DataError(msg)
    return Table(file, columns, (), {}, stored=given.content is None).choose(None, ())


def _about_units(columns: Sequence[Column]) -> list[str]:
    """Note on units that were left out of numbers."""
    found = [f"{column.name} ({column.unit})" for column in columns if column.unit]
    shown = ", ".join(found[:8]) + (", ..." if len(found) > 8 else "")
    percent = "; 12% is read as 12" if any(column.unit == "%" for column in columns) else ""
    return [f"units were removed from the numbers of {shown}{percent}"] if found else []


def _check_text(file: Any, table_format: TableFormat) -> None:
    """Mention an unusual delimiter; raise ``DataError`` if the line of column names holds numbers."""
    if file.dialect != (delimiter_of(file.place), table_format.decimal or "."):
        note(f"cells of {file.place} are separated by {file.dialect}.")
    if table_format.header:
        file.require_names(
            "add a line of column names at the top, or use --no-header, which names the columns x0, x1 and so on."
        )


def require_column(table: Table, name: str) -> None:
    """Raise ``SourceError`` unless the table has a column of this name."""
    names = table.names
    if name not in names:
        close = get_close_matches(name, names, 1)
        some = ", ".join(map(clip, names[:8])) + (", ..." if len(names) > 8 else "")
        hint = f"Hint: did you mean {close[0]!r}?" if close else f"Hint: its columns are {some}."
        msg = f"{table.place} has no column {name!r}.\n{hint}"
        raise SourceError(msg)


def require_columns(table: Table) -> None:
    """Raise ``DataError`` unless there are two columns of numbers."""
    if len(table.numbers) >= 2:
        return
    if all(column.kind == "empty" for column in table.columns):
        msg = f"{table.place} has column names, but no rows below them."
        raise DataError(msg)
    found = [f"{name!r} ({why})" for name, why in table.others.items()]
    others = f" Other columns: {', '.join(found[:5])}{', ...' if len(found) > 5 else ''}." if found else ""
    count = "no column" if not table.numbers else "one column"
    msg = f"{table.place} has {count} of numbers; two or more are needed.{others}"
    if len(table.numbers) == 1:
        msg += "\nHint: if its rows are time steps, probpca forecast takes one column too."
    if any(why.endswith(NEARLY) for why in table.others.values()):
        msg += "\nHint: --parse-units reads units and currencies; see also --thousands and --decimal."
    elif found and not table.numbers:
        msg += "\nHint: columns that hold text are not used; if they should hold numbers, see --missing and --decimal."
    raise DataError(msg)


def _why_not(column: Column, row_names: str | None, exclude: Sequence[str], numbers: Sequence[str]) -> str:
    """Why a column is not for a model; empty if it is."""
    if column.name == row_names:
        return "--id"
    if column.name in exclude:
        return "--exclude"
    if not column.name or column.kind == "units":
        return f"several units: {column.why}" if column.name else "no name"
    if column.kind == "numbers" and column.name in numbers:
        return ""
    if column.why:
        return f"{'codes' if column.kind == 'numbers' else column.kind}: {column.why}"
    return "" if column.kind == "numbers" else column.kind


def matched(table: Table, names: tuple[str, ...] | None, n_features: int) -> tuple[str, ...]:
    """The columns that a model was fitted to, by name, or by position if the table or the model has no names."""
    if names is not None and table.named:
        known = {column.name: column for column in table.columns}
        lacking = [name for name in names if name not in known]
        if lacking:
            some = ", ".join(map(repr, lacking[:3])) + (f" and {len(lacking) - 3:,} more" if len(lacking) > 3 else "")
            msg = (
                f"{table.place} lacks {len(lacking):,} of the {len(names):,} columns of the model: {some}.\n"
                "Hint: columns are matched by name, in any order; check the names, or fit a model to this table."
            )
            raise ShapeError(msg)
        for name in names:
            _require_numbers(table.place, known[name])
        return names
    if len(table.numbers) != n_features:
        msg = (
            f"{table.place} must have {n_features:,} columns of numbers, like the model; it has {len(table.numbers):,}."
        )
        raise ShapeError(msg)
    return table.numbers


def _require_numbers(place: Path, column: Column) -> None:
    if column.kind not in ("numbers", "true or false", "empty"):
        why = f"{column.kind}: {column.why}" if column.why else column.kind
        msg = (
            f"column {column.name!r} of {place} must hold numbers, as in the fit; it holds {why}.\n"
            "Hint: if a text means a missing cell, use --missing."
        )
        raise DataError(msg)


def row_names(table: Table, features: Sequence[str], chosen: str | None) -> str | None:
    """The column that names rows: the chosen one, the first that holds no numbers, or one called like an identifier.

    Otherwise it is the only column called like a time, if there is one.
    """
    if chosen is not None:
        require_column(table, chosen)
        return chosen
    known = set(features)
    others = [column for column in table.columns if column.name not in known and column.kind != "empty"]
    named = [c.name for c in others if c.kind in ("text", "dates", "index") or c.why or not c.name]
    times = [c.name for c in others if is_time(c.name)]
    called = [c.name for c in others if is_identifier(c.name)]
    return next(iter([*named, *called, *(times if len(times) == 1 else [])]), None)


@final
@dataclass(frozen=True, eq=False)
class Survey:
    """Summary of the rows of a table before a fit: mergeable, made in one pass."""

    n_rows: int
    n_empty: int  # rows in which every cell is missing
    observed: Index  # observed cells of each column: (d,)
    low: Array  # smallest and largest value of each column, reversed if there is none: (d,)
    high: Array
    infinite: tuple[int, int] | None  # row and column of the first such cell
    steps: Steps  # from row to row
    listed: Floats  # first values of columns that are called like identifiers: (rows, suspects)

    @classmethod
    def of(cls, suspects: list[int], calendar: tuple[int, ...], block: Any) -> Survey:
        """Survey of one block; columns called like identifiers are ``suspects``, those like dates ``calendar``."""
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
            Steps.of(x, calendar),
            x[:100_000, suspects],
        )

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
            self.steps.merge(other.steps),
            np.concatenate([self.listed, other.listed])[:100_000],
        )

    def choose(self, kept: Index, suspects: Sequence[int]) -> Survey:
        """Survey of some columns."""
        return replace(
            self,
            observed=self.observed[kept],
            low=self.low[kept],
            high=self.high[kept],
            steps=self.steps.choose(kept),
            listed=self.listed[:, np.isin(suspects, kept)],
        )

    @property
    def missing_share(self) -> float:
        """Share of all cells that are missing."""
        cells = self.n_rows * self.observed.size
        return 1.0 - float(self.observed.sum()) / cells if cells else 0.0

    def identifiers(self, names: Sequence[str], suspects: Sequence[int]) -> list[str]:
        """Columns that are called like identifiers, at the positions ``suspects``, and hold different whole numbers."""
        return [
            names[j]
            for j, values in zip(suspects, self.listed.T, strict=True)
            if np.array_equal(values, np.round(values)) and np.unique(values).size == len(values)
        ]

    def constants(self, names: Sequence[str]) -> list[str]:
        """Columns in which every observed cell is the same."""
        return [names[int(j)] for j in np.flatnonzero((self.low == self.high) & (self.observed > 1))]

    def coded(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Codes such as -999 that are the smallest value of columns, and these columns."""
        found = {code: [names[int(j)] for j in np.flatnonzero(self.low == float(code))] for code in USUAL_CODES}
        return {code: columns for code, columns in found.items() if columns}


class Surveyed(NamedTuple):
    """A table after one pass over all its rows."""

    table: Table  # without empty columns
    found: Survey
    rows: Source  # in memory if they take little of it


def survey(table: Table, n_jobs: int | None, watch: Watch | None = None) -> Surveyed:
    """Read all rows once, check them, and leave out columns in which every cell is missing."""
    _require_one_unit(table)
    source, suspects = table.source(n_jobs, watch).loaded(), _suspects(table.numbers)
    if source.n_rows == 0:
        msg = f"{table.place} has no rows."
        raise DataError(msg)
    found = source.fold(partial(Survey.of, suspects, calendar_columns(table.numbers)))
    _require_sound(found, table)
    left_out = _left_out(table, found, suspects) if table.named else {}
    if left_out:
        kept = np.array([j for j, name in enumerate(table.numbers) if name not in left_out], dtype=np.intp)
        table = table.without(left_out)
        found = found.choose(kept, suspects)
        source = _columns_of(source, kept, table.numbers) if source.in_memory else table.source(n_jobs, watch)
    return Surveyed(table, found, source)


def _columns_of(rows: Source, kept: Index, names: tuple[str, ...]) -> Source:
    """Source of some columns of rows in memory."""
    (block,) = rows.hold()
    return Source.of_block(Block(block.values[:, kept]), rows.n_jobs, names)


def _require_one_unit(table: Table) -> None:
    """Raise ``DataError`` if a column that nobody has left out holds several units."""
    for name, why in table.others.items():
        kind, _, detail = why.partition(": ")
        if kind == "several units":
            msg = (
                f"column {name!r} of {table.place} must have one unit; {detail}.\n"
                f"Hint: convert its cells to one unit, or --exclude {shlex.quote(name)}."
            )
            raise DataError(msg)


def _left_out(table: Table, found: Survey, suspects: Sequence[int]) -> dict[str, str]:
    """Columns that are empty, or that number or identify rows, each with the reason why it is not for the model."""
    names = table.numbers
    empty = dict.fromkeys((name for j, name in enumerate(names) if not found.observed[j]), "empty")
    axes = row_axes(names, found.steps, found.identifiers(names, suspects), found.n_rows)
    axes = {name: why for name, why in axes.items() if name not in table.chosen}
    return empty | axes if len(empty | axes) < len(names) else empty


def _suspects(names: Sequence[str]) -> list[int]:
    return [j for j, name in enumerate(names) if is_identifier(name)]


def _require_sound(found: Survey, table: Table) -> None:
    """Raise ``DataError`` for infinite cells, and for tables that are too small to learn from."""
    if found.infinite is not None:
        raise infinite_cell(table.place, found.infinite[0], table.numbers[found.infinite[1]])
    if found.n_rows < 2:
        msg = f"{table.place} has {found.n_rows} row{'s' * (found.n_rows != 1)}; a model needs two or more rows."
        raise DataError(msg)
    if not found.observed.any():
        msg = f"{table.place} holds no numbers: all {found.n_rows:,} rows are empty."
        raise DataError(msg)


def infinite_cell(place: Path, row: int, name: str) -> DataError:
    """Error for an infinite cell; rows are counted from 0 here and from 1 in the message."""
    return DataError(
        f"{place}, row {row + 1:,}, column {name!r} holds an infinite number.\n"
        "Hint: leave the cell empty if it is missing."
    )
