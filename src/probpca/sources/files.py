"""Files of rows: their formats, their names, and whether they changed behind our back."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from probpca.errors import SourceError


class Stamp(NamedTuple):
    """What a file looked like when it was opened."""

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Look at a file."""
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Raise ``SourceError`` if the file is not what it was."""
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
    """Is this the name of a file?"""
    return isinstance(rows, str | os.PathLike)


def file_format(place: Path) -> str:
    """The format of a file; a folder holds Parquet files."""
    return "parquet" if place.is_dir() else format_of(place)


def format_of(place: Path) -> str:
    """The format that the name of a file stands for; of .csv.gz that of .csv."""
    kind = FORMATS.get(_suffix(place))
    if kind is None:
        msg = f"the name of {place} does not say its format.\nHint: it should end in one of {', '.join(FORMATS)}."
        raise SourceError(msg)
    if is_compressed(place) and kind != "csv":
        msg = f"only text is compressed by gzip; {place} is {kind}.\nHint: leave out .gz, or end in .csv.gz."
        raise SourceError(msg)
    return kind


def is_compressed(place: Path) -> bool:
    """Does the name end in .gz?"""
    return place.suffix.lower() == ".gz"


def delimiter_of(place: Path) -> str:
    """What is between two cells of a text file."""
    return "\t" if _suffix(place) == ".tsv" else ","


def _suffix(place: Path) -> str:
    return (Path(place.stem) if is_compressed(place) else place).suffix.lower()


def has_names(path: str | os.PathLike[str]) -> bool:
    """Do files like this one, or a folder of them, say how their columns are called?"""
    place = Path(path)
    return place.is_dir() or format_of(place) != "npy"


def is_number(text: str) -> bool:
    """Does a cell of a text file hold a number?"""
    try:
        float(text)
    except ValueError:
        return False
    return True


def arrow_module(name: str) -> Any:
    """A module that needs pyarrow."""
    try:
        return import_module(name)
    except ImportError as error:
        msg = "Parquet, Feather and CSV files need pyarrow.\nHint: pip install 'probpca[files]'."
        raise SourceError(msg) from error
