"""Parallel analysis: eigenvalues of correlations, those of chance, and the number of components between them."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from oracles import MONTE_CARLO, spiked_rows
from probpca import PPCA
from probpca.blocks import as_block
from probpca.learning import Settings
from probpca.learning.complete.closed_form import first_pass
from probpca.learning.components import Count, Rule
from probpca.learning.describe import describe
from probpca.learning.selection.correlations import correlations_of, correlations_of_moments, count_by_parallel
from probpca.learning.selection.parallel_analysis import Scree, null_eigenvalues, scree
from probpca.learning.settings import ParallelSettings
from probpca.sources import open_source
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import Moments

WIDE = 2001
"""Columns beyond which missing cells are not allowed for pair by pair."""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """These matrices are small: threads would only wait for each other."""
    with one_blas_thread():
        yield


def counted(x, limit=50, **options):
    """Number of components, ratios and notes of the rows of any source."""
    rng = np.random.default_rng(0)
    source = open_source(x, **options)
    table = describe(source, rng, partial(first_pass, Rule("parallel"), Settings()))
    return count_by_parallel(correlations_of(table, Settings(), rng), limit)


def correlations(x, solver="auto", **options):
    rng = np.random.default_rng(0)
    table = describe(open_source(x, **options), rng, partial(first_pass, Count(2), Settings(solver)))
    return correlations_of(table, Settings(solver), rng)


def uneven_rows(rng, n, d, q, spread=3.0, strength=(12.0, 9.0, 6.0)):
    """Rows with q strong components, in columns whose noise variances differ by ``spread`` squared."""
    noise = np.geomspace(1 / spread, spread, d)[rng.permutation(d)]
    axes = np.linalg.qr(rng.standard_normal((d, q)))[0]
    size = np.sqrt(np.resize(strength, q) * np.sqrt(d / n))
    latent = (rng.standard_normal((n, q)) * size) @ axes.T
    return (latent + rng.standard_normal((n, d))) * np.sqrt(noise)


# Chance


@pytest.mark.parametrize(("n", "d"), [(60, 8), (7, 6), (30, 30), (20, 45)])
def test_chance_is_that_of_correlations_of_independent_columns(n, d):
    rng, draws = np.random.default_rng(1), 400
    values = [
        np.linalg.eigvalsh(np.corrcoef(rng.standard_normal((n, d)), rowvar=False))[::-1][:3] for _ in range(draws)
    ]
    wanted, error = np.quantile(values, 0.95, axis=0), np.std(values, axis=0) * np.sqrt(4.3 / 100 + 4.3 / draws)
    assert (np.abs(null_eigenvalues(n, d, 3) - wanted) < MONTE_CARLO * error).all()


@pytest.mark.parametrize(("n", "d"), [(300, 210), (90, 220)])
def test_chance_of_many_columns_is_that_of_wishart_matrices(n, d):
    rng, draws = np.random.default_rng(1), 60
    values = []
    for _ in range(draws):
        x = rng.standard_normal((n, d))
        x -= x.mean(axis=0)
        product = x @ x.T if n < d else x.T @ x
        values.append(np.linalg.eigvalsh(product)[::-1][:4] * (d / np.trace(product)))
    wanted, error = np.quantile(values, 0.95, axis=0), np.std(values, axis=0) * np.sqrt(4.3 / 100 + 4.3 / draws)
    assert (np.abs(null_eigenvalues(n, d, 4) - wanted) < MONTE_CARLO * error).all()


def test_the_corner_of_a_tridiagonal_matrix_has_its_leading_eigenvalues():
    """Draws of the whole matrix are others than those of its corner: quantiles of many draws agree."""
    few, whole = (
        null_eigenvalues(5000, 1000, 5, ParallelSettings(draws=(400, 400), corner=corner)) for corner in (8.0, 1e9)
    )
    assert_allclose(few, whole, rtol=2e-3)


def test_where_exact_draws_end_chance_changes_little():
    exact, beyond = (
        null_eigenvalues(600, 180, 5, ParallelSettings(draws=(200, 200), exact=most)) for most in (200, 100)
    )
    assert (beyond > exact).all()  # careful
    assert_allclose(beyond, exact, rtol=0.015)


@pytest.mark.parametrize(("n", "d"), [(2, 5), (3, 2), (4.5, 7), (1e9, 12), (3, 300), (2, 300)])
def test_chance_of_any_size_of_table_is_finite(n, d):
    null = null_eigenvalues(n, d, 1)
    assert np.isfinite(null).all()
    assert 1 - 1e-12 <= null[0] <= d * (1 + 1e-12)


def test_chance_is_the_same_in_every_call():
    assert_allclose(null_eigenvalues(80, 12, 4), null_eigenvalues(80, 12, 11)[:4], rtol=0)
    assert_allclose(null_eigenvalues(80, 12, 4), null_eigenvalues(80, 12, 4), rtol=0)


# Eigenvalues of correlations


@pytest.mark.parametrize("solver", ["auto", "covariance", "gram", "svd", "krylov"])
@pytest.mark.parametrize("kind", ["array", "single", "sparse", "weighted"])
@pytest.mark.parametrize(("n", "d"), [(90, 12), (40, 70)])
def test_eigenvalues_are_those_of_the_correlation_matrix(rng, solver, kind, n, d):
    x = spiked_rows(rng, n, d, 3, noise=0.5) * np.geomspace(0.1, 1000, d) + 5.0
    x[:, 4] = 7.0  # a constant column has no correlations
    kept = np.delete(np.arange(d), 4)
    rows, options, repeated = x, {}, x
    if kind == "single":
        rows = repeated = x.astype(np.float32)
    elif kind == "sparse":
        repeated = np.where(rng.random(x.shape) < 0.6, 0.0, x)
        repeated[:, 4] = 7.0
        rows = sparse.csr_array(repeated)
    elif kind == "weighted":
        times = rng.integers(0, 4, n)
        options, repeated = {"weight": times.astype(float)}, np.repeat(x, times, axis=0)
    found = correlations(rows, solver, **options)
    wanted = np.linalg.eigvalsh(np.corrcoef(repeated[:, kept].astype(float), rowvar=False))[::-1]
    assert (found.n_rows, found.n_features) == (len(repeated), d - 1)
    assert_allclose(found.leading(5), wanted[:5], rtol=2e-5 if kind == "single" else 1e-7)


def test_rows_that_can_be_read_once_are_enough(rng):
    x = spiked_rows(rng, 90, 12, 3, noise=0.5)
    found = counted(iter(np.array_split(x, 4)))
    assert_allclose(found.curve.score, counted(x).curve.score, rtol=1e-9)


def pairs_by_definition(x, weight):
    """Weighted correlations over the rows in which both columns were observed, one pair after the other."""
    d = x.shape[1]
    seen, matrix, noise = ~np.isnan(x), np.eye(d), []
    share = weight @ seen / weight[seen.any(axis=1)].sum()
    mean = [np.average(x[seen[:, j], j], weights=weight[seen[:, j]]) for j in range(d)]
    std = [np.sqrt(np.average((x[seen[:, j], j] - mean[j]) ** 2, weights=weight[seen[:, j]])) for j in range(d)]
    for j in range(d):
        for k in range(d):
            both = seen[:, j] & seen[:, k]
            count = weight[both].sum()
            if j != k and count:
                product = ((x[both, j] - mean[j]) * (x[both, k] - mean[k]) * weight[both]).sum()
                matrix[j, k] = np.sqrt(share[j] * share[k]) * product / count / std[j] / std[k]
                noise.append(share[j] * share[k] / count)
    return np.linalg.eigvalsh(matrix)[::-1], 1 / np.mean(noise)


@pytest.mark.parametrize("kind", ["array", "weighted", "sparse", "blocks"])
def test_missing_cells_are_allowed_for_pair_by_pair(rng, kind, tmp_path):
    x = spiked_rows(rng, 80, 9, 2, noise=0.5) * np.geomspace(0.1, 1000, 9) + 5.0
    x[rng.random(x.shape) < np.linspace(0, 0.7, 9)] = np.nan
    x[7] = np.nan
    weight, rows, options = np.ones(80), x, {}
    if kind == "weighted":
        weight = rng.uniform(0.01, 1.0, 80)
        options = {"weight": weight}
    elif kind == "sparse":
        seen = ~np.isnan(x)
        rows = sparse.csr_array((x[seen], np.nonzero(seen)), shape=x.shape)
        options = {"unstored_missing": True}
    elif kind == "blocks":
        rows = tmp_path / "x.npy"
        np.save(rows, x)
    found = correlations(rows, **options)
    values, n = pairs_by_definition(x, weight)
    assert_allclose(found.n_rows, n, rtol=1e-10)
    assert_allclose(found.leading(4), values[:4], rtol=1e-10)


def test_a_missing_cell_in_a_large_table_changes_little(rng):
    x = spiked_rows(rng, 200, 10, 2, noise=0.5)
    whole = counted(x)
    x[3, 4] = np.nan
    assert_allclose(counted(x).curve.score, whole.curve.score, rtol=0.02)


@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_missing_cells_of_many_columns_are_filled_with_means(rng, kind):
    x = rng.standard_normal((30, WIDE)) + rng.standard_normal((30, 1))
    x[rng.random(x.shape) < 0.3] = np.nan
    filled = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
    wanted = np.linalg.svd((filled - filled.mean(axis=0)) / filled.std(axis=0), compute_uv=False)[:4] ** 2 / 30
    rows, options = x, {}
    if kind == "sparse":
        seen = ~np.isnan(x)
        rows, options = sparse.csr_array((x[seen], np.nonzero(seen)), shape=x.shape), {"unstored_missing": True}
    assert_allclose(correlations(rows, **options).leading(4), wanted, rtol=1e-6)


def test_columns_that_were_never_observed_together_are_named(rng):
    x = spiked_rows(rng, 60, 6, 2)
    x[:30, 1], x[30:, 4] = np.nan, np.nan
    (note,) = [note for note in counted(x).notes if "never observed together" in note]
    assert note.startswith("1 pair of columns was never observed together (first: columns 1 and 4, counted from 0)")


# The number of components


@pytest.mark.parametrize("spread", [1.0, 3.0, 30.0])
def test_strong_components_are_found_whatever_the_noise_of_each_column(spread):
    found = [counted(uneven_rows(np.random.default_rng(seed), 300, 20, 3, spread)).n_components for seed in range(10)]
    assert found.count(3) >= 9


def test_strong_components_are_found_though_cells_are_missing():
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = uneven_rows(rng, 300, 20, 3)
        x[rng.random(x.shape) < 0.2] = np.nan
        found.append(counted(x).n_components)
    assert found.count(3) >= 9


def test_noise_alone_raises_a_false_alarm_in_one_table_of_twenty():
    rng, sets = np.random.default_rng(7), 200
    alarms = sum(counted(rng.standard_normal((40, 5))).curve.score[0] > 1 for _ in range(sets))
    assert abs(alarms / sets - 0.05) < MONTE_CARLO * np.sqrt(0.05 * 0.95 * (1 / sets + 1 / 100))


def test_noise_alone_has_one_component_and_says_so():
    found = counted(np.random.default_rng(0).standard_normal((150, 20)))
    assert found.n_components == 1
    assert found.notes == ("The correlations do not exceed chance; the minimum of one is fitted.",)


@pytest.mark.parametrize(("load", "count"), [(load_iris, 1), (load_wine, 3), (load_breast_cancer, 5)])
def test_real_tables_have_the_number_that_parallel_analysis_is_known_to_give(load, count):
    for standardize in (False, True):
        assert PPCA(standardize=standardize).fit(load().data).n_components_ == count


def test_more_components_than_are_compared_at_first_are_found(rng):
    x = uneven_rows(rng, 2000, 60, 20, strength=(40.0,))
    assert counted(x).n_components == 20
    assert counted(x, limit=7).n_components == 7


def test_one_column_that_varies_is_no_component(rng):
    x = np.zeros((20, 5))
    x[:, 2] = rng.standard_normal(20)
    found = counted(x)
    assert found.n_components == 1
    assert found.curve.score[0] <= 1


@pytest.mark.parametrize("holes", [False, True])
def test_columns_that_hardly_vary_beside_their_mean_are_no_components(rng, holes):
    x = 1e10 + 1e-4 * rng.standard_normal((30, 5))
    x[rng.random(x.shape) < 0.1 * holes] = np.nan
    assert PPCA(random_state=0).fit(x).n_components_ == 1


def test_units_and_the_order_of_rows_do_not_matter(rng):
    x = uneven_rows(rng, 80, 12, 2)
    x[rng.random(x.shape) < 0.1] = np.nan
    moved = (x * np.geomspace(1e-30, 1e30, 12))[rng.permutation(80)]
    assert_allclose(counted(moved).curve.score, counted(x).curve.score, rtol=1e-8)


# What a fit says about it


def test_a_fit_names_the_choice_of_bic_if_it_is_another_one(rng):
    uneven = uneven_rows(rng, 500, 12, 2, spread=30.0)
    fitted, choice = PPCA().fit(uneven), PPCA("bic").fit(uneven).n_components_
    assert fitted.n_components_ == 2 < choice
    assert [note.split(":")[0] for note in fitted.notes_] == [f"BIC would choose {choice}"]
    assert f"note              BIC would choose {choice}: " in fitted.summary()


def test_a_fit_does_not_name_bic_if_it_agrees(rng):
    even = PPCA().fit(uneven_rows(rng, 500, 12, 2, spread=1.0))
    assert (even.n_components_, even.notes_) == (2, ())


def test_a_component_that_may_hide_others_is_named(rng):
    x = 3.0 * rng.standard_normal((200, 1)) + rng.standard_normal((200, 8))
    for rows in (x, np.where(rng.random(x.shape) < 0.1, np.nan, x)):
        assert any("parallel analysis may miss weaker ones" in note for note in PPCA().fit(rows).notes_)


@pytest.mark.parametrize("solver", ["em", "px_em", "gradient"])
def test_every_solver_takes_the_same_number(rng, solver):
    x = uneven_rows(rng, 300, 8, 2)
    assert PPCA(solver=solver, random_state=0).fit(x).n_components_ == PPCA().fit(x).n_components_ == 2


def test_a_stream_takes_the_number_of_a_fit(rng):
    x = uneven_rows(rng, 400, 15, 3)
    streamed = PPCA()
    for part in np.array_split(x, 7):
        streamed.partial_fit(part)
    fitted = PPCA().fit(x)
    assert (streamed.n_components_, streamed.rule_, streamed.notes_) == (3, fitted.rule_, fitted.notes_)


def test_a_constant_column_of_a_sketch_does_not_vary(rng):
    x = rng.standard_normal((60, WIDE)) + 1.0
    x[:, 7] = 1234567.891
    streamed = PPCA()
    for part in np.array_split(x, 9):
        streamed.partial_fit(part)
    assert streamed.column_std_[7] == 0
    assert_allclose(np.delete(streamed.column_std_, 7), np.delete(x.std(axis=0), 7), rtol=1e-9)
    assert "-fold (" not in streamed.summary()


def test_a_sketch_of_many_columns_finds_strong_components(rng):
    x = uneven_rows(rng, 150, WIDE, 3, strength=(60.0, 50.0, 40.0))
    streamed = PPCA()
    for part in np.array_split(x, 3):
        streamed.partial_fit(part)
    assert (streamed.n_components_, streamed.rule_) == (3, "parallel analysis")


# Eigenvalues to draw


def test_a_scree_holds_the_eigenvalues_beside_those_of_chance():
    x = uneven_rows(np.random.default_rng(3), 200, 20, 3)
    found = scree(correlations(x), 50)
    assert_allclose(found.values, np.linalg.eigvalsh(np.corrcoef(x.T))[::-1])
    assert_allclose(found.by_chance, null_eigenvalues(200, 20, 20))
    assert found.values.sum() == pytest.approx(found.n_features)
    some = scree(correlations(x), 3)
    assert_allclose([some.values, some.by_chance], [found.values[:3], found.by_chance[:3]])
    assert found.n_above == counted(x).n_components == 3


@pytest.mark.parametrize(("n", "d"), [(6, 9), (3, 2), (200, 250)])
def test_a_scree_has_no_more_eigenvalues_than_rows_and_columns(n, d):
    found = scree(correlations(np.random.default_rng(0).standard_normal((n, d))), 300 if n < 100 else 4)
    assert found.values.size == found.by_chance.size == min(n - 1, d, 4 if d > 100 else d)


def test_eigenvalues_above_chance_are_counted_up_to_the_first_below():
    chance = np.ones(4)
    for values, count in [([3, 2, 0.5, 1.5], 2), ([0.5, 2, 2, 2], 0), ([2, 2, 2, 2], 4)]:
        assert Scree(np.array(values, float), chance, 4).n_above == count


def test_moments_have_the_correlations_of_their_rows():
    x = uneven_rows(np.random.default_rng(3), 60, 8, 2) * np.geomspace(1e-3, 1e3, 8)
    x[:, 3] = 7.0
    of_moments, of_rows = correlations_of_moments(Moments.of(as_block(x))), correlations(x)
    assert (of_moments.n_rows, of_moments.n_features) == (of_rows.n_rows, of_rows.n_features) == (60, 7)
    assert_allclose(of_moments.leading(7), of_rows.leading(7))
