"""How a text file is written: what separates cells, what separates decimals."""

from __future__ import annotations

import csv
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
QUOTED = re.compile(r'"[^"]*("|$)')
DECIMAL_COMMA = re.compile(r"\s*[-+]?(\d*,(\d{1,2}|\d{4,})|0,\d+)([eE][-+]?\d+)?\s*")
DECIMAL_POINT = re.compile(r"\s*[-+]?\d*\.\d+([eE][-+]?\d+)?\s*")


class Dialect(NamedTuple):
    """What stands between two cells, and between the whole and the decimals of a number."""

    delimiter: str
    decimal_point: str = "."

    def __str__(self) -> str:
        """In words."""
        return f"{SEPARATORS[self.delimiter]}{', with decimal commas' if self.decimal_point == ',' else ''}"


def dialect_of(head: bytes, place: Path, *, whole: bool) -> Dialect:
    """Tell from the first bytes of a text, which may break off in the middle of a line unless they are the whole.

    What separates cells is the sign that cuts all lines into the same number of cells, the largest one; in
    doubt the one that the name of the file stands for. Decimals have commas where these do not separate
    cells, and where more cells look like 3,14 than like 3.14; 1,234 may be a thousand, and decides nothing.
    """
    if b"\0" in head:
        msg = f"{place} does not hold text.\nHint: save a table as 'CSV UTF-8'; a picture or a workbook is no table."
        raise DataError(msg)
    text = head.decode("utf-8-sig", "replace")
    text = text if whole else text.rpartition("\n")[0] or text
    own = delimiter_of(place)
    plain = [line for line in QUOTED.sub("", text).splitlines() if line.strip()][:LINES]
    counts = {sign: {line.count(sign) for line in plain} for sign in SEPARATORS}
    steady = {sign: found.pop() for sign, found in counts.items() if len(found) == 1 and found != {0}}
    delimiter = max([own, *steady], key=lambda sign: steady.get(sign, 0))
    return Dialect(delimiter, "," if delimiter != "," and _has_decimal_commas(text, delimiter) else ".")


def _has_decimal_commas(text: str, delimiter: str) -> bool:
    lines = text.splitlines()[1 : LINES + 1]
    cells = [cell for row in csv.reader(lines, delimiter=delimiter) for cell in row]
    commas = sum(DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells)
    return commas > sum(DECIMAL_POINT.fullmatch(cell) is not None for cell in cells)


def require_names(names: Sequence[str], place: Path, hint: str) -> None:
    """Raise ``DataError`` if the first line of a text holds cells of the first row rather than names.

    Years, and columns that are counted from 0, have names; 0.731 is a cell.
    """
    broken = any(is_number(name) and not name.strip().lstrip("-").isdigit() for name in names)
    if broken or (all(map(is_number, names)) and not _are_counted(names)):
        msg = (
            f"{place} must begin with a line of names; its first line holds numbers: {', '.join(names[:3])}"
            f"{', ...' if len(names) > 3 else ''}.\nHint: {hint}"
        )
        raise DataError(msg)


def _are_counted(names: Sequence[str]) -> bool:
    if not all(name.strip().isdecimal() for name in names):
        return False
    known = [int(name) for name in names]
    years = all(1000 <= year < 3000 for year in known) and len({b - a for a, b in pairwise(known)}) == 1
    return known == list(range(len(known))) or years
