"""``probpca fit --model fa``: the factors are those of the library, and everything about them is printed."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from cli.conftest import FEATURES
from probpca import PPCA, BayesianPCA, FactorAnalysis
from probpca.cli import fit_commands
from probpca.learning.factor.fit_indices import fit_indices

pytestmark = pytest.mark.filterwarnings("ignore:the noise variance of:UserWarning")  # of the fits by hand
FIT = ("fit", "table.csv", "--model", "fa", "--components", 2)


@pytest.fixture
def frame(folder):
    """The columns of numbers of table.csv, which has missing cells."""
    return pl.read_csv(folder / "table.csv").select(FEATURES).to_pandas()


def by_hand(frame, components=2, **options):
    return FactorAnalysis(components, random_state=0, **options).fit(frame)


def facts(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def with_a_heywood_case():
    """Iris flowers, of which one factor explains the petal length completely."""
    return pd.DataFrame(load_iris().data, columns=["sepal length", "sepal width", "petal length", "petal width"])


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
def test_the_model_is_that_of_the_library(run, frame, rotation):
    options = ["--rotation", rotation] if rotation else []
    assert run(*FIT, *options).code == 0
    fitted, expected = FactorAnalysis.from_file("model.npz"), by_hand(frame, rotation=rotation)
    assert tuple(fitted.feature_names_in_) == FEATURES
    assert fitted.rotation == rotation
    assert_array_equal(fitted.loadings_, expected.loadings_)
    assert_array_equal(fitted.noise_variance_, expected.noise_variance_)
    assert_allclose(fitted.factor_correlations_, expected.factor_correlations_, atol=1e-15)


@pytest.mark.parametrize("rule", ["bic", "aic"])
def test_a_rule_chooses_the_number_of_factors(run, frame, rule):
    found = facts(run("fit", "table.csv", "--model", "fa", "--components", rule, "--json"))
    expected = by_hand(frame, rule)
    assert (found["n_components"], found["rule"]) == (expected.n_components_, rule.upper())


@pytest.mark.usefixtures("folder")
def test_each_family_has_its_estimator(run):
    for options, kind in (((), PPCA), (("--model", "ppca"), PPCA), (("--model", "bayesian"), BayesianPCA)):
        found = facts(run("fit", "table.csv", "--components", 2, *options, "--json", "--force"))
        assert found["model"] == kind.__name__
        assert kind.from_file("model.npz").n_components_ <= 2
    short = facts(run("fit", "table.csv", "--components", 2, "--bayesian", "--json", "--force"))
    assert short == found


def test_json_has_all_about_the_factors(run, frame):
    found, expected = facts(run(*FIT, "--rotation", "oblimin", "--json")), by_hand(frame, rotation="oblimin")
    expected.fit_indices(frame)
    for name, values in (
        ("components", expected.components_),
        ("standardized_loadings", expected.standardized_loadings_.T),
        ("structure", expected.structure_.T),
    ):
        assert [list(factor) for factor in found[name]] == [list(FEATURES)] * 2
        assert [list(factor.values()) for factor in found[name]] == values.tolist()
    for name in ("communalities", "uniquenesses", "noise_variance"):
        assert found[name] == dict(zip(FEATURES, getattr(expected, f"{name}_").tolist(), strict=True))
    assert found["factor_correlations"] == expected.factor_correlations_.tolist()
    assert found["rotation"]["method"] == "oblimin"
    assert found["rotation"]["matrix"] == expected.rotation_matrix_.tolist()
    assert found["explained_variance"] == expected.explained_variance_.tolist()
    assert found["log_likelihood"] == expected.log_likelihood_
    assert found["heywood_columns"] == [FEATURES[j] for j in expected.heywood_features_]
    assert_allclose(found["fit_indices"]["chi_square"], expected.fit_indices().chi_square, rtol=1e-6)
    assert found["fit_indices"].keys() == expected.fit_indices().to_dict().keys()


def test_the_summary_has_the_fit_indices_of_the_observed_cells(run, frame, monkeypatch):
    done = run(*FIT)
    assert (done.code, "component " in done.out) == (0, False)
    found = fit_indices(by_hand(frame).model_, frame)
    assert f"{found.chi_square:,.2f}, {found.df} degree" in done.out
    assert f"RMSEA {found.rmsea:.3f}" in done.out
    assert f"AIC {found.aic:,.1f}, BIC {found.bic:,.1f}" in done.out
    assert FactorAnalysis.from_file("model.npz").fit_indices().df == found.df
    monkeypatch.setattr(fit_commands, "MOST_WORK", 60 * 5**3 - 1)
    done = run(*FIT, "--force")
    assert (done.code, "RMSEA" in done.out, "chi-square" in done.out + done.err) == (0, False, False)
    assert facts(run(*FIT, "--json", "--force"))["fit_indices"] is None


@pytest.mark.parametrize("complete", [True, False])
def test_a_table_that_is_not_held_in_memory_gives_the_same_factors(run, frame, monkeypatch, complete):
    if complete:
        frame.fillna(1.5).to_csv("table.csv", index=False)
    whole = facts(run(*FIT, "--rotation", "varimax", "--json"))
    monkeypatch.setattr("probpca.sources.source.HELD_BYTES", 0)
    monkeypatch.setattr("probpca.sources.readers.csv.CSV_BYTES", 1000)
    streamed = facts(run(*FIT, "--rotation", "varimax", "--json", "--force"))
    for name in ("uniquenesses", "noise_variance"):
        # Both fits end within 0.001 nats of the maximum, so that they differ by a small share of a standard error.
        assert_allclose(list(streamed[name].values()), list(whole[name].values()), atol=1e-3)
    assert_allclose(streamed["log_likelihood"], whole["log_likelihood"], atol=2e-3)  # twice the tolerance of a fit
    if complete:
        assert_allclose(streamed["fit_indices"]["chi_square"], whole["fit_indices"]["chi_square"], atol=1e-5)
    else:
        assert streamed["fit_indices"] is None


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("width", [60, 88])
def test_columns_without_noise_are_named_once(run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    with_a_heywood_case().to_csv("iris.csv", index=False)
    done = run("fit", "iris.csv", "--model", "fa", "--components", 1)
    assert (done.code, done.err) == (0, "")
    said = " ".join(done.out.split())
    assert said.count("Heywood") == 1
    assert "note Heywood cases, which the factors explain completely: petal length." in said
    assert max(map(len, done.out.splitlines())) <= width
    found = facts(run("fit", "iris.csv", "--model", "fa", "--components", 1, "--json", "--force"))
    assert found["heywood_columns"] == ["petal length"]
    assert "petal length" in " ".join(found["notes"])
    assert "No noise is left in petal length" in found["fit_indices"]["note"]


def test_factors_do_not_depend_on_units_and_nothing_advises_to_scale(run, frame):
    (frame * np.geomspace(0.001, 1000, 5)).to_csv("units.csv", index=False)
    done = run("fit", "units.csv", "--model", "fa", "--components", 2, "--rotation", "promax")
    plain = run(*FIT, "--rotation", "promax", "--force").out
    assert "standard deviations" not in done.out + done.err
    factors = [text[text.index("\nfactor") : text.index("\nuniq")] for text in (done.out, plain)]
    assert factors[0] == factors[1]


@pytest.mark.parametrize("missing", [False, True])
def test_a_column_that_repeats_another_is_explained_in_plain_words(run, frame, missing):
    frame = (frame if missing else frame.fillna(1.5)).assign(again=lambda columns: columns["a"])
    frame.to_csv("twice.csv", index=False)
    done = run("fit", "twice.csv", "--model", "fa", "--components", 2)
    said = " ".join(done.out.split())
    assert (done.code, done.err) == (0, "")
    if not missing:
        assert "status Degenerate: some columns are exact combinations of others" in said
        assert "again" in said.split("Heywood cases")[1].split("Use fewer factors")[0]
    assert not [word for word in ("n_components", "floor=", "tol", "solver", "rotation_options") if word in said]
    assert "chi-square" not in said  # there is no likelihood to compare with


@pytest.mark.usefixtures("folder")
def test_a_fit_without_degrees_of_freedom_is_not_tested(run):
    with_a_heywood_case().to_csv("iris.csv", index=False)
    done = run("fit", "iris.csv", "--model", "fa", "--components", 2)
    assert "chi-square        no test: -1 degrees of freedom are left\n" in done.out
    assert "nan" not in done.out
    assert "The Ledermann bound allows 1 factor" in done.out


@pytest.mark.usefixtures("folder")
def test_too_many_factors_are_refused_in_terms_of_options(run):
    done = run("fit", "table.csv", "--model", "fa", "--components", 5)
    assert (done.code, done.out) == (1, "")
    assert "error: --components must lie between 1 and" in done.err
    assert "\nHint: --components 4 is the most that 5 columns allow" in done.err
