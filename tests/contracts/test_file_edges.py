"""Files at their edges: kinds of numbers, names of columns, no rows, and names of the files themselves."""

import gc
import gzip
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet as pq

from oracles import spiked_rows
from probpca import PPCA, DataError, ShapeError, SourceError
from probpca.errors import ProbpcaError
from probpca.sources import TableFormat, open_source
from probpca.sources.open import look_at_bytes
from probpca.sources.write import write_rows
from probpca.statistics import Moments

N, D = 400, 5
NAMES = list("abcde")


@pytest.fixture
def x(rng):
    return spiked_rows(rng, N, D, 2, noise=0.3) + 7


@pytest.fixture
def frame(x):
    return pd.DataFrame(x, columns=NAMES)


def values(source):
    return source.map(lambda block: np.array(block.values))


def table(x, names=NAMES):
    return pa.table(dict(zip(names, np.asarray(x).T.copy(), strict=True)))


@pytest.mark.parametrize("order", [(np.float64, np.float32), (np.float32, np.float64), (np.float32, np.float32)])
def test_a_folder_is_single_if_all_of_its_files_are(tmp_path, x, order):
    for k, dtype in enumerate(order):
        pq.write_table(table(x.astype(dtype)), tmp_path / f"{k}.parquet")
    source = open_source(tmp_path)
    assert source.single_precision == (np.float64 not in order)
    assert_array_equal(values(source), np.concatenate([x.astype(dtype) for dtype in order]))


def test_the_index_of_a_dataframe_is_no_feature(tmp_path, x, frame):
    frame.index = np.arange(N) * 1000.0
    frame.to_parquet(tmp_path / "x.parquet")
    assert PPCA(2).fit(tmp_path / "x.parquet").feature_names_in_.tolist() == NAMES
    frame.rename_axis("when").to_parquet(tmp_path / "named.parquet")
    assert_array_equal(values(open_source(tmp_path / "named.parquet")), x)
    asked = open_source(tmp_path / "named.parquet", columns=["when", "a"])
    assert_array_equal(values(asked), np.column_stack([frame.index, x[:, 0]]))


def test_an_index_in_a_text_file_is_refused(tmp_path, x, frame):
    frame.to_csv(tmp_path / "x.csv")
    with pytest.raises(DataError, match=r"column 0 of .*x\.csv has no name(.|\n)*index=False.*columns=\["):
        PPCA(2).fit(tmp_path / "x.csv")
    assert_allclose(values(open_source(tmp_path / "x.csv", columns=NAMES)), x, rtol=1e-15)


def test_a_text_file_needs_a_line_of_names(tmp_path, x):
    np.savetxt(tmp_path / "x.csv", x, delimiter=",")
    with pytest.raises(DataError, match=r"x\.csv must begin with a line of column names(.|\n)*Hint: write a header"):
        PPCA(2).fit(tmp_path / "x.csv")
    years = pd.DataFrame(x, columns=["1990", "1991", "1992", "1993", "1994"])
    years.to_csv(tmp_path / "years.csv", index=False)
    assert open_source(tmp_path / "years.csv").columns == tuple(years)
    for names in (["1100.5", "1102.5", "1104.5", "1106.5", "z"], ["nan", "inf", "a", "b", "c"]):  # waves; no numbers
        years.set_axis(names, axis=1).to_csv(tmp_path / "scale.csv", index=False)
        assert open_source(tmp_path / "scale.csv").columns == tuple(names)
    years.rename(columns={"1990": "first", "1991": "0.5"}).to_csv(tmp_path / "cell.csv", index=False)
    with pytest.raises(DataError, match="must begin with a line of column names"):
        open_source(tmp_path / "cell.csv")
    assert open_source(tmp_path / "cell.csv", columns=["0.5"]).columns == ("0.5",)


def test_columns_that_pandas_has_counted_are_named(tmp_path, x):
    pd.DataFrame(x).to_csv(tmp_path / "x.csv", index=False)
    assert_allclose(values(open_source(tmp_path / "x.csv")), x, rtol=1e-15)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather"])
def test_two_columns_of_one_name_are_refused(tmp_path, x, suffix):
    twice = pa.table([*map(pa.array, x.T[:3].copy())], names=["a", "b", "a"])
    path = tmp_path / f"x{suffix}"
    match suffix:
        case ".csv":
            path.write_text("a,b,a\n1,2,3\n4,5,6\n")
        case ".parquet":
            pq.write_table(twice, path)
        case _:
            with pa.ipc.new_file(path, twice.schema) as writer:
                writer.write_table(twice)
    with pytest.raises(DataError, match=rf"x\{suffix} has 2 columns 'a'(.|\n)*Hint: rename"):
        open_source(path)
    if suffix != ".feather":  # whose readers want every name to be of one column
        assert open_source(path, columns=["b"]).n_features == 1


@pytest.mark.parametrize("chosen", [TableFormat(parse_units=True), TableFormat(thousands="'")])
def test_two_columns_of_one_name_that_hold_text_are_refused(tmp_path, chosen):
    path = tmp_path / "x.csv"
    path.write_text("a,a,b,c\n5'000,6'000,2,x\n4'000,w,4,y\n")
    with pytest.raises(DataError, match=r"x\.csv has 2 columns 'a'(.|\n)*Hint: rename"):
        open_source(path, table_format=chosen)
    assert open_source(path, columns=["b"], table_format=chosen).n_features == 1


def test_two_columns_of_one_name_in_a_dataframe_are_refused(x):
    with pytest.raises(DataError, match=r"columns must have unique names(.|\n)*Hint: rename"):
        open_source(pd.DataFrame(x, columns=list("abcda")))


def test_true_and_false_in_a_text_file_are_one_and_zero(tmp_path, x, frame):
    frame["b"] = x[:, 1] > 7
    frame.to_csv(tmp_path / "x.csv", index=False)
    found = values(open_source(tmp_path / "x.csv"))
    assert_array_equal(found[:, 1], frame["b"])
    assert_allclose(found[:, 0], x[:, 0], rtol=1e-15)


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_truncated_compressed_file_is_named(tmp_path, share):
    text = "a,b\n" + "".join(f"{i},{i * i % 977}\n" for i in range(50_000))
    packed = gzip.compress(text.encode())
    path = tmp_path / "x.csv.gz"
    path.write_bytes(packed[: int(share * len(packed))])
    with pytest.raises(SourceError, match=r"x\.csv\.gz cannot be read(.|\n)*truncated"):
        open_source(path).fold(Moments.of)


@pytest.mark.parametrize("damage", [slice(20, 30), slice(2000, None)], ids=["overwritten", "truncated"])
def test_damaged_compressed_text_in_memory_is_named(damage):
    packed = bytearray(gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(5000))))
    packed[damage] = b"\xff" * 10 if damage.stop else b""
    with pytest.raises(SourceError, match=r"here cannot be read(.|\n)*Hint: the file may be truncated or damaged"):
        look_at_bytes("here", bytes(packed))


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f2", ">f4", "<i2", "?", ">i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_in_memory_has_the_values_it_has_in_a_file(tmp_path, x, dtype, order):
    path = tmp_path / "x.npy"
    np.save(path, x[:9].astype(dtype, order=order))
    here, there = look_at_bytes("here", path.read_bytes()).source(None, 1), open_source(path)
    assert_array_equal(values(here), values(there))
    assert here.info.single_precision == there.info.single_precision


class Trap:
    """Unpickling it would run code."""

    def __reduce__(self):
        return (pytest.fail, ("code from the file was run",))


def test_an_array_of_objects_is_refused_without_running_its_code(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array([[Trap(), 1.0], [2.0, 3.0]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"x\.npy holds object, not numbers"):
        open_source(path)
    with pytest.raises(DataError, match="here holds object, not numbers"):
        look_at_bytes("here", path.read_bytes())


@pytest.mark.parametrize(
    ("array", "share", "said"),
    [
        (np.ones(3), 1, "must hold a matrix of rows and columns"),
        (np.ones((3, 2), complex), 1, "holds complex128, not numbers"),
        (np.ones((30, 2)), 0.8, "is truncated: its array needs"),
    ],
)
def test_an_array_in_memory_has_the_errors_it_has_in_a_file(tmp_path, array, share, said):
    path = tmp_path / "x.npy"
    np.save(path, array)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ProbpcaError, match=f"x.npy {said}") as there:
        open_source(path)
    with pytest.raises(type(there.value), match=f"here {said}"):
        look_at_bytes("here", path.read_bytes())


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".feather", ".csv"])
def test_no_rows_have_no_answers(tmp_path, x, frame, suffix):
    fitted = PPCA(2).fit(frame)
    empty, path = frame[:0], tmp_path / f"x{suffix}"
    match suffix:
        case ".npy":
            np.save(path, x[:0])
            fitted = PPCA(2).fit(x)
        case ".parquet":
            empty.to_parquet(path)
        case ".feather":
            empty.to_feather(path)
        case _:
            empty.to_csv(path, index=False)
    assert fitted.transform(path).shape == (0, 2)
    assert fitted.impute(path).shape == (0, D)
    assert fitted.score_samples(path).shape == (0,)
    assert fitted.outliers(path).contributions.shape == (0, D)
    for target in (".npy", ".parquet", ".csv"):
        out = fitted.transform(path, out=tmp_path / f"z{target}")
        assert values(open_source(out)).shape == (0, 2)
    with pytest.raises((SourceError, DataError), match="rows"):
        PPCA(2).fit(path)


def test_a_batch_without_rows_is_written_as_none(tmp_path, x):
    fitted = PPCA(2).fit(x)
    out = fitted.transform(open_source([x[:0], x, x[:0]]), out=tmp_path / "z.npy")
    assert_array_equal(np.load(out), fitted.transform(x))


@pytest.mark.parametrize("name", ["z.TSV", "z.CSV.GZ", "z.Tsv.Gz", "z.NPY", "z.Parquet", "z.tsv.csv"])
def test_the_name_of_a_file_means_the_same_to_who_writes_and_who_reads(tmp_path, x, name):
    out = write_rows(tmp_path / name, [x], NAMES)
    assert_allclose(values(open_source(out)), x, rtol=1e-15)
    assert (out.read_bytes()[:2] == b"\x1f\x8b") == name.lower().endswith(".gz")
    if name == "z.TSV":
        assert out.read_text().splitlines()[0] == '"a"\t"b"\t"c"\t"d"\t"e"'


@pytest.mark.parametrize("name", ["z.parquet.gz", "z.npy.gz", "z.feather.GZ"])
def test_only_text_is_compressed(tmp_path, x, name):
    with pytest.raises(SourceError, match=r"only text files may be compressed(.|\n)*Hint: .* without \.gz"):
        write_rows(tmp_path / name, [x], NAMES)
    (tmp_path / name).touch()
    with pytest.raises(SourceError, match="only text files may be compressed"):
        open_source(tmp_path / name)


def test_an_array_in_a_file_is_asked_of_a_fit_to_names(tmp_path, x, frame):
    np.save(tmp_path / "x.npy", x)
    fitted = PPCA(2).fit(frame)
    with pytest.warns(UserWarning, match=r"x\.npy have no names; they are assumed to be those of the fit"):
        found = fitted.transform(tmp_path / "x.npy")
    assert_allclose(found, fitted.transform(frame), rtol=1e-12)


@pytest.mark.parametrize("opened", [False, True], ids=["path", "source"])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv"])
def test_columns_in_another_order_give_the_same_answers(tmp_path, frame, suffix, opened):
    fitted, turned = PPCA(2).fit(frame), frame[NAMES[::-1]]
    path = tmp_path / f"x{suffix}"
    {".parquet": turned.to_parquet, ".feather": turned.to_feather}.get(suffix, lambda p: turned.to_csv(p, index=False))(
        path
    )
    rows = open_source(path) if opened else path
    assert_allclose(fitted.transform(rows), fitted.transform(frame), rtol=1e-10)
    assert_allclose(np.load(fitted.impute(rows, out=tmp_path / "f.npy")), frame, rtol=1e-15)


def test_columns_of_other_names_are_refused(tmp_path, frame):
    fitted = PPCA(2).fit(frame)
    other = frame.rename(columns={"c": "sea"})
    other.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="has no column 'c'"):
        fitted.transform(tmp_path / "x.parquet")
    for rows in (open_source(tmp_path / "x.parquet"), open_source(other), [other, other]):
        with pytest.raises(
            ShapeError, match=r"same columns as the first ones, a, b, c, d, e, in any order; 'c' is missing.\nHint"
        ):
            fitted.transform(rows)


def stored_by_columns(path, x):
    np.save(path, np.asfortranarray(x))
    return path


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<i2", "?", ">i8"])
def test_a_file_stored_by_columns_is_read_in_pieces(tmp_path, rng, dtype):
    x = (100 * rng.standard_normal((30_000, 40))).astype(dtype)
    source = open_source(stored_by_columns(tmp_path / "x.npy", x), n_jobs=1)
    assert not source.in_memory
    assert source.single_precision == (dtype == "<f4")
    assert_array_equal(values(source), x)


def test_a_file_stored_by_columns_is_never_held_whole(tmp_path, rng):
    x = rng.integers(0, 9, (400_000, 20)).astype(np.int16)
    path = stored_by_columns(tmp_path / "x.npy", x)
    del x
    gc.collect()
    tracemalloc.start()
    open_source(path, n_jobs=1).fold(Moments.of)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48e6  # as float64 it would take 64e6, and a copy of it as much again


def test_a_file_stored_by_columns_is_watched_and_noticed_when_it_changes(tmp_path, x):
    path, told = stored_by_columns(tmp_path / "x.npy", x), []
    source = open_source(path, watch=lambda *progress: told.append(progress))
    source.fold(Moments.of)
    assert told == [(1, 1)]
    stored_by_columns(path, x[:-1])
    with pytest.raises(SourceError, match="has changed since it was opened"):
        source.fold(Moments.of)


def test_answers_to_a_large_row_group_are_not_collected(tmp_path, rng, monkeypatch):
    monkeypatch.setattr("probpca.sources.readers.arrow.BLOCK_ROWS", (1024, 4096))
    x = rng.standard_normal((400_000, 8))
    path = tmp_path / "x.parquet"
    pq.write_table(table(x, list("abcdefgh")), path, row_group_size=len(x))
    fitted = PPCA(2, n_jobs=2).fit(x[:1000])
    size = x.nbytes
    del x
    gc.collect()
    tracemalloc.start()
    out = fitted.impute(path, out=tmp_path / "filled.npy")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert out.stat().st_size > size
    assert peak < 0.8 * size


def test_whoever_watches_is_told_while_answers_are_written(tmp_path, frame):
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "x.parquet", row_group_size=100)
    told = []
    source = open_source(tmp_path / "x.parquet", watch=lambda *progress: told.append(progress))
    PPCA(2).fit(frame).transform(source, out=tmp_path / "z.npy")
    assert told == [(k, 4) for k in range(1, 5)]


def test_two_threads_may_write_to_the_same_file(tmp_path, x):
    barrier, failures = threading.Barrier(2, timeout=20), []

    def answers(part):
        yield part
        barrier.wait()  # both have begun
        yield part

    def write(part):
        try:
            write_rows(tmp_path / "z.npy", answers(part), NAMES)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    parts = x[:100], x[100:200]
    threads = [threading.Thread(target=write, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = np.load(tmp_path / "z.npy")
    assert any(np.array_equal(found, np.vstack([part, part])) for part in parts)
    assert [p.name for p in tmp_path.iterdir()] == ["z.npy"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_file_that_was_looked_at_is_closed(tmp_path, x, monkeypatch):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 2000)
    path = write_rows(tmp_path / "x.csv", [x], NAMES)
    sources = [open_source(path) for _ in range(5)]
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert str(path) not in [str(link.readlink()) for link in links if link.is_symlink()]
    assert all(source.repeatable for source in sources)
