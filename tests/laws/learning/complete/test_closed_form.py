"""The closed form is the maximum of the likelihood, whichever eigensolver computes it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import closed_form_oracle, dense_covariance, dense_log_likelihood, random_rotation, spiked_rows
from probpca.learning import Settings, Status, fit_ppca, value_and_gradient
from probpca.learning.complete.leading_spectrum import choose_regime
from probpca.sources import open_source

REGIMES = ["covariance", "gram", "krylov", "svd"]
SHAPES = {"n >> d": (500, 12), "n = d": (30, 30), "n < d": (20, 35), "n << d": (8, 90)}
Q = 3


def fit(x, q=Q, solver="auto", tol=1e-9, weight=None, n_jobs=None):
    source = open_source(x, weight=weight, n_jobs=n_jobs)
    return fit_ppca(source, q, Settings(solver, tol), np.random.default_rng(0))


def projector(model):
    axes, _ = model.principal_axes
    return axes @ axes.T


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def x(request, rng):
    n, d = request.param
    return spiked_rows(rng, n, d, Q)


@pytest.mark.parametrize("regime", [*REGIMES, "auto", "closed_form"])
def test_every_regime_gives_the_model_of_a_dense_eigendecomposition(x, regime):
    found, wanted = fit(x, solver=regime), closed_form_oracle(x, Q)
    assert found.status is Status.EXACT
    assert_allclose(found.model.noise_variance, wanted.model.noise_variance, rtol=1e-9)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-8 * len(x))
    assert_allclose(found.model.mean, x.mean(axis=0), rtol=1e-12, atol=1e-12)
    assert_allclose(projector(found.model), projector(wanted.model), atol=1e-6)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=1e-5)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_reported_log_likelihood_is_that_of_the_dense_gaussian(x, regime):
    found = fit(x, solver=regime)
    assert_allclose(found.log_likelihood, dense_log_likelihood(found.model, x).sum(), rtol=1e-9)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_model_keeps_the_total_variance_and_the_mean_distance(x, regime):
    C = dense_covariance(fit(x, solver=regime).model)
    S = np.cov(x.T, ddof=0)
    assert_allclose(np.trace(C), np.trace(S), rtol=1e-10)
    assert_allclose(np.trace(np.linalg.solve(C, S)), x.shape[1], rtol=1e-6)


def test_the_largest_eigenvalues_of_the_model_are_those_of_the_data(x):
    model = fit(x).model
    largest = np.linalg.eigvalsh(np.cov(x.T, ddof=0))[::-1][:Q]
    axes, _ = model.principal_axes
    assert_allclose(axes.T @ dense_covariance(model) @ axes, np.diag(largest), atol=1e-6)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_gradient_vanishes_there(x, regime):
    model = fit(x, solver=regime, tol=1e-13).model
    _, gradient = value_and_gradient(model, open_source(x))
    unit = np.sqrt(model.noise_variance)  # derivatives in units of the noise
    assert np.abs(gradient.loadings * unit).max() < 1e-6 * len(x)
    assert np.abs(gradient.mean * unit).max() < 1e-9 * len(x)
    assert abs(gradient.log_noise_variance) < 1e-9 * x.size


def test_the_divisor_of_the_noise_counts_directions_without_variance(rng):
    n, d = 10, 40
    x = spiked_rows(rng, n, d, Q)
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2 / n
    assert_allclose(fit(x).model.noise_variance, values[Q:].sum() / (d - Q), rtol=1e-9)


def test_rotating_the_features_rotates_the_model(x, rng):
    R = random_rotation(rng, x.shape[1])
    plain, rotated = fit(x), fit(x @ R)
    assert_allclose(rotated.log_likelihood, plain.log_likelihood, rtol=1e-9)
    assert_allclose(dense_covariance(rotated.model), R.T @ dense_covariance(plain.model) @ R, atol=1e-5)


def test_a_shift_moves_the_mean_alone(x):
    plain, shifted = fit(x), fit(x + 1000.0)
    assert_allclose(shifted.model.mean, plain.model.mean + 1000.0)
    assert_allclose(shifted.log_likelihood, plain.log_likelihood, rtol=1e-9)
    assert_allclose(dense_covariance(shifted.model), dense_covariance(plain.model), atol=1e-5)


@pytest.mark.parametrize("unit", [1e-100, 1e-3, 1e6, 1e100])
def test_a_change_of_units_scales_the_model(x, unit):
    plain, scaled = fit(x), fit(x * unit)
    assert_allclose(scaled.model.noise_variance / unit**2, plain.model.noise_variance, rtol=1e-8)
    assert_allclose(np.abs(scaled.model.loadings) / unit, np.abs(plain.model.loadings), atol=1e-5)
    assert_allclose(scaled.log_likelihood, plain.log_likelihood - x.size * np.log(unit), rtol=1e-9)


def test_the_order_of_the_rows_does_not_matter(x, rng):
    plain, shuffled = fit(x), fit(rng.permutation(x))
    assert_allclose(shuffled.log_likelihood, plain.log_likelihood, rtol=1e-10)
    assert_allclose(dense_covariance(shuffled.model), dense_covariance(plain.model), atol=1e-6)


@pytest.mark.parametrize("regime", REGIMES)
def test_weights_are_repeated_rows(x, rng, regime):
    times = rng.integers(0, 4, len(x))
    weighted, repeated = fit(x, solver=regime, weight=times), fit(np.repeat(x, times, axis=0), solver=regime)
    assert_allclose(weighted.log_likelihood, repeated.log_likelihood, rtol=1e-9)
    assert_allclose(weighted.model.noise_variance, repeated.model.noise_variance, rtol=1e-8)
    assert weighted.weight == times.sum()


@pytest.mark.parametrize("regime", REGIMES)
def test_sparse_rows_are_centred_as_dense_ones(rng, regime):
    x = spiked_rows(rng, 60, 25, Q) * (rng.random((60, 25)) < 0.3)
    dense, thin = fit(x, solver=regime), fit(sparse.csr_array(x), solver=regime)
    assert_allclose(thin.log_likelihood, dense.log_likelihood, rtol=1e-9)
    assert_allclose(dense_covariance(thin.model), dense_covariance(dense.model), atol=1e-5)


@pytest.mark.parametrize("regime", ["covariance", "krylov", "svd"])
def test_cuts_and_threads_change_nothing(rng, regime):
    x = spiked_rows(rng, 20_000, 8, Q)
    one = fit(x, solver=regime, n_jobs=1)
    for other in (fit(x, solver=regime, n_jobs=2), fit(np.array_split(x, 7), solver=regime)):
        assert_allclose(other.log_likelihood, one.log_likelihood, rtol=1e-12)
        # tol bounds the log-likelihood, and an iterative solver uses it up: axes are right to its root.
        assert_allclose(other.model.loadings, one.model.loadings, atol=1e-6 if regime == "krylov" else 1e-10)


@pytest.mark.parametrize(
    ("rows", "k", "regime"),
    [
        (np.empty((100_000, 20)), 3, "covariance"),
        (np.empty((30, 20_000)), 3, "gram"),
        (np.broadcast_to(0.0, (50_000, 10_000)), 5, "krylov"),
        (sparse.csr_array((10**5, 10**5)), 3, "krylov"),
        (iter([np.empty((5, 3))]), 2, "svd"),
        ([np.empty((5, 3))], 2, "covariance"),
    ],
    ids=["tall", "wide", "large", "sparse", "one-shot", "batches"],
)
def test_the_regime_fits_the_shape(rows, k, regime):
    assert choose_regime(open_source(rows), k) == regime
