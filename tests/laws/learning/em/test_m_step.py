"""EM climbs, by the textbook's steps, to the closed form."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from oracles import (
    assert_never_falls,
    closed_form_oracle,
    dense_covariance,
    dense_posterior,
    random_model,
    spiked_rows,
)
from probpca.blocks import Block
from probpca.inference import free_energy, posterior
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.em.m_step import EM, ZeroNoiseEM
from probpca.models import LinearGaussian
from probpca.sources import open_source
from probpca.statistics import Root

FLOOR = 1e-300


def fit(x, q, solver, tol=1e-3, max_iter=1000, seed=0):
    return fit_ppca(open_source(x), q, Settings(solver, tol, max_iter), np.random.default_rng(seed))


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 80, 9, 3)


@pytest.fixture
def model(x, rng):
    """Parameters in the middle of nowhere, at the mean that the closed formulas assume."""
    return LinearGaussian(x.mean(axis=0), random_model(rng, 9, 3).loadings, 0.7)


def dense_step(model, x):
    """W~ = S W (s2 I + M^-1 W'S W)^-1, s2~ = tr(S - S W M^-1 W~') / d, and Phi (Tipping & Bishop 1999, 27-28)."""
    W, s2 = model.loadings, float(model.noise_variance)
    S, I = np.cov(x.T, ddof=0), np.eye(W.shape[1])  # noqa: E741
    M_inverse = np.linalg.inv(W.T @ W + s2 * I)
    W_new = S @ W @ np.linalg.inv(s2 * I + M_inverse @ W.T @ S @ W)
    s2_new = np.trace(S - S @ W @ M_inverse @ W_new.T) / len(S)
    Phi = M_inverse @ W.T @ S @ W @ M_inverse + s2 * M_inverse
    return W_new, s2_new, Phi


def test_one_step_is_that_of_the_textbook(model, x):
    following, value = EM(FLOOR, expand=False).step(model, open_source(x))
    loadings, noise, _ = dense_step(model, x)
    assert_allclose(following.loadings, loadings, rtol=1e-9)
    assert_allclose(following.noise_variance, noise, rtol=1e-10)
    assert_allclose(following.mean, x.mean(axis=0), rtol=1e-12)
    assert_allclose(value, free_energy(model, x, posterior(model, x)).sum(), rtol=1e-12)


def test_one_expanded_step_whitens_the_latents(model, x):
    following, _ = EM(FLOOR).step(model, open_source(x))
    loadings, noise, Phi = dense_step(model, x)
    assert_allclose(following.loadings, loadings @ np.linalg.cholesky(Phi), rtol=1e-9)
    assert_allclose(following.noise_variance, noise, rtol=1e-10)


def test_latents_that_are_off_centre_move_the_mean(model, x):
    away = replace(model, mean=model.mean + 1.0)
    plain, expanded = (EM(FLOOR, expand=expand).step(away, open_source(x))[0] for expand in (False, True))
    m, P = dense_posterior(away, x)
    nu, Phi = m.mean(axis=0), np.cov(m.T, ddof=0) + P
    assert_allclose(expanded.mean, plain.mean + plain.loadings @ nu, rtol=1e-9)
    assert_allclose(expanded.loadings, plain.loadings @ np.linalg.cholesky(Phi), rtol=1e-8)


@pytest.mark.parametrize("step", [EM(FLOOR, expand=False), EM(FLOOR), ZeroNoiseEM(FLOOR)], ids=["em", "px", "zero"])
def test_the_span_moves_as_in_subspace_iteration(model, x, step):
    following, _ = step.step(model, open_source(x))
    wanted = np.linalg.qr(np.cov(x.T, ddof=0) @ model.loadings)[0]
    got = np.linalg.qr(following.loadings)[0]
    assert_allclose(got @ got.T, wanted @ wanted.T, atol=1e-10)


def test_the_mean_comes_right_from_anywhere(x, rng):
    model = LinearGaussian(x.mean(axis=0) + 2, rng.standard_normal((9, 3)), 0.7)
    for _ in range(300):
        model, _ = EM(FLOOR).step(model, open_source(x))
    assert_allclose(model.mean, x.mean(axis=0), atol=1e-7)


@pytest.mark.parametrize("solver", ["em", "px_em", "em_zero_noise"])
@pytest.mark.parametrize(("n", "d", "q"), [(80, 9, 3), (15, 30, 4), (40, 6, 5)])
def test_the_trace_never_falls(rng, solver, n, d, q):
    x = spiked_rows(rng, n, d, min(q, 3))
    for seed in range(2):
        assert_never_falls(fit(x, q, solver, tol=1e-6, max_iter=200, seed=seed).trace)


def test_a_trace_that_falls_once_is_noticed():
    with pytest.raises(AssertionError, match="fell by 1 at step 1"):
        assert_never_falls([1.0, 3.0, 2.0, 9.0])


@pytest.mark.parametrize("solver", ["em", "px_em", "em_zero_noise"])
@pytest.mark.parametrize(("n", "d"), [(80, 9), (15, 30)])
def test_the_limit_is_the_closed_form(rng, solver, n, d):
    x = spiked_rows(rng, n, d, 3)
    found, wanted = fit(x, 3, solver, tol=1e-9 * n, max_iter=50_000), closed_form_oracle(x, 3)
    assert found.status is Status.CONVERGED
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-8 * n)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=2e-3)


@pytest.mark.parametrize("seed", [4, 13, 16])
def test_a_saddle_on_the_way_is_not_taken_for_the_maximum(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 60)), int(rng.integers(3, 20))
    q = int(rng.integers(1, min(d - 1, n - 3)))
    x = rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d))
    found = fit(x, q, "px_em")
    assert_allclose(found.log_likelihood, closed_form_oracle(x, q).log_likelihood, atol=0.01)
    assert_never_falls(found.trace)


def test_expansion_needs_far_fewer_steps_when_noise_is_small(rng):
    x = spiked_rows(rng, 100, 8, 2, noise=0.02)
    plain, expanded = (fit(x, 2, solver, tol=1e-3, max_iter=50_000) for solver in ("em", "px_em"))
    assert expanded.n_iter * 5 < plain.n_iter
    assert_allclose(expanded.log_likelihood, plain.log_likelihood, atol=0.01)


def test_without_noise_the_reconstruction_never_gets_worse(x, rng):
    model, errors = LinearGaussian(x.mean(axis=0), rng.standard_normal((9, 3)), 1.0), []
    for _ in range(30):
        basis = np.linalg.qr(model.loadings)[0]
        centred = x - model.mean
        errors.append(np.square(centred - centred @ basis @ basis.T).sum())
        model, _ = ZeroNoiseEM(FLOOR).step(model, open_source(x))
    assert_never_falls(-np.array(errors))
    assert_allclose(errors[-1], closed_form_oracle(x, 3).values[3:].sum() * len(x), rtol=1e-6)


def test_without_noise_iris_gives_the_axes_of_the_worked_example():
    axes, _ = fit(load_iris().data, 2, "em_zero_noise", tol=1e-13, max_iter=5000).model.principal_axes
    wanted = [[0.36138659, -0.08452251, 0.85667061, 0.35828920], [0.65658877, 0.73016143, -0.17337266, -0.07548102]]
    for axis, known in zip(axes.T, wanted, strict=True):
        assert_allclose(axis * np.sign(axis @ known), known, atol=1e-7)


@pytest.mark.parametrize("step", [EM(FLOOR, expand=False), EM(FLOOR), ZeroNoiseEM(FLOOR)], ids=["em", "px", "zero"])
def test_boiled_down_rows_give_the_same_path(model, x, step):
    rows, weight = Root.of(Block(x)).as_rows()
    full, few = model, model
    for _ in range(10):
        full, value = step.step(full, open_source(x))
        few, other = step.step(few, open_source(rows, weight=weight))
        assert_allclose(other, value, rtol=1e-10)
        assert_allclose(dense_covariance(few), dense_covariance(full), atol=1e-9)
