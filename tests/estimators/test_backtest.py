"""Backtests: forecasts see the rows before their origin alone, and are compared with what came and with naive ones."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import punched
from probpca import DataError, LinearDynamicalSystem, ShapeError
from probpca.inference.time_series.backtest import naive_forecasts

NAN = np.nan
NAMES = ["north", "south"]


def rows():
    """A season of twelve, a trend and noise, with a few missing cells."""
    rng, t = np.random.default_rng(1), np.arange(96)
    season = np.sin(2 * np.pi * t / 12)[:, None] * [3.0, 1.0]
    return punched(rng, season + 0.05 * t[:, None] + 0.3 * rng.standard_normal((96, 2)), 0.05)


@pytest.fixture
def y():
    return rows()


@pytest.fixture(scope="module")
def found():
    return LinearDynamicalSystem(seasonal_periods=12).backtest(rows(), 12, 3)


def test_each_forecast_is_that_of_a_fit_to_the_rows_before_its_origin(y, found):
    assert_array_equal(found.origins, [72, 78, 84])
    for k, origin in enumerate(found.origins):
        ahead = LinearDynamicalSystem(seasonal_periods=12).fit(y[:origin]).forecast(12)
        assert_array_equal(found.forecasts["model"][k], ahead.mean)
        assert_array_equal([found.low[k], found.high[k]], ahead.interval(0.95))
        assert_array_equal(found.actual[k], y[origin : origin + 12])


def test_rows_after_an_origin_are_not_seen(y, found):
    y[84:] += 100.0
    other = LinearDynamicalSystem(seasonal_periods=12).backtest(y, 12, 3)
    assert_array_equal(other.forecasts["model"], found.forecasts["model"])
    assert other.relative_error["model"] > found.relative_error["model"]


def brute_naive(past, horizon, period):
    """The same forecasts, cell by cell."""
    out = {name: np.full((horizon, past.shape[1]), NAN) for name in ("naive", "seasonal_naive", "drift")}
    for j in range(past.shape[1]):
        known = [t for t in range(len(past)) if past[t, j] == past[t, j]]
        if not known:
            continue
        first, last = known[0], known[-1]
        for h in range(horizon):
            time = len(past) + h
            out["naive"][h, j] = past[last, j]
            slope = (past[last, j] - past[first, j]) / (last - first) if last > first else 0.0
            out["drift"][h, j] = past[last, j] + slope * (time - last)
            same = [t for t in known if (time - t) % period == 0] if period > 1 else []
            out["seasonal_naive"][h, j] = past[same[-1] if same else last, j]
    return out


@pytest.mark.parametrize("n", [1, 5, 17, 40])
@pytest.mark.parametrize("period", [1, 2, 7, 12])
def test_naive_forecasts_repeat_what_was_observed(rng, n, period):
    past = punched(rng, rng.standard_normal((n, 4)), 0.3)
    past[:, 3] = NAN
    wanted = brute_naive(past, 15, period)
    for name, forecast in naive_forecasts(past, 15, period).items():
        assert_allclose(forecast, wanted[name], rtol=1e-12)


def test_errors_and_coverage_are_means_over_origins_and_steps(found):
    known = ~np.isnan(found.actual)
    for j in range(2):
        cells = known[:, :, j]
        for name, forecast in found.forecasts.items():
            error = (found.actual[:, :, j] - forecast[:, :, j])[cells]
            assert_allclose(found.rmse[name][j], np.sqrt(np.mean(error**2)))
            assert_allclose(found.relative[name][j], found.rmse[name][j] / found.rmse["naive"][j])
        inside = (found.low[:, :, j] <= found.actual[:, :, j]) & (found.actual[:, :, j] <= found.high[:, :, j])
        assert_allclose(found.coverage[j], inside[cells].mean())
    assert_allclose(found.relative_error["model"], np.sqrt(np.prod(found.relative["model"])))
    assert_array_equal(found.relative["naive"], [1.0, 1.0])
    assert found.mean_coverage == ((found.low <= found.actual) & (found.actual <= found.high))[known].mean()
    errors = np.array([found.errors["model"][:, h] for h in range(12)])
    naive = np.array([found.errors["naive"][:, h] for h in range(12)])
    ratio = np.sqrt(np.nanmean(errors**2, axis=1) / np.nanmean(naive**2, axis=1))
    assert_allclose(found.by_step["model"], np.sqrt(ratio.prod(axis=1)))


def test_a_model_of_what_made_the_rows_is_better_than_naive(found):
    assert found.relative_error["model"] < found.relative_error["seasonal_naive"] < found.relative_error["naive"]
    assert found.notes == ()


def test_a_model_that_is_worse_than_naive_says_so(rng):
    walk = np.cumsum(rng.standard_normal((80, 1)), axis=0)
    walk[60:] += 30.0 * np.arange(1, 21)[:, None]  # what no rows before could tell
    found = LinearDynamicalSystem(1, transition=[[0.5]], random_state=0, tol=1.0).backtest(walk, 6, 2)
    assert found.relative_error["model"] > 1
    assert any("closer than the model" in note for note in found.notes)
    assert any("too narrow" in note for note in found.notes)


def test_results_are_printed_and_given_as_tables(y, found):
    text = str(found)
    assert "Backtest: 3 forecasts of 12 steps, errors / naive" in text
    assert "On the last 24 steps this model was off by" in text
    assert "seasonal naive" in text
    assert "<table" in found._repr_html_()
    assert found.sentence().startswith("on the last 24 steps this model was off by 0.")
    columns = found.to_dict()
    assert_array_equal(columns["feature"], ["x0", "x1"])
    assert_array_equal(columns["relative_error"], found.relative["model"])
    assert isinstance(found.to_frame(), pd.DataFrame)
    frame = LinearDynamicalSystem().backtest(pl.DataFrame(y, schema=NAMES), 4, 1).to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame["feature"].to_list() == NAMES


def test_times_give_the_season_and_the_words(y):
    table = pd.DataFrame(y, columns=NAMES, index=pd.period_range("2018-01", periods=96, freq="M"))
    found = LinearDynamicalSystem().backtest(table, 12, 3)
    assert found.period == 12
    assert "on the last 2 years this model" in found.sentence()
    wanted = LinearDynamicalSystem(seasonal_periods=12).backtest(y, 12, 3)
    assert_array_equal(found.forecasts["model"], wanted.forecasts["model"])
    gappy = table.drop(table.index[[10, 60, 90]])
    y[[10, 60, 90]] = NAN
    wanted = LinearDynamicalSystem(seasonal_periods=12).backtest(y, 12, 3)
    assert_array_equal(LinearDynamicalSystem().backtest(gappy, 12, 3).forecasts["model"], wanted.forecasts["model"])
    days = table.set_index(pd.date_range("2026-01-01", periods=96))
    assert "on the last 9 days this" in LinearDynamicalSystem().backtest(days, 6, 2).sentence()


def test_the_fit_stays_and_tells_how_to_read(y):
    long = pd.DataFrame(y, columns=NAMES, index=pd.date_range("2018-01-31", periods=96, freq="ME"))
    long = long.melt(ignore_index=False, var_name="shop").dropna()
    system = LinearDynamicalSystem().fit(long, series="shop")
    before = system.forecast(2).mean
    found = system.backtest(long, 12, 2)
    pd.testing.assert_frame_equal(system.forecast(2).mean, before)
    fresh = LinearDynamicalSystem().backtest(long, 12, 2, series="shop")
    assert_array_equal(found.forecasts["model"], fresh.forecasts["model"])
    assert_array_equal(found.to_dict()["feature"], NAMES)


def test_sequences_are_cut_at_their_own_ends(y):
    found = LinearDynamicalSystem(1, random_state=0, tol=1.0).backtest([y[:50], y[50:]], 4, 2)
    assert_array_equal(found.sequences, [0, 1, 0, 1])
    assert_array_equal(found.origins, [44, 40, 46, 42])
    ahead = LinearDynamicalSystem(1, random_state=0, tol=1.0).fit([y[:46], y[50:92]]).forecast(4)
    assert_array_equal(found.forecasts["model"][2:], [one.mean for one in ahead])
    short = LinearDynamicalSystem(1, random_state=0, tol=1.0).backtest([y[:50], y[50:60]], 4, 1)
    assert_array_equal(short.sequences, [0])


def test_inputs_are_known_ahead(rng, y):
    inputs = rng.standard_normal((96, 1))
    system = LinearDynamicalSystem(1, random_state=0, tol=1.0)
    found = system.backtest(y, 5, 2, inputs=inputs)
    origin = found.origins[-1]
    ahead = system.fit(y[:origin], inputs=inputs[:origin]).forecast(5, future=inputs[origin : origin + 4])
    assert_allclose(found.forecasts["model"][-1], ahead.mean, rtol=1e-10)


def test_few_rows_have_fewer_origins_or_none(y):
    assert LinearDynamicalSystem().backtest(y[:20], 8, 9).n_origins == 1
    assert LinearDynamicalSystem().backtest(y[:20], 2, 100).n_origins == 9
    with pytest.raises(DataError, match=r"a backtest of 12 steps needs 22 rows or more; got 20.\nHint: use a shorter"):
        LinearDynamicalSystem().backtest(y[:20], 12)
    assert LinearDynamicalSystem(seasonal_periods=12).backtest(y[:44], 12, 9).n_origins == 1  # two seasons, and five
    assert LinearDynamicalSystem(seasonal_periods=12).backtest(y[:34], 12, 9).n_origins == 3
    for wrong in (0, 1.5, True):
        with pytest.raises(ShapeError, match="horizon must be a whole number"):
            LinearDynamicalSystem().backtest(y, wrong)
    with pytest.raises(ShapeError, match="n_origins must be a whole number"):
        LinearDynamicalSystem().backtest(y, 3, 0)


def test_a_constant_series_has_no_error_to_compare_with():
    rows = np.column_stack([np.ones(40), np.arange(40.0) ** 1.5])
    found = LinearDynamicalSystem().backtest(rows, 4, 1)
    assert np.isnan(found.relative["model"][0])
    assert np.isfinite(found.relative_error["model"])
