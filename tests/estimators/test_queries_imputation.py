"""What a fitted PPCA says about missing cells: their means, how sure, and draws of them."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oracles import assert_within_errors, dense_condition, dense_covariance, spiked_rows
from probpca import PPCA, BayesianPCA, DataError, ShapeError, SourceError
from probpca.inference import imputation, pool
from probpca.inference.imputation import impute_with_uncertainty
from probpca.models import Gaussian
from probpca.sources import open_source

NAMES = ["height", "width", "depth", "mass", "age", "price"]
MANY = 150


def with_holes(rng, n=40, share=0.25, noise=0.1):
    """Rows, the same with cells missing, and which."""
    x = spiked_rows(rng, n, 6, 2, noise=noise)
    hidden = rng.random(x.shape) < share
    return x, np.where(hidden, np.nan, x), hidden


def unstored(x):
    """The observed cells of a table, and nothing else, as a sparse matrix."""
    seen = np.nonzero(~np.isnan(x))
    return sparse.coo_array((x[seen], seen), shape=x.shape).tocsr()


@pytest.fixture
def table(rng):
    return with_holes(rng)


@pytest.fixture
def x(table):
    return table[1]


@pytest.fixture
def hidden(table):
    return table[2]


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "standardized"])
def drawn(request):
    """A fit with many draws of its parameters, its rows, which cells are missing, and completed tables."""
    _, x, hidden = with_holes(np.random.default_rng(7), noise=0.5)
    scale = np.geomspace(0.01, 100, 6) if request.param else 1.0
    ppca = PPCA(2, standardize=request.param, n_parameter_draws=MANY, random_state=0).fit(x * scale)
    return ppca, x * scale, hidden, ppca.impute_draws(x * scale, MANY, random_state=1)


@pytest.mark.parametrize("standardize", [False, True])
def test_missing_cells_become_their_conditional_means(x, hidden, standardize):
    ppca = PPCA(2, standardize=standardize).fit(x)
    margin = Gaussian(ppca.mean_, dense_covariance(ppca.model_))
    values, std = ppca.impute(x, return_std=True)
    for row, hole, filled, doubt in zip(x, hidden, values, std, strict=True):
        mean, covariance = dense_condition(margin, np.flatnonzero(~hole), row[~hole])
        assert_allclose(filled[hole], mean[0], atol=1e-10)
        assert (doubt[hole] > np.sqrt(np.diag(covariance))).all()  # for the parameters are not known either
    assert_array_equal(values[~hidden], x[~hidden])
    assert_array_equal(std[~hidden], 0)
    assert_array_equal(ppca.impute(x), values)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_observed_cells_are_returned_bit_for_bit(x, hidden, kind):
    x = (1e3 * x).astype(kind)
    ppca = PPCA(2).fit(x)
    low, high = ppca.impute_interval(x)
    for filled in (ppca.impute(x), low, high):
        assert_array_equal(filled[~hidden], x[~hidden])
        assert np.isfinite(filled).all()


def test_a_complete_table_comes_back_as_it_is(table):
    complete, x, _ = table
    ppca = PPCA(2, n_parameter_draws=2).fit(x)
    assert_array_equal(ppca.impute(complete), complete)
    assert_array_equal(ppca.impute(complete, return_std=True)[1], 0)
    assert_array_equal(ppca.impute_draws(complete, 2), [complete, complete])


def test_a_row_of_which_nothing_is_known_is_the_mean(x):
    ppca = PPCA(2).fit(x)
    values, std = ppca.impute(np.full((1, 6), np.nan), return_std=True)
    assert_allclose(values[0], ppca.mean_)
    assert (std[0] > np.sqrt(np.diag(ppca.get_covariance()))).all()


@pytest.mark.parametrize(("n", "d", "q"), [(3, 7, 1), (5, 20, 2), (7, 20, 3), (10, 50, 5)])
@pytest.mark.parametrize("standardize", [False, True])
def test_one_hole_in_few_rows_changes_little(rng, n, d, q, standardize):
    complete = spiked_rows(rng, n, d, q, noise=0.01)
    x = complete.copy()
    x[0, 0] = np.nan
    whole, holed = (PPCA(q, standardize=standardize, random_state=0).fit(rows) for rows in (complete, x))
    assert abs(whole.log_likelihood_ - holed.log_likelihood_) < 5
    assert_allclose(holed.impute(x)[0, 0], complete[0, 0], atol=1.5)
    assert np.isfinite(holed.impute(x, return_std=True)[1]).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["auto", "gradient"])
@pytest.mark.parametrize("seed", range(8))
def test_noise_and_nothing_else_is_fitted_all_the_same(seed, solver):
    x = np.random.default_rng(seed).standard_normal((12, 4))
    x[np.random.default_rng(seed + 100).random(x.shape) < 0.4] = np.nan
    ppca = PPCA(3, solver=solver, standardize=True, random_state=0).fit(x)
    for answer in ppca.impute(x, return_std=True):
        assert np.isfinite(answer).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["auto", "em", "gradient"])
def test_rows_without_noise_are_completed_exactly(rng, solver):
    complete = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6))
    x = np.where(rng.random(complete.shape) < 0.2, np.nan, complete)
    x[(~np.isnan(x)).sum(axis=1) < 3] = complete[(~np.isnan(x)).sum(axis=1) < 3]
    ppca = PPCA(2, solver=solver, tol=1e-6, max_iter=300, random_state=0).fit(x)
    assert_allclose(ppca.impute(x), complete, atol=1e-3)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_dataframe_comes_back_as_one(x, frame):
    table = frame(dict(zip(NAMES, x.T, strict=True)))
    ppca, plain = PPCA(2).fit(table), PPCA(2).fit(x)
    mean, std = ppca.impute(table, return_std=True)
    low, high = ppca.impute_interval(table)
    expected = (plain.impute(x), *plain.impute(x, return_std=True), *plain.impute_interval(x))
    for answer, values in zip((ppca.impute(table), mean, std, low, high), expected, strict=True):
        assert isinstance(answer, frame)
        assert list(answer.columns) == NAMES
        assert_allclose(answer.to_numpy(), values, atol=1e-10)


def test_a_dataframe_keeps_its_index(x):
    table = pd.DataFrame(x, columns=NAMES, index=pd.date_range("2020-01-01", periods=40))
    ppca = PPCA(2).fit(table)
    assert_array_equal(ppca.impute(table[5:9]).index, table.index[5:9])
    assert_array_equal(ppca.impute_interval(table)[1].index, table.index)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_nulls_of_whole_numbers_are_missing_cells(x, hidden, frame):
    numbers = np.round(10 * x)
    columns = {
        name: [None if np.isnan(value) else int(value) for value in column]
        for name, column in zip(NAMES, numbers.T, strict=True)
    }
    table = frame(columns).convert_dtypes() if frame is pd.DataFrame else frame(columns)
    filled = PPCA(2).fit(table).impute(table)
    assert_allclose(filled.to_numpy(), PPCA(2).fit(numbers).impute(numbers), atol=1e-9)
    assert_array_equal(filled.to_numpy()[~hidden], numbers[~hidden])


def test_intervals_grow_with_the_level_around_the_mean(x, hidden):
    ppca = PPCA(2).fit(x)
    mean, std = ppca.impute(x, return_std=True)
    before = np.zeros(hidden.sum())
    for level in (0.1, 0.5, 0.9, 0.99):
        low, high = ppca.impute_interval(x, level)
        assert ((low < mean) & (mean < high))[hidden].all()
        assert ((high - low)[hidden] > before).all()
        assert_array_equal(low[~hidden], x[~hidden])
        assert_array_equal(high[~hidden], x[~hidden])
        before = (high - low)[hidden]
    low, high = ppca.impute_interval(x)
    assert_allclose(high - low, 2 * 1.959964 * std, rtol=1e-6)


@pytest.mark.parametrize("level", [0, 1, -0.1, np.nan])
def test_a_level_that_is_no_probability_is_refused(x, level):
    with pytest.raises(DataError, match="level must lie between 0 and 1"):
        PPCA(2).fit(x).impute_interval(x, level)


def test_intervals_cover_almost_as_often_as_they_say(rng):
    covered, without = [], []
    for _ in range(40):
        complete, x, hidden = with_holes(rng, n=50, noise=0.3)
        ppca = PPCA(2).fit(x)
        for ends, hits in (
            (ppca.impute_interval(x, 0.9), covered),
            (impute_with_uncertainty(ppca.model_, x).interval(0.9), without),
        ):
            hits.append(((ends[0] < complete) & (complete < ends[1]))[hidden].mean())
    assert 0.87 < np.mean(covered) < 0.93
    assert np.mean(covered) > np.mean(without) + 0.02


def test_units_of_columns_do_not_matter_to_standardized_columns(x):
    scale = np.geomspace(1e-3, 1e3, 6)
    plain, scaled = PPCA(2, standardize=True).fit(x), PPCA(2, standardize=True).fit(x * scale)
    for one, other in zip(plain.impute(x, return_std=True), scaled.impute(x * scale, return_std=True), strict=True):
        assert_allclose(other / scale, one, atol=1e-8)


def test_draws_differ_in_missing_cells_and_nowhere_else(drawn):
    _, x, hidden, tables = drawn
    assert tables.shape == (MANY, *x.shape)
    assert_array_equal(tables[:, ~hidden], np.broadcast_to(x[~hidden], (MANY, (~hidden).sum())))
    assert (tables.std(axis=0)[hidden] > 0).all()


def test_draws_scatter_around_the_mean_as_much_as_is_unknown(drawn):
    ppca, x, hidden, tables = drawn
    mean, std = (answer[hidden] for answer in ppca.impute(x, return_std=True))
    spread = tables.std(axis=0)[hidden]
    assert np.abs((tables.mean(axis=0)[hidden] - mean) / spread).max() < 0.8
    assert_within_errors(np.mean((tables.mean(axis=0)[hidden] - mean) / spread), 0, 0.05)
    assert 0.9 < np.median(spread / std) < 1.2
    known = impute_with_uncertainty(ppca.model_, x).std[hidden]  # were the parameters known
    assert np.median(spread / known) > 1.05


def test_the_same_random_state_draws_the_same(drawn):
    ppca, x, _, _ = drawn
    assert_array_equal(ppca.impute_draws(x, 3, random_state=5), ppca.impute_draws(x, 3, random_state=5))
    assert_array_equal(ppca.impute_draws(x, 3), ppca.impute_draws(x, 3))
    assert not np.array_equal(ppca.impute_draws(x, 3, random_state=5), ppca.impute_draws(x, 3, random_state=6))


def test_what_was_asked_before_does_not_matter_to_draws(x):
    fresh, asked = (PPCA(2, keep_source=True, random_state=0).fit(x) for _ in range(2))
    asked.impute_draws(x, 2, random_state=1)
    for n_draws in (2, 3):
        again = asked.impute_draws(x, n_draws, random_state=5)
        assert_array_equal(again, fresh.impute_draws(x, n_draws, random_state=5))


def test_draws_of_parameters_made_at_the_fit_are_used(x, monkeypatch):
    ppca = PPCA(2, n_parameter_draws=4, random_state=0).fit(x)
    assert len(ppca.parameter_draws_) == 4
    monkeypatch.setattr("probpca.estimators.maximum_likelihood.draw_parameters", lambda *_: pytest.fail("drawn again"))
    assert ppca.impute_draws(x, 4).shape == (4, 40, 6)
    assert ppca.impute_draws(x, 1).shape == (1, 40, 6)


@pytest.mark.parametrize("made", [0, 3])
def test_draws_need_rows_or_parameters_from_the_fit(x, made):
    ppca = PPCA(2, n_parameter_draws=made).fit(x)
    message = rf"needs 5 draws of the parameters; the fit made {made}\.(.|\n)*Hint: fit with keep_source=True"
    with pytest.raises(DataError, match=message):
        ppca.impute_draws(x, 5)


def test_rows_that_are_kept_give_as_many_draws_as_wanted(table):
    complete, x, hidden = table
    for rows in (x, complete):  # rows that a fit saw may be complete, and those to draw not
        ppca = PPCA(2, keep_source=True, random_state=0).fit(rows)
        tables = ppca.impute_draws(x, 12)
        assert_array_equal(tables[:, ~hidden], np.broadcast_to(x[~hidden], (12, (~hidden).sum())))
        assert (tables.std(axis=0)[hidden] > 0).all()


def test_weights_are_rows_that_are_there_more_than_once(x, rng):
    times = rng.integers(0, 4, len(x))
    weighted = PPCA(2, tol=1e-8).fit(x, sample_weight=times)
    repeated = PPCA(2, tol=1e-8).fit(np.repeat(x, times, axis=0))
    for one, other in zip(weighted.impute(x, return_std=True), repeated.impute(x, return_std=True), strict=True):
        assert_allclose(one, other, atol=1e-4)
    few, many = (
        PPCA(2, n_parameter_draws=40, random_state=0).fit(x, sample_weight=np.full(len(x), count)) for count in (1, 100)
    )
    spread = [np.std([drawn.mean for drawn in ppca.parameter_draws_], axis=0) for ppca in (few, many)]
    assert_allclose(np.median(spread[0] / spread[1]), 10, rtol=0.4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p, x: p.impute_draws(x, 0), ShapeError, "n_draws must be a whole number, at least 1; got 0"),
        (lambda p, x: p.impute_draws(x, 2.5), ShapeError, "n_draws must be a whole number, at least 1; got 2.5"),
        (lambda p, x: p.impute_draws(open_source(x), 1), SourceError, r"takes a matrix of rows(.|\n)*Hint"),
        (lambda p, x: p.impute(x[:, :3]), ValueError, "X has 3 features, but PPCA is expecting 6"),
        (lambda p, x: p.impute(np.where(np.isnan(x), np.inf, x)), ValueError, "infinity"),
    ],
)
def test_what_cannot_be_imputed_is_refused(x, call, error, message):
    with pytest.raises(error, match=message):
        call(PPCA(2, n_parameter_draws=1).fit(x), x)


@pytest.mark.parametrize("ask", ["impute", "impute_interval", "impute_draws"])
def test_before_a_fit_nothing_can_be_imputed(x, ask):
    with pytest.raises(NotFittedError):
        getattr(PPCA(), ask)(x)


@pytest.mark.parametrize("standardize", [False, True])
def test_what_a_sparse_table_does_not_store_may_be_missing(x, hidden, standardize):
    thin = unstored(x)
    ours, dense = (
        PPCA(2, missing=kind, standardize=standardize, keep_source=True, random_state=0) for kind in ("unstored", "nan")
    )
    ours.fit(thin)
    dense.fit(x)
    assert ours.n_observed_ == dense.n_observed_ == thin.nnz
    for ask in ("transform", "score_samples", "impute", "reconstruct"):
        assert_allclose(getattr(ours, ask)(thin), getattr(dense, ask)(x), atol=1e-8)
    assert_allclose(ours.impute(thin, return_std=True)[1], dense.impute(x, return_std=True)[1], atol=1e-8)
    draws = ours.impute_draws(thin, 2, random_state=0)
    assert_allclose(draws, dense.impute_draws(x, 2, random_state=0), atol=1e-8)
    assert_array_equal(draws[:, ~hidden], np.stack([x[~hidden]] * 2))


@pytest.mark.parametrize("standardize", [False, True])
def test_a_stored_zero_is_observed(x, hidden, standardize):
    x[~hidden & (np.abs(x) < 1)] = 0.0
    thin = unstored(x)
    assert (thin.data == 0).any()
    ours, dense = (
        PPCA(2, missing=kind, standardize=standardize, keep_source=True, random_state=0) for kind in ("unstored", "nan")
    )
    ours.fit(thin)
    dense.fit(x)
    assert ours.n_observed_ == dense.n_observed_ == thin.nnz
    assert_allclose(ours.impute(thin), dense.impute(x), atol=1e-8)
    assert_allclose(ours.impute_draws(thin, 2, random_state=0), dense.impute_draws(x, 2, random_state=0), atol=1e-8)


def test_nan_may_be_stored_among_zeros_that_are_not(x, hidden, rng):
    x[~hidden & (rng.random(x.shape) < 0.5)] = 0.0
    thin, dense = sparse.csr_array(x), PPCA(2).fit(x)
    found = PPCA(2).fit(thin)
    assert_allclose(found.impute(thin), dense.impute(x), atol=1e-8)
    assert_allclose(found.score_samples(thin), dense.score_samples(x), atol=1e-8)


@pytest.mark.parametrize(
    "parameters", [{}, {"standardize": True}, {"n_parameter_draws": 3}, {"missing": "unstored"}, {"n_init": 2}], ids=str
)
def test_a_fit_to_missing_cells_survives_its_file(x, tmp_path, parameters):
    ppca = PPCA(2, random_state=0, **parameters).fit(x)
    ppca.to_file(tmp_path / "fitted.npz")
    back = PPCA.from_file(tmp_path / "fitted.npz")
    for one, other in zip(back.impute(x, return_std=True), ppca.impute(x, return_std=True), strict=True):
        assert_array_equal(one, other)
    assert_array_equal(back.impute_interval(x), ppca.impute_interval(x))
    assert back.summary() == ppca.summary()
    assert back.n_observed_ == ppca.n_observed_ == (~np.isnan(x)).sum()
    assert_array_equal(back.empty_features_, ppca.empty_features_)
    if ppca.n_parameter_draws:
        assert_array_equal(back.impute_draws(x, 3, random_state=1), ppca.impute_draws(x, 3, random_state=1))


@pytest.mark.filterwarnings("ignore:no observed cells in")
def test_an_empty_column_survives_its_file(x, tmp_path):
    x[:, 3] = np.nan
    ppca = PPCA(2).fit(x)
    ppca.to_file(tmp_path / "fitted.npz")
    assert_array_equal(PPCA.from_file(tmp_path / "fitted.npz").empty_features_, [3])
    assert_array_equal(ppca.impute(x)[:, 3], 0)


def test_a_pickle_imputes_the_same_bits(x):
    ppca = PPCA(2, keep_source=True, random_state=0).fit(x)
    back = pickle.loads(pickle.dumps(ppca))  # noqa: S301
    assert_array_equal(back.impute(x), ppca.impute(x))
    assert_array_equal(back.impute_draws(x, 2, random_state=1), ppca.impute_draws(x, 2, random_state=1))


def test_a_clone_keeps_the_parameters_and_forgets_the_rows(x):
    ppca = PPCA(2, keep_source=True, n_parameter_draws=1, n_init=2, missing="unstored").fit(x)
    copy = clone(ppca)
    assert copy.get_params() == ppca.get_params()
    assert not {"model_", "source_", "parameter_draws_"} & set(vars(copy))


def test_another_fit_forgets_the_draws_of_the_one_before(x):
    ppca = PPCA(2, keep_source=True, n_parameter_draws=2).fit(x)
    ppca.set_params(keep_source=False, n_parameter_draws=0).fit(x)
    with pytest.raises(DataError, match="the fit made 0"):
        ppca.impute_draws(x, 1)


def test_rows_with_holes_go_through_a_pipeline(x):
    latent = make_pipeline(StandardScaler(), PPCA(2)).fit_transform(x)
    assert latent.shape == (40, 2)
    assert np.isfinite(latent).all()
    assert_allclose(latent, PPCA(2).fit(StandardScaler().fit_transform(x)).transform(StandardScaler().fit_transform(x)))


def test_a_grid_search_compares_what_was_observed(rng):
    _, x, _ = with_holes(rng, n=80)
    counts = [1, 2, 3, 4]
    search = GridSearchCV(PPCA(random_state=0), {"n_components": counts}, cv=KFold(3)).fit(x)
    wanted = [
        [PPCA(q, random_state=0).fit(x[train]).score(x[test]) for train, test in KFold(3).split(x)] for q in counts
    ]
    assert_allclose(search.cv_results_["mean_test_score"], np.mean(wanted, axis=1), rtol=1e-8)
    assert search.best_params_["n_components"] == 2


def test_an_analysis_of_every_draw_is_pooled_to_one_answer(drawn):
    ppca, x, hidden, tables = drawn
    means, variances = tables.mean(axis=1), tables.var(axis=1, ddof=1) / x.shape[0]
    pooled = pool(means, variances, df_complete=x.shape[0] - 1)
    assert (np.abs(pooled.estimate - ppca.mean_) < pooled.std_error).all()
    assert (pooled.variance > variances.mean(axis=0)).all()
    assert ((pooled.fraction_missing > 0) & (pooled.fraction_missing < 2 * hidden.mean(axis=0) + 0.2)).all()


@pytest.mark.parametrize("options", [{"keep_source": True}, {"n_parameter_draws": 3}])
@pytest.mark.parametrize("rows", [iter, open_source], ids=["iterator", "batches"])
def test_draws_from_rows_that_are_not_at_hand_are_refused_before_the_fit(rng, options, rows):
    batches = rows([rng.standard_normal((20, 4)), rng.standard_normal((20, 4))])
    ppca = PPCA(1, **options)
    with pytest.raises(SourceError, match="needs rows in memory"):
        ppca.fit(batches)
    assert not hasattr(ppca, "model_")


class CountedBatches:
    """Batches that count how often they are read."""

    def __init__(self, batches):
        self.batches, self.reads = batches, 0

    def __iter__(self):
        self.reads += 1
        return iter(self.batches)


@pytest.mark.parametrize("complete", [True, False])
def test_a_posterior_reads_its_rows_as_often_as_their_means(x, complete):
    rows = [np.nan_to_num(x[:20]), np.nan_to_num(x[20:]) if complete else x[20:]]
    ppca, once, asked = PPCA(2, random_state=0).fit(x), CountedBatches(rows), CountedBatches(rows)
    mean, found = ppca.transform(once), ppca.posterior(asked)
    assert asked.reads == once.reads
    assert_allclose(found.mean, mean, rtol=1e-13)  # computed with the covariances, and without
    assert_allclose(found.covariance, ppca.posterior(np.vstack(rows)).covariance, rtol=1e-12, atol=1e-15)
    assert (found.covariance.strides[0] == 0) == complete


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
def test_the_uncertainty_of_parameters_is_computed_once_a_fit(x, kind, monkeypatch):
    fitted, inverted = kind(2, random_state=0).fit(x), []
    original = imputation.inverse
    monkeypatch.setattr(imputation, "inverse", lambda packed: inverted.append(1) or original(packed))
    fitted.impute_interval(x)
    fitted.impute(x, return_std=True)
    assert len(inverted) <= 1
    found = imputation.Imputed(*fitted.impute(x, return_std=True))
    assert_array_equal(found.values, fitted.impute(x))
    assert_array_equal(found.interval(0.5)[0], fitted.impute_interval(x, 0.5)[0])
