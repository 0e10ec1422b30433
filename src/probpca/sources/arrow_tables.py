"""Tables whole: the columns that a model sees, and those that go along with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from probpca.errors import SourceError
from probpca.sources.files import file_format, is_compressed
from probpca.sources.readers import csv as arrow_text
from probpca.sources.readers.arrow import BUFFERS, Layout, damaged, parquet_files
from probpca.sources.readers.npy import open_npy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from probpca.sources.source import Watch
    from probpca.typing import Floats


def schema_of(place: Path) -> Any:
    """Names and types of all columns; of a text file as its first rows let them appear."""
    kind = file_format(place)
    try:
        if kind == "npy":
            return pa.schema([(f"x{j}", pa.float64()) for j in range(open_npy(place, None, 1, None).n_features)])
        if kind == "parquet":
            return parquet.read_schema(parquet_files(place)[0])
        if kind == "feather":
            with pa.memory_map(str(place)) as source, pa.ipc.open_file(source) as file:
                return file.schema
    except (pa.ArrowException, OSError) as error:
        raise damaged(str(place), error) from error
    return arrow_text.schema_of_text(place)


def first_rows(place: Path, names: Sequence[str], count: int) -> Any:
    """Some columns of the first rows of a Parquet or Feather file, ``count`` of them or less."""
    try:
        if file_format(place) == "parquet":
            with parquet.ParquetFile(parquet_files(place)[0], **BUFFERS) as file:
                batch = next(file.iter_batches(count, columns=list(names), use_threads=False), None)
        else:
            with pa.memory_map(str(place)) as source, pa.ipc.open_file(source) as file:
                batch = file.get_batch(0) if file.num_record_batches else None
    except (pa.ArrowException, OSError) as error:
        raise damaged(str(place), error) from error
    batch = pa.RecordBatch.from_pylist([], schema_of(place)) if batch is None else batch
    return batch.select(list(names)).slice(0, count)


@final
@dataclass(frozen=True, eq=False)
class ArrowTable:
    """A file of rows, read batch by batch; ``layout`` are the columns that hold numbers for a model."""

    place: Path
    schema: Any
    layout: Layout

    @classmethod
    def of(cls, place: Path, numbers: Sequence[str]) -> ArrowTable:
        """Choose the columns to take for numbers."""
        schema = schema_of(place)
        layout = Layout.of(schema, numbers, place)
        single = file_format(place) == "npy" and open_npy(place, None, 1, None).single_precision
        return cls(place, schema, Layout(layout.names, np.float32) if single else layout)

    @cached_property
    def others(self) -> list[str]:
        """Names of the columns that go along."""
        numbers = set(self.layout.names)
        return [name for name in self.schema.names if name not in numbers]

    def batches(self, watch: Watch | None = None) -> Iterator[Any]:
        """Rows as record batches that are not empty, all columns in their order."""
        read = {"npy": self._npy, "csv": self._csv, "parquet": self._parquet, "feather": self._feather}
        return (batch for batch in read[file_format(self.place)](watch) if batch.num_rows)

    def complete(self) -> frozenset[str]:
        """Columns for a model, of one type that is not floating point, that lack no cell as far as the file says so."""
        exact = {name for name in self.layout.names if not pa.types.is_floating(self.schema.field(name).type)}
        kind = file_format(self.place)
        if not exact or kind not in ("parquet", "feather"):
            return frozenset()
        try:
            if kind == "parquet":
                return frozenset(exact - _lacking_in_parquet(self.place, self.schema))
            return frozenset(exact - _lacking_in_feather(self.place, exact))
        except (pa.ArrowException, OSError) as error:
            raise damaged(str(self.place), error) from error

    def values(self, batch: Any) -> Floats:
        """The numbers of a batch, missing ones as NaN: (b, d)."""
        return self.layout.values(batch)

    def _npy(self, watch: Watch | None) -> Iterator[Any]:
        source = open_npy(self.place, None, 1, watch)
        for block in source.blocks:
            yield batch_of(dict(zip(self.schema.names, np.asarray(block.values).T, strict=True)))

    def _csv(self, watch: Watch | None) -> Iterator[Any]:
        """What goes along is text, as it stands there."""
        kinds = dict.fromkeys(self.schema.names, pa.binary()) | dict.fromkeys(self.layout.names, pa.float64())
        flags = [name for name in self.layout.names if pa.types.is_boolean(self.schema.field(name).type)]
        kinds |= dict.fromkeys(flags, pa.bool_())
        total = 0 if is_compressed(self.place) else -(-self.place.stat().st_size // arrow_text.CSV_BYTES)
        with arrow_text.reading(self.place, kinds) as reader:
            for done, batch in enumerate(reader, 1):
                yield _readable(batch)
                _tell(watch, done, total)

    def _parquet(self, watch: Watch | None) -> Iterator[Any]:
        files, rows = parquet_files(self.place), 0
        total = sum(parquet.read_metadata(path).num_rows for path in files) if watch else 0
        for path in files:
            try:
                with parquet.ParquetFile(path, **BUFFERS) as file:
                    self._check(file.schema_arrow, path)
                    names = self.schema.names
                    for batch in file.iter_batches(self.layout.block_rows, columns=names, use_threads=False):
                        yield batch.select(names)
                        rows += batch.num_rows
                        _tell(watch, rows, total)
            except (pa.ArrowException, OSError) as error:
                raise damaged(str(path), error) from error

    def _feather(self, watch: Watch | None) -> Iterator[Any]:
        try:
            with pa.memory_map(str(self.place)) as source, pa.ipc.open_file(source) as file:
                for k in range(file.num_record_batches):
                    batch = file.get_batch(k)
                    for start in range(0, batch.num_rows, self.layout.block_rows):
                        yield batch.slice(start, self.layout.block_rows)
                    _tell(watch, k + 1, file.num_record_batches)
        except (pa.ArrowException, OSError) as error:
            raise damaged(str(self.place), error) from error

    def _check(self, schema: Any, path: Path) -> None:
        """Files of one folder have the same columns."""
        if set(schema.names) != set(self.schema.names):
            odd = min(set(schema.names) ^ set(self.schema.names))
            msg = f"files in {self.place} must have the same columns; {path.name} differs in {odd!r}."
            raise SourceError(msg)


def _lacking_in_parquet(place: Path, schema: Any) -> set[str]:
    """Columns that lack cells, or may, and those that have another type in some file."""
    found = set()
    for path in parquet_files(place):
        metadata = parquet.read_metadata(path)
        kinds = metadata.schema.to_arrow_schema()
        found |= {field.name for field in kinds if field.type != schema.field(field.name).type}
        groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
        chunks = [group.column(j) for group in groups for j in range(metadata.num_columns)]
        found |= {chunk.path_in_schema for chunk in chunks if not chunk.statistics or chunk.statistics.null_count != 0}
    return found


def _lacking_in_feather(place: Path, names: set[str]) -> set[str]:
    found = set()
    with pa.memory_map(str(place)) as source, pa.ipc.open_file(source) as file:
        for k in range(file.num_record_batches):
            batch = file.get_batch(k)
            found |= {name for name in names if batch.column(name).null_count}
    return found


def _readable(batch: Any) -> Any:
    """Text that is not UTF-8, as old spreadsheets write it, in letters."""
    texts = [field.name for field in batch.schema if pa.types.is_binary(field.type)]
    return with_columns(batch, {name: _letters(batch.column(name)) for name in texts})


def _letters(column: Any) -> Any:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return [str(cell, "cp1252", "replace") for cell in column.to_pylist()]


def _tell(watch: Watch | None, done: int, total: int) -> None:
    if watch is not None and total:
        watch(min(done, total), total)


def batch_of(columns: Mapping[str, Any]) -> Any:
    """A record batch of arrays or lists, NaN as null."""
    return pa.record_batch([_array(values) for values in columns.values()], names=list(columns))


def with_columns(batch: Any, columns: Mapping[str, Any]) -> Any:
    """The batch with other values in columns of these names, or with more columns at its end."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays |= {name: _array(values) for name, values in columns.items()}
    return pa.record_batch(list(arrays.values()), names=list(arrays))  # without what pandas says of former types


def filled(batch: Any, columns: Mapping[str, Any], schema: Any) -> Any:
    """The batch with these values in columns that lack some; floating point keeps the precision of the schema."""
    kinds = {field.name: field.type for field in schema}
    arrays = {name: _array(values) for name, values in columns.items()}
    return with_columns(
        batch, {name: a.cast(kinds[name]) if pa.types.is_floating(kinds[name]) else a for name, a in arrays.items()}
    )


def picked(above: Any, below: Any, order: Any) -> Any:
    """Rows of two batches, one below the other, in this order; ``above`` may be None. The batches may be forgotten."""
    before = 0 if above is None else above.num_rows
    added = order >= before
    parts = [below.take(pa.array(order[added] - before))]
    places = np.where(added, before - 1 + np.cumsum(added), order)
    both = pa.Table.from_batches(parts if above is None else [above, *parts]).combine_chunks()
    return both.take(pa.array(places)).combine_chunks().to_batches()[0]


def _array(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return pa.array(values, pa.string())  # also where all are None
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return pa.array(values.astype(np.float64), from_pandas=True)
    return pa.array(values)


def as_lists(batch: Any, names: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """Columns of a batch as Python has them."""
    chosen = batch if names is None else batch.select(list(names))
    found: dict[str, list[Any]] = chosen.to_pydict()
    return found
