"""Files of rows: their formats, the names of their columns, and whether they have changed."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from probpca.errors import SourceError


class Stamp(NamedTuple):
    """Size and time of change of a file when it was opened."""

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Stamp of a file as it is now."""
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns)

    @classmethod
    def of_table(cls, place: Path) -> Stamp:
        """Stamp of a table at its full path: of a file, or of all files in a folder together."""
        place = place.resolve()
        if not place.is_dir():
            return cls.of(place)
        files = [found.stat() for found in place.rglob("*") if found.is_file()]
        return cls(place, sum(f.st_size for f in files), max((f.st_mtime_ns for f in files), default=0))

    def check(self) -> None:
        """Raise ``SourceError`` if the file has changed."""
        if not self.path.exists() or Stamp.of(self.path) != self:
            msg = f"{self.path} has changed since it was opened.\nHint: open it again, and leave it alone meanwhile."
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


def is_path(rows: Any) -> bool:
    """Whether ``rows`` is the name of a file."""
    return isinstance(rows, str | os.PathLike)


def file_format(place: Path) -> str:
    """Format of a file; a folder holds Parquet files."""
    return "parquet" if place.is_dir() else format_of(place)


def format_of(place: Path) -> str:
    """Format that belongs to the name of a file; .csv.gz is compressed .csv."""
    kind = FORMATS.get(_suffix(place))
    if kind is None:
        msg = f"the name of {place} does not say its format.\nHint: it should end in one of {', '.join(FORMATS)}."
        raise SourceError(msg)
    if is_compressed(place) and kind != "csv":
        msg = f"only text is compressed by gzip; {place} is {kind}.\nHint: leave out .gz, or end in .csv.gz."
        raise SourceError(msg)
    return kind


def is_compressed(place: Path) -> bool:
    """Whether the name of a file ends in .gz."""
    return place.suffix.lower() == ".gz"


def delimiter_of(place: Path) -> str:
    """Delimiter of cells that belongs to the name of a text file."""
    return "\t" if _suffix(place) == ".tsv" else ","


def _suffix(place: Path) -> str:
    return (Path(place.stem) if is_compressed(place) else place).suffix.lower()


def has_names(path: str | os.PathLike[str]) -> bool:
    """Whether files with such a name, or a folder, hold names of columns: all but .npy do."""
    place = Path(path)
    return place.is_dir() or format_of(place) != "npy"


class Column(NamedTuple):
    """A column of a file, and what it holds."""

    name: str
    kind: str  # "numbers", "true or false", "empty", "dates", "text", "index", or the name of another type
    why: str = ""  # where it nearly holds numbers, or numbers that look like codes: the cell that shows it


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
        msg = "Parquet, Feather and CSV files need pyarrow.\nHint: pip install 'probpca[files]'."
        raise SourceError(msg) from error
