"""What a command prints: nothing a terminal obeys, and never success if its answer could not be written."""

import csv
import io
import json
import os
import pty
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from cli.conftest import write_csv
from probpca import PPCA
from probpca.cli.main import main

PROBPCA = f"{sys.executable} -m probpca"
SERIES = "forecast series.npy --steps 2 --components 1 --max-iter 2"
STREAMED = ["impute model.npz table.csv --out -", "outliers model.npz table.csv --json", "sample model.npz"]
PRINTING = [
    *STREAMED,
    "score model.npz table.csv",
    "select table.csv --criteria bic",
    "--help",
    "fit --help",
    "--version",
]
WRITING = {
    "fit table.csv --components 1 --out new.npz": "new.npz",
    "transform model.npz table.csv --out new.csv": "new.csv",
    "select table.csv --criteria bic --plot new.png": "new.png",
    "report model.npz table.csv --out new.html": "new.html",
    "explorer model.npz table.csv --out new.html": "new.html",
    f"{SERIES} --out new.csv": "new.csv",
    "demo --out new": "new",
}
COMMANDS = [*PRINTING, *WRITING]


@pytest.fixture(autouse=True)
def _series(folder, x):
    np.save(folder / "series.npy", x)


def shell(command):
    return subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False)  # noqa: S603


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_standard_output_is_an_error_before_anything_is_written(folder, command):
    before = names_in(folder)
    done = shell(f"{PROBPCA} {command} >&-")
    assert done.returncode == 1
    assert done.stderr == (
        "probpca: error: standard output: closed; send it to a file, or to /dev/null if it is not wanted.\n"
    )
    assert shell(f"{PROBPCA} {command} >&- 2>&-").returncode == 1
    assert names_in(folder) == before


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_answer_that_does_not_fit_is_an_error_that_names_what_was_written(folder, command):
    done = shell(f"{PROBPCA} {command} > /dev/full")
    assert done.returncode == 1
    *notes, error = done.stderr.splitlines()
    assert all(line.startswith("note: ") for line in notes)
    written = f" {WRITING[command]} was written before." if command in WRITING else ""
    assert error == f"probpca: error: standard output: No space left on device.{written}"
    assert not written or (folder / WRITING[command]).exists()


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", ["impute model.npz table.csv --out -", "fit table.csv --components 1 --force"])
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full"])
def test_an_answer_needs_no_standard_error(folder, command, stream):
    write_csv(
        folder / "table.csv", np.random.default_rng(0).standard_normal((30, 5)) * np.array([1, 1, 1, 1, 1e4])
    )  # has notes
    wanted, done = shell(f"{PROBPCA} {command}"), shell(f"{PROBPCA} {command} {stream}")
    assert wanted.returncode == 0
    assert (done.returncode, done.stdout) == (0, wanted.stdout)


@pytest.mark.usefixtures("model")
def test_neither_stream_can_take_the_error():
    for streams in (">&- 2>/dev/full", "> /dev/full 2>&-", "> /dev/full 2> /dev/full"):
        assert shell(f"{PROBPCA} score model.npz table.csv {streams}").returncode == 1


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", ["fit - --out new.npz", "score model.npz -", "forecast - --steps 2"])
def test_a_closed_standard_input_is_named(command):
    done = shell(f"{PROBPCA} {command} <&-")
    assert done.returncode == 1
    assert done.stderr == "probpca: error: standard input is closed; - reads the table from it.\n"
    assert shell(f"{PROBPCA} {command} <&- 2>&-").returncode == 1


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", [*STREAMED, "--help", "fit table.csv --components 1 --force"])
def test_a_reader_may_leave_early(command):
    done = shell(f"{PROBPCA} {command} | head -c 1; echo; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.splitlines()[-1] == "0"
    assert "error" not in done.stderr


def test_a_file_never_takes_the_number_of_a_closed_stream(model):
    """Otherwise a library that prints on it would write into the file."""
    code = """
import os, sys
from probpca.cli import main
def look(_):
    file = os.open("new", os.O_WRONLY | os.O_CREAT)
    os._exit(file)
main.run_command = look
main.main(["score", "model.npz", "table.csv"])
"""
    done = subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", f'{sys.executable} -c "$0" <&- 2>&-', code], cwd=model.parent, check=False
    )
    assert done.returncode > 2


# Hostile text

OBEYED = [
    *map(chr, range(0x0A)),
    *map(chr, range(0x0B, 0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\U000e0041",
]
"""C0 and C1 without the line break, marks that change the direction of text, and other separators of lines."""
FORGED = "\nprobpca: forged"
HOSTILE = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x9b2J",
    "\u202egnp.exe",
    f"a{FORGED}",
    "b\r\nHint: forged",
    "=1+1",
    "\t@x",
]


def assert_harmless(text):
    assert not set(OBEYED) & set(text)
    assert not any(line.startswith(("probpca: forged", "Hint: forged")) for line in text.splitlines())


def hostile_table(place, names, labels, x):
    """A table in Parquet, which holds every text as it is."""
    frame = pd.DataFrame(x, columns=list(names[1:]))
    frame.insert(0, names[0], labels)
    frame.to_parquet(place)
    return frame


def every_command(run, place, label):
    yield run("fit", place, "--components", 2, "--force")
    yield run("fit", place, "--components", 2, "--bayesian", "--id", label, "--force")
    yield run("select", place, "--criteria", "bic", "parallel")
    for command in ("impute", "transform", "score", "outliers"):
        yield run(command, "model.npz", place)
        yield run(command, "model.npz", place, "--id", label, "--out", "new\x1b[1m\nprobpca: forged.csv", "--force")
        yield run(command, "model.npz", place, "--json")
    yield run("sample", "model.npz")
    yield run("forecast", place, "--steps", 2, "--components", 1, "--max-iter", 2, "--exclude", label)
    for command in ("report", "explorer"):
        yield run(command, "model.npz", place, "--color-by", label, "--force")


def every_mistake(run, place, names):
    yield run("fit", place, "--id", f"{names[1]}x", "--force")
    yield run("fit", place, "--id", "unlike any of them", "--force")
    yield run("fit", place, "--exclude", *names[2:], "--force")
    yield run("fit", place, "--numbers", names[0], "--force")
    yield run("fit", f"gone{place}", "--force")
    yield run("fit", "\x1b[31mt.csv", f"a{FORGED}")
    yield run(f"\x1b[31mt{FORGED}")
    yield run("fit", place, f"--\x1b[31m{FORGED}")
    yield run("score", place, place)
    yield run("impute", "model.npz", place, "--min-value", f"{names[0]}=3")


N_MISTAKES = 10


@pytest.mark.usefixtures("folder")
def test_no_command_prints_what_a_terminal_obeys(run, x):
    place, names = "t\x1b[31m\u202e\nprobpca: forged.parquet", [f"n{text}" for text in HOSTILE[:6]]
    labels = [f"{HOSTILE[i % 6]}{i}" for i in range(len(x))]
    hostile_table(place, names, labels, x * [1, 1, 1, 1, 1e3])
    done = [*every_command(run, place, names[0]), *every_mistake(run, place, names)]
    assert [ran.code for ran in done[:-N_MISTAKES]] == [0] * (len(done) - N_MISTAKES)
    assert all(ran.code in (1, 2) for ran in done[-N_MISTAKES:])
    for ran in done:
        assert_harmless(ran.out)
        assert_harmless(ran.err)


letters = st.text(
    st.one_of(st.sampled_from(OBEYED), st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    min_size=1,
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(st.lists(letters, min_size=4, max_size=4, unique_by=str.strip), st.lists(letters, min_size=12, max_size=12))
def test_whatever_text_a_table_holds_is_printed_harmlessly(tmp_path, capfd, names, labels):
    place = tmp_path / "t.parquet"
    x = np.random.default_rng(0).standard_normal((12, 3)) * np.array([1, 1, 90])
    frame = hostile_table(place, [f"{j}{name}" for j, name in enumerate(names)], labels, x)
    PPCA(1).fit(frame.iloc[:, 1:]).to_file(tmp_path / "m.npz")
    for command in ("impute", "transform", "score", "outliers"):
        assert main([command, str(tmp_path / "m.npz"), str(place)]) == 0
    assert main(["fit", str(place), "--out", str(tmp_path / "n.npz"), "--force"]) == 0
    assert_harmless("".join(capfd.readouterr()))
    assert main(["transform", str(tmp_path / "m.npz"), str(place), "--json"]) == 0
    printed = capfd.readouterr().out
    assert_harmless(printed)
    assert json.loads(printed)["data"][frame.columns[0]] == labels


@pytest.mark.usefixtures("folder")
def test_a_table_is_exact_for_a_program_and_harmless_on_a_terminal(run, x):
    labels = [f"{HOSTILE[i % 6]}{i}" for i in range(len(x))]
    hostile_table("t.parquet", ["name", *"abcde"], labels, x)
    assert run("fit", "t.parquet", "--components", 1).code == 0
    command = ["score", "model.npz", "t.parquet", "--out", "-"]
    rows = list(csv.reader(io.StringIO(run(*command).out, newline="")))
    assert [row[0] for row in rows[1:]] == labels
    ours, theirs = pty.openpty()
    done = subprocess.run([*PROBPCA.split(), *command], stdout=theirs, check=False)  # noqa: S603
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 10_000):
            shown += piece
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    assert done.returncode == 0
    assert not set(OBEYED) & set(shown.decode().replace("\r\n", "\n"))


@pytest.mark.usefixtures("model")
def test_letters_that_the_screen_does_not_have_are_replaced(run, x):
    hostile_table("t.parquet", ["name", *"abcde"], [f"Zürich 東京 {i}" for i in range(len(x))], x)
    done = shell(f"PYTHONIOENCODING=ascii {PROBPCA} score model.npz t.parquet")
    assert "Z?rich ?? " in done.stdout
    done = shell(f"PYTHONIOENCODING=ascii {PROBPCA} score model.npz t.parquet --json")
    assert json.loads(done.stdout) == json.loads(run("score", "model.npz", "t.parquet", "--json").out)
