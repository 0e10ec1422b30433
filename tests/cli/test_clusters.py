"""``probpca fit --clusters`` and what other commands do with a mixture: they answer as the library does."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from html_pages import read
from probpca import MixturePPCA
from probpca.cli import clusters
from probpca.pages import report_clusters

COLUMNS = ["width", "height", "depth", "weight"]


@pytest.fixture
def boxes(tmp_path, monkeypatch):
    """A table of two kinds of boxes, with missing cells, one row without any and one between the kinds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    rng = np.random.default_rng(3)
    kinds = np.repeat([0, 1], [40, 25])
    rows = np.array([[0, 0, 0, 0], [6, 0, 3, 0]])[kinds] + rng.standard_normal((65, 1)) + rng.standard_normal((65, 4))
    rows[rng.random(rows.shape) < 0.08] = np.nan
    rows[11] = np.nan
    rows[12] = [3, np.nan, 1.5, np.nan]
    found = pl.DataFrame(dict(zip(COLUMNS, rows.round(3).T, strict=True)))
    names = pl.Series("box", [f"box {i}" for i in range(65)])
    found.with_columns(pl.all().fill_nan(None)).insert_column(0, names).write_csv("boxes.csv")
    return pl.read_csv("boxes.csv").select(COLUMNS).to_pandas()


@pytest.fixture
def fitted(boxes, run):
    """The same model by hand, beside the one in model.npz."""
    assert run("fit", "boxes.csv", "--clusters", 2, "--components", 1).code == 0
    return MixturePPCA(2, 1, max_iter=1000, random_state=0).fit(boxes)


def facts(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_model_is_that_of_the_library(fitted):
    found = MixturePPCA.from_file("model.npz")
    assert list(found.feature_names_in_) == COLUMNS
    assert_array_equal(found.means_, fitted.means_)
    assert_array_equal(found.loadings_, fitted.loadings_)


@pytest.mark.usefixtures("boxes")
@pytest.mark.parametrize(
    ("options", "given", "rule"),
    [
        (["--clusters", "auto"], (None, None), "clusters and components by BIC"),
        (["--clusters", "icl"], ("icl", None), "clusters and components by ICL"),
        (["--model", "mixture", "--components", 1], (None, 1), "clusters by BIC"),
        (["--clusters", 3, "--components", "bic"], (3, None), "components by BIC"),
    ],
)
def test_options_say_what_is_chosen(run, options, given, rule):
    found = facts(run("fit", "boxes.csv", *options, "--json"))
    model = MixturePPCA.from_file("model.npz")
    assert (model.n_clusters, model.n_components) == given
    assert found["rule"] == model.rule_ == rule


def test_json_has_all_about_the_clusters(run, boxes):
    found = facts(run("fit", "boxes.csv", "--clusters", 2, "--components", 1, "--json"))
    expected = MixturePPCA(2, 1, max_iter=1000, random_state=0).fit(boxes)
    assert (found["model"], found["n_clusters"], found["n_components"]) == ("MixturePPCA", 2, 1)
    for k, cluster in enumerate(found["clusters"]):
        assert cluster["weight"] == expected.weights_[k]
        assert cluster["mean"] == dict(zip(COLUMNS, expected.means_[k].tolist(), strict=True))
        assert cluster["loadings"] == [
            dict(zip(COLUMNS, axis.tolist(), strict=True)) for axis in expected.loadings_[k].T
        ]
        assert cluster["noise_variance"] == dict(zip(COLUMNS, expected.noise_variance_[k].tolist(), strict=True))
    assert (found["bic"], found["icl"]) == (expected.bic_, expected.icl_)
    assert found["criteria"]["bic"] == expected.criteria_.bic.tolist()


def test_the_screen_lists_the_clusters_and_what_to_do_next(run, boxes):
    done = run("fit", "boxes.csv", "--clusters", 2, "--components", 1)
    expected = MixturePPCA(2, 1, max_iter=1000, random_state=0).fit(boxes)
    for k, weight in enumerate(expected.weights_):
        assert f"C{k} " in done.out
        assert f"{weight:.1%}" in done.out
    assert "probpca transform model.npz boxes.csv --out clusters.csv" in done.out


def test_transform_writes_clusters_their_probabilities_and_scores(run, boxes, fitted):
    assert run("transform", "model.npz", "boxes.csv", "--out", "out.csv").code == 0
    found = pl.read_csv("out.csv")
    assert found.columns == ["box", "cluster", "C0", "C1", "C0_PC1", "C1_PC1"]
    assert_array_equal(found["cluster"], fitted.predict(boxes))
    assert_allclose(found.select("C0", "C1"), fitted.predict_proba(boxes), rtol=1e-12)
    assert_allclose(found.select("C0_PC1", "C1_PC1"), fitted.transform(boxes), rtol=1e-9, atol=1e-12)


def test_the_screen_has_the_sizes_and_the_least_certain_rows(run, boxes, fitted):
    share = fitted.predict_proba(boxes)
    done, told = run("transform", "model.npz", "boxes.csv"), facts(run("transform", "model.npz", "boxes.csv", "--json"))
    sizes = np.bincount(share.argmax(axis=1), minlength=2)
    assert told["cluster_rows"] == sizes.tolist()
    assert told["unsure_rows"] == (share.max(axis=1) < clusters.SURE).sum() > 0
    assert told["data"]["cluster"] == share.argmax(axis=1).tolist()
    first, last = done.out.split("\n\n")[0], done.out.split("\n\n")[-1]
    assert first.splitlines()[0].split() == ["box", "cluster", "C0", "C1"]
    best = share[0].argmax()
    assert first.splitlines()[1].split() == ["box", "0", f"C{best}", *(f"{part:.3f}" for part in share[0])]
    unsure = np.argsort(share.max(axis=1), kind="stable")[: min(told["unsure_rows"], clusters.UNSURE_ROWS)]
    shown = [line.split("  ")[0] for line in last.splitlines() if line.startswith("box ")]
    assert shown == [f"box {i}" for i in unsure]
    for k in (0, 1):
        assert f"C{k}       {fitted.weights_[k]:.1%}     {sizes[k]}" in done.out


def test_cells_are_imputed_with_the_intervals_of_the_mixture(run, boxes, fitted):
    done = run("impute", "model.npz", "boxes.csv", "--intervals", "--level", 0.8, "--out", "out.csv", "--max-value", 5)
    assert done.code == 0
    found, missing = pl.read_csv("out.csv"), boxes.isna().to_numpy()
    expected = [fitted.impute(boxes), *fitted.impute_interval(boxes, 0.8)]
    for end, values in zip(("", "_low", "_high"), expected, strict=True):
        written = found.select([f"{name}{end}" for name in COLUMNS]).to_numpy()
        assert_allclose(written[missing], np.minimum(values.to_numpy()[missing], 5), rtol=1e-9, atol=1e-12)
    assert run("impute", "model.npz", "boxes.csv", "--out", "bare.csv").code == 0
    assert_allclose(pl.read_csv("bare.csv").select(COLUMNS).to_numpy(), fitted.impute(boxes), rtol=1e-9, atol=1e-12)


def test_score_and_sample_are_those_of_the_library(run, boxes, fitted):
    assert run("score", "model.npz", "boxes.csv", "--out", "out.csv").code == 0
    assert_allclose(pl.read_csv("out.csv")["log_likelihood"], fitted.score_samples(boxes), rtol=1e-9)
    assert run("sample", "model.npz", "-n", 20, "--seed", 4, "--out", "new.csv").code == 0
    rows, labels = fitted.sample(20, random_state=4)
    found = pd.read_csv("new.csv")
    assert list(found.columns) == ["cluster", *COLUMNS]
    assert_array_equal(found["cluster"], labels)
    assert_allclose(found[COLUMNS], rows, rtol=1e-12)


@pytest.mark.usefixtures("boxes")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--clusters", 3, "--bayesian"], "--clusters means --model mixture; got --bayesian too"),
        (["--clusters", 3, "--model", "fa"], "--clusters means --model mixture; got --model fa too"),
        (["--clusters", 3, "--standardize"], "clusters do not change with the units of the columns. Leave it out"),
        (["--clusters", 3, "--rotation", "varimax"], "--rotation needs --model fa; got --model mixture"),
        (["--clusters", 0], "--clusters must be a whole number, 1 or more, or auto or icl; got 0"),
        (["--clusters", "two"], "--clusters must be a whole number, 1 or more, or auto or icl; got two"),
        (
            ["--clusters", 3, "--components", 0.9],
            "with --clusters, --components must be a number of components of each",
        ),
    ],
)
def test_options_that_clusters_do_not_have_are_refused(run, options, said):
    done = run("fit", "boxes.csv", *options)
    assert done.code == 2
    assert said in done.err


def test_outliers_are_those_of_the_mixture_and_the_worst_come_first(run, boxes, fitted):
    found = fitted.outliers(boxes, training=True)
    assert run("outliers", "model.npz", "boxes.csv", "--out", "out.csv").code == 0
    out = pl.read_csv("out.csv")
    scores = ["p_value", "log10_p", "model_p_value", "log10_model_p", "cluster", "probability", "log_likelihood", "D2"]
    assert out.columns[:10] == ["row", "box", *scores]
    assert_allclose(out["model_p_value"], found.model_p_value, rtol=1e-9)
    assert_allclose(out["p_value"], found.p_value, rtol=1e-9)
    assert_allclose(out["log10_p"], found.log10_p_value, rtol=1e-9, atol=1e-12)
    assert_array_equal(out["cluster"], found.cluster)
    assert_allclose(out["log_likelihood"], fitted.score_samples(boxes), rtol=1e-9)
    assert_allclose(out["D2"], found.distance, rtol=1e-9, atol=1e-12)
    seen = ~boxes.isna().all(axis=1).to_numpy()
    worst = [COLUMNS[j] for j in np.nanargmax(np.abs(found.cell_scores[seen]), axis=1)]
    assert out["cell_1"].to_numpy()[seen].tolist() == worst
    top = facts(run("outliers", "model.npz", "boxes.csv", "--top", 3, "--json"))
    order = np.argsort(found.log10_p_value, kind="stable")[:3]
    assert top["data"]["row"] == (order + 1).tolist()
    done = run("outliers", "model.npz", "boxes.csv")
    assert done.out.splitlines()[0].split()[:5] == ["row", "box", "p_value", "model_p_value", "cluster"]
    assert f"C{found.cluster[order[0]]}" in done.out.splitlines()[1]
    assert "as if its row had been left out" in " ".join(done.out.split())


@pytest.mark.usefixtures("fitted")
def test_a_report_shows_the_clusters(run, monkeypatch):
    monkeypatch.setattr(report_clusters, "drawing_script", lambda: "")
    done = run("report", "model.npz", "boxes.csv")
    assert done.code == 0, done.err
    page = read(Path("report.html"))
    assert page.data()["names"][0] == "box 0"
    assert [group["name"] for group in page.data()["groups"]] == ["cluster"]
    assert facts(run("report", "model.npz", "boxes.csv", "--force", "--json"))["rows"] == 65


@pytest.mark.usefixtures("fitted")
def test_the_explorer_says_what_shows_clusters(run):
    done = run("explorer", "model.npz", "boxes.csv")
    assert done.code == 1
    assert "Hint: probpca report" in done.err
