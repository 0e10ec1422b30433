"""Cells are standardized loadings, and columns stand where they load most."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, DataError, FactorAnalysis, LoadingsHeatmapDisplay, ShapeError
from probpca.displays.axes import THEME
from probpca.models import rotate


def cells(display):
    """Numbers that colour the cells, a line for each column that is drawn."""
    k, q = display.order.size, display.loadings.shape[1]
    return np.asarray(display.image_.get_array()).reshape(k, q)


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
def test_loadings_and_uniquenesses_make_the_correlations_of_the_model(oblique, rotation):
    fitted = oblique.rotate(rotation)
    display = LoadingsHeatmapDisplay.from_estimator(fitted)
    covariance = fitted.get_covariance()
    deviation = np.sqrt(np.diag(covariance))
    made = display.loadings @ fitted.factor_correlations_ @ display.loadings.T + np.diag(display.uniquenesses)
    assert_allclose(made, covariance / np.outer(deviation, deviation), atol=1e-12)
    assert_array_equal(cells(display), display.loadings[display.order])
    assert display.figure_.get_suptitle().endswith("unrotated" if rotation is None else f"{rotation} rotation")
    display.figure_.canvas.draw()


def test_columns_of_one_factor_stand_together_largest_first(oblique):
    display = LoadingsHeatmapDisplay.from_estimator(oblique)
    shown = np.abs(cells(display))
    factor = shown.argmax(axis=1)
    assert (np.diff(factor) >= 0).all()
    assert sorted(display.order) == list(range(9))
    for k in range(3):
        assert (np.diff(shown[factor == k, k]) <= 0).all()
        assert {*display.order[factor == k] // 3} == {display.order[factor == k][0] // 3}  # as they were made
    assert names(display.ax_) == [oblique.feature_names_in_[j] for j in display.order]


def test_units_of_columns_change_nothing(abilities, oblique):
    other = FactorAnalysis(3, rotation="oblimin").fit(abilities * np.geomspace(1e-3, 1e3, 9))
    one, same = LoadingsHeatmapDisplay.from_estimator(oblique), LoadingsHeatmapDisplay.from_estimator(other)
    assert_array_equal(one.order, same.order)
    assert_allclose(one.loadings, same.loadings, atol=1e-4)


@pytest.mark.parametrize("fit", [PPCA(2), PPCA(2, standardize=True), BayesianPCA(2)])
def test_of_components_they_are_correlations_with_the_columns(fit):
    x = spiked_rows(np.random.default_rng(4), 50, 8, 3, noise=0.2) * np.arange(1, 9)
    fitted = fit.set_params(random_state=0).fit(x)
    display = LoadingsHeatmapDisplay.from_estimator(fitted)
    joint = fitted.joint().covariance
    deviation = np.sqrt(np.diag(joint))
    assert_allclose(display.loadings, (joint / np.outer(deviation, deviation))[:8, 8:], atol=1e-12)
    assert display.uniquenesses is None
    assert display.ax_.get_xticklabels()[0].get_text().startswith("PC1\n")
    assert display.title == "Standardized loadings"


def test_numbers_are_those_of_the_cells_and_small_ones_are_pale(oblique):
    display = LoadingsHeatmapDisplay.from_estimator(oblique)
    written = [float(text.get_text().replace("\u2212", "-")) for text in display.numbers_]
    wanted = [*display.loadings[display.order].ravel(), *display.uniquenesses[display.order]]
    assert_allclose(written, wanted, atol=0.00501)
    sizes = np.abs(display.loadings[display.order]).ravel()
    colours = [to_hex(text.get_color()) for text in display.numbers_[: sizes.size]]
    assert {colour for colour, size in zip(colours, sizes, strict=True) if size < 0.25} == {THEME.unsure_name}
    assert {colour for colour, size in zip(colours, sizes, strict=True) if size > 0.6} == {"#ffffff"}
    assert {colour for colour, size in zip(colours, sizes, strict=True) if 0.25 < size < 0.6} == {"#000000"}
    assert display.plot(numbers="none").numbers_ == []
    assert len(display.figure_.axes) == 2  # with a scale of colours instead
    with pytest.raises(DataError, match="numbers must be one of auto, all, none; got 'some'"):
        display.plot(numbers="some")


def test_heywood_cases_are_named(heywood):
    display = LoadingsHeatmapDisplay.from_estimator(heywood)
    names_of_cases = heywood.feature_names_in_[heywood.heywood_features_]
    note = " ".join(display.ax_.get_xlabel().split())
    assert note.startswith("Heywood: no noise in")
    assert names_of_cases[0] in note
    uniqueness = display.numbers_[-display.order.size :]
    marked = {int(j) for j, text in zip(display.order, uniqueness, strict=True) if text.get_color() == THEME.accent}
    assert marked == set(heywood.heywood_features_.tolist())


def test_of_many_columns_the_largest_are_drawn_in_the_order_that_is_asked(oblique):
    display = LoadingsHeatmapDisplay.from_estimator(oblique, most=4, in_order=True, components=[2, 0])
    largest = np.abs(oblique.standardized_loadings_[:, [2, 0]]).max(axis=1)
    assert display.order.tolist() == sorted(np.argsort(-largest)[:4])
    assert "(5 more columns with smaller loadings not shown)" in display.ax_.get_xlabel()
    assert [label.get_text().split("\n")[0] for label in display.ax_.get_xticklabels()] == ["F3", "F1", "unique-"]


def test_loadings_may_be_given():
    x = spiked_rows(np.random.default_rng(4), 50, 8, 3, noise=0.2)
    found = rotate(PPCA(3).fit(x).loadings_, "varimax")
    ax = plt.subplots()[1]
    display = LoadingsHeatmapDisplay.from_loadings(found.loadings, feature_names="abcdefgh", title="Varimax", ax=ax)
    assert display.ax_ is ax
    assert ax.get_title(loc="left") == "Varimax"
    assert_array_equal(display.loadings, found.loadings)
    assert set(names(ax)) == set("abcdefgh")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["F1", "F2", "F3"]
    with pytest.raises(ShapeError, match=r"a line for each column of the table; got shape \(3,\)"):
        LoadingsHeatmapDisplay.from_loadings([1, 2, 3])
    with pytest.raises(ShapeError, match="component_names must be 3 names; got 1"):
        LoadingsHeatmapDisplay.from_loadings(found.loadings, component_names=["g"])


def test_columns_without_loadings_come_last():
    display = LoadingsHeatmapDisplay.from_loadings([[0.0, 0.0], [0.1, 0.9], [0.8, 0.0]])
    assert display.order.tolist() == [2, 1, 0]


def test_a_fit_is_needed():
    with pytest.raises(DataError, match="LoadingsHeatmapDisplay needs a fitted estimator"):
        LoadingsHeatmapDisplay.from_estimator(FactorAnalysis(2))
    with pytest.raises(DataError, match="needs an estimator with loadings_, which object does not have"):
        LoadingsHeatmapDisplay.from_estimator(object())
