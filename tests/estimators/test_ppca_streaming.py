"""Batches, one after the other: the model of all rows so far, whatever the batches."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from oracles import closed_form_oracle, dense_covariance, dense_log_likelihood, spiked_rows, spiked_rows_with_holes
from probpca import PPCA, DataError, FactorAnalysis
from probpca.learning import Settings, Status
from probpca.learning.settings import StreamLimits
from probpca.learning.streaming.exact import Sketched, Summed
from probpca.sources.engines.local import one_blas_thread

N, D, Q = 200, 8, 2


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """These matrices are small: threads would only wait for each other."""
    with one_blas_thread():
        yield


@pytest.fixture
def x(rng):
    return spiked_rows(rng, N, D, Q, noise=0.4)


def read(ppca, batches, weights=None):
    for number, batch in enumerate(batches):
        ppca.partial_fit(batch, sample_weight=None if weights is None else weights[number])
    return ppca


def assert_same_model(found, wanted, tol=1e-10):
    for name in ("loadings_", "mean_", "noise_variance_", "log_likelihood_", "explained_variance_"):
        value = np.asarray(getattr(wanted, name))
        assert_allclose(getattr(found, name), value, rtol=tol, atol=tol * np.abs(value).max(), err_msg=name)
    assert (found.scale_ is None) == (wanted.scale_ is None)
    if wanted.scale_ is not None:
        assert_allclose(found.scale_, wanted.scale_, rtol=tol)
    assert found.n_components_ == wanted.n_components_
    assert_allclose(found.n_samples_, wanted.n_samples_, rtol=1e-12)
    assert_allclose(found.n_observed_, wanted.n_observed_, rtol=1e-12)


CUTS = {
    "one batch": lambda x: [x],
    "two": lambda x: np.split(x, [1]),
    "five": lambda x: np.array_split(x, 5),
    "row by row": lambda x: list(x[:, None]),
    "ever more": lambda x: np.split(x, [1, 2, 4, 8, 16, 32, 64, 128]),
}


# Complete rows


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_batches_are_one_table_however_they_are_cut(x, cut, standardize):
    x = x * np.geomspace(0.1, 10, D)
    found, wanted = PPCA(Q, standardize=standardize), PPCA(Q, standardize=standardize).fit(x)
    assert_same_model(read(found, cut(x)), wanted)
    assert found.status_ is Status.EXACT
    assert found.converged_


@pytest.mark.parametrize("cut", [CUTS["five"], CUTS["row by row"]])
def test_the_order_of_batches_does_not_matter(x, rng, cut):
    batches = cut(x)
    found = read(PPCA(Q), [batches[k] for k in rng.permutation(len(batches))])
    assert_same_model(found, PPCA(Q).fit(x))


def test_the_model_is_that_of_a_dense_eigendecomposition(x):
    found, wanted = read(PPCA(Q), np.array_split(x, 7)), closed_form_oracle(x, Q)
    assert_allclose(found.log_likelihood_, wanted.log_likelihood, rtol=1e-12)
    assert_allclose(found.log_likelihood_, dense_log_likelihood(found.model_, x).sum(), rtol=1e-12)
    assert_allclose(found.get_covariance(), dense_covariance(wanted.model), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("standardize", [False, True])
def test_weights_count_rows(x, rng, standardize):
    w = rng.integers(0, 3, N) + 0.5
    cuts = np.array_split(np.arange(N), 6)
    found = read(PPCA(Q, standardize=standardize), [x[cut] for cut in cuts], [w[cut] for cut in cuts])
    assert_same_model(found, PPCA(Q, standardize=standardize).fit(x, sample_weight=w))


def test_a_row_of_weight_zero_is_not_there(x):
    w = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    found = read(PPCA(Q), np.array_split(x, 5), np.array_split(w, 5))
    assert_same_model(found, PPCA(Q).fit(x[w > 0]))


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_rows_far_from_zero_keep_their_digits(x, cut):
    # The rows themselves are rounded to 1e-10 out there: the model is that of the rounded ones, to some of that.
    found, wanted = read(PPCA(Q), cut(x + 1e6)), PPCA(Q).fit(x + 1e6)
    assert_same_model(found, wanted, 1e-9)


def test_a_mean_that_wanders_far_loses_nothing(x):
    x = x + np.linspace(0, 1e3, N)[:, None]
    assert_same_model(read(PPCA(Q), np.array_split(x, 20)), PPCA(Q).fit(x), 1e-9)


def test_single_precision_rows_are_summed_in_double(x):
    single = x.astype(np.float32)
    found = read(PPCA(Q), np.array_split(single, 9))
    assert_same_model(found, PPCA(Q).fit(single.astype(np.float64)))
    assert_same_model(found, PPCA(Q).fit(single), 1e-5)


def test_sparse_rows_are_rows(x):
    x = x * (np.abs(x) > 2)
    found = PPCA(Q)
    for batch in np.array_split(x, 5):
        found.partial_fit(sparse.csr_array(batch))
    assert_same_model(found, PPCA(Q).fit(x))


@pytest.mark.parametrize("shape", [(5, 30), (40, 41), (300, 3)])
def test_wide_and_narrow_tables_are_learned_too(rng, shape):
    x = spiked_rows(rng, *shape, 2)
    assert_same_model(read(PPCA(2), np.array_split(x, 4)), PPCA(2).fit(x))


@pytest.mark.parametrize("asked", [None, "bic", "evidence", 0.6, 0.9, 1, np.int64(3)])
def test_every_way_to_ask_for_components_works(x, asked):
    found, wanted = read(PPCA(asked), np.array_split(x, 5)), PPCA(asked).fit(x)
    assert found.rule_ == wanted.rule_
    assert_same_model(found, wanted)


@pytest.mark.parametrize("solver", ["covariance", "svd", "em", "px_em", "em_zero_noise", "gradient"])
def test_the_solver_does_not_matter(x, solver):
    found = read(PPCA(Q, solver=solver, tol=1e-9, max_iter=20_000, random_state=0), np.array_split(x, 5))
    assert_allclose(found.log_likelihood_, closed_form_oracle(x, Q).log_likelihood, atol=1e-6)


def test_every_question_can_be_asked_of_a_stream(x, tmp_path):
    found, wanted = read(PPCA(Q, random_state=0), np.array_split(x, 5)), PPCA(Q, random_state=0).fit(x)
    for question in ("transform", "project", "reconstruct", "score_samples"):
        assert_allclose(getattr(found, question)(x), getattr(wanted, question)(x), atol=1e-8, err_msg=question)
    assert_allclose(found.information_, wanted.information_, rtol=1e-9)
    holes = np.where(np.arange(D) == 3, np.nan, x)
    assert_allclose(found.impute(holes), wanted.impute(holes), atol=1e-8)
    assert_allclose(found.impute_interval(holes), wanted.impute_interval(holes), atol=1e-7)
    assert found.summary() == wanted.summary()
    found.to_file(tmp_path / "model.npz")
    assert_array_equal(PPCA.from_file(tmp_path / "model.npz").loadings_, found.loadings_)


def test_asking_in_between_changes_nothing(x):
    curious = PPCA(Q)
    for end in range(20, N + 1, 20):
        curious.partial_fit(x[end - 20 : end])
        assert_same_model(curious, PPCA(Q).fit(x[:end]))


# Beside scikit-learn


@pytest.mark.parametrize("batch", [20, 50])
def test_the_noise_variance_is_exact_where_incremental_pca_is_far_off(rng, batch):
    x = spiked_rows(rng, 1000, 30, 3, noise=0.1, largest=10.0)
    ours, theirs = PPCA(3), IncrementalPCA(3)
    for start in range(0, len(x), batch):
        ours.partial_fit(x[start : start + batch])
        theirs.partial_fit(x[start : start + batch])
    exact = closed_form_oracle(x, 3).model.noise_variance
    assert_allclose(ours.noise_variance_, exact, rtol=1e-10)
    assert_allclose(PCA(3).fit(x).noise_variance_, exact, rtol=0.01)  # over n - 1
    assert not 1 / 5 < theirs.noise_variance_ / exact < 5


# Before there is a model


@pytest.mark.parametrize("asked", [1, 2, 4])
def test_until_there_are_two_rows_more_than_components_nothing_is_fitted_and_nothing_raises(x, asked):
    ppca = PPCA(asked)
    for row in x[: asked + 1]:
        ppca.partial_fit(row[None])
        assert not hasattr(ppca, "model_")
        for question in (ppca.transform, ppca.score_samples, ppca.impute):
            with pytest.raises(NotFittedError):
                question(x)
    ppca.partial_fit(x[asked + 1][None])
    assert ppca.transform(x).shape == (N, asked)


def test_it_says_how_many_rows_are_needed(x):
    with pytest.raises(AttributeError, match="4 rows are needed to fit a model; 3 have come so far"):
        PPCA(2).partial_fit(x[:3]).model_  # noqa: B018


@pytest.mark.parametrize(
    "name",
    ["model_", "noise_variance_", "components_", "mean_", "loadings_", "converged_", "explained_variance_ratio_"],
)
def test_whatever_is_asked_for_says_how_many_rows_are_needed(x, name):
    ppca = PPCA(2).partial_fit(x[:3])
    with pytest.raises(AttributeError, match="4 rows are needed to fit a model; 3 have come so far"):
        getattr(ppca, name)
    assert not hasattr(ppca, name)
    assert hasattr(ppca.partial_fit(x[3:4]), name)


def test_what_no_estimator_has_is_still_said_to_be_missing(x):
    for ppca in (PPCA(2), PPCA(2).partial_fit(x[:3]), PPCA(2).partial_fit(x)):
        with pytest.raises(AttributeError, match="'PPCA' object has no attribute 'nonsense_'"):
            ppca.nonsense_  # noqa: B018


def test_an_unfitted_estimator_speaks_of_no_rows():
    with pytest.raises(AttributeError, match=r"PPCA instance is not fitted yet\. Call 'fit'"):
        PPCA(2).noise_variance_  # noqa: B018


def test_rows_that_are_all_the_same_are_no_model_yet(x):
    ppca = PPCA(Q).partial_fit(np.ones((10, D)))
    with pytest.raises(NotFittedError):
        ppca.transform(x)
    assert_same_model(ppca.partial_fit(x), PPCA(Q).fit(np.vstack([np.ones((10, D)), x])))


# Merging


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("cut", [1, 70, N - 1])
def test_two_halves_are_merged_into_the_whole(x, cut, standardize):
    def halves():
        return (PPCA(Q, standardize=standardize).partial_fit(part) for part in (x[:cut], x[cut:]))

    wanted = PPCA(Q, standardize=standardize).fit(x)
    left, right = halves()
    assert left.merge(right) is left
    assert_same_model(left, wanted)
    left, right = halves()
    assert_same_model(right.merge(left), wanted)


def test_the_other_half_stays_as_it_was(x):
    left, right = (PPCA(Q).partial_fit(part) for part in (x[:80], x[80:]))
    left.merge(right)
    assert_same_model(right, PPCA(Q).fit(x[80:]))
    left.partial_fit(x)
    assert_same_model(right, PPCA(Q).fit(x[80:]))


def test_a_merged_stream_goes_on(x):
    left, right = (PPCA(Q).partial_fit(part) for part in (x[:50], x[50:100]))
    assert_same_model(left.merge(right).partial_fit(x[100:]), PPCA(Q).fit(x))


def test_many_are_merged_in_any_order(x, rng):
    parts = [PPCA(Q).partial_fit(part) for part in np.array_split(x, 8)]
    first, *others = [parts[k] for k in rng.permutation(8)]
    for other in others:
        first.merge(other)
    assert_same_model(first, PPCA(Q).fit(x))


def test_what_cannot_be_merged_is_refused_with_the_reason(x, rng):
    stream = PPCA(Q).partial_fit(x)
    refused = [
        (FactorAnalysis(Q).partial_fit(x), "needs another PPCA; got FactorAnalysis"),
        (None, "needs another PPCA; got NoneType"),
        (PPCA(Q), "trained with partial_fit"),
        (PPCA(Q).fit(x), "does not keep the sums(?s:.*)Hint"),
        (PPCA(Q).partial_fit(x[:, :5]), "same columns; got 8 and 5"),
        (PPCA(Q).partial_fit(spiked_rows_with_holes(rng, 50, D, Q)), "missing cells"),
    ]
    for other, why in refused:
        with pytest.raises(DataError, match=why):
            stream.merge(other)
    with pytest.raises(DataError, match="does not keep the sums"):
        PPCA(Q).fit(x).merge(stream)
    assert_same_model(stream, PPCA(Q).fit(x))


# Batches that do not belong


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda x: x[:, :-1], id="too few columns"),
        pytest.param(lambda x: np.hstack([x, x]), id="too many columns"),
        pytest.param(lambda x: x[0], id="a vector"),
        pytest.param(lambda x: x[:0], id="no rows"),
        pytest.param(lambda x: x.astype(complex), id="complex numbers"),
        pytest.param(lambda _: [["a"] * D], id="text"),
    ],
)
def test_a_batch_that_does_not_belong_is_refused_and_leaves_everything_as_it_was(x, wrong):
    ppca = PPCA(Q).partial_fit(x[:100])
    with pytest.raises(ValueError):  # noqa: PT011
        ppca.partial_fit(wrong(x))
    assert_same_model(ppca, PPCA(Q).fit(x[:100]))
    assert_same_model(ppca.partial_fit(x[100:]), PPCA(Q).fit(x))


@pytest.mark.parametrize("weight", [[1.0], [-1.0] * 10, [np.nan] * 10])
def test_weights_that_are_none_are_refused_and_leave_everything_as_it_was(x, weight):
    ppca = PPCA(Q).partial_fit(x)
    with pytest.raises(ValueError, match="sample_weight"):
        ppca.partial_fit(x[:10], sample_weight=weight)
    assert_same_model(ppca, PPCA(Q).fit(x))


def test_a_first_batch_that_is_refused_leaves_nothing_behind(x):
    ppca = PPCA(Q)
    with pytest.raises(ValueError, match="sample_weight"):
        ppca.partial_fit(x[:, :5], sample_weight=[1.0])
    assert_same_model(ppca.partial_fit(x), PPCA(Q).fit(x))


def test_names_of_columns_must_be_those_of_the_first_batch(x):
    names = [f"c{j}" for j in range(D)]
    frame = pd.DataFrame(x, columns=names)
    ppca = PPCA(Q).partial_fit(frame[:100])
    with pytest.raises(ValueError, match="feature names"):
        ppca.partial_fit(frame[100:][names[::-1]])
    ppca.partial_fit(frame[100:])
    assert_same_model(ppca, PPCA(Q).fit(x))
    assert_array_equal(ppca.feature_names_in_, names)


def test_a_half_life_must_be_a_positive_number(x):
    for wrong in (0, -1.0, "long"):
        with pytest.raises(ValueError, match="half_life"):
            PPCA(Q, half_life=wrong).partial_fit(x)


# Beginning afresh


def test_fit_forgets_the_stream(x, rng):
    ppca = PPCA(Q).partial_fit(spiked_rows(rng, 50, 5, 2)).fit(x)
    assert_same_model(ppca, PPCA(Q).fit(x), 1e-14)
    assert not hasattr(ppca, "stream_")
    with pytest.raises(DataError, match="does not keep the sums"):
        ppca.merge(PPCA(Q).partial_fit(x))


def test_a_stream_forgets_the_fit(x, rng):
    ppca = PPCA(Q).fit(spiked_rows(rng, 50, 5, 2))
    ppca.partial_fit(x[:2])
    with pytest.raises(NotFittedError):
        ppca.transform(x)
    assert_same_model(ppca.partial_fit(x[2:]), PPCA(Q).fit(x))
    assert ppca.n_features_in_ == D


@pytest.mark.parametrize("asked", [False, True])
def test_a_pickle_goes_on_where_it_was(x, asked):
    ppca = PPCA(Q).partial_fit(x[:90])
    if asked:
        assert ppca.noise_variance_ > 0
    again = pickle.loads(pickle.dumps(ppca))  # noqa: S301
    assert_same_model(again.partial_fit(x[90:]), PPCA(Q).fit(x))
    assert_same_model(ppca, PPCA(Q).fit(x[:90]))


def test_a_clone_has_the_parameters_and_none_of_the_rows(x):
    ppca = PPCA(Q, half_life=7.0).partial_fit(x)
    other = clone(ppca)
    assert other.get_params() == ppca.get_params()
    assert not hasattr(other, "stream_")
    with pytest.raises(NotFittedError):
        other.transform(x)


# Rows that are to be forgotten


def aged(n, half_life):
    return 2.0 ** (-np.arange(n)[::-1] / half_life)


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("half_life", [15.0, 100.0])
def test_a_half_life_is_a_weight_by_age_however_rows_are_cut(x, half_life, cut):
    found = read(PPCA(Q, half_life=half_life), cut(x))
    assert_same_model(found, PPCA(Q).fit(x, sample_weight=aged(N, half_life)), 1e-9)


def test_a_half_life_goes_with_standardized_columns(x):
    found = read(PPCA(Q, half_life=30.0, standardize=True), np.array_split(x, 9))
    assert_same_model(found, PPCA(Q, standardize=True).fit(x, sample_weight=aged(N, 30.0)), 1e-9)


@pytest.mark.parametrize("half_life", [20.0, 50.0])
def test_the_number_of_rows_that_count_tends_to_the_half_life_over_log_two(rng, half_life):
    ppca = read(PPCA(Q, half_life=half_life), np.array_split(spiked_rows(rng, 2000, D, Q), 13))
    assert_allclose(ppca.n_samples_, 1 / (1 - 2 ** (-1 / half_life)), rtol=1e-10)
    assert_allclose(ppca.n_samples_, half_life / np.log(2), rtol=0.02)


def shortest(q):
    """The half-life at which (sum w)^2 / sum w^2 of weights by age is q + 2, but at least 4.3, by bisection."""
    low, high = 0.1, 100.0 * q
    for _ in range(100):
        middle = (low + high) / 2
        w = aged(int(60 * middle) + 60, middle)
        low, high = (middle, high) if w.sum() ** 2 / (w @ w) < max(q + 2, 4.3) else (low, middle)
    return high


@pytest.mark.parametrize("q", [1, 2, 5])
@pytest.mark.parametrize("times", [1.001, 1.3, 2.0])
def test_a_short_half_life_gives_a_model_as_soon_as_there_are_rows_enough(x, q, times):
    half_life = times * shortest(q)
    ppca = PPCA(q, half_life=half_life)
    for n in range(1, 40):
        ppca.partial_fit(x[n - 1 : n])
        assert hasattr(ppca, "model_") == (n >= q + 2)
    assert_same_model(ppca, PPCA(q).fit(x[:39], sample_weight=aged(39, half_life)), 1e-7)


def test_a_short_half_life_goes_with_missing_cells(rng):
    x = spiked_rows_with_holes(rng, N, D, Q, share=0.1)
    found = read(PPCA(Q, half_life=2.0, random_state=0), x[:50, None])
    assert np.isfinite(found.score(x))
    assert_allclose(found.n_samples_, 1 / (1 - 2 ** (-1 / 2.0)), rtol=1e-6)
    found = read(PPCA(Q, half_life=2.0, random_state=0), np.tile(x, (2, 1))[:, None])
    assert np.isfinite(found.score(x))


@pytest.mark.parametrize("q", [1, 2, 5, None, 0.5])
def test_a_half_life_in_which_too_few_rows_count_is_refused_and_the_shortest_is_named(x, q):
    least = shortest(q if isinstance(q, int) else 1)
    ppca = PPCA(q, half_life=0.99 * least)
    with pytest.raises(DataError, match=r"half_life(?s:.*)Hint: use half_life=[\d.]+ or longer") as caught:
        ppca.partial_fit(x)
    assert not hasattr(ppca, "stream_")
    named = float(str(caught.value).split("Hint: use half_life=")[1].split()[0])
    assert least <= named * (1 + 1e-12) <= 1.01 * least
    assert hasattr(PPCA(q, half_life=named).partial_fit(x), "model_")


def test_rows_are_counted_not_their_weights(x):
    for weight in (0.5, 5.0):
        ppca = PPCA(Q).partial_fit(x[:3], sample_weight=[weight] * 3)
        assert not hasattr(ppca, "model_")
        ppca.partial_fit(x[3:4], sample_weight=[weight])
        assert_allclose(ppca.noise_variance_, PPCA(Q).fit(x[:4]).noise_variance_, rtol=1e-9)


def test_a_very_long_half_life_forgets_nothing(x):
    found = read(PPCA(Q, half_life=1e15), np.array_split(x, 9))
    assert_same_model(found, PPCA(Q).fit(x))


def test_after_a_jump_the_model_follows(rng):
    before, after = spiked_rows(rng, 500, D, Q), spiked_rows(rng, 500, D, Q) + 20.0
    keen, steady = (read(PPCA(Q, half_life=h), [before, *np.array_split(after, 5)]) for h in (20.0, None))
    wanted = PPCA(Q).fit(after)
    assert_allclose(keen.mean_, wanted.mean_, atol=2.0)
    assert np.abs(steady.mean_ - wanted.mean_).min() > 5.0
    assert keen.score(after) > steady.score(after)


def test_weights_age_rows_as_repeated_rows_would(x):
    weighted = PPCA(Q, half_life=40.0).partial_fit(x[:50]).partial_fit(x[50:60], sample_weight=[3.0] * 10)
    age_of_first = 30 + np.arange(50)[::-1]
    age_of_last = 3 * np.arange(10)[::-1]
    w = np.concatenate([2.0 ** (-age_of_first / 40), 3 * 2.0 ** (-age_of_last / 40)])
    assert_same_model(weighted, PPCA(Q).fit(x[:60], sample_weight=w), 1e-9)


# Many columns


@pytest.fixture
def few_columns_are_many(monkeypatch):
    few = partial(Settings, stream=StreamLimits(scatter=40))
    monkeypatch.setattr("probpca.estimators.ppca.Settings", few)


@pytest.mark.parametrize("batch", [1, 16, 60])
def test_many_columns_of_low_rank_give_the_closed_form(rng, batch):
    x = spiked_rows(rng, 60, 2100, 3)  # 60 rows have a rank that fits into a sketch
    found = read(PPCA(3), np.split(x, range(batch, 60, batch)))
    wanted = PPCA(3).fit(x)
    assert isinstance(found.stream_, Sketched)
    assert_same_model(found, wanted, 1e-8)
    assert found.sketch_error_ <= 1e-10 * found.explained_variance_[0]


def test_up_to_two_thousand_columns_are_summed_exactly(x):
    ppca = PPCA(Q).partial_fit(x)
    assert isinstance(ppca.stream_, Summed)
    assert ppca.sketch_error_ == 0.0


@pytest.mark.parametrize("batch", [7, 100, 400])
def test_the_error_of_a_sketch_bounds_that_of_every_variance(rng, few_columns_are_many, batch):  # noqa: ARG001
    x = rng.standard_normal((400, 120)) * np.geomspace(6, 0.5, 120)
    ppca = read(PPCA(3), np.split(x, range(batch, 400, batch)))
    true = closed_form_oracle(x, D).values  # noqa: PD011
    assert ppca.status_ is Status.SKETCHED
    assert ppca.converged_
    below = true[:3] - ppca.explained_variance_
    assert (below >= -1e-10).all()
    assert (below <= ppca.sketch_error_ + 1e-10).all()
    assert_allclose(ppca.get_covariance().trace(), true.sum(), rtol=1e-10)
    assert_allclose(ppca.mean_, x.mean(axis=0), atol=1e-12)
    assert ppca.n_samples_ == 400


def test_sketches_are_merged(rng, few_columns_are_many):  # noqa: ARG001
    x = spiked_rows(rng, 300, 60, 3, noise=0.01)
    left, right = (PPCA(3).partial_fit(part) for part in (x[:100], x[100:]))
    left.merge(right)
    assert_same_model(left, PPCA(3).fit(x), 1e-6)
    with pytest.raises(DataError, match="many columns"):
        left.merge(PPCA(3).partial_fit(x[:, :30]))


def test_a_sketch_forgets_as_sums_do(rng, few_columns_are_many):  # noqa: ARG001
    x = spiked_rows(rng, 200, 60, 3, noise=0.01)
    found = read(PPCA(3, half_life=30.0), np.array_split(x, 11))
    assert_same_model(found, PPCA(3).fit(x, sample_weight=aged(200, 30.0)), 1e-6)


def test_many_columns_are_neither_standardized_nor_incomplete(rng):
    x = rng.standard_normal((10, 2100))
    with pytest.raises(DataError, match=r"at most 2000 columns(?s:.*)Hint"):
        PPCA(2, standardize=True).partial_fit(x)
    ppca = PPCA(2).partial_fit(x)
    before = ppca.loadings_
    x[3, 4] = np.nan
    with pytest.raises(DataError, match=r"2,000 columns(?s:.*)Hint: use fit"):
        ppca.partial_fit(x)
    assert_array_equal(ppca.loadings_, before)


@pytest.mark.parametrize(("asked", "found"), [(None, 3), ("bic", 3), (0.9, 3)])
def test_the_number_of_components_of_many_columns_is_chosen(rng, few_columns_are_many, asked, found):  # noqa: ARG001
    x = spiked_rows(rng, 400, 60, 3, noise=0.005, largest=3.0)
    assert read(PPCA(asked), np.array_split(x, 6)).n_components_ == found


# The model is computed at the first question


@pytest.fixture
def solves(monkeypatch):
    """Counts how often the sums of a stream are fitted."""
    calls, original = [], Summed.fit

    def fit(self, *args):
        calls.append(self)
        return original(self, *args)

    monkeypatch.setattr(Summed, "fit", fit)
    return calls


REASONS = {
    "too few rows": (lambda x: x[:3], "4 rows are needed to fit a model; 3 have come so far"),
    "constant rows": (lambda x: np.ones((10, x.shape[1])), "no variation"),
}


@pytest.mark.parametrize(("rows", "reason"), REASONS.values(), ids=REASONS)
@pytest.mark.parametrize(
    "question",
    [
        lambda p, x: p.transform(x),
        lambda p, x: p.posterior(x),
        lambda p, x: p.score(x),
        lambda p, x: p.impute_interval(x),
        lambda p, _: p.sample(3),
        lambda p, _: p.summary(),
        lambda p, _: p.get_covariance(),
        lambda p, _: p.get_feature_names_out(),
        lambda p, _: p.n_components_,
        lambda p, _: p.to_file("nowhere.npz"),
    ],
)
def test_every_question_to_a_stream_without_a_model_gives_the_reason(x, rows, reason, question):
    ppca = PPCA(2).partial_fit(rows(x))
    for _ in range(2):
        with pytest.raises(NotFittedError, match=f"PPCA instance is not fitted yet: .*{reason}"):
            question(ppca, x)


@pytest.mark.parametrize("rows", [rows for rows, _ in REASONS.values()], ids=REASONS)
def test_a_fit_that_failed_is_not_tried_again_until_rows_come(x, solves, rows):
    ppca = PPCA(2).partial_fit(rows(x))
    for _ in range(3):
        assert not hasattr(ppca, "model_")
    assert len(solves) <= 1
    assert not is_fitted(ppca)
    ppca.partial_fit(x)
    assert hasattr(ppca, "model_")


def is_fitted(estimator):
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def test_a_stream_is_solved_once_for_each_state(x, solves):
    ppca = PPCA(2)
    for batch in np.array_split(x, 4):
        ppca.partial_fit(batch)
        ppca.transform(x), ppca.score(x), ppca.components_
    assert len(solves) == 4


def test_whether_a_stream_is_fitted_is_known_without_solving_it(x, solves):
    for n in range(1, 10):
        assert is_fitted(PPCA(3).partial_fit(x[:n])) == (n >= 5)
    assert not is_fitted(PPCA(3))
    assert solves == []


def test_a_pickle_remembers_why_there_is_no_model(x, solves):
    ppca = PPCA(2).partial_fit(np.ones((10, D)))
    assert not hasattr(ppca, "model_")
    again = pickle.loads(pickle.dumps(ppca))  # noqa: S301
    with pytest.raises(NotFittedError, match="no variation"):
        again.transform(x)
    assert len(solves) == 1


def test_a_fit_forgets_the_error_of_a_sketch_that_came_from_a_file(rng, x, tmp_path):
    wide = PPCA(2, random_state=0).partial_fit(rng.standard_normal((300, 2100)))
    wide.to_file(tmp_path / "sketch.npz")
    back = PPCA.from_file(tmp_path / "sketch.npz")
    assert back.sketch_error_ > 0
    assert back.fit(x).sketch_error_ == 0.0


def test_columns_in_small_units_are_not_lost_beside_those_in_large_ones(rng):
    x = spiked_rows(rng, 80, 5, 2, noise=0.3) * np.geomspace(1e-12, 1e12, 5)
    found, wanted = read(PPCA(2, standardize=True), np.array_split(x, 7)), PPCA(2, standardize=True).fit(x)
    assert_same_model(found, wanted, 1e-8)


def test_a_constant_column_of_a_standardised_stream_stays_constant(rng):
    x = spiked_rows(rng, 300, 5, 2)
    x[:, 3] = 1e6 / 3
    batches = np.array_split(x, 17)
    found, wanted = read(PPCA(2, standardize=True), batches), PPCA(2, standardize=True).fit(x)
    assert_allclose(found.explained_variance_ratio_, wanted.explained_variance_ratio_, rtol=1e-8)
    assert_allclose(np.abs(found.loadings_), np.abs(wanted.loadings_), atol=1e-8)
