"""Regular steps of time: the step from row to row, the rows that are absent, and the times that follow.

Times are numbers, or instants in UTC. Steps of a day or more are steps of the calendar where the clock hangs: days that
are 23 or 25 hours long are equal, and so are months of 28 and 31 days.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final
from zoneinfo import ZoneInfo

import numpy as np

from probpca.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.typing import Index

TOLERANCE = 1e-3
"""Part of a step by which a row may be early or late."""
MOST_ABSENT = 20
"""Steps for each row, beyond which the step is taken for a wrong guess."""
CLOSE_TO_A_DAY = 20
"""Hours between rows from which on they may be a day of the calendar apart."""
LONGEST_SEASON = 96
"""Largest number of steps of a day that is taken for a season: quarters of an hour."""

MONTHS = {"month": 1, "M": 1, "ME": 1, "MS": 1, "quarter": 3, "Q": 3, "QE": 3, "QS": 3}
MONTHS |= {"year": 12, "Y": 12, "YE": 12, "YS": 12, "A": 12, "AS": 12}
DAYS = {"day": 1, "D": 1, "d": 1, "week": 7, "W": 7}
WEEKDAYS = {"weekday": 1, "B": 1}
SECONDS = {"hour": 3600, "h": 3600, "H": 3600, "minute": 60, "min": 60, "T": 60, "second": 1, "s": 1, "S": 1}
FRACTIONS = {"millisecond": 10**6, "ms": 10**6, "microsecond": 10**3, "us": 10**3, "nanosecond": 1, "ns": 1}
NANOSECONDS = {"D": 86400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Length of the unit of time stamps."""


class Words(NamedTuple):
    """What messages call the times, and the options that can help."""

    where: str = "the time"
    step: str = "step="
    series: str = "series="
    otherwise: str = ""  # another way out


@final
@dataclass(frozen=True, slots=True)
class Step:
    """Distance of one row from the next: a number, or some months, days, weekdays or units of the time stamps."""

    unit: str  # "number", "month", "day", "weekday" or "instant"
    count: float
    month_end: bool = False  # whether steps in months lead from the last day to the last day

    def words(self, unit: str) -> str:
        """The step in words, such as "3 months"; ``unit`` is that of the time stamps."""
        if self.unit == "number":
            return f"{self.count:g}"
        if self.unit == "instant":
            return _span_in_words(self.count * NANOSECONDS[unit])
        return f"{self.count:.0f} {self.unit}{'' if self.count == 1 else 's'}"

    def season(self, unit: str) -> int:
        """Number of steps of a season: 12 months, 4 quarters, 52 weeks, 7 days, 5 weekdays, 24 hours; 1 if none."""
        if self.unit == "month":
            return 12 // int(self.count) if 12 % self.count == 0 else 1
        if self.unit in ("day", "weekday"):
            return {("day", 1): 7, ("day", 7): 52, ("weekday", 1): 5}.get((self.unit, int(self.count)), 1)
        steps = NANOSECONDS["D"] / (self.count * NANOSECONDS[unit]) if self.unit == "instant" else 1.0
        return int(steps) if steps == int(steps) and 1 <= steps <= LONGEST_SEASON else 1


@final
@dataclass(frozen=True, eq=False)
class Stamps:
    """Time stamps: numbers, or instants that are counted in units since 1970 in UTC."""

    ticks: npt.NDArray[Any]  # int64 or float64: (n,)
    unit: str = ""  # of instants: "D", "s", "ms", "us" or "ns"; empty for numbers
    zone: tzinfo | None = None  # where the clock hangs that instants are shown by

    @classmethod
    def of_dates(cls, dates: Any, zone: tzinfo | None = None) -> Self:
        """Stamps of datetime64 values, in UTC if there is a zone."""
        dates = np.asarray(dates)
        unit = np.datetime_data(dates.dtype)[0]
        if unit not in NANOSECONDS:
            unit, dates = "s", dates.astype("datetime64[s]")
        return cls(dates.view(np.int64) if dates.dtype.isnative else dates.astype(np.int64), unit, zone)

    @property
    def dates(self) -> npt.NDArray[np.datetime64]:
        """Instants in UTC, or wall times if there is no zone: (n,)."""
        return self.ticks.astype(f"datetime64[{self.unit}]")

    def local(self) -> npt.NDArray[np.datetime64]:
        """Wall times in microseconds: (n,)."""
        times = self.dates.astype("datetime64[us]")
        if self.zone is None:
            return times
        seconds = self.dates.astype("datetime64[s]").astype(np.int64).tolist()
        offsets = [datetime.fromtimestamp(second, self.zone).utcoffset() or timedelta() for second in seconds]
        return np.asarray(times + np.array(offsets, "timedelta64[us]"))

    def from_local(self, times: npt.NDArray[np.datetime64]) -> Stamps:
        """Stamps of other wall times by the same clock; of a time that comes twice a year the first one."""
        if self.zone is not None:
            walls = times.astype("datetime64[s]").astype(object)
            offsets = [wall.replace(tzinfo=self.zone).utcoffset() or timedelta() for wall in walls]
            times = times - np.array(offsets, "timedelta64[us]")
        return replace(self, ticks=times.astype(f"datetime64[{self.unit}]").astype(np.int64))

    def __len__(self) -> int:
        return len(self.ticks)


def zone_of(name: str) -> tzinfo:
    """Time zone by its name, such as "Europe/Berlin", "UTC" or "UTC+02:00"; raises ``ValueError`` if unknown."""
    fixed = re.fullmatch(r"(?:UTC)?([+-])(\d\d):(\d\d)", name)
    if fixed:
        ahead = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        return timezone(ahead if fixed[1] == "+" else -ahead)
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        msg = f"{name} is not a known time zone"
        raise ValueError(msg) from error


# The step


def find_step(stamps: Stamps, words: Words = Words()) -> Step | None:
    """Find the step that all rows are multiples of apart; None for a single row.

    Raises ``DataError`` if times do not increase, or have no common step.
    """
    require_order(stamps, words)
    if len(stamps) < 2:
        return None
    return _calendar_step(stamps) or _equal_step(stamps, words)


def require_order(stamps: Stamps, words: Words = Words()) -> None:
    """Raise ``DataError`` unless each time is later than the one before."""
    late = np.flatnonzero(np.diff(stamps.ticks) <= 0)
    if late.size:
        same = stamps.ticks[late[0]] == stamps.ticks[late[0] + 1]
        msg = (
            f"{words.where} must increase from row to row; row {late[0] + 2:,} is not later than the row before.\n"
            "Hint: "
        )
        stacked = f"if several series are stacked, name their column with {words.series}"
        raise DataError(msg + (f"{stacked}." if same else f"sort the rows by time; {stacked}."))


def _calendar_step(stamps: Stamps) -> Step | None:
    """Step in months, weekdays or days of the calendar; None if rows do not follow it."""
    if not stamps.unit or np.diff(stamps.ticks).min() < CLOSE_TO_A_DAY * 3600 * 10**9 // NANOSECONDS[stamps.unit]:
        return None
    times = stamps.local()
    days = times.astype("datetime64[D]")
    if len(np.unique(times - days)) > 1:
        return None
    gaps = np.diff(months_of(days))
    ends = _are_month_ends(days)
    if (gaps > 0).all() and (ends or len(np.unique(_day_of_month(days))) == 1):
        return Step("month", int(np.gcd.reduce(gaps)), ends)
    gaps = np.diff(days).astype(np.int64)
    spans_weekend = np.busday_count(days[0], days[-1]) < gaps.sum()
    if gaps.min() == 1 and spans_weekend and np.is_busday(days).all():
        return Step("weekday", 1)
    return Step("day", int(gaps.min())) if (gaps % gaps.min() == 0).all() else None


def _equal_step(stamps: Stamps, words: Words) -> Step:
    gaps = np.diff(stamps.ticks)
    smallest = gaps.min()
    size = np.median(gaps[gaps < 1.5 * smallest])
    counts = np.rint(gaps / size)
    if (np.abs(gaps / size - counts) > TOLERANCE * counts).any():
        wrong = int(np.argmax(np.abs(gaps / size - counts) / counts))
        one, other = (_gap(gap, stamps.unit) for gap in (smallest, gaps[wrong]))
        msg = (
            f"the rows of a time series must be equal steps apart, or multiples of one step; {words.where} rises by "
            f"{one} and, in row {wrong + 2:,}, by {other}.\n"
            f"Hint: {words.step} sets the step, such as 'month', 'D', 'h' or '15min', and each row goes to the nearest "
            f"one{words.otherwise}."
        )
        raise DataError(msg)
    whole = np.issubdtype(stamps.ticks.dtype, np.integer)
    return Step("instant" if stamps.unit else "number", round(float(size)) if whole else float(size))


def _gap(gap: Any, unit: str) -> str:
    return _span_in_words(int(gap) * NANOSECONDS[unit]) if unit else f"{gap:g}"


def given_step(step: Any, stamps: Stamps, words: Words = Words()) -> Step:
    """Read a step that a user gives: "month", "2h", "15 min", a timedelta, or a number for times that are numbers."""
    if isinstance(step, Step):
        return step
    if isinstance(step, np.timedelta64):
        step = step.astype("timedelta64[us]").item()
    if isinstance(step, timedelta):
        return _span(round(step / timedelta(microseconds=1)) * 1000, stamps, step, words)
    text = str(getattr(step, "freqstr", step)).strip()
    return _step_of_words(text, stamps, words) if stamps.unit else _step_of_numbers(text, words)


def _step_of_numbers(text: str, words: Words) -> Step:
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size < np.inf:
        msg = f"{words.step} must be a positive number, because {words.where} holds numbers; got {text!r}."
        raise DataError(msg)
    return Step("number", int(size) if size == int(size) else size)


def _step_of_words(text: str, stamps: Stamps, words: Words) -> Step:
    found = re.fullmatch(r"(\d*)\s*([A-Za-z]+)(-[A-Z]{3})?", text)
    count, unit = (int(found[1] or 1), _unit(found[2])) if found else (0, "")
    if count > 0 and unit in MONTHS:
        return Step("month", count * MONTHS[unit], _are_month_ends(stamps.local().astype("datetime64[D]")))
    if count > 0 and unit in DAYS | WEEKDAYS:
        return Step("day" if unit in DAYS else "weekday", count * (DAYS | WEEKDAYS)[unit])
    lengths = {name: seconds * 10**9 for name, seconds in SECONDS.items()} | FRACTIONS
    return _span(count * lengths.get(unit, 0), stamps, text, words)


def is_known_unit(text: str) -> bool:
    """Whether the name of a frequency, such as "2h" or "QS-OCT", is that of a step that is known here."""
    unit = re.fullmatch(r"\d*([A-Za-z]+)(-[A-Z]{3})?", text)
    return unit is not None and unit[1] in MONTHS | DAYS | WEEKDAYS | SECONDS | FRACTIONS


def _unit(text: str) -> str:
    """Name of a unit as the tables have it: exact, or a word in lower case without the s of the plural."""
    known = {**MONTHS, **DAYS, **WEEKDAYS, **SECONDS, **FRACTIONS}
    return text if text in known else text.lower().removesuffix("s")


def _span(nanoseconds: int, stamps: Stamps, step: Any, words: Words) -> Step:
    size = NANOSECONDS[stamps.unit] if stamps.unit else 1
    if nanoseconds <= 0 or nanoseconds % size or not stamps.unit:
        raise DataError(_wrong(step, words))
    day = NANOSECONDS["D"]
    if nanoseconds % day == 0:
        return Step("day", nanoseconds // day)
    return Step("instant", nanoseconds // size)


def _wrong(step: Any, words: Words) -> str:
    return (
        f"{words.step} must be a length of time that {words.where} can show, such as 'month', 'D', 'h' or '15min'; "
        f"got {step!r}."
    )


# Places on the grid


def places(stamps: Stamps, step: Step | None, words: Words = Words(), *, given: bool = False) -> Index:
    """Position of each row, counted in steps from the first row on; a row goes to the nearest step: (n,).

    ``given`` is whether the user set the step, so that many steps may be empty, and rows may lie between steps.
    """
    if step is None:
        return np.arange(len(stamps))
    at = _counted(stamps, step, nearest=given)
    twice = np.flatnonzero(np.diff(at) <= 0)
    if twice.size:
        msg = (
            f"rows {twice[0] + 1:,} and {twice[0] + 2:,} of {words.where} fall on the same step of "
            f"{step.words(stamps.unit)}.\nHint: aggregate the rows, or set a smaller {words.step.rstrip('=')}."
        )
        raise DataError(msg)
    total = int(at[-1]) + 1
    if not given and total > MOST_ABSENT * len(stamps):
        msg = (
            f"{total - len(stamps):,} of {total:,} steps of {step.words(stamps.unit)} in {words.where} have no row.\n"
            f"Hint: {words.step} sets the step if that is meant, or a longer one{words.otherwise}."
        )
        raise DataError(msg)
    return at


def steps_between(one: Stamps, other: Stamps, step: Step | None) -> int:
    """Number of steps from one time to another, which may be in other units; the nearest whole number."""
    if step is None:
        return 1
    unit = NANOSECONDS[other.unit] / NANOSECONDS[one.unit] if one.unit else 1
    tick = other.ticks[-1] if unit == 1 else other.ticks[-1] * unit
    both = replace(one, ticks=np.array([one.ticks[-1], tick]).astype(one.ticks.dtype))
    return int(_counted(both, step, nearest=True)[1])


def _counted(stamps: Stamps, step: Step, *, nearest: bool) -> Index:
    count = step.count
    if step.unit in ("number", "instant"):
        if nearest:
            return np.rint((stamps.ticks - stamps.ticks[0]) / count).astype(np.intp)
        return np.append(0, np.cumsum(np.rint(np.diff(stamps.ticks) / count))).astype(np.intp)
    days = stamps.local().astype("datetime64[D]")
    if step.unit == "month":
        passed = months_of(days) - months_of(days[:1])
    elif step.unit == "weekday":
        passed = np.busday_count(days[0], days)
    else:
        passed = (days - days[0]).astype(np.int64) + (int(count) // 2 if nearest else 0)
    return (passed // int(count)).astype(np.intp)


def times_at(origin: Stamps, step: Step, steps: Any) -> Stamps:
    """Times that are some numbers of ``steps`` after the one stamp of ``origin``."""
    ks = np.asarray(steps)
    if step.unit in ("number", "instant"):
        return replace(origin, ticks=origin.ticks[0] + ks * step.count)
    time = origin.local()[0]
    day = time.astype("datetime64[D]")
    ks = ks * int(step.count)
    if step.unit == "day":
        days = day + ks
    elif step.unit == "weekday":
        days = np.busday_offset(day, ks, roll="forward")
    else:
        month = day.astype("datetime64[M]") + ks
        last = (month + 1).astype("datetime64[D]") - 1
        same = month.astype("datetime64[D]") + (_day_of_month(day) - 1)
        days = last if step.month_end else np.minimum(same, last)
    return origin.from_local(days + (time - day))


def months_of(days: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    """Months since January 1970: (n,)."""
    return days.astype("datetime64[M]").astype(np.int64)


def _day_of_month(days: Any) -> Any:
    return (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1


def _are_month_ends(days: npt.NDArray[np.datetime64]) -> bool:
    return bool((_day_of_month(days + 1) == 1).all())


def _span_in_words(nanoseconds: float) -> str:
    """A length of time, such as "2 days", "1 day, 6:00:00" or "0:15:00"."""
    return str(timedelta(microseconds=nanoseconds / 1000)).removesuffix(", 0:00:00")
