"""Time as people have it: absent rows, time zones, columns of dates, stacked series; dates come back as dates."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import random_system
from probpca import DataError, LinearDynamicalSystem, NotEnoughMemoryError
from probpca.inference import sample_series

NAMES = ["height", "width", "depth", "mass"]
NAN = np.nan


def lds(q=1, **options):
    return LinearDynamicalSystem(q, **{"tol": 1.0, "random_state": 0, **options})


@pytest.fixture
def y(rng):
    return sample_series(random_system(rng, 4, 2), 60, rng=rng).rows


KEPT = np.setdiff1d(np.arange(60), [7, 8, 30, 57])
INDICES = {
    "months": pd.period_range("2020-01", periods=60, freq="M"),
    "month ends": pd.date_range("2020-01-31", periods=60, freq="ME"),
    "quarters": pd.date_range("2001-01-01", periods=60, freq="QS"),
    "weekdays": pd.date_range("2026-01-01", periods=60, freq="B"),
    "days in a zone": pd.date_range("2026-03-01", periods=60, freq="D", tz="Europe/Berlin", name="day"),
    "hours in a zone": pd.date_range("2026-03-28", periods=60, freq="h", tz="Europe/Berlin"),
    "durations": pd.timedelta_range("0h", periods=60, freq="15min"),
    "years": pd.Index(np.arange(1960, 2020), name="year"),
    "rows": pd.RangeIndex(60),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_rows_that_are_absent_count_as_rows_that_are_empty(y, index, tmp_path):
    """Bit for bit, in every method, and in the rows that were given."""
    holes = y.copy()
    holes[np.setdiff1d(np.arange(60), KEPT)] = NAN
    whole = pd.DataFrame(holes, index=index, columns=NAMES)
    table = whole.iloc[KEPT]
    system, wanted = lds().fit(table), lds().fit(whole)
    assert (system.n_inserted_, system.n_steps_, wanted.n_inserted_) == (4, 60, 0)
    assert "60 steps (4 without a row) x 4 features" in system.summary()
    assert system.log_likelihood_ == wanted.log_likelihood_
    assert_array_equal(system.transition_, wanted.transition_)
    assert_array_equal(system.transform(table), wanted.transform(whole)[KEPT])
    assert_array_equal(system.smooth(table).covariance, wanted.smooth(whole).covariance[KEPT])
    assert_array_equal(system.filter(table).filtered.mean, wanted.filter(whole).filtered.mean[KEPT])
    assert_array_equal(system.anomalies(table).p_value, wanted.anomalies(whole).p_value[KEPT])
    assert_array_equal(system.score_samples(table), wanted.score_samples(whole)[KEPT])
    assert_array_equal(system.sample_states(table, 2), wanted.sample_states(whole, 2)[:, KEPT])
    assert system.score(table) == wanted.score(whole)
    pd.testing.assert_frame_equal(system.impute(table), wanted.impute(whole).iloc[KEPT])
    for found in (system.forecast(5), system.forecast(5, table)):
        pd.testing.assert_frame_equal(found.mean, wanted.forecast(5).mean)
    system.to_file(tmp_path / "gaps.npz")
    again = LinearDynamicalSystem.from_file(tmp_path / "gaps.npz")
    pd.testing.assert_frame_equal(again.forecast(5).mean, wanted.forecast(5).mean)
    assert_array_equal(again.transform(table), system.transform(table))
    assert again.n_inserted_ == 4


def test_labels_of_forecasts_keep_the_clock(y):
    days = pd.date_range("2026-03-01", periods=60, freq="D", tz="Europe/Berlin")
    ahead = lds().fit(pd.DataFrame(y[:20], index=days[:20])).forecast(20).mean.index
    assert_array_equal(ahead, days[20:40])
    assert {time.hour for time in ahead} == {0}
    hours = pd.date_range("2026-03-28", periods=60, freq="h", tz="Europe/Berlin")
    ahead = lds().fit(pd.DataFrame(y[:20], index=hours[:20])).forecast(20).mean.index
    assert_array_equal(ahead, hours[20:40])


COLUMNS = {
    "dates": [date(2026, 1, 1) + timedelta(days=k) for k in range(65)],
    "stamps": [datetime(2026, 1, 1) + timedelta(hours=6 * k) for k in range(65)],  # noqa: DTZ001
    "stamps in a zone": [
        (datetime(2026, 3, 28, tzinfo=UTC) + timedelta(hours=k)).astimezone(ZoneInfo("Europe/Berlin"))
        for k in range(65)
    ],
}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def table_of(kind, times, values):
    columns = {"when": times, **dict(zip(NAMES, values.T, strict=True))}
    table = kind(columns)
    if isinstance(table, pd.DataFrame) and type(times[0]) is date:
        table["when"] = pd.to_datetime(table["when"])
    return table


def listed(frame, name="when"):
    column = frame[name]
    return column.to_pylist() if isinstance(frame, pa.Table) else list(column)


@pytest.mark.parametrize("kind", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("times", COLUMNS.values(), ids=COLUMNS)
def test_a_column_of_dates_is_the_time_and_comes_back(y, kind, times, tmp_path):
    table = table_of(kind, [times[k] for k in KEPT], y[KEPT])
    system = lds().fit(table)
    assert (system.n_features_in_, system.n_steps_, system.n_inserted_) == (4, 60, 4)
    assert_array_equal(system.feature_names_in_, NAMES)
    system.to_file(tmp_path / "dates.npz")
    for found in (system.forecast(5), LinearDynamicalSystem.from_file(tmp_path / "dates.npz").forecast(5)):
        for frame in (found.mean, found.std, *found.interval()):
            assert type(frame) is type(table)
            later = [t.date() if isinstance(t, datetime) and type(times[0]) is date else t for t in listed(frame)]
            assert later == times[60:]
            assert [getattr(t, "utcoffset", lambda: None)() for t in later] == [
                getattr(t, "utcoffset", lambda: None)() for t in times[60:]
            ]
        assert len(found.to_frame()) == 20
        assert str(times[60])[:10] in str(found)
    filled, std = system.impute(table, return_std=True)
    for frame in (filled, std):
        assert listed(frame) == listed(table)
        assert list(frame.columns if kind is not pa.table else frame.column_names) == ["when", *NAMES]


def test_years_in_a_column_are_the_time_if_they_are_named(y):
    table = pl.DataFrame({"year": 1960 + KEPT, **dict(zip(NAMES, y[KEPT].T, strict=True))})
    system = lds().fit(table, time="year")
    assert system.n_inserted_ == 4
    assert system.forecast(2).mean["year"].to_list() == [2020, 2021]
    assert_array_equal(system.transform(table), lds().fit(table, time="year").transform(table))
    with pytest.raises(DataError, match="time must be the name of a column; got 'month'"):
        lds().fit(table, time="month")
    with pytest.raises(DataError, match="an array has none"):
        lds().fit(y, time="year")


def test_steps_that_are_not_equal_name_the_option(y):
    days = np.cumsum(np.tile([2, 3, 4], 20))
    index = pd.Timestamp("2026-01-01") + pd.to_timedelta(days, "D")
    table = pd.DataFrame(y, index=index)
    with pytest.raises(DataError, match=r"equal steps apart.*the index rises by 2 days and.*\n.*step= sets the step"):
        lds().fit(table)
    system = lds().fit(table, step="D")
    assert system.n_steps_ == days[-1] - days[0] + 1
    assert system.forecast(2).mean.index[0] == index[-1] + pd.Timedelta("1D")
    assert system.transform(table).shape == (60, 1)
    assert system.forecast(2, table[:7]).mean.index[0] == index[6] + pd.Timedelta("1D")
    with pytest.raises(DataError, match=r"reset_index\(drop=True\)"):
        lds().fit(pd.DataFrame(y, index=days))
    with pytest.raises(DataError, match="step= needs times"):
        lds().fit(y, step="D")


def test_steps_that_do_not_fit_into_memory_are_refused(y):
    table = pd.DataFrame(y, index=pd.date_range("2026-01-01", periods=60))
    with pytest.raises(NotEnoughMemoryError, match="set a longer step"):
        lds().fit(table, step="us")


def test_times_that_repeat_or_fall_name_the_column_of_series(y):
    index = pd.date_range("2026-01-01", periods=60)
    for wrong in (index[[*range(59), 58]], index[::-1]):
        with pytest.raises(DataError, match=r"must increase from row to row(.|\n)*series="):
            lds().fit(pd.DataFrame(y, index=wrong))


def long(y, kind=pd.DataFrame, names=("north", "south", "east", "west"), order="time"):
    """Rows of all series below each other, without the missing ones."""
    cells = [(k, j) for k in range(len(y)) for j in range(y.shape[1])]
    cells = [
        (k, j) for k, j in (cells if order == "time" else sorted(cells, key=lambda kj: kj[1])) if y[k, j] == y[k, j]
    ]
    when = [datetime(2026, 1, 1) + timedelta(days=k) for k, _ in cells]  # noqa: DTZ001
    return kind({"when": when, "shop": [names[j] for _, j in cells], "sales": [y[k, j] for k, j in cells]})


@pytest.mark.parametrize("kind", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("order", ["time", "series"])
def test_stacked_series_of_one_value_are_features(rng, y, kind, order, tmp_path):
    y[rng.random(y.shape) < 0.1] = NAN
    y[0, :] = 1.0
    y[[20, 21], :] = NAN
    system = lds().fit(long(y, kind, order=order), series="shop")
    days = pd.date_range("2026-01-01", periods=60)
    wide = pd.DataFrame(y, columns=["north", "south", "east", "west"], index=days)
    wanted = lds().fit(wide)
    assert list(system.feature_names_in_) == ["north", "south", "east", "west"]
    assert (system.n_steps_, system.n_inserted_) == (60, 2)
    assert system.log_likelihood_ == wanted.log_likelihood_
    ahead = system.forecast(3).mean
    assert str(listed(ahead)[0])[:10] == "2026-03-02"
    assert_array_equal(listed(ahead, "north"), wanted.forecast(3).mean["north"])
    system.to_file(tmp_path / "shops.npz")
    again = LinearDynamicalSystem.from_file(tmp_path / "shops.npz")
    rows = np.setdiff1d(np.arange(60), [20, 21])
    assert_array_equal(again.transform(long(y, kind)), wanted.transform(wide)[rows])


def test_stacked_series_of_several_values_are_sequences(y):
    index = pd.date_range("2026-01-01", periods=30)
    parts = [pd.DataFrame(y[:30], index=index, columns=NAMES), pd.DataFrame(y[30:], index=index, columns=NAMES)]
    table = pd.concat([part.assign(shop=name) for part, name in zip(parts, ("north", "south"), strict=True)])
    system, wanted = lds().fit(table, series="shop"), lds().fit(parts)
    assert system.log_likelihood_ == wanted.log_likelihood_
    for found, other in zip(system.forecast(3), wanted.forecast(3), strict=True):
        pd.testing.assert_frame_equal(found.mean, other.mean)
    for found, other in zip(system.impute(table), wanted.impute(parts), strict=True):
        pd.testing.assert_frame_equal(found, other, check_freq=False)


def test_stacked_series_that_cannot_be_meant_are_refused(y):
    table = long(y)
    with pytest.raises(DataError, match="series must be the name of a column; got 'store'"):
        lds().fit(table, series="store")
    with pytest.raises(DataError, match="an array has none"):
        lds().fit(y, series="shop")
    with pytest.raises(DataError, match="column shop must name a series in each row; row 3 has none"):
        lds().fit(table.assign(shop=table["shop"].where(table.index != 2)), series="shop")
    with pytest.raises(DataError, match="the time of series north must increase from row to row"):
        lds().fit(pd.concat([table, table.iloc[:1]]), series="shop")
    with pytest.raises(DataError, match=r"must increase from row to row; row 2 is not later(.|\n)*series="):
        lds().fit(table.drop(columns="shop"))
    with pytest.raises(DataError, match="no series may be called like the column of times; got when"):
        lds().fit(table.replace("north", "when"), series="shop")
    system = lds().fit(table, series="shop")
    with pytest.raises(DataError, match="series moon was not in the table of the fit"):
        system.transform(table.assign(shop="moon"))


def test_sequences_share_their_step(y):
    days, weeks = pd.date_range("2026-01-01", periods=30), pd.date_range("2026-01-01", periods=30, freq="W")
    months = pd.date_range("2026-01-01", periods=30, freq="MS")
    system = lds().fit([pd.DataFrame(y[:30], index=days), pd.DataFrame(y[30:], index=weeks)])
    assert system.n_inserted_ == 6 * 29
    with pytest.raises(DataError, match="all sequences must have the same step; got 1 day and 1 month"):
        lds().fit([pd.DataFrame(y[:30], index=days), pd.DataFrame(y[30:], index=months)])


def test_later_tables_have_the_step_of_the_fit(y):
    index = pd.date_range("2026-01-01", periods=60)
    system = lds().fit(pd.DataFrame(y, index=index))
    pair = pd.DataFrame(y[:2], index=index[[0, 7]])
    wanted = system.transform(np.vstack([y[:1], np.full((6, 4), NAN), y[1:2]]))[[0, 7]]
    assert_allclose(system.transform(pair), wanted, rtol=1e-12)
    assert_allclose(system.transform(pair.set_index(pair.index.as_unit("s"))), wanted, rtol=1e-12)
    with pytest.raises(DataError, match="all sequences must have the same step; got 1 day and 2:00:00"):
        system.transform(pd.DataFrame(y[:2], index=pd.date_range("2026-01-01", periods=2, freq="2h")))


def test_inputs_must_be_known_at_every_step(y):
    table = pd.DataFrame(y, index=pd.date_range("2026-01-01", periods=60)).iloc[KEPT]
    with pytest.raises(DataError, match="inputs must be known at every step"):
        lds().fit(table, inputs=np.ones((56, 1)))


def test_two_columns_of_dates_are_one_too_many(y):
    table = table_of(pd.DataFrame, COLUMNS["dates"][:60], y).assign(other=pd.Timestamp("2026-01-01"))
    with pytest.raises(DataError, match=r"columns when, other hold dates.\nHint: time="):
        lds().fit(table)


def test_there_must_be_something_beside_the_times():
    with pytest.raises(DataError, match="no column beside the times in column when"):
        lds().fit(pd.DataFrame({"when": pd.date_range("2026-01-01", periods=9)}))


def test_a_time_must_be_there(y):
    index = pd.DatetimeIndex([*pd.date_range("2026-01-01", periods=59), pd.NaT])
    with pytest.raises(DataError, match="the index holds the times and must have one in each row; row 60 has none"):
        lds().fit(pd.DataFrame(y, index=index))
    table = table_of(pl.DataFrame, [*COLUMNS["dates"][:59], None], y)
    with pytest.raises(DataError, match="column when holds the times and must have one in each row; row 60 has none"):
        lds().fit(table)


def test_numbers_that_say_nothing_about_time_count_rows(rng, y):
    for index in (rng.permutation(60), np.arange(60) // 2):
        system = lds().fit(pd.DataFrame(y, index=index))
        assert system.n_inserted_ == 0
        assert_array_equal(system.forecast(2).mean.index, [60, 61])


def test_an_index_of_dates_of_python_holds_the_times(y):
    index = pd.date_range("2020-01-31", periods=60, freq="ME")
    wanted = lds().fit(pd.DataFrame(y, index=index)).forecast(3).mean
    for labels in (index.date, [stamp.to_pydatetime() for stamp in index]):
        found = lds().fit(pd.DataFrame(y, index=pd.Index(labels, dtype=object))).forecast(3).mean
        assert list(found.index) == list(wanted.index)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d/%m/%Y", "%Y-%m"])
def test_an_index_of_text_that_looks_like_dates_is_said_to_count_rows(y, form):
    index = pd.date_range("2020-01-31", periods=60, freq="ME").strftime(form)
    with pytest.warns(UserWarning, match=r"which is not a time: rows are only counted[^\0]*to_datetime"):
        system = lds().fit(pd.DataFrame(y, index=index))
    assert list(system.forecast(2).mean.index) == [60, 61]
    lds().fit(pd.DataFrame(y, index=[f"row {i}" for i in range(60)]))  # without a warning, which would be an error


def test_a_row_of_a_dataframe_brings_its_time(y):
    """As ``iterrows`` gives it: steps that are left out count as empty rows."""
    table = pd.DataFrame(y, index=INDICES["month ends"], columns=NAMES)
    system = lds().fit(table[:50])
    for _, row in table.iloc[[50, 53]].iterrows():
        told = system.update(row)
    kept = system.filter(table.iloc[[*range(51), 53]]).filtered
    assert_allclose(told.state_mean, kept.mean[-1], rtol=1e-9, atol=1e-9)
    assert system.forecast(1).mean.index[0] == table.index[54]
    with pytest.raises(DataError, match="it is 1 step before the next one"):
        system.update(table.iloc[53])
    column = table.rename_axis("month").reset_index()
    other = lds().fit(column[:50])
    for _, row in column.iloc[[50, 53]].iterrows():
        other.update(row)
    assert_allclose(other.forecast(1).mean[NAMES], system.forecast(1).mean)
    assert other.forecast(1).mean["month"].iloc[0] == table.index[54]


def test_rows_go_to_the_nearest_week():
    index = pd.DatetimeIndex(["2020-01-01", "2020-01-09", "2020-01-14", "2020-01-23", "2020-01-29"])
    frame = pd.DataFrame({"a": np.arange(5.0)}, index=index)
    assert LinearDynamicalSystem().fit(frame, step="W").n_inserted_ == 0


def test_levels_of_an_index_are_not_read_as_one_series(y):
    months = pd.date_range("2020-01-31", periods=30, freq="ME")
    for dates in (months, months.to_period("M")):
        index = pd.MultiIndex.from_product([["north", "south"], dates], names=["place", "month"])
        with pytest.raises(DataError, match=r"several levels[^\0]*series="):
            lds().fit(pd.DataFrame(y, index=index))
