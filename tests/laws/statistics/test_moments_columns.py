"""One summary of the features: complete rows by the quick way, others by a mask, with the same numbers."""

from functools import partial, reduce

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from probpca.blocks import Block
from probpca.blocks.block import MAX_PIECE_ROWS
from probpca.statistics import ColumnSummary, Moments, Root, Sketch

N, D = 2 * MAX_PIECE_ROWS + 500, 5
ROWS = np.random.default_rng(5).normal(3.0, np.arange(1, D + 1), (N, D))
WEIGHTS = {"once": None, "fractions": np.random.default_rng(6).uniform(0.1, 3.0, N)}


def late_nan():
    x = ROWS.copy()
    x[N - 7, 2] = x[N - 3, 2] = x[N - 3, 4] = np.nan
    return x


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_complete_rows_have_the_same_summary_by_a_mask(weight):
    quick, masked = ColumnSummary.of(Block(ROWS, weight)), ColumnSummary.of(Block(ROWS, weight, np.ones_like(ROWS)))
    assert quick.complete
    assert not masked.complete  # cell precisions may differ
    for name in ("count", "total_weight", "observed", "precision", "mean", "squares", "missing", "infinite"):
        assert_allclose(getattr(quick, name), getattr(masked, name), rtol=1e-10, err_msg=name)


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_a_nan_in_the_last_piece_is_found_and_counted(weight):
    x = late_nan()
    w = np.ones(N) if weight is None else weight
    found = ColumnSummary.of(Block(x, weight))
    assert not found.complete
    assert found.is_finite
    assert found.count == N
    assert_array_equal(found.missing, [0, 0, 2, 0, 1])
    assert_allclose(found.observed, w @ ~np.isnan(x))
    for j in range(D):
        seen = ~np.isnan(x[:, j])
        mean = np.average(x[seen, j], weights=w[seen])
        assert_allclose(found.mean[j], mean)
        assert_allclose(found.squares[j], w[seen] @ (x[seen, j] - mean) ** 2)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("where", [3, N - 3], ids=["early", "late"])
def test_infinite_cells_are_counted_where_they_are(form, where):
    x = ROWS.copy()
    x[where, 1], x[where + 1, 1] = np.inf, -np.inf
    blocks = [Block(form(x[:9000])), Block(form(x[9000:]))]
    with np.errstate(all="ignore"):
        found = reduce(ColumnSummary.merge, map(ColumnSummary.of, blocks))
    assert found.complete
    assert not found.is_finite
    assert_array_equal(found.infinite, [0, 2, 0, 0, 0])


def test_squares_beyond_the_range_of_single_precision_are_summed_in_double():
    x = (1e25 * ROWS).astype(np.float32)
    with np.errstate(over="ignore"):
        found = ColumnSummary.of(Block(x), dtype=np.float32)
    assert found.complete
    assert_allclose(found.variance, x.astype(np.float64).var(axis=0), rtol=1e-5)


def test_cells_a_sparse_matrix_does_not_store_are_zeros_or_missing():
    x = np.where(np.abs(ROWS) > 3, ROWS, 0.0)
    zeros, gaps = (ColumnSummary.of(Block(sparse.csr_array(x), unstored_missing=gaps)) for gaps in (False, True))
    assert zeros.complete
    assert not gaps.complete
    assert_array_equal(gaps.missing, (x == 0).sum(axis=0))
    assert_allclose(zeros.variance, x.var(axis=0))


def test_a_row_of_weight_zero_is_not_counted():
    w = np.ones(N)
    w[:10] = 0.0
    assert ColumnSummary.of(Block(late_nan(), w)).count == N - 10


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("where", [3, N - 3], ids=["early", "late"])
@pytest.mark.parametrize("kind", [Moments, Root])
def test_moments_say_that_rows_are_not_complete(bad, weight, where, kind):
    x = ROWS.copy()
    x[where, 1] = bad
    with np.errstate(invalid="ignore"):
        found = kind.of(Block(x, weight))
    other = kind.of(Block(ROWS))
    assert other.complete
    for merged in (found, found.merge(other), other.merge(found)):
        assert not merged.complete
    assert found.merge(other).count == 2 * N


def test_moments_of_huge_rows_are_complete_though_their_scatter_is_infinite():
    with np.errstate(all="ignore"):
        assert Moments.of(Block(1e200 * ROWS)).complete
        assert Moments.of(Block((1e36 * ROWS).astype(np.float32)), dtype=np.float32).complete
        assert Moments.of(Block(np.full((4, 2), 1.7e308))).complete


def test_moments_of_cells_with_precisions_are_not_those_of_complete_rows():
    assert not Moments.of(Block(ROWS, None, np.ones_like(ROWS))).complete
    assert not Moments.of(Block(sparse.csr_array(ROWS), unstored_missing=True)).complete


FORMS = {
    "dense": Block,
    "float32": lambda x, w: Block(x.astype(np.float32), w),
    "masked": lambda x, w: Block(np.where(np.arange(x.size).reshape(x.shape) % 11 == 0, np.nan, x), w),
    "precisions": lambda x, w: Block(x, w, np.random.default_rng(1).uniform(0.5, 2.0, x.shape)),
    "sparse": lambda x, w: Block(sparse.csr_array(x), w),
    "sparse with gaps": lambda x, w: Block(sparse.csr_array(x), w, unstored_missing=True),
}


@pytest.mark.parametrize("value", [0.1, 1e17, 9.97e36])
@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_constant_column_has_its_value_as_mean_and_no_variance(form, weight, value):
    x = ROWS.copy()
    x[:, 3] = value
    block = form(x, weight)
    parts = [block.take(slice(start, min(start + 5000, N))) for start in range(0, N, 5000)]
    for found in (ColumnSummary.of(block), reduce(ColumnSummary.merge, map(ColumnSummary.of, parts))):
        assert found.mean[3] == block.values[[1]].astype(np.float64)[0, 3]
        assert found.squares[3] == 0


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("kind", [Moments.of, Root.of, partial(Sketch.of, 20)], ids=["Moments", "Root", "Sketch"])
def test_factors_of_a_constant_column_are_exactly_zero(kind, weight):
    x = ROWS.copy()
    x[:, 3] = 9.97e36
    found = kind(Block(x, weight))
    assert found.mean[3] == 9.97e36
    assert found.variance[3] == 0
    assert_allclose(found.variance[[0, 1, 2, 4]], kind(Block(ROWS, weight)).variance[[0, 1, 2, 4]], rtol=1e-10)


def test_a_light_row_far_away_does_not_blur_the_others():
    x, w = ROWS[:500].copy(), np.ones(500)
    x[0], w[0] = 1e12, 1e-300
    for form in (Block(x, w), Block(x, w, np.ones_like(x)), Block(sparse.csr_array(x), w)):
        assert_allclose(ColumnSummary.of(form).variance, ROWS[1:500].var(axis=0), rtol=1e-11)
