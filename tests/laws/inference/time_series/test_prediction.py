"""Forecasts, errors, holes and draws of a series: each is a margin of one large Gaussian."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, kstest, norm

from oracles import (
    assert_moments_match,
    assert_within_errors,
    dense_condition,
    dense_covariance,
    dense_series,
    dense_trajectory,
    punched,
    random_system,
)
from probpca import DataError, ShapeError
from probpca.inference import filter_states, forecast, impute_series, innovations, sample_series, series_log_likelihood
from probpca.inference.imputation import impute_with_uncertainty
from probpca.models import Gaussian, StateSpace

NAN = np.nan
NEAR = {"rtol": 1e-10, "atol": 1e-10}
DRAWS = 20_000
LENGTHS = (6, 1, 4)


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def noise(request):
    return request.param


@pytest.fixture(params=[0, 2], ids=["alone", "driven"])
def model(request, rng, noise):
    return random_system(rng, 4, 2, inputs=request.param, noise=noise)


@pytest.fixture
def y(rng, model):
    """Three sequences with holes, and a row without any cell."""
    series = [punched(rng, model.emission.mean + 2 * rng.standard_normal((n, 4)), 0.3) for n in LENGTHS]
    series[0][2] = NAN
    return series


@pytest.fixture
def inputs(rng, model):
    return [rng.standard_normal((n, 2)) for n in LENGTHS] if model.n_inputs else None


def dense_rows(model, y, inputs=None):
    """Mean (T, d) and covariance (T, d, T, d) of all cells of a sequence, given the observed ones."""
    steps, d, q = len(y), model.n_features, model.n_components
    joint, values = dense_trajectory(model, steps, inputs), np.ravel(y)
    rows = Gaussian(joint.mean[steps * q :], joint.covariance[steps * q :, steps * q :])
    seen, hidden = np.flatnonzero(~np.isnan(values)), np.flatnonzero(np.isnan(values))
    mean, covariance = values.copy(), np.zeros((values.size, values.size))
    if hidden.size:
        known = dense_condition(rows, seen, values[seen]) if seen.size else (rows.mean, rows.covariance)
        mean[hidden], covariance[np.ix_(hidden, hidden)] = known
    return mean.reshape(steps, d), covariance.reshape(steps, d, steps, d)


def each_of(y, inputs):
    return zip(y, [None] * len(y) if inputs is None else inputs, strict=True)


# What comes next


@pytest.mark.parametrize("horizon", [1, 5])
def test_forecasts_are_the_distribution_of_rows_not_yet_observed(rng, model, y, inputs, horizon):
    future = rng.standard_normal((horizon - 1, 2)) if model.n_inputs else None
    found = forecast(model, y, horizon, inputs=inputs, future=future)
    for ahead, (rows, u) in zip(found, each_of(y, inputs), strict=True):
        longer = np.vstack([rows, np.full((horizon, 4), NAN)])
        driven = None if u is None else np.vstack([u, future, np.zeros((1, 2))])
        mean, covariance = dense_rows(model, longer, driven)
        states = dense_series(model, longer, driven)
        at = np.arange(len(rows), len(longer))
        assert_allclose(ahead.mean, mean[at], **NEAR)
        assert_allclose(ahead.covariance, covariance[at, :, at], **NEAR)
        assert_allclose(ahead.std**2, np.diagonal(covariance[at, :, at], axis1=1, axis2=2), **NEAR)
        assert_allclose(ahead.state_mean, states.mean[at], **NEAR)
        assert_allclose(ahead.state_covariance, states.covariance[at, :, at], **NEAR)


@pytest.mark.parametrize("process", [0.0, 1e-12])
def test_forecasts_need_no_noise_of_the_state(rng, process):
    system = random_system(rng, 4, 2)
    model = replace(system, process_noise=process * system.process_noise)
    y = sample_series(model, 5, rng=rng).rows
    mean, covariance = dense_rows(model, np.vstack([y, np.full((3, 4), NAN)]))
    ahead = forecast(model, y, 3)[0]
    assert_allclose(ahead.mean, mean[5:], rtol=1e-8, atol=1e-8)
    assert_allclose(ahead.covariance[2], covariance[7, :, 7], rtol=1e-8, atol=1e-8)


def test_far_ahead_the_past_is_forgotten(rng, noise):
    model = random_system(rng, 4, 2, noise=noise)
    ahead = forecast(model, rng.standard_normal((5, 4)), 120)[0]
    assert_allclose(ahead.mean[-1], model.marginal().mean, atol=1e-8)
    assert_allclose(ahead.covariance[-1], dense_covariance(model.marginal()), rtol=1e-8, atol=1e-9)


def test_doubt_about_a_stationary_state_grows_with_the_distance(rng):
    model = random_system(rng, 4, 2)
    model = replace(model, initial=model.stationary())
    doubt = forecast(model, rng.standard_normal((30, 4)), 10)[0].state_covariance
    left = model.stationary().covariance - doubt
    assert (np.linalg.eigvalsh(left)[:, 0] > -1e-12).all()
    assert (np.diff(np.trace(doubt, axis1=1, axis2=2)) > 0).all()


def test_nothing_is_known_about_a_feature_that_was_never_observed(rng, noise):
    known = forecast(random_system(rng, 4, 2, noise=noise), rng.standard_normal((5, 4)), 3)[0]
    ahead = replace(known, unknown=np.array([1, 3]))
    for covariance, std in zip(ahead.covariance, ahead.std, strict=True):
        assert_array_equal(np.diagonal(covariance)[[1, 3]], np.inf)
        assert_allclose(np.sqrt(np.diagonal(covariance)), std)
        assert_array_equal(covariance[[1, 3]][:, [0, 2]], 0.0)
        assert_array_equal(covariance[1, 3], 0.0)
        assert_allclose(covariance, covariance.T)
    some = np.ix_(range(3), [0, 2], [0, 2])
    assert_array_equal(ahead.covariance[some], known.covariance[some])


def test_a_state_without_memory_is_forecast_by_its_marginal(rng):
    emission = random_system(rng, 4, 2).emission
    ahead = forecast(StateSpace.memoryless(emission), rng.standard_normal((3, 4)), 2)[0]
    assert_allclose(ahead.mean, [emission.mean] * 2, **NEAR)
    assert_allclose(ahead.covariance, [dense_covariance(emission)] * 2, **NEAR)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_intervals_are_quantiles_of_each_cell(rng, level):
    ahead = forecast(random_system(rng, 4, 2), rng.standard_normal((5, 4)), 3)[0]
    low, high = ahead.interval(level)
    spread = norm(ahead.mean, ahead.std)
    assert_allclose(spread.cdf(low), (1 - level) / 2, rtol=1e-9)
    assert_allclose(spread.sf(high), (1 - level) / 2, rtol=1e-9)


def test_intervals_hold_what_comes_as_often_as_they_say(rng):
    model = random_system(rng, 3, 2)
    rows = np.array([sample_series(model, 12, rng=rng).rows for _ in range(400)])
    ends = [ahead.interval(0.8) for ahead in forecast(model, punched(rng, rows[:, :10], 0.2), 2)]
    inside = np.mean(
        [(low < late) & (late < high) for (low, high), late in zip(ends, rows[:, 10:], strict=True)], (1, 2)
    )
    assert_within_errors(inside.mean(), 0.8, inside.std() / np.sqrt(400))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, NAN])
def test_a_level_is_a_probability(rng, level):
    ahead = forecast(random_system(rng, 4, 2), np.ones((2, 4)), 1)[0]
    with pytest.raises(DataError, match="level must lie between 0 and 1"):
        ahead.interval(level)


@pytest.mark.parametrize("horizon", [0, -3])
def test_a_forecast_goes_at_least_one_step(rng, horizon):
    with pytest.raises(ShapeError, match=f"horizon must be an int of at least 1(?s:.*)got {horizon}"):
        forecast(random_system(rng, 4, 2), np.ones((2, 4)), horizon)


@pytest.mark.parametrize("future", [None, np.ones((1, 2)), np.ones((2, 1)), np.ones(2)])
def test_inputs_to_come_must_reach_as_far_as_the_forecast(rng, future):
    model = random_system(rng, 4, 2, inputs=2)
    with pytest.raises(ShapeError, match=r"a forecast of 3 steps needs future inputs of shape \(2, 2\)"):
        forecast(model, np.ones((5, 4)), 3, inputs=np.ones((5, 2)), future=future)


def test_one_step_ahead_the_last_input_is_enough(rng):
    model = random_system(rng, 4, 2, inputs=2)
    y, u = rng.standard_normal((5, 4)), rng.standard_normal((5, 2))
    push = model.input_loadings @ u[-1]
    with_last, without = (
        forecast(model, y, 1, inputs=given)[0] for given in (u, np.vstack([u[:-1], np.zeros((1, 2))]))
    )
    assert_allclose(with_last.state_mean[0] - without.state_mean[0], push, **NEAR)


def test_inputs_beyond_the_horizon_do_not_count(rng):
    model = random_system(rng, 4, 2, inputs=2)
    y, u, future = rng.standard_normal((5, 4)), rng.standard_normal((5, 2)), rng.standard_normal((9, 2))
    short, long = (forecast(model, y, 3, inputs=u, future=later)[0] for later in (future[:2], future))
    assert_array_equal(short.mean, long.mean)


# What is strange


def test_innovations_are_errors_of_the_prediction_from_the_rows_before(model, y, inputs):
    found = innovations(model, y, inputs=inputs)
    at = 0
    for rows, u in each_of(y, inputs):
        for t in range(len(rows)):
            past = np.vstack([rows[:t], np.full((1, 4), NAN)])
            mean, covariance = dense_rows(model, past, u)
            seen = np.flatnonzero(~np.isnan(rows[t]))
            error, S = (rows[t] - mean[t])[seen], covariance[t, :, t][np.ix_(seen, seen)]
            assert_allclose(found.residual[at, seen], error, **NEAR)
            assert_allclose(found.normalised[at, seen], error / np.sqrt(np.diag(S)), **NEAR)
            distance = error @ np.linalg.solve(S, error) if seen.size else 0.0
            assert_allclose(found.distance[at], distance, **NEAR)
            assert found.degrees[at] == seen.size
            at += 1


def test_a_cell_that_was_not_observed_has_no_error(model, y, inputs):
    found, missing = innovations(model, y, inputs=inputs), np.isnan(np.vstack(y))
    for table in (found.residual, found.normalised, found.cell_p_value):
        assert_array_equal(np.isnan(table), missing)


def test_a_row_without_cells_is_not_strange(model, y, inputs):
    found = innovations(model, y, inputs=inputs)
    empty = np.isnan(np.vstack(y)).all(axis=1)
    assert empty.any()
    assert_array_equal(found.p_value[empty], 1.0)
    assert_array_equal(found.log10_p_value[empty], 0.0)
    assert_array_equal(found.degrees[empty], 0.0)
    assert_allclose(found.log_likelihood[empty], 0.0, atol=1e-12)


def test_p_values_are_chi_square_tails(model, y, inputs):
    found = innovations(model, y, inputs=inputs)
    some = found.degrees > 0
    assert_allclose(found.p_value[some], chi2.sf(found.distance[some], found.degrees[some]), rtol=1e-9)
    assert_allclose(10**found.log10_p_value, found.p_value, rtol=1e-9)
    assert_allclose(found.cell_p_value, 2 * norm.sf(np.abs(found.normalised)), rtol=1e-9)


def test_likelihoods_of_rows_are_those_of_the_filter(model, y, inputs):
    found = innovations(model, y, inputs=inputs)
    assert_array_equal(found.log_likelihood, filter_states(model, y, inputs=inputs).log_likelihood)
    assert_allclose(found.log_likelihood.sum(), series_log_likelihood(model, y, inputs=inputs), **NEAR)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_p_values_of_the_models_own_rows_are_uniform_and_independent(rng, share, noise):
    model = random_system(rng, 4, 2, noise=noise)
    found = innovations(model, punched(rng, sample_series(model, 1000, rng=rng).rows, share))
    p = found.p_value[found.degrees > 0]
    assert kstest(p, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(p[1:], p[:-1])[0, 1]) < 6 / np.sqrt(p.size)
    for column in found.cell_p_value.T:
        assert kstest(column[~np.isnan(column)], "uniform").pvalue > 1e-4


def test_a_shock_is_strange_where_it_happens(rng):
    model = random_system(rng, 4, 2)
    y = sample_series(model, 60, rng=rng).rows
    y[30, 1] += 1e3
    found = innovations(model, y)
    assert found.log10_p_value.argmin() == 30
    assert np.nanargmin(found.cell_p_value[30]) == 1
    assert np.isfinite(found.log10_p_value).all()


# What is missing


def test_missing_cells_are_filled_in_from_all_others(model, y, inputs):
    found = impute_series(model, y, inputs=inputs)
    at = 0
    for rows, u in each_of(y, inputs):
        mean, covariance = dense_rows(model, rows, u)
        some = slice(at, at + len(rows))
        variance = np.einsum("tjtj->tj", covariance)
        assert_allclose(found.values[some], mean, **NEAR)
        assert_allclose(found.std[some] ** 2, variance, **NEAR)
        at += len(rows)


def test_observed_cells_are_returned_bit_for_bit(model, y, inputs):
    found, rows = impute_series(model, y, inputs=inputs), np.vstack(y)
    seen = ~np.isnan(rows)
    assert_array_equal(found.values[seen], rows[seen])
    assert_array_equal(found.std[seen], 0.0)
    assert (found.std[~seen] > 0).all()


def test_a_complete_series_has_nothing_to_fill_in(rng):
    y = rng.standard_normal((5, 4))
    found = impute_series(random_system(rng, 4, 2), y)
    assert_array_equal(found.values, y)
    assert_array_equal(found.std, np.zeros((5, 4)))


def test_without_memory_cells_are_filled_in_from_their_own_row(rng, noise):
    emission = random_system(rng, 4, 2, noise=noise).emission
    y = punched(rng, rng.standard_normal((9, 4)), 0.4)
    found, wanted = impute_series(StateSpace.memoryless(emission), y), impute_with_uncertainty(emission, y)
    assert_allclose(found.values, wanted.values, **NEAR)
    assert_allclose(found.std, wanted.std, **NEAR)


def test_memory_makes_holes_smaller(rng):
    model = random_system(rng, 4, 2, radius=0.99)
    model = replace(model, process_noise=0.01 * model.process_noise)
    y = sample_series(model, 40, rng=rng).rows
    holed = y.copy()
    holed[20] = NAN
    assert (impute_series(model, holed).std[20] < forecast(model, holed[:20], 1)[0].std[0]).all()


# Draws


@pytest.mark.parametrize("u", [0, 2])
def test_drawn_series_have_the_joint_distribution_of_states_and_rows(rng, noise, u):
    model = random_system(rng, 2, 2, inputs=u, noise=noise)
    given = rng.standard_normal((3, u)) if u else None
    drawn = [sample_series(model, 3, rng=rng, inputs=given) for _ in range(2000)]
    flat = np.array([np.concatenate([one.states.ravel(), one.rows.ravel()]) for one in drawn])
    joint = dense_trajectory(model, 3, given)
    assert_moments_match(flat, joint.mean, joint.covariance)


def test_a_long_draw_has_the_stationary_moments(rng):
    model = random_system(rng, 3, 2, radius=0.3)
    rows = sample_series(replace(model, initial=model.stationary()), 4 * DRAWS, rng=rng).rows[::8]
    assert_moments_match(rows, model.marginal().mean, dense_covariance(model.marginal()))


def test_without_noise_a_draw_follows_the_dynamics(rng):
    model = replace(random_system(rng, 3, 2, inputs=1), process_noise=np.zeros((2, 2)))
    u = rng.standard_normal((7, 1))
    states = sample_series(model, 7, rng=rng, inputs=u).states
    assert_allclose(states[1:], states[:-1] @ model.transition.T + u[:-1] @ model.input_loadings.T, **NEAR)


def test_the_same_generator_draws_the_same_series(rng):
    model = random_system(rng, 3, 2)
    first, again = (sample_series(model, 6, rng=np.random.default_rng(1)) for _ in range(2))
    assert_array_equal(first.rows, again.rows)
    assert_array_equal(first.states, again.states)


@pytest.mark.parametrize("n", [0, -1])
def test_a_drawn_series_has_at_least_one_step(rng, n):
    with pytest.raises(ShapeError, match=f"number of steps must be at least 1; got {n}"):
        sample_series(random_system(rng, 4, 2), n, rng=rng)


@pytest.mark.parametrize("inputs", [None, np.ones((4, 2)), np.ones((5, 1)), np.ones(5)])
def test_inputs_of_a_drawn_series_must_fit(rng, inputs):
    with pytest.raises(ShapeError, match=r"inputs must have shape \(5, 2\)"):
        sample_series(random_system(rng, 4, 2, inputs=2), 5, rng=rng, inputs=inputs)
