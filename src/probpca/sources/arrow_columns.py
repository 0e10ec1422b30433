"""What the columns of a file hold, for somebody who has to choose among them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from probpca.sources.arrow_tables import first_rows, schema_of
from probpca.sources.files import file_format, is_compressed, is_number
from probpca.sources.readers import csv as arrow_text
from probpca.sources.readers.arrow import index_columns
from probpca.sources.readers.csv import NOTHING, reading

if TYPE_CHECKING:
    from pathlib import Path

LOOKED_AT = 1000
"""Cells of a column of text that are looked at."""
EXACT = 2**53
"""Whole numbers up to here are exact in floating point."""
SHORT = 2
"""Digits of a number that is padded with zeros rather than a code, as hours are."""
TOO_LONG = "which has more digits than a number keeps"
CODE = r"^\s*(0\d+|\d{16,}|0[xX][0-9a-fA-F]+)\s*$"
"""Digits that a number would lose: zeros before others, or too many of them."""
NEARLY = re.compile(
    r"[<>~$€£¥]?\s*[-+]?(\d+([.,]\d+)?|\d{1,3}(?P<by>[,.' \u00a0\u202f])\d{3}((?P=by)\d{3})*([.,]\d+)?)"
    r"\s*([%‰°$€£¥]|\W?[^\W\d_]{1,3})?"
)
"""A number with a unit, with signs between its thousands, or with a decimal comma."""
KINDS = {
    "numbers": (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal),
    "true or false": (pa.types.is_boolean,),
    "empty": (pa.types.is_null,),
    "dates": (pa.types.is_date, pa.types.is_timestamp),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary, pa.types.is_binary),
}


INDEX = "index"


class Column(NamedTuple):
    """A column, what it holds, and if that is nearly numbers, or only looks like them, where this is seen."""

    name: str
    kind: str  # a key of KINDS, that of pandas' names of rows, or what Arrow calls it
    why: str = ""


def columns_of(place: Path) -> tuple[Column, ...]:
    """All columns of a file, in their order."""
    schema = schema_of(place)
    index = index_columns(schema)
    kinds = [INDEX if field.name in index else _kind(field.type) for field in schema]
    if _is_long_text(place):
        kinds = ["numbers" if kind == "empty" else kind for kind in kinds]  # they may begin later
    unique = len(set(schema.names)) == len(schema.names)
    strange = _strange(place, schema, kinds) if unique else {}
    return tuple(Column(name, kind, strange.get(name, "")) for name, kind in zip(schema.names, kinds, strict=True))


def _strange(place: Path, schema: Any, kinds: list[str]) -> dict[str, str]:
    """Columns that look like numbers and are not, or the other way round."""
    known = {name: kind for name, kind in zip(schema.names, kinds, strict=True) if kind in ("numbers", "text")}
    if not known or file_format(place) == "npy":
        return {}
    return _strange_text(place, known) if file_format(place) == "csv" else _long_integers(place, schema)


def _kind(found: Any) -> str:
    name = str(found).partition("<")[0].partition("[")[0]
    return next((kind for kind, tests in KINDS.items() if any(test(found) for test in tests)), name)


def _is_long_text(place: Path) -> bool:
    """May there be more rows than those that types are told from?"""
    return file_format(place) == "csv" and (is_compressed(place) or place.stat().st_size > arrow_text.CSV_BYTES)


def _strange_text(place: Path, kinds: dict[str, str]) -> dict[str, str]:
    with reading(place, dict.fromkeys(kinds, pa.binary())) as reader:
        batch = reader.read_next_batch()
    texts = [name for name, kind in kinds.items() if kind == "text"]
    found = {name: _odd_cell(batch.column(name)) for name in texts}
    found |= {name: _code(batch.column(name)) for name in _with_codes(batch, [n for n in kinds if n not in found])}
    return {name: why for name, why in found.items() if why}


def _with_codes(batch: Any, names: list[str]) -> list[str]:
    """Columns in which some cell may be a code, found at once, for there may be very many."""
    if not names or not batch.num_rows:
        return []
    cells = pa.concat_arrays([batch.column(name) for name in names]).cast(pa.string())
    hit = np.asarray(compute.match_substring_regex(cells, CODE)).reshape(len(names), -1)
    return [names[j] for j in np.flatnonzero(hit.any(axis=1))]


def _odd_cell(column: Any) -> str:
    """Of a column in which most cells are numbers, or nearly, one that is not."""
    texts = ["" if cell is None else cell.decode("utf-8", "replace").strip() for cell in column[:LOOKED_AT].to_pylist()]
    odd = [i for i, text in enumerate(texts) if text not in NOTHING and not is_number(text)]
    filled = sum(text not in NOTHING for text in texts)
    strange = [i for i in odd if not NEARLY.fullmatch(texts[i])]
    if not odd or 2 * len(strange) >= filled:
        return ""
    first = odd[0]
    plain = "" if first in strange else "; numbers are written as -1234.5"
    return f"row {first + 1:,} holds {texts[first]!r}{plain}"


def _code(column: Any) -> str:
    """Of a column of digits that are no quantity, as those of postal codes and account numbers, the first."""
    text = compute.utf8_trim_whitespace(column.cast(pa.string()))
    found = text.filter(compute.match_substring_regex(text, CODE)).to_pylist()
    if not found:
        return ""
    filled = text.filter(compute.invert(compute.is_in(text, pa.array(NOTHING))))
    zeros = [cell for cell in found if cell.startswith("0") and len(cell) > SHORT]
    even = compute.count_distinct(compute.utf8_length(filled)).as_py() == 1
    if zeros and (even or 2 * len(zeros) >= len(filled)):
        return f"row {_row(text, zeros[0])} holds {zeros[0]!r}, a code rather than a number"
    long = [cell for cell in found if cell.isdigit() and int(cell) > EXACT]
    return f"row {_row(text, long[0])} holds {long[0]}, {TOO_LONG}" if 2 * len(long) > len(filled) else ""


def _long_integers(place: Path, schema: Any) -> dict[str, str]:
    """Columns of whole numbers that mostly have too many digits, in a file that knows its types."""
    wide = [field.name for field in schema if field.type in (pa.int64(), pa.uint64())]
    batch = first_rows(place, wide, LOOKED_AT) if wide else {}
    found = {}
    for name in wide:
        cells = batch[name].drop_null()
        long = cells.filter(compute.greater(cells, EXACT))
        if 2 * len(long) > len(cells):
            found[name] = f"row {_row(batch[name], long[0])} holds {long[0]}, {TOO_LONG}"
    return found


def _row(column: Any, value: Any) -> str:
    return f"{compute.index(column, value).as_py() + 1:,}"
