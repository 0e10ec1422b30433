"""Files of rows: what they hold, what is wrong with them, and what is written."""

import os
import shutil
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet as pq

from probpca import PPCA, DataError, ShapeError, SourceError
from probpca.inference.posteriors import posterior_mean
from probpca.sources import open_source
from probpca.sources.open import look_at
from probpca.sources.readers import csv as arrow_text
from probpca.statistics import Moments

N, D = 4000, 5
NAMES = list("abcde")
NAN = np.nan


@pytest.fixture
def x(rng):
    return rng.standard_normal((N, 2)) @ rng.standard_normal((2, D)) + 0.3 * rng.standard_normal((N, D)) + 7


@pytest.fixture
def holed(rng, x):
    x[rng.random(x.shape) < 0.15] = NAN
    return x


def as_parquet(path, x, **options):
    table = pa.table({name: pa.array(column, from_pandas=True) for name, column in zip(NAMES, x.T, strict=True)})
    pq.write_table(table, path, row_group_size=500, **options)
    return path


def values(source):
    return source.map(lambda block: np.array(block.values))


def save(path, x):
    frame = pd.DataFrame(x, columns=NAMES)
    match path.suffix:
        case ".gz":
            frame.to_csv(path, index=False)
        case ".tsv":
            frame.to_csv(path, index=False, sep="\t")
        case ".npy":
            np.save(path, x)
        case ".parquet":
            as_parquet(path, x)
        case ".feather":
            frame.to_feather(path)
        case ".csv":
            frame.to_csv(path, index=False)
    return path


FILES = [".npy", ".parquet", ".feather", ".csv"]


@pytest.fixture(params=FILES)
def suffix(request):
    return request.param


def test_nulls_are_missing_cells(tmp_path, holed, suffix):
    found = values(open_source(save(tmp_path / f"x{suffix}", holed)))
    assert_array_equal(np.isnan(found), np.isnan(holed))
    assert_allclose(found, holed, rtol=1e-15)


def test_columns_of_all_kinds_of_numbers(tmp_path):
    table = pa.table(
        {
            "whole": pa.array([1, None, 3], pa.int16()),
            "flag": pa.array([True, False, None]),
            "money": pa.array([None, "2.50", "1.25"]).cast(pa.decimal128(5, 2)),
            "half": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "nothing": pa.nulls(3),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    wanted = [[1, 1, NAN, 0.5, NAN], [NAN, 0, 2.5, 1.5, NAN], [3, NAN, 1.25, 2.5, NAN]]
    assert_array_equal(values(open_source(tmp_path / "x.parquet")), wanted)


@pytest.fixture(params=[0, 2**26], ids=["streamed", "held"])
def held_bytes(request, monkeypatch):
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", request.param)


@pytest.mark.usefixtures("held_bytes")
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_a_fit_to_a_file_is_the_fit_to_its_rows(tmp_path, rng, x, suffix, missing):
    if missing:
        x[rng.random(x.shape) < 0.15] = NAN
    path = save(tmp_path / f"x{suffix}", x)
    wanted = PPCA(2, tol=1e-9, random_state=0).fit(x)
    found = PPCA(2, tol=1e-9, random_state=0).fit(path)
    assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-12)
    assert_allclose(found.loadings_, wanted.loadings_, atol=1e-5 if missing else 1e-10)
    assert_allclose(found.noise_variance_, wanted.noise_variance_, rtol=1e-6 if missing else 1e-10)
    assert found.n_samples_ == N


def test_the_number_of_components_is_chosen_in_a_sample_of_a_large_file(tmp_path, holed, monkeypatch):
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", holed.nbytes - 1)
    found = PPCA("bic", random_state=0).fit(save(tmp_path / "x.parquet", holed))
    assert found.n_components_ == 2
    assert "in a sample of 4,000 rows" in found.summary()
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", holed.nbytes)
    found = PPCA("bic", random_state=0).fit(tmp_path / "x.parquet")
    assert found.n_components_ == 2
    assert "in a sample" not in found.summary()


def test_parallel_analysis_reads_all_rows_of_a_file(tmp_path, x, holed):
    for rows in (x, holed):
        found, wanted = PPCA(random_state=0).fit(save(tmp_path / "x.parquet", rows)), PPCA(random_state=0).fit(rows)
        assert (found.n_components_, found.rule_) == (wanted.n_components_, "parallel analysis")


def test_names_of_columns_are_those_of_the_features(tmp_path, x):
    found = PPCA(2).fit(save(tmp_path / "x.parquet", x))
    assert list(found.feature_names_in_) == NAMES
    turned = tmp_path / "turned.parquet"
    pq.write_table(pq.read_table(tmp_path / "x.parquet").select(NAMES[::-1]), turned)
    assert_allclose(found.transform(turned), found.transform(tmp_path / "x.parquet"), rtol=1e-12)


@pytest.mark.parametrize("target", [".npy", ".parquet", ".feather", ".csv", ".tsv", ".csv.gz"])
def test_answers_are_written_as_they_come(tmp_path, holed, target):
    path = save(tmp_path / "x.parquet", holed)
    fitted = PPCA(2, random_state=0).fit(path)
    for name, method in (("z", fitted.transform), ("filled", fitted.impute), ("score", fitted.score_samples)):
        out = tmp_path / f"{name}{target}"
        assert method(path, out=out) == out
        wanted = np.asarray(method(path)).reshape(N, -1)
        found = np.load(out) if target == ".npy" else values(open_source(out))
        assert_allclose(found, wanted, rtol=1e-14, atol=1e-14)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["x.parquet", *(f"{n}{target}" for n in ("z", "filled", "score"))]
    )


def test_a_file_that_is_not_finished_does_not_appear(tmp_path, x):
    fitted = PPCA(2).fit(x)

    def batches():
        yield x[:10]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted.transform(open_source(batches()), out=tmp_path / "z.npy")
    assert not list(tmp_path.iterdir())


def test_a_truncated_file_is_named(tmp_path, x, suffix):
    path = save(tmp_path / f"x{suffix}", x)
    os.truncate(path, path.stat().st_size * 2 // 3)
    if suffix == ".csv":  # a text file may end anywhere, but not within a row
        with path.open("a") as file:
            file.write("\n1,2")
    with pytest.raises((SourceError, DataError), match=path.name):
        open_source(path).fold(Moments.of)


def test_a_damaged_row_group_is_named(tmp_path, x):
    path = as_parquet(tmp_path / "x.parquet", x, compression="snappy", use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(3).column(0).data_page_offset
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xff" * 64)
    with pytest.raises(SourceError, match=r"x\.parquet, row group 3 cannot be read"):
        open_source(path).fold(Moments.of)


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, x, suffix):
    path = save(tmp_path / f"x{suffix}", x)
    source = open_source(path)
    source.fold(Moments.of)
    save(path, x[:-1])
    with pytest.raises(SourceError, match="has changed since it was opened"):
        source.fold(Moments.of)


def overwrite(path, size=None):
    """Overwrite a file in place, by default by as many bytes."""
    stat = path.stat()
    with path.open("r+b") as file:
        content = file.read()
        file.seek(0)
        file.write(content[: size or len(content)])
        file.truncate()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))  # the clock of a file system may be slower than a test


def overwriting(path, function):
    """The function, which overwrites the file whenever it is called."""

    def call(*given):
        overwrite(path)
        return function(*given)

    return call


PASSES = {
    "fold": lambda source, path: source.fold(overwriting(path, Moments.of)),
    "map": lambda source, path: source.map(overwriting(path, lambda block: np.array(block.values))),
    "answers": lambda source, path: list(source.answers(overwriting(path, Moments.of))),
    "hold": lambda source, path: source.scaled(np.ones(D)).keep(overwriting(path, lambda block: block)).hold(),
}


@pytest.mark.parametrize("way", PASSES.values(), ids=PASSES)
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("end", [*FILES, ".csv.gz", ".tsv"])
def test_a_file_overwritten_during_a_pass_is_noticed(tmp_path, x, monkeypatch, end, n_jobs, way):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 2**15)  # several blocks
    path = save(tmp_path / f"x{end}", x)
    with pytest.raises(SourceError, match=rf"x{end} has changed since it was opened"):
        way(open_source(path, n_jobs=n_jobs), path)


def test_looking_at_a_text_reads_little_more_than_its_beginning(tmp_path, x, monkeypatch):
    monkeypatch.setattr(arrow_text, "CSV_BYTES", 2**14)
    given, reader = [], arrow_text._reader

    def read(stream, *rest):
        given.append(stream.size())
        return reader(stream, *rest)

    monkeypatch.setattr(arrow_text, "_reader", read)
    path = save(tmp_path / "x.csv", x)
    looked = look_at(path)
    assert [column.kind for column in looked.columns()] == ["numbers"] * D
    assert len(given) == 1
    assert max(given) <= 2**14 + 2**10 < path.stat().st_size / 2
    assert_allclose(looked.source(None, 1).fold(Moments.of).mean, open_source(x).fold(Moments.of).mean)


def test_a_workbook_overwritten_while_its_sheet_is_read_is_noticed(tmp_path, x, monkeypatch):
    calamine = pytest.importorskip("python_calamine")
    path = tmp_path / "x.xlsx"
    pd.DataFrame(x[:20], columns=NAMES).to_excel(path, index=False)
    read = calamine.CalamineWorkbook.from_path

    def reading(place):
        overwrite(place)
        return read(place)

    monkeypatch.setattr(calamine.CalamineWorkbook, "from_path", reading)
    with pytest.raises(SourceError, match=r"x\.xlsx has changed since it was opened"):
        open_source(path).fold(Moments.of)


def test_a_file_replaced_by_another_of_its_size_and_time_is_noticed(tmp_path, x, suffix):
    path, other = save(tmp_path / f"x{suffix}", x), tmp_path / "other"
    source = open_source(path)
    shutil.copy2(path, other)
    other.replace(path)
    with pytest.raises(SourceError, match="has changed since it was opened"):
        source.fold(Moments.of)


def test_a_change_explains_what_else_goes_wrong_while_a_file_is_read(tmp_path, x, monkeypatch):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 2**12)
    path = save(tmp_path / "x.csv", x)
    source = open_source(path, n_jobs=1)
    size = path.stat().st_size

    def cut(block):
        overwrite(path, size // 2 - 1)
        path.write_bytes(path.read_bytes() + b",".ljust(size // 2, b"x"))
        return Moments.of(block)

    with pytest.raises(SourceError, match="has changed since it was opened"):
        source.fold(cut)


def test_no_result_is_written_for_a_file_that_changed_meanwhile(tmp_path, x, monkeypatch, suffix):
    path, out = save(tmp_path / f"x{suffix}", x), tmp_path / "out.csv"
    fitted = PPCA(2).fit(x)
    monkeypatch.setattr("probpca.inference.latent_axes.posterior_mean", overwriting(path, posterior_mean))
    with pytest.raises(SourceError, match="has changed since it was opened"):
        fitted.transform(path, out=out)
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_column_of_text_is_named(tmp_path, x):
    frame = pd.DataFrame(x, columns=NAMES)
    frame.insert(2, "city", "Rome")
    for suffix in (".parquet", ".feather", ".csv"):
        path = tmp_path / f"x{suffix}"
        {".parquet": frame.to_parquet, ".feather": frame.to_feather, ".csv": lambda p: frame.to_csv(p, index=False)}[
            suffix
        ](path)
        with pytest.raises(DataError, match=rf"column 'city' of .*x\{suffix} holds (large_)?string.*\n.*columns="):
            open_source(path)
        assert_allclose(values(open_source(path, columns=NAMES)), x, rtol=1e-15)
    with pytest.raises(DataError, match="column 'city' holds String"):
        open_source(frame)


def test_text_far_down_in_a_column_of_numbers_is_named(tmp_path, x, monkeypatch):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 20_000)
    path = save(tmp_path / "x.csv", x)
    lines = path.read_text().splitlines()
    lines[3000] = "1,2,three,4,5"
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"x\.csv cannot be read as numbers.*three"):
        open_source(path).fold(Moments.of)


def test_a_column_missing_from_one_part_is_named(tmp_path, x):
    as_parquet(tmp_path / "1.parquet", x)
    pq.write_table(pq.read_table(tmp_path / "1.parquet").drop_columns("c"), tmp_path / "2.parquet")
    with pytest.raises(SourceError, match=r"2\.parquet has no column 'c'; it has a, b, d, e"):
        open_source(tmp_path)


def test_what_is_no_file_of_rows_is_refused(tmp_path):
    (tmp_path / "x.docx").touch()
    (tmp_path / "x.npy").write_bytes(b"nothing of the kind")
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    for name, error, words in (
        ("none.csv", SourceError, "there is no file"),
        ("x.docx", SourceError, r"format of .* is not known from its name.*\n.*\.parquet"),
        ("x.npy", SourceError, "is not a .npy file"),
        ("cube.npy", ShapeError, r"shape \(2, 2, 2\)"),
        ("words.npy", DataError, "not numbers"),
    ):
        with pytest.raises(error, match=words):
            open_source(tmp_path / name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no Parquet file"):
        open_source(tmp_path / "empty")


def test_a_file_without_rows_has_nothing_to_fit(tmp_path, x):
    with pytest.raises((SourceError, DataError), match="rows"):
        PPCA(2).fit(as_parquet(tmp_path / "x.parquet", x[:0]))


def test_reading_goes_on_in_another_thread_while_one_computes(tmp_path, x):
    path = as_parquet(tmp_path / "x.parquet", x)
    barrier = threading.Barrier(2, timeout=20)

    def meet(block):
        barrier.wait()
        return Moments.of(block)

    assert open_source(path, n_jobs=2).fold(meet).weight == N


def test_somebody_who_watches_is_told_of_every_part(tmp_path, x):
    told = []
    path = as_parquet(tmp_path / "x.parquet", x)
    open_source(path, watch=lambda *progress: told.append(progress)).fold(Moments.of)
    assert told == [(k, 8) for k in range(1, 9)]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_somebody_who_watches_is_told_how_much_of_a_text_is_read(tmp_path, x, suffix, monkeypatch):
    monkeypatch.setattr(arrow_text, "CSV_BYTES", 2**14)
    path, told = tmp_path / f"x{suffix}", []
    pd.DataFrame(x, columns=NAMES).to_csv(path, index=False)
    source = open_source(path, watch=lambda *progress: told.append(progress), n_jobs=1)
    assert told == []
    batches = len(source.hold())
    for again in range(2):
        if suffix == ".csv" or again:  # how long a compressed text is shows when it has been read
            done, parts = zip(*told, strict=True)
            assert set(parts) == {parts[0]}
            assert abs(parts[0] - batches) <= 1
            assert (np.diff(done) == 1).all()
            assert (done[0], done[-1]) == (1, parts[0])
        else:
            assert told == []
        told.clear()
        assert source.fold(Moments.of).weight == N


def test_rows_of_another_width_are_refused(tmp_path, x):
    fitted = PPCA(2).fit(x)
    np.save(tmp_path / "x.npy", x[:, :4])
    with pytest.raises(ShapeError, match="5 features, as in the fit; got 4"):
        fitted.transform(tmp_path / "x.npy")


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_other_columns_go_with_the_rows(tmp_path, holed, suffix, n_jobs, monkeypatch):
    monkeypatch.setattr(arrow_text, "CSV_BYTES", 2**14)
    frame = pd.DataFrame(holed, columns=NAMES)
    frame.insert(1, "city", [f"city {i}" for i in range(N)])
    frame["b"] = [f"label {i}" for i in range(N)]
    path = tmp_path / f"x{suffix}"
    {".parquet": lambda p: frame.to_parquet(p, row_group_size=900), ".feather": frame.to_feather}.get(
        suffix, lambda p: frame.to_csv(p, index=False)
    )(path)
    chosen = ["e", "a"]
    source = open_source(path, columns=chosen, others=["b", "city"], n_jobs=n_jobs)
    assert source.columns == tuple(chosen)
    seen = list(source.answers(lambda block: (np.array(block.values), block.others.to_pydict())))
    assert_allclose(np.vstack([x for x, _ in seen]), holed[:, [4, 0]], rtol=1e-15)
    assert [cell for _, others in seen for cell in others["city"]] == list(frame["city"])
    assert [cell for _, others in seen for cell in others["b"]] == list(frame["b"])
    block = source.hold()[0].take(slice(3, 7))
    assert block.others["city"].to_pylist() == list(frame["city"][3:7])
    assert all(block.others is None for block in open_source(path, columns=chosen).hold())


def test_other_columns_must_be_in_every_file_of_a_folder(tmp_path, x):
    frame = pd.DataFrame(x, columns=NAMES)
    frame.assign(city="Rome").to_parquet(tmp_path / "1.parquet")
    frame.to_parquet(tmp_path / "2.parquet")
    with pytest.raises(SourceError, match=r"must have the same columns; 2\.parquet differs in 'city'"):
        open_source(tmp_path, columns=NAMES, others=["city"])


def test_other_columns_are_those_of_a_file_with_names(tmp_path, x):
    with pytest.raises(SourceError, match="columns can be chosen only when rows are read from a file"):
        open_source(x, others=["a"])
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(SourceError, match="whose columns have no names"):
        open_source(tmp_path / "x.npy", others=["a"])


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_read_on_systems_without_preadv(tmp_path, x, order, monkeypatch):
    monkeypatch.delattr(os, "preadv", raising=False)
    np.save(tmp_path / "x.npy", np.asarray(x, order=order))
    assert_array_equal(values(open_source(tmp_path / "x.npy", n_jobs=2)), x)
