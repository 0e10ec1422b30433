"""Rows in Spark: the same answers, wherever they are computed and whoever dies meanwhile."""

import os
import signal
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from interruptions import disturbed
from probpca import PPCA, DataError, FactorAnalysis, ShapeError
from probpca.blocks import Block, observe
from probpca.inference import outliers
from probpca.inference.likelihood import log_likelihood
from probpca.inference.posteriors import posterior_mean
from probpca.learning.em.e_step import expect
from probpca.models import LinearGaussian
from probpca.sources import open_source
from probpca.sources.engines.spark import open_spark
from probpca.sources.open import is_spark
from probpca.statistics import Moments

pytest.importorskip("pyspark")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("default")  # Spark warns of what pandas and Python will do one day

N, D, Q = 2000, 6, 2
RNG = np.random.default_rng(5)
LOADINGS = RNG.standard_normal((D, Q))
# Halves: every type holds the same values.
ROWS = np.round(8 * (RNG.standard_normal((N, Q)) @ LOADINGS.T + 0.4 * RNG.standard_normal((N, D)) + 1)) / 2
HOLEY = np.where(RNG.random((N, D)) < 0.2, np.nan, ROWS)
HOLEY[7] = np.nan  # nothing observed
MODEL = LinearGaussian(ROWS.mean(axis=0), 4 * LOADINGS, 3.0)
NAMES = [*"abcde", "f.1"]
PARTS = 3


def with_nulls(rows):
    """Python rows with None for NaN."""
    return [[None if np.isnan(cell) else float(cell) for cell in row] for row in rows]


def columns(spark, rows, kind="double"):
    schema = ", ".join(f"`{name}` {kind}" for name in NAMES)
    convert = {"double": float, "float": float, "decimal(10,1)": Decimal}[kind]
    table = [[None if cell is None else convert(cell) for cell in row] for row in with_nulls(rows)]
    return spark.createDataFrame(table, schema).repartition(PARTS)


def arrays(spark, rows):
    table = [(None if all(cell is None for cell in row) else row,) for row in with_nulls(rows)]
    return spark.createDataFrame(table, "x array<double>").repartition(PARTS)


def vectors(spark, rows):
    from pyspark.ml.functions import array_to_vector  # noqa: PLC0415

    table = [([float(cell) for cell in row],) for row in rows]  # a vector has NaN and no nulls
    return spark.createDataFrame(table, "x array<double>").select(array_to_vector("x").alias("features"))


def some_parts_empty(spark, rows):
    frame = columns(spark, rows)
    return frame.repartition(8, frame.a > 4)


KINDS = {
    "columns": columns,
    "columns of float": partial(columns, kind="float"),
    "columns of decimal": partial(columns, kind="decimal(10,1)"),
    "arrays": arrays,
    "vectors": vectors,
    "some parts empty": some_parts_empty,
}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def source(spark):
    return open_spark(columns(spark, ROWS))


def in_order(rows):
    """Sorted rows: Spark keeps no order."""
    rows = np.asarray(rows)
    return rows[np.lexsort(np.nan_to_num(rows, nan=1e9).T)]


def assert_same_model(found, wanted, tol):
    assert_allclose(found.loadings, wanted.loadings, atol=tol * np.abs(wanted.loadings).max())
    assert_allclose(found.mean, wanted.mean, rtol=tol)
    assert_allclose(found.noise_variance, wanted.noise_variance, rtol=tol)


def test_a_fold_equals_the_summary_of_one_block(spark, kind):
    source, whole = open_spark(kind(spark, ROWS)), Moments.of(Block(ROWS))
    assert not source.starts_incomplete()
    assert source.n_features == D
    assert source.columns == (None if kind in (arrays, vectors) else tuple(NAMES))
    moments = source.fold(Moments.of)
    assert (moments.weight, moments.count) == (N, N)
    assert_allclose(moments.mean, whole.mean, rtol=1e-12)
    assert_allclose(moments.scatter, whole.scatter, rtol=1e-11)


def test_a_fold_is_the_same_to_the_last_bit_each_time(source):
    first, second = (source.fold(partial(expect, MODEL)) for _ in range(2))
    for name in first.__slots__:
        assert_array_equal(getattr(second, name), getattr(first, name))


def test_a_map_is_a_dataframe_with_a_column_for_each_number(source):
    scores = source.map(partial(log_likelihood, MODEL))
    assert is_spark(scores)
    assert scores.columns == ["value"]
    assert_allclose(np.sort(scores.toPandas().value), np.sort(log_likelihood(MODEL, ROWS)), rtol=1e-9)
    rows = source.map(lambda block: np.hstack([block.values, posterior_mean(MODEL, block)]))
    assert rows.columns == [f"value_{i}" for i in range(D + Q)]
    wanted = np.hstack([ROWS, posterior_mean(MODEL, ROWS)])
    assert_allclose(in_order(rows.toPandas()), in_order(wanted), rtol=1e-9, atol=1e-9)


def test_a_map_of_several_arrays_has_columns_of_their_names(spark):
    found = open_spark(columns(spark, ROWS[:50])).map(partial(outliers, MODEL)).toPandas()
    wanted = outliers(MODEL, ROWS[:50])
    assert "note" not in found.columns
    assert_allclose(np.sort(found.model_p_value), np.sort(wanted.model_p_value), rtol=1e-9)
    assert_allclose(np.sort(found.distance), np.sort(wanted.distance), rtol=1e-9)
    assert_allclose(np.sort(found.contributions_3), np.sort(wanted.contributions[:, 3]), rtol=1e-9, atol=1e-12)


def test_prepared_blocks_are_kept(spark, tmp_path):
    def prepare(block):
        with (tmp_path / "calls").open("a") as file:
            file.write("x" * bool(block.n_rows > 2))
        return Block(block.values + 1.0)

    kept = open_spark(columns(spark, ROWS)).keep(prepare)
    for _ in range(3):
        assert_allclose(kept.fold(Moments.of).mean, ROWS.mean(axis=0) + 1, rtol=1e-12)
    assert (tmp_path / "calls").read_text() == "x" * PARTS
    again = kept.keep(prepare).map(lambda block: block.values)
    assert_array_equal(in_order(again.toPandas()), in_order(ROWS + 2))


def test_what_was_prepared_can_be_mapped(spark):
    observed = open_spark(columns(spark, HOLEY)).keep(partial(observe, centre=np.zeros(D), keep_empty=True))
    counts = observed.map(lambda rows: np.concatenate([group.observed for group in rows.groups])).toPandas().value
    assert_array_equal(np.sort(counts), np.sort((~np.isnan(HOLEY)).sum(axis=1)))


def test_a_source_says_what_it_is(spark, source):
    assert is_spark(columns(spark, ROWS))
    assert source.repeatable
    assert not source.in_memory
    assert not source.starts_incomplete()
    assert open_spark(columns(spark, HOLEY)).starts_incomplete()


def test_what_spark_does_not_hold_is_left_to_others():
    for rows in (ROWS, [ROWS], [], pd.DataFrame(ROWS), None):
        assert not is_spark(rows)


def test_a_fit_equals_that_of_the_array(source):
    found = PPCA(Q).fit(source)
    assert_same_model(found.model_, PPCA(Q).fit(ROWS).model_, 1e-9)


def test_a_fit_to_missing_cells_equals_that_of_the_array(spark, kind):
    settings = {"n_components": Q, "random_state": 0, "tol": 1e-9}
    found = PPCA(**settings).fit(open_spark(kind(spark, HOLEY)))
    # The same way there; that of rows in memory has another start.
    assert_same_model(found.model_, PPCA(**settings).fit(open_source(np.array_split(HOLEY, 3))).model_, 1e-9)
    assert_same_model(found.model_, PPCA(**settings).fit(HOLEY).model_, 1e-6)


def test_the_maximum_is_that_of_rows_in_memory_where_cells_are_missing(spark):
    settings = {"n_components": Q, "random_state": 0, "tol": 0, "max_iter": 30}  # what nats can tell ends it sooner
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        found, wanted = (PPCA(**settings).fit(rows) for rows in (open_spark(columns(spark, HOLEY)), HOLEY))
    scale = np.abs(wanted.get_covariance()).max()
    assert_allclose(found.get_covariance(), wanted.get_covariance(), rtol=1e-9, atol=1e-9 * scale)
    assert_allclose(found.mean_, wanted.mean_, rtol=1e-9)
    assert_allclose(found.noise_variance_, wanted.noise_variance_, rtol=1e-9)


@pytest.mark.parametrize("rows", [ROWS, HOLEY], ids=["complete", "missing"])
def test_factor_analysis_equals_that_of_the_array(spark, rows):
    settings = {"n_components": Q, "random_state": 0, "tol": 1e-9}
    found, local = FactorAnalysis(**settings).fit(columns(spark, rows)), FactorAnalysis(**settings).fit(rows)
    complete = not np.isnan(rows).any()
    tol = 1e-10 if complete else 1e-4  # rows in memory have another start
    assert_allclose(found.get_covariance(), local.get_covariance(), rtol=tol, atol=tol)
    assert_allclose(found.log_likelihood_, local.log_likelihood_, rtol=1e-9)


def test_what_is_cached_is_given_back(spark):
    source = open_spark(columns(spark, HOLEY))
    PPCA(Q, random_state=0).fit(source)
    frame = source.engine._cached
    assert frame.storageLevel.useMemory
    del source
    assert not frame.storageLevel.useMemory


def test_a_column_that_holds_no_numbers_is_named(spark):
    frame = spark.createDataFrame([(1.0, "text")], "a double, b string")
    with pytest.raises(DataError, match="column 'b' has type string"):
        open_spark(frame)
    with pytest.raises(DataError, match="column 'x' has type array<string>"):
        open_spark(spark.createDataFrame([(["text"],)], "x array<string>"))
    with pytest.raises(DataError, match="column 'x' has type array<double>"):
        open_spark(spark.createDataFrame([([1.0], 1.0)], "x array<double>, y double"))


@pytest.mark.parametrize("kind", ["boolean", "date", "timestamp", "binary", "struct<a:double>", "map<string,double>"])
def test_whatever_is_no_number_is_named(spark, kind):
    frame = spark.createDataFrame([], f"a double, b {kind}")
    with pytest.raises(DataError, match=rf"column 'b' has type {kind}(?s:.*)Hint: encode or drop it"):
        PPCA(1).fit(frame)


def test_arrays_of_decimals_are_numbers(spark):
    table = [([Decimal(str(cell)) for cell in row],) for row in ROWS[:50]]
    source = open_spark(spark.createDataFrame(table, "x array<decimal(10,1)>"))
    assert_allclose(source.fold(Moments.of).mean, ROWS[:50].mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("make", [arrays, vectors])
def test_vectors_of_different_lengths_are_refused(spark, make, parts):
    frame = make(spark, [[1.0, 2.0, 3.0]] * 20 + [[1.0, 2.0]] * 20).repartition(parts)
    with pytest.raises(
        ShapeError, match=r"partition \d: every vector must have [23] entries, like the first; got [23](?s:.*)Hint"
    ):
        PPCA(1).fit(frame)


def test_what_goes_wrong_elsewhere_is_said_here(source):
    def refuse(block):
        msg = f"{block.n_features} columns are too many."
        raise DataError(msg)

    with pytest.raises(DataError, match="6 columns are too many"):
        source.fold(refuse)


def test_no_rows_are_too_few(spark):
    with pytest.raises(DataError, match="2 rows"):
        PPCA(1).fit(open_spark(spark.createDataFrame([], "a double, b double")))
    with pytest.raises(DataError, match="2 rows"):
        PPCA(1).fit(open_spark(columns(spark, ROWS).where("a > 1e9")))


def killing_once(flag):
    """A function that kills the executor of its Python worker when it is called for the first time."""

    def kill():
        if not flag.exists():
            daemon = os.getppid()
            with open(f"/proc/{daemon}/stat") as stat:  # noqa: PTH123
                executor = int(stat.read().rsplit(")", 1)[1].split()[1])
            flag.write_text(str(executor))
            os.kill(executor, signal.SIGKILL)

    return kill


@pytest.mark.parametrize("rows", [ROWS, HOLEY], ids=["complete", "missing"])
def test_the_death_of_an_executor_changes_nothing(spark, tmp_path, rows):
    settings = {"n_components": Q, "random_state": 0, "tol": 1e-8}
    frame = columns(spark, rows)
    calm = PPCA(**settings).fit(open_spark(frame))
    deadly = killing_once(tmp_path / "killed")
    found = PPCA(**settings).fit(disturbed(open_spark(frame), deadly, fold=1 if rows is ROWS else 3))
    executor = int((tmp_path / "killed").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(executor, 0)
    assert_same_model(found.model_, calm.model_, 1e-12)
    assert found.trace_ == pytest.approx(calm.trace_, rel=1e-12)
