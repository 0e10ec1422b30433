"""Pages about time series: they say what the estimator says, and names stay text."""

import re

import numpy as np
import pandas as pd
import pytest

from html_pages import EVIL, loads_nothing, read
from probpca import PPCA, DataError, LinearDynamicalSystem, SourceError, anomalies_page, report, series_report
from probpca.pages.page import p_text
from probpca.pages.series_charts import time_words
from probpca.pages.series_report import SeriesReportSettings


@pytest.fixture
def sales():
    t = np.arange(84)
    rng = np.random.default_rng(0)
    wave = 3 * np.sin(2 * np.pi * t / 12) + 0.05 * t
    y = np.column_stack([wave, -wave]) + 0.4 * rng.standard_normal((84, 2))
    y[20:23, 0] = np.nan
    y[60, 1] += 6
    table = pd.DataFrame(y, pd.period_range("2018-01", periods=84, freq="M"), ["ice", "tea"])
    return table.drop(table.index[[40, 41]])


@pytest.fixture
def system(sales):
    return LinearDynamicalSystem().fit(sales)


def words_of(page):
    return " ".join(" ".join(page.words).split())


def test_the_report_says_what_the_estimator_says(system, sales, tmp_path):
    page = series_report(system, sales, tmp_path / "page.html", horizon=6)
    said, text = words_of(read(page)), page.read_text(encoding="utf-8")
    judged = system.backtest(sales, 6)
    sentence = judged.sentence()
    assert sentence[0].upper() + sentence[1:] in said
    assert f"{judged.relative_error['model']:.2f}" in said
    ahead = system.forecast(6)
    assert f"{ahead.mean.iloc[0, 0]:.3f} (" in said
    assert "2025-01" in said
    for line in system.summary().splitlines():
        assert " ".join(line.split()) in said
    found = system.anomalies(sales)
    worst = int(found.p_value.argmin())
    assert f"{sales.index[worst]} {p_text(float(found.log10_p_value[worst]))} 2 of 2 tea" in said
    assert text.count("<svg") == 3
    dots = re.findall(r"<circle", text)
    assert len(dots) == int(sales.notna().sum().sum())
    loads_nothing(page)


def test_the_page_of_unusual_steps_has_their_p_values(system, sales, tmp_path):
    said = words_of(read(anomalies_page(system, sales, tmp_path / "page.html", settings=SeriesReportSettings(p=0.01))))
    found = system.anomalies(sales)
    assert f"{(found.p_value < 0.01).sum()} step" in said
    for i in np.argsort(found.log10_p_value)[:5]:
        assert f"{sales.index[i]} {p_text(float(found.log10_p_value[i]))}" in said


@pytest.mark.parametrize("evil", EVIL)
def test_names_stay_text(system, sales, tmp_path, evil):
    page = anomalies_page(system, sales, tmp_path / "page.html", title=evil, feature_names=[evil, "<b>tea</b>"])
    assert "<b>tea</b>" not in page.read_text("utf-8")
    assert read(page).count("script") == 1
    loads_nothing(page)


def test_what_a_page_cannot_show_is_refused(system, sales, tmp_path):
    place = tmp_path / "page.html"
    for page in (series_report, anomalies_page):
        with pytest.raises(DataError, match=r"needs a fitted LinearDynamicalSystem; got PPCA.\nHint: report\(\)"):
            page(PPCA(1).fit(sales.dropna()), sales, place)
        with pytest.raises(DataError, match="fitted"):
            page(LinearDynamicalSystem(), sales, place)
        with pytest.raises(DataError, match="needs a single sequence; got 2"):
            page(system, [sales, sales], place)
        with pytest.raises(SourceError):
            page(system, sales, tmp_path / "nowhere" / "page.html")
    with pytest.raises(DataError, match="series_report writes pages about time series"):
        report(system, sales, place)


def test_few_rows_have_a_report_without_a_backtest(tmp_path):
    rows = np.random.default_rng(0).standard_normal((9, 1)).cumsum(axis=0)
    page = read(series_report(LinearDynamicalSystem().fit(rows), rows, tmp_path / "page.html"))
    assert "too few rows" in words_of(page)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (pd.date_range("2000", periods=3, freq="YS"), ["2000", "2001", "2002"]),
        (pd.date_range("2000", periods=2, freq="MS"), ["2000-01", "2000-02"]),
        (pd.date_range("2000", periods=2, freq="D"), ["2000-01-01", "2000-01-02"]),
        (pd.date_range("2000", periods=2, freq="h"), ["2000-01-01 00:00", "2000-01-01 01:00"]),
        (np.array([1960, 1961]), ["1960", "1961"]),
    ],
)
def test_times_are_as_short_as_they_can_be(times, words):
    assert time_words(times) == words
