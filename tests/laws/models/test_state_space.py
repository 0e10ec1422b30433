"""A dynamical system is checked once, never changes, and says the same in other coordinates."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import (
    dense_covariance,
    dense_series,
    dense_trajectory,
    punched,
    random_covariance,
    random_model,
    random_rotation,
    random_system,
)
from probpca import DataError, ShapeError
from probpca.inference import filter_states, log_likelihood, posterior, reconstruct, series_log_likelihood, smooth
from probpca.models import Gaussian, LinearGaussian, StateSpace

NEAR = {"rtol": 1e-9, "atol": 1e-10}
I2 = np.eye(2)
START, SEEN = Gaussian(np.zeros(2), I2), LinearGaussian(np.zeros(3), np.ones((3, 2)), 1.0)


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def system(request, rng):
    return random_system(rng, 5, 3, inputs=2, noise=request.param)


@pytest.fixture
def inputs(rng):
    return rng.standard_normal((4, 2))


@pytest.fixture
def y(rng):
    return punched(rng, rng.standard_normal((4, 5)), 0.2)


# What a system is


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((START, np.eye(3), I2, SEEN), ShapeError, r"transition must have shape \(2, 2\); got \(3, 3\)"),
        ((START, I2, np.ones(2), SEEN), ShapeError, r"process_noise must have shape \(2, 2\); got \(2,\)"),
        ((Gaussian(np.zeros(3), np.eye(3)), I2, I2, SEEN), ShapeError, r"initial mean must have shape \(2,\)"),
        ((Gaussian(np.zeros((1, 2)), [I2]), I2, I2, SEEN), ShapeError, r"initial mean .* got \(1, 2\)"),
        ((START, np.nan * I2, I2, SEEN), DataError, "transition must be finite; got 4 entries"),
        ((START, I2, [[1.0, 0.0], [0.0, np.inf]], SEEN), DataError, "process_noise must be finite; got 1"),
        ((START, I2, [[1.0, 0.5], [0.0, 1.0]], SEEN), DataError, "process_noise must be symmetric"),
        ((START, I2, [[1.0, 2.0], [2.0, 1.0]], SEEN), DataError, "process_noise .*smallest eigenvalue is -1"),
        ((Gaussian(np.zeros(2), -I2), I2, I2, SEEN), DataError, "initial covariance must not have negative"),
        ((START, I2, I2, SEEN, np.ones(2)), ShapeError, r"input_loadings must be a matrix \(2, u\).*got shape \(2,\)"),
        ((START, I2, I2, SEEN, np.ones((2, 0))), ShapeError, r"u >= 1; got shape \(2, 0\)"),
        ((START, I2, I2, SEEN, np.ones((3, 1))), ShapeError, r"got shape \(3, 1\)"),
        ((START, I2, I2, SEEN, [[np.nan], [0.0]]), DataError, "input_loadings must be finite; got 1"),
    ],
)
def test_what_cannot_be_a_system_is_refused_with_its_reason(arguments, error, message):
    with pytest.raises(error, match=message):
        StateSpace(*arguments)


@pytest.mark.parametrize("noise", [0.0 * I2, [[1.0, 1.0], [1.0, 1.0]]])
def test_noise_of_the_state_may_be_singular(noise):
    assert_array_equal(StateSpace(START, I2, noise, SEEN).process_noise, noise)


@pytest.mark.parametrize("field", ["transition", "process_noise", "input_loadings"])
def test_a_system_cannot_be_changed(system, field):
    with pytest.raises(FrozenInstanceError):
        setattr(system, field, getattr(system, field))
    with pytest.raises(ValueError, match="read-only"):
        getattr(system, field)[...] = 1.0


def test_a_system_keeps_no_hold_of_the_arrays_it_was_made_of():
    arrays = [0.5 * np.eye(2), np.eye(2), np.ones((2, 1))]
    system = StateSpace(START, arrays[0], arrays[1], SEEN, arrays[2])
    for array in arrays:
        array[...] = np.nan
    assert np.isfinite([*system.transition, *system.process_noise]).all()
    assert np.isfinite(system.input_loadings).all()


def test_sizes_are_those_of_its_parts(system):
    assert (system.n_features, system.n_components, system.n_inputs) == (5, 3, 2)
    assert replace(system, input_loadings=None).n_inputs == 0


# Coordinates


def basis_of_any_kind(rng, q):
    return random_rotation(rng, q) * rng.uniform(0.3, 3.0, q) @ random_rotation(rng, q)


TELLINGS = {
    "change_basis": lambda system: system.change_basis(
        basis_of_any_kind(np.random.default_rng(5), system.n_components)
    ),
    "whiten": StateSpace.whiten,
    "canonical": StateSpace.canonical,
}


@pytest.mark.parametrize("telling", TELLINGS.values(), ids=TELLINGS)
def test_coordinates_of_the_state_change_no_observable(system, inputs, y, telling):
    told = telling(system)
    states = 4 * system.n_components
    before, after = dense_trajectory(system, 4, inputs), dense_trajectory(told, 4, inputs)
    assert np.abs(told.emission.loadings - system.emission.loadings).max() > 0.1
    assert_allclose(after.mean[states:], before.mean[states:], **NEAR)
    assert_allclose(after.covariance[states:, states:], before.covariance[states:, states:], **NEAR)
    found = series_log_likelihood(told, y, inputs=inputs)
    assert_allclose(found, series_log_likelihood(system, y, inputs=inputs), **NEAR)
    assert_allclose(told.eigenvalues, system.eigenvalues, **NEAR)


def test_states_follow_a_change_of_their_basis(system, inputs, y, rng):
    T = basis_of_any_kind(rng, 3)
    before, after = smooth(system, y, inputs=inputs), smooth(system.change_basis(T), y, inputs=inputs)
    assert_allclose(after.mean, before.mean @ T.T, **NEAR)
    assert_allclose(after.covariance, T @ before.covariance @ T.T, **NEAR)
    assert_allclose(after.lag_one, T @ before.lag_one @ T.T, **NEAR)


def test_a_change_of_basis_is_undone_by_its_inverse(system, rng):
    T = basis_of_any_kind(rng, 3)
    back = system.change_basis(T).change_basis(np.linalg.inv(T))
    assert_allclose(back.transition, system.transition, **NEAR)
    assert_allclose(back.process_noise, system.process_noise, **NEAR)
    assert_allclose(back.emission.loadings, system.emission.loadings, **NEAR)
    assert_allclose(back.input_loadings, system.input_loadings, **NEAR)
    assert_allclose(back.initial.mean, system.initial.mean, **NEAR)
    assert_allclose(back.initial.covariance, system.initial.covariance, **NEAR)


def test_a_basis_has_the_size_of_the_state(system):
    with pytest.raises(ShapeError, match=r"basis must have shape \(3, 3\); got \(2, 3\)"):
        system.change_basis(np.ones((2, 3)))


def test_whitening_multiplies_by_the_root_of_the_noise_not_by_its_inverse(system, inputs):
    # Q = E Lam E' and x' = Lam^{-1/2} E' x: then C' = C E Lam^{1/2}, and not C Lam^{-1/2} E'.
    values, axes = np.linalg.eigh(system.process_noise)
    told, C = system.whiten(), system.emission.loadings
    assert_array_equal(told.process_noise, np.eye(3))
    assert_allclose(told.emission.loadings, C @ axes * np.sqrt(values), **NEAR)
    mistaken = replace(told, emission=replace(told.emission, loadings=C / np.sqrt(values) @ axes.T))
    right, wrong = (dense_trajectory(s, 4, inputs).covariance[12:, 12:] for s in (system, mistaken))
    assert np.abs(right - wrong).max() > 0.1


@pytest.mark.parametrize("rank", [0, 1])
def test_singular_noise_cannot_be_whitened(rng, rank):
    factor = rng.standard_normal((3, rank))
    system = replace(random_system(rng, 5, 3), process_noise=factor @ factor.T)
    with pytest.raises(DataError, match="process_noise is singular"):
        system.whiten()


def test_canonical_axes_are_uncorrelated_and_sorted(system):
    told = system.canonical()
    C, noise = told.emission.loadings, np.broadcast_to(told.emission.noise_variance, 5)
    information = C.T / noise @ C
    assert_array_equal(told.process_noise, np.eye(3))
    assert_allclose(information, np.diag(np.diag(information)), atol=1e-12 * information.max())
    assert (np.diff(np.diag(information)) < 0).all()
    scaled = C / np.sqrt(noise)[:, None]
    assert (scaled[np.abs(scaled).argmax(axis=0), range(3)] > 0).all()


def test_canonical_coordinates_are_the_same_from_any_others(system, rng):
    once = system.canonical()
    for start in (once, system.change_basis(basis_of_any_kind(rng, 3)), system.whiten()):
        again = start.canonical()
        assert_allclose(again.transition, once.transition, **NEAR)
        assert_allclose(again.emission.loadings, once.emission.loadings, **NEAR)
        assert_allclose(again.input_loadings, once.input_loadings, **NEAR)
        assert_allclose(again.initial.mean, once.initial.mean, **NEAR)
        assert_allclose(again.initial.covariance, once.initial.covariance, **NEAR)


# Long times


def test_the_stationary_distribution_is_left_as_it_is_by_a_step(system):
    A, P = system.transition, system.stationary().covariance
    assert_allclose(A @ P @ A.T + system.process_noise, P, **NEAR)
    assert_array_equal(P, P.T)
    assert_array_equal(system.stationary().mean, np.zeros(3))


def test_the_state_ends_in_its_stationary_distribution(system):
    system = replace(system, input_loadings=None)
    late = dense_series(system, np.full((80, 5), np.nan))
    assert_allclose(late.mean[-1], system.stationary().mean, atol=1e-6)
    assert_allclose(late.covariance[-1, :, -1], system.stationary().covariance, rtol=1e-6)


@pytest.mark.parametrize("radius", [1.0, 1.2])
def test_a_state_that_does_not_forget_has_no_stationary_distribution(rng, radius):
    system = replace(random_system(rng, 5, 3), transition=np.diag([0.5, radius, -0.3]))
    assert system.spectral_radius == radius
    assert not system.is_stationary
    with pytest.raises(
        DataError, match=f"no stationary distribution exists.*modulus below 1; the largest is {radius:g}"
    ):
        system.stationary()


def late_prediction(system, steps=400):
    """Covariance of a state given all rows before it, after many of them."""
    rows = np.zeros((steps, system.n_features))
    return filter_states(system, rows).predicted.covariance[-1]


def weak(rng, d, q, rank):
    """A system of which the rows see ``rank`` directions of the state only."""
    system = random_system(rng, d, q)
    C = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, q))
    return replace(system, emission=replace(system.emission, loadings=C))


@pytest.mark.parametrize(("d", "q", "rank"), [(5, 3, 3), (5, 3, 1), (5, 3, 2), (2, 4, 2), (1, 3, 1), (1, 1, 1)])
def test_the_steady_state_is_where_the_filter_ends(rng, d, q, rank):
    system = weak(rng, d, q, rank)
    found = system.steady_state()
    assert_allclose(found, late_prediction(system), rtol=1e-9, atol=1e-10)
    assert_array_equal(found, found.T)


def test_the_steady_state_is_left_as_it_is_by_a_row(rng):
    system = random_system(rng, 4, 2)
    P, C = system.steady_state(), system.emission.loadings
    innovation = C @ P @ C.T + np.diag(system.emission.noise_variance)
    filtered = P - P @ C.T @ np.linalg.inv(innovation) @ C @ P
    assert_allclose(system.transition @ filtered @ system.transition.T + system.process_noise, P, **NEAR)


def test_a_state_that_nobody_sees_is_steady_where_it_is_stationary(rng):
    system = random_system(rng, 4, 2)
    blind = replace(system, emission=replace(system.emission, loadings=np.zeros((4, 2))))
    assert_allclose(blind.steady_state(), blind.stationary().covariance, **NEAR)


def test_time_constants_are_the_steps_to_one_in_e(rng):
    moduli = np.array([0.99, 0.5, 0.1])
    system = replace(random_system(rng, 5, 3), transition=np.diag(moduli[[1, 0, 2]]))
    assert_allclose(moduli**system.time_constants, np.exp(-1.0), rtol=1e-12)


def test_a_mode_that_does_not_decay_takes_for_ever_and_one_without_memory_no_time(rng):
    system = replace(random_system(rng, 5, 3), transition=np.diag([0.0, 1.0, -1.1]))
    assert_array_equal(system.time_constants, [np.inf, np.inf, 0.0])


def test_oscillations_decay_by_their_modulus(rng):
    turn = 0.9 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    system = replace(random_system(rng, 5, 2), transition=turn)
    assert_allclose(system.eigenvalues, 0.9 * np.exp([0.3j, -0.3j]), rtol=1e-12)
    assert_allclose(0.9**system.time_constants, np.exp(-1.0), rtol=1e-12)


def test_the_marginal_is_the_distribution_of_a_late_row(system):
    system = replace(system, input_loadings=None)
    joint, late = dense_trajectory(system, 80), system.marginal()
    assert_allclose(late.mean, joint.mean[-5:], atol=1e-6)
    assert_allclose(dense_covariance(late), joint.covariance[-5:, -5:], rtol=1e-6)


# No memory


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def model(request, rng):
    return random_model(rng, 6, 2, noise=request.param)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_without_memory_rows_are_as_probable_as_in_any_order(rng, model, share):
    y = punched(rng, model.mean + rng.standard_normal((40, 6)), share)
    wanted = log_likelihood(model, y)
    system = StateSpace.memoryless(model)
    assert_allclose(filter_states(system, y).log_likelihood, wanted, rtol=1e-12)
    assert_allclose(series_log_likelihood(system, y), wanted.sum(), rtol=1e-12)
    assert_allclose(series_log_likelihood(system, [y[:11], y[11:]]), wanted.sum(), rtol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_without_memory_states_are_the_latent_variables(rng, model, share):
    y = punched(rng, model.mean + rng.standard_normal((40, 6)), share)
    found, wanted = smooth(StateSpace.memoryless(model), y), posterior(model, y)
    assert_allclose(found.mean, wanted.mean, rtol=1e-12, atol=1e-12)
    assert_allclose(found.covariance, wanted.covariance, rtol=1e-12, atol=1e-12)
    assert_allclose(found.lag_one, 0.0, atol=1e-15)


def test_without_memory_the_marginal_is_the_model(model):
    system = StateSpace.memoryless(model)
    assert_allclose(dense_covariance(system.marginal()), dense_covariance(model), **NEAR)
    assert_array_equal(system.time_constants, np.zeros(2))
    assert_allclose(system.steady_state(), np.eye(2), atol=1e-12)


@pytest.mark.parametrize("noise", [1e-6, 1e-9, 1e-12])
def test_without_memory_and_noise_states_are_least_squares_coordinates(rng, noise):
    model = random_model(rng, 6, 2, noise=noise)
    y = rng.standard_normal((20, 6))
    states = smooth(StateSpace.memoryless(model), y).mean
    assert_allclose(states, np.linalg.lstsq(model.loadings, (y - model.mean).T)[0].T, rtol=1e-9, atol=10 * noise)
    assert_allclose(states @ model.loadings.T + model.mean, reconstruct(model, y), rtol=1e-9, atol=10 * noise)


def test_memory_makes_rows_depend_on_their_order(rng):
    system = replace(random_system(rng, 4, 2), initial=Gaussian(np.zeros(2), random_covariance(rng, 2)))
    y = system.emission.mean + rng.standard_normal((6, 4))
    assert abs(series_log_likelihood(system, y) - series_log_likelihood(system, y[::-1])) > 0.1


def test_the_stationary_covariance_needs_no_equations_that_can_be_solved(recwarn):
    A = np.array([[0.5, 1e14], [0.0, 0.5]])  # the linear equations of P have a condition number beyond 1e28
    P = StateSpace(START, A, I2, SEEN).stationary().covariance
    assert_allclose(P[1, 1], 4 / 3)
    assert_allclose(P[0, 1], 1e14 * 0.5 * P[1, 1] / (1 - 0.25))
    assert_allclose(P[0, 0], (1 + 2 * 0.5 * 1e14 * P[0, 1] + 1e28 * P[1, 1]) / (1 - 0.25))
    assert not recwarn.list
