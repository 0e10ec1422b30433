"""A belief told in other words is the same belief: packed, turned, scaled, thinned out."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import dense_covariance, random_covariance, random_model, random_rotation
from probpca import DataError, ShapeError
from probpca.linalg.packed import pack, packed_size, unpack
from probpca.models import LinearGaussian, ParameterBelief

D, Q = 6, 3


def belief_of(rng, *, shared=False, q=Q, noise=0.3):
    spread = np.stack([random_covariance(rng, q + 1) for _ in range(1 if shared else D)])
    return ParameterBelief(random_model(rng, D, q, noise=noise), pack(spread), rng.uniform(0.2, 3.0, q))


@pytest.fixture(params=[False, True], ids=["each its own", "shared"])
def belief(request, rng):
    return belief_of(rng, shared=request.param)


def covariances(belief):
    """Sigma_j of every feature: (d, q + 1, q + 1)."""
    size = belief.n_components + 1
    return np.broadcast_to(unpack(belief.covariance), (D, size, size))


def parameters(belief):
    """Means of [w_j; mu_j]: (d, q + 1)."""
    return np.column_stack([belief.centre.loadings, belief.centre.mean])


def unseen(belief, feature=2):
    """Nothing is known of one feature."""
    return replace(belief, covariance=np.where(np.arange(D) == feature, 0.0, belief.covariance))


# What it takes


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"covariance": np.ones((packed_size(Q), D))}, ShapeError, "covariance"),
        ({"covariance": np.ones((packed_size(Q + 1), D - 1))}, ShapeError, "covariance"),
        ({"covariance": np.ones(packed_size(Q + 1))}, ShapeError, "covariance"),
        ({"covariance": np.full((packed_size(Q + 1), D), np.nan)}, DataError, "covariance must be finite"),
        ({"covariance": np.full((packed_size(Q + 1), 1), np.inf)}, DataError, "covariance must be finite"),
        ({"precision": np.ones(Q + 1)}, ShapeError, "precision"),
        ({"precision": np.float64(1.0)}, ShapeError, "precision"),
        ({"precision": np.zeros(Q)}, DataError, "precision must be"),
        ({"precision": -np.ones(Q)}, DataError, "precision must be"),
        ({"precision": np.full(Q, np.nan)}, DataError, "precision must be"),
    ],
)
def test_what_is_no_belief_is_refused_by_name(belief, wrong, error, message):
    with pytest.raises(error, match=message):
        replace(belief, **wrong)


def test_a_belief_cannot_be_changed(belief):
    with pytest.raises(FrozenInstanceError):
        belief.precision = np.ones(Q)


# What it says


def test_energy_is_the_expected_square_of_the_loadings_and_doubt_its_variance(belief):
    spread = covariances(belief)[:, :Q, :Q]
    assert belief.n_components == Q
    assert_allclose(belief.summed_covariance, spread.sum(axis=0), rtol=1e-12)
    assert_allclose(belief.loading_variance, np.einsum("jkk->k", spread), rtol=1e-12)
    squares = belief.centre.loadings**2 + np.einsum("jkk->jk", spread)
    assert_allclose(belief.energy, squares.sum(axis=0), rtol=1e-12)


def test_variances_are_those_of_each_parameter(belief):
    wanted = np.einsum("jkk->kj", covariances(belief))
    assert belief.variances.shape == (Q + 1, belief.covariance.shape[1])
    assert_array_equal(np.broadcast_to(belief.variances, (Q + 1, D)), wanted)


def test_features_that_were_never_seen_are_not_counted(rng):
    belief = belief_of(rng)
    assert belief.n_known == D
    assert belief_of(rng, shared=True).n_known == D
    assert unseen(belief).n_known == D - 1


def test_best_precisions_are_one_over_the_mean_squared_loading(belief):
    found = belief.with_best_precision()
    assert_allclose(found.precision, D / belief.energy, rtol=1e-12)
    assert found.centre is belief.centre
    assert np.array_equal(found.covariance, belief.covariance)
    few = unseen(belief_of(np.random.default_rng(0)))
    assert_allclose(few.with_best_precision().precision, (D - 1) / few.energy, rtol=1e-12)


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
def test_the_predictive_counts_doubt_as_noise(rng, noise):
    for shared in (False, True):
        belief = belief_of(rng, shared=shared, noise=noise)
        found = belief.predictive()
        extra = np.einsum("jkk->j", covariances(belief))
        assert_allclose(found.noise_variance + np.zeros(D), belief.centre.noise_variance + extra, rtol=1e-12)
        assert_array_equal(found.loadings, belief.centre.loadings)
        assert_array_equal(found.mean, belief.centre.mean)
        assert found.noise_variance.shape == (() if shared and noise != "diagonal" else (D,))


# The same in other words


def test_turning_is_a_product_of_parameters_with_a_basis(rng, belief):
    basis = np.eye(Q + 1)
    basis[:Q] = rng.standard_normal((Q, Q + 1))
    found = belief.turned(basis)
    assert_allclose(parameters(found), parameters(belief) @ basis, rtol=1e-10, atol=1e-12)
    assert_allclose(covariances(found), basis.T @ covariances(belief) @ basis, rtol=1e-10, atol=1e-12)
    assert found.covariance.shape == belief.covariance.shape
    assert_allclose(found.precision, D / found.energy, rtol=1e-12)
    assert found.centre.noise_variance == belief.centre.noise_variance


def test_turning_back_gives_the_same_belief(rng, belief):
    basis = np.eye(Q + 1)
    basis[:Q] = rng.standard_normal((Q, Q + 1))
    back = belief.turned(basis).turned(np.linalg.inv(basis))
    assert_allclose(parameters(back), parameters(belief), atol=1e-9)
    assert_allclose(covariances(back), covariances(belief), atol=1e-9)


def test_a_rotation_changes_no_prediction(rng, belief):
    basis = np.eye(Q + 1)
    basis[:Q, :Q] = random_rotation(rng, Q)
    found = belief.turned(basis).predictive()
    assert_allclose(dense_covariance(found), dense_covariance(belief.predictive()), rtol=1e-10)
    assert_allclose(found.mean, belief.centre.mean, rtol=1e-12)


def test_principal_axes_are_those_of_the_mean_loadings(belief):
    found, wanted = belief.principal(), belief.centre.principal()
    assert_allclose(found.centre.loadings, wanted.loadings, atol=1e-12)
    assert_allclose(found.centre.mean, wanted.mean, rtol=1e-12)
    gram = found.centre.loadings.T @ found.centre.loadings
    assert_allclose(gram, np.diag(np.sort(np.diag(gram))[::-1]), atol=1e-10)
    assert_allclose(np.linalg.det(covariances(found)), np.linalg.det(covariances(belief)), rtol=1e-9)
    assert_allclose(dense_covariance(found.predictive()), dense_covariance(belief.predictive()), rtol=1e-9)
    assert_allclose(found.principal().centre.loadings, found.centre.loadings, atol=1e-10)


@pytest.mark.parametrize("components", [[0], [2], [0, 2], [0, 1, 2]])
def test_keeping_some_components_keeps_their_parts_and_the_mean(belief, components):
    found, chosen = belief.keep(np.array(components)), [*components, Q]
    assert_array_equal(parameters(found), parameters(belief)[:, chosen])
    assert_array_equal(covariances(found), covariances(belief)[:, chosen][:, :, chosen])
    assert_array_equal(found.precision, belief.precision[components])
    assert found.centre.noise_variance == belief.centre.noise_variance


def test_a_muted_belief_has_no_loadings_and_is_sure_of_it(belief):
    found = belief.muted()
    assert_array_equal(found.centre.loadings, 0)
    assert_array_equal(found.centre.mean, belief.centre.mean)
    wanted = np.zeros((D, Q + 1, Q + 1))
    wanted[:, range(Q), range(Q)] = 1e-12 * belief.centre.noise_variance
    wanted[:, Q, Q] = covariances(belief)[:, Q, Q]
    assert_allclose(covariances(found), wanted, rtol=1e-12)
    assert_allclose(found.precision, found.with_best_precision().precision, rtol=1e-12)


def test_muting_leaves_features_that_were_never_seen_without_spread(rng):
    found = unseen(belief_of(rng)).muted()
    assert_array_equal(found.covariance[:, 2], 0)
    assert found.n_known == D - 1


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
@pytest.mark.parametrize("shared", [False, True])
def test_rescaling_is_a_change_of_units(rng, noise, shared):
    belief, scale = belief_of(rng, shared=shared, noise=noise), rng.uniform(0.1, 10, D)
    found = belief.rescale(scale)
    assert_allclose(parameters(found), parameters(belief) * scale[:, None], rtol=1e-12)
    assert_allclose(covariances(found), covariances(belief) * scale[:, None, None] ** 2, rtol=1e-12)
    assert_allclose(found.centre.noise_variance, belief.centre.noise_variance * scale**2, rtol=1e-12)
    assert_allclose(found.precision, D / found.energy, rtol=1e-12)
    wanted = dense_covariance(belief.predictive()) * np.outer(scale, scale)
    assert_allclose(dense_covariance(found.predictive()), wanted, rtol=1e-10)


def test_a_belief_in_one_component_is_a_belief(rng):
    belief = belief_of(rng, q=1)
    assert belief.loading_variance.shape == belief.energy.shape == belief.precision.shape == (1,)
    assert isinstance(belief.principal().centre, LinearGaussian)
    assert_allclose(np.abs(belief.principal().centre.loadings), np.abs(belief.centre.loadings), rtol=1e-12)
