"""Believing instead of fitting: the bound is what its definition says, every step raises it, and no road matters."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from oracles import (
    assert_moments_match,
    assert_never_falls,
    assert_within_errors,
    closed_form_oracle,
    dense_covariance,
    dense_observed_log_likelihood,
    punched,
    random_covariance,
    random_model,
    random_rotation,
    spiked_rows,
    spiked_rows_with_holes,
)
from probpca import DataError, ShapeError
from probpca.blocks import Block, observe
from probpca.blocks.cells import FORMS
from probpca.inference import impute, sample
from probpca.inference.sampling import sample_parameters
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.bayesian.fit import fit_variational
from probpca.learning.bayesian.variational_em import (
    VariationalEM,
    best_basis,
    divergence,
    with_faster_noise,
    without_dead,
)
from probpca.learning.complete.iterative import condensed
from probpca.learning.describe import Description
from probpca.learning.em import e_step as observed_home
from probpca.learning.em.e_step import expect, expect_believed
from probpca.learning.em.m_step import latent_moments
from probpca.linalg.packed import pack, packed_size, unpack
from probpca.models import Gaussian, LinearGaussian, ParameterBelief
from probpca.sources import open_source, source as memory
from probpca.statistics import Root

STANDARDIZED = partial(fit_variational, standardize=True)

N, D, Q = 60, 8, 2
NAN = np.nan
ANY = VariationalEM(1e-300)
SUMS = ("weight", "cells", "log_likelihood", "latent", "gram", "score", "squares")


def fit(x, q=Q, *, tol=1e-8, max_iter=5000, start=fit_variational, **options):
    return start(open_source(x, **options), q, Settings("auto", tol, max_iter), np.random.default_rng(0))


def prepared(x, centre=None, form=None, **options):
    centre = np.nanmean(x, axis=0) if centre is None else centre
    return open_source(x, **options).keep(partial(observe, centre=centre, form=form))


def random_belief(rng, d=5, q=2, *, shared=False, noise=0.3, size=0.2):
    """Any belief at all; not what any rows suggest."""
    spread = np.stack([size * random_covariance(rng, q + 1) for _ in range(1 if shared else d)])
    return ParameterBelief(random_model(rng, d, q, noise=noise, mean=1.0), pack(spread), rng.uniform(0.2, 3.0, q))


def covariances(belief):
    """Sigma_j of every feature: (d, q + 1, q + 1)."""
    d, q = belief.centre.loadings.shape
    return np.broadcast_to(unpack(belief.covariance), (d, q + 1, q + 1))


def parameters(belief):
    """Means of [w_j; mu_j]: (d, q + 1)."""
    return np.column_stack([belief.centre.loadings, belief.centre.mean])


def turned_to(belief, basis):
    """The same belief with latents [z; 1] = B [z'; 1], entry by entry; its precisions as they are."""
    theta = np.stack([basis.T @ one for one in parameters(belief)])
    spread = np.stack([basis.T @ one @ basis for one in covariances(belief)])
    centre = LinearGaussian(theta[:, -1], theta[:, :-1], belief.centre.noise_variance)
    return ParameterBelief(centre, pack(spread), belief.precision)


class Cells(NamedTuple):
    """A table of any kind, and how much its rows and cells count."""

    x: np.ndarray
    weight: np.ndarray
    omega: np.ndarray

    @classmethod
    def of(cls, x, weight=None, omega=None):
        weight = np.ones(len(x)) if weight is None else weight
        return cls(x, weight, np.ones(x.shape) if omega is None else omega)

    def seen(self, i):
        return np.flatnonzero(~np.isnan(self.x[i]) & (self.omega[i] > 0))


# Slow twins, from the definitions


def dense_latents(belief, cells):
    """q(z) of each row: the coordinate that maximises the bound."""
    theta, spread, q = parameters(belief), covariances(belief), belief.n_components
    tau = 1 / float(belief.centre.noise_variance)
    means, covariance = np.zeros((len(cells.x), q)), np.zeros((len(cells.x), q, q))
    for i, row in enumerate(cells.x):
        precision, right = np.eye(q), np.zeros(q)
        for j in cells.seen(i):
            second = np.outer(theta[j], theta[j]) + spread[j]  # E[theta theta']
            precision += tau * cells.omega[i, j] * second[:q, :q]
            right += tau * cells.omega[i, j] * (theta[j, :q] * row[j] - second[:q, q])
        covariance[i] = np.linalg.inv(precision)
        means[i] = covariance[i] @ right
    return means, covariance


def second_moments(mean, covariance):
    """E[t t'], t = [z; 1]."""
    t = np.append(mean, 1.0)
    out = np.outer(t, t)
    out[:-1, :-1] += covariance
    return out


def entropy(covariance):
    return 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]


def dense_bound(belief, cells, latents):
    """E[log p(x, z, theta)] - E[log q(z) q(theta)], term by term; the density of a mean is 1 before any data."""
    theta, spread, q = parameters(belief), covariances(belief), belief.n_components
    variance, total = float(belief.centre.noise_variance), 0.0
    for i, (mean, covariance) in enumerate(zip(*latents, strict=True)):
        seen = cells.seen(i)
        if seen.size == 0:
            continue
        M = second_moments(mean, covariance)
        value = entropy(covariance) - 0.5 * (q * np.log(2 * np.pi) + np.trace(M[:q, :q]))
        for j in seen:
            fitted = theta[j] @ M @ theta[j] + np.trace(spread[j] @ M)
            square = cells.x[i, j] ** 2 - 2 * cells.x[i, j] * (theta[j] @ M[:, -1]) + fitted
            noise = variance / cells.omega[i, j]
            value -= 0.5 * (np.log(2 * np.pi * noise) + square / noise)
        total += cells.weight[i] * value
    for j in range(len(theta)):
        if not spread[j].any():
            continue
        total += entropy(spread[j])
        for k, alpha in enumerate(belief.precision):
            total += 0.5 * np.log(alpha / (2 * np.pi)) - 0.5 * alpha * (theta[j, k] ** 2 + spread[j, k, k])
    return total


def dense_sums(belief, cells):
    """What one pass over the rows sums up, one cell after the other."""
    theta, (d, q) = parameters(belief), belief.centre.loadings.shape
    latents = dense_latents(belief, cells)
    weight, count, latent = 0.0, 0.0, np.zeros((q + 1, q + 1))
    gram, score, squares = np.zeros((d, q + 1, q + 1)), np.zeros((q + 1, d)), np.zeros(d)
    for i, w in enumerate(cells.weight):
        M, seen = second_moments(latents[0][i], latents[1][i]), cells.seen(i)
        if seen.size:
            weight, latent = weight + w, latent + w * M
        for j in seen:
            count, sure, value = count + w, w * cells.omega[i, j], cells.x[i, j]
            gram[j] += sure * M
            score[:, j] += sure * (value * M[:, -1] - M @ theta[j])
            squares[j] += sure * (value**2 - 2 * value * (theta[j] @ M[:, -1]) + theta[j] @ M @ theta[j])
    bound = dense_bound(belief, cells, latents) + divergence(belief)
    return dict(zip(SUMS, (weight, count, bound, pack(latent), pack(gram), score, squares), strict=True))


def assert_same_sums(found, wanted, rtol=1e-9):
    for name in SUMS:
        value = wanted[name] if isinstance(wanted, dict) else getattr(wanted, name)
        ours, theirs = np.broadcast_arrays(getattr(found, name), value)
        assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max(), err_msg=name)


def dense_learn(belief, cells, latents):
    """Means and covariances of the parameters of each feature, and the noise variance, given q(z)."""
    (d, q), tau = belief.centre.loadings.shape, 1 / float(belief.centre.noise_variance)
    theta, spread, squares, count = np.zeros((d, q + 1)), np.zeros((d, q + 1, q + 1)), 0.0, 0.0
    moments = [second_moments(*one) for one in zip(*latents, strict=True)]
    for j in range(d):
        rows = [i for i in range(len(cells.x)) if j in cells.seen(i)]
        sure = cells.weight * cells.omega[:, j]
        A = sum(sure[i] * moments[i] for i in rows)
        b = sum(sure[i] * cells.x[i, j] * moments[i][:, -1] for i in rows)
        spread[j] = np.linalg.inv(np.diag(np.append(belief.precision, 0.0)) + tau * A)
        theta[j] = tau * spread[j] @ b
        total = sum(sure[i] * cells.x[i, j] ** 2 for i in rows)
        squares += total - 2 * b @ theta[j] + np.trace(A @ (np.outer(theta[j], theta[j]) + spread[j]))
        count += cells.weight[rows].sum()
    return theta, spread, squares / count


KINDS = {"missing": (True, False), "missing, weights": (True, True), "complete": (False, False)}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def cells(request, rng):
    holes, weighted = request.param
    x = spiked_rows(rng, 8, 5, 2, noise=0.5)
    x = punched(rng, x, 0.3) if holes else x
    return Cells.of(x, rng.uniform(0.3, 2.5, 8), rng.uniform(0.4, 2.0, x.shape)) if weighted else Cells.of(x)


@pytest.fixture
def rows(cells):
    plain = (cells.omega == 1).all()
    return prepared(cells.x, weight=cells.weight, cell_weight=None if plain else cells.omega)


@pytest.fixture
def belief(rng):
    return random_belief(rng)


@pytest.fixture
def x(rng):
    return spiked_rows_with_holes(rng, N, D, Q, noise=0.5)


# The bound and the steps that climb it


@pytest.mark.parametrize("shared", [False, True], ids=["each its own", "shared"])
@pytest.mark.parametrize("clear", [0.0, np.inf], ids=["from sums", "from residuals"])
def test_sums_over_rows_with_holes_are_those_of_the_definition(rng, cells, rows, shared, clear, monkeypatch):
    monkeypatch.setattr(observed_home, "CLEAR", clear)
    belief = random_belief(rng, shared=shared)
    assert_same_sums(rows.fold(partial(expect_believed, belief)), dense_sums(belief, cells))


def test_sums_follow_the_spread_whatever_was_asked_before(cells, rows, belief):
    for other in (belief, replace(belief, covariance=3 * belief.covariance), belief):  # of one centre
        assert_same_sums(rows.fold(partial(expect_believed, other)), dense_sums(other, cells))
        known = dense_observed_log_likelihood(belief.centre, cells.x, cells.omega)
        assert_allclose(rows.fold(partial(expect, belief.centre)).log_likelihood, cells.weight @ known, rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("clear", [0.0, np.inf], ids=["from sums", "from residuals"])
def test_sums_are_the_same_in_every_form(rng, belief, form, clear, monkeypatch):
    monkeypatch.setattr(observed_home, "CLEAR", clear)
    x = np.repeat(punched(rng, spiked_rows(rng, 6, 5, 2), 0.3), 2, axis=0)
    x[1::2] += np.arange(6)[:, None]  # pairs of rows that share a pattern
    w = rng.uniform(0.3, 2.5, 12)
    found = prepared(x, form=form, weight=w).fold(partial(expect_believed, belief))
    assert_same_sums(found, dense_sums(belief, Cells.of(x, w)))


@pytest.mark.parametrize("centre", [0.0, 50.0])
def test_sums_do_not_depend_on_the_centre_that_was_subtracted(cells, belief, centre):
    rows = prepared(cells.x, np.full(5, centre), weight=cells.weight, cell_weight=cells.omega)
    assert_same_sums(rows.fold(partial(expect_believed, belief)), dense_sums(belief, cells), 1e-8)


def test_sums_over_complete_rows_are_those_of_the_definition(rng):
    x, w = spiked_rows(rng, 8, 5, 2, noise=0.5), rng.uniform(0.3, 2.5, 8)
    belief = random_belief(rng, shared=True)
    assert_same_sums(expect_believed(belief, Block(x, w)), dense_sums(belief, Cells.of(x, w)))


def test_the_bound_is_that_of_the_definition(cells, rows, belief):
    _, bound = ANY.step(belief, rows)
    assert_allclose(bound, dense_bound(belief, cells, dense_latents(belief, cells)), rtol=1e-11)


def test_no_other_latents_raise_the_bound(rng, cells, belief):
    means, spread = dense_latents(belief, cells)
    best = dense_bound(belief, cells, (means, spread))
    for _ in range(20):
        moved = means + 0.05 * rng.standard_normal(means.shape)
        other = spread * rng.uniform(0.8, 1.25, (len(spread), 1, 1))
        assert dense_bound(belief, cells, (moved, spread)) < best
        assert dense_bound(belief, cells, (means, other)) < best


def test_latents_of_a_row_are_those_that_maximise_the_bound(cells, belief):
    means, spread = dense_latents(belief, cells)
    for i in range(8):
        row = Cells(*(part[i : i + 1] for part in cells))
        rows = prepared(row.x, np.zeros(5), weight=row.weight, cell_weight=row.omega)
        found = unpack(rows.fold(partial(expect_believed, belief)).latent) / row.weight[0]
        assert_allclose(found, second_moments(means[i], spread[i]), rtol=1e-9, atol=1e-12)


def test_parameters_are_learnt_as_regression_on_uncertain_latents_with_a_prior(cells, rows, belief):
    theta, spread, noise = dense_learn(belief, cells, dense_latents(belief, cells))
    learnt = ANY.learn(belief.centre, belief.precision, rows.fold(partial(expect_believed, belief)))
    assert_allclose(parameters(learnt), theta, rtol=1e-8, atol=1e-9)
    assert_allclose(covariances(learnt), spread, rtol=1e-8, atol=1e-12)
    assert_allclose(learnt.centre.noise_variance, noise, rtol=1e-9)
    assert_array_equal(learnt.precision, belief.precision)


def test_noise_stays_above_its_floor(rows, belief):
    sums = rows.fold(partial(expect_believed, belief))
    free = ANY.learn(belief.centre, belief.precision, sums).centre.noise_variance
    for floor, wanted in ((2 * free, 2 * free), (0.5 * free, free)):
        held = VariationalEM(float(floor)).learn(belief.centre, belief.precision, sums)
        assert held.centre.noise_variance == wanted


@pytest.mark.parametrize("share", [0.3, 0.7, 0.9, 0.99])
def test_noise_that_rises_may_rise_further_without_lowering_the_bound(cells, rows, belief, share):
    latents = dense_latents(belief, cells)
    learnt = ANY.learn(belief.centre, belief.precision, rows.fold(partial(expect_believed, belief)))
    best = float(learnt.centre.noise_variance)
    faster = with_faster_noise(learnt, share * best, largest=np.inf)
    assert_allclose(faster.centre.noise_variance, best / share)  # as far above the best as the noise was below it

    def bound(noise):
        return dense_bound(replace(learnt, centre=replace(learnt.centre, noise_variance=noise)), cells, latents)

    assert bound(faster.centre.noise_variance) >= bound(share * best)
    assert bound(1.05 * best / share) < bound(best / share) < bound(best)
    capped = with_faster_noise(learnt, share * best, largest=1.2)
    assert_allclose(capped.centre.noise_variance, best * min(1 / share, 1.2))


def test_noise_that_falls_falls_to_where_the_bound_is_highest(rows, belief):
    learnt = ANY.learn(belief.centre, belief.precision, rows.fold(partial(expect_believed, belief)))
    assert with_faster_noise(learnt, 1.5 * float(learnt.centre.noise_variance)) is learnt


def test_parameters_learnt_from_complete_rows_share_their_spread(rng):
    cells, belief = Cells.of(spiked_rows(rng, 8, 5, 2)), random_belief(rng, shared=True)
    theta, spread, noise = dense_learn(belief, cells, dense_latents(belief, cells))
    learnt = ANY.learn(belief.centre, belief.precision, expect_believed(belief, Block(cells.x)))
    assert learnt.covariance.shape == (packed_size(3), 1)
    assert_allclose(parameters(learnt), theta, rtol=1e-8, atol=1e-9)
    assert_allclose(covariances(learnt), spread, rtol=1e-8, atol=1e-12)
    assert_allclose(learnt.centre.noise_variance, noise, rtol=1e-9)


def test_no_other_parameters_noise_or_precisions_raise_the_bound(rng, cells, rows, belief):
    latents = dense_latents(belief, cells)
    learnt = ANY.learn(belief.centre, belief.precision, rows.fold(partial(expect_believed, belief)))
    before = replace(learnt, centre=replace(learnt.centre, noise_variance=belief.centre.noise_variance))
    fitting = learnt.with_best_precision()
    values = [dense_bound(one, cells, latents) for one in (belief, before, learnt, fitting)]
    assert_never_falls(values)
    assert values[-1] > values[0] + 1
    for _ in range(20):
        theta = parameters(before) + 0.05 * rng.standard_normal((5, 3))
        moved = replace(before, centre=LinearGaussian(theta[:, -1], theta[:, :-1], belief.centre.noise_variance))
        wider = replace(before, covariance=before.covariance * rng.uniform(0.8, 1.25))
        assert dense_bound(moved, cells, latents) < values[1]
        assert dense_bound(wider, cells, latents) < values[1]
    for factor in (0.9, 1.1):
        noisy = replace(learnt, centre=replace(learnt.centre, noise_variance=factor * learnt.centre.noise_variance))
        assert dense_bound(noisy, cells, latents) < values[2]
        for k in range(2):
            relevant = replace(fitting, precision=fitting.precision * np.where(np.arange(2) == k, factor, 1.0))
            assert dense_bound(relevant, cells, latents) < values[3]


# The change of axes


def basis_of(R, nu):
    q = len(nu)
    basis = np.eye(q + 1)
    basis[:q, :q], basis[:q, q] = R, nu
    return basis


def turned_latents(latents, basis):
    """The same latents, told as z' with z = R z' + nu."""
    q = len(basis) - 1
    inverse = np.linalg.inv(basis[:q, :q])
    return (latents[0] - basis[:q, q]) @ inverse.T, inverse @ latents[1] @ inverse.T


@pytest.fixture
def learnt(cells, rows, belief):
    """A belief that rows suggest, the latents that suggested it, and the best change of axes."""
    sums = rows.fold(partial(expect_believed, belief))
    found = ANY.learn(belief.centre, belief.precision, sums)
    return found, dense_latents(belief, cells), best_basis(found, latent_moments(sums))


def test_no_other_change_of_axes_is_better(rng, cells, learnt):
    belief, latents, best = learnt

    def bound(basis):
        return dense_bound(belief.turned(basis), cells, turned_latents(latents, basis))

    highest = bound(best)
    assert highest > dense_bound(belief.with_best_precision(), cells, latents)
    for _ in range(30):
        anything = basis_of(rng.standard_normal((2, 2)), rng.standard_normal(2))
        nearby = best @ basis_of(np.eye(2) + 0.05 * rng.standard_normal((2, 2)), 0.05 * rng.standard_normal(2))
        assert bound(anything) < highest
        assert bound(nearby) < highest


def test_a_wrong_change_of_axes_lowers_the_bound(x):
    cells, rows = Cells.of(x), prepared(x)
    state = settled(rows, Q, steps=5)
    sums = rows.fold(partial(expect_believed, state))
    learnt, latents = ANY.learn(state.centre, state.precision, sums), dense_latents(state, cells)
    best = best_basis(learnt, latent_moments(sums))
    without = dense_bound(learnt.with_best_precision(), cells, latents)
    for wrong in (best @ np.diag([1.3, 1.0, 1.0]), best @ basis_of(np.eye(Q), np.full(Q, 0.5))):
        assert dense_bound(learnt.turned(wrong), cells, turned_latents(latents, wrong)) < without
    assert dense_bound(learnt.turned(best), cells, turned_latents(latents, best)) >= without


def test_after_the_change_latents_are_standard_on_average_and_loadings_apart(cells, learnt):
    belief, latents, best = learnt
    mean, covariance = turned_latents(latents, best)
    w = np.array([weight * (cells.seen(i).size > 0) for i, weight in enumerate(cells.weight)])
    assert_allclose(w @ mean, 0, atol=1e-9 * w.sum())
    second = np.einsum("n,ni,nj->ij", w, mean, mean) + np.einsum("n,nij->ij", w, covariance)
    assert_allclose(second / w.sum(), np.eye(2), atol=1e-9)
    turned = belief.turned(best)
    energy = turned.centre.loadings.T @ turned.centre.loadings + covariances(turned)[:, :2, :2].sum(axis=0)
    assert_allclose(energy, np.diag(np.sort(np.diag(energy))[::-1]), atol=1e-9 * energy.max())


# The climb as a whole


FITS = {
    "missing": lambda rng: (spiked_rows_with_holes(rng, N, D, Q), {}),
    "mostly missing": lambda rng: (spiked_rows_with_holes(rng, 150, 12, 1, share=0.8, noise=0.5), {}),
    "unstored": lambda rng: (thin(spiked_rows_with_holes(rng, 150, 12, 1, share=0.9)), {"unstored_missing": True}),
    "row weights": lambda rng: (spiked_rows_with_holes(rng, N, D, Q), {"weight": rng.uniform(0, 3, N)}),
    "cell weights": lambda rng: (spiked_rows(rng, N, D, Q), {"cell_weight": rng.uniform(0.3, 3, (N, D))}),
    "complete": lambda rng: (spiked_rows(rng, N, D, Q), {}),
    "complete, few rows": lambda rng: (spiked_rows(rng, 12, 20, Q), {}),
    "complete, weights": lambda rng: (spiked_rows(rng, 20, 12, Q), {"weight": rng.uniform(0, 3, 20)}),
    "nothing but noise": lambda rng: (rng.standard_normal((40, 6)), {}),
    "noise with holes": lambda rng: (punched(rng, rng.standard_normal((40, 6)), 0.3), {}),
    "tiny noise": lambda rng: (spiked_rows_with_holes(rng, N, D, Q, noise=1e-8), {}),
}


def thin(x):
    """The observed cells of a table, and nothing else, as a sparse matrix."""
    seen = np.nonzero(~np.isnan(x))
    return sparse.coo_array((x[seen], seen), shape=x.shape).tocsr()


@pytest.mark.parametrize("table", FITS.values(), ids=FITS)
@pytest.mark.parametrize("start", [fit_variational, STANDARDIZED])
def test_the_trace_never_falls(rng, table, start):
    rows, options = table(rng)
    found = fit(rows, 4, tol=1e-6, start=start, **options)
    assert_never_falls(found.trace[:-1])
    # The last value is that of the principal axes of the mean loadings, which are not those of the prior.
    assert found.trace[-1] >= found.trace[-2] - 1e-4
    assert found.trace[-1] > found.trace[0]
    assert found.lower_bound == found.trace[-1]
    assert found.n_iter == len(found.trace) - 1
    assert found.status is Status.BOUND_CONVERGED


def careless_step(belief, cells):
    """Latents as if parameters were known for sure: their spread left out."""
    sure = replace(belief, covariance=1e-12 * belief.covariance)
    theta, spread, noise = dense_learn(belief, cells, dense_latents(sure, cells))
    learnt = ParameterBelief(LinearGaussian(theta[:, -1], theta[:, :-1], noise), pack(spread), belief.precision)
    return learnt.with_best_precision(), dense_bound(belief, cells, dense_latents(belief, cells))


def test_a_step_that_leaves_out_the_doubt_about_parameters_falls(x):
    belief, values, cells = fit(x).belief, [], Cells.of(x)
    for _ in range(4):
        belief, value = careless_step(belief, cells)
        values.append(value)
    with pytest.raises(AssertionError, match="fell by"):
        assert_never_falls(values)


def settled(rows, q, steps=150):
    """Where the steps end, before any change of axes for people."""
    centre = LinearGaussian(np.zeros(rows.n_features), np.eye(rows.n_features, q) + 0.3, 1.0)
    state = ANY.learn(centre, np.ones(q), rows.fold(partial(expect, centre)))
    for _ in range(steps):
        state, _ = ANY.step(state, rows)
    return state


@pytest.mark.parametrize("complete", [False, True])
def test_the_end_is_a_stationary_point(rng, x, complete):
    rows = open_source(spiked_rows(rng, N, D, Q, noise=0.5)) if complete else prepared(x)
    state = settled(rows, Q)
    sums = rows.fold(partial(expect_believed, state))
    following = ANY.advance(state, sums)
    signs = np.sign(np.einsum("dk,dk->k", following.centre.loadings, state.centre.loadings))
    assert_allclose(following.centre.loadings * signs, state.centre.loadings, atol=1e-8)
    assert_allclose(following.centre.mean, state.centre.mean, atol=1e-8)
    assert_allclose(following.centre.noise_variance, state.centre.noise_variance, rtol=1e-9)
    assert_allclose(following.precision, state.precision, rtol=1e-7)
    assert_allclose(following.variances, state.variances, rtol=1e-7)
    latent = latent_moments(sums)
    assert_allclose(latent.mean, 0, atol=1e-8)
    assert_allclose(latent.covariance, np.eye(Q), atol=1e-7)
    energy = state.centre.loadings.T @ state.centre.loadings + state.summed_covariance
    assert_allclose(energy, np.diag(state.energy), atol=1e-7)
    assert_allclose(state.precision, D / state.energy, rtol=1e-12)


@pytest.mark.parametrize("complete", [False, True])
def test_the_fit_ends_where_the_steps_do(rng, x, complete):
    x = spiked_rows(rng, N, D, Q, noise=0.5) if complete else x
    rows = open_source(x) if complete else prepared(x)
    found, state = fit(x, tol=1e-10), settled(rows, Q)
    bound = rows.fold(partial(expect_believed, state)).log_likelihood - divergence(state)
    assert_allclose(found.lower_bound, bound, atol=1e-6)
    assert_allclose(found.belief.centre.loadings, state.principal().centre.loadings, atol=1e-4)
    assert_allclose(found.belief.covariance, state.principal().covariance, atol=1e-6)
    assert_allclose(found.belief.centre.noise_variance, state.centre.noise_variance, rtol=1e-5)
    assert_allclose(dense_covariance(found.model), dense_covariance(found.belief.predictive()))
    told = rows.fold(partial(expect_believed, found.belief)).log_likelihood - divergence(found.belief)
    assert -1e-3 < told - bound < 1e-6  # axes for people are not quite those that are best


def test_too_few_steps_are_told():
    x = spiked_rows(np.random.default_rng(0), N, D, Q)
    short = fit(x, 5, tol=0, max_iter=2)
    assert short.status is Status.BOUND_MAX_ITER
    assert short.n_iter == 2


# Every road to the same belief


def assert_same_belief(found, wanted, tol=1e-4):
    assert found.belief.n_components == wanted.belief.n_components
    assert_allclose(found.lower_bound, wanted.lower_bound, atol=tol)
    assert_allclose(found.belief.centre.mean, wanted.belief.centre.mean, atol=10 * tol)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=100 * tol)
    assert_allclose(found.belief.centre.noise_variance, wanted.belief.centre.noise_variance, rtol=10 * tol)
    assert_allclose(covariances(found.belief)[:, -1, -1], covariances(wanted.belief)[:, -1, -1], rtol=100 * tol)


def test_complete_rows_are_summed_as_rows_in_which_nothing_is_missing(rng):
    belief, block = random_belief(rng, shared=True), Block(spiked_rows(rng, 40, 5, 2), rng.uniform(0, 3, 40))
    observed = observe(block, np.full(5, 0.3))
    assert_same_sums(expect_believed(belief, observed), expect_believed(belief, block))


def test_complete_rows_boiled_down_say_what_all_rows_say(rng):
    belief, rows = random_belief(rng, shared=True), open_source(spiked_rows(rng, 40, 5, 2) + 1e3)
    few = condensed(Description(rows, rows.fold(Root.of), complete=True)).source
    assert few.n_rows < 12
    belief = replace(belief, centre=replace(belief.centre, mean=belief.centre.mean + 1e3))
    assert_same_sums(few.fold(partial(expect_believed, belief)), rows.fold(partial(expect_believed, belief)))


@pytest.mark.parametrize("noise", [0.5, 1e-6])
def test_complete_rows_may_come_as_rows_in_which_nothing_is_missing(rng, noise):
    x = spiked_rows(rng, N, D, Q, noise=noise)
    em, rows, wanted = VariationalEM(1e-300), prepared(x), fit(x, tol=1e-10)
    state = wanted.belief
    for _ in range(3):
        state, bound = em.step(state, rows)
    assert_allclose(bound, wanted.lower_bound, rtol=1e-8)
    assert_allclose(dense_covariance(state.predictive()), dense_covariance(wanted.model), atol=1e-5)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_cells_that_a_sparse_table_does_not_store_are_missing_if_so_declared(rng, share):
    x = spiked_rows_with_holes(rng, 150, 12, 1, share=share)
    assert_same_belief(fit(thin(x), unstored_missing=True), fit(x))


def test_zeros_that_a_sparse_table_does_not_store_are_zeros(rng):
    x = spiked_rows(rng, N, D, Q) * (rng.random((N, D)) < 0.5)
    for rows in (x, x[:12]):
        assert_same_belief(fit(sparse.csr_array(rows)), fit(rows))


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize("complete", [False, True])
def test_blocks_and_threads_do_not_change_the_answer(x, monkeypatch, jobs, complete):
    x = np.nan_to_num(x)[:16] if complete else x
    wanted = fit(x, n_jobs=1)
    monkeypatch.setattr(memory, "PIECE_BYTES", 8)
    monkeypatch.setattr(memory, "FEW_ROWS", 1)
    assert len(open_source(x, n_jobs=jobs).engine.parts) == 2 * jobs
    assert_same_belief(fit(x, n_jobs=jobs), wanted)


@pytest.mark.parametrize("complete", [False, True])
def test_a_row_twice_is_a_row_of_weight_two(x, complete):
    x = np.nan_to_num(x) if complete else x
    w = np.arange(N) % 3
    assert_same_belief(fit(x, weight=w), fit(np.repeat(x, w, axis=0)))


def test_a_cell_of_weight_zero_is_missing(rng):
    x = spiked_rows(rng, N, D, Q)
    gone = rng.random(x.shape) < 0.3
    assert_same_belief(fit(x, cell_weight=1.0 * ~gone), fit(np.where(gone, NAN, x)))


def test_cell_weights_are_relative_to_the_noise(x):
    plain, doubled = fit(x), fit(x, cell_weight=np.full(x.shape, 2.0))
    assert_allclose(doubled.belief.centre.noise_variance, 2 * plain.belief.centre.noise_variance, rtol=1e-4)
    assert_allclose(doubled.lower_bound, plain.lower_bound, atol=1e-5)


# Fails: weights that average to 1 in every column are taken for no weights at all.
def test_cell_weights_count_even_if_they_average_to_one_in_every_column(rng):
    x = spiked_rows(rng, N, D, Q)
    omega = np.where(np.arange(N) % 2 == 0, 0.5, 1.5)[:, None] * np.ones(D)
    wanted = fit(x, cell_weight=3 * omega)
    found = fit(x, cell_weight=omega)
    assert_allclose(found.lower_bound, wanted.lower_bound, atol=1e-4)
    assert_allclose(found.belief.centre.noise_variance, wanted.belief.centre.noise_variance / 3, rtol=1e-4)


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("place", ["file", "batches", "iterator"])
def test_rows_that_are_elsewhere_are_believed_the_same(x, tmp_path, place, complete):
    x = np.nan_to_num(x) if complete else x
    np.save(tmp_path / "rows.npy", x)
    rows = {"file": tmp_path / "rows.npy", "batches": np.array_split(x, 4), "iterator": iter(np.array_split(x, 4))}
    assert_same_belief(fit(rows[place], tol=1e-8), fit(x))


def test_single_precision_is_enough_for_the_same_belief(x):
    assert_same_belief(fit(x.astype(np.float32)), fit(x), 1e-3)


# What must not matter


@pytest.mark.parametrize("complete", [False, True])
def test_order_of_rows_and_columns_does_not_matter(rng, x, complete):
    x = np.nan_to_num(x) if complete else x
    rows, columns = rng.permutation(N), rng.permutation(D)
    wanted = fit(x)
    assert_same_belief(fit(x[rows]), wanted)
    found = fit(x[:, columns])
    assert_allclose(found.lower_bound, wanted.lower_bound, atol=1e-5)
    assert_allclose(found.belief.centre.mean, wanted.belief.centre.mean[columns], atol=1e-3)
    assert_allclose(covariances(found.belief)[:, -1, -1], covariances(wanted.belief)[columns, -1, -1], rtol=1e-3)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model)[np.ix_(columns, columns)], atol=1e-3)


@pytest.mark.parametrize("unit", [1e-4, 30.0])
@pytest.mark.parametrize("complete", [False, True])
def test_a_change_of_units_is_followed(x, unit, complete):
    x = np.nan_to_num(x) if complete else x
    plain, scaled = fit(x), fit(unit * x)
    cells = np.count_nonzero(~np.isnan(x))
    # One for each mean: its prior density is 1 in any units.
    assert_allclose(scaled.lower_bound, plain.lower_bound - (cells - D) * np.log(unit), atol=1e-5)
    assert_allclose(scaled.belief.centre.loadings / unit, plain.belief.centre.loadings, atol=1e-3)
    assert_allclose(scaled.belief.centre.mean / unit, plain.belief.centre.mean, atol=1e-4)
    assert_allclose(scaled.belief.covariance / unit**2, plain.belief.covariance, atol=1e-5)
    assert_allclose(scaled.belief.precision * unit**2, plain.belief.precision, rtol=1e-4)
    assert_allclose(scaled.model.noise_variance / unit**2, plain.model.noise_variance, rtol=1e-4)


@pytest.mark.parametrize("complete", [False, True])
def test_a_shift_moves_the_mean_and_nothing_else(rng, x, complete):
    x, shift = np.nan_to_num(x) if complete else x, 1e4 * rng.standard_normal(D)
    plain, moved = fit(x), fit(x + shift)
    assert_allclose(moved.lower_bound, plain.lower_bound, atol=1e-4)
    assert_allclose(moved.belief.centre.mean - shift, plain.belief.centre.mean, atol=1e-4)
    assert_allclose(dense_covariance(moved.model), dense_covariance(plain.model), atol=1e-3)


def test_a_rotation_of_the_features_of_complete_rows_turns_the_belief(rng):
    x, rotation = spiked_rows(rng, N, D, Q), random_rotation(rng, D)
    plain, turned = fit(x), fit(x @ rotation)
    assert_allclose(turned.lower_bound, plain.lower_bound, atol=1e-5)
    assert_allclose(turned.belief.centre.mean, plain.belief.centre.mean @ rotation, atol=1e-5)
    wanted = rotation.T @ dense_covariance(plain.model) @ rotation
    assert_allclose(dense_covariance(turned.model), wanted, atol=1e-4)
    assert_allclose(turned.belief.precision, plain.belief.precision, rtol=1e-4)


@pytest.mark.parametrize("complete", [False, True])
def test_standardizing_is_fitting_scaled_columns_and_telling_it_in_units_of_the_data(x, complete):
    x = (np.nan_to_num(x) if complete else x) * np.geomspace(1e-2, 1e2, D)
    std, cells = np.nanstd(x, axis=0), (~np.isnan(x)).sum(axis=0)
    found, scaled = fit(x, start=STANDARDIZED), fit(x / std)
    assert_allclose(found.lower_bound, scaled.lower_bound - (cells - 1) @ np.log(std), atol=1e-5)
    assert_allclose(np.diff(found.trace), np.diff(scaled.trace), atol=1e-5)
    assert_allclose(found.belief.centre.mean / std, scaled.belief.centre.mean, atol=1e-4)
    assert_allclose(found.model.covariance.dense() / np.outer(std, std), dense_covariance(scaled.model), atol=1e-4)
    assert_allclose(found.belief.centre.noise_variance, scaled.belief.centre.noise_variance * std**2, rtol=1e-4)
    assert_allclose(found.belief.centre.loadings / std[:, None], scaled.belief.centre.loadings, atol=1e-4)
    assert_allclose(covariances(found.belief) / std[:, None, None] ** 2, covariances(scaled.belief), atol=1e-5)
    assert_allclose(found.scale, std, rtol=1e-12)


@pytest.mark.parametrize("complete", [False, True])
def test_the_belief_about_scaled_columns_is_kept(x, complete):
    x = (np.nan_to_num(x) if complete else x) * np.geomspace(1e-2, 1e2, D)
    found, scaled = fit(x, start=STANDARDIZED), fit(x / np.nanstd(x, axis=0))
    belief, wanted = found.scaled_belief, scaled.belief
    assert belief.centre.noise_variance.shape == ()
    for part in ("mean", "loadings", "noise_variance"):
        assert_allclose(getattr(belief.centre, part), getattr(wanted.centre, part), rtol=1e-9, atol=1e-9)
    assert_allclose(covariances(belief), covariances(wanted), rtol=1e-9, atol=1e-9)
    assert_allclose(belief.precision, wanted.precision, rtol=1e-9)
    assert_allclose(dense_covariance(found.scaled_model), dense_covariance(scaled.model), atol=1e-9)
    assert scaled.scale is None
    assert scaled.scaled_belief is scaled.belief
    assert scaled.scaled_model is scaled.model


def test_units_of_columns_do_not_matter_to_standardized_columns(x):
    scale = np.geomspace(1e-3, 1e3, D)
    plain, scaled = (fit(rows, start=STANDARDIZED) for rows in (x, x * scale))
    assert_allclose(scaled.model.covariance.dense() / np.outer(scale, scale), dense_covariance(plain.model), atol=1e-6)
    assert_allclose(scaled.belief.covariance[-1] / scale**2, plain.belief.covariance[-1], rtol=1e-6)


# How many components there are


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("asked", [3, 5, 7, None])
def test_as_many_components_are_left_as_there_are(rng, complete, asked):
    x = spiked_rows(rng, 150, D, Q)
    x = x if complete else punched(rng, x, 0.2)
    found, wanted = fit(x, asked), fit(x, Q)
    assert found.belief.n_components == Q
    assert found.rule == f"{Q} of {asked or D - 1} initial components kept"
    assert wanted.rule == f"all {Q} initial components kept"
    assert_same_belief(found, wanted)


def uneven_rows(rng, n=150, d=20, q=12):
    """Rows with many components, and noise that differs between features."""
    noise = np.sqrt(rng.uniform(0.05, 1.0, d)) * rng.standard_normal((n, d))
    return rng.standard_normal((n, q)) @ rng.standard_normal((q, d)) + noise


def breast_cancer(_):
    return load_breast_cancer().data[:200, :20]


@pytest.mark.parametrize("table", [uneven_rows, breast_cancer])
@pytest.mark.parametrize("complete", [False, True])
def test_who_asks_for_all_components_predicts_hidden_cells_as_well_as_who_knows_how_many(rng, table, complete):
    x = StandardScaler().fit_transform(table(rng))
    hidden = rng.random(x.shape) < 0.2
    known = np.where(hidden, NAN, x)
    half = len(x) // 2
    rows = x[:half] if complete else known

    def error(q):
        return np.sqrt(np.square(impute(fit(rows, q, tol=1e-3).model, known) - x)[half:][hidden[half:]].mean())

    assert error(19) < 1.01 * min(error(q) for q in (3, 6, 9, 12, 15, 18))


def test_the_steps_of_the_start_are_shown_and_no_more_of_them_than_may_be(rng, x):
    def shown(rows, max_iter):
        seen = []
        fit_variational(open_source(rows), Q, Settings(tol=0, max_iter=max_iter, watch=seen.append))
        return [progress.iteration for progress in seen]

    assert shown(x, 2) == [0, 0, 1, 2]  # the noise settled
    assert shown(spiked_rows_with_holes(rng, N, D, Q, noise=1e-8), 2) == [0, 1, 0, 1, 2]  # it still falls


@pytest.mark.parametrize(
    ("n", "d", "share", "first"), [(9, 30, 0, 7), (9, 30, 0.1, 7), (60, 25, 0.1, 20), (60, 55, 0, 50)]
)
def test_if_nobody_says_how_many_there_are_the_fit_begins_with_many(rng, n, d, share, first):
    x = punched(rng, spiked_rows(rng, n, d, 1, largest=1.0), share)
    assert fit(x, None, tol=1e-2).rule == f"1 of {first} initial components kept"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("start", [fit_variational, STANDARDIZED])
def test_where_there_is_nothing_but_noise_no_component_is_relevant(seed, share, start):
    rng = np.random.default_rng(seed)
    x = punched(rng, 2 * rng.standard_normal((100, 6)) + 3, share)
    found = fit(x, 4, start=start)
    assert found.rule == "the data support none of 4 components; one is kept"
    assert found.status is Status.BOUND_CONVERGED
    assert found.n_iter < 200
    assert found.belief.n_components == 1
    assert_array_equal(found.belief.centre.loadings, 0)
    assert_allclose(found.model.principal_axes[0].T @ found.model.principal_axes[0], [[1.0]])
    assert_allclose(found.belief.centre.mean, np.nanmean(x, axis=0), rtol=1e-6)
    if start is fit_variational:
        spread = np.nansum(np.square(x - np.nanmean(x, axis=0))) / (np.count_nonzero(~np.isnan(x)) - 6)
        assert_allclose(found.belief.centre.noise_variance, spread, rtol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_without_components_the_bound_is_that_of_independent_cells(share):
    rng = np.random.default_rng(0)
    x = punched(rng, rng.standard_normal((100, 6)), share)
    found, counts = fit(x, 4), (~np.isnan(x)).sum(axis=0)
    # Given the noise, the mean of a column is integrated over with a flat prior: exact.
    noise = float(found.belief.centre.noise_variance)
    squares = np.nansum(np.square(x - np.nanmean(x, axis=0)), axis=0)
    exact = -0.5 * ((counts - 1) * np.log(2 * np.pi * noise) + np.log(counts) + squares / noise).sum()
    assert_allclose(found.lower_bound, exact, atol=1e-6)


def test_components_that_are_nothing_but_doubt_are_forgotten(rng):
    belief = random_belief(rng, 5, 3, size=1e-3)
    loadings = belief.centre.loadings * [1.0, 1e-4, 1.0]
    left = without_dead(replace(belief, centre=replace(belief.centre, loadings=loadings)))
    assert_array_equal(left.centre.loadings, loadings[:, [0, 2]])
    assert_array_equal(covariances(left), covariances(belief)[:, [0, 2, 3]][:, :, [0, 2, 3]])
    assert_array_equal(left.precision, belief.precision[[0, 2]])
    assert without_dead(belief) is belief
    none = without_dead(replace(belief, centre=replace(belief.centre, loadings=1e-4 * loadings)))
    assert none.n_components == 1
    assert_array_equal(none.centre.loadings, 0)
    assert_array_equal(none.covariance[-1], belief.covariance[-1])


def test_a_component_that_is_barely_alive_is_kept(rng):
    belief = random_belief(rng, 5, 2)
    norms = np.linalg.norm(belief.centre.loadings, axis=0)
    for share, left in ((0.02, 2), (0.005, 1)):  # of the energy of the second
        size = np.sqrt(share / (1 - share) * belief.loading_variance[1]) / norms[1]
        centre = replace(belief.centre, loadings=belief.centre.loadings * [1.0, size])
        assert without_dead(replace(belief, centre=centre)).n_components == left


# Certainty


@pytest.mark.parametrize("complete", [False, True])
def test_with_many_rows_belief_becomes_maximum_likelihood_as_one_over_their_number(rng, x, complete):
    x = spiked_rows(rng, N, D, Q, noise=0.5) if complete else x
    ml = fit_ppca(open_source(x), Q, Settings(tol=1e-12, max_iter=20_000), np.random.default_rng(0)).model
    differences, counts = [], np.array([100.0, 1000.0, 10_000.0])
    for count in counts:
        centre = fit(x, weight=np.full(N, count), tol=1e-10).belief.centre
        between = centre.loadings @ centre.loadings.T - ml.loadings @ ml.loadings.T
        differences.append([np.abs(between).max(), abs(float(centre.noise_variance - ml.noise_variance))])
    scaled = counts[:, None] * np.array(differences)
    assert (scaled[0] > 0.01).all()
    assert_allclose(scaled[1:], scaled[:-1] * [1, 1], rtol=0.1)
    if complete:
        assert_allclose(dense_covariance(ml), dense_covariance(closed_form_oracle(x, Q).model), atol=1e-8)


def test_doubt_about_parameters_shrinks_as_one_over_the_number_of_rows(x):
    few, many = (fit(x, weight=np.full(N, count)).belief for count in (10.0, 1000.0))
    assert_allclose(few.variances / many.variances, 100, rtol=0.1)


# What a new row looks like


@pytest.mark.parametrize("shared", [False, True])
def test_a_new_row_has_the_variance_of_the_model_and_that_of_its_parameters(rng, shared):
    belief = random_belief(rng, 4, 2, shared=shared)
    extra = [np.trace(one) for one in covariances(belief)]  # E[t t'] = I
    wanted = belief.centre.loadings @ belief.centre.loadings.T + np.diag(belief.centre.noise_variance + extra)
    assert_allclose(dense_covariance(belief.predictive()), wanted, rtol=1e-12)
    assert_array_equal(belief.predictive().mean, belief.centre.mean)


@pytest.mark.parametrize("shared", [False, True])
def test_parameters_are_drawn_from_the_belief(rng, shared):
    belief = random_belief(rng, 3, 2, shared=shared)
    drawn = [sample_parameters(belief, rng=rng) for _ in range(1500)]
    theta = np.stack([np.column_stack([one.loadings, one.mean]) for one in drawn]).reshape(1500, -1)
    covariance = np.zeros((9, 9))
    for j, one in enumerate(covariances(belief)):
        covariance[3 * j : 3 * j + 3, 3 * j : 3 * j + 3] = one
    assert_moments_match(theta, parameters(belief).ravel(), covariance)
    assert all(one.noise_variance == belief.centre.noise_variance for one in drawn)


def test_rows_of_drawn_parameters_have_the_moments_of_the_predictive(rng):
    belief, n = random_belief(rng, 3, 2), 2000
    rows = np.concatenate([sample(sample_parameters(belief, rng=rng), 1, rng=rng) for _ in range(n)])
    predictive = belief.predictive()
    centred = rows - predictive.mean
    assert_within_errors(centred.mean(axis=0), 0, centred.std(axis=0) / np.sqrt(n))
    products = np.einsum("ni,nj->nij", centred, centred)
    assert_within_errors(products.mean(axis=0), dense_covariance(predictive), products.std(axis=0) / np.sqrt(n))


def test_parameters_of_a_feature_that_was_never_seen_are_not_drawn(rng):
    belief = random_belief(rng)
    unseen = replace(belief, covariance=belief.covariance * (np.arange(5) != 2))
    drawn = sample_parameters(unseen, rng=rng)
    assert_array_equal(drawn.loadings[2], belief.centre.loadings[2])
    assert drawn.mean[2] == belief.centre.mean[2]
    assert (drawn.mean != belief.centre.mean).sum() == 4


# Edges


@pytest.mark.parametrize("start", [fit_variational, STANDARDIZED])
@pytest.mark.parametrize("where", [0, 3, D])
def test_an_empty_column_is_named_and_changes_nothing_else(x, start, where):
    found, wanted = fit(np.insert(x, where, NAN, axis=1), start=start), fit(x, start=start)
    assert_array_equal(found.empty, [where])
    assert wanted.empty.size == 0
    assert_array_equal(found.belief.centre.loadings[where], 0)
    assert found.belief.centre.mean[where] == 0
    assert_array_equal(found.belief.covariance[:, where], 0)
    assert found.belief.n_known == D
    assert_allclose(found.lower_bound, wanted.lower_bound, atol=1e-5)
    assert_allclose(np.delete(found.belief.centre.mean, where), wanted.belief.centre.mean, atol=1e-4)
    assert_allclose(np.delete(found.belief.covariance, where, axis=1), wanted.belief.covariance, atol=1e-5)
    assert_allclose(found.belief.precision, wanted.belief.precision, rtol=1e-4)


@pytest.mark.parametrize("where", [0, 17, N])
def test_an_empty_row_changes_nothing(x, where):
    found, wanted = fit(np.insert(x, where, NAN, axis=0)), fit(x)
    assert_same_belief(found, wanted, 1e-6)
    assert (found.weight, found.cells) == (wanted.weight, wanted.cells)


# Fails: the rows that have cells are complete, so the others are taken for complete too.
@pytest.mark.parametrize("n", [12, N])
def test_an_empty_row_among_complete_ones_changes_nothing(rng, n):
    x = spiked_rows(rng, n, D, Q)
    found, wanted = fit(np.insert(x, 3, NAN, axis=0)), fit(x)
    assert_same_belief(found, wanted, 1e-5)
    assert (found.weight, found.cells) == (wanted.weight, wanted.cells)


@pytest.mark.parametrize("start", [fit_variational, STANDARDIZED])
@pytest.mark.parametrize("complete", [False, True])
def test_a_constant_column_stays_where_it_is(rng, start, complete):
    x = spiked_rows(rng, N, D, Q)
    x[:, 3] = 5.0
    x = x if complete else punched(rng, x, 0.2)
    found = fit(x, 4, start=start, tol=1e-5)
    assert_allclose(found.belief.centre.mean[3], 5.0, atol=0.05)
    assert np.abs(found.belief.centre.loadings[3]).max() < 0.1
    assert_never_falls(found.trace[:-1])  # before the rotation to the principal axes of the mean loadings


@pytest.mark.parametrize(("n", "d", "q"), [(3, 10, 2), (3, 3, 2), (2, 5, None), (4, 12, 3), (12, 5, 4), (9, 30, None)])
@pytest.mark.parametrize("complete", [False, True])
def test_few_rows_and_as_many_components_as_there_may_be_are_believed(rng, n, d, q, complete):
    x = spiked_rows(rng, n, d, 1)
    if not complete:
        x[0, 0] = NAN
    found = fit(x, q, tol=1e-3)
    assert found.status is Status.BOUND_CONVERGED
    assert_never_falls(found.trace)
    assert 1 <= found.belief.n_components <= (q or d - 1)
    assert (found.belief.variances > 0).all()
    assert np.isfinite(found.lower_bound)


# Fails: components that rows cannot have get an infinite precision to begin with.
@pytest.mark.parametrize(("n", "d", "q"), [(3, 10, 3), (3, 10, 9), (2, 5, 4), (10, 50, 49)])
def test_more_components_than_complete_rows_are_believed(rng, n, d, q):
    found = fit(spiked_rows(rng, n, d, 1), q, tol=1e-3)
    assert found.belief.n_components < n
    assert np.isfinite(found.lower_bound)


# Fails in the same way.
def test_more_components_than_rows_have_directions_are_believed(rng):
    x = rng.standard_normal((N, Q)) @ rng.standard_normal((Q, D))
    assert fit(x, 4, tol=1e-3).belief.n_components == Q


def test_a_column_that_depends_on_others_does_not_keep_every_component_alive(rng):
    x = spiked_rows(rng, 200, D, Q, noise=0.1)
    found = fit(np.column_stack([x, x.sum(axis=1)]), None, tol=1e-3)
    assert found.belief.n_components < D
    assert found.status.converged
    assert float(found.belief.centre.noise_variance) > 1e-3


def test_weights_that_do_not_count_rows_are_refused(rng):
    x = spiked_rows(rng, N, D, Q)
    with pytest.raises(DataError, match=r"must sum to at least 2.*; got 1"):
        fit(x, Q, weight=np.full(N, 1 / N))


@pytest.mark.parametrize("complete", [False, True])
def test_tiny_noise_is_found(rng, complete):
    x = spiked_rows(rng, 150, D, Q, noise=1e-10)
    found = fit(x if complete else punched(rng, x, 0.2), 4)
    assert found.belief.n_components == Q
    assert_allclose(found.belief.centre.noise_variance, 1e-10, rtol=0.2)
    assert_never_falls(found.trace)


def test_rows_without_noise_are_told_to_be_so(rng):
    x = rng.standard_normal((N, Q)) @ rng.standard_normal((Q, D))
    for rows in (x, punched(rng, x, 0.2)):
        assert fit(rows, Q, tol=1e-3).status is Status.NOISE_COLLAPSED


@pytest.mark.parametrize("complete", [False, True])
def test_a_huge_offset_does_no_harm(rng, complete):
    x = spiked_rows(rng, N, D, Q)
    x = x if complete else punched(rng, x, 0.3)
    plain, far = fit(x, 4), fit(x + 1e7, 4)
    assert_allclose(far.lower_bound, plain.lower_bound, atol=1e-3)
    assert_allclose(far.belief.centre.noise_variance, plain.belief.centre.noise_variance, rtol=1e-4)


@pytest.mark.parametrize("q", [D, D + 3, 0])
def test_as_many_components_as_features_are_refused(x, q):
    with pytest.raises(ShapeError, match=f"between 1 and n_features - 1 = {D - 1}"):
        fit(x, q)


@pytest.mark.parametrize("value", [np.inf, 1e200])
@pytest.mark.parametrize("complete", [False, True])
def test_values_that_are_none_are_refused(x, value, complete):
    x = np.nan_to_num(x) if complete else x
    x[2, 1] = value
    with pytest.raises(DataError, match=r"infinity|too large"):
        fit(x)


def test_latent_variables_without_digits_are_a_named_error(rng):
    belief = fit(spiked_rows(rng, 40, 6, 2), 2).belief
    broken = Gaussian(np.zeros(2), np.diag([1.0, -1e-3]))  # rounding errors of a huge ratio of variances
    with pytest.raises(DataError, match=r"cannot be told apart(?s:.*)Hint: use fewer components"):
        best_basis(belief, broken)
