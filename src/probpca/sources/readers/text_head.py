"""The first lines of a text file: delimiter, decimal mark, title lines, and the names of the columns."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from contextlib import suppress
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from probpca.errors import DataError
from probpca.sources.files import delimiter_of, is_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from probpca.sources.table_format import TableFormat

SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}
HEAD_ROWS = 50
"""Lines of a text file that are looked at."""


class Dialect(NamedTuple):
    """Delimiter of cells and decimal mark of a text file."""

    delimiter: str
    decimal_point: str = "."

    def __str__(self) -> str:
        """Describe the delimiter and the decimal mark in words."""
        return f"{SEPARATORS[self.delimiter]}{', with decimal commas' if self.decimal_point == ',' else ''}"


class TextHead(NamedTuple):
    """The beginning of a text file: how cells are written, and what precedes the first row of data."""

    dialect: Dialect
    names: tuple[str, ...]  # of all columns, without blanks around them
    skipped: int  # lines before the first row of data
    notes: tuple[str, ...] = ()  # about lines that are not read as the names of columns
    classes: str = ""  # the column that holds the number of a class, if the first line names classes
    first: tuple[str, ...] = ()  # cells of the first row of data, if it was seen


class _Row(NamedTuple):
    """One of the first rows, and the number of lines of the file up to its end."""

    cells: list[str]
    end: int

    @property
    def n_filled(self) -> int:
        """Number of cells that are not empty."""
        return sum(bool(cell.strip()) for cell in self.cells)


def read_head(
    text: str, place: Path, table_format: TableFormat, *, whole: bool, dialect: Dialect | None = None
) -> TextHead:
    """Look at the first lines of a text; the last one may be cut off unless they are the whole text.

    The dialect is that of the first lines unless it is given.
    """
    text = text if whole else text.rpartition("\n")[0] or text
    given = table_format.skip_rows or 0
    lines = list(islice(io.StringIO(text, newline=""), given, given + 4 * HEAD_ROWS))
    dialect = dialect or dialect_of("".join(lines), place, table_format.decimal)
    rows = _rows(lines, dialect, given)
    if not rows:
        msg = f"{place} has no line of column names" + (f" after the first {given:,} lines." if given else ".")
        raise DataError(msg)
    if not table_format.header:
        first = rows[0]
        start = first.end - sum(cell.count("\n") for cell in first.cells) - 1
        return TextHead(dialect, _numbered(len(first.cells)), start, first=tuple(first.cells))
    counted = _counted_head(dialect, rows, place, whole=whole)
    if counted is not None:
        return counted
    titles = _n_titles(rows) if table_format.skip_rows is None else 0
    names = tuple(cell.strip() for cell in rows[titles].cells)
    notes = _about_titles(place, rows[:titles]) + _about_numbers(place, rows[titles:])
    below = next(iter(rows[titles + 1 :]), None)
    return TextHead(dialect, names, rows[titles].end, notes, first=() if below is None else tuple(below.cells))


def _rows(lines: Sequence[str], dialect: Dialect, before: int) -> list[_Row]:
    """The first rows that are not empty lines."""
    filled = (row for row in _parsed(lines, dialect.delimiter) if row.cells)
    return [_Row(row.cells, before + row.end) for row in islice(filled, HEAD_ROWS)]


def _parsed(lines: Iterable[str], delimiter: str) -> Iterator[_Row]:
    """Rows up to the first that has a cell longer than ``csv`` takes."""
    reader = csv.reader(lines, delimiter=delimiter)
    with suppress(csv.Error):
        yield from (_Row(cells, reader.line_num) for cells in reader)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(count))


def _counted_head(dialect: Dialect, rows: Sequence[_Row], place: Path, *, whole: bool) -> TextHead | None:
    """Head of a file whose first line counts its rows and columns and names classes, as scikit-learn's iris.csv.

    That is so if the line holds two whole numbers and then only text, and the second number is the number of columns,
    with or without one for the class; and if the first is the number of rows, where all of them can be seen.
    """
    cells = [cell.strip() for cell in rows[0].cells]
    classes, below = [cell for cell in cells[2:] if cell], rows[1:]
    if not (below and classes and all(cell.isdecimal() for cell in cells[:2])) or any(map(is_number, classes)):
        return None
    n, d = map(int, cells[:2])
    width = len(below[0].cells)
    if width not in (d, d + 1) or (whole and len(rows) < HEAD_ROWS and len(below) != n):
        return None
    label = "class" if width == d + 1 else ""
    shown = ", ".join(classes[:3]) + (", ..." if len(classes) > 3 else "")
    last = f", and the last one {label}" if label else ""
    about = (
        f"the first line of {place} holds no names, but the number of rows ({n:,}), the number of columns ({d:,}) "
        f"and the names of classes ({shown}); its columns are called x0 to x{d - 1}{last}"
    )
    names = _numbered(d) + ((label,) if label else ())
    return TextHead(dialect, names, rows[0].end, (about,), label, tuple(below[0].cells))


def _n_titles(rows: Sequence[_Row]) -> int:
    """Number of title lines above the line of names; 0 if the first line is that, or if no line is.

    The line of names has as many cells as most lines, of which most are filled; a line above it has another number
    of cells, or most of its cells are empty. It holds text, and perhaps numbers that form a scale, as years do.
    """
    widths = Counter(len(row.cells) for row in rows if len(row.cells) > 1)
    if not widths:
        return 0
    width = max(widths, key=lambda size: (widths[size], size))
    for i, row in enumerate(rows):
        if len(row.cells) == width and (row.n_filled >= width - 1 or 2 * row.n_filled > width):
            numbers = [float(cell) for cell in row.cells if _is_finite(cell.strip())]
            return i if not numbers or (len(numbers) < row.n_filled and _is_scale(numbers)) else 0
    return 0


def _about_titles(place: Path, titles: Sequence[_Row]) -> tuple[str, ...]:
    if not titles:
        return ()
    texts = [" ".join(cell.strip() for cell in row.cells if cell.strip()) for row in titles]
    shown = "; ".join(repr(_shortened(text)) for text in [text for text in texts if text][:3])
    count = titles[-1].end
    lines = "1 line" if count == 1 else f"{count} lines"
    return (f"skipped {lines} above the names of the columns of {place}: {shown}",)


def _about_numbers(place: Path, rows: Sequence[_Row]) -> tuple[str, ...]:
    """A note on names that may be the first row of data: whole numbers like those in the row below them.

    Positions of columns, 0, 1, 2, ..., are what pandas writes for columns without names.
    """
    names, *below = ([cell.strip() for cell in row.cells] for row in rows[:2])
    whole = all(cell.lstrip("+-").isdecimal() for line in (names, *below) for cell in line)
    if not (below and whole) or names == [str(j) for j in range(len(names))]:
        return ()
    shown = _shortened(", ".join(names))
    about = f"the first line of {place} holds only numbers ({shown}), which are read as column names; "
    return (about + "--no-header, or TableFormat(header=False), reads them as data",)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def dialect_of(text: str, place: Path, decimal: str | None = None) -> Dialect:
    """Dialect of a text, judged by its first lines.

    The delimiter is the sign that cuts the first lines into the same number of cells, the largest such number; if
    that leaves a choice, the sign that belongs to the name of the file. If there is no such sign, lines on top, which
    may be titles, are left out, as few as possible; then single spaces are considered. The decimal mark is
    a comma if the delimiter is another sign than that, no cell looks like 3.14 and some look like 3,14. Because
    1,234 may be a thousand it counts only between semicolons, which spreadsheets write where the decimal mark is
    a comma.
    """
    own = delimiter_of(place)
    bare = re.sub(r'"[^"]*("|$)', "", text)
    lines = [line for line in bare.splitlines() if line.strip()][:HEAD_ROWS]
    if len(lines) == 1 and own in lines[0]:
        return Dialect(own, decimal or ".")
    delimiter = _delimiter(lines, own, decimal)
    detected = "," if delimiter not in (own, ",", " ") and _has_decimal_commas(text, delimiter) else "."
    return Dialect(delimiter, decimal or detected)


def _delimiter(lines: Sequence[str], own: str, decimal: str | None) -> str:
    signs = [sign for sign in SEPARATORS if sign != " "]
    if decimal == "," and any(sign in line for line in lines for sign in signs if sign != ","):
        signs.remove(",")
    counts = {sign: [line.count(sign) for line in lines] for sign in signs}
    steady = {sign: found[0] for sign, found in counts.items() if found and len(set(found)) == 1 and found[0]}
    if steady:
        return max([own, *steady], key=lambda sign: steady.get(sign, 0))
    tails = {sign: _steady_from(found) for sign, found in counts.items()}
    best = max(tails, key=lambda sign: (-tails[sign], counts[sign][-1] if lines else 0, sign == own))
    if lines and tails[best] < len(lines):
        return best
    spaces = {line.strip().count(" ") for line in lines}
    return " " if len(lines) > 1 and len(spaces) == 1 and spaces != {0} and _are_numbers(lines[1:]) else own


def _steady_from(counts: Sequence[int]) -> int:
    """The first of the lines from which on all hold a sign equally often, at least two of them; else their number."""
    last = counts[-1] if counts else 0
    start = next((i for i in range(len(counts) - 1, -1, -1) if counts[i] != last), -1) + 1
    return start if last and len(counts) - start >= 2 else len(counts)


def _are_numbers(lines: Sequence[str]) -> bool:
    return all(map(is_number, " ".join(lines).split()))


def _has_decimal_commas(text: str, delimiter: str) -> bool:
    cells = [cell.strip() for row in _parsed(text.splitlines()[1:], delimiter) for cell in row.cells]
    decimal_point = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
    thousands = re.compile(r"[-+]?\d{1,3}(,\d{3}){2,}")
    if any(decimal_point.fullmatch(cell) or thousands.fullmatch(cell) for cell in cells):
        return False
    decimals = r"\d*,\d+" if delimiter == ";" else r"(\d*,(\d{1,2}|\d{4,})|0,\d+)"
    decimal_comma = re.compile(rf"[-+]?{decimals}([eE][-+]?\d+)?")
    return any(map(decimal_comma.fullmatch, cells))


def require_names(names: Sequence[str], place: Path, hint: str) -> None:
    """Raise ``DataError`` if the first line of a text holds numbers rather than the names of columns.

    That is so if one of the names is a decimal number, if the first two are whole numbers that do not rise, as counts
    of rows and columns, or if all names are numbers, unless these form a scale such as years, wavelengths or
    positions of columns.
    """
    names = [name for name in names if name.strip()]
    numbers = [float(name) for name in names if _is_finite(name)]
    counts = len(names) > 1 and all(map(_is_finite, names[:2])) and numbers[0] >= numbers[1]
    broken = counts or any(number != int(number) for number in numbers)
    if names and (broken or len(numbers) == len(names)) and not _is_scale(numbers):
        msg = (
            f"{place} must begin with a line of column names; its first line holds numbers: {', '.join(names[:3])}"
            f"{', ...' if len(names) > 3 else ''}.\nHint: {hint}"
        )
        raise DataError(msg)


def _is_finite(text: str) -> bool:
    return is_number(text) and math.isfinite(float(text))


def _is_scale(numbers: Sequence[float]) -> bool:
    """Whether numbers rise in equal steps, or rise at all if there are more than five of them."""
    steps = [b - a for a, b in pairwise(numbers)]
    if not steps or min(steps) <= 0:
        return False
    counted = list(numbers) == list(range(len(numbers)))
    even = len(steps) > 1 and max(steps) - min(steps) <= 1e-6 * max(map(abs, numbers))
    return counted or even or len(steps) >= 5
