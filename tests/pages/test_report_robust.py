"""The report says what a robust fit used, and maps it."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from html_pages import read
from probpca import PPCA, FactorAnalysis, report
from probpca.pages import report as home
from probpca.pages.report_robust import MapSettings, robust_card, used_of


@pytest.fixture
def x():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((50, 6))
    x[rng.random(x.shape) < 0.1] = np.nan
    x[10:20, 3] += 9.0
    x[:5] = 6 * rng.standard_normal((5, 6))
    return x


@pytest.fixture
def _without_vega(monkeypatch):
    monkeypatch.setattr(home, "drawing_script", lambda: "window.vegaEmbed = null;")
    monkeypatch.setattr(home, "charts", lambda *_: {})


def cells_of(path, shape):
    """Cells of a map that a path covers."""
    out = np.zeros(shape, dtype=bool)
    for start, row, width in re.findall(r"M(\d+) (\d+)h(\d+)v1H\1z", path):
        out[int(row), int(start) : int(start) + int(width)] = True
    return out


@pytest.mark.usefixtures("_without_vega")
@pytest.mark.parametrize("kind", [PPCA, FactorAnalysis])
@pytest.mark.parametrize("robust", ["rows", "cells"])
def test_the_page_says_what_was_used(kind, robust, x, tmp_path):
    names = [f"c{j} <b>" for j in range(6)]
    model = kind(2, robust=robust, random_state=0).fit(x)
    page = read(report(model, x, tmp_path / "page.html", feature_names=names))
    words = " ".join(" ".join(page.words).split())
    unused = int((model.row_weight_ == 0).sum())
    assert f'The fit was robust ("{robust}", keep=0.75)' in words
    assert f"It did not use {unused} rows of 50." in words
    assert "of chi-square, scaled by the rows that the fit used" in words
    assert "judged like new ones" in words
    assert ("counted little" in words) == (robust == "cells")
    if robust == "cells":
        assert "Most of them are in c3 <b> (" in words
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    card = text[text.index('id="robust"') :]
    paths = {
        fill: cells_of(path, (50, 6))
        for path, fill, shade in re.findall(r'<path d="([^"]*)" fill="(#\w+)" fill-opacity="([\d.]+)"', card)
        if shade in ("1.00", "0.60")
    }
    assert_array_equal(paths["#33415c"], np.isnan(x))
    assert_array_equal(paths["#8d99ae"], np.broadcast_to(model.row_weight_[:, None] == 0, (50, 6)))
    if robust == "cells":
        doubtful = (model.cell_weight_ < 0.5) & ~np.isnan(x) & (model.row_weight_ == 1)[:, None]
        assert_array_equal(paths["#c1440e"], doubtful)


@pytest.mark.usefixtures("_without_vega")
def test_ordinary_fits_and_new_rows_have_no_maps(x, tmp_path):
    plain = report(PPCA(2).fit(x), x, tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "What the fit used" not in plain
    assert "The p-value is calibrated on the training rows" in plain
    model = PPCA(2, robust="cells", random_state=0).fit(x)
    new = report(model, x[:20], tmp_path / "new.html", training=False).read_text(encoding="utf-8")
    assert "What the fit used" in new
    assert "<h3>Missing cells</h3>" not in new


def test_maps_of_large_tables_are_averaged(x):
    model = PPCA(2, robust="rows", random_state=0).fit(x)
    table = SimpleNamespace(cells=np.zeros((1000, 6)), features=[f"c{j}" for j in range(6)])
    large = SimpleNamespace(row_weight_=np.tile(model.row_weight_, 20), cell_weight_=None, keep=0.75)
    card = robust_card(large, table, training=True, settings=MapSettings(most_rows=100))
    assert 'viewBox="0 0 6 100"' in card
    assert used_of(PPCA(2).fit(x)) is None
