"""Rows from Parquet and Feather files, and from folders of Parquet files, read block by block."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pyarrow as pa
from pyarrow import compute, dataset, fs, parquet

from probpca.blocks import Block
from probpca.errors import DataError, SourceError
from probpca.result_tables import clip
from probpca.sources.engines.local import LocalEngine
from probpca.sources.files import Column, Stamp, coded_as_missing, file_format
from probpca.sources.source import Info, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from probpca.errors import ProbpcaError
    from probpca.sources.source import Watch
    from probpca.sources.table_format import TableFormat
    from probpca.typing import Floats

BLOCK_BYTES = 2**22
"""Size of a block. Larger ones are not read faster, and pyarrow holds several copies of one while it reads."""
BLOCK_ROWS = 1024, 65536
KINDS = {
    "numbers": (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal),
    "true or false": (pa.types.is_boolean,),
    "empty": (pa.types.is_null,),
    "dates": (pa.types.is_date, pa.types.is_timestamp),
    "text": (
        *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary),
        *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    ),
}


class Layout(NamedTuple):
    """Columns to read as features, their precision, and other columns to keep with the rows."""

    names: tuple[str, ...]
    dtype: Any
    others: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()  # numbers that mean a missing cell

    @classmethod
    def of(cls, schema: Any, columns: Sequence[str] | None, place: Path) -> Layout:
        """Layout of the chosen columns, by default all but a pandas index; each must be numeric."""
        index, known = index_columns(schema), schema.names
        names = tuple(name for name in known if name not in index) if columns is None else tuple(columns)
        types, counts = dict(zip(known, schema.types, strict=True)), Counter(known)
        numeric = {kind for kind in set(types.values()) if is_number(kind)}
        for name in names:
            if counts[name] != 1 or types[name] not in numeric:
                raise _unusable(schema, counts, name, place)
        single = all(pa.types.is_float32(kind) or pa.types.is_float16(kind) for kind in {types[name] for name in names})
        return cls(names, np.float32 if single and names else np.float64)

    def block(self, batch: Any) -> Block:
        """Block of a record batch; it carries the other columns."""
        others = batch.select(list(self.others)) if self.others else None
        if others is not None:
            others.validate(full=True)  # text of a damaged file need not be UTF-8
        return Block(self.values(batch), others=others)

    def values(self, batch: Any) -> Floats:
        """Features of a record batch as an array in Fortran order, with NaN for nulls: (b, d)."""
        names = list(self.names)
        features = batch if batch.schema.names == names else batch.select(names)
        if features.num_columns and set(features.schema.types) <= {pa.float32(), pa.float64()}:
            # All columns in one call: one after the other they would take longer than reading them.
            out = features.to_tensor(null_to_nan=True, row_major=False).to_numpy().astype(self.dtype, copy=False)
        else:
            out = np.empty((len(self.names), batch.num_rows), self.dtype).T
            for values, column in zip(out.T, features.columns, strict=True):
                values[:] = _numbers(column)
        return coded_as_missing(out, self.codes)

    @property
    def block_rows(self) -> int:
        """Number of rows of one block."""
        return int(np.clip(BLOCK_BYTES // (8 * max(len(self.names), 1)), *BLOCK_ROWS))


def _numbers(column: Any) -> Any:
    """Numbers of a column of any numeric type, with NaN for nulls: (b,)."""
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        column = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


class _Part(NamedTuple):
    """A row group of a Parquet file, or a whole Feather file."""

    path: Path
    fragment: Any  # of a pyarrow dataset
    row_group: int | None


@final
@dataclass(frozen=True, eq=False)
class ArrowFile:
    """A Parquet file, a folder of them, or a Feather file."""

    place: Path
    table_format: TableFormat
    named = True
    notes = ()

    def columns(self) -> tuple[Column, ...]:
        """All columns in order."""
        return columns_of(self.place)

    def source(
        self,
        columns: Sequence[str] | None,
        n_jobs: int,
        watch: Watch | None = None,
        others: Sequence[str] | None = None,
    ) -> Source:
        """Source of the given numeric columns, all by default; ``others`` are available as ``Block.others``."""
        return open_arrow(self, columns, n_jobs, watch, others)

    def kept_types(self, features: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
        """Features without missing cells whose type is not floating point, and the types of those that are."""
        exact = () if self.table_format.codes else complete_columns(self.place, features)
        return sorted(exact), floating_types(self.place, features)


@final
@dataclass(frozen=True, eq=False)
class HeldTable:
    """A table in memory, from standard input or transposed."""

    place: Path
    table: Any  # a pyarrow Table
    table_format: TableFormat
    named: bool = True
    notes: tuple[str, ...] = ()

    def columns(self) -> tuple[Column, ...]:
        """All columns in order."""
        return _columns(self.table.schema, self.table)

    def source(
        self,
        columns: Sequence[str] | None,
        n_jobs: int,
        watch: Watch | None = None,
        others: Sequence[str] | None = None,
    ) -> Source:
        """Source of the given numeric columns, all by default; ``others`` are available as ``Block.others``."""
        layout = Layout.of(self.table.schema, columns, self.place)
        layout = layout._replace(others=tuple(others or ()), codes=self.table_format.codes)
        chosen = self.table.select(list(dict.fromkeys([*layout.names, *layout.others])))
        parts = [batch for batch in chosen.to_batches(layout.block_rows) if batch.num_rows]
        n_rows, d = self.table.num_rows, len(layout.names)
        info = Info(
            n_features=d,
            n_rows=n_rows,
            n_stored=n_rows * d,
            columns=layout.names if self.named else None,
            single_precision=layout.dtype is np.float32,
            n_jobs=n_jobs,
            file_bytes=n_rows * d * np.dtype(layout.dtype).itemsize,
        )
        engine = LocalEngine(parts, partial(_held_blocks, layout), n_jobs, watch)
        return Source(info, engine, glance=engine.has_missing)

    def kept_types(self, features: Sequence[str]) -> tuple[list[str], dict[str, Any]]:  # noqa: ARG002
        """Return nothing: all columns of numbers are written in floating point."""
        return [], {}


def _held_blocks(layout: Layout, batch: Any) -> tuple[Block]:
    return (layout.block(batch),)


def open_arrow(
    file: ArrowFile,
    columns: Sequence[str] | None,
    n_jobs: int,
    watch: Watch | None = None,
    others: Sequence[str] | None = None,
) -> Source:
    """Make a source of a Parquet file, of all Parquet files in a folder, or of a Feather file."""
    place, parts, stamps = file.place, list[_Part](), list[Stamp]()
    layout, n_rows = None, 0
    for path in arrow_files(place):
        stamps.append(Stamp.of(path))
        with damage_named(str(path)):
            fragment = _fragment(path)
            schema = fragment.physical_schema
            _ = schema.names  # which need not be UTF-8
        found = Layout.of(schema, columns if layout is None else layout.names, path)
        layout = (
            found if layout is None or layout.dtype is np.float32 else layout
        )  # single precision only if all files have it
        _require_others(schema, others, path)
        is_parquet = isinstance(fragment, dataset.ParquetFileFragment)
        with damage_named(str(path)):
            n_rows += fragment.metadata.num_rows if is_parquet else fragment.count_rows()
        parts += [_Part(path, fragment, k) for k in (range(fragment.num_row_groups) if is_parquet else [None])]
    assert layout is not None  # noqa: S101
    layout = layout._replace(others=tuple(others or ()), codes=file.table_format.codes)
    info = Info(
        n_features=len(layout.names),
        n_rows=n_rows,
        n_stored=n_rows * len(layout.names),
        columns=layout.names,
        single_precision=layout.dtype is np.float32,
        n_jobs=n_jobs,
        file_bytes=n_rows * len(layout.names) * np.dtype(layout.dtype).itemsize,
    )
    engine = LocalEngine(parts, partial(_read, layout), n_jobs, watch, stamps=tuple(stamps))
    return Source(info, engine, glance=engine.has_missing)


def arrow_files(place: Path) -> list[Path]:
    """The file itself, or the Parquet files in a folder, by name."""
    if not place.is_dir():
        return [place]
    found = sorted(p for p in place.rglob("*") if p.suffix.lower() in (".parquet", ".pq") and p.name[0] not in "._")
    if not found:
        msg = f"there is no Parquet file in {place}."
        raise SourceError(msg)
    return found


def index_columns(schema: Any) -> list[Any]:
    """Names of the columns in which pandas keeps the index of a dataframe."""
    found: list[Any] = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in found if isinstance(name, str)]


def is_number(kind: Any) -> bool:
    """Whether values of an Arrow type can be read as numbers."""
    return any(test(kind) for known in ("numbers", "true or false", "empty") for test in KINDS[known])


@contextmanager
def damage_named(where: str) -> Iterator[None]:
    """Raise ``SourceError`` with the name of the file if pyarrow cannot read it."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise damaged(where, error) from error


def damaged(where: str, error: Exception) -> SourceError:
    """Error for a file that cannot be read: no permission, truncated, or of another format."""
    if isinstance(error, PermissionError | IsADirectoryError):
        return SourceError(f"{where} cannot be read: {error.strerror}.")
    return SourceError(f"{where} cannot be read: {error}.\nHint: the file may be truncated or damaged; write it again.")


def _read(layout: Layout, part: _Part) -> Iterator[Block]:
    """Blocks of a part that are not empty."""
    group = "" if part.row_group is None else f", row group {part.row_group}"
    with damage_named(f"{part.path}{group}"):
        for batch in _batches(part.fragment, [*layout.names, *layout.others], layout.block_rows, part.row_group):
            if batch.num_rows:
                yield layout.block(batch)


def _fragment(path: Path) -> Any:
    known = dataset.ParquetFileFormat() if file_format(path) == "parquet" else dataset.IpcFileFormat()
    return known.make_fragment(str(path), fs.LocalFileSystem(use_mmap=file_format(path) != "parquet"))


def _batches(fragment: Any, names: Sequence[str], rows: int, group: int | None = None) -> Iterator[Any]:
    """Record batches of some columns, each of at most ``rows`` rows.

    A scan of a Parquet dataset decodes a row group whole, however large it is; ``iter_batches`` does not.
    """
    names = list(dict.fromkeys(names))
    if isinstance(fragment, dataset.ParquetFileFragment):
        groups = None if group is None else [group]
        with parquet.ParquetFile(
            fragment.path, metadata=fragment.metadata, pre_buffer=False, buffer_size=2**18
        ) as file:
            yield from file.iter_batches(rows, row_groups=groups, columns=names, use_threads=False)
        return
    yield from fragment.to_batches(columns=names, batch_size=rows, use_threads=False, batch_readahead=1)


def _unusable(schema: Any, known: Counter[str], name: str, place: Path) -> ProbpcaError:
    """Error for a column that does not exist, that exists several times, or that does not hold numbers."""
    if name not in known:
        some = ", ".join(map(clip, [*known][:8])) + (", ..." if len(known) > 8 else "")
        return SourceError(f"{place} has no column {name!r}; it has {some}.")
    if known[name] > 1:
        return DataError(
            f"columns must have unique names; {place} has {known[name]} columns {name!r}.\n"
            "Hint: rename them, or choose the columns to read with open_source(path, columns=[...])."
        )
    return DataError(
        f"column {name!r} of {place} holds {schema.field(name).type}, not numbers.\n"
        "Hint: name the columns to read with columns=[...]."
    )


def _require_others(schema: Any, others: Sequence[str] | None, path: Path) -> None:
    known = set(schema.names)
    for name in others or ():
        if name not in known:
            msg = f"files in {path.parent} must have the same columns; {path.name} differs in {name!r}."
            raise SourceError(msg)


def columns_of(place: Path) -> tuple[Column, ...]:
    """All columns of a Parquet or Feather file, or of the first file in a folder, in order."""
    with damage_named(str(place)):
        fragment = _fragment(arrow_files(place)[0])
        schema = fragment.physical_schema
        wide = [field.name for field in schema if field.type in (pa.int64(), pa.uint64())]
        unique = len(set(schema.names)) == len(schema.names)
        first = next(_batches(fragment, wide, 1000), None) if wide and unique else None
    return _columns(schema, first)


def _columns(schema: Any, first: Any) -> tuple[Column, ...]:
    """Columns of a schema, with their kinds judged by the first rows if these are given."""
    wide = [field.name for field in schema if field.type in (pa.int64(), pa.uint64())] if first is not None else []
    long = {name: _long_integers(first.column(name)) for name in wide}
    index = index_columns(schema)
    return tuple(
        Column(name, "index" if name in index else kind, long.get(name, ""))
        for name, kind in zip(schema.names, kinds_of_columns(schema), strict=True)
    )


def kinds_of_columns(schema: Any) -> list[str]:
    """Kinds of all columns; that of each type is found once, because there may be many columns."""
    kinds = {kind: kind_of_column(kind) for kind in set(schema.types)}
    return [kinds[kind] for kind in schema.types]


def kind_of_column(kind: Any) -> str:
    """Kind of a column with an Arrow type: a key of ``KINDS``, else the name of the type without its parameters."""
    name = str(kind).partition("<")[0].partition("[")[0]
    return next((known for known, tests in KINDS.items() if any(test(kind) for test in tests)), name)


def _long_integers(column: Any) -> str:
    """First cell with too many digits for floating point, if most cells of an integer column have; else empty."""
    cells = column.drop_null()
    long = cells.filter(compute.greater(cells, pa.scalar(2**53, cells.type)))
    if 2 * len(long) <= len(cells):
        return ""
    return f"row {compute.index(column, long[0]).as_py() + 1:,} holds {long[0]}, {too_long()}"


def too_long() -> str:
    """Reason why an integer above 2**53 cannot be used as a number."""
    return "which has more digits than a number can hold"


def complete_columns(place: Path, names: Iterable[str]) -> frozenset[str]:
    """Columns without nulls that have the same type in all files, other than floating point."""
    with damage_named(str(place)):
        fragments = [_fragment(path) for path in arrow_files(place)]
        schema = fragments[0].physical_schema
        exact = {name for name in names if not pa.types.is_floating(schema.field(name).type)}
        for fragment in fragments if exact else ():
            kinds = fragment.physical_schema
            exact -= {name for name in exact if kinds.field(name).type != schema.field(name).type}
            exact -= _with_nulls(fragment, exact)
    return frozenset(exact)


def _with_nulls(fragment: Any, names: set[str]) -> set[str]:
    """Columns that have nulls, or may have some."""
    if not isinstance(fragment, dataset.ParquetFileFragment):
        batches = fragment.to_batches(columns=list(names), use_threads=False)
        return {name for batch in batches for name in names if batch.column(name).null_count}
    groups = [fragment.metadata.row_group(k) for k in range(fragment.num_row_groups)]
    chunks = [group.column(j) for group in groups for j in range(group.num_columns)]
    return {chunk.path_in_schema for chunk in chunks if not chunk.statistics or chunk.statistics.null_count != 0}


def floating_types(place: Path, names: Iterable[str]) -> dict[str, Any]:
    """Arrow types of the columns that hold floating-point numbers."""
    with damage_named(str(place)):
        schema = _fragment(arrow_files(place)[0]).physical_schema
    return {name: schema.field(name).type for name in names if pa.types.is_floating(schema.field(name).type)}
