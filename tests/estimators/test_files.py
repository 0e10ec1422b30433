"""An estimator survives its file, bit for bit; other files are refused by name."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from oracles import spiked_rows
from probpca import PPCA, FileFormatError
from probpca.models import save_model
from probpca.models.serialization import write_record

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
    PPCA(2).fit(x).to_file(path)
    with np.load(path) as stored:
        arrays = dict(stored)
    header = {**json.loads(str(arrays.pop("header"))), "schema": 99}
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(FileFormatError, match=r"schema 99(.|\n)*Hint: upgrade"):
        PPCA.from_file(path)


def test_a_file_that_lacks_a_part_says_which(path):
    write_record(path, {"kind": "PPCA", "parameters": {}, "fitted": {}, "status": "EXACT"}, {})
    with pytest.raises(FileFormatError, match="lacks a part of a PPCA: 'log_likelihood_'"):
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
