"""The report on factor analysis: what it says is what the estimator says, in the words of factor analysis."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from factor_oracles import ABILITIES, correlated_abilities
from html_pages import EVIL, loads_nothing, numbers, read
from probpca import PPCA, FactorAnalysis, report
from probpca.learning.selection.parallel_analysis import Scree
from probpca.pages import report as home
from probpca.pages.report_charts import ChartSizes, charts
from probpca.pages.report_components import ComponentSettings, Loadings, meaning_of
from probpca.pages.report_factors import factor_in_words

N, D, Q = 160, 9, 3
ROTATIONS = [None, "varimax", "oblimin"]


@pytest.fixture(autouse=True)
def _without_vega(monkeypatch):
    """To put Vega and charts together takes seconds, and most tests do not look at them."""
    monkeypatch.setattr(home, "drawing_script", lambda: "window.vegaEmbed = null;")
    monkeypatch.setattr(home, "charts", lambda *_: {})


@pytest.fixture(scope="module")
def x():
    return pd.DataFrame(correlated_abilities(np.random.default_rng(7)), columns=list(ABILITIES))


@pytest.fixture(scope="module")
def holes(x):
    found = x.mask(np.random.default_rng(8).random(x.shape) < 0.1)
    found.iloc[4] = np.nan
    return found


@pytest.fixture(scope="module")
def oblique(x):
    return FactorAnalysis(Q, rotation="oblimin").fit(x)


def words_of(page):
    return " ".join(" ".join(page.words).split())


def table_of(path, start):
    """Texts of the cells of the first table after some text, a list for each line."""
    text = path.read_text(encoding="utf-8").split(start)[1].split("</table>")[0]
    lines = [line.split("</tr>")[0] for line in text.split("<tr")[1:]]
    return [[" ".join(read_cell(cell)) for cell in line.replace("<th", "<td").split("<td")[1:]] for line in lines]


def read_cell(cell):
    return cell.split(">", 1)[1].split("<")[0].split()


def number(text):
    return float(text.replace("\u2212", "-").replace("%", "").replace(",", ""))


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_the_page_rebuilds_rows_from_the_scores_of_rotated_factors(holes, rotation, tmp_path):
    fitted = FactorAnalysis(Q, rotation=rotation, scores="bartlett").fit(holes)
    data = read(report(fitted, holes, tmp_path / "page.html")).data()
    belief = fitted.posterior(holes)
    scores, loadings = numbers(data["latent"], N, Q), numbers(data["loadings"], D, Q)
    assert_allclose(scores, belief.mean, rtol=1e-4, atol=1e-6)
    rows = np.array(data["mean"]) + np.array(data["scale"]) * (scores @ loadings.T)
    deviation = np.sqrt(np.diag(fitted.get_covariance()))
    assert_allclose((rows - fitted.inverse_transform(belief.mean)) / deviation, 0, atol=1e-4)
    lower = np.tril_indices(Q)
    covariance = numbers(data["covariance"], N, -1)
    assert_allclose(covariance, belief.covariance[:, lower[0], lower[1]], rtol=1e-4, atol=1e-6)
    assert_allclose(covariance[4], fitted.factor_correlations_[lower], rtol=1e-4, atol=1e-9)  # an empty row


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_loadings_are_standardized_with_the_intervals_of_their_uncertainty(oblique, x, rotation, tmp_path):
    fitted = oblique.rotate(rotation)
    data = read(report(fitted, x, tmp_path / "page.html")).data()
    low, high = fitted.uncertainty().loadings.interval()
    for k, held in enumerate(data["loadingsOf"]):
        columns = held["columns"]
        assert_allclose(held["values"], fitted.standardized_loadings_[columns, k], rtol=1e-4)
        assert_allclose([held["low"], held["high"]], [low[columns, k], high[columns, k]], rtol=1e-4)
    arrows = numbers(data["loadings"], D, Q) * numbers(data["loadingUnit"], D, 1)
    assert_allclose(arrows, fitted.standardized_loadings_, rtol=1e-4, atol=1e-7)
    assert (data["noun"], data["loadingWord"]) == ("factor", "standardized loading")
    assert data["componentNames"] == ["F1", "F2", "F3"]


def test_arrows_are_standardized_whatever_the_unit_of_weights_of_cells(x, tmp_path):
    weight = np.where(np.random.default_rng(0).random(x.shape) < 0.5, 4.0, 1.0)
    for unit in (1.0, 9.0):
        fitted = FactorAnalysis(Q, rotation="varimax").fit(x, cell_weight=unit * weight)
        data = read(report(fitted, x, tmp_path / "page.html")).data()
        arrows = numbers(data["loadings"], D, Q) * numbers(data["loadingUnit"], D, 1)
        assert_allclose(arrows, fitted.standardized_loadings_, rtol=1e-4, atol=1e-6)


def test_rows_with_missing_cells_give_intervals_as_far_as_they_may_be_read(holes, tmp_path):
    fitted = FactorAnalysis(Q, rotation="oblimin").fit(holes)
    low, _ = fitted.uncertainty(holes).loadings.interval()
    page = read(report(fitted, holes, tmp_path / "page.html"))
    held = page.data()["loadingsOf"][1]
    assert_allclose(held["low"], low[held["columns"], 1], rtol=1e-4)
    assert "95% intervals (observed information)" in words_of(page)
    few = home.ReportSettings(components=ComponentSettings(most_read=1000))
    for options, why in [({"settings": few}, "the table is large"), ({"training": False}, "training rows")]:
        page = read(report(fitted, holes, tmp_path / "page.html", **options))
        assert "low" not in page.data()["loadingsOf"][0]
        assert why in words_of(page).split("Intervals of the loadings are not shown:")[1][:120]


def test_the_table_of_loadings_is_sorted_and_adds_up(oblique, x, tmp_path):
    path = report(oblique, x, tmp_path / "page.html")
    head, *lines = table_of(path, "Standardized loadings of all columns")
    assert head == ["column", "F1", "F2", "F3", "communality", "uniqueness"]
    body, sums = lines[:D], lines[D:]
    places = [ABILITIES.index(line[0]) for line in body]
    L = np.array([[number(cell) for cell in line[1:]] for line in body])
    assert_allclose(L[:, :Q], oblique.standardized_loadings_[places], atol=0.00501)
    assert_allclose(L[:, Q:], np.column_stack([oblique.communalities_, oblique.uniquenesses_])[places], atol=0.00501)
    assert (np.diff(np.abs(L[:, :Q]).argmax(axis=1)) >= 0).all()
    assert [line[0] for line in sums] == ["variance explained", "share of variance", "cumulative"]
    assert_allclose([number(cell) for cell in sums[0][1:4]], oblique.explained_variance_, atol=0.00501)
    together = 100 * oblique.communalities_.mean()
    assert number(sums[2][3]) == pytest.approx(together, abs=0.0501)
    few = home.ReportSettings(limits=home.PageLimits(most_columns=4))
    path = report(oblique, x, tmp_path / "page.html", settings=few)
    assert len(table_of(path, "Standardized loadings of all columns")) == 1 + 4 + 3
    assert "5 columns with smaller loadings are left out" in words_of(read(path))


def test_correlations_are_shown_of_oblique_factors_only(oblique, x, tmp_path):
    path = report(oblique, x, tmp_path / "page.html")
    _, *lines = table_of(path, "Correlations of the factors")
    for j, line in enumerate(lines):
        assert_allclose(
            [number(cell) for cell in line[1 : j + 2]], oblique.factor_correlations_[j, : j + 1], atol=0.00501
        )
        assert line[j + 2 :] == [""] * (Q - j - 1)
    said = words_of(read(path))
    largest = np.abs(np.tril(oblique.factor_correlations_, -1)).max()
    assert f"They were rotated by oblimin and are correlated; the largest correlation is {largest:.2f}, of F" in said
    for rotation, how in [
        ("varimax", "rotated by varimax and are uncorrelated"),
        (None, "not rotated and are uncorrelated"),
    ]:
        path = report(oblique.rotate(rotation), x, tmp_path / "page.html")
        assert "Correlations of the factors" not in path.read_text(encoding="utf-8")
        assert how in words_of(read(path))


def test_fit_indices_are_shown_if_they_are_known(oblique, x, holes, tmp_path):
    found = oblique.fit_indices()
    said = words_of(read(report(oblique, x, tmp_path / "page.html")))
    low, high = found.rmsea_interval
    for words in (
        f"Chi-square {found.chi_square:.2f}, {found.df} degrees of freedom, p = {found.p_value:.2g} RMSEA",
        f"RMSEA {found.rmsea:.3f} (90% interval {low:.3f} to {high:.3f})",
        f"CFI {found.cfi:.3f} TLI {found.tli:.3f} SRMR {found.srmr:.3f} AIC {found.aic:,.1f} BIC {found.bic:,.1f}",
    ):
        assert words in said
    fitted = FactorAnalysis(Q).fit(holes)
    assert "Fit indices are not known" in words_of(read(report(fitted, holes, tmp_path / "page.html")))
    rmsea = fitted.fit_indices(holes).rmsea
    assert f"RMSEA {rmsea:.3f}" in words_of(read(report(fitted, holes, tmp_path / "page.html")))


def test_it_speaks_of_factors_and_not_of_components(oblique, x, tmp_path):
    page = read(report(oblique, x, tmp_path / "page.html"))
    said = words_of(page)
    assert "component" not in said.lower()
    assert "Factor analysis report: 160 rows, 9 columns, 3 factors" in said
    total = 100 * oblique.communalities_.mean()
    assert f"3 factors explain the correlations between the 9 columns. Together they account for {total:.1f}%" in said
    assert "Uniquenesses" in said
    assert "standardize" not in said.replace("standardized", "")
    assert "Noise variance" not in said
    other = words_of(read(report(PPCA(2).fit(x), x, tmp_path / "page.html")))
    assert "factor" not in other.lower()


@pytest.mark.filterwarnings("ignore:the noise variance of:UserWarning")
def test_heywood_cases_poor_fits_and_weak_factors_are_named(x, tmp_path):
    again = x.assign(again=x["word"] + 0.3 * np.random.default_rng(9).standard_normal(N))
    with pytest.warns(UserWarning, match="Heywood"):
        fitted = FactorAnalysis(Q, rotation="oblimin").fit(again)
    page = read(report(fitted, again, tmp_path / "page.html"))
    said = words_of(page)
    assert "No noise is left in 1 column (word): the factors explain it completely, a Heywood case." in said
    assert "Heywood cases: try fewer factors" in said
    assert None in [end for held in page.data()["loadingsOf"] for end in held["low"]]  # without a standard error
    poor = FactorAnalysis(1).fit(x)
    assert poor.fit_indices().rmsea > 0.1
    assert f"(RMSEA {poor.fit_indices().rmsea:.2f};" in words_of(read(report(poor, x, tmp_path / "page.html")))
    fewer = x.iloc[:, :8]  # the third factor has two columns left
    weak = FactorAnalysis(Q, rotation="varimax").fit(fewer)
    counts = (np.abs(weak.standardized_loadings_) >= 0.3).sum(axis=0)
    (k,) = np.flatnonzero(counts < 3)
    assert f"F{k + 1} has fewer than three columns" in words_of(read(report(weak, fewer, tmp_path / "page.html")))


def test_the_scree_plot_has_the_eigenvalues_of_the_fit(oblique, x, holes, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(home, "charts", lambda *given: drawn.append(given) or {})
    report(oblique, x.iloc[:40], tmp_path / "page.html")  # the fit knows the moments of its rows
    assert_allclose(drawn[0][3].values, np.linalg.eigvalsh(np.corrcoef(x.T))[::-1])
    assert drawn[0][4] == "factor"
    fitted = FactorAnalysis(Q).fit(holes)
    report(fitted, holes, tmp_path / "page.html")
    assert drawn[1][3].n_features == D
    page = read(report(fitted, holes, tmp_path / "page.html", training=False))
    assert drawn[2][3] is None
    assert_array_equal(drawn[2][0], fitted.explained_variance_ratio_)
    assert "that each factor explains" in words_of(page)


def test_bars_of_eigenvalues_have_the_line_of_chance():
    found = Scree(np.array([3.0, 1.5, 0.5]), np.array([1.4, 1.2, 1.0]), 3)
    drawn = charts(np.ones(2) / 2, 2, ChartSizes(10, 3, 3, 2), found, "factor")["scree"]
    (values,) = (
        [rows for rows in drawn["datasets"].values() if "chance" in rows[0]]
        if "datasets" in drawn
        else [drawn["layer"][0]["data"]["values"]]
    )
    assert [(row["value"], row["chance"], row["kind"]) for row in values] == [
        (3.0, 1.4, "yes"),
        (1.5, 1.2, "yes"),
        (0.5, 1.0, "no"),
    ]
    assert "2 exceed those of independent columns" in drawn["description"]


SETTINGS = ComponentSettings()


@pytest.mark.parametrize(
    ("w", "words"),
    [
        ([0.9, 0.7, 0.1, -0.2], "a (0.90) and b (0.70) load on it"),
        ([0.1, 0.8, 0.1, 0.0], "b (0.80) loads on it"),
        ([0.9, 0.1, -0.6, 0.8], "a (0.90) and d (0.80) load on it and c (\u22120.60) loads negatively"),
        (
            [0.5, 0.6, 0.9, 0.7],
            "a general factor: all 4 columns load on it, most of all c (0.90), d (0.70) and b (0.60)",
        ),
        ([0.0, 0.0, 0.0, 0.0], "no column stands out: none of its loadings clearly differs from zero"),
    ],
)
def test_a_factor_is_described_by_the_columns_that_load_on_it(w, words):
    values = np.array(w)
    meaning = meaning_of(Loadings(values[:, None], None, None, ""), 0, SETTINGS)
    assert factor_in_words(meaning, values, "abcd", SETTINGS) == words


def test_names_of_columns_stay_text(x, tmp_path):
    fitted = FactorAnalysis(2, rotation="oblimin").fit(x.iloc[:, : len(EVIL)].to_numpy())
    rows = x.iloc[:, : len(EVIL)].to_numpy()
    plain = read(report(fitted, rows, tmp_path / "plain.html"))
    place = report(fitted, rows, tmp_path / "evil.html", feature_names=EVIL, title=EVIL[0])
    assert [tag for tag, _ in read(place).tags] == [tag for tag, _ in plain.tags]
    loads_nothing(place)
