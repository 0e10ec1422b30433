"""Learning from the cells that were observed: the same maximum by every road, and nothing made of nothing."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from oracles import (
    assert_within_errors,
    closed_form_oracle,
    dense_covariance,
    dense_observed_log_likelihood,
    dense_observed_posterior,
    largest_fall,
    punched,
    random_model,
    spiked_rows,
    spiked_rows_with_holes,
)
from probpca import PPCA, DataError, ProbpcaError
from probpca.blocks import observe
from probpca.inference import explained_variance_ratio, sample
from probpca.inference.imputation import impute_with_uncertainty, noise_inflation
from probpca.learning import Settings, Status, fit_ppca, value_and_gradient
from probpca.learning.components import Components
from probpca.learning.describe import describe
from probpca.learning.em.e_step import expect
from probpca.learning.em.m_step import EM
from probpca.learning.missing.fit import Problem, fit_missing
from probpca.learning.missing.start import first_model
from probpca.learning.result import complete_information
from probpca.models import LinearGaussian
from probpca.sources import open_source, source as memory

STANDARDIZED = partial(fit_ppca, standardize=True)


def as_if_missing(source, n_components, settings, rng):
    """Fit by the solver of rows with missing cells, whether there are any or not."""
    return fit_missing(describe(source, rng), Components.parse(n_components, source.n_features), settings, rng)


N, D, Q = 60, 8, 2
SOLVERS = ["auto", "px_em", "em", "gradient"]
NAN = np.nan


def fit(x, q=Q, solver="auto", *, tol=1e-8, max_iter=5000, start=fit_ppca, **options):
    return start(open_source(x, **options), q, Settings(solver, tol, max_iter), np.random.default_rng(0))


def prepared(x, **options):
    return open_source(x, **options).keep(partial(observe, centre=np.nanmean(x, axis=0)))


def prepared_at(centre, x):
    rows = open_source(x, unstored_missing=True)
    return rows.keep(partial(observe, centre=np.full(rows.n_features, centre)))


def assert_same_fit(found, wanted, tol=1e-4):
    """The same maximum and the same model; flat directions of the likelihood leave models less alike than maxima."""
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=tol)
    assert_allclose(found.model.mean, wanted.model.mean, atol=100 * tol)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=100 * tol)


@pytest.fixture
def x(rng):
    return spiked_rows_with_holes(rng, N, D, Q, noise=0.5)


# The maximum


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_climbs_to_the_same_maximum(x, solver):
    found, wanted = fit(x, solver=solver), fit(x, solver="em", tol=1e-10, max_iter=50_000)
    assert found.status is Status.CONVERGED
    assert_same_fit(found, wanted, 1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_log_likelihood_is_that_of_the_observed_cells(x, solver):
    found = fit(x, solver=solver, tol=1e-3)
    assert_allclose(found.log_likelihood, dense_observed_log_likelihood(found.model, x).sum(), rtol=1e-10)
    assert found.trace[-1] == found.log_likelihood
    assert found.cells == np.count_nonzero(~np.isnan(x))


def test_the_first_value_of_the_trace_is_that_of_the_start(x):
    model = random_model(np.random.default_rng(1), D, Q)
    _, value = EM(1e-300).step(model, prepared(x))
    assert_allclose(value, dense_observed_log_likelihood(model, x).sum(), rtol=1e-10)


def test_an_estimator_scores_its_rows_as_it_was_fitted(x):
    ppca = PPCA(Q, random_state=0).fit(x)
    assert_allclose(ppca.score_samples(x), dense_observed_log_likelihood(ppca.model_, x), rtol=1e-9)
    assert_allclose(ppca.score_samples(x).sum(), ppca.log_likelihood_, rtol=1e-10)
    assert_allclose(ppca.score(x) * N, ppca.log_likelihood_, rtol=1e-10)
    assert ppca.trace_[-1] == ppca.log_likelihood_
    assert ppca.n_observed_ == np.count_nonzero(~np.isnan(x))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("n", "d", "q", "share"), [(60, 8, 2, 0.3), (25, 12, 3, 0.5), (80, 6, 4, 0.1)])
def test_the_trace_never_falls(rng, solver, n, d, q, share):
    x = spiked_rows_with_holes(rng, n, d, min(q, 2), share=share)
    assert largest_fall(fit(x, q, solver, tol=1e-6, max_iter=300).trace) <= 1e-10


def careless_step(model, x):
    """Regress on latents as if they were known: the doubt about them, P, left out."""
    m = dense_observed_posterior(model, x).mean
    theta, squares = np.empty((D, Q + 1)), 0.0
    for j in range(D):
        seen = ~np.isnan(x[:, j])
        t = np.column_stack([m[seen], np.ones(seen.sum())])
        theta[j], *_ = np.linalg.lstsq(t, x[seen, j])
        squares += np.square(x[seen, j] - t @ theta[j]).sum()
    following = LinearGaussian(theta[:, -1], theta[:, :-1], squares / np.count_nonzero(~np.isnan(x)))
    return following, dense_observed_log_likelihood(model, x).sum()


def test_a_step_that_leaves_out_the_doubt_about_latents_falls(x):
    state, careless = fit(x).model, []
    for _ in range(4):
        state, value = careless_step(state, x)
        careless.append(value)
    assert largest_fall(careless) > 1e-10


def test_a_step_is_that_of_regression_on_uncertain_latents(x, rng):
    model = random_model(rng, D, Q)
    model = replace(model, mean=np.nanmean(x, axis=0))
    following, _ = EM(1e-300, expand=False).step(model, prepared(x))
    belief, squares = dense_observed_posterior(model, x), 0.0
    t = np.column_stack([belief.mean, np.ones(N)])
    second = np.einsum("ni,nj->nij", t, t)
    second[:, :Q, :Q] += belief.covariance
    for j in range(D):
        seen = ~np.isnan(x[:, j])
        A, b = second[seen].sum(axis=0), t[seen].T @ x[seen, j]
        theta = np.linalg.solve(A, b)
        assert_allclose(following.loadings[j], theta[:-1], rtol=1e-8, atol=1e-9)
        assert_allclose(following.mean[j], theta[-1], rtol=1e-8, atol=1e-9)
        squares += x[seen, j] @ x[seen, j] - b @ theta
    assert_allclose(following.noise_variance, squares / np.count_nonzero(~np.isnan(x)), rtol=1e-8)


def test_a_step_with_known_noise_keeps_it(x, rng):
    model = random_model(rng, D, Q)
    rows = prepared(x)
    free, held = (EM(1e-300, noise=noise).step(model, rows)[0] for noise in (None, 0.25))
    assert held.noise_variance == 0.25
    assert_allclose(held.loadings, free.loadings)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("n", "d", "q"), [(60, 8, 2), (15, 30, 3), (300, 5, 4)])
def test_nothing_missing_gives_the_closed_form(rng, solver, n, d, q):
    x = spiked_rows(rng, n, d, min(q, 3))
    found, wanted = fit(x, q, solver, start=as_if_missing), closed_form_oracle(x, q)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)
    assert_allclose(found.model.mean, x.mean(axis=0), atol=1e-4)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=5e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("n", "q"), [(4, 1), (5, 2), (7, 3), (12, 2)])
def test_no_model_is_better_than_the_maximum(rng, solver, n, q):
    whole = spiked_rows(rng, n, 10, q)
    x = whole.copy()
    x[0, 0] = NAN
    found, other = fit(x, q, solver, tol=1e-4), closed_form_oracle(whole, q).model
    assert found.log_likelihood > dense_observed_log_likelihood(other, x).sum() - 1e-3


def test_rows_of_which_nothing_was_observed_leave_the_fit_to_the_others(rng):
    x = spiked_rows(rng, N, D, Q)
    x[20:] = NAN
    found, wanted = fit(x), closed_form_oracle(x[:20], Q)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-6)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=1e-3)
    assert found.weight == 20


def test_missing_cells_beyond_the_first_rows_are_found(rng):
    x = spiked_rows(rng, 1000 + 200, 4, 1)
    x[1000 + 100, 2] = NAN
    found = fit(x, 1, tol=1e-3)
    assert found.cells == x.size - 1


# The gradient


def central_difference(function, array, h=1e-5):
    slope = np.empty(array.shape)
    for index in np.ndindex(*array.shape):
        step = np.zeros(array.shape)
        step[index] = h
        slope[index] = (function(array + step) - function(array - step)) / (2 * h)
    return slope


def test_the_gradient_equals_central_differences(rng):
    x = spiked_rows_with_holes(rng, 12, 5, 2)
    model = random_model(rng, 5, 2)

    def total(**changes):
        return dense_observed_log_likelihood(replace(model, **changes), x).sum()

    value, gradient = value_and_gradient(model, prepared(x))
    slopes = {
        "loadings": central_difference(lambda W: total(loadings=W), model.loadings),
        "mean": central_difference(lambda mu: total(mean=mu), model.mean),
        "log_noise_variance": central_difference(
            lambda v: total(noise_variance=np.exp(v)), np.log(model.noise_variance)
        ),
    }
    assert_allclose(value, total(), rtol=1e-10)
    for name, slope in slopes.items():
        assert_allclose(getattr(gradient, name), slope, atol=1e-6 * np.abs(slope).max(), err_msg=name)


def test_the_gradient_counts_precisions(rng):
    x = spiked_rows_with_holes(rng, 12, 5, 2)
    omega = rng.uniform(0.3, 3.0, x.shape)
    model = random_model(rng, 5, 2)
    rows = prepared(x, cell_weight=omega)

    def total(W):
        return dense_observed_log_likelihood(replace(model, loadings=W), x, omega).sum()

    slope = central_difference(total, model.loadings)
    assert_allclose(value_and_gradient(model, rows)[1].loadings, slope, atol=1e-6 * np.abs(slope).max())


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_gradient_is_zero_at_the_maximum(x, solver):
    found = fit(x, solver=solver, tol=1e-11, max_iter=50_000)
    start, _ = EM(1e-300).step(random_model(np.random.default_rng(0), D, Q), prepared(x))
    steep, flat = (value_and_gradient(model, prepared(x))[1] for model in (start, found.model))
    for name in ("loadings", "mean", "log_noise_variance"):
        assert np.abs(getattr(flat, name)).max() < 1e-3 * np.abs(steep.loadings).max(), name


# What must not matter


def test_order_of_rows_and_columns_does_not_matter(x, rng):
    wanted = fit(x)
    rows, columns = rng.permutation(N), rng.permutation(D)
    assert_same_fit(fit(x[rows]), wanted)
    found = fit(x[:, columns])
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)
    assert_allclose(found.model.mean, wanted.model.mean[columns], atol=1e-3)
    covariance = dense_covariance(wanted.model)[np.ix_(columns, columns)]
    assert_allclose(dense_covariance(found.model), covariance, atol=1e-3)


@pytest.mark.parametrize("where", [0, 17, N])
def test_an_empty_row_changes_nothing(x, where):
    wanted, found = (PPCA(Q, random_state=0).fit(rows) for rows in (x, np.insert(x, where, NAN, axis=0)))
    assert_allclose(found.mean_, wanted.mean_, rtol=1e-7)
    assert_allclose(found.loadings_, wanted.loadings_, rtol=1e-6, atol=1e-7)
    assert_allclose(found.noise_variance_, wanted.noise_variance_, rtol=1e-7)
    assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-9)
    assert (found.n_samples_, found.n_observed_) == (wanted.n_samples_, wanted.n_observed_)


@pytest.mark.parametrize(("solver", "where"), [("auto", 0), ("em", 3), ("gradient", D), ("px_em", D)])
def test_an_empty_column_is_named_and_changes_nothing_else(x, solver, where):
    ppca = PPCA(Q, solver=solver, tol=1e-8, max_iter=5000, random_state=0)
    wanted = fit(x, solver=solver)
    with pytest.warns(UserWarning, match=rf"no observed cells in 1 of {D + 1} columns \(first: {where}\)"):
        ppca.fit(np.insert(x, where, NAN, axis=1))
    assert_array_equal(ppca.empty_features_, [where])
    assert_array_equal(ppca.loadings_[where], 0.0)
    assert ppca.mean_[where] == 0.0
    assert_allclose(ppca.log_likelihood_, wanted.log_likelihood, atol=1e-5)
    assert_allclose(np.delete(ppca.mean_, where), wanted.model.mean, atol=1e-3)
    assert_allclose(ppca.noise_variance_, wanted.model.noise_variance, rtol=1e-4)
    rest = np.delete(np.delete(ppca.get_covariance(), where, 0), where, 1)
    assert_allclose(rest, dense_covariance(wanted.model), atol=1e-2)


def test_a_row_twice_is_a_row_of_weight_two(x):
    w = 1.0 + (np.arange(N) % 3 == 0)
    assert_same_fit(fit(x, weight=w), fit(np.repeat(x, w.astype(int), axis=0)))


def test_a_row_of_weight_zero_is_not_there(x):
    w = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    assert_same_fit(fit(x, weight=w), fit(x[w > 0]))


def test_a_cell_of_weight_zero_is_missing(rng):
    x = spiked_rows(rng, N, D, Q)
    gone = rng.random(x.shape) < 0.3
    assert_same_fit(fit(x, cell_weight=1.0 * ~gone), fit(np.where(gone, NAN, x)))


def test_cell_weights_of_one_change_nothing(x):
    assert_same_fit(fit(x, cell_weight=np.ones(x.shape)), fit(x))


@pytest.mark.parametrize("factor", [1e-3, 7.0])
def test_cell_weights_are_relative_to_the_noise(x, rng, factor):
    omega = rng.uniform(0.3, 3.0, x.shape)
    plain, scaled = (fit(x, cell_weight=c * omega) for c in (1.0, factor))
    assert_allclose(scaled.model.noise_variance, factor * plain.model.noise_variance, rtol=1e-4)
    assert_allclose(np.abs(scaled.model.loadings), np.abs(plain.model.loadings), atol=1e-2)
    assert_allclose(scaled.log_likelihood, plain.log_likelihood, atol=1e-5)


def test_the_log_likelihood_of_weighted_cells_is_that_of_their_noise(x, rng):
    omega = rng.uniform(0.3, 3.0, x.shape)
    found = fit(x, cell_weight=omega, tol=1e-3)
    assert_allclose(found.log_likelihood, dense_observed_log_likelihood(found.model, x, omega).sum(), rtol=1e-10)


def test_precise_cells_count_for_more(rng):
    truth = spiked_rows(rng, 400, D, Q, noise=0.01)
    std = np.where(rng.random(truth.shape) < 0.5, 0.1, 1.0)
    x = truth + std * rng.standard_normal(truth.shape)
    wanted = dense_covariance(fit(truth).model)
    knowing, naive = fit(x, cell_weight=0.01 / std**2), fit(x)
    errors = [np.abs(found.model.loadings @ found.model.loadings.T - wanted).max() for found in (knowing, naive)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_blocks_and_threads_do_not_change_the_answer(x, monkeypatch, jobs):
    wanted = fit(x, n_jobs=1)
    monkeypatch.setattr(memory, "PIECE_BYTES", 8)
    monkeypatch.setattr(memory, "FEW_ROWS", 1)
    source = open_source(x, n_jobs=jobs)
    assert len(source.engine.parts) == 2 * jobs
    assert_same_fit(fit(x, n_jobs=jobs), wanted)


def test_the_same_seed_gives_the_same_fit(x):
    first, again = (PPCA(Q, n_init=3, random_state=5).fit(x) for _ in range(2))
    assert_array_equal(again.loadings_, first.loadings_)
    assert_array_equal(again.trace_, first.trace_)


STREAMS = {
    "list of batches": lambda x: open_source(np.array_split(x, 4)),
    "list whose first batch is empty": lambda x: open_source([x[:0], *np.array_split(x, 4)]),
    "list whose first batch is complete": lambda x: open_source([x[:3], x[3:]]),
    "one-shot iterator": lambda x: iter(np.array_split(x, 4)),
    "one-shot generator": lambda x: (batch for batch in np.array_split(x, 4)),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_batches_of_rows_are_one_table(x, stream):
    x[:3], x[3, 0] = np.nan_to_num(x[:3], nan=1.0), NAN
    found, wanted = PPCA(Q, tol=1e-8, random_state=0).fit(stream(x)), fit(x)
    assert_allclose(found.log_likelihood_, wanted.log_likelihood, atol=1e-5)
    assert_allclose(found.get_covariance(), dense_covariance(wanted.model), atol=1e-2)


def test_an_iterator_that_turns_out_incomplete_is_refused_with_a_hint(x):
    batches = iter([np.nan_to_num(x), x])
    with pytest.raises(DataError, match=r"NaN(.|\n)*Hint: .*needs rows that can be read more than once"):
        PPCA(Q).fit(batches)


def thin(x):
    matrix = sparse.csr_array((~np.isnan(x)).astype(float))
    matrix.data = x[~np.isnan(x)]
    return matrix


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_cells_that_a_sparse_table_does_not_store_are_missing_if_so_declared(rng, share):
    x = spiked_rows_with_holes(rng, 150, 12, 1, share=share)
    dense, stored = PPCA(1, tol=1e-7, random_state=0), PPCA(1, tol=1e-7, missing="unstored", random_state=0)
    dense.fit(x)
    stored.fit(thin(x))
    assert_allclose(stored.log_likelihood_, dense.log_likelihood_, atol=1e-5)
    assert_allclose(stored.get_covariance(), dense.get_covariance(), atol=1e-2)
    assert_allclose(stored.score_samples(thin(x)), stored.score_samples(x), rtol=1e-9, atol=1e-9)
    assert_allclose(stored.impute(thin(x)), stored.impute(x), rtol=1e-9)


def ratings(rng, share=0.3):
    """Whole numbers, zeros among them, and precisions of the cells."""
    x = np.round(1.5 * spiked_rows_with_holes(rng, 150, 12, 1, share=share))
    return x, rng.uniform(0.3, 3.0, x.shape)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_precisions_of_stored_cells_are_those_of_dense_ones(rng, share):
    x, omega = ratings(rng, share)
    w = np.where(np.arange(len(x)) % 5 == 0, 0.0, 1.5)
    dense = fit(x, 1, weight=w, cell_weight=omega)
    stored = fit(thin(x), 1, weight=w, cell_weight=omega, unstored_missing=True)
    assert_same_fit(stored, dense)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted cells"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_standardizing_stored_cells_is_standardizing_dense_ones(rng, share, weighted):
    x, omega = ratings(rng, share)
    weights = {"cell_weight": omega} if weighted else {}
    dense = fit(x, 1, start=STANDARDIZED, **weights)
    stored = fit(thin(x), 1, start=STANDARDIZED, unstored_missing=True, **weights)
    assert_same_fit(stored, dense)


def test_a_stored_row_of_missing_cells_is_an_empty_row(rng):
    x = spiked_rows_with_holes(rng, 150, 40, 1, share=0.95)
    rows, matrix = np.repeat(np.arange(150), (~np.isnan(x)).sum(axis=1)), thin(x)
    matrix.data[rows % 7 == 0] = NAN
    model = random_model(rng, 40, 1)
    tables = (matrix, x[np.arange(150) % 7 > 0])
    sums = [prepared_at(0.0, table).fold(partial(expect, model)) for table in tables]
    assert sums[0].weight == sums[1].weight
    assert_allclose(sums[0].latent, sums[1].latent)


def test_single_precision_rows_give_the_model_of_the_same_numbers_in_double(x):
    x = x.astype(np.float32)
    single, double = fit(x), fit(x.astype(np.float64))
    assert_allclose(single.log_likelihood, double.log_likelihood, atol=1e-2)
    assert_allclose(dense_covariance(single.model), dense_covariance(double.model), atol=1e-2)


@pytest.mark.parametrize("solver", ["auto", "gradient"])
@pytest.mark.parametrize("unit", [1e-80, 1e-6, 1e6, 1e80])
def test_units_do_not_matter(x, solver, unit):
    found, wanted = fit(unit * x, solver=solver), fit(x, solver=solver)
    shift = -np.count_nonzero(~np.isnan(x)) * np.log(unit)
    assert_allclose(found.log_likelihood, wanted.log_likelihood + shift, rtol=1e-7)
    assert_allclose(found.model.noise_variance / unit**2, wanted.model.noise_variance, rtol=1e-3)
    assert_allclose(found.model.mean / unit, wanted.model.mean, atol=1e-3)


def test_origin_does_not_matter(x):
    assert_allclose(fit(x + 1e5).log_likelihood, fit(x).log_likelihood, atol=1e-4)


def test_standardizing_is_fitting_scaled_columns(rng):
    x = spiked_rows_with_holes(rng, N, D, Q) * np.geomspace(0.05, 20.0, D)
    std = np.nanstd(x, axis=0)
    scaled, found = fit(x / std), fit(x, start=STANDARDIZED)
    cells = (~np.isnan(x)).sum(axis=0)
    assert_allclose(found.log_likelihood, scaled.log_likelihood - cells @ np.log(std), atol=1e-5)
    assert_allclose(found.model.noise_variance, scaled.model.noise_variance * std**2, rtol=1e-4)
    assert_allclose(found.model.mean / std, scaled.model.mean, atol=1e-3)
    covariance = dense_covariance(found.model) / np.outer(std, std)
    assert_allclose(covariance, dense_covariance(scaled.model), atol=1e-2)
    assert_allclose(found.log_likelihood, dense_observed_log_likelihood(found.model, x).sum(), rtol=1e-9)


def test_standardized_information_is_about_the_latents_of_the_answer(rng):
    x = spiked_rows_with_holes(rng, N, D, Q) * np.geomspace(0.05, 20.0, D)
    found = fit(x, start=STANDARDIZED)
    belief = dense_observed_posterior(found.model, x)
    t = np.column_stack([belief.mean, np.ones(N)])
    second = np.einsum("ni,nj->nij", t, t)
    second[:, :Q, :Q] += belief.covariance
    lower = np.tril_indices(Q + 1)
    for j in range(D):
        wanted = second[~np.isnan(x[:, j])].sum(axis=0)[lower]
        assert_allclose(found.information[:, j], wanted, rtol=1e-6, atol=1e-6)


# Bias


def test_the_mean_is_right_when_cells_are_missing_because_of_others():
    rng = np.random.default_rng(8)
    n, truth = 4000, LinearGaussian([1.0, -2.0, 0.5, 3.0], [[2.0], [2.0], [1.0], [-1.0]], 0.3)
    x = sample(truth, n, rng=rng)
    x[x[:, 0] > 1.5, 1] = NAN
    observed = ~np.isnan(x[:, 1])
    error = np.sqrt(dense_covariance(truth)[1, 1] / observed.sum())
    naive, found = np.nanmean(x[:, 1]), fit(x, 1).model
    assert abs(naive - truth.mean[1]) > 20 * error
    assert_within_errors(found.mean[1], truth.mean[1], error)
    assert_allclose(dense_covariance(found), dense_covariance(truth), atol=0.3)


# Doubt about parameters


@pytest.mark.parametrize(("n", "d", "q"), [(30, 5, 2), (1000, 20, 7), (12, 40, 3)])
def test_noise_of_complete_rows_is_inflated_by_their_degrees_of_freedom(n, d, q):
    assert_allclose(noise_inflation(n * d, n, d, q), n / (n - q - 1))


def test_inflation_is_finite_at_least_one_and_fades(rng):
    for _ in range(100):
        n, d = rng.integers(1, 50, 2)
        q, cells = rng.integers(1, d + 1), rng.integers(1, n * d + 1)
        assert 1.0 <= noise_inflation(float(cells), float(n), int(d), int(q)) <= 10.0 + 1e-9
    some = [noise_inflation(0.5 * n * 10, n, 10, 2) for n in (30, 300, 3000, 30_000_000)]
    assert (np.diff(some) < 0).all()
    assert_allclose(some[-1], 1.0, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_information_of_complete_rows_is_the_same_for_all_features(rng, solver):
    x = spiked_rows(rng, N, D, Q)
    found = fit(x, solver=solver, tol=1e-11, max_iter=50_000, start=as_if_missing)
    wanted = complete_information(N, Q)
    assert found.information.shape == (wanted.shape[0], D)
    assert_allclose(found.information, np.broadcast_to(wanted, found.information.shape), atol=1e-2)
    assert_array_equal(PPCA(Q).fit(x).information_, wanted)


def test_information_counts_the_rows_that_saw_a_feature(x):
    assert_allclose(fit(x).information[-1], (~np.isnan(x)).sum(axis=0))


def test_standard_deviations_count_doubt_that_fades_with_rows(rng):
    gaps = []
    for n in (40, 400, 4000):
        x = spiked_rows_with_holes(rng, n, D, Q)
        ppca = PPCA(Q, random_state=0).fit(x)
        holes = np.isnan(x)
        plain, doubtful = impute_with_uncertainty(ppca.model_, x).std, ppca.impute(x, return_std=True)[1]
        assert (doubtful[holes] >= plain[holes]).all()
        assert_array_equal(doubtful[~holes], 0.0)
        gaps.append((doubtful[holes] / plain[holes]).mean() - 1)
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2] > 0


def test_drawn_tables_keep_what_was_observed_and_differ_elsewhere(x):
    ppca = PPCA(Q, keep_source=True, random_state=0).fit(x)
    draws = ppca.impute_draws(x, 6, random_state=1)
    seen = ~np.isnan(x)
    assert draws.shape == (6, N, D)
    assert_array_equal(draws[:, seen], np.tile(x[seen], (6, 1)))
    assert (draws.std(axis=0)[~seen] > 0).all()
    assert len(ppca.parameter_draws_) == 6


def test_draws_made_at_the_fit_are_used_later(x):
    ppca = PPCA(Q, n_parameter_draws=4, random_state=0).fit(x)
    made = list(ppca.parameter_draws_)
    assert np.isfinite(ppca.impute_draws(x, 3, random_state=1)).all()
    assert ppca.parameter_draws_ == made
    with pytest.raises(DataError, match=r"5 draws(.|\n)*Hint: fit with keep_source=True"):
        ppca.impute_draws(x, 5)


# The number of components, of starts, of steps


@pytest.mark.parametrize("q", [1, 5, 20, 38, 39])
def test_the_noise_of_a_start_is_at_most_the_variance_of_a_feature_however_many_components(rng, q):
    x = punched(rng, spiked_rows(rng, 100, 40, 4, noise=0.01), 0.2)
    source = open_source(x)
    start = first_model(Problem.of(describe(source, rng), Settings(), rng), q)
    variance = np.nanvar(x, axis=0).mean()
    assert 0.02 * variance < start.noise_variance < variance


@pytest.mark.parametrize("solver", ["em", "px_em"])
def test_statistics_of_the_last_step_serve_again(rng, solver):
    x = spiked_rows_with_holes(rng, 60, 9, 2, share=0.2, noise=0.1)
    problem = Problem.of(describe(open_source(x), rng), Settings(solver), rng)
    start = first_model(problem, 2)
    other = LinearGaussian(start.mean, 1.1 * start.loadings, start.noise_variance)
    problem.steps(start)
    kept = problem.steps.sums_at(start)
    for model in (start, other, start):
        found, value = problem.steps.expanded(model)
        wanted, log_likelihood = EM(problem.floor).step(model, problem.rows)
        assert_allclose(value, log_likelihood, rtol=1e-12)
        assert_allclose(found.loadings, wanted.loadings, rtol=1e-12, atol=1e-12)
        assert problem.steps.sums_at(start) is kept


def test_more_starts_are_never_worse(rng):
    x = spiked_rows_with_holes(rng, 20, 10, 3, share=0.65, noise=0.5)
    found = []
    for n_init in (1, 2, 4):
        settings = Settings("auto", 1e-2, 100, n_init=n_init)
        found.append(fit_ppca(open_source(x), 3, settings, np.random.default_rng(0)).log_likelihood)
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_step_is_not_enough_and_says_so(x, solver):
    ppca = PPCA(Q, solver=solver, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        ppca.fit(x)
    assert ppca.status_ is Status.MAX_ITER
    assert ppca.n_iter_ == 1
    assert not ppca.converged_
    assert_allclose(ppca.score_samples(x).sum(), ppca.log_likelihood_, rtol=1e-10)
    assert np.isfinite(ppca.impute(x)).all()


def test_bic_finds_the_rank(rng):
    x = spiked_rows_with_holes(rng, 150, 9, 2, share=0.2, noise=0.05)
    ppca = PPCA("bic", random_state=0).fit(x)
    assert ppca.n_components_ == 2
    assert ppca.rule_ == "BIC"


def test_components_are_added_until_they_hold_their_share(rng):
    x = spiked_rows_with_holes(rng, 150, 9, 3, share=0.2, noise=0.05)
    found = fit(x, 0.9, tol=1e-3)
    q = found.model.n_components
    assert explained_variance_ratio(found.model).sum() >= 0.9
    assert q > 1
    assert explained_variance_ratio(fit(x, q - 1, tol=1e-3).model).sum() < 0.9
    assert found.rule == "at least 0.9 of the variance"


def test_a_share_that_cannot_be_held_takes_all_components(rng):
    x = spiked_rows_with_holes(rng, 60, 4, 1, share=0.1, noise=1.0)
    assert fit(x, 0.9999, tol=1e-3).model.n_components == 3


def test_the_evidence_needs_complete_rows(x):
    with pytest.raises(DataError, match=r"evidence needs complete rows(.|\n)*Hint: n_components='parallel'"):
        PPCA("evidence").fit(x)


# At the edge


def refuse_other_warnings():
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "no observed cells", UserWarning)


def assert_usable(ppca, x):
    """All that a fit says, and all that it can be asked, is finite."""
    belief, found = ppca.posterior(x), ppca.outliers(x)
    values, std = ppca.impute(x, return_std=True)
    numbers = {
        "mean": ppca.mean_,
        "loadings": ppca.loadings_,
        "noise": ppca.noise_variance_,
        "trace": ppca.trace_,
        "log_likelihood": ppca.log_likelihood_,
        "information": ppca.information_,
        "explained": ppca.explained_variance_ratio_,
        "scores": ppca.score_samples(x),
        "latent mean": belief.mean,
        "latent covariance": belief.covariance,
        "imputed": values,
        "std": np.delete(std, ppca.empty_features_, axis=1),
        "reconstruction": ppca.reconstruct(x),
        "p_value": found.p_value,
        "contributions": found.contributions,
    }
    for name, number in numbers.items():
        assert np.isfinite(number).all(), name
    assert np.min(ppca.noise_variance_) > 0
    assert_array_equal(np.isnan(found.cell_scores), np.isnan(x))
    assert ((found.p_value >= 0) & (found.p_value <= 1)).all()
    assert ppca.summary()


def fit_or_refuse(ppca, x):
    """Fit and look at all of it; None if the table is refused by name."""
    with warnings.catch_warnings():
        refuse_other_warnings()
        try:
            ppca.fit(x)
        except ProbpcaError:
            return None
        assert_usable(ppca, x)
    return ppca


def hollow(rng):
    x = np.full((40, 6), NAN)
    x[:, 0] = rng.standard_normal(40)
    x[[0, 1, 2], [1, 2, 3]] = 1.0
    return x


def seldom(rng, times):
    x = spiked_rows_with_holes(rng, 40, 6, 2)
    x[times:, 3] = NAN
    x[:times, 3] = np.arange(times) + 1.0
    return x


def constant(rng):
    x = spiked_rows_with_holes(rng, 40, 6, 2)
    x[:, 2] = np.where(np.isnan(x[:, 2]), NAN, 4.0)
    return x


def short_rows(rng):
    x = spiked_rows_with_holes(rng, 40, 6, 2)
    x[::2, 1:] = NAN
    return x


EDGES = {
    "rows with fewer cells than components": short_rows,
    "a column observed once": partial(seldom, times=1),
    "a column observed twice": partial(seldom, times=2),
    "a constant column": constant,
    "duplicated rows": lambda rng: np.repeat(spiked_rows_with_holes(rng, 10, 6, 2), 4, axis=0),
    "one complete column": hollow,
    "huge units": lambda rng: 1e80 * spiked_rows_with_holes(rng, 40, 6, 2),
    "tiny units": lambda rng: 1e-80 * spiked_rows_with_holes(rng, 40, 6, 2),
    "two rows": lambda _: np.array([[1.0, 2.0, NAN, 3.0], [NAN, 1.0, 0.0, 2.0]]),
    "two rows with nothing in common": lambda _: np.array([[1.0, NAN, 2.0, NAN], [NAN, 1.0, NAN, 5.0]]),
    "few rows": lambda rng: spiked_rows_with_holes(rng, 5, 6, 2),
    "low rank": lambda rng: punched(rng, rng.standard_normal((40, 2)) @ rng.standard_normal((2, 6)), 0.2),
    "rank one": lambda rng: punched(rng, np.outer(rng.standard_normal(40), np.ones(6)), 0.2),
    "many columns": lambda rng: spiked_rows_with_holes(rng, 8, 16, 2),
}


@pytest.mark.parametrize("q", [2, "all", None])
@pytest.mark.parametrize("solver", ["auto", "em", "gradient"])
@pytest.mark.parametrize("table", EDGES.values(), ids=EDGES)
def test_tables_at_the_edge_give_finite_answers_or_are_refused_by_name(rng, table, solver, q):
    x = table(rng)
    q = x.shape[1] - 1 if q == "all" else q
    fit_or_refuse(PPCA(q, solver=solver, max_iter=60, random_state=0), x)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.full((5, 3), NAN), "at least 2 rows with observed cells are needed.*got 0"),
        (np.vstack([np.ones((1, 3)), np.full((4, 3), NAN)]), "at least 2 rows with observed cells.*got 1"),
        (np.where(np.eye(4, 3) > 0, NAN, 2.0), "all observed values of each column are identical"),
        (np.where(np.eye(4, 3) > 0, NAN, [1.0, np.inf, 2.0]), r"X contains infinity \(3 cells\)"),
        (np.where(np.eye(4, 3) > 0, NAN, [[1e200, 0.0, 2.0]] * 2 + [[1.0, 5.0, 7.0]] * 2), "too large(.|\n)*Hint"),
    ],
    ids=["nothing", "one row", "no variation", "infinity", "huge"],
)
def test_tables_that_say_nothing_are_refused_with_the_reason(x, message):
    with pytest.raises(DataError, match=message):
        fit(x, 1)


@st.composite
def tables(draw):
    """Rows of any shape, rank, unit and precision, with any share of their cells missing."""
    n, d = draw(st.integers(2, 25)), draw(st.integers(2, 12))
    single = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rank = draw(st.integers(0, min(n, d)))
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + draw(st.sampled_from([0.0, 1.0, 1e3]))
    x += draw(st.sampled_from([0.0, 1e-6, 1.0])) * rng.standard_normal((n, d))
    x *= 10.0 ** draw(st.integers(-12, 12) if single else st.integers(-80, 80))
    return punched(rng, x, draw(st.sampled_from([0.05, 0.3, 0.6, 0.9]))).astype(np.float32 if single else np.float64)


@given(
    x=tables(),
    q=st.sampled_from([1, 2, 5, None, 0.8]),
    solver=st.sampled_from(["auto", "em", "gradient"]),
    standardize=st.booleans(),
)
@settings(max_examples=60)
def test_any_table_gives_finite_answers_or_is_refused_by_name(x, q, solver, standardize):
    fit_or_refuse(PPCA(q, solver=solver, standardize=standardize, max_iter=25, random_state=0), x)
