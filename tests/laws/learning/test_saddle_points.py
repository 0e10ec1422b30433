"""A fit that says CONVERGED has reached a maximum of the likelihood, not a saddle point."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import assert_never_falls, closed_form_oracle, dense_observed_log_likelihood, punched
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.em.m_step import EM
from probpca.learning.loop import Iterated, Monitor, iterate
from probpca.learning.saddle_points import SaddleCheck
from probpca.learning.settings import SaddleSettings
from probpca.models import LinearGaussian
from probpca.sources import open_source


def awkward_table(seed):
    """Small table with missing cells on which EM comes close to a saddle point, with row weights for some seeds."""
    r = np.random.default_rng(seed)
    n, d = int(r.integers(2, 61)), int(r.integers(2, 13))
    q, k = int(r.integers(1, d)), int(r.integers(1, d + 1))
    x = r.standard_normal((n, k)) @ r.standard_normal((k, d)) * r.choice([1.0, 3.0])
    kind = r.choice(["noisy", "noisy", "noisy", "low rank", "ints", "duplicates", "constant columns", "heavy"])
    noise = 10.0 ** r.uniform(-3, 0.5)
    if kind != "low rank":
        x = x + noise * r.standard_normal((n, d))
    match kind:
        case "ints":
            x = np.round(2 * x)
        case "duplicates":
            x = x[r.integers(0, max(n // 3, 1), n)]
        case "constant columns":
            x[:, r.integers(0, d, max(d // 3, 1))] = r.choice([0.0, 1.0, 7.3])
        case "heavy":
            x = x * r.standard_t(2, (n, 1))
    x = x * 10.0 ** r.integers(-3, 4)
    x = x + r.choice([0.0, 0.0, 10.0, 1000.0]) * r.standard_normal(d) * x.std()
    share = float(r.choice([0, 0, 0.05, 0.2, 0.4, 0.6]))
    x = punched(r, x, share) if share else x
    r.random()  # a draw that decided on float32
    u, weight = r.random(), None
    if u < 0.25:
        weight = r.choice([0.0, 0.5, 1.0, 2.0, 3.0], n) if u < 0.15 else r.uniform(0.1, 10, n)
    return x, q, np.ones(n) if weight is None else weight


def plain_em(model, x, weight, steps):
    """Plain EM over observed cells, written out row by row in dense algebra; returns the last model."""
    centre = np.nan_to_num(np.nanmean(x, axis=0))
    seen, y = ~np.isnan(x), np.nan_to_num(x - centre)
    W, mu, s2 = model.loadings, model.mean - centre, float(model.noise_variance)
    for _ in range(steps):
        M = np.einsum("ij,jk,jl->ikl", seen, W, W) + s2 * np.eye(W.shape[1])
        m = np.linalg.solve(M, ((y - seen * mu) @ W)[..., None])[..., 0]
        t = np.column_stack([m, np.ones(len(m))])
        E = t[:, :, None] * t[:, None, :]
        E[:, :-1, :-1] += s2 * np.linalg.inv(M)
        A = np.einsum("i,ij,ikl->jkl", weight, seen, E)
        b = np.einsum("i,ij,ik->jk", weight, y, t)
        empty = ~seen[weight > 0].any(axis=0)
        A[empty] = np.eye(t.shape[1])
        theta = np.linalg.solve(A, b[..., None])[..., 0]
        W, mu = theta[:, :-1], theta[:, -1]
        rest = (y - seen * (t @ theta.T)) ** 2 + seen * s2 * np.einsum("jk,ikl,jl->ij", W, np.linalg.inv(M), W)
        s2 = float(weight @ rest.sum(axis=1) / (weight @ seen.sum(axis=1)))
    return LinearGaussian(mu + centre, W, np.asarray(s2))


def gain_by_em(result, x, weight, steps=200):
    after = plain_em(result.model, x, weight, steps)
    return float(weight @ (dense_observed_log_likelihood(after, x) - dense_observed_log_likelihood(result.model, x)))


# Without a test for saddle points the fits to these tables end 0.03 to 20 nats below a maximum.
TRAPS = [6, 1016, 2948, 2962, 20827, 20835, 20843, 20970, 21036, 21072, 21212, 21215, 21286]


@pytest.mark.parametrize("seed", TRAPS)
def test_em_gains_nothing_from_a_model_that_is_said_to_be_a_maximum(seed):
    x, q, weight = awkward_table(seed)
    result = fit_ppca(open_source(x, weight=weight), q, Settings(), np.random.default_rng(0))
    assert result.status is Status.CONVERGED
    assert gain_by_em(result, x, weight) < 0.01
    assert_never_falls(result.trace)


@pytest.mark.parametrize("solver", ["em", "gradient", "incremental"])
@pytest.mark.parametrize("seed", [20970, 21072, 21215])
def test_every_solver_leaves_saddle_points(seed, solver):
    x, q, weight = awkward_table(seed)
    result = fit_ppca(open_source(x, weight=weight), q, Settings(solver), np.random.default_rng(0))
    assert result.status is Status.CONVERGED
    assert gain_by_em(result, x, weight) < 0.01


@pytest.mark.parametrize("seed", [20800, 21404, 21538])
def test_a_table_without_a_maximum_is_said_to_leave_no_noise(seed):
    x, q, weight = awkward_table(seed)
    result = fit_ppca(open_source(x, weight=weight), q, Settings(), np.random.default_rng(0))
    assert result.status is Status.NOISE_COLLAPSED


@pytest.mark.parametrize("first_seed", range(30_000, 30_060, 10))
def test_no_converged_fit_to_a_small_table_can_be_improved(first_seed):
    for seed in range(first_seed, first_seed + 10):
        x, q, weight = awkward_table(seed)
        if np.isnan(x).any() and weight.sum() > q + 2 and (~np.isnan(x[weight > 0])).any(axis=0).sum() > q:
            with warnings.catch_warnings(record=True):
                result = fit_ppca(open_source(x, weight=weight), q, Settings(), np.random.default_rng(0))
            assert result.status is not Status.CONVERGED or gain_by_em(result, x, weight) < 0.01, seed


def stationary_point(x, axes):
    """Model whose loadings lie along some principal axes; a maximum only if these have the largest variances."""
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = np.delete(values, axes).mean()
    return LinearGaussian(x.mean(axis=0), vectors[:, axes] * np.sqrt(values[axes] - noise), np.asarray(noise))


def three_similar_components(rng, n):
    """Rows with three components of similar variance, so that any two of them are a stationary point."""
    return rng.standard_normal((n, 6)) * np.sqrt([4.0, 3.6, 3.2, 0.3, 0.3, 0.3])


@pytest.fixture
def x(rng):
    return three_similar_components(rng, 80)


def check_of(x, probe=None, **options):
    step = partial(EM(1e-9).step, source=open_source(x))
    other = step if probe is None else partial(EM(1e-9).step, source=open_source(probe))
    return SaddleCheck(step, other, 1e-9, 1e-3, SaddleSettings(), **options)


@pytest.mark.parametrize("axes", [[0, 2], [1, 2]])
def test_a_better_model_is_found_near_a_saddle_point(x, axes):
    model, check = stationary_point(x, axes), check_of(x)
    following, value = check.step(model)
    assert_allclose(following.loadings, model.loadings, rtol=1e-6)  # EM does not move
    better = check.better_model(model, value)
    assert check.step(better)[1] > value + 1e-3


def test_there_is_no_better_model_near_a_maximum(x):
    model, check = stationary_point(x, [0, 1]), check_of(x)
    assert check.better_model(model, check.step(model)[1]) is None


@pytest.mark.parametrize("axes", [[0, 1], [0, 2]])
def test_the_axes_of_the_latent_variables_do_not_matter(rng, x, axes):
    model, counts = stationary_point(x, axes), []
    basis = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    for turned in (model, model.rotate(basis)):
        check, asked = check_of(x), []
        watched = replace(check, probe=lambda model, step=check.step, asked=asked: asked.append(model) or step(model))
        better = watched.better_model(turned, check.step(turned)[1])
        assert (better is None) == (axes == [0, 1])
        counts.append(len(asked))
    assert abs(counts[1] - counts[0]) <= 2  # rotations, which change nothing, are not taken for slow directions


def test_a_fit_that_starts_at_a_saddle_point_ends_at_the_maximum(x):
    check = check_of(x)

    def solve(start, trace):
        return iterate(check.step, start, Monitor(1e-6, 500, trace=trace))

    ended = check.fit(solve, stationary_point(x, [1, 2]), (), 500)
    assert_allclose(ended.trace[-1], closed_form_oracle(x, 2).log_likelihood, atol=1e-3)
    assert_never_falls(ended.trace)


def test_a_sample_of_rows_finds_saddle_points_too(rng):
    x = three_similar_components(rng, 600)
    model, check = stationary_point(x, [0, 2]), check_of(x, probe=x[::3])
    value = check.step(model)[1]
    assert check.step(check.better_model(model, value))[1] > value + 1e-3
    maximum = stationary_point(x, [0, 1])
    assert check.better_model(maximum, check.step(maximum)[1]) is None


def test_a_slow_solver_is_continued_where_parameter_expansion_still_gains(x):
    shrunk = stationary_point(x, [0, 1])
    shrunk = LinearGaussian(shrunk.mean, 0.5 * shrunk.loadings, shrunk.noise_variance)
    check = check_of(x, slow=True)
    value = check.step(shrunk)[1]
    assert check.step(check.better_model(shrunk, value))[1] > value + 1e-3


def test_a_fit_that_could_go_on_but_may_not_has_not_converged(x):
    check, saddle = check_of(x), stationary_point(x, [1, 2])
    value = check.step(saddle)[1]
    ended = check.fit(lambda _, __: Iterated(saddle, Status.CONVERGED, (value,) * 6), saddle, (), 5)
    assert ended.status is Status.MAX_ITER
