"""Distances, limits and cells are those of the model."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, f as fisher

from oracles import spiked_rows
from probpca import PPCA, DataError, OutlierDisplay, ShapeError
from probpca.inference import outliers
from probpca.inference.calibration import RARE


@pytest.fixture(scope="module")
def x():
    rows = spiked_rows(np.random.default_rng(6), 80, 7, 2, noise=0.1)
    rows[5, 3] += 3.0
    rows[9] = rows.mean(axis=0) + 6 * (rows[9] - rows.mean(axis=0))
    return rows


@pytest.fixture(scope="module")
def ppca(x):
    return PPCA(n_components=2).fit(x)


@pytest.fixture(scope="module")
def holed(x):
    rows = x.copy()
    rows[0] = np.nan
    rows[1, :3] = np.nan
    rows[5, :2] = np.nan
    rows[2, 1:] = np.nan
    return rows


def test_new_rows_are_drawn_at_their_distances(ppca, x):
    display = OutlierDisplay.from_estimator(ppca, x, training=False)
    found = ppca.outliers(x)
    assert_array_equal(display.points, np.column_stack([found.latent_distance, found.residual_distance]))
    assert_array_equal(display.whole, found.distance)
    drawn = np.vstack([points.get_offsets() for points in display.points_])
    assert_allclose(np.sort(drawn[:, 0]), np.sort(found.latent_distance))
    display.figure_.canvas.draw()


def test_rows_of_the_fit_are_drawn_where_new_rows_are_as_improbable(ppca, x):
    display, found = OutlierDisplay.from_estimator(ppca, x), ppca.outliers(x, training=True)
    reference = ppca.calibration_
    assert_array_equal(display.outliers.p_value, found.p_value)
    assert_allclose(reference.tail(display.whole, 7), found.p_value, rtol=1e-6)
    assert_allclose(reference.tail(display.points[:, 0], 2), found.latent_p_value, rtol=1e-6)
    assert (display.whole > found.distance).all()


def test_limits_are_those_of_the_calibration(ppca, x):
    display, reference = OutlierDisplay.from_estimator(ppca, x, p=[0.001, 0.05]), ppca.calibration_
    for part, degrees in (("latent", 2), ("residual", 5), ("whole", 7)):
        wanted = reference.scale * degrees * fisher.isf([0.05, 0.001], degrees, reference.degrees)
        assert_allclose(display.limits[part], wanted, rtol=1e-6)
    drawn = {float(line.get_xdata()[0]) for line in display.ax_.lines if line.get_xdata()[0] == line.get_xdata()[1]}
    assert drawn >= set(display.limits["latent"][:1])
    chart = OutlierDisplay.from_estimator(ppca, x, kind="chart", p=0.02)
    assert_allclose(chart.ax_.lines[0].get_ydata(), chart.limits["whole"][0])
    chart.figure_.canvas.draw()


def test_without_a_calibration_limits_are_quantiles_of_chi_square(ppca, x):
    display = OutlierDisplay(outliers(ppca.model_, x), 2, p=0.02)
    for part, degrees in (("latent", 2), ("residual", 5), ("whole", 7)):
        assert_allclose(display.limits[part], chi2.isf([0.02], degrees))


def test_a_limit_far_beyond_all_rows_is_not_drawn(ppca, x):
    display = OutlierDisplay.from_estimator(ppca, x[20:40], kind="chart", p=1e-9)
    assert not display.ax_.lines
    assert display.ax_.get_ylim()[1] < display.limits["whole"][0]
    assert display.ax_.get_title(loc="right") == "0 of 20 rows beyond p = 1e-09 (2e-08 expected by chance)"


def test_one_threshold_is_used_and_chance_is_told(ppca, x):
    for kind, chance in (("distances", "0.16"), ("chart", "0.08")):
        display = OutlierDisplay.from_estimator(ppca, x, kind=kind)
        assert_array_equal(display.p, [RARE])
        said = f"{display.beyond(kind).size} of 80 rows beyond p = 0.001 ({chance} expected by chance)"
        assert display.ax_.get_title(loc="right") == said


def test_what_to_be_careful_about_is_written_below():
    rows = np.random.default_rng(0).standard_normal((60, 6))
    rows[:9] *= 30
    for kind in ("distances", "chart"):
        display = OutlierDisplay.from_estimator(PPCA(2).fit(rows), rows, kind=kind)
        written = [" ".join(text.get_text().split()) for text in display.ax_.texts]
        assert display.outliers.note in written
        display.figure_.canvas.draw()


@pytest.mark.parametrize("training", [True, False])
def test_limits_part_probable_rows_from_improbable_ones_with_missing_cells_or_without(ppca, holed, training):
    display = OutlierDisplay.from_estimator(ppca, holed, p=0.03, training=training)
    found = ppca.outliers(holed, training=training)
    parts = (
        (display.points[:, 0], found.latent_p_value, "latent"),
        (display.points[:, 1], found.residual_p_value, "residual"),
        (display.whole, found.p_value, "whole"),
    )
    for drawn, p_value, part in parts:
        assert_array_equal(drawn > display.limits[part], p_value < 0.03)
        degrees = {"latent": 2, "residual": 5, "whole": 7}[part]
        assert_allclose(ppca.calibration_.tail(drawn, degrees), p_value, rtol=1e-6, atol=1e-12)
    assert_array_equal(display.points[0], 0)
    display.figure_.canvas.draw()


def test_strange_rows_are_found_and_named(ppca, x):
    names = [f"row {i}" for i in range(80)]
    display = OutlierDisplay.from_estimator(ppca, x, labels=names, most=2, p=0.01)
    found = ppca.outliers(x, training=True)
    strange = (found.latent_p_value < 0.01) | (found.residual_p_value < 0.01)
    assert_array_equal(display.ranking, np.argsort(found.log10_p_value, kind="stable"))
    assert_array_equal(np.sort(display.beyond()), np.flatnonzero(strange))
    assert_array_equal(np.sort(display.beyond("chart")), np.flatnonzero(found.p_value < 0.01))
    written = {text.get_text() for text in display.ax_.texts if text.get_text().startswith("row")}
    assert written == {"row 5", "row 9"}
    assert len(display.points_[1].get_offsets()) == strange.sum()


def test_bars_of_a_row_are_its_contributions(ppca, x):
    display = OutlierDisplay.from_estimator(ppca, x, row=5)
    found = ppca.outliers(x)
    assert display.cells_[0] == 3
    assert_allclose([bar.get_width() for bar in display.bars_], found.contributions[5][display.cells_])
    assert_allclose(sum(bar.get_width() for bar in display.bars_), found.distance[5])
    assert display.ax_.get_yticklabels()[0].get_text() == "x3"
    assert (np.diff(np.abs(found.contributions[5][display.cells_])) <= 0).all()
    display.figure_.canvas.draw()


def test_bars_may_be_scores_in_the_order_of_the_columns(ppca, x):
    display = OutlierDisplay.from_estimator(ppca, x, kind="cells", measure="cell_scores", in_order=True)
    worst = int(ppca.outliers(x, training=True).log10_p_value.argmin())
    assert_allclose([bar.get_height() for bar in display.bars_], ppca.outliers(x).cell_scores[worst])
    colours = {bar.get_facecolor() for bar in display.bars_}
    assert len(colours) == 2


def test_missing_cells_have_no_bars(ppca, holed):
    display = OutlierDisplay.from_estimator(ppca, holed, row=1)
    assert_array_equal(np.sort(display.cells_), [3, 4, 5, 6])


@pytest.mark.parametrize("in_order", [False, True])
def test_an_empty_row_is_said_to_be_empty(ppca, holed, in_order):
    empty = OutlierDisplay.from_estimator(ppca, holed, row=0, in_order=in_order)
    assert len(empty.bars_) == 0
    assert [text.get_text() for text in empty.ax_.texts] == ["no cell of this row was observed"]
    assert not empty.ax_.get_xticks().size
    empty.figure_.canvas.draw()


@pytest.mark.parametrize("kind", ["distances", "chart"])
@pytest.mark.parametrize("p", [0.01, [0.05, 0.01, 0.001]])
def test_words_of_limits_do_not_lie_on_each_other(ppca, holed, kind, p):
    for far in (1.0, 1e4):  # limits that are far apart, and near each other
        rows = holed[:3] * [[1.0], [far], [1.0]]
        display = OutlierDisplay.from_estimator(ppca, rows, kind=kind, p=p)
        display.figure_.canvas.draw()
        said = [text for text in display.ax_.texts if text.get_text().startswith("p =")]
        boxes = [Text.get_window_extent(text) for text in said]
        assert len({text.get_text() for text in said}) == (1 if far > 1 else np.size(p))
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_rows_are_counted_in_whole_numbers(ppca, holed):
    for count in (1, 2, 3):
        ticks = OutlierDisplay.from_estimator(ppca, holed[:count], kind="chart").ax_.get_xticks()
        assert_array_equal(ticks, np.round(ticks))


def test_one_component_and_many_features_are_drawn():
    x = np.random.default_rng(0).standard_normal((40, 120))
    ppca = PPCA(n_components=1).fit(x)
    limit = ppca.calibration_.exceeded(0.001, 119)
    assert_allclose(OutlierDisplay.from_estimator(ppca, x).limits["residual"], limit)
    assert len(OutlierDisplay.from_estimator(ppca, x, row=0).bars_) == 20


def test_names_come_from_a_dataframe(x):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, columns=list("abcdefg"), index=[f"row {i}" for i in range(80)])
    display = OutlierDisplay.from_estimator(PPCA(n_components=2).fit(frame), frame, row="row 5")
    assert display.ax_.get_title(loc="left") == "row 5"
    assert display.ax_.get_yticklabels()[0].get_text() == "d"


def test_the_given_axes_are_used_by_every_kind(ppca, x):
    figure, axes = plt.subplots(1, 3)
    display = OutlierDisplay.from_estimator(ppca, x, ax=axes[0])
    assert display.ax_ is axes[0]
    assert display.plot(axes[1], kind="chart").ax_ is axes[1]
    assert display.plot(axes[2], row=3).ax_ is axes[2]
    assert len(figure.axes) == 3


def test_what_cannot_be_drawn_is_said(ppca, x):
    with pytest.raises(DataError, match="kind must be one of distances, chart, cells"):
        OutlierDisplay.from_estimator(ppca, x, kind="pie")
    with pytest.raises(DataError, match="p must lie between 0 and 1; got 5"):
        OutlierDisplay.from_estimator(ppca, x, p=5)
    with pytest.raises(ShapeError, match=r"row must be numbers from 0 to 79"):
        OutlierDisplay.from_estimator(ppca, x, row=80)
    with pytest.raises(DataError, match="OutlierDisplay needs a fitted estimator"):
        OutlierDisplay.from_estimator(PPCA(), x)


def test_distances_of_factors_are_from_the_factors(oblique, abilities):
    display = OutlierDisplay.from_estimator(oblique, abilities)
    turned = OutlierDisplay.from_estimator(oblique.rotate("varimax"), abilities)
    assert_allclose(display.points, turned.points)
    assert display.ax_.get_xlabel() == "score distance $T^2$ (within the factors)"
    assert display.ax_.get_ylabel() == "residual distance $Q$ (from the factors)"
