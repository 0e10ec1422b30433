"""Rows with missing cells, read once: near the maximum after one pass, nearer the more rows come."""

import pickle
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from oracles import dense_regression, punched, spiked_rows, spiked_rows_with_holes
from probpca import PPCA, DataError
from probpca.blocks import Block, observe
from probpca.inference import sample
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.em.e_step import expect
from probpca.learning.em.m_step import latent_moments, maximise, theta_of
from probpca.learning.settings import OnlineSettings
from probpca.learning.streaming.online_em import Gathered, Online, _Average
from probpca.models import Gaussian, LinearGaussian
from probpca.sources import open_source
from probpca.sources.engines.local import one_blas_thread

N, D, Q = 20_000, 10, 2
NAN = np.nan


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """These matrices are small: threads would only wait for each other."""
    with one_blas_thread():
        yield


def read(x, batch, **options):
    """An estimator that has read rows in batches of one size."""
    ppca = PPCA(Q, random_state=0, **options)
    for start in range(0, len(x), batch):
        ppca.partial_fit(x[start : start + batch])
    return ppca


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(3)
    return punched(rng, spiked_rows(rng, N, D, Q, noise=0.5), 0.2)


@pytest.fixture(scope="module")
def best(x):
    return PPCA(Q, random_state=0).fit(x)


@pytest.fixture(scope="module")
def once(x):
    return read(x, 200)


def gap(model, best, x):
    """Log-likelihood below the maximum, in nats a row."""
    return (best.log_likelihood_ - PPCA.log_likelihood(model, x)) / len(x)


@pytest.fixture
def few_first(monkeypatch):
    """Begin after forty rows already."""
    early = partial(Settings, online=OnlineSettings(first_rows=(40, 40)))
    monkeypatch.setattr("probpca.estimators.ppca.Settings", early)


# One pass is enough


def test_one_pass_ends_near_the_maximum(x, best, once):
    assert 0 <= gap(once, best, x) < 0.01
    assert_allclose(once.mean_, best.mean_, atol=0.1)
    assert_allclose(once.noise_variance_, best.noise_variance_, rtol=0.02)
    assert_allclose(once.get_covariance(), best.get_covariance(), atol=0.3)


@pytest.mark.parametrize("batch", [1000, 4000])
def test_the_size_of_batches_hardly_matters(x, best, once, batch):
    other = read(x, batch)
    assert gap(other, best, x) < 0.01
    assert abs(gap(other, best, x) - gap(once, best, x)) < 2e-3
    assert_allclose(other.get_covariance(), once.get_covariance(), atol=0.2)


def test_the_more_rows_the_nearer(x, best):
    ppca, gaps = PPCA(Q, random_state=0), []
    for start in range(0, N, 500):
        ppca.partial_fit(x[start : start + 500])
        if start + 500 in (1000, 5000, N):
            gaps.append(gap(ppca, best, x))
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2] > 0


def test_the_first_rows_are_fitted_as_a_table(x):
    ppca, wanted = read(x[:500], 50), PPCA(Q, random_state=0).fit(x[:500])
    assert isinstance(ppca.stream_, Gathered)
    assert_allclose(ppca.log_likelihood_, wanted.log_likelihood_, atol=1e-2)
    assert_allclose(ppca.get_covariance(), wanted.get_covariance(), atol=0.05)


def test_it_says_that_rows_were_read_once_and_warns_of_nothing(once):
    assert isinstance(once.stream_, Online)
    assert once.status_ is Status.ONLINE
    assert once.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "read once" in once.status_.value
        assert once.summary()
    assert once.n_samples_ == N


def test_rows_and_cells_are_counted(x, once):
    assert once.n_samples_ == N
    assert_allclose(once.n_observed_, np.count_nonzero(~np.isnan(x)), rtol=0.01)
    assert once.empty_features_.size == 0


def test_missing_cells_are_filled_in_as_by_a_fit_to_all_rows(x, best, once):
    rows = x[:100]
    assert_allclose(once.impute(rows), best.impute(rows), atol=0.3)
    low, high = once.impute_interval(rows)
    filled, hidden = once.impute(rows), np.isnan(rows)
    assert ((low < filled) & (filled < high))[hidden].all()


def test_the_same_batches_give_the_same_model(x):
    one, other = (read(x[:4000], 500) for _ in range(2))
    assert_array_equal(one.loadings_, other.loadings_)
    assert_array_equal(one.noise_variance_, other.noise_variance_)


def test_a_stream_goes_on_after_a_pickle_as_if_nothing_had_been(x):
    whole, half = read(x[:4000], 500), read(x[:3000], 500)
    half = pickle.loads(pickle.dumps(half))  # noqa: S301
    for start in (3000, 3500):
        half.partial_fit(x[start : start + 500])
    assert_array_equal(half.loadings_, whole.loadings_)


def test_asking_in_between_changes_nothing(x):
    curious, patient = PPCA(Q, random_state=0), read(x[:4000], 500)
    for start in range(0, 4000, 500):
        curious.partial_fit(x[start : start + 500])
        assert np.isfinite(curious.noise_variance_)
    assert_array_equal(curious.loadings_, patient.loadings_)


# Batches of every kind


def test_complete_batches_may_come_first(x, best):
    rng = np.random.default_rng(8)
    whole = sample(best.model_, 5000, rng=rng)
    ppca = read(whole, 1000)
    assert ppca.status_ is Status.EXACT
    for start in range(0, 5000, 500):
        ppca.partial_fit(x[start : start + 500])
    rows = np.vstack([whole, x[:5000]])
    assert ppca.status_ is Status.ONLINE
    assert ppca.n_samples_ == 10_000
    assert gap(ppca, PPCA(Q, random_state=0).fit(rows), rows) < 0.01


def test_complete_rows_count_the_same_whether_they_come_before_the_first_missing_cell_or_after(rng):
    x = spiked_rows_with_holes(rng, 120, D, Q, noise=0.5)
    whole = spiked_rows(rng, 80, D, Q, noise=0.5)
    before, after = (PPCA(Q, tol=1e-8, random_state=0) for _ in range(2))
    before.partial_fit(whole).partial_fit(x)
    after.partial_fit(x).partial_fit(whole)
    wanted = PPCA(Q, tol=1e-8, random_state=0).fit(np.vstack([whole, x]))
    assert_allclose(before.get_covariance(), wanted.get_covariance(), atol=1e-3)
    assert_allclose(after.get_covariance(), wanted.get_covariance(), atol=1e-3)
    assert_allclose(before.log_likelihood_, after.log_likelihood_, atol=1e-5)


def test_complete_batches_may_come_later(x, few_first):  # noqa: ARG001
    ppca = PPCA(Q, random_state=0).partial_fit(x[:100])
    whole = sample(ppca.model_, 500, rng=np.random.default_rng(0))
    ppca.partial_fit(whole)
    assert ppca.status_ is Status.ONLINE
    assert ppca.n_samples_ == 600


def test_batches_of_one_row_never_raise(x, few_first):  # noqa: ARG001
    ppca, first = PPCA(Q, random_state=0), None
    for number, row in enumerate(x[:100], 1):
        ppca.partial_fit(row[None])
        try:
            value = ppca.noise_variance_
        except AttributeError:
            assert first is None
            continue
        first = first or number
        assert np.isfinite(value)
        assert value > 0
        assert np.isfinite(ppca.loadings_).all()
    assert first == Q + 2
    assert ppca.status_ is Status.ONLINE


def test_rows_one_by_one_are_nearly_rows_in_one_batch(x, few_first):  # noqa: ARG001
    one, other = (PPCA(Q, random_state=0).partial_fit(x[:300]) for _ in range(2))
    for row in x[300:500]:
        one.partial_fit(row[None])
    other.partial_fit(x[300:500])
    assert_allclose(one.score(x), other.score(x), atol=0.02)
    assert one.n_samples_ == other.n_samples_ == 500


def test_too_few_rows_are_no_model_yet(x):
    ppca = PPCA(Q).partial_fit(x[: Q + 1])
    with pytest.raises(NotFittedError):
        ppca.transform(x)
    ppca.partial_fit(x[Q + 1 : 30])
    assert ppca.transform(x).shape == (N, Q)


def test_rows_with_nothing_in_them_change_nothing(x, few_first):  # noqa: ARG001
    nothing = np.full((3, D), NAN)
    plain, padded = (PPCA(Q, random_state=0).partial_fit(x[:300]) for _ in range(2))
    padded.partial_fit(nothing)
    assert_array_equal(padded.loadings_, plain.loadings_)
    assert padded.n_samples_ == plain.n_samples_
    plain.partial_fit(x[300:400])
    padded.partial_fit(np.vstack([nothing, x[300:350], nothing, x[350:400]]))
    assert_allclose(padded.loadings_, plain.loadings_, rtol=1e-9, atol=1e-11)
    assert_allclose(padded.noise_variance_, plain.noise_variance_, rtol=1e-10)
    assert padded.n_samples_ == plain.n_samples_


def test_rows_with_nothing_in_them_change_nothing_among_the_first_either(x):
    plain, padded = PPCA(Q, random_state=0).partial_fit(x[:100]), PPCA(Q, random_state=0)
    padded.partial_fit(np.full((5, D), NAN)).partial_fit(x[:100])
    assert_allclose(padded.log_likelihood_, plain.log_likelihood_, rtol=1e-9)
    assert padded.n_samples_ == plain.n_samples_


def test_an_empty_row_after_complete_ones_changes_nothing(rng):
    x = spiked_rows(rng, 300, D, Q)
    ppca, wanted = PPCA(Q, tol=1e-9, random_state=0).partial_fit(x), PPCA(Q).fit(x)
    ppca.partial_fit(np.full((1, D), NAN))
    assert_allclose(ppca.log_likelihood_, wanted.log_likelihood_, atol=1e-5)
    assert_allclose(ppca.get_covariance(), wanted.get_covariance(), atol=1e-3)


def test_weights_count_rows(x, few_first):  # noqa: ARG001
    weighted, repeated = (PPCA(Q, random_state=0).partial_fit(x[:300]) for _ in range(2))
    w = 1.0 + (np.arange(100) % 2)
    weighted.partial_fit(x[300:400], sample_weight=w)
    repeated.partial_fit(np.repeat(x[300:400], w.astype(int), axis=0))
    assert weighted.n_samples_ == repeated.n_samples_ == 450
    assert_allclose(weighted.loadings_, repeated.loadings_, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("asked", [None, "bic", 0.7])
def test_the_number_of_components_is_chosen_once_among_the_first_rows(x, few_first, asked):  # noqa: ARG001
    ppca = PPCA(asked, random_state=0)
    first = PPCA(asked, random_state=0).fit(x[:250]).n_components_
    for start in range(0, 1000, 250):
        ppca.partial_fit(x[start : start + 250])
        assert ppca.n_components_ == (first if asked is None else Q)


def test_single_precision_rows_are_as_good(x, once):
    single = read(x.astype(np.float32), 200)
    assert_allclose(single.get_covariance(), once.get_covariance(), rtol=1e-3, atol=1e-3)


# Columns that come late


LATE = [2, 7]


@pytest.fixture(scope="module", params=[3000, 9000])
def since(request):
    return request.param


@pytest.fixture(scope="module")
def late(x, since):
    """Rows of which two columns, far from zero, are not there at first."""
    y = x + np.where(np.isin(np.arange(D), LATE), 50.0, 0.0)
    y[:since, LATE] = NAN
    return y


@pytest.fixture(scope="module")
def late_best(late):
    return PPCA(Q, random_state=0).fit(late)


@pytest.mark.parametrize("batch", [200, 3000])
def test_the_time_before_a_column_came_does_not_count_for_it(late, late_best, batch):
    found = read(late, batch)
    assert_allclose(found.mean_, late_best.mean_, atol=0.15)
    assert_allclose(found.get_covariance(), late_best.get_covariance(), atol=0.4)
    assert gap(found, late_best, late) < 0.01


def test_a_column_is_where_its_cells_are_as_soon_as_it_comes(late, since):
    found = read(late[: since + 600], 200)
    assert_allclose(found.mean_[LATE], np.nanmean(late[: since + 600, LATE], axis=0), atol=0.3)
    assert np.linalg.norm(found.loadings_[LATE], axis=1).min() > 0.1
    wanted = found.score(late[since : since + 600])
    assert_allclose(found.log_likelihood_ / found.n_samples_, wanted, atol=0.2 * abs(wanted))


def test_cells_of_each_column_are_counted(late, x, once):
    for ppca, rows in [(once, x), (read(late, 700), late)]:
        seen = (~np.isnan(rows)).sum(axis=0)
        assert_allclose(ppca.information_[-1], seen, rtol=1e-9)
        assert_allclose(ppca.n_observed_, seen.sum(), rtol=1e-9)


def test_with_a_half_life_cells_of_each_column_are_counted_as_they_count(late):
    found = read(late, 700, half_life=500.0)
    wanted = 2.0 ** (-np.arange(len(late))[::-1] / 500.0) @ ~np.isnan(late)
    assert_allclose(found.information_[-1], wanted, rtol=0.02)


def test_a_column_that_never_comes_stays_empty(x):
    y = x[:3000].copy()
    y[:, 4] = NAN
    found = read(y, 500)
    assert_array_equal(found.empty_features_, [4])
    assert (found.mean_[4], *found.loadings_[4]) == (0, 0, 0)
    assert_array_equal(read(np.vstack([y, x[3000:3010]]), 500).empty_features_, [])


# A single step


def begun(x, half_life=None):
    result = fit_ppca(open_source(x), Q, Settings(), np.random.default_rng(0))
    return replace(Online.after(result, (Block(x),), OnlineSettings()), half_life=half_life)


def test_the_first_sums_are_those_of_one_row_on_average(x):
    state = begun(x[:300])
    wanted = dense_regression(state.model, x[:300])
    for name in ("counts", "log_likelihood", "latent", "gram", "score", "squares"):
        value = wanted[name] / 300
        assert_allclose(getattr(state.sums, name), value, rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("half_life", [None, 70.0])
def test_a_step_is_a_weighted_mean_of_sums_and_the_regression_on_it(x, half_life):
    state = begun(x[:300], half_life)
    chunk = x[300:350]
    after = state.step(observe(Block(chunk), state.model.mean))
    old, new = (dense_regression(state.model, rows) for rows in (x[:300], chunk))
    gain = 1 - 2 ** (-50 / 70) if half_life else state._gain(50)
    mixed = {name: (1 - gain) * old[name] / 300 + gain * new[name] / 50 for name in new}
    theta = np.empty((Q + 1, D))
    lower = np.tril_indices(Q + 1)
    squares = 0.0
    for j in range(D):
        A = np.zeros((Q + 1, Q + 1))
        A[lower] = mixed["gram"][:, j]
        A = A + np.tril(A, -1).T
        theta[:, j] = np.linalg.solve(A, mixed["score"][:, j])
        squares += mixed["squares"][j] - mixed["score"][:, j] @ theta[:, j]
    latent = np.zeros((Q + 1, Q + 1))
    latent[lower] = mixed["latent"]
    nu = latent[-1, :-1]
    covariance = latent[:-1, :-1] + np.tril(latent[:-1, :-1], -1).T - np.outer(nu, nu)
    stepped = LinearGaussian(state.model.mean + theta[-1], state.model.loadings + theta[:-1].T, 1.0)
    wanted = stepped.whiten(Gaussian(nu, covariance))
    assert_allclose(after.model.loadings, wanted.loadings, rtol=1e-7, atol=1e-9)
    assert_allclose(after.model.mean, wanted.mean, rtol=1e-7, atol=1e-9)
    assert_allclose(after.model.noise_variance, squares / mixed["counts"].sum(), rtol=1e-8)
    assert_allclose(after.sums.score, 0.0, atol=1e-9 * np.abs(mixed["squares"]).max())  # it is a minimum of them
    assert_allclose(after.rows, (1 - gain) * 300 + gain / (1 - 2 ** (-1 / 70)) if half_life else 350, rtol=1e-12)


@pytest.mark.parametrize("half_life", [None, 40.0])
@pytest.mark.parametrize("cuts", [[60], [30, 30], [1] * 60, [7, 13, 40]])
def test_what_old_rows_keep_does_not_depend_on_how_new_ones_are_cut(x, half_life, cuts):
    state = begun(x[:300], half_life)
    whole, kept, rows = 1 - state._gain(60), 1.0, 300.0
    for size in cuts:
        kept *= 1 - _at(state, rows)._gain(size)
        rows += size
    assert_allclose(kept, whole, rtol=1e-10)


def _at(state, rows):
    return replace(state, rows=rows)


def test_steps_get_smaller_but_not_too_small_to_move(x):
    state = begun(x[:300])
    gains = np.array([_at(state, rows)._gain(100.0) for rows in 10.0 ** np.arange(3, 10)])
    assert (np.diff(gains) < 0).all()
    assert_allclose(gains[3:], (10.0 ** np.arange(6, 10) / 100) ** -0.6, rtol=0.01)  # t^-0.6
    assert gains[0] < 1


@pytest.mark.parametrize("sizes", [[10] * 40, [1] * 200, [300, 5, 5, 700, 1]])
def test_an_average_is_that_of_the_second_half_or_a_little_more(rng, sizes):
    values = rng.standard_normal((len(sizes), 3))
    average, ends = _Average(edge=100.0), 100.0 + np.cumsum(sizes)
    for end, size, value in zip(ends, sizes, values, strict=True):
        average = average.add(end, size, value)
    means = [np.average(values[k:], axis=0, weights=sizes[k:]) for k in range(len(sizes))]
    matches = [k for k, mean in enumerate(means) if np.allclose(mean, average.value, rtol=1e-10)]
    assert len(matches) == 1
    begin = ends[matches[0]] - sizes[matches[0]]
    assert ends[-1] / 4 - max(sizes) <= begin <= ends[-1] / 2 + max(sizes)


def test_an_m_step_stays_above_the_floor(x):
    state = begun(x[:300])
    high = replace(state, floor=50.0)
    assert high.step(observe(Block(x[300:310]), state.model.mean)).model.noise_variance == 50.0
    assert float(maximise(state.model, state.sums, 0.0).noise_variance) < 50.0


# Rows that are to be forgotten


def drifting(rng, jump):
    """Two thousand and more rows, then more whose mean is elsewhere."""
    x = punched(rng, spiked_rows(rng, 6000, D, Q, noise=0.5), 0.2)
    x[3000:] += jump
    return x


def test_with_a_half_life_the_model_follows_a_jump(rng):
    x = drifting(rng, 3.0)
    keen, slow = read(x, 100, half_life=200.0), read(x, 100)
    late, wanted = x[5000:], np.nanmean(x[4000:], axis=0)
    assert np.linalg.norm(keen.mean_ - wanted) < 0.7 * np.linalg.norm(slow.mean_ - wanted)
    assert keen.score(late) > slow.score(late)


def test_a_half_life_is_that_of_weights_by_age(rng):
    x = drifting(rng, 0.0)
    found = read(x, 100, half_life=500.0)
    age = np.arange(len(x))[::-1]
    wanted = PPCA(Q, random_state=0).fit(x, sample_weight=2.0 ** (-age / 500.0))
    assert_allclose(found.mean_, wanted.mean_, atol=0.15)
    assert_allclose(found.noise_variance_, wanted.noise_variance_, rtol=0.1)
    assert_allclose(found.score(x[-1500:]), wanted.score(x[-1500:]), atol=0.03)


def test_with_a_half_life_cuts_hardly_matter(rng):
    x = drifting(rng, 0.0)
    one, other = read(x, 50, half_life=300.0), read(x, 400, half_life=300.0)
    assert_allclose(one.mean_, other.mean_, atol=0.2)
    assert_allclose(one.score(x[-1000:]), other.score(x[-1000:]), atol=0.03)


# What cannot be


def test_streams_that_have_begun_cannot_be_merged_and_say_why(once, x):
    other = read(x[:3000], 500)
    before = other.loadings_
    with pytest.raises(DataError, match=r"missing cells cannot be merged(?s:.*)Hint"):
        other.merge(once)
    assert_array_equal(other.loadings_, before)


def test_first_rows_can_be_merged(x):
    left, right = (PPCA(Q, tol=1e-8, random_state=0).partial_fit(part) for part in (x[:150], x[150:300]))
    wanted = PPCA(Q, tol=1e-8, random_state=0).fit(x[:300])
    assert_allclose(left.merge(right).log_likelihood_, wanted.log_likelihood_, atol=1e-5)


def test_complete_rows_are_not_merged_with_rows_that_lack_cells(x, best):
    whole = PPCA(Q).partial_fit(sample(best.model_, 50, rng=np.random.default_rng(0)))
    with pytest.raises(DataError, match="only one of these has seen missing cells"):
        whole.merge(PPCA(Q).partial_fit(x[:50]))
    assert whole.status_ is Status.EXACT


def test_columns_scaled_to_unit_variance_must_be_complete(x):
    ppca = PPCA(Q, standardize=True)
    with pytest.raises(DataError, match=r"standardize=False(?s:.*)Hint: use fit"):
        ppca.partial_fit(x[:50])


def test_sums_after_a_step_are_those_at_the_new_parameters(x):
    state = begun(x[:300])
    after = state.step(observe(Block(x[300:350]), state.model.mean))
    gain = state._gain(50)
    new = expect(state.model, observe(Block(x[300:350]), state.model.mean)).scaled(1 / 50)
    stepped = maximise(state.model, state.sums.scaled(1 - gain).merge(new.scaled(gain)), state.floor)
    change = theta_of(stepped) - theta_of(state.model)
    wanted = state.sums.scaled(1 - gain).squares_after(change) + new.scaled(gain).squares_after(change)
    assert_allclose(after.sums.squares, wanted, rtol=1e-9)
    moments = latent_moments(after.sums)
    assert_allclose(moments.mean, 0.0, atol=1e-12)
    assert_allclose(moments.covariance, np.eye(Q), atol=1e-12)
