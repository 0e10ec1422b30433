"""Tables as scikit-learn users have them: each is read as its numbers, or refused by an error that names the reason."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from probpca import PPCA, BayesianPCA, LinearDynamicalSystem, PPCAImputer
from probpca.blocks.block import dense_values
from probpca.errors import DataError, ProbpcaError, SourceError
from probpca.sources import open_source

RNG = np.random.default_rng(2)
X = np.round(8 * (RNG.standard_normal((30, 2)) @ RNG.standard_normal((2, 4)) + 0.3 * RNG.standard_normal((30, 4))))
X[3, 1], X[7, 0] = np.nan, np.nan
GAPS = pd.DataFrame(X, columns=list("abcd"))
DAYS = pd.Series(pd.date_range("2020-01-01", periods=30))

SAME = {
    "Int64": GAPS.astype("Int64"),
    "Float64": GAPS.astype("Float64"),
    "Float32": GAPS.astype("Float32"),
    "Arrow integers": GAPS.astype("Int64").astype("int64[pyarrow]"),
    "Int64 beside floats": GAPS.assign(a=GAPS.a.astype("Int64")),
    "objects with None": GAPS.astype(object).where(GAPS.notna(), None),
    "objects with pandas.NA": GAPS.astype(object).where(GAPS.notna(), pd.NA),
    "categories that are numbers": GAPS.astype("category"),
    "decimals": GAPS.assign(a=[None if np.isnan(v) else decimal.Decimal(int(v)) for v in GAPS.a]),
    "columns numbered": GAPS.set_axis(range(4), axis=1),
    "levels of columns": GAPS.set_axis(pd.MultiIndex.from_product([["u", "v"], ["a", "b"]]), axis=1),
    "an index that repeats": GAPS.set_axis([0] * 30),
    "one sparse column": GAPS.assign(c=GAPS.c.astype(pd.SparseDtype(float, 0.0))),
    "polars": pl.from_pandas(GAPS),
    "polars with NaN": pl.DataFrame(X, schema=list("abcd")),
    "polars integers": pl.from_pandas(GAPS).cast(pl.Int32),
    "polars decimals": pl.from_pandas(GAPS).cast(pl.Decimal(10, 2)),
    "pyarrow": pa.Table.from_pandas(GAPS),
    "an array of objects": GAPS.convert_dtypes().to_numpy(dtype=object),
    "nested lists": GAPS.astype(object).where(GAPS.notna(), None).to_numpy().tolist(),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_numbers_are_the_same_table(kind):
    expected = PPCA(2).fit(X)
    estimator = PPCA(2).fit(SAME[kind])
    assert estimator.n_observed_ == np.isfinite(X).sum()
    assert_allclose(estimator.loadings_, expected.loadings_, rtol=1e-6)
    assert_allclose(estimator.transform(SAME[kind]), expected.transform(X), rtol=1e-5)
    filled = estimator.impute(SAME[kind])
    assert_allclose(np.asarray(filled, dtype=float), expected.impute(X), rtol=1e-5)
    assert_allclose(np.asarray(PPCAImputer(2).fit_transform(SAME[kind])), PPCAImputer(2).fit_transform(X), rtol=1e-5)
    system = LinearDynamicalSystem(1, tol=1e6, random_state=0)
    assert_allclose(system.fit_transform(SAME[kind]), system.fit_transform(X), rtol=1e-5)
    assert_array_equal(np.asarray(open_source(SAME[kind]).map(dense_values)), X)


def test_truth_values_are_zero_and_one():
    truth = GAPS.assign(a=pd.array([True, None, False] * 10, dtype="boolean"))
    numbers = GAPS.assign(a=[1.0, np.nan, 0.0] * 10)
    assert_array_equal(PPCA(2).fit(truth).transform(truth), PPCA(2).fit(numbers).transform(numbers))


def with_cell(row, column, value):
    frame = GAPS.astype(object)
    frame.iloc[row, column] = value
    return frame


REFUSED = {
    "a column of text": (GAPS.assign(b="x"), DataError, r"column 'b' holds String.*'x'(.|\n)*Hint: encode or drop"),
    "a word among objects": (with_cell(0, 0, "low"), DataError, "column 'a' holds Object.*'low'"),
    "numbers as text": (
        GAPS.assign(b=GAPS.b.astype("str").where(GAPS.b.notna(), None)),
        DataError,
        r"column 'b' holds String, not numbers: got text such as '.*' in row 0.\nHint.*astype\(float\)",
    ),
    "one number as text": (
        with_cell(4, 1, "1_000"),
        DataError,
        "column 'b' holds .*'1_000' in row 4",
    ),
    "polars numbers as text": (pl.from_pandas(GAPS).cast(pl.String), DataError, "column 'a' holds String.*got text"),
    "an array of numbers as text": (X.astype(str), DataError, "rows must be numbers; got <U32 entries, which are text"),
    "nested lists of text": (X.astype(str).tolist(), DataError, "rows must be numbers; got .* entries, which are text"),
    "objects of text": (X.astype(str).astype(object), DataError, "got text such as '.*' in row 0, column 0"),
    "labels": (GAPS.assign(b=pd.Categorical(["u", "v"] * 15)), DataError, "column 'b' holds Categorical, not numbers"),
    "labels that look like numbers": (
        GAPS.assign(b=pd.Categorical(["1", "2"] * 15)),
        DataError,
        "column 'b' holds Cat",
    ),
    "dates": (GAPS.assign(b=DAYS), DataError, "column 'b' holds Datetime(.|\n)*convert times"),
    "nothing but dates": (pd.DataFrame({"a": DAYS, "b": DAYS}), DataError, "column 'a' holds Datetime"),
    "durations": (pd.DataFrame({"a": DAYS - DAYS[0], "b": DAYS - DAYS[0]}), DataError, "column 'a' holds Duration"),
    "complex numbers": (GAPS.assign(b=1j), DataError, "column 'b' holds Unknown, not numbers"),
    "polars text": (pl.from_pandas(GAPS.assign(b="x")), DataError, "column 'b' holds String.*'x'"),
    "polars dates": (pl.DataFrame({"a": [dt.date(2020, 1, 1)] * 9, "b": range(9)}), DataError, "'a' holds Date"),
    "polars lists": (pl.DataFrame({"a": [[1.0]] * 9, "b": range(9)}), DataError, r"column 'a' holds List"),
    "pyarrow text": (pa.table({"a": ["x"] * 9, "b": range(9)}), DataError, "column 'a' holds String"),
    "columns that share a name": (GAPS.set_axis(list("abab"), axis=1), DataError, "unique names(.|\n)*Hint"),
    "a lazy frame": (pl.from_pandas(GAPS).lazy(), SourceError, r"got LazyFrame.\nHint: rows.collect"),
    "a dictionary": ({"a": [1.0, 2.0]}, SourceError, "rows must be an array.*got dict"),
    "an array of dates": (np.full((9, 2), "2020-01-01", "datetime64[D]"), DataError, "got datetime64"),
    "an array of durations": (np.ones((9, 2), "timedelta64[D]"), DataError, "got timedelta64"),
    "records": (GAPS.to_records(index=False), DataError, "must be numbers; got .*record(.|\n)*fields of records"),
    "an array of text": (np.full((9, 2), "x"), DataError, "got <U1 entries, which are text"),
    "an array of complex numbers": (X + 1j, ValueError, "Complex data not supported"),
    "a series": (GAPS.a, ValueError, "2-dimensional"),
    "one dimension": (X[:, 0], ValueError, "Expected 2D array"),
    "names of two kinds": (GAPS.set_axis(["a", 1, "b", 2], axis=1), TypeError, "all input features have string names"),
    "infinity": (GAPS.assign(b=np.inf), ValueError, "infinity"),
}


TIMES = {"dates", "nothing but dates", "polars dates"}
"""What is no number, but the time of a dynamical system."""
KINDS = [
    *((kind, estimator) for kind in REFUSED for estimator in (PPCA(1), BayesianPCA(1), PPCAImputer(1))),
    *((kind, LinearDynamicalSystem(1)) for kind in REFUSED if kind not in TIMES),
]


@pytest.mark.parametrize(("kind", "estimator"), KINDS, ids=str)
def test_what_is_no_table_of_numbers_is_refused_by_name(estimator, kind):
    table, error, message = REFUSED[kind]
    with pytest.raises(error, match=message):
        estimator.fit(table)


@pytest.mark.parametrize(
    "kind", ["a column of text", "numbers as text", "labels", "dates", "nothing but dates", "polars lists"]
)
def test_sources_and_estimators_refuse_alike(kind):
    table, error, message = REFUSED[kind]
    with pytest.raises(error, match=message):
        open_source(table)
    with pytest.raises(error, match=message):
        PPCA(1).partial_fit(table)


def test_names_of_files_are_for_estimators_that_read_files(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    for call in (PPCAImputer().fit, LinearDynamicalSystem(1).fit, PPCA(2).partial_fit):
        with pytest.raises(SourceError, match="takes a matrix of rows in memory; got"):
            call(tmp_path / "rows.npy")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_another_order_or_name_are_refused(library):
    frame = GAPS if library == "pandas" else pl.from_pandas(GAPS)
    for estimator in (PPCA(2), BayesianPCA(2), PPCAImputer(2), LinearDynamicalSystem(1, tol=1e6)):
        estimator.fit(frame)
        for columns in (list("bacd"), list("abc")):
            with pytest.raises((ValueError, ProbpcaError), match=r"feature names should match|features"):
                estimator.transform(frame[columns])
        nullable = frame.astype("Float64") if library == "pandas" else frame.cast(pl.Float32)
        with pytest.raises(ValueError, match="feature names should match"):
            estimator.transform(nullable[list("bacd")])


def test_repeated_labels_of_rows_stay_as_they_are():
    frame = GAPS.set_axis([5] * 30)
    ppca = PPCA(2).set_output(transform="pandas").fit(frame)
    for answer in (ppca.transform(frame), ppca.impute(frame), ppca.impute_interval(frame)[0]):
        assert list(answer.index) == [5] * 30
    assert_array_equal(ppca.impute(frame), PPCA(2).fit(X).impute(X))


def test_targets_are_ignored():
    y = np.arange(30)
    for estimator in (PPCA(2), BayesianPCA(2, random_state=0), PPCAImputer(2), LinearDynamicalSystem(1, tol=1e6)):
        assert_array_equal(estimator.fit_transform(X, y), estimator.fit(X, y).transform(X))
        if hasattr(estimator, "score"):
            assert estimator.score(X, y) == estimator.score(X)
    assert_array_equal(PPCA(2).partial_fit(X, y).transform(X), PPCA(2).partial_fit(X).transform(X))


def test_sparse_frames_stay_sparse():
    frame = GAPS.fillna(0.0).astype(pd.SparseDtype(float, 0.0))
    assert_allclose(PPCA(2).fit(frame).loadings_, PPCA(2).fit(sparse.csr_array(frame.to_numpy())).loadings_, rtol=1e-9)
