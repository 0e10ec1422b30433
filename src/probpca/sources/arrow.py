"""Rows in Parquet, Feather and CSV files, by pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv, dataset, parquet

from probpca.errors import DataError, SourceError
from probpca.rows import Block
from probpca.sources.arrow_layout import Layout, check_header
from probpca.sources.files import delimiter_of, is_compressed
from probpca.sources.parts import Parts
from probpca.sources.stamps import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from probpca.sources.protocol import Watch
    from probpca.typing import Floats

CSV_BYTES = 2**23
MISSING = ("-", "--", "?", ".", "None", "none", "NONE", "Na", "N.A.", "n.a.", "#NULL!", "#VALUE!", "#DIV/0!")
"""What people write in a cell of a text file that holds nothing, beside what pyarrow knows."""
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
    """What to say of a file that ends early or holds something else."""
    return SourceError(f"{where} cannot be read: {error}.\nHint: the file may be truncated or damaged; write it again.")


def unreadable(place: Path, error: Exception) -> DataError:
    """What to say of a cell that is no number, or of a line that has too many cells."""
    found = re.search(r"In CSV column #(\d+): .*invalid value '(.*)'", str(error), re.DOTALL)
    if found is None:
        return DataError(f"{place} cannot be read as numbers: {error}.")
    number, text = int(found[1]), found[2]
    with opened(place) as stream, csv_reader(stream, place, {}) as reader:
        name = reader.schema.names[number]
    where = f"row {row:,}, column {name!r}" if (row := _row_of(place, name, text)) else f"column {name!r}"
    return DataError(
        f"{place} cannot be read as numbers: {where} holds {text!r}.\n"
        "Hint: a missing cell is empty or NA; leave the column out if it holds text."
    )


def _row_of(place: Path, name: str, text: str) -> int:
    """The first row, counted from 1, in which a cell is this text; 0 if there is none."""
    before = 0
    with opened(place) as stream, csv_reader(stream, place, {name: pa.string()}) as reader:
        for batch in reader:
            found: int = compute.index(batch.column(0), text).as_py()
            if found >= 0:
                return before + found + 1
            before += batch.num_rows
    return 0


@final
@dataclass(frozen=True, eq=False)
class Csv(Iterable[Any]):
    """A text file of numbers with a line of names, read from the top whenever it is asked for."""

    stamp: Stamp
    layout: Layout
    flags: frozenset[str]  # columns of true and false
    watch: Watch | None = None
    counts: list[int] = field(default_factory=list)  # batches of the last pass that reached the end

    @classmethod
    def of(cls, place: Path, columns: Sequence[str] | None, watch: Watch | None = None) -> Csv:
        """Look at the first rows to see which columns hold numbers."""
        stamp = Stamp.of(place)
        try:
            with opened(place) as stream, csv_reader(stream, place, {}) as reader:
                schema = reader.schema
        except (pa.ArrowException, OSError) as error:
            raise damaged(str(place), error) from error
        if columns is None:
            check_header(schema.names, place)
        names = Layout.of(schema, columns, place).names
        flags = frozenset(name for name in names if pa.types.is_boolean(schema.field(name).type))
        return cls(stamp, Layout(names, np.float64), flags, watch)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return self.layout.names

    def __iter__(self) -> Iterator[Floats]:
        """Batches of rows; one without any where the file has none."""
        self.stamp.check()
        place, names = self.stamp.path, self.layout.names
        kinds = {name: pa.bool_() if name in self.flags else pa.float64() for name in names}
        done = 0
        try:
            with opened(place) as stream, csv_reader(stream, place, kinds) as reader:
                for done, batch in enumerate(reader, 1):
                    yield self.layout.values(batch)
                    self._tell(done)
            if not done:
                yield np.empty((0, len(names)))
            self._tell(done, end=True)
        except pa.ArrowInvalid as error:
            raise unreadable(place, error) from error
        except (pa.ArrowException, OSError) as error:
            raise damaged(str(place), error) from error

    def _tell(self, done: int, *, end: bool = False) -> None:
        """Say how far a pass has come; how long a compressed text is shows when it has been read."""
        place, size = self.stamp.path, self.stamp.size
        total = self.counts[-1] if self.counts else None if is_compressed(place) else max(-(-size // CSV_BYTES), 1)
        if self.watch is not None and total is not None and (end or done < total):
            self.watch(total if end else done, total)
        if end:
            self.counts[:] = [max(done, 1)]


def opened(place: Path) -> Any:
    """The bytes of a text file, unpacked if they are packed."""
    return pa.input_stream(str(place), compression="gzip" if is_compressed(place) else None)


def csv_reader(stream: Any, place: Path, kinds: dict[str, Any]) -> Any:
    """Read the columns that have a kind, or all; a cell may hold a line break, and one that says so is missing."""
    known = csv.ConvertOptions().null_values
    missing = [padded for marker in (*known, *MISSING) for padded in (marker, f" {marker}")]
    return csv.open_csv(
        stream,
        read_options=csv.ReadOptions(block_size=CSV_BYTES),
        parse_options=csv.ParseOptions(delimiter=delimiter_of(place), newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=kinds, include_columns=list(kinds), null_values=missing),
    )
