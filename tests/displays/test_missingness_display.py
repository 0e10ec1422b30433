"""The raster is the mask, whole or averaged."""

import time

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from probpca import PPCA, DataError, MissingnessDisplay, ShapeError
from probpca.displays.missingness_display import averaged, edges


def holed(n=60, d=9, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x[rng.random(n) < 0.3, 2:5] = np.nan
    x[rng.random(n) < 0.2, 7] = np.nan
    x[11] = np.nan
    return x


def test_the_raster_of_a_small_table_is_its_mask():
    x = holed()
    display = MissingnessDisplay.from_data(x, order="given")
    assert_array_equal(display.raster_, np.isnan(x))
    assert_array_equal(display.image_.get_array(), np.isnan(x))
    assert_array_equal(display.order, np.arange(60))
    assert_allclose([bar.get_height() for bar in display.bars_], 100 * np.isnan(x).mean(axis=0))
    display.figure_.canvas.draw()


def test_patterns_stand_together_and_complete_rows_on_top():
    x = holed()
    display = MissingnessDisplay.from_data(x)
    assert_array_equal(np.sort(display.order), np.arange(60))
    assert_array_equal(display.raster_, np.isnan(x)[display.order])
    lacking = np.isnan(x).sum(axis=1)
    assert (np.diff(lacking[display.order]) >= 0).all()
    known = {tuple(row) for row in np.isnan(x)}
    assert len(display.patterns) == len(known)
    for pattern in display.patterns:
        rows = np.isnan(x)[display.order[pattern.first : pattern.first + pattern.n_rows]]
        assert (rows == rows[0]).all()
        assert rows[0].sum() == pattern.n_missing
    assert sum(pattern.n_rows for pattern in display.patterns) == 60
    assert display.patterns[-1].n_missing == 9


def test_visible_patterns_are_counted_at_the_side():
    display = MissingnessDisplay.from_data(holed())
    complete = display.patterns[0].n_rows
    assert f"{complete} complete" in [text.get_text() for text in display.axes_[2].texts]


@given(st.integers(1, 50), st.integers(1, 40), st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_averaging_keeps_all_shares(n, d, rows, columns, seed):
    mask = np.random.default_rng(seed).random((n, d)) < 0.3
    row_edges, column_edges = edges(n, rows), edges(d, columns)
    raster = averaged(mask, row_edges, column_edges)
    assert raster.shape == (min(n, rows), min(d, columns))
    tall, wide = np.diff(row_edges), np.diff(column_edges)
    assert_allclose(tall @ raster @ wide, mask.sum())
    assert max(tall) - min(tall) <= 1
    first = mask[: tall[0], : wide[0]]
    assert_allclose(raster[0, 0], first.mean())


def test_large_tables_are_averaged_and_quick():
    x = np.random.default_rng(0).standard_normal((10_000, 100))
    x[x > 1] = np.nan
    start = time.process_time()
    display = MissingnessDisplay.from_data(x)
    display.figure_.canvas.draw()
    assert time.process_time() - start < 5
    assert display.raster_.shape == (400, 100)
    assert_allclose(display.raster_.mean(), np.isnan(x).mean())
    assert_allclose(display.raster_.mean(axis=0), display.shares)
    assert len(display.axes_[2].texts) == 0


def test_rows_in_their_order_show_their_own_share():
    x = holed(500, 8)
    display = MissingnessDisplay.from_data(x, order="given")
    shown = display.axes_[2].patches[0].get_data()
    tall = np.diff(display.row_edges_)
    assert_allclose(tall @ shown.values / 100, 500 * np.isnan(x).mean())
    assert display.raster_.shape == (400, 8)


@pytest.mark.parametrize(("library", "made"), [("polars", "DataFrame"), ("pyarrow", "table")])
def test_names_come_from_a_dataframe_and_nulls_are_missing(library, made):
    table = getattr(pytest.importorskip(library), made)({"height": [1.0, None, 3.0], "age": [1, 2, None]})
    display = MissingnessDisplay.from_data(table)
    assert display.feature_names == ["height", "age"]
    assert_array_equal(display.missing, [[False, False], [True, False], [False, True]])
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["height", "age"]


def test_unstored_cells_are_missing_if_it_is_said():
    table = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 2.0]]))
    assert not MissingnessDisplay.from_data(table).missing.any()
    stored = MissingnessDisplay.from_data(table, missing="unstored", order="given")
    assert_array_equal(stored.missing, [[False, True], [True, False]])


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_complete_and_empty_tables_are_drawn(value):
    display = MissingnessDisplay.from_data(np.full((5, 3), value))
    assert display.shares.mean() == np.isnan(value)
    display.figure_.canvas.draw()


def test_the_given_axes_are_used():
    figure, axes = plt.subplots(1, 2)
    display = MissingnessDisplay.from_data(holed(), ax=axes[0])
    assert display.ax_ is axes[0]
    assert display.figure_ is figure
    assert len(figure.axes) == 2


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(DataError, match="order must be one of given, pattern; got 'size'"):
        MissingnessDisplay.from_data(holed(), order="size")
    with pytest.raises(ShapeError, match="feature_names must be 9 names; got 2"):
        MissingnessDisplay.from_data(holed(), feature_names=["a", "b"])
    with pytest.raises(ShapeError, match=r"must be a table of rows and columns; got shape \(3,\)"):
        MissingnessDisplay([True, False, True])
    with pytest.raises(DataError, match="missing must be 'nan' or 'unstored'; got 'zero'"):
        MissingnessDisplay.from_data(holed(), missing="zero")


@pytest.mark.parametrize("order", ["given", "pattern"])
def test_rows_beside_a_fit_have_its_names(order):
    pandas = pytest.importorskip("pandas")
    x, columns = holed(), list("abcdefghi")
    fitted = PPCA(2, random_state=0).fit(pandas.DataFrame(x, columns=columns))
    some = pandas.DataFrame(x[:20], columns=columns)
    for rows in (x[:20], some, some[columns[::-1]]):  # columns are known by their names
        display = MissingnessDisplay.from_estimator(fitted, rows, order=order)
        assert display.feature_names == columns
        assert_array_equal(display.missing, np.isnan(x[:20]))
        assert bool(display.patterns) == (order == "pattern")
    ax = plt.subplots()[1]
    named = MissingnessDisplay.from_estimator(fitted, some, feature_names=columns[::-1], ax=ax)
    assert named.ax_ is ax
    assert named.feature_names == columns[::-1]


def test_a_fit_knows_what_is_missing_to_it():
    table = sparse.csr_array(np.where(np.isnan(holed()), 0.0, holed()))
    unstored = MissingnessDisplay.from_estimator(PPCA(2, missing="unstored", random_state=0).fit(table), table)
    assert_array_equal(unstored.missing, np.isnan(holed()))
    assert not MissingnessDisplay.from_estimator(PPCA(2, random_state=0).fit(table), table).missing.any()


def test_rows_that_are_not_those_of_the_fit_are_refused():
    pandas = pytest.importorskip("pandas")
    fitted = PPCA(2, random_state=0).fit(pandas.DataFrame(holed(), columns=list("abcdefghi")))
    with pytest.raises(ShapeError, match="rows must have 9 columns, as in the fit; got 4"):
        MissingnessDisplay.from_estimator(fitted, holed()[:, :4])
    with pytest.raises(ShapeError, match="rows must have the same columns as the first ones"):
        MissingnessDisplay.from_estimator(fitted, pandas.DataFrame(holed(), columns=list("abcdefghz")))
    with pytest.raises(DataError, match="MissingnessDisplay needs a fitted estimator"):
        MissingnessDisplay.from_estimator(PPCA(), holed())
