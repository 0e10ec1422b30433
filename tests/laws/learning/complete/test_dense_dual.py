"""The table on its side: coordinates of rows by maximum likelihood, and the primal in the same spectrum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from oracles import closed_form_oracle, spiked_rows
from probpca import ShapeError
from probpca.inference import dual_log_likelihood
from probpca.learning import principal_coordinates


@pytest.fixture(params=[(8, 40), (15, 6)], ids=["wide", "tall"])
def x(request, rng):
    n, d = request.param
    x = spiked_rows(rng, n, d, 3)
    return x - x.mean(axis=0)


def test_the_dual_likelihood_is_that_of_independent_columns(x, rng):
    Z = rng.standard_normal((len(x), 2))
    dense = multivariate_normal(np.zeros(len(x)), 0.7 * Z @ Z.T + 0.3 * np.eye(len(x)))
    assert_allclose(dual_log_likelihood(Z, 0.7, 0.3, x), dense.logpdf(x.T).sum(), rtol=1e-10)


@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_nothing_nearby_is_more_likely(x, rng, alpha):
    best = principal_coordinates(x, 2, alpha=alpha)
    top = dual_log_likelihood(best.latent, alpha, best.noise_variance, x)
    for size in (1e-1, 1e-2, 1e-3):
        Z = best.latent + size * rng.standard_normal(best.latent.shape)
        s2 = best.noise_variance * np.exp(size * rng.standard_normal())
        assert dual_log_likelihood(Z, alpha, s2, x) < top


@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_the_slope_is_zero_in_every_direction(x, alpha):
    best = principal_coordinates(x, 2, alpha=alpha)
    h = 1e-5

    def value(step, log_noise=0.0):
        return dual_log_likelihood(best.latent + step, alpha, best.noise_variance * np.exp(log_noise), x)

    scale = x.size / np.sqrt(best.noise_variance)
    for index in np.ndindex(*best.latent.shape):
        step = np.zeros(best.latent.shape)
        step[index] = h
        assert abs(value(step) - value(-step)) / (2 * h) < 1e-6 * scale
    assert abs(value(0, h) - value(0, -h)) / (2 * h) < 1e-6 * scale


def test_primal_and_dual_share_their_spectrum(x):
    n, d = x.shape
    q, alpha = 3, 0.5
    Z, s2 = principal_coordinates(x, q, alpha=alpha)
    primal = closed_form_oracle(x, q)
    kappa = alpha * np.square(Z).sum(axis=0) + s2
    assert_allclose(d * kappa, n * primal.values[:q], rtol=1e-9)
    assert_allclose((n - q) * s2 * d, n * primal.values[q:].sum(), rtol=1e-8)


def test_the_loadings_are_recovered_from_the_coordinates(x):
    n = len(x)
    Z, _ = principal_coordinates(x, 3)
    directions = x.T @ (Z / np.linalg.norm(Z, axis=0))  # sqrt(n l_j) u_j
    values = np.square(directions).sum(axis=0) / n
    model = closed_form_oracle(x, 3).model
    loadings = directions / np.sqrt(n * values) * np.sqrt(values - model.noise_variance)
    assert_allclose(loadings @ loadings.T, model.loadings @ model.loadings.T, atol=1e-8)


def test_rows_are_centred_first(x):
    plain, shifted = principal_coordinates(x, 2), principal_coordinates(x + 100.0, 2)
    assert_allclose(shifted.latent, plain.latent, atol=1e-9)


@pytest.mark.parametrize("q", [0, 8, 9])
def test_too_many_or_no_coordinates_are_refused(rng, q):
    with pytest.raises(ShapeError, match=f"between 1 and n - 1 = 7 in dual PPCA; got {q}"):
        principal_coordinates(rng.standard_normal((8, 4)), q)


def test_rows_that_do_not_match_are_refused(rng):
    with pytest.raises(ShapeError, match="must have the same number of rows"):
        dual_log_likelihood(rng.standard_normal((4, 2)), 1.0, 1.0, rng.standard_normal((5, 3)))
