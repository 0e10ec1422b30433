"""One suite over every place where rows can live."""

from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import csv, feather as pa_feather, parquet as pq
from scipy import sparse

from oracles import dense_log_likelihood, dense_posterior, random_model
from probpca import PPCA
from probpca.blocks import Block
from probpca.blocks.block import dense_values, joined
from probpca.inference import outliers
from probpca.inference.likelihood import log_likelihood
from probpca.inference.posteriors import posterior_mean
from probpca.learning.em.e_step import expect
from probpca.sources import open_source
from probpca.statistics import ColumnSummary, Moments, Root, Spread, Stack
from probpca.statistics.sample import spread_places

N, D, Q = 20_000, 6, 2  # several blocks a source
RNG = np.random.default_rng(3)
# A third of the cells is zero, and every number fits float32: all sources hold the same values.
ROWS = np.round(RNG.standard_normal((N, D)) * 64 * (RNG.random((N, D)) > 0.3)) / 64 + np.eye(D)[0]
MODEL = random_model(RNG, D, Q)
UNITS = 2.0 ** np.arange(D)


class Rereadable:
    """An object whose ``__iter__`` starts afresh."""

    def __iter__(self):
        yield from np.array_split(ROWS, 7)


def memory_map(path):
    mapped = np.memmap(path / "rows.bin", dtype=np.float64, mode="w+", shape=ROWS.shape)
    mapped[:] = ROWS
    mapped.flush()
    return open_source(np.memmap(path / "rows.bin", dtype=np.float64, mode="r", shape=ROWS.shape))


NAMES = [f"feature {j}" for j in range(D)]


def frame(values=ROWS):
    return pa.table(dict(zip(NAMES, np.asarray(values).T.copy(), strict=True)))


def npy(path, rows=ROWS):
    np.save(path / "rows.npy", rows)
    return open_source(path / "rows.npy")


def parquet(path, rows=ROWS, columns=None):
    pq.write_table(frame(rows), path / "rows.parquet", row_group_size=3000)
    return open_source(str(path / "rows.parquet"), columns=columns)


def folder(path):
    """Two files whose columns are in different order, an empty one, and a file that is none of them."""
    pq.write_table(frame(ROWS[:9000]), path / "1.parquet")
    pq.write_table(frame(ROWS[:0]), path / "2.parquet")
    pq.write_table(frame(ROWS[9000:]).select(NAMES[::-1]), path / "3.parquet", row_group_size=5000)
    (path / "_SUCCESS").touch()
    return open_source(path)


def feather(path):
    pa_feather.write_feather(frame(), path / "rows.feather", chunksize=4000)
    return open_source(path / "rows.feather")


def text(path, name, delimiter=","):
    options = csv.WriteOptions(delimiter=delimiter)
    with pa.output_stream(path / name) as stream:  # compressed if its name says so
        csv.write_csv(frame(), stream, options)
    return open_source(path / name)


SOURCES = {
    ".npy": npy,
    ".npy by columns": lambda path: npy(path, np.asfortranarray(ROWS)),
    ".npy float32": lambda path: npy(path, ROWS.astype(np.float32)),
    ".npy integers": lambda path: npy(path, (64 * ROWS).astype(np.int16)).scaled(np.full(D, 1 / 64)),
    ".npy big-endian": lambda path: npy(path, ROWS.astype(">f8")),
    "Parquet": parquet,
    "Parquet float32": lambda path: parquet(path, ROWS.astype(np.float32)),
    "Parquet, columns chosen": lambda path: parquet(path, columns=NAMES),
    "Parquet folder": folder,
    "Feather": feather,
    "CSV": lambda path: text(path, "rows.csv"),
    "TSV": lambda path: text(path, "rows.tsv", "\t"),
    "CSV, compressed": lambda path: text(path, "rows.csv.gz"),
    "pandas": lambda _: open_source(frame().to_pandas()),
    "polars": lambda _: open_source(pl.from_arrow(frame())),
    "pyarrow": lambda _: open_source(frame()),
    "pandas float32": lambda _: open_source(frame(ROWS.astype(np.float32)).to_pandas()),
    "dense": lambda _: open_source(ROWS),
    "Fortran order": lambda _: open_source(np.asfortranarray(ROWS)),
    "every other row": lambda _: open_source(np.repeat(ROWS, 2, axis=0)[::2]),
    "float32": lambda _: open_source(ROWS.astype(np.float32)),
    "integers": lambda _: open_source((64 * ROWS).astype(int)).scaled(np.full(D, 1 / 64)),
    "memory map": memory_map,
    "csr": lambda _: open_source(sparse.csr_array(ROWS)),
    "csc": lambda _: open_source(sparse.csc_matrix(ROWS)),
    "list of batches": lambda _: open_source(np.array_split(ROWS, 5)),
    "batches of all kinds": lambda _: open_source([ROWS[:9], sparse.csr_array(ROWS[9:5000]), ROWS[5000:].tolist()]),
    "some batches empty": lambda _: open_source([ROWS[:0], ROWS[:11], ROWS[:0], ROWS[11:], ROWS[:0]]),
    "rereadable": lambda _: open_source(Rereadable()),
    "one-shot iterator": lambda _: open_source(iter(np.array_split(ROWS, 7))),
    "one-shot generator": lambda _: open_source(batch for batch in Rereadable()),
    "one job": lambda _: open_source(ROWS, n_jobs=1),
    "two jobs": lambda _: open_source(ROWS, n_jobs=2),
    "all jobs": lambda _: open_source(ROWS, n_jobs=-1),
    "sparse in two jobs": lambda _: open_source(sparse.csr_array(ROWS), n_jobs=2),
    "batches in two jobs": lambda _: open_source(np.array_split(ROWS, 50), n_jobs=2),
    "scaled": lambda _: open_source(ROWS / UNITS).scaled(UNITS),
    "scaled sparse": lambda _: open_source(sparse.csr_array(ROWS / UNITS)).scaled(UNITS),
    "scaled float32": lambda _: open_source((ROWS / UNITS).astype(np.float32)).scaled(UNITS),
    "scaled batches": lambda _: open_source(np.array_split(ROWS / UNITS, 5)).scaled(UNITS),
}


@pytest.fixture(params=SOURCES.values(), ids=SOURCES)
def fresh(request, tmp_path):
    """Opens the source anew: some can be read only once."""
    return partial(request.param, tmp_path)


def test_a_fold_equals_the_summary_of_one_block(fresh):
    moments = fresh().fold(Moments.of)
    centred = ROWS - ROWS.mean(axis=0)
    scatter = centred.T @ centred
    assert (moments.weight, moments.count) == (N, N)
    tol = 1e-7 if fresh().single_precision else 1e-11  # deviations may be rounded to the precision of the rows
    assert_allclose(moments.mean, ROWS.mean(axis=0), atol=tol)
    assert_allclose(moments.scatter, scatter, atol=tol * scatter.max())
    assert_allclose(fresh().fold(ColumnSummary.of).squares, np.diag(scatter), rtol=tol)
    factor = fresh().fold(Root.of).factor
    assert_allclose(factor.T @ factor, scatter, atol=1e-9 * scatter.max())


def test_blocks_know_which_rows_they_have_if_the_source_says_so(fresh):
    source = fresh()
    starts = [block.start for block in source.hold()]
    if not source.info.numbered:
        assert set(starts) == {None}
        return
    assert source.n_rows == N
    for block in source.hold():
        assert_array_equal(block.values, ROWS[block.start : block.start + block.n_rows])
    for count in (1, 77, N):
        places = spread_places(count, N)
        assert_array_equal(joined(list(source.fold(partial(Spread.of, count, N)).parts)).values, ROWS[places])


def test_a_fold_keeps_the_order_of_the_rows(fresh):
    stack = fresh().fold(Stack.of)
    assert_array_equal(np.hstack([stack.panel(columns, np.float64).copy() for columns in stack.panels()]), ROWS)


def test_an_expectation_step_equals_that_of_one_block(fresh):
    folded, whole = fresh().fold(partial(expect, MODEL)), expect(MODEL, Block(ROWS))
    for name in whole.__slots__:
        wanted = getattr(whole, name)
        assert_allclose(getattr(folded, name), wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max(), err_msg=name)


def test_a_map_answers_row_by_row_in_order(fresh):
    assert_allclose(fresh().map(partial(log_likelihood, MODEL)), dense_log_likelihood(MODEL, ROWS), rtol=1e-9)
    assert_allclose(fresh().map(partial(posterior_mean, MODEL)), dense_posterior(MODEL, ROWS)[0], atol=1e-9)


def test_a_map_joins_answers_of_several_arrays(fresh):
    found = fresh().map(partial(outliers, MODEL))
    centred = ROWS - MODEL.mean
    distance = np.einsum("ij,ij->i", centred, np.linalg.solve(MODEL.covariance.dense(), centred.T).T)
    assert_allclose(found.distance, distance, rtol=1e-9)
    assert found.contributions.shape == (N, D)
    assert_allclose(found.contributions.sum(axis=1), distance, rtol=1e-9)


def test_rows_can_be_held_in_memory(fresh):
    blocks = fresh().hold()
    assert_array_equal(np.vstack([dense_values(block) for block in blocks]), ROWS)


def test_answers_come_block_by_block_and_in_order(fresh):
    assert_array_equal(np.concatenate(list(fresh().answers(dense_values))), ROWS)


def test_rows_that_are_kept_can_be_read_again(fresh):
    kept = fresh().keep()
    assert kept.repeatable
    for _ in range(2):
        assert_array_equal(kept.map(dense_values), ROWS)


def test_prepared_blocks_are_what_everybody_sees(fresh):
    turned = fresh().keep(lambda block: Block(-dense_values(block)))
    assert_array_equal(turned.map(dense_values), -ROWS)
    assert_array_equal(np.vstack([block.values for block in turned.hold()]), -ROWS)
    assert_allclose(turned.fold(Moments.of).mean, -ROWS.mean(axis=0), atol=1e-7)


def test_columns_can_be_arranged_anew(fresh):
    source, order = fresh(), [3, 0, 5, 1, 4, 2]
    assert_array_equal(source.arranged(order).map(dense_values), ROWS[:, order])
    if source.columns is not None:
        assert source.arranged(order).columns == tuple(source.columns[j] for j in order)


def test_a_source_knows_its_size_or_says_that_it_does_not(fresh):
    source = fresh()
    assert source.n_features == D
    assert source.n_rows in (N, None)
    assert source.n_stored in (N * D, np.count_nonzero(ROWS), None)


def test_what_says_it_is_repeatable_can_be_read_again(fresh):
    source = fresh()
    first = source.fold(Moments.of)
    if source.repeatable:
        assert_array_equal(source.fold(Moments.of).scatter, first.scatter)


def test_single_precision_is_what_the_rows_have(fresh, request):
    name = request.node.callspec.id
    assert fresh().rounded_to_single == ("float32" in name)
    assert fresh().single_precision == ("float32" in name and "scaled" not in name)


def test_the_answer_does_not_depend_on_the_number_of_threads():
    one, *others = (open_source(ROWS, n_jobs=jobs).fold(Moments.of) for jobs in (1, 2, 3, 8))
    for other in others:
        assert_allclose(other.scatter, one.scatter, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("rows", [sparse.csr_array, np.asarray], ids=["sparse", "dense"])
def test_rows_are_sparse_by_how_they_are_stored_not_by_how_many_cells_they_store(rng, rows):
    x = 1.0 + rng.random((400, 900))
    source = open_source(rows(x))
    assert source.is_sparse == sparse.issparse(rows(x))
    assert_allclose(PPCA(2, solver="krylov").fit(rows(x)).explained_variance_, PPCA(2).fit(x).explained_variance_)


@pytest.mark.parametrize("parts", [1, 5])
def test_some_rows_are_spread_over_the_whole_table(parts):
    numbered = np.column_stack([np.arange(1000.0), np.zeros(1000)])
    source = open_source(numbered) if parts == 1 else open_source(iter(np.array_split(numbered, parts))).keep()
    rows = np.concatenate([block.values for block in source.spread(90)])[:, 0]
    assert rows.size == np.unique(rows).size == 90
    place = rows - np.arange(90) * 1000 / 90  # one in each stretch
    assert (place > -1).all()
    assert (place < 1000 / 90).all()
    assert_array_equal(rows, np.concatenate([block.values for block in source.spread(90)])[:, 0])
    for period in (2, 5, 7, 10, 11, 12, 24):  # of a table that has one: all phases are met alike
        phases = np.bincount(rows.astype(int) % period, minlength=period)
        assert phases.max() <= 90 / period + 4 * np.sqrt(90 / period)
        assert phases.min() > 0 or period > 12
    assert sum(block.n_rows for block in source.spread(5000)) == 1000
    scaled = np.concatenate([block.values for block in source.scaled(np.array([2.0, 1.0])).spread(90)])[:, 0]
    assert_array_equal(scaled, 2 * rows)
