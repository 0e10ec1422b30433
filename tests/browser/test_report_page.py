"""The report in a real browser: what is shown are the answers of the estimator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from browser.screen import COLOUR_BLIND, NORMAL, choose, column, contrast, difference, luminance, number, numbers
from probpca import PPCA, report

CHARTS = {"scree": 30, "biplot": 219, "loadings-1": 25, "loadings-2": 25, "scores": 3, "distances": 219}
CHARTS |= {"cells": 52, "causes": 12}


def marks(page, chart):
    return page.locator(f"#{chart} svg g.mark-symbol path, #{chart} svg g.mark-rect path").count()


def numbers_of_row(page):
    """Observed cells, D2, T2, residual; p-values of D2, of D2 if exactly Gaussian, of T2 and of the residual."""
    texts = page.locator("#numbers dd").all_text_contents()
    p = [text.removeprefix("p = ") for text in texts[1::2]]
    return [number(text) for text in texts[::2] if text], [number(text) for text in p if text]


def test_every_chart_is_drawn(visit, fertility):
    page = visit(fertility.report)
    for chart, least in CHARTS.items():
        assert marks(page, chart) >= least, chart
        svg = page.locator(f"#{chart} svg")
        assert svg.bounding_box()["width"] > 300
        assert svg.get_attribute("aria-label") or page.locator(f"#{chart} [aria-label]").count()


def test_choosing_a_row_shows_its_numbers(visit, fertility):
    page = visit(fertility.report)
    page.click("#all-cells summary")
    page.wait_for_selector("#cell-table tr")
    for name in ("Kuwait", "Serbia", "India", "Aruba"):
        choose(page, name)
        assert_shows(page, fertility, name)


def assert_shows(page, fertility, name):
    i, fitted = fertility.labels.index(name), fertility.fitted
    row = fertility.x[i : i + 1]
    found = fitted.outliers(row, training=True)
    distances, p = numbers_of_row(page)
    expected = [np.isfinite(row).sum(), found.distance[0], found.latent_distance[0], found.residual_distance[0]]
    assert_allclose(distances, expected, rtol=1e-3)
    wanted = [found.p_value[0], found.model_p_value[0], found.latent_p_value[0], found.residual_p_value[0]]
    assert_allclose(p, wanted, rtol=0.06)
    assert page.inner_text("#chosen-name") == f"{name}, row {i}"
    values, (low, high) = fitted.impute(row)[0], fitted.impute_interval(row)
    missing = np.isnan(row[0])
    assert column(page, "#cell-table", 0) == [str(year) for year in fertility.feature_names]
    assert_allclose(numbers(page, "#cell-table", 1), values, rtol=1e-4)
    assert column(page, "#cell-table", 2) == ["imputed" if is_missing else "observed" for is_missing in missing]
    assert_allclose(numbers(page, "#cell-table", 3), np.where(missing, low[0], np.nan), rtol=1e-3)
    assert_allclose(numbers(page, "#cell-table", 4), np.where(missing, high[0], np.nan), rtol=1e-3)
    shares = np.where(missing, np.nan, found.contributions[0])
    assert_allclose(numbers(page, "#cell-table", 5), shares, rtol=6e-3, atol=1e-4)
    assert_allclose(numbers(page, "#cell-table", 6), found.cell_scores[0], rtol=6e-3, atol=1e-4)


def test_the_other_charts_follow_the_row(visit, fertility):
    page = visit(fertility.report)
    choose(page, "Kuwait")
    seen = {chart: page.inner_html(f"#{chart}") for chart in CHARTS}
    choose(page, "Serbia")
    page.wait_for_timeout(300)
    changed = {chart for chart, before in seen.items() if page.inner_html(f"#{chart}") != before}
    assert changed == {"biplot", "scores", "distances", "cells", "causes"}
    assert "were imputed" in page.inner_text("#verdict")


def test_the_ring_and_the_words_are_where_the_posterior_is(visit, fertility):
    page = visit(fertility.report)
    choose(page, "India")
    i = fertility.labels.index("India")
    belief = fertility.fitted.posterior(fertility.x[i : i + 1])
    for k, said in enumerate(page.inner_text("#place").rstrip(".").split(": ", 1)[1].split("; ")):
        mean, std = said.split(": ")[1].split(" ± ")
        assert_allclose(number(mean), belief.mean[0, k], rtol=6e-3)
        assert_allclose(number(std), belief.std[0, k], rtol=0.06)


@pytest.mark.parametrize("chart", ["biplot", "distances"])
def test_a_click_on_a_point_chooses_its_row(visit, fertility, chart):
    page = visit(fertility.report)
    choose(page, "Kuwait")
    far = int(np.nanargmax(fertility.fitted.transform(fertility.x)[:, 0]))
    points = page.locator(f"#{chart} svg g.mark-symbol").first.locator("path")
    points.nth(far).click(force=True)
    page.wait_for_timeout(200)
    chosen = page.inner_text("#chosen-name")
    assert chosen == f"{fertility.labels[far]}, row {far}"
    assert page.input_value("#row") == fertility.labels[far]


def test_the_table_the_buttons_and_numbers_choose_too(visit, fertility):
    page = visit(fertility.report)
    order = np.argsort(fertility.fitted.outliers(fertility.x, training=True).log10_p_value, kind="stable")
    assert page.inner_text("#chosen-name") == f"{fertility.labels[order[0]]}, row {order[0]}"
    page.click("#unusual tbody tr:nth-child(3) button")
    assert page.inner_text("#chosen-name") == f"{fertility.labels[order[2]]}, row {order[2]}"
    assert page.get_attribute("#unusual tbody tr:nth-child(3)", "aria-current") == "true"
    page.click("#next")
    assert page.inner_text("#chosen-name").endswith(f"row {order[2] + 1}")
    choose(page, "0")
    page.click("#previous")
    assert page.inner_text("#chosen-name").endswith(f"row {len(fertility.x) - 1}")
    choose(page, "nowhere")
    assert page.evaluate("document.getElementById('row').validationMessage").startswith("No row")


def test_other_components_and_units_can_be_chosen(visit, wine):
    page = visit(wine.report)
    assert page.input_value("#units") == "sd"
    third = wine.fitted.get_feature_names_out()[2]
    before = page.inner_html("#biplot")
    page.select_option("#across", "2")
    page.wait_for_function(f"document.getElementById('biplot').textContent.includes('{third} (')")
    assert page.inner_html("#biplot") != before
    page.select_option("#component-2", "2")
    page.wait_for_function(f"document.getElementById('loadings-2').textContent.includes('loading on {third}')")
    assert page.inner_text("#meaning-2").startswith(f"{third} (")
    page.select_option("#units", "own")
    page.wait_for_function("document.getElementById('cells').textContent.includes('value')")
    choose(page, "12")
    assert page.inner_text("#chosen-name") == "Row 12"


def test_names_do_nothing(visit, evil):
    page = visit(evil.report)
    for row in range(9):
        choose(page, str(row))
        page.wait_for_timeout(50)
    page.click("#all-cells summary")
    page.locator("#biplot svg g.mark-symbol path").nth(1).hover(force=True)
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.inner_text("h1").startswith("</script><script>")
    assert column(page, "#cell-table", 0)[:2] == list(evil.feature_names[:2])


def test_rows_of_the_same_name_can_be_told_apart(visit, evil):
    page = visit(evil.report)
    options = page.locator("#row-names option").evaluate_all("found => found.map((option) => option.value)")
    assert len(set(options)) == len(options) == len(evil.x)
    choose(page, options[17])
    assert page.inner_text("#chosen-name").endswith("row 17")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_by_day_and_by_night(visit, wine, scheme):
    page = visit(wine.report, color_scheme=scheme)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(18, 22, 28)") == (scheme == "dark")
    for selector in (
        "#verdict",
        ".note",
        ".tiles dt",
        "#unusual button",
        ".key .odd",
        ".key .row",
        "footer",
        ".legend",
    ):
        assert contrast(page, selector) >= 4.5, selector
        assert contrast(page, selector, ".card") >= 4.5, selector
    for chart in ("biplot g.mark-symbol", "loadings-1 g.mark-rect", "scree g.mark-rect"):
        assert contrast(page, f"#{chart} path", ".card", ink="fill") >= 3, chart


# Groups


def looks(page, chart="biplot"):
    """Colour and shape of each row."""
    script = "found => found.map((one) => getComputedStyle(one).fill + one.getAttribute('d'))"
    return page.locator(f"#{chart} svg g.mark-symbol").first.locator("path").evaluate_all(script)


def test_points_have_the_colours_of_the_chosen_group(visit, wine):
    page = visit(wine.report)
    kinds = wine.groups["cultivar"]
    for chart in ("biplot", "distances"):
        seen = {(look.split(")")[0], kind) for look, kind in zip(looks(page, chart), kinds, strict=True)}
        assert len(seen) == 3
    legends = page.locator(".legend").all_inner_texts()
    assert legends[0].split("\n")[:3] == ["class_0: 59", "class_1: 71", "class_2: 48"]
    page.select_option("#colour", "1")  # numbers on a scale
    page.wait_for_function("document.querySelector('.legend').textContent.includes('1680')")
    page.wait_for_timeout(200)
    assert len({look.split(")")[0] for look in looks(page)}) > 50
    page.select_option("#colour", "2")  # whether rows are unusual
    page.wait_for_timeout(200)
    unusual = (wine.fitted.outliers(wine.x, training=True).p_value < 0.001).sum()
    assert len({look.split(")")[0] for look in looks(page)}) == (2 if unusual else 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colour_blind_readers_can_tell_categories_apart(visit, tmp_path, scheme):
    x = np.random.default_rng(0).standard_normal((24, 3)) * [3, 1, 1]
    groups = [f"kind {k:02d}" for k in range(12)] * 2
    page = visit(report(PPCA(1).fit(x), x, tmp_path / "page.html", groups=groups), color_scheme=scheme)
    script = "found => found.map((one) => [getComputedStyle(one).fill, one.getAttribute('d')])"
    swatches = page.locator(".legend").first.locator(".swatch path").evaluate_all(script)
    assert len(swatches) == 12
    for vision in (NORMAL, *COLOUR_BLIND):
        for k, (colour, shape) in enumerate(swatches):
            for other, other_shape in swatches[:k]:
                assert shape != other_shape or difference(colour, other, vision) > 20
    for colour, _ in swatches:
        paper = page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
        light, dark = sorted((luminance(colour), luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3


# What the components are


NAMES_OF_ARROWS = "#biplot svg g.mark-text.role-mark"


def test_arrows_are_the_longest_loadings_and_can_be_hidden(visit, wine):
    page = visit(wine.report)
    named = [text for text in page.locator(f"{NAMES_OF_ARROWS} text").all_text_contents() if "\u2026" not in text]
    lengths = np.hypot(*wine.fitted.loadings_[:, :2].T)
    longest = wine.feature_names[int(lengths.argmax())]
    assert longest in named
    assert set(named) <= set(wine.feature_names)
    assert min(lengths[wine.feature_names.index(name)] for name in named) >= 0.3 * lengths.max()
    page.uncheck("#arrows-shown")
    page.wait_for_function(f"document.querySelectorAll('{NAMES_OF_ARROWS} text').length === 0")


def test_one_component_has_neither_arrows_nor_a_second_axis(visit, evil, wine):
    ids = ["#up", "#arrows-shown", "#arrows-note"]
    assert [visit(evil.report).is_hidden(one) for one in ids] == [True] * 3
    assert [visit(wine.report).is_hidden(one) for one in ids] == [False] * 3


def test_bars_of_loadings_are_in_order(visit, wine):
    page = visit(wine.report)

    def order():
        texts = page.locator("#loadings-1 svg g.role-axis-label text").all_text_contents()
        return [text for text in texts if text[0].isalpha()]

    def positions(texts):
        heads = [text.split("\u2026")[0] for text in texts]
        return [next(j for j, name in enumerate(wine.feature_names) if name.startswith(head)) for head in heads]

    assert positions(order()) == np.argsort(-wine.fitted.loadings_[:, 0]).tolist()
    page.check("#in-order")
    page.wait_for_timeout(300)
    assert positions(order()) == list(range(len(wine.feature_names)))


def test_every_row_of_a_wide_table_is_there_and_left_out_columns_are_stated(visit, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((64, 3)) @ rng.standard_normal((3, 700)) + rng.standard_normal((64, 700))
    page = visit(report(PPCA(3).fit(x), x, tmp_path / "page.html", groups=[f"kind {i % 14}" for i in range(64)]))
    assert len(looks(page)) == 64
    assert "The 300 columns with the largest contributions are shown; the page leaves out the other 400." in (
        page.inner_text("#cells-note")
    )
    assert "other (3 categories): 12" in page.inner_text(".legend >> nth=0")
    choose(page, "5")
    page.wait_for_timeout(200)
    page.click("#all-cells summary")
    page.wait_for_selector("#cell-table tr")
    found = PPCA(3).fit(x).outliers(x).contributions[5]
    kept = sorted(np.argsort(-np.abs(found))[:300])
    assert column(page, "#cell-table", 0) == [f"x{j}" for j in kept]
    assert_allclose(numbers(page, "#cell-table", 5), found[kept], rtol=6e-3, atol=1e-3)


def test_it_prints(visit, wine):
    page = visit(wine.report, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("#chooser")
    assert page.pdf()[:4] == b"%PDF"


@pytest.mark.parametrize("table", ["wine", "evil"])
def test_everything_that_is_asked_has_a_name(visit, table, request):
    page = visit(request.getfixturevalue(table).report)
    nameless = "found => found.filter((one) => !(one.labels?.length || one.textContent.trim() || one.ariaLabel)).length"
    assert page.locator("input, select, button").evaluate_all(nameless) == 0
    assert page.get_attribute("html", "lang") == "en"
    assert page.get_attribute("#verdict", "aria-live") == "polite"


# Factor analysis


def test_rows_and_loadings_of_factors_are_those_of_the_estimator(visit, abilities):
    page = visit(abilities.report)
    page.click("#all-cells summary")
    page.wait_for_selector("#cell-table tr")
    assert marks(page, "scree") >= 9
    choose(page, "17")
    row = abilities.x[17:18]
    found, belief = abilities.fitted.outliers(row, training=True), abilities.fitted.posterior(row)
    distances, _ = numbers_of_row(page)
    wanted = [np.isfinite(row).sum(), found.distance[0], found.latent_distance[0], found.residual_distance[0]]
    assert_allclose(distances, wanted, rtol=1e-3)
    for k, said in enumerate(page.inner_text("#place").rstrip(".").split(": ", 1)[1].split("; ")):
        mean, std = said.split(": ")[1].split(" ± ")
        assert_allclose(number(mean), belief.mean[0, k], rtol=6e-3)
        assert_allclose(number(std), belief.std[0, k], rtol=0.06)
    drawn = page.locator("#cells svg g.mark-tick path, #cells svg g.mark-rect path").count()
    assert drawn >= 9
    L = abilities.fitted.standardized_loadings_
    lines = page.locator(".pattern").first.locator("tbody tr").all_inner_texts()
    shown = {line.split("\t")[0]: [number(cell) for cell in line.split("\t")[1:4]] for line in lines}
    assert_allclose([shown[name] for name in abilities.feature_names], L, atol=0.00501)
    words = page.inner_text("body")
    assert "standardized loading on F1" in page.locator("#loadings-1").inner_text()
    assert "component" not in words.lower()
    assert "along factors (T²)" in words
