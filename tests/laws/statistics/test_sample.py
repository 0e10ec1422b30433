"""A few rows of a table, whoever draws them."""

from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from probpca.blocks import Block
from probpca.statistics import Sample

ROWS = np.random.default_rng(1).standard_normal((60, 12))
draw = partial(Sample.of, 7, 42)


@given(cuts=st.lists(st.integers(0, 60), max_size=4))
def test_cuts_do_not_decide_who_is_drawn(cuts):
    parts = [draw(Block(ROWS[a:b])) for a, b in pairwise([0, *sorted(cuts), 60])]
    merged = reduce(lambda left, right: left.merge(right), parts)
    assert_array_equal(merged.rows, draw(Block(ROWS)).rows)


def test_neither_do_the_order_of_rows_nor_the_form_of_the_table(rng):
    drawn = draw(Block(ROWS)).rows
    assert_array_equal(draw(Block(rng.permutation(ROWS))).rows, drawn)
    assert_array_equal(draw(Block(np.asfortranarray(ROWS))).rows, drawn)
    assert_array_equal(draw(Block(sparse.csr_array(ROWS))).rows, drawn)


@pytest.mark.parametrize("n", [0, 3, 7, 60])
def test_rows_are_of_the_table_each_once_and_no_more_than_asked_for(n):
    drawn = draw(Block(ROWS[:n])).rows
    assert len(drawn) == min(n, 7)
    positions = [int(np.flatnonzero((row == ROWS).all(axis=1))[0]) for row in drawn]
    assert len(set(positions)) == len(positions)
    assert all(position < n for position in positions)


def test_seeds_draw_every_row_about_as_often():
    n, trials = 60, 600
    count = np.zeros(n)
    for seed in range(trials):
        for row in Sample.of(7, seed * 7919 + 1, Block(ROWS)).rows:
            count[(row == ROWS).all(axis=1)] += 1
    share = 7 / n
    assert np.abs(count / trials - share).max() < 6 * np.sqrt(share * (1 - share) / trials)
