"""LinearDynamicalSystem with a trend and a season of each feature: parameters, answers, words and files."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from oracles import punched
from probpca import DataError, LinearDynamicalSystem, ShapeError
from probpca.estimators.series_tables import Reading, read_tables
from probpca.models import load_model

NAMES = ["births", "deaths"]
ROWS = "rows are steps of time: what one of them says depends on those around it"
UNORDERED = {"check_methods_sample_order_invariance": ROWS, "check_methods_subset_invariance": ROWS}


@pytest.fixture
def table():
    rng, t = np.random.default_rng(0), np.arange(72)
    y = np.c_[0.5 * t + 4 * np.sin(np.pi * t / 6), np.zeros(72)] + rng.standard_normal((72, 2))
    return pd.DataFrame(y, index=pd.date_range("2015-01-31", periods=72, freq="ME"), columns=NAMES)


@pytest.fixture
def system(table):
    return LinearDynamicalSystem().fit(table)


@parametrize_with_checks([LinearDynamicalSystem()], expected_failed_checks=lambda _: UNORDERED)
def test_scikit_learn_finds_nothing_else_to_object_to(estimator, check):
    check(estimator)


def test_trend_and_season_are_found_by_the_index(system, table):
    assert system.trend_ == ["drift", "constant"]
    assert system.seasonal_ == ["fixed", None]
    assert (system.seasonal_periods_, system.n_components_) == (12, 0)
    assert system.rule_ == "trend and season by BIC among 1,320 candidates"
    assert system.converged_
    ahead = system.forecast(12)
    t = 72 + np.arange(12)
    assert_allclose(ahead.mean["births"], 0.5 * t + 4 * np.sin(np.pi * t / 6), atol=1.5)
    assert ahead.mean.index[0] == pd.Timestamp("2021-01-31")
    inside = (ahead.interval()[0] < ahead.mean) & (ahead.mean < ahead.interval()[1])
    assert inside.all(axis=None)
    assert_allclose(system.log_likelihood(table), system.log_likelihood_)


def test_states_have_names_and_make_the_rows(system, table):
    names = system.get_feature_names_out()
    assert list(names[:3]) == ["births level", "births slope", "births season 1"]
    assert names[-1] == "deaths level"
    states = system.transform(table)
    assert states.shape == (72, len(names))
    fitted = system.inverse_transform(states)
    assert np.sqrt(np.square(fitted - table.to_numpy()).mean()) < 1.2
    assert list(clone(system).set_output(transform="pandas").fit_transform(table).columns) == list(names)


def test_factors_are_none(system):
    A, C = system.factors_
    assert A.shape == (0, 0)
    assert C.shape == (2, 0)
    assert system.eigenvalues_.size == 0
    with pytest.raises(DataError, match=r"to_ppca\(\) needs a stationary system"):
        system.to_ppca()


@pytest.mark.parametrize(
    ("parameters", "trend", "seasonal"),
    [
        ({"trend": "level"}, ["level"] * 2, [None] * 2),
        ({"trend": ["slope", "ar"], "seasonal": "fixed", "seasonal_periods": 4}, ["slope", "ar"], ["fixed"] * 2),
        ({"trend": None, "n_components": 0}, ["constant"] * 2, [None] * 2),
        ({"trend": [None, "damped"]}, ["constant", "damped"], [None] * 2),
        ({"trend": None, "seasonal": "stochastic", "seasonal_periods": 6}, ["constant"] * 2, ["stochastic"] * 2),
        ({"trend": "drift", "seasonal": None, "seasonal_periods": 6}, ["drift"] * 2, [None] * 2),
    ],
    ids=str,
)
def test_words_are_followed(table, parameters, trend, seasonal):
    system = LinearDynamicalSystem(**parameters).fit(table.to_numpy())
    assert system.trend_ == trend
    assert system.seasonal_ == seasonal
    assert system.rule_ == "as given"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"seasonal": "fixed"}, "needs the number of steps of a season"),
        ({"trend": "level", "noise": "isotropic"}, "trend='level' gives .* cannot be combined with noise='isotropic'"),
        ({"trend": "level", "transition": np.eye(1)}, "cannot be combined with transition"),
        ({"seasonal_periods": 12, "noise": "isotropic"}, "seasonal_periods=12 gives .* combined with noise"),
        ({"seasonal_periods": 12, "n_components": "cv"}, "seasonal_periods=12 gives .* combined with n_components"),
        ({"seasonal_periods": 500, "seasonal": "fixed"}, r"season of 500 steps needs more rows than that"),
        ({"trend": ["level"]}, "one for each of the 2 features; got 1"),
        ({"trend": ["level", "up"]}, "got 'up'"),
    ],
    ids=str,
)
def test_words_that_contradict_each_other_are_refused(table, parameters, message):
    with pytest.raises((DataError, ShapeError), match=message):
        LinearDynamicalSystem(**parameters).fit(table.to_numpy())


def test_a_season_that_is_asked_for_is_looked_for_without_trends(table):
    system = LinearDynamicalSystem(trend=None, seasonal_periods=12).fit(table.to_numpy())
    assert (system.trend_, system.seasonal_periods_) == (["constant"] * 2, 12)


def test_rows_that_are_too_few_for_a_season_are_said_to_be(table):
    short = LinearDynamicalSystem(seasonal_periods=12).fit(table.to_numpy()[:20])
    assert short.seasonal_ == [None, None]
    assert "too few rows for a season of 12 steps" in short.rule_
    assert "too few" not in LinearDynamicalSystem(seasonal_periods=12).fit(table.to_numpy()).rule_
    assert "too few" not in LinearDynamicalSystem(seasonal=None, seasonal_periods=12).fit(table.to_numpy()[:20]).rule_


def test_what_is_predicted_to_the_last_digit_has_the_simplest_trend():
    """Candidates with more parameters are not preferred because the variance that they expect is smaller."""
    t = np.arange(80.0)
    noise = np.random.default_rng(0).standard_normal(80)
    y = np.column_stack([np.full(80, 5.0), 3 * t, np.sin(2 * np.pi * t / 12), noise])
    system = LinearDynamicalSystem(seasonal_periods=12).fit(y)
    assert system.trend_[:3] == ["constant", "drift", "constant"]
    assert system.seasonal_[:3] == [None, None, "fixed"]


def test_a_system_of_common_states_is_what_it_was(table):
    plain = LinearDynamicalSystem(1, trend=None, random_state=0, tol=1.0).fit(table)
    assert plain.model_.layout is None
    assert plain.seasonal_periods_ == 1
    for parameters in ({"noise": "isotropic"}, {"transition": "stable"}):
        assert LinearDynamicalSystem(1, random_state=0, tol=1.0, **parameters).fit(table).model_.layout is None


def test_several_sequences_with_gaps_share_their_components(table):
    y = punched(np.random.default_rng(1), table.to_numpy(), 0.1)
    system = LinearDynamicalSystem(seasonal_periods=12).fit([y[:36], y[36:]])
    assert [one.mean.shape for one in system.forecast(2)] == [(2, 2)] * 2
    assert not np.isnan(system.impute([y[:36], y[36:]])[0]).any()
    assert_allclose(system.log_likelihood([y[:36], y[36:]]), system.log_likelihood_)


def test_an_unusual_month_is_found(system, table):
    table.iloc[50, 0] += 12
    found = system.anomalies(table)
    assert found.p_value[14:].argmin() == 50 - 14
    assert found.cell_p_value[50, 1] > 0.01


def test_the_summary_says_what_was_chosen(system):
    text = system.summary()
    assert "own components of each feature (trend and season by BIC among 1,320 candidates)" in text
    assert "births" in text
    assert "level with a fixed slope" in text
    assert "12 steps" in text
    assert "modulus" not in text
    assert "Exact search" in text


def test_a_stored_system_forecasts_the_same_bits(system, tmp_path):
    system.to_file(tmp_path / "system.npz")
    for again in (LinearDynamicalSystem.from_file(tmp_path / "system.npz"), pickle.loads(pickle.dumps(system))):  # noqa: S301
        pd.testing.assert_frame_equal(again.forecast(3).mean, system.forecast(3).mean, check_freq=False)
        assert again.trend_ == system.trend_
        assert again.model_.layout.roles == system.model_.layout.roles
    assert_array_equal(load_model(tmp_path / "system.npz").layout.features, system.model_.layout.features)


def test_trends_of_features_are_stored(table, tmp_path):
    LinearDynamicalSystem(trend=["level", None]).fit(table).to_file(tmp_path / "system.npz")
    assert LinearDynamicalSystem.from_file(tmp_path / "system.npz").trend == ["level", None]


def test_rows_that_arrive_later_are_those_of_a_longer_table(table):
    y = table.to_numpy()
    system = LinearDynamicalSystem(seasonal_periods=12).fit(y)
    for row in y[-3:]:
        state = system.update(row).state_mean
    longer = np.vstack([y, y[-3:]])
    assert_allclose(state, system.filter(longer).filtered.mean[-1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("index", "period"),
    [
        (pd.date_range("2000", periods=30, freq="MS"), 12),
        (pd.period_range("2000", periods=30, freq="Q"), 4),
        (pd.date_range("2000", periods=30, freq="YE"), 1),
        (pd.date_range("2000", periods=30, freq="W"), 52),
        (pd.date_range("2000", periods=30, freq="D"), 7),
        (pd.date_range("2000", periods=30, freq="B"), 5),
        (pd.date_range("2000", periods=30, freq="h", tz="Europe/Berlin"), 24),
        (pd.date_range("2000", periods=30, freq="30min"), 48),
        (pd.date_range("2000", periods=30, freq="7min"), 1),
        (pd.date_range("2000", periods=30, freq="MS").delete([3, 9, 10]), 12),
        (pd.RangeIndex(30), 1),
        (pd.DatetimeIndex(["2000"]), 1),
    ],
)
def test_the_season_that_an_index_suggests(index, period):
    frame = pd.DataFrame({"a": np.arange(float(len(index)))}, index=index)
    for tables, wanted in (([frame], period), ([frame, frame], period), ([frame.to_numpy()], 1)):
        _, reading = read_tables(LinearDynamicalSystem(), tables, reading=Reading(), reset=True)
        assert reading.season == wanted
