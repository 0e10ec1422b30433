"""Features that share no state are filtered one by one, with the answers of the whole system."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import dense_series, punched, random_system
from probpca.blocks import as_sequences
from probpca.inference import (
    decompose,
    filter_states,
    forecast,
    impute_series,
    innovations,
    sample_trajectories,
    series_log_likelihood,
    smooth,
)
from probpca.inference.time_series.kalman import believe, last_states
from probpca.inference.time_series.separate_features import SeparateTrajectories
from probpca.inference.time_series.square_root_filter import FilteredTrajectory
from probpca.models.components import OwnComponents, assemble

NEAR = {"rtol": 1e-8, "atol": 1e-8}


@pytest.fixture
def model():
    components = [
        OwnComponents("level", 0.5, level=0.2, season=1e-3),
        OwnComponents("slope", 0.5, level=0.1, slope=0.01, start=1.0),
        OwnComponents("ar", 0.3, slope=0.2, damping=0.7, season=0.0),
    ]
    return assemble(components, np.array([1.0, -2.0, 0.0]), 3)


@pytest.fixture
def y(rng):
    y = punched(rng, np.cumsum(rng.standard_normal((17, 3)), axis=0), 0.2)
    y[9] = np.nan
    return y


def test_the_posterior_is_that_of_the_whole_system(model, y):
    rows = as_sequences([y, y[:7]])
    ours, whole = believe(model, rows), FilteredTrajectory.of(model, rows)
    assert isinstance(ours, SeparateTrajectories)
    assert_allclose(ours.mean, whole.mean, **NEAR)
    for found, wanted in zip(ours.covariances, whole.covariances, strict=True):
        assert_allclose(found, wanted, **NEAR)
    assert_allclose(ours.row_likelihoods(), whole.row_likelihoods(), **NEAR)
    assert_allclose(ours.distance, whole.distance, **NEAR)
    for found, wanted in zip(ours.last_states(), whole.last_states(), strict=True):
        assert_allclose(found.mean, wanted.mean, **NEAR)
        assert_allclose(found.covariance, wanted.covariance, **NEAR)


def test_the_posterior_is_the_dense_one(model, y):
    near = replace(model, initial=replace(model.initial, covariance=np.minimum(model.initial.covariance, 10.0)))
    wanted, found = dense_series(near, y), smooth(near, y)
    steps = np.arange(len(y))
    assert_allclose(found.mean, wanted.mean, rtol=1e-6, atol=1e-6)
    assert_allclose(found.covariance, wanted.covariance[steps, :, steps], rtol=1e-6, atol=1e-6)
    scored = replace(near, layout=replace(near.layout, unscored=0))
    assert_allclose(series_log_likelihood(scored, y), wanted.log_likelihood, rtol=1e-9)


def test_answers_are_those_of_each_feature_alone(model, y):
    states, told, filled = filter_states(model, y), innovations(model, y), impute_series(model, y)
    [ahead] = forecast(model, y, 4)
    for part in model.parts():
        j, alone = part.feature, y[:, [part.feature]]
        assert_allclose(states.filtered.mean[:, part.states], filter_states(part.model, alone).filtered.mean, **NEAR)
        assert_allclose(told.residual[:, [j]], innovations(part.model, alone).residual, **NEAR)
        assert_allclose(filled.std[:, [j]], impute_series(part.model, alone).std, **NEAR)
        assert_allclose(ahead.std[:, [j]], forecast(part.model, alone, 4)[0].std, **NEAR)
    assert_allclose(told.distance, states.distance)
    assert_array_equal(told.degrees, np.count_nonzero(~np.isnan(y), axis=1))


def test_draws_have_the_moments_of_the_smoother(model, y, rng):
    drawn = sample_trajectories(model, y, 4000, rng=rng)
    found = smooth(model, y)
    std = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    assert (np.abs(drawn.mean(axis=0) - found.mean) < 6 * std / np.sqrt(4000)).all()
    assert_allclose(drawn.std(axis=0), std, rtol=0.1)


def test_rows_that_determine_unknown_starts_are_not_scored(model, y):
    rows = as_sequences([y, y[:7]])
    each = filter_states(model, rows).log_likelihood
    unscored = model.layout.unscored
    assert unscored == 5
    assert_array_equal(each[:unscored], 0)
    assert_array_equal(each[len(y) : len(y) + unscored], 0)
    assert (each[unscored : len(y)] != 0).sum() == np.isfinite(y[unscored:]).any(axis=1).sum()
    assert_allclose(series_log_likelihood(model, rows), each.sum())
    assert_allclose(series_log_likelihood(model, y, piece_steps=6), series_log_likelihood(model, y), rtol=1e-9)


def test_systems_with_factors_have_no_parts(model):
    mixed = assemble([OwnComponents("level", 1.0)] * 2, np.zeros(2), transition=np.eye(1) / 2, loadings=np.ones((2, 1)))
    assert mixed.parts() is None
    assert len(last_states(mixed, as_sequences(np.ones((3, 2))))[0].mean) == 3
    assert len(model.parts()) == 3


def test_parts_of_a_series_sum_to_it(model, y):
    mixed = assemble(
        [
            OwnComponents("slope", 0.5, level=0.2, slope=0.1, season=0.1),
            OwnComponents("ar", 1.0, slope=1.0, damping=0.5),
        ],
        np.array([3.0, -1.0]),
        4,
        transition=np.eye(1) / 2,
        loadings=np.ones((2, 1)),
    )
    for system, rows in ((model, y), (mixed, y[:, :2])):
        parts = decompose(system, rows)
        total = parts.level + parts.deviation + parts.season + parts.factors + parts.noise
        assert_allclose(total, rows, rtol=1e-12, atol=1e-12)
        fitted = smooth(system, rows).mean @ system.emission.loadings.T + system.emission.mean
        assert_allclose(parts.level + parts.deviation + parts.season + parts.factors, fitted, rtol=1e-9, atol=1e-9)
    assert parts.slope[:, 0].any()
    assert not parts.slope[:, 1].any()
    assert parts.deviation[:, 1].any()
    assert not parts.season[:, 1].any()


def test_without_a_layout_all_states_are_factors(rng):
    system = random_system(rng, 3, 2)
    y = rng.standard_normal((6, 3))
    parts = decompose(system, y)
    assert_array_equal(parts.level, np.tile(system.emission.mean, (6, 1)))
    assert_allclose(parts.factors, smooth(system, y).mean @ system.emission.loadings.T)
    assert_allclose(parts.level + parts.factors + parts.noise, y)
