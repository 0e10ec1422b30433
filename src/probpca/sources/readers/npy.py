"""Rows from .npy files, read piece by piece with little memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, final

import numpy as np
from numpy.lib import format as npy

from probpca.blocks import Block
from probpca.blocks.block import PIECE_BYTES
from probpca.errors import DataError, ShapeError, SourceError
from probpca.sources.engines.local import LocalEngine
from probpca.sources.files import Column, Stamp, coded_as_missing
from probpca.sources.source import Info, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import FileIO
    from pathlib import Path

    from probpca.sources.source import Watch
    from probpca.sources.table_format import TableFormat

SMALL_BLOCK = PIECE_BYTES // 2
"""Size of a block, in bytes, that fits into cache and is read twice as fast as a larger one."""
PART_BLOCKS = 32
"""Number of blocks of a part, which one thread reads."""


class ArrayHeader(NamedTuple):
    """Position and storage of a matrix of numbers in the bytes of a .npy file."""

    offset: int
    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    by_columns: bool  # stored column by column, in Fortran order

    @classmethod
    def read(cls, file: BinaryIO, place: Path, n_bytes: int) -> ArrayHeader:
        """Read the header of a .npy file of ``n_bytes``; raise an error unless a matrix of numbers follows it."""
        try:
            version = npy.read_magic(file)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, by_columns, dtype = header(file)
        except (ValueError, TokenError) as error:  # numpy tokenizes a header that is no literal of Python
            msg = f"{place} is not a .npy file: {error}."
            raise SourceError(msg) from error
        if dtype.kind not in "fiub":
            msg = f"{place} holds {dtype}, not numbers."
            raise DataError(msg)
        if len(shape) != 2:
            msg = f"{place} must hold a matrix of rows and columns; its array has shape {shape}."
            raise ShapeError(msg)
        needed = file.tell() + shape[0] * shape[1] * dtype.itemsize
        if n_bytes < needed:
            msg = f"{place} is truncated: its array needs {needed:,} bytes; got {n_bytes:,}."
            raise SourceError(msg)
        return cls(file.tell(), shape[0], shape[1], dtype, by_columns)

    @property
    def target(self) -> type[np.floating[Any]]:
        """Type of the values in memory, in the byte order of this computer."""
        return np.float32 if self.dtype.kind == "f" and self.dtype.itemsize <= 4 else np.float64


@final
@dataclass(frozen=True)
class NpyFile:
    """A .npy file that holds a matrix, whose columns have no names."""

    place: Path
    table_format: TableFormat
    named = False
    notes = ()

    def columns(self) -> tuple[Column, ...]:
        """All columns, named x0, x1, ..."""
        return tuple(Column(f"x{j}", "numbers") for j in range(_look(self.place)[1].n_features))

    def source(
        self,
        columns: Sequence[str] | None,
        n_jobs: int,
        watch: Watch | None = None,
        others: Sequence[str] | None = None,
    ) -> Source:
        """Source of all columns; raises ``SourceError`` if some are chosen, because they have no names."""
        if columns is not None or others is not None:
            msg = f"{self.place} holds an array, whose columns have no names.\nHint: omit columns."
            raise SourceError(msg)
        return open_npy(self.place, n_jobs, watch, self.table_format.codes)

    def kept_types(self, features: Sequence[str]) -> tuple[list[str], dict[str, Any]]:  # noqa: ARG002
        """Return nothing: all columns are written in floating point."""
        return [], {}


def open_npy(place: Path, n_jobs: int, watch: Watch | None = None, codes: tuple[float, ...] = ()) -> Source:
    """Make a source of a .npy file that holds a numeric matrix; ``codes`` are numbers that mean missing."""
    stamp, table = _look(place)
    step = PART_BLOCKS * _block_rows(table)
    parts = [range(start, min(start + step, table.n_rows)) for start in range(0, table.n_rows, step)]
    info = Info(
        n_features=table.n_features,
        n_rows=table.n_rows,
        n_stored=table.n_rows * table.n_features,
        single_precision=table.target is np.float32,
        n_jobs=n_jobs,
        file_bytes=table.n_rows * table.n_features * np.dtype(table.target).itemsize,
    )
    engine = LocalEngine(parts, partial(_read, place, table, codes), n_jobs, watch, stamps=(stamp,))
    return Source(info, engine, glance=engine.has_missing)


def _look(place: Path) -> tuple[Stamp, ArrayHeader]:
    stamp = Stamp.of(place)
    with place.open("rb") as file:
        return stamp, ArrayHeader.read(file, place, stamp.size)


def _block_rows(table: ArrayHeader) -> int:
    """Number of rows of a block: as many as fit into cache, or more if there are many columns."""
    d = max(table.n_features, 1)
    large = PIECE_BYTES // (2 * d)
    enough = large if table.by_columns else min(3 * d // 2, large)  # in Fortran order every column needs a seek
    return max(SMALL_BLOCK // (8 * d), enough, 64)


def _read(path: Path, table: ArrayHeader, codes: tuple[float, ...], part: range) -> Iterator[Block]:
    step, n, d, size = _block_rows(table), table.n_rows, table.n_features, table.dtype.itemsize
    with path.open("rb", buffering=0) as file:
        for start in range(part.start, part.stop, step):
            count = min(step, part.stop - start)
            rows = np.empty((d, count) if table.by_columns else (count, d), table.dtype)
            places = range(start, start + n * d, n) if table.by_columns else [start * d]
            lines = rows if table.by_columns else [rows]
            for line, place in zip(lines, places, strict=True):
                _fill(file, memoryview(line.data).cast("B"), table.offset + place * size, path)
            rows = rows.astype(table.target, copy=False)
            rows = coded_as_missing(rows, codes)
            yield Block(rows.T if table.by_columns else rows)


def _fill(file: FileIO, buffer: memoryview, offset: int, path: Path) -> None:
    """Fill a buffer from a position in the file."""
    file.seek(offset)
    done = 0
    while done < len(buffer):
        count = file.readinto(buffer[done:])
        if not count:
            msg = f"{path} ended while it was read: it was truncated."
            raise SourceError(msg)
        done += count
