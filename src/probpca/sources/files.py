"""Files of rows: formats, columns, and detection of changes."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from probpca.atomic_write import is_stream
from probpca.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.sources.source import Source, Watch
    from probpca.typing import Floats


class Stamp(NamedTuple):
    """Size, modification time and inode of a file when it was opened."""

    path: Path
    size: int
    modified: int  # in nanoseconds
    inode: int | None = None

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Current stamp of a file."""
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns, found.st_ino)

    @classmethod
    def of_table(cls, place: Path) -> Stamp:
        """Stamp of a table at its full path, of a file or of all files in a folder together, without inodes.

        A copy that was put back in its place with its old modification time is still the same table.
        """
        place = place.resolve()
        if not place.is_dir():
            return cls.of(place)._replace(inode=None)
        files = [found.stat() for found in place.rglob("*") if found.is_file()]
        return cls(place, sum(f.st_size for f in files), max((f.st_mtime_ns for f in files), default=0))

    def check(self) -> None:
        """Raise ``SourceError`` if the file has changed: overwritten, replaced by another, or removed."""
        if not self.path.exists() or Stamp.of(self.path) != self:
            msg = f"{self.path} has changed since it was opened.\nHint: open it again, and do not change it meanwhile."
            raise SourceError(msg)


FORMATS = {
    ".npy": "npy",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
    ".csv": "csv",
    ".tsv": "csv",
}
"""Formats that are read and written, by the end of the name of the file."""
READ_ONLY = {
    ".txt": "csv",
    ".tab": "csv",
    ".xlsx": "workbook",
    ".xlsm": "workbook",
    ".xlsb": "workbook",
    ".xls": "workbook",
    ".ods": "workbook",
}
"""Formats that are read only."""


def is_path(rows: Any) -> bool:
    """Whether ``rows`` is the name of a file."""
    return isinstance(rows, str | os.PathLike)


def file_format(place: Path) -> str:
    """Format of a file; a folder holds Parquet files."""
    return "parquet" if place.is_dir() else format_of(place)


def format_of(place: Path) -> str:
    """Format that belongs to the name of a file; .csv.gz is compressed .csv."""
    known = FORMATS | READ_ONLY
    kind = known.get(_suffix(place))
    if kind is None:
        msg = f"the format of {place} is not known from its name.\nHint: use a name that ends in {', '.join(known)}."
        raise SourceError(msg)
    if is_compressed(place) and kind != "csv":
        msg = (
            f"only text files may be compressed with gzip; {place} is {kind}.\n"
            "Hint: decompress it, or use a name without .gz."
        )
        raise SourceError(msg)
    return kind


def kind_of_bytes(content: bytes) -> str:
    """Format of a table in memory, by its first bytes; text, which may be compressed, if none is recognised."""
    marks = {b"PAR1": "parquet", b"ARROW1": "feather", b"\x93NUMPY": "npy"}
    marks |= {b"PK\x03\x04": "workbook", b"\xd0\xcf\x11\xe0": "workbook"}
    return next((kind for mark, kind in marks.items() if content.startswith(mark)), "csv")


def written_format(place: Path) -> str:
    """Format of a file to be written, by its name; raises ``SourceError`` for formats that can only be read.

    Streams such as /dev/stdout whose name says nothing take CSV.
    """
    if not _suffix(place) and is_stream(place):
        return "csv"
    if _suffix(place) not in FORMATS:
        what = "workbooks can only be read" if format_of(place) == "workbook" else "files of this kind can only be read"
        msg = f"{place} cannot be written: {what}.\nHint: use a name that ends in one of {', '.join(FORMATS)}."
        raise SourceError(msg)
    return format_of(place)


def is_compressed(place: Path) -> bool:
    """Whether the name of a file ends in .gz."""
    return place.suffix.lower() == ".gz"


def delimiter_of(place: Path) -> str:
    """Delimiter of a text file to be written, by its name."""
    return "\t" if _suffix(place) in (".tsv", ".tab") else ","


def _suffix(place: Path) -> str:
    return (Path(place.stem) if is_compressed(place) else place).suffix.lower()


def has_names(path: str | os.PathLike[str]) -> bool:
    """Whether a file or folder with this name has column names, as all formats but .npy do."""
    place = Path(path)
    return place.is_dir() or format_of(place) != "npy"


class Column(NamedTuple):
    """A column of a file, with the kind of its values."""

    name: str
    kind: str  # "numbers", "true or false", "empty", "dates", "text", "index", "units", or the name of another type
    why: str = ""  # for a column that nearly holds numbers, or holds codes: the cell that shows it
    unit: str = ""  # unit of its numbers, if all cells have the same


class TableFile(Protocol):
    """Protocol of a file of rows with known columns."""

    @property
    def place(self) -> Path:
        """Name of the file."""

    @property
    def named(self) -> bool:
        """Whether its columns have names."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on how the file is read, for the user."""

    def columns(self) -> tuple[Column, ...]:
        """All columns in order, with their kinds judged by the first rows."""

    def source(
        self,
        columns: Sequence[str] | None,
        n_jobs: int,
        watch: Watch | None = None,
        others: Sequence[str] | None = None,
    ) -> Source:
        """Source of the given numeric columns, all by default; ``others`` are available as ``Block.others``."""

    def kept_types(self, features: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
        """Features without missing cells whose type is not floating point, and the types of those that are."""


IDENTIFIERS = re.compile(
    r"(^|[_\s.-])(id|ids|idx|key|nr|no|row|rowid|uuid|code)$"
    r"|^(index|number|#|obs|observation|case|sample|subject|patient|participant|respondent)$",
    re.IGNORECASE,
)
"""Usual names of identifiers of rows."""


def is_identifier(name: str) -> bool:
    """Whether the name of a column is a usual name of identifiers of rows."""
    return IDENTIFIERS.search(name) is not None


def coded_as_missing(values: Floats, codes: Sequence[float]) -> Floats:
    """Replace codes of missing cells by NaN, in place: (b, d)."""
    for code in codes:
        values[values == code] = np.nan
    return values


def is_number(text: str) -> bool:
    """Whether the reader of text files accepts a cell as a number; unlike ``float`` it refuses 1_000 and "\u0661"."""
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def arrow_module(name: str) -> Any:
    """Import a module that needs pyarrow; raise ``SourceError`` with a hint if that is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        what = "workbooks need python-calamine" if error.name == "python_calamine" else None
        what = what or "Parquet, Feather, CSV files and workbooks need pyarrow"
        msg = f"{what}.\nHint: pip install 'probpca[files]'."
        raise SourceError(msg) from error
