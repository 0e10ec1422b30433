"""Time stamps: the column that holds them, and those of the steps after the last row."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.blocks.time_grid import Stamps, Step, Words, find_step, given_step, places, require_order, times_at
from probpca.cli.identifiers import is_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.cli.table import Table

HOURS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S")
"""How the time of day may follow a date."""
QUARTERS = "2009Q4"
"""Format of labels that are quarters of a year."""


class Labels(NamedTuple):
    """Time stamps of rows, and how they are written."""

    stamps: Stamps | None  # None if the labels could not be read, or there are none
    form: str = ""  # "number", "iso", QUARTERS, or as in strptime
    unknown: str = ""  # why the labels could not be read, nor their order be checked

    def written(self, stamps: Stamps) -> list[Any]:
        """Other times, written as these are."""
        if self.form == "number":
            whole = (stamps.ticks == np.rint(stamps.ticks)).all()
            return [int(tick) if whole else float(tick) for tick in stamps.ticks]
        return [_written(moment, self.form) for moment in moments_of(stamps)]


class Times(NamedTuple):
    """Times of the rows on a regular grid, and of the steps after the last one."""

    following: list[Any]  # labels of the steps after the last row
    places: Any = None  # step of each row; None if rows are only counted: (n,)
    axis: tuple[Any, ...] = ()  # numbers or dates of all steps and of those after them, if they are known
    season: int = 1  # steps of a season that the times suggest
    step: Step | None = None
    typed: list[Any] | None = None  # dates after the last row, with their time zone


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


def read_labels(labels: Sequence[Any]) -> Labels:
    """Read time stamps: numbers, dates, or texts of many forms."""
    known = None if _are_dates(labels) else _numbers(labels)
    if known is not None:
        ticks = np.array(known)
        whole = (ticks == np.rint(ticks)).all() and np.abs(ticks).max() < 2**53
        return Labels(Stamps(ticks.astype(np.int64) if whole else ticks), "number")
    form, moments = _moments(labels)
    return Labels(_stamps_of(moments), form) if moments else Labels(None, unknown=_why_unknown(labels))


def times_after(labels: Labels, steps: int, words: Words, step: Any = None) -> Times:
    """Places of the rows on their grid, and labels of the next steps; counted from 1 if they cannot be told."""
    stamps = labels.stamps
    if stamps is None:
        return Times(counted(steps))
    require_order(stamps, words)
    found = find_step(stamps, words) if step is None else given_step(step, stamps, words)
    if found is None:
        return Times(counted(steps))
    at = places(stamps, found, words, given=isinstance(step, str))
    last = Stamps(stamps.ticks[-1:], stamps.unit, stamps.zone)
    season = found.season(stamps.unit)
    try:
        later, axis = (
            times_at(last, found, np.arange(1, steps + 1)),
            times_at(last, found, np.arange(-at[-1], steps + 1)),
        )
        following = labels.written(later)
        shown = tuple(axis.ticks.tolist()) if labels.form == "number" else tuple(map(_naive, moments_of(axis)))
    except (OverflowError, ValueError, AttributeError):  # after the year 9999
        return Times(counted(steps), at, season=season, step=found)
    return Times(following, at, shown, season, found, None if labels.form == "number" else moments_of(later))


def _stamps_of(moments: Sequence[datetime]) -> Stamps:
    """Stamps of times that all have a time zone, or of which none has one."""
    zone = moments[-1].tzinfo
    instants = [moment.astimezone(UTC).replace(tzinfo=None) for moment in moments] if zone is not None else moments
    return Stamps.of_dates(np.array(instants, "datetime64[us]"), zone)


def moments_of(stamps: Stamps) -> list[datetime]:
    """Times as Python has them, by the clock of their zone."""
    moments = stamps.dates.astype("datetime64[us]").astype(object).tolist()
    if stamps.zone is None:
        return list(moments)
    return [moment.replace(tzinfo=UTC).astimezone(stamps.zone) for moment in moments]


def _why_unknown(labels: Sequence[Any]) -> str:
    empty = [i for i, label in enumerate(labels, 1) if label is None or str(label).strip() in ("", "NaT", "nan")]
    return f"has no time in row {empty[0]:,}" if empty else "holds neither numbers nor dates that can be read"


def counted(steps: int) -> list[str]:
    """Labels that count the steps after the last row."""
    return [f"+{k + 1}" for k in range(steps)]


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
        return "%Y-%m-%d" if pure else "iso", [_timed(label) for label in labels]
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
    """Times that all have a time zone, or none of them, maybe with fractions of seconds."""
    try:
        moments = [datetime.fromisoformat(text) for text in texts]
    except ValueError:
        return []
    return moments if len({moment.tzinfo is None for moment in moments}) == 1 else []


def _is_rising(known: Sequence[Any]) -> bool:
    return all(a < b for a, b in pairwise(known))


def _naive(label: datetime) -> datetime:
    return label.replace(tzinfo=None)


def _timed(label: date) -> datetime:
    return label if isinstance(label, datetime) else datetime(label.year, label.month, label.day)  # noqa: DTZ001


def _written(moment: datetime, form: str) -> str:
    if form == QUARTERS:
        return f"{moment.year}Q{(moment.month + 2) // 3}"
    return moment.isoformat(sep=" ") if form == "iso" else moment.strftime(form)
