"""What goes wrong is said in one line, with a hint, and ends in an exit code."""

import json
import os
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from forged_models import packed, unpacked
from probpca.cli.main import main
from probpca.cli.table import Survey
from probpca.learning.progress import ProgressBar
from probpca.models import LinearGaussian, save_model

BAD = {
    "gone.csv": (None, "there is no file gone.csv."),
    "empty.csv": ("", "empty.csv is empty."),
    "header.csv": ("a,b\n", "header.csv has column names, but no rows below them."),
    "text.csv": (
        "a,b\nx,1\ny,2\n",
        "text.csv has one column of numbers; two or more are needed. Other columns: 'a' (text).",
    ),
    "one.csv": ("a,b\n1,2\n", "one.csv has 1 row; a model needs two or more rows."),
    "bare.csv": (
        "1,2\n3,5\n4,4\n",
        "bare.csv must begin with a line of column names; its first line holds numbers: 1, 2.",
    ),
    "inf.csv": ("a,b\n1,2\n3,inf\n5,6\n", "inf.csv, row 2, column 'b' holds an infinite number."),
    "short.csv": ("a,b\n1,2\n3\n", "short.csv, row 2 has 1 cell, but there are 2 column names: '3'."),
    "long.csv": ("a,b\n1,2\n3,4\n5,6,7\n", "long.csv, row 3 has 3 cells, but there are 2 column names: '5,6,7'."),
    "photo.csv": ("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "photo.csv is not a text file."),
    "twice.csv": ("a,a,b\n1,2,3\n3,4,5\n", "columns must have different names; twice.csv has several"),
    "x.docx": ("?", "the format of x.docx is not known from its name."),
    "cut.xlsx": ("PK\x03\x04 and no more", "cut.xlsx cannot be read as a workbook: "),
    "cut.parquet": ("PAR1 and no more", "cut.parquet cannot be read: "),
    "cut.csv.gz": ("\x1f\x8b and no more", "cut.csv.gz cannot be read: "),
    "cut.npy": ("no array", "cut.npy is not a .npy file: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_one_line_about_what_and_where(folder, run, name):
    content, said = BAD[name]
    if content is not None:
        (folder / name).write_text(content, encoding="latin-1")
    done = run("fit", name)
    assert done.code == 1
    assert done.out == ""
    what, *hint = done.err.splitlines()
    assert what.startswith(f"probpca: error: {said}")
    assert all(line.startswith("Hint: ") for line in hint)
    assert len(hint) <= 1
    assert not (folder / "model.npz").exists()


def test_a_folder_without_tables_is_refused(folder, run):
    (folder / "sub").mkdir()
    assert run("fit", "sub").err == "probpca: error: there is no Parquet file in sub.\n"


def test_text_that_comes_late_is_found(folder, run, monkeypatch):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 1000)
    lines = [f"{i},{i % 7},{i % 5}" for i in range(500)]
    lines[400] = "400,two,1"
    (folder / "late.csv").write_text("x,y,z\n" + "\n".join(lines) + "\n")
    done = run("fit", "late.csv")
    assert done.code == 1
    assert "late.csv cannot be read as numbers: row 401, column 'y' holds 'two'." in done.err


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b,c,d\n1,2,3,4\n", "other.csv lacks 1 of the 5 columns of the model: 'e'."),
        ("a,b,c,d,e\n1,2,3,4,x\n", "column 'e' of other.csv must hold numbers, as in the fit; it holds text."),
        ("a,b,c,d,e\n1,2,3,4,5\n1,2,3,4,-inf\n", "other.csv, row 2, column 'e' holds an infinite number."),
        ("a,b,c,d,e\n", "other.csv has no rows."),
    ],
)
def test_a_table_that_does_not_go_with_the_model(folder, run, content, said):
    (folder / "other.csv").write_text(content)
    done = run("impute", "model.npz", "other.csv", "--out", "full.csv")
    assert done.code == 1
    assert done.err.startswith(f"probpca: error: {said}\n")
    assert not (folder / "full.csv").exists()
    assert list(folder.glob("*.part")) == []


def test_a_file_that_is_no_model(folder, run, model):
    (folder / "bad.npz").write_text("hello")
    np.savez("foreign.npz", x=np.zeros(3))
    save_model(LinearGaussian(np.zeros(3), np.ones((3, 1)), 1.0), "bare.npz")
    (folder / "cut.npz").write_bytes(model.read_bytes()[:200])
    said = {
        "bad.npz": "bad.npz is not a model.",
        "foreign.npz": "foreign.npz was not written by probpca",
        "bare.npz": "bare.npz holds a LinearGaussian; the model must be a PPCA, a BayesianPCA, "
        "a FactorAnalysis or a MixturePPCA.",
        "cut.npz": "cut.npz cannot be read as a probpca file",
        "gone.npz": "there is no file gone.npz.",
        "table.csv": "table.csv is a table, not a model.",
    }
    for name, words in said.items():
        done = run("score", name, "table.csv")
        assert done.code == 1
        assert done.err.startswith(f"probpca: error: {words}"), done.err


def test_a_pipe_in_the_place_of_a_model_is_refused_at_once(folder, run):
    os.mkfifo(folder / "pipe.npz")
    done = run("score", "pipe.npz", "table.csv")
    assert done.code == 1
    assert done.err.startswith("probpca: error: pipe.npz cannot be read as a probpca file: it must be a regular file")


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("skip_rows", "two", "table_format must be an object of settings"),
        ("header", 1, "table_format must be an object of settings"),
        ("decimal", ";", "decimal must be one of"),
        ("colour", "red", "colour='red' is a table setting that this version of probpca does not know"),
    ],
)
def test_a_model_whose_settings_were_changed_is_refused(run, model, setting, value, said):
    header, arrays = unpacked(model.read_bytes())
    header["table_format"][setting] = value
    model.write_bytes(packed(header, arrays))
    done = run("score", "model.npz", "table.csv")
    assert done.code == 1
    assert done.err.startswith(f"probpca: error: model.npz holds no valid model: {said}")


def test_a_model_in_the_place_of_a_table(run, model):
    done = run("score", model, model)
    assert done.code == 1
    assert done.err.startswith(f"probpca: error: {model} is not a table.\nHint: a .npz file holds a model")


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "table.csv", "--out", "kept.npz"],
        ["impute", "model.npz", "table.csv", "--out", "kept.csv"],
        ["sample", "model.npz", "--out", "kept.parquet"],
        ["select", "table.csv", "--plot", "kept.png"],
        ["report", "model.npz", "table.csv", "--out", "kept.html"],
        ["forecast", "table.csv", "--steps", "2", "--out", "kept.csv"],
        ["forecast", "table.csv", "--steps", "2", "--plot", "kept.svg"],
    ],
    ids=lambda command: command[0],
)
def test_nothing_is_overwritten_unless_asked_for(folder, run, command):
    kept = folder / command[-1]
    kept.write_text("precious")
    done = run(*command)
    assert done.code == 1
    assert done.err.endswith(f"{kept.name} already exists.\nHint: choose another name, or overwrite it with --force.\n")
    assert kept.read_text() == "precious"


@pytest.mark.usefixtures("model")
def test_force_overwrites_but_never_what_is_read(folder, run):
    (folder / "s.csv").write_text("old")
    assert run("score", "model.npz", "table.csv", "--out", "s.csv", "--force").code == 0
    assert (folder / "s.csv").read_text().startswith('"name"')
    before = (folder / "table.csv").read_text()
    done = run("impute", "model.npz", "table.csv", "--out", "table.csv", "--force")
    assert done.code == 1
    assert "table.csv is an input of this command and cannot be overwritten." in done.err
    assert (folder / "table.csv").read_text() == before


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["fit"],
        ["nonsense"],
        ["fit", "t.csv", "--components", "1.5"],
        ["fit", "t.csv", "--components", "many"],
        ["fit", "t.csv", "--bayesian", "--components", "cv"],
        ["fit", "t.csv", "--model", "factors"],
        ["fit", "t.csv", "--model", "fa", "--rotation", "procrustes"],
        ["fit", "t.csv", "--jobs", "0"],
        ["forecast", "t.csv"],
        ["impute", "m.npz", "t.csv", "--level", "95"],
        ["outliers", "m.npz", "t.csv", "--top", "-1"],
    ],
)
def test_bad_usage_is_code_2(run, args):
    done = run(*args)
    assert done.code == 2
    assert "usage: probpca" in done.err
    assert done.out == ""


@pytest.mark.usefixtures("folder")
def test_errors_of_the_library_speak_of_options(run):
    done = run("fit", "table.csv", "--components", 9)
    assert done.code == 1
    assert "error: --components must lie between 1 and" in done.err
    assert "\nHint: --components 4 is the most that 5 columns allow" in done.err
    done = run("fit", "table.csv", "--id", "names")
    assert done.err == "probpca: error: table.csv has no column 'names'.\nHint: did you mean 'name'?\n"


@pytest.mark.usefixtures("folder")
def test_debug_shows_where_an_error_came_from():
    with pytest.raises(ValueError, match=r"there is no file gone\.csv"):
        main(["fit", "gone.csv", "--debug"])


@pytest.mark.usefixtures("folder")
def test_a_bug_is_called_a_bug(run, monkeypatch):
    monkeypatch.setattr(Survey, "merge", None)
    monkeypatch.setattr(Survey, "of", None)
    done = run("fit", "table.csv")
    assert done.code == 1
    assert "Hint: this is a bug in probpca; --debug shows where.\n" in done.err


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", ["fit", "impute"])
def test_an_interrupt_leaves_nothing_half_written(folder, run, monkeypatch, command):
    x = pa.table({name: np.arange(5000) % 7 + k for k, name in enumerate("abcde")})
    parquet.write_table(x, "large.parquet", row_group_size=500)

    def interrupt(_, done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "parts", interrupt)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("probpca.sources.readers.arrow.BLOCK_ROWS", (100, 100))
    args = {"fit": ["large.parquet", "--out", "new.npz"], "impute": ["model.npz", "large.parquet", "--out", "new.csv"]}
    before = sorted(path.name for path in folder.iterdir())
    done = run(command, *args[command])
    assert done.code == 130
    assert "interrupted" in done.err
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_a_fit_that_does_not_converge_says_so_once(run):
    done = run("fit", "table.csv", "--components", 2, "--json", "--max-iter", 1)
    assert json.loads(done.out)["converged"] is False
    assert "max" not in done.err
    told = " ".join(run("fit", "table.csv", "--components", 2, "--max-iter", 1, "--force").out.split())
    assert "Not converged: --max-iter was reached first. Raise --max-iter." in told


def test_a_file_without_names_does_not_lose_its_first_row(tmp_path, run):
    (tmp_path / "bare.csv").write_text("a,0.0125,0.9867\nb,0.5,0.25\nc,0.75,0.125\n", encoding="utf-8")
    done = run("fit", tmp_path / "bare.csv")
    assert done.code == 1
    assert "must begin with a line of column names" in done.err


def test_names_that_are_not_utf8_are_named(tmp_path, run):
    (tmp_path / "latin.csv").write_bytes("na\xefve,b\n1,2\n3,4\n".encode("latin-1"))
    done = run("fit", tmp_path / "latin.csv")
    assert done.code == 1
    assert "latin.csv are not UTF-8" in done.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [["select"], ["forecast", "--steps", "2"]], ids=lambda command: command[0])
def test_a_plot_without_matplotlib_is_refused_at_once(run, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    done = run(command[0], "table.csv", *command[1:], "--plot", "p.png")
    assert (done.code, done.out) == (1, "")
    assert done.err == "probpca: error: --plot needs matplotlib.\nHint: pip install 'probpca[plot]'.\n"
