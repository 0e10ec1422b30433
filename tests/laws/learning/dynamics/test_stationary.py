"""Factors that are stationary by construction: every vector is a stationary model, and its gradient is exact."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

from oracles import punched, random_system
from probpca import DataError, LinearDynamicalSystem, ShapeError
from probpca.blocks import as_sequences
from probpca.inference import forecast, sample_series, series_log_likelihood
from probpca.learning import Settings, fit_series
from probpca.learning.dynamics import fit_stationary, fit_structured
from probpca.learning.dynamics.stationary import (
    StationaryFactors,
    contraction,
    expansion,
    in_canonical_coordinates,
    in_stationary_units,
    pull_back,
    spread,
    stationary_system,
)
from probpca.learning.dynamics.structured import scaled
from probpca.models.components import OwnComponents, assemble

EXACT = Settings(tol=1e-6)


@pytest.fixture
def y(rng):
    return punched(rng, np.cumsum(rng.standard_normal((60, 3)), axis=0), 0.1)


@pytest.fixture
def factors(rng):
    return {"transition": np.array([[0.8, 0.2], [-0.1, 0.5]]), "loadings": rng.standard_normal((3, 2))}


@pytest.fixture
def mixed(factors):
    components = [
        OwnComponents("slope", 0.5, level=0.2, slope=0.01, season=1e-3),
        OwnComponents("ar", 0.5, slope=0.2, damping=0.7),
        OwnComponents("level", 0.4, level=0.2, season=0.0),
    ]
    model = assemble(components, np.zeros(3), 4, **factors)
    return replace(model, layout=replace(model.layout, unscored=0))


@given(q=st.integers(1, 5), size=st.floats(-8, 8), seed=st.integers(0, 2**32 - 1))
def test_every_matrix_gives_a_stationary_transition(q, size, seed):
    A = contraction(10**size * np.random.default_rng(seed).standard_normal((q, q)))
    assert np.abs(np.linalg.eigvals(A)).max() <= np.linalg.norm(A, 2) + 1e-12
    assert np.linalg.norm(A, 2) <= 1 + 1e-14
    assert np.linalg.eigvalsh(np.eye(q) - A @ A.T)[0] >= -1e-12


def test_a_contraction_is_undone_by_its_expansion(rng):
    S = rng.standard_normal((4, 4))
    assert_allclose(expansion(contraction(S), 1.0), S, rtol=1e-9)


@pytest.mark.parametrize("S", [np.diag([1.0, 1.0, 0.0]), np.zeros((2, 2)), "random"], ids=["ties", "zero", "random"])
def test_gradients_are_pulled_back_exactly(S, rng):
    S = rng.standard_normal((3, 3)) if isinstance(S, str) else S
    G, dS = rng.standard_normal(S.shape), rng.standard_normal(S.shape)
    change = (contraction(S + 1e-6 * dS) - contraction(S - 1e-6 * dS)) / 2e-6
    assert_allclose((pull_back(S, G) * dS).sum(), (G * change).sum(), rtol=1e-6)


@pytest.mark.parametrize("kind", ["alone", "isotropic", "beside own components"])
def test_the_gradient_is_that_of_the_likelihood(kind, y, mixed, factors, rng):
    model = mixed
    if kind != "beside own components":
        model = stationary_system(random_system(rng, 3, 2), factors["transition"], factors["loadings"])
    if kind == "isotropic":
        model = replace(model, emission=replace(model.emission, noise_variance=0.4))
    rows = as_sequences([y[:35], y[35:]])
    problem = StationaryFactors(model, rows, np.array([1.0, 2.0, 3.0]), np.full(3, 1e-9))
    vector = problem.flatten(model)
    value, gradient = problem.value_and_gradient(vector)
    assert_allclose(value, series_log_likelihood(model, rows), rtol=1e-10)
    steps = 1e-5 * np.eye(len(vector))
    values = [(problem.value_and_gradient(vector + e)[0], problem.value_and_gradient(vector - e)[0]) for e in steps]
    wanted = np.array([(a - b) / 2e-5 for a, b in values])
    assert_allclose(gradient, wanted, atol=1e-6 * np.abs(wanted).max())


def test_other_coordinates_are_the_same_system(rng, y):
    model = random_system(rng, 3, 2)
    model = replace(model, initial=model.stationary())
    for same in (in_stationary_units(model), in_canonical_coordinates(in_stationary_units(model))):
        assert_allclose(series_log_likelihood(same, y), series_log_likelihood(model, y), rtol=1e-9)
        assert_allclose(same.stationary().covariance, np.eye(2), atol=1e-9)
    C, R = same.emission.loadings, same.emission.noise_variance
    precision = C.T @ (C / R[:, None])
    assert_allclose(precision, np.diag(np.diagonal(precision)), atol=1e-9)
    assert precision[0, 0] >= precision[1, 1]


def test_the_maximum_is_that_of_em(rng):
    truth = random_system(rng, 4, 2)
    truth = replace(truth, initial=truth.stationary())
    rows = as_sequences([sample_series(truth, 150, rng=rng).rows for _ in range(2)])
    ours = fit_stationary(rows, 2, EXACT, np.random.default_rng(0))
    # The same model for EM, whose first state has the stationary covariance of its own maximum.
    em = fit_series(rows, 2, EXACT, np.random.default_rng(0)).model
    em = replace(em, initial=em.stationary())
    assert ours.status.converged
    assert ours.log_likelihood >= series_log_likelihood(em, rows) - 1e-3
    assert_allclose(ours.log_likelihood, series_log_likelihood(ours.model, rows))
    assert ours.model.spectral_radius < 1


def test_what_grows_has_stationary_factors_too(rng):
    y = np.outer(1.1 ** np.arange(40), [1.0, 2.0]) + 0.01 * rng.standard_normal((40, 2))
    for parameters in ({}, {"trend": None}):
        system = LinearDynamicalSystem(1, max_iter=50, tol=0.1, random_state=0, **parameters).fit(y)
        assert np.abs(system.eigenvalues_).max() < 1
        A = system.factors_[0]
        assert np.linalg.norm(A, 2) < 1


def test_common_factors_beside_trends_are_found(rng):
    f = sample_series(stationary_system(random_system(rng, 1, 1), np.array([[0.7]]), np.ones((1, 1))), 80, rng=rng)
    y = np.cumsum(0.3 * rng.standard_normal((80, 3)), axis=0) + 2 * f.states + 0.3 * rng.standard_normal((80, 3))
    system = LinearDynamicalSystem(1, trend="level", tol=5.0, random_state=0).fit(y)
    assert system.trend_ == ["level"] * 3
    A, loadings = system.factors_
    assert_allclose(A, [[0.7]], atol=0.25)
    assert (np.abs(loadings) > 1).all()


def test_a_cycle_of_a_single_series_is_a_pair_of_factors():
    rng, f = np.random.default_rng(0), np.zeros((150, 2))
    turn = 0.97 * np.array([[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]])
    for t in range(1, 150):
        f[t] = turn @ f[t - 1] + rng.standard_normal(2)
    y = f[:, :1] + 0.5 * rng.standard_normal((150, 1))
    chosen = fit_structured(as_sequences(y))
    assert chosen.result.model.n_factors >= 2
    assert_allclose(np.abs(np.angle(chosen.result.model.eigenvalues[0])), 0.6, atol=0.05)
    assert chosen.scores[2] > chosen.scores[0]
    assert chosen.rule == f"constant levels by BIC, {chosen.result.model.n_factors} factors by BIC"
    walk = np.cumsum(rng.standard_normal((100, 1)), axis=0)
    assert fit_structured(as_sequences(walk)).result.model.n_factors == 0


def test_wider_intervals_leave_the_expectations(mixed, y):
    wide = scaled(mixed, 4.0)
    [before], [after] = forecast(mixed, y, 5), forecast(wide, y, 5)
    assert_allclose(after.mean, before.mean, rtol=1e-5, atol=1e-5)
    assert_allclose(after.std, 2 * before.std, rtol=1e-5)


def test_units_are_those_of_the_features(y):
    assert_allclose(spread(as_sequences(y)), np.nanstd(y, axis=0))


def test_what_cannot_be_stationary_is_refused(y):
    with pytest.raises(ShapeError, match="at least 1; got 0"):
        fit_stationary(as_sequences(y), 0, Settings(), np.random.default_rng(0))
    with pytest.raises(DataError, match="transition='stationary' cannot be combined with noise='isotropic'"):
        LinearDynamicalSystem(1, transition="stationary", noise="isotropic").fit(y)
