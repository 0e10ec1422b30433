"""Quasi-Newton steps: the same maximum in fewer E-steps, never downhill."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import assert_never_falls, dense_covariance, punched, random_model
from probpca.blocks import observe
from probpca.learning import Status
from probpca.learning.em.e_step import expect
from probpca.learning.em.gradient import Gradient, gradient_of
from probpca.learning.em.m_step import EM
from probpca.learning.em.quasi_newton import Information, InformationSettings, Likelihood, LikelihoodSteps, Outside
from probpca.learning.loop import Monitor, accelerate, iterate, iterate_accelerated
from probpca.learning.quasi_newton import QuasiNewtonSettings
from probpca.models import LinearGaussian
from probpca.sources import open_source

FLOOR = 1e-10


class Problem:
    """Rows with more noise in some columns than in others, and a model of too many components to start from."""

    def __init__(self, seed, n=200, d=15, q=8, *, per_feature=False):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
        self.x = punched(rng, x + rng.standard_normal((n, d)) * rng.uniform(0.5, 3.0, d), 0.2)
        centre = np.nanmean(self.x, axis=0)
        self.rows = open_source(self.x, n_jobs=1).keep(partial(observe, centre=centre))
        noise = np.nanvar(self.x, axis=0)
        self.floor = FLOOR * noise if per_feature else FLOOR
        noise = noise / 2 if per_feature else noise.mean() / 2
        self.start = LinearGaussian(centre, rng.standard_normal((d, q)), noise)
        self.em, self.e_steps = EM(self.floor), 0
        self.sums = None

    def step(self, model):
        self.e_steps += 1
        self.model, self.sums = model, self.rows.fold(partial(expect, model))
        return self.em.advance(model, self.sums), self.sums.log_likelihood

    def gradient_at(self, model):
        assert model is self.model
        return gradient_of(model, self.sums), self.sums.gram[-1]

    def fit(self, tol=1e-3, **options):
        steps = LikelihoodSteps(Likelihood(self.gradient_at, self.start, self.floor), QuasiNewtonSettings(**options))
        return accelerate(self.step, self.start, Monitor(tol, 5000), steps)


@pytest.mark.parametrize("per_feature", [False, True], ids=["shared", "per feature"])
@pytest.mark.parametrize("seed", range(3))
def test_too_many_components_take_far_fewer_steps_than_em_to_no_lower_a_maximum(seed, per_feature):
    quick, plain = (Problem(seed, per_feature=per_feature) for _ in range(2))
    found = quick.fit()
    wanted = iterate(plain.step, plain.start, Monitor(1e-3, 1000))
    assert found.status is Status.CONVERGED
    assert found.trace[-1] > wanted.trace[-1] - 1e-3
    assert quick.e_steps < (0.2 if per_feature else 0.7) * plain.e_steps
    assert_never_falls(found.trace)


def test_extrapolation_without_gradients_takes_longer():
    quick, combined = ([Problem(seed, per_feature=True) for seed in range(4)] for _ in range(2))
    for one, other in zip(quick, combined, strict=True):
        one.fit()
        iterate_accelerated(other.step, other.start, Monitor(1e-3, 2000), other.floor)
    assert sum(one.e_steps for one in quick) < 0.5 * sum(other.e_steps for other in combined)


def test_the_end_is_within_tol_of_where_em_would_go():
    problem = Problem(5)
    found = problem.fit(tol=1e-3)
    further = iterate(problem.step, found.state, Monitor(0.0, 1000))
    assert further.trace[-1] - found.trace[-1] < 1e-3


@pytest.mark.parametrize("noise", ["shared", "per feature"])
def test_steps_solve_the_information_of_complete_rows(rng, noise):
    n, d, q = 50.0, 8, 3
    model = random_model(rng, d, q, noise=0.2)
    psi = rng.uniform(0.05, 0.2, d) if noise == "per feature" else np.asarray(0.1)
    model = LinearGaussian(model.mean, 2 * model.loadings, psi)
    information = Information(model.loadings, psi, np.full(d, n), InformationSettings())
    inverse = np.linalg.inv(dense_covariance(model))
    # A change of the loadings orthogonal to them, and of the mean: what C^{-1} dC C^{-1} dC says.
    white = model.loadings / np.sqrt(psi if psi.ndim else np.full(d, psi))[:, None]
    axes = np.linalg.svd(white, full_matrices=False)[0]
    outside = rng.standard_normal((d, q))
    outside = np.sqrt(psi if psi.ndim else np.full(d, psi))[:, None] * (outside - axes @ (axes.T @ outside))
    change = outside @ model.loadings.T + model.loadings @ outside.T
    gradient = n * inverse @ change @ inverse @ model.loadings
    shift = rng.standard_normal(d)
    both = np.concatenate([gradient.ravel(), n * inverse @ shift, np.zeros(d if psi.ndim else 1)])
    found = information.solve(both)
    assert_allclose(found[: d * q].reshape(d, q), outside, atol=1e-10)
    assert_allclose(found[d * q : d * q + d], shift, atol=1e-10)


def maximum_of(covariance, q):
    """PPCA of a covariance: the closed form."""
    values, vectors = np.linalg.eigh(covariance)
    noise = values[:-q].mean()
    return LinearGaussian(np.zeros(len(values)), vectors[:, -q:] * np.sqrt(values[-q:] - noise), noise)


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_unequal_noise_outside_the_components_is_part_of_the_information(rng, size):
    """At the maximum of complete rows, steps orthogonal to the loadings are those of Newton's method."""
    n, d, q = 40, 7, 3
    x = rng.standard_normal((n, d)) * np.linspace(1.0, 3.0, d)
    x -= x.mean(axis=0)
    covariance = x.T @ x / n
    model = maximum_of(covariance, q)
    psi = np.full(d, float(model.noise_variance))
    share = np.ones(d)
    rest = Outside.of(model.loadings, psi, covariance, share)
    settings = InformationSettings(exchange=1e-9)
    information = Information(model.loadings, model.noise_variance, n * share, settings, rest)
    axes = np.linalg.qr(model.loadings)[0]
    change = rng.standard_normal((d, q))
    change -= axes @ (axes.T @ change)

    def gradient(loadings):
        inverse = np.linalg.inv(loadings @ loadings.T + np.diag(psi))
        return n * (inverse @ covariance @ inverse @ loadings - inverse @ loadings)

    h = 1e-5
    fall = (gradient(model.loadings - h * change) - gradient(model.loadings + h * change)) / (2 * h)
    found = information.solve(np.concatenate([size * fall.ravel(), np.zeros(d + 1)]))
    assert_allclose(found[: d * q].reshape(d, q), size * change, atol=1e-6 * size)


def test_steps_lead_away_from_a_saddle_point():
    """With the wrong axis of a known covariance for a component, Newton's own step would lead back to it."""
    d, n = 5, 100.0
    covariance = np.diag([4.0, 3.0, 1.0, 1.0, 1.0])
    loadings = np.zeros((d, 1))
    loadings[:, 0] = np.eye(d)[1] * np.sqrt(2.0) + 1e-3 * np.eye(d)[0]
    psi, share = np.ones(d), np.ones(d)
    inverse = np.linalg.inv(loadings @ loadings.T + np.eye(d))
    slope = n * (inverse @ covariance @ inverse @ loadings - inverse @ loadings)
    rest = Outside.of(loadings, psi, covariance, share)
    information = Information(loadings, np.asarray(1.0), n * share, InformationSettings(), rest)
    step = information.solve(np.concatenate([slope.ravel(), np.zeros(d + 1)]))
    assert_allclose(step[0], float(slope[0, 0]) / (n * (4.0 / 3.0 - 1.0)), rtol=1e-3)  # not its negative


def test_features_that_were_rarely_observed_count_as_noise(rng):
    d, q = 6, 2
    model = random_model(rng, d, q, noise=0.2)
    share = np.ones(d)
    share[3] = 0.0
    covariance = dense_covariance(model)
    covariance[3], covariance[:, 3] = 0.0, 0.0  # as ScaledCovariance weights it
    loadings = model.loadings.copy()
    loadings[3] = 0.0
    psi = np.full(d, 0.3)
    rest = Outside.of(loadings, psi, covariance, share)
    alone = np.flatnonzero(np.abs(rest.axes[3]) > 1 - 1e-9)
    assert alone.size == 1
    assert_allclose(rest.variance[alone], 1.0)


def test_a_known_covariance_saves_e_steps_to_the_same_maximum():
    without, known = 0, 0
    for seed in range(3):
        plain, helped = (Problem(seed, n=1500, d=40, q=15) for _ in range(2))
        pairs = np.where(np.isnan(plain.x), 0.0, plain.x - plain.start.mean)
        seen = np.isfinite(plain.x).astype(float)
        covariance = (pairs.T @ pairs) / (seen.T @ seen)
        share = seen.mean(axis=0) / seen.mean(axis=0).max()
        first = maximum_of(covariance, 15)
        start = LinearGaussian(plain.start.mean, first.loadings, first.noise_variance)
        plain.start = helped.start = start
        found = plain.fit()
        weighted = np.sqrt(np.outer(share, share)) * covariance
        steps = LikelihoodSteps(Likelihood(helped.gradient_at, start, FLOOR, weighted))
        ended = accelerate(helped.step, start, Monitor(1e-3, 5000), steps)
        assert_never_falls(ended.trace)
        assert abs(ended.trace[-1] - found.trace[-1]) < 2e-3
        without, known = without + plain.e_steps, known + helped.e_steps
    assert known < 0.8 * without, (known, without)


def test_features_without_cells_stay_where_they_are():
    problem = Problem(0, n=60, d=8, q=4)
    x = problem.x.copy()
    x[:, 2] = np.nan
    problem.rows = open_source(x).keep(partial(observe, centre=problem.start.mean))
    loadings = problem.start.loadings.copy()
    loadings[2] = 0.0
    problem.start = LinearGaussian(problem.start.mean, loadings, problem.start.noise_variance)
    proposed = []
    steps = LikelihoodSteps(Likelihood(problem.gradient_at, problem.start, FLOOR))
    plain = steps._quasi_newton._propose
    steps._quasi_newton._propose = lambda: proposed.append(plain()) or proposed[-1]
    accelerate(problem.step, problem.start, Monitor(1e-6, 500), steps)
    assert proposed
    assert all(not model.loadings[2].any() for model in proposed if model is not None)


class Valley:
    """Objective -(u - 5)^2 of the mean, with a gradient that is wrong by a factor and steps of EM that creep."""

    def __init__(self, factor):
        self.factor, self.visited = factor, []

    def step(self, model):
        u = float(model.mean[0])
        self.visited.append(u)
        change = 0.02 * (5.0 - u)
        return LinearGaussian([u + change, 0.0], model.loadings, model.noise_variance), -((u - 5.0) ** 2)

    def gradient_at(self, model):
        slope = self.factor * 2 * (5.0 - float(model.mean[0]))
        return Gradient(np.array([slope, 0.0]), np.zeros((2, 1)), np.zeros(())), np.ones(2)


@pytest.mark.parametrize("factor", [1.0, 100.0, -1.0, np.nan])
def test_wrong_gradients_cost_steps_but_never_height(factor):
    valley = Valley(factor)
    start = LinearGaussian(np.zeros(2), np.ones((2, 1)), 1.0)
    steps = LikelihoodSteps(Likelihood(valley.gradient_at, start, FLOOR))
    ended = accelerate(valley.step, start, Monitor(1e-9, 3000), steps)
    assert_never_falls(ended.trace)
    assert_allclose(ended.state.mean[0], 5.0, atol=1e-3)


def test_after_failures_em_takes_over():
    valley = Valley(1e6)
    start = LinearGaussian(np.zeros(2), np.ones((2, 1)), 1.0)
    likelihood = Likelihood(valley.gradient_at, start, FLOOR)
    steps = LikelihoodSteps(likelihood, QuasiNewtonSettings(shorter=1.0, tries=2))
    proposed = []
    steps._quasi_newton._propose = lambda: proposed.append(0.0) or LinearGaussian([1e3, 0.0], start.loadings, 1.0)
    accelerate(valley.step, start, Monitor(1e-9, 12), steps)
    kept = [u for u in valley.visited if u < 1e3]
    assert proposed
    assert_allclose((np.diff(kept)) / (5.0 - np.array(kept[:-1])), 0.02, rtol=1e-6)


@pytest.mark.parametrize("per_feature", [False, True], ids=["shared", "per feature"])
def test_noise_stays_above_its_floor(rng, per_feature):
    x = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 8)) + 0.1 * rng.standard_normal((40, 8))
    x[:, 1] = x[:, 0]  # one of the two has no noise of its own
    problem = Problem(0, n=40, d=8, q=4, per_feature=per_feature)
    problem.rows = open_source(punched(rng, x, 0.1)).keep(partial(observe, centre=problem.start.mean))
    problem.floor = 1e-3 * np.ones(8) if per_feature else 1e-3
    problem.em = EM(problem.floor)
    problem.start = LinearGaussian(problem.start.mean, problem.start.loadings, np.ones(8) if per_feature else 1.0)
    visited, step = [], problem.step
    problem.step = lambda model: visited.append(model) or step(model)
    problem.fit()
    assert min(np.min(model.noise_variance) for model in visited) >= 1e-3 * (1 - 1e-12)
