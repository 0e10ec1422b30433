"""Arrows are loadings, and their bars are intervals of these."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from numpy.testing import assert_allclose, assert_array_equal

from oracles import spiked_rows
from probpca import PPCA, BiplotDisplay, DataError, FactorAnalysis, ShapeError
from probpca.displays.axes import THEME
from probpca.learning.uncertainty.asymptotic import asymptotic_uncertainty


@pytest.fixture(scope="module")
def x():
    return spiked_rows(np.random.default_rng(4), 50, 8, 3, noise=0.2)


@pytest.fixture(scope="module")
def ppca(x):
    return PPCA(n_components=3).fit(x)


@pytest.fixture(scope="module")
def sure(ppca):
    return asymptotic_uncertainty(ppca.model_, ppca.n_samples_)


def test_points_are_scores_and_arrows_loadings(ppca, x):
    display = BiplotDisplay.from_estimator(ppca, x, components=(2, 1))
    assert_allclose(display.scores, ppca.transform(x)[:, [2, 1]])
    assert_array_equal(display.loadings, ppca.loadings_[:, [2, 1]])
    assert_allclose(display.points_[0].get_offsets(), display.scores)
    for arrow, j in zip(display.arrows_, display.shown, strict=True):
        assert_allclose(arrow.xy, display.arrow_scale_ * display.loadings[j])
    display.figure_.canvas.draw()


def test_longest_arrows_come_first_and_short_ones_are_left_out(ppca, x):
    display = BiplotDisplay.from_estimator(ppca, x, most=5)
    length = np.hypot(*ppca.loadings_[:, :2].T)
    assert_array_equal(display.shown, np.argsort(-length)[:5])
    assert [name.get_text() for name in display.names_] == [f"x{j}" for j in display.shown]


def test_correlations_are_those_of_the_model(ppca, x):
    display = BiplotDisplay.from_estimator(ppca, x, units="correlation")
    joint = ppca.joint().covariance  # of x and z together
    deviation = np.sqrt(np.diag(joint))
    correlation = joint / np.outer(deviation, deviation)
    assert_allclose(display.loadings, correlation[:8, 8:10])


def test_bars_are_the_intervals_of_the_loadings(ppca, x, sure):
    display = BiplotDisplay.from_estimator(ppca, x, uncertainty=sure, level=0.8, units="correlation")
    deviation = np.sqrt(np.diag(ppca.get_covariance()))[:, None]
    low, high = (end[:, :2] / deviation for end in sure.loadings.interval(0.8))
    assert_allclose(display.low, low)
    assert_allclose(display.high, high)
    bars = [line for line in display.ax_.lines if line.get_alpha() is not None]
    first = display.shown[0]
    scale = display.arrow_scale_
    assert_allclose(bars[0].get_xdata(), [scale * low[first, 0], scale * high[first, 0]])
    assert_allclose(bars[1].get_ydata(), [scale * low[first, 1], scale * high[first, 1]])
    assert_array_equal(display.sure, ((low > 0) | (high < 0)).any(axis=1))


def test_arrows_of_standardised_columns_do_not_depend_on_units(x):
    units = np.geomspace(0.01, 100, 8)
    fits = [(PPCA(n_components=2, standardize=True, random_state=0).fit(rows), rows) for rows in (x, x * units)]
    for kind in ("loading", "correlation"):
        plain, told = (
            BiplotDisplay.from_estimator(
                fit, rows, units=kind, uncertainty=fit.uncertainty(rows, n_draws=5, random_state=0)
            )
            for fit, rows in fits
        )
        for part in ("loadings", "scores", "low", "high"):
            assert_allclose(getattr(told, part), getattr(plain, part), atol=1e-8, err_msg=part)
    fit = fits[1][0]
    joint = fit.joint().covariance
    deviation = np.sqrt(np.diag(joint))
    assert_allclose(told.loadings, (joint / np.outer(deviation, deviation))[:8, 8:])
    low, high = (end / deviation[:8, None] * fit.scale_[:, None] for end in _ends(fit, x * units))
    assert_allclose(told.low, low)
    assert_allclose(told.high, high)


def _ends(fit, rows):
    return fit.uncertainty(rows, n_draws=5, random_state=0).loadings.interval(0.95)


def test_names_come_from_a_dataframe_and_do_not_lie_on_each_other():
    pandas = pytest.importorskip("pandas")
    x = spiked_rows(np.random.default_rng(4), 50, 1, 1, noise=0.1) @ np.ones((1, 10))
    x += 0.1 * np.random.default_rng(0).standard_normal(x.shape)
    frame = pandas.DataFrame(x, columns=[f"twin {j}" for j in range(10)])
    display = BiplotDisplay.from_estimator(PPCA(n_components=2).fit(frame), frame)
    assert display.feature_names == list(frame.columns)
    display.figure_.canvas.draw()
    boxes = sorted((Text.get_window_extent(name) for name in display.names_), key=lambda box: box.y0)
    assert all(below.y0 + 0.8 * below.height <= above.y0 + 1 for below, above in pairwise(boxes))


@pytest.mark.parametrize("rows", [1, 50])
def test_long_names_lie_within_the_axes(ppca, x, rows):
    names = [f"{'left' * 30}{j}" for j in range(8)]
    display = BiplotDisplay.from_estimator(ppca, x[:rows], feature_names=names)
    display.figure_.canvas.draw()
    box = display.ax_.get_window_extent()
    for name in display.names_:
        written = Text.get_window_extent(name)
        assert box.x0 <= written.x0 < written.x1 <= box.x1


def test_rows_with_missing_cells_and_empty_ones_are_drawn(ppca, x):
    holed = x.copy()
    holed[0] = np.nan
    holed[1, :4] = np.nan
    display = BiplotDisplay.from_estimator(ppca, holed, groups=np.arange(50) % 3)
    assert_array_equal(display.scores[0], 0)
    display.figure_.canvas.draw()


def test_many_features_are_drawn():
    x = np.random.default_rng(0).standard_normal((30, 200))
    display = BiplotDisplay.from_estimator(PPCA(n_components=2).fit(x), x)
    assert len(display.arrows_) == 12


def test_the_given_axes_are_used(ppca, x):
    _, axes = plt.subplots(1, 2)
    assert BiplotDisplay.from_estimator(ppca, x, ax=axes[1]).ax_ is axes[1]
    assert not axes[0].has_data()


def test_what_cannot_be_drawn_is_said(ppca, x):
    with pytest.raises(ShapeError, match=r"components must be numbers from 0 to 2; got \(0, 3\)"):
        BiplotDisplay.from_estimator(ppca, x, components=(0, 3))
    with pytest.raises(ShapeError, match="components must be a pair; got 1"):
        BiplotDisplay.from_estimator(ppca, x, components=[0])
    with pytest.raises(
        ShapeError, match=r"needs two components; the model has 1\.\nHint: fit with n_components=2, or draw"
    ):
        BiplotDisplay.from_estimator(PPCA(n_components=1).fit(x), x)
    with pytest.raises(DataError, match="units must be one of loading, correlation; got 'inch'"):
        BiplotDisplay.from_estimator(ppca, x, units="inch")
    with pytest.raises(ShapeError, match="feature_names must be 8 names; got 1"):
        BiplotDisplay.from_estimator(ppca, x, feature_names=["a"])
    with pytest.raises(DataError, match="BiplotDisplay needs a fitted estimator"):
        BiplotDisplay.from_estimator(PPCA(), x)
    small = PPCA(n_components=1).fit(x)
    with pytest.raises(ShapeError, match="must belong to this fit; got one with 8 features and 1 components"):
        BiplotDisplay.from_estimator(ppca, x, uncertainty=asymptotic_uncertainty(small.model_, 50.0))


def test_rows_have_labels_groups_and_ellipses(ppca, x):
    kinds, rows = np.repeat(["a", "b"], 25), [f"row {i}" for i in range(50)]
    display = BiplotDisplay.from_estimator(ppca, x, groups=kinds, group_ellipses=True, labels=rows)
    assert [points.get_label() for points in display.points_] == ["a", "b"]
    assert_allclose(display.group_ellipses_[1].center, display.scores[25:].mean(axis=0))
    written = {text.get_text(): text.xy for text in display.labels_}
    assert written
    for name, place in written.items():
        assert_allclose(place, display.scores[rows.index(name)])
    display.figure_.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in (*display.labels_, *display.names_)]
    for box in boxes[: len(display.labels_)]:
        assert sum(box.overlaps(other) for other in boxes) == 1  # itself


def test_names_of_arrows_have_room_beside_a_wide_key_of_groups(ppca, x):
    kinds = np.repeat(["a category with a long name", "another category with a long name"], 25)
    names = [f"a long feature {j}" for j in range(8)]
    display = BiplotDisplay.from_estimator(ppca, x, groups=kinds, feature_names=names)
    display.figure_.canvas.draw()
    panel = display.ax_.get_window_extent()
    for box in map(Text.get_window_extent, display.names_):
        assert panel.x0 - 1 <= box.x0
        assert box.x1 <= panel.x1 + 1


def test_only_names_that_were_moved_have_a_line_to_their_arrow(ppca, x):
    display = BiplotDisplay.from_estimator(ppca, x)
    for name in display.names_:
        assert (name.arrow_patch is not None) == (abs(name.xyann[1]) > THEME.small / 2)
    assert any(name.arrow_patch is None for name in display.names_)


# Factor analysis


def test_points_and_arrows_of_factors_multiply_to_the_fitted_rows(abilities):
    fitted = FactorAnalysis(2, rotation="oblimin").fit(abilities)
    display = BiplotDisplay.from_estimator(fitted, abilities)
    deviation = np.sqrt(np.diag(fitted.get_covariance()))
    rows = fitted.mean_ + deviation * (display.scores @ display.loadings.T)
    assert_allclose(rows, fitted.inverse_transform(fitted.transform(abilities)))
    assert display.ax_.get_title(loc="right") == "arrows: standardized loading"
    assert display.feature_names == list(abilities.columns)


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
def test_correlations_with_factors_are_those_of_the_model(abilities, oblique, rotation):
    fitted = oblique.rotate(rotation)
    joint = fitted.joint().covariance  # of x and the rotated factors together
    deviation = np.sqrt(np.diag(joint))
    display = BiplotDisplay.from_estimator(fitted, abilities, units="correlation", components=(2, 0))
    assert_allclose(display.loadings, (joint / np.outer(deviation, deviation))[:9, [11, 9]], atol=1e-12)
    assert display.ax_.get_title(loc="right") == "arrows: correlation with the factor"
    other = BiplotDisplay.from_estimator(fitted, abilities, components=(2, 0))
    assert np.allclose(display.loadings, other.loadings) == (rotation != "oblimin")


def test_arrows_of_factors_do_not_depend_on_units(abilities, oblique):
    other = FactorAnalysis(3, rotation="oblimin").fit(1000 * abilities)
    one, same = (BiplotDisplay.from_estimator(f, x) for f, x in ((oblique, abilities), (other, 1000 * abilities)))
    assert_allclose(one.loadings, same.loadings, atol=1e-4)
    assert_allclose(one.scores, same.scores, atol=1e-3)


def test_intervals_of_factors_are_those_of_the_same_rotation(abilities, oblique):
    sure = oblique.uncertainty()
    display = BiplotDisplay.from_estimator(oblique, abilities, uncertainty=sure, level=0.8, components=(1, 2))
    for end, wanted in zip((display.low, display.high), sure.loadings.interval(0.8), strict=True):
        assert_array_equal(end, wanted[:, 1:])
    with pytest.raises(DataError, match=r"in the same rotation.*\n.*after rotate"):
        BiplotDisplay.from_estimator(oblique.rotate("varimax"), abilities, uncertainty=sure)
    with pytest.raises(DataError, match="not of correlations with oblique factors"):
        BiplotDisplay.from_estimator(oblique, abilities, uncertainty=sure, units="correlation")


def test_arrows_without_an_interval_are_not_pale(abilities, heywood):
    x = abilities.assign(again=abilities["word"])
    display = BiplotDisplay.from_estimator(heywood, x, uncertainty=heywood.uncertainty())
    assert heywood.heywood_features_.size
    assert display.sure[heywood.heywood_features_].all()
    assert not display.sure.all()
    with pytest.raises(ShapeError, match="needs two factors; the model has 1"):
        BiplotDisplay.from_estimator(FactorAnalysis(1).fit(abilities), abilities)
