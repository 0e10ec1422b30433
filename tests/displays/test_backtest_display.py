"""BacktestDisplay: what was forecast at each origin, what came, and errors by steps ahead."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probpca import PPCA, BacktestDisplay, DataError, LinearDynamicalSystem


@pytest.fixture
def y(rng):
    return np.cumsum(rng.standard_normal((60, 4)), axis=0)


@pytest.fixture
def found(y):
    return LinearDynamicalSystem().backtest(y, 6, 3)


def test_panels_show_the_forecasts_of_every_origin_and_what_came(y, found):
    display = BacktestDisplay.from_backtest(found, features=[2, 0], last=30)
    assert [ax.get_title(loc="left") for ax in display.axes_] == ["x2", "x0", "error by steps ahead"]
    lines = display.axes_[0].lines
    assert_array_equal(lines[1].get_xdata(), np.arange(30, 60))
    assert_array_equal(lines[1].get_ydata(), y[30:, 2])
    for k, line in enumerate(lines[2:]):
        assert_array_equal(line.get_xdata(), found.origins[k] + np.arange(6))
        assert_array_equal(line.get_ydata(), found.forecasts["model"][k, :, 2])
    edge = display.axes_[0].collections[0].get_paths()[0].vertices[:, 1]
    assert_allclose([edge.min(), edge.max()], [found.low[0, :, 2].min(), found.high[0, :, 2].max()])


def test_curves_are_relative_errors_at_each_step(found):
    curves = {line.get_label(): line for line in BacktestDisplay.from_backtest(found).axes_[-1].lines}
    assert set(curves) == {"model", "naive", "drift"}
    assert_array_equal(curves["model"].get_xdata(), np.arange(1, 7))
    assert_array_equal(curves["model"].get_ydata(), found.by_step["model"])
    assert_array_equal(curves["naive"].get_ydata(), np.ones(6))


def test_times_are_those_of_the_table(y):
    table = pd.DataFrame(y, index=pd.date_range("2020-01-31", periods=60, freq="ME")).drop(pd.Timestamp("2022-05-31"))
    display = BacktestDisplay.from_estimator(LinearDynamicalSystem(), table, horizon=3, n_origins=2, most=1)
    assert len(display.axes_) == 2
    times = display.axes_[0].lines[1].get_xdata().astype("datetime64[D]")
    assert_array_equal(times, pd.date_range("2020-01-31", periods=60, freq="ME").to_numpy()[-12:].astype("M8[D]"))
    assert "seasonal naive" in [line.get_label() for line in display.axes_[-1].lines]


def test_what_is_no_backtest_is_refused(y, found):
    with pytest.raises(DataError, match="from_backtest needs the result of backtest"):
        BacktestDisplay.from_backtest(y)
    with pytest.raises(DataError, match="needs an estimator with the method backtest"):
        BacktestDisplay.from_estimator(PPCA(), y)
    with pytest.raises(ValueError, match="height"):
        BacktestDisplay.from_backtest(found, features="height")
