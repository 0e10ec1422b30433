"""The lower bound as a function of the parameters, and quasi-Newton steps on it: as high as sweeps go, much sooner."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import assert_never_falls, punched, random_covariance, random_model
from probpca.blocks import observe
from probpca.learning import Settings, Status
from probpca.learning.bayesian.bound import Bound, Information
from probpca.learning.bayesian.fit import fit_variational
from probpca.learning.bayesian.variational_em import Pending, VariationalEM, divergence
from probpca.learning.em.e_step import expect_believed
from probpca.learning.em.quasi_newton import Information as InformationOfRows, InformationSettings, Outside
from probpca.linalg.packed import pack
from probpca.models import LinearGaussian, ParameterBelief
from probpca.sources import open_source

D, Q = 6, 2
EM = VariationalEM(1e-300)


def uneven_rows(seed, n=300, d=20, share=0.2):
    """Rows of three factors with noise that one variance does not describe."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
    return punched(rng, x + rng.standard_normal((n, d)) * rng.uniform(0.5, 3.0, d), share)


def prepared(x):
    return open_source(x, n_jobs=1).keep(partial(observe, centre=np.nanmean(x, axis=0)))


def fit(x, q=12, tol=1e-3, seed=0, **options):
    return fit_variational(open_source(x, n_jobs=1, **options), q, Settings(tol=tol), np.random.default_rng(seed))


def best_axes(belief):
    """The axes in which the prior suits a belief best: those that make E[W'W] diagonal."""
    W, q = belief.centre.loadings, belief.n_components
    basis = np.eye(q + 1)
    basis[:q, :q] = np.linalg.eigh(W.T @ W + belief.summed_covariance)[1][:, ::-1]
    return Pending(belief, basis)


def random_state(rng, noise=0.5):
    spread = pack(np.stack([0.05 * random_covariance(rng, Q + 1) for _ in range(D)]))
    return best_axes(ParameterBelief(random_model(rng, D, Q, noise=noise, mean=1.0), spread, np.ones(Q)))


class Rows:
    """Prepared rows, the bound of a state, and the sums that its gradient needs."""

    def __init__(self, rng):
        x = rng.standard_normal((30, Q)) @ rng.standard_normal((Q, D)) + 0.5 * rng.standard_normal((30, D))
        self.rows = prepared(punched(rng, x, 0.3))

    def sums_at(self, state):
        return self.rows.fold(partial(expect_believed, state.belief))

    def bound(self, state):
        return self.sums_at(state).log_likelihood - divergence(state.belief)


def bound_near(rows, state):
    bound = Bound(rows.sums_at, state, 1e-300)
    point, gradient = bound.slope_at(state)
    bound.keep(state, EM.sweep(state.belief, rows.sums_at(state)))
    return bound, point, gradient


def test_the_gradient_is_that_of_the_bound(rng):
    """With given covariances, whatever the axes: the prior turns with them."""
    rows, state = Rows(rng), random_state(rng)
    bound, point, gradient = bound_near(rows, state)
    belief, size = state.belief, 1e-5
    for _ in range(10):
        change = rng.standard_normal(point.size)

        def value(h, change=change):
            model = bound._coordinates.place(point + h * change)
            turned = LinearGaussian(model.mean, model.loadings @ bound._turn, model.noise_variance)
            return rows.bound(best_axes(replace(belief, centre=turned)))

        slope = (value(size) - value(-size)) / (2 * size)
        assert_allclose(bound.rows * (gradient @ change), slope, rtol=1e-6)


def test_a_vector_is_placed_where_it_came_from(rng):
    rows, state = Rows(rng), random_state(rng)
    bound, point, _ = bound_near(rows, state)
    placed = bound.place(point)
    assert_allclose(placed.belief.centre.noise_variance, state.belief.centre.noise_variance)
    ours, theirs = placed.belief.centre, state.belief.centre
    assert_allclose(ours.loadings @ ours.loadings.T, theirs.loadings @ theirs.loadings.T)
    assert_allclose(bound.slope_at(placed)[0], point)  # whatever the axes in which it is told


def test_vectors_follow_loadings_whose_axes_turn_or_change_their_signs(rng):
    rows, state = Rows(rng), random_state(rng)
    bound, point, gradient = bound_near(rows, state)
    basis = np.eye(Q + 1)
    basis[:Q, :Q] = np.diag([-1.0, 1.0])[::-1]
    mirrored = Pending(state.belief, basis)
    found = bound.slope_at(mirrored)
    assert_allclose(found[0], point)
    assert_allclose(found[1], gradient)


def test_a_component_that_was_removed_leaves_the_vectors(rng):
    rows, state = Rows(rng), random_state(rng)
    bound, point, gradient = bound_near(rows, state)
    left = Pending(state.belief.keep(np.array([0])), np.eye(2))
    inside = bound.slope_at(left)[0]
    convert = bound.keep(left, EM.sweep(left.belief, rows.sums_at(left)))
    assert convert(point).size == point.size - D
    assert_allclose(convert(inside), bound.slope_at(left)[0])
    assert_allclose(convert(gradient)[-D - 1 :], gradient[-D - 1 :])


def test_with_many_rows_the_information_is_that_of_maximum_likelihood(rng):
    d, q, rows = 8, 3, 1e9
    model = random_model(rng, d, q, noise=0.4)
    model = model.rotate(model.canonical_rotation)
    noise = float(model.noise_variance)
    spread = pack(np.eye(q + 1)[None] * noise / rows) * np.ones(d)
    belief = ParameterBelief(model, spread, np.ones(q)).with_best_precision()
    covariance = model.loadings @ model.loadings.T + np.diag(rng.uniform(0.2, 2.0, d) * noise)
    outside = Outside.of(model.loadings, np.full(d, noise), covariance, np.ones(d))
    gradient = rng.standard_normal(d * q + d + 1)
    parts = gradient[: d * q].reshape(d, q), gradient[d * q : -1], gradient[-1:]
    for rest in (None, outside):
        found = Information(belief, np.ones(d), rows, rest, InformationSettings()).solve(*parts)
        wanted = InformationOfRows(model.loadings, np.asarray(noise), np.ones(d), InformationSettings(), rest)
        assert_allclose(np.concatenate([np.ravel(part) for part in found]), wanted.solve(gradient), rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_ends_as_high_as_sweeps_go_in_a_fraction_of_their_number(seed):
    x = uneven_rows(seed)
    found, rows = fit(x), prepared(x)
    assert found.status is Status.BOUND_CONVERGED
    assert found.n_iter <= 30
    assert_never_falls(found.trace[:-1])
    belief = found.belief
    for _ in range(300):  # no sweep leads higher
        belief, value = EM.step(belief, rows)
    assert found.trace[-2] > value - 1e-3


def test_sweeps_alone_take_more_than_twice_as_many(monkeypatch):
    quick = sum(fit(uneven_rows(seed)).n_iter for seed in range(3))
    monkeypatch.setattr(Bound, "is_applicable", False)
    assert sum(fit(uneven_rows(seed)).n_iter for seed in range(3)) > 2 * quick


def test_few_rows_of_many_columns_are_left_to_sweeps(monkeypatch):
    x = uneven_rows(0, n=40, d=100)
    found = fit(x)
    monkeypatch.setattr(Bound, "is_applicable", False)
    assert_array_equal(fit(x).trace, found.trace)


def test_the_number_of_steps_does_not_depend_on_chance():
    x = uneven_rows(0)
    one, other = fit(x, seed=1), fit(x, seed=2)
    assert_array_equal(one.trace, other.trace)
    assert_array_equal(one.belief.centre.loadings, other.belief.centre.loadings)


@pytest.mark.parametrize("weight", [1e-150, 1e150])
def test_huge_and_tiny_weights_of_cells_do_not_change_the_steps(weight):
    x = uneven_rows(0)
    plain, scaled = fit(x), fit(x, cell_weight=np.full(x.shape, weight))
    assert_allclose(scaled.trace, plain.trace, rtol=1e-9)
