"""Questions to a mixture, answered by dense Gaussians cluster by cluster."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm

from oracles import (
    assert_moments_match,
    assert_within_errors,
    dense_condition,
    dense_covariance,
    dense_observed_log_likelihood,
    dense_observed_posterior,
    punched,
    random_model,
)
from probpca import DataError
from probpca.inference import (
    impute,
    impute_mixture,
    log_likelihood,
    mixture_log_likelihood,
    mixture_posterior,
    responsibilities,
    sample_mixture,
)
from probpca.inference.mixture import draw_cells, impute_cells, mixture_quantile, weighted_scores
from probpca.models import Gaussian, LinearGaussian, Mixture

D, Q, K, N = 4, 2, 3, 12


@pytest.fixture(params=[0.3, "diagonal"])
def mixture(rng, request):
    clusters = tuple(random_model(rng, D, Q, noise=request.param, mean=1.0) for _ in range(K))
    return Mixture([0.5, 0.3, 0.2], clusters)


@pytest.fixture(params=[0.0, 0.4])
def x(rng, request):
    x = punched(rng, 2 * rng.standard_normal((N, D)), request.param)
    if request.param:
        x[0] = np.nan
    return x


def dense_joint(mixture, x):
    return np.stack([dense_observed_log_likelihood(c, x) for c in mixture.clusters], axis=1) + np.log(mixture.weights)


def dense_cells(mixture, row):
    """Weights, means and variances of the missing cells of a row in each cluster."""
    seen = np.flatnonzero(~np.isnan(row))
    found = [dense_condition(Gaussian(c.mean, dense_covariance(c)), seen, row[seen]) for c in mixture.clusters]
    joint = dense_joint(mixture, row[None])[0]
    means = np.array([np.ravel(part[0]) for part in found])
    return np.exp(joint - logsumexp(joint)), means, np.array([np.diag(part[1]) for part in found])


def test_densities_and_responsibilities_are_those_of_dense_gaussians(mixture, x):
    joint = dense_joint(mixture, x)
    assert_allclose(mixture_log_likelihood(mixture, x), logsumexp(joint, axis=1), rtol=1e-10, atol=1e-12)
    share = responsibilities(mixture, x)
    assert_allclose(share, np.exp(joint - logsumexp(joint, axis=1, keepdims=True)), atol=1e-10)
    assert_allclose(share.sum(axis=1), 1.0)


def test_a_row_without_cells_has_the_weights_of_the_mixture(mixture):
    nothing = np.full((1, D), np.nan)
    assert_allclose(responsibilities(mixture, nothing)[0], mixture.weights)
    assert mixture_log_likelihood(mixture, nothing)[0] == pytest.approx(0.0, abs=1e-15)
    assert_allclose(impute_mixture(mixture, nothing)[0], mixture.mean)


def test_equal_clusters_are_one_model(rng, x):
    model = random_model(rng, D, Q)
    same = Mixture([0.6, 0.4], (model, model))
    assert_allclose(mixture_log_likelihood(same, x), log_likelihood(model, x), atol=1e-12)
    assert_allclose(impute_mixture(same, x), impute(model, x))
    assert_allclose(same.covariance, dense_covariance(model))


def test_latent_variables_are_those_of_each_cluster(mixture, x):
    found = mixture_posterior(mixture, x)
    for cluster, belief in zip(mixture.clusters, found.clusters, strict=True):
        dense = dense_observed_posterior(cluster, x)
        assert_allclose(belief.mean, dense.mean, atol=1e-10)
        assert_allclose(belief.covariance, dense.covariance, atol=1e-10)
    scores = weighted_scores(mixture, x)
    blocks = [found.responsibilities[:, [k]] * found.clusters[k].mean for k in range(K)]
    assert_allclose(scores, np.hstack(blocks))


def test_missing_cells_are_mixtures_of_dense_conditionals(mixture, rng):
    x = punched(rng, 2 * rng.standard_normal((N, D)), 0.4)
    found = impute_cells(mixture, x)
    assert_array_equal(found.values[~np.isnan(x)], x[~np.isnan(x)])
    low, high = found.interval(0.9)
    for i in np.flatnonzero(np.isnan(x).any(axis=1) & ~np.isnan(x).all(axis=1)):
        weights, means, variances = dense_cells(mixture, x[i])
        missing = np.flatnonzero(np.isnan(x[i]))
        mean = weights @ means
        assert_allclose(found.values[i, missing], mean, rtol=1e-8)
        assert_allclose(found.std[i, missing] ** 2, weights @ (variances + (means - mean) ** 2), rtol=1e-8)
        for j, column in enumerate(missing):
            std = np.sqrt(variances[:, j])
            for p, end in ((0.05, low), (0.95, high)):
                exact = brentq(lambda t: weights @ norm.cdf(t, means[:, j], std) - p, -99, 99, xtol=1e-12)  # noqa: B023
                assert end[i, column] == pytest.approx(exact, abs=1e-8)
    seen = ~np.isnan(x)
    assert_array_equal(low[seen], x[seen])
    assert_array_equal(high[seen], x[seen])
    with pytest.raises(DataError, match="level"):
        found.interval(1.0)


def test_quantiles_of_a_bimodal_cell_lie_in_both_modes():
    weights, means, stds = np.array([[0.5], [0.5]]), np.array([[-10.0], [10.0]]), np.ones((2, 1))
    assert mixture_quantile(0.25, weights, means, stds)[0] == pytest.approx(-10.0, abs=1e-9)
    assert mixture_quantile(0.75, weights, means, stds)[0] == pytest.approx(10.0, abs=1e-9)
    unknown = np.array([[np.inf], [1.0]])
    assert mixture_quantile(0.25, weights, means, unknown)[0] == -np.inf
    assert mixture_quantile(0.75, weights, means, unknown)[0] == np.inf


def test_samples_have_the_moments_of_the_mixture(mixture, rng):
    rows, labels = sample_mixture(mixture, 20_000, rng=rng)
    errors = np.sqrt(mixture.weights * (1 - mixture.weights) / len(rows))
    assert_within_errors(np.bincount(labels) / len(rows), mixture.weights, errors)
    for k, cluster in enumerate(mixture.clusters):
        assert_moments_match(rows[labels == k], cluster.mean, dense_covariance(cluster))
    assert_allclose(rows.mean(axis=0), mixture.mean, atol=0.1)
    assert_allclose(np.cov(rows.T), mixture.covariance, atol=0.3)


def test_drawn_cells_have_the_moments_of_their_distribution(mixture, rng):
    row = np.array([0.3, np.nan, -0.5, np.nan])
    weights, means, variances = dense_cells(mixture, row)
    drawn = draw_cells(mixture, np.tile(row, (20_000, 1)), rng=rng)
    assert_array_equal(drawn[:, [0, 2]], np.tile(row[[0, 2]], (20_000, 1)))
    mean = weights @ means
    variance = weights @ (variances + (means - mean) ** 2)
    assert_within_errors(drawn[:, [1, 3]].mean(axis=0), mean, np.sqrt(variance / 20_000))
    assert_allclose(drawn[:, [1, 3]].var(axis=0), variance, rtol=0.1)
    complete = rng.standard_normal((3, D))
    assert_array_equal(draw_cells(mixture, complete, rng=rng), complete)


def test_tables_of_posteriors_have_a_line_for_every_row(mixture, x):
    found = mixture_posterior(mixture, x)
    frame = found.to_frame()
    assert len(frame) == N
    assert_allclose(frame["C1"], found.responsibilities[:, 1])
    assert_allclose(frame["C2_x1"], found.clusters[2].mean[:, 1])
    assert "Most probable cluster" in str(found)


def test_a_single_feature_model_works_at_any_size():
    one = Mixture(np.ones(1), (LinearGaussian(np.zeros(1), np.ones((1, 1)), 1.0),))
    assert mixture_log_likelihood(one, [[0.0]])[0] == pytest.approx(norm.logpdf(0, 0, np.sqrt(2)))
