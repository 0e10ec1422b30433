"""Writing rows to .npy, Parquet, Feather or text files, piece by piece."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from probpca.atomic_write import appearing
from probpca.errors import SourceError
from probpca.sources.files import arrow_module, delimiter_of, is_compressed, is_number, written_format

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from probpca.typing import Floats, Index


def write_rows(path: str | os.PathLike[str], answers: Iterable[Floats], names: Sequence[str]) -> Path:
    """Write successive arrays of rows to a file; its extension chooses .npy, Parquet, Feather or CSV.

    ``names`` are the names of the columns. The file appears only once it is complete.
    """
    place = Path(path)
    tables = (answer.reshape(len(answer), len(names)) for answer in answers)
    if written_format(place) == "npy":
        with appearing(place) as part:
            _write_npy(part, tables, len(names))
        return place
    return write_batches(place, _record_batches(tables, names))


def write_batches(path: str | os.PathLike[str], batches: Iterable[Any], *, safe_cells: bool = False) -> Path:
    """Write at least one Arrow record batch to a file; its extension chooses .npy, Parquet, Feather or CSV.

    A .npy file holds the numeric columns only. The file appears only once it is complete. ``safe_cells`` is for CSV,
    as in ``stream_batches``.
    """
    place = Path(path)
    kind = written_format(place)
    with appearing(place) as part:
        if kind == "npy":
            tables = map(_numbers, batches)
            first = next(tables)
            _write_npy(part, chain([first], tables), first.shape[1])
        else:
            compression = "gzip" if is_compressed(place) else None
            with arrow_module("pyarrow").output_stream(str(part), compression=compression) as stream:
                stream_batches(stream, batches, kind, delimiter_of(place), safe_cells=safe_cells)
    return place


def stream_batches(
    stream: Any, batches: Iterable[Any], kind: str = "csv", delimiter: str = ",", *, safe_cells: bool = False
) -> None:
    """Write at least one Arrow record batch to a binary stream.

    With ``safe_cells``, CSV has an apostrophe before cells of text and column names that a spreadsheet would take for
    a formula: those that begin with =, +, -, @, a tab or a line break, and are not numbers.
    """
    batches = _text_batches(batches, safe_cells=safe_cells) if kind == "csv" else iter(batches)
    first = next(batches)
    with _writer(stream, kind, first.schema, delimiter) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)


def batch_of(columns: Mapping[str, Any], types: Mapping[str, Any] | None = None) -> Any:
    """Record batch of named arrays or lists; NaN becomes null. ``types`` gives Arrow types of some columns."""
    pa = arrow_module("pyarrow")
    arrays = {name: _array(pa, values) for name, values in columns.items()}
    arrays |= {name: arrays[name].cast(kind) for name, kind in (types or {}).items()}
    return pa.record_batch(list(arrays.values()), names=list(arrays))


def take_rows(above: Any, below: Any, order: Index) -> Any:
    """Concatenate two record batches, ``above`` may be None, and take rows in the given order, as a copy."""
    pa = arrow_module("pyarrow")
    before = 0 if above is None else above.num_rows
    added = order >= before
    parts = [below.take(pa.array(order[added] - before))]
    places = np.where(added, before - 1 + np.cumsum(added), order)
    both = pa.Table.from_batches(parts if above is None else [above, *parts]).combine_chunks()
    return both.take(pa.array(places)).combine_chunks().to_batches()[0]


def _record_batches(tables: Iterable[Floats], names: Sequence[str]) -> Iterator[Any]:
    """Record batches of arrays with named columns; one empty batch if there are no arrays."""
    pa = arrow_module("pyarrow")
    schema = pa.schema([(name, pa.float64()) for name in names])
    tables = iter(tables)
    first = next(tables, np.empty((0, len(names))))
    for table in chain([first], tables):
        yield pa.record_batch([pa.array(column, pa.float64()) for column in table.T], schema=schema)


FORMULA = r"^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""How a cell begins that a spreadsheet may take for a formula; the last four are wide forms of = + - @."""


def _text_batches(batches: Iterable[Any], *, safe_cells: bool) -> Iterator[Any]:
    """Record batches that a text file can store: bytes become text, and nested columns are refused."""
    pa, start = arrow_module("pyarrow"), 0
    for batch in batches:
        names, columns = batch.schema.names, batch.columns
        if set(batch.schema.types) != {pa.float64()}:
            columns = [_as_text(name, column, start) for name, column in zip(names, columns, strict=True)]
        if safe_cells:
            names, columns = [_safe(name) for name in names], list(map(_safe_column, columns))
        yield pa.record_batch(columns, names=names)
        start += batch.num_rows


def _as_text(name: str, column: Any, start: int) -> Any:
    """A column that a text file can store; ``start`` rows come before it."""
    types = arrow_module("pyarrow").types
    what = f"a {column.type}" if types.is_nested(column.type) else ""
    if types.is_binary(column.type) or types.is_large_binary(column.type) or types.is_fixed_size_binary(column.type):
        cells = column.to_pylist()
        odd = next((i for i, cell in enumerate(cells) if cell is not None and not _is_utf8(cell)), None)
        if odd is None:
            return arrow_module("pyarrow").array([cell if cell is None else cell.decode() for cell in cells])
        what = f"bytes in row {start + odd + 1:,} that are not UTF-8 text"
    if what:
        msg = f"column {name!r} holds {what}, which a text file cannot store.\nHint: write a .parquet file."
        raise SourceError(msg)
    return column


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _safe_column(column: Any) -> Any:
    """A column whose texts begin with an apostrophe where a spreadsheet would take them for formulas."""
    pa = arrow_module("pyarrow")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return column
    return pa.array([cell if cell is None else _safe(cell) for cell in column.to_pylist()], pa.string())


def _safe(text: str) -> str:
    return f"'{text}" if re.match(FORMULA, text) and not is_number(text) else text


def _array(pa: Any, values: Any) -> Any:
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return pa.array(values, pa.string())  # also if all are None
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return pa.array(np.ascontiguousarray(values, np.float64), from_pandas=True)
    return pa.array(values)


def _writer(stream: Any, kind: str, schema: Any, delimiter: str) -> Any:
    if kind == "parquet":
        return arrow_module("pyarrow.parquet").ParquetWriter(stream, schema)
    if kind == "csv":
        csv = arrow_module("pyarrow.csv")
        return csv.CSVWriter(stream, schema, write_options=csv.WriteOptions(delimiter=delimiter))
    return arrow_module("pyarrow").ipc.new_file(stream, schema)


def _numbers(batch: Any) -> Floats:
    """Numeric columns of a record batch as one array: (b, d)."""
    arrow = arrow_module("probpca.sources.readers.arrow")
    names = tuple(field.name for field in batch.schema if arrow.is_number(field.type))
    values: Floats = arrow.Layout(names, np.float64).values(batch)
    return values


def _write_npy(part: Path, tables: Iterable[Floats], width: int) -> None:
    """Write arrays to a .npy file; its header is written again at the end, when the number of rows is known."""
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
