"""Options for how a table is read, what the model remembers of them, and columns that number or identify rows."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from probpca import PPCA
from probpca.cli.identifiers import Steps, calendar_columns, row_axes
from probpca.cli.parser import parse

FEATURES = list("abcde")


@pytest.fixture
def frame(x, folder):  # noqa: ARG001
    return pd.DataFrame(x, columns=FEATURES).assign(name=[f"no. {i}" for i in range(len(x))])


@pytest.fixture
def piped(run, monkeypatch):
    """Run a command with bytes in its standard input."""

    def piped(content, *args):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return run(*args)

    return piped


def log_likelihood(done):
    assert done.code == 0, done.err
    return json.loads(done.out)["log_likelihood"]


FIT = ("--components", 2, "--json", "--force")


def test_negative_codes_are_values_of_the_option():
    args = parse(["fit", "t.csv", "--missing", "-999", "-9.5", "NA", ".", "-", "--standardize", "--missing", "x"])
    assert (args.table, args.missing, args.standardize) == ("t.csv", ["-999", "-9.5", "NA", ".", "-", "x"], True)
    args = parse(["impute", "m.npz", "t.csv", "--min-value", "-5", "a=-1e3", "--max-value", "7"])
    assert (args.min_value, args.max_value) == ([("", -5.0), ("a", -1000.0)], [("", 7.0)])


def test_every_way_to_hand_a_table_over_gives_the_same_model(run, piped, frame, x):
    wanted = PPCA(2, random_state=0).fit(x).log_likelihood_
    frame.to_excel("t.xlsx", index=False)
    frame.fillna(-999).to_parquet("t.parquet")
    frame.set_index("name").T.to_csv("genes.tsv", sep="\t", index_label="gene")
    frame.fillna(-999).to_csv("coded.csv", sep=";", decimal=",", index=False)
    ways = [
        ("t.xlsx",),
        ("t.parquet", "--missing", "-999"),
        ("genes.tsv", "--transpose"),
        ("coded.csv", "--missing", -999.0),
    ]
    for way in ways:
        assert_allclose(log_likelihood(run("fit", *way, *FIT)), wanted, rtol=1e-9)
    for name, *options in ways:
        with open(name, "rb") as file:  # noqa: PTH123
            assert_allclose(log_likelihood(piped(file.read(), "fit", "-", *options, *FIT)), wanted, rtol=1e-9)


def test_the_model_remembers_how_its_table_was_read(run, frame, x):
    frame.fillna(-999).to_csv("coded.csv", index=False)
    run("fit", "coded.csv", "--missing", -999, "--components", 2)
    plain = run("impute", "model.npz", "coded.csv", "--json")
    assert plain.err.startswith("note: the table is read as in the fit, with --missing -999.\n")
    assert json.loads(plain.out)["filled_cells"] == np.isnan(x).sum()
    assert "The model was fitted to these rows" in run("outliers", "model.npz", "coded.csv").out
    again = run("impute", "model.npz", "coded.csv", "--json", "--missing", -999)
    assert json.loads(again.out)["data"] == json.loads(plain.out)["data"]
    other = run("outliers", "model.npz", "coded.csv", "--missing")  # no codes: other values than those of the fit
    assert other.err == ""
    assert "coded.csv is read with other options than in the fit." in " ".join(other.out.split())


def test_codes_in_whole_numbers_are_filled_in(run, frame):
    whole = np.round(10 * frame["a"].fillna(0)).astype(int)
    frame.assign(a=np.where(frame["a"].isna(), -999, whole)).to_parquet("t.parquet")
    run("fit", "t.parquet", "--missing", -999, "--components", 2)
    assert run("impute", "model.npz", "t.parquet", "--out", "full.parquet").code == 0
    full = pd.read_parquet("full.parquet")["a"]
    assert full.min() > -100
    assert_allclose(full[frame["a"].notna()], whole[frame["a"].notna()])


@pytest.mark.usefixtures("folder")
def test_columns_without_names_and_cells_are_not_there(run, x):
    lines = pd.DataFrame(x, columns=FEATURES).to_csv(index=False).splitlines()
    with open("wide.csv", "w") as file:  # noqa: PTH123
        file.write("\r\n".join(["Title,,,,,,,", "", *(f"{line},,," for line in lines)]))
    found = json.loads(run("fit", "wide.csv", *FIT).out)
    assert (found["columns"], found["labels"]) == (FEATURES, {})
    assert_allclose(found["log_likelihood"], PPCA(2, random_state=0).fit(x).log_likelihood_)


def test_what_is_remembered_is_left_out_where_it_does_not_apply(run, frame):
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    run("fit", "t.csv", "--skip-rows", 0, "--missing", -999, "--components", 2)
    done = run("score", "model.npz", "t.parquet")
    assert (done.code, done.err) == (0, "note: the table is read as in the fit, with --missing -999.\n")
    wrong = run("score", "model.npz", "t.parquet", "--skip-rows", 1)
    assert wrong.err.startswith(
        "note: the table is read as in the fit, with --missing -999.\nprobpca: error: --skip-rows does not apply"
    )


def test_a_model_of_standard_input_knows_no_file(run, piped, frame):
    content = frame.to_csv(index=False).encode()
    fitted = piped(content, "fit", "-", "--components", 2)
    assert "probpca outliers model.npz -\n" in fitted.out
    frame.to_csv("t.csv", index=False)
    for done in (run("outliers", "model.npz", "t.csv"), piped(content, "outliers", "model.npz", "-")):
        assert "the model does not record which file it was fitted to" in " ".join(done.out.split())
    run("fit", "t.csv", "--components", 2, "--force")
    assert (
        "The p-values treat the rows as new to the model: the model was fitted to t.csv."
        in piped(content, "outliers", "model.npz", "-").out
    )
    assert piped(b"", "fit", "-", "--force").err == "probpca: error: standard input is empty.\n"
    assert piped(b"a,b\n1,2\n3\n", "fit", "-", "--force").err.startswith(
        "probpca: error: standard input, row 2 has 1 cell"
    )


def test_select_repeats_the_options_that_read_the_table(run, frame):
    frame.fillna(-9).to_csv("t.csv", index=False, sep=";", decimal=",")
    done = run("select", "t.csv", "--criteria", "bic", "--missing", "-9", "--decimal", ",", "--thousands", "space")
    assert "--missing -9 --decimal , --thousands space\n" in done.out


def test_every_command_that_reads_a_table_knows_the_options(run, frame):
    frame.fillna(-9).to_csv("t.csv", index=False)
    run("fit", "t.csv", "--missing", -9, "--components", 2)
    for command in ("transform", "score", "outliers", "report", "explorer"):
        assert run(command, "model.npz", "t.csv", "--missing", -9).code == 0
    done = run("forecast", "t.csv", "--missing", -9, "--steps", 1, "--components", 1, "--json")
    assert done.code == 0


def test_units_are_mentioned_and_several_are_refused_unless_left_out(run, frame):
    frame["a"] = [f"{value}%" if np.isfinite(value) else "" for value in frame["a"]]
    frame["b"] = [f"{value} kg" if np.isfinite(value) else "" for value in frame["b"]]
    frame.to_csv("t.csv", index=False)
    done = run("fit", "t.csv", "--components", 2)
    assert "a is used as a label: row 1 holds" in done.err
    assert "see --parse-units" in done.err
    done = run("fit", "t.csv", "--components", 2, "--parse-units", "--force")
    assert done.err == "note: units were removed from the numbers of a (%), b (kg); 12% is read as 12.\n"
    assert "5 numeric columns" in done.out
    frame.assign(b=["1 lb", *frame["b"][1:]]).to_csv("t.csv", index=False)
    done = run("fit", "t.csv", "--parse-units", "--force")
    assert "error: column 'b' of t.csv must have one unit; it has lb and kg: '1 lb' and " in done.err
    assert "--exclude b." in done.err
    assert "it holds units: it has lb and kg" in run("score", "model.npz", "t.csv").err
    assert run("fit", "t.csv", "--parse-units", "--force", "--exclude", "b").code == 0


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("nr", range(1, 61), "numbers the rows"),
        ("anything", range(60), "numbers the rows"),
        ("customer_no", [7 * i % 61 for i in range(60)], "identifier"),
        ("year", range(1950, 2010), "time axis"),
        ("Month", range(3, 183, 3), "time axis"),
        ("rating", [1 + i % 5 for i in range(60)], ""),
        ("year", [2000 + i % 20 for i in range(60)], ""),
        ("dose", range(0, 600, 10), ""),
        ("id", [i // 2 for i in range(60)], ""),
        ("position", [0.5 + i for i in range(60)], ""),
        ("late", [*range(1, 60), 90], ""),
        ("price_index", [3 * i % 61 + 90 for i in range(60)], ""),
    ],
)
def test_columns_that_number_rows_are_not_modelled(run, frame, name, values, why):
    frame.assign(**{name: values}).to_csv("t.csv", index=False)
    found = json.loads(run("fit", "t.csv", *FIT).out)
    assert found["columns"] == (FEATURES if why else [*FEATURES, name])
    assert found["labels"].get(name, "").split(":")[0] == why
    if why:
        said = run("fit", "t.csv", *FIT, "--numbers", name)
        assert json.loads(said.out)["columns"] == [*FEATURES, name]
        assert said.err == ""


def test_a_time_axis_is_called_so(run, frame):
    frame.assign(year=range(1950, 2010)).to_csv("t.csv", index=False)
    about = "is a time axis (1950 to 2009) and is not part of the model"
    ways = "--id year uses it to name the rows, --numbers year models it."
    assert run("fit", "t.csv", *FIT).err == f"note: column year {about}; {ways}\n"


def test_steps_do_not_depend_on_where_rows_are_cut():
    x = np.column_stack([np.arange(1.0, 13), np.arange(12) * 3.0, np.r_[np.arange(11), 20.0], np.full(12, np.nan)])
    whole = Steps.of(x)
    assert_allclose(whole.step, [1, 3, np.nan, np.nan])
    for cut in range(1, 12):
        both = Steps.of(x[:cut]).merge(Steps.of(x[cut:]))
        assert_allclose([both.first, both.last, both.step], [whole.first, whole.last, whole.step])


def test_whether_rows_are_in_the_order_of_a_calendar_does_not_depend_on_where_they_are_cut():
    quarters = np.column_stack([1.0 + np.arange(12) % 4, 1950.0 + np.arange(12) // 4])
    year_first = calendar_columns(["Quarter", "year"])
    assert year_first == (1, 0)
    for x, is_later in (
        (quarters, True),
        (quarters[[0, 2, 1, *range(3, 12)]], False),
        (quarters[[0, *range(12)]], False),
    ):
        for cut in range(1, len(x)):
            assert Steps.of(x[:cut], year_first).merge(Steps.of(x[cut:], year_first)).is_later == is_later


def test_years_and_quarters_in_order_are_a_time_axis(run, frame):
    steps = np.arange(60)
    table = frame.assign(year=1950 + steps // 4, quarter=1 + steps % 4)
    table.to_csv("t.csv", index=False)
    done = run("fit", "t.csv", *FIT)
    assert (
        "column quarter is a time axis (rows are in the order of year, quarter) and is not part of the model;"
        in done.err
    )


def test_a_code_of_missing_cells_that_nobody_named_is_mentioned(run, frame):
    frame.fillna({"a": -999}).to_csv("t.csv", index=False)
    done = run("fit", "t.csv", *FIT)
    assert done.err == "note: -999 is the smallest value of a; --missing -999 takes it as missing.\n"
    assert run("fit", "t.csv", *FIT, "--missing", -999).err == ""


def test_a_column_of_numbers_with_long_units_is_mentioned(run, frame):
    frame.assign(b=[f"{value:.2f} births" for value in frame["b"].fillna(0)]).to_csv("t.csv", index=False)
    assert "note: column b is used as a label: row 1 holds" in run("fit", "t.csv", *FIT).err
    streets = [f"{i} {'abcdefg'[i % 7] * 6}" for i in range(len(frame))]
    frame.assign(b=streets).to_csv("t.csv", index=False)
    assert run("fit", "t.csv", *FIT).err == ""


def test_columns_without_a_name(run, frame):
    text = frame.rename(columns={"b": ""}).to_csv(index=False)
    Path("t.csv").write_text(text)
    assert (
        run("fit", "t.csv", *FIT).err
        == "note: column 2 has no name and is not part of the model; give it a name to use it.\n"
    )
    lines = frame.to_csv(index=False).splitlines()
    Path("t.csv").write_text("".join(f"{line},\n" for line in lines))
    done = run("fit", "t.csv", "--components", 2, "--force")
    assert done.err == ""
    assert "label columns     name (text)\n" in done.out
    Path("t.csv").write_text(f"{lines[0]}\n" + "".join(f"{line},\n" for line in lines[1:]))
    assert "Hint: rows end in a comma: end the line of names in one too" in run("fit", "t.csv", *FIT).err


def test_few_measurements_in_order_are_no_row_numbers():
    steps = Steps.of(np.column_stack([np.arange(1.0, 6), np.arange(1.0, 6)]))
    assert row_axes(["rating", "id"], steps, [], 5) == {"id": "numbers the rows"}


@pytest.fixture
def positive(folder, run):
    """Columns that are never negative, whose model fills in negative values."""
    rng = np.random.default_rng(1)
    x = np.exp(rng.standard_normal((80, 1)) * [1.5, 1.2, 1.0] + 0.3 * rng.standard_normal((80, 3)))
    x[rng.random(x.shape) < 0.25] = np.nan
    frame = pd.DataFrame(x, columns=["price", "size", "shift"])
    frame["shift"] -= 5
    frame.to_csv(folder / "positive.csv", index=False)
    assert run("fit", "positive.csv", "--components", 1).code == 0
    return frame


def test_negative_values_in_columns_that_are_never_negative_are_mentioned(run, positive):
    done = run("impute", "model.npz", "positive.csv", "--out", "full.csv", "--json")
    full, holes = pd.read_csv("full.csv"), positive.isna()
    counts = {name: int((full[name][holes[name]] < 0).sum()) for name in ("price", "size")}
    assert min(counts.values()) > 0
    assert json.loads(done.out)["negative_cells"] == counts
    assert done.err == (
        f"note: negative values were imputed in columns that are never negative: price ({counts['price']}), "
        f"size ({counts['size']}); --min-value price=0 size=0 sets these values to 0.\n"
    )


def test_values_that_are_filled_in_stay_within_bounds(run, positive):
    run("impute", "model.npz", "positive.csv", "--intervals", "--out", "free.csv")
    bounds = ("--min-value", "price=0.25", "size=0", "--max-value", 0.5)
    done = run("impute", "model.npz", "positive.csv", "--intervals", "--out", "full.csv", *bounds)
    assert done.err == ""
    free, full, holes = pd.read_csv("free.csv"), pd.read_csv("full.csv"), positive.isna()
    for name, least in (("price", 0.25), ("size", 0), ("shift", -np.inf)):
        for column in (name, f"{name}_low", f"{name}_high"):
            wanted = np.where(holes[name], np.clip(free[column], least, 0.5), free[column])
            assert_allclose(full[column], wanted)


def test_bounds_that_cannot_be(run, positive):  # noqa: ARG001
    done = run("impute", "model.npz", "positive.csv", "--min-value", 0, "--max-value", "size=-1")
    assert done.err == "probpca: error: --min-value must not exceed --max-value; got 0 and -1 for column 'size'.\n"
    assert "Hint: did you mean 'price'?" in run("impute", "model.npz", "positive.csv", "--min-value", "prise=0").err
    assert run("impute", "model.npz", "positive.csv", "--min-value", "nan").code == 2
