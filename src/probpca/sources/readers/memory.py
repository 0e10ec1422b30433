"""Tables in memory: bytes whose format is recognised, and tables whose features are rows."""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

from probpca.errors import DataError
from probpca.sources.engines.local import itself, resolve_jobs
from probpca.sources.files import Column, TableFile, arrow_module, is_identifier, kind_of_bytes
from probpca.sources.readers.arrow import HeldTable, damage_named
from probpca.sources.readers.csv import Text, TextFile
from probpca.sources.readers.npy import ArrayHeader
from probpca.sources.table_format import TableFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

MOST_CELLS = 2**27
"""Largest number of cells of a table that is transposed: 1 GiB."""


def table_in_memory(place: Path, content: bytes, table_format: TableFormat) -> TableFile:
    """Look at a table in memory: text, also compressed by gzip, Parquet, Feather, .npy or a workbook."""
    if content.startswith(b"\x1f\x8b"):
        with damage_named(str(place)):
            content = pa.input_stream(pa.BufferReader(content), compression="gzip").read()
    kind = kind_of_bytes(content)
    table_format.require_for(kind, place)
    if kind == "csv":
        return TextFile.look(Text(place, content=content), table_format)
    if kind == "workbook":
        found: TableFile = arrow_module("probpca.sources.readers.workbook").workbook_in_memory(
            place, content, table_format
        )
        return found
    if kind == "npy":
        return _array(place, content, table_format)
    with damage_named(str(place)):
        table = (parquet if kind == "parquet" else feather).read_table(pa.BufferReader(content))
        table.validate(full=True)
        _ = table.column_names  # which need not be UTF-8
    return HeldTable(place, table, table_format)


def _array(place: Path, content: bytes, table_format: TableFormat) -> HeldTable:
    header = ArrayHeader.read(io.BytesIO(content), place, len(content))
    n, d = header.n_rows, header.n_features
    cells = np.frombuffer(content, header.dtype, n * d, header.offset).astype(header.target)
    rows = cells.reshape(d, n).T if header.by_columns else cells.reshape(n, d)
    columns = {f"x{j}": pa.array(np.ascontiguousarray(column)) for j, column in enumerate(rows.T)}
    return HeldTable(place, pa.table(columns), table_format, named=False)


def transposed(file: TableFile) -> HeldTable:
    """Transpose a table whose rows are features, such as genes, and whose columns of numbers are samples.

    The first column without numbers, else one that is called like an identifier, gives the names of the features.
    The names of the columns of numbers become a column of labels. An empty column with a name is a sample too.
    """
    if isinstance(file, TextFile):
        file.require_names("put the names of the samples into the first line.")
    columns = file.columns()
    key = _column_of_names(columns, file.place)
    numeric = {column.name for column in columns if column.kind in ("numbers", "true or false")} - {key}
    if not numeric:
        msg = f"{file.place} has no column of numbers to transpose."
        raise DataError(msg)
    empty = {column.name for column in columns if column.kind == "empty" and column.name} - {key}
    chosen = numeric | empty
    samples = [column.name for column in columns if column.name in chosen]
    values, found = _gathered(file, samples, key)
    names, numbered = _distinct(found)
    known = chosen | {key}
    left_out = [column.name for column in columns if column.kind != "empty" and column.name not in known]
    notes = [*file.notes]
    if numbered:
        notes.append(f"repeated names in column {key!r} were numbered: {_some(numbered)}")
    if left_out:
        notes.append(f"columns without numbers are left out of the transposed table: {_some(left_out)}")
    label = "name"
    while label in names:
        label += "_"
    arrays = {
        label: pa.array(samples),
        **{name: pa.array(row, from_pandas=True) for name, row in zip(names, values, strict=True)},
    }
    return HeldTable(file.place, pa.table(arrays), TableFormat(), notes=tuple(notes))


def _column_of_names(columns: Sequence[Column], place: Path) -> str:
    texts = [column.name for column in columns if column.kind in ("text", "index") or not column.name]
    texts += [column.name for column in columns if is_identifier(column.name)]
    if not texts:
        msg = (
            f"{place} has no column of text; transposing needs one that names the features.\n"
            "Hint: put the names of the features into the first column."
        )
        raise DataError(msg)
    return texts[0]


def _gathered(file: TableFile, samples: Sequence[str], key: str) -> tuple[Any, list[Any]]:
    """All numbers, one row for each feature, and the names of the features."""
    blocks, names, count = list[Any](), list[Any](), 0
    for block in file.source(samples, resolve_jobs(None), None, [key]).answers(itself):
        count += block.values.size
        if count > MOST_CELLS:
            msg = (
                f"{file.place} is too large to transpose: it has more than {MOST_CELLS:,} cells.\n"
                "Hint: write it with samples in rows, for instance as Parquet."
            )
            raise DataError(msg)
        blocks.append(block.values)
        names += block.others.column(key).to_pylist()
    if not blocks:
        msg = f"{file.place} has no rows."
        raise DataError(msg)
    return np.concatenate(blocks).astype(np.float64), names


def _distinct(found: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Different names, where repeated ones are numbered as A, A.1, A.2; and those that were numbered."""
    texts = ["unnamed" if name is None or not str(name).strip() else str(name).strip() for name in found]
    known, seen, out, numbered = set(texts), Counter[str](), list[str](), list[str]()
    for text in texts:
        name = text
        while seen[text] and name in known:
            name = f"{text}.{seen[text]}"
            seen[text] += name in known
        numbered += [name] if name != text else []
        seen[text] += 1
        known.add(name)
        out.append(name)
    return out, numbered


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")
