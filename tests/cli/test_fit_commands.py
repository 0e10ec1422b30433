"""``probpca fit`` and ``probpca select``: what they take, print and write."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cli.conftest import FEATURES, write_csv
from probpca import PPCA, BayesianPCA, select_n_components


def by_hand(x, components=2, **options):
    return PPCA(components, random_state=0, **options).fit(pd.DataFrame(dict(zip(FEATURES, x.T, strict=True))))


@pytest.mark.usefixtures("folder")
def test_the_model_is_that_of_the_library(run, x):
    done = run("fit", "table.csv", "--components", 2)
    assert done.code == 0
    assert (
        done.err
        == "note: column price is used as a label: row 4 holds 'ask'; if this means a missing cell, use --missing.\n"
    )
    fitted, expected = PPCA.from_file("model.npz"), by_hand(x)
    assert tuple(fitted.feature_names_in_) == FEATURES
    assert_array_equal(fitted.loadings_, expected.loadings_)
    assert_array_equal(fitted.noise_variance_, expected.noise_variance_)


@pytest.mark.usefixtures("folder")
def test_the_summary_says_what_a_person_wants_to_know(run, x):
    said = run("fit", "table.csv", "--components", 2).out
    missing = np.isnan(x)
    assert "60 rows, 5 numeric columns" in said
    assert f"{missing.sum()} of 300 ({missing.mean():.1%})" in said
    assert "1 row without any value" in said
    assert "name (text), when (dates), price (text)" in said
    expected = by_hand(x)
    assert f"{expected.noise_variance_:.6g}" in said
    assert f"{expected.log_likelihood_:,.2f}" in said
    assert "  probpca impute model.npz table.csv --out completed.csv\n" in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("width", [50, 80])
def test_lines_fit_the_screen(run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run("fit", "table.csv", "--components", 2).code == 0
    for command in ("transform", "score", "outliers", "impute"):
        said = run(command, "model.npz", "table.csv").out
        assert max(map(len, said.splitlines())) <= width, said


@pytest.mark.parametrize("marker", ["", "NA", "n/a", "-", "?", "None", " NA", "#DIV/0!"])
def test_the_usual_markers_are_missing_cells(folder, run, x, marker):
    write_csv(folder / "marked.csv", x, marker)
    found = json.loads(run("fit", "marked.csv", "--components", 2, "--json").out)
    assert found["columns"] == list(FEATURES)
    assert found["missing"] == dict(zip(FEATURES, np.isnan(x).sum(axis=0).tolist(), strict=True))
    scores = json.loads(run("score", "model.npz", "marked.csv", "--json").out)["data"]["log_likelihood"]
    assert_allclose(scores, by_hand(x).score_samples(pd.DataFrame(x, columns=list(FEATURES))), rtol=1e-12)


@pytest.mark.parametrize("name", ["t.tsv", "t.csv.gz", "t.parquet", "t.feather", "t.npy"])
def test_every_format_gives_the_same_model(folder, run, x, name):
    frame = pl.read_csv("table.csv")
    match name:
        case "t.tsv":
            write_csv(folder / name, x, delimiter="\t")
        case "t.csv.gz":
            pd.read_csv("table.csv").to_csv(name, index=False)
        case "t.parquet":
            frame.write_parquet(name)
        case "t.feather":
            frame.write_ipc(name)
        case "t.npy":
            np.save(name, x)
    assert run("fit", name, "--components", 2).code == 0
    assert_allclose(PPCA.from_file("model.npz").loadings_, by_hand(x).loadings_, rtol=1e-9)


@pytest.mark.usefixtures("folder")
def test_options_reach_the_estimator(run, x):
    assert run("fit", "table.csv", "--components", 0.9, "--standardize", "--exclude", "c", "--out", "s.npz").code == 0
    fitted = PPCA.from_file("s.npz")
    expected = PPCA(0.9, standardize=True, random_state=0).fit(x[:, [0, 1, 3, 4]])
    assert list(fitted.feature_names_in_) == ["a", "b", "d", "e"]
    assert_array_equal(fitted.noise_variance_, expected.noise_variance_)
    assert run("fit", "table.csv", "--components", 3, "--bayesian", "--seed", 5, "--out", "b.npz").code == 0
    believed = BayesianPCA.from_file("b.npz")
    assert_allclose(believed.lower_bound_, BayesianPCA(3, random_state=5).fit(x).lower_bound_, rtol=1e-12)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", [(), ("--bayesian",)])
def test_figures_of_standardised_columns_do_not_depend_on_units(run, x, options):
    units = np.geomspace(0.01, 100, 5)
    for name, by in (("plain", 1.0), ("told", units)):
        pd.DataFrame(x * by, columns=list(FEATURES)).to_csv(f"{name}.csv", index=False)
    arguments = ("--standardize", "--components", 2, *options, "--json", "--force")
    plain, told = (json.loads(run("fit", f"{name}.csv", *arguments).out) for name in ("plain", "told"))
    for key in ("explained_variance", "explained_variance_ratio", "noise_variance"):
        assert_allclose(told[key], plain[key], rtol=1e-6)
    for one, other in zip(told["components"], plain["components"], strict=True):
        assert_allclose(list(one.values()), list(other.values()), atol=1e-6)
    assert_allclose([told["scale"][name] for name in FEATURES], np.nanstd(x, axis=0) * units, rtol=1e-9)


@pytest.mark.usefixtures("folder")
def test_columns_that_are_not_scaled_have_no_scale(run):
    assert json.loads(run("fit", "table.csv", "--components", 2, "--json").out)["scale"] is None


@pytest.mark.usefixtures("folder")
def test_a_share_of_variance_is_printed_of_the_columns_in_which_it_was_asked(run, x):
    pd.DataFrame(x * np.geomspace(0.01, 100, 5), columns=list(FEATURES)).to_csv("units.csv", index=False)
    said = run("fit", "units.csv", "--standardize", "--components", 0.8).out
    assert "5 features scaled to unit variance" in said
    assert "(at least 0.8 of the variance)" in said
    fitted = PPCA.from_file("model.npz")
    names = fitted.get_feature_names_out()
    shares = [float(line.split()[3].rstrip("%")) for line in said.splitlines() if line.split()[:1] in names[:, None]]
    assert_allclose(shares, 100 * np.cumsum(fitted.explained_variance_ratio_), atol=0.051)
    assert shares[-1] >= 80
    assert fitted.n_components_ > 1
    assert shares[-2] < 80


@pytest.mark.usefixtures("folder")
def test_the_model_does_not_remember_the_terminal(run, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert run("fit", "table.csv", "--components", 2, "--jobs", 2).code == 0
    fitted = PPCA.from_file("model.npz")
    assert (fitted.verbose, fitted.n_jobs) == (False, None)


@pytest.mark.usefixtures("folder")
def test_json_has_every_number_in_full(run, x):
    found = json.loads(run("fit", "table.csv", "--components", 2, "--json").out)
    expected = by_hand(x)
    assert found["rows"] == 60
    assert found["labels"] == {"name": "text", "when": "dates", "price": "text: row 4 holds 'ask'"}
    assert found["log_likelihood"] == expected.log_likelihood_
    assert found["explained_variance"] == expected.explained_variance_.tolist()
    assert [list(axis.values()) for axis in found["components"]] == expected.components_.tolist()
    assert found["converged"] is True


@pytest.mark.usefixtures("folder")
def test_columns_that_look_like_identifiers_are_mentioned_and_left_out(run, x):
    frame = pd.DataFrame(x, columns=list(FEATURES))
    frame.assign(customer_id=np.arange(60) + 1000, group_id=np.arange(60) % 3, flat=1.0).to_csv("i.csv", index=False)
    done = run("fit", "i.csv", "--components", 2)
    ways = "--id customer_id uses it to name the rows, --numbers customer_id models it."
    assert f"note: column customer_id looks like an identifier and is not part of the model; {ways}\n" in done.err
    assert "note: column flat has the same value in every row.\n" in done.err
    assert "group_id" not in done.err
    assert "7 numeric columns" in done.out
    assert "8 numeric columns" in run("fit", "i.csv", "--components", 2, "--numbers", "customer_id", "--force").out
    done = run("fit", "i.csv", "--components", 2, "--id", "customer_id", "--force")
    assert "customer_id looks" not in done.err
    assert "customer_id (--id)" in done.out
    assert "probpca outliers model.npz i.csv --id customer_id\n" in done.out


@pytest.mark.usefixtures("folder")
def test_a_column_without_a_name_names_rows(run, x):
    frame = pd.DataFrame(x, columns=list(FEATURES), index=[f"r{i}" for i in range(60)])
    frame.to_csv("pandas.csv")
    assert run("fit", "pandas.csv", "--components", 2).code == 0
    assert tuple(PPCA.from_file("model.npz").feature_names_in_) == FEATURES
    completed = run("impute", "model.npz", "pandas.csv", "--out", "-").out
    assert completed.splitlines()[0] == '"","a","b","c","d","e"'
    assert completed.splitlines()[18].startswith('"r17",')


@pytest.mark.usefixtures("folder")
def test_years_may_be_names(run, x):
    pd.DataFrame(x, columns=[str(1990 + j) for j in range(5)]).to_csv("years.csv", index=False)
    assert run("fit", "years.csv", "--components", 2).code == 0
    assert list(PPCA.from_file("model.npz").feature_names_in_) == ["1990", "1991", "1992", "1993", "1994"]


def test_select_says_what_the_criteria_say(folder, run, x):
    expected = select_n_components(x, ["bic", "cv"], max_components=2, random_state=0)
    options = ("table.csv", "--criteria", "bic", "cv", "--max-components", 2)
    done = run("select", *options)
    assert done.out.startswith(f"{expected}\n")
    assert f"  probpca fit table.csv --components {expected.choices['cv']}\n" in done.out
    told = json.loads(run("select", *options, "--json", "--plot", "choices.png").out)
    assert told["choices"] == expected.choices
    assert_allclose(told["criteria"]["cv"]["score"], expected["cv"].score, rtol=1e-9)
    assert (folder / "choices.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("folder")
def test_a_choice_at_the_limit_is_mentioned(run):
    done = run("select", "table.csv", "--criteria", "bic", "--max-components", 1)
    assert "note: bic chose the largest number considered; try a larger --max-components.\n" in done.err


@pytest.mark.usefixtures("folder")
def test_columns_called_like_parameters_keep_their_names(run, x):
    names = ["max_iter", "n_components", "tol", "max_iter.1", "n_components.1"]
    pd.DataFrame(x, columns=names).to_csv("named.csv", index=False)
    done = run("fit", "named.csv", "--components", 2)
    assert done.code == 0
    assert "--max-iter" not in done.out
    assert "--components" not in done.out.split("Next steps")[0]
    assert "max_iter" in done.out
    assert "n_components" in done.out
    done = run("fit", "named.csv", "--exclude", "max_iters", "--force")
    assert done.err == "probpca: error: named.csv has no column 'max_iters'.\nHint: did you mean 'max_iter'?\n"
    pd.DataFrame(x[:, 1:], columns=names[1:]).to_csv("fewer.csv", index=False)
    assert "columns of the model: 'max_iter'.\n" in run("score", "model.npz", "fewer.csv").err


@pytest.mark.usefixtures("folder")
def test_the_command_that_select_suggests_reads_the_same_columns(run, x):
    pd.DataFrame(x, columns=list("abcde")).assign(code=[f"{i:05d}" for i in range(60)]).to_csv("coded.csv", index=False)
    options = ["--exclude", "e", "--numbers", "code", "--standardize"]
    done = run("select", "coded.csv", "--criteria", "bic", *options, "--json")
    assert json.loads(done.out)["columns"] == ["a", "b", "c", "d", "code"]
    command = run("select", "coded.csv", "--criteria", "bic", *options).out.split("\n  probpca ")[1].splitlines()[0]
    assert json.loads(run(*command.split(), "--json").out)["columns"] == ["a", "b", "c", "d", "code"]


@pytest.mark.usefixtures("folder")
def test_units_are_mentioned_only_to_criteria_that_depend_on_them(run, x):
    pd.DataFrame(x * np.geomspace(1, 1e4, 5), columns=list("abcde")).to_csv("units.csv", index=False)
    assert "--standardize gives all columns the same weight" in run("select", "units.csv", "--criteria", "bic").err
    assert "--standardize" not in run("select", "units.csv", "--criteria", "parallel", "fa_bic", "fa_aic").err


@pytest.mark.usefixtures("folder")
def test_the_command_that_select_suggests_fits_the_model_of_the_criteria(run):
    done = run("select", "table.csv", "--criteria", "fa_bic", "fa_aic", "--standardize")
    assert "  probpca fit table.csv --model fa --components 2\n" in done.out
    assert run(*done.out.split("\n  probpca ")[1].split()).code == 0
    done = run("select", "table.csv", "--criteria", "fa_bic", "parallel", "--standardize")
    assert "  probpca fit table.csv --components 1 --standardize\n" in done.out


@pytest.mark.usefixtures("folder")
def test_times_in_the_model_are_mentioned_unless_they_were_chosen(run, x):
    frame = pd.DataFrame(x, columns=list(FEATURES))
    frame.assign(year=np.arange(60) % 3 + 2007, Month=np.arange(60) % 12 + 1).to_csv("y.csv", index=False)
    said = "year, Month look like a date rather than a measurement; --exclude year Month leaves them out."
    assert f"note: {said}" in run("fit", "y.csv", "--components", 2).err.splitlines()
    assert (
        "--exclude Month leaves it out." in run("fit", "y.csv", "--components", 2, "--numbers", "year", "--force").err
    )
    assert run("fit", "y.csv", "--components", 2, "--exclude", "year", "Month", "--force").err == ""


@pytest.mark.usefixtures("folder")
def test_a_label_column_without_a_name_is_called_by_its_position(run, x):
    pd.DataFrame(x, columns=list(FEATURES), index=[f"r{i}" for i in range(60)]).to_csv("pandas.csv")
    assert "label columns     column 1 (no name)\n" in run("fit", "pandas.csv", "--components", 2).out
