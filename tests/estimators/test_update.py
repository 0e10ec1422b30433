"""update: an estimator that is told one row after the other is where the filter of all rows is."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from oracles import punched, random_system
from probpca import DataError, LinearDynamicalSystem, ShapeError
from probpca.inference import filter_states, sample_series

NAN = np.nan
NAMES = ["height", "width", "depth", "mass"]


def lds(q=2, **options):
    return LinearDynamicalSystem(q, **{"tol": 1.0, "random_state": 0, **options})


@pytest.fixture
def y(rng):
    return punched(rng, sample_series(random_system(rng, 4, 2), 60, rng=rng).rows, 0.1)


@pytest.mark.parametrize("process", ["free", 1e-12 * np.eye(2)], ids=["banded", "square roots"])
def test_states_and_errors_are_those_of_all_rows(y, process):
    system = lds(process_noise=process).fit(y[:40])
    told = [system.update(row) for row in y[40:]]
    states, errors = system.filter(y), system.anomalies(y)
    size = np.abs(states.filtered.mean).max()
    spread = np.abs(states.filtered.covariance).max()
    later = slice(40, None)
    assert_allclose([u.state_mean for u in told], states.filtered.mean[later], rtol=1e-12, atol=1e-12 * size)
    covariances = [u.state_covariance for u in told]
    assert_allclose(covariances, states.filtered.covariance[later], rtol=1e-12, atol=1e-12 * spread)
    assert_allclose([u.residual for u in told], errors.residual[later], rtol=1e-11, atol=1e-11)
    assert_allclose([u.p_value for u in told], errors.p_value[later], rtol=1e-9)


def test_forecasts_go_on_from_the_last_row(y):
    system = lds().fit(y[:40])
    parameters = system.model_
    for row in y[40:]:
        system.update(row)
    assert system.model_ is parameters
    wanted, found = system.forecast(3, y), system.forecast(3)
    assert_allclose(found.mean, wanted.mean, rtol=1e-10)
    assert_allclose(found.std, wanted.std, rtol=1e-10)
    assert_array_equal(found.to_dict()["time"], wanted.to_dict()["time"])


@pytest.mark.parametrize(
    "index",
    [
        pd.period_range("2020-01", periods=60, freq="M"),
        pd.date_range("2020-01-31", periods=60, freq="ME"),
        pd.date_range("2020-03-28", periods=60, freq="h", tz="Europe/Berlin"),
        pd.RangeIndex(5, 125, 2),
        pd.Index([f"row {i}" for i in range(60)]),
    ],
    ids=lambda index: type(index).__name__,
)
def test_the_time_index_goes_on_too(y, index, tmp_path):
    table = pd.DataFrame(y, columns=NAMES, index=index)
    system = lds().fit(table[:40])
    for k in range(40, 60):
        system.update(table.iloc[[k]])
    wanted = system.forecast(3, table).mean
    pd.testing.assert_frame_equal(system.forecast(3).mean, wanted, check_freq=False, rtol=1e-10)
    system.to_file(tmp_path / "system.npz")
    again = LinearDynamicalSystem.from_file(tmp_path / "system.npz")
    pd.testing.assert_frame_equal(again.forecast(3).mean, wanted, check_freq=False, rtol=1e-10)


@pytest.mark.parametrize("stop", [1, 55, 75], ids=["at once", "in the steady state", "among gaps"])
def test_a_stream_goes_on_from_its_file_bit_for_bit(rng, tmp_path, stop):
    y = sample_series(random_system(rng, 4, 2), 120, rng=rng).rows
    y[60, 0] = NAN
    y[110:] = punched(rng, y[110:], 0.3)
    system = lds().fit(y[:40])
    for row in y[40 : 40 + stop]:
        system.update(row)
    system.to_file(tmp_path / "system.npz")
    others = [LinearDynamicalSystem.from_file(tmp_path / "system.npz"), pickle.loads(pickle.dumps(system))]  # noqa: S301
    for row in y[40 + stop :]:
        wanted = system.update(row)
        for other in others:
            found = other.update(row)
            assert_array_equal(found.state_mean, wanted.state_mean)
            assert_array_equal(found.state_covariance, wanted.state_covariance)
            assert (found.p_value, found.log_likelihood) == (wanted.p_value, wanted.log_likelihood)


def test_each_sequence_goes_on_by_itself(y):
    system = lds().fit([y[:20], y[20:40]])
    alone = system.forecast(1)[0].mean
    for row in y[40:]:
        told = system.update(row, sequence=1)
    assert_allclose(told.state_mean, system.filter(y[20:]).filtered.mean[-1], rtol=1e-10)
    assert_array_equal(system.forecast(1)[0].mean, alone)
    for wrong in (None, 2, -1, True, 0.0):
        with pytest.raises(ShapeError, match="one of the 2 training sequences"):
            system.update(y[0], sequence=wrong)


def test_inputs_of_a_row_push_the_next_one(rng, y):
    inputs = rng.standard_normal((60, 2))
    system = lds().fit(y[:40], inputs=inputs[:40])
    for row, u in zip(y[40:], inputs[40:], strict=True):
        told = system.update(row, inputs=u)
    states = system.filter(y, inputs=inputs).filtered
    assert_allclose(told.state_mean, states.mean[-1], rtol=1e-10, atol=1e-10)
    assert_allclose(system.forecast(1).mean, system.forecast(1, y, inputs=inputs).mean, rtol=1e-10)
    for wrong in (None, [1.0], [1.0, NAN]):
        with pytest.raises(ShapeError, match="update needs 2 finite numbers as inputs"):
            system.update(y[0], inputs=wrong)
    with pytest.raises(ShapeError, match="no inputs"):
        lds().fit(y).update(y[0], inputs=[1.0])


def test_a_row_may_come_in_any_form(y):
    table = pd.DataFrame(y[:40], columns=NAMES)
    row = [1.0, None, 2.0, 3.0]
    gap = np.array([1.0, NAN, 2.0, 3.0])
    wanted = lds().fit(table).update(pd.DataFrame([gap], columns=NAMES))
    for form in (
        pd.Series(row, NAMES, dtype=object),
        pl.DataFrame([row], schema=NAMES, orient="row"),
        pd.DataFrame([gap], columns=NAMES).astype("Float64"),
    ):
        assert_array_equal(lds().fit(table).update(form).state_mean, wanted.state_mean)
    for form in (row, gap, gap[None], gap.astype(np.float32), np.ma.masked_invalid(gap), pd.Series(gap)):
        assert_array_equal(lds().fit(y[:40]).update(form).state_mean, wanted.state_mean)


def test_rows_that_cannot_be_meant_are_refused(y):
    with pytest.raises(NotFittedError):
        lds().update(y[0])
    system = lds().fit(pd.DataFrame(y, columns=NAMES))
    before = system.forecast(1).mean
    with pytest.raises(DataError, match="infinite"):
        system.update([1.0, np.inf, 0.0, 0.0])
    with pytest.raises(ShapeError, match="a single row; got 60 rows"):
        system.update(y)
    with pytest.raises(ShapeError, match=r"4 features.*got 3"):
        system.update(y[0, :3])
    with pytest.raises(ValueError, match="feature names"):
        system.update(pd.Series(y[0], NAMES[::-1]))
    pd.testing.assert_frame_equal(system.forecast(1).mean, before)


@pytest.mark.parametrize("form", ["index", "column", "polars"])
def test_steps_without_a_row_are_empty(y, form):
    days = pd.date_range("2026-03-20", periods=60, tz="Europe/Berlin")
    table = pd.DataFrame(y, columns=NAMES, index=days)
    if form != "index":
        table = table.rename_axis("day").reset_index()
    if form == "polars":
        table = pl.from_pandas(table)
    some = (lambda rows: table[rows]) if form == "polars" else (lambda rows: table.iloc[rows])
    system = lds().fit(some(list(range(40))))
    system.update(some([40]))
    told = system.update(some([47]))
    rows = y[:48].copy()
    rows[41:47] = NAN
    assert_allclose(told.state_mean, filter_states(system.model_, rows).filtered.mean[-1], rtol=1e-10)
    ahead = system.forecast(1).to_dict()["time"][0]
    assert str(ahead)[:10] == str(days[48])[:10]
    for old in (47, 30):
        with pytest.raises(DataError, match="y must be later than the last row"):
            system.update(some([old]))
