"""Rows in text files, by pyarrow."""

from __future__ import annotations

import csv as text_csv
import gzip
import re
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv

from probpca.errors import DataError, ProbpcaError
from probpca.sources.arrow import damaged
from probpca.sources.arrow_layout import Layout, check_header
from probpca.sources.dialects import SEPARATORS, Dialect, dialect_of
from probpca.sources.files import is_compressed
from probpca.sources.stamps import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from probpca.sources.protocol import Watch
    from probpca.typing import Floats

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
