"""One piece of rows at a time: sums that are moved rather than made anew, a free energy that never falls."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import (
    closed_form_oracle,
    dense_covariance,
    dense_observed_log_likelihood,
    dense_observed_posterior,
    dense_regression,
    largest_fall,
    punched,
    random_model,
    spiked_rows,
    spiked_rows_with_holes,
)
from probpca import PPCA, DataError, SourceError
from probpca.blocks import Block, observe
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.em import incremental
from probpca.learning.em.e_step import expect, expect_zero_noise
from probpca.learning.em.incremental import Incremental, _Walk
from probpca.learning.loop import Monitor
from probpca.linalg.packed import multiply
from probpca.models import LinearGaussian
from probpca.sources import Source, open_source
from probpca.sources.engines.cluster_errors import refuse
from probpca.sources.engines.local import LocalEngine, one_blas_thread

N, D, Q, BATCHES = 120, 7, 2, 6
FLOOR = 1e-300
DATA = {
    "complete": lambda rng: spiked_rows(rng, N, D, Q, noise=0.5),
    "missing": lambda rng: spiked_rows_with_holes(rng, N, D, Q, noise=0.5),
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """These matrices are small: threads would only wait for each other."""
    with one_blas_thread():
        yield


@pytest.fixture(params=DATA, ids=DATA)
def x(request, rng):
    return DATA[request.param](rng)


PIECES = {}  # settings of incremental EM


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setitem(PIECES, "incremental_rows", N // BATCHES)


def fit(x, q=Q, solver="incremental", *, tol=1e-8, max_iter=5000, **options):
    return fit_ppca(open_source(x, **options), q, Settings(solver, tol, max_iter, **PIECES), np.random.default_rng(0))


def in_pieces(x):
    """A source of several blocks, prepared as a solver wants them, each of them one piece."""
    rows, prepare = (
        open_source(np.array_split(x, BATCHES)),
        partial(observe, centre=np.nanmean(x, axis=0), form="masked"),
    )
    return rows.keep(prepare) if np.isnan(x).any() else rows


def summed(model, x):
    """The sums of an E-step: one gram for all features if rows are complete, else one for each."""
    rows = observe(Block(x), np.nanmean(x, axis=0)) if np.isnan(x).any() else Block(x)
    return expect(model, rows)


def dense_sums(x, belief, theta, basis):
    """Sums at parameters ``theta`` (q + 1, d) of latents t' = B' t, t distributed as ``belief`` says: row by row."""
    k, d = theta.shape
    latent, gram, score, squares = np.zeros((k, k)), np.zeros((d, k, k)), np.zeros((k, d)), np.zeros(d)
    for row, mean, covariance in zip(x, belief.mean, belief.covariance, strict=True):
        second = np.outer(np.append(mean, 1.0), np.append(mean, 1.0))
        second[:-1, :-1] += covariance
        second = basis.T @ second @ basis
        first = basis.T @ np.append(mean, 1.0)
        latent += second
        for j in np.flatnonzero(~np.isnan(row)):
            gram[j] += second
            score[:, j] += row[j] * first - second @ theta[:, j]
            squares[j] += row[j] ** 2 - 2 * row[j] * first @ theta[:, j] + theta[:, j] @ second @ theta[:, j]
    i, j = np.tril_indices(k)
    return {"latent": latent[i, j], "gram": gram[:, i, j].T, "score": score, "squares": squares}


def assert_same_sums(found, wanted):
    for name, value in wanted.items():
        ours = np.broadcast_to(getattr(found, name), np.shape(value))
        assert_allclose(ours, value, rtol=1e-9, atol=1e-9 * np.abs(value).max(), err_msg=name)


def theta_of(model):
    return np.vstack([model.loadings.T, model.mean])


def affine(rng, q=Q):
    """A change of latents that leaves the 1 of t alone."""
    basis = np.eye(q + 1)
    basis[:, :q] += 0.5 * rng.standard_normal((q + 1, q))
    return basis


# Sums that are moved


def test_moved_sums_are_those_of_the_same_latents_at_other_parameters(x, rng):
    before, after = (random_model(rng, D, Q) for _ in range(2))
    found = summed(before, x).moved(theta_of(after) - theta_of(before))
    belief = dense_observed_posterior(before, x)
    assert_same_sums(found, dense_sums(x, belief, theta_of(after), np.eye(Q + 1)))


def test_turned_sums_are_those_of_latents_along_other_axes(x, rng):
    model, basis = random_model(rng, D, Q), affine(rng)
    found = summed(model, x).turned(basis)
    turned = np.linalg.solve(basis, theta_of(model))  # so that theta' t is the same
    belief = dense_observed_posterior(model, x)
    assert_same_sums(found, dense_sums(x, belief, turned, basis))
    assert_array_equal(found.squares, summed(model, x).squares)


def test_turned_and_moved_sums_are_those_of_a_row_by_row_sum(x, rng):
    before, after, basis = random_model(rng, D, Q), random_model(rng, D, Q), affine(rng)
    found = summed(before, x).turned(basis).moved(theta_of(after) - np.linalg.solve(basis, theta_of(before)))
    belief = dense_observed_posterior(before, x)
    assert_same_sums(found, dense_sums(x, belief, theta_of(after), basis))


def test_there_and_back_again_nothing_has_changed(x, rng):
    model, basis, step = random_model(rng, D, Q), affine(rng), rng.standard_normal((Q + 1, D))
    sums = summed(model, x)
    back = sums.moved(step).moved(-step).turned(basis).turned(np.linalg.inv(basis))
    wanted = {name: getattr(sums, name) for name in ("latent", "gram", "score", "squares")}
    assert_same_sums(back, wanted)


def test_sums_moved_to_their_minimum_have_no_slope(x, rng):
    sums = summed(random_model(rng, D, Q), x)
    change = sums.change()
    found = sums.moved(change)
    assert_allclose(found.score, 0.0, atol=1e-9 * np.abs(sums.score).max())
    assert_allclose(multiply(sums.gram, change), sums.score, atol=1e-9 * np.abs(sums.score).max())
    assert_allclose(found.squares, sums.squares_after(change))


def test_sums_scaled_are_those_of_rows_that_count_so_often(x, rng):
    model = random_model(rng, D, Q)
    found, wanted = summed(model, x).scaled(3.0), dense_regression(model, x, weight=np.full(N, 3.0))
    assert_same_sums(found, wanted)


def test_sums_taken_away_leave_those_of_the_other_rows(x, rng):
    model = random_model(rng, D, Q)
    found = summed(model, x).merge(summed(model, x[:50]).scaled(-1.0))
    wanted = dense_regression(model, x[50:])
    for name, value in wanted.items():
        ours = np.broadcast_to(getattr(found, name), np.shape(value))
        assert_allclose(ours, value, rtol=1e-9, atol=1e-8, err_msg=name)


# The free energy


def dense_free_energy(model, x, belief):
    """Sum of E[log p(x, z)] and of the entropy of z, row by row."""
    noise, value = float(model.noise_variance), 0.0
    for row, mean, covariance in zip(x, belief.mean, belief.covariance, strict=True):
        seen = ~np.isnan(row)
        W, rest = model.loadings[seen], row[seen] - model.mean[seen] - model.loadings[seen] @ mean
        squares = rest @ rest + np.trace(W @ covariance @ W.T)
        value -= 0.5 * (seen.sum() * np.log(2 * np.pi * noise) + squares / noise)
        value -= 0.5 * (mean @ mean + np.trace(covariance))  # of the prior; q log 2 pi goes with the entropy's
        value += 0.5 * (np.linalg.slogdet(covariance)[1] + mean.size)
    return value


def turned_belief(belief, basis):
    """The same latents seen along other axes, B' [z; 1] = [z'; 1]."""
    turn, shift = basis[:-1, :-1], basis[-1, :-1]
    covariance = np.array([turn.T @ P @ turn for P in belief.covariance])
    return SimpleNamespace(mean=belief.mean @ turn + shift, covariance=covariance)


class Recorded:
    """An E-step that remembers the models at which it was taken."""

    def __init__(self):
        self.models = []

    def __call__(self, model, piece):
        self.models.append(model)
        return expect(model, piece)


def started(x, seed=1):
    return LinearGaussian(np.nanmean(x, axis=0), np.random.default_rng(seed).standard_normal((D, Q)), 1.0)


@pytest.mark.parametrize("passes", [1, 2, 5])
def test_the_objective_is_the_free_energy_of_latents_as_each_piece_left_them(x, passes, small_pieces):  # noqa: ARG001
    recorded = Recorded()
    walk = _Walk(Incremental(recorded, FLOOR, piece_rows=N // BATCHES), started(x))
    for _ in range(passes):
        walk.over(in_pieces(x))
    value, pieces = 0.0, np.array_split(x, BATCHES)
    last = recorded.models[-BATCHES:]
    for piece, model, known in zip(pieces, last, walk.known, strict=True):
        basis = np.linalg.solve(known.axes, walk.axes)
        belief = turned_belief(dense_observed_posterior(model, piece), basis)
        value += dense_free_energy(walk.model, piece, belief)
    assert_allclose(walk.objective(), value, rtol=1e-10)
    assert walk.objective() <= dense_observed_log_likelihood(walk.model, x).sum() + 1e-9


def walked(x, passes):
    """The objective after each half of each step, from the second pass on."""
    walk, rows, values = _Walk(Incremental(expect, FLOOR, piece_rows=N // BATCHES), started(x)), in_pieces(x), []
    walk.over(rows)
    for _ in range(passes):
        for number, piece in enumerate(incremental._pieces(rows, N // BATCHES)):
            sums = expect(walk.model, piece)
            walk._leave(walk.known[number])
            walk.known[number] = walk._enter(sums)
            values.append(walk.objective())
            walk._step()
            values.append(walk.objective())
    return values


def test_sums_exchanged_piece_by_piece_are_those_summed_afresh(x, small_pieces):  # noqa: ARG001
    walk, rows = _Walk(Incremental(expect, FLOOR, piece_rows=N // BATCHES), started(x)), in_pieces(x)
    walk.over(rows)
    for number, piece in enumerate(incremental._pieces(rows, N // BATCHES)):
        sums = expect(walk.model, piece)
        walk._leave(walk.known[number])
        walk.known[number] = walk._enter(sums)
        walk._step()
    exchanged, value = walk.total, walk.objective()
    walk._sum_afresh()
    assert_allclose(value, walk.objective(), rtol=1e-11)
    assert_same_sums(exchanged, {name: getattr(walk.total, name) for name in ("latent", "gram", "squares")})


def test_neither_kind_of_step_lowers_the_free_energy(x, small_pieces):  # noqa: ARG001
    values = walked(x, 4)
    assert len(values) == 4 * BATCHES * 2
    assert largest_fall(values) <= 1e-9
    assert values[-1] > values[0]


@pytest.mark.parametrize("shape", [(120, 7, 2), (60, 5, 3), (300, 12, 1)])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_trace_never_falls(rng, shape, share, monkeypatch):
    monkeypatch.setitem(PIECES, "incremental_rows", 16)
    n, d, q = shape
    x = punched(rng, spiked_rows(rng, n, d, q, noise=0.7), share)
    found = fit(np.array_split(x, 8), q, tol=1e-7)
    assert len(found.trace) > 3
    assert largest_fall(found.trace) <= 1e-9


def keep_the_old_sums(self, known):
    """Forget to take away what a piece said before."""


def leave_at_old_parameters(self, known):
    """Take away the sums of a piece as they were, and not as they are now."""
    self.total = self.total.merge(known.sums.scaled(-1.0))
    self.entropy -= known.entropy


def test_old_sums_that_stay_make_it_fall(x, small_pieces, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(_Walk, "_leave", keep_the_old_sums)
    assert largest_fall(walked(x, 4)) > 1e-9


def test_a_pass_that_takes_sums_away_as_they_were_ends_lower_than_it_began(rng, monkeypatch):
    monkeypatch.setattr(_Walk, "_leave", leave_at_old_parameters)
    x = spiked_rows_with_holes(rng, N, D, Q, noise=0.5)
    assert largest_fall(fit(np.array_split(x, BATCHES), tol=0.0, max_iter=3).trace) > 1e-9


# Where it ends


def test_complete_rows_end_at_the_closed_form(rng, small_pieces):  # noqa: ARG001
    x = spiked_rows(rng, N, D, Q, noise=0.5)
    found, wanted = fit(x), closed_form_oracle(x, Q)
    assert found.status is Status.CONVERGED
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-6)
    assert_allclose(found.model.mean, x.mean(axis=0), atol=1e-4)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=1e-3)


def test_rows_with_missing_cells_end_where_em_ends(rng):
    x = spiked_rows_with_holes(rng, N, D, Q, noise=0.5)
    found, wanted = fit(np.array_split(x, BATCHES)), fit(x, solver="px_em", tol=1e-10)
    assert found.status is Status.CONVERGED
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)
    assert_allclose(found.model.mean, wanted.model.mean, atol=1e-3)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=2e-3)


def test_at_the_end_the_free_energy_is_the_log_likelihood_of_the_model(x, small_pieces):  # noqa: ARG001
    found = fit(np.array_split(x, BATCHES))
    truth = dense_observed_log_likelihood(found.model, x).sum()
    assert_allclose(found.log_likelihood, truth, atol=1e-6)
    assert found.trace[-1] == found.log_likelihood


@pytest.mark.parametrize("pieces", [1, 3, 12])
def test_the_size_of_pieces_does_not_move_the_maximum(x, pieces, monkeypatch):
    monkeypatch.setitem(PIECES, "incremental_rows", N // pieces)
    found, wanted = fit(np.array_split(x, pieces)), fit(x, solver="px_em", tol=1e-10)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_rows_far_from_zero_are_no_harder(x, offset):
    found, wanted = fit(x + offset), fit(x, solver="px_em", tol=1e-10)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)


def test_a_row_twice_is_a_row_of_weight_two(x):
    w = 1.0 + (np.arange(N) % 3 == 0)
    found, wanted = fit(x, weight=w), fit(np.repeat(x, w.astype(int), axis=0))
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=5e-3)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_an_estimator_takes_fewer_passes_than_with_em(rng, share):
    x = punched(rng, spiked_rows(rng, 6000, 8, 2, noise=1.0), share)
    quick, slow = (PPCA(2, solver=solver, random_state=0).fit(x) for solver in ("incremental", "em"))
    assert_allclose(quick.log_likelihood_, slow.log_likelihood_, atol=5e-3)
    assert quick.n_iter_ < slow.n_iter_


def test_the_limit_of_passes_is_kept(x):
    found = fit(x, tol=0.0, max_iter=3)
    assert found.status is Status.MAX_ITER
    assert (found.n_iter, len(found.trace)) == (3, 4)


# Without noise


def reconstruction_error(model, x):
    """Squared distance of rows from the plane of the model."""
    basis = np.linalg.qr(model.loadings)[0]
    centred = x - model.mean
    return np.square(centred - centred @ basis @ basis.T).sum()


def test_without_noise_the_reconstruction_error_falls_every_pass(rng, small_pieces):  # noqa: ARG001
    x = spiked_rows(rng, N, D, Q, noise=0.5)
    method, errors = Incremental(expect_zero_noise, FLOOR, noise_free=True, piece_rows=N // BATCHES), []
    for passes in range(1, 9):
        ended = method.run(open_source(x), started(x), Monitor(0.0, passes))
        errors.append(reconstruction_error(ended.state, x))
    assert largest_fall(-np.array(errors)) <= 1e-9
    least = closed_form_oracle(x, Q).values[Q:].sum() * N
    assert errors[0] > least * (1 + 1e-6)
    assert_allclose(errors[-1], least, rtol=1e-6)


def test_without_noise_the_trace_never_falls(rng, small_pieces):  # noqa: ARG001
    found = fit(spiked_rows(rng, N, D, Q, noise=1.0), solver="incremental_zero_noise")
    assert len(found.trace) > 3
    assert largest_fall(found.trace) <= 1e-9


def test_without_noise_it_ends_at_the_principal_subspace(rng, small_pieces):  # noqa: ARG001
    x = spiked_rows(rng, N, D, Q, noise=0.5)
    found, wanted = fit(x, solver="incremental_zero_noise"), closed_form_oracle(x, Q)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=1e-3)
    assert_allclose(found.model.noise_variance, wanted.model.noise_variance, rtol=1e-6)


def test_without_noise_rows_must_be_complete(rng):
    with pytest.raises(DataError, match="needs complete rows"):
        fit(spiked_rows_with_holes(rng, N, D, Q), solver="incremental_zero_noise")


# Rows that live elsewhere


class Engine:
    """An engine that folds, and shows none of its rows."""

    def __init__(self, engine):
        self.engine = engine
        self.fold = engine.fold

    def keep(self, prepare):
        return Engine(LocalEngine([prepare(block) for block in self.engine.parts]))

    def answers(self, _):
        refuse("a cluster")


def test_rows_in_an_engine_are_refused_with_a_hint(x):
    source = open_source(x)
    source = Source(replace(source.info, in_memory=False), Engine(source.engine), glance=source.glance)
    with pytest.raises(SourceError, match=r"block by block in this process(?s:.*)Hint: use solver='auto'"):
        fit(source)
    assert fit(source, solver="px_em").status is Status.CONVERGED
