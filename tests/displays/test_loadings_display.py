"""Loadings with their intervals, drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from probpca import PPCA, DataError, FactorAnalysis, LoadingsDisplay, ShapeError
from probpca.displays.axes import THEME
from probpca.displays.loadings_display import Loadings
from probpca.learning.uncertainty.asymptotic import asymptotic_uncertainty
from probpca.models import LinearGaussian


@pytest.fixture
def sure(rng):
    """Two components of forty features; what a third of them has in common is nothing."""
    loadings = rng.standard_normal((40, 2)) * [3.0, 1.0]
    loadings[::3] *= 0.01
    return asymptotic_uncertainty(LinearGaussian(np.zeros(40), loadings, 1.0), 200)


def drawn(ax):
    """Loadings, lower ends and upper ends as the axes show them, from the top."""
    bars, points = ax.collections
    ends = np.array([path.vertices[:, 0] for path in bars.get_paths()])
    return points.get_offsets().data[:, 0], ends.min(axis=1), ends.max(axis=1)


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_each_component_has_a_panel_with_its_largest_loadings(sure):
    display = LoadingsDisplay.from_uncertainty(sure)
    assert len(display.axes_) == 2
    assert display.ax_ is display.axes_[0]
    low, high = sure.loadings.interval(0.95)
    for j, ax in enumerate(display.axes_):
        values = sure.loadings.value[:, j]
        order = np.argsort(-abs(values))[:25]
        assert names(ax) == [f"x{i}" for i in order]
        for shown, expected in zip(drawn(ax), (values, low[:, j], high[:, j]), strict=True):
            assert_allclose(shown, expected[order])
        assert ax.get_title(loc="left") == f"PC{j + 1}"
        assert "15 smaller loadings not shown" in ax.get_xlabel()
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first at the top


def test_what_may_be_zero_is_pale_and_hollow(sure):
    display = LoadingsDisplay.from_uncertainty(sure, most=40, component=1)
    panel, ax = display.panels[0], display.ax_
    assert 5 < panel.sure.sum() < 35
    assert_array_equal(panel.sure, np.sign(panel.low) == np.sign(panel.high))
    bars, points = ax.collections
    for i, certain in enumerate(panel.sure):
        assert to_hex(bars.get_colors()[i]) == (THEME.ink if certain else THEME.unsure)
        assert (to_hex(points.get_facecolors()[i]) == THEME.ink) == certain
    assert "not shown" not in ax.get_xlabel()


def test_a_loading_that_may_be_anything_has_a_bar_without_ends():
    ends = np.array([1.0, np.inf])
    ax = LoadingsDisplay((Loadings("PC1", ("a", "b"), np.zeros(2), -ends, ends, 0),)).plot().ax_
    level = [line.get_ydata()[0] for line in ax.lines if line.get_xdata() == [0, 1]]
    assert level == [1]


def test_columns_may_stand_in_the_order_of_the_table(sure):
    display = LoadingsDisplay.from_uncertainty(sure, component=0, most=10, in_order=True)
    largest = np.argsort(-abs(sure.loadings.value[:, 0]))[:10]
    assert names(display.ax_) == [f"x{i}" for i in np.sort(largest)]


def test_the_level_decides_on_the_bars(sure):
    wide = LoadingsDisplay.from_uncertainty(sure, component=0, level=0.99)
    narrow = LoadingsDisplay.from_uncertainty(sure, component=0, level=0.5)
    assert (wide.panels[0].high - wide.panels[0].low > narrow.panels[0].high - narrow.panels[0].low).all()
    assert "99% interval" in wide.ax_.get_xlabel()


def test_features_have_the_names_that_are_given(sure):
    given = [f"f{i}" for i in range(40)]
    assert set(names(LoadingsDisplay.from_uncertainty(sure, feature_names=given).ax_)) < set(given)
    with pytest.raises(ShapeError, match="name all 40 features; got 3"):
        LoadingsDisplay.from_uncertainty(sure, feature_names="abc")


def test_axes_may_be_given(sure):
    figure, axes = plt.subplots(1, 2)
    display = LoadingsDisplay.from_uncertainty(sure, ax=axes)
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes)
    assert LoadingsDisplay.from_uncertainty(sure, component=1, ax=axes[0]).ax_ is axes[0]
    with pytest.raises(ShapeError, match="one Axes for each of 2 components; got 1"):
        LoadingsDisplay.from_uncertainty(sure, ax=axes[0])
    with pytest.raises(ShapeError, match=r"component must be one of 0 \.\. 1"):
        LoadingsDisplay.from_uncertainty(sure, component=2)


def test_many_components_stand_in_rows(rng):
    model = LinearGaussian(np.zeros(8), rng.standard_normal((8, 5)), 1.0)
    display = LoadingsDisplay.from_uncertainty(asymptotic_uncertainty(model, 100))
    assert len(display.axes_) == 5
    assert len({ax.get_position().y0 for ax in display.axes_}) == 2
    display.figure_.canvas.draw()


@pytest.mark.parametrize("given", [True, False], ids=["resampled", "formulas"])
def test_a_fit_is_asked_for_its_own_uncertainty(rng, given):
    frame = pd.DataFrame(rng.standard_normal((80, 5)) * [5, 4, 1, 1, 1], columns=list("abcde"))
    fitted = PPCA(n_components=2, random_state=0).fit(frame)
    rows = frame if given else None
    sure = fitted.uncertainty(rows, n_draws=7, random_state=3)
    options = {"component": [1], "level": 0.8, "most": 3, "in_order": True}
    display = LoadingsDisplay.from_estimator(fitted, rows, n_draws=7, random_state=3, **options)
    wanted = LoadingsDisplay.from_uncertainty(sure, **options)
    for shown, other in zip(display.panels, wanted.panels, strict=True):
        for mine, known in zip(shown, other, strict=True):
            assert_array_equal(mine, known)
    assert set(display.panels[0].names) < set("abcde")
    ax = plt.subplots()[1]
    named = LoadingsDisplay.from_estimator(fitted, rows, n_draws=2, component=0, feature_names="vwxyz", ax=ax)
    assert named.ax_ is ax
    assert names(ax)[0] == "v"


def test_a_fit_that_cannot_be_asked_is_refused_in_words():
    with pytest.raises(DataError, match="LoadingsDisplay needs a fitted estimator"):
        LoadingsDisplay.from_estimator(PPCA())
    with pytest.raises(DataError, match="needs an estimator with uncertainty, which object does not have"):
        LoadingsDisplay.from_estimator(object())


# Factor analysis


def test_loadings_of_factors_are_standardized_with_their_intervals(oblique):
    display = LoadingsDisplay.from_estimator(oblique, level=0.9)
    low, high = oblique.uncertainty().loadings.interval(0.9)
    for k, ax in enumerate(display.axes_):
        values = oblique.standardized_loadings_[:, k]
        order = np.argsort(-abs(values))
        assert names(ax) == [oblique.feature_names_in_[j] for j in order]
        for shown, expected in zip(drawn(ax), (values, low[:, k], high[:, k]), strict=True):
            assert_allclose(shown, expected[order])
        assert ax.get_title(loc="left") == f"F{k + 1}"
        assert f"{100 * oblique.explained_variance_ratio_[k]:.1f}% of variance" in [t.get_text() for t in ax.texts]
        assert ax.get_xlabel() == "standardized loading with 90% interval"
    assert display.figure_.get_suptitle() == "Standardized loadings with intervals, oblimin rotation"


def test_factors_of_rows_with_missing_cells_need_these_rows(bartlett, incomplete):
    display = LoadingsDisplay.from_estimator(bartlett, incomplete, component=[2], most=4)
    wanted = LoadingsDisplay.from_uncertainty(bartlett.uncertainty(incomplete), component=2, most=4)
    for shown, other in zip(display.panels[0], wanted.panels[0], strict=True):
        assert_array_equal(shown, other)
    with pytest.raises(DataError, match="training rows"):
        LoadingsDisplay.from_estimator(bartlett)
    with pytest.raises(ShapeError, match="component must be numbers from 0 to 2; got 3"):
        LoadingsDisplay.from_estimator(bartlett, incomplete, component=3)


def test_loadings_without_a_standard_error_are_hollow_and_not_pale(heywood):
    display = LoadingsDisplay.from_estimator(heywood, component=0)
    panel, ax = display.panels[0], display.ax_
    unknown = np.isnan(panel.low)
    assert unknown.sum() == heywood.heywood_features_.size
    bars, points = ax.collections
    assert {to_hex(points.get_facecolors()[i]) for i in np.flatnonzero(unknown)} == {"#ffffff"}
    assert {to_hex(bars.get_colors()[i]) for i in np.flatnonzero(unknown)} == {THEME.ink}
    assert "no standard error" in ax.get_xlabel()


def test_one_factor_has_no_rotation_in_its_title(abilities):
    display = LoadingsDisplay.from_estimator(FactorAnalysis(1, rotation="varimax").fit(abilities))
    assert display.figure_.get_suptitle() == "Standardized loadings with intervals"
