"""What rows say about latents is what the joint Gaussian says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import dense_posterior, random_model, random_rotation
from probpca.inference import decode, encode, posterior
from probpca.inference.posteriors import encoder, posterior_covariance, posterior_root
from probpca.models import LinearGaussian

NEAR = {"rtol": 1e-9, "atol": 1e-12}


@pytest.fixture(params=[(7, 3), (4, 4), (3, 5), (1, 3)], ids=lambda shape: f"d{shape[0]}q{shape[1]}")
def shape(request):
    return request.param


@pytest.fixture
def x(rng, model):
    return 2 * rng.standard_normal((6, model.n_features))


def test_posterior_equals_conditioning_of_the_joint_gaussian(model, x):
    mean, covariance = dense_posterior(model, x)
    belief = posterior(model, x)
    assert_allclose(belief.mean, mean, **NEAR)
    for row in belief.covariance:
        assert_allclose(row, covariance, **NEAR)
    assert_allclose(posterior_covariance(model), covariance, **NEAR)
    assert_allclose(belief.std, np.tile(np.sqrt(np.diag(covariance)), (6, 1)), **NEAR)


def test_the_root_squares_to_the_covariance(model):
    root = posterior_root(model)
    assert_allclose(root @ root.T, posterior_covariance(model), **NEAR)


def test_the_covariance_is_one_matrix_seen_by_all_rows(model, x):
    covariance = posterior(model, x).covariance
    assert covariance.shape == (6, model.n_components, model.n_components)
    assert covariance.strides[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        covariance[0, 0, 0] = 1.0


def test_rotating_the_latent_basis_rotates_the_belief_and_no_more(model, x, rng):
    rotation = random_rotation(rng, model.n_components)
    rotated = model.rotate(rotation)
    belief, turned = posterior(model, x), posterior(rotated, x)
    assert_allclose(turned.mean @ rotation.T, belief.mean, **NEAR)
    assert_allclose(rotation @ turned.covariance @ rotation.T, belief.covariance, **NEAR)
    assert_allclose(decode(rotated, encode(rotated, x)), decode(model, encode(model, x)), **NEAR)


def test_sparse_and_single_precision_rows_say_the_same(model, rng):
    x = rng.integers(-9, 9, size=(40, model.n_features)) / 4
    expected = posterior(model, x).mean
    assert_allclose(posterior(model, sparse.csr_array(x)).mean, expected, rtol=1e-9, atol=1e-12)
    assert_allclose(posterior(model, x.astype(np.float32)).mean, expected, rtol=1e-9, atol=1e-12)


def test_the_encoder_is_the_derivative_of_the_posterior_mean(model, x):
    gain = encoder(model)
    step = np.eye(model.n_features)
    moved = posterior(model, x[0] + step).mean - posterior(model, x[:1]).mean
    assert_allclose(moved, gain, **NEAR)


def test_without_signal_the_belief_is_the_prior(rng):
    model = LinearGaussian(np.zeros(4), np.zeros((4, 2)), 0.5)
    belief = posterior(model, rng.standard_normal((3, 4)))
    assert_array_equal(belief.mean, np.zeros((3, 2)))
    assert_allclose(belief.covariance, np.tile(np.eye(2), (3, 1, 1)), atol=1e-15)


def test_without_noise_the_belief_is_the_least_squares_solution(rng):
    model = random_model(rng, noise=1e-14)
    x = rng.standard_normal((5, 7))
    solution = np.linalg.lstsq(model.loadings, (x - model.mean).T)[0].T
    assert_allclose(posterior(model, x).mean, solution, rtol=1e-9)
    small = 1e-14 * np.linalg.inv(model.loadings.T @ model.loadings)
    assert_allclose(posterior_covariance(model), small, rtol=1e-9)
