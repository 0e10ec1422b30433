"""Writing rows to .npy, Parquet, Feather or text files, piece by piece."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from probpca.atomic_write import appearing
from probpca.errors import SourceError
from probpca.sources.files import arrow_module, delimiter_of, is_compressed, written_format

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


def write_batches(path: str | os.PathLike[str], batches: Iterable[Any]) -> Path:
    """Write at least one Arrow record batch to a file; its extension chooses .npy, Parquet, Feather or CSV.

    A .npy file holds the numeric columns only. The file appears only once it is complete.
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
                stream_batches(stream, batches, kind, delimiter_of(place))
    return place


def stream_batches(stream: Any, batches: Iterable[Any], kind: str = "csv", delimiter: str = ",") -> None:
    """Write at least one Arrow record batch to a binary stream."""
    pa = arrow_module("pyarrow")
    batches = iter(batches)
    first = next(batches)
    nested = [field for field in first.schema if pa.types.is_nested(field.type)]
    if nested and kind == "csv":
        msg = (
            f"column {nested[0].name!r} holds a {nested[0].type}, which a text file cannot store.\n"
            "Hint: write a .parquet file."
        )
        raise SourceError(msg)
    with _writer(stream, kind, first.schema, delimiter) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)


def batch_of(columns: Mapping[str, Any], types: Mapping[str, Any] | None = None) -> Any:
    """Record batch of named arrays or lists; NaN becomes null. ``types`` gives Arrow types of some columns."""
    arrays = {name: _array(values) for name, values in columns.items()}
    arrays |= {name: arrays[name].cast(kind) for name, kind in (types or {}).items()}
    return arrow_module("pyarrow").record_batch(list(arrays.values()), names=list(arrays))


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


def _array(values: Any) -> Any:
    pa = arrow_module("pyarrow")
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return pa.array(values, pa.string())  # also if all are None
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return pa.array(values.astype(np.float64), from_pandas=True)
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
