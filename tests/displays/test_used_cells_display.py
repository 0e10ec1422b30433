"""The maps show what a robust fit left out, and nothing else."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probpca import PPCA, DataError, FactorAnalysis, ShapeError, UsedCellsDisplay


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((60, 6))
    x[rng.random(x.shape) < 0.1] = np.nan
    x[20:30, 2] += 8.0
    x[:5] = 6 * rng.standard_normal((5, 6))
    return x


@pytest.fixture(scope="module", params=["rows", "cells"])
def model(request, x):
    return PPCA(2, robust=request.param, random_state=0).fit(x)


def test_the_maps_are_the_weights(model, x):
    display = UsedCellsDisplay.from_estimator(model, x, order="given")
    assert_array_equal(display.rasters_[0], np.isnan(x))
    assert_array_equal(display.images_[0].get_array(), np.isnan(x))
    assert_array_equal(display.used, model.row_weight_ > 0)
    assert_array_equal(display.order, np.arange(60))
    if model.cell_weight_ is None:
        assert (display.doubt == 0).all()
        return
    seen = ~np.isnan(x) & display.used[:, None]
    assert_allclose(display.rasters_[1][seen], 1 - model.cell_weight_[seen])
    assert (display.rasters_[1][~seen] == 0).all()
    assert display.doubtful_shares.argmax() == 2
    shares = (model.cell_weight_[display.used] < 0.5) & ~np.isnan(x)[display.used]
    assert_allclose(display.doubtful_shares, shares.sum(axis=0) / seen.sum(axis=0))
    assert_allclose([bar.get_height() for bar in display.bars_[1]], 100 * display.doubtful_shares)


def test_rows_that_were_used_stand_on_top(model, x):
    display = UsedCellsDisplay.from_estimator(model, x)
    assert_array_equal(np.sort(display.order), np.arange(60))
    used = display.used[display.order]
    assert (np.diff(used.astype(int)) <= 0).all()
    doubtful = (display.doubt > 0.5).sum(axis=1)[display.order][used]
    assert (np.diff(doubtful) >= 0).all()
    words = display.axes_[3].get_xlabel()
    assert words == f"{(~used).sum()} rows of 60 not used (grey)"


def test_large_tables_are_averaged():
    rng = np.random.default_rng(0)
    missing = rng.random((1000, 500)) < 0.2
    weight = np.where(missing, 0.0, rng.random((1000, 500)))
    display = UsedCellsDisplay(missing, np.ones(1000), weight, order="given").plot()
    assert display.rasters_[1].shape == (400, 400)
    assert_allclose(display.rasters_[0].mean(), missing.mean(), rtol=0.02)
    assert_allclose(display.rasters_[1].mean(), np.where(missing, 0.0, 1 - weight).mean(), rtol=0.02)


def test_names_come_from_the_table_and_it_draws_into_given_axes(x):
    frame = pd.DataFrame(x, columns=list("abcdef"))
    model = FactorAnalysis(2, robust="rows", random_state=0).fit(frame)
    figure, ax = plt.subplots()
    display = UsedCellsDisplay.from_estimator(model, frame, ax=ax)
    assert display.figure_ is figure
    assert display.feature_names == list("abcdef")
    assert [label.get_text() for label in display.axes_[2].get_xticklabels()] == list("abcdef")
    figure.canvas.draw()


def test_what_cannot_be_drawn_is_refused(x):
    with pytest.raises(DataError, match="needs a robust fit"):
        UsedCellsDisplay.from_estimator(PPCA(2).fit(x), x)
    model = PPCA(2, robust="rows", random_state=0).fit(x)
    with pytest.raises(ShapeError, match="the 60 training rows"):
        UsedCellsDisplay.from_estimator(model, x[:30])
    with pytest.raises(DataError, match="order"):
        UsedCellsDisplay.from_estimator(model, x, order="sorted")
    with pytest.raises(ShapeError, match="weights"):
        UsedCellsDisplay(np.isnan(x), np.ones(60), np.ones((60, 5)))
