"""Which columns of a table of Arrow are read, and as what."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import dataset, parquet

from probpca.blocks import Block
from probpca.errors import DataError, SourceError
from probpca.sources.files import Stamp
from probpca.sources.source import Parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from probpca.sources.source import Watch
    from probpca.typing import Floats

BLOCK_BYTES = 2**24
BLOCK_ROWS = 1024, 65536
NUMBERS = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)


class Layout(NamedTuple):
    """Which columns are read, and as what."""

    names: tuple[str, ...]
    dtype: Any

    @classmethod
    def of(cls, schema: Any, columns: Sequence[str] | None, place: Path) -> Layout:
        """All columns of the schema but the index of pandas, or some; each must hold numbers."""
        names = _all_but_index(schema) if columns is None else tuple(columns)
        known = Counter(schema.names)
        for name in names:
            _check_column(schema, known, name, place)
        types = [schema.field(name).type for name in names]
        single = all(pa.types.is_float32(kind) or pa.types.is_float16(kind) for kind in types)
        return cls(names, np.float32 if single and names else np.float64)

    def and_of(self, schema: Any, place: Path) -> Layout:
        """The same columns of one more file: single precision is that of both."""
        other = Layout.of(schema, self.names, place)
        return other if self.dtype is np.float32 else self

    def values(self, batch: Any) -> Floats:
        """A record batch as an array, nulls as NaN: (b, d), by columns."""
        out = np.empty((len(self.names), batch.num_rows), self.dtype)
        for row, name in zip(out, self.names, strict=True):
            column = batch.column(name)
            if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
                column = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
                column = column.cast(pa.float64())
            row[:] = column.to_numpy(zero_copy_only=False)
        return out.T

    @property
    def block_rows(self) -> int:
        """Rows of one block."""
        return int(np.clip(BLOCK_BYTES // (8 * max(len(self.names), 1)), *BLOCK_ROWS))


def _all_but_index(schema: Any) -> tuple[str, ...]:
    index = index_columns(schema)
    return tuple(name for name in schema.names if name not in index)


def index_columns(schema: Any) -> list[Any]:
    """Names of the columns in which pandas keeps the names of rows."""
    found: list[Any] = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in found if isinstance(name, str)]


def _check_column(schema: Any, known: Counter[str], name: str, place: Path) -> None:
    if name not in known:
        some = ", ".join([*known][:8]) + (", ..." if len(known) > 8 else "")
        msg = f"{place} has no column {name!r}; it has {some}."
        raise SourceError(msg)
    if known[name] > 1:
        msg = (
            f"columns must have names of their own; {place} has {known[name]} columns {name!r}.\n"
            "Hint: rename them, or name the columns to read with open_source(path, columns=[...])."
        )
        raise DataError(msg)
    kind = schema.field(name).type
    if not any(is_kind(kind) for is_kind in NUMBERS):
        msg = (
            f"column {name!r} of {place} holds {kind}, not numbers.\nHint: name the columns to read with columns=[...]."
        )
        raise DataError(msg)


BUFFERS: dict[str, Any] = {"pre_buffer": False, "buffer_size": 2**18}  # so that large row groups are not held whole


class _Group(NamedTuple):
    """One row group of a Parquet file, or one record batch of a Feather file."""

    stamp: Stamp
    number: int
    metadata: Any = None

    @property
    def name(self) -> str:
        return f"{self.stamp.path}, row group {self.number}"


def open_parquet(place: Path, columns: Sequence[str] | None, n_jobs: int, watch: Watch | None) -> Parts:
    """A Parquet file, or all those in a folder, a row group at a time."""
    groups: list[_Group] = []
    layout, n_rows = None, 0
    for path in parquet_files(place):
        stamp = Stamp.of(path)
        try:
            with parquet.ParquetFile(path) as file:
                schema, metadata = file.schema_arrow, file.metadata
        except (pa.ArrowException, OSError) as error:
            raise damaged(str(path), error) from error
        layout = Layout.of(schema, columns, path) if layout is None else layout.and_of(schema, path)
        groups += [_Group(stamp, k, metadata) for k in range(metadata.num_row_groups)]
        n_rows += metadata.num_rows
    assert layout is not None  # noqa: S101
    return _parts(groups, partial(_read_parquet, layout), layout, n_rows, n_jobs, watch)


def parquet_files(place: Path) -> list[Path]:
    """The file itself, or those in a folder, by name."""
    if not place.is_dir():
        return [place]
    found = sorted(p for p in place.rglob("*") if p.suffix.lower() in (".parquet", ".pq") and p.name[0] not in "._")
    if not found:
        msg = f"there is no Parquet file in {place}."
        raise SourceError(msg)
    return found


def open_feather(place: Path, columns: Sequence[str] | None, n_jobs: int, watch: Watch | None) -> Parts:
    """A Feather or Arrow file, a record batch at a time."""
    try:
        with pa.memory_map(str(place)) as source, pa.ipc.open_file(source) as file:
            layout, count = Layout.of(file.schema, columns, place), file.num_record_batches
        n_rows = dataset.dataset(place, format="feather").count_rows()
    except (pa.ArrowException, OSError) as error:
        raise damaged(str(place), error) from error
    groups = [_Group(Stamp.of(place), k) for k in range(count)]
    return _parts(groups, partial(_read_feather, layout), layout, n_rows, n_jobs, watch)


def _parts(groups: list[_Group], read: Any, layout: Layout, n_rows: int, n_jobs: int, watch: Watch | None) -> Parts:
    d, single = len(layout.names), layout.dtype == np.float32
    return Parts(groups, read, d, n_rows, n_jobs, single, layout.names, watch)


def _read_parquet(layout: Layout, group: _Group) -> Iterator[Block]:
    group.stamp.check()
    names = list(layout.names)
    try:
        with parquet.ParquetFile(group.stamp.path, metadata=group.metadata, **BUFFERS) as file:
            batches = file.iter_batches(layout.block_rows, row_groups=[group.number], columns=names, use_threads=False)
            for batch in batches:
                yield Block(layout.values(batch))
    except (pa.ArrowException, OSError) as error:
        raise damaged(group.name, error) from error


def _read_feather(layout: Layout, group: _Group) -> Iterator[Block]:
    group.stamp.check()
    try:
        with pa.memory_map(str(group.stamp.path)) as source, pa.ipc.open_file(source) as file:
            batch = file.get_batch(group.number)
            for start in range(0, batch.num_rows, layout.block_rows):
                yield Block(layout.values(batch.slice(start, layout.block_rows)))
    except (pa.ArrowException, OSError) as error:
        raise damaged(group.name, error) from error


def damaged(where: str, error: Exception) -> SourceError:
    """What to say of a file that may not be read, ends early or holds something else."""
    if isinstance(error, PermissionError | IsADirectoryError):
        return SourceError(f"{where} cannot be read: {error.strerror}.")
    return SourceError(f"{where} cannot be read: {error}.\nHint: the file may be truncated or damaged; write it again.")
