"""Points are posterior means, and ellipses hold what they say."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

from factor_oracles import dense_factor_scores
from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, DataError, LatentDisplay, LinearDynamicalSystem, ShapeError
from probpca.displays.axes import THEME

NAMES = [f"row {i}" for i in range(40)]


@pytest.fixture(scope="module")
def holed():
    x = spiked_rows(np.random.default_rng(3), 40, 6, 3, noise=0.2)
    x[0, 2:] = np.nan
    x[1, :3] = np.nan
    x[2] = np.nan
    x[3] = np.nan
    return x


@pytest.fixture(scope="module")
def ppca(holed):
    return PPCA(n_components=3, random_state=0).fit(holed)


def test_points_and_covariances_are_the_posterior(ppca, holed):
    display = LatentDisplay.from_estimator(ppca, holed, components=(2, 0))
    belief = ppca.posterior(holed)
    assert_array_equal(display.mean, belief.mean[:, [2, 0]])
    assert_array_equal(display.covariance, belief.covariance[:, [2, 0]][:, :, [2, 0]])
    assert_array_equal(display.points_[0].get_offsets(), display.mean)
    assert "PC3 (" in display.ax_.get_xlabel()
    assert "PC1 (" in display.ax_.get_ylabel()
    display.figure_.canvas.draw()


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
def test_axes_of_standardised_columns_say_their_share_of_the_scaled_variance(holed, kind):
    fitted = kind(n_components=2, standardize=True, random_state=0).fit(holed * np.geomspace(0.01, 100, 6))
    display = LatentDisplay.from_estimator(fitted, holed)
    assert f"({100 * fitted.explained_variance_ratio_[0]:.1f}% of variance)" in display.ax_.get_xlabel()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_axes_and_angle_of_an_ellipse_are_those_of_the_covariance(ppca, holed, level):
    display = LatentDisplay.from_estimator(ppca, holed, level=level)
    for i in (0, 1):
        ellipse = display.ellipses_[i]
        values, vectors = np.linalg.eigh(display.covariance[i])
        reach = np.sqrt(chi2.ppf(level, 2) * values)
        assert_allclose([ellipse.height / 2, ellipse.width / 2], reach)
        assert_allclose(ellipse.center, display.mean[i])
        long = vectors[:, 1]
        turn = np.radians(ellipse.angle)
        assert_allclose(abs(long @ [np.cos(turn), np.sin(turn)]), 1.0)


def test_an_ellipse_holds_its_share_of_draws(ppca, holed):
    display = LatentDisplay.from_estimator(ppca, holed, level=0.8)
    draws = np.random.default_rng(0).multivariate_normal(display.mean[0], display.covariance[0], 20_000)
    ellipse = display.ellipses_[0]
    inside = ellipse.contains_points(ellipse.axes.transData.transform(draws), radius=0)
    assert abs(inside.mean() - 0.8) < 6 * np.sqrt(0.8 * 0.2 / 20_000)


def test_rows_with_missing_cells_have_ellipses_and_complete_ones_share_a_key(ppca, holed):
    display = LatentDisplay.from_estimator(ppca, holed)
    assert set(display.ellipses_) == {0, 1, 2, 3}
    assert_array_equal(np.flatnonzero(~display.complete), [0, 1, 2, 3])
    values = np.linalg.eigvalsh(display.covariance[10])
    assert_allclose([display.key_.height / 2, display.key_.width / 2], np.sqrt(chi2.ppf(0.95, 2) * values))


def test_empty_rows_share_one_circle_of_the_prior(ppca, holed):
    display = LatentDisplay.from_estimator(ppca, holed)
    drawn = [patch for patch in display.ax_.patches if patch is not display.key_]
    assert len(drawn) == 3
    circle = display.ellipses_[2] if display.ellipses_[2] in drawn else display.ellipses_[3]
    assert_allclose([circle.width, circle.height], 2 * np.sqrt(chi2.ppf(0.95, 2)))
    assert "2 empty rows" in [text.get_text() for text in display.ax_.texts]


def test_ellipses_can_be_had_for_all_for_none_and_for_some(ppca, holed):
    every = LatentDisplay.from_estimator(ppca, holed, ellipses="all")
    assert len(every.ellipses_) == 40
    assert every.key_ is None
    none = LatentDisplay.from_estimator(ppca, holed, ellipses="none")
    assert none.ellipses_ == {}
    assert none.key_ is None
    some = LatentDisplay.from_estimator(ppca, holed, ellipses=["row 7", "row 0"], labels=NAMES)
    assert list(some.ellipses_) == [7, 0]
    assert list(LatentDisplay.from_estimator(ppca, holed, ellipses=np.array([3, 8])).ellipses_) == [3, 8]


def test_rows_are_named_where_they_are(ppca, holed):
    display = LatentDisplay.from_estimator(ppca, holed, labels=NAMES, annotate=["row 5", "row 9"])
    named = {text.get_text(): text.xy for text in display.ax_.texts if text.get_text().startswith("row")}
    assert set(named) == {"row 5", "row 9"}
    assert_allclose(named["row 9"], display.mean[9])


def test_classes_get_colours_and_numbers_a_scale(ppca, holed):
    kinds = np.array(["a", "b"])[np.arange(40) % 2]
    display = LatentDisplay.from_estimator(ppca, holed, groups=kinds, ellipses="none")
    assert [points.get_label() for points in display.points_] == ["a", "b"]
    assert_array_equal(display.points_[1].get_offsets(), display.mean[1::2])
    scaled = LatentDisplay.from_estimator(ppca, holed, groups=np.linspace(0, 1, 40))
    assert_allclose(scaled.points_[0].get_array(), np.linspace(0, 1, 40))


def test_one_component_stands_in_order_with_intervals(holed):
    ppca = PPCA(n_components=1, random_state=0).fit(holed)
    display = LatentDisplay.from_estimator(ppca, holed, level=0.9, annotate=[0])
    order = np.argsort(np.argsort(display.mean[:, 0], kind="stable")) + 1
    assert_array_equal(display.points_[0].get_offsets(), np.column_stack([order, display.mean[:, 0]]))
    bars = np.array(display.ax_.collections[0].get_segments())
    wide = np.sqrt(chi2.ppf(0.9, 1)) * ppca.posterior(holed).std[:, 0]
    assert_allclose(bars[:, 1, 1] - bars[:, 0, 1], 2 * wide)
    display.figure_.canvas.draw()


def test_complete_rows_have_a_key_and_nothing_else(ppca, holed):
    display = LatentDisplay.from_estimator(ppca, holed[4:])
    assert display.ellipses_ == {}
    assert display.key_ is not None


def test_the_region_of_a_row_is_seen_though_it_is_the_only_one(ppca, holed):
    display = LatentDisplay.from_estimator(ppca, holed[4:5])
    box, region = display.ax_.get_window_extent(), display.key_.get_window_extent()
    assert box.x0 <= region.x0 < region.x1 <= box.x1
    assert box.y0 <= region.y0 < region.y1 <= box.y1


def test_names_come_from_a_dataframe(ppca, holed):
    pandas = pytest.importorskip("pandas")
    display = LatentDisplay.from_estimator(ppca, pandas.DataFrame(holed, index=NAMES), annotate="row 6")
    assert display.labels == NAMES


def test_beliefs_about_parameters_can_be_drawn_too(holed):
    bayesian = BayesianPCA(n_components=3, random_state=0).fit(holed)
    display = LatentDisplay.from_estimator(bayesian, holed, components=[0])
    assert_array_equal(display.mean, bayesian.posterior(holed).mean[:, [0]])


def test_the_given_axes_are_used(ppca, holed):
    _, axes = plt.subplots(1, 2)
    display = LatentDisplay.from_estimator(ppca, holed, ax=axes[0])
    assert display.ax_ is axes[0]
    assert axes[0].get_aspect() == "auto"
    assert not axes[1].has_data()


def test_it_can_be_drawn_from_numbers_alone():
    mean, covariance = np.zeros((3, 2)), np.stack([np.diag([4.0, 1.0])] * 3)
    display = LatentDisplay(mean, covariance).plot(ellipses="all")
    assert_allclose(display.ellipses_[0].angle % 180, 0)
    assert_allclose(display.ellipses_[0].width, 2 * display.ellipses_[0].height)


@pytest.mark.parametrize("components", [(0, 3), (-1, 0), 5, (0.5, 1), "first"])
def test_components_must_exist(ppca, holed, components):
    with pytest.raises(ShapeError, match=r"components must be numbers from 0 to 2; got"):
        LatentDisplay.from_estimator(ppca, holed, components=components)


def test_what_cannot_be_drawn_is_said(ppca, holed):
    with pytest.raises(ShapeError, match="one or two; got 3"):
        LatentDisplay.from_estimator(ppca, holed, components=(0, 1, 2))
    with pytest.raises(ShapeError, match="groups must have 40 values, one for each row"):
        LatentDisplay.from_estimator(ppca, holed, groups=[1, 2])
    with pytest.raises(DataError, match="one of auto, all, none, or rows; got 'many'"):
        LatentDisplay.from_estimator(ppca, holed, ellipses="many")
    with pytest.raises(ShapeError, match=r"annotate must be among row 0, .*; got 'row 99'"):
        LatentDisplay.from_estimator(ppca, holed, labels=NAMES, annotate="row 99")
    with pytest.raises(DataError, match="level must lie between 0 and 1; got 95"):
        LatentDisplay.from_estimator(ppca, holed, level=95)
    with pytest.raises(DataError, match="LatentDisplay needs a fitted estimator"):
        LatentDisplay.from_estimator(PPCA(), holed)
    with pytest.raises(DataError, match="needs an estimator with posterior, which LinearDynamicalSystem does not have"):
        LatentDisplay.from_estimator(LinearDynamicalSystem(), holed)


def test_missing_groups_are_grey_and_categories_keep_their_order(ppca, holed):
    kinds = pd.Series(
        pd.Categorical(["low", "high", None, "high"] * 10, categories=["low", "mid", "high"]), name="dose"
    )
    display = LatentDisplay.from_estimator(ppca, holed, groups=kinds, ellipses="none")
    assert [points.get_label() for points in display.points_] == ["low", "high", "missing"]
    assert_array_equal(display.points_[0].get_offsets(), display.mean[::4])
    assert_array_equal(display.points_[2].get_offsets(), display.mean[2::4])
    assert_allclose(display.points_[2].get_facecolor()[0, :3], to_rgb(THEME.absent))
    assert display.ax_.get_legend().get_title().get_text() == "dose"
    numbers = np.where(np.arange(40) == 5, np.nan, np.linspace(0, 1, 40))
    scaled = LatentDisplay.from_estimator(ppca, holed, groups=numbers)
    assert_array_equal(scaled.points_[1].get_offsets(), display.mean[5:6])


def test_an_ellipse_of_a_group_holds_its_share_of_the_gaussian_with_its_moments(ppca, holed):
    kinds = np.repeat(["a", "b", "c"], [20, 18, 2])
    display = LatentDisplay.from_estimator(ppca, holed, groups=kinds, group_ellipses=True, level=0.8)
    assert set(display.group_ellipses_) == {0, 1}  # two points have no ellipse
    points = display.mean[20:38]
    ellipse = display.group_ellipses_[1]
    assert_allclose(ellipse.center, points.mean(axis=0))
    draws = np.random.default_rng(0).multivariate_normal(points.mean(axis=0), np.cov(points.T), 20_000)
    inside = ellipse.contains_points(ellipse.axes.transData.transform(draws), radius=0)
    assert abs(inside.mean() - 0.8) < 6 * np.sqrt(0.8 * 0.2 / 20_000)
    with pytest.raises(DataError, match="group_ellipses needs groups that are categories"):
        LatentDisplay.from_estimator(ppca, holed, groups=np.linspace(0, 1, 40), group_ellipses=True)


@pytest.mark.parametrize("spread", [1.0, 0.01])
def test_labels_that_are_written_overlap_neither_each_other_nor_points(spread):
    mean = spread * np.random.default_rng(1).standard_normal((200, 2))
    display = LatentDisplay(mean, np.tile(np.eye(2), (200, 1, 1)), labels=[f"row number {i}" for i in range(200)])
    display.plot(ellipses="none", annotate="all")
    display.figure_.canvas.draw()
    assert 10 < len(display.labels_) < 200
    boxes = np.array([Text.get_window_extent(text).extents for text in display.labels_])
    left, low, right, high = boxes.T
    meet = (
        (left[:, None] < right - 1)
        & (right[:, None] > left + 1)
        & (low[:, None] < high - 1)
        & (high[:, None] > low + 1)
    )
    assert meet.sum() == len(boxes)  # each meets itself
    dots = display.ax_.transData.transform(mean)
    within = (dots[:, None] > boxes[:, :2]).all(axis=2) & (dots[:, None] < boxes[:, 2:]).all(axis=2)
    assert not within.any()


def test_labels_may_be_those_of_the_index(ppca, holed):
    frame = pd.DataFrame(holed, index=NAMES)
    written = {text.get_text() for text in LatentDisplay.from_estimator(ppca, frame, labels=True).labels_}
    assert written
    assert written <= set(NAMES)
    assert LatentDisplay.from_estimator(ppca, frame).labels_ == []


def test_of_many_rows_with_missing_cells_none_has_an_ellipse_and_all_have_a_mark(ppca, holed):
    display = LatentDisplay.from_estimator(ppca, holed, most_ellipses=3, groups=np.arange(40) % 2)
    assert display.ellipses_ == {}
    marks = next(drawn for drawn in display.ax_.collections if drawn.get_label() == "with missing cells")
    assert_array_equal(marks.get_offsets(), display.mean[:4])
    display.figure_.canvas.draw()
    box, region = display.ax_.get_window_extent(), display.key_.get_window_extent()
    assert box.x0 <= region.x0 < region.x1 <= box.x1


# Factor analysis


def test_factor_scores_are_those_of_the_joint_distribution_with_correlated_factors(bartlett, incomplete):
    display = LatentDisplay.from_estimator(bartlett, incomplete, components=(2, 0))
    for i in (0, 4, 17, 60):
        mean, covariance = dense_factor_scores(bartlett, incomplete.to_numpy()[i])
        assert_allclose(display.mean[i], mean[[2, 0]], atol=1e-9)
        assert_allclose(display.covariance[i], covariance[np.ix_([2, 0], [2, 0])], atol=1e-9)
    assert display.ax_.get_title(loc="left") == "Factor scores"
    assert display.ax_.get_xlabel().startswith("F3 (")


def test_complete_rows_share_the_posterior_covariance_of_rotated_factors(oblique, abilities, bartlett, incomplete):
    for rotation in ("oblimin", "varimax", None):
        display = LatentDisplay.from_estimator(oblique.rotate(rotation), abilities)
        assert display.complete.all()
        assert display.key_ is not None
    display = LatentDisplay.from_estimator(bartlett, incomplete)
    assert_array_equal(display.complete, incomplete.notna().all(axis=1))


def test_empty_rows_have_the_region_of_the_factor_correlations(bartlett, incomplete):
    display = LatentDisplay.from_estimator(bartlett, incomplete, ellipses=[4, 9])
    assert "2 empty rows" in [text.get_text() for text in display.ax_.texts]
    wanted = np.sqrt(chi2.ppf(0.95, 2) * np.linalg.eigvalsh(bartlett.factor_correlations_[:2, :2]))
    assert_allclose([display.ellipses_[4].height / 2, display.ellipses_[4].width / 2], wanted)
