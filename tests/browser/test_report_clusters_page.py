"""The report on a mixture in a real browser: what is shown are the answers of the estimator."""

import numpy as np
from numpy.testing import assert_allclose

from browser.screen import choose, column, number, numbers


def test_every_chart_is_drawn(visit, bottles):
    page = visit(bottles.report)
    for chart in ("plane", "criteria", "loadings-1", "loadings-2", "chances", "cells", "causes"):
        assert page.locator(f"#{chart} svg").bounding_box()["width"] > 300, chart
    assert page.locator("#plane svg g.mark-symbol path").count() >= len(bottles.x)
    assert page.locator("#plane svg g.mark-line path").count() >= bottles.fitted.n_clusters_


def test_choosing_a_row_shows_its_clusters_and_cells(visit, bottles):
    page, mixture = visit(bottles.report), bottles.fitted
    page.click("#all-cells summary")
    share, (low, high) = mixture.predict_proba(bottles.x), mixture.impute_interval(bottles.x)
    found = mixture.outliers(bottles.x, training=True)
    values = mixture.impute(bottles.x)
    for i in (0, 43, 120):
        choose(page, str(i))
        texts = page.locator("#chances svg g.mark-text.role-mark text").all_text_contents()
        assert_allclose([number(text) for text in texts], share[i], rtol=1e-2, atol=1e-3)
        assert f"C{share[i].argmax()}" in page.inner_text("#verdict")
        missing = np.isnan(bottles.x[i])
        assert_allclose(numbers(page, "#cell-table", 1), values[i], rtol=1e-3)
        assert_allclose(numbers(page, "#cell-table", 3), np.where(missing, low[i], np.nan), rtol=2e-3)
        assert_allclose(numbers(page, "#cell-table", 4), np.where(missing, high[i], np.nan), rtol=2e-3)
        scores = np.where(missing, np.nan, found.cell_scores[i])
        assert_allclose(numbers(page, "#cell-table", 6), scores, rtol=6e-3, atol=1e-3)


def test_profiles_and_rows_of_one_cluster_can_be_chosen(visit, bottles):
    page, labels = visit(bottles.report), bottles.fitted.predict(bottles.x)
    before = page.inner_html("#loadings-1")
    page.select_option("#cluster-1", "2")
    page.wait_for_function("before => document.getElementById('loadings-1').innerHTML !== before", arg=before)
    assert page.inner_text("#meaning-1").startswith("C2 (")
    before = page.inner_html("#loadings-1")
    page.select_option("#what-1", "1")
    page.wait_for_function("before => document.getElementById('loadings-1').innerHTML !== before", arg=before)
    page.click("#all-rows summary")
    page.select_option("#rows-of", "2")
    assert column(page, "#row-table", 1) == ["C1"] * (labels == 1).sum()
    page.click("#row-table tr:nth-child(2) button")
    chosen = np.flatnonzero(labels == 1)[1]
    assert page.inner_text("#chosen-name") == f"Row {chosen}"
