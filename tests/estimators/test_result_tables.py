"""Results of estimators show the rows that matter under their names, and become dataframes of the input's library."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, LinearDynamicalSystem, ShapeError, select_n_components
from probpca.datasets import load_fertility

COLUMNS = ["height", "width", "<b>depth</b>", "mass"]


@pytest.fixture(scope="module")
def x():
    rows = spiked_rows(np.random.default_rng(0), 60, 4, 2, noise=0.2)
    rows[7, 3] += 30.0
    return rows


@pytest.fixture(scope="module")
def frame(x):
    return pd.DataFrame(x, columns=COLUMNS, index=pd.Index([f"item {i}" for i in range(60)], name="item"))


@pytest.fixture(scope="module")
def ppca(frame):
    return PPCA(2, random_state=0).fit(frame)


@pytest.fixture(scope="module")
def series():
    level = np.cumsum(np.random.default_rng(1).standard_normal(60))
    index = pd.date_range("2020-01-01", periods=60, freq="D")
    return pd.DataFrame({"north": level, "south": 3 - level}, index=index)


@pytest.fixture(scope="module")
def system(series):
    return LinearDynamicalSystem(1, tol=1.0, random_state=0).fit(series)


def results(ppca, frame, system):
    return {
        "outliers": ppca.outliers(frame),
        "posterior": ppca.posterior(frame),
        "uncertainty": ppca.uncertainty(frame, n_draws=5),
        "condition": ppca.condition(frame[["height", "mass"]]),
        "selection": select_n_components(frame, ["bic", "parallel"]),
        "forecast": system.forecast(5),
        "dataset": load_fertility(),
    }


@pytest.mark.parametrize(
    "kind", ["outliers", "posterior", "uncertainty", "condition", "selection", "forecast", "dataset"]
)
def test_every_result_has_a_short_text_and_html_with_escaped_names(ppca, frame, system, kind):
    result = results(ppca, frame, system)[kind]
    assert str(result) == repr(result)
    assert len(str(result).splitlines()) < 45
    html = result._repr_html_()
    assert html.startswith("<div>")
    assert "<b>" not in html
    assert "<table" in html


def test_outliers_begin_with_the_least_likely_row_and_its_cell(ppca, frame):
    found = ppca.outliers(frame)
    first = str(found).splitlines()[2]
    assert first.startswith("item 7 ")
    assert "mass +" in first
    assert list(found.to_frame().index) == list(frame.index)
    assert_array_equal(found.to_frame()["p_value"], found.p_value)
    assert found.to_frame()["top_feature"]["item 7"] == "mass"
    assert_allclose(found.to_frame("contributions").sum(axis=1), found.distance)
    with pytest.raises(ValueError, match="part must be rows, contributions or cell_scores; got 'cells'"):
        found.to_frame("cells")


def test_outliers_of_many_blocks_and_of_arrays_have_numbers(x):
    unnamed = PPCA(2, random_state=0).fit(x)
    tall = np.tile(x, (3000, 1))
    assert str(unnamed.outliers(tall)).splitlines()[2].startswith("7 ")
    assert list(unnamed.outliers(x).to_frame("contributions").columns) == ["x0", "x1", "x2", "x3"]


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
def test_a_posterior_is_shown_by_component(kind, frame):
    fit = kind(2, random_state=0).fit(frame)
    belief = fit.posterior(frame)
    table = belief.to_frame()
    assert list(table.columns) == [f"{name}{end}" for name in fit.get_feature_names_out() for end in ("", "_std")]
    assert_array_equal(table.index, frame.index)
    assert_array_equal(table.to_numpy()[:, ::2], belief.mean)
    assert_array_equal(table.to_numpy()[:, 1::2], belief.std)
    assert "... and 50 more rows" in str(belief)


def test_uncertainty_has_a_line_for_each_loading(ppca, frame):
    sure = ppca.uncertainty(frame, n_draws=5)
    table = sure.to_frame(0.8)
    assert list(table["component"].unique()) == ["PC1", "PC2"]
    wide = table.pivot_table(index="feature", columns="component", values=["loading", "low", "high"]).loc[COLUMNS]
    assert_array_equal(wide["loading"], sure.loadings.value)
    low, high = sure.loadings.interval(0.8)
    assert_array_equal(wide["low"], low)
    assert_array_equal(wide["high"], high)


def test_a_forecast_has_a_line_for_each_step_and_feature(system, series):
    ahead = system.forecast(4)
    table = ahead.to_frame(0.5)
    assert_array_equal(table["time"].unique(), pd.date_range("2020-03-01", periods=4, freq="D"))
    assert_array_equal(table["mean"], ahead.mean.to_numpy().ravel())
    assert_array_equal(table["low"], ahead.interval(0.5)[0].to_numpy().ravel())
    assert str(ahead).splitlines()[2].startswith("2020-03-01 ")
    assert [line.split()[0] for line in str(_unnamed(series).forecast(2)).splitlines()[2:]] == ["60", "61"]


def _unnamed(series):
    return LinearDynamicalSystem(1, tol=1.0, random_state=0).fit(series.to_numpy())


def test_answers_about_polars_are_polars(x):
    frame = pl.DataFrame(dict(zip("abcd", x.T, strict=True)))
    fit = PPCA(2, random_state=0).fit(frame)
    for result in (
        fit.outliers(frame),
        fit.posterior(frame),
        fit.uncertainty(frame, n_draws=3),
        fit.condition(frame[["a"]]),
    ):
        assert isinstance(result.to_frame(), pl.DataFrame)
        assert isinstance(result.to_frame(backend="pandas"), pd.DataFrame)


def test_columns_known_from_a_dataframe_predict_the_others_as_dataframes(ppca, frame, x):
    known = frame[["mass", "height"]].iloc[5:8]
    plain = ppca.condition([3, 0], x[5:8][:, [3, 0]])
    for found in (
        ppca.condition(known),
        ppca.condition(["height", "mass"], known),
        ppca.condition([0, 3], frame.iloc[5:8]),
    ):
        low, high = found.interval(0.8)
        for answer, wanted in zip((found.mean, low, high), (plain.mean, *plain.interval(0.8)), strict=True):
            assert_allclose(answer, wanted)
            assert list(answer.columns) == ["width", "<b>depth</b>"]
            assert_array_equal(answer.index, known.index)
        assert_array_equal(found.features, [1, 2])
    assert isinstance(plain.mean, np.ndarray)


def test_columns_known_from_polars_predict_the_others_in_polars(x):
    frame = pl.DataFrame(dict(zip("abcd", x.T, strict=True)))
    fit = PPCA(2, random_state=0).fit(frame)
    low, high = fit.condition(frame[["d", "a"]]).interval()
    assert low.columns == high.columns == ["b", "c"]
    assert_allclose(low.to_numpy(), fit.condition([0, 3], x[:, [0, 3]]).interval()[0])


def test_a_prediction_does_not_follow_later_changes_of_the_known_columns(ppca, frame):
    known = frame[["height", "mass"]].copy()
    found = ppca.condition(known)
    before = found.mean
    known.index = known.index[::-1]
    pd.testing.assert_frame_equal(found.mean, before)


def test_conditions_that_cannot_be_read_are_errors(ppca, frame, x):
    with pytest.raises(ShapeError, match=r"got one argument of type list.\nHint: condition\(features, values\)"):
        ppca.condition([0, 1])
    with pytest.raises(ShapeError, match="'height' is not among"):
        ppca.condition(["height"], frame[["mass"]])
    with pytest.raises(ShapeError, match="no column is called 'age'"):
        ppca.condition(pd.DataFrame({"age": [1.0]}))
    with pytest.raises(ShapeError, match="the fit had no names of columns"):
        PPCA(2).fit(x).condition(frame[["mass"]])


def test_a_dataset_becomes_a_dataframe_with_its_names():
    table = load_fertility()
    frame = table.to_frame()
    assert list(frame.index) == list(table.countries)
    assert list(frame.columns) == [str(year) for year in table.years]
    assert_array_equal(frame, table.values)
    assert table.to_frame(backend="polars").columns[:2] == ["country", "1960"]


HOSTILE = ["\x1b[31mred", "a\nb\r\nc", "\x9b2J\x07", "\u202egnp.exe\u2028next"]


def test_hostile_names_change_no_table_but_their_own_letters(x, series):
    """The same tables with harmless names of the same length have the same lines."""
    texts = []
    for names in (HOSTILE, ["?[31mred", "a b c", "?2J?", "?gnp.exe next"]):
        rows = pd.DataFrame(x, columns=names, index=[f"{names[i % 4]}{i}" for i in range(60)])
        ppca = PPCA(2, standardize=False, random_state=0).fit(rows * [1, 1, 1, 1e4])
        system = LinearDynamicalSystem(1, tol=1.0, random_state=0).fit(series.set_axis(names[:2], axis=1))
        found = [
            ppca.outliers(rows),
            ppca.posterior(rows),
            ppca.uncertainty(rows, n_draws=5),
            ppca.condition(rows[names[:2]]),
            select_n_components(rows, ["bic", "parallel"]),
            system.forecast(5),
            ppca.summary(),
            system.summary(),
            BayesianPCA(2, random_state=0).fit(rows).summary(),
        ]
        texts.append([str(result) for result in found])
    assert texts[0] == texts[1]
    assert all(line.isprintable() for text in texts[0] for line in text.split("\n"))
