"""The explorer holds the model and its rows, all of its text stays text, and it needs no network."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from factor_oracles import correlated_abilities
from html_pages import EVIL, loads_nothing, numbers, read
from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, DataError, FactorAnalysis, ShapeError, SourceError, explorer
from probpca.pages.page import PageLimits

N, D, Q = 50, 9, 3


@pytest.fixture
def x():
    rng = np.random.default_rng(5)
    rows = spiked_rows(rng, N, D, Q, noise=0.2) + 1_000
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[3], rows[8] = np.nan, np.nan
    return rows


@pytest.fixture
def fitted(x):
    return PPCA(Q, random_state=0).fit(x)


def root_of(data, i, q):
    root = np.zeros((q, q))
    root[np.tril_indices(q)] = numbers(data["roots"], -1, q * (q + 1) // 2)[data["patterns"][i]]
    return root


@pytest.mark.parametrize("fit", [PPCA(Q), PPCA(Q, standardize=True), BayesianPCA(Q)])
def test_it_holds_the_model_and_the_posterior_of_each_row(fit, x, tmp_path):
    fitted = fit.set_params(random_state=0).fit(x)
    data = read(explorer(fitted, x, tmp_path / "page.html")).data()
    q, model, scale = fitted.n_components_, fitted.model_, np.array(data["scale"])
    close = {"rtol": 3e-5, "atol": 1e-9}
    assert_allclose(data["mean"], fitted.mean_)
    assert_allclose(scale[:, None] * numbers(data["loadings"], D, q), model.loadings, **close)
    assert_allclose((scale * data["noise"]) ** 2, np.broadcast_to(model.noise_variance, (D,)), rtol=1e-5)
    assert_allclose(data["mean"] + scale * numbers(data["values"], N, D), x, rtol=1e-6)
    belief = fitted.posterior(x)
    assert_allclose(numbers(data["latent"], N, q), belief.mean, **close)
    for i in range(N):
        root = root_of(data, i, q)
        assert_allclose(root @ root.T, belief.covariance[i], rtol=1e-4, atol=1e-5)


def test_rows_with_the_same_missing_cells_share_a_posterior(x, tmp_path, fitted):
    data = read(explorer(fitted, x, tmp_path / "page.html")).data()
    patterns = np.array(data["patterns"])
    assert patterns[3] == patterns[8]
    complete = np.isfinite(x).all(axis=1)
    assert len(set(patterns[complete])) == 1
    assert numbers(data["roots"], -1, 6).shape[0] == len(set(patterns)) == len({tuple(row) for row in np.isnan(x)})


def test_rows_may_be_images(x, tmp_path, fitted):
    def shape(asked):
        return read(explorer(fitted, x, tmp_path / "page.html", image_shape=asked)).data()["imageShape"]

    assert [shape(None), shape((3, 3)), shape("square"), shape((1, 9))] == [None, [3, 3], [3, 3], [1, 9]]
    for wrong in ((2, 4), (9,), (3.0, 3.0), "round", True, (-3, -3)):
        with pytest.raises(ShapeError, match=r"image_shape must be \(height, width\) with height \* width = 9 columns"):
            shape(wrong)
    narrow = PPCA(2, random_state=0).fit(x[:, :8])
    with pytest.raises(ShapeError, match="a square number of columns; got 8"):
        explorer(narrow, x[:, :8], tmp_path / "page.html", image_shape="square")


def test_of_many_rows_some_are_shown_and_the_page_says_so(fitted, x, tmp_path):
    page = read(explorer(fitted, x, tmp_path / "page.html", limits=PageLimits(most_rows=20)))
    data = page.data()
    assert "20 of the rows, drawn at random, are shown" in " ".join(page.words)
    assert len(data["names"]) == len(set(data["rows"])) == 20
    shown = data["mean"] + np.array(data["scale"]) * numbers(data["values"], 20, D)
    assert_allclose(shown, x[data["rows"]], rtol=1e-6)


def test_of_wide_tables_the_columns_that_the_components_explain_best_are_shown(fitted, x, tmp_path):
    page = read(explorer(fitted, x, tmp_path / "page.html", limits=PageLimits(most_columns=4)))
    data = page.data()
    explained = 1 - np.broadcast_to(fitted.noise_variance_, D) / np.diag(fitted.get_covariance())
    best = np.sort(np.argsort(-explained)[:4])
    assert data["features"] == [f"x{j}" for j in best]
    assert "The 4 columns that the components explain best are shown" in " ".join(page.words)
    shown = data["mean"] + np.array(data["scale"]) * numbers(data["values"], N, 4)
    assert_allclose(shown, x[:, best], rtol=1e-6)
    model = np.array(data["scale"])[:, None] * numbers(data["loadings"], 4, Q)
    assert_allclose(model, fitted.model_.loadings[best], rtol=3e-5, atol=1e-9)


def test_images_keep_all_their_pixels(fitted, x, tmp_path):
    limits = PageLimits(most_columns=4, most_cells=100)
    data = read(explorer(fitted, x, tmp_path / "page.html", image_shape=(3, 3), limits=limits)).data()
    assert (len(data["rows"]), len(data["features"])) == (100 // 9, 9)


def test_it_opens_at_the_row_with_the_highest_score(fitted, x, tmp_path):
    data = read(explorer(fitted, x, tmp_path / "page.html")).data()
    assert data["first"] == fitted.posterior(x).mean[:, 0].argmax()


def test_names_and_titles_stay_text(fitted, x, tmp_path):
    plain = read(explorer(fitted, x, tmp_path / "plain.html"))
    labels = [EVIL[i % len(EVIL)] for i in range(N)]
    for title in EVIL:
        names = [*EVIL, "last"]
        groups = dict.fromkeys(EVIL, labels)
        given = {"labels": labels, "feature_names": names, "groups": groups}
        place = explorer(fitted, x, tmp_path / "evil.html", title=title, **given)
        assert [tag for tag, _ in read(place).tags] == [tag for tag, _ in plain.tags]
        loads_nothing(place)
    assert read(place).data()["names"] == [label or None for label in labels]


def test_only_the_scripts_of_the_page_may_run(fitted, x, tmp_path):
    text = explorer(fitted, x, tmp_path / "page.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "sha256-" in policy
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_it_is_small_and_needs_no_other_library(tmp_path, monkeypatch):
    for name in ("altair", "vl_convert", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    x = spiked_rows(np.random.default_rng(0), 2_000, 50, 6, noise=0.3)
    place = explorer(PPCA(6).fit(x), x, tmp_path / "page.html")
    assert place.stat().st_size < 600_000
    loads_nothing(place)


def test_dataframes_bring_their_names(x, tmp_path):
    frame = pd.DataFrame(x, columns=list("abcdefghi"), index=[f"r{i}" for i in range(N)])
    data = read(explorer(PPCA(Q, random_state=0).fit(frame), frame, tmp_path / "page.html")).data()
    assert data["features"] == list("abcdefghi")
    assert data["names"][1] == "r1"


def test_one_component_is_enough(x, tmp_path):
    data = read(explorer(PPCA(1, random_state=0).fit(x), x, tmp_path / "page.html")).data()
    assert data["components"] == 1
    assert_array_equal(numbers(data["latent"], N, 1)[3], 0.0)


def test_what_cannot_be_shown_is_refused_in_words(fitted, x, tmp_path):
    place = tmp_path / "page.html"
    with pytest.raises(ShapeError, match="labels must be 50 names; got 1"):
        explorer(fitted, x, place, labels=["a"])
    with pytest.raises(ShapeError, match="9 columns, as in the fit; got 2"):
        explorer(fitted, x[:, :2], place)
    with pytest.raises(DataError, match="which is not fitted"):
        explorer(PPCA(2), x, place)
    with pytest.raises(DataError, match="got object"):
        explorer(object(), x, place)
    with pytest.raises(SourceError, match="there is no folder"):
        explorer(fitted, x, tmp_path / "nowhere" / "page.html")
    assert list(tmp_path.iterdir()) == []


# Factor analysis


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
@pytest.mark.parametrize("most_columns", [9, 4])
def test_points_and_neighbours_are_those_of_rotated_factors(rotation, most_columns, tmp_path):
    x = correlated_abilities(np.random.default_rng(7))
    x[np.random.default_rng(8).random(x.shape) < 0.1] = np.nan
    x[5] = np.nan
    fitted = FactorAnalysis(3, rotation=rotation).fit(x)
    page = read(explorer(fitted, x, tmp_path / "page.html", limits=PageLimits(most_columns=most_columns)))
    data, belief = page.data(), fitted.posterior(x)
    best = np.sort(np.argsort(-fitted.communalities_)[:most_columns])
    assert data["features"] == [f"x{j}" for j in best]
    scores = numbers(data["latent"], len(x), 3)
    assert_allclose(scores, belief.mean, rtol=1e-4, atol=1e-6)
    rows = data["mean"] + np.array(data["scale"]) * (scores @ numbers(data["loadings"], best.size, 3).T)
    wanted = fitted.inverse_transform(belief.mean)[:, best]
    assert_allclose((rows - wanted) / np.array(data["scale"]), 0, atol=1e-4)
    assert_allclose((np.array(data["scale"]) * data["noise"]) ** 2, fitted.noise_variance_[best], rtol=1e-5)
    for i in (0, 5, 17):
        root = root_of(data, i, 3)
        assert_allclose(root @ root.T, belief.covariance[i], rtol=1e-4, atol=1e-5)
    empty = root_of(data, 5, 3)
    assert_allclose(empty @ empty.T, fitted.factor_correlations_, rtol=1e-4, atol=1e-5)


def test_it_says_factors_and_how_they_are_correlated(tmp_path):
    x = correlated_abilities(np.random.default_rng(7))
    fitted = FactorAnalysis(3, rotation="oblimin").fit(x)
    words = " ".join(" ".join(read(explorer(fitted, x, tmp_path / "page.html")).words).split())
    Phi = fitted.factor_correlations_
    assert f"The factors are correlated (F1 and F2 {Phi[0, 1]:.2f}; F1 and F3 {Phi[0, 2]:.2f};" in words
    assert "Factor explorer: 160 rows, 9 columns, 3 factors" in words
    assert "component" not in words.lower()
    for other in (fitted.rotate("varimax"), FactorAnalysis(1, rotation="oblimin").fit(x)):
        words = " ".join(read(explorer(other, x, tmp_path / "page.html")).words)
        assert "correlated" not in words
