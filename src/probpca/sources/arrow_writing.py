"""Tables to Parquet, Feather and CSV files, by pyarrow."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from probpca.errors import SourceError
from probpca.sources.files import delimiter_of, is_compressed
from probpca.sources.readers.arrow import NUMBERS, Layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from probpca.typing import Floats


def write(part: Path, kind: str, place: Path, tables: Iterable[Floats], names: Sequence[str]) -> None:
    """Write tables with named columns, one below the other; ``place`` is where they will be in the end."""
    schema = pa.schema([(name, pa.float64()) for name in names])
    with output(part, place) as stream, writer_of(stream, kind, schema, delimiter_of(place)) as writer:
        for table in tables:
            columns = [pa.array(column, pa.float64()) for column in table.T]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def write_batches(stream: Any, kind: str, batches: Iterable[Any], delimiter: str = ",") -> int:
    """Write record batches, one below the other, with the columns of the first; the number of rows."""
    batches = iter(batches)
    first = next(batches)
    nested = [field for field in first.schema if pa.types.is_nested(field.type)]
    if nested and kind == "csv":
        msg = f"column {nested[0].name!r} holds a {nested[0].type}, which no text file can.\nHint: write .parquet."
        raise SourceError(msg)
    n = 0
    with writer_of(stream, kind, first.schema, delimiter) as writer:
        for batch in chain([first], batches):
            writer.write_batch(batch)
            n += batch.num_rows
    return n


def output(part: Path, place: Path) -> Any:
    """A file to write to, packed if the name of ``place`` says so."""
    return pa.output_stream(str(part), compression="gzip" if is_compressed(place) else None)


def writer_of(stream: Any, kind: str, schema: Any, delimiter: str) -> Any:
    """Something that writes tables in this format."""
    if kind == "parquet":
        return parquet.ParquetWriter(stream, schema)
    if kind == "csv":
        return csv.CSVWriter(stream, schema, write_options=csv.WriteOptions(delimiter=delimiter))
    return pa.ipc.new_file(stream, schema)


def numbers_of(batch: Any) -> Floats:
    """The columns of a batch that hold numbers, side by side: (b, d)."""
    names = [field.name for field in batch.schema if any(is_kind(field.type) for is_kind in NUMBERS)]
    return Layout(tuple(names), np.float64).values(batch)
