"""Grids of time: absent rows are found, times go on as the calendar does, and what has no step is refused."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from probpca import DataError
from probpca.blocks.time_grid import Stamps, Step, find_step, given_step, places, times_at, zone_of

BERLIN = zone_of("Europe/Berlin")

REGULAR = {
    "hours": pd.date_range("2026-03-28", periods=200, freq="h"),
    "hours in a zone": pd.date_range("2026-03-28", periods=200, freq="h", tz="Europe/Berlin"),
    "quarters of an hour": pd.date_range("2026-10-24", periods=300, freq="15min", tz="Europe/Berlin"),
    "days": pd.date_range("2026-03-20", periods=60, freq="D"),
    "days in a zone": pd.date_range("2026-03-20", periods=250, freq="D", tz="Europe/Berlin"),
    "days at night": pd.date_range("2026-03-20 23:30", periods=250, freq="D", tz="America/New_York"),
    "weekdays": pd.date_range("2026-01-01", periods=60, freq="B"),
    "weeks": pd.date_range("2026-01-04", periods=60, freq="W"),
    "month ends": pd.date_range("2025-01-31", periods=60, freq="ME"),
    "month starts in a zone": pd.date_range("2025-01-01", periods=60, freq="MS", tz="Europe/Berlin"),
    "quarters": pd.date_range("2001-01-01", periods=60, freq="QS"),
    "ends of quarters": pd.date_range("2001-03-31", periods=60, freq="QE"),
    "years": pd.date_range("1970-01-01", periods=40, freq="YS"),
    "ends of years": pd.date_range("1970-12-31", periods=40, freq="YE"),
    "half milliseconds": pd.date_range("2026-01-01", periods=40, freq="500us"),
}


def stamps(index):
    zone = None if index.tz is None else zone_of(str(index.tz))
    return Stamps.of_dates(index.tz_convert(None).to_numpy() if index.tz is not None else index.to_numpy(), zone)


@pytest.mark.parametrize("index", REGULAR.values(), ids=REGULAR)
def test_pandas_agrees_on_the_times_that_follow(index):
    known = stamps(index[:-20])
    step = find_step(known)
    assert_array_equal(places(known, step), np.arange(len(known)))
    last = Stamps(known.ticks[-1:], known.unit, known.zone)
    assert_array_equal(times_at(last, step, np.arange(1, 21)).dates, stamps(index[-20:]).dates)
    assert_array_equal(times_at(last, step, np.arange(1 - len(known), 1)).dates, known.dates)


@pytest.mark.parametrize("index", REGULAR.values(), ids=REGULAR)
def test_absent_rows_are_found(rng, index):
    kept = np.sort(rng.choice(np.arange(1, len(index) - 1), len(index) * 3 // 4, replace=False))
    kept = np.unique(np.concatenate([[0, 1, 2], kept]))
    known = stamps(index[kept])
    step = find_step(known)
    assert step == find_step(stamps(index))
    assert_array_equal(places(known, step), kept)


@pytest.mark.parametrize("shift", [0, 5, -3])
def test_numbers_have_steps_too(shift):
    for values in (np.arange(10) + shift, np.arange(10) * 0.1 + shift, np.arange(10) * 1e7):
        kept = np.array([0, 1, 4, 5, 9])
        known = Stamps(values[kept])
        step = find_step(known)
        assert_array_equal(places(known, step), kept)
        np.testing.assert_allclose(times_at(Stamps(values[:1]), step, np.arange(10)).ticks, values)


def test_clocks_may_be_a_little_early_or_late(rng):
    times = np.datetime64("2026-01-01", "ms") + np.arange(50) * 60_000 + rng.integers(0, 40, 50)
    known = Stamps.of_dates(times)
    assert_array_equal(places(known, find_step(known)), np.arange(50))


def test_days_of_a_clock_change_are_equal_by_the_calendar_and_hours_by_the_clock():
    days = stamps(REGULAR["days in a zone"])
    assert find_step(days) == Step("day", 1)
    assert len(np.unique(np.diff(days.ticks))) == 3, "the days of this test are 23, 24 and 25 hours long"
    hours = stamps(REGULAR["hours in a zone"])
    assert find_step(hours).unit == "instant"
    assert find_step(hours).season(hours.unit) == 24


@pytest.mark.parametrize(
    ("name", "season"),
    [("days", 7), ("weekdays", 5), ("weeks", 52), ("month ends", 12), ("quarters", 4), ("years", 1), ("hours", 24)],
)
def test_a_step_has_a_season(name, season):
    known = stamps(REGULAR[name])
    assert find_step(known).season(known.unit) == season


def test_a_step_that_does_not_exist_names_the_option():
    days = Stamps.of_dates(np.array(["2026-01-01", "2026-01-03", "2026-01-06"], "datetime64[D]"))
    with pytest.raises(DataError, match=r"the time rises by 2 days and, in row 3, by 3 days.*\n.*step= sets the step"):
        find_step(days)
    assert_array_equal(places(days, given_step("D", days), given=True), [0, 2, 5])
    rare = Stamps(np.array([0, 1, 100]))
    with pytest.raises(DataError, match=r"98 of 101 steps of 1.*\n.*step="):
        places(rare, find_step(rare))
    assert_array_equal(places(rare, given_step(1, rare), given=True), [0, 1, 100])


def test_times_must_increase():
    for values, hint in (([0, 1, 1], "Hint: if several series are stacked"), ([0, 2, 1], "Hint: sort the rows")):
        with pytest.raises(DataError, match=rf"row 3 is not later than the row before.\n{hint}.*series="):
            find_step(Stamps(np.array(values)))
    assert find_step(Stamps(np.array([5]))) is None


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        ("D", Step("day", 1)),
        ("2 days", Step("day", 2)),
        ("W-SUN", Step("day", 7)),
        ("MS", Step("month", 1)),
        ("quarter", Step("month", 3)),
        ("YE-DEC", Step("month", 12)),
        ("B", Step("weekday", 1)),
        ("15min", Step("instant", 900)),
        ("6 hours", Step("instant", 21600)),
        (timedelta(days=1), Step("day", 1)),
        (np.timedelta64(30, "m"), Step("instant", 1800)),
        (pd.Timedelta("1h"), Step("instant", 3600)),
        (pd.tseries.frequencies.to_offset("2h"), Step("instant", 7200)),
    ],
    ids=str,
)
def test_steps_are_words_or_lengths_of_time(step, wanted):
    assert given_step(step, Stamps.of_dates(np.array(["2026-01-05T03"], "datetime64[s]"))) == wanted


@pytest.mark.parametrize("step", ["", "often", 3, 0, "0D", "-1h", "1ms", None, True, "1.5h"])
def test_other_steps_are_refused(step):
    with pytest.raises(DataError, match=r"step= must be a length of time that the time can show.*got"):
        given_step(step, Stamps.of_dates(np.array(["2026-01-05T03"], "datetime64[s]")))
    if step != 3:
        with pytest.raises(DataError, match="step= must be a positive number"):
            given_step(step, Stamps(np.arange(3)))


def test_rows_go_to_the_step_of_the_calendar():
    known = Stamps.of_dates(np.array(["2026-01-30", "2026-03-02", "2026-04-15"], "datetime64[D]"))
    assert_array_equal(places(known, given_step("month", known), given=True), [0, 2, 3])
    with pytest.raises(DataError, match="rows 1 and 2 of the time fall on the same step of 3 months"):
        places(known, given_step("quarter", known), given=True)


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "UTC+02:00", "UTC-03:30", "+05:30"])
def test_zones_have_names(name):
    assert zone_of(name).utcoffset(pd.Timestamp("2026-07-01").to_pydatetime()) is not None


def test_unknown_zones_are_refused():
    for name in ("Europe/Nowhere", "", "../etc", "UTC+2"):
        with pytest.raises(ValueError, match="not a known time zone"):
            zone_of(name)
