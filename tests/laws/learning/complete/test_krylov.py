"""Products of the sample covariance, and the regime that lives on them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import spiked_rows
from probpca import PPCA
from probpca.learning.complete.krylov import (
    covariance_product,
    gram_product,
    is_wide,
    outside_energy,
    projected_covariance,
)
from probpca.learning.complete.spectrum import Certificate
from probpca.learning.settings import KrylovSettings
from probpca.sources import open_source
from probpca.statistics import Stack

WEIGHTS = {"plain": None, "weighted": np.linspace(0.5, 2.0, 40)}


@pytest.fixture(params=WEIGHTS)
def table(request, rng):
    """Rows far from zero, their weights, mean and centred form times the root of the weights."""
    x = spiked_rows(rng, 40, 9, 2) + 5
    w = np.ones(40) if WEIGHTS[request.param] is None else WEIGHTS[request.param]
    mean = np.average(x, axis=0, weights=w)
    return x, WEIGHTS[request.param], mean, (x - mean) * np.sqrt(w / w.sum())[:, None]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_products_are_those_of_the_dense_covariance(table, form, rng):
    x, w, mean, centred = table
    source = open_source(form(x), weight=w, n_jobs=2)
    weight = 40.0 if w is None else w.sum()
    V = np.linalg.qr(rng.standard_normal((9, 3)))[0]
    S = centred.T @ centred
    assert_allclose(covariance_product(source, mean, V, weight), S @ V, atol=1e-12)
    projected, total = projected_covariance(source, mean, V, weight)
    assert_allclose(projected, V.T @ S @ V, atol=1e-12)
    assert_allclose(total, np.trace(S), rtol=1e-12)
    assert_allclose(outside_energy(source, mean, V, weight), np.trace(S) - np.trace(V.T @ S @ V), rtol=1e-10)
    rough = covariance_product(source, mean, V, weight, np.float32)
    assert_allclose(rough, S @ V, atol=1e-4)
    assert np.abs(rough - S @ V).max() > 0


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_that_sparse_rows_do_not_store_are_zeros(weighted, rng):
    n, d = 200, 9  # more rows than are centred at a time
    x = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    x[:, 4] = rng.standard_normal(n) + 5  # a column without zeros
    w = rng.uniform(0.1, 3.0, n) if weighted else np.ones(n)
    mean, V = np.average(x, axis=0, weights=w), np.linalg.qr(rng.standard_normal((d, 3)))[0]
    centred = (x - mean) * np.sqrt(w / w.sum())[:, None]
    source = open_source(sparse.csr_array(x), weight=w if weighted else None, n_jobs=2)
    assert_allclose(covariance_product(source, mean, V, w.sum()), centred.T @ centred @ V, atol=1e-12)
    projected, total = projected_covariance(source, mean, V, w.sum())
    assert_allclose(projected, V.T @ centred.T @ centred @ V, atol=1e-12)
    assert_allclose(total, np.square(centred).sum(), rtol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_products_with_a_vector_per_row_are_those_of_the_dense_gram_matrix(table, n_jobs, rng):
    x, w, mean, centred = table
    stack = open_source(x, weight=w).fold(Stack.of)
    V = rng.standard_normal((40, 3))
    assert_allclose(gram_product(stack, mean, V, n_jobs=n_jobs), centred @ centred.T @ V, atol=1e-12)


@pytest.mark.parametrize("shape", [(1300, 1000), (150, 7000)], ids=["tall", "wide"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_tables_reach_the_maximum_within_tol_though_products_are_single(rng, shape, dtype):
    x = (spiked_rows(rng, *shape, 5) + 3).astype(dtype)
    source = open_source(x)
    assert source.n_stored > KrylovSettings().large
    assert is_wide(source, 5, KrylovSettings()) == (shape[0] < shape[1])
    found, best = (PPCA(5, solver=solver, random_state=0).fit(x) for solver in ("krylov", "svd"))
    assert best.log_likelihood_ - found.log_likelihood(x) < 2e-3
    assert_allclose(found.log_likelihood_, found.log_likelihood(x), rtol=1e-7 if dtype == np.float32 else 1e-9)
    assert_allclose(found.components_ @ found.components_.T, np.eye(5), atol=1e-12)
    assert_allclose(found.explained_variance_, best.explained_variance_, rtol=1e-6 if dtype == np.float32 else 1e-7)


def test_a_spectrum_beyond_single_precision_goes_on_in_double(rng):
    scales = np.concatenate([[1e6, 1e4, 1e2], np.ones(997)])
    x = rng.standard_normal((1300, 1000)) * scales
    found, best = (PPCA(3, solver=solver, random_state=0).fit(x) for solver in ("krylov", "svd"))
    assert abs(best.log_likelihood_ - found.log_likelihood_) < 1e-2
    assert_allclose(found.noise_variance_, best.noise_variance_, rtol=1e-9)


def test_loss_from_values_is_what_wrong_eigenvalues_cost():
    values, d, n, error = np.array([9.0, 4.0]), 7, 500.0, 1e-3
    total = values.sum() + (d - 2) * 0.5

    def value(theta):
        noise = (total - theta.sum()) / (d - 2)
        return -0.5 * n * (np.log(theta).sum() + values @ (1 / theta) + (d - 2) * (np.log(noise) + 0.5 / noise))

    bound = Certificate(n, d, 2, total, 1.0).loss_from_values(values, error)
    lost = [value(values) - value(values + error * np.array(signs)) for signs in [(1, 1), (1, -1), (-1, -1)]]
    assert 0 < max(lost) < 1.1 * bound
    assert max(lost) > 0.5 * bound
