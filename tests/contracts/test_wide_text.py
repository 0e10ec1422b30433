"""Text files with many columns, and files that are held in memory: they are read once, and as any other file."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_array_equal
from pyarrow import csv, parquet

from probpca import PPCA, BayesianPCA, DataError, FactorAnalysis, SourceError, select_n_components
from probpca.sources import open_source
from probpca.sources.open import look_at, look_at_bytes
from probpca.sources.readers import csv as text
from probpca.sources.readers.arrow import kinds_of_columns
from probpca.sources.table_format import TableFormat

N, D = 300, 40
CELLS = [
    "1",
    "-3",
    "2.5",
    "0",
    "1e5",
    "inf",
    " 7 ",
    "",
    "NA",
    "?",
    "true",
    "false",
    "abc",
    "2020-01-02",
    "12:30",
    "1 kg",
]
CODES = ["007", "0.5", "12", "0x1F", "12345678901234567", "0.12345678901234567", "1e05", "-05", " 01", "", "0", "x01"]


@pytest.fixture
def x(rng):
    x = rng.standard_normal((N, 2)) @ rng.standard_normal((2, D)) + rng.standard_normal((N, D))
    x[rng.random(x.shape) < 0.05] = np.nan
    return x


@pytest.fixture
def passes(monkeypatch):
    """One entry for each pass over a text file."""
    found, reading = [], text.TextFile.reading
    monkeypatch.setattr(text.TextFile, "reading", lambda file, types: found.append(1) or reading(file, types))
    return found


def frame(x):
    return pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])


def written(path, x):
    """Write a table in the format that the name of the file says."""
    match path.suffix:
        case ".parquet":
            frame(x).to_parquet(path, row_group_size=100)
        case ".feather":
            frame(x).to_feather(path)
        case ".npy":
            np.save(path, x)
        case _:
            frame(x).to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def values(source):
    return np.vstack([np.asarray(block.values) for block in source.hold()])


columns_of_cells = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.sampled_from(CELLS), min_size=n, max_size=n), min_size=1, max_size=6)
)


@given(columns=columns_of_cells)
@settings(max_examples=200)
def test_columns_have_the_kinds_that_arrow_infers(columns):
    lines = [[f"a{j}" for j in range(len(columns) + 1)], *([*row, "1.5"] for row in zip(*columns, strict=True))]
    content = "\n".join(map(",".join, lines)).encode()
    nulls = [*text.NULLS, *(f" {mark}" for mark in text.NULLS), " ", "  "]
    inferred = csv.read_csv(pa.BufferReader(content), convert_options=csv.ConvertOptions(null_values=nulls)).schema
    assert kinds_of_columns(look_at_bytes("here.csv", content).schema) == kinds_of_columns(inferred)


@given(
    rows=st.lists(st.tuples(*[st.sampled_from(CODES)] * 3), min_size=1, max_size=6),
    decimal=st.sampled_from(".,"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
@settings(max_examples=300)
def test_no_code_is_overlooked(rows, decimal, end):
    lines = ["u01;v;w", *(";".join(cell.replace(".", decimal) for cell in row) for row in rows)]
    file = look_at_bytes("here.csv", end.join(lines).encode(), TableFormat(decimal=decimal))
    found = file.columns()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_may_hold_codes", lambda _: True)
        assert found == file.columns()


def test_numbers_without_codes_are_not_read_as_text(tmp_path, x, monkeypatch):
    """A name such as c01 holds no code."""
    file = look_at(written(tmp_path / "x.csv", np.round(x, 3)))
    monkeypatch.setattr(text.TextFile, "beginning", lambda *_: pytest.fail("the columns were read as text"))
    assert [column.kind for column in file.columns()] == ["numbers"] * D


@pytest.mark.parametrize(
    ("early", "late", "found"),
    [
        ("3", "2.5", 2.5),
        ("", "2.5", 2.5),
        ("", "", np.nan),
        ("1.5", "NA", np.nan),
        ("3", "three", "row 1,000, column 'u' holds 'three'"),
        ("", "three", "row 1,000, column 'u' holds 'three'"),
        ("true", "2.5", "row 1,000, column 'u' holds '2.5'"),
        ("true", "false", 0.0),
    ],
)
def test_a_later_block_widens_a_type_or_names_the_cell(tmp_path, monkeypatch, early, late, found):
    monkeypatch.setattr(text, "CSV_BYTES", 2**10)
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["u,v", *[f"{early},{i}" for i in range(999)], f"{late},7"]))
    source = open_source(path)
    if isinstance(found, str):
        with pytest.raises(DataError, match=rf"x\.csv cannot be read as numbers: {found}"):
            source.loaded()
    else:
        assert len(source.hold()) > 1
        assert_array_equal(values(source.loaded())[-1], [found, 7])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet", ".feather", ".npy"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_small_file_is_loaded_as_it_is(tmp_path, x, suffix, n_jobs, monkeypatch):
    source = open_source(written(tmp_path / f"x{suffix}", x), n_jobs=n_jobs)
    held = source.loaded()
    assert (held.in_memory, held.n_rows, held.columns, held.n_jobs) == (True, N, source.columns, n_jobs)
    assert held.loaded() is held
    assert_array_equal(values(held), values(source))
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", x.nbytes)
    assert source.loaded().in_memory
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", x.nbytes - 1)
    assert source.loaded() is source


def test_single_precision_stays(tmp_path, x):
    held = open_source(written(tmp_path / "x.parquet", x.astype(np.float32))).loaded()
    assert held.single_precision
    assert values(held).dtype == np.float32


def test_only_files_are_loaded(x):
    for rows in ([x, x], (part for part in [x, x])):
        source = open_source(rows)
        assert source.loaded() is source


def test_a_file_that_changed_is_not_loaded(tmp_path, x):
    source = open_source(written(tmp_path / "x.csv", x))
    written(tmp_path / "x.csv", x[:-1])
    with pytest.raises(SourceError, match="has changed since it was opened"):
        source.loaded()


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_text_with_more_rows_than_its_first_ones_promise_is_not_held(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(text, "CSV_BYTES", 2**12)
    path = tmp_path / f"x{suffix}"
    lines = ["u,v", *["1.00000000000000000000000000000000000000,2"] * 100, *["1,2"] * 5000]
    with gzip.open(path, "wt") if suffix == ".csv.gz" else path.open("w") as file:
        file.write("\n".join(lines))
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", 16 * 3000)
    source = open_source(path)
    assert source.info.file_bytes <= 16 * 3000
    assert source.loaded() is source
    assert len(values(source)) == 5100


@pytest.mark.parametrize("complete", [False, True])
def test_a_fit_reads_a_small_text_once(tmp_path, x, passes, complete, monkeypatch):
    path = written(tmp_path / "x.csv", np.nan_to_num(x) if complete else x)
    for estimator in (PPCA(2), PPCA(2, standardize=True), PPCA("bic"), BayesianPCA(2), FactorAnalysis(2)):
        estimator.fit(path)
        assert len(passes) == 1, estimator
        passes.clear()
    select_n_components(path, "parallel", standardize=True)
    assert len(passes) == 1
    passes.clear()
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", 0)
    PPCA(2, standardize=True).fit(path)
    assert len(passes) > 1


def test_a_large_text_is_not_read_to_find_out_that_it_is_large(tmp_path, x, passes, monkeypatch):
    monkeypatch.setattr(text, "CSV_BYTES", 2**14)
    source = open_source(written(tmp_path / "x.csv", x))
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", x.nbytes // 2)
    assert source.loaded() is source
    assert not passes
    assert 0.8 * x.nbytes < source.info.file_bytes < 1.2 * x.nbytes


def test_p_values_are_calibrated_by_all_rows_of_a_small_file(tmp_path, x):
    path = written(tmp_path / "x.csv", x)
    wanted, found = (PPCA(2, random_state=0).fit(rows).outliers(frame(x)).p_value for rows in (frame(x), path))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_wide_text_is_cut_into_few_blocks(tmp_path, rng, monkeypatch):
    x = rng.standard_normal((N, 10 * D))
    path = written(tmp_path / "x.csv", x)
    size = path.stat().st_size
    for n_bytes, most in ((2**17, 8), (2**15, 80)):  # the longer text would be read ahead too far in larger blocks
        monkeypatch.setattr(text, "CSV_BYTES", n_bytes)
        file = look_at(path)
        assert size / file.pass_bytes < most
        assert file.pass_bytes <= (4 if size <= text.READ_AHEAD * n_bytes else 1) * n_bytes
        assert_array_equal(values(file.source(None, 1)), x)


def test_columns_of_several_types_keep_their_numbers(tmp_path, x):
    """Of one type they are converted together, of several one by one."""
    whole = np.arange(N, dtype=np.int64) + 2**53
    table = pa.table({"a": x[:, 0].astype(np.float32), "b": x[:, 1], "c": pa.array(x[:, 2], from_pandas=True)})
    for more, name in ((table, "floats"), (table.append_column("d", pa.array(whole)), "mixed")):
        parquet.write_table(more, tmp_path / f"{name}.parquet")
        found = values(open_source(tmp_path / f"{name}.parquet"))
        assert_array_equal(found[:, :3], np.column_stack([x[:, 0].astype(np.float32), x[:, 1], x[:, 2]]))
    assert_array_equal(found[:, 3], whole.astype(np.float64))
