"""Tables to Parquet, Feather and CSV files, by pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv, parquet

from probpca.sources.files import delimiter_of, is_compressed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from probpca.typing import Floats


def write(part: Path, kind: str, place: Path, tables: Iterable[Floats], names: Sequence[str]) -> None:
    """Write tables with named columns, one below the other; ``place`` is where they will be in the end."""
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pa.output_stream(str(part), compression="gzip" if is_compressed(place) else None) as stream:
        writer: Any
        if kind == "parquet":
            writer = parquet.ParquetWriter(stream, schema)
        elif kind == "csv":
            options = csv.WriteOptions(delimiter=delimiter_of(place))
            writer = csv.CSVWriter(stream, schema, write_options=options)
        else:
            writer = pa.ipc.new_file(stream, schema)
        with writer:
            for table in tables:
                columns = [pa.array(column, pa.float64()) for column in table.T]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
