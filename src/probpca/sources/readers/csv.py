"""Rows from text files such as CSV."""

from __future__ import annotations

import csv as text_csv
import io
import re
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from probpca.errors import DataError
from probpca.sources.engines.local import LocalEngine
from probpca.sources.files import Column, Stamp, is_compressed, is_number
from probpca.sources.readers.arrow import Layout, damage_named, damaged, kinds_of_columns, too_long
from probpca.sources.readers.quantities import MOST_UNITS, Quantities, Quantity, UnreadableCellError
from probpca.sources.readers.text_head import SEPARATORS, Dialect, TextHead, read_head, require_names
from probpca.sources.source import Info, Source
from probpca.sources.table_format import TableFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    from probpca.blocks import Block
    from probpca.errors import ProbpcaError
    from probpca.sources.source import Watch

CSV_BYTES = 2**23
"""Number of bytes of a text file that show the kinds of its columns; the longest line that can be read."""
PASS_BYTES = 2**21
"""Number of bytes that a pass over a text file reads at a time; more take more memory and more time."""
COLUMN_BYTES = 2**10
"""Number of bytes for each column that a pass reads at a time: cutting a block into columns takes time for each one."""
READ_AHEAD = 32
"""Number of blocks that pyarrow reads ahead, so that a shorter text is in memory in any case."""
NULLS = (
    *csv.ConvertOptions().null_values,
    *("-", "--", "?", ".", "None", "none", "NONE", "Na", "N.A.", "n.a.", "#NULL!", "#VALUE!", "#DIV/0!"),
)
"""Texts that mean a missing cell: those of pyarrow, and other usual ones."""


@final
@dataclass(frozen=True, eq=False)
class Text:
    """Text in a file or in memory, as bytes."""

    place: Path  # the name of the file, also if its bytes are in memory
    stamp: Stamp | None = None
    content: bytes | None = None
    encoding: str = "utf-8"
    dialect: Dialect | None = None  # found by the first lines unless it is known

    @classmethod
    def in_file(cls, place: Path) -> Text:
        """Text in a file, which is decompressed if its name ends in .gz."""
        return cls(place, Stamp.of(place))

    @property
    def n_bytes(self) -> int | None:
        """Number of bytes of the text; None if a pass over it is needed to count them."""
        if self.content is not None:
            return len(self.content)
        return None if self.stamp is None or is_compressed(self.place) else self.stamp.size

    def open(self) -> Any:
        """Stream of bytes in UTF-8, or in the encoding of the file if that is unknown."""
        if self.content is not None:
            stream = pa.BufferReader(self.content)
        else:
            stream = pa.input_stream(str(self.place), compression="gzip" if is_compressed(self.place) else None)
        return stream if self.encoding == "utf-8" else pa.transcoding_input_stream(stream, self.encoding, "utf-8")

    def beginning(self, n_bytes: int) -> bytes:
        """The first bytes of the text, or all of them."""
        first = bytearray()
        with self.open() as stream:
            while len(first) < n_bytes and (piece := stream.read(n_bytes - len(first))):
                first += piece
        return bytes(first)

    def decoded(self) -> Text:
        """Copy with the detected encoding: UTF-16 if it starts with a byte order mark of that, else UTF-8."""
        with damage_named(str(self.place)), self.open() as stream:
            mark = stream.read(2)
        return replace(self, encoding="utf-16") if mark in (b"\xff\xfe", b"\xfe\xff") else self

    def head(self, table_format: TableFormat) -> TextHead:
        """The beginning of the text: its first 64 kB, or more if these do not hold ten lines."""
        head, n_lines = bytearray(), 0
        with damage_named(str(self.place)), self.open() as stream:
            while piece := stream.read(2**16):
                head += piece
                n_lines += piece.count(b"\n")
                if n_lines > 10 + (table_format.skip_rows or 0) or len(head) > CSV_BYTES:
                    break
            whole = not stream.read(1)
        _require_text(head, self.place)
        first = head.decode("utf-8-sig", "replace")
        found = read_head(first, self.place, table_format, whole=whole, dialect=self.dialect)
        if any("\ufffd" in name for name in found.names):
            msg = f"the column names of {self.place} are not UTF-8 text.\nHint: save the file as 'CSV UTF-8'."
            raise DataError(msg)
        return found


def _require_text(head: bytearray, place: Path) -> None:
    """Raise ``DataError`` for bytes that are not text."""
    if head.startswith(b"\x1f\x8b"):
        msg = f"{place} is compressed with gzip.\nHint: rename it so that its name ends in .csv.gz."
        raise DataError(msg)
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        msg = f"{place} is not a text file.\nHint: if it is a workbook, rename it to .xlsx, .xls or .ods."
        raise DataError(msg)
    if b"\0" in head[:100]:
        msg = f"{place} is not a text file.\nHint: open the table in a spreadsheet and save it as 'CSV UTF-8'."
        raise DataError(msg)


@final
@dataclass(frozen=True, eq=False)
class TextFile:
    """A text file with a header line, whose first rows have been inspected."""

    text: Text
    table_format: TableFormat
    head: TextHead
    keys: tuple[str, ...]  # names of all columns for the reader, also of those that have neither a name nor cells
    schema: Any = field(default_factory=lambda: pa.schema([]))  # names of columns, and Arrow types by the first rows
    lacking: frozenset[str] = frozenset()  # columns that have missing cells in the first rows
    n_first_rows: int = 0  # rows in the first ``CSV_BYTES``
    quantities: Quantities | None = None  # reader of numbers with units, or with signs between thousands
    several: Mapping[str, Quantity] = field(default_factory=dict)  # columns that hold several units
    more_notes: tuple[str, ...] = ()
    named = True

    @classmethod
    def look(cls, path: str | PathLike[str] | Text, table_format: TableFormat = TableFormat()) -> TextFile:
        """Inspect the first rows of a text file."""
        text = (path if isinstance(path, Text) else Text.in_file(Path(path))).decoded()
        head = text.head(table_format)
        bare = cls(text, table_format, head, head.names)
        first = bare.first_rows()
        n_null = [cells.null_count for cells in first.columns]
        void = {j for j, name in enumerate(head.names) if not name and n_null[j] == first.num_rows}
        void = void if first.num_rows and head.names.count("") > 1 else set()
        keys = tuple(f"\0{j}" if j in void else name for j, name in enumerate(head.names))
        kinds = [pa.null() if n == first.num_rows else kind for n, kind in zip(n_null, first.schema.types, strict=True)]
        kept = [(key, kind) for j, (key, kind) in enumerate(zip(keys, kinds, strict=True)) if j not in void]
        lacking = [key for key, n in zip(keys, n_null, strict=True) if n]
        found = replace(
            bare, keys=keys, schema=pa.schema(kept), lacking=frozenset(lacking), n_first_rows=first.num_rows
        )
        return found if table_format.thousands is None and not table_format.parse_units else found.judged(first)

    def first_rows(self) -> Any:
        """Record batch of the rows in the first ``CSV_BYTES``, with the types of all columns.

        Columns whose first cell is a number are read as numbers; a type is inferred for the others only, because that
        means to try one type after the other in every column. If some later cell is not a number, all are inferred.
        """
        mark = self.dialect.decimal_point
        cells = zip(self.keys, self.head.first, strict=False)
        numeric = [name for name, cell in cells if cell in NULLS or is_number(cell.replace(mark, "."))]
        with self._named_errors():
            try:
                return self._beginning(dict.fromkeys(numeric, pa.float64()))
            except pa.ArrowInvalid:
                return self._beginning({})

    def judged(self, first: Any) -> TextFile:
        """Copy in which columns of text are numeric if their cells are numbers with units or thousands separators."""
        chosen, decimal = self.table_format, self.dialect.decimal_point
        reader = Quantities(decimal, chosen.thousands, chosen.parse_units, self.nulls)
        cells = [column for name, column in zip(self.keys, first.columns, strict=True) if not name.startswith("\0")]
        texts = [j for j, known in enumerate(self.schema) if pa.types.is_string(known.type)]
        judged = dict(zip(texts, reader.judge([cells[j] for j in texts]), strict=True))
        numeric = {j for j, found in judged.items() if found.is_number}
        schema = [pa.field(known.name, pa.float64()) if j in numeric else known for j, known in enumerate(self.schema)]
        names = self.schema.names
        units = {names[j]: judged[j].unit for j in numeric}
        several = {names[j]: found for j, found in judged.items() if found.other}
        return replace(self, schema=pa.schema(schema), quantities=replace(reader, units=units), several=several)

    @property
    def place(self) -> Path:
        """Name of the file."""
        return self.text.place

    @property
    def dialect(self) -> Dialect:
        """Delimiter of cells and decimal mark."""
        return self.head.dialect

    @property
    def nulls(self) -> tuple[str, ...]:
        """Texts that mean a missing cell."""
        return NULLS + self.table_format.missing

    @property
    def pass_bytes(self) -> int:
        """Number of bytes that a pass reads at a time: enough for some lines if there are many columns."""
        size = self.text.n_bytes
        is_short = size is not None and size <= READ_AHEAD * CSV_BYTES
        wide = min(COLUMN_BYTES * len(self.keys), 4 * CSV_BYTES if is_short else CSV_BYTES)
        return max(min(PASS_BYTES, CSV_BYTES), wide)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on how the file is read, for the user."""
        return self.more_notes + self.head.notes

    @contextmanager
    def reading(self, types: Mapping[str, Any]) -> Iterator[Any]:
        """Open a reader of the columns in ``types``; its errors name the file, the row and the column."""
        n_bytes = self.pass_bytes
        with self._named_errors(), self.text.open() as text, _reader(text, self, types, n_bytes, list(types)) as reader:
            yield reader

    def beginning(self, types: Mapping[str, Any]) -> Any:
        """Record batch of the rows in ``CSV_BYTES``, with the columns in ``types``."""
        with self._named_errors():
            return self._beginning(types, list(types))

    def _beginning(self, types: Mapping[str, Any], columns: Sequence[str] = ()) -> Any:
        """Record batch of the rows in ``CSV_BYTES``, by default of all columns; types that are not given are inferred.

        The reader gets little more than these bytes, because it reads ``READ_AHEAD`` times as many ahead.
        """
        first = pa.BufferReader(self.text.beginning(CSV_BYTES + 2**10))
        with _reader(first, self, types, CSV_BYTES, columns) as reader:
            batch = next(iter(reader), None)  # parsed already, to find the types
            none = [pa.nulls(0, kind) for kind in reader.schema.types]
            return pa.record_batch(none, schema=reader.schema) if batch is None else batch

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowInvalid as error:
            raise _unreadable(self, error) from error
        except (pa.ArrowException, OSError, EOFError) as error:
            raise damaged(str(self.place), error) from error

    def source(
        self,
        columns: Sequence[str] | None,
        n_jobs: int,
        watch: Watch | None = None,
        others: Sequence[str] | None = None,
    ) -> Source:
        """Source of the given numeric columns; ``others`` are available as ``Block.others``, as text."""
        if columns is None:
            check_header(self.schema.names, self.place)
            columns = [name for name in self.schema.names if name != self.head.classes]
        mixed = next((name for name in columns if name in self.several), None)
        if mixed is not None:
            raise several_units(self.place, mixed, self.several[mixed])
        names = Layout.of(self.schema, columns, self.place).names
        layout = Layout(names, np.float64, tuple(others or ()), self.table_format.codes)
        flags = {known.name for known in self.schema if known.type == pa.bool_()}
        number = pa.float64() if self.quantities is None else pa.binary()
        types = dict.fromkeys(layout.others, pa.binary()) | dict.fromkeys(names, number)
        types |= dict.fromkeys(flags.intersection(names), pa.bool_())
        stamps = () if self.text.stamp is None else (self.text.stamp,)
        engine = LocalEngine(_Batches(self, types, watch), partial(_blocks, self, layout), n_jobs, stamps=stamps)
        n_rows = int(self.n_first_rows * max((self.text.n_bytes or 0) / CSV_BYTES, 1.0))
        info = Info(n_features=len(names), columns=names, n_jobs=n_jobs, file_bytes=8 * n_rows * len(names))
        unsure = bool(self.table_format.codes)
        return Source(info, engine, glance=lambda: unsure or not self.lacking.isdisjoint(names))

    def columns(self) -> tuple[Column, ...]:
        """All columns in order, with their kinds judged by the first rows."""
        return columns_of(self)

    def require_names(self, hint: str) -> None:
        """Raise ``DataError`` if the line of names holds numbers."""
        require_names(self.schema.names, self.place, hint)

    def kept_types(self, features: Sequence[str]) -> tuple[list[str], dict[str, Any]]:  # noqa: ARG002
        """Return nothing: columns of a text have no types."""
        return [], {}


def several_units(place: Path, name: str, found: Quantity) -> DataError:
    """Error for a column whose numbers have different units."""
    return DataError(
        f"column {name!r} of {place} must have one unit; {found.units}.\n"
        "Hint: convert its cells to one unit, or leave the column out."
    )


@final
@dataclass(frozen=True, eq=False)
class _Batches(Iterable[Any]):
    """Record batches of a text file, which is read from the beginning in every pass."""

    file: TextFile
    types: dict[str, Any]  # Arrow types of the columns that are read
    watch: Watch | None
    counts: list[int] = field(default_factory=list)  # batches of the last pass that reached the end

    def __iter__(self) -> Iterator[Any]:
        """Read the file from the beginning."""
        done = 0
        with self.file.reading(self.types) as reader:
            for done, batch in enumerate(reader, 1):
                yield batch
                self._report(done)
        self._report(done, end=True)

    def _report(self, done: int, *, end: bool = False) -> None:
        """Report the progress of a pass; the length of a compressed text is known after the first one."""
        size = self.file.text.n_bytes
        total = self.counts[-1] if self.counts else None if size is None else max(-(-size // self.file.pass_bytes), 1)
        if self.watch is not None and total is not None and (end or done < total):
            self.watch(total if end else done, total)
        if end:
            self.counts[:] = [max(done, 1)]


def _blocks(file: TextFile, layout: Layout, batch: Any) -> tuple[Block, ...]:
    try:
        features = batch if file.quantities is None else _with_numbers(file.quantities, layout, batch)
        block = layout._replace(others=()).block(features)
    except UnreadableCellError as error:
        raise _not_a_number(file, error.name, error.text, error.unit) from error
    if layout.others:
        others = [_as_text(batch.column(name)) for name in layout.others]
        block = replace(block, others=pa.record_batch(others, names=list(layout.others)))
    return (block,) if block.n_rows else ()


def _with_numbers(quantities: Quantities, layout: Layout, batch: Any) -> Any:
    """Features of a record batch, where those that are text become numbers."""
    columns = {name: batch.column(name) for name in layout.names}
    texts = {name: _as_text(column) for name, column in columns.items() if pa.types.is_binary(column.type)}
    columns |= quantities.values(texts)
    return pa.record_batch(list(columns.values()), names=list(columns))


def _as_text(column: Any) -> Any:
    """Decode text as UTF-8, or as Windows-1252 if that fails, as in files of old spreadsheets."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([cell if cell is None else str(cell, "cp1252", "replace") for cell in column.to_pylist()])


def _reader(stream: Any, file: TextFile, types: Mapping[str, Any], n_bytes: int, columns: Sequence[str]) -> Any:
    """Reader of some columns, or of all, that treats texts for missing cells, also with blanks around them, as nulls.

    Only few texts with blanks are included, because every column gets a table of all of them.
    """
    written, usual = file.dialect, ("", "NA", "N/A", "nan", "NaN", "null", "-", *file.table_format.missing)
    padded = [f"{before}{mark} " for mark in usual for before in ("", " ")]
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(block_size=n_bytes, column_names=file.keys, skip_rows=file.head.skipped),
        parse_options=csv.ParseOptions(delimiter=written.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=columns,
            null_values=[*file.nulls, *(f" {mark}" for mark in file.nulls), *padded],
            decimal_point=written.decimal_point,
        ),
    )


def _unreadable(file: TextFile, error: Exception) -> ProbpcaError:
    """Error for a cell that is not a number, or for a line that has too many or too few cells."""
    place = file.place
    found = re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", str(error), re.DOTALL)
    if found is None:
        return _ragged(file) or damaged(str(place), error)
    return _not_a_number(file, file.keys[int(found[1])], found[2])


def _not_a_number(file: TextFile, name: str, text: str, unit: str = "") -> DataError:
    """Error for a cell that is not a number, or not in the unit of its column."""
    where = f"row {row:,}, column {name!r}" if (row := _row_of(file, name, text)) else f"column {name!r}"
    what = f"numbers in {unit}" if unit else "numbers"
    return DataError(
        f"{file.place} cannot be read as {what}: {where} holds {text!r}.\n"
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
    """Error for the first row that has another number of cells than the line of column names, if there is one."""
    place, written, names = file.place, file.dialect, file.keys
    with io.TextIOWrapper(file.text.open(), encoding="latin-1", newline="") as lines:
        _ = [next(lines, "") for _ in range(file.head.skipped)]
        rows = filter(None, text_csv.reader(lines, delimiter=written.delimiter))
        try:
            number, row = next((i, row) for i, row in enumerate(rows, 1) if len(row) != len(names))
        except (StopIteration, text_csv.Error):
            return None
    if len(row) >= 2 * len(names):
        return DataError(
            f"{place} must begin with a line of column names; its first line is {_start(names)!r}, but others have "
            f"{len(row)} cells.\nHint: skip the lines above the column names (skip_rows), or add such a line."
        )
    sign = SEPARATORS[written.delimiter].removesuffix("s")
    many = len(row) > len(names)
    hint = (
        f"put cells that contain a {sign} in quotes" if many else "leave missing cells empty, but keep the separators"
    )
    if len(row) == len(names) + 1 and not row[-1].strip():
        hint = f"rows end in a {sign}: end the line of names in one too"
    return DataError(
        f"{place}, row {number:,} has {len(row)} cell{'s' * (len(row) != 1)}, but there are {len(names)} column names: "
        f"{_start(row, written.delimiter)!r}.\nHint: {hint}; cells are separated by {written}."
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
        names,
        place,
        "write a header, or read it with TableFormat(header=False). If these are names, "
        "choose columns with open_source(path, columns=[...]).",
    )


def columns_of(file: TextFile) -> tuple[Column, ...]:
    """All columns of a text file in order, with their kinds judged by the first rows."""
    kinds = kinds_of_columns(file.schema)
    size = file.text.n_bytes
    if size is None or size > CSV_BYTES:
        kinds = ["numbers" if kind == "empty" else kind for kind in kinds]  # they may begin later
    names = file.schema.names
    known = {name: kind for name, kind in zip(names, kinds, strict=True) if kind in ("numbers", "text")}
    odd = _odd_columns(file, known) if known and len(set(names)) == len(names) else {}
    odd |= {name: found.units for name, found in file.several.items()}
    kinds = ["units" if name in file.several else kind for name, kind in zip(names, kinds, strict=True)]
    if file.head.classes:
        odd[file.head.classes] = "it holds the number of a class"
    units = {} if file.quantities is None else file.quantities.units
    return tuple(
        Column(name, kind, odd.get(name, ""), units.get(name, "")) for name, kind in zip(names, kinds, strict=True)
    )


def _odd_columns(file: TextFile, kinds: dict[str, str]) -> dict[str, str]:
    """Columns of text that are nearly numeric, and numeric ones that look like codes, each with a cell as evidence."""
    texts = [name for name, kind in kinds.items() if kind == "text"]
    others = [name for name, kind in kinds.items() if kind != "text"] if _may_hold_codes(file) else []
    if not texts and not others:
        return {}
    batch = file.beginning(dict.fromkeys([*texts, *others], pa.binary()))
    found = {name: _odd_cell(batch.column(name), file.nulls) for name in texts}
    code = r"^\s*(0\d+|\d{16,}|0[xX][0-9a-fA-F]+)\s*$"  # leading zeros, or more digits than a number keeps
    found |= {name: _code(batch.column(name), code) for name in _matching(batch, others, code)}
    return {name: why for name, why in found.items() if why}


def _may_hold_codes(file: TextFile) -> bool:
    """Whether a number in the first rows begins with 0 and another digit, or with many digits, in whatever column.

    That is so in few tables, and if it is not, the cells of the columns need not be read as text.
    """
    rows = file.text.beginning(CSV_BYTES + 2**10).splitlines()[file.head.skipped :]
    pattern = rf"(^|[^0-9{file.dialect.decimal_point}])(0[0-9xX]|[0-9]{{16}})"
    return bool(compute.any(compute.match_substring_regex(pa.array(rows, pa.binary()), pattern)).as_py())


def _matching(batch: Any, names: list[str], pattern: str) -> list[str]:
    """Columns in which some cell matches a pattern, found in one search because there may be many columns."""
    if not names:
        return []
    cells = pa.concat_arrays([batch.column(name) for name in names]).cast(pa.string())
    hit = np.asarray(compute.match_substring_regex(cells, pattern)).reshape(len(names), -1)
    return [names[j] for j in np.flatnonzero(hit.any(axis=1))]


def _odd_cell(column: Any, nulls: tuple[str, ...]) -> str:
    """Description of the first cell that is not a number, if most cells of the column are nearly numbers."""
    cells = ["" if cell is None else cell.decode("utf-8", "replace") for cell in column[:1000].to_pylist()]
    texts = [cell.strip(" \t\r\n") for cell in cells]
    odd = [i for i, text in enumerate(texts) if text not in nulls and not is_number(text)]
    filled = sum(text not in nulls for text in texts)
    nearly = re.compile(  # a number with a unit, with signs between its thousands, or with a decimal comma
        r"[<>~$€£¥]?\s*[-+]?(\d+([.,]\d+)?|\d{1,3}(?P<by>[,.' \u00a0\u202f])\d{3}((?P=by)\d{3})*([.,]\d+)?)"
        r"\s*([%‰°$€£¥]|\W?(?P<word>[^\W\d_]{1,12}))?"
    )
    matches = {i: nearly.fullmatch(texts[i]) for i in odd}
    strange = [i for i, match in matches.items() if not match]
    words = {match["word"] for match in matches.values() if match}  # of an address, if there are many
    if not odd or 2 * len(strange) >= filled or len(words) > MOST_UNITS:
        return ""
    first = odd[0]
    plain = "" if first in strange else "; numbers must look like -1234.5"
    return f"row {first + 1:,} holds {texts[first]!r}{plain}"


def _code(column: Any, pattern: str) -> str:
    """Description of the first cell that is a code, such as a postal code or an account number; else empty."""
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
