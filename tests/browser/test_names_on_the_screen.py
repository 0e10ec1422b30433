"""Rows and columns in a real browser: what is shown can be typed, and names of any length keep their place."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from browser.conftest import both, holed
from browser.screen import choose
from probpca import PPCA, BayesianPCA, report

PAGES = ["report", "explorer"]
MANY = 1_300
EMPTY = 5


@pytest.fixture(scope="session")
def numbered(tmp_path_factory):
    """Rows by three ways to count them, the last as the command line counts; only some have a name."""
    x = np.random.default_rng(4).standard_normal((MANY, 3)) * [3, 1, 1]
    frame = pd.DataFrame(x, index=np.arange(MANY)[::-1] + 20_000)
    labels = [None if i % 2 else f"r{i}" for i in range(MANY)]
    fitted = [PPCA(1).fit(x), BayesianPCA(2, random_state=0).fit(frame), PPCA(2).fit(x)]
    return {
        "array": (range(MANY), both(tmp_path_factory, fitted[0], x)),
        "pandas": (list(frame.index), both(tmp_path_factory, fitted[1], frame)),
        "file": (
            range(1, 4 * MANY, 4),
            both(tmp_path_factory, fitted[2], x, row_numbers=range(1, 4 * MANY, 4), labels=labels),
        ),
    }


@pytest.fixture(scope="session")
def long(tmp_path_factory):
    """Names of 120 letters, words and all in one piece, of rows and columns, and an empty row."""
    x = holed(load_wine().data[:60], 0.05)
    x[EMPTY] = np.nan
    columns = [f"{name} of this wine {'w' * 120}"[:120] for name in load_wine().feature_names]
    labels = [f"{'bottle ' * 16}{i}".rjust(120, "x") for i in range(len(x))]
    fit = PPCA(2, standardize=True, random_state=0)
    return both(tmp_path_factory, fit, x, feature_names=columns, labels=labels, title="Z" * 120)


@pytest.mark.parametrize("kind", ["array", "pandas", "file"])
@pytest.mark.parametrize("made", PAGES)
def test_the_number_that_is_shown_is_the_number_to_type(visit, numbered, made, kind):
    numbers, table = numbered[kind]
    page = visit(getattr(table, made))
    assert f"the first is row {numbers[0]:,})" in page.inner_text("#chooser")
    for i in (0, 7, MANY - 1):
        said = f"row {numbers[i]:,}"
        named = kind == "file" and i % 2 == 0
        for typed in (str(numbers[i]), f"{numbers[i]:,}", said, said.upper()):
            choose(page, typed)
            assert page.input_value("#row") == (f"r{i}" if named else said)
        if made == "report":
            assert page.inner_text("#chosen-name") == (f"r{i}, {said}" if named else said.capitalize())
        else:
            assert f"as plausible as {f'r{i}' if named else said}," in page.inner_text("#neighbours-note")
    outside = max(numbers) + 1
    choose(page, str(outside))
    assert page.evaluate("document.getElementById('row').validationMessage").startswith("No row")


def test_points_and_the_table_call_rows_as_the_chooser_does(visit, numbered):
    numbers, table = numbered["file"]
    page = visit(table.report)
    for line in page.locator("#unusual tbody tr").all()[:4]:
        number = int(line.locator("td").first.inner_text().replace(",", ""))
        i = numbers.index(number)
        button = line.locator("button")
        assert button.inner_text() == (f"row {number:,}" if i % 2 else f"r{i}")
        button.click()
        assert page.inner_text("#chosen-name").lower().endswith(f"row {number:,}")
        page.wait_for_timeout(50)


@pytest.mark.parametrize("width", [400, 1240])
@pytest.mark.parametrize("made", PAGES)
def test_long_names_do_not_widen_the_page(visit, long, made, width):
    page = visit(getattr(long, made))
    page.set_viewport_size({"width": width, "height": 900})
    choose(page, long.labels[3])
    for details in page.locator("details").all():
        details.locator("summary").click()
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    wider = "found => found.filter((one) => one.getBoundingClientRect().right > window.innerWidth).map((one) => one.id)"
    assert page.locator(".card, svg, p, h1, h3").evaluate_all(wider) == []
    assert page.get_attribute("#row", "title") == long.labels[3]


def test_names_beside_charts_are_clipped_and_told_in_full(visit, long):
    page = visit(long.report)
    for chart in ("cells", "causes", "loadings-1"):
        label = page.locator(f"#{chart} svg g.role-axis-label text").filter(has_text="w").first
        shown = label.text_content()
        head, tail = shown.split("\u2026")
        label.hover()
        tip = page.locator("#vg-tooltip-element")
        tip.wait_for()
        whole = tip.inner_text()
        assert whole in long.feature_names
        assert len(shown) < 40
        assert whole.startswith(head)
        assert whole.endswith(tail)
        page.mouse.move(0, 0)
    choose(page, "5")
    page.click("#unusual button >> nth=0")
    assert "\u2026" in page.inner_text("#verdict") or "Not unusual" in page.inner_text("#verdict")
    assert page.get_attribute("#unusual button >> nth=0", "title") in long.labels


def test_names_beside_bars_of_the_explorer_have_a_title(visit, long):
    page = visit(long.explorer)
    titles = page.locator("#profile text.name title").all_text_contents()
    assert titles == list(long.feature_names)
    right = page.locator("#profile text.name").evaluate_all("found => found.map((one) => one.getBBox().x)")
    assert min(right) >= 0


def test_a_row_without_any_cell_is_told_and_draws_nothing_strange(visit, long):
    page = visit(long.report)
    choose(page, long.labels[EMPTY])
    page.wait_for_function("document.getElementById('causes').textContent.includes('no cell was observed')")
    assert page.inner_text("#verdict").startswith("This row has no observed cell")
    choose(page, long.labels[0])
    page.wait_for_function("!document.getElementById('causes').textContent.includes('no cell was observed')")


def ticks(page, chart):
    """Boxes of the labels of both axes of a chart that can be seen."""
    script = """found => found.filter((one) => one.textContent !== "" && getComputedStyle(one).opacity !== "0")
        .map((one) => [one.textContent, one.getBoundingClientRect()])"""
    return page.locator(f"#{chart} svg g.role-axis-label text").evaluate_all(script)


@pytest.mark.parametrize("rows", ["empty", "few", "far", "narrow"])
def test_ticks_do_not_lie_upon_each_other(visit, tmp_path, rows):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 60)) + 0.1 * rng.standard_normal((80, 60))
    asked = {"empty": np.full((1, 60), np.nan), "few": x[:3], "far": np.vstack([x, 1e5 * x[:1]]), "narrow": x}[rows]
    page = visit(report(PPCA(2).fit(x), asked, tmp_path / "report.html"))
    assert [text for text, _ in ticks(page, "scree") if "%" not in text][:2] == ["1", "3"]
    texts, boxes = zip(*ticks(page, "distances"), strict=True)
    assert {"10", "1k", "100k"} <= set(texts) or rows != "far"
    assert ("p < 10⁻³⁰⁰" in page.inner_text("#numbers")) == (rows == "far")
    assert len(boxes) >= (2 if rows == "empty" else 4)
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            apart = one["left"] >= other["right"] or other["left"] >= one["right"]
            assert apart or one["top"] >= other["bottom"] - 1 or other["top"] >= one["bottom"] - 1


@pytest.mark.parametrize("made", PAGES)
def test_printed_charts_stay_in_their_cards(visit, long, made):
    page = visit(getattr(long, made))
    page.emulate_media(media="print")
    script = """found => found.filter((one) => one.checkVisibility())
        .map((one) => one.closest(".card").getBoundingClientRect().right - one.getBoundingClientRect().right)"""
    page.evaluate("document.body.style.width = '720px'")  # paper: nothing is drawn again
    room = page.locator(".card svg, .card table").evaluate_all(script)
    assert len(room) >= 2
    assert min(room) >= 0
