"""A model is checked once, never changes, and says the same in other coordinates."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import (
    assert_moments_match,
    dense_covariance,
    dense_log_likelihood,
    random_covariance,
    random_model,
    random_rotation,
)
from probpca import DataError, ShapeError
from probpca.inference import log_likelihood
from probpca.models import Gaussian, LinearGaussian

NOISES = [0.3, "diagonal"]
FIELDS = ("mean", "loadings", "noise_variance")
NEAR = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(params=NOISES, ids=["isotropic", "diagonal"])
def model(request, rng):
    return random_model(rng, noise=request.param)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros(2), np.ones((3, 1)), 1.0), ShapeError, r"mean must have shape \(3,\); got \(2,\)"),
        ((np.zeros(3), np.ones(3), 1.0), ShapeError, r"loadings must be a matrix \(d, q\).*got shape \(3,\)"),
        ((np.zeros(3), np.ones((3, 0)), 1.0), ShapeError, r"d, q >= 1; got shape \(3, 0\)"),
        ((np.zeros(0), np.ones((0, 1)), 1.0), ShapeError, r"d, q >= 1; got shape \(0, 1\)"),
        ((np.zeros(3), np.ones((3, 1)), [1.0, 1.0]), ShapeError, r"noise_variance must have shape \(\) or \(3,\)"),
        ((np.zeros(3), np.ones((3, 1)), 0.0), DataError, r"noise_variance must be positive; the smallest.* 0\.0"),
        ((np.zeros(3), np.ones((3, 1)), [1.0, -2.0, 1.0]), DataError, r"positive; the smallest.* -2\.0"),
        ((np.zeros(3), np.ones((3, 1)), np.nan), DataError, "noise_variance must be finite; got 1 entries"),
        (([0.0, np.inf, np.nan], np.ones((3, 1)), 1.0), DataError, "mean must be finite; got 2 entries"),
        ((np.zeros(3), np.full((3, 1), np.nan), 1.0), DataError, "loadings must be finite; got 3 entries"),
    ],
)
def test_what_cannot_be_a_model_is_refused_with_its_reason(arguments, error, message):
    with pytest.raises(error, match=message):
        LinearGaussian(*arguments)


@pytest.mark.parametrize("field", FIELDS)
def test_a_model_cannot_be_changed(model, field):
    with pytest.raises(FrozenInstanceError):
        setattr(model, field, getattr(model, field))
    with pytest.raises(ValueError, match="read-only"):
        getattr(model, field)[...] = 1.0


def test_a_model_keeps_no_hold_of_the_arrays_it_was_made_of(rng):
    mean, loadings, noise = rng.standard_normal(4), rng.standard_normal((4, 2)), rng.uniform(1, 2, 4)
    model = LinearGaussian(mean, loadings, noise)
    before = dense_covariance(model)
    for array in (mean, loadings, noise):
        array[...] = np.nan  # can still be written to, and is nobody's business any more
    assert_array_equal(dense_covariance(model), before)
    assert np.isfinite(model.mean).all()


def test_sizes_are_those_of_the_loadings(model):
    assert (model.n_features, model.n_components) == model.loadings.shape


def test_covariance_is_that_of_signal_plus_noise(model):
    assert_allclose(model.covariance.dense(), dense_covariance(model), **NEAR)


@pytest.mark.parametrize("features", [[2], [5, 0, 3], [6, 5, 4, 3, 2, 1, 0]])
def test_restrict_takes_the_margin_in_the_order_asked_for(model, features):
    part = model.restrict(np.array(features))
    assert_array_equal(part.mean, model.mean[features])
    assert_allclose(dense_covariance(part), dense_covariance(model)[np.ix_(features, features)], **NEAR)


def test_rotating_the_latent_axes_changes_no_observable(model, rng):
    rotated = model.rotate(random_rotation(rng, model.n_components))
    assert np.abs(rotated.loadings - model.loadings).max() > 0.1
    assert_allclose(dense_covariance(rotated), dense_covariance(model), **NEAR)
    assert_array_equal(rotated.mean, model.mean)


def latent_of_any_kind(rng, q):
    return Gaussian(rng.standard_normal(q), random_covariance(rng, q))


def test_whitening_keeps_the_distribution_of_rows(model, rng):
    latent = latent_of_any_kind(rng, model.n_components)
    told = model.whiten(latent)
    W, noise = model.loadings, np.diag(np.broadcast_to(model.noise_variance, model.mean.shape))
    assert_allclose(told.mean, model.mean + W @ latent.mean, **NEAR)
    assert_allclose(dense_covariance(told), W @ latent.covariance @ W.T + noise, **NEAR)
    z = rng.multivariate_normal(latent.mean, latent.covariance, size=20_000)
    rows = z @ W.T + model.mean + rng.standard_normal((20_000, 7)) * np.sqrt(model.noise_variance)
    assert_moments_match(rows, told.mean, dense_covariance(told))


def test_whitening_multiplies_by_the_root_of_the_covariance_not_by_its_inverse(model, rng):
    # Q = E Lam E', z' = Lam^{-1/2} E' z: then W' = W E Lam^{1/2}, and not W Lam^{-1/2} E'.
    latent = latent_of_any_kind(rng, model.n_components)
    values, vectors = np.linalg.eigh(latent.covariance)
    signal = model.loadings @ latent.covariance @ model.loadings.T
    right = model.loadings @ vectors * np.sqrt(values)
    wrong = model.loadings / np.sqrt(values) @ vectors.T
    told = model.whiten(latent).loadings
    assert_allclose(told @ told.T, right @ right.T, **NEAR)
    assert_allclose(right @ right.T, signal, **NEAR)
    assert np.abs(wrong @ wrong.T - signal).max() > 0.1


def test_whitening_a_standard_normal_changes_nothing(model):
    q = model.n_components
    told = model.whiten(Gaussian(np.zeros(q), np.eye(q)))
    assert_allclose(told.loadings, model.loadings, **NEAR)
    assert_allclose(told.mean, model.mean, **NEAR)


@pytest.mark.parametrize("shape", [(7, 3), (4, 4), (3, 5)])
def test_principal_loadings_are_orthogonal_sorted_and_signed(rng, shape):
    model = random_model(rng, *shape)
    told = model.principal()
    gram = told.loadings.T @ told.loadings
    strength = np.sqrt(np.diag(gram))
    r = min(shape)
    assert_allclose(dense_covariance(told), dense_covariance(model), **NEAR)
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    assert (np.diff(strength) <= 1e-12).all()
    assert_allclose(strength[:r], np.linalg.svd(model.loadings, compute_uv=False)[:r], rtol=1e-12)
    assert (told.loadings.max(axis=0) >= -told.loadings.min(axis=0) - 1e-12).all()


def test_principal_axes_do_not_depend_on_the_rotation_before(model, rng):
    rotated = model.rotate(random_rotation(rng, model.n_components))
    assert_allclose(rotated.principal().loadings, model.principal().loadings, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(7, 3), (4, 4), (3, 5)])
def test_canonical_loadings_are_orthogonal_in_units_of_the_noise_sorted_and_signed(rng, shape):
    model = random_model(rng, *shape, noise="diagonal")
    told = model.canonical()
    white = told.loadings / np.sqrt(told.noise_variance)[:, None]
    gram = white.T @ white
    assert_allclose(dense_covariance(told), dense_covariance(model), **NEAR)
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10 * gram.max())
    assert (np.diff(np.diag(gram)) <= 1e-10 * gram.max()).all()
    standardised = told.loadings / np.sqrt(np.diag(dense_covariance(told)))[:, None]
    assert (standardised.max(axis=0) >= -standardised.min(axis=0) - 1e-12).all()
    assert_allclose(model.loadings @ model.canonical_rotation, told.loadings, **NEAR)


def test_canonical_loadings_do_not_depend_on_the_rotation_before(model, rng):
    rotated = model.rotate(random_rotation(rng, model.n_components))
    assert_allclose(rotated.canonical().loadings, model.canonical().loadings, rtol=1e-9, atol=1e-12)


def test_canonical_loadings_keep_their_axes_in_other_units(rng):
    model = random_model(rng, noise="diagonal")
    scale = rng.uniform(1e-3, 1e3, size=model.n_features)
    assert_allclose(model.rescale(scale).canonical().loadings, model.canonical().rescale(scale).loadings, rtol=1e-9)


def test_with_one_noise_variance_canonical_axes_are_principal_axes(rng):
    model = random_model(rng, noise=0.3)
    assert_array_equal(model.canonical().loadings, model.principal().loadings)
    each = LinearGaussian(model.mean, model.loadings, np.full(model.n_features, 0.3))
    signs = np.sign((each.canonical().loadings * model.principal().loadings).sum(axis=0))
    assert_allclose(each.canonical().loadings * signs, model.principal().loadings, **NEAR)


def test_a_factor_without_loadings_has_no_sign(rng):
    loadings = np.column_stack([rng.standard_normal(5), np.zeros(5)])
    model = LinearGaussian(np.zeros(5), loadings, rng.uniform(1, 2, 5))
    assert_allclose(dense_covariance(model.canonical()), dense_covariance(model), **NEAR)


@pytest.mark.parametrize("kind", ["one", "each"])
def test_units_move_the_log_likelihood_by_their_logarithm(model, rng, kind):
    scale = np.asarray(0.01) if kind == "one" else rng.uniform(1e-3, 1e3, size=model.n_features)
    x = rng.standard_normal((5, model.n_features))
    shift = np.log(np.broadcast_to(scale, (model.n_features,))).sum()
    told = model.rescale(scale)
    assert_allclose(log_likelihood(told, scale * x) + shift, dense_log_likelihood(model, x), rtol=1e-9)
    assert_allclose(dense_covariance(told), dense_covariance(model) * np.outer(*[scale * np.ones(7)] * 2), **NEAR)
    assert told.noise_variance.ndim == max(np.ndim(scale), model.noise_variance.ndim)


def test_one_noise_variance_keeps_the_total_variance(model):
    told = model.isotropic()
    assert told.noise_variance.shape == ()
    assert_array_equal(told.loadings, model.loadings)
    assert_allclose(np.trace(dense_covariance(told)), np.trace(dense_covariance(model)), rtol=1e-12)
