"""The explorer in a real browser: what follows the point is W z + mu, and what is drawn is plausible."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from browser.screen import choose, column, contrast, numbers


def point(page):
    """Where the point is, as the sliders say it."""
    return page.locator("#sliders input").evaluate_all("found => found.map((input) => Number(input.value))")


def rows_of(page):
    """The table of numbers: W z + mu, and its ends."""
    if page.get_attribute("#numbers", "open") is None:
        page.click("#numbers summary")
        page.wait_for_selector("#number-table tr")
    return [numbers(page, "#number-table", k) for k in (1, 2, 3)]


def drag(page, to):
    """Take the point by the handle to a share of the width and height of the plane."""
    handle, plane = page.locator("#handle").bounding_box(), page.locator("#plane").bounding_box()
    page.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
    page.mouse.down()
    page.mouse.move(plane["x"] + to[0] * plane["width"], plane["y"] + to[1] * plane["height"], steps=4)
    page.mouse.up()


def assert_follows(page, fitted):
    """The table shows what the estimator makes of the point."""
    x, low, high = rows_of(page)
    wanted = fitted.inverse_transform([point(page)])[0]
    scale = np.sqrt(np.diag(fitted.get_covariance()))
    half = 1.96 * np.sqrt(np.broadcast_to(fitted.model_.noise_variance, wanted.shape))
    for shown, value in ((x, wanted), (low, wanted - half), (high, wanted + half)):
        assert_allclose((shown - value) / scale, 0, atol=1e-3)


@pytest.mark.parametrize("table", ["fertility", "wine", "abilities"])
def test_the_row_follows_the_point(visit, table, request):
    table = request.getfixturevalue(table)
    page = visit(table.explorer)
    before = page.inner_html("#profile")
    scores = table.fitted.transform(table.x)
    assert_allclose(point(page), scores[scores[:, 0].argmax()], rtol=1e-4, atol=1e-4)  # opens with a row chosen
    assert page.locator("#plane .ring").count() == 1
    assert page.locator("#profile .neighbour").count() >= 8
    assert_follows(page, table.fitted)
    for place in ((0.8, 0.2), (0.3, 0.7)):
        drag(page, place)
        assert_follows(page, table.fitted)
    assert page.inner_html("#profile") != before
    assert point(page)[0] < 0
    assert point(page)[1] < 0


def test_arrow_keys_move_the_point(visit, wine):
    page = visit(wine.explorer)
    page.click("#to-mean")
    page.focus("#handle")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "Shift+ArrowDown"):
        page.keyboard.press(key)
    assert_allclose(point(page), [0.2, -0.4, 0], atol=1e-9)
    first, second, _ = wine.fitted.get_feature_names_out()
    assert page.get_attribute("#handle", "aria-valuetext") == f"{first}: 0.2, {second}: \u22120.4"
    assert_follows(page, wine.fitted)
    page.focus("#handle")
    page.keyboard.press("Home")
    assert_allclose(point(page), 0)


def test_sliders_and_other_planes_move_it_too(visit, wine):
    page = visit(wine.explorer)
    page.click("#to-mean")
    page.select_option("#across", "2")
    drag(page, (0.9, 0.5))
    assert point(page)[2] > 1
    assert point(page)[0] == 0
    page.locator("#sliders input").nth(0).fill("-1.5")
    assert point(page)[0] == -1.5
    assert_follows(page, wine.fitted)
    page.click("#to-mean")
    assert_allclose(rows_of(page)[0], wine.fitted.mean_, rtol=1e-4)


def test_a_click_on_a_row_goes_there_and_draws_neighbours(visit, fertility):
    page = visit(fertility.explorer)
    far = int(np.nanargmax(fertility.fitted.transform(fertility.x)[:, 0]))
    page.click("#to-mean")  # the page opens with the point on this row, and a click would drag it
    page.locator(".point").nth(far).click(force=True)
    assert page.input_value("#row") == fertility.labels[far]
    assert_allclose(point(page), fertility.fitted.transform(fertility.x)[far], rtol=1e-4, atol=1e-4)
    assert page.locator("#profile .neighbour").count() == 8
    assert page.locator("#plane .draw").count() == 8
    rows_of(page)
    assert_allclose(numbers(page, "#number-table", 4), fertility.x[far], rtol=1e-4)


def test_bars_do_not_cover_the_names_of_columns(visit, wine):
    page = visit(wine.explorer)
    page.focus("#handle")
    for _ in range(40):
        page.keyboard.press("Shift+ArrowLeft")
    box = page.locator("#profile g[clip-path]").evaluate(
        "g => document.querySelector('#beside-names rect').getBBox().x"
    )
    names = page.locator("#profile text.name").evaluate_all(
        "all => all.map((one) => one.getBBox()).map((b) => b.x + b.width)"
    )
    assert max(names) < box
    assert page.locator("#profile g[clip-path] rect.bar").count() == len(wine.feature_names) == len(names)


def test_neighbours_spread_as_the_model_says(visit, fertility):
    page = visit(fertility.explorer)
    choose(page, "India")
    i = fertility.labels.index("India")
    rows_of(page)
    drawn = []
    for _ in range(12):
        drawn += [numbers(page, "#number-table", 5 + k) for k in range(8)]
        page.click("#again")
    fitted, row = fertility.fitted, fertility.x[i : i + 1]
    belief = fitted.posterior(row)
    mean = fitted.inverse_transform(belief.mean)[0]
    W = fitted.loadings_
    std = np.sqrt(np.einsum("jk,kl,jl->j", W, belief.covariance[0], W) + fitted.noise_variance_)
    z = (np.array(drawn) - mean) / std
    n, d = z.shape
    assert len({tuple(row) for row in z}) == n
    assert abs(z.mean()) < 6 / np.sqrt(n)  # features of one draw hang together
    assert abs(z.std() - 1) < 6 / np.sqrt(2 * n)
    assert (np.abs(z.mean(axis=0)) < 6 / np.sqrt(n)).all()
    assert d == 52


def test_the_same_row_has_the_same_neighbours_again(visit, fertility):
    page = visit(fertility.explorer)
    seen = []
    for name in ("India", "China", "India"):
        choose(page, name)
        rows_of(page)
        seen.append(column(page, "#number-table", 5))
    assert seen[0] == seen[2] != seen[1]
    page.click("#again")
    assert column(page, "#number-table", 5) != seen[0]


def pixels(page, selector):
    script = """(canvas) => {
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        return Array.from(copy.getImageData(0, 0, canvas.width, canvas.height).data);
    }"""
    return np.array(page.locator(selector).first.evaluate(script)).reshape(8, 8, 4)


def test_rows_are_drawn_as_images(visit, digits):
    page = visit(digits.explorer)
    choose(page, "7")
    grey = pixels(page, "#row-picture")
    assert_allclose(grey[..., 0], np.rint(255 * digits.x[7].reshape(8, 8) / 16), atol=1)
    assert (grey[..., 3] == 255).all()
    stands_for = digits.fitted.inverse_transform(digits.fitted.transform(digits.x[7:8]))[0]
    shades = np.clip(255 * stands_for.reshape(8, 8) / 16, 0, 255)
    assert_allclose(pixels(page, "#picture")[..., 0], shades, atol=1.5)
    assert page.locator(".neighbour-picture").count() == 8
    assert not page.is_visible("#profile")
    page.click("#to-mean")
    assert_allclose(pixels(page, "#picture")[..., 0], 255 * digits.fitted.mean_.reshape(8, 8) / 16, atol=1.5)


def test_names_do_nothing(visit, evil):
    page = visit(evil.explorer)
    for row in range(9):
        choose(page, str(row))
    rows_of(page)
    page.locator(".point").first.hover(force=True)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert column(page, "#number-table", 0)[:2] == list(evil.feature_names[:2])


def test_one_component_is_dragged_along_a_line(visit, evil):
    page = visit(evil.explorer)
    assert page.is_hidden("#up")
    drag(page, (0.8, 0.1))
    assert len(point(page)) == 1
    assert point(page)[0] > 1
    assert_follows(page, evil.fitted)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_by_day_and_by_night(visit, wine, scheme):
    page = visit(wine.explorer, color_scheme=scheme)
    for selector in (".note", ".lead", ".key .point-key", "#numbers summary"):
        assert contrast(page, selector, ".card") >= 4.5, selector
    for selector in (".bar", ".cell", ".point"):
        assert contrast(page, selector, ".card", ink="fill") >= 3, selector
    assert contrast(page, ".whisker", ".card", ink="stroke") >= 4.5


def test_points_have_the_colours_of_their_group(visit, wine):
    page = visit(wine.explorer)
    kinds = wine.groups["cultivar"]

    def colours():
        script = "found => found.map((one) => getComputedStyle(one).fill + one.getAttribute('d'))"
        return page.locator(".point").evaluate_all(script)

    by_kind = {kind: {look for look, own in zip(colours(), kinds, strict=True) if own == kind} for kind in set(kinds)}
    assert [len(looks) for looks in by_kind.values()] == [1, 1, 1]
    assert len(set.union(*by_kind.values())) == 3
    assert page.inner_text("#legend").split("\n") == ["class_0: 59", "class_1: 71", "class_2: 48"]
    page.select_option("#colour", "1")
    assert len(set(colours())) > 50
    assert "1680" in page.inner_text("#legend")
