"""Commands that put questions to a model: the answers are those of the library, with labels beside them."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cli.conftest import FEATURES
from probpca import PPCA, BayesianPCA, FactorAnalysis
from probpca.inference.calibration import probability

LABELS = ["name", "when", "price"]


@pytest.fixture
def ppca(model):
    fitted = PPCA.from_file(model)
    del fitted.feature_names_in_
    return fitted


def read(path):
    """A table with every digit of its numbers: pandas 2 reads text to 15 digits."""
    return pl.read_csv(path, schema_overrides=dict.fromkeys(LABELS, pl.String)).to_pandas()


@pytest.mark.usefixtures("folder")
def test_impute_completes_the_table_and_keeps_everything_in_its_place(run, ppca, x):
    assert run("impute", "model.npz", "table.csv", "--out", "full.csv").code == 0
    before, after = read("table.csv"), read("full.csv")
    assert list(after.columns) == list(before.columns)
    pd.testing.assert_frame_equal(after[LABELS], before[LABELS])
    assert_array_equal(after[list(FEATURES)].to_numpy(), ppca.impute(x))
    seen = np.isfinite(x)
    assert_array_equal(after[list(FEATURES)].to_numpy()[seen], x[seen])


@pytest.mark.usefixtures("folder")
def test_rows_of_the_fit_are_imputed_as_such(run, x):
    assert run("fit", "table.csv", "--bayesian", "--components", 2, "--out", "bayesian.npz").code == 0
    fitted = BayesianPCA.from_file("bayesian.npz")
    del fitted.feature_names_in_
    shutil.copy("table.csv", "copy.csv")
    for table, training in (("table.csv", True), ("copy.csv", False)):
        assert run("impute", "bayesian.npz", table, "--out", "full.csv", "--force").code == 0
        found = read("full.csv")[list(FEATURES)].to_numpy()
        assert_allclose(found, fitted.impute(x, training=training), rtol=1e-12)
    assert np.abs(fitted.impute(x, training=True) - fitted.impute(x)).max() > 1e-6


@pytest.mark.usefixtures("folder")
def test_intervals_are_columns_at_the_end(run, ppca, x):
    assert run("impute", "model.npz", "table.csv", "--intervals", "--level", 0.8, "--out", "full.parquet").code == 0
    found = pl.read_parquet("full.parquet")
    assert found.columns[:8] == ["name", "a", "b", "when", "c", "d", "e", "price"]
    assert found.columns[8:] == [f"{name}_{end}" for name in FEATURES for end in ("low", "high")]
    low, high = ppca.impute_interval(x, 0.8)
    assert_array_equal(found.select([f"{name}_low" for name in FEATURES]).to_numpy(), low)
    assert_array_equal(found.select([f"{name}_high" for name in FEATURES]).to_numpy(), high)


@pytest.mark.usefixtures("folder")
def test_without_a_file_impute_shows_cells_and_how_many_there_are(run, ppca, x):
    done = run("impute", "model.npz", "table.csv")
    missing = np.isnan(x)
    rows = int(missing.any(axis=1).sum())
    said = f"{missing.sum()} missing cells imputed in {rows} rows ({missing.mean():.1%} of the table); 1 row"
    assert done.out.startswith(said)
    assert "1 row without any value got the column means." in " ".join(done.out.split())
    i, j = np.argwhere(missing)[0]
    first = done.out.split("\n\n")[1].splitlines()[1].split()
    assert first[:3] == ["row,", str(i), FEATURES[j]]
    assert_allclose(float(first[3]), ppca.impute(x)[i, j], atol=6e-3)
    assert f"... and {missing.sum() - 10} more cells" in done.out


@pytest.mark.usefixtures("folder")
def test_transform_has_labels_and_components(run, ppca, x):
    assert run("transform", "model.npz", "table.csv", "--out", "z.feather").code == 0
    found = pl.read_ipc("z.feather")
    names = list(ppca.get_feature_names_out())
    assert found.columns == [*LABELS, *names]
    assert found["name"].to_list() == [f"row, {i}" for i in range(60)]
    assert_array_equal(found.select(names).to_numpy(), ppca.transform(x))


@pytest.mark.usefixtures("folder")
def test_transform_tells_the_ends_of_components(run, ppca, x):
    said = run("transform", "model.npz", "table.csv").out
    name, first = ppca.get_feature_names_out()[0], ppca.transform(x)[:, 0]
    lines = said.splitlines()
    low = next(i for i, line in enumerate(lines) if line.startswith(f"{name}  lowest "))
    assert lines[low].startswith(f"{name}  lowest   row, {first.argmin()} {first.min():+.1f}, ")
    assert lines[low + 1].strip().startswith(f"highest  row, {first.argmax()} {first.max():+.1f}, ")
    assert "... and 50 more rows; --out FILE writes all rows" in said


@pytest.mark.usefixtures("folder")
def test_score_is_the_log_likelihood_of_each_row(run, ppca, x):
    done = run("score", "model.npz", "table.csv", "--out", "-")
    assert done.out.splitlines()[0] == '"name","when","price","log_likelihood"'
    found = [float(line.rsplit(",", 1)[1]) for line in done.out.splitlines()[1:]]
    assert_array_equal(found, ppca.score_samples(x))
    said = run("score", "model.npz", "table.csv").out
    assert f"{ppca.log_likelihood(x):,.2f}  ({ppca.score(x):.4f} per row)" in said
    assert said.splitlines()[4].startswith(f"row, {ppca.score_samples(x).argmin()} ")


@pytest.mark.usefixtures("folder")
def test_outliers_in_order_have_their_distances_and_cells(run, ppca, x):
    assert run("outliers", "model.npz", "table.csv", "--out", "o.parquet").code == 0
    found, expected = pl.read_parquet("o.parquet"), ppca.outliers(x, training=True)
    assert found["row"].to_list() == list(range(1, 61))
    assert found.columns[1:4] == LABELS
    assert_array_equal(found["D2"], expected.distance)
    assert_array_equal(found["T2"], expected.latent_distance)
    assert_array_equal(found["residual"], expected.residual_distance)
    assert_allclose(found["p_value"], expected.p_value, rtol=1e-9)
    assert_allclose(found["log10_p"], expected.log10_p_value, rtol=1e-9)
    assert_array_equal(found["model_p_value"], expected.model_p_value)
    assert_array_equal(found["log10_model_p"], expected.log10_model_p_value)
    score = np.abs(np.nan_to_num(expected.cell_scores))
    some = np.flatnonzero(np.isfinite(x).sum(axis=1) >= 3)
    worst = np.argsort(-score, axis=1)
    for k in range(3):
        assert [found[f"cell_{k + 1}"][int(i)] for i in some] == [FEATURES[worst[i, k]] for i in some]
    assert found["cell_1"][17] is None
    assert found["z_1"][17] is None


@pytest.mark.usefixtures("folder")
def test_the_worst_outliers_come_first(run, ppca, x):
    judged = ppca.outliers(x, training=True)
    expected = np.argsort(judged.log10_p_value, kind="stable")[:4] + 1
    assert run("outliers", "model.npz", "table.csv", "--top", 4, "--out", "o.csv").code == 0
    assert read("o.csv")["row"].tolist() == expected.tolist()
    told = json.loads(run("outliers", "model.npz", "table.csv", "--top", 4, "--json").out)
    assert told["data"]["row"] == expected.tolist()
    rare = int((judged.p_value < 0.001).sum())
    assert (told["rare_rows"], told["rare_below"], told["note"]) == (rare, 0.001, judged.note)
    assert_allclose(told["rare_by_chance"], 0.06)
    lines = run("outliers", "model.npz", "table.csv", "--top", 4).out.splitlines()
    assert [int(line.split()[0]) for line in lines[1:5]] == expected.tolist()
    assert [line.split()[3] for line in lines[1:5]] == [probability(p) for p in judged.log10_p_value[expected - 1]]
    assert lines[6] == f"{rare} of 60 rows have a p-value below 0.001; about 0.06 would be expected by chance."


TRAINING = "The model was fitted to these rows: each p-value is computed as if its row had been left out."


def judged_as(run, table):
    """The line that says how rows were judged, and the same for programs."""
    lines = " ".join(run("outliers", "model.npz", table).out.split("\n\n")[1].split()).split(". ")
    (said,) = [line for line in lines if line.startswith(("The model was fitted", "The p-values treat"))]
    return f"{said.rstrip('.')}.", json.loads(run("outliers", "model.npz", table, "--json").out)["training"]


@pytest.mark.usefixtures("model")
def test_the_file_of_the_fit_is_recognised_and_others_are_new(run, ppca, x):
    assert judged_as(run, "table.csv") == (TRAINING, True)
    assert judged_as(run, Path("table.csv").resolve()) == (TRAINING, True)
    shutil.copyfile("table.csv", "copy.csv")
    said, training = judged_as(run, "copy.csv")
    assert not training
    assert said == "The p-values treat the rows as new to the model: the model was fitted to table.csv."
    told = json.loads(run("outliers", "model.npz", "copy.csv", "--json").out)
    assert_allclose(told["data"]["p_value"], ppca.outliers(x).p_value, rtol=1e-9)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("change", ["content", "time"])
def test_a_file_that_has_changed_holds_new_rows(run, change):
    table = Path("table.csv")
    if change == "content":
        table.write_text(table.read_text(encoding="utf-8").replace("row, 3", "row, three"), encoding="utf-8")
    else:
        os.utime(table, (1e9, 1e9))
    said = "The p-values treat the rows as new to the model: table.csv has changed since the fit."
    assert judged_as(run, "table.csv") == (said, False)


@pytest.mark.usefixtures("folder")
def test_a_model_of_the_library_does_not_know_its_table(run, ppca):
    ppca.to_file("model.npz")
    said, training = judged_as(run, "table.csv")
    assert not training
    assert said.endswith("the model does not record which file it was fitted to.")


def test_a_folder_is_recognised_until_one_of_its_files_changes(run, folder, x):
    parts = folder / "parts"
    parts.mkdir()
    for k, some in enumerate(np.array_split(x, 2)):
        pl.DataFrame(some, schema=list(FEATURES)).write_parquet(parts / f"{k}.parquet")
    assert run("fit", "parts", "--components", 2).code == 0
    assert judged_as(run, "parts") == (TRAINING, True)
    pl.DataFrame(x[:7], schema=list(FEATURES)).write_parquet(parts / "2.parquet")
    assert judged_as(run, "parts")[1] is False


@pytest.mark.usefixtures("folder")
def test_sample_draws_as_the_library_does(run, ppca):
    told = json.loads(run("sample", "model.npz", "-n", 3, "--seed", 5, "--json").out)
    assert list(told["data"]) == list(FEATURES)
    assert_array_equal(np.column_stack(list(told["data"].values())), ppca.sample(3, random_state=5))


@pytest.mark.usefixtures("model")
def test_json_says_null_for_what_is_not_finite(run):
    text = run("outliers", "model.npz", "table.csv", "--json").out
    assert "NaN" not in text
    told = json.loads(text)
    assert told["data"]["z_1"][17] is None
    assert told["rows"] == told["judged_rows"] == 60


@pytest.mark.usefixtures("folder")
def test_columns_are_known_by_their_names(run, ppca, x):
    frame = read("table.csv")[["e", "price", "c", "name", "a", "d", "b"]]
    frame.assign(more=1.5).to_csv("mixed.csv", index=False)
    assert run("impute", "model.npz", "mixed.csv", "--out", "full.csv").code == 0
    after = read("full.csv")
    assert list(after.columns) == ["e", "price", "c", "name", "a", "d", "b", "more"]
    assert (after["more"] == 1.5).all()
    assert_array_equal(after[list(FEATURES)].to_numpy(), ppca.impute(x))


@pytest.mark.usefixtures("folder")
def test_an_array_takes_the_columns_in_their_order(run, ppca, x):
    np.save("x.npy", x)
    done = run("impute", "model.npz", "x.npy", "--out", "full.npy")
    assert "note: the columns of the table have no names; columns are matched by position.\n" in done.err
    assert_array_equal(np.load("full.npy"), ppca.impute(x))


@pytest.mark.usefixtures("folder")
def test_an_array_of_answers_has_no_labels(run, ppca, x):
    done = run("transform", "model.npz", "table.csv", "--out", "z.npy")
    assert "note: z.npy will contain the numeric columns only" in done.err
    assert_array_equal(np.load("z.npy"), ppca.transform(x))


@pytest.mark.usefixtures("folder")
def test_single_precision_is_answered_as_by_the_library(run, x):
    frame = pl.DataFrame(np.nan_to_num(x).astype(np.float32), schema=list(FEATURES))
    frame.write_parquet("single.parquet")
    assert run("fit", "single.parquet", "--components", 2).code == 0
    assert run("transform", "model.npz", "single.parquet", "--out", "z.npy").code == 0
    assert_array_equal(np.load("z.npy"), PPCA.from_file("model.npz").transform("single.parquet"))


@pytest.mark.usefixtures("model")
def test_new_columns_do_not_take_the_names_of_others(run):
    assert run("score", "model.npz", "table.csv", "--out", "s.csv").code == 0
    frame = pd.read_csv("table.csv").assign(log_likelihood=pd.read_csv("s.csv")["log_likelihood"] - 1)
    frame.to_csv("again.csv", index=False)
    assert run("score", "model.npz", "again.csv", "--out", "s2.csv").code == 0
    found = pd.read_csv("s2.csv")
    assert_allclose(found["log_likelihood_"], found["log_likelihood"] + 1)


@pytest.mark.usefixtures("model")
def test_text_in_an_old_encoding_is_carried_along(folder, run):
    text = (folder / "table.csv").read_text().replace('row, 1"', 'M\u00fcller"')
    (folder / "latin.csv").write_bytes(text.encode("latin-1"))
    assert run("transform", "model.npz", "latin.csv", "--out", "z.csv").code == 0
    assert pd.read_csv("z.csv")["name"][1] == "M\u00fcller"


@pytest.mark.usefixtures("model")
def test_a_page_is_made_of_the_table(folder, run):
    done = run("explorer", "model.npz", "table.csv", "--title", "Sixty rows")
    assert done.code == 0, done.err
    page = (folder / "explorer.html").read_text()
    assert "Sixty rows" in page
    assert "row, 42" in page
    assert done.out.startswith("The explorer on 60 rows was written to explorer.html: open it in a browser.\n")
    assert run("explorer", "model.npz", "table.csv").code == 1


@pytest.mark.parametrize("options", [[], ["--out", "full.csv"], ["--intervals", "--out", "full.csv"]], ids=str)
def test_each_block_is_imputed_by_one_posterior(run, model, options, monkeypatch):
    calls = []
    for name in ("impute", "impute_interval"):
        method = getattr(PPCA, name)
        monkeypatch.setattr(PPCA, name, lambda *args, ask=method, **how: calls.append(ask) or ask(*args, **how))
    assert run("impute", model, "table.csv", "--jobs", 1, *options).code == 0
    assert len(calls) == 1


def test_the_screen_shows_scores_beside_many_label_columns_and_names_rows_by_their_year(run, x, folder):  # noqa: ARG001
    frame = pd.DataFrame(x, columns=list("abcde"))
    frame.insert(0, "year", 1950.0 + np.arange(len(x)))
    frame.to_csv("years.csv", index=False)
    run("fit", "years.csv", "--components", 2, "--out", "years.npz")
    assert run("transform", "years.npz", "years.csv").out.split()[:4] == ["year", "PC1", "PC2", "1950"]
    assert "\n1950  " in run("impute", "years.npz", "years.csv").out
    for k in range(4):
        frame.insert(0, f"label{k}", "a long description of the row")
    frame.insert(0, "name", [f"no. {i}" for i in range(len(x))])
    frame.to_csv("years.csv", index=False)
    assert run("transform", "years.npz", "years.csv").out.startswith("name ")
    assert "PC2" in run("transform", "years.npz", "years.csv").out.splitlines()[0]


@pytest.mark.usefixtures("folder")
def test_a_name_that_repeats_comes_with_the_number_of_its_row(run, x):
    filled = np.nan_to_num(x)
    filled[:2, 0] = np.nan
    kinds = ["alone", *["pine", "oak"] * 29, "single"]
    frame = pl.DataFrame(filled, schema=list(FEATURES)).fill_nan(None)
    frame.with_columns(pl.Series("kind", kinds)).write_csv("kinds.csv")
    run("fit", "kinds.csv", "--components", 1, "--out", "kinds.npz")
    rows = [line.split("  ")[0] for line in run("impute", "kinds.npz", "kinds.csv").out.split("\n\n")[1].splitlines()]
    assert rows == ["row", "alone", "pine (row 2)"]
    worst = int(PPCA.from_file("kinds.npz").score_samples(frame).argmin())
    name = kinds[worst] if worst in (0, 59) else f"{kinds[worst]} (row {worst + 1})"
    assert run("score", "kinds.npz", "kinds.csv").out.splitlines()[4].startswith(f"{name} ")


@pytest.mark.usefixtures("folder")
def test_all_imputed_cells_are_shown_if_they_are_few(run, x):
    filled = np.nan_to_num(x)
    filled[3, :4] = np.nan
    frame = pl.DataFrame(filled, schema=list(FEATURES)).fill_nan(None)
    frame.write_csv("few.csv")
    run("fit", "few.csv", "--components", 1, "--out", "few.npz")
    _, cells, after = run("impute", "few.npz", "few.csv").out.split("\n\n")
    assert [line.split()[2] for line in cells.splitlines()[1:]] == list(FEATURES[:4])
    assert after.startswith("--out FILE")


@pytest.mark.usefixtures("folder")
def test_labels_that_are_row_numbers_are_shown_once(run, x):
    frame = pl.DataFrame(np.nan_to_num(x), schema=list(FEATURES))
    frame.select(pl.Series("", [f"{i + 1}" for i in range(60)]), *FEATURES).write_csv(
        "n.csv", quote_style="non_numeric"
    )
    run("fit", "n.csv", "--components", 1, "--out", "n.npz")
    assert run("outliers", "n.npz", "n.csv").out.split()[:2] == ["row", "p_value"]


@pytest.fixture
def factors(folder, run):
    """Oblique factors of table.csv."""
    assert run("fit", "table.csv", "--model", "fa", "--components", 2, "--rotation", "oblimin").code == 0
    fitted = FactorAnalysis.from_file(folder / "model.npz")
    del fitted.feature_names_in_
    return fitted


def test_every_question_can_be_put_to_factors(run, factors, x):
    for command in (["impute"], ["transform"], ["score"], ["outliers"], ["sample", "-n", "4", "--seed", "5"]):
        name, *options = command
        rows = [] if name == "sample" else ["table.csv"]
        assert run(name, "model.npz", *rows, *options, "--out", f"{name}.parquet").code == 0
    found = {
        name: pl.read_parquet(f"{name}.parquet") for name in ("impute", "transform", "score", "outliers", "sample")
    }
    assert found["transform"].columns == [*LABELS, "F1", "F2"]
    judged = factors.outliers(x, training=True)
    for name, columns, expected in (
        ("impute", FEATURES, factors.impute(x)),
        ("transform", ("F1", "F2"), factors.transform(x)),
        ("score", ("log_likelihood",), factors.score_samples(x)[:, None]),
        ("outliers", ("D2", "T2"), np.column_stack([judged.distance, judged.latent_distance])),
        ("sample", FEATURES, factors.sample(4, random_state=5)),
    ):
        assert_allclose(found[name].select(columns).to_numpy(), expected, rtol=1e-12, err_msg=name)
    assert_allclose(found["outliers"]["p_value"], judged.p_value, rtol=1e-9)


@pytest.mark.usefixtures("factors")
def test_scores_of_factors_are_called_so(run):
    lines = run("transform", "model.npz", "table.csv").out.splitlines()
    assert lines[0].split() == ["name", "F1", "F2"]
    assert "Rows with the lowest and highest factor scores (in standard deviations)" in lines
    assert [line.split()[0] for line in lines if " lowest " in f"{line} " and line[:1] == "F"] == ["F1", "F2"]
