"""How a text file is written: what separates cells, what separates decimals."""

from __future__ import annotations

import csv
import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from probpca.errors import DataError
from probpca.sources.files import delimiter_of, is_number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
LINES = 50
"""Lines that are looked at."""
SIGNATURE, MANY = 100, 5
"""Bytes in which a file that holds no text shows it; rising names that are no chance."""
PACKED = b"\x1f\x8b"
QUOTED = re.compile(r'"[^"]*("|$)')
DECIMAL_COMMA = re.compile(r"\s*[-+]?(\d*,(\d{1,2}|\d{4,})|0,\d+)([eE][-+]?\d+)?\s*")
ONE_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(,\d{3}){2,}\s*")
DECIMAL_POINT = re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*")


class Dialect(NamedTuple):
    """What stands between two cells, and between the whole and the decimals of a number."""

    delimiter: str
    decimal_point: str = "."

    def __str__(self) -> str:
        """In words."""
        return f"{SEPARATORS[self.delimiter]}{', with decimal commas' if self.decimal_point == ',' else ''}"


def dialect_of(head: bytes, place: Path, *, whole: bool) -> Dialect:
    """Tell from the first lines of a text, of which the last may break off unless they are the whole.

    What separates cells is the sign that cuts the first lines into the same number of cells, the largest one; in
    doubt, and where there is one line that has it, the one that the name of the file stands for. Decimals have commas
    where another sign than that one separates cells, no cell looks like 3.14 and some look like 3,14; 1,234 may be
    a thousand, and decides nothing except between semicolons, as spreadsheets write where decimals have commas.
    """
    if head.startswith(PACKED):
        msg = f"{place} is packed by gzip.\nHint: let its name end in .csv.gz."
        raise DataError(msg)
    if b"\0" in head[:SIGNATURE] or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        msg = f"{place} does not hold text.\nHint: save a table as 'CSV UTF-8'; a picture or a workbook is no table."
        raise DataError(msg)
    text = head.decode("utf-8-sig", "replace")
    text = text if whole else text.rpartition("\n")[0] or text
    own = delimiter_of(place)
    lines = [line for line in QUOTED.sub("", text).splitlines() if line.strip()][:LINES]
    if len(lines) == 1 and own in lines[0]:
        return Dialect(own)
    counts = {sign: {line.count(sign) for line in lines} for sign in SEPARATORS}
    steady = {sign: found.pop() for sign, found in counts.items() if len(found) == 1 and found != {0}}
    delimiter = max([own, *steady], key=lambda sign: steady.get(sign, 0))
    return Dialect(delimiter, "," if delimiter not in (own, ",") and _has_decimal_commas(text, delimiter) else ".")


def _has_decimal_commas(text: str, delimiter: str) -> bool:
    cells = [cell for row in csv.reader(text.splitlines()[1:], delimiter=delimiter) for cell in row]
    if any(map(DECIMAL_POINT.fullmatch, cells)) or any(map(THOUSANDS.fullmatch, cells)):
        return False
    return any(map((ONE_COMMA if delimiter == ";" else DECIMAL_COMMA).fullmatch, cells))


def require_names(names: Sequence[str], place: Path, hint: str) -> None:
    """Raise ``DataError`` if the first line of a text holds cells of the first row rather than names.

    So it does if one name is a decimal number, or all are numbers: unless these are a scale, as years, columns that are
    counted and wavelengths are.
    """
    names = [name for name in names if name.strip()]
    numbers = [float(name) for name in names if is_number(name) and math.isfinite(float(name))]
    broken = any(number != int(number) for number in numbers)
    if names and (broken or len(numbers) == len(names)) and not _is_scale(numbers):
        msg = (
            f"{place} must begin with a line of names; its first line holds numbers: {', '.join(names[:3])}"
            f"{', ...' if len(names) > 3 else ''}.\nHint: {hint}"
        )
        raise DataError(msg)


def _is_scale(numbers: Sequence[float]) -> bool:
    """Do numbers rise in equal steps, or are there so many of them that it is no chance that they rise?"""
    steps = [b - a for a, b in pairwise(numbers)]
    if not steps or min(steps) <= 0:
        return False
    counted = list(numbers) == list(range(len(numbers)))
    even = len(steps) > 1 and max(steps) - min(steps) <= 1e-6 * max(map(abs, numbers))
    return counted or even or len(steps) >= MANY
