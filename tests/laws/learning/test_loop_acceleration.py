"""Extrapolated steps: fewer of them, to the same maximum, never downhill."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import dense_covariance, dense_observed_log_likelihood, largest_fall, punched, random_model
from probpca.blocks import observe
from probpca.inference import sample
from probpca.learning import Status
from probpca.learning.em.m_step import EM
from probpca.learning.loop import Anderson, Coordinates, Monitor, iterate, iterate_accelerated
from probpca.models import LinearGaussian
from probpca.sources import open_source

FLOOR = 1e-300
SUMMIT = 5.0


def slow_case(seed, n=80, d=10, q=3, share=0.5):
    """Weak components and half of the cells: rows, prepared, and a start."""
    rng = np.random.default_rng(seed)
    truth = random_model(rng, d, q, noise=1.0)
    truth = LinearGaussian(truth.mean, 0.6 * truth.loadings, 1.0)
    x = punched(rng, sample(truth, n, rng=rng), share)
    centre = np.nanmean(x, axis=0)
    rows = open_source(x).keep(partial(observe, centre=centre))
    return x, rows, LinearGaussian(centre, rng.standard_normal((d, q)), 1.0)


class Counted:
    """A step that remembers where it was called, and what came of it."""

    def __init__(self, step):
        self.step, self.states, self.images, self.values = step, [], [], []

    def __call__(self, model):
        following, value = self.step(model)
        self.states.append(model)
        self.images.append(following)
        self.values.append(value)
        return following, value


@pytest.mark.parametrize("expand", [False, True], ids=["em", "px_em"])
@pytest.mark.parametrize("seed", range(3))
def test_a_slow_method_needs_far_fewer_steps_to_the_same_maximum(seed, expand):
    x, rows, start = slow_case(seed)
    plain, quick = (Counted(partial(EM(FLOOR, expand=expand).step, source=rows)) for _ in range(2))
    wanted = iterate(plain, start, Monitor(1e-7, 20_000))
    found = iterate_accelerated(quick, start, Monitor(1e-7, 20_000), FLOOR)
    assert wanted.status is found.status is Status.CONVERGED
    assert_allclose(found.trace[-1], wanted.trace[-1], atol=1e-5)
    assert len(quick.values) < 0.6 * len(plain.values)
    assert_allclose(dense_covariance(found.state), dense_covariance(wanted.state), atol=0.02)
    assert_allclose(found.trace[-1], dense_observed_log_likelihood(found.state, x).sum(), rtol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_the_trace_never_falls(seed):
    _, rows, start = slow_case(seed, n=40, share=0.6)
    found = iterate_accelerated(partial(EM(FLOOR).step, source=rows), start, Monitor(1e-6, 2000), FLOOR)
    assert largest_fall(found.trace) <= 1e-10


def creep(model):
    """Towards the summit of -(u - 5)^2 in steps that hardly shrink until they are there: a straight line misleads."""
    u = float(model.mean[0])
    change = 0.5 * (SUMMIT - u) if abs(SUMMIT - u) < 0.3 else np.sign(SUMMIT - u) * (0.1 - 1e-4 * u)
    return LinearGaussian([u + change, 0.0], model.loadings, model.noise_variance), -((u - SUMMIT) ** 2)


START = LinearGaussian(np.zeros(2), np.ones((2, 1)), 1.0)


def test_a_step_too_far_is_taken_back_for_the_plain_one():
    walk = Counted(creep)
    ended = iterate_accelerated(walk, START, Monitor(1e-9, 1000), FLOOR)
    tried = np.array([float(model.mean[0]) for model in walk.states])
    too_far = np.flatnonzero(np.abs(tried - SUMMIT) > np.maximum.accumulate(np.abs(SUMMIT - tried))[0])
    assert too_far.size > 0
    for k in too_far:
        assert tried[k + 1] == float(walk.images[k - 1].mean[0])
        assert walk.values[k] not in ended.trace
    assert (np.diff(ended.trace) >= 0).all()
    assert ended.status is Status.CONVERGED
    assert_allclose(ended.state.mean[0], SUMMIT, atol=1e-3)


def test_without_its_safeguard_the_same_walk_would_fall():
    coordinates = Coordinates.around(START, FLOOR)
    history = Anderson(coordinates)
    state, trace = START, []
    for _ in range(8):
        following, value = creep(state)
        trace.append(value)
        history.append(state, following)
        jump = history.extrapolated()
        state = following if jump is None else coordinates.restore(jump)
    assert largest_fall(trace) > 1e-10


def test_a_value_that_is_no_number_is_taken_back_too():
    def brittle(model):
        following, value = creep(model)
        return following, value if abs(model.mean[0]) < 10 else np.nan

    ended = iterate_accelerated(brittle, START, Monitor(1e-9, 1000), FLOOR)
    assert np.isfinite(ended.trace).all()
    assert_allclose(ended.state.mean[0], SUMMIT, atol=1e-3)


class Numbers:
    """Vectors that are their own coordinates."""

    n_noise = 1
    flatten = staticmethod(np.asarray)


def test_steps_that_are_linear_are_summed_to_their_limit(rng):
    shrink = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    shrink = (shrink * [0.9, 0.5, -0.3]) @ shrink.T
    limit, history, point = rng.standard_normal(3), Anderson(Numbers()), np.zeros(3)
    for _ in range(4):  # as many differences as there are directions
        image = limit + shrink @ (point - limit)
        history.append(point, image)
        point = image
    assert_allclose(history.extrapolated(), limit, atol=1e-8)


def test_one_step_is_nothing_to_extrapolate_from(rng):
    history = Anderson(Numbers())
    assert history.extrapolated() is None
    history.append(rng.random(3), rng.random(3))
    assert history.extrapolated() is None
    history.append(rng.random(3), rng.random(3))
    assert history.extrapolated().shape == (3,)
    assert history.reject(rng.random(3)) is None
    assert history.extrapolated() is None


def test_steps_that_stand_still_are_left_alone():
    history = Anderson(Numbers())
    for _ in range(3):
        history.append(np.ones(4), np.ones(4))
    assert_allclose(history.extrapolated(), np.ones(4))


@pytest.mark.parametrize("too_far", [1.5, 3.0, 1e3])
def test_a_relaxed_step_that_lowers_the_likelihood_is_replaced_by_the_plain_one(too_far):
    def relax(model, following):
        return replace(following, mean=model.mean + too_far * (following.mean - model.mean))

    plain = iterate_accelerated(creep, START, Monitor(1e-9, 1000), FLOOR)
    ended = iterate_accelerated(creep, START, Monitor(1e-9, 1000), FLOOR, relax)
    assert (np.diff(ended.trace) >= 0).all()
    assert_allclose(ended.state.mean[0], plain.state.mean[0], atol=1e-3)


def test_a_relaxed_step_takes_the_place_of_the_plain_one():
    visited = []

    def relax(model, following):
        visited.append(replace(following, mean=model.mean + 1.5 * (following.mean - model.mean)))
        return visited[-1]

    walk = Counted(creep)
    iterate_accelerated(walk, START, Monitor(1e-9, 3), FLOOR, relax)
    assert [model.mean[0] for model in walk.states[1:3]] == [model.mean[0] for model in visited[:2]]


@pytest.mark.parametrize("max_iter", [1, 2, 3, 4, 5, 6, 7, 10, 20])
def test_the_trace_ends_with_the_value_of_the_model_that_is_returned(max_iter):
    _, rows, start = slow_case(1)
    step = partial(EM(FLOOR).step, source=rows)
    ended = iterate_accelerated(step, start, Monitor(0.0, max_iter), FLOOR)
    assert ended.status is Status.MAX_ITER
    assert len(ended.trace) <= max_iter + 1
    assert_allclose(ended.trace[-1], step(ended.state)[1], rtol=1e-12)


def test_the_noise_stays_above_its_floor(rng):
    x = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6))
    x[rng.random(x.shape) < 0.1] = np.nan
    rows = open_source(x).keep(partial(observe, centre=np.nanmean(x, axis=0)))
    start = LinearGaussian(np.nanmean(x, axis=0), rng.standard_normal((6, 2)), 0.1)
    walk = Counted(partial(EM(1e-8).step, source=rows))
    iterate_accelerated(walk, start, Monitor(1e-6, 300), 1e-8)
    assert min(float(model.noise_variance) for model in walk.states) >= 1e-8 * (1 - 1e-12)
