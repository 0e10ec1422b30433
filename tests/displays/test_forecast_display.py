"""Past, smoothed past and fan are those of the system."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probpca import PPCA, DataError, ForecastDisplay, LinearDynamicalSystem, ShapeError


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(8)
    y = np.outer(np.cumsum(rng.standard_normal(60)), [1.0, -0.5, 2.0, 0.3]) + rng.standard_normal((60, 4))
    y[10:14, 1] = np.nan
    y[30] = np.nan
    return y


@pytest.fixture(scope="module")
def system(series):
    return LinearDynamicalSystem(n_components=1, tol=0.1, random_state=0).fit(series)


def test_numbers_are_those_of_the_system(system, series):
    display = ForecastDisplay.from_estimator(system, series, horizon=7, features=[2, 1])
    ahead = system.forecast(7, series)
    assert_array_equal(display.past, series[:, [2, 1]])
    assert_allclose(display.smoothed, system.inverse_transform(system.transform(series))[:, [2, 1]])
    assert_allclose(display.mean, ahead.mean[:, [2, 1]])
    assert [band.level for band in display.bands] == [0.95, 0.8, 0.5]
    for band in display.bands:
        low, high = ahead.interval(band.level)
        assert_allclose(band.low, low[:, [2, 1]])
        assert_allclose(band.high, high[:, [2, 1]])
    low, _ = system.impute_interval(series, 0.95)
    gone = np.isnan(series[:, [2, 1]])
    assert_allclose(display.filled.low, np.where(gone, low[:, [2, 1]], np.nan))
    display.figure_.canvas.draw()


def test_the_ink_is_where_the_numbers_are(system, series):
    display = ForecastDisplay.from_estimator(system, series, horizon=5, features=0, levels=[0.9])
    smoothed, past, mean = display.ax_.lines
    assert_allclose(smoothed.get_ydata(), display.smoothed[:, 0])
    assert_allclose(past.get_ydata(), series[:, 0])
    assert_array_equal(mean.get_xdata(), np.arange(60, 65))
    assert_allclose(mean.get_ydata(), display.mean[:, 0])
    outline = display.ax_.collections[1].get_paths()[0].vertices
    assert_allclose(outline[:, 1].max(), display.bands[0].high[:, 0].max())
    assert_allclose(outline[:, 1].min(), display.bands[0].low[:, 0].min())


def test_wider_bands_hold_narrower_ones(system, series):
    display = ForecastDisplay.from_estimator(system, series)
    for wide, narrow in zip(display.bands, display.bands[1:], strict=False):
        assert (wide.low < narrow.low).all()
        assert (wide.high > narrow.high).all()


def test_times_go_on(system, series):
    display = ForecastDisplay.from_estimator(system, series, horizon=3, times=1950 + np.arange(60))
    assert_array_equal(display.future_times, [2010, 2011, 2012])
    told = ForecastDisplay.from_estimator(system, series, horizon=2, times=[*range(60), 70, 90])
    assert_array_equal(told.future_times, [70, 90])
    days = np.datetime64("2020-01-01") + np.arange(60)
    dated = ForecastDisplay.from_estimator(system, series, horizon=2, times=days)
    assert dated.future_times[-1] == np.datetime64("2020-03-02")
    dated.figure_.canvas.draw()


def test_only_the_last_steps_may_be_shown(system, series):
    display = ForecastDisplay.from_estimator(system, series, last=20)
    assert_array_equal(display.times, np.arange(40, 60))
    assert_array_equal(display.past, series[40:, :3])


@pytest.mark.parametrize("kind", ["dates", "periods", "numbers"])
def test_names_and_times_come_from_a_dataframe(series, kind):
    pandas = pytest.importorskip("pandas")
    months = pandas.date_range("2020-01-01", periods=60, freq="MS")
    index = {"dates": months, "periods": months.to_period("M"), "numbers": pandas.RangeIndex(5, 65)}[kind]
    frame = pandas.DataFrame(series, columns=list("abcd"), index=index)
    system = LinearDynamicalSystem(n_components=1, tol=1.0, random_state=0).fit(frame)
    display = ForecastDisplay.from_estimator(system, frame, horizon=2, features="c")
    assert display.feature_names == ["c"]
    assert_allclose(display.mean[:, 0], system.forecast(2, frame).mean["c"])
    wanted = {"dates": np.datetime64("2025-02-01"), "periods": np.datetime64("2025-02-01"), "numbers": 66}[kind]
    assert display.future_times[-1] == wanted
    display.figure_.canvas.draw()


def test_inputs_are_passed_on(series):
    push = np.sin(np.arange(60.0))[:, None]
    system = LinearDynamicalSystem(n_components=1, tol=1.0, random_state=0).fit(series, inputs=push)
    display = ForecastDisplay.from_estimator(system, series, horizon=3, inputs=push, future=[[1.0], [2.0]])
    told = system.forecast(3, series, inputs=push, future=[[1.0], [2.0]])
    assert_allclose(display.mean, told.mean[:, :3])


def test_given_axes_are_used(system, series):
    _, axes = plt.subplots(3, 1)
    display = ForecastDisplay.from_estimator(system, series, features=[0, 3], ax=axes[:2])
    assert list(display.axes_) == list(axes[:2])
    assert not axes[2].has_data()


def test_what_cannot_be_drawn_is_said(system, series):
    with pytest.raises(ShapeError, match=r"features must be numbers from 0 to 3; got \[4\]"):
        ForecastDisplay.from_estimator(system, series, features=4)
    with pytest.raises(ShapeError, match="horizon must be an int of at least 1"):
        ForecastDisplay.from_estimator(system, series, horizon=0)
    with pytest.raises(DataError, match=r"level must lie between 0 and 1; got 1\.5"):
        ForecastDisplay.from_estimator(system, series, levels=[0.5, 1.5])
    with pytest.raises(DataError, match="times must be those of 60 rows, or of these and of 10 steps ahead; got 3"):
        ForecastDisplay.from_estimator(system, series, times=[1, 2, 3])
    with pytest.raises(DataError, match="ForecastDisplay needs a fitted estimator"):
        ForecastDisplay.from_estimator(LinearDynamicalSystem(), series)
    with pytest.raises(DataError, match="needs an estimator with forecast, which PPCA does not have"):
        ForecastDisplay.from_estimator(PPCA(), series)


def test_values_that_are_held_out_stand_beside_their_forecast(system, series):
    display = ForecastDisplay.from_estimator(system, series, horizon=8, features=[1], held_out=5)
    wanted = system.forecast(8, series[:-5])
    assert_array_equal(display.mean[:, 0], wanted.mean[:, 1])
    assert_array_equal(display.past[:, 0], series[:-5, 1])
    assert_array_equal(display.held[:, 0], series[-5:, 1])
    assert_array_equal(display.held_times, np.arange(55, 60))
    assert_array_equal(display.future_times, np.arange(55, 63))
    circles = [line for line in display.ax_.lines if line.get_markerfacecolor() == "none"]
    assert_array_equal(circles[0].get_ydata(), series[-5:, 1])
    for wrong in (-1, 60, 1.5):
        with pytest.raises(ShapeError, match="held_out must be a whole number from 0 to 59"):
            ForecastDisplay.from_estimator(system, series, held_out=wrong)


def test_inputs_of_steps_that_are_held_out_are_known(rng, series):
    push = rng.standard_normal((60, 1))
    system = LinearDynamicalSystem(1, tol=1.0, random_state=0).fit(series, inputs=push)
    display = ForecastDisplay.from_estimator(system, series, horizon=4, inputs=push, held_out=4)
    wanted = system.forecast(4, series[:56], inputs=push[:56], future=push[56:59])
    assert_allclose(display.mean, wanted.mean[:, :3], rtol=1e-10)


@pytest.mark.parametrize("form", ["index", "column", "polars"])
def test_rows_stand_at_their_times(series, form):
    days = pd.date_range("2026-03-01", periods=62, tz="Europe/Berlin")
    table = pd.DataFrame(series, columns=list("abcd"), index=days[:60]).drop(days[[10, 11]])
    if form != "index":
        table = table.rename_axis("day").reset_index()
    if form == "polars":
        table = pl.from_pandas(table)
    system = LinearDynamicalSystem(1, tol=1.0, random_state=0).fit(table)
    display = ForecastDisplay.from_estimator(system, table, horizon=2)
    wanted = days.tz_localize(None).to_numpy()
    assert_array_equal(display.times.astype("M8[s]"), wanted[:60].astype("M8[s]"))
    assert_array_equal(display.future_times.astype("M8[s]"), wanted[60:].astype("M8[s]"))
    assert np.isnan(display.past[[10, 11]]).all()
    assert np.isfinite(display.filled.low[[10, 11]]).all()
