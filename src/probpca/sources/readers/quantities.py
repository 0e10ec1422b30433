"""Cells of text that are numbers with signs between thousands, with a unit, or with a currency."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import pyarrow as pa
from pyarrow import compute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CURRENCIES = (
    "AED|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|PHP|PLN|RUB|SAR|SEK|SGD|"
    "THB|TRY|USD|ZAR"
)
UNIT = r"[%‰°µ]?\p{L}{1,12}[²³23]?(?:[/·*^][\p{L}µ0-9²³]{1,6})*|\p{Sc}|[%‰°]"
"""A unit behind a number: %, kg, km/h, kg/m3, °C, mmHg."""
SIGN = r"[-+\x{2212}]?"
ORDINALS = ("st", "nd", "rd", "th")
GROUP_CELLS = 2**16
"""Number of cells that are taken apart in one search, unless a single column has more."""
MOST_UNITS = 5
"""A column with more different words behind its numbers holds text, such as addresses, rather than quantities."""


class Quantity(NamedTuple):
    """Number format and unit that the first cells of a column of text have in common."""

    is_number: bool
    unit: str = ""
    other: str = ""  # another unit in the same column
    cells: tuple[str, str] = ("", "")  # a cell with each of the two units

    @property
    def units(self) -> str:
        """The two units in words, with a cell of each."""
        first, other = self.cells
        return f"it has {self.unit or 'no unit'} and {self.other}: {first!r} and {other!r}"


class UnreadableCellError(Exception):
    """A cell of a column that is not a number, or that has another unit than the first ones."""

    def __init__(self, name: str, text: str, unit: str) -> None:
        """Remember the column, the cell, and the unit of the column."""
        super().__init__(name, text, unit)
        self.name, self.text, self.unit = name, text, unit


@final
@dataclass(frozen=True)
class Quantities:
    """Reader of cells such as 1,234.5, and, with units, of 28.8 yr, $779.45 and 12%."""

    decimal: str
    thousands: str | None  # with units, the sign that is not the decimal mark unless it is given
    with_units: bool
    nulls: tuple[str, ...]  # marks of missing cells
    units: Mapping[str, str] = field(default_factory=dict)  # unit of each column, as far as known

    @property
    def pattern(self) -> str:
        """Regular expression of one cell."""
        decimal, groups = re.escape(self.decimal), self._groups
        number = rf"\d+(?:{decimal}\d*)?|{decimal}\d+"
        number += rf"|\d{{1,3}}(?:{groups}\d{{3}})+(?:{decimal}\d*)?" if groups else ""
        number = rf"(?P<number>{number})(?P<exponent>(?:[eE][-+]?\d+)?)"
        if not self.with_units:
            return rf"^(?P<sign>{SIGN})(?P<before>)(?P<second>){number}(?P<after>)$"
        before = rf"(?P<before>(?:[A-Z]{{0,3}}\p{{Sc}}|(?:{CURRENCIES}))?)"
        space = r"[ \x{00a0}\x{202f}]?"
        return rf"^(?P<sign>{SIGN}){space}{before}{space}(?P<second>{SIGN}){number}{space}(?P<after>(?:{UNIT})?)$"

    @property
    def _groups(self) -> str:
        """Signs that may stand between thousands."""
        other = {".": ",", ",": "."}[self.decimal]
        sign = self.thousands or (other if self.with_units else "")
        kinds = {" ": r"[ \x{00a0}\x{202f}]", "'": r"['\x{2019}]"}
        return kinds.get(sign, re.escape(sign))

    def judge(self, columns: Sequence[Any]) -> list[Quantity]:
        """Decide of each column of text whether all of its cells are numbers in one unit, or in a few."""
        known = dict(enumerate(columns))
        groups = ([columns[j] for j in group] for group in _groups_of(known))
        return [self._quantity(*found) for group in groups for found in self._taken_apart(group)]

    def _taken_apart(self, columns: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Filled cells of each column, and their parts."""
        filled = [self._text(column).drop_null() for column in columns]
        parts = self._parts(pa.concat_arrays(filled))
        starts = accumulate(map(len, filled), initial=0)
        return ((cells, parts.slice(start, len(cells))) for cells, start in zip(filled, starts, strict=False))

    def _quantity(self, cells: Any, parts: Any) -> Quantity:
        """Judge a column by its filled cells and by the parts of these."""
        if not len(cells) or parts.null_count:
            return Quantity(is_number=False)
        unit, zero = _unit(parts), compute.equal(self._numbers(parts), 0.0)
        counted = cells.filter(compute.invert(compute.and_(zero, compute.equal(unit, ""))))  # 0 needs no unit
        unit = unit.filter(compute.invert(compute.and_(zero, compute.equal(unit, ""))))
        found = unit.unique().to_pylist() or [""]
        if len(found) > MOST_UNITS or set(found) & set(ORDINALS):
            return Quantity(is_number=False)
        if len(found) == 1:
            return Quantity(is_number=True, unit=found[0])
        first, other = (counted[compute.index(unit, text).as_py()].as_py() for text in found[:2])
        return Quantity(is_number=False, unit=found[0], other=found[1] or "no unit", cells=(first, other))

    def values(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Numbers of columns of text; raise ``UnreadableCellError`` for a cell that is none or has another unit."""
        plain = {name: column for name, column in columns.items() if name not in self.units}
        others = {name: column for name, column in columns.items() if name in self.units}
        return self._joined(plain, plain=True) | self._joined(others, plain=False)

    def _joined(self, columns: Mapping[str, Any], *, plain: bool) -> dict[str, Any]:
        """Numbers of columns of the same length; ``plain`` if the first cells have no units, as most may have none."""
        found = dict[str, Any]()
        for names in _groups_of(columns):
            text = self._text(pa.concat_arrays([columns[name] for name in names]))
            numbers = self._plain(text) if plain else None
            numbers = self._read(names, text) if numbers is None else numbers
            size = len(text) // len(names)
            found |= {name: numbers.slice(j * size, size) for j, name in enumerate(names)}
        return found

    def _parts(self, text: Any) -> Any:
        """Parts of cells; null where a cell is no number, such as one with a sign on both sides of its currency."""
        parts = compute.extract_regex(text, self.pattern)
        signs = (compute.not_equal(compute.struct_field(parts, name), "") for name in ("sign", "second"))
        return compute.if_else(compute.and_(*signs), pa.scalar(None, parts.type), parts)

    def _text(self, column: Any) -> Any:
        """Cells without blanks around them; null where a cell is missing."""
        text = compute.utf8_trim_whitespace(column)
        return compute.if_else(compute.is_in(text, pa.array(self.nulls)), pa.scalar(None, pa.string()), text)

    def _plain(self, text: Any) -> Any:
        """Numbers of cells without units and signs between thousands, found fast; None if some cell has these."""
        if self.decimal == ",":
            text = compute.replace_substring(compute.replace_substring(text, ".", "?"), ",", ".")
        try:
            return text.cast(pa.float64())
        except pa.ArrowInvalid:
            return None

    def _read(self, names: Sequence[str], text: Any) -> Any:
        """Numbers of the cells of several columns of the same length, one column after the other."""
        size = len(text) // len(names)
        parts = self._parts(text)
        self._require(compute.or_(compute.is_valid(parts), compute.is_null(text)), text, names)
        numbers = self._numbers(parts)
        if self.with_units:
            unit = _unit(parts)
            bare = compute.and_(compute.equal(unit, ""), compute.equal(numbers, 0.0))
            own = pa.array([self.units.get(name, "") for name in names]).take(np.arange(len(text)) // max(size, 1))
            self._require(compute.fill_null(compute.or_(compute.equal(unit, own), bare), True), text, names)
        return numbers

    def _require(self, sound: Any, text: Any, names: Sequence[str]) -> None:
        if not compute.all(sound, min_count=0).as_py():
            i = compute.index(sound, pa.scalar(False)).as_py()
            name = names[i * len(names) // len(text)]
            raise UnreadableCellError(name, text[i].as_py(), self.units.get(name, ""))

    def _numbers(self, parts: Any) -> Any:
        """Numbers of cells that were taken apart; null where a cell is missing."""
        number = compute.struct_field(parts, "number")
        number = compute.replace_substring_regex(number, self._groups, "") if self._groups else number
        number = compute.replace_substring(number, self.decimal, ".")
        sign = compute.binary_join_element_wise(
            compute.struct_field(parts, "sign"), compute.struct_field(parts, "second"), ""
        )
        sign = compute.replace_substring(compute.replace_substring(sign, "\u2212", "-"), "+", "")
        exponent = compute.struct_field(parts, "exponent")
        return compute.binary_join_element_wise(sign, number, exponent, "").cast(pa.float64())


def _unit(parts: Any) -> Any:
    before, after = (compute.struct_field(parts, name) for name in ("before", "after"))
    return compute.utf8_trim_whitespace(compute.binary_join_element_wise(before, after, " "))


def _groups_of(columns: Mapping[Any, Any]) -> Iterator[list[Any]]:
    """Keys of columns of the same length, in groups that are read together because a search takes time to prepare."""
    size = max(map(len, columns.values()), default=0)
    step = max(GROUP_CELLS // max(size, 1), 1)
    keys = list(columns)
    return (keys[j : j + step] for j in range(0, len(keys), step))
