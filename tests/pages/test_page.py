"""The frame of report and explorer: names and numbers of rows, and the file that is written."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from html_pages import read
from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, ShapeError, SourceError, explorer, report
from probpca.displays.inputs import text_of
from probpca.pages import page as writing, report as home

N, D = 12, 4
MISSING = (None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), "", "  ")


@pytest.fixture(params=[report, explorer], ids=["report", "explorer"])
def page(request, tmp_path, monkeypatch):
    """Write a page without its charts; what it holds."""
    monkeypatch.setattr(home, "drawing_script", lambda: "window.vegaEmbed = null;")
    monkeypatch.setattr(home, "charts", lambda *_: {})
    return lambda *args, **names: read(request.param(*args, tmp_path / "page.html", **names))


@pytest.fixture
def x():
    return spiked_rows(np.random.default_rng(2), N, D, 1, noise=0.2)


@pytest.fixture
def fitted(x):
    return PPCA(1).fit(x)


def test_rows_of_an_array_are_counted_from_zero_and_the_page_says_so(page, fitted, x):
    made = page(fitted, x)
    assert made.data()["rows"] == list(range(N))
    assert made.data()["names"] == [None] * N
    assert sum("(number; the first is row 0)" in words for words in made.words) == 1


def test_rows_may_have_other_numbers(page, fitted, x):
    numbers = 1_000 + 7 * np.arange(N)
    made = page(fitted, x, row_numbers=numbers, labels=[f"r{i}" for i in range(N)])
    assert made.data()["rows"] == numbers.tolist()
    assert sum("(name or number; the first is row 1,000)" in words for words in made.words) == 1
    for wrong in (numbers[:-1], np.ones(N, int), numbers + 0.5):
        with pytest.raises(ShapeError, match="row_numbers must be 12 different whole numbers"):
            page(fitted, x, row_numbers=wrong)


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
def test_the_index_of_pandas_counts_or_names_rows(page, kind, x):
    frame = pd.DataFrame(x, index=range(50, 50 - N, -1))
    fitted = kind(1, random_state=0).fit(frame)
    data = page(fitted, frame).data()
    assert (data["rows"], data["names"]) == (list(frame.index), [None] * N)
    data = page(fitted, frame.set_axis(pd.date_range("2020-01-31", periods=N))).data()
    assert (data["rows"], data["names"][1]) == (list(range(N)), "2020-02-01")


def test_rows_of_a_list_have_no_index(page, fitted, x):
    assert page(fitted, x.tolist()).data()["rows"] == list(range(N))


def test_what_has_no_name_is_called_by_its_number(page, fitted, x):
    labels = [*MISSING, *(f"r{i}" for i in range(len(MISSING), N))]
    names = page(fitted, x, labels=labels, feature_names=["a", None, np.nan, " "]).data()
    assert names["names"] == [None] * len(MISSING) + labels[len(MISSING) :]
    assert names["features"] == ["a", "(column 1)", "(column 2)", "(column 3)"]
    assert [text_of(name) for name in ("nan", "None", 0, 1.5)] == ["nan", "None", "0", "1.5"]


def test_unusual_rows_are_called_as_they_are_counted(fitted, x, tmp_path, monkeypatch):
    monkeypatch.setattr(home, "drawing_script", str)
    monkeypatch.setattr(home, "charts", lambda *_: {})
    x[5, 0] += 1e9
    long = "long " * 24
    labels = [None if i == 5 else long for i in range(N)]
    made = read(report(fitted, x, tmp_path / "page.html", labels=labels, row_numbers=np.arange(1, N + 1)))
    titles = [attrs["title"] for tag, attrs in made.tags if tag == "button" and "data-row" in attrs]
    assert titles == ["row 6"] + [long] * (N - 1)
    assert "row 6" in made.words
    assert made.data()["rows"][made.data()["first"]] == 6


@pytest.mark.parametrize("make", [report, explorer])
def test_a_place_that_cannot_be_written_is_told_before_the_work(make, fitted, x, tmp_path, monkeypatch):
    def work(*_):
        pytest.fail("the rows were asked about")

    monkeypatch.setattr(PPCA, "posterior", work)
    monkeypatch.setattr(PPCA, "outliers", work)
    (tmp_path / "file").touch()
    write = partial(make, fitted, x)
    with pytest.raises(SourceError, match=r"is a folder.*\nHint"):
        write(tmp_path)
    for nowhere in (tmp_path / "nowhere" / "page.html", tmp_path / "file" / "page.html"):
        with pytest.raises(SourceError, match="there is no folder"):
            write(nowhere)
    with pytest.raises(SourceError, match="cannot be written: File name too long") as raised:
        write(tmp_path / f"{'long' * 64}.html")
    assert ".part" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_disk_that_fills_up_is_told_in_words(fitted, x, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "appearing", lambda _: _full())
    with pytest.raises(SourceError, match="No space left on device") as raised:
        explorer(fitted, x, tmp_path / "page.html")
    assert "page.html" in str(raised.value)
    assert ".part" not in str(raised.value)


def _full():
    raise OSError(28, "No space left on device", "page.html.0f3a.part")
