"""Tables as people write them: semicolons, decimal commas, codes, units, and what the answers keep of them."""

import cProfile
import json
import pstats
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import feather, parquet

from probpca import DataError
from probpca.cli.main import error_text as told
from probpca.cli.table import open_table
from probpca.sources import open_source
from probpca.sources.files import is_number
from probpca.sources.readers.arrow import damaged
from probpca.sources.readers.csv import TextFile
from probpca.sources.write import batch_of

FEATURES = list("abcde")


def frame_of(x):
    return pd.DataFrame(x, columns=FEATURES).assign(name=[f"no. {i}; no, {i}" for i in range(len(x))])


@pytest.mark.parametrize(("sep", "decimal"), [*product(",;\t|", "."), *product(";|", ",")])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz"])
def test_separators_and_decimals_are_found(tmp_path, x, sep, decimal, name):
    frame_of(x).rename(columns={"a": "a, b; c"}).to_csv(tmp_path / name, sep=sep, decimal=decimal, index=False)
    assert TextFile.look(tmp_path / name).dialect == (sep, decimal)
    rows = open_source(tmp_path / name, columns=["a, b; c", *FEATURES[1:]])
    assert_array_equal(rows.map(lambda block: np.asarray(block.values)), x)


@pytest.mark.parametrize("sign", ["|", ";", "\t"])
@pytest.mark.parametrize("rows", [1, 3])
def test_signs_in_names_separate_nothing(tmp_path, sign, rows):
    """Names of genes, as GENE1|101|chr1, in a header that is longer than what is looked at."""
    names = [f"GENE{j}{sign}{j}{sign}chr" for j in range(6000)]
    lines = [",".join(names), *[",".join(["1.5"] * 6000)] * rows]
    (tmp_path / "wide.csv").write_text("\n".join(lines) + "\n")
    assert len(lines[0]) > 2**16
    assert TextFile.look(tmp_path / "wide.csv").dialect == (",", ".")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("t.csv", "a|b\n1,234|2\n2,345|3\n", "|."),  # may be thousands
        ("t.csv", "a;b\n1,234;2\n2,345;3\n", ";,"),  # but not where spreadsheets write semicolons
        ("t.csv", "a;b\n1,234,567;2\n2,345;3\n", ";."),
        ("t.csv", "a;b;c\n0.5;3,4;1\n1.5;2,1;2\n", ";."),  # pairs beside decimals
        ("t.tsv", "a\tb\n1\t3,4\n2\t12,30\n", "\t."),  # pairs, in a file that is as its name says
        ("t.csv", "a;b\n", ";."),
        ("t.csv", "a,b;c\n", ",."),
        ("t.csv", "\ufeffa;b\r\n0,5;1\r\n", ";,"),
    ],
)
def test_what_may_be_something_else_is_left_as_it_is(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert "".join(TextFile.look(tmp_path / name).dialect) == expected


@pytest.mark.usefixtures("folder")
def test_another_separator_is_told(run, x):
    frame_of(x).to_csv("semi.csv", sep=";", decimal=",", index=False)
    frame_of(x).to_csv("plain.csv", index=False)
    semi = run("fit", "semi.csv", "--components", 2, "--json")
    plain = run("fit", "plain.csv", "--components", 2, "--json", "--out", "plain.npz")
    assert semi.err == "note: cells of semi.csv are separated by semicolons, with decimal commas.\n"
    assert plain.err == ""
    assert json.loads(semi.out)["log_likelihood"] == json.loads(plain.out)["log_likelihood"]


CODES = {
    "postal": (["10115", "01067", "99998"] * 20, "row 2 holds '01067', a code rather than a number"),
    "hex": ([f"0x{i}" for i in range(60)], "row 1 holds '0x0', a code rather than a number"),
    "account": (["007", "", "0123"] * 20, "row 1 holds '007', a code rather than a number"),
    "key": ([str(9007199254740992 + i) for i in range(60)], "row 2 holds 9007199254740993, which has more digits"),
    "share": ([f"{i}.5%" for i in range(60)], "row 1 holds '0.5%'; numbers must look like -1234.5"),
    "price": ([f"{i},{i:03d}.50" for i in range(1, 61)], "row 1 holds '1,001.50'; numbers must look like -1234.5"),
    "weight": ([f"{i} kg" for i in range(60)], "row 1 holds '0 kg'; numbers must look like -1234.5"),
    "part": (["1"] * 40 + ["one"] * 20, "row 41 holds 'one'"),
}
PLAIN = {
    "typed": ["1", "05", "12.5"] * 20,  # a zero too many makes no code
    "large": ["1e30", "12345678901234.5", "3"] * 20,
    "seldom": ["10000000000000000", *["7", "8"] * 29, "9"],
    "hour": [f"{i % 24:02d}" for i in range(60)],
    "day": ["1.2.2020", "30.11.2021", "5.6.2022"] * 20,  # text, and no number either
    "call": ["555-1234", "0171/23", "112"] * 20,
}


def test_codes_and_units_are_labels_with_a_note(folder, run, x):
    table = frame_of(x).assign(**{name: cells for name, (cells, _) in CODES.items()}, **PLAIN)
    table.to_csv("table.csv", index=False)
    done = run("fit", "table.csv", "--components", 2, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["columns"] == [*FEATURES, "typed", "large", "seldom", "hour"]
    for name, (_, why) in CODES.items():
        assert f"note: column {name} is used as a label: {why}" in done.err
    assert done.err.count("is used as a label") == len(CODES)
    assert any("large " in note and "--standardize gives" in note for note in found["notes"])
    assert "; --numbers postal models it.\n" in done.err
    asked = run("fit", "table.csv", "--components", 2, "--json", "--numbers", "postal", "key", "--out", "asked.npz")
    assert json.loads(asked.out)["columns"] == [*FEATURES, "postal", "key", "typed", "large", "seldom", "hour"]
    assert run("impute", "model.npz", "table.csv", "--out", "full.csv").code == 0
    full = pd.read_csv(folder / "full.csv", dtype=str, keep_default_na=False)
    for name in CODES:
        assert full[name].tolist() == CODES[name][0]


@pytest.mark.usefixtures("folder")
def test_a_code_that_the_model_knows_is_a_number(run, x):
    frame_of(x).assign(e=range(10, 70)).to_csv("table.csv", index=False)
    assert run("fit", "table.csv", "--components", 2).code == 0
    frame_of(x).assign(e=[f"{i:05d}" for i in range(60)]).to_csv("coded.csv", index=False)
    frame_of(x).assign(e=range(60)).to_csv("plain.csv", index=False)
    scores = [
        json.loads(run("score", "model.npz", name, "--json").out)["log_likelihood"]
        for name in ("coded.csv", "plain.csv")
    ]
    assert scores[0] == scores[1]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("write", [parquet.write_table, feather.write_feather])
def test_what_lacks_nothing_keeps_its_type(run, x, write):
    """Whole numbers and single precision stay what they are; a column with holes becomes floating point."""
    ids = [2**53 + i for i in range(60)]
    columns = {"a": pa.array(x[:, 0], from_pandas=True), "b": pa.array(x[:, 1].astype(np.float32), from_pandas=True)}
    columns |= {"whole": pa.array(range(60), pa.int32()), "flag": pa.array([i % 3 == 0 for i in range(60)])}
    columns |= {
        "holes": pa.array([None, *range(59)], pa.int64()),
        "key": pa.array(ids),
        "e": pa.array(x[:, 4], from_pandas=True),
    }
    name = "table.parquet" if write is parquet.write_table else "table.feather"
    write(pa.table(columns), name)
    fitted = run("fit", name, "--components", 1)
    assert fitted.err.startswith(
        "note: column key is used as a label: row 2 holds 9007199254740993, which has more digits"
    )
    assert run("impute", "model.npz", name, "--out", "full.parquet").code == 0
    full = parquet.read_table("full.parquet")
    kinds = {field.name: str(field.type) for field in full.schema}
    expected = {
        "a": "double",
        "b": "float",
        "whole": "int32",
        "flag": "bool",
        "holes": "double",
        "key": "int64",
        "e": "double",
    }
    assert kinds == expected
    for column in ("whole", "flag", "key"):
        assert full[column].equals(pa.chunked_array([columns[column]]))
    assert full["b"].null_count == 0
    seen = ~np.isnan(x[:, 1])
    assert_array_equal(full["b"].to_numpy()[seen], x[seen, 1].astype(np.float32))
    assert_allclose(full["holes"].to_numpy()[1:], np.arange(59))


@pytest.mark.usefixtures("model")
def test_an_empty_name_of_a_row_is_its_number(run, x):
    names = [(" ", "")[i % 2] if i % 3 else f"n{i}" for i in range(len(x))]
    frame_of(x).assign(name=names).to_csv("named.csv", index=False)
    worst = run("score", "model.npz", "named.csv").out.split("log-likelihood\n")[1]
    for name in (line.rsplit(maxsplit=1)[0] for line in worst.splitlines()):
        number = int(name.removeprefix("row ")) - 1 if name.startswith("row ") else int(name.removeprefix("n"))
        assert name.startswith("row ") is bool(number % 3)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "table.csv", "--out", "/proc/model.npz"],
        ["impute", "model.npz", "table.csv", "--out", "/proc/full.csv"],
        ["report", "model.npz", "table.csv", "--out", "/proc/page.html"],
        ["select", "table.csv", "--plot", "/proc/choices.png"],
    ],
    ids=lambda command: command[0],
)
def test_where_nothing_can_be_written_nothing_is_computed(run, monkeypatch, command):
    for module in ("run", "fit_commands"):
        monkeypatch.setattr(f"probpca.cli.{module}.open_table", None)
    done = run(*command)
    assert done.code == 1
    assert done.err.startswith(f"probpca: error: {command[-1]} cannot be written: ")
    assert ".part" not in done.err


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("order", ["12", "21"])
@pytest.mark.parametrize("hole", [None, np.nan])
def test_files_of_a_folder_may_differ_in_types(folder, run, x, order, hole):
    (folder / "parts").mkdir()
    whole = pa.table({name: pa.array(np.arange(9) % 4 + j) for j, name in enumerate(FEATURES)})
    broken = pa.table({name: pa.array([*x[:9, j][:8], hole], from_pandas=False) for j, name in enumerate(FEATURES)})
    for name, table in zip(order, (whole, broken), strict=True):
        parquet.write_table(table, folder / "parts" / f"{name}.parquet")
    for out in ("full.parquet", "full.npy"):
        done = run("impute", "model.npz", "parts", "--out", out)
        assert done.code == 0, done.err
    assert np.isfinite(np.load("full.npy")).all()
    assert_array_equal(np.column_stack(parquet.read_table("full.parquet").columns), np.load("full.npy"))


def test_letters_of_old_spreadsheets_may_come_late(folder, run, x, monkeypatch):
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 500)
    text = frame_of(x).to_csv(index=False)
    (folder / "late.csv").write_bytes(text.encode() + "1,2,3,4,5,M\xfcller\n".encode("latin-1"))
    assert run("fit", "late.csv", "--components", 2).code == 0
    done = run("score", "model.npz", "late.csv", "--out", "scores.csv")
    assert done.code == 0, done.err
    assert pd.read_csv("scores.csv")["name"].iloc[-1] == "M\xfcller"


def test_a_ragged_row_with_foreign_letters_is_found(folder, run):
    (folder / "ragged.csv").write_bytes(b"a,b\n1,2\nM\xfcller,3,4\n")
    assert run("fit", "ragged.csv").err.startswith("probpca: error: ragged.csv, row 2 has 3 cells")


def test_many_columns_cost_no_more_than_each_of_them():
    """Twice as many take twice as long, or at least not four times."""
    counts = []
    for d in (300, 600):
        profile = cProfile.Profile()
        types = {f"c{j}": pa.float32() for j in range(d)}
        batch = profile.runcall(batch_of, {f"c{j}": np.array([2.0]) for j in range(d)}, types)
        counts.append(pstats.Stats(profile).total_calls)
        assert batch.schema.names == [f"c{j}" for j in range(d)]
    assert counts[1] < 2.2 * counts[0]


def test_the_index_of_pandas_names_rows(folder, run, x):
    frame = frame_of(x).drop(columns="name")
    frame.set_axis(range(100, 160), axis=0).sample(frac=1, random_state=0).to_parquet(folder / "index.parquet")
    done = run("fit", "index.parquet", "--components", 2, "--json")
    assert json.loads(done.out)["columns"] == FEATURES
    named = run("score", "model.npz", "index.parquet").out.split("log-likelihood\n")[1]
    assert {int(line.split()[0]) for line in named.splitlines()} <= set(range(100, 160))


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_column_that_is_empty_is_left_out(folder, run, x, name, monkeypatch):
    """Also if its type says numbers, or if it could begin later."""
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 500)
    table = frame_of(x).assign(empty=np.nan, late=np.where(np.arange(60) < 50, np.nan, np.arange(60)))
    table.to_parquet(folder / name) if name == "t.parquet" else table.to_csv(folder / name, index=False)
    for command in (["fit", name, "--components", 2], ["select", name, "--criteria", "bic"]):
        found = json.loads(run(*command, "--json").out)
        assert found["columns"] == [*FEATURES, "late"]
        assert found["labels"]["empty"] == "empty"
        assert found["missing"]["late"] == 50


def test_missing_markers_may_be_padded(folder, run, x):
    cells = [[" NA ", "NA ", "  ", " - "][i % 4] if i < 8 else str(i % 5) for i in range(60)]
    frame_of(x).assign(e=cells).to_csv(folder / "padded.csv", index=False)
    found = json.loads(run("fit", "padded.csv", "--components", 2, "--json").out)
    assert found["missing"]["e"] == 8


@pytest.mark.parametrize("name", ["name", "a b"])
def test_text_cannot_be_asked_for_as_numbers(folder, run, x, name):
    frame_of(x).assign(**{"a b": "12%"}).to_csv(folder / "text.csv", index=False)
    done = run("fit", "text.csv", "--numbers", name)
    assert done.err.startswith(f"probpca: error: --numbers {name}: the column holds text")


def test_lines_above_the_names_are_shown(folder, run):
    (folder / "title.csv").write_text("Measurements of 2024\na,b,c\n1,2,3\n2,3,1\n")
    done = run("fit", "title.csv", "--skip-rows", 0)
    assert "its first line is 'Measurements of 2024', but others have 3 cells." in done.err
    assert "Hint: skip the lines above the column names (--skip-rows)" in done.err
    (folder / "bare.csv").write_text("1.5,,2.5,\n2,3,1,3\n")
    assert "bare.csv must begin with a line of column names" in run("fit", "bare.csv").err


@pytest.mark.usefixtures("model")
def test_lists_do_not_go_to_a_text_file(folder, run, x):
    table = pa.Table.from_pandas(frame_of(x)).append_column("lst", pa.array([[i] for i in range(60)]))
    parquet.write_table(table, folder / "lists.parquet")
    done = run("impute", "model.npz", "lists.parquet", "--out", "full.csv")
    assert done.err.startswith("probpca: error: column 'lst' holds a list<")
    assert run("impute", "model.npz", "lists.parquet", "--out", "full.parquet").code == 0


@pytest.mark.usefixtures("model")
def test_a_link_stays_a_link(folder, run):
    (folder / "elsewhere").mkdir()
    (folder / "link.csv").symlink_to(folder / "elsewhere" / "full.csv")
    assert run("impute", "model.npz", "table.csv", "--out", "link.csv").code == 0
    assert (folder / "link.csv").is_symlink()
    assert (folder / "elsewhere" / "full.csv").exists()


def test_a_packed_file_under_another_name_is_told(folder, run, x):
    frame_of(x).to_csv(folder / "t.csv.gz", index=False)
    (folder / "t.csv.gz").rename(folder / "t.csv")
    assert run("fit", "t.csv").err.startswith("probpca: error: t.csv is compressed with gzip.\nHint: ")


@pytest.mark.usefixtures("model")
def test_an_identifier_that_was_left_out_names_rows(run, x):
    frame_of(x).drop(columns="name").assign(station_id=range(500, 560)).to_csv("ids.csv", index=False)
    worst = run("outliers", "model.npz", "ids.csv", "--top", 3).out
    assert all(500 <= int(line.split()[1]) < 560 for line in worst.split("(sd)")[1].splitlines()[1:4])


def test_a_file_that_may_not_be_read_is_not_called_damaged():
    assert str(damaged("t.csv", PermissionError(13, "Permission denied"))) == "t.csv cannot be read: Permission denied."


def test_a_matrix_that_breaks_is_a_bug():
    assert "this is a bug" in told(np.linalg.LinAlgError("Singular matrix"))
    assert "this is a bug" not in told(ValueError("bad"))


@pytest.mark.usefixtures("folder")
def test_npy_has_no_strange_columns(tmp_path, x):
    np.save(tmp_path / "x.npy", x)
    assert all(
        column[:3] == (f"x{j}", "numbers", "") for j, column in enumerate(open_table(tmp_path / "x.npy").columns)
    )


@pytest.mark.parametrize("cell", ["1_000", "\u0661\u0662", "\uff11", "\u00a01"])
def test_cells_that_only_python_reads_as_numbers_are_text(tmp_path, cell):
    assert float(cell)
    assert not is_number(cell)
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n{cell},3\n4,5\n5,6\n", encoding="utf-8")
    with pytest.raises(DataError, match="holds string, not numbers"):
        open_source(tmp_path / "t.csv")
    assert repr(cell) in open_table(tmp_path / "t.csv").others["a"]  # the cell that is to be mended
