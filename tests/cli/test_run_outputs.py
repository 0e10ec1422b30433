"""Where answers go: files that are private or read-only, pipes, and standard output under each of its names."""

import json
import os
import pty
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from probpca import PPCA

TABLES = [
    ["impute", "model.npz", "table.csv"],
    ["transform", "model.npz", "table.csv"],
    ["score", "model.npz", "table.csv"],
    ["outliers", "model.npz", "table.csv"],
    ["sample", "model.npz"],
    ["forecast", "series.npy", "--steps", "2", "--components", "1", "--max-iter", "2"],
]
FILES = [
    ["fit", "table.csv", "--components", "1", "--out", "kept.npz"],
    ["impute", "model.npz", "table.csv", "--out", "kept.csv"],
    ["select", "table.csv", "--criteria", "bic", "--plot", "kept.png"],
    ["report", "model.npz", "table.csv", "--out", "kept.html"],
    ["explorer", "model.npz", "table.csv", "--out", "kept.html"],
]


def first(command):
    return command[0]


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", TABLES, ids=first)
def test_names_of_standard_output_mean_the_same(folder, run, x, command):
    np.save("series.npy", x)
    wanted = run(*command, "--out", "-")
    assert wanted.code == 0
    assert wanted.out.startswith('"')
    (folder / "screen.csv").symlink_to("/dev/stdout")
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "screen.csv"):
        assert run(*command, "--out", name) == wanted


@pytest.mark.usefixtures("model")
def test_standard_output_may_be_a_pipe_a_file_or_a_terminal(folder, run):
    wanted = run("sample", "model.npz", "--out", "-").out
    command = [sys.executable, "-m", "probpca", "sample", "model.npz", "--out", "/dev/stdout"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == wanted  # noqa: S603
    with (folder / "file.csv").open("w") as file:
        file.write("before\n")
        file.flush()
        subprocess.run(command, check=True, stdout=file)  # noqa: S603
        file.write("after\n")
    assert (folder / "file.csv").read_text() == f"before\n{wanted}after\n"
    ours, theirs = pty.openpty()
    subprocess.run(command, check=True, stdout=theirs)  # noqa: S603
    assert os.read(ours, 10_000).decode().replace("\r\n", "\n") == wanted
    os.close(theirs)
    os.close(ours)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", [row for row in FILES if row[0] != "impute"], ids=first)
@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_only_tables_go_to_standard_output(run, command, name):
    done = run(*command[:-1], name)
    assert done.code == 1
    assert done.err.startswith("probpca: error: only tables can be written to standard output")
    assert "\nHint: give the name of a file that ends in ." in done.err


@pytest.mark.usefixtures("model")
def test_a_pipe_gets_the_table_without_force_and_the_summary_goes_to_the_screen(folder, run):
    wanted = run("transform", "model.npz", "table.csv", "--out", "-").out
    for name in ("pipe.csv", "pipe"):  # CSV if the name does not say
        place, got = folder / name, []
        os.mkfifo(place)
        reader = threading.Thread(target=lambda place=place, got=got: got.append(place.read_text()), daemon=True)
        reader.start()
        done = run("transform", "model.npz", "table.csv", "--out", name, "--json")
        reader.join(10)
        assert (done.code, json.loads(done.out)["out"]) == (0, name)
        assert got == [wanted]
        assert stat.S_ISFIFO(place.stat().st_mode)


@pytest.mark.usefixtures("folder")
def test_a_model_goes_through_a_pipe(folder, run):
    got = []
    os.mkfifo(folder / "pipe.npz")
    reader = threading.Thread(target=lambda: got.append((folder / "pipe.npz").read_bytes()), daemon=True)
    reader.start()
    assert run("fit", "table.csv", "--components", 1, "--out", "pipe.npz").code == 0
    reader.join(10)
    (folder / "copy.npz").write_bytes(got[0])
    assert PPCA.from_file("copy.npz").n_components_ == 1


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("command", FILES, ids=first)
def test_force_keeps_permissions_and_does_not_override_a_read_only_file(folder, run, command):
    place = folder / command[-1]
    place.touch()
    place.chmod(0o600)
    assert run(*command, "--force").code == 0
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    before = place.read_bytes()
    assert before
    place.chmod(0o440)
    for option in ([], ["--force"]):
        done = run(*command, *option)
        assert done.code == 1
        assert done.err.startswith(f"probpca: error: {place.name} cannot be written: it is read-only.\nHint: ")
    assert (stat.S_IMODE(place.stat().st_mode), place.read_bytes()) == (0o440, before)


@pytest.mark.usefixtures("model", "folder")
@pytest.mark.parametrize("command", FILES, ids=first)
def test_a_name_that_is_too_long_is_refused_with_advice(run, command):
    name = f"{'x' * 300}.{command[-1].split('.')[-1]}"
    done = run(*command[:-1], name)
    assert done.code == 1
    assert f"{name} cannot be written: File name too long.\nHint: choose a shorter name." in done.err
