"""How a text file is written: what separates cells, what separates decimals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from probpca.errors import DataError
from probpca.sources.files import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from probpca.sources.source import Watch
    from probpca.typing import Floats

import csv as text_csv
import gzip
import math
import re
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, final

from pyarrow import compute, csv

from probpca.errors import ProbpcaError
from probpca.sources.files import delimiter_of, is_compressed, is_number
from probpca.sources.readers.arrow import Layout, damaged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from probpca.sources.source import Watch
    from probpca.typing import Floats

SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
LINES = 50
"""Lines that are looked at."""
SIGNATURE, MANY = 100, 5
"""Bytes in which a file that holds no text shows it; rising names that are no chance."""
PACKED = b"\x1f\x8b"
QUOTED = re.compile(r'"[^"]*("|$)')
DECIMAL_COMMA = re.compile(r"\s*[-+]?(\d*,(\d{1,2}|\d{4,})|0,\d+)([eE][-+]?\d+)?\s*")
ONE_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(,\d{3}){2,}\s*")
DECIMAL_POINT = re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*")


class Dialect(NamedTuple):
    """What stands between two cells, and between the whole and the decimals of a number."""

    delimiter: str
    decimal_point: str = "."

    def __str__(self) -> str:
        """In words."""
        return f"{SEPARATORS[self.delimiter]}{', with decimal commas' if self.decimal_point == ',' else ''}"


def dialect_of(head: bytes, place: Path, *, whole: bool) -> Dialect:
    """Tell from the first lines of a text, of which the last may break off unless they are the whole.

    What separates cells is the sign that cuts the first lines into the same number of cells, the largest one; in
    doubt, and where there is one line that has it, the one that the name of the file stands for. Decimals have commas
    where another sign than that one separates cells, no cell looks like 3.14 and some look like 3,14; 1,234 may be
    a thousand, and decides nothing except between semicolons, as spreadsheets write where decimals have commas.
    """
    if head.startswith(PACKED):
        msg = f"{place} is packed by gzip.\nHint: let its name end in .csv.gz."
        raise DataError(msg)
    if b"\0" in head[:SIGNATURE] or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        msg = f"{place} does not hold text.\nHint: save a table as 'CSV UTF-8'; a picture or a workbook is no table."
        raise DataError(msg)
    text = head.decode("utf-8-sig", "replace")
    text = text if whole else text.rpartition("\n")[0] or text
    own = delimiter_of(place)
    lines = [line for line in QUOTED.sub("", text).splitlines() if line.strip()][:LINES]
    if len(lines) == 1 and own in lines[0]:
        return Dialect(own)
    counts = {sign: {line.count(sign) for line in lines} for sign in SEPARATORS}
    steady = {sign: found.pop() for sign, found in counts.items() if len(found) == 1 and found != {0}}
    delimiter = max([own, *steady], key=lambda sign: steady.get(sign, 0))
    return Dialect(delimiter, "," if delimiter not in (own, ",") and _has_decimal_commas(text, delimiter) else ".")


def _has_decimal_commas(text: str, delimiter: str) -> bool:
    cells = [cell for row in text_csv.reader(text.splitlines()[1:], delimiter=delimiter) for cell in row]
    if any(map(DECIMAL_POINT.fullmatch, cells)) or any(map(THOUSANDS.fullmatch, cells)):
        return False
    return any(map((ONE_COMMA if delimiter == ";" else DECIMAL_COMMA).fullmatch, cells))


def require_names(names: Sequence[str], place: Path, hint: str) -> None:
    """Raise ``DataError`` if the first line of a text holds cells of the first row rather than names.

    So it does if one name is a decimal number, or all are numbers: unless these are a scale, as years, columns that are
    counted and wavelengths are.
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
    """Do numbers rise in equal steps, or are there so many of them that it is no chance that they rise?"""
    steps = [b - a for a, b in pairwise(numbers)]
    if not steps or min(steps) <= 0:
        return False
    counted = list(numbers) == list(range(len(numbers)))
    even = len(steps) > 1 and max(steps) - min(steps) <= 1e-6 * max(map(abs, numbers))
    return counted or even or len(steps) >= MANY


CSV_BYTES = 2**23
LOOKED_AT = 2**16
"""Bytes by which it is told how a text is written; more if they do not hold two lines."""
MISSING = ("-", "--", "?", ".", "None", "none", "NONE", "Na", "N.A.", "n.a.", "#NULL!", "#VALUE!", "#DIV/0!")
"""What people write in a cell of a text file that holds nothing, beside what pyarrow knows."""
NOTHING = (*csv.ConvertOptions().null_values, *MISSING)
PADDED = tuple(f"{before}{marker} " for marker in ("", "NA", "N/A", "nan", "NaN", "null", "-") for before in ("", " "))
"""Few, for every column has a table of all."""


@contextmanager
def reading(place: Path, kinds: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Read the columns that have a kind, or all, batch by batch; what goes wrong is said in words of the table."""
    try:
        with _opened(place) as stream, _reader(stream, dialect(place), kinds or {}) as reader:
            yield reader
    except pa.ArrowInvalid as error:
        raise _unreadable(place, error) from error
    except (pa.ArrowException, OSError, EOFError) as error:
        raise damaged(str(place), error) from error


def schema_of_text(place: Path) -> Any:
    """Names of all columns, and types as the first rows let them appear."""
    return _schema(Stamp.of(place))


@lru_cache(maxsize=8)
def _schema(stamp: Stamp) -> Any:
    """Looked at once, for a table may have very many columns."""
    place = stamp.path
    with reading(place) as reader:
        try:
            _ = reader.schema.names
        except UnicodeDecodeError as error:
            msg = f"the names of the columns of {place} are not UTF-8.\nHint: save the file as 'CSV UTF-8'."
            raise DataError(msg) from error
        return reader.schema


def dialect(place: Path) -> Dialect:
    """How the cells of a text file are separated, and what its decimals are written with."""
    head = b""
    try:
        with _opened(place) as stream:
            while piece := stream.read(LOOKED_AT):
                head += piece
                if head.count(b"\n") > 1 or len(head) > CSV_BYTES:
                    break
            whole = not stream.read(1)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise damaged(str(place), error) from error
    return dialect_of(head, place, whole=whole)


def _opened(place: Path) -> Any:
    """The bytes of a text file, unpacked if they are packed."""
    return pa.input_stream(str(place), compression="gzip" if is_compressed(place) else None)


def _reader(stream: Any, written: Dialect, kinds: Mapping[str, Any]) -> Any:
    """A cell may hold a line break, and one that says so is missing."""
    missing = [*NOTHING, *(f" {marker}" for marker in NOTHING), *PADDED]
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(block_size=CSV_BYTES),
        parse_options=csv.ParseOptions(delimiter=written.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=missing,
            decimal_point=written.decimal_point,
        ),
    )


def _unreadable(place: Path, error: Exception) -> ProbpcaError:
    """What to say of a cell that is no number, or of a line that has too many cells or too few."""
    found = re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", str(error), re.DOTALL)
    if found is None:
        return _ragged(place) or damaged(str(place), error)
    number, text = int(found[1]), found[2]
    name = schema_of_text(place).names[number]
    where = f"row {row:,}, column {name!r}" if (row := _row_of(place, name, text)) else f"column {name!r}"
    return DataError(
        f"{place} cannot be read as numbers: {where} holds {text!r}.\n"
        "Hint: a missing cell is empty or NA; leave the column out if it holds text."
    )


def _row_of(place: Path, name: str, text: str) -> int:
    """The first row, counted from 1, in which a cell is this text; 0 if there is none."""
    before = 0
    with reading(place, {name: pa.string()}) as reader:
        for batch in reader:
            found: int = compute.index(batch.column(0), text).as_py()
            if found >= 0:
                return before + found + 1
            before += batch.num_rows
    return 0


def _ragged(place: Path) -> DataError | None:
    """What to say of the first row that has not as many cells as there are names, if there is one."""
    written, packed = dialect(place), is_compressed(place)
    with (gzip.open if packed else open)(place, "rt", encoding="latin-1", newline="") as file:
        rows = filter(None, text_csv.reader(file, delimiter=written.delimiter))
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


@final
@dataclass(frozen=True, eq=False)
class Csv(Iterable[Any]):
    """A text file of numbers with a line of names, read from the top whenever it is asked for."""

    stamp: Stamp
    layout: Layout
    flags: frozenset[str]  # columns of true and false
    watch: Watch | None = None
    counts: list[int] = field(default_factory=list)  # batches of the last pass that reached the end

    @classmethod
    def of(cls, place: Path, columns: Sequence[str] | None, watch: Watch | None = None) -> Csv:
        """Look at the first rows to see which columns hold numbers."""
        stamp = Stamp.of(place)
        schema = schema_of_text(place)
        if columns is None:
            check_header(schema.names, place)
        names = Layout.of(schema, columns, place).names
        flags = frozenset(name for name in names if pa.types.is_boolean(schema.field(name).type))
        return cls(stamp, Layout(names, np.float64), flags, watch)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return self.layout.names

    def __iter__(self) -> Iterator[Floats]:
        """Batches of rows; one without any where the file has none."""
        self.stamp.check()
        place, names = self.stamp.path, self.layout.names
        kinds = {name: pa.bool_() if name in self.flags else pa.float64() for name in names}
        done = 0
        with reading(place, kinds) as reader:
            for done, batch in enumerate(reader, 1):
                yield self.layout.values(batch)
                self._tell(done)
        if not done:
            yield np.empty((0, len(names)))
        self._tell(done, end=True)

    def _tell(self, done: int, *, end: bool = False) -> None:
        """Say how far a pass has come; how long a compressed text is shows when it has been read."""
        place, size = self.stamp.path, self.stamp.size
        total = self.counts[-1] if self.counts else None if is_compressed(place) else max(-(-size // CSV_BYTES), 1)
        if self.watch is not None and total is not None and (end or done < total):
            self.watch(total if end else done, total)
        if end:
            self.counts[:] = [max(done, 1)]


def check_header(names: Sequence[str], place: Path) -> None:
    """Raise ``DataError`` if the first line of a text file does not name every column."""
    if "" in names:
        msg = (
            f"column {list(names).index('')} of {place} has no name: it may be the index of a dataframe.\n"
            "Hint: write the file without it (index=False), or open_source(path, columns=[...]) reads some columns."
        )
        raise DataError(msg)
    require_names(
        names, place, "write a header. If these are names, open_source(path, columns=[...]) takes them for such."
    )
