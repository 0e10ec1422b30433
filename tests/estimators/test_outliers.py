"""p-values of fitted estimators: how they are calibrated, where rows come from, and what the note says."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet as pq
from scipy import sparse

from oracles import spiked_rows
from probpca import PPCA, BayesianPCA, DataError
from probpca.inference import Calibration, calibrate, outliers
from probpca.learning import fit_ppca
from probpca.learning.settings import CalibrationRows
from probpca.learning.training_distances import training_distances
from probpca.sources import open_source

D = 6


def heavy(rng, n, d=D):
    return spiked_rows(rng, n, d, 2, noise=0.5) * np.sqrt(8 / rng.chisquare(8, (n, 1)))


@pytest.fixture
def x(rng):
    return heavy(rng, 250)


@pytest.fixture
def holed(rng, x):
    return np.where(rng.random(x.shape) < 0.15, np.nan, x)


def numbers(calibration):
    return [calibration.scale, calibration.degrees, calibration.extreme]


def assert_same(found, wanted, rtol=1e-6):
    assert not found.obstacle
    assert_allclose(numbers(found), numbers(wanted), rtol=rtol)


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_the_fit_is_calibrated_by_its_rows(kind, standardize, missing, x, holed):
    rows = holed if missing else x
    fitted = kind(2, standardize=standardize, random_state=0).fit(rows)
    assert_same(fitted.calibration_, calibrate(fitted.model_, rows))
    found = fitted.outliers(rows, training=True)
    n = np.isfinite(rows).sum() / D  # rows in which a feature was observed
    wanted = outliers(fitted.model_, rows, fitted.calibration_, left_out_of=n)
    for name in ("p_value", "log10_p_value", "model_p_value", "latent_p_value", "residual_p_value"):
        assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-8, err_msg=name)


def test_rows_of_the_fit_are_judged_as_if_left_out_and_new_ones_as_they_are(x):
    ppca = PPCA(2).fit(x)
    inside, outside, reference = ppca.outliers(x, training=True), ppca.outliers(x), ppca.calibration_
    assert_allclose(outside.p_value, reference.tail(outside.distance, D))
    n, t2, q = len(x), inside.latent_distance, inside.residual_distance
    h, f = (1 + t2) / n, D - 2
    left_t2 = n / (n - 1) * t2 / (1 - t2 / (n - 1))
    left_q = q / (1 - h) ** 2 / ((n * f - q / (1 - h)) / ((n - 1) * f))
    assert_allclose(inside.p_value, reference.tail(left_t2 + left_q, D))
    assert_allclose(inside.latent_p_value, reference.tail(left_t2, 2))
    assert_allclose(inside.residual_p_value, reference.tail(left_q, f))
    assert (inside.p_value < outside.p_value).all()
    for name in ("distance", "latent_distance", "residual_distance", "model_p_value", "contributions", "cell_scores"):
        assert_array_equal(getattr(inside, name), getattr(outside, name))
    assert_allclose(inside.contributions.sum(axis=1), inside.distance)


def test_nothing_is_guessed_from_the_values(x):
    ppca = PPCA(2).fit(x)
    assert_array_equal(ppca.outliers(x).p_value[:5], ppca.outliers(x[:5]).p_value)
    assert_array_equal(ppca.outliers(x, training=True).p_value[:5], ppca.outliers(x[:5], training=True).p_value)


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
def test_files_and_pickles_keep_the_calibration(kind, x, tmp_path):
    fitted = kind(2, random_state=0).fit(x)
    fitted.to_file(tmp_path / "model.npz")
    for again in (kind.from_file(tmp_path / "model.npz"), pickle.loads(pickle.dumps(fitted))):  # noqa: S301
        assert again.calibration_ == fitted.calibration_
        assert_array_equal(again.outliers(x, training=True).p_value, fitted.outliers(x, training=True).p_value)


def test_infinite_degrees_are_kept_by_files(rng, tmp_path):
    ppca = PPCA(2).fit(np.sign(rng.standard_normal((60, 5))) + 0.01 * rng.standard_normal((60, 5)))
    assert ppca.calibration_.degrees == np.inf
    ppca.to_file(tmp_path / "model.npz")
    assert PPCA.from_file(tmp_path / "model.npz").calibration_ == ppca.calibration_


def test_a_fit_keeps_no_rows(x):
    ppca = PPCA(2).fit(x)
    (held,) = ppca._fitted.training.parts
    assert not any(np.shares_memory(array, x) or array.shape == x.shape for array in held)


def test_streams_have_no_calibration_and_say_so(x, tmp_path):
    stream = PPCA(2).partial_fit(x[:100]).partial_fit(x[100:])
    found = stream.outliers(x, training=True)
    assert_array_equal(found.p_value, found.model_p_value)
    assert_array_equal(found.log10_p_value, found.log10_model_p_value)
    assert "partial_fit" in found.note
    stream.to_file(tmp_path / "model.npz")
    assert PPCA.from_file(tmp_path / "model.npz").outliers(x).note == found.note
    assert PPCA(2).fit(x).outliers(x).note == ""


def test_the_pure_function_without_calibration_is_chi_square(x):
    model = fit_ppca(x, 2).model
    found = outliers(model, x)
    assert_array_equal(found.p_value, found.model_p_value)
    assert found.note == "p_value is the same as model_p_value: no calibration was given."
    assert_array_equal(outliers(model, x, left_out_of=250).p_value, found.p_value)


# Rows elsewhere


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_rows_in_files_and_batches_are_calibrated_by_a_sample(missing, standardize, x, holed, tmp_path):
    rows = holed if missing else x
    np.save(tmp_path / "x.npy", rows)
    pq.write_table(pa.table({f"x{j}": rows[:, j] for j in range(D)}), tmp_path / "x.parquet", row_group_size=60)
    ppca = PPCA(2, standardize=standardize, random_state=0, tol=1e-8)
    wanted = ppca.fit(rows).calibration_  # of so few rows the sample is the table
    sources = tmp_path / "x.npy", tmp_path / "x.parquet", np.array_split(rows, 3), iter(np.array_split(rows, 7))
    for source in sources:
        assert_same(ppca.fit(source).calibration_, wanted, rtol=1e-4)


def test_the_sample_does_not_depend_on_how_rows_are_cut(rng):
    x = heavy(rng, 7000)
    found = [PPCA(2).fit(np.array_split(x, parts)).calibration_ for parts in (2, 5, 31)]
    found.append(PPCA(2).fit(np.array_split(rng.permutation(x), 4)).calibration_)
    for again in found[1:]:
        assert_same(again, found[0], rtol=1e-6)
    everything = calibrate(PPCA(2).fit(x).model_, x)
    assert_allclose(*(c.exceeded([0.5, 0.05], D) for c in (found[0], everything)), rtol=0.1)


def test_of_many_rows_of_a_file_the_same_are_used_as_in_memory(rng, tmp_path):
    x = heavy(rng, 300_000)  # several parts
    np.save(tmp_path / "x.npy", x)
    wanted = PPCA(2).fit(x).calibration_
    assert_same(PPCA(2).fit(tmp_path / "x.npy").calibration_, wanted, rtol=1e-9)


def test_bayesian_fits_to_files_are_calibrated(x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    found = BayesianPCA(2, random_state=0).fit(tmp_path / "x.npy").calibration_
    assert_same(found, BayesianPCA(2, random_state=0).fit(x).calibration_, rtol=1e-4)


def test_of_many_rows_some_are_used(rng):
    x = heavy(rng, 8000)
    ppca = PPCA(2).fit(x)
    count = ppca._fitted.training.found.inside.size
    assert count == CalibrationRows().of(8000, D) == 2000
    assert_allclose(*(c.exceeded([0.5, 0.05], D) for c in (ppca.calibration_, calibrate(ppca.model_, x))), rtol=0.15)


@pytest.mark.parametrize(("n", "d", "used"), [(150, 4, 150), (2000, 50, 2000), (100_000, 100, 1310), (10**7, 5, 2000)])
def test_the_number_of_rows_grows_with_the_table(n, d, used):
    assert CalibrationRows().of(n, d) == used
    assert CalibrationRows().of(64, 10**6) == 64
    assert CalibrationRows().of(10_000, 10**6) == 300


@pytest.mark.parametrize("kind", ["frame", "sparse", "file"])
def test_training_goes_with_every_kind_of_table(kind, x, tmp_path):
    ppca = PPCA(2).fit(x)
    wanted = ppca.outliers(x, training=True).p_value
    np.save(tmp_path / "x.npy", x)
    rows = {"frame": pd.DataFrame(x), "sparse": sparse.csr_array(x), "file": tmp_path / "x.npy"}[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns
        found = ppca.outliers(rows, training=True)
    assert_allclose(found.p_value, wanted)
    assert found.note == ""


# Edges


def test_a_weight_of_two_is_the_row_twice(rng, x):
    weight = rng.integers(0, 3, len(x))
    twice = np.repeat(x, weight, axis=0)
    few = CalibrationRows(most=1000)  # all rows
    found = [
        training_distances(fit_ppca(source, 2).model, source, float(weight.sum()), settings=few).calibrate()
        for source in (open_source(x, weight=weight), open_source(twice))
    ]
    assert_same(*found)
    assert_allclose(PPCA(2).fit(x, sample_weight=weight).calibration_.scale, found[0].scale, rtol=1e-6)


@pytest.mark.parametrize("n", [2, 5, 9])
def test_few_rows_have_no_calibration_and_say_so(rng, n):
    rows = rng.standard_normal((n, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no noise is left
        ppca = PPCA(1).fit(rows)
    found = ppca.outliers(rows, training=True)
    assert_array_equal(found.p_value, found.model_p_value)
    assert "fewer than 20 training rows" in found.note


def exact(rng):
    return rng.standard_normal((40, 2)) @ rng.standard_normal((2, 5))


EDGES = {
    "fewer rows than columns": lambda rng: rng.standard_normal((20, 60)),
    "no noise": exact,
    "no noise, fewer rows": lambda rng: rng.standard_normal((12, 2)) @ rng.standard_normal((2, 30)),
    "two kinds of rows": lambda rng: np.repeat(rng.standard_normal((2, 4)), 15, axis=0),
    "ties": lambda rng: rng.integers(0, 2, (50, 4)).astype(float),
    "mostly the same row": lambda rng: np.vstack([np.ones((60, 4)), rng.standard_normal((12, 4))]),
    "a constant column": lambda rng: np.column_stack([rng.standard_normal((40, 3)), np.full(40, 7.0)]),
    "one row far off": lambda rng: np.vstack([rng.standard_normal((40, 4)), 1e9 * np.ones((1, 4))]),
    "empty rows": lambda rng: np.vstack([rng.standard_normal((30, 4)), np.full((30, 4), np.nan)]),
    "few cells": lambda rng: np.where(rng.random((60, 8)) < 0.7, np.nan, rng.standard_normal((60, 8))),
    "large": lambda rng: 1e120 * rng.standard_normal((40, 4)),
    "small": lambda rng: 1e-120 * rng.standard_normal((40, 4)),
}


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
@pytest.mark.parametrize("edge", EDGES)
def test_p_values_are_probabilities_whatever_the_table(rng, kind, edge):
    rows = EDGES[edge](rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = kind(2, random_state=0).fit(rows)
    assert isinstance(fitted.calibration_, Calibration)
    for training in (True, False):
        found = fitted.outliers(rows, training=training)
        for name in ("p_value", "model_p_value", "latent_p_value", "residual_p_value"):
            p = getattr(found, name)
            assert ((p >= 0) & (p <= 1)).all(), name
        assert (found.log10_p_value <= 0).all()
        empty = np.isnan(rows).all(axis=1)
        assert_array_equal(found.p_value[empty], 1.0)
        assert_array_equal(found.log10_p_value[empty], 0.0)


@pytest.mark.parametrize("standardize", [False, True])
def test_after_a_fit_with_weighted_cells_rows_are_judged_as_they_are_asked(rng, x, standardize):
    """Questions take every observed cell with weight 1: so does the calibration."""
    for weight in (np.full(x.shape, 0.2), np.full(x.shape, 5.0), rng.choice([0.1, 1.0], x.shape)):
        found = PPCA(2, standardize=standardize).fit(x, cell_weight=weight).outliers(x, training=True)
        assert abs(np.median(found.p_value) - 0.5) < 0.05
        assert (found.p_value < 0.001).mean() < 0.02


def test_the_order_of_rows_does_not_matter_up_to_two_thousand(rng):
    x = heavy(rng, 1500)
    one, other = PPCA(2).fit(x).calibration_, PPCA(2).fit(x[rng.permutation(1500)]).calibration_
    assert_allclose((one.scale, one.degrees), (other.scale, other.degrees), rtol=1e-5)


@pytest.mark.parametrize("training", ["yes", None, 1])
def test_training_is_true_or_false(x, training):
    with pytest.raises(DataError, match=r"training must be True or False(.|\n)*Hint"):
        PPCA(2).fit(x).outliers(x, training=training)


def test_units_do_not_matter(x):
    found = [PPCA(2).fit(units * x).calibration_ for units in (1.0, 1e6)]
    assert_same(*found)
    p = [PPCA(2).fit(units * x).outliers(units * x, training=True).p_value for units in (1.0, 1e6)]
    assert_allclose(*p, rtol=1e-6)


def test_many_extreme_rows_are_noted(rng):
    x = spiked_rows(rng, 200, 8, 2, noise=0.3)
    x[:24] += 5 * rng.standard_normal((24, 8))
    found = PPCA(2).fit(x).outliers(x, training=True)
    assert f"{100 * np.mean(found.model_p_value < 0.001):.1f}% of the training rows" in found.note
    assert "masking" in found.note
