"""Which columns of a table of Arrow are read, and as what."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from probpca.errors import DataError, SourceError
from probpca.sources.dialects import require_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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


def check_header(names: Sequence[str], place: Path) -> None:
    """Raise ``DataError`` if the first line of a text file does not name every column."""
    if "" in names:
        msg = (
            f"column {list(names).index('')} of {place} has no name: it may be the index of a dataframe.\n"
            "Hint: write the file without it (index=False), or open_source(path, columns=[...]) reads some columns."
        )
        raise DataError(msg)
    require_names(
        names, place, "write a header. If these are names, open_source(path, columns=[...]) takes them for such."
    )


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
