"""Columns of whole numbers that say which row it is, and nothing about it: they are not modelled by default.

The rule: a column of whole numbers without missing cells is

* ``numbers the rows`` if it holds 0, 1, 2, ... or 1, 2, 3, ... from the first row to the last one; in tables of fewer
  than ten rows only if it is called like an identifier, because a few measurements may happen to be in order;
* an ``identifier`` if it is called like one (id, customer_no, ...) and no value comes twice;
* a ``time axis`` if it is called like one (year, month, day, ...) and rises in equal steps from row to row; or if it
  is one of several columns such as year and quarter, and each row is later than the one before by all of them.

Such a column shows the order of the file. A model of it would find a component that runs from the top of the file to
its end. A measurement that happens to be whole, such as a rating from 1 to 5, has repeated values or is not in order,
and stays in the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, final

import numpy as np

from probpca.sources.files import is_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.typing import Array, Floats, Index

FEWEST_ROWS = 10
"""In tables with fewer rows, measurements may happen to count the rows."""


def is_time(name: str) -> bool:
    """Whether a column is called like a time."""
    pattern = r"(time|date|datetime|timestamp|hour|day|week|month|quarter|year|period|t)"
    return re.fullmatch(pattern, name, re.IGNORECASE) is not None


CALENDAR = ("year", "quarter", "month", "week", "day", "hour")
"""Names of columns that hold parts of a date, from coarse to fine."""


def calendar_columns(names: Sequence[str]) -> tuple[int, ...]:
    """Positions of the columns that are called like parts of a date, from coarse to fine."""
    found = [(CALENDAR.index(name.lower()), j) for j, name in enumerate(names) if name.lower() in CALENDAR]
    return tuple(j for _, j in sorted(found))


def _is_later(parts: Floats) -> bool:
    """Whether whole numbers, from coarse to fine, are later in each row than in the one before: (b, parts)."""
    if not parts.shape[1] or not np.array_equal(parts, np.round(parts)):
        return False
    change = np.diff(parts, axis=0)
    first = (change != 0).argmax(axis=1)
    return bool((np.take_along_axis(change, first[:, None], axis=1) > 0).all())


@final
@dataclass(frozen=True, eq=False)
class Steps:
    """How columns go from row to row: mergeable."""

    first: Array  # first row: (d,)
    last: Array  # last row: (d,)
    step: Array  # difference of each row from the one before; NaN if it varies, inf if there is one row: (d,)
    calendar: tuple[int, ...] = ()  # columns that are called like parts of a date, from coarse to fine
    is_later: bool = False  # is each row later than the one before, by these columns?

    @classmethod
    def of(cls, x: Floats, calendar: tuple[int, ...] = ()) -> Steps:
        """Steps of some rows, at least one: (b, d)."""
        first, last = x[0].astype(np.float64), x[-1].astype(np.float64)
        is_later = _is_later(x[:, calendar])
        if len(x) == 1:
            return cls(first, last, np.full(x.shape[1], np.inf), calendar, is_later)
        step = x[1].astype(np.float64) - first
        even = np.flatnonzero((np.diff(x[:100], axis=0) == step).all(axis=0))  # few columns, which are read in full
        kept = even[(np.diff(x[:, even], axis=0) == step[even]).all(axis=0)]
        found = np.full(x.shape[1], np.nan)
        found[kept] = step[kept]
        return cls(first, last, found, calendar, is_later)

    def merge(self, other: Self) -> Steps:
        """Steps of both sets of rows, the other ones below."""
        gap = other.first - self.last
        step = np.where(np.isinf(self.step) | (self.step == gap), gap, np.nan)
        step = np.where(np.isinf(other.step) | (other.step == step), step, np.nan)
        seam = _is_later(np.stack([self.last, other.first])[:, self.calendar])
        return Steps(self.first, other.last, step, self.calendar, self.is_later and seam and other.is_later)

    def choose(self, kept: Index) -> Steps:
        """Steps of some columns."""
        return Steps(self.first[kept], self.last[kept], self.step[kept])


def row_axes(names: Sequence[str], steps: Steps, distinct: Sequence[str], n_rows: int) -> dict[str, str]:
    """Columns that number or identify rows or hold their time, and which of these it is.

    ``distinct`` are the columns that are called like identifiers and hold different whole numbers.
    """
    parts = [names[j] for j in steps.calendar] if steps.is_later else []
    found = {}
    for j, name in enumerate(names):
        counts = steps.step[j] == 1 and steps.first[j] in (0, 1)
        rises = 0 < steps.step[j] < np.inf and steps.first[j] == int(steps.first[j])
        if rises and is_time(name):
            found[name] = f"time axis: {steps.first[j]:.0f} to {steps.last[j]:.0f}"
        elif name in parts:
            found[name] = f"time axis: rows are in the order of {', '.join(parts)}"
        elif counts and (n_rows >= FEWEST_ROWS or is_identifier(name)):
            found[name] = "numbers the rows"
        elif name in distinct:
            found[name] = "identifier"
    return found
