"""Draws have the moments that they should, and come again with the same seed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import assert_moments_match, assert_within_errors, dense_covariance, dense_posterior
from probpca.inference import explore, sample, sample_latent
from probpca.inference.sampling import sample_parameters
from probpca.linalg.packed import pack
from probpca.models import LinearGaussian, ParameterBelief

N = 20_000


@pytest.fixture(params=[(5, 2), (2, 3)], ids=["tall", "wide"])
def shape(request):
    return request.param


@pytest.fixture
def x(rng, model):
    return rng.standard_normal((2, model.n_features))


def test_new_rows_have_the_moments_of_the_model(model, rng):
    assert_moments_match(sample(model, N, rng=rng), model.mean, dense_covariance(model))


def test_latents_of_a_row_have_the_moments_of_its_posterior(model, x, rng):
    mean, covariance = dense_posterior(model, x)
    draws = sample_latent(model, x, N, rng=rng)
    assert draws.shape == (N, 2, model.n_components)
    for i in range(2):
        assert_moments_match(draws[:, i], mean[i], covariance)


def test_neighbours_of_a_row_have_the_moments_of_the_posterior_predictive(model, x, rng):
    mean, covariance = dense_posterior(model, x)
    W = model.loadings
    spread = W @ covariance @ W.T + np.diag(np.broadcast_to(model.noise_variance, model.mean.shape))
    draws = explore(model, x, N, rng=rng)
    assert draws.shape == (N, 2, model.n_features)
    for i in range(2):
        assert_moments_match(draws[:, i], W @ mean[i] + model.mean, spread)


def test_draws_of_different_rows_are_independent(model, x, rng):
    left, right = np.moveaxis(explore(model, x, N, rng=rng), 1, 0)
    correlations = np.corrcoef(left.T, right.T)[: model.n_features, model.n_features :]
    assert_within_errors(correlations, 0.0, 1 / np.sqrt(N))


@pytest.mark.parametrize(
    "draw",
    [
        lambda model, _x, rng: sample(model, 5, rng=rng),
        lambda model, x, rng: sample_latent(model, x, 5, rng=rng),
        lambda model, x, rng: explore(model, x, 5, rng=rng),
    ],
    ids=["sample", "sample_latent", "explore"],
)
def test_the_same_seed_gives_the_same_draws(model, x, draw):
    first, again, other = (draw(model, x, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert_array_equal(first, again)
    assert (first != other).all()


def test_no_draws_are_no_rows(model, x, rng):
    assert sample(model, 0, rng=rng).shape == (0, model.n_features)
    assert explore(model, x, 0, rng=rng).shape == (0, 2, model.n_features)


@pytest.mark.parametrize("singular", [0.0, -1e-17])
def test_parameters_that_are_sure_to_move_together_are_drawn_together(singular, rng):
    std = np.array([1e-20, 1.0, 1e20])  # of two loadings and the mean of each feature
    correlation = np.array([[1.0, 1.0, 0.0], [1.0, 1.0 + singular, 0.0], [0.0, 0.0, 1.0]])
    covariance = pack(correlation * np.outer(std, std))[:, None] * np.ones(400)
    belief = ParameterBelief(LinearGaussian(np.zeros(400), np.zeros((400, 2)), 1.0), covariance, np.ones(2))
    drawn = sample_parameters(belief, rng=rng)
    first, second = (drawn.loadings / std[:2]).T
    assert_allclose(first, second, atol=1e-7)
    for values in (first, drawn.mean / std[2]):
        assert_within_errors(np.square(values).mean(), 1.0, np.sqrt(2 / 400))
