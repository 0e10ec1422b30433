"""A fitted estimator that went through skops, joblib, pickle or copy answers as before."""

import copy
import pickle
from io import BytesIO

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probpca import PPCA, BayesianPCA, LinearDynamicalSystem, PPCAImputer
from probpca.learning import Status

RNG = np.random.default_rng(8)
X = RNG.standard_normal((60, 2)) @ RNG.standard_normal((2, 6)) + 0.3 * RNG.standard_normal((60, 6))
GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
FRAME = pd.DataFrame(GAPS, columns=pd.Index(list("abcdef"), name="series"))


def streamed(ppca, rows):
    for batch in np.array_split(rows, 3):
        ppca.partial_fit(batch)
    return ppca


def questioned(ppca):
    """A fit that has computed what it computes at the first question."""
    ppca.outliers(X)
    ppca.impute(GAPS, return_std=True)
    return ppca


def system():
    return LinearDynamicalSystem(1, max_iter=5, tol=1e6, random_state=0)


FITTED = {
    "complete": lambda: PPCA(2).fit(X),
    "missing": lambda: PPCA(2).fit(GAPS),
    "questioned": lambda: questioned(PPCA(2).fit(GAPS)),
    "standardized frame": lambda: PPCA(standardize=True).fit(FRAME),
    "kept rows": lambda: PPCA(2, keep_source=True, random_state=np.random.RandomState(0)).fit(GAPS),
    "draws": lambda: PPCA(2, n_parameter_draws=2).fit(GAPS),
    "streamed": lambda: streamed(PPCA(2), X),
    "streamed and questioned": lambda: questioned(streamed(PPCA(2), X)),
    "streamed, missing": lambda: streamed(PPCA(2, random_state=0), GAPS),
    "BayesianPCA": lambda: BayesianPCA(3).fit(GAPS),
    "imputer": lambda: PPCAImputer(add_indicator=True).fit(GAPS),
    "imputer of one column": lambda: PPCAImputer().fit(GAPS[:, :1]),
    "series": lambda: system().fit(GAPS),
    "series of a frame": lambda: system().fit(FRAME.set_index(pd.date_range("2020-01-01", periods=60, name="day"))),
    "series with monthly periods": lambda: system().fit(
        FRAME.set_index(pd.period_range("2020-01", periods=60, freq="M"))
    ),
    "pipeline": lambda: make_pipeline(PPCAImputer(), StandardScaler(), PPCA(2)).fit(GAPS),
}


def through_skops(estimator):
    data = skops.io.dumps(estimator)
    unknown = skops.io.get_untrusted_types(data=data)
    assert all(name.startswith("probpca.") for name in unknown), unknown
    return skops.io.loads(data, trusted=unknown)


def through_joblib(estimator):
    file = BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "skops": through_skops,
    "joblib": through_joblib,
    "pickle": lambda estimator: pickle.loads(pickle.dumps(estimator)),  # noqa: S301
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", FITTED)
def test_a_copy_of_a_fitted_estimator_answers_the_same(kind, way):
    estimator = FITTED[kind]()
    back = WAYS[way](estimator)
    rows = FRAME if "frame" in kind or "periods" in kind else GAPS[:, : estimator.n_features_in_]
    assert_array_equal(back.transform(rows), estimator.transform(rows))
    assert_array_equal(back.get_feature_names_out(), estimator.get_feature_names_out())
    if hasattr(estimator, "status_"):
        assert back.status_ is estimator.status_
        assert back.summary() == estimator.summary()
    if hasattr(estimator, "outliers"):
        assert_array_equal(back.outliers(rows).p_value, estimator.outliers(rows).p_value)
        assert_array_equal(back.impute(rows, return_std=True), estimator.impute(rows, return_std=True))
    if hasattr(estimator, "forecast"):
        mine, theirs = estimator.forecast(3).mean, back.forecast(3).mean
        assert_array_equal(theirs, mine)
        if isinstance(mine, pd.DataFrame):
            pd.testing.assert_frame_equal(theirs, mine)


def test_a_stream_goes_on_after_skops():
    whole, half = streamed(PPCA(2), X), through_skops(PPCA(2).partial_fit(X[:40]))
    assert_array_equal(
        half.partial_fit(X[40:]).transform(X), PPCA(2).partial_fit(X[:40]).partial_fit(X[40:]).transform(X)
    )
    np.testing.assert_allclose(half.transform(X), whole.transform(X), atol=1e-9)


def test_a_clone_keeps_parameters_and_forgets_the_fit():
    for make in FITTED.values():
        estimator = make()
        again = clone(estimator)
        assert type(again) is type(estimator)
        with pytest.raises((NotFittedError, AttributeError)):
            again.transform(X)


@pytest.mark.parametrize("status", Status)
def test_a_status_is_stored_by_its_name(status):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(status, protocol)
        assert pickle.loads(data) is status  # noqa: S301
        assert status.value.encode() not in data  # or a better sentence would make old files unreadable
    assert Status(status.name) is Status(status.value) is status
    with pytest.raises(ValueError, match="not a valid Status"):
        Status("FINISHED")
