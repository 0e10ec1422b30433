"""What all displays share: room for words, and places for panels."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from numpy.testing import assert_allclose, assert_array_equal

from oracles import spiked_rows
from probpca import (
    PPCA,
    BiplotDisplay,
    ComponentsDisplay,
    ForecastDisplay,
    ImputationDisplay,
    LatentDisplay,
    LinearDynamicalSystem,
    LoadingsDisplay,
    MissingnessDisplay,
    OutlierDisplay,
    UsedCellsDisplay,
)
from probpca.displays.axes import THEME, apart, clipped, name_points, whole_numbers
from probpca.learning.uncertainty.asymptotic import asymptotic_uncertainty

LETTERS = ("long ", "äßł", "名前", "$x_1$ ")


@pytest.mark.parametrize("letters", LETTERS)
@pytest.mark.parametrize("most", [10, THEME.name_length])
def test_a_long_name_keeps_its_ends(letters, most):
    name = f"first{40 * letters}7 last"
    short = clipped(name, most).replace("\\$", "$")
    assert len(short) <= most
    head, tail = short.split("\N{HORIZONTAL ELLIPSIS}")
    assert head
    assert tail
    assert name.startswith(head)
    assert name.endswith(tail)


def test_a_short_name_stays_as_it_is():
    assert clipped("a name") == "a name"
    assert clipped(THEME.name_length * "x") == THEME.name_length * "x"
    assert clipped("two\nlines\tof words") == "two lines of words"


@pytest.mark.parametrize("name", ["$", "$\\nonsense$", "from $5 to $10", "a^b_c"])
def test_a_name_is_no_formula(name):
    figure, ax = plt.subplots()
    drawn, plain = (ax.text(0, 0, text, parse_math=parse) for text, parse in ((clipped(name), True), (name, False)))
    figure.canvas.draw()
    assert drawn.get_window_extent().width == plain.get_window_extent().width
    assert clipped(clipped(name)) == clipped(name)


@pytest.mark.parametrize("seed", range(5))
def test_places_are_apart_in_their_order_and_no_further_than_they_must(seed):
    places = np.random.default_rng(seed).random(8)
    moved = apart(places, 0.2)
    order = np.argsort(places)
    assert np.diff(moved[order]).min() >= 0.2 - 1e-12
    assert_allclose(apart(10 * np.arange(5.0), 0.2), 10 * np.arange(5.0))
    assert_allclose(moved.mean(), places.mean())


@pytest.mark.parametrize("seed", range(5))
def test_places_stay_within_ends_and_move_only_for_them(seed):
    places = np.random.default_rng(seed).random(8)
    moved = apart(places, 0.1, (0.0, 1.0))
    assert np.diff(np.sort(moved)).min() >= 0.1 - 1e-12
    assert moved.min() >= 0
    assert moved.max() <= 1 + 1e-12
    assert_array_equal(np.argsort(moved), np.argsort(places))
    assert_allclose(apart(places, 0.1, (-9.0, 9.0)), apart(places, 0.1))


@pytest.mark.parametrize("seed", range(5))
def test_names_do_not_lie_on_each_other_and_stay_within_the_axes(seed):
    rng = np.random.default_rng(seed)
    figure, ax = plt.subplots(figsize=(6.4, 4))
    points = rng.random((10, 2))
    ax.scatter(*points.T)
    names = [f"{'some words ' * rng.integers(1, 9)}{i}" for i in range(10)]
    written = name_points(ax, points, names)
    figure.canvas.draw()
    boxes = [Text.get_window_extent(text).shrunk(1, 0.8) for text in written]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    inside = ax.get_window_extent()
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in boxes)


@pytest.mark.parametrize("ends", [(0.6, 1.4), (0.9, 2.1), (0, 3), (0.5, 40)])
def test_what_is_counted_has_whole_ticks(ends):
    ax = plt.subplots()[1]
    ax.set_xlim(*ends)
    whole_numbers(ax.xaxis)
    ticks = ax.get_xticks()
    assert_array_equal(ticks, np.round(ticks))
    assert ((ticks >= ends[0]) & (ticks <= ends[1])).any()


ROWS = [f"row {i} {'of a table with long names, ' * 5}{i}" for i in range(30)]
KINDS = np.array(ROWS[:3] * 10)
COLUMNS = [f"column {j} {'of a table with long names, ' * 5}{j}" for j in range(6)]


@pytest.fixture(scope="module")
def holed():
    x = spiked_rows(np.random.default_rng(3), 30, 6, 2, noise=0.2)
    x[0, 2:] = np.nan
    x[1] = np.nan
    x[2] += 9.0
    return x


DRAW = {
    "imputation": lambda fit, x: ImputationDisplay.from_estimator(fit, x, labels=ROWS, feature_names=COLUMNS),
    "along": lambda fit, x: ImputationDisplay.from_estimator(fit, x, rows=[0, 1, 2], labels=ROWS, positions=range(6)),
    "biplot": lambda fit, x: BiplotDisplay.from_estimator(fit, x, feature_names=COLUMNS, groups=KINDS),
    "latent": lambda fit, x: LatentDisplay.from_estimator(fit, x, labels=ROWS, annotate=[0, 2, 9]),
    "distances": lambda fit, x: OutlierDisplay.from_estimator(fit, x, labels=ROWS, feature_names=COLUMNS),
    "chart": lambda fit, x: OutlierDisplay.from_estimator(fit, x, kind="chart", labels=ROWS),
    "cells": lambda fit, x: OutlierDisplay.from_estimator(fit, x, row=2, labels=ROWS, feature_names=COLUMNS),
    "in order": lambda fit, x: OutlierDisplay.from_estimator(fit, x, row=2, feature_names=COLUMNS, in_order=True),
    "missingness": lambda _, x: MissingnessDisplay.from_data(x, feature_names=COLUMNS),
    "used cells": lambda _, x: UsedCellsDisplay.from_estimator(
        PPCA(2, robust="rows", random_state=0).fit(x), x, feature_names=COLUMNS
    ),
    "loadings": lambda _, x: LoadingsDisplay.from_uncertainty(
        asymptotic_uncertainty(PPCA(n_components=2).fit(x[2:]).model_, 28.0), feature_names=COLUMNS
    ),
    "forecast": lambda _, x: ForecastDisplay.from_estimator(
        LinearDynamicalSystem(n_components=1, max_iter=3, tol=1e6, random_state=0).fit(x), x, feature_names=COLUMNS
    ),
    "components": lambda _, x: ComponentsDisplay.from_estimator(
        LinearDynamicalSystem(trend="slope").fit(x), x, feature_names=COLUMNS
    ),
}


@pytest.mark.parametrize("kind", DRAW)
def test_long_names_leave_room_for_the_data(kind, holed):
    display = DRAW[kind](PPCA(n_components=2, random_state=0).fit(holed), holed)
    display.figure_.canvas.draw()
    names = [
        text.get_text() for text in display.figure_.findobj(Text) if text.get_text().startswith(("row ", "column "))
    ]
    assert names
    assert max(map(len, names)) <= THEME.title_length
    whole = display.figure_.get_window_extent()
    assert all(ax.get_window_extent().width > 0.1 * whole.width for ax in display.figure_.axes)


def test_groups_have_pairs_of_colour_and_marker_of_their_own():
    assert len({THEME.category(k) for k in range(70)}) == 70
