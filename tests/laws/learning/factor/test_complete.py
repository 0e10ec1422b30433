"""Factor analysis of complete rows: the same fit in any units, order, form and number of pieces."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_wine

from oracles import assert_never_falls, dense_covariance, dense_log_likelihood, random_model
from probpca import DataError, ShapeError
from probpca.inference import sample
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.components import Count, Rule, Share
from probpca.learning.describe import describe
from probpca.learning.factor.complete import first_pass, fit_complete, fit_moments, ledermann_bound
from probpca.learning.settings import FactorSettings, SearchLimits
from probpca.sources import open_source
from probpca.statistics import ColumnSummary, Moments, Root

Q = 3
TIGHT = Settings(tol=1e-9)
FORMS = {
    "newton": FactorSettings(newton_features=10**6, newton_features_few_rows=10**6),
    "matrix": FactorSettings(newton_features=1, newton_features_few_rows=10**6),
    "few rows": FactorSettings(newton_features_few_rows=1, matrix_features=1, gram_rows=10**6),
    "many columns": FactorSettings(newton_features_few_rows=1, matrix_features=1, gram_rows=1),
}


def fit(rows, wanted=Q, settings=TIGHT, *, seed=0, weight=None, n_jobs=None):
    source, rng = open_source(rows, weight=weight, n_jobs=n_jobs), np.random.default_rng(seed)
    table = describe(source, rng, partial(first_pass, settings), settings.sample)
    return fit_complete(table, Count(wanted) if isinstance(wanted, int) else wanted, settings, rng)


def assert_same_fit(found, wanted, *, digits=1e-8):
    assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=1e-10)
    scale = np.sqrt(np.diag(dense_covariance(wanted.model)))
    assert_allclose(found.model.mean, wanted.model.mean, rtol=1e-10, atol=1e-10 * scale.max())
    assert_allclose(found.model.noise_variance, wanted.model.noise_variance, rtol=digits)
    assert_allclose(found.model.loadings, wanted.model.loadings, atol=digits * scale.max())


@pytest.fixture
def model(rng):
    return random_model(rng, 10, Q, noise="diagonal")


@pytest.fixture
def x(rng, model):
    return sample(model, 120, rng=rng)


def dependent(x):
    return np.column_stack([x, x[:, 0], x[:, 1] + x[:, 2]])


def constant(x):
    return np.column_stack([x, np.full(len(x), 3.7)])


def wide(_):
    rng = np.random.default_rng(0)
    return sample(random_model(rng, 40, Q, noise="diagonal"), 25, rng=rng)


TABLES = {"plain": np.asarray, "dependent columns": dependent, "a constant column": constant, "n < d": wide}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", TABLES)
def test_the_log_likelihood_is_that_of_the_rows_under_the_model(x, kind, form):
    rows = TABLES[kind](x)
    found = fit(rows, settings=replace(TIGHT, factor=FORMS[form]))
    by_row = found.model.covariance  # the dense inverse has no digits left at the floor
    distance = by_row.squared_mahalanobis(rows - found.model.mean)
    value = -0.5 * (distance + rows.shape[1] * np.log(2 * np.pi) + by_row.logdet()).sum()
    assert_allclose(found.log_likelihood, value, rtol=1e-8)
    if kind in ("plain", "n < d"):
        assert_allclose(found.log_likelihood, dense_log_likelihood(found.model, rows).sum(), rtol=1e-9)
    assert found.trace[-1] == found.log_likelihood
    assert found.n_iter == len(found.trace) - 1
    assert_never_falls(found.trace)


@pytest.mark.parametrize("kind", ["plain", "n < d", "a constant column"])
@pytest.mark.parametrize("form", ["matrix", "few rows", "many columns"])
def test_every_form_of_the_correlations_gives_the_same_fit(x, kind, form):
    rows = TABLES[kind](x)
    wanted = fit(rows, settings=replace(TIGHT, factor=FORMS["newton"]))
    found = fit(rows, settings=replace(TIGHT, factor=FORMS[form]))
    assert found.status is wanted.status is Status.CONVERGED
    assert_same_fit(found, wanted, digits=1e-4)


def test_the_form_follows_the_shape_of_the_table(rng):
    def sums(n, d):
        settings = Settings(factor=FactorSettings(newton_features_few_rows=20, matrix_features=40, gram_rows=30))
        x = rng.standard_normal((n, d))
        table = describe(open_source(x), rng, partial(first_pass, settings), settings.sample)
        return type(table.sums).__name__

    assert sums(15, 20) == sums(60, 40) == "Moments"
    assert sums(15, 25) == sums(29, 50) == "Gram"
    assert sums(30, 50) == sums(60, 41) == "ColumnSummary"


def test_the_model_has_canonical_axes_and_keeps_the_variances(x):
    found = fit(x).model
    white = found.loadings / np.sqrt(found.noise_variance)[:, None]
    gram = white.T @ white
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10 * gram.max())
    assert_allclose(found.loadings, found.canonical().loadings, atol=1e-12)
    assert_allclose(np.diag(dense_covariance(found)), x.var(axis=0), rtol=1e-5)
    assert_allclose(found.mean, x.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("kind", ["plain", "dependent columns", "n < d"])
def test_units_change_nothing_but_units(rng, x, kind):
    rows = TABLES[kind](x)
    scale = 10.0 ** rng.uniform(-6, 6, rows.shape[1])
    wanted, found = fit(rows), fit(rows * scale)
    assert_array_equal(found.heywood, wanted.heywood)
    assert_allclose(found.column_std, wanted.column_std * scale, rtol=1e-12)
    shift = len(rows) * np.log(scale).sum()
    back = replace(found.model, mean=found.model.mean / scale).rescale(np.ones(scale.size))
    assert_allclose(found.log_likelihood + shift, wanted.log_likelihood, rtol=1e-9)
    assert_allclose(back.mean, wanted.model.mean, rtol=1e-9)
    assert_allclose(found.model.noise_variance / scale**2, wanted.model.noise_variance, rtol=1e-5)
    assert_allclose(found.model.loadings / scale[:, None], wanted.model.loadings, atol=1e-6 * np.abs(rows).max())


def test_the_order_of_rows_and_the_number_of_threads_change_nothing(rng, x):
    wanted = fit(x)
    assert_same_fit(fit(x[rng.permutation(len(x))]), wanted)
    assert_same_fit(fit(np.repeat(x, 20, axis=0), n_jobs=2), fit(np.repeat(x, 20, axis=0), n_jobs=1))


def test_a_row_of_weight_two_counts_as_two_rows(rng, x):
    w = rng.integers(1, 4, len(x))
    found = fit(x, weight=w.astype(float))
    assert_same_fit(found, fit(np.repeat(x, w, axis=0)))
    assert found.weight == w.sum()


def test_merged_moments_give_the_fit_of_all_rows(rng, x):
    parts = [Moments.of(block.take(slice(k, None, 7))) for k in range(7) for block in open_source(x).hold()]
    order = rng.permutation(7)
    moments = parts[order[0]]
    for k in order[1:]:
        moments = moments.merge(parts[k])
    found = fit_moments(moments, Count(Q), TIGHT, rng)
    assert_same_fit(found, fit(x), digits=1e-10)
    assert_same_fit(fit_moments(Moments.of(open_source(x).hold()[0]), Count(Q), TIGHT, rng), fit(x), digits=1e-12)


@pytest.mark.parametrize("d", [10, 40])
def test_rows_that_can_be_read_only_once_are_enough(rng, d):
    x = sample(random_model(rng, d, Q, noise="diagonal"), 60, rng=rng)
    settings = replace(TIGHT, factor=FactorSettings(matrix_features=20, newton_features_few_rows=20))
    batches = (x[start : start + 13] for start in range(0, 60, 13))
    table = describe(open_source(batches), rng, partial(first_pass, settings), settings.sample)
    assert isinstance(table.sums, Moments if d == 10 else Root)
    found = fit_complete(table, Count(Q), settings, rng)
    assert_same_fit(found, fit(x), digits=1e-4)
    assert found.weight == 60


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["plain", "n < d"])
def test_rows_in_a_file_are_fitted_as_rows_in_memory(tmp_path, x, kind, form):
    rows, settings = TABLES[kind](x), replace(TIGHT, factor=FORMS[form])
    np.save(tmp_path / "rows.npy", rows)
    assert_same_fit(fit(tmp_path / "rows.npy", settings=settings), fit(rows, settings=settings), digits=1e-4)


def test_a_table_of_which_only_columns_were_summarised_is_read_again(rng, x):
    table = describe(open_source(x), rng)
    assert isinstance(table.sums, ColumnSummary)
    assert_same_fit(fit_complete(table, Count(Q), TIGHT, rng), fit(x))


def test_sparse_and_float32_rows_are_fitted_as_what_they_hold(rng):
    x = rng.poisson(1.0, (80, 8)).astype(float)
    assert_same_fit(fit(sparse.csr_matrix(x), 2), fit(x, 2))
    assert_same_fit(fit(x.astype(np.float32), 2), fit(x, 2))


def test_one_start_does_not_depend_on_chance(x):
    for rows in (x, wide(x)):
        for form in FORMS.values():
            settings = replace(TIGHT, factor=form)
            one, two = fit(rows, settings=settings, seed=0), fit(rows, settings=settings, seed=1)
            assert one.log_likelihood == two.log_likelihood
            assert_array_equal(one.model.loadings, two.model.loadings)


def test_more_starts_are_never_worse(rng):
    gains = []
    for _ in range(20):
        x = rng.standard_normal((12, 10))  # without factors there are many local maxima
        gains.append(np.diff([fit(x, 2, replace(TIGHT, n_init=k)).log_likelihood for k in (1, 2, 10)]))
    assert np.min(gains) >= -1e-9
    assert np.sum(gains, axis=1).max() > 0.01


@pytest.mark.parametrize("seed", range(12))
def test_a_fit_is_not_below_that_of_the_factor_of_some_columns(seed):
    # One factor can be that of ten columns, or that of a pair that is nearly the same.
    rng = np.random.default_rng(seed)
    many = 0.8 * rng.standard_normal((200, 1)) + 0.6 * rng.standard_normal((200, 10))
    pair = rng.standard_normal((200, 1)) + 0.02 * rng.standard_normal((200, 2))
    alone = fit(many, 1).log_likelihood
    independent = norm.logpdf(pair, pair.mean(axis=0), pair.std(axis=0)).sum()
    assert fit(np.hstack([many, pair]), 1).log_likelihood > alone + independent


def test_where_the_noise_is_equal_the_fit_approaches_that_of_ppca(rng):
    # With d noise variances instead of one, twice the gain in log-likelihood has d - 1 degrees of freedom.
    x = sample(random_model(rng, 10, Q, noise=0.5), 20_000, rng=rng)
    ours, ppca = fit(x), fit_ppca(x, Q)
    gain = ours.log_likelihood - ppca.log_likelihood
    assert 0 < gain < 0.5 * (9 + 6 * np.sqrt(18))
    assert_allclose(ours.model.noise_variance, 0.5, rtol=0.1)
    assert_allclose(dense_covariance(ours.model), dense_covariance(ppca.model), atol=0.1)


def test_more_factors_are_more_likely(x):
    values = [fit(x, q).log_likelihood for q in range(1, 7)]
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("floor", [1e-6, 1e-3])
def test_a_repeated_column_is_flagged(x, floor):
    rows = np.column_stack([x, 5 * x[:, 3]])
    found = fit(rows, settings=replace(TIGHT, factor=FactorSettings(floor=floor)))
    assert_array_equal(found.heywood, [3, 10])
    assert found.status is Status.DEPENDENT_COLUMNS
    assert not found.status.converged
    assert np.isfinite(found.log_likelihood)
    assert_allclose(found.model.noise_variance[[3, 10]], floor * rows.var(axis=0)[[3, 10]], rtol=1e-6)


def test_rows_of_low_rank_leave_more_features_at_the_floor_than_factors(rng):
    rows = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 8))
    found = fit(rows, 3)
    assert found.heywood.size > 3
    assert found.status is Status.DEPENDENT_COLUMNS
    assert np.isfinite(found.log_likelihood)


def test_a_feature_without_noise_of_its_own_is_flagged_and_the_fit_has_converged(rng, x):
    rows = x.copy()
    rows[:, 0] = rows[:, 1:3].sum(axis=1) + 0.02 * rng.standard_normal(len(x))
    found = fit(rows)
    assert 1 <= found.heywood.size <= Q
    assert found.status is Status.CONVERGED
    assert fit(x).heywood.size == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_constant_column_has_no_loadings_and_leaves_the_others_alone(x, form):
    settings = replace(TIGHT, factor=FORMS[form])
    rows = np.insert(x, [0, 4], [3.7, -1e4], axis=1)
    found, without = fit(rows, settings=settings), fit(x, settings=settings)
    assert_array_equal(found.model.loadings[[0, 5]], 0.0)
    assert_allclose(found.model.noise_variance[[0, 5]], settings.factor.floor)
    assert_array_equal(found.column_std[[0, 5]], 0.0)
    assert found.heywood.size == without.heywood.size == 0
    kept = found.model.restrict(np.delete(np.arange(12), [0, 5]))
    assert_allclose(kept.loadings, without.model.loadings, atol=1e-9)
    assert_allclose(kept.noise_variance, without.model.noise_variance, rtol=1e-9)


def test_heywood_features_are_counted_among_all_columns(x):
    found = fit(np.insert(np.column_stack([x, x[:, 3]]), 0, 1.0, axis=1))
    assert_array_equal(found.heywood, [4, 11])


@pytest.mark.parametrize("q", [1, 4])
def test_nothing_but_one_column_varies(q):
    rows = np.ones((20, 5))
    rows[:, 2] = np.arange(20)
    found = fit(rows, q)
    assert found.model.n_components == q
    assert_allclose(dense_covariance(found.model)[2, 2], rows[:, 2].var(), rtol=1e-9)
    assert_allclose(found.log_likelihood, dense_log_likelihood(found.model, rows).sum(), rtol=1e-9)


def test_rows_that_differ_by_rounding_alone_are_refused():
    rows = np.full((20, 3), 1e8)
    rows[0] += 1e-5
    with pytest.raises(DataError, match="there is no variation to explain"):
        fit(rows, 1)


@pytest.mark.parametrize(("n", "q"), [(5, 4), (6, 5)])
def test_too_few_rows_for_so_many_factors(rng, n, q):
    assert fit(rng.standard_normal((n, 8)), n - 2).model.n_components == n - 2
    with pytest.raises(ShapeError, match=rf"at most n_samples - 2 = {n - 2} .* got {q}\.\nHint: .*fewer factors"):
        fit(rng.standard_normal((n, 8)), q)


@pytest.mark.parametrize("wanted", [1, Rule("parallel"), Rule("bic")])
def test_two_rows_are_too_few(rng, wanted):
    with pytest.raises(ShapeError, match=r"at least 3 rows are needed .* got n_samples=2"):
        fit(rng.standard_normal((2, 8)), wanted)


@pytest.mark.parametrize("wanted", [Share(0.9), Rule("evidence"), Rule("cv")])
def test_what_does_not_choose_factors_is_refused(x, wanted):
    with pytest.raises(ShapeError, match=r"factor analysis must be an int .*, 'parallel', 'bic', 'aic' or None"):
        fit(x, wanted)


@pytest.mark.parametrize("floor", [0.0, 1.0, -1.0])
def test_a_floor_that_is_no_share_of_variance_is_refused(floor):
    with pytest.raises(DataError, match="floor must lie between 0 and 1"):
        FactorSettings(floor=floor)


def test_the_ledermann_bound_is_the_largest_number_with_degrees_of_freedom():
    for d in range(1, 200):
        assert ledermann_bound(d) == max(q for q in range(d + 1) if (d - q) ** 2 >= d + q or q == 0)


def test_more_factors_than_the_bound_are_fitted_with_a_note(x):
    bound = ledermann_bound(10)
    assert fit(x, bound).notes == ()
    (note,) = fit(x, bound + 1).notes
    assert note.startswith(f"The Ledermann bound allows {bound} factors for 10 varying columns, fewer than {bound + 1}")


@pytest.mark.parametrize(("name", "penalty"), [("bic", 0.5 * np.log(120)), ("aic", 1.0)])
def test_a_criterion_chooses_the_number_with_the_best_penalised_likelihood(x, name, penalty):
    found = fit(x, Rule(name))
    scores = [fit(x, q).log_likelihood - penalty * (10 * q - q * (q - 1) // 2 + 20) for q in range(1, 7)]
    q = int(np.argmax(scores)) + 1
    assert found.rule == name.upper()
    assert_same_fit(found, fit(x, q), digits=1e-4)


def test_the_search_ends_at_its_limits(x):
    few = replace(TIGHT, search=SearchLimits(complete=1))
    for name in ("bic", "aic", "parallel"):
        assert fit(x, Rule(name)).model.n_components > 1
        assert fit(x, Rule(name), few).model.n_components == 1


@pytest.mark.parametrize("form", FORMS)
def test_parallel_analysis_finds_the_factors_in_every_form(rng, form):
    x = sample(random_model(rng, 60, Q, noise="diagonal"), 50, rng=rng)
    found = fit(x, Rule("parallel"), Settings(factor=FORMS[form]))
    assert (found.model.n_components, found.rule) == (Q, "parallel analysis")


def test_parallel_analysis_tells_when_bic_would_choose_another_number():
    x = load_wine().data
    found, other = fit(x, Rule("parallel"), Settings()), fit(x, Rule("bic"), Settings())
    assert found.model.n_components != other.model.n_components
    assert f"BIC would choose {other.model.n_components}: " in found.notes[0]
    silent = Settings(factor=FactorSettings(compared_features=12))
    assert fit(x, Rule("parallel"), silent).notes == ()


def test_parallel_analysis_is_silent_when_bic_agrees(rng, model):
    x = sample(model, 5000, rng=rng)
    for rule in ("parallel", "bic"):
        found = fit(x, Rule(rule))
        assert (found.model.n_components, found.notes) == (Q, ())


def test_no_fit_of_a_rule_is_below_that_of_the_number_it_chooses():
    x = load_breast_cancer().data[:, :12]
    found = fit(x, Rule("bic"))
    assert found.log_likelihood >= fit(x, found.model.n_components).log_likelihood - 1e-9
