"""Sources that cannot be used say so, and what goes wrong in a worker harms nobody else."""

import os

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import feather
from threadpoolctl import threadpool_limits

from probpca import DataError, ProbpcaError, ShapeError, SourceError
from probpca.sources import open_source
from probpca.sources.engines.local import resolve_jobs
from probpca.statistics import Moments

ROWS = np.random.default_rng(5).standard_normal((20_000, 4)) + 3


def test_a_one_shot_iterator_cannot_be_read_twice():
    source = open_source(iter([ROWS[:10], ROWS[10:]]))
    assert not source.repeatable
    source.fold(Moments.of)
    with pytest.raises(SourceError, match=r"already read(.|\n)*Hint: pass a list"):
        source.fold(Moments.of)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ragged_batches_are_refused(n_jobs):
    source = open_source([ROWS, ROWS[:, :3]], n_jobs=n_jobs)
    with pytest.raises(ShapeError, match="every batch must have 4 columns, like the first; got 3"):
        source.fold(Moments.of)


@pytest.mark.parametrize("empty", [[], iter([]), (row for row in [])], ids=["list", "iterator", "generator"])
def test_an_empty_iterable_is_refused(empty):
    with pytest.raises(SourceError, match="at least one batch"):
        open_source(empty)


@pytest.mark.parametrize("thing", [7, None, b"rows"])
def test_what_holds_no_rows_is_refused(thing):
    with pytest.raises(SourceError, match=rf"got {type(thing).__name__}(.|\n)*Hint"):
        open_source(thing)


def test_an_array_of_three_dimensions_is_no_table():
    with pytest.raises(ShapeError, match=r"got an array of shape \(2, 3, 4\)"):
        open_source(np.zeros((2, 3, 4)))


def test_text_is_refused_with_a_hint():
    with pytest.raises(DataError, match=r"must be numbers(.|\n)*Hint: encode or drop"):
        open_source([["1", "two"], ["3", "4"]])


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        ([1, -1, 1], DataError, "not negative; entry 1 is -1.0"),
        ([1, 1, np.nan], DataError, "finite and not negative; entry 2 is nan"),
        ([np.inf, 1, 1], DataError, "finite and not negative; entry 0 is inf"),
        ([0, 0, 0], DataError, "must not be zero for every row"),
        ([1, 1], ShapeError, r"each of the 3 rows; got shape \(2,\)"),
        ([[1], [1], [1]], ShapeError, r"each of the 3 rows; got shape \(3, 1\)"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weight, error, message):
    with pytest.raises(error, match=message):
        open_source(ROWS[:3], weight=weight)


@pytest.mark.parametrize("rows", [[ROWS, ROWS], iter([ROWS]), open_source(ROWS)], ids=["batches", "stream", "source"])
def test_weights_go_with_a_matrix_only(rows):
    with pytest.raises(SourceError, match="weights go with a matrix"):
        open_source(rows, weight=np.ones(len(ROWS)))


def test_a_weight_of_zero_is_a_row_that_is_not_there():
    rows = ROWS[:5].copy()
    rows[2] = np.nan
    source = open_source(rows, weight=[1, 2, 0, 1, 1])
    assert source.n_rows == 4
    assert_allclose(source.fold(Moments.of).mean, np.array([1, 2, 1, 1]) @ rows[[0, 1, 3, 4]] / 5)


def fail_on_the_third(block):
    if np.isnan(block.values).any():
        msg = "the third batch is bad"
        raise ArithmeticError(msg)
    return Moments.of(block)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_exception_in_a_worker_reaches_the_caller_and_the_pool_lives_on(n_jobs):
    batches = np.array_split(ROWS, 10)
    source = open_source([*batches[:2], np.full((1, 4), np.nan), *batches[2:]], n_jobs=n_jobs)
    for _ in range(3):
        with pytest.raises(ArithmeticError, match="the third batch is bad"):
            source.fold(fail_on_the_third)
    assert_allclose(open_source(ROWS, n_jobs=n_jobs).fold(Moments.of).mean, ROWS.mean(axis=0))


def test_numpy_does_not_warn_from_a_worker():
    huge = np.full((10, 2), 1e200)
    huge[::2] *= -1
    assert np.isinf(open_source(huge).fold(Moments.of).scatter).all()


def test_one_blas_thread_gives_the_same_answer():
    free = open_source(ROWS).fold(Moments.of)
    with threadpool_limits(1):
        assert resolve_jobs(None) == 1
        limited = open_source(ROWS).fold(Moments.of)
    assert_allclose(limited.scatter, free.scatter, rtol=1e-12, atol=1e-9)


def test_jobs_are_counted_as_scikit_learn_counts_them():
    cores = os.cpu_count()
    assert [resolve_jobs(jobs) for jobs in (1, 5, -1)] == [1, 5, cores]
    assert resolve_jobs(-cores - 7) == 1


def test_a_nested_list_is_a_matrix_and_a_list_of_matrices_is_a_stream():
    assert open_source([[1.0, 2.0], [3.0, 4.0]]).n_rows == 2
    assert open_source([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]).n_features == 2


def test_a_source_is_opened_as_itself():
    source = open_source(ROWS)
    assert open_source(source) is source


def test_rows_in_memory_are_never_copied():
    block = open_source(ROWS).hold()[0]
    assert np.shares_memory(block.values, ROWS)
    assert_array_equal(block.values, ROWS)


def test_a_header_that_is_no_python_literal_is_named(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.ones((4, 3)))
    path.write_bytes(path.read_bytes().replace(b"}", b" "))
    with pytest.raises(SourceError, match=r"not a \.npy file"):
        open_source(path)


def test_a_footer_that_cannot_be_counted_is_named(tmp_path):
    path = tmp_path / "rows.feather"
    table = pa.table({"a": np.arange(40.0), "b": np.arange(40.0)})
    feather.write_feather(table, str(path), compression="uncompressed", chunksize=20)
    content = path.read_bytes()
    seen = set()
    for place in range(len(content) - 400, len(content)):  # the footer, byte by byte
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        try:
            open_source(path)
        except ProbpcaError as error:
            seen.add(type(error))
    assert SourceError in seen
