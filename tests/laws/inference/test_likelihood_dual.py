"""Columns given the coordinates of the rows: the same algebra, the table on its side."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from oracles import random_rotation
from probpca import DataError, ShapeError
from probpca.inference import dual_log_likelihood, log_likelihood
from probpca.models import LinearGaussian


@pytest.fixture(params=[(9, 2, 5), (4, 4, 3), (3, 5, 8)], ids=lambda sizes: "n{}q{}d{}".format(*sizes))
def table(request, rng):
    n, q, d = request.param
    return rng.standard_normal((n, q)), rng.standard_normal((n, d))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 7.0])
def test_columns_are_gaussian_with_the_covariance_of_the_rows(table, alpha):
    latent, x = table
    full = multivariate_normal(cov=alpha * latent @ latent.T + 0.4 * np.eye(len(x)))
    assert_allclose(dual_log_likelihood(latent, alpha, 0.4, x), full.logpdf(x.T).sum(), rtol=1e-10)


def test_it_is_the_primal_of_the_transposed_table(table):
    latent, x = table
    primal = LinearGaussian(np.zeros(len(x)), np.sqrt(2.0) * latent, 0.4)
    assert_allclose(dual_log_likelihood(latent, 2.0, 0.4, x), log_likelihood(primal, x.T).sum(), rtol=1e-12)


def test_it_is_the_marginal_likelihood_of_bayesian_regression(rng):
    # Integrate over the weights of a single latent by quadrature.
    latent, x = rng.standard_normal((4, 1)), rng.standard_normal((4, 1))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    errors = x - np.sqrt(0.7) * latent * nodes
    densities = np.exp(-0.5 * np.square(errors).sum(axis=0) / 0.5) / (2 * np.pi * 0.5) ** 2
    expected = np.log(densities @ weights / np.sqrt(2 * np.pi))
    assert_allclose(dual_log_likelihood(latent, 0.7, 0.5, x), expected, rtol=1e-9)


def test_rotation_and_order_do_not_matter(table, rng):
    latent, x = table
    expected = dual_log_likelihood(latent, 1.0, 0.4, x)
    order = rng.permutation(len(x))
    assert_allclose(
        dual_log_likelihood(latent @ random_rotation(rng, latent.shape[1]), 1.0, 0.4, x), expected, rtol=1e-10
    )
    assert_allclose(dual_log_likelihood(latent[order], 1.0, 0.4, x[order][:, ::-1]), expected, rtol=1e-10)
    assert_allclose(dual_log_likelihood(latent / 3, 9.0, 0.4, x), expected, rtol=1e-10)


@pytest.mark.parametrize(("latent", "x"), [((4, 2), (5, 3)), ((4,), (4, 3)), ((4, 2), (4,))])
def test_tables_of_different_rows_are_refused(latent, x):
    with pytest.raises(ShapeError, match=r"latent \(n, q\) and x \(n, d\) must have the same number of rows"):
        dual_log_likelihood(np.ones(latent), 1.0, 1.0, np.ones(x))


def test_a_noise_variance_that_is_none_is_refused():
    with pytest.raises(DataError, match="noise_variance must be positive"):
        dual_log_likelihood(np.ones((3, 1)), 1.0, 0.0, np.ones((3, 2)))
