"""Rows in a .npy file, read piece by piece: memory stays small whatever the size of the file."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from probpca.blocks import Block
from probpca.blocks.block import PIECE_BYTES
from probpca.errors import DataError, ShapeError, SourceError
from probpca.sources.files import Stamp
from probpca.sources.source import Parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from probpca.sources.source import Watch

SMALL_BLOCK, LARGE_BLOCK, PART_BLOCKS = PIECE_BYTES // 2, 4 * PIECE_BYTES, 32
"""A block that a cache holds is read twice as fast; where columns are many it takes more rows to pay for its sums."""


class _Table(NamedTuple):
    """Where the rows are in the file."""

    stamp: Stamp
    offset: int
    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    by_columns: bool  # one column after the other, as Fortran has it


def open_npy(place: Path, columns: Sequence[str] | None, n_jobs: int, watch: Watch | None) -> Parts:
    """Rows of a two-dimensional array of numbers."""
    if columns is not None:
        msg = f"{place} holds an array, whose columns have no names.\nHint: leave columns out."
        raise SourceError(msg)
    table = _look(place)
    step = PART_BLOCKS * _block_rows(table)
    parts = [range(start, min(start + step, table.n_rows)) for start in range(0, table.n_rows, step)]
    single = _target(table.dtype) is np.float32
    return Parts(parts, partial(_read, table), table.n_features, table.n_rows, n_jobs, single, watch=watch)


def _look(place: Path) -> _Table:
    try:
        with place.open("rb") as file:
            version = npy.read_magic(file)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, by_columns, dtype = header(file)
            offset = file.tell()
    except ValueError as error:
        msg = f"{place} is not a .npy file: {error}."
        raise SourceError(msg) from error
    if dtype.kind not in "fiub":
        msg = f"{place} holds {dtype}, not numbers."
        raise DataError(msg)
    if len(shape) != 2:
        msg = f"{place} must hold a matrix (n, d); its array has shape {shape}."
        raise ShapeError(msg)
    needed, found = offset + shape[0] * shape[1] * dtype.itemsize, place.stat().st_size
    if found < needed:
        msg = f"{place} is truncated: its array takes {needed:,} bytes, and there are {found:,}."
        raise SourceError(msg)
    return _Table(Stamp.of(place), offset, shape[0], shape[1], dtype, by_columns)


def _block_rows(table: _Table) -> int:
    d = max(table.n_features, 1)
    large = LARGE_BLOCK // (8 * d)
    enough = large if table.by_columns else min(3 * d // 2, large)  # there each column is a place of its own to go to
    return max(SMALL_BLOCK // (8 * d), enough, 64)


def _target(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    return np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64


def _read(table: _Table, part: range) -> Iterator[Block]:
    table.stamp.check()
    step, n, d, size = _block_rows(table), table.n_rows, table.n_features, table.dtype.itemsize
    with table.stamp.path.open("rb", buffering=0) as file:
        for start in range(part.start, part.stop, step):
            count = min(step, part.stop - start)
            rows = np.empty((d, count) if table.by_columns else (count, d), table.dtype)
            places = range(start, start + n * d, n) if table.by_columns else [start * d]
            lines = rows if table.by_columns else [rows]
            for line, place in zip(lines, places, strict=True):
                _fill(file.fileno(), memoryview(line.data).cast("B"), table.offset + place * size, table.stamp)
            rows = rows.astype(_target(table.dtype), copy=False)
            yield Block(rows.T if table.by_columns else rows)


def _fill(file: int, buffer: memoryview, offset: int, stamp: Stamp) -> None:
    done = 0
    while done < len(buffer):
        count = os.preadv(file, [buffer[done:]], offset + done)
        if count == 0:
            msg = f"{stamp.path} ended while it was read: it was truncated."
            raise SourceError(msg)
        done += count
