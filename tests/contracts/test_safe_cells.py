"""CSV for spreadsheets: what they would run as a formula is text, on request, and nothing else changes."""

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from probpca.cli.main import main
from probpca.sources.write import batch_of, write_batches

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|'/C calc'!A0", "-", "\uff1d1+1"]
HARMLESS = ["", "plain", "a=b", "1-2", "'=1", " =1", "-5", "+1.5e3", "-.5", "007", "ü"]
COMMANDS = [
    ["impute", "model.npz", "t.csv"],
    ["transform", "model.npz", "t.csv"],
    ["score", "model.npz", "t.csv"],
    ["outliers", "model.npz", "t.csv"],
    ["sample", "model.npz"],
    ["forecast", "t.csv", "--steps", "2", "--components", "1", "--max-iter", "2", "--exclude", "=name"],
]


def cells_of(place):
    with place.open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())])
def test_formulas_get_an_apostrophe_and_all_else_stays(tmp_path, kind):
    texts = [*FORMULAS, *HARMLESS]
    column = pa.array(texts).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(texts).cast(kind)
    numbers = np.linspace(-5, 5, len(texts))
    batch = batch_of({"=x": column, "-1": numbers})
    for safe in (False, True):
        write_batches(tmp_path / "t.csv", [batch], safe_cells=safe)
        names, *rows = cells_of(tmp_path / "t.csv")
        sign = "'" if safe else ""
        assert names == [f"{sign}=x", "-1"]
        assert [row[0] for row in rows] == [*(f"{sign}{text}" for text in FORMULAS), *HARMLESS]
        assert [float(row[1]) for row in rows] == numbers.tolist()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=20))
def test_no_cell_of_text_begins_like_a_formula_unless_it_is_a_number(tmp_path_factory, texts):
    place = tmp_path_factory.mktemp("csv") / "t.csv"
    write_batches(place, [batch_of({"x": pa.array(texts)})], safe_cells=True)
    for given_text, row in zip(texts, cells_of(place)[1:], strict=True):
        cell = row[0] if row else ""
        assert cell.removeprefix("'") == given_text.removeprefix("'")
        if cell[:1] and cell[0] in "=+-@\t\r\n":
            assert np.isfinite(float(cell)) or "n" in cell.lower()


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((40, 2)) @ np.random.default_rng(1).standard_normal((2, 4))
    frame = pd.DataFrame(x + np.random.default_rng(2).standard_normal((40, 4)), columns=["=a", "@b", "c", "d"])
    frame.insert(0, "=name", [f"{FORMULAS[i % 4]}{i}" for i in range(40)])
    frame.to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", "--components", "1"]) == 0
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_that_writes_a_table_can_write_safe_cells(hostile, capfd, command):
    capfd.readouterr()
    assert main([*command, "--out", "new.csv", "--safe-cells"]) == 0
    found = cells_of(hostile / "new.csv")
    for line in found:
        for cell in line:
            assert cell[:1] not in set("=+-@") or np.isfinite(float(cell))
    assert any(cell.startswith("'=") for line in found for cell in line)
    capfd.readouterr()
    assert main([*command, "--out", "-", "--safe-cells"]) == 0
    assert capfd.readouterr().out == (hostile / "new.csv").read_text()


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_other_formats_have_no_safe_cells(capfd, command):
    for out in (["--out", "new.parquet"], ["--out", "new.npy"], []):
        assert main([*command, *out, "--safe-cells"]) == 1
        assert "probpca: error: --safe-cells " in capfd.readouterr().err
