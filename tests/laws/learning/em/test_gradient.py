"""The gradient is that of the likelihood, and following it ends at the closed form."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import closed_form_oracle, dense_covariance, dense_log_likelihood, random_model, spiked_rows
from probpca.inference import posterior
from probpca.learning import Settings, Status, fit_ppca, value_and_gradient
from probpca.learning.em.m_step import EM
from probpca.sources import open_source

N, D, Q = 60, 7, 3


@pytest.fixture
def x(rng):
    return spiked_rows(rng, N, D, Q)


@pytest.fixture(params=[0.3, "diagonal"])
def model(rng, request):
    return random_model(rng, D, Q, noise=request.param)


def central_difference(function, array, h=1e-6):
    slope = np.empty(array.shape)
    for index in np.ndindex(*array.shape):
        step = np.zeros(array.shape)
        step[index] = h
        slope[index] = (function(array + step) - function(array - step)) / (2 * h)
    return slope


def total(model, x):
    return dense_log_likelihood(model, x).sum()


def test_the_value_is_the_log_likelihood(model, x):
    assert_allclose(value_and_gradient(model, open_source(x))[0], total(model, x), rtol=1e-12)


def test_the_gradient_equals_central_differences(model, x):
    _, gradient = value_and_gradient(model, open_source(x))
    log_noise = np.log(model.noise_variance)
    slopes = {
        "loadings": central_difference(lambda W: total(replace(model, loadings=W), x), model.loadings),
        "mean": central_difference(lambda mu: total(replace(model, mean=mu), x), model.mean),
        "log_noise_variance": central_difference(
            lambda v: total(replace(model, noise_variance=np.exp(v)), x), np.asarray(log_noise)
        ),
    }
    for name, slope in slopes.items():
        assert_allclose(getattr(gradient, name), slope, atol=1e-6 * np.abs(slope).max(), err_msg=name)


def test_the_gradient_equals_the_dense_formulas(model, x):
    _, gradient = value_and_gradient(model, open_source(x))
    C_inverse = np.linalg.inv(dense_covariance(model))
    centred = x - model.mean
    inner = C_inverse @ (centred.T @ centred) @ C_inverse - N * C_inverse
    assert_allclose(gradient.loadings, inner @ model.loadings, rtol=1e-8, atol=1e-7)
    assert_allclose(gradient.mean, C_inverse @ centred.sum(axis=0), rtol=1e-8, atol=1e-8)
    by_feature = 0.5 * model.noise_variance * np.diag(inner)
    shared = model.noise_variance.ndim == 0
    assert_allclose(gradient.log_noise_variance, by_feature.sum() if shared else by_feature, rtol=1e-8, atol=1e-8)


def element_by_element(model, x, last):
    """dA/dW_ij = Tr(Y'Y (-C^-1 (J W' + W J') last)), A = Tr(Y C^-1 Y'), J the unit matrix of (i, j)."""
    W, C_inverse = model.loadings, np.linalg.inv(dense_covariance(model))
    YY = (x - model.mean).T @ (x - model.mean)
    slope = np.empty(W.shape)
    for i, j in np.ndindex(*W.shape):
        J = np.zeros(W.shape)
        J[i, j] = 1.0
        slope[i, j] = np.trace(YY @ -C_inverse @ (J @ W.T + W @ J.T) @ last)
    return slope


def test_the_trace_formula_ends_in_the_inverse_covariance(model, x):
    C = dense_covariance(model)
    _, gradient = value_and_gradient(model, open_source(x))
    logdet = N * np.linalg.solve(C, model.loadings)  # of N/2 log|C|
    right = -0.5 * element_by_element(model, x, np.linalg.inv(C)) - logdet
    wrong = -0.5 * element_by_element(model, x, C) - logdet
    assert_allclose(gradient.loadings, right, rtol=1e-8, atol=1e-7)
    assert np.abs(gradient.loadings - wrong).max() > 0.1 * np.abs(gradient.loadings).max()


def test_the_gradient_is_zero_at_the_closed_form(x):
    model = closed_form_oracle(x, Q).model
    _, gradient = value_and_gradient(model, open_source(x))
    assert np.abs(gradient.loadings).max() < 1e-9 * N
    assert np.abs(gradient.mean).max() < 1e-9 * N
    assert abs(gradient.log_noise_variance) < 1e-9 * N * D


def test_an_em_step_is_a_scaled_gradient_step(model, x):
    model = replace(model, mean=x.mean(axis=0))
    source = open_source(x)
    _, gradient = value_and_gradient(model, source)
    following, _ = EM(1e-300, expand=False).step(model, source)
    belief = posterior(model, x)
    second = belief.mean.T @ belief.mean + belief.covariance.sum(axis=0)  # sum E[zz']
    step = np.broadcast_to(model.noise_variance, D)[:, None] * gradient.loadings @ np.linalg.inv(second)
    assert_allclose(following.loadings - model.loadings, step, rtol=1e-8, atol=1e-10)


def test_weights_multiply_rows(model, x, rng):
    times = rng.integers(0, 4, N)
    weighted = value_and_gradient(model, open_source(x, weight=times))
    repeated = value_and_gradient(model, open_source(np.repeat(x, times, axis=0)))
    assert_allclose(weighted[0], repeated[0], rtol=1e-12)
    assert_allclose(weighted[1].loadings, repeated[1].loadings, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("n", "d", "q"), [(60, 7, 3), (15, 30, 4), (300, 12, 1)])
def test_ascent_ends_at_the_closed_form(rng, n, d, q):
    x = spiked_rows(rng, n, d, q)
    found = fit_ppca(open_source(x), q, Settings("gradient", 1e-9, 5000), np.random.default_rng(1))
    wanted = closed_form_oracle(x, q)
    assert found.status is Status.CONVERGED
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-6 * n)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=1e-2)
