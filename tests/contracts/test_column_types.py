"""Columns of any type: numbers are rounded to double precision, other types are labels, and errors name the cell."""

import datetime as dt
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from pyarrow import parquet

from probpca import PPCA, DataError, SourceError
from probpca.cli.main import main
from probpca.sources import open_source
from probpca.sources.readers.arrow import columns_of
from probpca.sources.write import batch_of, write_batches

N = 30
X = np.random.default_rng(0).standard_normal((N, 3))
SMALL = [int(v) for v in np.random.default_rng(1).integers(0, 90, N - 1)]
WIDE = {
    "int64": pa.array([*SMALL, 2**53 + 1], pa.int64()),
    "negative": pa.array([*SMALL, -(2**63)], pa.int64()),
    "uint64": pa.array([*SMALL, 2**53 + 1], pa.uint64()),
    "beyond int64": pa.array([*SMALL, 2**63 + 2**11], pa.uint64()),
    "with nulls": pa.array([None, *SMALL[1:], 2**64 - 1], pa.uint64()),
    "decimal128": pa.array([Decimal(v) for v in (*SMALL, 10**37 + 1)], pa.decimal128(38, 0)),
    "decimal256": pa.array([Decimal(v) for v in (*SMALL, 10**60 + 1)], pa.decimal256(76, 0)),
}
OTHERS = {
    "list": pa.array([[v] for v in range(N)]),
    "struct": pa.array([{"v": v} for v in range(N)]),
    "map": pa.array([[("k", v)] for v in range(N)], pa.map_(pa.string(), pa.int64())),
    "duration": pa.array([dt.timedelta(seconds=v) for v in range(N)]),
    "time64": pa.array([dt.time(v % 24) for v in range(N)]),
    "dates": pa.array([dt.date(2020, 1, 1)] * N),
    "text": pa.array([f"k{v % 3}" for v in range(N)]).dictionary_encode(),
    "binary": pa.array([b"\xff%d" % v for v in range(N)]),
    "large_binary": pa.array([b"\xff%d" % v for v in range(N)], pa.large_binary()),
    "fixed_size_binary": pa.array([b"\xffab"] * N, pa.binary(3)),
}
NESTED = ("list", "struct", "map")


def whole(block):
    return np.asarray(block.values)


def table(column):
    return pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "x": column})


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("kind", WIDE)
def test_numbers_that_double_precision_cannot_hold_are_rounded_in_files_and_frames(place, kind):
    expected = np.array([np.nan if v is None else float(v) for v in WIDE[kind].to_pylist()])  # Python rounds to nearest
    rows = table(WIDE[kind])
    parquet.write_table(rows, place)
    frames = [str(place), rows]
    if "decimal" not in kind:
        frames += [pl.from_arrow(rows), rows.to_pandas(types_mapper=pd.ArrowDtype)]
    for frame in frames:
        found = open_source(frame).map(whole)
        assert_array_equal(found[:, 3], expected)
    assert main(["fit", str(place), "--components", "1"]) == 0


def test_most_integers_that_are_too_long_make_a_column_of_labels_which_names_the_first(place, capsys):
    parquet.write_table(table(pa.array([5, *range(2**63, 2**63 + N - 1)], pa.uint64())), place)
    assert main(["fit", "t.parquet", "--components", "1"]) == 0
    said = "column x is used as a label: row 2 holds 9223372036854775808, which has more digits than a number can hold"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("kind", OTHERS)
def test_columns_of_other_types_are_labels_that_no_fit_takes_for_numbers(place, kind):
    parquet.write_table(table(OTHERS[kind]), place)
    named = {column.name: column.kind for column in columns_of(place)}
    assert named["x"] == ("text" if "binary" in kind else kind)
    with pytest.raises(DataError, match=r"column 'x' of .*t\.parquet holds .*, not numbers"):
        PPCA(1).fit(str(place))
    with pytest.raises(DataError, match=r"column 'x' holds .*, not numbers"):
        PPCA(1).fit(table(OTHERS[kind]))
    assert main(["fit", str(place), "--components", "1"]) == 0
    assert main(["outliers", "model.npz", str(place), "--id", "x"]) == 0
    assert main(["impute", "model.npz", str(place), "--out", "full.parquet"]) == 0
    assert parquet.read_table("full.parquet").column("x").to_pylist() == OTHERS[kind].to_pylist()
    code = main(["impute", "model.npz", str(place), "--out", "full.csv"])
    assert code == (kind in NESTED or "binary" in kind)


def test_bytes_that_are_no_text_are_named_with_their_row(tmp_path):
    batches = [batch_of({"x": pa.array([b"one", None])}), batch_of({"x": pa.array([b"t\xc3\xb6", b"\xff"])})]
    with pytest.raises(SourceError, match=r"column 'x' holds bytes in row 4 that are not UTF-8(.|\n)*\.parquet"):
        write_batches(tmp_path / "t.csv", batches)
    write_batches(tmp_path / "t.csv", batches[:1])
    assert pd.read_csv(tmp_path / "t.csv")["x"].tolist()[0] == "one"


@pytest.mark.parametrize("cell", ["1e400", "-1e400", "inf", "9" * 400])
def test_a_number_too_large_for_double_precision_is_named_with_its_column_and_row(place, capsys, cell):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).astype(object)
    frame.loc[7, "b"] = cell
    frame.to_csv("t.csv", index=False)
    assert main(["fit", "t.csv"]) == 1
    assert "t.csv, row 8, column 'b' holds an infinite number." in capsys.readouterr().err
    with pytest.raises(DataError, match=r"infinity \(1 cell\), first in column 1 \('b'\), row 7, both counted from 0"):
        PPCA(1).fit("t.csv")
    assert not place.exists()


@pytest.mark.parametrize("damage", [(b"LABEL07", b"LAB\xff\xfe07"), (b"label", b"la\xff\xfel"), (b"aaaa", b"aa\xffa")])
def test_text_of_a_damaged_file_is_named(place, capsys, monkeypatch, damage):
    columns = {"label": [f"LABEL{i:02d}" for i in range(N)], "aaaa": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    parquet.write_table(pa.table(columns), place, compression="none", use_dictionary=False)
    assert main(["fit", str(place), "--components", "1"]) == 0
    place.write_bytes(place.read_bytes().replace(*damage))
    capsys.readouterr()
    for name in (str(place), "-"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(place.read_bytes())))
        assert main(["outliers", "model.npz", name]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"probpca: error: {'standard input' if name == '-' else place}")
        assert "cannot be read: " in said
