"""Principal axes of columns of unit variance, in a model in the units of the data."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from oracles import closed_form_oracle, dense_covariance, dense_log_likelihood, spiked_rows
from probpca import DataError
from probpca.learning import Settings, Status, fit_ppca
from probpca.sources import open_source

STANDARDIZED = partial(fit_ppca, standardize=True)

Q = 2


def fit(x, solver="auto", tol=1e-9, weight=None):
    return STANDARDIZED(open_source(x, weight=weight), Q, Settings(solver, tol, 5000), np.random.default_rng(0))


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 70, 6, Q) * np.geomspace(0.05, 20.0, 6) + 5


@pytest.mark.parametrize("solver", ["auto", "svd", "krylov", "px_em"])
def test_it_equals_scaling_fitting_and_scaling_back(x, solver):
    scaler = StandardScaler().fit(x)
    wanted = closed_form_oracle(scaler.transform(x), Q).model.rescale(scaler.scale_)
    found = fit(x, solver).model
    scale = np.outer(scaler.scale_, scaler.scale_)
    assert_allclose(dense_covariance(found) / scale, dense_covariance(wanted) / scale, atol=1e-4)
    assert_allclose(found.noise_variance, wanted.noise_variance, rtol=1e-6)
    assert found.noise_variance.shape == (6,)
    assert_allclose(found.mean, x.mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "px_em", "gradient"])
def test_the_log_likelihood_is_that_of_the_data(x, solver):
    found = fit(x, solver)
    assert_allclose(found.log_likelihood, dense_log_likelihood(found.model, x).sum(), rtol=1e-9)
    assert_allclose(found.trace[-1], found.log_likelihood)


@pytest.mark.parametrize("solver", ["auto", "px_em"])
def test_loadings_are_along_the_principal_axes_of_the_scaled_columns(x, solver):
    found = fit(x, solver)
    W = found.model.loadings / x.std(axis=0)[:, None]
    products = W.T @ W
    assert_allclose(products, np.diag(np.diag(products)), atol=1e-9 * products.max())
    assert products[0, 0] >= products[1, 1]
    assert_allclose(found.scaled_model.loadings, W, rtol=1e-12)
    assert found.scaled_model.noise_variance.shape == ()
    assert_allclose(found.scaled_model.noise_variance * found.scale**2, found.model.noise_variance, rtol=1e-12)


def test_the_scale_is_the_standard_deviation_and_there_is_none_without_scaling(x):
    assert_allclose(fit(x).scale, StandardScaler().fit(x).scale_, rtol=1e-12)
    plain = fit_ppca(x, Q)
    assert plain.scale is None
    assert plain.scaled_model is plain.model


def test_units_change_the_units_of_the_answer_only(x):
    units = np.array([1e-3, 7.0, 1e4, 1.0, 0.2, 60.0])
    plain, scaled = fit(x), fit(x * units)
    factor = np.outer(units, units)
    assert_allclose(dense_covariance(scaled.model), dense_covariance(plain.model) * factor, rtol=1e-6)
    assert_allclose(scaled.log_likelihood, plain.log_likelihood - len(x) * np.log(units).sum(), rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 3.0, 0.1])
def test_a_constant_column_keeps_its_unit(x, value):
    x[:, 3] = value
    found = fit(x)
    assert found.status is Status.EXACT
    assert found.scale[3] == 1
    assert_allclose(found.model.mean[3], value, atol=1e-12)
    assert_allclose(found.model.loadings[3], 0, atol=1e-9)
    others = closed_form_oracle(np.delete(StandardScaler().fit_transform(x), 3, axis=1), Q)
    # The empty direction is one of the d - q that share the noise.
    assert_allclose(found.model.noise_variance[3], others.values[Q:].sum() / (6 - Q), rtol=1e-6)


def test_sparse_rows_and_weights_are_scaled_alike(x, rng):
    x[rng.random(x.shape) < 0.5] = 0.0
    times = rng.integers(0, 4, len(x))
    plain = fit(np.repeat(x, times, axis=0))
    for found in (fit(x, weight=times), fit(sparse.csr_array(x), weight=times)):
        assert_allclose(found.log_likelihood, plain.log_likelihood, rtol=1e-9)


def test_identical_rows_are_refused():
    with pytest.raises(DataError, match="all rows are identical"):
        fit(np.ones((5, 3)))
