"""The report on a mixture: what it says and shows is what the estimator says."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from html_pages import EVIL, bits, loads_nothing, numbers, positions, read
from probpca import DataError, MixturePPCA, explorer, report
from probpca.inference.separation import separating_axes
from probpca.pages import report_clusters
from probpca.pages.report import ReportSettings

COLUMNS = ["width", "height", "depth", "weight"]
N, D = 120, 4


@pytest.fixture(autouse=True)
def _without_vega(monkeypatch):
    """To put Vega together takes seconds, and most tests do not look at it."""
    monkeypatch.setattr(report_clusters, "drawing_script", lambda: "window.vegaEmbed = null;")


@pytest.fixture(scope="module")
def x():
    """Rows of three clusters with missing cells, one row without any and one far from all."""
    rng = np.random.default_rng(2)
    kinds = np.repeat([0, 1, 2], [55, 40, 25])
    means = np.array([[0, 0, 0, 0], [5, 0, 3, 0], [0, 5, 0, 90]])
    rows = means[kinds] + rng.standard_normal((N, 1)) + rng.standard_normal((N, D))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[7] = np.nan
    rows[9] = [0, 40, 0, 0]
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.fixture(scope="module")
def mixture(x):
    return MixturePPCA(3, 1, random_state=0).fit(x.drop(index=9))  # which would be a cluster of its own


def page_of(mixture, x, tmp_path, **options):
    return read(report(mixture, x, tmp_path / "page.html", **options))


def words_of(page):
    return " ".join(" ".join(page.words).split())


@pytest.mark.parametrize("training", [False, True])
def test_rows_have_their_clusters_p_values_and_points(mixture, x, tmp_path, training):
    data = page_of(mixture, x, tmp_path, training=training).data()
    found = mixture.outliers(x, training=training)
    assert_array_equal(positions(data["cluster"], N), mixture.predict(x))
    assert_allclose(numbers(data["probability"], N, 3), mixture.predict_proba(x), rtol=1e-4, atol=1e-7)
    assert_allclose(numbers(data["log10p"], N), found.log10_p_value, rtol=1e-4, atol=1e-7)
    assert_allclose(numbers(data["log10modelP"], N), found.log10_model_p_value, rtol=1e-4, atol=1e-7)
    axes = separating_axes(mixture.model_)
    assert_allclose(numbers(data["points"], N, 2), axes.scores(mixture.model_, x.to_numpy()), rtol=1e-4, atol=1e-6)
    assert_allclose(data["centre"], axes.centre, rtol=1e-5, atol=1e-9)
    assert_allclose(data["spread"], axes.covariance[:, [0, 1, 1], [0, 0, 1]], rtol=1e-5)


def test_cells_are_those_of_the_mixture_with_its_intervals(mixture, x, tmp_path):
    data = page_of(mixture, x, tmp_path).data()
    mean, scale, missing = np.array(data["mean"]), np.array(data["scale"]), x.isna().to_numpy()
    dense = mixture.model_.covariance
    assert_allclose(scale, np.sqrt(np.diag(dense)))
    assert_array_equal(bits(data["missing"], N, D), missing)
    assert_allclose(mean + scale * numbers(data["values"], N, D), mixture.impute(x), rtol=1e-4, atol=1e-3)
    for name, end in zip(("low", "high"), mixture.impute_interval(x), strict=True):
        expected = ((end.to_numpy() - mean) / scale)[missing]
        assert_allclose(numbers(data[name], missing.sum()), expected, rtol=1e-4, atol=1e-6)


def test_rows_are_rebuilt_from_the_scores_in_their_cluster(mixture, x, tmp_path):
    data, model = page_of(mixture, x, tmp_path).data(), mixture.model_
    labels, z = positions(data["cluster"], N), numbers(data["latent"], N, 1)
    centres, loadings = numbers(data["centres"], 3, D), numbers(data["loadings"], 3, D, 1)
    rows = centres[labels] + np.einsum("nij,nj->ni", loadings[labels], z)
    belief = mixture.posterior(x)
    for i in range(N):
        k = labels[i]
        expected = model.means[k] + model.loadings[k] @ belief.clusters[k].mean[i]
        assert_allclose(rows[i], (expected - model.mean) / np.array(data["scale"]), rtol=1e-3, atol=1e-4)


def test_the_first_screen_says_how_many_clusters_and_how_sure(mixture, x, tmp_path):
    said = words_of(page_of(mixture, x, tmp_path))
    sure = (mixture.predict_proba(x).max(axis=1) >= 0.9).sum()
    assert (
        "The mixture has 3 clusters, each with a mean, 1 component and noise of its own. This number was given." in said
    )
    assert f"{sure} of {N} rows ({100 * sure / N:.1f}%) belong to one cluster" in said
    for k, weight in enumerate(mixture.weights_):
        assert f"({100 * weight:.1f}%, {(mixture.predict(x) == k).sum()} rows)" in said
    assert "row 9" in said.split("What the clusters are")[0]  # the unusual one


@pytest.mark.parametrize(("rule", "n_clusters"), [("BIC", None), ("ICL", "icl")])
def test_a_chosen_number_is_compared_with_the_next_best(x, rule, n_clusters, tmp_path):
    found = MixturePPCA(n_clusters, 1, n_init=2, random_state=0).fit(x.drop(index=9))
    table = found.criteria_
    scores = np.where(table.degenerate, -np.inf, getattr(table, rule.lower()))
    behind = scores[table.n_clusters == found.n_clusters_].max() - scores[table.n_clusters != found.n_clusters_].max()
    page = page_of(found, x, tmp_path)
    said = words_of(page)
    assert f"This number was chosen by {rule}: the next best, " in said
    assert f"is {behind:.3g} nats behind, " in said
    grade = "hardly" if behind < 1 else "very strong" if behind >= 5 else "strong" if behind >= 3 else "some"
    assert grade in said.split("nats behind")[1][:60]
    values = page.data()["charts"]["criteria"]["layer"][0]
    assert values is not None


def test_a_choice_without_rivals_is_not_called_given(tmp_path):
    rng = np.random.default_rng(3)
    half = np.repeat([[0.0], [1.0]], N // 2, axis=0)  # in whose first rows three columns are zero
    rows = pd.DataFrame(rng.standard_normal((N, D)) * np.hstack([half, half, half, half + 1.0]), columns=COLUMNS)
    mixture = MixturePPCA(n_components=1, random_state=0).fit(rows)
    assert mixture.n_clusters_ == 1
    assert mixture.criteria_.degenerate[mixture.criteria_.n_clusters > 1].all()
    said = words_of(page_of(mixture, rows, tmp_path))
    assert "This number was chosen by BIC; there are no scores of others to compare it with." in said
    assert mixture.notes_[0] in said


def test_profiles_have_the_means_in_units_and_in_standard_deviations(mixture, x, tmp_path):
    path = report(mixture, x, tmp_path / "page.html")
    table = path.read_text(encoding="utf-8").split('id="profiles">')[1].split("</table>")[0]
    for j, name in enumerate(COLUMNS):
        line = table.split(f'title="{name}">')[1].split("</tr>")[0]
        std = np.sqrt(mixture.model_.covariance[j, j])
        for k in range(3):
            mean = mixture.means_[k, j]
            far = (mean - mixture.model_.mean[j]) / std
            cell = line.split("<td")[1 + k]
            assert cell.split(">")[1].split("<")[0].replace("\u2212", "-") == f"{mean:.4g}"
            assert f'title="{far:+.2f} sd"'.replace("-", "\u2212") in cell


def test_profiles_end_with_the_sizes_and_the_variance_explained(mixture, x, tmp_path):
    path = report(mixture, x, tmp_path / "page.html")
    foot = path.read_text(encoding="utf-8").split('id="profiles">')[1].split("<tfoot>")[1].split("</tfoot>")[0]
    weights, rows, explained = (
        [cell.split("<")[0] for cell in line.split("<td>")[1:4]] for line in foot.split("<tr>")[1:]
    )
    assert weights == [f"{100 * weight:.1f}%" for weight in mixture.weights_]
    assert rows == [f"{count}" for count in np.bincount(mixture.predict(x))]
    assert explained == [f"{100 * share:.1f}%" for share in mixture.model_.explained]


def test_clusters_colour_the_rows_before_other_groups(mixture, x, tmp_path):
    kinds = np.repeat(["a", "b"], N // 2)
    groups = page_of(mixture, x, tmp_path, groups={"kind": kinds}).data()["groups"]
    assert [group["name"] for group in groups] == ["cluster", "kind"]
    assert groups[0]["categories"] == ["C0", "C1", "C2"]
    assert_array_equal(positions(groups[0]["codes"], N), mixture.predict(x))


def test_a_large_table_shows_some_rows_and_columns(mixture, x, tmp_path):
    limits = ReportSettings().limits.__class__(most_rows=40, most_columns=2, fewest_columns=2)
    page = page_of(mixture, x, tmp_path, settings=ReportSettings(limits=limits))
    data = page.data()
    assert len(data["rows"]) == 40
    assert data["cellsPerRow"] == 2
    assert 9 in data["rows"]
    assert data["rows"][data["first"]] == 9


def test_one_cluster_has_a_report_too(x, tmp_path):
    page = page_of(MixturePPCA(1, 1, random_state=0).fit(x), x, tmp_path)
    assert "The mixture has 1 cluster, with 1 component. This number was given." in words_of(page)


def test_names_stay_text_and_nothing_is_loaded(mixture, x, tmp_path):
    names = [f"{text} {i}" for i, text in enumerate((EVIL * 20)[:N])]
    features = list(EVIL[:D])
    path = report(
        mixture, x, tmp_path / "page.html", labels=names, feature_names=features, groups={EVIL[0]: names}, title=EVIL[1]
    )
    loads_nothing(path)
    page = read(path)
    assert page.count("script") == 3
    assert page.data()["features"] == [name if name.strip() else f"(column {j})" for j, name in enumerate(features)]


def test_other_mistakes_are_explained(mixture, x, tmp_path):
    with pytest.raises(DataError, match="report needs a fitted estimator"):
        report(MixturePPCA(3), x, tmp_path / "page.html")
    with pytest.raises(DataError, match=r"explorer needs a fitted PPCA, .* got MixturePPCA\.\nHint: report shows the"):
        explorer(mixture, x, tmp_path / "page.html")
