"""Margins and conditionals are those of the full Gaussian."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm

from oracles import (
    assert_within_errors,
    dense_condition,
    dense_covariance,
    dense_joint,
    dense_posterior,
    random_model,
)
from probpca import DataError, ShapeError
from probpca.inference import condition, joint, log_likelihood, marginal, posterior, sample
from probpca.models import Gaussian

NEAR = {"rtol": 1e-9, "atol": 1e-12}
CHOICES = [[0], [2, 5], [6, 0, 3], [0, 1, 2, 3, 4, 5], [-1, 2]]


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def model(request, rng):
    return random_model(rng, noise=request.param)


@pytest.fixture
def observed(model):
    """The distribution of x alone, in full."""
    return Gaussian(model.mean, dense_covariance(model))


def test_the_joint_has_the_model_and_the_prior_as_margins(model):
    both = joint(model)
    assert_allclose(both.covariance[:7, :7], dense_covariance(model), **NEAR)
    assert_array_equal(both.covariance[7:, 7:], np.eye(3))
    assert_array_equal(both.covariance[:7, 7:], model.loadings)
    assert_array_equal(both.mean, np.r_[model.mean, 0, 0, 0])
    assert_allclose(both.covariance, both.covariance.T, atol=0)


def test_the_joint_conditioned_either_way_is_the_posterior_or_the_noise(model, rng):
    x, z = rng.standard_normal((4, 7)), rng.standard_normal((4, 3))
    mean, covariance = dense_condition(joint(model), np.arange(7), x)
    belief = posterior(model, x)
    assert_allclose(belief.mean, mean, **NEAR)
    assert_allclose(belief.covariance[0], covariance, **NEAR)
    mean, covariance = dense_condition(joint(model), np.arange(7, 10), z)
    assert_allclose(mean, z @ model.loadings.T + model.mean, **NEAR)
    assert_allclose(covariance, np.diag(np.broadcast_to(model.noise_variance, 7)), atol=1e-12)


@pytest.mark.parametrize("features", CHOICES, ids=str)
def test_a_margin_is_a_part_of_the_dense_gaussian(model, observed, features, rng):
    values = rng.standard_normal((5, len(features)))
    part = multivariate_normal(observed.mean[features], observed.covariance[np.ix_(features, features)])
    assert_allclose(log_likelihood(marginal(model, features), values), part.logpdf(values).reshape(5), **NEAR)


@pytest.mark.parametrize("features", CHOICES, ids=str)
def test_condition_equals_conditioning_of_the_dense_gaussian(model, observed, features, rng):
    values = rng.standard_normal((5, len(features)))
    mean, covariance = dense_condition(observed, np.arange(7)[features], values)
    predicted = condition(model, features, values)
    assert_allclose(predicted.mean, mean, **NEAR)
    assert_allclose(predicted.covariance.dense(), covariance, **NEAR)
    assert_allclose(predicted.std, np.sqrt(np.diag(covariance)), **NEAR)


def test_conditional_times_margin_is_the_whole(model, rng):
    x = rng.standard_normal((5, 7))
    predicted = condition(model, [1, 4], x[:, [1, 4]])
    rest = x[:, [0, 2, 3, 5, 6]] - predicted.mean
    conditional = -0.5 * (
        5 * np.log(2 * np.pi) + predicted.covariance.logdet() + predicted.covariance.squared_mahalanobis(rest)
    )
    total = log_likelihood(marginal(model, [1, 4]), x[:, [1, 4]]) + conditional
    assert_allclose(total, log_likelihood(model, x), **NEAR)


def test_the_order_of_known_features_goes_with_their_values(model, rng):
    values = rng.standard_normal((5, 3))
    expected = condition(model, [0, 3, 6], values)
    shuffled = condition(model, [6, 0, 3], values[:, [2, 0, 1]])
    assert_allclose(shuffled.mean, expected.mean, **NEAR)
    assert_allclose(shuffled.std, expected.std, **NEAR)


@pytest.mark.parametrize(
    "features", [[False, True, False, False, True, False, False], [1, -3], (1, 4), np.int32([1, 4])]
)
def test_masks_negative_and_other_positions_mean_the_same(model, rng, features):
    values = rng.standard_normal((5, 2))
    assert_array_equal(condition(model, features, values).mean, condition(model, [1, 4], values).mean)
    assert_array_equal(marginal(model, features).loadings, model.loadings[[1, 4]])


def test_a_single_feature_may_be_a_number(model):
    assert_array_equal(marginal(model, 2).mean, model.mean[[2]])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([], "at least one; got \\[\\]"),
        ([7], r"different positions 0 \.\. 6; got \[7\]"),
        ([-8], r"different positions 0 \.\. 6; got \[-8\]"),
        ([1, 1], "different positions"),
        ([6, -1], "different positions"),
        ([0.5], "features must be positions"),
        (["a"], "features must be positions"),
        ([[0, 1]], "features must be positions"),
        ([True, False], "features must be positions"),
        ([False] * 7, "at least one"),
    ],
)
def test_features_that_do_not_exist_are_refused(model, features, message):
    with pytest.raises(ShapeError, match=message):
        marginal(model, features)
    with pytest.raises(ShapeError, match=message):
        condition(model, features, np.zeros((1, 1)))


def test_conditioning_on_everything_leaves_nothing_to_predict(model):
    with pytest.raises(ShapeError, match="at least one feature left to predict"):
        condition(model, np.arange(7), np.zeros((1, 7)))


def test_values_must_have_a_column_for_each_known_feature(model):
    with pytest.raises(ShapeError, match="rows must have 2 features"):
        condition(model, [0, 1], np.zeros((4, 3)))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_interval_ends_are_quantiles(model, rng, level):
    predicted = condition(model, [0, 1], rng.standard_normal((4, 2)))
    low, high = predicted.interval(level)
    assert_allclose(norm.cdf(low, predicted.mean, predicted.std), (1 - level) / 2, rtol=1e-9)
    assert_allclose(norm.sf(high, predicted.mean, predicted.std), (1 - level) / 2, rtol=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.1, np.nan])
def test_a_level_that_is_no_probability_is_refused(model, level):
    with pytest.raises(DataError, match="level must lie between 0 and 1"):
        condition(model, [0], [[0.0]]).interval(level)


def test_intervals_cover_as_often_as_they_say(model, rng):
    x = sample(model, 20_000, rng=rng)
    low, high = condition(model, [0, 1, 2], x[:, :3]).interval(0.9)
    covered = ((low < x[:, 3:]) & (x[:, 3:] < high)).mean(axis=0)
    assert_within_errors(covered, 0.9, np.sqrt(0.9 * 0.1 / 20_000))


def test_the_oracle_conditions_the_same_joint(model):
    assert_allclose(dense_joint(model).covariance, joint(model).covariance, **NEAR)
    assert dense_posterior(model, np.zeros((2, 7)))[0].shape == (2, 3)
