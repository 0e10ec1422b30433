"""Weights of rows are frequencies: their total is the number of rows that a fit has seen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from oracles import punched, spiked_rows
from probpca import PPCA, BayesianPCA, PPCAImputer, select_n_components
from probpca.blocks import Block
from probpca.errors import DataError
from probpca.learning.settings import SOLVERS

N = 40
REFUSED = r"sample_weight must sum to at least 2, because weights are frequencies; got (?s:.*)Hint: divide the weights"


@pytest.fixture
def x(rng):
    return spiked_rows(rng, N, 6, 2)


@pytest.fixture
def holes(rng, x):
    return punched(rng, x, 0.2)


TOO_FEW = {
    "that sum to one": np.full(N, 1 / N),
    "of 1e-8": np.full(N, 1e-8),
    "below 1e-300": np.full(N, 1e-310),
    "of the smallest number": np.full(N, 5e-324),
    "that sum to just below two": np.append(np.full(N - 1, 1e-9), 1.99),
}


@pytest.mark.parametrize("weight", TOO_FEW.values(), ids=TOO_FEW)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_no_fit_takes_weights_that_sum_to_less_than_two(x, holes, missing, standardize, weight):
    rows = holes if missing else x
    for estimator in (PPCA(2), PPCA("bic"), PPCA("cv"), BayesianPCA(2)):
        with pytest.raises(DataError, match=REFUSED):
            estimator.set_params(standardize=standardize).fit(rows, sample_weight=weight)
    with pytest.raises(DataError, match=REFUSED):
        PPCAImputer(2).fit(rows, sample_weight=weight)
    with pytest.raises(DataError, match=REFUSED):
        select_n_components(rows, sample_weight=weight, standardize=standardize)


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_solver_takes_weights_that_sum_to_less_than_two(x, solver):
    for rows in (x, x.astype(np.float32), x[:5]):
        with pytest.raises(DataError, match=REFUSED):
            PPCA(1, solver=solver).fit(rows, sample_weight=np.full(len(rows), 1 / len(rows)))


def test_weights_of_batches_must_sum_to_two(x):
    batches = [Block(part, np.full(len(part), 1 / N)) for part in np.array_split(x, 4)]
    with pytest.raises(DataError, match=REFUSED):
        PPCA(2).fit(batches)


def test_an_imputer_of_one_column_takes_the_same_weights(x):
    with pytest.raises(DataError, match=REFUSED):
        PPCAImputer().fit(x[:, :1], sample_weight=np.full(N, 1 / N))
    weight = np.arange(1.0, N + 1)
    found = PPCAImputer().fit(x[:, :1], sample_weight=weight).transform([[np.nan]])
    assert_allclose(found[0, 0], np.average(x[:, 0], weights=weight), rtol=1e-12)


def test_the_bootstrap_takes_the_same_weights(x):
    with pytest.raises(DataError, match=REFUSED):
        PPCA(2).fit(x).uncertainty(x, sample_weight=np.full(N, 1 / N), method="bootstrap")


def test_weights_that_sum_to_two_up_to_rounding_are_enough(x):
    for weight in (np.full(N, 2 / N), np.full(N, np.nextafter(2 / N, 0))):
        assert_allclose(PPCA(2).fit(x, sample_weight=weight).n_samples_, 2.0)


@pytest.mark.parametrize("wide", [False, True])
def test_the_total_of_a_stream_counts_and_not_that_of_a_batch(rng, wide):
    x = spiked_rows(rng, N, 2100 if wide else 6, 2)
    ppca = PPCA(2)
    for row in x[:20, None]:
        ppca.partial_fit(row, sample_weight=[1 / 20])
    with pytest.raises(NotFittedError, match=REFUSED):
        ppca.transform(x)
    for row in x[20:, None]:
        ppca.partial_fit(row, sample_weight=[1.0])
    weight = np.repeat([1 / 20, 1.0], 20)
    assert_allclose(ppca.n_samples_, 21.0)
    assert_allclose(ppca.score(x), PPCA(2).fit(x, sample_weight=weight).score(x), rtol=1e-6)


def test_a_stream_with_missing_cells_waits_until_its_weights_sum_to_two(rng):
    x = punched(rng, spiked_rows(rng, 300, 6, 2), 0.1)
    ppca = PPCA(2, random_state=0).partial_fit(x, sample_weight=np.full(300, 1e-3))
    with pytest.raises(NotFittedError, match=REFUSED):
        ppca.score(x)
    assert np.isfinite(ppca.partial_fit(x).score(x))


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_of_weight_zero_are_as_if_they_were_not_there(x, solver):
    weight = np.where(np.arange(N) % 3, 1.0, 0.0)
    x[weight == 0] = 1e6
    found = PPCA(2, solver=solver, random_state=0).fit(x, sample_weight=weight)
    wanted = PPCA(2, solver=solver, random_state=0).fit(x[weight > 0])
    assert_allclose(found.get_covariance(), wanted.get_covariance(), rtol=1e-10)
    assert found.n_samples_ == wanted.n_samples_ == np.count_nonzero(weight)


def test_rows_of_weight_zero_do_not_count_for_any_criterion(holes):
    weight = np.where(np.arange(N) % 3, 1.0, 0.0)
    holes[weight == 0] = 1e6
    found = select_n_components(holes, sample_weight=weight, random_state=0)
    wanted = select_n_components(holes[weight > 0], random_state=0)
    for mine, theirs in zip(found.criteria, wanted.criteria, strict=True):
        assert mine.choice == theirs.choice
        assert_array_equal(mine.score, theirs.score)


@pytest.mark.parametrize("factor", [5e-324, 1e-300, 1e-8, 1.0, 1e308])
def test_a_weighted_score_depends_on_the_ratios_of_weights_alone(x, holes, factor):
    for ppca in (PPCA(2).fit(holes), BayesianPCA(2).fit(holes)):
        weight = np.where(np.arange(N) % 3, factor, 0.0)
        assert_allclose(ppca.score(x, sample_weight=weight), ppca.score(x[weight > 0]), rtol=1e-12)
        with pytest.raises(DataError, match="zero for every row"):
            ppca.score(x, sample_weight=np.zeros(N))
