"""The figure of a selection shows its numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import spiked_rows
from probpca import DataError, SelectionDisplay, ShapeError, select_n_components

NAMES = ["bic", "cv", "parallel", "gavish_donoho"]


@pytest.fixture(scope="module")
def x():
    return spiked_rows(np.random.default_rng(1), 80, 9, 2, noise=0.1)


@pytest.fixture(scope="module")
def found(x):
    return select_n_components(x, [*NAMES, "ard"], random_state=0)


def titles(display):
    return [ax.get_title(loc="left") for ax in display.axes_]


def test_every_curve_is_drawn_with_its_choice(found):
    display = SelectionDisplay.from_selection(found)
    assert titles(display) == [*(f"{name}: {found.choices[name]}" for name in NAMES), "all choices"]
    for ax, name in zip(display.axes_, NAMES, strict=False):
        curve, _, ring = ax.lines[:3]
        wanted = found[name].shown[: curve.get_ydata().size]
        assert_allclose(curve.get_ydata(), wanted)
        assert_allclose(curve.get_xdata(), np.arange(1, wanted.size + 1))
        assert ring.get_xdata()[0] == found.choices[name]
        assert ring.get_ydata()[0] == wanted[found.choices[name] - 1]


def test_axes_say_what_is_counted(x):
    display = SelectionDisplay.from_data(x, ["bic", "fa_bic", "fa_aic"], random_state=0)
    counted = ["components", "factors", "factors", "components"]
    assert [ax.get_xlabel() for ax in display.axes_] == [f"number of {what}" for what in counted]


def test_the_last_panel_has_all_choices_and_the_title_the_sentence(found):
    display = SelectionDisplay.from_selection(found)
    rings = display.axes_[-1].lines[0]
    assert_allclose(rings.get_xdata(), list(found.choices.values()))
    assert [label.get_text() for label in display.axes_[-1].get_yticklabels()] == [*NAMES, "ard"]
    assert display.figure_.get_suptitle().replace("\n", " ") == found.agreement
    assert display.ax_ is display.axes_[0]


def test_what_a_ratio_must_exceed_is_marked(found):
    display = SelectionDisplay.from_selection(found)
    for ax, name in zip(display.axes_, NAMES, strict=False):
        dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
        assert len(dashed) == (name in ("parallel", "gavish_donoho"))


def test_the_doubt_of_cross_validation_is_shaded(found):
    display = SelectionDisplay.from_selection(found)
    assert [len(ax.collections) for ax in display.axes_[:4]] == [0, 1, 0, 0]


def test_data_can_be_drawn_at_once(x, found):
    display = SelectionDisplay.from_data(x, ["cv", "parallel"], random_state=0)
    for name in ("cv", "parallel"):
        assert_allclose(display.selection[name].score, found[name].score)


def test_one_criterion_fits_the_axes_it_is_given(x):
    figure, axes = plt.subplots(1, 2)
    display = SelectionDisplay.from_data(x, "bic", ax=axes[1])
    assert display.figure_ is figure
    assert list(display.axes_) == [axes[1]]
    assert titles(display) == ["bic: 2"]


def test_each_criterion_may_have_an_axes_of_its_own(found):
    _, axes = plt.subplots(5)
    assert list(SelectionDisplay.from_selection(found, ax=axes).axes_) == list(axes)
    with pytest.raises(ShapeError, match=r"ax must be 5 Axes, one for each panel, .*; got 2"):
        SelectionDisplay.from_selection(found, ax=axes[:2])


@pytest.mark.parametrize("state", [7, None])
def test_a_random_state_means_what_it_means_elsewhere(x, state):
    np.random.seed(3)  # noqa: NPY002
    drawn = SelectionDisplay.from_data(x, "cv", random_state=state).selection["cv"].score
    np.random.seed(3)  # noqa: NPY002
    assert_allclose(drawn, select_n_components(x, "cv", random_state=state)["cv"].score, rtol=0)


def test_what_is_no_random_state_is_refused(x):
    with pytest.raises(DataError, match=r"random_state must be an int, .*; got 'dice'"):
        SelectionDisplay.from_data(x, "bic", random_state="dice")


def test_several_criteria_share_the_place_of_one_axes(found):
    figure, axes = plt.subplots(1, 2)
    display = SelectionDisplay.from_selection(found, ax=axes[1])
    left = axes[1].get_position().x0
    assert all(ax.figure is figure and ax.get_position().x0 >= left - 1e-9 for ax in display.axes_)
    assert len(display.axes_) == 5


def test_choices_without_curves_are_drawn_too(x):
    display = SelectionDisplay.from_data(x, "ard", random_state=0)
    assert titles(display) == ["all choices"]
    display.figure_.canvas.draw()


def test_it_can_be_drawn_again(found, tmp_path):
    display = SelectionDisplay(found)
    assert display.plot() is display
    first = display.figure_
    assert display.plot().figure_ is not first
    display.figure_.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_depths_are_plain_numbers_apart_from_each_other(found):
    display = SelectionDisplay.from_selection(found)
    display.figure_.canvas.draw()
    for ax, criterion in zip(display.axes_, [c for c in found.criteria if c.score.size], strict=False):
        if criterion.in_nats and ax.get_yscale() == "symlog":
            shown = [tick for tick in ax.yaxis.get_major_ticks() if tick.label1.get_text()]
            assert [float(t.label1.get_text().replace("\N{MINUS SIGN}", "-").replace(",", "")) for t in shown] == [
                pytest.approx(t.get_loc()) for t in shown
            ]
            assert len(shown) >= 2
            boxes = sorted(t.label1.get_window_extent().y0 for t in shown)
            assert min(np.diff(boxes)) > shown[0].label1.get_window_extent().height
