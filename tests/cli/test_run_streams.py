"""Files larger than memory: nothing holds all rows, and the answers are the same."""

import io
import json
import re
import time
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from pyarrow import parquet

from cli.conftest import FEATURES
from probpca import PPCA
from probpca.learning.progress import ProgressBar
from probpca.sources.engines.local import LocalEngine
from probpca.sources.readers.arrow import Layout
from probpca.sources.source import HELD_BYTES

N = 3000


@pytest.fixture
def rows():
    rng = np.random.default_rng(11)
    x = rng.standard_normal((N, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((N, 5))
    x[rng.random(x.shape) < 0.05] = np.nan
    return x


@pytest.fixture(params=["large.csv", "large.parquet", "large.feather"])
def large(request, folder, rows):  # noqa: ARG001
    """A table that is read in many pieces."""
    frame = pd.DataFrame(rows, columns=list(FEATURES))
    frame.insert(2, "name", [f"r{i}" for i in range(N)])
    table = pa.Table.from_pandas(frame, preserve_index=False)
    match request.param.split(".")[1]:
        case "csv":
            frame.to_csv(request.param, index=False)
        case "parquet":
            parquet.write_table(table, request.param, row_group_size=400)
        case "feather":
            with pa.ipc.new_file(request.param, table.schema) as file:
                file.write_table(table, max_chunksize=400)
    return request.param


@pytest.fixture
def pieces(monkeypatch):
    """Sizes of the batches that are read; reading all rows at once is not allowed."""
    sizes = []
    take, answer = Layout.block, LocalEngine.map

    def block(layout, batch):
        sizes.append(batch.num_rows)
        return take(layout, batch)

    def refuse(engine, function):
        if engine.held is None:
            pytest.fail("all rows were read into memory")
        return answer(engine, function)

    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 2**14)
    monkeypatch.setattr("probpca.sources.readers.arrow.BLOCK_ROWS", (250, 250))
    monkeypatch.setattr(Layout, "block", block)
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", 0)
    monkeypatch.setattr(LocalEngine, "map", refuse)
    return sizes


@pytest.mark.usefixtures("pieces")
def test_a_fit_reads_pieces(large, run, rows):
    assert run("fit", large, "--components", 2).code == 0
    found, expected = PPCA.from_file("model.npz"), PPCA(2, random_state=0).fit(rows)
    assert found.n_samples_ == expected.n_samples_
    assert_allclose(found.log_likelihood_, expected.log_likelihood_, atol=2e-3)
    assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=1e-3)


def test_answers_come_piece_by_piece_with_their_labels(large, run, pieces, rows):
    fitted = PPCA(2, random_state=0).fit(pd.DataFrame(rows, columns=list(FEATURES)))
    fitted.to_file("model.npz")
    del fitted.feature_names_in_
    assert run("impute", "model.npz", large, "--out", "full.csv", "--jobs", 2).code == 0
    assert run("transform", "model.npz", large, "--out", "z.csv", "--jobs", 1).code == 0
    assert max(pieces) < 500
    assert sum(pieces) == 2 * N
    full, z = pd.read_csv("full.csv"), pd.read_csv("z.csv")
    assert list(full.columns) == ["a", "b", "name", "c", "d", "e"]
    assert full["name"].tolist() == z["name"].tolist() == [f"r{i}" for i in range(N)]
    assert_allclose(full[list(FEATURES)], fitted.impute(rows), rtol=1e-12, atol=1e-13)
    assert_allclose(z[list(fitted.get_feature_names_out())], fitted.transform(rows), rtol=1e-12, atol=1e-14)


def test_the_worst_rows_of_all_pieces_are_found(large, run, pieces, rows):
    fitted = PPCA(2, random_state=0).fit(pd.DataFrame(rows, columns=list(FEATURES)))
    fitted.to_file("model.npz")
    del fitted.feature_names_in_
    told = json.loads(run("outliers", "model.npz", large, "--top", 7, "--json").out)
    order = np.argsort(fitted.outliers(rows).log10_p_value, kind="stable")[:7]
    assert told["data"]["row"] == (order + 1).tolist()
    assert told["data"]["name"] == [f"r{i}" for i in order]
    assert told["judged_rows"] == N
    assert len(pieces) > 5


@pytest.mark.usefixtures("folder")
def test_small_tables_are_held_in_memory(run, monkeypatch):
    seen = []
    fit = PPCA.fit
    monkeypatch.setattr(PPCA, "fit", lambda self, rows: seen.append(rows) or fit(self, rows))
    assert run("fit", "table.csv", "--components", 2).code == 0
    assert seen[0].in_memory
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", 0)
    assert run("fit", "table.csv", "--components", 2, "--force").code == 0
    assert not seen[1].in_memory


def peak_bytes(work):
    """Peak of the memory that Python and NumPy allocate meanwhile."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("folder")
def test_fitting_a_file_takes_little_more_memory_than_in_the_library(run):
    options = ("--components", 2, "--max-iter", 2, "--jobs", 1, "--force")
    run("fit", "table.csv", *options)  # imports what the others need
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200_000, 48))
    x[rng.random(x.shape) < 0.05] = np.nan
    np.save("large.npy", x)
    np.save("small.npy", x[:160_000])
    large, small = x.nbytes, x[:160_000].nbytes
    del x
    assert small < HELD_BYTES < large
    assert peak_bytes(lambda: run("fit", "small.npy", *options)) < 2.5 * small
    library = peak_bytes(lambda: PPCA(2, max_iter=2, tol=1e9, n_jobs=1, random_state=0).fit("large.npy"))
    assert peak_bytes(lambda: run("fit", "large.npy", *options)) < 1.2 * library


@pytest.mark.usefixtures("pieces")
def test_pages_of_large_tables_are_made_of_some_rows(large, run, rows, monkeypatch):
    monkeypatch.setattr("probpca.cli.page_commands.HELD_CELLS", 5 * 1000)
    PPCA(2, random_state=0).fit(pd.DataFrame(rows, columns=list(FEATURES))).to_file("model.npz")
    done = run("explorer", "model.npz", large, "--json")
    assert "note: the table is large: the page shows one row in 4.\n" in done.err
    assert json.loads(done.out)["rows"] == N // 4


class Screen(io.StringIO):
    """A place for messages that is a terminal, or is not."""

    def __init__(self, terminal):
        super().__init__()
        self.isatty = lambda: terminal


@pytest.mark.parametrize("large", ["large.csv", "large.parquet"], indirect=True)
@pytest.mark.parametrize(("patience", "terminal"), [(0.005, True), (60, True), (0.005, False)])
def test_a_bar_with_the_time_left_appears_on_a_terminal_and_after_a_while(
    large, run, pieces, monkeypatch, patience, terminal
):
    screen = Screen(terminal)
    parts = ProgressBar.parts

    def slowly(bar, *args):
        time.sleep(0.03)
        parts(bar, *args)

    monkeypatch.setattr(ProgressBar, "parts", slowly)
    monkeypatch.setattr("probpca.cli.main.QUIET_SECONDS", patience)
    monkeypatch.setattr("sys.stderr", screen)
    assert run("fit", large, "--components", 1).code == 0, screen.getvalue()
    shown = screen.getvalue()
    assert ("reading" in shown) is (terminal and patience < 1)
    assert bool(re.search(r"\[\d\d:\d\d<\d\d:\d\d", shown)) is (terminal and patience < 1)
    assert max(pieces) < 500
