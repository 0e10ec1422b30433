"""Rows have the colour of their cluster, and ellipses hold the share of a cluster that they say."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probpca import (
    PPCA,
    ClustersDisplay,
    DataError,
    MixturePPCA,
    SelectionDisplay,
    ShapeError,
)
from probpca.inference.separation import separating_axes

COLUMNS = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def x():
    """Rows of three clusters with missing cells, one row without any; the largest cluster comes first."""
    rng = np.random.default_rng(1)
    kinds = np.repeat([0, 1, 2], [50, 35, 20])
    means = np.array([[0, 0, 0, 0], [6, 0, 3, 0], [0, 6, 0, 3]])
    rows = means[kinds] + rng.standard_normal((105, 1)) * [1, 0.5, 0, 1] + rng.standard_normal((105, 4))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[7] = np.nan
    return pd.DataFrame(rows, columns=COLUMNS, index=[f"row {i}" for i in range(105)])


@pytest.fixture(scope="module")
def mixture(x):
    return MixturePPCA(3, 1, random_state=0).fit(x)


def test_points_are_the_scores_of_the_rows_of_each_cluster(mixture, x):
    display = ClustersDisplay.from_estimator(mixture, x)
    expected = separating_axes(mixture.model_).scores(mixture.model_, x.to_numpy())
    labels = mixture.predict(x)
    assert_array_equal(display.points, expected)
    for k, points in enumerate(display.points_):
        assert_array_equal(points.get_offsets(), expected[labels == k])
        count = (labels == k).sum()
        assert points.get_label() == f"C{k}: {100 * mixture.weights_[k]:.1f}%, {count} rows"
    display.figure_.canvas.draw()


@pytest.mark.parametrize("features", [None, ["d", "a"], [3, 0]])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_an_ellipse_holds_its_share_of_its_cluster(mixture, x, features, level):
    display = ClustersDisplay.from_estimator(mixture, x, features=features, level=level)
    rows, labels = mixture.sample(40_000, random_state=0)
    if features is None:
        at = separating_axes(mixture.model_).scores(mixture.model_, rows)
    else:
        at = rows[:, [3, 0]]
        assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("d", "a")
    for k, ellipse in enumerate(display.ellipses_):
        here = at[labels == k]
        inside = ellipse.contains_points(ellipse.axes.transData.transform(here), radius=0)
        assert abs(inside.mean() - level) < 5 * np.sqrt(level * (1 - level) / len(here))


def test_rings_mark_rows_that_may_belong_to_several_clusters(mixture, x):
    display = ClustersDisplay.from_estimator(mixture, x, sure=0.99)
    unsure = mixture.predict_proba(x).max(axis=1) < 0.99
    assert 1 < unsure.sum() < 50
    (rings,) = [part for part in display.ax_.collections if "probability below" in str(part.get_label())]
    assert_array_equal(rings.get_offsets(), display.points[unsure])
    assert rings.get_label() == f"probability below 0.99 ({unsure.sum()})"
    none = ClustersDisplay.from_estimator(mixture, x, sure=0)
    assert not [part for part in none.ax_.collections if "probability below" in str(part.get_label())]


def test_axes_say_what_they_separate_and_by_which_columns(mixture, x):
    display = ClustersDisplay.from_estimator(mixture, x)
    for j, title in enumerate((display.ax_.get_xlabel(), display.ax_.get_ylabel())):
        first = COLUMNS[np.abs(display.axes.correlation[:, j]).argmax()]
        assert f"{100 * display.axes.share[j]:.1f}% of the separation" in title
        assert f"({first} +" in title
    alone = MixturePPCA(1, 1, random_state=0).fit(x)
    assert "spread within clusters" in ClustersDisplay.from_estimator(alone, x).ax_.get_xlabel()


def test_rows_are_named_where_they_are(mixture, x):
    display = ClustersDisplay.from_estimator(mixture, x, labels=True, annotate=["row 5", "row 9"])
    named = {text.get_text(): text.xy for text in display.labels_}
    assert set(named) == {"row 5", "row 9"}
    assert_allclose(named["row 9"], display.points[9])
    assert len(ClustersDisplay.from_estimator(mixture, x, labels=True).labels_) > 10


def test_it_draws_into_given_axes_and_again(mixture, x, tmp_path):
    figure, ax = plt.subplots()
    display = ClustersDisplay.from_estimator(mixture, x, ax=ax)
    assert (display.figure_, display.ax_) == (figure, ax)
    assert display.plot() is display
    assert display.figure_ is not figure
    display.figure_.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_mistakes_are_explained(mixture, x):
    with pytest.raises(DataError, match=r"ClustersDisplay needs an estimator with predict_proba, which PPCA"):
        ClustersDisplay.from_estimator(PPCA(1).fit(x), x)
    with pytest.raises(DataError, match="not fitted"):
        ClustersDisplay.from_estimator(MixturePPCA(3), x)
    with pytest.raises(ShapeError, match=r"features must be two columns; got 1\."):
        ClustersDisplay.from_estimator(mixture, x, features=["a"])
    with pytest.raises(ShapeError, match="features must be among a, b, c, d; got 'e'"):
        ClustersDisplay.from_estimator(mixture, x, features=["a", "e"])
    with pytest.raises(DataError, match=r"sure must lie between 0 and 1; got 2\."):
        ClustersDisplay.from_estimator(mixture, x, sure=2)
    with pytest.raises(ShapeError, match="rows must have 4 columns"):
        ClustersDisplay.from_estimator(mixture, x.to_numpy()[:, :3])


def test_criteria_are_drawn_against_the_number_of_clusters(x):
    mixture = MixturePPCA(n_components=None, n_init=2, random_state=0).fit(x)
    display = SelectionDisplay.from_estimator(mixture)
    found = mixture.criteria_
    for panel, rule in zip(display.axes_, ("bic", "icl"), strict=False):
        scores = np.where(found.degenerate, -np.inf, getattr(found, rule))
        best = {k: scores[found.n_clusters == k].max() for k in set(found.n_clusters.tolist())}
        curve, _, ring = panel.lines[:3]
        for k, value in zip(curve.get_xdata(), curve.get_ydata(), strict=True):
            assert_allclose(value, best[k] - max(best.values()))
        assert ring.get_xdata()[0] == max(best, key=best.get) == found.n_clusters[found.best(rule)]
        assert panel.get_xlabel() == "number of clusters"
    assert display.axes_[-1].get_xlabel() == "number of clusters"
    assert display.selection["mixture_bic"].choice == mixture.n_clusters_
