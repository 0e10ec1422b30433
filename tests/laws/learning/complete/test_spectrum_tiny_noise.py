"""Noise that is nothing beside the signal is still measured; large sparse tables stay sparse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from probpca.learning import Settings, Status, fit_ppca
from probpca.sources import open_source

N, D, Q = 128, 8, 2


def walsh(n, d):
    """n x d signs with orthogonal columns that sum to zero: integers, exact in any precision."""
    signs = np.ones((1, 1))
    while len(signs) < n:
        signs = np.block([[signs, signs], [signs, -signs]])
    return signs[:, 1 : d + 1]


def fit(x, q=Q, solver="auto", tol=1e-6):
    return fit_ppca(open_source(x), q, Settings(solver, tol), np.random.default_rng(0))


@pytest.mark.parametrize("regime", ["auto", "covariance", "gram", "krylov", "svd"])
@pytest.mark.parametrize("ratio", [1e-3, 1e-6, 1e-9, 1e-11, 1e-13])
def test_noise_far_below_the_signal_is_measured_to_six_digits(regime, ratio):
    # Columns of an exact orthogonal design times powers of two: S is diagonal, its entries known exactly.
    std = 2.0 ** np.round(np.log2(np.sqrt([1.0, 0.25, *[ratio] * (D - Q)])))
    x = walsh(N, D) * std
    found = fit(x, solver=regime)
    assert_allclose(found.model.noise_variance, std[-1] ** 2, rtol=1e-6)
    total = -0.5 * N * (D * np.log(2 * np.pi) + 2 * np.log(std).sum() + D)
    assert_allclose(found.log_likelihood, total, atol=1e-3)


@pytest.mark.parametrize("regime", ["auto", "covariance", "gram", "krylov", "svd"])
@pytest.mark.parametrize("ratio", [1e-6, 1e-10, 1e-13])
def test_so_it_is_along_any_axes(rng, regime, ratio):
    std = np.sqrt([1.0, 0.25, *[ratio] * (D - Q)])
    x = walsh(N, D) * std @ np.linalg.qr(rng.standard_normal((D, D)))[0]
    # The product is rounded, by eps of the signal: that is 1e-10 of the smallest noise.
    assert_allclose(fit(x, solver=regime).model.noise_variance, ratio, rtol=1e-6)


def test_single_precision_rows_are_summed_in_double(rng):
    n, d = 4000, 20
    signal = 1e4 * rng.standard_normal((n, 1)) @ np.linalg.qr(rng.standard_normal((d, 1)))[0].T
    x = (signal + 0.5 * rng.standard_normal((n, d))).astype(np.float32)
    values = np.linalg.svd(x.astype(np.float64) - x.mean(axis=0, dtype=np.float64), compute_uv=False) ** 2 / n
    assert values[0] / values[1] > 1e8
    assert_allclose(fit(x, 1).model.noise_variance, values[1:].mean(), rtol=1e-3)


@pytest.mark.parametrize("regime", ["covariance", "gram", "krylov", "svd"])
def test_single_precision_rows_give_the_model_of_the_same_numbers_in_double(rng, regime):
    x = (
        rng.standard_normal((150, 2)) @ rng.standard_normal((2, 12)) + 0.3 * rng.standard_normal((150, 12)) + 50
    ).astype(np.float32)
    single, double = fit(x, solver=regime), fit(x.astype(np.float64), solver=regime)
    assert_allclose(single.model.noise_variance, double.model.noise_variance, rtol=1e-5)
    assert_allclose(single.log_likelihood, double.log_likelihood, atol=1e-2)
    assert_allclose(np.abs(single.model.loadings), np.abs(double.model.loadings), atol=1e-4)


def test_a_sparse_table_too_large_to_fill_is_fitted(rng):
    n = d = 200_000  # 320 GB if it were filled
    heavy = np.array([3, 77_777, d - 1])
    scattered = sparse.coo_array((np.ones(100_000), (rng.integers(0, n, 100_000), rng.integers(0, d, 100_000))), (n, d))
    spikes = sparse.coo_array(
        (rng.choice([-9.0, 9.0], 3000), (rng.integers(0, n, 3000), np.repeat(heavy, 1000))), (n, d)
    )
    x = (scattered + spikes).tocsr()
    found = fit(x, 3, tol=1.0)
    assert found.status is Status.EXACT
    axes, _ = found.model.principal_axes
    assert_allclose(np.square(axes[heavy]).sum(), 3.0, rtol=0.01)
    # From the cells alone: the total variance, and the largest variances along the heavy columns.
    total = (x.data @ x.data) / n - np.square(x.mean(axis=0)).sum()
    assert_allclose(found.model.covariance.trace(), total, rtol=1e-9)
    column = x[:, heavy].toarray()
    largest = np.linalg.eigvalsh(np.cov(column.T, ddof=0))
    assert_allclose(np.sort(found.model.principal_axes[1] ** 2 + found.model.noise_variance), largest, rtol=1e-2)


def test_a_sparse_table_is_never_filled_as_a_whole(rng, monkeypatch):
    filled = []
    plain = sparse.csr_array.toarray

    def recorded(matrix, *arguments, **options):
        filled.append(np.prod(matrix.shape))
        return plain(matrix, *arguments, **options)

    monkeypatch.setattr(sparse.csr_array, "toarray", recorded)
    x = sparse.random_array((20_000, 2_000), density=1e-3, format="csr", random_state=rng)
    fit(x, 2, tol=1.0)
    assert max(filled, default=0) <= 4 * 2**20
