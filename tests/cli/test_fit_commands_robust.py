"""``probpca fit --robust``: the robust fits of the library, and what they used."""

import json

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from probpca import PPCA, FactorAnalysis


@pytest.fixture
def frame(folder):
    """A table with outlying rows, written to bent.csv."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((60, 5))
    x[:9] += 10 * rng.standard_normal((9, 5))
    x[rng.random(x.shape) < 0.05] = np.nan
    frame = pl.DataFrame({f"c{j}": x[:, j] for j in range(5)}).with_columns(pl.all().fill_nan(None))
    frame.write_csv(folder / "bent.csv")
    return frame


@pytest.mark.parametrize(
    ("words", "parameters"),
    [(["rows"], {"robust": "rows"}), (["cells", "--keep", "0.6"], {"robust": "cells", "keep": 0.6})],
)
@pytest.mark.parametrize("kind", [PPCA, FactorAnalysis])
def test_the_model_is_that_of_the_library(run, frame, words, parameters, kind):
    family = "fa" if kind is FactorAnalysis else "ppca"
    done = run("fit", "bent.csv", "--components", 2, "--model", family, "--robust", *words, "--json")
    assert done.code == 0, done.err
    found, expected = kind.from_file("model.npz"), kind(2, random_state=0, **parameters).fit(frame)
    assert_array_equal(found.row_weight_, expected.row_weight_)
    assert_array_equal(found.loadings_, expected.loadings_)
    facts = json.loads(done.out)["robust"]
    used = expected.row_weight_ > 0
    assert (facts["method"], facts["rows"], facts["rows_used"]) == (parameters["robust"], 60, used.sum())
    assert facts["keep"] == parameters.get("keep", 0.75)
    if expected.cell_weight_ is not None:
        assert facts["cells_used"] == (expected.cell_weight_[used] > 0.5).sum()


@pytest.mark.usefixtures("frame")
def test_the_summary_and_the_outliers_show_it(run):
    done = run("fit", "bent.csv", "--components", 2, "--robust", "rows")
    assert done.code == 0, done.err
    assert "of 60 rows used" in done.out
    assert json.loads(run("fit", "bent.csv", "--components", 2, "--json", "--force").out)["robust"] is None


@pytest.mark.usefixtures("frame")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--robust", "row"], "must be one of rows, cells; got row. Did you mean rows?"),
        (["--robust", "rows", "--keep", "0.3"], "must be a number from 0.5 to 1; got 0.3"),
        (["--robust", "rows", "--keep", "most"], "must be a number from 0.5 to 1; got most"),
        (["--keep", "0.6"], "--keep is about robust fits"),
        (["--robust", "rows", "--model", "bayesian"], "--robust needs --model ppca or fa; got --model bayesian"),
        (["--robust", "cells", "--clusters", "2"], "--robust needs --model ppca or fa; got --clusters"),
    ],
)
def test_options_that_contradict_each_other_are_named(run, words, said):
    done = run("fit", "bent.csv", *words)
    assert done.code == 2
    assert said in done.err.replace("\n", " ")
