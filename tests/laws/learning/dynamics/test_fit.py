"""Learning a dynamical system climbs, keeps the structure that was asked for, and ends where it should."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import FactorAnalysis

from oracles import (
    assert_never_falls,
    closed_form_oracle,
    dense_covariance,
    dense_series,
    dense_trajectory,
    punched,
    random_covariance,
    random_system,
    spiked_rows,
    spiked_rows_with_holes,
)
from probpca import DataError, ShapeError
from probpca.blocks import as_sequences
from probpca.inference import sample_series, series_log_likelihood
from probpca.learning import Settings, Status, Structure, fit_ppca, fit_series
from probpca.learning.dynamics import choose_states
from probpca.learning.dynamics.em import SeriesEM, _above, expect_series
from probpca.learning.dynamics.selection import SEARCH, _held_out, bic
from probpca.learning.dynamics.start import by_subspace, interpolated, starts
from probpca.learning.dynamics.structure import n_parameters
from probpca.learning.em import e_step as observed
from probpca.models import Gaussian, LinearGaussian, StateSpace
from probpca.sources import open_source

NAN = np.nan
D, Q = 4, 2
SEED = 20240229
A = np.array([[0.7, 0.2], [-0.1, 0.5]])
PSI = np.array([0.3, 0.5, 0.7, 0.9])
C = np.random.default_rng(SEED).standard_normal((D, Q))
P = np.array([[1.0, 0.3], [0.3, 0.7]])
STRUCTURES = {
    "free": {},
    "diagonal A": {"transition": "diagonal"},
    "stable A": {"transition": "stable"},
    "given A": {"transition": A},
    "diagonal Q": {"process_noise": "diagonal"},
    "Q = I": {"process_noise": "identity"},
    "given Q": {"process_noise": P},
    "diagonal A and Q": {"transition": "diagonal", "process_noise": "diagonal"},
    "isotropic R": {"noise": "isotropic"},
    "given R": {"noise": PSI},
    "given isotropic R": {"noise": 0.37},
    "given C": {"loadings": C},
    "given c": {"offset": np.arange(4.0)},
    "given C and c": {"loadings": C, "offset": np.arange(4.0)},
    "given p1": {"initial_mean": np.ones(Q)},
    "given P1": {"initial_covariance": P},
    "P1 = Q": {"initial_covariance": "identity"},
    "P1 ~ Q": {"initial_covariance": "stationary"},
    "Q = P1 = I": {"process_noise": "identity", "initial_covariance": "identity"},
    "singular Q": {"process_noise": np.diag([1.0, 0.0])},
    "free P1": {"initial_covariance": "free"},
    "ridge": {"ridge": 3.0},
    "ridge, Q = I": {"ridge": 3.0, "process_noise": "identity"},
}
CASES = {"one": ([40], 0), "several": ([14, 1, 9, 17], 1)}


def fit(y, q=Q, solver="auto", *, inputs=None, seed=0, **options):
    settings = {key: options.pop(key) for key in ("tol", "max_iter", "n_init") if key in options}
    rows, rng = as_sequences(y, None, inputs), np.random.default_rng(seed)
    return fit_series(rows, q, Settings(solver, **settings), rng, Structure(**options))


@cache
def data(case):
    """Sequences with a quarter of their cells missing and a row of which nothing is known, and their inputs."""
    rng = np.random.default_rng(SEED)
    lengths, u = CASES[case]
    model = random_system(rng, D, Q, inputs=u)
    inputs = [rng.standard_normal((n, u)) for n in lengths] if u else None
    y = [sample_series(model, n, rng=rng, inputs=inputs[k] if u else None).rows for k, n in enumerate(lengths)]
    y = [punched(rng, rows, 0.25) for rows in y]
    y[0][6] = NAN
    return y, inputs


@cache
def fitted(case, name, solver):
    y, inputs = data(case)
    return fit(y, solver=solver, inputs=inputs, max_iter=25, tol=0.0, **STRUCTURES[name])


def parameters(model):
    return {
        "transition": model.transition,
        "process_noise": model.process_noise,
        "noise": model.emission.noise_variance,
        "loadings": model.emission.loadings,
        "offset": model.emission.mean,
        "initial_mean": model.initial.mean,
        "initial_covariance": model.initial.covariance,
    }


def average(model):
    """How many times its process noise the covariance of the first state is, on average."""
    return np.trace(np.linalg.inv(model.process_noise) @ model.initial.covariance) / model.n_components


def tied(model, ratio):
    """The same system, its first state as uncertain as so many times the process noise."""
    return replace(model, initial=Gaussian(model.initial.mean, ratio * model.process_noise))


def log_prior(model, ridge):
    if ridge == 0:
        return 0.0
    return -0.5 * ridge * np.trace(model.transition.T @ np.linalg.inv(model.process_noise) @ model.transition)


def clear_series(rng, steps, d=6, q=2):
    """A system that is easy to find, and what it drew."""
    turn = np.array([[0.9, 0.25], [-0.25, 0.9]])[:q, :q]
    emission = LinearGaussian(rng.standard_normal(d), rng.standard_normal((d, q)), rng.uniform(0.5, 1.0, d))
    system = StateSpace(Gaussian(np.zeros(q), np.eye(q)), turn, np.eye(q), emission)
    return system, sample_series(system, steps, rng=rng).rows


every_structure = pytest.mark.parametrize("name", STRUCTURES)
either_solver = pytest.mark.parametrize("solver", ["em", "auto"])
either_case = pytest.mark.parametrize("case", CASES)


# Climbing


@either_case
@either_solver
@every_structure
def test_the_trace_never_falls(case, solver, name):
    assert_never_falls(fitted(case, name, solver).trace)


@either_case
@either_solver
@every_structure
def test_the_last_value_is_that_of_the_model(case, solver, name):
    (y, inputs), found = data(case), fitted(case, name, solver)
    ridge = STRUCTURES[name].get("ridge", 0.0)
    assert_allclose(found.log_likelihood, series_log_likelihood(found.model, y, inputs=inputs), rtol=1e-9)
    assert_allclose(found.trace[-1], found.log_likelihood + log_prior(found.model, ridge), rtol=1e-9)


@either_case
def test_the_first_value_is_that_of_the_best_start(case):
    y, inputs = data(case)
    guesses = starts(as_sequences(y), Q, np.random.default_rng(0))
    wanted = max(series_log_likelihood(tied(guess, average(guess)), y) for guess in guesses)
    assert_allclose(fit(y, max_iter=1, inputs=inputs).trace[0], wanted, rtol=1e-9)


@either_solver
def test_a_shorter_fit_is_the_beginning_of_a_longer_one(solver):
    y, _ = data("one")
    trace = fitted("one", "free", solver).trace
    for steps in (1, 2, 9):
        found = fit(y, solver=solver, max_iter=steps, tol=0.0)
        assert found.n_iter == len(found.trace) - 1 == steps
        assert found.status is Status.SERIES_MAX_ITER
        assert_array_equal(found.trace, trace[: steps + 1])


@pytest.mark.parametrize("name", ["free", "Q = I", "isotropic R", "ridge"])
def test_extrapolation_gets_at_least_as_far_as_plain_steps(name):
    for case in CASES:
        plain, quick = (fitted(case, name, solver).trace for solver in ("em", "auto"))
        assert quick[-1] >= plain[-1] - 1e-9


def test_both_solvers_end_at_the_same_maximum(rng):
    _, y = clear_series(rng, 150, d=4)
    plain, quick = (fit(y, solver=solver, process_noise="identity") for solver in ("em", "auto"))
    assert plain.status is quick.status is Status.CONVERGED
    assert quick.n_iter < plain.n_iter
    assert_allclose(quick.log_likelihood, plain.log_likelihood, atol=0.01)


# Structure


@either_case
@either_solver
@every_structure
def test_what_was_given_is_kept_bit_for_bit(case, solver, name):
    told = parameters(fitted(case, name, solver).model)
    for key, value in STRUCTURES[name].items():
        if key != "ridge" and not isinstance(value, str):
            assert_array_equal(told[key], value)


@either_case
@either_solver
@every_structure
def test_what_was_described_is_so(case, solver, name):
    words, told = STRUCTURES[name], parameters(fitted(case, name, solver).model)
    for key in ("transition", "process_noise"):
        if isinstance(words.get(key), str) and words[key] == "diagonal":
            assert_array_equal(told[key], np.diag(np.diagonal(told[key])))
    if name in ("Q = I", "Q = P1 = I", "ridge, Q = I"):
        assert_array_equal(told["process_noise"], np.eye(Q))
    if name == "Q = P1 = I":
        assert_array_equal(told["initial_covariance"], np.eye(Q))
    if name == "P1 = Q":
        assert_allclose(told["initial_covariance"], told["process_noise"], rtol=1e-9, atol=1e-12)
    if name == "P1 ~ Q":
        assert_allclose(told["initial_covariance"], told["initial_covariance"][0, 0] * np.eye(Q), atol=1e-9)
    assert told["noise"].shape == (() if np.ndim(words.get("noise", PSI)) == 0 else (D,))


@either_solver
@pytest.mark.parametrize(("radius", "steps"), [(1.02, 60), (0.9, 30)])
def test_a_stable_system_stays_stable(rng, solver, radius, steps):
    y = sample_series(random_system(rng, D, Q, radius=radius), steps, rng=rng).rows
    found = fit(y, solver=solver, max_iter=60, transition="stable")
    assert found.model.spectral_radius <= Structure().largest_radius * (1 + 1e-9)
    assert_never_falls(found.trace)
    if radius > 1:
        assert fit(y, solver=solver, max_iter=60).model.spectral_radius > 1


@either_case
@pytest.mark.parametrize(
    "name", ["free", "stable A", "isotropic R", "given R", "given c", "free P1", "P1 = Q", "ridge"]
)
def test_without_coordinates_of_its_own_the_state_is_told_in_canonical_form(case, name):
    model = fitted(case, name, "auto").model
    assert_array_equal(model.process_noise, np.eye(Q))
    loadings = model.emission.loadings
    seen = loadings.T @ (loadings / np.broadcast_to(model.emission.noise_variance, (D,))[:, None])
    assert_allclose(seen, np.diag(np.diagonal(seen)), atol=1e-9 * seen.max())
    assert (np.diff(np.diagonal(seen)) <= 0).all()


@either_case
@pytest.mark.parametrize("name", ["diagonal A", "given A", "diagonal Q", "given Q", "given C", "given P1"])
def test_a_state_with_coordinates_is_not_told_in_others(case, name):
    assert np.abs(fitted(case, name, "auto").model.process_noise - np.eye(Q)).max() > 1e-3


def test_the_first_covariance_is_learned_where_sequences_are_many(rng):
    system = random_system(rng, D, Q)
    y = [sample_series(system, 4, rng=rng).rows for _ in range(20)]
    learned, kept = fit(y, max_iter=10), fit(y[:19], max_iter=10)
    free, stationary = (
        fit(y, max_iter=10, initial_covariance="free"),
        fit(y[:19], max_iter=10, initial_covariance="stationary"),
    )
    assert_array_equal(learned.model.initial.covariance, free.model.initial.covariance)
    assert_array_equal(kept.trace, stationary.trace)


# Maxima


def expected(model, old, y, inputs, ridge):
    """Expected log density of rows and states, the states as they are thought to be at the old parameters."""
    A, B, noise = model.transition, model.input_loadings, np.broadcast_to(model.emission.noise_variance, (D,))
    total = log_prior(model, ridge)
    for k, rows in enumerate(y):
        u = None if inputs is None else inputs[k]
        belief = dense_series(old, rows, u)
        m, V = belief.mean, np.moveaxis(belief.covariance, 2, 1)  # (T, T, q, q)
        first = m[0] - model.initial.mean
        total += normal(np.outer(first, first) + V[0, 0], model.initial.covariance)
        for t in range(len(rows) - 1):
            gap = m[t + 1] - A @ m[t] - (0.0 if u is None else B @ u[t])
            doubt = V[t + 1, t + 1] - A @ V[t, t + 1] - (A @ V[t, t + 1]).T + A @ V[t, t] @ A.T
            total += normal(np.outer(gap, gap) + doubt, model.process_noise)
        for t, j in np.argwhere(~np.isnan(rows)):
            row = model.emission.loadings[j]
            gap = rows[t, j] - model.emission.mean[j] - row @ m[t]
            total += normal(np.atleast_2d(gap**2 + row @ V[t, t] @ row), np.atleast_2d(noise[j]))
    return total


def normal(second, covariance):
    """Expected log density of N(0, covariance) where the second moment is ``second``."""
    return -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + np.trace(np.linalg.solve(covariance, second)))


def nudged(rng, model, name, size):
    """The same system but for one parameter."""

    def noise(like):
        return size * rng.standard_normal(np.shape(like))

    def turned(covariance):
        root = np.eye(Q) + noise(covariance)
        return root @ covariance @ root.T

    emission, initial = model.emission, model.initial
    changes = {
        "A": lambda: {"transition": model.transition + noise(model.transition)},
        "Q": lambda: {"process_noise": turned(model.process_noise)},
        "B": lambda: {"input_loadings": model.input_loadings + noise(model.input_loadings)},
        "C": lambda: {"emission": replace(emission, loadings=emission.loadings + noise(emission.loadings))},
        "c": lambda: {"emission": replace(emission, mean=emission.mean + noise(emission.mean))},
        "R": lambda: {
            "emission": replace(
                emission, noise_variance=emission.noise_variance * np.exp(noise(emission.noise_variance))
            )
        },
        "p1": lambda: {"initial": replace(initial, mean=initial.mean + noise(initial.mean))},
        "P1": lambda: {"initial": replace(initial, covariance=turned(initial.covariance))},
    }
    return replace(model, **changes[name]())


def shaped(rng, u, name):
    """A random system of the given structure."""
    model = random_system(rng, D, Q, inputs=u)
    told = parameters(model)
    for key, value in STRUCTURES[name].items():
        if not isinstance(value, str):
            told[key] = value
        elif value == "diagonal":
            told[key] = np.diag(np.diagonal(told[key]))
        elif value == "identity" and key == "process_noise":
            told[key] = np.eye(Q)
        elif value == "isotropic":
            told[key] = 0.6
    initial = Gaussian(told["initial_mean"], told["initial_covariance"])
    emission = LinearGaussian(told["offset"], told["loadings"], told["noise"])
    return StateSpace(initial, told["transition"], told["process_noise"], emission, model.input_loadings)


def one_step(rng, u, name):
    """A system, rows that it did not draw, their inputs, and what EM makes of it."""
    model, structure, ratio = shaped(rng, u, name), Structure(**STRUCTURES[name]), RATIOS.get(name)
    model = model if ratio is None else tied(model, ratio)
    y = [punched(rng, model.emission.mean + 2 * rng.standard_normal((n, D)), 0.25) for n in (6, 1, 5)]
    y[0][2] = NAN
    inputs = [rng.standard_normal((len(rows), u)) for rows in y] if u else None
    learn = structure.says("initial_covariance", "auto", "free")
    em = SeriesEM(structure, np.full(D, 1e-12), 1e-9 * np.eye(Q), ratio, learn)
    rows = as_sequences(y, None, inputs)
    following, value = em.step(model, rows)
    return model, following, (y, inputs, structure.ridge), value, em.step(following, rows)[1]


RATIOS = {"P1 = Q": 1.0, "P1 ~ Q": 2.5, "Q = P1 = I": 1.0}
LETTERS = {
    "transition": "A",
    "process_noise": "Q",
    "loadings": "C",
    "offset": "c",
    "noise": "R",
    "initial_mean": "p1",
    "initial_covariance": "P1",
}
driven = pytest.mark.parametrize("u", [0, 1], ids=["alone", "driven"])


@driven
@pytest.mark.parametrize("name", [name for name in STRUCTURES if name != "singular Q"])
def test_a_step_gains_at_least_what_was_expected_of_it(rng, u, name):
    model, following, given, before, after = one_step(rng, u, name)
    dense = sum(dense_series(model, rows, given[1] and given[1][k]).log_likelihood for k, rows in enumerate(given[0]))
    assert_allclose(before, dense + log_prior(model, given[2]), rtol=1e-10)
    promised = expected(following, model, *given) - expected(model, model, *given)
    assert after - before >= promised - 1e-9
    assert promised > 0.1


@driven
@pytest.mark.parametrize("name", [name for name in STRUCTURES if name != "singular Q"])
def test_no_other_parameters_are_expected_to_explain_more(rng, u, name):
    model, following, given, _, _ = one_step(rng, u, name)
    best = expected(following, model, *given)
    kept = {key for key, value in STRUCTURES[name].items() if not isinstance(value, str) or value != "isotropic"}
    letters = [letter for key, letter in LETTERS.items() if key not in kept]
    for letter in letters + ["B"] * (u > 0):
        for size in (1e-3, 1e-3, 0.1):
            other = nudged(rng, following, letter, size)
            other = tied(other, RATIOS[name]) if name in RATIOS else other
            assert expected(other, model, *given) < best, letter


@driven
@pytest.mark.parametrize("step", [1e-3, -1e-3, 0.1])
def test_no_other_diagonal_transition_is_expected_to_explain_more(rng, step, u):
    model = replace(shaped(rng, u, "diagonal A"), process_noise=P)
    y = [model.emission.mean + 2 * rng.standard_normal((6, D))]
    inputs = [rng.standard_normal((6, u))] if u else None
    em = SeriesEM(Structure(transition="diagonal", process_noise=P), np.zeros(D), np.zeros((Q, Q)), None)
    following = replace(em.step(model, as_sequences(y, None, inputs))[0], input_loadings=model.input_loadings)
    for j in range(Q):
        other = following.transition.copy()
        other[j, j] += step
        given = (model, y, inputs, 0.0)
        assert expected(replace(following, transition=other), *given) < expected(following, *given)


def test_a_covariance_above_a_floor_is_the_most_likely_one(rng):
    root = np.tril(rng.standard_normal((3, 3)))
    floor, second = root @ root.T, random_covariance(rng, 3) * 0.3
    found = _above(second, root)
    assert np.linalg.eigvalsh(found - floor)[0] >= -1e-12
    assert np.linalg.eigvalsh(second - floor)[0] < -0.01
    for size in (1e-3, 0.1, 1.0):
        step = size * rng.standard_normal((3, 3))
        assert normal(second, found) > normal(second, found + step @ step.T)
        assert normal(second, found) > normal(second, (1 - size) * found + size * (floor + np.eye(3)))
    assert_array_equal(_above(second + floor, root), second + floor)


@pytest.mark.parametrize("word", ["free", "diagonal"])
def test_the_process_noise_stays_above_its_floor(rng, word):
    model = random_system(rng, D, Q)
    y = model.emission.mean + rng.standard_normal((12, D))
    em = SeriesEM(Structure(process_noise=word), np.zeros(D), np.diag([5.0, 6.0]), None)
    following = em.step(model, as_sequences(y))[0].process_noise
    assert np.linalg.eigvalsh(following - np.diag([25.0, 36.0]))[0] >= -1e-9


def slopes(model, value, *, driven):
    """Derivatives of a function of a system in everything that is learned, by differences."""
    names = ["A", "C", "c", "R", "p1"] + ["B"] * driven
    found = {}
    for name in names:
        directions = [nudged(np.random.default_rng(k), model, name, 1e-5) for k in range(4)]
        opposite = [nudged(np.random.default_rng(k), model, name, -1e-5) for k in range(4)]
        found[name] = np.array([value(a) - value(b) for a, b in zip(directions, opposite, strict=True)]) / 2e-5
    return found


@driven
@pytest.mark.parametrize("words", [{}, {"noise": "isotropic"}, {"ridge": 3.0}, {"process_noise": "free"}], ids=str)
def test_the_likelihood_is_level_at_its_maximum(rng, u, words):
    system = replace(clear_series(rng, 1, D)[0], input_loadings=rng.standard_normal((Q, u)) if u else None)
    inputs = [rng.standard_normal((60, u)) for _ in range(2)] if u else None
    y = [punched(rng, sample_series(system, 60, rng=rng, inputs=inputs[k] if u else None).rows, 0.1) for k in range(2)]
    options = {"inputs": inputs, "process_noise": "identity", "initial_covariance": "identity", **words}
    found = fit(y, tol=1e-7, max_iter=3000, **options)
    assert found.status is Status.CONVERGED

    def value(model):
        return series_log_likelihood(model, y, inputs=inputs) + log_prior(model, words.get("ridge", 0.0))

    early = fit(y, max_iter=3, **options).model
    level, steep = (slopes(model, value, driven=u > 0) for model in (found.model, early))
    assert max(np.abs(s).max() for s in steep.values()) > 1
    assert max(np.abs(s).max() for s in level.values()) < 0.02, level


# Known answers


def test_a_simulated_system_is_recovered(rng):
    truth, y = clear_series(rng, 3000)
    found = fit(y, tol=0.1)
    assert found.status is Status.CONVERGED
    assert_allclose(found.model.eigenvalues, truth.eigenvalues, atol=0.03)
    wanted, told = dense_covariance(truth.marginal()), dense_covariance(found.model.marginal())
    assert np.abs(told - wanted).max() < 0.15 * np.abs(wanted).max()
    assert_allclose(found.model.emission.noise_variance, truth.emission.noise_variance, rtol=0.15)
    assert found.log_likelihood > series_log_likelihood(truth, y)


def test_inputs_are_recovered_by_what_they_do(rng):
    system = random_system(rng, 6, Q, inputs=2, radius=0.8)
    inputs = 3 * rng.standard_normal((600, 2))
    y = punched(rng, sample_series(system, 600, rng=rng, inputs=inputs).rows, 0.2)
    found = fit(y, inputs=inputs, max_iter=60).model

    def answers(model):
        powers = [np.linalg.matrix_power(model.transition, k) for k in range(4)]
        return np.array([model.emission.loadings @ power @ model.input_loadings for power in powers])

    assert_allclose(answers(found), answers(system), atol=0.15 * np.abs(answers(system)).max())


def test_inputs_that_are_zero_change_nothing():
    (y, _), found = data("one"), fitted("one", "free", "em")
    silent = fit(y, solver="em", inputs=[np.zeros((40, 1))], max_iter=25, tol=0.0)
    assert_allclose(silent.trace, found.trace, rtol=1e-9)
    assert_array_equal(silent.model.input_loadings, 0.0)


MEMORYLESS = {
    "transition": np.zeros((Q, Q)),
    "process_noise": "identity",
    "initial_mean": np.zeros(Q),
    "initial_covariance": "identity",
}


@pytest.mark.parametrize("holes", [False, True], ids=["complete", "holes"])
def test_without_memory_it_is_probabilistic_pca(rng, holes):
    x = (spiked_rows_with_holes if holes else spiked_rows)(rng, 60, 6, Q, noise=1.0)
    found = fit(x, noise="isotropic", tol=1e-8, max_iter=5000, **MEMORYLESS)
    wanted = fit_ppca(open_source(x), Q, Settings(tol=1e-8, max_iter=5000), np.random.default_rng(0))
    assert found.status is Status.CONVERGED
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)
    assert_allclose(dense_covariance(found.model.emission), dense_covariance(wanted.model), atol=5e-3)
    if not holes:
        assert_allclose(found.log_likelihood, closed_form_oracle(x, Q).log_likelihood, atol=1e-5)


def test_without_memory_and_with_a_noise_for_each_feature_it_is_factor_analysis(rng):
    x = spiked_rows(rng, 100, 6, Q, noise=1.0) * [1.0, 2.0, 0.5, 1.0, 1.5, 3.0]
    found = fit(x, tol=1e-8, max_iter=5000, **MEMORYLESS)
    wanted = FactorAnalysis(Q, tol=1e-12, max_iter=20_000, svd_method="lapack").fit(x)
    assert_allclose(found.log_likelihood, 100 * wanted.score(x), atol=1e-4)
    assert_allclose(dense_covariance(found.model.emission), wanted.get_covariance(), atol=0.02)


def test_without_memory_a_sequence_may_be_cut_anywhere(rng):
    model = StateSpace.memoryless(random_system(rng, D, Q).emission)
    em = SeriesEM(Structure(**MEMORYLESS), np.zeros(D), np.eye(Q), None)
    y = punched(rng, model.emission.mean + rng.standard_normal((20, D)), 0.3)
    whole, parts = (em.step(model, as_sequences(rows)) for rows in (y, [y[:7], y[7:8], y[8:]]))
    assert_allclose(parts[1], whole[1], rtol=1e-12)
    assert_allclose(parts[0].emission.loadings, whole[0].emission.loadings, rtol=1e-9)
    assert_allclose(parts[0].emission.noise_variance, whole[0].emission.noise_variance, rtol=1e-9)


# Symmetries


@pytest.fixture
def pieces(rng):
    system = random_system(rng, D, Q)
    return [sample_series(system, n, rng=rng).rows for n in (30, 1, 17, 24)]


def few_steps(y, **options):
    return fit(y, max_iter=8, tol=0.0, **options)


def test_the_likelihood_of_sequences_is_a_sum(pieces):
    found = few_steps(pieces)
    assert_allclose(found.log_likelihood, sum(series_log_likelihood(found.model, y) for y in pieces), rtol=1e-10)
    assert found.n_observed == sum(y.size for y in pieces)


def test_the_order_of_sequences_does_not_matter(pieces):
    here, there = few_steps(pieces), few_steps(pieces[::-1])
    assert_allclose(there.trace, here.trace, rtol=1e-8)
    assert_allclose(there.model.transition, here.model.transition, atol=1e-5)


def test_features_may_come_in_any_order(rng, pieces):
    order = rng.permutation(D)
    here, there = few_steps(pieces), few_steps([y[:, order] for y in pieces])
    assert_allclose(there.trace, here.trace, rtol=1e-8)
    assert_allclose(there.model.emission.loadings, here.model.emission.loadings[order], atol=1e-4)
    assert_allclose(there.model.emission.noise_variance, here.model.emission.noise_variance[order], rtol=1e-4)


@pytest.mark.parametrize(("unit", "shift"), [(1e4, 0.0), (1e-4, 0.0), (1.0, 1e4)])
def test_units_and_origin_of_the_data_do_not_matter(pieces, unit, shift):
    here, there = few_steps(pieces), few_steps([unit * y + shift for y in pieces])
    cells = here.n_observed * np.log(unit)
    assert_allclose(np.array(there.trace) + cells, here.trace, rtol=1e-6)
    assert_allclose(there.model.emission.noise_variance, unit**2 * here.model.emission.noise_variance, rtol=1e-4)
    assert_allclose(there.model.transition, here.model.transition, atol=1e-4)


def test_the_same_seed_gives_the_same_answer():
    y, _ = data("several")
    first, again = (fit(y, max_iter=6, n_init=4, seed=3) for _ in range(2))
    assert_array_equal(first.trace, again.trace)
    for key, value in parameters(first.model).items():
        assert_array_equal(parameters(again.model)[key], value)


@pytest.mark.parametrize("seed", range(3))
def test_more_starts_are_never_worse(seed):
    y, _ = data("one")
    values = [fit(y, max_iter=8, n_init=n, seed=seed).log_likelihood for n in (1, 2, 5)]
    assert (np.diff(values) >= 0).all()


def test_rows_are_not_written_to(rng):
    for y in (rng.standard_normal((12, 1)), rng.standard_normal((1, 3)), rng.standard_normal((12, 3))):
        model = random_system(rng, y.shape[1], 1)
        before = y.copy()
        series_log_likelihood(model, y)
        assert_array_equal(y, before)


# How many states


@pytest.mark.parametrize("rule", ["bic", "cv"])
def test_the_number_of_states_is_found(rng, rule):
    _, y = clear_series(rng, 200)
    found = choose_states(as_sequences(y), rule, Settings(tol=0.1, max_iter=150), rng, Structure())
    scores = found.scores
    assert found.result.model.n_components == max(scores, key=scores.get)
    if rule == "bic":
        assert found.result.model.n_components == 2
    else:  # cells held out once tell too few states from enough, and hardly enough from a few more
        assert scores[1] < scores[2] - 0.1
        assert max(scores.values()) < scores[2] + 0.05
    assert {1, 2, 3} <= set(scores)
    assert not np.isnan(y).any()
    assert found.result.n_observed == y.size


def test_cells_are_held_out_whatever_happens(rng):
    for shape in ((3, 1), (4, 2), (200, 5)):
        y = punched(rng, rng.standard_normal(shape), 0.2)
        y[0, 0] = 1.0
        held = _held_out(as_sequences(y), rng)
        assert held.any()
        assert not np.isnan(y[held]).any()
    assert abs(held.mean() - SEARCH.held_out) < 0.05


def test_the_criterion_counts_what_inputs_need():
    y, inputs = data("several")
    rows = as_sequences(y, None, inputs)
    found, structure = fitted("several", "free", "auto"), Structure()
    steps = sum((~np.isnan(part)).any(axis=1).sum() for part in y)
    count = (bic(found, rows, structure) + 2 * found.log_likelihood) / np.log(steps)
    assert_allclose(count, n_parameters(structure, Q, D) + Q)


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_the_criterion_counts_the_initial_covariance_if_it_was_learned(rng, many):
    lengths = [4] * (30 if many else 3)
    rows = as_sequences([rng.standard_normal((n, D)) for n in lengths])
    settings = Settings(max_iter=3)
    auto, free = (
        fit_series(rows, Q, settings, np.random.default_rng(0), Structure(initial_covariance=word))
        for word in ("auto", "free")
    )
    told = Structure(initial_covariance="free" if many else "stationary")
    assert_allclose(bic(auto, rows, Structure()), bic(auto, rows, told))
    if many:
        assert_allclose(auto.model.initial.covariance, free.model.initial.covariance)
        assert n_parameters(Structure(), Q, D, n_sequences=30) == n_parameters(Structure(), Q, D) + Q * (Q + 1) // 2


def observable(numbers, like, *, steps, free_start):
    """Mean and covariance of the first rows, as a function of all parameters in one vector."""
    q, d = like.n_components, like.n_features
    sizes = [q * q, q * q, d * q, d, d if like.emission.noise_variance.ndim else 1, q, q * q]
    A, root, C, c, R, p1, first = np.split(numbers, np.cumsum(sizes)[:-1])
    A, root, first = A.reshape(q, q), root.reshape(q, q), first.reshape(q, q)
    emission = LinearGaussian(c, C.reshape(d, q), R if like.emission.noise_variance.ndim else R[0])
    model = StateSpace(Gaussian(p1, first @ first.T), A, root @ root.T, emission)
    model = model if free_start else tied(model, 2.5)
    whole = dense_trajectory(model, steps)
    rows = slice(steps * q, None)
    return np.concatenate([whole.mean[rows], whole.covariance[rows, rows].ravel()])


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("start", ["stationary", "free"])
@pytest.mark.parametrize("noise", ["diagonal", "isotropic"])
def test_parameters_are_counted_by_what_they_move(rng, q, start, noise):
    like = random_system(rng, 3, q, noise="diagonal" if noise == "diagonal" else 0.5)
    told = parameters(like)
    parts = ("transition", "process_noise", "loadings", "offset", "noise", "initial_mean", "initial_covariance")
    told["process_noise"], told["initial_covariance"] = (random_covariance(rng, q) for _ in range(2))
    numbers = np.concatenate([np.ravel(told[name]) for name in parts])

    def tell(vector):
        return observable(vector, like, steps=2 * q + 3, free_start=start == "free")

    moves = np.eye(numbers.size) * 1e-5
    jacobian = np.array([(tell(numbers + move) - tell(numbers - move)) / 2e-5 for move in moves])
    rank = np.linalg.matrix_rank(jacobian, tol=1e-6 * np.linalg.norm(jacobian, 2))
    assert n_parameters(Structure(initial_covariance=start, noise=noise), q, 3) == rank


# First guesses


def test_gaps_are_bridged_in_a_straight_line(rng):
    line = np.outer(np.arange(12.0), rng.standard_normal(3)) + rng.standard_normal(3)
    y = line.copy()
    y[3:6, 0] = y[5, 1] = y[7:11, 2] = NAN
    assert_allclose(interpolated(as_sequences(y)), line, atol=1e-12)
    assert_array_equal(interpolated(as_sequences(y))[~np.isnan(y)], y[~np.isnan(y)])
    assert np.isnan(y[3, 0])


def test_gaps_are_not_bridged_between_sequences(rng):
    y = rng.standard_normal((5, 2)), 100 + rng.standard_normal((4, 2))
    y[0][3:, 0] = y[1][0, 0] = NAN
    y[0][:, 1] = NAN
    filled = interpolated(as_sequences(list(y)))
    assert_array_equal(filled[3:5, 0], y[0][2, 0])
    assert filled[5, 0] == y[1][1, 0]
    assert_allclose(filled[:5, 1], y[1][:, 1].mean())


@pytest.mark.parametrize("cut", [False, True], ids=["one", "several"])
def test_covariances_between_times_give_the_dynamics(rng, cut):
    truth, y = clear_series(rng, 6000)
    y = np.array_split(y, 20) if cut else y
    rows = as_sequences(y)
    guess = by_subspace(rows, interpolated(rows), 2, 5)
    assert_allclose(guess.eigenvalues, truth.eigenvalues, atol=0.03)
    assert by_subspace(rows, interpolated(rows), 2, 10**4) is None


AWKWARD = {
    "three steps": lambda y: y[:3],
    "pairs": lambda y: [y[i : i + 2] for i in range(0, 12, 2)],
    "single steps and three": lambda y: [y[:1], y[1:2], y[2:5]],
    "one feature": lambda y: y[:, :1],
    "constant column": lambda y: np.column_stack([np.full(len(y), 3.0), y]),
    "nothing of a column": lambda y: np.column_stack([y, np.full(len(y), NAN)]),
    "nothing of a sequence": lambda y: [y[:20], np.full((6, y.shape[1]), NAN), y[20:]],
    "nothing of the first sequence": lambda y: [np.full((2, y.shape[1]), NAN), y],
    "two rows": lambda y: np.where(np.isin(np.arange(len(y)), [3, 9])[:, None], y, NAN),
    "huge": lambda y: 1e100 * y,
    "tiny": lambda y: 1e-100 * y,
    "without noise": lambda y: y[:, :2] @ np.ones((2, 4)),
}


@pytest.fixture
def y(rng):
    return sample_series(random_system(rng, D, Q), 40, rng=rng).rows


@pytest.mark.parametrize("q", [1, 2, 5])
@pytest.mark.parametrize("case", AWKWARD)
def test_awkward_data_have_a_first_guess(y, case, q):
    rows = as_sequences(AWKWARD[case](y))
    for guess in starts(rows, q, np.random.default_rng(0)):
        assert guess.n_components == q
        assert guess.is_stationary
        assert np.isfinite(series_log_likelihood(guess, rows))


@either_solver
@pytest.mark.parametrize(("q", "word"), [(1, "free"), (2, "free"), (5, "identity")])
@pytest.mark.parametrize("case", AWKWARD)
def test_awkward_data_are_fitted(y, solver, case, q, word):
    rows = AWKWARD[case](y)
    found = fit(rows, q, solver, max_iter=12, process_noise=word)
    assert_never_falls(found.trace)
    assert_allclose(series_log_likelihood(found.model, rows), found.log_likelihood, rtol=1e-7)


@either_solver
@pytest.mark.parametrize(("d", "q"), [(1, 2), (1, 3), (3, 5)])
def test_states_may_be_more_than_features(y, solver, d, q):
    found = fit(y[:, :d], q, solver, max_iter=12)
    assert_never_falls(found.trace)
    assert_allclose(series_log_likelihood(found.model, y[:, :d]), found.log_likelihood, rtol=1e-7)


PLAIN = {"process_noise": "identity", "initial_covariance": "identity"}


def test_a_column_without_a_cell_changes_nothing_and_is_named(rng):
    _, y = clear_series(rng, 80, D)
    found, wanted = fit(np.column_stack([y, np.full(80, NAN)]), **PLAIN), fit(y, **PLAIN)
    assert_array_equal(found.empty, [4])
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=0.01)
    assert_array_equal(found.model.emission.loadings[4], 0.0)


def test_a_sequence_without_a_cell_says_nothing(rng):
    _, y = clear_series(rng, 80, D)
    found, wanted = fit([y, np.full((5, D), NAN)], **PLAIN), fit(y, **PLAIN)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=0.01)


def test_a_constant_column_has_hardly_any_noise(y):
    found = fit(np.column_stack([y, np.full(40, 3.0)]), max_iter=30).model
    assert_allclose(found.emission.mean[4], 3.0, rtol=1e-6)
    assert np.abs(found.emission.loadings[4]).max() < 1e-3
    assert found.emission.noise_variance[4] < 1e-6 * found.emission.noise_variance[:4].max()


# What cannot be fitted


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.full((5, 2), NAN), "all cells of all sequences are missing"),
        (np.zeros((1, 2)), "at least two steps after the first"),
        ([np.zeros((1, 2))] * 5, "at least two steps after the first"),
        (np.ones((9, 2)), "no variation to explain"),
        (np.array([[1.0, NAN], [NAN, 2.0], [1.0, 2.0], [1.0, NAN]]), "no variation to explain"),
    ],
)
def test_rows_that_say_nothing_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        fit(rows, 1)


@pytest.mark.parametrize(
    ("structure", "error", "message"),
    [
        ({"transition": "wild"}, DataError, "transition must be 'free', 'diagonal', 'stable' or an array"),
        ({"process_noise": "stable"}, DataError, "process_noise must be"),
        ({"noise": "free"}, DataError, "noise must be 'diagonal', 'isotropic'"),
        ({"loadings": "identity"}, DataError, "loadings must be 'free'"),
        ({"offset": "zero"}, DataError, "offset must be"),
        ({"initial_mean": "zero"}, DataError, "initial_mean must be"),
        ({"initial_covariance": "diagonal"}, DataError, "initial_covariance must be"),
        ({"ridge": -1.0}, DataError, "ridge must not be negative"),
        ({"ridge": NAN}, DataError, "ridge must not be negative"),
        ({"transition": np.full((2, 2), NAN)}, DataError, "transition must be finite"),
        ({"transition": np.eye(3)}, ShapeError, r"transition must have shape \(2, 2\)"),
        ({"process_noise": np.ones(2)}, ShapeError, "process_noise must have shape"),
        ({"noise": np.ones(3)}, ShapeError, r"noise must have shape \(\) or \(4,\)"),
        ({"loadings": np.ones((2, 4))}, ShapeError, r"loadings must have shape \(4, 2\)"),
        ({"offset": 0.0}, ShapeError, "offset must have shape"),
        ({"initial_mean": np.zeros((2, 1))}, ShapeError, "initial_mean must have shape"),
        ({"initial_covariance": np.eye(1)}, ShapeError, "initial_covariance must have shape"),
        ({"process_noise": -np.eye(2)}, DataError, "must not have negative variances"),
        ({"initial_covariance": np.triu(np.ones((2, 2)))}, DataError, "must be symmetric"),
        ({"noise": 0.0}, DataError, "noise_variance must be positive"),
    ],
    ids=str,
)
def test_structures_that_mean_nothing_are_refused(y, structure, error, message):
    with pytest.raises(error, match=message):
        fit(y, 2, **structure)


def test_no_states_are_too_few(y):
    with pytest.raises(ShapeError, match="n_components must be at least 1; got 0"):
        fit(y, 0)


@pytest.mark.parametrize(
    ("structure", "wanted"),
    [
        (Structure(), 17),
        (Structure(process_noise="identity"), 17),
        (Structure(process_noise="diagonal"), 17),
        (Structure(transition="diagonal"), 17),
        (Structure(transition="diagonal", process_noise="diagonal"), 16),
        (Structure(transition="diagonal", process_noise="identity"), 16),
    ],
)
def test_the_same_family_has_as_many_parameters_however_it_is_told(structure, wanted):
    # Ranks of the Jacobian from parameters to means and autocovariances, for 3 features and 2 states.
    assert n_parameters(structure, 2, 3) == wanted


@pytest.mark.parametrize("other", [{"transition": "diagonal"}, {"ridge": 1.0}])
def test_a_singular_process_noise_that_is_kept_may_leave_no_room(rng, other):
    with pytest.raises(DataError, match="singular"):
        fit_series(
            as_sequences(rng.standard_normal((30, 3))),
            2,
            Settings(),
            rng,
            Structure(process_noise=np.diag([1.0, 0.0]), **other),
        )


def test_sequences_that_are_alike_are_summed_as_if_they_were_not(rng):
    model = random_system(rng, 4, 2)
    y = [sample_series(model, 12, rng=rng).rows for _ in range(5)]
    alike = expect_series(model, as_sequences(y))
    apart = [expect_series(model, as_sequences(one)) for one in y]
    assert_allclose(alike.moves, sum(one.moves for one in apart), rtol=1e-10, atol=1e-10)
    assert_allclose(alike.first, np.vstack([one.first for one in apart]), rtol=1e-10, atol=1e-10)
    assert_allclose(alike.first_covariance, apart[0].first_covariance, rtol=1e-10)
    assert_allclose(alike.log_likelihood, sum(one.log_likelihood for one in apart), rtol=1e-12)
    for name in ("latent", "gram", "score", "squares"):
        wanted = sum(np.asarray(getattr(one.emission, name)) for one in apart)
        assert_allclose(getattr(alike.emission, name), wanted, rtol=1e-9, atol=1e-9)


def test_products_of_complete_rows_say_what_residuals_say(rng, monkeypatch):
    model = random_system(rng, 4, 2)
    rows = as_sequences([sample_series(model, n, rng=rng).rows for n in (30, 20)])
    found = []
    for clear in (0.0, np.inf):
        monkeypatch.setattr(observed, "CLEAR", clear)
        found.append(expect_series(model, rows))
    assert_allclose(found[0].log_likelihood, found[1].log_likelihood, rtol=1e-12)
    for name in ("latent", "gram", "score", "squares"):
        products, residuals = (getattr(one.emission, name) for one in found)
        assert_allclose(products, residuals, rtol=1e-9, atol=1e-9)


def test_a_trend_of_four_steps_can_be_fitted_with_more_states_than_it_determines(recwarn):
    trend = np.outer(np.arange(1.0, 5.0), [1.09e9, -1.97e11, 2.7e10, 1.4e11, 1.1e11]) * (1 + 1e-4 * np.eye(4, 5))
    trend[[0, 1, 1, 2], [4, 1, 2, 0]] = np.nan
    found = fit_series(as_sequences(trend), 3, Settings(max_iter=20), np.random.default_rng(0))
    assert np.isfinite(found.log_likelihood)
    assert not [one for one in recwarn.list if issubclass(one.category, RuntimeWarning)]
