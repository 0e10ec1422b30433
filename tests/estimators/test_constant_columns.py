"""A constant column changes nothing in the others, however large its value is: fill values such as 9.97e36 are real."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from probpca import PPCA, BayesianPCA

RNG = np.random.default_rng(4)
N, D, WHERE = 120, 5, 2
X = RNG.standard_normal((N, 2)) @ RNG.standard_normal((2, D)) + 0.3 * RNG.standard_normal((N, D))
GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
WEIGHT = RNG.uniform(0.5, 2.0, N)
CELL_WEIGHT = RNG.uniform(0.5, 2.0, (N, D + 1))
VALUES = [1.0, 1e8, 1e17, 1e30, 9.97e36, -1e200]
TABLES = {"complete": X, "missing": GAPS}
WEIGHTS = {"plain": {}, "rows": {"sample_weight": WEIGHT}, "cells": {"cell_weight": CELL_WEIGHT}}
SOLVERS = ("covariance", "gram", "krylov", "svd", "em", "em_zero_noise", "incremental")


def with_column(x, value, *, gaps=False):
    column = np.full((len(x), 1), value, x.dtype)
    column[::7] = np.nan if gaps else value
    return np.hstack([x[:, :WHERE], column, x[:, WHERE:]])


def in_npy(x, folder):
    np.save(folder / "x.npy", x)
    return folder / "x.npy"


def of_two_batches(x, weight):
    ppca = PPCA(2, random_state=0)
    for some in np.array_split(np.arange(N), 2):
        ppca.partial_fit(x[some], sample_weight=None if weight is None else weight[some])
    return ppca


def assert_same_but_for_the_value(found, zero, x, value, rtol=1e-6):
    """Equal covariances, means of the other columns, and answers about rows with the constant."""
    wanted, others = zero.get_covariance(), np.arange(D + 1) != WHERE
    assert_allclose(found.get_covariance(), wanted, rtol=0, atol=rtol * np.abs(wanted).max())
    assert_allclose(found.model_.mean[others], zero.model_.mean[others], rtol=0, atol=rtol)
    assert_allclose(found.model_.mean[WHERE], value, rtol=1e-15)
    assert found.status_ == zero.status_
    rows = with_column(x[:20], value), with_column(x[:20], 0.0)
    assert_allclose(found.transform(rows[0]), zero.transform(rows[1]), rtol=0, atol=100 * rtol)
    assert_allclose(found.score_samples(rows[0]), zero.score_samples(rows[1]), rtol=100 * rtol)


ESTIMATORS = {
    "PPCA": lambda: PPCA(2, random_state=0),
    "threads": lambda: PPCA(2, random_state=0, n_jobs=2),
    "standardize": lambda: PPCA(2, standardize=True, random_state=0),
    "parallel": lambda: PPCA(random_state=0),
    "BayesianPCA": lambda: BayesianPCA(2, random_state=0),
}


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("x", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_the_value_of_a_constant_column_does_not_matter(make, x, weights, gaps):
    zero = make().fit(with_column(x, 0.0, gaps=gaps), **weights)
    for value in VALUES:
        found = make().fit(with_column(x, value, gaps=gaps), **weights)
        assert_same_but_for_the_value(found, zero, x, value)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_nor_does_it_in_any_solver_of_complete_rows(solver, weight):
    zero, *found = (
        PPCA(2, solver=solver, random_state=0).fit(with_column(X, value), sample_weight=weight)
        for value in (0.0, *VALUES)
    )
    for other, value in zip(found, VALUES, strict=True):
        assert_same_but_for_the_value(other, zero, X, value)


@pytest.mark.parametrize("solver", ["auto", "krylov", "svd"])
def test_nor_does_it_in_sparse_rows(solver):
    zero, *found = (
        PPCA(2, solver=solver, random_state=0).fit(sparse.csr_array(with_column(X, value)), sample_weight=WEIGHT)
        for value in (0.0, *VALUES)
    )
    for other, value in zip(found, VALUES, strict=True):
        assert_same_but_for_the_value(other, zero, X, value)


@pytest.mark.parametrize("x", TABLES.values(), ids=TABLES)
def test_nor_does_it_in_files_and_batches(x, tmp_path):
    for place in (lambda x: in_npy(x, tmp_path), lambda x: np.array_split(x, 5)):
        zero, *found = (PPCA(2, random_state=0).fit(place(with_column(x, value))) for value in (0.0, *VALUES))
        for other, value in zip(found, VALUES, strict=True):
            assert_same_but_for_the_value(other, zero, x, value)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("x", TABLES.values(), ids=TABLES)
def test_nor_does_it_in_a_stream(x, weight):
    zero, *found = (of_two_batches(with_column(x, value), weight) for value in (0.0, *VALUES))
    for other, value in zip(found, VALUES, strict=True):
        assert_same_but_for_the_value(other, zero, x, value)


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("x", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_nor_does_it_in_single_precision(make, x, weights):
    zero = make().fit(with_column(x.astype(np.float32), 0.0), **weights)
    for value in VALUES[:-1]:
        table = with_column(x.astype(np.float32), value)
        assert_same_but_for_the_value(make().fit(table, **weights), zero, x, float(np.float32(value)), rtol=1e-5)


@pytest.mark.parametrize("x", TABLES.values(), ids=TABLES)
def test_rows_of_weight_zero_may_have_other_values(x):
    weight = np.where(np.arange(N) % 4 == 0, 0.0, WEIGHT)
    zero, *found = (with_column(x, value) for value in (0.0, *VALUES))
    zero = PPCA(2, random_state=0).fit(zero, sample_weight=weight)
    for table, value in zip(found, VALUES, strict=True):
        table[::4] = 7.0
        assert_same_but_for_the_value(PPCA(2, random_state=0).fit(table, sample_weight=weight), zero, x, value)


@pytest.mark.parametrize("value", [1e17, 1e30, 9.97e36])
def test_a_constant_column_that_begins_late_in_a_stream_does_not_matter(value):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((6000, 2)) @ rng.standard_normal((2, D)) + 0.3 * rng.standard_normal((6000, D))
    x[rng.random(x.shape) < 0.15] = np.nan

    def read(value):
        table, ppca = with_column(x, value), PPCA(2, random_state=0)
        table[:4000, WHERE] = np.nan
        for some in np.array_split(table, 6):
            ppca.partial_fit(some)
        return ppca

    assert_same_but_for_the_value(read(value), read(0.0), x, value)
