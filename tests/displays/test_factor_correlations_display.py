"""Numbers and lines are the correlations of the factors."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from probpca import PPCA, DataError, FactorAnalysis, FactorCorrelationsDisplay, ShapeError
from probpca.displays.axes import THEME
from probpca.displays.factor_correlations_display import free_points

PAIRS = [(0, 1), (0, 2), (1, 2)]


def written(display):
    """The first line of each number."""
    texts = {pair: text.get_text().split("\n")[0] for pair, text in display.numbers_.items()}
    return {pair: float(text.replace("\u2212", "-")) for pair, text in texts.items()}


@pytest.mark.parametrize("kind", ["heatmap", "network"])
@pytest.mark.parametrize("rotation", ["oblimin", "promax"])
def test_numbers_are_correlations_of_factors_in_the_joint_distribution(oblique, rotation, kind):
    fitted = oblique.rotate(rotation)
    display = FactorCorrelationsDisplay.from_estimator(fitted, kind=kind)
    wanted = fitted.joint().covariance[9:, 9:]  # of the factors, whose variances are 1
    assert sorted(display.numbers_) == PAIRS
    for pair, value in written(display).items():
        assert_allclose(value, wanted[pair], atol=0.00501)
    assert display.figure_.get_suptitle() == f"Factor correlations, {rotation} rotation"
    display.figure_.canvas.draw()


def test_the_heat_map_is_the_lower_triangle(oblique):
    display = FactorCorrelationsDisplay.from_estimator(oblique)
    Phi = oblique.factor_correlations_
    shown = np.ma.filled(np.ma.asarray(display.image_.get_array()).reshape(2, 2), np.nan)
    assert_allclose(shown, [[Phi[1, 0], np.nan], [Phi[2, 0], Phi[2, 1]]])
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["F1", "F2"]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["F2", "F3"]


def test_lines_are_the_wider_the_larger_the_correlation_and_coloured_by_its_sign():
    Phi = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.1], [-0.3, 0.1, 1.0]])
    display = FactorCorrelationsDisplay(Phi, ["a", "b", "c"]).plot(kind="network")
    widths = [display.lines_[pair].get_linewidth() for pair in PAIRS]
    assert_array_equal(np.argsort(widths), np.argsort([abs(Phi[pair]) for pair in PAIRS]))
    colours = [to_hex(display.lines_[pair].get_color()) for pair in PAIRS]
    assert colours == [THEME.ink, THEME.accent, THEME.ink]


@pytest.mark.parametrize("kind", ["heatmap", "network"])
def test_intervals_stand_below_and_what_may_be_zero_is_pale(abilities, kind):
    parts = np.random.default_rng(1).standard_normal((200, 8))
    parts = np.linalg.qr(parts - parts.mean(axis=0))[0]  # factors and noise without any correlation
    independent = FactorAnalysis(2, rotation="oblimin").fit(parts[:, :2].repeat(3, axis=1) + 0.7 * parts[:, 2:])
    related = FactorAnalysis(2, rotation="oblimin").fit(abilities.iloc[:, 3:])
    for fitted, certain in ((independent, False), (related, True)):
        sure = fitted.uncertainty()
        low, high = (end[0, 1] for end in sure.factor_correlations.interval(0.9))
        assert (low > 0 or high < 0) == certain
        display = FactorCorrelationsDisplay.from_estimator(fitted, uncertainty=sure, level=0.9, kind=kind)
        ends = display.numbers_[0, 1].get_text().split("\n")[1].strip("[]").replace("\u2212", "-").split(", ")
        assert_allclose([float(end) for end in ends], [low, high], atol=0.00501)
        assert (to_hex(display.numbers_[0, 1].get_color()) == THEME.unsure_name) != certain
        same = FactorCorrelationsDisplay.from_uncertainty(sure, level=0.9, kind=kind)
        assert same.numbers_[0, 1].get_text() == display.numbers_[0, 1].get_text()


def test_factors_have_names_and_the_columns_that_load_most(oblique):
    given = ["verbal", "speed", "space"]
    display = FactorCorrelationsDisplay.from_estimator(oblique, kind="network", factor_names=given)
    texts = [text.get_text() for text in display.ax_.texts]
    assert set(given) < set(texts)
    for w, columns in zip(np.abs(oblique.standardized_loadings_.T), display.columns, strict=True):
        assert columns[0] == oblique.feature_names_in_[w.argmax()]
        assert "\n".join(columns) in texts
    with pytest.raises(ShapeError, match="feature_names must be 9 names; got 1"):
        FactorCorrelationsDisplay.from_estimator(oblique, feature_names=["a"])
    with pytest.raises(ShapeError, match="factor_names must be 3 names; got 2"):
        FactorCorrelationsDisplay.from_estimator(oblique, factor_names=["a", "b"])


@pytest.mark.parametrize("q", [3, 4, 5, 6])
def test_numbers_stand_apart_from_other_lines(q):
    turn = 2 * np.pi * np.arange(q) / q
    places = np.column_stack([np.cos(turn), np.sin(turn)])
    pairs = [(j, k) for j in range(q) for k in range(j + 1, q)]
    points = free_points(places, pairs)
    for (j, k), point in zip(pairs, points, strict=True):
        along = places[k] - places[j]
        assert_allclose(along[0] * (point - places[j])[1], along[1] * (point - places[j])[0], atol=1e-12)  # on its line
    near = min(np.linalg.norm(a - b) for i, a in enumerate(points) for b in points[:i])
    assert near > 0.2


def test_axes_may_be_given(oblique):
    figure, axes = plt.subplots(1, 2)
    for ax, kind in zip(axes, ("heatmap", "network"), strict=True):
        display = FactorCorrelationsDisplay.from_estimator(oblique, kind=kind, ax=ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert ax.get_title(loc="left") == "Factor correlations, oblimin rotation"


def test_what_has_no_correlations_is_refused_in_words(oblique, abilities):
    with pytest.raises(DataError, match=r"uncorrelated with rotation='varimax'.*\nHint: estimator.rotate\('oblimin'\)"):
        FactorCorrelationsDisplay.from_estimator(oblique.rotate("varimax"))
    with pytest.raises(DataError, match="needs two factors or more"):
        FactorCorrelationsDisplay.from_estimator(FactorAnalysis(1, rotation="oblimin").fit(abilities))
    with pytest.raises(DataError, match="needs an estimator with factor_correlations_, which PPCA does not have"):
        FactorCorrelationsDisplay.from_estimator(PPCA(2).fit(abilities))
    with pytest.raises(DataError, match="in the same rotation"):
        FactorCorrelationsDisplay.from_estimator(oblique, uncertainty=oblique.rotate("promax").uncertainty())
    with pytest.raises(DataError, match="kind must be one of heatmap, network; got 'tree'"):
        FactorCorrelationsDisplay.from_estimator(oblique, kind="tree")
    with pytest.raises(DataError, match="needs a fitted estimator"):
        FactorCorrelationsDisplay.from_estimator(FactorAnalysis(2))
