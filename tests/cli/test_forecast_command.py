"""``probpca forecast``: what comes next, and when that is."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probpca import DataError, LinearDynamicalSystem
from probpca.blocks.time_grid import Words
from probpca.cli.times import read_labels, times_after


@pytest.fixture
def series(folder):  # noqa: ARG001
    rng = np.random.default_rng(3)
    level = np.cumsum(rng.standard_normal(40))
    y = np.outer(level, [1.0, -0.5]) + 0.3 * rng.standard_normal((40, 2))
    y[5, 0] = np.nan
    months = pd.date_range("2020-01-01", periods=40, freq="MS").strftime("%Y-%m-%d")
    pd.DataFrame(y, columns=["up", "down"]).assign(month=months, note="x").to_csv("series.csv", index=False)
    return y


def assert_close(found, wanted):
    """Iterations end in the same place up to rounding, which depends on where arrays lie in memory."""
    assert_allclose(found, wanted, rtol=1e-9)


def test_the_forecast_is_that_of_the_library(run, series):
    done = run("forecast", "series.csv", "--steps", 3, "--components", 1, "--level", 0.9, "--out", "next.csv")
    assert done.code == 0, done.err
    assert "note: column month holds the time stamps; --time chooses another column.\n" in done.err
    expected = LinearDynamicalSystem(1, seasonal_periods=12, random_state=0).fit(series).forecast(3)
    low, high = expected.interval(0.9)
    found = pl.read_csv("next.csv")  # every digit: pandas 2 reads text to 15 digits
    assert list(found.columns) == ["month", "up", "down", "up_low", "up_high", "down_low", "down_high"]
    assert found["month"].to_list() == ["2023-05-01", "2023-06-01", "2023-07-01"]
    assert_close(found[["up", "down"]], expected.mean)
    assert_close(found[["up_low", "down_low"]], low)
    assert_close(found[["up_high", "down_high"]], high)
    line = next(line for line in done.out.splitlines() if line.startswith("2023-05-01"))
    assert f"{expected.mean[0, 0]:.3f} (" in line


def test_a_forecast_for_programs(run, series):
    told = json.loads(run("forecast", "series.csv", "--steps", 2, "--components", 1, "--time", "month", "--json").out)
    system = LinearDynamicalSystem(1, seasonal_periods=12, random_state=0).fit(series)
    assert_close(told["log_likelihood"], system.log_likelihood_)
    assert_close(told["data"]["up"], system.forecast(2).mean[:, 0])


@pytest.mark.usefixtures("folder", "series")
def test_a_forecast_that_does_not_fit_into_memory_is_refused_before_the_fit(run, monkeypatch):
    monkeypatch.setattr(LinearDynamicalSystem, "fit", None)
    done = run("forecast", "series.csv", "--steps", 10**12)
    assert done.code == 1
    assert "probpca: error: forecasts for 1,000,000,000,000 steps need " in done.err
    assert done.err.endswith("\nHint: forecast fewer steps.\n")


@pytest.mark.usefixtures("folder", "series")
def test_rows_that_are_not_in_order_are_refused(run):
    frame = pd.read_csv("series.csv")
    frame.iloc[[0, 2, 1, *range(3, 40)]].to_csv("mixed.csv", index=False)
    done = run("forecast", "mixed.csv", "--steps", 2)
    assert done.code == 1
    assert "month of mixed.csv must increase from row to row; row 3 is not later than the row before." in done.err


def after(labels, steps=2, step=None):
    return times_after(read_labels(labels), steps, Words("t", "--step", "--series"), step)


@pytest.mark.parametrize(
    ("labels", "following"),
    [
        (["1990", "1991", "1992"], [1993, 1994]),
        ([0.5, 1.0, 1.5], [2.0, 2.5]),
        ([1, 2, 4], [5, 6]),
        (["2020-01", "2020-02", "2020-03"], ["2020-04", "2020-05"]),
        (["2020-01", "2020-02", "2020-04"], ["2020-05", "2020-06"]),
        (["2020-11-30", "2020-12-31", "2021-01-31"], ["2021-02-28", "2021-03-31"]),
        (["2020-01-15", "2020-04-15", "2020-07-15"], ["2020-10-15", "2021-01-15"]),
        (["2019Q3", "2019Q4", "2020Q2"], ["2020Q3", "2020Q4"]),
        (["2024-02-28", "2024-02-29", "2024-03-01"], ["2024-03-02", "2024-03-03"]),
        (["2024-01-01", "2024-01-02", "2024-01-04"], ["2024-01-05", "2024-01-06"]),
        (["2024-01-04", "2024-01-05", "2024-01-08"], ["2024-01-09", "2024-01-10"]),
        (["2024-01-01 22:00", "2024-01-01 23:00"], ["2024-01-02 00:00", "2024-01-02 01:00"]),
        (["01/31/2024", "02/29/2024", "03/31/2024"], ["04/30/2024", "05/31/2024"]),
        (["30/12/2024", "31/12/2024", "01/01/2025"], ["02/01/2025", "03/01/2025"]),
        (["202311", "202312"], ["202401", "202402"]),
        (["20240130", "20240131"], ["20240201", "20240202"]),
        (
            ["2024-01-01T22:00:00+02:00", "2024-01-01T23:00:00+02:00"],
            ["2024-01-02 00:00:00+02:00", "2024-01-02 01:00:00+02:00"],
        ),
        (
            ["2026-03-29 01:00:00+01:00", "2026-03-29 03:00:00+02:00", "2026-03-29 04:00:00+02:00"],
            ["2026-03-29 05:00:00+02:00", "2026-03-29 06:00:00+02:00"],
        ),
        ([dt.date(2019, 1, 1), dt.date(2020, 1, 1)], ["2021-01-01", "2022-01-01"]),
        (["spring", "summer", "autumn"], ["+1", "+2"]),
        (["2020-01-01"], ["+1", "+2"]),
    ],
)
def test_time_goes_on_as_it_did(labels, following):
    assert after(labels).following == following
    assert bool(read_labels(labels).unknown) is (labels[0] == "spring" or len(labels) == 1)


def test_steps_that_are_not_equal_name_the_option():
    labels = ["2024-01-01", "2024-01-03", "2024-01-06"]
    with pytest.raises(DataError, match=r"t rises by 2 days and, in row 3, by 3 days(.|\n)*--step sets the step"):
        after(labels)
    found = after(labels, step="D")
    assert found.following == ["2024-01-07", "2024-01-08"]
    assert_array_equal(found.places, [0, 2, 5])


def test_days_and_months_that_cannot_be_told_apart_are_not_guessed():
    assert read_labels(["01/01/2024", "01/02/2024", "01/03/2024"]).unknown
    assert read_labels(["11/12/2024", "12/12/2024", "01/01/2025"]).unknown


def test_a_time_that_is_missing_is_named():
    assert read_labels(["2024-01-01", None, "2024-01-03"]).unknown == "has no time in row 2"


def test_after_the_last_year_steps_are_counted():
    assert after(["9998-01", "9999-01"]).following == ["+1", "+2"]


@pytest.mark.usefixtures("folder")
def test_more_states_than_there_is_to_learn_from_are_noticed(run, series):
    pd.DataFrame(series[:8]).to_csv("few.csv", index=False)
    done = run("forecast", "few.csv", "--steps", 2, "--components", 3)
    assert "note: 3 states have " in done.err
    assert "Hint: use fewer --components." in done.err


@pytest.mark.usefixtures("folder")
def test_names_of_intervals_take_no_other_column(run, series):
    pd.DataFrame(series, columns=["x", "x_low"]).to_csv("named.csv", index=False)
    run("forecast", "named.csv", "--steps", 2, "--components", 1, "--out", "next.csv")
    found = pl.read_csv("next.csv")
    assert found.columns == ["step", "x", "x_low", "x_low_", "x_high", "x_low_low", "x_low_high"]
    expected = LinearDynamicalSystem(1, random_state=0).fit(series).forecast(2)
    assert_close(found[["x", "x_low"]], expected.mean)


def test_time_must_rise():
    with pytest.raises(DataError, match=r"t must increase .* row 3"):
        after([1990, 1991, 1991])


@pytest.mark.parametrize("name", ["f.png", "f.svg", "f.pdf"])
def test_the_plot_is_written_in_the_format_of_its_name(folder, run, series, name):  # noqa: ARG001
    done = run("forecast", "series.csv", "--steps", 3, "--components", 1, "--plot", name)
    assert done.code == 0, done.err
    assert done.out.endswith(f"A plot of the forecast was saved to {name}.\n")
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert (folder / name).read_bytes().startswith(starts[name[1:]])


def test_the_plot_shows_series_and_forecast_at_their_times(run, series, monkeypatch):
    drawn = {}
    monkeypatch.setattr("probpca.cli.forecast_command.write_figure", lambda figure, _: drawn.update(figure=figure))
    run("forecast", "series.csv", "--steps", 4, "--components", 1, "--level", 0.9, "--plot", "f.png")
    axes = drawn["figure"].axes
    assert [ax.get_title(loc="left") or ax.get_title() for ax in axes] == ["up", "down"]
    assert axes[-1].get_xlabel() == "month"
    months = pd.date_range("2020-01-01", periods=44, freq="MS").to_numpy()
    times = [line.get_xdata() for line in axes[1].lines]
    assert_array_equal(times[-1].astype("datetime64[D]"), months[40:].astype("datetime64[D]"))
    observed = next(line for line in axes[1].lines if line.get_marker() == "o")
    assert_array_equal(observed.get_xdata().astype("datetime64[D]"), months[:40].astype("datetime64[D]"))
    assert_array_equal(observed.get_ydata(), series[:, 1])
    expected = LinearDynamicalSystem(1, seasonal_periods=12, random_state=0).fit(series).forecast(4)
    assert_close(axes[1].lines[-1].get_ydata(), expected.mean[:, 1])
    edge = axes[1].collections[-2].get_paths()[0].vertices[:, 1]
    low, high = expected.interval(0.9)
    assert_allclose([edge.min(), edge.max()], [low[:, 1].min(), high[:, 1].max()])


@pytest.mark.usefixtures("folder", "series")
def test_a_plot_that_cannot_be_written_is_refused_before_the_fit(run, monkeypatch):
    monkeypatch.setattr(LinearDynamicalSystem, "fit", None)
    done = run("forecast", "series.csv", "--steps", 3, "--plot", "f.txt")
    assert done.code == 1
    assert "the name of f.txt must end in .png or .svg or .pdf." in done.err


@pytest.mark.usefixtures("folder")
def test_factors_of_rows_that_grow_are_stationary(run):
    growth = 1.1 ** np.arange(40.0)
    noise = 0.01 * np.random.default_rng(0).standard_normal((40, 2))
    pd.DataFrame(np.outer(growth, [1, 2]) + noise, columns=["a", "b"]).to_csv("grows.csv", index=False)
    done = run("forecast", "grows.csv", "--steps", 30, "--components", 1, "--out", "next.csv")
    assert done.code == 0
    assert (pd.read_csv("next.csv")[["a", "b"]].max() < [10 * growth[-1], 20 * growth[-1]]).all()


@pytest.mark.usefixtures("folder", "series")
def test_many_steps_fit_a_page(run):
    done = run("forecast", "series.csv", "--steps", 100, "--components", 1)
    assert len(done.out.splitlines()) <= 30
    assert "... and 92 more steps; --out FILE writes all of them\n" in done.out


@pytest.mark.parametrize(("part", "count", "following"), [("quarter", 4, "2030Q1"), ("Month", 12, "2023-05")])
def test_years_with_a_part_of_the_year_are_one_time_axis(run, series, part, count, following):
    steps = np.arange(len(series))
    frame = pd.DataFrame(series, columns=["up", "down"])
    frame.insert(0, "Year", 2020.0 + steps // count)
    frame.insert(1, part, 1.0 + steps % count)
    frame.to_csv("parts.csv", index=False)
    done = run("forecast", "parts.csv", "--steps", 1, "--components", 1, "--out", "next.csv", "--plot", "next.png")
    assert done.code == 0, done.err
    assert f"note: columns Year and {part} hold the time stamps;" in done.err
    found = pd.read_csv("next.csv")
    assert found[part].tolist() == [following]
    assert "Year" not in found
    assert_close(found[["up", "down"]], LinearDynamicalSystem(1, random_state=0).fit(series).forecast(1).mean)


@pytest.mark.usefixtures("folder", "series")
def test_dates_in_a_column_without_a_name_are_the_time_axis(run):
    frame = pd.read_csv("series.csv", index_col="month")
    frame[["up"]].rename_axis("").to_csv("indexed.csv")
    done = run("forecast", "indexed.csv", "--steps", 1, "--components", 1, "--out", "next.csv")
    assert done.code == 0, done.err
    assert "column (no name) holds" in done.err
    assert "40 steps x 1 feature, 1 state" in done.out
    assert pd.read_csv("next.csv")["time"].tolist() == ["2023-05-01"]


@pytest.mark.usefixtures("folder")
def test_rows_that_are_absent_count_as_empty_rows(run, series):
    frame = pd.read_csv("series.csv").drop(columns="note")
    frame.drop(index=[7, 8, 20]).to_csv("gaps.csv", index=False)
    done = run("forecast", "gaps.csv", "--steps", 2, "--components", 1, "--out", "next.csv", "--plot", "next.png")
    assert done.code == 0, done.err
    assert "note: 3 of 40 steps in column month have no row and count as empty rows.\n" in done.err
    holes = series.copy()
    holes[[7, 8, 20]] = np.nan
    found = pl.read_csv("next.csv")
    assert_close(found[["up", "down"]], LinearDynamicalSystem(1, random_state=0).fit(holes).forecast(2).mean)
    assert found["month"].to_list() == ["2023-05-01", "2023-06-01"]


@pytest.mark.usefixtures("folder", "series")
def test_the_step_of_uneven_rows_is_an_option(run):
    frame = pd.read_csv("series.csv").drop(columns="note")
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(np.cumsum(np.arange(40) % 2 + 2), "D")
    frame.assign(month=days).to_csv("uneven.csv", index=False)
    done = run("forecast", "uneven.csv", "--steps", 2)
    assert done.code == 1
    assert "Hint: --step sets the step, such as 'month', 'D', 'h' or '15min'" in done.err
    assert "--exclude COLUMN counts the rows" in done.err
    done = run("forecast", "uneven.csv", "--steps", 2, "--exclude", "month", "--components", 1)
    assert done.code == 0, done.err
    assert "+1" in done.out
    done = run("forecast", "uneven.csv", "--steps", 2, "--step", "D", "--components", 1)
    assert done.code == 0, done.err
    assert "count as empty rows" in done.err


@pytest.mark.usefixtures("folder")
def test_stacked_series_are_told_apart_by_a_column(run, series):
    frame = pd.read_csv("series.csv").drop(columns="note")
    frame.melt("month", var_name="way").dropna().to_csv("long.csv", index=False)
    done = run("forecast", "long.csv", "--steps", 2, "--components", 1)
    assert done.code == 1
    assert "name their column with --series" in done.err
    done = run("forecast", "long.csv", "--steps", 2, "--components", 1, "--series", "way", "--out", "next.csv")
    assert done.code == 0, done.err
    found = pl.read_csv("next.csv")
    wanted = LinearDynamicalSystem(1, random_state=0).fit(series).forecast(2)
    assert_close(found[["up", "down"]], wanted.mean)
    both = pd.concat([frame.assign(shop="a"), frame.iloc[:30].assign(shop="b")])
    both.to_csv("shops.csv", index=False)
    done = run("forecast", "shops.csv", "--steps", 2, "--components", 1, "--series", "shop", "--out", "shops_next.csv")
    assert done.code == 0, done.err
    found = pl.read_csv("shops_next.csv")
    assert found["shop"].to_list() == ["a", "a", "b", "b"]
    assert found["month"].to_list() == ["2023-05-01", "2023-06-01", "2022-07-01", "2022-08-01"]
    wanted = LinearDynamicalSystem(1, random_state=0).fit([series, series[:30]]).forecast(2)
    assert_close(found[["up", "down"]], np.vstack([one.mean for one in wanted]))


@pytest.mark.usefixtures("folder", "series")
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_come_back_as_dates(run, zone):
    times = pd.date_range("2026-03-27", periods=42, freq="h", tz=zone)
    frame = pd.read_csv("series.csv").drop(columns="note")
    frame.assign(month=times[:40]).to_parquet("hours.parquet")
    done = run("forecast", "hours.parquet", "--steps", 2, "--components", 1, "--out", "next.parquet")
    assert done.code == 0, done.err
    found = pd.read_parquet("next.parquet")["month"]
    assert found.dt.tz is None if zone is None else str(found.dt.tz) == zone
    assert list(found) == list(times[40:])


@pytest.mark.usefixtures("folder")
def test_a_line_says_how_good_such_forecasts_were(run, series):
    done = run("forecast", "series.csv", "--steps", 4, "--components", 1)
    wanted = LinearDynamicalSystem(1, random_state=0, seasonal_periods=12).backtest(series, 4)
    said = f"this model was off by {wanted.relative_error['model']:.2f} of the naive forecast"
    assert "backtest          on the last 10 months" in done.out
    assert said in " ".join(done.out.split())
    told = json.loads(run("forecast", "series.csv", "--steps", 4, "--components", 1, "--json").out)["backtest"]
    assert told["relative_error_model"] == wanted.relative_error["model"]
    assert (told["coverage"], told["n_forecasts"]) == (wanted.mean_coverage, 4)


@pytest.mark.usefixtures("folder")
def test_what_speaks_against_a_forecast_is_noted(run, series):
    pd.DataFrame(series[:9]).to_csv("few.csv", index=False)
    done = run("forecast", "few.csv", "--steps", 2, "--components", 1)
    assert "note: there are too few rows to test forecasts on the past.\n" in done.err
    assert "backtest" not in done.out
    walk = np.arange(60.0)[:, None] + 0.01 * np.random.default_rng(0).standard_normal((60, 1))
    pd.DataFrame(walk, columns=["up"]).to_csv("line.csv", index=False)
    done = run("forecast", "line.csv", "--steps", 6, "--components", 1)
    assert "note: a straight line from the first to the last value was closer than the model" in done.err
    pd.DataFrame({"a": [*walk[:30, 0], *[2.0] * 30]}).to_csv("constant.csv", index=False)
    done = run("forecast", "constant.csv", "--steps", 2, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["backtest"]["relative_error_model"] is None


@pytest.mark.usefixtures("series")
def test_a_report_can_be_written(folder, run):
    done = run("forecast", "series.csv", "--steps", 4, "--components", 1, "--report", "page.html")
    assert done.code == 0, done.err
    assert "A report was written to page.html." in done.out
    text = (folder / "page.html").read_text(encoding="utf-8")
    assert "series.csv" in text
    assert "2023-08" in text
    assert "this model was off by" in text
    assert run("forecast", "series.csv", "--steps", 4, "--report", "page.txt").code == 1
    assert run("forecast", "series.csv", "--steps", 4, "--report", "page.html").code == 1
