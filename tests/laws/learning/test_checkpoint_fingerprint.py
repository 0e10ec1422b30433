"""Rows are known again however they are cut, ordered and stored; other rows are not taken for them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import spiked_rows_with_holes
from probpca.learning import Settings
from probpca.learning.checkpoint import fingerprint, is_same
from probpca.learning.describe import describe
from probpca.learning.missing.fit import Problem
from probpca.sources import open_source

N, D, Q = 400, 6, 2


@pytest.fixture
def x(rng):
    x = spiked_rows_with_holes(rng, N, D, Q, noise=0.7)
    x[:150] = np.nan_to_num(x[:150], nan=1.0)  # some rows share a pattern
    return x


def known(x, **options):
    """The fingerprint of rows, and their columns."""
    source = open_source(x, **options)
    rng = np.random.default_rng(0)
    problem = Problem.of(describe(source, rng), Settings(), rng)
    return fingerprint(problem.rows, problem.summary), problem.summary


def same(x, y, **options):
    (found, columns), (wanted, _) = known(x), known(y, **options)
    return is_same(found, wanted, columns)


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("sizes", [[N], [1] * N, [7, 13, 180, 200]])
def test_cuts_do_not_matter(x, sizes, offset):
    x = x + offset
    found, wanted = known(open_source(np.split(x, np.cumsum(sizes)[:-1])))[0], known(x)[0]
    assert_allclose(found, wanted, atol=1e-9 * N)


def test_the_order_of_rows_does_not_matter(x, rng):
    assert_allclose(known(rng.permutation(x))[0], known(x)[0], atol=1e-9 * N)


def test_a_row_of_weight_two_is_two_rows(x, rng):
    w = rng.integers(1, 4, N)
    assert_allclose(known(x, weight=w.astype(float))[0], known(np.repeat(x, w, axis=0))[0], atol=1e-9 * N)


def test_cells_that_are_not_stored_are_as_those_that_are_nan(x):
    seen = ~np.isnan(x)
    stored = sparse.csr_array((x[seen], np.nonzero(seen)), shape=x.shape)
    assert_allclose(known(stored, unstored_missing=True)[0], known(x)[0], atol=1e-9 * N)


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_single_precision_is_known_again_in_double(x, offset):
    single = (x + offset).astype(np.float32)
    assert same(single, single.astype(np.float64))


@pytest.mark.parametrize("units", [1e-6, 1e6])
def test_units_do_not_matter(x, units):
    assert_allclose(known(x * units)[0], known(x)[0], atol=1e-8 * N)


def test_rows_twice_count_twice(x):
    found, columns = known(x)
    assert found.shape == (16,)
    assert (np.abs(found) <= columns.total_weight).all()
    assert_allclose(known(np.vstack([x, x]))[0], 2 * found, atol=1e-9 * N)


def mirrored(x):
    return 2 * np.nanmean(x, axis=0) - x


CHANGES = {
    "mirrored": mirrored,
    "one column mirrored": lambda x: np.column_stack([mirrored(x)[:, :1], x[:, 1:]]),
    "cells in other rows": lambda x: np.sort(x, axis=0),
    "two rows moved apart": lambda x: x + 0.1 * np.eye(N, 2) @ [[1.0] * D, [-1.0] * D],
}


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_rows_with_the_same_means_are_told_apart(x, change, offset):
    x = x + offset
    assert same(x, x)
    assert not same(x, change(x))


def test_a_constant_column_does_no_harm(x):
    x = np.column_stack([x, np.full(N, 1 / 3)])
    assert same(x, open_source(np.array_split(x, 7)))
    assert not same(x, mirrored(x))
