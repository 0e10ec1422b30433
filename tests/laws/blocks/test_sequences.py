"""Series laid end to end keep their rows, their order and their ends."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from probpca import DataError, ShapeError
from probpca.blocks import Sequences, as_sequences

NAN = np.nan
LENGTHS = [[5], [1], [3, 1, 4], [1, 1, 1], [2, 7, 1, 1, 9]]


@pytest.fixture(params=LENGTHS, ids=str)
def series(request, rng):
    """Matrices of different lengths, two columns each, some cells missing."""
    tables = [rng.standard_normal((length, 2)) for length in request.param]
    tables[0][0, 1] = NAN
    return tables


def test_one_matrix_is_one_sequence(rng):
    y = rng.standard_normal((6, 3))
    rows = as_sequences(y)
    assert_array_equal(rows.values, y)
    assert_array_equal(rows.lengths, [6])
    assert (rows.n_steps, rows.n_features, rows.inputs) == (6, 3, None)


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_matrices_is_laid_end_to_end(series, kind):
    rows = as_sequences(kind(series))
    assert_array_equal(rows.values, np.vstack(series))
    assert_array_equal(rows.lengths, [len(y) for y in series])


def test_an_array_with_three_axes_is_a_list_of_matrices(rng):
    y = rng.standard_normal((4, 5, 2))
    rows = as_sequences(y)
    assert_array_equal(rows.values, y.reshape(20, 2))
    assert_array_equal(rows.lengths, [5, 5, 5, 5])


@pytest.mark.parametrize(
    "told",
    [
        lambda y: y.tolist(),
        lambda y: y.astype(np.float32),
        pytest.importorskip("pandas").DataFrame,
        sparse.csr_array,
        np.asfortranarray,
        lambda y: y.astype(int),
    ],
    ids=["list", "single", "pandas", "sparse", "by columns", "integer"],
)
def test_numbers_may_come_in_any_form(told):
    y = np.arange(8.0).reshape(4, 2)
    for rows in (as_sequences(told(y)), as_sequences([told(y[:3]), told(y[3:])])):
        assert_array_equal(rows.values, y)
        assert rows.values.dtype == np.float64


def test_sequences_are_taken_as_they_are(series):
    rows = as_sequences(series)
    assert as_sequences(rows) is rows


def test_splitting_undoes_joining(series):
    rows = as_sequences(series)
    found = rows.split(rows.values)
    assert len(found) == len(series)
    for back, y in zip(found, series, strict=True):
        assert_array_equal(back, y)


def test_starts_are_where_sequences_start(series):
    rows = as_sequences(series)
    for start, y in zip(rows.starts, series, strict=True):
        assert_array_equal(rows.values[start], y[0])


def test_rows_are_linked_within_a_sequence_only(series):
    rows = as_sequences(series)
    owner = np.repeat(np.arange(len(series)), rows.lengths)
    assert_array_equal(rows.linked, owner[1:] == owner[:-1])


def test_the_centre_is_the_mean_of_observed_cells():
    rows = as_sequences([[[1.0, NAN, NAN], [3.0, 4.0, NAN]], [[NAN, 6.0, NAN]]])
    assert_array_equal(rows.centre, [2.0, 5.0, 0.0])


@pytest.mark.parametrize("steps", [1, 2, 5, 100])
def test_pieces_hold_every_sequence_once_and_whole(rng, series, steps):
    given = [rng.standard_normal((len(y), 1)) for y in series]
    rows = as_sequences(series, inputs=given)
    pieces = rows.pieces(steps)
    assert_array_equal(np.vstack([piece.values for piece in pieces]), rows.values)
    assert_array_equal(np.vstack([piece.inputs for piece in pieces]), rows.inputs)
    assert_array_equal(np.concatenate([piece.lengths for piece in pieces]), rows.lengths)
    for piece in pieces:
        assert piece.n_steps == piece.lengths.sum()
        assert piece.n_steps < steps + piece.lengths[-1]


def test_inputs_go_with_their_rows(rng, series):
    given = [rng.standard_normal((len(y), 3)) for y in series]
    assert_array_equal(as_sequences(series, inputs=given).inputs, np.vstack(given))
    assert_array_equal(as_sequences(series[0], inputs=given[0]).inputs, given[0])


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([np.ones((2, 3)), np.ones((2, 4))], ShapeError, "must have the 3 columns of the first; got 4 in sequence 1"),
        ([np.ones((2, 3)), np.ones((0, 3))], ShapeError, "sequence 1 must have at least one time step; got none"),
        (np.ones((0, 3)), ShapeError, "the sequence must have at least one time step"),
        ([[1.0, np.inf]], DataError, "the sequence must not contain infinite values.\nHint: use NaN"),
        ([np.ones((2, 2)), [[-np.inf, 0.0]]], DataError, "sequence 1 must not contain infinite values"),
        ([["a", "b"]], DataError, "rows must be numbers"),
        ([[[1.0, 2.0]], [["a", "b"]]], DataError, "rows must be numbers"),
        ([[1.0, 2.0], [3.0]], DataError, "rows must be numbers"),
        (np.ones((2, 2, 2, 2)), ShapeError, r"must form a matrix \(n, d\)"),
    ],
)
def test_what_is_no_series_is_refused_with_its_reason(y, error, message):
    with pytest.raises(error, match=message):
        as_sequences(y)


def test_columns_must_be_those_of_the_model():
    with pytest.raises(ShapeError, match="must have 4 features, as the model has; got 3"):
        as_sequences([np.ones((2, 4)), np.ones((2, 3))], 4)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([np.ones((3, 1))], ShapeError, "for each of the 2 sequences; got 1"),
        ([np.ones((3, 1)), np.ones((1, 1))], ShapeError, r"inputs of sequence 1 .* 2 rows.*got shape \(1, 1\)"),
        ([np.ones(3), np.ones((2, 1))], ShapeError, r"inputs of sequence 0 .* 3 rows.*got shape \(3,\)"),
        ([np.ones((3, 1)), [[1.0], [NAN]]], DataError, "inputs of sequence 1 must be finite.\nHint"),
        ([[[1.0], [np.inf], [0.0]], np.ones((2, 1))], DataError, "inputs of sequence 0 must be finite"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs, error, message):
    with pytest.raises(error, match=message):
        as_sequences([np.ones((3, 2)), np.ones((2, 2))], inputs=inputs)


def test_some_steps_keep_their_inputs(rng):
    rows = as_sequences(rng.standard_normal((9, 2)), inputs=rng.standard_normal((9, 1)))
    part = rows.steps(slice(2, 6), np.array([3, 1]))
    assert isinstance(part, Sequences)
    assert_array_equal(part.values, rows.values[2:6])
    assert_array_equal(part.inputs, rows.inputs[2:6])
    assert_array_equal(part.linked, [True, True, False])
