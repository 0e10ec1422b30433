"""select_n_components and PPCA(n_components=<criterion>): the same answers, told to people."""

from functools import partial
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import closed_form_oracle, punched, spiked_rows
from probpca import PPCA, DataError, FactorAnalysis, PPCAImputer, ShapeError, select_n_components
from probpca.learning import Selection
from probpca.learning.components import RULES, SELECTION_RULES
from probpca.learning.selection.result import agreement_of
from probpca.learning.selection.tables import at_hand
from probpca.learning.settings import SampleSize, Settings

COMPLETE = ["parallel", "bic", "evidence", "cv", "gavish_donoho"]
Q = 3
INTERPRET, PREDICT = "To interpret components, use", "To predict or impute cells, use"
BETWEEN = "The criteria choose between"
NOISE = "noise that differs between columns as components."
OWN = "With a noise variance for each column,"
FACTORS = ["fa_bic", "fa_aic"]


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 150, 10, Q, noise=0.03, largest=2.0)


@pytest.fixture
def holed(rng, x):
    return np.where(rng.random(x.shape) < 0.15, np.nan, x)


@pytest.fixture(scope="module")
def found():
    rows = spiked_rows(np.random.default_rng(3), 150, 10, Q, noise=0.03, largest=2.0)
    return select_n_components(rows, COMPLETE, random_state=0)


def test_every_criterion_finds_strong_components(found):
    assert isinstance(found, Selection)
    assert found.choices == dict.fromkeys(COMPLETE, Q)
    assert found.agreement == "All five criteria choose 3."


def test_curves_are_those_of_fits(x):
    found = select_n_components(x, "bic")["bic"]
    for q, score in zip(found.n_components, found.score, strict=True):
        free = 10 * q - q * (q - 1) / 2 + 1 + 10
        assert_allclose(score, closed_form_oracle(x, q).log_likelihood - 0.5 * free * np.log(150), rtol=1e-9)


def test_bic_of_missing_cells_is_that_of_fits(holed):
    found = select_n_components(holed, "bic", random_state=0)["bic"]
    assert found.choice == Q
    for q, score in zip(found.n_components, found.score, strict=True):
        free = 10 * q - q * (q - 1) / 2 + 1 + 10
        fit = PPCA(int(q), random_state=0).fit(holed)
        penalty = 0.5 * free * np.log((~np.isnan(holed)).sum() / 10)
        assert_allclose(score, fit.log_likelihood_ - penalty, atol=0.05)


def test_the_table_has_every_curve(found):
    table = found.to_dict()
    assert list(table) == ["n_components", "parallel", "bic", "evidence", "cv", "cv_standard_error", "gavish_donoho"]
    assert {column.size for column in table.values()} == {9}
    assert_array_equal(table["n_components"], np.arange(1, 10))
    assert table["bic"].argmax() + 1 == Q
    assert (table["parallel"][:Q] > 1).all()
    assert table["cv_standard_error"][table["cv"].argmax()] == 0


def test_a_curve_that_ends_earlier_is_short_in_the_table(rng):
    found = select_n_components(spiked_rows(rng, 150, 30, Q, noise=0.03), ["bic", "cv"], random_state=0)
    table = found.to_dict()
    assert_array_equal(np.isnan(table["cv"]), table["n_components"] > 10)
    assert found.choices == {"bic": Q, "cv": Q}


def test_print_shows_every_curve_with_its_choice_marked(found):
    lines = str(found).splitlines()
    assert lines[0] == "Number of components: 150 rows x 10 features"
    assert [line.split()[0] for line in lines[2 : 2 + len(COMPLETE)]] == COMPLETE
    assert found.agreement in lines
    curves = lines[lines.index("") + 2 :]
    assert curves[0].split() == ["components", *COMPLETE]
    chosen = next(line for line in curves if line.split()[:1] == [str(Q)])
    assert chosen.count("*") == len(COMPLETE)
    assert sum(line.count("*") for line in curves) == len(COMPLETE)


def test_long_curves_are_printed_around_the_choices(rng):
    scores = str(select_n_components(spiked_rows(rng, 200, 40, 20, noise=0.02, largest=2), ["bic", "evidence"]))
    shown = [line.split()[0] for line in scores.partition("\n\n")[2].splitlines()]
    assert shown == ["Scores:", "components", "nats", *"12345", "...", "19", "20", "21"]


def test_all_criteria_that_apply_are_asked(holed):
    found = select_n_components(holed, random_state=0)
    assert [c.name for c in found.criteria] == list(SELECTION_RULES)
    assert set(found.choices) - {"ard"} == {"parallel", "bic", "cv", "fa_bic", "fa_aic"}
    assert found["evidence"].choice is None
    assert found["evidence"].note == "Minka's evidence needs complete rows; cells are missing here."
    line = next(line for line in str(found).splitlines() if line.startswith("evidence"))
    assert line.split(maxsplit=2)[1:] == ["-", "needs complete rows; cells are missing here."]


@pytest.mark.parametrize("name", ["cv", "parallel", "gavish_donoho", "bic", "evidence"])
def test_the_estimator_chooses_what_the_function_does(x, name):
    ppca = PPCA(name, random_state=5).fit(x)
    assert ppca.n_components_ == select_n_components(x, name, random_state=5).choices[name]
    assert ppca.rule_ == RULES[name]
    assert RULES[name] in ppca.summary()


def test_a_hard_case_is_chosen_the_same_way_too(rng):
    hard = spiked_rows(rng, 60, 12, 4, noise=1.0, largest=5.0)
    for name in ("cv", "parallel"):
        choice = select_n_components(hard, name, random_state=1).choices[name]
        assert PPCA(name, random_state=1).fit(hard).n_components_ == choice


@pytest.mark.parametrize("solver", ["auto", "em", "svd"])
def test_any_solver_goes_with_any_criterion(x, solver):
    for name in ("cv", "gavish_donoho"):
        ppca = PPCA(name, solver=solver, random_state=0).fit(x)
        assert (ppca.n_components_, ppca.rule_) == (Q, RULES[name])


def test_missing_cells_and_standardized_columns_can_be_cross_validated(x, holed):
    assert PPCA("cv", random_state=0).fit(holed).n_components_ == Q
    scaled, units = x * np.geomspace(1e-3, 1e3, 10), x / x.std(axis=0)
    wanted = select_n_components(units, "cv", random_state=0).choices["cv"]  # noise differs between these columns
    assert PPCA("cv", standardize=True, random_state=0).fit(scaled).n_components_ == wanted
    assert PPCAImputer("cv", model="ppca", random_state=0).fit(holed).estimator_.n_components_ == Q
    stored = sparse.csr_array((holed[~np.isnan(holed)], np.nonzero(~np.isnan(holed))), shape=holed.shape)
    assert PPCA("cv", missing="unstored", random_state=0).fit(stored).n_components_ == Q


@pytest.mark.parametrize("name", ["cv", "parallel", "bic"])
def test_standardized_columns_have_no_units(x, name):
    options = {"criteria": name, "standardize": True, "random_state": 0}
    plain, scaled = (select_n_components(y, **options)[name] for y in (x, x * np.geomspace(1e-3, 1e3, 10)))
    assert_allclose(scaled.score, plain.score, rtol=1e-5)


@pytest.mark.parametrize("name", ["cv", "parallel"])
def test_rows_that_are_not_at_hand_are_judged_by_a_sample(x, name, tmp_path):
    np.save(tmp_path / "x.npy", x)
    batches = np.array_split(x, 4)
    for rows in (str(tmp_path / "x.npy"), batches, iter(batches)):
        ppca = PPCA(name, random_state=0).fit(rows)
        assert ppca.n_components_ == Q
        assert ppca.rule_ == RULES[name]  # all of so few rows are in the sample
        assert ppca.n_samples_ == 150


def test_a_sample_is_said_to_be_one(x, tmp_path, monkeypatch):
    size = SampleSize(cells=800, rows=100)
    monkeypatch.setattr("probpca.estimators.ppca.Settings", partial(Settings, sample=size))
    monkeypatch.setattr("probpca.learning.selection.choose.at_hand", lambda source, rng, *_: at_hand(source, rng, size))
    np.save(tmp_path / "x.npy", x)
    ppca = PPCA("cv", random_state=0).fit(tmp_path / "x.npy")
    assert ppca.rule_ == "cross-validation of cells, in a sample of 100 rows"
    assert ppca.n_samples_ == 150
    assert PPCA("gavish_donoho").fit(tmp_path / "x.npy").rule_ == RULES["gavish_donoho"]  # sums of all rows do
    assert "100 rows x 10 features (a sample)" in str(select_n_components(tmp_path / "x.npy", "bic", random_state=0))


def test_weights_count_rows(x):
    weight = np.tile([2.0, 0.0, 1.0], 50)
    rows = np.repeat(x, weight.astype(int), axis=0)
    weighted = select_n_components(x, ["parallel", "bic", "evidence", "gavish_donoho"], sample_weight=weight)
    repeated = select_n_components(rows, ["parallel", "bic", "evidence", "gavish_donoho"])
    for name in weighted.choices:
        assert_allclose(weighted[name].score, repeated[name].score, rtol=1e-8)
    assert weighted.n_samples == 150


def test_the_same_seed_gives_the_same_answer_whoever_else_is_asked(x):
    together = select_n_components(x, COMPLETE, random_state=3, n_jobs=1)
    for name in ("cv", "parallel"):
        alone = select_n_components(x, name, random_state=3, n_jobs=2)[name]
        assert_array_equal(alone.score, together[name].score)
    other = select_n_components(x, "cv", random_state=4)["cv"]
    assert not np.array_equal(other.score, together["cv"].score)


def test_a_limit_is_kept(x, holed):
    for rows, names in ((x, COMPLETE), (holed, ["bic", "cv"])):
        found = select_n_components(rows, names, max_components=2, random_state=0)
        assert {c.n_components.size for c in found.criteria} == {2}
        assert max(found.choices.values()) == 2


def test_progress_can_be_watched(x, capsys):
    select_n_components(x, ["bic", "cv"], verbose=True, random_state=0)
    assert "cross-validation of cells" in capsys.readouterr().err
    select_n_components(x, "bic")
    PPCA("cv", random_state=0).fit(x)
    assert capsys.readouterr().err == ""
    PPCA("cv", verbose=True, random_state=0).fit(x)
    assert "of at most 9 components" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"criteria": "aic"}, DataError, "'ard', 'gavish_donoho', 'fa_bic', 'fa_aic'; got 'aic'"),
        ({"criteria": ["bic", "aic"]}, DataError, "got 'aic'"),
        ({"criteria": []}, DataError, "got an empty list"),
        ({"max_components": 0}, ShapeError, "int of at least 1, or None; got 0"),
        ({"max_components": 2.5}, ShapeError, "got 2.5"),
        ({"max_components": True}, ShapeError, "got True"),
        ({"missing": "zero"}, DataError, "'nan' or 'unstored'; got 'zero'"),
        ({"sample_weight": [1.0]}, ShapeError, "weight"),
    ],
)
def test_what_cannot_be_asked_is_said(x, options, error, said):
    with pytest.raises(error, match=said):
        select_n_components(x, **options)


def test_one_column_has_no_components_to_count():
    with pytest.raises(ShapeError, match="at least 2"):
        select_n_components(np.arange(6.0)[:, None])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (np.ones((5, 3)), "no variation to explain"),
        (np.array([[1.0, np.inf], [2.0, 3.0], [3.0, 4.0]]), "infinity"),
        (np.ones((1, 3)), "at least 2 rows"),
    ],
)
def test_rows_that_say_nothing_are_refused_by_all(rows, said):
    with pytest.raises(DataError, match=said):
        select_n_components(rows)
    with pytest.raises(ValueError, match=r"variation|infinity|minimum of 2"):
        PPCA("cv").fit(rows)


@pytest.mark.parametrize("shape", [(3, 2), (3, 8), (10, 2)])
def test_small_tables_are_answered(rng, shape):
    assert set(select_n_components(rng.standard_normal(shape), COMPLETE, random_state=0).choices.values()) == {1}


def test_what_was_not_asked_cannot_be_looked_up(found):
    with pytest.raises(KeyError, match="'ard' was not among the criteria: parallel, bic, evidence"):
        found["ard"]


def test_a_criterion_that_looks_at_rows_does_not_go_with_batches_that_are_summed(x):
    with pytest.raises(DataError, match=r"partial_fit keeps only sums over them(.|\n)*Hint"):
        PPCA("cv").partial_fit(x)


def test_an_unknown_criterion_is_refused_by_the_estimator(x):
    with pytest.raises(ValueError, match="'n_components' parameter of PPCA"):
        PPCA("aic").fit(x)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({}, "No criterion applies."),
        ({"cv": 2}, "cv chooses 2; no other criterion was computed."),
        ({"cv": 2, "bic": 2}, "Both criteria choose 2."),
        (
            {"bic": 3, "cv": 3, "evidence": 12},
            f"{BETWEEN} 3 and 12. {PREDICT} 3 (cv). evidence also counts {NOISE}",
        ),
        (
            {"parallel": 2, "bic": 3, "cv": 3},
            f"{BETWEEN} 2 and 3. {INTERPRET} 2 (parallel). {PREDICT} 3 (cv).",
        ),
        (
            {"parallel": 2, "bic": 7, "evidence": 7, "cv": 5},
            f"{BETWEEN} 2 and 7. {INTERPRET} 2 (parallel). {PREDICT} 5 (cv). bic and evidence also count {NOISE}",
        ),
        ({"bic": 3, "evidence": 5}, f"{BETWEEN} 3 and 5."),
        (
            {"parallel": 3, "cv": 7, "fa_bic": 4, "fa_aic": 6},
            f"{BETWEEN} 3 and 7. {INTERPRET} 3 (parallel). {PREDICT} 7 (cv). {OWN} 4 factors fit best (fa_bic).",
        ),
        ({"bic": 7, "fa_bic": 1}, f"{BETWEEN} 1 and 7. bic also counts {NOISE} {OWN} 1 factor fits best (fa_bic)."),
        (
            {"parallel": 2, "fa_aic": 3},
            f"{BETWEEN} 2 and 3. {INTERPRET} 2 (parallel). {OWN} 3 factors fit best (fa_aic).",
        ),
    ],
)
def test_choices_are_put_into_a_sentence(choices, said):
    assert agreement_of(choices) == said


def test_components_that_stay_alive_are_counted(x, holed):
    for rows in (x, holed):
        found = select_n_components(rows, "ard", random_state=0)
        assert found.choices == {"ard": Q}
        assert np.isnan(found.to_dict()["ard"]).all()
        assert str(found).splitlines()[2].split()[:3] == ["ard", "3", "prediction:"]
        ppca = PPCA("ard", random_state=0).fit(rows)
        assert (ppca.n_components_, ppca.rule_) == (Q, "automatic relevance determination")


def test_noise_has_one_component_that_stays_alive(rng):
    assert select_n_components(rng.standard_normal((100, 8)), "ard", random_state=0).choices == {"ard": 1}


def test_it_is_said_when_all_components_stay_alive(x):
    assert select_n_components(x, "ard", max_components=2)["ard"].note == "all 2 initial components kept"


def test_all_criteria_agree_on_strong_components(x):
    found = select_n_components(x, random_state=0)
    assert found.agreement == "All eight criteria choose 3."


def unequal(rng, n=150, d=10):
    """Three factors, and noise that differs between columns."""
    return spiked_rows(rng, n, d, Q, noise=0.0, largest=2.0) + rng.standard_normal((n, d)) * np.geomspace(0.1, 1, d)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("share", [0.0, 0.15], ids=["complete", "missing"])
def test_curves_of_factors_are_those_of_fits(rng, share):
    x = punched(rng, unequal(rng), share)
    found = select_n_components(x, FACTORS, random_state=0)
    assert found.choices == {f"fa_{rule}": FactorAnalysis(rule).fit(x).n_components_ for rule in ("bic", "aic")}
    for name, penalty in (("fa_bic", 0.5 * np.log((~np.isnan(x)).sum() / 10)), ("fa_aic", 1.0)):
        curve = found[name]
        assert curve.choice == curve.n_components[curve.score.argmax()]
        for q, score in zip(range(1, Q + 1), curve.score, strict=False):  # with more there are several maxima
            fit = FactorAnalysis(q, n_init=3, random_state=0).fit(x)
            free = 10 * q - q * (q - 1) / 2 + 2 * 10
            assert_allclose(score, fit.log_likelihood_ - penalty * free, atol=0.05)
            if not share:
                indices = fit.fit_indices()
                assert_allclose(score, -0.5 * {"fa_bic": indices.bic, "fa_aic": indices.aic}[name], atol=0.05)


def test_factors_are_counted_where_components_are_not(rng):
    """Noise that differs between columns is no factor, with any units."""
    x = unequal(rng, n=1000, d=20)
    found = select_n_components(x, ["bic", "fa_bic"])
    assert found.choices["bic"] > 10
    assert found.choices["fa_bic"] == Q
    for table in (x * np.geomspace(1e-3, 1e3, 20), x / x.std(axis=0)):
        scaled = select_n_components(table, "fa_bic", standardize=True)["fa_bic"]
        assert_allclose(scaled.shown, found["fa_bic"].shown, atol=1e-2)


@pytest.mark.parametrize("share", [0.0, 0.1], ids=["complete", "missing"])
def test_both_criteria_of_factors_need_one_search(rng, share, monkeypatch):
    x = punched(rng, unequal(rng), share)
    place = "probpca.learning.factor.complete._path" if share == 0 else "probpca.learning.missing.start.spectral_start"
    module, name = place.rsplit(".", 1)
    search, begun = getattr(import_module(module), name), []
    monkeypatch.setattr(place, lambda *args: [begun.append(args), search(*args)][1])
    select_n_components(x, FACTORS, random_state=0)
    assert len(begun) == 1


@pytest.mark.parametrize("share", [0.0, 0.1], ids=["complete", "missing"])
def test_a_limit_of_factors_is_kept_and_mentioned(rng, share):
    x = punched(rng, unequal(rng), share)
    found = select_n_components(x, FACTORS, max_components=2, random_state=0)
    assert found.choices == {"fa_bic": 2, "fa_aic": 2}
    assert {c.n_components.size for c in found.criteria} == {2}
    assert {c.note for c in found.criteria} == {"the largest number tried"}
    assert not select_n_components(x, "fa_bic", random_state=0)["fa_bic"].note


def test_weights_count_rows_of_factors(rng):
    x, weight = unequal(rng), np.tile([2.0, 0.0, 1.0], 50)
    weighted = select_n_components(x, FACTORS, sample_weight=weight)
    repeated = select_n_components(np.repeat(x, weight.astype(int), axis=0), FACTORS)
    for name in FACTORS:
        assert_allclose(weighted[name].score, repeated[name].score, atol=1e-2)


@pytest.mark.parametrize("kind", ["wide", "batches", "float32", "sparse"])
def test_factors_are_counted_in_any_rows(rng, kind):
    x = unequal(rng, n=60, d=150) if kind == "wide" else unequal(rng, n=600)
    rows = {"batches": np.array_split(x, 7), "float32": x.astype(np.float32), "sparse": sparse.csr_array(x)}
    assert select_n_components(rows.get(kind, x), "fa_bic", random_state=0).choices == {"fa_bic": Q}


def test_the_bound_of_ledermann_is_mentioned(rng):
    found = select_n_components(spiked_rows(rng, 200, 6, 3, noise=0.01, largest=2.0), "fa_bic")["fa_bic"]
    assert (found.choice, found.note) == (3, "the largest number that the Ledermann bound allows")


def test_two_columns_do_not_determine_factors(rng):
    found = select_n_components(rng.standard_normal((40, 2)), "fa_bic")["fa_bic"]
    assert found.choice == 1
    assert "The Ledermann bound allows 0 factors for 2 varying columns" in found.note


@pytest.mark.parametrize("share", [0.0, 0.3], ids=["complete", "missing"])
def test_too_few_rows_for_factors_get_a_note(share):
    x = np.random.default_rng(1).standard_normal((2, 4))
    x[0, 0] = np.nan if share else x[0, 0]
    found = select_n_components(x, random_state=0)
    assert found["fa_bic"].note == "at least 3 rows are needed for factor analysis; got n_samples=2."
    with pytest.raises(ShapeError, match="at least 3 rows"):
        select_n_components(x, "fa_aic", random_state=0)


def test_curves_of_factors_have_a_table_of_their_own(rng):
    found = select_n_components(unequal(rng), ["parallel", *FACTORS], random_state=0)
    _, components, factors = str(found).split("\n\n")
    assert components.splitlines()[1].split() == ["components", "parallel"]
    assert factors.splitlines()[0] == "Scores of FactorAnalysis: higher is better, * marks the choice"
    assert factors.splitlines()[1].split() == ["factors", *FACTORS]
    assert factors.count("*") == 1 + len(FACTORS)
    assert list(found.to_dict()) == ["n_components", "parallel", *FACTORS]


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_rows_in_several_blocks_are_put_together(rng, form):
    x = spiked_rows(rng, 700, 6, 2, noise=0.1)
    x[rng.random(x.shape) < 0.3] = np.nan
    weight = rng.integers(1, 3, 700)
    if form == "sparse":
        x = sparse.csr_array((x[~np.isnan(x)], np.nonzero(~np.isnan(x))), shape=x.shape)
    options = {"standardize": True, "missing": "unstored", "sample_weight": weight, "max_components": 2}
    one, several = (select_n_components(x, "cv", random_state=0, n_jobs=jobs, **options)["cv"] for jobs in (1, 3))
    assert_allclose(several.score, one.score, rtol=1e-9)
    assert several.choice == 2


@pytest.mark.parametrize("name", ["evidence", "gavish_donoho"])
def test_a_criterion_that_is_asked_for_by_name_and_does_not_apply_is_an_error(holed, name):
    with pytest.raises(DataError, match="needs complete rows"):
        select_n_components(holed, ["bic", name], random_state=0)


def test_rows_of_a_sample_count_as_often_as_they_came(x, tmp_path):
    np.save(tmp_path / "x.npy", np.repeat(x, 2, axis=0))
    found = select_n_components(tmp_path / "x.npy", ["bic", "evidence"], random_state=0)
    assert found.n_samples == 300
    wanted = select_n_components(np.repeat(x, 2, axis=0), ["bic", "evidence"])
    for name in ("bic", "evidence"):
        assert_allclose(found[name].score, wanted[name].score, rtol=1e-8)
