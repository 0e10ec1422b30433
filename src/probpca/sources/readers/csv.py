"""Rows in text files: their dialect, their columns, and their cells as numbers."""

from __future__ import annotations

import csv as text_csv
import gzip
import math
import re
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from probpca.errors import DataError
from probpca.sources.engines.local import LocalEngine
from probpca.sources.files import Column, Stamp, delimiter_of, is_compressed, is_number
from probpca.sources.readers.arrow import Layout, damage_named, damaged, kind_of_column, too_long
from probpca.sources.source import Info, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from probpca.blocks import Block
    from probpca.errors import ProbpcaError
    from probpca.sources.source import Watch

SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
CSV_BYTES = 2**23
"""Bytes of a text file that are read at a time."""
NULLS = (
    *csv.ConvertOptions().null_values,
    *("-", "--", "?", ".", "None", "none", "NONE", "Na", "N.A.", "n.a.", "#NULL!", "#VALUE!", "#DIV/0!"),
)
"""Marks of a missing cell: those that pyarrow knows, and others that people write."""


class Dialect(NamedTuple):
    """Delimiter of cells and decimal mark of a text file."""

    delimiter: str
    decimal_point: str = "."

    def __str__(self) -> str:
        """Describe the delimiter and the decimal mark in words."""
        return f"{SEPARATORS[self.delimiter]}{', with decimal commas' if self.decimal_point == ',' else ''}"


def dialect_of(head: bytes, place: Path, *, whole: bool) -> Dialect:
    """Dialect of a text, judged by its first lines; the last one may be cut off unless they are the whole text.

    The delimiter is the sign that cuts the first lines into the same number of cells, the largest such number; if
    that leaves a choice, the sign that belongs to the name of the file. The decimal mark is a comma if the delimiter
    is another sign than that, no cell looks like 3.14 and some look like 3,14. Because 1,234 may be a thousand it
    counts only between semicolons, which spreadsheets write where the decimal mark is a comma.
    """
    if head.startswith(b"\x1f\x8b"):
        msg = f"{place} is compressed by gzip.\nHint: let its name end in .csv.gz."
        raise DataError(msg)
    if b"\0" in head[:100] or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        msg = f"{place} does not hold text.\nHint: save a table as 'CSV UTF-8'; a picture or a workbook is no table."
        raise DataError(msg)
    text = head.decode("utf-8-sig", "replace")
    text = text if whole else text.rpartition("\n")[0] or text
    own = delimiter_of(place)
    lines = [line for line in re.sub(r'"[^"]*("|$)', "", text).splitlines() if line.strip()][:50]
    if len(lines) == 1 and own in lines[0]:
        return Dialect(own)
    counts = {sign: {line.count(sign) for line in lines} for sign in SEPARATORS}
    steady = {sign: found.pop() for sign, found in counts.items() if len(found) == 1 and found != {0}}
    delimiter = max([own, *steady], key=lambda sign: steady.get(sign, 0))
    return Dialect(delimiter, "," if delimiter not in (own, ",") and _has_decimal_commas(text, delimiter) else ".")


def _has_decimal_commas(text: str, delimiter: str) -> bool:
    cells = [cell.strip() for row in text_csv.reader(text.splitlines()[1:], delimiter=delimiter) for cell in row]
    decimal_point = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
    thousands = re.compile(r"[-+]?\d{1,3}(,\d{3}){2,}")
    if any(decimal_point.fullmatch(cell) or thousands.fullmatch(cell) for cell in cells):
        return False
    decimals = r"\d*,\d+" if delimiter == ";" else r"(\d*,(\d{1,2}|\d{4,})|0,\d+)"
    decimal_comma = re.compile(rf"[-+]?{decimals}([eE][-+]?\d+)?")
    return any(map(decimal_comma.fullmatch, cells))


def require_names(names: Sequence[str], place: Path, hint: str) -> None:
    """Raise ``DataError`` if the first line of a text holds numbers rather than the names of columns.

    That is so if one of the names is a decimal number, or if all of them are numbers, unless these form a scale
    such as years, wavelengths or positions of columns.
    """
    names = [name for name in names if name.strip()]
    numbers = [float(name) for name in names if is_number(name) and math.isfinite(float(name))]
    broken = any(number != int(number) for number in numbers)
    if names and (broken or len(numbers) == len(names)) and not _is_scale(numbers):
        msg = (
            f"{place} must begin with a line of names; its first line holds numbers: {', '.join(names[:3])}"
            f"{', ...' if len(names) > 3 else ''}.\nHint: {hint}"
        )
        raise DataError(msg)


def _is_scale(numbers: Sequence[float]) -> bool:
    """Whether numbers rise in equal steps, or rise at all if there are more than five of them."""
    steps = [b - a for a, b in pairwise(numbers)]
    if not steps or min(steps) <= 0:
        return False
    counted = list(numbers) == list(range(len(numbers)))
    even = len(steps) > 1 and max(steps) - min(steps) <= 1e-6 * max(map(abs, numbers))
    return counted or even or len(steps) >= 5


@final
@dataclass(frozen=True, eq=False)
class TextFile(PathLike[str]):
    """A text file after a look at its first rows; it can be opened in place of its name."""

    stamp: Stamp
    dialect: Dialect
    schema: Any  # names of all columns, and Arrow types that the first rows suggest
    lacking: frozenset[str] = frozenset()  # columns that have missing cells in the first rows

    @classmethod
    def look(cls, path: str | PathLike[str]) -> TextFile:
        """Look at the first rows of a text file; one that was looked at already is returned as it is."""
        if isinstance(path, TextFile):
            return path
        place = Path(path)
        stamp, dialect = Stamp.of(place), _dialect(place)
        schema = pa.schema([])
        found = cls(stamp, dialect, schema)
        with found.reading() as reader:
            try:
                _ = reader.schema.names
            except UnicodeDecodeError as error:
                msg = f"the names of the columns of {place} are not UTF-8.\nHint: save the file as 'CSV UTF-8'."
                raise DataError(msg) from error
            first = next(iter(reader), None)  # which the reader has parsed to find the types
            columns = () if first is None else zip(reader.schema.names, first.columns, strict=True)
            lacking = frozenset(name for name, cells in columns if cells.null_count)
            return cls(stamp, dialect, reader.schema, lacking)

    @property
    def place(self) -> Path:
        """Name of the file."""
        return self.stamp.path

    def __fspath__(self) -> str:
        """Name of the file as text."""
        return str(self.place)

    @contextmanager
    def reading(self, types: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Reader of the columns for which types are given, or of all; errors name the file, the row and the column."""
        try:
            with _opened(self.place) as stream, _reader(stream, self.dialect, types or {}) as reader:
                yield reader
        except pa.ArrowInvalid as error:
            raise _unreadable(self, error) from error
        except (pa.ArrowException, OSError, EOFError) as error:
            raise damaged(str(self.place), error) from error


@final
@dataclass(frozen=True, eq=False)
class _Batches(Iterable[Any]):
    """The record batches of a text file, which is read from the top in every pass."""

    file: TextFile
    types: dict[str, Any]  # Arrow types of the columns that are read
    watch: Watch | None
    counts: list[int] = field(default_factory=list)  # batches of the last pass that reached the end

    def __iter__(self) -> Iterator[Any]:
        """Read the file again."""
        self.file.stamp.check()
        done = 0
        with self.file.reading(self.types) as reader:
            for done, batch in enumerate(reader, 1):
                yield batch
                self._report(done)
        self._report(done, end=True)

    def _report(self, done: int, *, end: bool = False) -> None:
        """Report how far a pass has come; the length of a compressed text is known after the first pass."""
        place, size = self.file.place, self.file.stamp.size
        total = self.counts[-1] if self.counts else None if is_compressed(place) else max(-(-size // CSV_BYTES), 1)
        if self.watch is not None and total is not None and (end or done < total):
            self.watch(total if end else done, total)
        if end:
            self.counts[:] = [max(done, 1)]


def open_csv(
    path: str | PathLike[str],
    columns: Sequence[str] | None,
    n_jobs: int,
    watch: Watch | None = None,
    others: Sequence[str] | None = None,
) -> Source:
    """Make a source of a text file with a line of names; the other columns go with the rows as text."""
    file = TextFile.look(path)
    if columns is None:
        check_header(file.schema.names, file.place)
    names = Layout.of(file.schema, columns, file.place).names
    layout = Layout(names, np.float64, tuple(others or ()))
    types = dict.fromkeys(layout.others, pa.binary())
    for name in names:
        types[name] = pa.bool_() if pa.types.is_boolean(file.schema.field(name).type) else pa.float64()
    engine = LocalEngine(_Batches(file, types, watch), partial(_blocks, layout), n_jobs)
    info = Info(n_features=len(names), columns=names, n_jobs=n_jobs)
    return Source(info, engine, glance=lambda: not file.lacking.isdisjoint(names))


def _blocks(layout: Layout, batch: Any) -> tuple[Block, ...]:
    block = layout.block(batch)
    if block.others is not None:
        others = [_as_text(column) for column in block.others.columns]
        block = replace(block, others=pa.record_batch(others, names=list(layout.others)))
    return (block,) if block.n_rows else ()


def _as_text(column: Any) -> Any:
    """Decode text; where it is not UTF-8, as in files of old spreadsheets, as Windows-1252."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([cell if cell is None else str(cell, "cp1252", "replace") for cell in column.to_pylist()])


def _dialect(place: Path) -> Dialect:
    """Dialect of a file by its first 64 kB, or by more if these do not hold two lines."""
    head = b""
    with damage_named(str(place)), _opened(place) as stream:
        while piece := stream.read(2**16):
            head += piece
            if head.count(b"\n") > 1 or len(head) > CSV_BYTES:
                break
        whole = not stream.read(1)
    return dialect_of(head, place, whole=whole)


def _opened(place: Path) -> Any:
    """Bytes of a text file, decompressed if they are compressed."""
    return pa.input_stream(str(place), compression="gzip" if is_compressed(place) else None)


def _reader(stream: Any, written: Dialect, types: Mapping[str, Any]) -> Any:
    """Reader that takes marks of missing cells, with blanks around the usual ones, as nulls.

    There are few marks with blanks because every column gets a table of all of them.
    """
    usual = ("", "NA", "N/A", "nan", "NaN", "null", "-")
    padded = [f"{before}{mark} " for mark in usual for before in ("", " ")]
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(block_size=CSV_BYTES),
        parse_options=csv.ParseOptions(delimiter=written.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[*NULLS, *(f" {mark}" for mark in NULLS), *padded],
            decimal_point=written.decimal_point,
        ),
    )


def _unreadable(file: TextFile, error: Exception) -> ProbpcaError:
    """Error for a cell that is not a number, or for a line that has too many or too few cells."""
    place = file.place
    found = re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", str(error), re.DOTALL)
    if found is None:
        return _ragged(file) or damaged(str(place), error)
    number, text = int(found[1]), found[2]
    name = file.schema.names[number]
    where = f"row {row:,}, column {name!r}" if (row := _row_of(file, name, text)) else f"column {name!r}"
    return DataError(
        f"{place} cannot be read as numbers: {where} holds {text!r}.\n"
        "Hint: a missing cell is empty or NA; leave the column out if it holds text."
    )


def _row_of(file: TextFile, name: str, text: str) -> int:
    """Number of the first row, counted from 1, with this text in a column; 0 if no row has it."""
    before = 0
    with file.reading({name: pa.string()}) as reader:
        for batch in reader:
            found: int = compute.index(batch.column(0), text).as_py()
            if found >= 0:
                return before + found + 1
            before += batch.num_rows
    return 0


def _ragged(file: TextFile) -> DataError | None:
    """Error for the first row that has another number of cells than the line of names, if there is one."""
    place, written = file.place, file.dialect
    with (gzip.open if is_compressed(place) else open)(place, "rt", encoding="latin-1", newline="") as lines:
        rows = filter(None, text_csv.reader(lines, delimiter=written.delimiter))
        names = next(rows, [])
        try:
            number, row = next((i, row) for i, row in enumerate(rows, 1) if len(row) != len(names))
        except (StopIteration, text_csv.Error):
            return None
    if len(row) >= 2 * len(names):
        return DataError(
            f"{place} must begin with a line of names; its first line is {_start(names)!r}, and others have "
            f"{len(row)} cells.\nHint: delete what stands above the names."
        )
    sign = SEPARATORS[written.delimiter].removesuffix("s")
    many = len(row) > len(names)
    hint = f"a cell that holds a {sign} must stand in quotes" if many else "a cell that is missing is left empty"
    return DataError(
        f"{place}, row {number:,} has {len(row)} cell{'s' * (len(row) != 1)}, and the line of names "
        f"{len(names)}: {_start(row, written.delimiter)!r}.\nHint: {hint}, and {written} separate cells here."
    )


def _start(cells: Sequence[str], sign: str = ",") -> str:
    line = sign.join(cells)
    return f"{line[:40]}..." if len(line) > 40 else line


def check_header(names: Sequence[str], place: Path) -> None:
    """Raise ``DataError`` unless the first line of a text file names every column."""
    if "" in names:
        msg = (
            f"column {list(names).index('')} of {place} has no name: it may be the index of a dataframe.\n"
            "Hint: write the file without it (index=False), or open_source(path, columns=[...]) reads some columns."
        )
        raise DataError(msg)
    require_names(
        names, place, "write a header. If these are names, open_source(path, columns=[...]) takes them for such."
    )


def columns_of(file: TextFile) -> tuple[Column, ...]:
    """All columns of a text file in their order, judged by the first rows."""
    kinds = [kind_of_column(field.type) for field in file.schema]
    if is_compressed(file.place) or file.stamp.size > CSV_BYTES:
        kinds = ["numbers" if kind == "empty" else kind for kind in kinds]  # they may begin later
    names = file.schema.names
    known = {name: kind for name, kind in zip(names, kinds, strict=True) if kind in ("numbers", "text")}
    odd = _odd_columns(file, known) if known and len(set(names)) == len(names) else {}
    return tuple(Column(name, kind, odd.get(name, "")) for name, kind in zip(names, kinds, strict=True))


def _odd_columns(file: TextFile, kinds: dict[str, str]) -> dict[str, str]:
    """Columns of text that nearly hold numbers and columns of numbers that look like codes, each with a cell."""
    with file.reading(dict.fromkeys(kinds, pa.binary())) as reader:
        batch = reader.read_next_batch()
    texts = [name for name, kind in kinds.items() if kind == "text"]
    found = {name: _odd_cell(batch.column(name)) for name in texts}
    code = r"^\s*(0\d+|\d{16,}|0[xX][0-9a-fA-F]+)\s*$"  # leading zeros, or more digits than a number keeps
    suspects = _matching(batch, [name for name in kinds if name not in found], code)
    found |= {name: _code(batch.column(name), code) for name in suspects}
    return {name: why for name, why in found.items() if why}


def _matching(batch: Any, names: list[str], pattern: str) -> list[str]:
    """Columns in which some cell matches, found in one search because there may be very many columns."""
    if not names or not batch.num_rows:
        return []
    cells = pa.concat_arrays([batch.column(name) for name in names]).cast(pa.string())
    hit = np.asarray(compute.match_substring_regex(cells, pattern)).reshape(len(names), -1)
    return [names[j] for j in np.flatnonzero(hit.any(axis=1))]


def _odd_cell(column: Any) -> str:
    """The first cell that is not a number, if most cells of the column are numbers or nearly so."""
    cells = ["" if cell is None else cell.decode("utf-8", "replace") for cell in column[:1000].to_pylist()]
    texts = [cell.strip(" \t\r\n") for cell in cells]
    odd = [i for i, text in enumerate(texts) if text not in NULLS and not is_number(text)]
    filled = sum(text not in NULLS for text in texts)
    nearly = re.compile(  # a number with a unit, with signs between its thousands, or with a decimal comma
        r"[<>~$€£¥]?\s*[-+]?(\d+([.,]\d+)?|\d{1,3}(?P<by>[,.' \u00a0\u202f])\d{3}((?P=by)\d{3})*([.,]\d+)?)"
        r"\s*([%‰°$€£¥]|\W?[^\W\d_]{1,3})?"
    )
    strange = [i for i in odd if not nearly.fullmatch(texts[i])]
    if not odd or 2 * len(strange) >= filled:
        return ""
    first = odd[0]
    plain = "" if first in strange else "; numbers are written as -1234.5"
    return f"row {first + 1:,} holds {texts[first]!r}{plain}"


def _code(column: Any, pattern: str) -> str:
    """The first cell that is a code rather than a quantity, such as a postal code or the number of an account."""
    text = compute.utf8_trim_whitespace(column.cast(pa.string()))
    found = text.filter(compute.match_substring_regex(text, pattern)).to_pylist()
    filled = text.filter(compute.invert(compute.is_in(text, pa.array(NULLS))))
    zeros = [cell for cell in found if cell.startswith("0") and len(cell) > 2]  # hours are padded to two digits
    even = compute.count_distinct(compute.utf8_length(filled)).as_py() == 1
    if zeros and (even or 2 * len(zeros) >= len(filled)):
        return f"row {_row(text, zeros[0])} holds {zeros[0]!r}, a code rather than a number"
    long = [cell for cell in found if cell.isdigit() and int(cell) > 2**53]
    return f"row {_row(text, long[0])} holds {long[0]}, {too_long()}" if 2 * len(long) > len(filled) else ""


def _row(column: Any, value: Any) -> str:
    return f"{compute.index(column, value).as_py() + 1:,}"
