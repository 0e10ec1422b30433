"""The scree shows what the fit holds."""

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import spiked_rows
from probpca import PPCA, DataError, ScreeDisplay, ShapeError, select_n_components
from probpca.learning.asymptotic import asymptotic_uncertainty

mpl.use("Agg")

import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _no_figure_is_left():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def x():
    return spiked_rows(np.random.default_rng(2), 60, 7, 2, noise=0.1)


@pytest.fixture(scope="module")
def ppca(x):
    return PPCA(n_components=4).fit(x)


def words(ax):
    return [text.get_text() for text in ax.texts]


def test_variances_and_noise_are_those_of_the_fit(ppca):
    display = ScreeDisplay.from_estimator(ppca)
    assert_array_equal(display.explained_variance, ppca.explained_variance_)
    assert_array_equal(display.explained_variance_ratio, ppca.explained_variance_ratio_)
    assert display.noise_variance == ppca.noise_variance_
    assert_allclose(display.line_.get_ydata(), ppca.explained_variance_)
    assert_allclose(display.line_.get_xdata(), [1, 2, 3, 4])
    assert_allclose(display.noise_.get_ydata(), ppca.noise_variance_)
    display.figure_.canvas.draw()


def test_shares_are_written_together(ppca):
    display = ScreeDisplay.from_estimator(ppca)
    together = 100 * ppca.explained_variance_ratio_.cumsum()
    assert f"{together[0]:.0f} % of all" in words(display.ax_)


def test_intervals_are_those_of_the_uncertainty(ppca):
    sure = asymptotic_uncertainty(ppca.model_, ppca.n_samples_)
    display = ScreeDisplay.from_estimator(ppca, uncertainty=sure, level=0.8)
    low, high = sure.explained_variance.interval(0.8)
    (bars,) = display.ax_.collections
    drawn = np.array(bars.get_segments())[:, :, 1]
    assert_allclose(drawn, np.column_stack([low, high]))


def test_uncertainty_of_another_fit_is_refused(ppca, x):
    other = PPCA(n_components=2).fit(x)
    with pytest.raises(ShapeError, match="of 2 components; the estimator has 4"):
        ScreeDisplay.from_estimator(ppca, uncertainty=asymptotic_uncertainty(other.model_, other.n_samples_))


def test_choices_of_criteria_are_marked_where_they_are(ppca, x):
    found = select_n_components(x, ["bic", "parallel"], random_state=0)
    display = ScreeDisplay.from_estimator(ppca, selection=found)
    assert display.choices == found.choices
    upright = {line.get_xdata()[0] for line in display.ax_.lines if line.get_xdata()[0] == line.get_xdata()[-1]}
    assert upright == set(found.choices.values())
    assert any("bic" in text for text in words(display.ax_))


def test_noise_of_its_own_for_each_feature_is_a_band(x):
    ppca = PPCA(n_components=2, standardize=True).fit(x)
    display = ScreeDisplay.from_estimator(ppca)
    assert_array_equal(display.noise_variance, ppca.noise_variance_)
    corners = display.noise_.get_path().vertices if hasattr(display.noise_, "get_path") else None
    box = display.noise_.get_transform().transform(corners)
    ends = display.ax_.transData.inverted().transform(box)[:, 1]
    assert_allclose([ends.min(), ends.max()], [ppca.noise_variance_.min(), ppca.noise_variance_.max()])


def test_one_component_is_enough(x):
    display = ScreeDisplay.from_estimator(PPCA(n_components=1).fit(x), scale="linear")
    assert display.ax_.get_yscale() == "linear"
    display.figure_.canvas.draw()


def test_many_components_are_drawn_without_percentages():
    x = np.random.default_rng(0).standard_normal((60, 30))
    display = ScreeDisplay.from_estimator(PPCA(n_components=20).fit(x))
    assert words(display.ax_) == ["noise"]


def test_the_given_axes_are_used(ppca):
    figure, axes = plt.subplots(1, 2)
    display = ScreeDisplay.from_estimator(ppca, ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].has_data()


def test_settings_of_matplotlib_are_left_alone(ppca):
    before = dict(mpl.rcParams)
    ScreeDisplay.from_estimator(ppca)
    assert dict(mpl.rcParams) == before


def test_a_fit_is_needed():
    with pytest.raises(DataError, match=r"ScreeDisplay shows a fitted estimator; got PPCA\(\) before its fit.\nHint"):
        ScreeDisplay.from_estimator(PPCA())


def test_without_matplotlib_it_is_said_what_to_install(ppca, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'probpca\[plot\]'"):
        ScreeDisplay.from_estimator(ppca)
