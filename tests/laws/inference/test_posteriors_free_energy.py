"""The bound touches the log-likelihood at the posterior, and lies below by the divergence elsewhere."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import dense_log_likelihood, kl_divergence, random_covariance, random_model
from probpca.inference import free_energy, log_likelihood, posterior
from probpca.models import Gaussian, LinearGaussian

NEAR = {"rtol": 1e-9}


@pytest.fixture(params=[(7, 3), (3, 5)], ids=["tall", "wide"])
def shape(request):
    return request.param


@pytest.fixture
def x(rng, model):
    return rng.standard_normal((6, model.n_features))


@pytest.fixture
def belief(rng, model):
    """Something else than the posterior, for each row."""
    q = model.n_components
    return Gaussian(rng.standard_normal((6, q)), np.stack([random_covariance(rng, q) for _ in range(6)]))


def test_it_equals_the_log_likelihood_at_the_posterior(model, x):
    assert_allclose(free_energy(model, x, posterior(model, x)), dense_log_likelihood(model, x), **NEAR)


def test_any_other_belief_loses_its_divergence_from_the_posterior(model, x, belief):
    exact = posterior(model, x)
    lost = [
        kl_divergence(Gaussian(belief.mean[i], belief.covariance[i]), Gaussian(exact.mean[i], exact.covariance[i]))
        for i in range(6)
    ]
    assert min(lost) > 0.01
    assert_allclose(free_energy(model, x, belief), log_likelihood(model, x) - lost, **NEAR)


def test_it_equals_an_average_over_the_belief(rng):
    # One latent: the expectation of log p(x, z) - log Q(z), by quadrature.
    model = random_model(rng, d=4, q=1)
    x, m, v = rng.standard_normal((1, 4)), 0.7, 0.3
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    z = m + np.sqrt(v) * nodes
    errors = x - model.mean - z[:, None] * model.loadings.T
    joint = -0.5 * (errors**2 / 0.3 + np.log(2 * np.pi * 0.3)).sum(axis=1) - 0.5 * (z**2 + np.log(2 * np.pi))
    own = -0.5 * (nodes**2 + np.log(2 * np.pi * v))
    expected = (joint - own) @ weights / np.sqrt(2 * np.pi)
    assert_allclose(free_energy(model, x, Gaussian([[m]], [[[v]]])), [expected], **NEAR)


def test_the_kind_of_rows_does_not_matter(model, x, belief):
    expected = free_energy(model, x, belief)
    assert_allclose(free_energy(model, sparse.csr_array(x), belief), expected, rtol=1e-12)
    assert_allclose(free_energy(model, x.tolist(), belief), expected, rtol=1e-12)


def test_without_signal_it_is_the_noise_less_the_divergence_from_the_prior(rng, belief):
    q = belief.mean.shape[1]
    model = LinearGaussian(np.zeros(4), np.zeros((4, q)), 0.5)
    x = rng.standard_normal((6, 4))
    prior = Gaussian(np.zeros(q), np.eye(q))
    lost = [kl_divergence(Gaussian(belief.mean[i], belief.covariance[i]), prior) for i in range(6)]
    assert_allclose(free_energy(model, x, belief), dense_log_likelihood(model, x) - lost, **NEAR)
