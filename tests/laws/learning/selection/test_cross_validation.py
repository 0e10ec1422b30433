"""Cross-validation of cells: folds, scores by a slow twin, the rule of one standard error."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import norm

from oracles import dense_condition, dense_covariance, random_model, spiked_rows
from probpca import DataError
from probpca.blocks import Block
from probpca.blocks.block import dense_values, joined
from probpca.learning import Settings
from probpca.learning.selection.cross_validation import Fold, Listed, Scores, _with_finished, cross_validate, deal
from probpca.learning.settings import FoldSettings
from probpca.models import Gaussian

FOLDS = 5
FINISHED = FoldSettings(gain=-np.inf)  # whose fits are all finished


def holed(rng, x, share):
    return np.where(rng.random(x.shape) < share, np.nan, x)


def validated(x, largest=6, *, weight=None, seed=0, **options):
    block = x if isinstance(x, Block) else Block(x, weight)
    return cross_validate(block, largest, np.random.default_rng(seed), **options)


def counts_by(index, folds, size):
    """Cells that each row, or each column, loses in each fold: (size, folds)."""
    table = np.zeros((size, FOLDS), int)
    np.add.at(table, (index, folds), 1)
    return table


@pytest.mark.parametrize(("n", "d"), [(20, 10), (33, 12), (7, 3), (4, 30)])
def test_rows_and_columns_of_a_complete_table_lose_the_same_in_every_fold(rng, n, d):
    cells = Listed.of(Block(rng.standard_normal((n, d))))
    folds = deal(cells, FOLDS, rng)
    rows, columns = counts_by(cells.rows, folds, n), counts_by(cells.columns, folds, d)
    assert np.ptp(rows, axis=1).max() <= 1
    assert np.ptp(columns, axis=1).max() <= 1


def test_columns_lose_the_same_among_rows_with_the_same_holes(rng):
    x = rng.standard_normal((60, 12))
    x[rng.permutation(60)[:30], :4] = np.nan
    cells = Listed.of(Block(x))
    folds = deal(cells, FOLDS, rng)
    assert np.ptp(counts_by(cells.columns, folds, 12), axis=1).max() <= 2


@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.1, 0.5, 0.9]))
def test_no_row_and_no_column_with_two_cells_loses_all_of_them(seed, share):
    rng = np.random.default_rng(seed)
    x = holed(rng, rng.standard_normal((30, 11)), share)
    cells = Listed.of(Block(x))
    folds = deal(cells, FOLDS, rng)
    for index, size in ((cells.rows, 30), (cells.columns, 11)):
        lost = counts_by(index, folds, size)
        seen = lost.sum(axis=1)
        assert (lost.max(axis=1)[seen > 1] < seen[seen > 1]).all()
    by_row = counts_by(cells.rows, folds, 30)
    assert np.median(np.ptp(by_row, axis=1)) <= 1


def test_the_cells_of_columns_are_spread_even_if_few_were_observed(rng):
    x = holed(rng, rng.standard_normal((400, 20)), 0.7)
    cells = Listed.of(Block(x))
    lost = counts_by(cells.columns, deal(cells, FOLDS, rng), 20)
    share = lost / lost.sum(axis=1, keepdims=True)
    assert np.abs(share - 1 / FOLDS).max() < 0.15


def dense_scores(model, x, out):
    """Log density of each held-out cell given the training cells of its row, one at a time: (n,)."""
    total = np.zeros(len(x))
    joint = Gaussian(model.mean, dense_covariance(model))
    for i, j in zip(*np.nonzero(out), strict=True):
        known = np.flatnonzero(~np.isnan(x[i]) & ~out[i])
        if known.size == 0:
            mean, variance = model.mean[j], joint.covariance[j, j]
        else:
            kept = np.append(known, j)
            part = Gaussian(model.mean[kept], joint.covariance[np.ix_(kept, kept)])
            found, covariance = dense_condition(part, np.arange(known.size), x[i, known])
            mean, variance = found[0, 0], covariance[0, 0]
        total[i] += norm.logpdf(x[i, j], mean, np.sqrt(variance))
    return total


def fold_of(block, out, q=2):
    cells = Listed.of(block)
    return Fold.of(block, cells, out[cells.rows, cells.columns], q, Settings(), np.random.default_rng(0))


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_held_out_cells_are_scored_by_their_conditional_density(rng, share, form):
    model = random_model(rng, 7, 2)
    x = holed(rng, 3 * rng.standard_normal((40, 7)), share)
    out = (rng.random(x.shape) < 0.3) & ~np.isnan(x)
    out[5] = ~np.isnan(x[5])  # nothing is left of this row
    if form == "sparse":
        stored = sparse.csr_array((x[~np.isnan(x)], np.nonzero(~np.isnan(x))), shape=x.shape)
        block = Block(stored, unstored_missing=True)
    else:
        block = Block(x)
    assert_allclose(fold_of(block, out).score(model), dense_scores(model, x, out), rtol=1e-9)


def test_a_cell_known_with_more_precision_is_scored_so(rng):
    model, x = random_model(rng, 5, 2), rng.standard_normal((20, 5))
    out = np.zeros(x.shape, bool)
    out[:, 2] = np.arange(20) % 2 == 0
    precise = Block(x, precision=np.where(np.arange(5) == 2, 4.0, 1.0) * np.ones(x.shape))
    found = fold_of(precise, out).score(model)
    sharp = replace(model, noise_variance=model.noise_variance * np.where(np.arange(5) == 2, 0.25, 1.0))
    assert_allclose(found, dense_scores(sharp, x, out), rtol=1e-9)


def test_cells_of_a_column_without_others_are_not_scored(rng):
    x = rng.standard_normal((20, 5))
    x[1:, 3] = np.nan
    out = np.zeros(x.shape, bool)
    out[:2, 3], out[:2, 4] = True, True
    out &= ~np.isnan(x)
    fold = fold_of(Block(x), out)
    assert fold.held.columns.tolist() == [4, 4]


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("q", [1, 3])
def test_strong_directions_are_counted_exactly(rng, share, q):
    x = holed(rng, spiked_rows(rng, 200, 12, q, noise=0.05), share)
    assert validated(x).choice == q


def test_strong_directions_of_a_wide_table_are_counted_exactly(rng):
    assert validated(spiked_rows(rng, 50, 80, 2, noise=0.02, largest=2.0)).choice == 2


def test_noise_alone_has_one_component():
    for seed in range(3):
        assert validated(np.random.default_rng(seed).standard_normal((100, 8))).choice == 1


# How far it looks


def test_a_search_ends_when_enough_numbers_in_a_row_were_no_better(rng):
    x = holed(rng, spiked_rows(rng, 150, 30, 3, noise=0.03), 0.1)
    found = validated(x, 20)
    assert found.choice == 3
    assert len(found.rows) == 10  # so many are looked at in any case
    assert len(validated(x, 20, how=FoldSettings(least=1, patience=4)).rows) == 7
    assert len(validated(x, 4).rows) == 4


def test_a_number_of_components_beyond_some_that_predict_worse_is_found(rng):
    x = spiked_rows(rng, 150, 10, 3)
    x = x / x.std(axis=0)  # noise that differs between columns
    near, far = (validated(x, 9, how=replace(FINISHED, least=k, patience=p)) for k, p in ((1, 2), (10, 5)))
    assert near.choice == 3
    assert validated(x, 9).choice > 5
    assert (far.mean[3:5] < far.mean[2]).all()
    assert far.choice > 5
    short, error = far.shortfall()
    assert short[2] > 2 * error[2]


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("noise", [0.0, 1e-8, 1e-4])
@pytest.mark.parametrize(("n", "d", "q"), [(200, 20, 3), (60, 30, 4)])
def test_the_rank_of_rows_with_little_noise_or_none_is_found(n, d, q, noise, share):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, q)) @ rng.standard_normal((q, d)) + noise * rng.standard_normal((n, d))
        assert validated(holed(rng, x, share), d - 1).choice == q


def test_a_fit_that_explains_all_of_its_cells_does_not_call_others_impossible(rng):
    x = rng.standard_normal((17, 7))
    sure, unsure = (validated(x, 6, how=replace(FINISHED, least_noise=share)) for share in (1e-12, 1e-6))
    assert sure.mean[-1] < -1e6
    assert unsure.mean[-1] > -0.5 * np.square(np.ptp(x)) / (1e-6 * x.var()) / 10
    assert sure.choice == unsure.choice == 1


@pytest.mark.parametrize("noise", [1.0, 0.1])
def test_fits_of_a_few_steps_choose_as_finished_ones_do(noise):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((100, 2)) @ rng.standard_normal((2, 8)) + noise * rng.standard_normal((100, 8))
        x = holed(rng, x, 0.2)
        few, finished = (validated(x, 4, how=how) for how in (FoldSettings(), FINISHED))
        assert few.choice == finished.choice


def test_a_fit_whose_steps_still_gain_much_is_finished(rng):
    x = holed(rng, rng.standard_normal((100, 2)) @ rng.standard_normal((2, 8)), 0.2)
    cells = Listed.of(Block(x))
    out = rng.random(cells.rows.size) < 0.2
    values = []
    for gain in (np.inf, 1e-6, -np.inf):
        settings = Settings(tol=0.1, folds=FoldSettings(gain=gain))
        fold = Fold.of(Block(x), cells, out, 2, settings, np.random.default_rng(0))
        model = fold.grown(fold.grown(None))
        values.append(fold.problem.steps(model)[1])
    assert values[0] < values[1] - 100
    assert_allclose(values[1], values[2], atol=1.0)


@pytest.mark.parametrize("gains", [[0.0, 0.0, 0.0, 0.0], [0.0, 0.9, 0.0, 0.0], [0.0, 0.0, -0.5, 0.0]])
def test_what_is_chosen_was_finished_and_so_was_one_less(gains):
    rough = Scores(np.array([[1.0], [2.0], [3.0], [2.5]]) + np.zeros(50), np.ones(50), 50.0)
    finished = []

    def finish(q):
        finished.append(q)
        return rough.rows[q - 1] + gains[q - 1]

    found = _with_finished(rough, finish)
    assert {found.choice, max(found.choice - 1, 1)} <= set(finished)
    assert len(finished) == len(set(finished)) < 4
    assert_allclose(found.mean[np.array(finished) - 1], (rough.mean + gains)[np.array(finished) - 1])


def test_the_search_says_how_far_it_has_come(rng):
    told = []
    validated(rng.standard_normal((40, 5)), 4, tell=told.append)
    assert told == [f"cv: {q} of at most 4 components" for q in (1, 2, 3, 4)]


def test_sparse_cells_are_the_same_as_dense_ones(rng):
    x = holed(rng, spiked_rows(rng, 80, 9, 2), 0.4)
    stored = sparse.csr_array((x[~np.isnan(x)], np.nonzero(~np.isnan(x))), shape=x.shape)
    dense, thin = validated(x, 3), validated(Block(stored, unstored_missing=True), 3)
    assert_allclose(thin.mean, dense.mean, rtol=1e-6)
    zeros = np.where(rng.random(x.shape) < 0.5, 0.0, np.nan_to_num(x))
    assert_allclose(validated(Block(sparse.csr_array(zeros)), 2).mean, validated(zeros, 2).mean, rtol=1e-9)


def test_units_and_origin_shift_the_score_and_nothing_else(rng):
    x = holed(rng, spiked_rows(rng, 80, 9, 2), 0.1)
    plain, moved = validated(x, 4), validated(1e3 * x + 5e3, 4)
    assert_allclose(moved.mean + np.log(1e3), plain.mean, atol=1e-6)
    assert moved.choice == plain.choice


def test_the_same_seed_gives_the_same_answer_with_any_number_of_threads(rng):
    x = holed(rng, spiked_rows(rng, 80, 9, 2), 0.1)
    one = validated(x, 4)
    assert_array_equal(one.rows, validated(x, 4).rows)
    assert_array_equal(one.rows, validated(x, 4, n_jobs=2).rows)
    assert not np.array_equal(one.rows, validated(x, 4, seed=1).rows)


def test_doubling_all_weights_changes_the_standard_error_alone(rng):
    x = spiked_rows(rng, 80, 9, 2)
    once, twice = validated(x, 4), validated(x, 4, weight=np.full(80, 2.0))
    assert_allclose(twice.mean, once.mean, rtol=1e-9)
    short, error = once.shortfall()
    assert_allclose(twice.shortfall()[0], short, atol=1e-12)
    assert_allclose(twice.shortfall()[1], error * np.sqrt(79 / 159), rtol=1e-6)


def test_the_fewest_components_within_one_standard_error_are_chosen(rng):
    best = rng.standard_normal(100)
    slightly, clearly = best - 0.05 + rng.standard_normal(100), best - 0.5 + 0.1 * rng.standard_normal(100)
    scores = Scores(np.array([clearly, slightly, best]), np.ones(100), 300.0)
    short, error = scores.shortfall()
    difference = best - slightly
    assert_allclose(short[1], difference.sum() / 300)
    assert_allclose(error[1], np.sqrt(100) * difference.std(ddof=1) / 300)
    assert short[2] == error[2] == 0
    assert scores.choice == (2 if short[1] <= error[1] else 3)
    # Paired: rows that are hard for every number of components do not blur the comparison.
    hard = 50 * rng.standard_normal(100)
    assert_allclose(Scores(scores.rows + hard, scores.weight, 300.0).shortfall()[1], error, atol=1e-12)
    assert Scores(np.array([clearly, best]), np.ones(100), 200.0).choice == 2


def test_negligible_differences_count_for_nothing(rng):
    one = rng.standard_normal(100)
    barely = Scores(np.array([one - 1.0, one, one + 0.005, one + 0.01]), np.ones(100), 300.0)
    assert barely.choice == 4  # certain, but small
    exact = barely._replace(negligible=0.02 / 3)
    assert exact.choice == exact.leader == 2


def test_no_more_components_are_chosen_than_of_a_number_that_predicts_better(rng):
    best = rng.standard_normal(100)
    fewer = best - 0.1
    broken = best - np.where(np.arange(100) == 7, 1e6, 0.0)  # one row is impossible to it
    scores = Scores(np.array([fewer, broken, best]), np.ones(100), 300.0)
    short, error = scores.shortfall()
    assert short[1] <= error[1] * (1 + 1e-9)
    assert scores.choice == 3


def test_weights_are_repetitions_in_the_rule(rng):
    rows, times = rng.standard_normal((3, 50)), rng.integers(1, 4, 50)
    weighted = Scores(rows, times.astype(float), 2.0 * times.sum())
    repeated = Scores(np.repeat(rows, times, axis=1), np.ones(times.sum()), 2.0 * times.sum())
    assert_allclose(weighted.mean, repeated.mean, rtol=1e-12)
    assert_allclose(weighted.shortfall(), repeated.shortfall(), rtol=1e-12)


def test_a_table_too_small_to_hold_anything_out_is_refused():
    with pytest.raises(DataError, match=r"cross-validation needs enough cells(.|\n)*Hint"):
        validated(np.array([[1.0, np.nan], [np.nan, 2.0], [1.0, np.nan]]), 1)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_blocks_are_put_together_as_they_were_cut(rng, form):
    x, weight = rng.standard_normal((20, 4)), rng.uniform(1.0, 2.0, 20)
    stored = sparse.csr_array(np.where(rng.random(x.shape) < 0.5, x, 0.0))
    values, precision = (x, rng.random(x.shape)) if form == "dense" else (stored, rng.random(stored.nnz))
    block = Block(values, weight, precision, form == "sparse")
    found = joined([block.take(slice(0, 7)), block.take(slice(7, 8)), block.take(slice(8, 20))])
    assert_array_equal(dense_values(found), dense_values(block))
    assert_array_equal(found.weight, weight)
    assert_array_equal(found.precision, precision)
    assert found.unstored_missing == block.unstored_missing
    assert joined([Block(x[:5]), Block(x[5:])]).weight is None
