"""Rows that arrive one at a time lead to the states of the filter that has all of them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, norm

from oracles import dense_series, punched, random_system
from probpca.inference import filter_states, innovations, sample_series
from probpca.inference.time_series import row_filter
from probpca.inference.time_series.row_filter import RowFilter
from probpca.models import Gaussian

NAN = np.nan


def run(model, y, inputs=None):
    """States after each row, and what each row said."""
    rows, state, states, told = RowFilter(model), None, [], []
    pushes = model.pushes(inputs, len(y))
    for t, row in enumerate(y):
        state, found = rows.update(state, row, None if t == 0 else pushes[t - 1])
        states.append(state)
        told.append(found)
    return states, told


def assert_same_as_the_filter(model, y, inputs=None):
    wanted, errors = filter_states(model, y, inputs=inputs), innovations(model, y, inputs=inputs)
    states, told = run(model, y, inputs)
    size = np.abs(wanted.filtered.mean).max()
    spread = wanted.filtered.std.max()
    assert_allclose([u.state_mean for u in told], wanted.filtered.mean, rtol=1e-12, atol=1e-12 * size)
    assert_allclose([u.state_covariance for u in told], wanted.filtered.covariance, rtol=1e-12, atol=1e-12 * spread**2)
    assert_allclose([u.residual for u in told], errors.residual, rtol=1e-12, atol=1e-12 * np.nanmax(np.abs(y)))
    assert_allclose([u.distance for u in told], errors.distance, rtol=1e-9, atol=1e-12)
    assert_allclose([u.log_likelihood for u in told], errors.log_likelihood, rtol=1e-9, atol=1e-12)
    assert_allclose([u.p_value for u in told], errors.p_value, rtol=1e-9, atol=1e-12)
    assert_allclose([u.cell_p_value for u in told], errors.cell_p_value, rtol=1e-9, atol=1e-12)
    return states, told


@pytest.mark.parametrize("missing", [0.0, 0.02, 0.3])
@pytest.mark.parametrize(("d", "q"), [(4, 2), (2, 5), (1, 1), (12, 3)])
def test_states_are_those_of_the_filter_that_has_all_rows(rng, d, q, missing):
    model = random_system(rng, d, q, radius=0.95)
    y = punched(rng, sample_series(model, 400, rng=rng).rows, missing)
    y[7] = NAN
    assert_same_as_the_filter(model, y)


def test_inputs_push_the_state(rng):
    model = random_system(rng, 3, 2, inputs=2)
    inputs = rng.standard_normal((60, 2))
    assert_same_as_the_filter(model, sample_series(model, 60, rng=rng, inputs=inputs).rows, inputs)


@pytest.mark.parametrize("process", [0.0, 1e-12])
def test_states_without_noise_and_with_unknown_starts_are_those_of_the_filter(rng, process):
    """A line and a season: nothing is known about where they start, and nothing disturbs them."""
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    A = np.block([[np.array([[1.0, 1.0], [0.0, 1.0]]), np.zeros((2, 2))], [np.zeros((2, 2)), turn]])
    model = random_system(rng, 3, 4)
    model = replace(
        model, initial=Gaussian(np.zeros(4), 1e6 * np.eye(4)), transition=A, process_noise=process * np.eye(4)
    )
    y = np.cumsum(rng.standard_normal((120, 3)), axis=0)
    y[50, 1] = NAN
    wanted = filter_states(model, y)
    _, told = run(model, y)
    size = np.abs(wanted.filtered.mean).max()
    assert_allclose([u.state_mean for u in told], wanted.filtered.mean, rtol=1e-12, atol=1e-12 * size)
    late = slice(10, None)
    assert_allclose([u.distance for u in told][late], wanted.distance[late], rtol=1e-8)


def test_once_the_covariance_stands_still_only_means_move(rng, monkeypatch):
    model = random_system(rng, 3, 2)
    y = sample_series(model, 200, rng=rng).rows
    states, _ = assert_same_as_the_filter(model, y)
    assert not states[0].steady
    assert states[-1].steady
    assert states[-1].root is states[-2].root
    y[150, 0] = NAN
    states, _ = assert_same_as_the_filter(model, y)
    assert states[149].steady
    assert not states[150].steady
    rows, state, counts = RowFilter(model), None, []
    factor = row_filter.dgeqrf
    monkeypatch.setattr(row_filter, "dgeqrf", lambda *a, **k: (counts.append(len(factored)), factor(*a, **k))[1])
    factored = []
    for row in y[:140]:
        state, _ = rows.update(state, row)
        factored.append(row)
    assert counts[-1] < 60, "factorisations go on although the covariance stands still"


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_states_and_densities_are_those_of_the_joint_gaussian(rng, missing):
    model = random_system(rng, 3, 2)
    y = punched(rng, sample_series(model, 6, rng=rng).rows, missing)
    _, told = run(model, y)
    total = 0.0
    for t, found in enumerate(told, 1):
        dense = dense_series(model, y[:t])
        assert_allclose(found.state_mean, dense.mean[-1], rtol=1e-9, atol=1e-10)
        assert_allclose(found.state_covariance, dense.covariance[-1, :, -1], rtol=1e-9, atol=1e-10)
        total += found.log_likelihood
        assert_allclose(total, dense.log_likelihood, rtol=1e-9)


def test_p_values_are_those_of_the_prediction(rng):
    model = random_system(rng, 3, 2)
    y = sample_series(model, 5, rng=rng).rows
    y[3, 1] = NAN
    for row, found in zip(y, run(model, y)[1], strict=True):
        assert found.degrees == np.count_nonzero(~np.isnan(row))
        assert_allclose(found.p_value, chi2(found.degrees).sf(found.distance), rtol=1e-12)
        assert_allclose(found.cell_p_value, 2 * norm.sf(np.abs(row - found.predicted) / found.std), rtol=1e-10)
    assert run(model, np.full((2, 3), NAN))[1][1].p_value == 1.0


def test_states_do_not_depend_on_what_the_filter_has_seen_before(rng):
    """A state is all that is needed to go on: another filter gives the same, to the last bit."""
    model = random_system(rng, 3, 2)
    y = sample_series(model, 150, rng=rng).rows
    y[120:] = punched(rng, y[120:], 0.2)
    states, told = run(model, y)
    for t in (1, 50, 100, 119, 130):
        state, found = RowFilter(model).update(states[t - 1], y[t])
        assert_array_equal(state.mean, states[t].mean)
        assert_array_equal(state.root, states[t].root)
        assert found.p_value == told[t].p_value
