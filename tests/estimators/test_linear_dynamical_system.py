"""LinearDynamicalSystem: time series in, time series out, and scikit-learn's habits wherever time allows them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from oracles import dense_covariance, punched, random_system
from probpca import DataError, LinearDynamicalSystem, ShapeError
from probpca.inference import filter_states, impute_series, innovations, sample_series, series_log_likelihood, smooth

NAMES = ["height", "width", "depth", "mass"]
NAN = np.nan
ROWS = "rows are steps of time: what one of them says depends on those around it"
UNORDERED = {"check_methods_sample_order_invariance": ROWS, "check_methods_subset_invariance": ROWS}


def lds(q=2, **options):
    given = {"trend": None, "transition": "free", "tol": 1.0, "random_state": 0}
    return LinearDynamicalSystem(q, **{**given, **options})


@pytest.fixture
def x(rng):
    y = punched(rng, sample_series(random_system(rng, 4, 2), 40, rng=rng).rows, 0.15)
    y[11] = NAN
    return y


@pytest.fixture
def several(x):
    return [x[:18], x[18:19], x[19:]]


@pytest.fixture
def system(x):
    return lds().fit(x)


@pytest.fixture
def inputs(rng):
    return rng.standard_normal((40, 1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([LinearDynamicalSystem(1, max_iter=5)], expected_failed_checks=lambda _: UNORDERED)
def test_scikit_learn_finds_nothing_else_to_object_to(estimator, check):
    check(estimator)


# Answers


def test_scores_are_those_of_the_model(system, x):
    total = series_log_likelihood(system.model_, x)
    assert_allclose(system.log_likelihood(x), total, rtol=1e-12)
    assert_allclose(system.score(x), total / 40, rtol=1e-12)
    assert_allclose(system.score_samples(x).sum(), total, rtol=1e-9)
    assert_allclose(system.log_likelihood_, total, rtol=1e-9)
    assert system.score_samples(x)[11] == 0
    assert system.n_steps_ == 40
    assert system.n_observed_ == np.count_nonzero(~np.isnan(x))


def test_states_are_those_of_the_model(system, x):
    wanted = smooth(system.model_, x)
    assert_allclose(system.transform(x), wanted.mean, rtol=1e-12)
    for found, part in zip(system.smooth(x), wanted, strict=True):
        assert_allclose(found, part, rtol=1e-12)
    known, told = filter_states(system.model_, x), system.filter(x)
    assert_allclose(told.predicted.mean, known.predicted.mean, rtol=1e-12)
    assert_allclose(told.filtered.covariance, known.filtered.covariance, rtol=1e-12)
    assert_allclose(system.inverse_transform(wanted.mean), wanted.mean @ system.loadings_.T + system.offset_)
    assert_array_equal(lds().fit_transform(x), system.transform(x))


def test_attributes_are_the_parameters_of_the_model(system):
    model = system.model_
    told = {
        "transition_": model.transition,
        "process_noise_": model.process_noise,
        "loadings_": model.emission.loadings,
        "offset_": model.emission.mean,
        "noise_variance_": model.emission.noise_variance,
        "initial_mean_": model.initial.mean,
        "initial_covariance_": model.initial.covariance,
        "eigenvalues_": model.eigenvalues,
        "time_constants_": model.time_constants,
    }
    for name, value in told.items():
        assert_array_equal(getattr(system, name), value)
    assert system.input_loadings_ is None
    assert (system.n_components_, system.n_features_in_, system.rule_) == (2, 4, "as given")
    assert system.converged_
    assert len(system.trace_) == system.n_iter_ + 1


def test_one_noise_variance_is_a_number(x):
    assert isinstance(lds(noise="isotropic").fit(x).noise_variance_, float)


@pytest.mark.parametrize("rule", [None, "bic", "cv"])
def test_the_number_of_states_may_be_left_open(x, rule):
    system = lds(rule, tol=5.0).fit(x)
    assert system.n_components_ == max(system.selection_scores_, key=system.selection_scores_.get)
    assert ("cross-validation" if rule == "cv" else "BIC") in system.rule_


def test_observed_cells_are_imputed_by_themselves(system, x):
    filled, std = system.impute(x, return_std=True)
    seen = ~np.isnan(x)
    assert_array_equal(filled[seen], x[seen])
    assert_array_equal(std[seen], 0.0)
    wanted = impute_series(system.model_, x)
    assert_allclose(filled, wanted.values, rtol=1e-12)
    assert_allclose(std, wanted.std, rtol=1e-12)
    low, high = system.impute_interval(x, 0.9)
    assert_array_equal(low[seen], x[seen])
    assert_array_equal(high[seen], x[seen])
    assert (low[~seen] < filled[~seen]).all()
    assert_allclose((low + high)[~seen] / 2, filled[~seen])


def test_held_out_cells_lie_in_their_intervals(rng):
    model = random_system(rng, 5, 2, radius=0.9)
    y = sample_series(model, 200, rng=rng).rows
    holed = punched(rng, y, 0.2)
    low, high = lds().fit(holed).impute_interval(holed, 0.9)
    missing = np.isnan(holed)
    inside = ((low <= y) & (y <= high))[missing].mean()
    assert abs(inside - 0.9) < 6 * np.sqrt(0.09 / missing.sum())


def test_anomalies_are_found_in_their_cell(system, x):
    x[20] = system.offset_
    x[20, 2] += 100 * np.sqrt(system.noise_variance_[2])
    found = system.anomalies(x)
    assert found.p_value.argmin() == 20
    assert found.distance.shape == (40,)
    assert np.nanargmin(found.cell_p_value[20]) == 2
    assert_allclose(found.residual, innovations(system.model_, x).residual, rtol=1e-12)


def test_draws_are_repeated_by_the_same_seed(system, x):
    assert system.sample(7).shape == (7, 4)
    assert system.sample_states(x, 3).shape == (3, 40, 2)
    assert_array_equal(system.sample(7), system.sample(7))
    assert_array_equal(system.sample_states(x, 3), system.sample_states(x, 3))
    assert not np.array_equal(system.sample(7), system.sample(7, random_state=1))
    draws = system.sample_states(x, 2000)
    error = smooth(system.model_, x).covariance.diagonal(axis1=1, axis2=2) / 2000
    assert (np.abs(draws.mean(axis=0) - system.transform(x)) < 6 * np.sqrt(error)).all()


@pytest.mark.parametrize("state", [np.random.RandomState(3), np.random.default_rng(3), 3, None])
def test_a_random_state_of_any_kind_will_do(x, state):
    assert lds(random_state=state, n_init=4).fit(x).sample(3).shape == (3, 4)


# Several sequences


def test_a_list_is_answered_by_a_list(several):
    system = lds().fit(several)
    assert isinstance(system.transform(several), list)
    assert_allclose(system.log_likelihood(several), sum(map(system.log_likelihood, several)), rtol=1e-10)
    assert_allclose(system.score(several), system.log_likelihood(several) / 40)
    for name in ("transform", "score_samples", "impute"):
        for found, y in zip(getattr(system, name)(several), several, strict=True):
            assert_allclose(found, getattr(system, name)(y), rtol=1e-7, atol=1e-9)
    for found, y in zip(system.anomalies(several), several, strict=True):
        assert_allclose(found.distance, system.anomalies(y).distance, rtol=1e-7)
    for found, y in zip(system.filter(several), several, strict=True):
        assert_allclose(found.filtered.mean, system.filter(y).filtered.mean, rtol=1e-7, atol=1e-9)
    for found, y in zip(system.smooth(several), several, strict=True):
        assert_allclose(found.lag_one, system.smooth(y).lag_one, rtol=1e-7, atol=1e-9)
    assert [drawn.shape for drawn in system.sample_states(several, 5)] == [(5, len(y), 2) for y in several]
    assert [drawn.mean.shape for drawn in system.forecast(3, several)] == [(3, 4)] * 3


@pytest.mark.parametrize("kind", [list, tuple])
def test_one_sequence_in_a_list_is_that_sequence(x, system, kind):
    listed = lds().fit(kind([x]))
    assert_array_equal(listed.trace_, system.trace_)
    (found,) = listed.transform([x])
    assert_array_equal(found, system.transform(x))
    assert_array_equal(lds().fit([x.tolist()]).trace_, system.trace_)
    assert_array_equal(lds().fit(x[None]).trace_, system.trace_)


def test_a_sequence_of_one_step_may_be_asked_about(system, x):
    assert system.transform(x[:1]).shape == (1, 2)
    assert_allclose(system.score(x[:1]), system.score_samples(x)[0])


# Forecasts


def test_a_forecast_continues_what_was_fitted(system, x):
    kept, again = system.forecast(5), system.forecast(5, x)
    assert_array_equal(kept.mean, again.mean)
    assert_array_equal(kept.covariance, again.covariance)
    longer = np.vstack([x, np.full((5, 4), NAN)])
    filled, std = system.impute(longer, return_std=True)
    assert_allclose(kept.mean, filled[-5:], rtol=1e-8)
    assert_allclose(kept.std, std[-5:], rtol=1e-8)
    assert_allclose(np.square(kept.std), kept.covariance.diagonal(axis1=1, axis2=2))
    low, high = kept.interval(0.5)
    assert ((low < kept.mean) & (kept.mean < high)).all()


def test_forecasts_of_several_sequences_continue_each(several):
    system = lds().fit(several)
    for kept, again, y in zip(system.forecast(2), system.forecast(2, several), several, strict=True):
        assert_array_equal(kept.mean, again.mean)
        assert_allclose(kept.mean, system.forecast(2, y).mean, rtol=1e-7, atol=1e-9)


DAYS, MONTHS = pd.date_range("2024-01-30", periods=40), pd.date_range("2020-01-31", periods=40, freq="ME")
INDICES = {
    "days": (DAYS, DAYS[-1] + pd.to_timedelta([1, 2], "D")),
    "month ends": (MONTHS, pd.to_datetime(["2023-05-31", "2023-06-30"])),
    "frequency forgotten": (pd.DatetimeIndex(list(MONTHS)), pd.to_datetime(["2023-05-31", "2023-06-30"])),
    "zoned": (DAYS.tz_localize("Europe/Berlin"), (DAYS + pd.to_timedelta(2, "D")).tz_localize("Europe/Berlin")[-2:]),
    "periods": (pd.period_range("2020-01", periods=40, freq="M"), pd.period_range("2023-05", periods=2, freq="M")),
    "range": (pd.RangeIndex(5, 125, 3), pd.Index([125, 128])),
    "integers": (pd.Index(10 * np.arange(40), name="t"), pd.Index([400, 410], name="t")),
    "floats": (pd.Index(0.5 * np.arange(40)), pd.Index([20.0, 20.5])),
    "hours": (pd.timedelta_range("0h", periods=40, freq="h"), pd.to_timedelta([40, 41], "h")),
    "words": (pd.Index([f"step {k}" for k in range(40)]), pd.RangeIndex(40, 42)),
    "two levels": (pd.MultiIndex.from_product([range(4), range(10)]), pd.RangeIndex(40, 42)),
}


@pytest.mark.parametrize(("index", "following"), INDICES.values(), ids=INDICES)
def test_a_forecast_continues_the_index(system, x, index, following):
    table = pd.DataFrame(x, index=index, columns=NAMES)
    system.feature_names_in_ = np.array(NAMES, dtype=object)
    told = system.forecast(2, table)
    for frame in (told.mean, told.std, *told.interval()):
        assert isinstance(frame.index, type(following) if isinstance(following, pd.DatetimeIndex) else pd.Index)
        assert_array_equal(frame.index, following)
        assert frame.index.name == following.name
        assert_array_equal(frame.columns, NAMES)
    assert_array_equal(told.mean, system.forecast(2).mean)


def test_an_index_with_one_label_is_continued_too(x):
    table = pd.DataFrame(x, index=DAYS, columns=NAMES)
    system = lds().fit(table)
    assert_array_equal(system.forecast(1, table[:1]).mean.index, DAYS[1:2])
    lone = table.set_axis(pd.DatetimeIndex(list(DAYS)))[:1]
    assert len(system.forecast(3, lone).mean) == 3
    assert_array_equal(system.forecast(1, table.set_axis(pd.RangeIndex(5, 125, 3))[:1]).mean.index, [8])


# Dataframes


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_dataframes_go_in_and_come_out(x, system, frame):
    table = frame(dict(zip(NAMES, x.T, strict=True)))
    named = lds().fit(table)
    assert_array_equal(named.feature_names_in_, NAMES)
    assert_allclose(named.trace_, system.trace_, rtol=1e-9)
    forecast = named.forecast(2)
    answers = {
        "impute": (named.impute(table), system.impute(x)),
        "std": (named.impute(table, return_std=True)[1], system.impute(x, return_std=True)[1]),
        "low": (named.impute_interval(table)[0], system.impute_interval(x)[0]),
        "mean": (forecast.mean, system.forecast(2).mean),
        "high": (forecast.interval()[1], system.forecast(2).interval()[1]),
    }
    for told, wanted in answers.values():
        assert isinstance(told, frame)
        assert list(told.columns) == NAMES
        assert_allclose(told.to_numpy(), wanted, rtol=1e-6)
    assert isinstance(named.transform(table), np.ndarray)


def test_imputed_dataframes_keep_their_index_and_what_was_observed(x):
    table = pd.DataFrame(x, index=DAYS, columns=NAMES)
    system = lds().fit([table[:15], table[15:]])
    for given, told in zip((table[:15], table[15:]), system.impute([table[:15], table[15:]]), strict=True):
        pd.testing.assert_index_equal(told.index, given.index)
        seen = given.notna().to_numpy()
        assert_array_equal(told.to_numpy()[seen], given.to_numpy()[seen])
        assert told.notna().all(axis=None)
    assert [list(one.mean.index) for one in system.forecast(1)] == [[DAYS[15]], [DAYS[-1] + pd.to_timedelta(1, "D")]]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_states_come_as_dataframes_on_demand(x, kind):
    table = pd.DataFrame(x, index=DAYS, columns=NAMES)
    system = lds().set_output(transform=kind)
    names = ["F1", "F2"]
    for states in (system.fit_transform(table), system.transform(table)):
        assert list(states.columns) == names
        assert_allclose(states.to_numpy(), lds().fit(x).transform(x), rtol=1e-9)
    assert_array_equal(system.get_feature_names_out(), names)
    if kind == "pandas":
        pd.testing.assert_index_equal(states.index, DAYS)


def test_columns_in_another_order_are_refused(x):
    table = pd.DataFrame(x, columns=NAMES)
    system = lds().fit(table)
    for ask in (system.transform, system.impute, lambda y: system.forecast(2, y), lambda y: system.score([table, y])):
        with pytest.raises(ValueError, match="feature names should match"):
            ask(table[NAMES[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        lds().fit([table, table[NAMES[::-1]]])


# Inputs


def test_inputs_go_with_the_rows(x, inputs):
    system = lds().fit(x, inputs=inputs)
    assert system.input_loadings_.shape == (2, 1)
    assert_allclose(system.log_likelihood(x, inputs=inputs), system.log_likelihood_, rtol=1e-9)
    assert_allclose(system.score_samples(x, inputs=inputs).sum(), system.log_likelihood_, rtol=1e-9)
    assert_allclose(lds().fit_transform(x, inputs=inputs), system.transform(x, inputs=inputs))
    for name in ("impute", "anomalies", "smooth", "filter", "sample_states", "impute_interval"):
        getattr(system, name)(x, inputs=inputs)
    assert system.sample(40, inputs=inputs).shape == (40, 4)
    parts, pushes = [x[:25], x[25:]], [inputs[:25], inputs[25:]]
    assert [states.shape for states in lds().fit_transform(parts, inputs=pushes)] == [(25, 2), (15, 2)]


def test_future_inputs_move_a_forecast(x, inputs):
    system = lds().fit(x, inputs=inputs)
    future = np.ones((2, 1))
    told = system.forecast(3, future=future)
    assert_array_equal(told.mean, system.forecast(3, x, inputs=inputs, future=future).mean)
    still = system.forecast(3, future=0 * future)
    push = system.loadings_ @ system.input_loadings_ @ future[0]
    assert_allclose(told.mean[:2] - still.mean[:2], [0 * push, push], atol=1e-9)
    longer = np.vstack([x, np.full((3, 4), NAN)])
    filled = system.impute(longer, inputs=np.vstack([inputs, future, [[5.0]]]))
    assert_allclose(told.mean, filled[-3:], rtol=1e-7)
    assert system.forecast(1).mean.shape == (1, 4)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (np.ones((39, 1)), ShapeError, "40 rows, one per step"),
        (np.ones(40), ShapeError, "40 rows, one per step"),
        ([np.ones((40, 1))], ShapeError, "40 rows, one per step"),
        (np.full((40, 1), NAN), DataError, "only observations may have missing values"),
        (np.full((40, 1), np.inf), DataError, "must be finite"),
        ([["a"]] * 40, ValueError, "could not convert"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(x, wrong, error, message):
    with pytest.raises(error, match=message):
        lds().fit(x, inputs=wrong)


def test_inputs_are_asked_for_where_they_were_fitted_and_only_there(x, system, inputs):
    pushed = lds().fit(x, inputs=inputs)
    with pytest.raises(ShapeError, match="the model has 1 inputs; got 0"):
        pushed.transform(x)
    with pytest.raises(ShapeError, match="the model has 1 inputs; got 2"):
        pushed.score(x, inputs=np.ones((40, 2)))
    with pytest.raises(ShapeError, match="the model has 0 inputs; got 1"):
        system.transform(x, inputs=inputs)
    with pytest.raises(ShapeError, match=r"needs future inputs of shape \(2, 1\)"):
        pushed.forecast(3)
    with pytest.raises(ShapeError, match=r"inputs must have shape \(5, 1\)"):
        pushed.sample(5)
    with pytest.raises(ShapeError, match="each of the 2 sequences; got 1"):
        lds().fit([x, x], inputs=[inputs])


# Without time


def test_without_memory_it_is_ppca(x):
    still = {"transition": np.zeros((2, 2)), "process_noise": "identity", "initial_covariance": "identity"}
    system = lds(initial_mean=np.zeros(2), **still, noise="isotropic").fit(x)
    ppca = system.to_ppca()
    assert_allclose(ppca.get_covariance(), dense_covariance(system.model_.emission), rtol=1e-9)
    assert_allclose(ppca.score_samples(x[:5]), system.score_samples(x[:5]), rtol=1e-9)
    rotation = np.linalg.lstsq(system.loadings_, ppca.loadings_)[0]
    assert_allclose(ppca.transform(x[:5]) @ rotation.T, system.transform(x[:5]), atol=1e-9)
    assert_allclose(ppca.impute(x[:5]), system.impute(x[:5]), rtol=1e-9)


def test_what_is_left_without_time_is_the_distribution_of_one_row(x):
    system = lds(transition="stable").fit(pd.DataFrame(x, columns=NAMES))
    ppca = system.to_ppca()
    assert_allclose(ppca.get_covariance(), dense_covariance(system.model_.marginal()), rtol=1e-8)
    assert_array_equal(ppca.feature_names_in_, NAMES)
    assert "from a dynamical system" in ppca.summary()


@pytest.mark.filterwarnings("ignore:no observed cells in")
def test_what_was_never_observed_is_unknown_without_time_too(x):
    x[:, 3] = NAN
    system = lds().fit(x)
    ppca = system.to_ppca()
    assert_array_equal(ppca.empty_features_, [3])
    assert ppca.n_observed_ == system.n_observed_ == np.count_nonzero(~np.isnan(x))
    for estimator in (system, ppca):
        std = estimator.impute(x, return_std=True)[1]
        assert_array_equal(std[:, 3], np.inf)
        assert np.isfinite(std[:, :3]).all()


def test_columns_observed_less_often_are_known_less_well_without_time(x):
    few = x.copy()
    few[5:, 0] = NAN
    information = lds(transition="stable").fit(few).to_ppca().information_
    assert_array_equal(information[-1], np.count_nonzero(~np.isnan(few), axis=0))


def test_what_has_no_ppca_says_so(x):
    with pytest.raises(DataError, match="fewer states than features; got 4 and 4"):
        lds(4, tol=100.0).fit(x).to_ppca()
    with pytest.raises(DataError, match="no stationary distribution"):
        lds(transition=np.eye(2)).fit(x).to_ppca()


# Habits of scikit-learn


def test_a_clone_has_the_parameters_and_no_model(x):
    A = np.diag([0.5, 0.2])
    system = lds(transition=A, noise="isotropic", ridge=0.5).fit(x)
    copy = clone(system)
    assert not hasattr(copy, "model_")
    for name, value in system.get_params().items():
        assert_array_equal(copy.get_params()[name], value)
    assert copy.set_params(n_components=1, transition="free").fit(x).n_components_ == 1


def test_a_pickle_predicts_the_same_bits(x):
    system = lds(verbose=True).fit(pd.DataFrame(x, index=DAYS, columns=NAMES))
    data = pickle.dumps(system)
    assert b"tqdm" not in data
    again = pickle.loads(data)  # noqa: S301
    pd.testing.assert_frame_equal(again.forecast(3).mean, system.forecast(3).mean)


def test_a_pipeline_scales_then_fits(x):
    pipeline = make_pipeline(StandardScaler(), lds()).fit(x)
    scaled = StandardScaler().fit_transform(x)
    assert_allclose(pipeline.score(x), lds().fit(scaled).score(scaled))
    assert pipeline.transform(x).shape == (40, 2)


def test_the_summary_says_what_matters(x):
    system = lds().fit(pd.DataFrame(x, columns=NAMES))
    text = system.summary()
    largest = NAMES[np.abs(system.loadings_[:, 0]).argmax()]
    for part in (
        "40 steps x 4 features",
        "2 states (as given)",
        "mode",
        largest,
        "noise variance",
        system.status_.value,
    ):
        assert part in text
    assert f"{abs(system.eigenvalues_[0]):.4f}" in text
    assert "x0" in lds().fit(x).summary()
    with pytest.raises(ShapeError, match="all 4 features"):
        system.summary(["one"])


def test_a_bar_is_shown_on_demand_only(x, capsys):
    lds().fit(x)
    quiet = capsys.readouterr()
    assert quiet.out == quiet.err == ""
    lds(verbose=True).fit(x)
    loud = capsys.readouterr()
    assert loud.out == ""
    assert "ll " in loud.err
    assert "remaining gain" in loud.err


# What goes wrong


def test_a_fit_that_is_not_the_maximum_warns_and_is_kept(x):
    with pytest.warns(ConvergenceWarning, match="max_iter was reached first"):
        system = lds(max_iter=1).fit(x)
    assert not system.converged_
    assert system.n_iter_ == 1
    assert system.transform(x).shape == (40, 2)


def test_a_column_without_a_cell_is_named(x):
    x[:, 1] = NAN
    with pytest.warns(UserWarning, match=r"1 of 4 columns \(first: 1\)"):
        system = lds(1).fit(x)
    assert_array_equal(system.empty_features_, [1])
    for std in (system.forecast(2).std, system.impute(x, return_std=True)[1]):  # of which nothing is known
        assert np.isinf(std[:, 1]).all()
        assert np.isfinite(std[:, [0, 2]]).all()
    assert np.isfinite(system.impute(x)).all()


ASKED = ["transform", "score", "log_likelihood", "score_samples", "smooth", "filter", "impute", "anomalies"]


@pytest.mark.parametrize("ask", [*ASKED, "impute_interval", "sample_states", "inverse_transform"])
def test_before_a_fit_nothing_can_be_asked(x, ask):
    with pytest.raises(NotFittedError):
        getattr(lds(), ask)(x)


@pytest.mark.parametrize("ask", ["to_ppca", "sample", "summary", "get_feature_names_out"])
def test_before_a_fit_there_is_nothing_to_tell(ask):
    with pytest.raises(NotFittedError):
        getattr(lds(), ask)()
    with pytest.raises(NotFittedError):
        lds().forecast(3)


def test_a_failed_fit_is_no_fit(system, x):
    with pytest.raises(ValueError, match="infinity"):
        system.fit(np.where(np.isnan(x), np.inf, x))
    with pytest.raises(NotFittedError):
        system.transform(x)


def test_a_fit_after_another_remembers_nothing_of_it(x, system):
    named = lds().fit([pd.DataFrame(x, index=DAYS, columns=NAMES)] * 2).fit(x)
    assert not hasattr(named, "feature_names_in_")
    assert_array_equal(named.forecast(2).mean, system.forecast(2).mean)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.array([["a", "b"]] * 5), ValueError, "which are text"),
        (np.full((6, 2), NAN), DataError, "all cells of all sequences are missing"),
        (np.ones((6, 2)), DataError, "no variation to explain"),
        (np.ones((1, 2)), ValueError, "minimum of 3 is required"),
        ([np.ones((1, 2))] * 9, DataError, "at least two steps after the first"),
        (np.ones((2, 2, 5, 3)), ValueError, "dim"),
        (np.ones(9), ValueError, "Expected 2D array"),
        ([], ValueError, "Expected 2D array"),
        ([np.ones((5, 2)), np.ones((5, 3))], ValueError, "3 features, but LinearDynamicalSystem is expecting 2"),
        ([np.ones((5, 2)), np.ones(2)], ValueError, "Expected 2D array"),
        ([np.ones((5, 2)), np.ones((0, 2))], ValueError, "0 sample"),
        (np.ones((5, 2)) + 1j, ValueError, "Complex data not supported"),
    ],
)
def test_rows_that_cannot_be_fitted(rows, error, message):
    with pytest.raises(error, match=message):
        lds(1).fit(rows)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": -1},
        {"trend": "up"},
        {"seasonal": "yes"},
        {"seasonal_periods": 0},
        {"n_components": 1.5},
        {"n_components": "aic"},
        {"ridge": -1.0},
        {"solver": "gradient"},
        {"n_init": 0},
        {"tol": -1.0},
        {"max_iter": 0},
        {"transition": 3},
        {"random_state": "today"},
    ],
    ids=str,
)
def test_parameters_that_mean_nothing(x, parameters):
    (name,) = parameters
    with pytest.raises(DataError, match=f"'{name}' parameter of LinearDynamicalSystem"):
        lds().set_params(**parameters).fit(x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s, _: s.forecast(0), ShapeError, "horizon must be an int of at least 1"),
        (lambda s, _: s.sample(0), ShapeError, "at least 1; got 0"),
        (lambda s, _: s.inverse_transform(np.zeros((2, 3))), ShapeError, r"matrix \(n, 2\)"),
        (lambda s, x: s.impute_interval(x, 1.0), DataError, "level must lie between 0 and 1"),
        (lambda s, _: s.forecast(2).interval(0), DataError, "level must lie between 0 and 1"),
        (lambda s, x: s.transform(x[:, :3]), ValueError, "3 features, but LinearDynamicalSystem is expecting 4"),
        (lambda s, x: s.score(np.where(np.isnan(x), np.inf, x)), ValueError, "infinity"),
        (lambda s, x: s.set_params(transition="wild").fit(x), DataError, "transition must be"),
        (lambda s, x: s.set_params(loadings=np.ones((2, 2))).fit(x), ShapeError, r"loadings must have shape \(4, 2\)"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(system, x, call, error, message):
    with pytest.raises(error, match=message):
        call(system, x)


@pytest.mark.parametrize("seed", [9, 18, 19])
def test_a_constant_column_beside_columns_of_huge_units_is_fitted_without_a_warning(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 4)) * 10.0 ** rng.uniform(-30, 31, 4)
    x[:, 1] = rng.choice([0.0, 7.3])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        system = LinearDynamicalSystem(2, max_iter=5, random_state=0).fit(x)
    assert np.isfinite(system.score(x))
