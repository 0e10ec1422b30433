"""Newton steps climb the profile likelihood to a point where the dense likelihood is stationary."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

from oracles import assert_never_falls, random_model
from probpca.inference import sample
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.factor.fixed_point import fixed_point
from probpca.learning.factor.newton import QuadraticModel, newton
from probpca.learning.factor.profile import CorrelationMatrix, Profile
from probpca.learning.result import Status
from probpca.learning.settings import DenseSettings, FactorSettings, Settings

TIGHT = Settings(tol=1e-9)
SOLVERS = {
    "newton": newton,
    "fixed point": lambda profile, _, start, settings: fixed_point(profile, start, settings),
}


def correlations(rng, n=150, d=9, q=2, *, heavy=False):
    """Correlations of rows of a model; ``heavy`` gives one feature hardly any noise, so that it ends at the floor."""
    x = sample(random_model(rng, d, q, noise="diagonal"), n, rng=rng)
    if heavy:
        x[:, 0] = x[:, 1] + x[:, 2] + 1e-4 * rng.standard_normal(n)
    return np.corrcoef(x.T)


def profile_of(R, q, n=150.0):
    return Profile(CorrelationMatrix(R, DenseSettings()), q, n, -0.5 * n * len(R) * LOG_2PI, 1e-12)


def run(solver, R, q, settings=TIGHT, start=None):
    profile = profile_of(R, q)
    start = np.full(len(R), np.log(0.5)) if start is None else start
    return profile, SOLVERS[solver](profile, R, start, settings)


def dense_value(parameters, R, q, n=150.0):
    """Log-likelihood of standardised rows, from the dense covariance, as a function of loadings and log noise."""
    d = len(R)
    W, x = parameters[: d * q].reshape(d, q), parameters[d * q :]
    C = W @ W.T + np.diag(np.exp(x))
    return -0.5 * n * (d * LOG_2PI + np.linalg.slogdet(C)[1] + np.trace(np.linalg.solve(C, R)))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("q", [1, 2, 3])
def test_the_dense_likelihood_is_stationary_at_the_end(rng, solver, q):
    R = correlations(rng, q=q)
    profile, ended = run(solver, R, q)
    point = ended.state
    assert ended.status is Status.CONVERGED
    assert (point.log_noise > np.log(1e-5)).all()
    parameters = np.concatenate([point.loadings(q).ravel(), point.log_noise])
    gradient = [approx_fprime(parameters, dense_value, step, R, q) for step in (1e-6, -1e-6)]
    assert_allclose(np.mean(gradient, axis=0), 0.0, atol=2e-3)  # nats; rounding of differences is 1e-4
    assert_allclose(dense_value(parameters, R, q), profile.log_likelihood(point), rtol=1e-12)
    assert_allclose(np.square(point.loadings(q)).sum(axis=1) + np.exp(point.log_noise), 1.0, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("heavy", [False, True])
def test_the_trace_never_falls_and_ends_with_the_likelihood_of_the_state(rng, solver, heavy):
    for _ in range(20):
        R = correlations(rng, heavy=heavy, n=12)
        profile, ended = run(solver, R, 3, start=np.log(10.0 ** rng.uniform(-6, 0, 9)))
        assert_never_falls(ended.trace)
        assert len(ended.trace) > 3
        assert ended.trace[-1] == profile.log_likelihood(ended.state)


def test_both_solvers_end_at_the_same_point(rng):
    R = correlations(rng, d=12, q=3)
    (profile, by_newton), (_, by_fixed_point) = (run(solver, R, 3) for solver in SOLVERS)
    assert_allclose(by_newton.trace[-1], by_fixed_point.trace[-1], atol=1e-7)
    assert_allclose(by_newton.state.log_noise, by_fixed_point.state.log_noise, atol=1e-4)
    assert len(by_newton.trace) <= len(by_fixed_point.trace)
    assert profile.log_likelihood(by_newton.state) == by_newton.trace[-1]


@pytest.mark.parametrize("solver", SOLVERS)
def test_noise_variances_stay_between_the_floor_and_the_variance(rng, solver):
    R = correlations(rng, heavy=True)
    for floor in (1e-6, 1e-3):
        settings = replace(TIGHT, factor=FactorSettings(floor=floor))
        point = run(solver, R, 3, settings)[1].state
        psi = np.exp(point.log_noise)
        assert_allclose(psi.min(), floor, rtol=1e-9)
        assert psi.max() <= 1
        held = psi <= 1.01 * floor
        assert (point.gradient[held] > 0).all()  # it would go lower
        assert_allclose(point.gradient[~held], 0.0, atol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_too_few_iterations_are_reported(rng, solver):
    R = correlations(rng)
    _, ended = run(solver, R, 2, replace(TIGHT, max_iter=2))
    assert ended.status is Status.MAX_ITER
    assert len(ended.trace) == 3


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_watcher_sees_what_is_left(rng, solver):
    seen = []
    _, ended = run(solver, correlations(rng), 2, replace(TIGHT, tol=1e-5, watch=seen.append))
    assert [step.log_likelihood for step in seen] == [ended.trace[step.iteration] for step in seen]
    assert [step.iteration for step in seen] == sorted({step.iteration for step in seen})
    assert seen[-1].remaining < seen[0].remaining


def test_the_model_of_the_curvature_is_near_the_hessian(rng):
    W = rng.standard_normal((8, 2))
    R = np.corrcoef(sample(random_model(rng, 8, 2, noise=1e-2), 500, rng=rng).T)
    x = np.log(rng.uniform(0.01, 0.03, 8))
    profile = profile_of(R, W.shape[1])
    point = profile.at(x)
    assert point.values[-1] > 20  # against about 1 of the others: the expansion is accurate
    exact = np.array(
        [(profile.at(x + step).gradient - profile.at(x - step).gradient) / 2e-5 for step in 1e-5 * np.eye(8)]
    )
    first = QuadraticModel.at(point, R, FactorSettings(second_order=0))
    second = QuadraticModel.at(point, R, FactorSettings())
    scale = np.abs(exact).max()
    for model in (second.expansion, second.hessian):
        assert_allclose(model, exact, atol=0.01 * scale)
        assert np.abs(model - exact).max() < 0.3 * np.abs(first.expansion - exact).max()


@pytest.mark.parametrize("second_order", [0, 200])
def test_the_curvature_is_exact_if_a_single_eigenpair_is_left_out(rng, second_order):
    R = correlations(rng, n=40, d=3)
    x = np.log(rng.uniform(0.3, 0.5, 3))
    profile = profile_of(R, 2)
    point = profile.at(x)
    assert point.values.size == 2
    assert point.next_value > 0.2 * point.values[-1]  # the expansion alone is not exact
    exact = np.array(
        [(profile.at(x + step).gradient - profile.at(x - step).gradient) / 2e-5 for step in 1e-5 * np.eye(3)]
    )
    model = QuadraticModel.at(point, R, FactorSettings(second_order=second_order))
    assert_allclose(model.hessian, exact, atol=1e-7 * np.abs(exact).max())
    assert np.abs(model.expansion - exact).max() > 0.01 * np.abs(exact).max()


def test_the_point_between_two_maxima_is_left_by_a_step_that_swaps_factors():
    same, contrast = np.full(10, 0.7), 0.59 * np.resize([1.0, -1.0], 10)  # factors of all columns, one of them kept
    R = np.outer(same, same) + np.outer(contrast, contrast)
    np.fill_diagonal(R, 1.0)
    ended = {}
    for swap in (0.0, 0.5):
        settings = replace(TIGHT, factor=FactorSettings(swap=swap))
        _, ended[swap] = run("newton", R, 1, settings)  # the start favours neither half of the columns
        assert ended[swap].status is Status.CONVERGED
        assert_never_falls(ended[swap].trace)
    curvature = {
        swap: np.linalg.eigvalsh(QuadraticModel.at(one.state, R, FactorSettings()).hessian)[0]
        for swap, one in ended.items()
    }
    assert curvature[0.0] < -0.1  # stationary, but not a maximum
    assert curvature[0.5] > 0.1
    assert ended[0.5].trace[-1] > ended[0.0].trace[-1] + 100


def two_groups(first, second, d=5):
    """Correlations of two independent groups of columns, with one factor each."""
    R = np.zeros((2 * d, 2 * d))
    R[:d, :d], R[d:, d:] = first**2, second**2
    np.fill_diagonal(R, 1.0)
    return R


def test_a_climb_is_given_up_where_it_leads_back_to_a_known_maximum(rng):
    R, start = correlations(rng), np.full(9, np.log(0.5))
    profile, full = run("newton", R, 2)
    again = newton(profile, R, start, TIGHT, full.state)
    assert again.status is Status.MAX_ITER
    assert again.trace == full.trace[: len(again.trace)]
    assert 1 <= len(again.trace) < len(full.trace)
    assert again.trace[-1] < full.trace[-1]


def test_a_climb_is_given_up_where_it_ends_far_below_a_known_maximum():
    R = two_groups(0.9, 0.7)
    strong, weak = (np.log(np.repeat(noise, 5)) for noise in ([0.3, 1.0], [1.0, 0.6]))  # one of the factors is kept
    (profile, high), (_, low) = (run("newton", R, 1, start=start) for start in (strong, weak))
    assert low.trace[-1] < high.trace[-1] - 100
    hopeless = newton(profile, R, weak, TIGHT, high.state)
    assert hopeless.status is Status.MAX_ITER
    assert len(hopeless.trace) < len(low.trace)
    better = newton(profile, R, strong, TIGHT, low.state)
    assert better.trace == high.trace


def test_the_convex_part_of_the_curvature_is_never_negative(rng):
    for _ in range(10):
        R = np.corrcoef(rng.standard_normal((30, 6)).T)
        point = profile_of(R, 3).at(np.log(rng.uniform(1e-4, 1.0, 6)))
        model = QuadraticModel.at(point, R, FactorSettings())
        assert_allclose(model.gradient, point.gradient)
        assert np.linalg.eigvalsh(model.convex)[0] > -1e-9 * model.convex.max()


def test_a_step_keeps_to_the_box_and_lowers_the_model(rng):
    for _ in range(20):
        R = np.corrcoef(rng.standard_normal((30, 6)).T)
        point = profile_of(R, 2).at(np.log(rng.choice([1e-6, 1e-5, 0.3, 1.0], 6)))
        model = QuadraticModel.at(point, R, FactorSettings())
        for damping in (1e-3, 1.0, 100.0):
            change = model.step(damping).change
            assert (change >= model.lower).all()
            assert (change <= model.upper).all()
            assert np.abs(change).max() <= 2 * (1 + 1e-12)
            assert model.gradient @ change <= 0
            assert (change[~model.free] == 0).all()
