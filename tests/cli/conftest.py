"""A table as people have them, and a way to run commands on it."""

import csv
from typing import NamedTuple

import numpy as np
import pytest

from probpca.cli.main import main

FEATURES = ("a", "b", "c", "d", "e")


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def x():
    """Rows with two components and missing cells, one row without any value."""
    rng = np.random.default_rng(7)
    x = (
        rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5))
        + 0.3 * rng.standard_normal((60, 5))
        + [0, 1, 2, 3, 9]
    )
    x[rng.random(x.shape) < 0.1] = np.nan
    x[17] = np.nan
    return x


def write_csv(path, x, missing="", delimiter=","):
    """Labels before, between and behind the numbers."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, delimiter=delimiter)
        rows.writerow(["name", "a", "b", "when", "c", "d", "e", "price"])
        for i, row in enumerate(x):
            cells = [missing if np.isnan(cell) else repr(float(cell)) for cell in row]
            when = f"2020-01-{i % 28 + 1:02d}"
            rows.writerow([f"row, {i}", *cells[:2], when, *cells[2:], "ask" if i == 3 else "007"])
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch, x):
    """A folder to work in, with table.csv."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    write_csv(tmp_path / "table.csv", x)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run a command; its exit code and what it said."""

    def run(*args):
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as end:
            code = end.code
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def model(folder, run):
    """A model of table.csv."""
    assert run("fit", "table.csv", "--components", 2).code == 0
    return folder / "model.npz"
