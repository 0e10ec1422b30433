"""A file with one byte or one field changed is refused by name, or says what it holds; what is written can be read."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from forged_models import (
    FITS,
    NAMES,
    answers,
    byte_mutations,
    damage,
    field_mutations,
    fitted,
    frame,
    packed,
    rows,
    same,
    written,
)
from probpca import PPCA, BayesianPCA, DataError, FileFormatError, LinearDynamicalSystem, PPCAImputer

BYTES, FIELDS = 40, 60
"""Mutations of each file; a campaign takes more."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "forged.npz"


@pytest.mark.parametrize("name", FITS)
def test_a_file_with_one_byte_changed_gives_the_same_answers_or_none(path, name):
    estimator = fitted(name)
    content, told = written(estimator, path), answers(estimator)
    found = ((what, damage(type(estimator), forged, path, told)) for what, forged in byte_mutations(content, 1, BYTES))
    assert [(what, wrong) for what, wrong in found if wrong] == []


@pytest.mark.parametrize("name", FITS)
def test_a_file_with_one_field_changed_is_refused_or_gives_finite_answers(path, name):
    estimator = fitted(name)
    content, told = written(estimator, path), answers(estimator)
    found = (
        (what, damage(type(estimator), packed(header, arrays), path, told, (header, arrays)))
        for what, header, arrays in field_mutations(content, 1, FIELDS)
    )
    assert [(what, wrong) for what, wrong in found if wrong] == []


def test_other_answers_and_other_errors_would_be_noticed(path):
    estimator = fitted("PPCA")
    content, told = written(estimator, path), answers(estimator)
    other = {**told, "scores": told["scores"] + 1e-12}
    assert damage(PPCA, content, path, other) == "other answers: ['scores']"
    assert damage(PPCA, content, path, told) is None
    assert damage(dict, content, path, told).startswith("AttributeError")


# What is written can be read


LONG = ["x" * 100_000, "a\nb", "c\0d", "é", "'=1+1"]
X = rows()


def weighted():
    return PPCA(2, random_state=0).fit(X, sample_weight=np.arange(40) % 3 / 7)


ODD = {
    "names of 100,000 letters, and of odd ones": lambda: PPCA(2, random_state=0).fit(pd.DataFrame(X, columns=LONG)),
    "float32": lambda: PPCA(2, standardize=True, random_state=0).fit(X.astype(np.float32)),
    "weights": weighted,
    "weights of cells": lambda: PPCA(2, random_state=0).fit(X, cell_weight=np.full(X.shape, 1e-6)),
    "keep_source": lambda: PPCA(2, keep_source=True, random_state=0).fit(X),
    "half_life": lambda: PPCA(2, half_life=5.5, random_state=0).partial_fit(X[:20]).partial_fit(X[20:]),
    "complete stream": lambda: PPCA(2, standardize=True).partial_fit(rows(missing=0)).partial_fit(rows(1, missing=0)),
    "bias_correction": lambda: PPCA(2, bias_correction=True).fit(rows(missing=0)),
    "no noise": lambda: PPCA(3).fit(rows(missing=0) @ np.diag([1.0, 1, 1, 0, 0])),
    "constant column": lambda: PPCA(1, standardize=True).fit(np.where(np.arange(5) == 1, 3.0, rows(missing=0))),
    "very different units": lambda: PPCA(2, random_state=0).fit(X * 10.0 ** np.arange(-60, 90, 30)),
    "parameters of odd types": lambda: PPCA(
        np.int8(2),
        tol=Fraction(1, 100),
        verbose=np.bool_(False),
        max_iter=np.uint16(50),
        checkpoint=None,
        random_state=0,
    ).fit(X),
    "of a dynamical system": lambda: LinearDynamicalSystem(2, tol=1.0, random_state=0).fit(X).to_ppca(),
    "Bayesian, weights": lambda: BayesianPCA(2, random_state=0).fit(frame(X), sample_weight=1.0 + np.arange(40) % 3),
    "Bayesian, float32": lambda: BayesianPCA(2, standardize=True, random_state=0).fit(X.astype(np.float32)),
    "Bayesian, empty column": lambda: BayesianPCA(2, random_state=0).fit(np.where(np.arange(5) == 4, np.nan, X)),
    "Bayesian, noise alone": lambda: BayesianPCA(random_state=0).fit(np.random.default_rng(0).standard_normal((30, 5))),
    "imputer, bounds as a series": lambda: PPCAImputer(min_value=pd.Series([-1.0] * 5), max_value=np.inf).fit(X),
    "imputer, code": lambda: PPCAImputer(missing_values=np.int64(-999), add_indicator=True).fit(
        np.where(np.isnan(X), -999, X)
    ),
    "series, float32 frame": lambda: LinearDynamicalSystem(1, tol=1.0, random_state=0).fit(frame(X.astype(np.float32))),
    "series, isotropic": lambda: LinearDynamicalSystem(1, tol=1.0, noise="isotropic", random_state=0).fit(X),
    "series, chosen": lambda: LinearDynamicalSystem("bic", tol=1.0, random_state=0).fit(X),
    "series, fixed": lambda: LinearDynamicalSystem(
        1, tol=1.0, transition=[[0.5]], loadings=np.ones((5, 1)), initial_covariance=np.zeros((1, 1)), random_state=0
    ).fit(X),
}


@pytest.mark.parametrize("fit", ODD.values(), ids=ODD)
@pytest.mark.filterwarnings("ignore:no observed cells", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_written_is_read_with_the_same_answers(path, fit):
    estimator = fit()
    content = written(estimator, path)
    back = type(estimator).from_file(path)
    told = answers(back)
    assert [name for name, value in answers(estimator).items() if not same(value, told[name])] == []
    assert list(getattr(back, "feature_names_in_", [])) == list(getattr(estimator, "feature_names_in_", []))
    assert written(back, path) == content


@pytest.mark.parametrize("state", [np.random.RandomState(0), np.random.default_rng(0)])
@pytest.mark.parametrize("kind", [PPCA, BayesianPCA, PPCAImputer, LinearDynamicalSystem])
def test_a_random_state_that_no_file_can_hold_is_refused_before_anything_is_written(path, kind, state):
    estimator = kind(1, tol=1.0, random_state=state).fit(X)
    with pytest.raises(FileFormatError, match=r"random_state must be an int or None(.|\n)*estimator.set_params"):
        estimator.to_file(path)
    estimator.set_params(random_state=0)
    if kind is PPCAImputer:
        with pytest.raises(
            FileFormatError, match=r"random_state must be an int or None(.|\n)*imputer.estimator_.set_params"
        ):
            estimator.to_file(path)
        estimator.estimator_.set_params(random_state=0)
    assert not path.exists()
    written(estimator, path)
    assert kind.from_file(path).random_state == 0


def test_a_parameter_that_was_made_wrong_after_the_fit_is_not_written(path):
    ppca = PPCA(2).fit(X).set_params(tol=-1)
    with pytest.raises(DataError, match="'tol' parameter of PPCA must be"):
        ppca.to_file(path)
    assert not path.exists()


class Derived(PPCA):
    """A class of a user."""


def test_an_estimator_of_a_derived_class_survives_its_file(path):
    derived = Derived(2, random_state=0).fit(frame(X))
    derived.to_file(path)
    back = Derived.from_file(path)
    assert type(back) is Derived
    assert list(back.feature_names_in_) == NAMES
    assert same(back.transform(frame(X)), derived.transform(frame(X)))
    assert same(PPCA.from_file(path).transform(frame(X)), derived.transform(frame(X)))
