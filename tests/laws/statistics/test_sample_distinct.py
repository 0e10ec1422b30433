"""Different rows of a table and how often they came, whoever counts them."""

from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from probpca.blocks import Block
from probpca.statistics import Distinct

RNG = np.random.default_rng(1)
KINDS = RNG.integers(-1, 2, (20, 4)).astype(float)
KINDS[3, 2] = np.nan
KINDS = np.unique(KINDS, axis=0)
ROWS = KINDS[RNG.geometric(0.2, 300) % len(KINDS)]
WEIGHT = RNG.integers(0, 3, len(ROWS)).astype(float)
draw = partial(Distinct.of, 7, 42)


def weight_in_table(row, rows, weight):
    same = ((rows == row) | (np.isnan(rows) & np.isnan(row))).all(axis=1)
    return weight[same].sum()


@given(cuts=st.lists(st.integers(0, len(ROWS)), max_size=4), weighted=st.booleans())
def test_cuts_decide_neither_who_is_drawn_nor_how_often(cuts, weighted):
    weight = WEIGHT if weighted else np.ones(len(ROWS))
    parts = [draw(Block(ROWS[a:b], weight[a:b])) for a, b in pairwise([0, *sorted(cuts), len(ROWS)])]
    merged, whole = reduce(lambda left, right: left.merge(right), parts), draw(Block(ROWS, weight))
    assert_array_equal(merged.rows, whole.rows)
    assert_allclose(merged.weight, whole.weight)


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, np.float32, sparse.csr_array], ids=str)
def test_a_share_of_the_rows_is_the_same_however_they_are_cut(kind):
    rows = np.random.default_rng(2).standard_normal((3000, 5))
    rows[::3] = np.round(rows[::3])
    pick = partial(Distinct.of, 100, 42, share=0.05)
    whole = pick(Block(kind(rows)))
    assert len(whole.rows) == 100
    for cuts in ([1000], [1, 7, 1500, 2999]):
        ends = [0, *cuts, 3000]
        parts = [pick(Block(kind(rows[a:b]))) for a, b in pairwise(ends)]
        merged = reduce(lambda left, right: left.merge(right), parts)
        assert_array_equal(merged.rows, whole.rows)
        assert_array_equal(merged.weight, whole.weight)


def test_a_share_of_the_rows_is_about_as_large_as_it_should_be():
    tables = {"normal": RNG.standard_normal((20_000, 4)), "binary": RNG.integers(0, 2, (20_000, 30)).astype(float)}
    for rows in tables.values():
        counts = [Distinct.of(20_000, seed, Block(rows), share=0.05).weight.sum() for seed in range(1, 21)]
        assert_allclose(np.mean(counts), 1000, rtol=0.1)


def test_weights_are_those_of_the_table():
    for weight in (np.ones(len(ROWS)), WEIGHT):
        drawn = draw(Block(ROWS, weight))
        assert len(drawn.rows) == 7
        assert_allclose(drawn.weight, [weight_in_table(row, ROWS, weight) for row in drawn.rows])


def test_neither_the_order_of_rows_nor_the_form_of_the_table_matters(rng):
    plain = np.nan_to_num(ROWS)
    drawn = draw(Block(plain))
    signed = np.where(plain == 0, -0.0, plain)
    forms = rng.permutation(plain), np.asfortranarray(plain), sparse.csr_array(plain), plain.astype(np.float32), signed
    for form in forms:
        again = draw(Block(form))
        assert_array_equal(again.rows, drawn.rows)
        assert_array_equal(again.weight, drawn.weight)


def test_cells_that_are_not_stored_are_missing_if_they_should_be():
    thin = sparse.csr_array(np.nan_to_num(ROWS))
    holed = np.where(np.nan_to_num(ROWS) == 0, np.nan, ROWS)
    drawn, wanted = draw(Block(thin, unstored_missing=True)), draw(Block(holed))
    assert_array_equal(drawn.rows, wanted.rows)
    assert_array_equal(drawn.weight, wanted.weight)


@pytest.mark.parametrize("n", [0, 1, 300])
def test_all_kinds_are_drawn_if_there_is_room(n):
    drawn = Distinct.of(1000, 3, Block(ROWS[:n]))
    assert drawn.weight.sum() == n
    assert drawn.rows.shape == (len(np.unique(drawn.keys)), 4)


def test_means_over_what_is_drawn_are_unbiased():
    """Horvitz and Thompson: every kind is as likely as any other to be in, with all of its weight."""
    found = []
    for seed in range(800):
        drawn = Distinct.of(7, seed * 7919 + 1, Block(np.nan_to_num(ROWS)))
        found.append(drawn.weight.sum())
    kinds = len(np.unique(np.nan_to_num(ROWS), axis=0))
    expected, error = len(ROWS) * 7 / kinds, np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - expected) < 5 * error
