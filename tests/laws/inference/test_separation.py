"""Axes that separate the clusters of a mixture are those of Fisher's discriminant analysis."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh

from probpca.inference import impute_mixture
from probpca.inference.separation import column_axes, separating_axes
from probpca.models import LinearGaussian, Mixture


def mixture(rng, K, d, q, *, shared=False, apart=2.0):
    weights = rng.dirichlet(np.full(K, 5.0))
    clusters = [
        LinearGaussian(
            apart * rng.standard_normal(d), rng.standard_normal((d, q)), 0.5 if shared else rng.uniform(0.2, 2.0, d)
        )
        for _ in range(K)
    ]
    return Mixture(weights, tuple(clusters))


def scatter(found):
    """Covariances between and within clusters, dense: (d, d) each."""
    shift = found.means - found.mean
    between = (found.weights[:, None] * shift).T @ shift
    return between, np.einsum("k,kij->ij", found.weights, found.cluster_covariances)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("K", "d", "q"), [(3, 6, 1), (4, 5, 3), (3, 40, 2)])
def test_axes_are_those_of_the_dense_problem(K, d, q, shared):
    found = mixture(np.random.default_rng(K + d), K, d, q, shared=shared)
    axes = separating_axes(found)
    between, within = scatter(found)
    ratio, vectors = eigh(between, within)
    ratio, vectors = ratio[::-1], vectors[:, ::-1]
    assert_allclose(np.abs(axes.directions.T @ within @ vectors[:, :2]), np.eye(2), atol=1e-8)
    assert_allclose(axes.share, ratio[:2] / ratio[: K - 1].sum())
    V = axes.directions
    assert_allclose(axes.centre, (found.means - found.mean) @ V)
    assert_allclose(axes.covariance, V.T @ found.cluster_covariances @ V)
    joint = V.T @ found.covariance @ V
    std = np.outer(np.sqrt(np.diag(found.covariance)), np.sqrt(np.diag(joint)))
    assert_allclose(axes.correlation, found.covariance @ V / std, atol=1e-10)
    assert (axes.correlation[np.abs(axes.correlation).argmax(axis=0), [0, 1]] > 0).all()


@pytest.mark.parametrize("K", [1, 2])
def test_axes_that_separate_nothing_have_the_largest_spread_within_clusters(K):
    found = mixture(np.random.default_rng(K), K, 5, 2)
    axes = separating_axes(found)
    between, within = scatter(found)
    assert_allclose(axes.share, [1.0, 0.0] if K == 2 else [0.0, 0.0])
    V = axes.directions
    assert_allclose(V.T @ within @ V, np.eye(2), atol=1e-10)
    assert_allclose(V[:, 1] @ between @ V[:, 1], 0, atol=1e-10)
    noise, j = found.weights @ found.noise_variance, K - 1

    def spread(v):
        return (v @ within @ v) / (v @ (noise * v))

    for other in np.random.default_rng(0).standard_normal((200, 5)):
        free = other - V[:, :j] @ (V[:, :j].T @ within @ other)  # not correlated with the axes that separate
        assert spread(free) <= spread(V[:, j]) * (1 + 1e-9)


def test_scores_do_not_depend_on_the_units():
    rng = np.random.default_rng(5)
    found, x, scale = mixture(rng, 3, 6, 2), rng.standard_normal((20, 6)), np.geomspace(1e-6, 1e6, 6)
    x[rng.random(x.shape) < 0.3] = np.nan
    rescaled = found.rescale(scale)
    expected = separating_axes(found).scores(found, x)
    assert_allclose(separating_axes(rescaled).scores(rescaled, x * scale), expected, rtol=1e-6, atol=1e-6)


def test_scores_are_those_of_completed_rows():
    rng = np.random.default_rng(6)
    found, x = mixture(rng, 3, 6, 2), rng.standard_normal((20, 6))
    x[rng.random(x.shape) < 0.3] = np.nan
    x[3] = np.nan
    axes = separating_axes(found)
    assert_allclose(axes.scores(found, x), axes.scores(found, impute_mixture(found, x)))
    assert_allclose(axes.scores(found, x)[3], 0, atol=1e-12)


def test_a_model_with_one_direction_has_a_second_axis_all_the_same():
    found = Mixture([1.0], (LinearGaussian(np.zeros(3), [[1.0], [1.0], [0.0]], 0.5),))
    axes = separating_axes(found)
    assert_allclose(axes.directions.T @ found.covariance @ axes.directions, np.eye(2), atol=1e-12)


def test_columns_are_axes_in_their_own_units():
    rng = np.random.default_rng(7)
    found, x = mixture(rng, 2, 4, 1), rng.standard_normal((9, 4))
    axes = column_axes(found, np.array([3, 1]))
    assert_allclose(axes.scores(found, x), x[:, [3, 1]])
    assert_allclose(axes.centre, found.means[:, [3, 1]])
    assert_allclose(axes.covariance, found.cluster_covariances[:, [3, 1]][:, :, [3, 1]])
