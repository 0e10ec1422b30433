"""The parts of a series, one above the other, on one axis of time."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probpca import PPCA, ComponentsDisplay, DataError, LinearDynamicalSystem, ShapeError


@pytest.fixture
def frame():
    rng, t = np.random.default_rng(0), np.arange(60)
    y = np.c_[0.5 * t + 4 * np.sin(np.pi * t / 6), np.zeros(60)] + rng.standard_normal((60, 2))
    y[20, 0] = np.nan
    return pd.DataFrame(y, index=pd.date_range("2015-01-31", periods=60, freq="ME"), columns=["births", "deaths"])


@pytest.fixture
def system(frame):
    return LinearDynamicalSystem().fit(frame)


def test_the_parts_that_a_feature_has_are_drawn(system, frame):
    display = ComponentsDisplay.from_estimator(system, frame)
    assert list(display.parts) == ["level", "slope", "season", "noise"]
    assert [ax.get_title(loc="left") for ax in display.axes_] == ["births: level", "slope", "season", "noise"]
    assert list(ComponentsDisplay.from_estimator(system, frame, feature="deaths").parts) == ["level", "noise"]


def test_points_are_the_observed_values_and_lines_the_parts(system, frame):
    display = ComponentsDisplay.from_estimator(system, frame)
    points, line = display.ax_.get_lines()
    assert_allclose(points.get_ydata(), frame["births"])
    assert_array_equal(line.get_ydata(), system.components(frame).level["births"])
    assert_array_equal(display.times, frame.index.to_numpy())
    assert np.isnan(display.past[20])
    assert len({ax.get_shared_x_axes().joined(ax, display.ax_) for ax in display.axes_}) == 1


@pytest.mark.parametrize("kind", [lambda table: table, pl.from_pandas], ids=["pandas", "polars"])
def test_a_column_of_dates_is_the_time_and_absent_rows_leave_a_gap(system, frame, kind):
    wanted = frame.copy()
    wanted.iloc[[30, 31]] = np.nan
    table = kind(frame.drop(index=frame.index[[30, 31]]).rename_axis("month").reset_index())
    display = ComponentsDisplay.from_estimator(system, table)
    assert_array_equal(display.times, frame.index.to_numpy())
    assert_allclose(display.past, wanted["births"])
    assert_array_equal(display.parts["level"], system.components(wanted).level["births"])


def test_given_axes_and_times_are_used(system, frame):
    axes = plt.subplots(2)[1]
    display = ComponentsDisplay.from_estimator(
        system, frame, feature=1, times=range(60), feature_names=["a", "b"], value_name="per day", ax=axes
    )
    assert display.axes_[1] is axes[1]
    assert axes[0].get_title(loc="left") == "b: level"
    assert axes[0].get_ylabel() == "per day"


def test_what_cannot_be_drawn_is_refused(system, frame):
    with pytest.raises(DataError, match="needs an estimator with components"):
        ComponentsDisplay.from_estimator(PPCA(1).fit(frame.dropna()), frame)
    with pytest.raises(DataError, match="shows a single sequence; got 2"):
        ComponentsDisplay.from_estimator(system, [frame, frame])
    with pytest.raises(ShapeError, match="births, deaths; got 'marriages'"):
        ComponentsDisplay.from_estimator(system, frame, feature="marriages")
    with pytest.raises(ShapeError, match="those of 60 steps; got 3"):
        ComponentsDisplay(np.zeros(60), {"level": np.zeros(60)}, "a", times=range(3))
