"""Time stamps: the column that holds them, and those of the steps after the last row."""

from __future__ import annotations

import calendar
import re
from datetime import date, datetime, timedelta
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

from probpca.cli.identifiers import is_time
from probpca.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.cli.table import Table

HOURS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S")
"""How the time of day may follow a date."""
QUARTERS = "2009Q4"
"""Format of labels that are quarters of a year."""


class Times(NamedTuple):
    """Time stamps of the steps after the last row."""

    following: list[Any]  # labels of the steps after the last row
    even: bool  # are steps equally long?
    unknown: str = ""  # why the labels could not be read, nor their order be checked
    axis: tuple[Any, ...] = ()  # numbers or dates of all rows and of the steps after them, if steps are equally long


def time_column(table: Table) -> str | None:
    """The first column that holds dates, else the first one with a name such as time, date or year."""
    dates = [column.name for column in table.columns if column.kind == "dates"]
    called = [column.name for column in table.columns if is_time(column.name)]
    return next(iter([*dates, *called]), None)


def part_of_year(table: Table, year: str) -> str | None:
    """The column that goes with a column of years: one called quarter, or one called month."""
    if year.lower() != "year":
        return None
    return next((name for part in ("quarter", "month") for name in table.names if name.lower() == part), None)


def joined(years: Sequence[Any], parts: Sequence[Any], name: str) -> list[Any]:
    """Labels such as 2009Q4 or 2009-12; the years alone if a cell is no whole number in its range."""
    known, within, quarterly = _numbers(years), _numbers(parts), name.lower() == "quarter"
    if known is None or within is None:
        return list(years)
    both = list(zip(known, within, strict=True))
    if not all(year == int(year) and part in range(1, 5 if quarterly else 13) for year, part in both):
        return list(years)
    return [f"{year:04.0f}Q{part:.0f}" if quarterly else f"{year:04.0f}-{part:02.0f}" for year, part in both]


def times_after(labels: Sequence[Any], steps: int, where: str) -> Times:
    """Labels of the next steps; they are counted from 1 if the column does not rise in equal steps."""
    known = None if _are_dates(labels) else _numbers(labels)
    if known is not None:
        _require_order(known, where)
        step = known[-1] - known[-2]
        even = all(abs((b - a) - step) <= 1e-6 * abs(step) for a, b in pairwise(known))
        whole = all(value == int(value) for value in known)
        after = [known[-1] + step * (k + 1) for k in range(steps)]
        if not even:
            return Times(counted(steps), even)
        return Times([int(value) if whole else value for value in after], even, axis=(*known, *after))
    form, moments = _moments(labels)
    if not moments:
        return Times(counted(steps), even=True, unknown=_why_unknown(labels))
    _require_order(moments, where)
    try:
        later, even = _moments_after(moments, steps)
    except (OverflowError, ValueError):  # after the year 9999
        return Times(counted(steps), even=True)
    if not even:
        return Times(counted(steps), even)
    return Times([_written(moment, form) for moment in later], even, axis=(*map(_naive, moments), *map(_naive, later)))


def _why_unknown(labels: Sequence[Any]) -> str:
    empty = [i for i, label in enumerate(labels, 1) if label is None or str(label).strip() in ("", "NaT", "nan")]
    return f"has no time in row {empty[0]:,}" if empty else "holds neither numbers nor dates that can be read"


def counted(steps: int) -> list[str]:
    """Labels that count the steps after the last row."""
    return [f"+{k + 1}" for k in range(steps)]


def _require_order(known: Sequence[Any], where: str) -> None:
    late = next((i for i, (a, b) in enumerate(pairwise(known), 2) if not a < b), None)
    if late is not None:
        msg = (
            f"{where} must increase from row to row; row {late:,} is not later than the row before.\n"
            "Hint: sort the table by this column, or choose another one with --time."
        )
        raise DataError(msg)


def _are_dates(labels: Sequence[Any]) -> bool:
    """Whether labels are days such as 20240131 or months such as 202401, which do not rise in equal steps."""
    patterns = {"%Y%m%d": r"(19|20)\d{6}", "%Y%m": r"(19|20)\d{2}(0[1-9]|1[0-2])"}
    texts = [str(label).strip() for label in labels]
    return any(
        all(re.fullmatch(known, text) for text in texts) and bool(_read(texts, form))
        for form, known in patterns.items()
    )


def _numbers(labels: Sequence[Any]) -> list[float] | None:
    try:
        known = [float(label) for label in labels if not isinstance(label, bool)]
    except (TypeError, ValueError):
        return None
    return known if len(known) == len(labels) >= 2 and all(value == value for value in known) else None  # noqa: PLR0124


def _moments(labels: Sequence[Any]) -> tuple[str, list[datetime]]:
    """Format of the labels and the times that they hold; no times if they hold none."""
    if len(labels) < 2:
        return "", []
    if all(isinstance(label, date) for label in labels):
        pure = not isinstance(labels[0], datetime)
        return "%Y-%m-%d" if pure else "iso", [_naive(label) for label in labels]
    texts = [str(label).strip() for label in labels]
    if all(re.fullmatch(r"\d{4}[- ]?[qQ][1-4]", text) for text in texts):
        return QUARTERS, [datetime(int(text[:4]), 3 * int(text[-1]) - 2, 1) for text in texts]  # noqa: DTZ001
    days = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%Y%m%d")
    for form in ("%Y-%m", "%Y%m", "%b %Y", "%Y/%m", *(day + hour for day in days for hour in HOURS)):
        if moments := _read(texts, form):
            return form, moments
    for year, hour in product(("%Y", "%y"), HOURS[:3]):  # only the order of rows can tell day and month apart
        forms = f"%m/%d/{year}{hour}", f"%d/%m/{year}{hour}"
        read = {form: moments for form in forms if (moments := _read(texts, form))}
        rising = {form: moments for form, moments in read.items() if _is_rising(moments)}
        if sure := next((found for found in (read, rising) if len(found) == 1), None):
            return sure.popitem()
    return "iso", _with_zone(texts)


def _read(texts: Sequence[str], form: str) -> list[datetime]:
    try:
        return [datetime.strptime(text, form) for text in texts]  # noqa: DTZ007
    except ValueError:
        return []


def _with_zone(texts: Sequence[str]) -> list[datetime]:
    """Times with a time zone, the same for all, or with fractions of seconds."""
    try:
        moments = [datetime.fromisoformat(text) for text in texts]
    except ValueError:
        return []
    return moments if len({moment.utcoffset() for moment in moments}) == 1 else []


def _is_rising(known: Sequence[Any]) -> bool:
    return all(a < b for a, b in pairwise(known))


def _naive(label: date) -> datetime:
    if isinstance(label, datetime):
        return label.replace(tzinfo=None)
    return datetime(label.year, label.month, label.day)  # noqa: DTZ001


def _written(moment: datetime, form: str) -> str:
    if form == QUARTERS:
        return f"{moment.year}Q{(moment.month + 2) // 3}"
    return moment.isoformat(sep=" ") if form == "iso" else moment.strftime(form)


def _moments_after(moments: list[datetime], steps: int) -> tuple[list[datetime], bool]:
    """Times of the next steps, and whether steps are equal: in months if days of the month agree, else in time."""
    gaps = {b - a for a, b in pairwise(moments)}
    months = {_months(b) - _months(a) for a, b in pairwise(moments)}
    ends = all(moment.day == _last_day(moment.year, moment.month) for moment in moments)
    same = len({(moment.day, moment.time()) for moment in moments}) == 1
    if len(months) == 1 and (ends or same) and 0 not in months and not (len(gaps) == 1 and len(moments) > 12):
        step = months.pop()
        day = 31 if ends else moments[-1].day
        return [_month_later(moments[-1], step * (k + 1), day) for k in range(steps)], True
    step_time: timedelta = moments[-1] - moments[-2]
    return [moments[-1] + step_time * (k + 1) for k in range(steps)], len(gaps) == 1


def _months(moment: datetime) -> int:
    return 12 * moment.year + moment.month - 1


def _last_day(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def _month_later(moment: datetime, months: int, day: int) -> datetime:
    year, month = divmod(_months(moment) + months, 12)
    return moment.replace(year=year, month=month + 1, day=min(day, _last_day(year, month + 1)))
