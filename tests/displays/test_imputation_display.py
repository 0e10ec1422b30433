"""What is drawn in the holes is what the estimator puts there."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, DataError, ImputationDisplay, ShapeError
from probpca.displays.imputation_display import ImputedRow, most_telling

YEARS = np.arange(1990, 1998)


@pytest.fixture(scope="module")
def holed():
    x = spiked_rows(np.random.default_rng(5), 40, 8, 2, noise=0.1) + 3.0
    x[0, 2:4] = np.nan
    x[1, :6] = np.nan
    x[2] = np.nan
    return x


@pytest.fixture(scope="module")
def ppca(holed):
    return PPCA(n_components=2, random_state=0).fit(holed)


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
def test_cells_are_those_of_the_estimator(kind, holed):
    fitted = kind(n_components=2, random_state=0).fit(holed)
    display = ImputationDisplay.from_estimator(fitted, holed, rows=[0, 1, 2, 9], level=0.8)
    missing = np.isnan(holed)
    low, high = fitted.impute_interval(holed, 0.8)
    back = fitted.inverse_transform(fitted.transform(holed))
    for row, i in zip(display.rows, (0, 1, 2, 9), strict=True):
        assert_array_equal(row.observed, holed[i])
        for shown, wanted in ((row.imputed, fitted.impute(holed)), (row.low, low), (row.high, high)):
            assert_allclose(shown, np.where(missing[i], wanted[i], np.nan))
        assert_allclose(row.fitted, back[i])
        assert_allclose(row.fitted[missing[i]], row.imputed[missing[i]])
    display.figure_.canvas.draw()


def test_along_a_scale_values_are_drawn_as_they_are(ppca, holed):
    display = ImputationDisplay.from_estimator(ppca, holed, rows=1, positions=YEARS)
    model, imputed, observed = display.ax_.lines
    assert_array_equal(model.get_xdata(), YEARS)
    assert_allclose(model.get_ydata(), display.rows[0].fitted)
    assert_allclose(imputed.get_ydata(), display.rows[0].imputed)
    assert_allclose(observed.get_ydata(), holed[1])
    bars = display.ax_.collections[0].get_segments()
    wide = [bar[1, 1] - bar[0, 1] for bar in bars if len(bar) and not np.isnan(bar).any()]
    assert_allclose(wide, (display.rows[0].high - display.rows[0].low)[:6])


def test_side_by_side_features_are_in_standard_deviations(ppca, holed):
    display = ImputationDisplay.from_estimator(ppca, holed, rows=0)
    scaled = (holed[0] - ppca.mean_) / np.sqrt(np.diag(ppca.get_covariance()))
    assert_allclose(display.ax_.lines[-1].get_xdata(), scaled)
    plain = ImputationDisplay.from_estimator(ppca, holed, rows=0, units="data")
    assert_allclose(plain.ax_.lines[-1].get_xdata(), holed[0])


def test_rows_that_lack_most_are_shown_by_default(ppca, holed):
    display = ImputationDisplay.from_estimator(ppca, holed)
    assert [row.name for row in display.rows] == ["0", "1"]
    assert len(display.axes_) == 2
    complete = ImputationDisplay.from_estimator(ppca, holed[5:])
    assert [row.name for row in complete.rows] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_dataframes_keep_their_names(library, holed):
    module = pytest.importorskip(library)
    columns = {f"year {year}": holed[:, j] for j, year in enumerate(YEARS)}
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    fitted = PPCA(n_components=2, random_state=0).fit(frame)
    display = ImputationDisplay.from_estimator(fitted, frame, rows=[1])
    assert display.feature_names == list(columns)
    low, _ = fitted.impute_interval(frame, 0.95)
    assert_allclose(display.rows[0].low[:6], np.asarray(low)[1, :6])


def test_unstored_cells_of_a_sparse_table_are_filled_in():
    rng = np.random.default_rng(0)
    table = sparse.random_array((40, 6), density=0.7, random_state=rng, data_sampler=rng.standard_normal, format="csr")
    fitted = PPCA(n_components=1, missing="unstored", random_state=0).fit(table)
    display = ImputationDisplay.from_estimator(fitted, table, rows=[3])
    stored = np.isin(np.arange(6), table[[3]].indices)
    assert_array_equal(np.isnan(display.rows[0].imputed), stored)


def test_many_features_are_drawn():
    x = np.random.default_rng(0).standard_normal((30, 150))
    x[0, :50] = np.nan
    fitted = PPCA(n_components=2, random_state=0).fit(x)
    for positions in (None, np.arange(150)):
        display = ImputationDisplay.from_estimator(fitted, x, rows=[0], positions=positions)
        display.figure_.canvas.draw()
        assert display.figure_.get_size_inches()[1] < 20


@pytest.mark.parametrize("positions", [None, [10, 20, 30]])
def test_what_may_be_anything_reaches_from_edge_to_edge(positions):
    seen, unseen = np.array([1.0, np.nan, np.nan]), np.array([np.nan, 2.0, 0.0])
    low, high = np.array([np.nan, 1.0, -np.inf]), np.array([np.nan, 3.0, np.inf])
    row = ImputedRow("a", seen, unseen, low, high, np.array([1.0, 2.0, 0.0]))
    ax = ImputationDisplay((row,), ["x0", "x1", "x2"], positions=positions).plot().ax_
    box = ax.get_window_extent()
    wide = [
        (path := line.get_transform().transform(line.get_xydata())).max(axis=0) - path.min(axis=0) for line in ax.lines
    ]
    along = 0 if positions is None else 1
    whole = [line for line, size in zip(ax.lines, wide, strict=True) if np.isclose(size[along], box.size[along])]
    places = [line.get_data()[1 - along][0] for line in whole if line.get_alpha() is not None]
    assert places == [2 if positions is None else 30]


def test_given_axes_are_used_or_cut(ppca, holed):
    figure, axes = plt.subplots(1, 3)
    display = ImputationDisplay.from_estimator(ppca, holed, rows=[0, 1], ax=axes[:2])
    assert list(display.axes_) == list(axes[:2])
    cut = ImputationDisplay.from_estimator(ppca, holed, rows=[0, 1], ax=axes[2])
    left = axes[2].get_position().x0
    assert all(ax.figure is figure and ax.get_position().x0 >= left - 1e-9 for ax in cut.axes_)
    figure.canvas.draw()


def test_what_cannot_be_drawn_is_said(ppca, holed):
    with pytest.raises(ShapeError, match=r"rows must be numbers from 0 to 39; got \[40\]"):
        ImputationDisplay.from_estimator(ppca, holed, rows=40)
    with pytest.raises(ShapeError, match=r"positions must be one for each of 8 features; got shape \(3,\)"):
        ImputationDisplay.from_estimator(ppca, holed, rows=0, positions=[1, 2, 3])
    with pytest.raises(DataError, match="units must be one of auto, data, standard; got 'inch'"):
        ImputationDisplay.from_estimator(ppca, holed, units="inch")
    with pytest.raises(ShapeError, match="labels must be 40 names; got 1"):
        ImputationDisplay.from_estimator(ppca, holed, labels=["a"])
    with pytest.raises(ShapeError, match=r"ax must be 2 Axes, one for each panel, .*; got 3"):
        ImputationDisplay.from_estimator(ppca, holed, ax=plt.subplots(1, 3)[1])
    with pytest.raises(DataError, match="ImputationDisplay needs a fitted estimator"):
        ImputationDisplay.from_estimator(PPCA(), holed)


@pytest.fixture
def wide():
    """Six rows of 200 columns, four with holes, as a model might fill them."""
    rng = np.random.default_rng(0)
    values, std = rng.standard_normal((6, 200)), rng.exponential(size=(6, 200))
    missing = (rng.random((6, 200)) < 0.2) & (np.arange(6) < 4)[:, None]
    fitted = values + 0.1 * rng.standard_normal(values.shape)
    filled = (np.where(missing, end, np.nan) for end in (values, values - std, values + std))
    parts = (np.where(missing, np.nan, values), *filled, fitted)
    return tuple(ImputedRow(f"row {i}", *(part[i] for part in parts)) for i in range(6))


@pytest.mark.parametrize("count", [1, 4, 6])
def test_of_many_features_the_least_sure_are_drawn_and_the_rest_is_counted(wide, count):
    display = ImputationDisplay(wide[:count], [f"f{j}" for j in range(200)]).plot()
    shown = display.shown_
    assert (np.diff(shown) > 0).all()
    assert display.figure_.get_size_inches()[1] < 17
    width = np.max([np.nan_to_num(row.high - row.low, nan=-1.0) for row in wide[:count]], axis=0)
    assert width[shown].min() >= np.delete(width, shown).max()
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [f"f{j}" for j in shown]
    for row, ax in zip(wide, display.axes_, strict=False):
        assert_array_equal(ax.lines[-1].get_xdata(), row.observed[shown])
        filled = np.isfinite(row.imputed).sum() - np.isfinite(row.imputed[shown]).sum()
        words = f"{filled} of them imputed" if filled else "all of them observed"
        assert ax.get_xlabel() == f"value\n({200 - shown.size} more columns not shown,\n{words})"


def test_features_that_can_be_read_or_lie_on_a_scale_are_all_drawn(wide):
    few = tuple(ImputedRow(row.name, *(part[:60] for part in row[1:])) for row in wide)
    for rows, positions in ((few, None), (wide, np.arange(200))):
        d = rows[0].observed.size
        display = ImputationDisplay(rows, [f"f{j}" for j in range(d)], positions=positions).plot()
        assert_array_equal(display.shown_, np.arange(d))
        assert not any("not shown" in ax.get_xlabel() for ax in display.axes_)


def test_what_tells_most_is_known_a_little():
    nan, inf = np.nan, np.inf
    observed = np.array([0.0, nan, nan, nan, 9.0])
    low, high = np.array([nan, -inf, -1, -2, nan]), np.array([nan, inf, 1, 2, nan])
    row = [observed, np.where(np.isnan(observed), 0.0, nan), low, high, np.zeros(5)]
    kept = [set(most_telling([row], most).tolist()) for most in range(1, 6)]
    assert kept == [{3}, {2, 3}, {1, 2, 3}, {1, 2, 3, 4}, {0, 1, 2, 3, 4}]


def test_the_fitted_row_of_factors_is_their_posterior_mean_whatever_the_scores(bartlett, incomplete):
    shown = [0, 4, 17]
    display = ImputationDisplay.from_estimator(bartlett, incomplete, rows=shown)
    back = bartlett.inverse_transform(bartlett.posterior(incomplete).mean)
    for row, i in zip(display.rows, shown, strict=True):
        assert_allclose(row.fitted, back[i])
        assert_allclose(row.fitted[np.isnan(row.observed)], row.imputed[np.isnan(row.observed)])
