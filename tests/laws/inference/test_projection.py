"""Codes and their rows: least squares when projected, shrunk when inferred."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import closed_form_oracle, dense_covariance, dense_posterior, random_model, random_rotation, spiked_rows
from probpca.inference import decode, encode, explained_variance, project, reconstruct
from probpca.inference.projection import explained_variance_ratio
from probpca.models import LinearGaussian

NEAR = {"rtol": 1e-9, "atol": 1e-12}


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def model(request, rng):
    return random_model(rng, noise=request.param)


@pytest.fixture
def x(rng):
    return 3 * rng.standard_normal((8, 7))


def test_a_code_is_the_posterior_mean(model, x):
    assert_allclose(encode(model, x), dense_posterior(model, x)[0], **NEAR)


def test_decoding_is_affine_for_any_number_of_axes(model, rng):
    z = rng.standard_normal((2, 4, 3))
    assert_allclose(decode(model, z), np.einsum("ijq,dq->ijd", z, model.loadings) + model.mean, **NEAR)
    assert_array_equal(decode(model, np.zeros(3)), model.mean)


def test_reconstructing_twice_changes_nothing(model, x):
    once = reconstruct(model, x)
    assert np.abs(once - x).max() > 0.1
    assert_allclose(reconstruct(model, once), once, **NEAR)


def test_reconstruction_is_the_least_squares_fit_of_the_loadings(model, x):
    best = np.linalg.lstsq(model.loadings, (x - model.mean).T)[0].T
    assert_allclose(reconstruct(model, x), best @ model.loadings.T + model.mean, **NEAR)


def test_no_other_code_decodes_nearer(model, x, rng):
    error = np.square(reconstruct(model, x) - x).sum()
    for _ in range(20):
        other = decode(model, encode(model, x) + 0.3 * rng.standard_normal((8, 3)))
        assert np.square(other - x).sum() > error


def test_encoding_and_decoding_shrinks_towards_the_mean(rng, x):
    model = random_model(rng)
    shrunk = np.linalg.norm(decode(model, encode(model, x)) - model.mean, axis=1)
    straight = np.linalg.norm(reconstruct(model, x) - model.mean, axis=1)
    assert (shrunk < straight).all()


def test_shrinking_vanishes_with_the_noise(rng, x):
    model = random_model(rng, noise=1e-12)
    assert_allclose(decode(model, encode(model, x)), reconstruct(model, x), rtol=1e-9)


def test_projection_has_the_length_of_the_reconstruction(model, x):
    scores = project(model, x)
    assert scores.shape == (8, 3)
    assert_allclose(np.linalg.norm(scores, axis=1), np.linalg.norm(reconstruct(model, x) - model.mean, axis=1), **NEAR)


def test_rotating_the_loadings_changes_no_reconstruction(model, x, rng):
    rotated = model.rotate(random_rotation(rng, 3))
    assert_allclose(reconstruct(rotated, x), reconstruct(model, x), **NEAR)
    assert_allclose(project(rotated, x), project(model, x), **NEAR)
    assert_allclose(explained_variance(rotated), explained_variance(model), **NEAR)


def test_explained_variances_are_the_largest_eigenvalues_of_the_covariance(rng):
    model = random_model(rng)
    values = np.linalg.eigvalsh(dense_covariance(model))[::-1]
    assert_allclose(explained_variance(model), values[:3], **NEAR)
    assert_allclose(explained_variance_ratio(model), values[:3] / values.sum(), **NEAR)


def test_explained_variance_is_the_variance_along_each_principal_axis(model):
    axes = np.linalg.svd(model.loadings)[0][:, :3]
    assert_allclose(explained_variance(model), np.diag(axes.T @ dense_covariance(model) @ axes), **NEAR)


def test_scores_of_fitted_rows_have_the_variances_that_the_model_explains(rng):
    x = spiked_rows(rng, 50, 6, 2)
    fitted = closed_form_oracle(x, 2).model
    scores = project(fitted, x)
    assert_allclose(scores.T @ scores / 50, np.diag(explained_variance(fitted)), atol=1e-9)


def test_more_components_than_features_reconstruct_everything(rng):
    model = LinearGaussian(np.zeros(2), rng.standard_normal((2, 4)), 0.1)
    x = rng.standard_normal((3, 2))
    assert_allclose(reconstruct(model, x), x, **NEAR)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_with_a_scale_it_is_the_projection_of_scaled_columns(model, x, rng, kind, share):
    scale = np.geomspace(0.01, 100, 7)
    x = np.where(rng.random(x.shape) < share, np.nan, x)
    scaled = model.rescale(1 / scale)
    assert_allclose(project(model, kind(x), scale=scale), project(scaled, x / scale), rtol=1e-8, atol=1e-8)
    wanted = scale * reconstruct(scaled, x / scale)
    assert_allclose(reconstruct(model, kind(x), scale=scale), wanted, rtol=1e-8, atol=1e-8 * scale.max())


def test_with_a_scale_a_row_is_led_to_the_nearest_point_of_scaled_space(model, x, rng):
    scale = np.geomspace(0.1, 10, 7)
    axes = model.rescale(1 / scale).principal_axes[0]
    nearest = np.square((reconstruct(model, x, scale=scale) - x) / scale).sum(axis=1)
    for _ in range(20):
        other = model.mean + scale * (axes @ rng.standard_normal(3))
        assert (np.square((other - x) / scale).sum(axis=1) >= nearest).all()
