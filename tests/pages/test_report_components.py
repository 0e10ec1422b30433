"""What the report says about components: loadings, shares of the variance, and sentences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA

from html_pages import numbers, read
from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, report
from probpca.displays.inputs import eigenvalue_shares
from probpca.pages import report as home
from probpca.pages.page import RowNames, ask_table
from probpca.pages.report_components import (
    ComponentSettings,
    Loadings,
    loadings_of,
    meaning_in_words,
    meaning_of,
    shares_of,
)

N, D, Q = 80, 6, 2
SETTINGS = ComponentSettings()


@pytest.fixture
def x():
    return spiked_rows(np.random.default_rng(3), N, D, Q, noise=0.3) * np.arange(1, D + 1)


def ask(fitted, x, settings=SETTINGS, *, training=True):
    return loadings_of(fitted, x, ask_table("report", fitted, x, RowNames()), settings, training=training)


# Shares of the variance


@pytest.mark.parametrize(("n", "d"), [(40, 6), (6, 40), (5, 5)])
def test_eigenvalue_shares_are_those_of_sklearn(n, d):
    x = np.random.default_rng(0).standard_normal((n, d)) + 100
    wanted = PCA().fit(x).explained_variance_ratio_[: min(n - 1, d)]
    assert_allclose(eigenvalue_shares(x), wanted, atol=1e-12)


@pytest.mark.parametrize("standardize", [False, True])
def test_shares_of_all_components_are_those_of_a_full_pca(x, standardize):
    shares = shares_of(PPCA(Q, standardize=standardize).fit(x), x, SETTINGS)
    scaled = x / x.std(axis=0) if standardize else x
    assert_allclose(shares.values, PCA().fit(scaled).explained_variance_ratio_, rtol=1e-6)
    assert shares.how == ""


def test_the_rest_is_an_average_where_cells_are_missing_or_rows_are_others(x):
    holes = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    for fitted, rows, why in [
        (PPCA(Q, random_state=0).fit(holes), holes, "cells are missing"),
        (PPCA(Q).fit(x), x * [1, 1, 1, 1, 1, 50], "not fitted to exactly these rows"),
        (PPCA(Q).fit(x), x, "large"),
    ]:
        settings = ComponentSettings(most_eigenvalues=3) if why == "large" else SETTINGS
        shares = shares_of(fitted, rows, settings)
        assert why in shares.how
        assert_allclose(shares.values[:Q], fitted.explained_variance_ratio_)
        assert_allclose(shares.values[Q:], (1 - fitted.explained_variance_ratio_.sum()) / (D - Q))
        assert shares.values.sum() == pytest.approx(1)


# Loadings and their intervals


def test_intervals_are_those_of_uncertainty(x):
    fitted = PPCA(Q).fit(x)
    found = ask(fitted, x)
    low, high = fitted.uncertainty(x, n_draws=100, random_state=0).loadings.interval()
    assert_array_equal(found.values, fitted.loadings_)
    assert_allclose([found.low, found.high], [low, high])
    assert "100 fits to resampled rows" in found.how
    assert_array_equal(found.sure, (low > 0) | (high < 0))


def test_intervals_of_large_tables_and_of_other_rows_need_no_resampling(x):
    fitted = PPCA(Q).fit(x)
    low, high = fitted.uncertainty(method="asymptotic").loadings.interval()
    few = ComponentSettings(most_resampled=29 * x.size)
    for found in (ask(fitted, x, few), ask(fitted, x, training=False)):
        assert_allclose([found.low, found.high], [low, high])
        assert "large-sample formulas" in found.how


def test_without_intervals_the_reason_is_given(x):
    weighted = PPCA(Q).fit(x, sample_weight=np.full(N, 2.0))
    for fitted, why, training in [
        (BayesianPCA(Q, random_state=0).fit(x), "not available for BayesianPCA", True),
        (PPCA(Q, standardize=True).fit(x), "the bootstrap needs the training rows", False),
        (weighted, "X must be the training rows, which had 160 rows; got 80", True),
    ]:
        found = ask(fitted, x, training=training)
        assert found.low is None
        assert why in found.how
        assert found.sure.all()


def test_the_page_holds_the_largest_loadings_and_the_unit_of_all(x, tmp_path, monkeypatch):
    monkeypatch.setattr(home, "drawing_script", str)
    monkeypatch.setattr(home, "charts", lambda *_: {})
    fitted = PPCA(Q, standardize=True).fit(x)
    settings = home.ReportSettings(components=ComponentSettings(most_loadings=4))
    data = read(report(fitted, x, tmp_path / "page.html", settings=settings)).data()
    for k, held in enumerate(data["loadingsOf"]):
        w = fitted.loadings_[:, k]
        assert held["columns"] == np.argsort(-np.abs(w))[:4].tolist()
        assert_allclose(held["values"], w[held["columns"]], rtol=1e-4)
        assert (np.array(held["low"]) < held["values"]).all()
        assert (np.array(held["high"]) > held["values"]).all()
    every = numbers(data["loadings"], D, Q) * numbers(data["loadingUnit"], D, 1)
    assert_allclose(every, fitted.loadings_, rtol=1e-4)
    assert data["componentNames"] == list(fitted.get_feature_names_out())


# Sentences


NAMES = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]


def said(w, low=None, high=None):
    w = np.array(w, float)[:, None]
    ends = (None, None) if low is None else (np.array(low, float)[:, None], np.array(high, float)[:, None])
    return meaning_in_words(meaning_of(Loadings(w, *ends, ""), 0, SETTINGS), NAMES[: len(w)], SETTINGS)


@pytest.mark.parametrize(
    ("w", "words"),
    [
        ([1.0, 0.9, -0.8, 0.1], "high where a and b are high and c is low"),
        ([0.1, 0.9, 0.2, -0.1], "high where b is high"),
        ([-0.1, -0.9, -0.1, -0.1], "high where b is low"),
        ([0.5, 0.6, 0.7, 0.8], "the overall level: all 4 columns are high together, or low together"),
        ([0.9, 0.1, 0.9, -0.8], "high where a and c are high and d is low"),
        ([0.9, 0.9, 0.9, 0.9, 0.9, 0, -0.8, -0.8, -0.8], "high where a to e are high and g to i are low"),
        (
            [0.9, 0.1, 0.8, 0.7, 0.7, -0.9, 0.7, -0.9, 0.7],
            "high where a, c, d, e and 2 more are high and f and h are low",
        ),
        ([0.0, 0.0, 0.0], "no column stands out: none of its loadings clearly differs from zero"),
    ],
)
def test_a_component_is_described_by_its_largest_loadings(w, words):
    assert said(w) == words


def test_loadings_whose_interval_holds_zero_are_not_named():
    assert said([1.0, 0.9, -0.8], [0.5, -0.1, -1.0], [1.5, 1.9, -0.5]) == "high where a is high and c is low"
    assert said([1.0, 0.9, -0.8], [-1] * 3, [2] * 3).startswith("no column stands out")


def test_turning_a_component_round_swaps_high_and_low():
    w = np.array([1.0, 0.1, -0.7, 0.8, 0.2])
    swapped = said(-w).replace("low", "HIGH").replace("are high", "are low").replace("is high", "is low")
    assert {"a", "d"} == set(said(w).removeprefix("high where ").split(" are high")[0].split(" and "))
    assert "a and d are HIGH" in swapped
    assert "c is low" in swapped
