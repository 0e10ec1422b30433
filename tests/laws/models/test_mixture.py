"""The parameters of a mixture: checked once, frozen, and the same model in other units and orders."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import dense_covariance, random_model, random_rotation
from probpca import DataError, FileFormatError, ShapeError
from probpca.inference import mixture_log_likelihood
from probpca.models import Mixture, load_model, save_model

D, Q = 5, 2


@pytest.fixture(params=[0.4, "diagonal"])
def mixture(rng, request):
    return Mixture([0.7, 0.3], tuple(random_model(rng, D, Q, noise=request.param) for _ in range(2)))


@pytest.mark.parametrize("weights", [[0.7, 0.7], [1.0, 0.0], [1.2, -0.2], [np.nan, 1.0]])
def test_weights_that_are_no_probabilities_are_refused(mixture, weights):
    with pytest.raises(DataError, match="weights"):
        Mixture(weights, mixture.clusters)


def test_clusters_of_different_kinds_are_refused(rng, mixture):
    with pytest.raises(ShapeError, match="shape"):
        Mixture([1.0], mixture.clusters)
    with pytest.raises(ShapeError, match="at least one"):
        Mixture([], ())
    with pytest.raises(ShapeError, match="one shape"):
        Mixture([0.5, 0.5], (random_model(rng, D, 1), random_model(rng, D, 2)))


def test_moments_are_those_of_the_law_of_total_variance(mixture):
    within = sum(w * dense_covariance(c) for w, c in zip(mixture.weights, mixture.clusters, strict=True))
    mean = sum(w * c.mean for w, c in zip(mixture.weights, mixture.clusters, strict=True))
    between = sum(
        w * np.outer(c.mean - mean, c.mean - mean) for w, c in zip(mixture.weights, mixture.clusters, strict=True)
    )
    assert_allclose(mixture.mean, mean)
    assert_allclose(mixture.covariance, within + between)


def test_the_same_rows_have_the_same_density_in_every_description(rng, mixture):
    x, scale = rng.standard_normal((6, D)), np.geomspace(0.1, 10, D)
    plain = mixture_log_likelihood(mixture, x)
    assert_allclose(mixture_log_likelihood(mixture.rescale(scale), x * scale), plain - np.log(scale).sum())
    assert_allclose(mixture_log_likelihood(mixture.ordered(np.array([1, 0])), x), plain)
    turned = mixture.rotate([random_rotation(rng, Q) for _ in range(2)])
    assert_allclose(mixture_log_likelihood(turned, x), plain)
    some = np.where(np.arange(D) < 3, x, np.nan)
    assert_allclose(
        mixture_log_likelihood(mixture.restrict(np.arange(3)), x[:, :3]), mixture_log_likelihood(mixture, some)
    )


def test_a_file_holds_the_mixture_to_the_last_bit(mixture, tmp_path):
    save_model(mixture, tmp_path / "mixture.npz")
    back = load_model(tmp_path / "mixture.npz")
    for name in ("weights", "means", "loadings", "noise_variance"):
        assert_array_equal(getattr(back, name), getattr(mixture, name))


def test_a_file_with_weights_that_are_no_probabilities_is_refused(mixture, tmp_path):
    path = tmp_path / "mixture.npz"
    save_model(mixture, path)
    with np.load(path) as stored:
        arrays = dict(stored)
    arrays["cluster_weights"] = np.array([0.7, 0.7])
    np.savez(path, **arrays)
    with pytest.raises(FileFormatError, match="cluster_weights"):
        load_model(path)


def test_explained_is_a_share_of_the_variance_and_does_not_depend_on_units_with_noise_of_each_feature(mixture):
    covariance, signal = mixture.cluster_covariances, np.einsum("kjq,kjq->kj", mixture.loadings, mixture.loadings)
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    if mixture.noise_variance.ndim == 1:
        assert_allclose(mixture.explained, signal.sum(axis=1) / variance.sum(axis=1))
        return
    correlation = covariance / np.sqrt(variance[:, :, None] * variance[:, None])
    standard = mixture.noise_variance / variance
    assert_allclose(
        mixture.explained, [np.trace(c - np.diag(s)) / D for c, s in zip(correlation, standard, strict=True)]
    )
    assert_allclose(mixture.rescale(np.geomspace(1e-3, 1e3, D)).explained, mixture.explained)
