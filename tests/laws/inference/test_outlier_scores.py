"""Distances split, add up and are distributed as they should; cells too."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, kstest

from oracles import (
    assert_within_errors,
    dense_condition,
    dense_covariance,
    precise_log_likelihood,
    punched,
    random_model,
)
from probpca.inference import calibration as tails, outliers, sample
from probpca.inference.calibration import chi2_tail, log10_chi2_tail
from probpca.models import Gaussian, LinearGaussian

NEAR = {"rtol": 1e-9, "atol": 1e-12}
SHAPES = [(7, 3), (4, 4), (3, 5)]


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def noise(request):
    return request.param


@pytest.fixture(params=SHAPES, ids=lambda shape: f"d{shape[0]}q{shape[1]}")
def model(request, rng, noise):
    return random_model(rng, *request.param, noise=noise)


@pytest.fixture
def x(rng, model):
    return 3 * rng.standard_normal((8, model.n_features))


def test_both_parts_add_up_to_the_dense_distance(model, x):
    found, centred = outliers(model, x), x - model.mean
    dense = np.einsum("ni,ij,nj->n", centred, np.linalg.inv(dense_covariance(model)), centred)
    assert_allclose(found.distance, dense, **NEAR)
    assert_allclose(found.latent_distance + found.residual_distance, dense, **NEAR)
    assert_allclose(found.p_value, chi2.sf(dense, model.n_features), rtol=1e-8)
    assert_allclose(found.log10_p_value, chi2.logsf(dense, model.n_features) / np.log(10), rtol=1e-8)


def test_contributions_of_cells_add_up_to_the_distance(model, x):
    found = outliers(model, x)
    assert_allclose(found.contributions.sum(axis=1), found.distance, **NEAR)


def test_cell_scores_equal_brute_force_prediction_from_the_other_cells(model, x):
    scores = outliers(model, x).cell_scores
    observed = Gaussian(model.mean, dense_covariance(model))
    for j in range(model.n_features):
        others = np.delete(np.arange(model.n_features), j)
        mean, variance = dense_condition(observed, others, x[:, others])
        assert_allclose(scores[:, j], (x[:, j] - mean[:, 0]) / np.sqrt(variance.item()), **NEAR)


def test_the_distance_inside_the_subspace_is_that_of_the_scores(rng):
    model, x = random_model(rng), rng.standard_normal((8, 7))
    axes, singular, _ = np.linalg.svd(model.loadings, full_matrices=False)
    scores = (x - model.mean) @ axes
    rest = (x - model.mean) - scores @ axes.T
    found = outliers(model, x)
    assert_allclose(found.latent_distance, (scores**2 / (singular**2 + 0.3)).sum(axis=1), **NEAR)
    assert_allclose(found.residual_distance, (rest**2).sum(axis=1) / 0.3, **NEAR)


def test_p_values_are_uniform_and_the_parts_independent_under_the_model(rng, noise):
    model = random_model(rng, noise=noise)
    found = outliers(model, sample(model, 5000, rng=rng))
    for p in (found.p_value, found.latent_p_value, found.residual_p_value):
        assert kstest(p, "uniform").pvalue > 1e-3
    correlation = np.corrcoef(found.latent_p_value, found.residual_p_value)[0, 1]
    assert_within_errors(correlation, 0.0, 1 / np.sqrt(5000))
    assert min(kstest(column, "norm").pvalue for column in found.cell_scores.T) > 1e-4


@pytest.mark.parametrize("shape", [(4, 4), (3, 5)])
def test_no_room_beside_the_subspace_means_nothing_is_odd_there(rng, noise, shape):
    model = random_model(rng, *shape, noise=noise)
    found = outliers(model, 100 * rng.standard_normal((5, shape[0])))
    assert_array_equal(found.residual_distance, 0.0)
    assert_array_equal(found.residual_p_value, 1.0)
    assert_array_equal(found.latent_distance, found.distance)
    assert_array_equal(found.latent_p_value, found.p_value)


def test_a_spoilt_cell_is_the_one_that_stands_out(rng):
    model = random_model(rng, d=10, q=2, noise=0.01)
    x = sample(model, 10, rng=rng)
    x[np.arange(10), np.arange(10)] += 5.0
    found = outliers(model, x)
    assert_array_equal(np.abs(found.cell_scores).argmax(axis=1), np.arange(10))
    assert (found.p_value < 1e-10).all()


def precise_log10_tail(distance, degrees):
    with mpmath.workdps(50):
        tail = mpmath.gammainc(mpmath.mpf(degrees) / 2, mpmath.mpf(distance) / 2, regularized=True)
        return float(mpmath.log10(tail))


@pytest.mark.parametrize("degrees", [1, 2, 3, 10, 101, 1000])
@pytest.mark.parametrize("distance", [1e3, 1.4e3, 3e3, 1e4, 1e6, 1e8])
def test_tiny_probabilities_are_right_in_extended_precision(degrees, distance):
    found = log10_chi2_tail(np.array([distance]), degrees)
    assert_allclose(found, precise_log10_tail(distance, degrees), rtol=1e-10)


@pytest.mark.parametrize("degrees", [10_000, 100_000])
@pytest.mark.parametrize("deviations", [50, 200, 1000])
def test_tiny_probabilities_are_right_for_wide_tables(degrees, deviations):
    distance = degrees + deviations * np.sqrt(2 * degrees)
    assert chi2.sf(distance, degrees) < tails.SMALLEST_TAIL
    found = log10_chi2_tail(np.array([distance]), degrees)
    assert_allclose(found, precise_log10_tail(distance, degrees), rtol=1e-9)


@pytest.mark.parametrize("degrees", [1, 5, 60, 2000, 50_000])
def test_the_logarithm_does_not_jump_where_the_formula_changes(degrees):
    edge = chi2.isf(tails.SMALLEST_TAIL, degrees)
    distance = edge * (1 + np.linspace(-1e-6, 1e-6, 21))
    values = log10_chi2_tail(distance, degrees)
    assert chi2_tail(distance, degrees)[0] > tails.SMALLEST_TAIL > chi2_tail(distance, degrees)[-1]
    slopes = np.diff(values)
    assert (slopes < 0).all()
    assert_allclose(slopes, slopes.mean(), rtol=1e-3)


def test_probabilities_run_from_one_at_the_centre_down():
    distance = np.array([0.0, 1.0, 10.0, 100.0])
    assert_allclose(chi2_tail(distance, 3), chi2.sf(distance, 3), rtol=1e-12)
    assert log10_chi2_tail(np.array([0.0]), 3).item() == 0.0
    assert_array_equal(chi2_tail(distance, 0), 1.0)
    assert_array_equal(log10_chi2_tail(distance, 0), 0.0)


def test_a_direction_that_cells_hardly_determine_costs_the_distance_no_digits(rng):
    loadings = rng.standard_normal((8, 3)) * [1e3, 1e2, 1e-3]
    model = LinearGaussian(np.zeros(8), loadings, 0.01)
    rows = punched(rng, sample(model, 20, rng=rng), 0.2)
    wanted = [-2 * value for value in precise_observed(model, rows)]
    assert_allclose(outliers(model, rows).distance, wanted, rtol=1e-11)


def precise_observed(model, rows):
    """Log density of the observed cells of each row, without its constant, in sixty digits."""
    for row in rows:
        seen = np.flatnonzero(~np.isnan(row))
        part = model.restrict(seen)
        at_mean, here = precise_log_likelihood(part, np.stack([part.mean, row[seen]]))
        yield here - at_mean
