"""Answers to a file, as they come: the rows are never held together."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from probpca.atomic_write import appearing
from probpca.sources.files import arrow_module, delimiter_of, format_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from probpca.typing import Floats


def write_rows(path: str | os.PathLike[str], answers: Iterable[Floats], names: Sequence[str]) -> Path:
    """Write arrays, one below the other, to .npy, Parquet, Feather or CSV; the name of the file says which.

    The file appears when it is complete, and not at all if something goes wrong.
    """
    place = Path(path)
    kind = format_of(place)
    tables = (answer.reshape(len(answer), len(names)) for answer in answers)
    with appearing(place) as part:
        if kind == "npy":
            _write_npy(part, tables, len(names))
        else:
            arrow_module("probpca.sources.arrow_writing").write(part, kind, place, tables, names)
    return place


def write_tables(path: str | os.PathLike[str], batches: Iterable[Any]) -> Path:
    """Write record batches of Arrow, at least one of them, in the same way; to .npy go columns of numbers only."""
    place = Path(path)
    kind = format_of(place)
    arrow = arrow_module("probpca.sources.arrow_writing")
    with appearing(place) as part:
        if kind == "npy":
            tables = map(arrow.numbers_of, batches)
            first = next(tables)
            _write_npy(part, chain([first], tables), first.shape[1])
        else:
            with arrow.output(part, place) as stream:
                arrow.write_batches(stream, kind, batches, delimiter_of(place))
    return place


def _write_npy(part: Path, tables: Iterable[Floats], width: int) -> None:
    """The header leaves room for a larger number of rows, and is written again at the end."""
    n = 0
    with part.open("wb") as file:
        _write_header(file, (n, width))
        for table in tables:
            file.write(np.ascontiguousarray(table, np.float64).data)
            n += len(table)
        file.seek(0)
        _write_header(file, (n, width))


def _write_header(file: Any, shape: tuple[int, int]) -> None:
    npy.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
