"""What the columns of a file hold, for somebody who has to choose among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from probpca.sources.arrow import MISSING, csv_reader, opened
from probpca.sources.arrow_tables import kind_of, schema_of
from probpca.sources.files import is_number

if TYPE_CHECKING:
    from pathlib import Path

LOOKED_AT = 1000
"""Cells of a column of text that are looked at."""
KINDS = {
    "numbers": (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal),
    "true or false": (pa.types.is_boolean,),
    "empty": (pa.types.is_null,),
    "dates": (pa.types.is_temporal,),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary, pa.types.is_binary),
}


class Column(NamedTuple):
    """A column, what it holds, and why that is not numbers if it nearly is."""

    name: str
    kind: str  # a key of KINDS, or what Arrow calls it
    why: str = ""


def columns_of(place: Path) -> tuple[Column, ...]:
    """All columns of a file, in their order."""
    schema = schema_of(place)
    kinds = [_kind(field.type) for field in schema]
    texts = [name for name, kind in zip(schema.names, kinds, strict=True) if kind == "text"]
    unique = len(set(schema.names)) == len(schema.names)
    odd = _odd_cells(place, texts) if texts and unique and kind_of(place) == "csv" else {}
    return tuple(Column(name, kind, odd.get(name, "")) for name, kind in zip(schema.names, kinds, strict=True))


def _kind(found: Any) -> str:
    return next((kind for kind, tests in KINDS.items() if any(test(found) for test in tests)), str(found))


def _odd_cells(place: Path, names: list[str]) -> dict[str, str]:
    """Of columns in which most cells are numbers, one that is not."""
    with opened(place) as stream, csv_reader(stream, place, dict.fromkeys(names, pa.binary())) as reader:
        batch = reader.read_next_batch().slice(0, LOOKED_AT)
    return {name: why for name in names if (why := _odd_cell(batch.column(name).to_pylist()))}


def _odd_cell(cells: list[Any]) -> str:
    texts = ["" if cell is None else cell.decode("utf-8", "replace").strip() for cell in cells]
    known = {"", *MISSING, "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL"}
    odd = [i for i, text in enumerate(texts) if text not in known and not is_number(text)]
    filled = sum(text not in known for text in texts)
    return f"row {odd[0] + 1:,} holds {texts[odd[0]]!r}" if odd and len(odd) < filled / 2 else ""
