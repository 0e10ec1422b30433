"""Pages from the command line: rows are counted as all commands count them, from 1."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from cli.conftest import FEATURES
from html_pages import numbers, read
from probpca import FactorAnalysis
from probpca.pages import report as home


@pytest.fixture
def page(run, monkeypatch):
    """Run a command that writes a page, without its charts; the page."""
    monkeypatch.setattr(home, "drawing_script", str)
    monkeypatch.setattr(home, "charts", lambda *_: {})

    def page(command, model, table, *options):
        done = run(command, model, table, "--out", "page.html", "--force", *options)
        assert done.code == 0, done.err
        return read(model.parent / "page.html")

    return page


def values_of(data):
    shape = len(data["rows"]), len(data["features"])
    return np.array(data["mean"]) + np.array(data["scale"]) * numbers(data["values"], *shape)


@pytest.mark.parametrize("command", ["report", "explorer"])
def test_rows_without_names_have_the_numbers_of_the_file(page, command, model, x):
    np.save("table.npy", x)
    made = page(command, model, "table.npy")
    assert made.data()["rows"] == list(range(1, len(x) + 1))
    assert made.data()["names"] == [None] * len(x)
    assert sum("the first is row 1)" in words for words in made.words) == 1


def test_the_report_and_the_list_of_outliers_count_alike(page, run, model):
    made = page("report", model, "table.csv")
    buttons = [attrs["title"] for tag, attrs in made.tags if tag == "button" and "data-row" in attrs]
    listed = run("outliers", "model.npz", "table.csv", "--top", 5, "--out", "-").out.splitlines()[1:]
    assert len(listed) == 5
    for line, name in zip(listed, buttons, strict=False):
        number = int(name.removeprefix("row, ")) + 1
        assert line.startswith(f'{number},"{name}"')


@pytest.mark.parametrize("most", [60, 300, 10_000])
def test_rows_keep_their_numbers_when_others_are_left_out(page, model, x, monkeypatch, most):
    monkeypatch.setattr("probpca.cli.page_commands.HELD_CELLS", most)
    made = page("explorer", model, "table.csv")
    data = made.data()
    places = np.array(data["rows"]) - 1
    assert places[0] == 0
    assert (len(places) == len(x)) == (most >= x.size)
    assert data["names"] == [f"row, {i}" for i in places]
    assert_allclose(values_of(data), x[places], atol=1e-3)
    assert any("one row in" in words for words in made.words) == (most < x.size)


@pytest.mark.parametrize("table", ["table.csv", "table.parquet"])
def test_a_cell_without_a_name_is_no_name(page, model, table):
    lines = (model.parent / "table.csv").read_text().splitlines()
    lines[8] = lines[8].replace('"row, 7"', "")
    (model.parent / "table.csv").write_text("\n".join(lines))
    pd.read_csv("table.csv").to_parquet("table.parquet")
    data = page("explorer", model, table).data()
    assert data["names"][6:9] == ["row, 6", None, "row, 8"]
    assert data["rows"][7] == 8


def test_the_report_of_the_file_of_the_fit_judges_rows_of_the_fit(page, run, model):
    first = page("report", model, "table.csv")
    assert "The model was fitted to these rows" in run("report", "model.npz", "table.csv", "--force").out
    shutil.copyfile("table.csv", "copy.csv")
    other = page("report", model, "copy.csv")
    assert "The p-values treat the rows as new" in run("report", "model.npz", "copy.csv", "--force").out
    assert json.loads(run("report", "model.npz", "copy.csv", "--force", "--json").out)["training"] is False
    assert (np.array(first.data()["p"]) <= np.array(other.data()["p"])).all()
    assert first.data()["p"] != other.data()["p"]
    assert "p-value" not in run("explorer", "model.npz", "table.csv", "--force").out


@pytest.mark.parametrize("command", ["report", "explorer"])
def test_a_page_is_made_of_factors_too(run, folder, x, monkeypatch, command):
    assert run("fit", "table.csv", "--model", "fa", "--components", 2, "--rotation", "varimax").code == 0
    given = []

    def write(estimator, rows, out, **options):
        given.extend([estimator, rows, options["feature_names"]])
        out.write_text("page")
        return out

    monkeypatch.setattr("probpca.cli.page_commands._writer", lambda _: write)
    assert run(command, "model.npz", "table.csv", "--out", "page.html").code == 0
    factors, rows, names = given
    assert (type(factors), factors.rotation, tuple(names)) == (FactorAnalysis, "varimax", FEATURES)
    assert_allclose(rows, x)
    assert (folder / "page.html").read_text() == "page"


# Columns that colour the rows


@pytest.fixture
def labelled(model, x):
    """The table with more columns: categories of several kinds, numbers, and names that tell rows apart."""
    n = len(x)
    frame = pd.read_csv("table.csv")
    frame["site"] = [["north", "south", "NA"][i % 3] for i in range(n)]
    frame["batch"] = [1 + i % 4 for i in range(n)]
    frame["weight"] = [f"{i * 1.5:.1f}" for i in range(n)]
    frame["same"] = "one"
    frame["remark"] = [f"seen by {i}" for i in range(n)]
    frame["serial_id"] = [9_000 + 7 * i for i in range(n)]
    frame["count"] = range(100, 100 + n)
    frame.to_csv("labelled.csv", index=False)
    return model


def groups_in(made):
    return {group["name"]: group.get("categories") for group in made.data()["groups"]}


@pytest.mark.parametrize("command", ["report", "explorer"])
def test_columns_that_repeat_group_rows_and_identifiers_do_not(page, command, labelled):
    found = groups_in(page(command, labelled, "labelled.csv"))
    assert found["site"] == ["north", "south", "missing"]
    assert found["batch"] == ["1", "2", "3", "4"]
    assert found["weight"] is None  # numbers on a scale
    assert not {"name", "same", "remark", "serial_id", "count", "a"} & set(found)


def test_a_text_column_that_repeats_does_not_name_rows(page, labelled):
    frame = pd.read_csv("labelled.csv").drop(columns=["name", "when", "remark"])
    frame.to_csv("labelled.csv", index=False)
    made = page("report", labelled, "labelled.csv")
    assert made.data()["names"] == [None] * len(frame)
    assert "site" in groups_in(made)
    assert page("report", labelled, "labelled.csv", "--id", "site").data()["names"][:2] == ["north", "south"]


def test_the_first_colours_can_be_chosen(page, run, labelled, x):
    made = page("report", labelled, "labelled.csv", "--color-by", "batch")
    assert next(iter(groups_in(made))) == "batch"
    made = page("report", labelled, "labelled.csv", "--color-by", "b")  # a feature of the model
    (first, *_) = made.data()["groups"]
    assert first["name"] == "b"
    assert_allclose(numbers(first["numbers"], -1), x[:, 1], rtol=2e-5)
    done = run("report", "model.npz", "labelled.csv", "--color-by", "bach", "--force")
    assert done.code != 0
    assert "did you mean 'batch'?" in done.err
    listed = json.loads(run("report", "model.npz", "labelled.csv", "--force", "--json").out)["groups"]
    assert {"site", "batch", "weight"} <= set(listed)


def test_the_title_is_the_name_of_the_file(page, model):
    for options, title in (((), "table.csv"), (("--title", "Mice"), "Mice")):
        assert page("report", model, "table.csv", *options).words.count(title) == 2


def test_a_year_names_rows_without_a_decimal_mark(page, run, x, folder):
    frame = pd.DataFrame(x, columns=list("abcde")).assign(year=1950.0 + np.arange(len(x)))
    frame.to_csv("years.csv", index=False)
    run("fit", "years.csv", "--components", 2, "--out", "years.npz")
    page("report", folder / "years.npz", folder / "years.csv")
    written = (folder / "page.html").read_text()
    assert '"1951"' in written
    assert "1951.0" not in written
