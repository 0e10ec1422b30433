"""Formulas that circulate with a slip in them: the right form holds, the printed one does not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from oracles import dense_covariance, random_model
from probpca.inference import free_energy, joint, log_likelihood, outliers, posterior
from probpca.models import Gaussian, LinearGaussian

N, D, Q, SIGMA2 = 60, 7, 3, 0.3


@pytest.fixture
def model(rng):
    return LinearGaussian(np.zeros(D), random_model(rng, D, Q).loadings, SIGMA2)


@pytest.fixture(name="Y")
def rows(rng):
    return 2 * rng.standard_normal((N, D))


@pytest.fixture(name="W")
def loadings(model):
    return model.loadings


@pytest.fixture(name="C")
def covariance(model):
    return dense_covariance(model)


def test_the_trace_of_the_objective_already_sums_over_rows(model, Y, C):
    total = -multivariate_normal(cov=C).logpdf(Y).sum()
    trace = np.trace(Y @ np.linalg.inv(C) @ Y.T)
    constant = D * np.log(2 * np.pi) + np.linalg.slogdet(C)[1]
    right = 0.5 * N * constant + 0.5 * trace
    with_covariance = 0.5 * N * (constant + np.trace(np.linalg.inv(C) @ Y.T @ Y / N))
    printed = 0.5 * N * (constant + trace)
    assert_allclose([right, with_covariance, -log_likelihood(model, Y).sum()], total, rtol=1e-10)
    assert printed > 2 * total


def test_the_normalising_constant_has_the_power_of_the_dimension(model, Y, C):
    density = (2 * np.pi) ** (-D / 2) / np.sqrt(np.linalg.det(C)) * np.exp(-0.5 * Y[0] @ np.linalg.inv(C) @ Y[0])
    assert_allclose(log_likelihood(model, Y[0]), np.log(density), rtol=1e-10)
    assert abs(log_likelihood(model, Y[0]).item() - np.log(density * (2 * np.pi) ** (D / 2 - 0.5))) > 1


def test_products_conform_with_one_row_per_sample(model, Y, W, C):
    # For Y of n rows and d columns: tr(Y K Y') with K (d, d), scores Y W, scatter Y'Y.
    K = np.linalg.inv(C)
    assert_allclose(np.trace(Y @ K @ Y.T), np.trace(K @ Y.T @ Y), rtol=1e-12)
    assert (Y @ W).shape == posterior(model, Y).mean.shape == (N, Q)
    for printed in (lambda: Y.T @ K @ Y, lambda: Y.T @ W, lambda: K @ (Y @ Y.T)):
        with pytest.raises(ValueError, match="mismatch"):
            printed()


def test_the_inversion_lemma_inverts_the_small_matrix_too(model, W, C):
    small = np.eye(Q) + W.T @ W / SIGMA2
    right = np.eye(D) / SIGMA2 - W @ np.linalg.inv(small) @ W.T / SIGMA2**2
    printed = np.eye(D) / SIGMA2 - W @ small @ W.T / SIGMA2**2
    assert_allclose(right @ C, np.eye(D), atol=1e-10)
    assert_allclose(model.covariance.dense_inverse(), right, atol=1e-10)
    assert np.abs(printed @ C - np.eye(D)).max() > 1


def test_the_small_matrix_inverted_is_the_posterior_covariance(model, Y, W):
    small = np.eye(Q) + W.T @ W / SIGMA2
    assert_allclose(posterior(model, Y).covariance[0], np.linalg.inv(small), atol=1e-12)


def test_the_entropy_enters_the_free_energy_with_a_plus(model, Y, W):
    belief = posterior(model, Y)
    P = belief.covariance[0]
    second = belief.mean.T @ belief.mean + N * P  # sum of E[z z']
    errors = np.square(Y - belief.mean @ W.T).sum() + N * np.trace(W @ P @ W.T)
    data = -0.5 * (N * D * np.log(2 * np.pi * SIGMA2) + errors / SIGMA2)
    prior = -0.5 * (N * Q * np.log(2 * np.pi) + np.trace(second))
    entropy = 0.5 * N * np.linalg.slogdet(2 * np.pi * np.e * P)[1]
    total = log_likelihood(model, Y).sum()
    assert_allclose(data + prior + entropy, total, rtol=1e-10)
    assert_allclose(free_energy(model, Y, belief).sum(), total, rtol=1e-10)
    assert abs(data + prior - entropy - total) > 10


def test_both_forms_of_the_posterior_agree_and_are_no_other_covariance(model, Y, W, C):
    inverse, M = np.linalg.inv(C), W.T @ W + SIGMA2 * np.eye(Q)
    belief = posterior(model, Y)
    assert_allclose(belief.mean, Y @ inverse @ W, atol=1e-10)
    assert_allclose(belief.mean, Y @ W @ np.linalg.inv(M), atol=1e-10)
    P = belief.covariance[0]
    assert_allclose(P, np.eye(Q) - W.T @ inverse @ W, atol=1e-10)
    assert_allclose(P, SIGMA2 * np.linalg.inv(M), atol=1e-10)
    codes = np.linalg.inv(M) @ W.T @ C @ W @ np.linalg.inv(M)  # Cov(m) over rows of the model
    assert_allclose(codes, np.eye(Q) - P, atol=1e-10)
    for other in (codes, joint(model).covariance[D:, D:]):
        assert np.abs(P - other).max() > 0.1


def test_the_posterior_covariance_says_nothing_about_outliers(model, Y):
    wild = np.vstack([Y[:1], 1e6 * Y[:1]])
    belief, found = posterior(model, wild), outliers(model, wild)
    assert_allclose(belief.covariance[1], belief.covariance[0], rtol=0)
    assert found.p_value[1] == 0.0
    assert found.log10_p_value[1] < -1e6
    assert found.distance[1] > 1e11 * found.distance[0]


def test_whitened_latents_multiply_the_loadings_by_the_root(model, W, rng):
    latent = Gaussian(np.zeros(Q), np.cov(rng.standard_normal((Q, 20)) * [[1.0], [3.0], [9.0]]))
    values, vectors = np.linalg.eigh(latent.covariance)
    told = model.whiten(latent).covariance.dense()
    signal = told - SIGMA2 * np.eye(D)
    right, printed = W @ vectors * np.sqrt(values), W / np.sqrt(values) @ vectors.T
    assert_allclose(right @ right.T, signal, atol=1e-10)
    assert np.abs(printed @ printed.T - signal).max() > 1
