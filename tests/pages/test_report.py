"""The report holds the answers of the estimator, all of its text stays text, and it needs no network."""

import re
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from html_pages import EVIL, bits, loads_nothing, numbers, positions, read
from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, DataError, LinearDynamicalSystem, ShapeError, SourceError, report
from probpca.inference.calibration import RARE
from probpca.pages import report as home
from probpca.pages.page import PageLimits, counted, packed
from probpca.pages.report import ReportSettings
from probpca.pages.report_charts import ChartSizes, charts
from probpca.pages.report_rows import choose_columns, choose_rows
from probpca.pages.report_text import p_text, share

N, D, Q = 60, 8, 3
FORTY = ReportSettings(limits=PageLimits(most_rows=40))


@pytest.fixture
def _without_vega(monkeypatch):
    """To put Vega and charts together takes seconds, and most tests do not look at them."""
    monkeypatch.setattr(home, "drawing_script", lambda: "window.vegaEmbed = null;")
    monkeypatch.setattr(home, "charts", lambda *_: {})


def words_of(page):
    return " ".join(" ".join(page.words).split())


quick = pytest.mark.usefixtures("_without_vega")


@pytest.fixture
def x():
    rng = np.random.default_rng(3)
    rows = spiked_rows(rng, N, D, Q, noise=0.2) * np.arange(1, D + 1) + 100
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[4, 2] += 60
    return rows


@pytest.fixture
def fitted(x):
    return PPCA(Q, random_state=0).fit(x)


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
@quick
def test_its_numbers_are_the_answers_of_the_estimator(kind, x, tmp_path):
    fitted = kind(Q, random_state=0).fit(x)
    data = read(report(fitted, x, tmp_path / "page.html")).data()
    found, belief = fitted.outliers(x, training=True), fitted.posterior(x)
    values, std = fitted.impute(x, return_std=True, training=True)
    mean, scale = np.array(data["mean"]), np.array(data["scale"])
    close = {"rtol": 2e-5, "atol": 1e-9}
    assert_allclose(mean, fitted.mean_)
    assert_allclose(scale, np.sqrt(np.diag(fitted.get_covariance())))
    assert_allclose(mean + scale * numbers(data["values"], N, D), values, atol=1e-4 * scale.max())
    missing = bits(data["missing"], N, D)
    assert_array_equal(missing, np.isnan(x))
    assert_allclose(numbers(data["std"], -1), (std / scale)[missing], **close)
    low, _ = fitted.impute_interval(x, training=True)
    assert_allclose((values - data["width"] * std)[missing], low[missing])
    q = fitted.n_components_
    assert_allclose(numbers(data["latent"], N, q), belief.mean, **close)
    lower = np.tril_indices(q)
    assert_allclose(numbers(data["covariance"], N, -1), belief.covariance[:, lower[0], lower[1]], **close)
    for name, field in [
        ("distance", found.distance),
        ("inside", found.latent_distance),
        ("outside", found.residual_distance),
        ("p", found.p_value),
        ("log10p", found.log10_p_value),
        ("modelP", found.model_p_value),
        ("log10modelP", found.log10_model_p_value),
        ("insideP", found.latent_p_value),
        ("outsideP", found.residual_p_value),
    ]:
        assert_allclose(numbers(data[name], N), field, rtol=2e-5, err_msg=name)
    assert_allclose(numbers(data["contributions"], N, D), found.contributions, **close)
    assert_allclose(numbers(data["scores"], N, D), found.cell_scores, **close)
    assert_allclose(data["ratio"], fitted.explained_variance_ratio_)


@quick
def test_complete_rows_share_one_covariance(tmp_path):
    x = spiked_rows(np.random.default_rng(0), N, D, Q, noise=0.1)
    fitted = PPCA(Q).fit(x)
    data = read(report(fitted, x, tmp_path / "page.html")).data()
    wanted = fitted.posterior(x).covariance[0][np.tril_indices(Q)]
    assert_allclose(numbers(data["covariance"], -1), wanted, rtol=1e-5, atol=1e-12)
    assert not bits(data["missing"], N, D).any()


@quick
def test_the_first_screen_says_in_words_what_was_fitted(fitted, x, tmp_path):
    words = words_of(read(report(fitted, x, tmp_path / "page.html", title="Of mice")))
    found = fitted.outliers(x, training=True)
    first, details = words.split("Model details")
    assert "Of mice" in first
    assert (
        f"The model uses {N} rows and {D} numeric columns. {np.isnan(x).sum()} of their {N * D} cells are missing"
        in first
    )
    explained = share(float(fitted.explained_variance_ratio_.sum()))
    assert f"{Q} components summarise the {D} columns: together they explain {explained} of the variance" in first
    unusual = np.flatnonzero(found.p_value < RARE)
    assert f"{unusual.size} of 60 rows is unusual" in first
    assert f"with a p-value below 0.001 (chance alone would give about 0.06): row {unusual[0]}." in first
    assert "Each row was judged as if it had been left out of the fit." in first
    assert p_text(found.log10_p_value.min()) in first
    assert p_text(found.log10_model_p_value.min()) in first
    for statistic in ("likelihood", "oise variance", fitted.status_.value):
        assert statistic not in first
        assert statistic in details
    assert f"{fitted.noise_variance_:.4g}" in details


@quick
def test_new_rows_are_judged_as_they_are(fitted, x, tmp_path):
    page = read(report(fitted, x, tmp_path / "page.html", training=False))
    assert_allclose(numbers(page.data()["p"], N), fitted.outliers(x).p_value, rtol=2e-5)
    assert "The rows are new" in words_of(page)


@quick
def test_the_note_on_p_values_is_shown(tmp_path):
    x = spiked_rows(np.random.default_rng(0), N, D, Q, noise=0.1)
    x[:9] += 9 * np.random.default_rng(1).standard_normal((9, D))
    fitted = PPCA(Q).fit(x)
    words = " ".join(" ".join(read(report(fitted, x, tmp_path / "page.html")).words).split())
    assert "masking" in fitted.outliers(x).note
    assert fitted.outliers(x).note in words
    assert "Read the note on p-values" in words


@quick
def test_the_threshold_is_that_of_the_settings_everywhere(fitted, x, tmp_path):
    for p in (ReportSettings().p, 0.2):
        page = read(report(fitted, x, tmp_path / "page.html", settings=ReportSettings(p=p)))
        assert page.data()["odd"] == p
        assert f"p-value below {p:g}" in words_of(page)
    assert ReportSettings().p == RARE == 0.001


@quick
@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
def test_words_about_standardised_columns_do_not_depend_on_units(kind, x, tmp_path):
    ratios = []
    for units in (1.0, np.geomspace(0.01, 100, D)):
        fitted = kind(Q, standardize=True, random_state=0).fit(x * units)
        page = read(report(fitted, x * units, tmp_path / "page.html"))
        words = " ".join(" ".join(page.words).split())
        assert f"components summarise the {D} columns (scaled to unit variance)" in words
        assert f"{fitted.noise_variance_:.4g}" in words
        assert "tenfold" not in words
        assert f"explain {share(float(fitted.explained_variance_ratio_.sum()))} of the variance" in words
        ratios.append(page.data()["ratio"])
    assert_allclose(ratios[0], ratios[1], rtol=1e-5)


@quick
def test_the_most_unusual_row_is_the_first_to_be_seen(fitted, x, tmp_path):
    page = read(report(fitted, x, tmp_path / "page.html"))
    buttons = [attrs["data-row"] for tag, attrs in page.tags if tag == "button" and "data-row" in attrs]
    order = np.argsort(fitted.outliers(x, training=True).log10_p_value, kind="stable")
    assert [int(row) for row in buttons] == order[:15].tolist()
    assert page.data()["first"] == order[0] == 4


@quick
def test_a_fit_that_has_not_converged_has_a_warning_on_top(x, tmp_path):
    with pytest.warns(UserWarning, match="max_iter"):
        fitted = PPCA(Q, max_iter=1, tol=1e-9, random_state=0).fit(x)
    page = read(report(fitted, x, tmp_path / "page.html"))
    assert [attrs for tag, attrs in page.tags if attrs.get("class") == "warning"] == [
        {"class": "warning", "role": "alert"}
    ]
    words = words_of(page)
    assert words.index("Not converged") < words.index("In short")
    assert fitted.status_.value in words
    assert "has not converged" in words


@quick
def test_there_is_always_something_to_look_at_next(tmp_path):
    plain = np.linspace(-1.7, 1.7, N)[:, None] + np.random.default_rng(1).uniform(-0.1, 0.1, (N, D))
    flat, steep = np.column_stack([plain, np.full(N, 4.0)]), plain * np.geomspace(1, 100, D)
    found = []
    for x in (plain, flat, steep):
        words = " ".join(read(report(PPCA(1).fit(x), x, tmp_path / "page.html")).words)
        found.append([said in words for said in ("No problems were found", "1 column has the same value", "-fold (")])
    assert found[0] == [True, False, False]
    assert found[1] == [False, True, False]
    assert found[2][0] is False
    assert found[2][2] is True


@quick
def test_columns_of_any_size_have_a_report(x, tmp_path):
    x = x * 10.0 ** np.linspace(-60, 60, D)
    fitted = PPCA(2, standardize=True, random_state=0).fit(x)
    data = read(report(fitted, x, tmp_path / "page.html")).data()
    values = np.array(data["mean"]) + np.array(data["scale"]) * numbers(data["values"], N, D)
    seen = ~np.isnan(x) & (np.abs(numbers(data["values"], N, D)) > 1e-3)
    assert_allclose(values[seen], x[seen], rtol=1e-3)


@quick
def test_one_component_an_empty_row_and_an_empty_column(x, tmp_path):
    x[7], x[:, 5] = np.nan, np.nan
    with pytest.warns(UserWarning, match="no observed cells"):
        fitted = PPCA(1, random_state=0).fit(x)
    page = read(report(fitted, x, tmp_path / "page.html"))
    assert np.isinf(numbers(page.data()["std"], -1)).any()
    assert "1 column had no observed cell" in words_of(page)


@quick
@pytest.mark.parametrize("made", [pd.DataFrame, lambda values, columns: pl.DataFrame(values, schema=columns)])
def test_dataframes_bring_their_names(made, x, tmp_path):
    frame = made(x, columns=[f"c{j}" for j in range(D)])
    fitted = PPCA(Q, random_state=0).fit(frame).set_output(transform="pandas")
    data = read(report(fitted, frame, tmp_path / "page.html")).data()
    assert data["features"] == [f"c{j}" for j in range(D)]
    assert data["names"] == [None] * N
    assert data["rows"] == list(range(N))


@quick
def test_rows_of_pandas_bring_theirs(fitted, x, tmp_path):
    frame = pd.DataFrame(x, index=[f"r{i}" for i in range(N)])
    assert read(report(fitted, frame, tmp_path / "page.html")).data()["names"][3] == "r3"


@quick
def test_what_a_sparse_matrix_does_not_store_may_be_missing(x, tmp_path):
    table = sparse.csr_matrix(np.nan_to_num(x))
    fitted = PPCA(Q, missing="unstored", random_state=0).fit(table)
    data = read(report(fitted, table, tmp_path / "page.html")).data()
    assert_array_equal(bits(data["missing"], N, D), np.isnan(x))


def test_every_row_is_shown_unless_there_are_very_many():
    log10_p = -np.random.default_rng(0).exponential(size=30_000)
    limits = ReportSettings().limits
    assert [limits.rows(n) for n in (64, 5_000, 20_000, 30_000)] == [64, 5_000, 20_000, 20_000]
    shown = choose_rows(log10_p, 20_000, 15)
    assert shown.size == 20_000
    assert (np.diff(shown) > 0).all()
    assert np.isin(np.argsort(log10_p)[:15], shown).all()
    # a random share of the others: its median is that of all within six standard errors
    assert abs(np.mean(log10_p[shown] < np.median(log10_p)) - 0.5) < 6 * 0.5 / np.sqrt(20_000)
    assert_array_equal(choose_rows(log10_p[:5_000], 5_000, 15), np.arange(5_000))


def test_of_wide_tables_only_cells_are_left_out():
    limits = PageLimits()
    wide = {(64, 6_830): 300, (5_000, 2_000): 40, (20_000, 50): 10, (2_000, 50): 50, (219, 52): 52, (100, 400): 300}
    assert {(n, d): limits.columns(n, d) for n, d in wide} == wide
    weight = np.random.default_rng(1).random((30, 12))
    weight[3, :4] = np.nan, np.inf, 0.99, 0.98
    columns = choose_columns(weight, 5)
    assert (np.diff(columns, axis=1) > 0).all()
    known = np.where(np.isfinite(weight), weight, 0.0)
    assert_array_equal(np.sort(np.take_along_axis(known, columns, 1)), np.sort(known)[:, -5:])
    assert_array_equal(choose_columns(weight, 12)[7], np.arange(12))


@quick
def test_the_cells_on_the_page_are_those_with_the_largest_contributions(fitted, x, tmp_path):
    settings = ReportSettings(limits=PageLimits(most_columns=3))
    data = read(report(fitted, x, tmp_path / "page.html", settings=settings)).data()
    columns = positions(data["columns"], N, 3)
    assert len(data["rows"]) == N
    mean, scale = np.array(data["mean"]), np.array(data["scale"])
    values, std = fitted.impute(x, return_std=True, training=True)
    shown = mean[columns] + scale[columns] * numbers(data["values"], N, 3)
    assert_allclose(shown, np.take_along_axis(values, columns, 1), atol=1e-4 * scale.max())
    contributions = fitted.outliers(x, training=True).contributions
    weight = np.where(np.isnan(x), std / scale, np.abs(contributions))
    assert_allclose(np.sort(np.take_along_axis(weight, columns, 1)), np.sort(weight)[:, -3:])
    missing = np.take_along_axis(np.isnan(x), columns, 1)
    assert_array_equal(bits(data["missing"], N, 3), missing)
    assert_allclose(numbers(data["std"], -1), np.take_along_axis(std / scale, columns, 1)[missing], rtol=2e-5)
    assert_array_equal(positions(data["missingCounts"], N), np.isnan(x).sum(axis=1))


@quick
def test_the_page_says_that_it_shows_a_sample(fitted, x, tmp_path):
    page = read(report(fitted, x, tmp_path / "page.html", labels=[f"r{i}" for i in range(N)], settings=FORTY))
    data = page.data()
    assert "The charts show 40 of the 60 rows: the 15 most unusual rows and a random share" in words_of(page)
    assert data["names"] == [f"r{i}" for i in data["rows"]]
    assert data["rows"][data["first"]] == 4
    assert_allclose(numbers(data["distance"], 40), fitted.outliers(x).distance[data["rows"]], rtol=2e-5)


@quick
@pytest.mark.parametrize(
    "made",
    [pd.DataFrame, pl.DataFrame, lambda x: pl.DataFrame(x).to_arrow(), sparse.csr_array, np.ndarray.tolist],
    ids=["pandas", "polars", "pyarrow", "sparse", "list"],
)
def test_a_sample_is_taken_of_any_kind_of_table(made, tmp_path):
    x = spiked_rows(np.random.default_rng(1), N, D, Q, noise=0.1)
    table = made(x)
    fitted = PPCA(Q).fit(table)
    data = read(report(fitted, table, tmp_path / "page.html", settings=FORTY)).data()
    assert_allclose(numbers(data["latent"], 40, Q), fitted.posterior(table).mean[data["rows"]], rtol=1e-4, atol=1e-6)


@quick
def test_names_and_titles_stay_text(x, tmp_path):
    x = np.nan_to_num(x, nan=100.0)
    fitted = PPCA(Q).fit(x)
    labels = [EVIL[i % len(EVIL)] for i in range(N)]
    plain = read(report(fitted, x, tmp_path / "plain.html", labels=["a"] * N))
    for title in EVIL:
        names = {"labels": labels, "feature_names": EVIL, "groups": dict.fromkeys(EVIL, labels)}
        place = report(fitted, x, tmp_path / "evil.html", title=title, **names)
        page = read(place)
        assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
        loads_nothing(place)
    data = page.data()
    assert data["names"] == [label or None for label in labels]
    assert data["features"] == [name or "(column 6)" for name in EVIL]
    assert "\u2028" not in place.read_text(encoding="utf-8").split('id="data"')[1].split("</script>")[0]


@pytest.mark.parametrize("labels", [None, ["a"] * N])
def test_the_number_of_a_row_stands_beside_its_name(fitted, x, tmp_path, labels):
    place = report(fitted, x, tmp_path / "page.html", labels=labels)
    table = place.read_text(encoding="utf-8").split('id="unusual"')[1].split("</table>")[0]
    head, body = table.split("</thead>")
    assert ("number</th>" in head) is (labels is not None)
    assert len(re.findall("<t[hd]", body.split("</tr>")[0])) == len(re.findall("<t[hd] ", head))


@pytest.mark.parametrize(("q", "count"), [(1, 4), (3, 13), (12, 31), (40, 70), (4, 4)])
def test_the_chart_of_variances_has_all_components_and_marks_the_chosen_number(q, count):
    shares = np.linspace(3.0, 1.0, count) / np.linspace(3.0, 1.0, count).sum()
    drawn = charts(shares, q, ChartSizes(10, 80, 40, 6))
    assert drawn.keys() == {"scree", "biplot", "loadings", "scores", "distances", "cells", "causes"}
    held = {len(rows[0]): rows for rows in drawn["scree"]["datasets"].values()}
    bars = held[5]
    assert len(bars) == min(count, max(30, q + 3))
    assert [bar["kind"] for bar in bars] == ["yes"] * q + ["no"] * (len(bars) - q)
    assert_allclose([bar["share"] for bar in bars], shares[: len(bars)])
    assert held.get(2) == ([{"k": q, "said": f"{q} kept"}] if q < count else None)


def test_it_is_small_and_loads_nothing(tmp_path):
    rng = np.random.default_rng(0)
    x = spiked_rows(rng, 2_000, 50, 6, noise=0.3)
    x[rng.random(x.shape) < 0.1] = np.nan
    place = report(PPCA(6, random_state=0).fit(x), x, tmp_path / "page.html")
    assert 1_000_000 < place.stat().st_size < 3_000_000
    loads_nothing(place)
    assert read(place).count("script") == 3


@quick
def test_only_the_scripts_of_the_page_may_run(fitted, x, tmp_path):
    text = report(fitted, x, tmp_path / "page.html").read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy.count("sha256-") == 2
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


@quick
def test_a_file_is_replaced_and_nothing_else_is_left(fitted, x, tmp_path):
    place = tmp_path / "page.html"
    place.write_text("old")
    assert report(fitted, x, str(place)) == place
    assert place.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [place]


@quick
def test_what_cannot_be_shown_is_refused_in_words(fitted, x, tmp_path):
    place = tmp_path / "page.html"
    with pytest.raises(ShapeError, match="labels must be 60 names; got 2"):
        report(fitted, x, place, labels=["a", "b"])
    with pytest.raises(ShapeError, match="groups must have 60 values, one for each row; 'sex' has 2"):
        report(fitted, x, place, groups={"sex": ["m", "f"]})
    with pytest.raises(ShapeError, match="feature_names must be 8 names; got 1"):
        report(fitted, x, place, feature_names=["a"])
    with pytest.raises(ShapeError, match="8 columns, as in the fit; got 5"):
        report(fitted, x[:, :5], place)
    with pytest.raises(ShapeError, match="at least one row"):
        report(fitted, x[:0], place)
    with pytest.raises(DataError, match="which is not fitted"):
        report(PPCA(2), x, place)
    with pytest.raises(DataError, match="got Pipeline"):
        report(make_pipeline(StandardScaler(), PPCA(2)), x, place)
    with pytest.raises(DataError, match="got LinearDynamicalSystem"):
        report(LinearDynamicalSystem(1, max_iter=5, tol=1e6, random_state=0).fit(x), x, place)
    with pytest.raises(SourceError, match="needs rows in memory; got str"):
        report(fitted, "rows.csv", place)
    with pytest.raises(SourceError, match="there is no folder"):
        report(fitted, x, tmp_path / "nowhere" / "page.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("absent", ["altair", "vl_convert"])
def test_without_altair_it_says_what_to_install(absent, fitted, x, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(ImportError, match=r"pip install 'probpca\[report\]'"):
        report(fitted, x, tmp_path / "page.html")


def test_packed_numbers_keep_nearly_five_digits():
    values = np.random.default_rng(0).standard_normal(1_000) * 10.0 ** np.linspace(-30, 30, 1_000)
    assert_allclose(numbers(packed(values), -1), values, rtol=2e-5)
    odd = np.array([0.0, np.inf, -np.inf, np.nan, 1e300])
    assert_array_equal(numbers(packed(odd), -1), [0.0, np.inf, -np.inf, np.nan, np.inf])


def test_words_for_numbers():
    assert [counted(1, "row"), counted(1200, "row")] == ["1 row", "1,200 rows"]
    assert [share(0.0), share(1e-6), share(0.25), share(0.99999), share(1.0)] == [
        "0.0%",
        "less than 0.1%",
        "25.0%",
        "more than 99.9%",
        "100.0%",
    ]
    assert p_text(np.log10(0.031)) == "0.031"
    assert p_text(-100.5) == "3.2 \u00d7 10⁻¹⁰¹"
    assert p_text(np.log10(9.99e-8)) == "1.0 \u00d7 10⁻⁷"


@quick
def test_columns_without_observed_cells_are_named_as_such(fitted, x, tmp_path):
    said = "had no observed cell in the fit: imputed values there are meaningless"
    assert said not in words_of(read(report(fitted, x, tmp_path / "page.html")))
    x[:, 3] = np.nan
    with pytest.warns(UserWarning, match="no observed cells in 1 of 8 columns"):
        empty = PPCA(Q, random_state=0).fit(x)
    assert said in words_of(read(report(empty, x, tmp_path / "page.html")))


@quick
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_without_noise_is_not_told_to_go_on(x, tmp_path):
    few = np.nan_to_num(x[:4])
    fitted = PPCA(3).fit(few)
    words = " ".join(" ".join(read(report(fitted, few, tmp_path / "page.html")).words).split())
    assert fitted.status_.value in words
    assert "use fewer components, or more rows" in words
    assert "Not converged" not in words
    assert "has not converged" not in words
    assert "No problems were found" not in words
