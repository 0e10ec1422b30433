"""A block is its rows, whatever they are made of and however they are cut."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import random_model
from probpca import DataError, ShapeError
from probpca.blocks import Block, as_block
from probpca.blocks.block import dense_precision, dense_values
from probpca.inference import log_likelihood, outliers, posterior

FORMS = {
    "float64": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "columns": np.asfortranarray,
    "columns32": lambda x: np.asfortranarray(x.astype(np.float32)),
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo32": lambda x: sparse.coo_array(x.astype(np.float32)),
    "matrix": sparse.csr_matrix,
}


@pytest.fixture
def x(rng):
    """Numbers that float32 holds exactly, many of them zero: the same rows in every form."""
    return rng.integers(-9, 9, size=(200, 5)) / 4 * (rng.random((200, 5)) < 0.6)


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


@given(n=st.integers(0, 40_000), d=st.integers(1, 3000), min_rows=st.integers(1, 5000))
def test_pieces_cover_each_row_once_and_in_order(n, d, min_rows):
    block = Block(np.broadcast_to(0.0, (n, d)))
    pieces = list(block.pieces(min_rows=min_rows))
    ends = [0, *(piece.stop for piece in pieces)]
    assert ends[:-1] == [piece.start for piece in pieces]
    assert ends[-1] == n
    assert all(piece.stop - piece.start >= min_rows for piece in pieces[:-1])
    assert all(piece.stop > piece.start for piece in pieces)


def test_pieces_of_a_large_block_fit_a_cache():
    block = Block(np.broadcast_to(0.0, (1_000_000, 1000)))
    sizes = [8 * 1000 * (piece.stop - piece.start) for piece in block.pieces()]
    assert max(sizes) <= 4 * 2**20


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [slice(0, 200), slice(3, 77), slice(199, 200), slice(5, 5)], ids=str)
def test_centred_rows_equal_a_subtraction(form, x, dtype, rows):
    mean = np.linspace(-2, 2, 5)
    centred = as_block(form(x)).centred(rows, mean, dtype)
    assert centred.dtype == dtype
    assert_allclose(centred, x[rows] - mean, rtol=0, atol=4 * np.finfo(dtype).eps)


def test_raw_and_taken_rows_are_the_rows(form, x):
    block = Block(as_block(form(x)).values, np.arange(200.0))
    part = block.take(slice(10, 30))
    assert_array_equal(block.raw(slice(10, 30)), x[10:30])
    assert_array_equal(part.raw(slice(0, 20)), x[10:30])
    assert_array_equal(part.weight, np.arange(10.0, 30.0))
    assert (part.n_rows, part.n_features) == (20, 5)


def test_a_block_never_copies_dense_rows(x):
    assert as_block(x).values is x
    assert np.shares_memory(as_block(x).raw(slice(2, 9)), x)


def test_total_weight_counts_rows_unless_told_otherwise(x):
    assert as_block(x).total_weight == 200.0
    assert Block(x, np.full(200, 0.25)).total_weight == 50.0
    assert_array_equal(as_block(x).weight_of(slice(3, 7)), np.ones(4))
    assert_array_equal(Block(x, np.arange(200.0)).weight_of(slice(3, 7)), [3.0, 4.0, 5.0, 6.0])


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([["a", "b"]], DataError, r"rows must be numbers; got <U1 entries, which are text.*\nHint: encode or drop"),
        ([["1", "2"]], DataError, r"got <U1 entries, which are text(.|\n)*astype\(float\)"),
        ([[b"1", b"2"]], DataError, r"got \|S1 entries, which are text"),
        (np.array([[1, 2], [3, "1_000"]], dtype=object), DataError, "got text such as '1_000' in row 1, column 1"),
        (np.array([[1, b"2"]], dtype=object), DataError, "got text such as b'2' in row 0, column 1"),
        (np.array([[1, 2j]], dtype=object), DataError, "got an entry such as 2j in row 0, column 1"),
        (np.array([[1, dt.date(2026, 1, 2)]], dtype=object), DataError, r"date\(2026, 1, 2\) in row 0, column 1"),
        (np.array([[1, np.datetime64("2020-01-01")]], dtype=object), DataError, "datetime64.* in row 0, column 1"),
        (np.array([[1, 10**400]], dtype=object), DataError, "rows must be numbers; int too large"),
        (np.array([[{}]], dtype=object), DataError, "rows must be numbers"),
        ([[1.0, 2.0], [3.0]], DataError, "rows must be numbers"),
        (np.ones((2, 2, 2)), ShapeError, r"rows must form a matrix \(n, d\); got an array of shape \(2, 2, 2\)"),
        (3.0, ShapeError, r"got an array of shape \(\)"),
        (np.ones((4, 3)), ShapeError, "rows must have 2 features, as the model has; got 3"),
        (np.ones(3), ShapeError, "rows must have 2 features, as the model has; got 3"),
        (sparse.csr_array(np.ones((4, 3))), ShapeError, "rows must have 2 features.*got 3"),
        (Block(np.ones((4, 3))), ShapeError, "rows must have 2 features.*got 3"),
        ([[1.0 + 2.0j, 0.0]], DataError, "rows must be numbers; got complex128 entries"),
        (sparse.csr_array([[1.0j, 0.0]]), DataError, "rows must be numbers; got complex128 entries"),
        (np.zeros((3, 2), dtype="datetime64[s]"), DataError, "rows must be numbers; got datetime64"),
    ],
)
def test_what_cannot_be_rows_is_refused_with_its_reason(rows, error, message):
    with pytest.raises(error, match=message):
        as_block(rows, 2)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint16, np.float16, object])
def test_numbers_of_any_kind_become_floats(dtype):
    block = as_block(np.array([[0, 1], [1, 0]], dtype=dtype))
    assert block.values.dtype == np.float64
    assert_array_equal(block.values, [[0.0, 1.0], [1.0, 0.0]])


def test_a_vector_is_one_row():
    assert as_block([1.0, 2.0, 3.0]).values.shape == (1, 3)
    assert as_block(sparse.csr_array(np.eye(3, dtype=int))).values.dtype == np.float64


@pytest.mark.parametrize(
    "query", [log_likelihood, lambda m, x: posterior(m, x).mean, lambda m, x: outliers(m, x).contributions]
)
def test_answers_do_not_share_memory_with_each_other(query, rng):
    model = random_model(rng, d=5, q=2)
    x, y = rng.standard_normal((2, 30, 5))
    first = query(model, x)
    kept = first.copy()
    second = query(model, y)
    assert not np.shares_memory(first, second)
    assert_array_equal(first, kept)
    assert np.abs(second - first).max() > 0.01


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_picked_rows_keep_their_weights_and_precisions(rng, kind):
    x, rows = rng.standard_normal((8, 3)), np.array([6, 1, 2])
    values = kind(x)
    precision = rng.random((8, 3)) if kind is np.asarray else rng.random(values.nnz)
    block = Block(values, np.arange(8.0), precision)
    picked = block.pick(rows)
    assert_array_equal(dense_values(picked), x[rows])
    assert_array_equal(picked.weight, rows)
    assert_array_equal(dense_precision(picked), dense_precision(block)[rows])
