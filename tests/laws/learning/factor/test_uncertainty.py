"""Intervals of factor solutions stay within their bounds, and print."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from oracles import random_model
from probpca.errors import DataError, ShapeError
from probpca.learning.factor.standard_errors import standard_errors
from probpca.learning.factor.uncertainty import FactorUncertainty, TransformedEstimate

Z = norm.ppf(0.95)


def test_intervals_are_symmetric_on_their_scales():
    value, error = np.array([0.2, 0.6]), np.array([0.1, 0.05])
    low, high = TransformedEstimate(value, error).interval(0.9)
    assert_allclose([low, high], [value - Z * error, value + Z * error])
    low, high = TransformedEstimate(value, error, "fisher").interval(0.9)
    width = Z * error / (1 - value**2)
    assert_allclose([np.arctanh(low), np.arctanh(high)], [np.arctanh(value) - width, np.arctanh(value) + width])
    low, high = TransformedEstimate(value, error, "logit").interval(0.9)
    width = Z * error / (value * (1 - value))
    odds = np.log(value / (1 - value))
    assert_allclose([np.log(low / (1 - low)), np.log(high / (1 - high))], [odds - width, odds + width])


@pytest.mark.parametrize(("scale", "bounds"), [("fisher", (-1, 1)), ("logit", (0, 1))])
def test_intervals_stay_within_their_bounds(scale, bounds):
    low, high = TransformedEstimate(np.array([0.02, 0.98]), np.array([0.3, 0.3]), scale).interval(0.99)
    assert (low >= bounds[0]).all()
    assert (high <= bounds[1]).all()


def test_known_numbers_have_no_interval_and_unknown_ones_none():
    low, high = TransformedEstimate(np.array([1.0, 0.5]), np.array([0.0, np.nan]), "fisher").interval()
    assert low[0] == high[0] == 1
    assert np.isnan([low[1], high[1]]).all()


def test_levels_are_probabilities():
    with pytest.raises(DataError, match="between 0 and 1; got 95"):
        TransformedEstimate(np.array(0.0), np.array(1.0)).interval(95)


@pytest.fixture
def oblique():
    loadings = TransformedEstimate(np.array([[0.8, 0.0], [0.6, -0.3]]), np.array([[0.1, 0.05], [np.nan, 0.1]]))
    correlations = TransformedEstimate(np.array([[1.0, 0.3], [0.3, 1.0]]), np.array([[0, 0.1], [0.1, 0]]), "fisher")
    return FactorUncertainty(
        loadings, correlations, TransformedEstimate(np.array([0.3, 0.5]), np.full(2, 0.1), "logit"), "expected"
    )


def test_it_prints_every_kind_of_parameter(oblique):
    text = str(oblique)
    assert text.startswith("Uncertainty of the factors: 95% intervals by the expected information")
    assert "F1, F2       +0.3000         0.1" in text
    lines = text.splitlines()
    first = lines.index("Loadings of F1 (* interval without zero)")
    assert lines[first + 2].startswith("x0")
    assert lines[first + 2].endswith("*")
    assert lines[first + 3] == "x1       +0.6000"
    assert "90%" in str(oblique.table(["a", "b"], level=0.9))
    assert "<table" in oblique._repr_html_()


def test_orthogonal_factors_have_no_table_of_correlations(rng):
    assert "Correlations" not in str(standard_errors(random_model(rng, noise="diagonal"), 100))


def test_it_becomes_a_dataframe_of_loadings(oblique):
    frame = oblique.to_frame()
    assert frame["factor"].tolist() == ["F1", "F1", "F2", "F2"]
    assert frame["loading"].tolist() == [0.8, 0.6, 0.0, -0.3]
    assert_allclose(frame["low"][3], -0.3 - norm.ppf(0.975) * 0.1)


def test_every_feature_needs_a_name(oblique):
    with pytest.raises(ShapeError, match="all 2 features; got 1"):
        oblique.table(["a"])
