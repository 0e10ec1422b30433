"""An estimator survives its file, bit for bit; other files are refused by name."""

import zipfile
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from forged_models import packed, unpacked, written
from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, FileFormatError, LinearDynamicalSystem, PPCAImputer
from probpca.inference import log_likelihood
from probpca.learning.checkpoint import Checkpoint, Saved
from probpca.linalg.packed import unpack
from probpca.models import load_model, save_model
from probpca.sources import open_source
from probpca.statistics import ColumnSummary

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 40, 5, 2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fitted.npz"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"n_components": 2},
        {"n_components": np.int64(2), "max_iter": np.int32(50), "tol": np.float32(1e-2)},
        {"n_components": 0.8, "random_state": 3},
        {"n_components": "evidence", "standardize": True},
        {"n_components": 2, "solver": "px_em", "random_state": np.int64(1)},
        {"n_components": np.str_("bic"), "solver": np.str_("em")},
    ],
    ids=str,
)
@pytest.mark.parametrize("frame", [True, False])
def test_what_was_written_is_read_back_to_the_last_bit(x, path, parameters, frame):
    rows = pd.DataFrame(x, columns=NAMES) if frame else x
    ppca = PPCA(**parameters).fit(rows)
    ppca.to_file(path)
    back = PPCA.from_file(path)
    assert_array_equal(back.transform(rows), ppca.transform(rows))
    assert_array_equal(back.score_samples(rows), ppca.score_samples(rows))
    assert_array_equal(back.trace_, ppca.trace_)
    assert back.get_params() == ppca.get_params()
    assert back.summary() == ppca.summary()
    assert back.status_ is ppca.status_
    assert (back.n_components_, back.n_iter_) == (ppca.n_components_, ppca.n_iter_)
    assert back.log_likelihood_ == ppca.log_likelihood_
    assert list(getattr(back, "feature_names_in_", [])) == (NAMES if frame else [])
    assert_array_equal(back.condition([0], x[:2, [0]]).mean, ppca.condition([0], x[:2, [0]]).mean)


def test_a_file_of_a_bare_model_is_no_estimator(x, path):
    save_model(PPCA(2).fit(x).model_, path)
    with pytest.raises(FileFormatError, match="holds a LinearGaussian, not a PPCA"):
        PPCA.from_file(path)


@pytest.mark.parametrize("keep", [0, 10, 200, -20])
def test_a_damaged_file_is_refused(x, path, keep):
    PPCA(2).fit(x).to_file(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match="cannot be read as a probpca file"):
        PPCA.from_file(path)


def test_a_file_of_somebody_else_is_refused(path):
    np.savez(path, mean=np.zeros(3))
    with pytest.raises(FileFormatError, match="not written by probpca"):
        PPCA.from_file(path)


def test_a_file_from_the_future_is_refused(x, path):
    header, arrays = unpacked(written(PPCA(2).fit(x), path))
    path.write_bytes(packed({**header, "schema": 99}, arrays))
    with pytest.raises(FileFormatError, match=r"schema 99(.|\n)*Hint: upgrade"):
        PPCA.from_file(path)


def test_a_file_that_lacks_a_part_says_which(x, path):
    header, arrays = unpacked(written(PPCA(2).fit(x), path))
    del header["fitted"]["log_likelihood_"]
    path.write_bytes(packed(header, arrays))
    with pytest.raises(FileFormatError, match=rf"{path.name}(.|\n)*fitted.entries must include log_likelihood_; got"):
        PPCA.from_file(path)


def test_an_absent_file_is_absent(path):
    with pytest.raises(FileNotFoundError):
        PPCA.from_file(path)


def test_a_generator_cannot_be_written(x, path):
    ppca = PPCA(2, random_state=np.random.default_rng(0)).fit(x)
    with pytest.raises(FileFormatError, match=r"random_state must be an int or None(.|\n)*Hint"):
        ppca.to_file(path)
    assert not path.exists()


def test_an_estimator_without_a_fit_cannot_be_written(path):
    with pytest.raises(NotFittedError):
        PPCA(2).to_file(path)
    assert not path.exists()


def test_a_file_holds_arrays_and_no_code(x, path):
    PPCA(2).fit(x).to_file(path)
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())
    with np.load(path, allow_pickle=False) as stored:
        assert {"header", "mean", "loadings", "noise_variance", "trace_", "information_"} <= set(stored.files)


# Every estimator


@pytest.fixture
def holes(rng, x):
    return np.where(rng.random(x.shape) < 0.2, np.nan, x)


FITTED = {
    "PPCA": lambda x: PPCA(2, random_state=0).fit(x),
    "BayesianPCA": lambda x: BayesianPCA(2, random_state=0).fit(x),
    "LinearDynamicalSystem": lambda x: LinearDynamicalSystem(2, random_state=0, tol=1.0).fit(x),
    "PPCAImputer": lambda x: PPCAImputer(2, random_state=0).fit(x),
}


@pytest.mark.parametrize("fitted", FITTED.values(), ids=FITTED)
def test_the_model_in_the_file_of_an_estimator_is_its_model(holes, path, fitted):
    estimator = fitted(holes)
    estimator.to_file(path)
    model, wanted = load_model(path), estimator.model_
    assert type(model) is type(wanted)
    for part in vars(wanted):
        if isinstance(getattr(wanted, part), np.ndarray):
            assert_array_equal(getattr(model, part), getattr(wanted, part))
    emission, known = getattr(model, "emission", model), getattr(wanted, "emission", wanted)
    for part in ("mean", "loadings", "noise_variance"):
        assert_array_equal(getattr(emission, part), getattr(known, part))


def test_a_checkpoint_holds_no_model(holes, path):
    columns = open_source(holes).fold(ColumnSummary.of)
    Checkpoint(path, columns).write(Saved(PPCA(2).fit(holes).model_, "as given", (-1.0,)))
    with pytest.raises(FileFormatError, match="holds a checkpoint, not a model"):
        load_model(path)


def test_an_imputer_of_a_single_column_holds_no_model(path):
    PPCAImputer(keep_empty_features=True).fit([[1.0, np.nan], [2.0, np.nan]]).to_file(path)
    with pytest.raises(FileFormatError, match="holds a PPCAImputer of a single column, not a model"):
        load_model(path)


def test_the_model_of_bayesian_pca_in_a_file_is_the_predictive_one(holes, path):
    bayesian = BayesianPCA(2, random_state=0).fit(holes)
    bayesian.to_file(path)
    model, belief = load_model(path), bayesian.belief_
    extra = np.array([np.trace(unpack(belief.covariance[:, j])) for j in range(5)])
    assert_allclose(model.noise_variance, belief.centre.noise_variance + extra, rtol=1e-12)
    assert (model.noise_variance > belief.centre.noise_variance).all()
    assert_array_equal(log_likelihood(model, holes), bayesian.score_samples(holes))


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA, LinearDynamicalSystem, PPCAImputer])
def test_files_of_other_estimators_are_refused(holes, path, kind):
    for name, fitted in FITTED.items():
        fitted(holes).to_file(path)
        if name != kind.__name__:
            with pytest.raises(FileFormatError, match=f"holds a {name}, not a {kind.__name__}"):
                kind.from_file(path)
    with pytest.raises(NotFittedError):
        kind(2).to_file(path)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.filterwarnings("ignore:no observed cells in these columns")
def test_an_imputer_survives_its_file(holes, path, add, keep, frame):
    holes[:, 3] = np.nan
    rows = pd.DataFrame(holes, columns=NAMES) if frame else holes
    options = {"add_indicator": add, "keep_empty_features": keep, "min_value": [-1.0] * 5, "max_value": 2}
    imputer = PPCAImputer(2, **options).fit(rows)
    imputer.to_file(path)
    back = PPCAImputer.from_file(path)
    assert_array_equal(back.transform(rows), imputer.transform(rows))
    assert_array_equal(back.get_feature_names_out(), imputer.get_feature_names_out())
    assert_array_equal(back.empty_features_, [3])
    kept = rows.drop(columns="d") if frame else np.delete(holes, 3, axis=1)
    assert_array_equal(back.estimator_.transform(kept), imputer.estimator_.transform(kept))
    assert (back.n_iter_, back.estimator_.summary()) == (imputer.n_iter_, imputer.estimator_.summary())
    for name, value in imputer.get_params().items():
        assert_array_equal(back.get_params()[name], value)


SYSTEMS = {
    "one": (lambda x: x, {}),
    "several": (lambda x: [x[:15], x[15:]], {}),
    "constrained": (lambda x: x, {"transition": np.diag([0.5, 0.2]), "noise": 0.3, "offset": [0.0] * 5}),
    "chosen": (lambda x: x, {"n_components": "bic", "max_iter": 5}),
}


@pytest.mark.parametrize(("rows", "parameters"), SYSTEMS.values(), ids=SYSTEMS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_dynamical_system_survives_its_file(holes, path, rows, parameters):
    rows = rows(holes)
    system = LinearDynamicalSystem(**{"n_components": 2, "random_state": 0, "tol": 1.0, **parameters}).fit(rows)
    system.to_file(path)
    back = LinearDynamicalSystem.from_file(path)
    assert back.summary() == system.summary()
    assert (back.n_observed_, back.n_steps_, back.selection_scores_) == (
        system.n_observed_,
        system.n_steps_,
        system.selection_scores_,
    )
    for one, other in zip(np.atleast_1d(back.forecast(3)), np.atleast_1d(system.forecast(3)), strict=True):
        assert_array_equal(one.mean, other.mean)
        assert_array_equal(one.std, other.std)
    assert back.score(rows) == system.score(rows)
    assert_array_equal(back.to_ppca().information_, system.to_ppca().information_)
    for name, value in system.get_params().items():
        assert_array_equal(back.get_params()[name], value)


def test_a_dynamical_system_with_inputs_survives_its_file(rng, holes, path):
    inputs = rng.standard_normal((40, 2))
    system = LinearDynamicalSystem(1, random_state=0, tol=1.0).fit(holes, inputs=inputs)
    system.to_file(path)
    future = rng.standard_normal((2, 2))
    back = LinearDynamicalSystem.from_file(path).forecast(3, future=future)
    assert_array_equal(back.mean, system.forecast(3, future=future).mean)


INDICES = {
    "days": pd.date_range("2020-01-01", periods=40, freq="D", name="day"),
    "inferred": pd.DatetimeIndex(list(pd.date_range("2020-01-31", periods=40, freq="ME"))),
    "in a zone": pd.date_range("2020-03-01", periods=40, freq="h", tz="Europe/Berlin"),
    "with gaps": pd.DatetimeIndex(pd.to_datetime((np.arange(40) + np.arange(40) // 9) * 86400, unit="s")),
    "months": pd.period_range("2020-01", periods=40, freq="M"),
    "durations": pd.timedelta_range("1s", periods=40, freq="2s"),
    "range": pd.RangeIndex(10, 90, 2),
    "numbers": pd.Index(np.linspace(0, 1, 40), name="t"),
    "words": pd.Index([f"row {i}" for i in range(40)]),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_a_forecast_from_a_file_continues_the_time_index(holes, path, index):
    system = LinearDynamicalSystem(1, random_state=0, tol=1.0).fit(pd.DataFrame(holes, index=index, columns=NAMES))
    system.to_file(path)
    wanted = system.forecast(3).mean
    back = LinearDynamicalSystem.from_file(path)
    pd.testing.assert_frame_equal(back.forecast(3).mean, wanted, check_freq=False)
    back.to_file(path)
    pd.testing.assert_frame_equal(LinearDynamicalSystem.from_file(path).forecast(3).mean, wanted, check_freq=False)


def test_a_forecast_from_a_file_is_a_polars_frame_again(holes, path):
    system = LinearDynamicalSystem(1, random_state=0, tol=1.0).fit(pl.DataFrame(dict(zip(NAMES, holes.T, strict=True))))
    system.to_file(path)
    assert LinearDynamicalSystem.from_file(path).forecast(3).mean.equals(system.forecast(3).mean)


def test_a_time_index_that_no_file_can_hold_is_refused(holes, path):
    index = pd.Index([Fraction(i, 3) for i in range(40)], dtype=object)
    system = LinearDynamicalSystem(1, random_state=0, tol=1.0).fit(pd.DataFrame(holes, index=index, columns=NAMES))
    with pytest.raises(FileFormatError, match="time index of type object cannot be written"):
        system.to_file(path)


def test_an_index_of_dates_as_objects_comes_back_from_a_file(holes, path):
    index = pd.Index([date(2020, 1, 1) + timedelta(days=i) for i in range(40)], dtype=object)
    system = LinearDynamicalSystem(1, random_state=0, tol=1.0).fit(pd.DataFrame(holes, index=index, columns=NAMES))
    system.to_file(path)
    pd.testing.assert_frame_equal(LinearDynamicalSystem.from_file(path).forecast(3).mean, system.forecast(3).mean)
