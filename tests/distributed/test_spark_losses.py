"""Fits whose Spark session or workers are lost: a named error, and a fit that can be resumed."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from interruptions import disturbed
from probpca import PPCA, ClusterError, DataError
from probpca.learning import Settings
from probpca.learning.settings import SampleSize
from probpca.models.serialization import read_record
from probpca.sources.engines.spark import open_spark

pytest.importorskip("pyspark")
pytestmark = pytest.mark.filterwarnings("default")  # Spark warns of what pandas and Python will do one day

N, D, Q = 600, 5, 2
RNG = np.random.default_rng(29)
ROWS = RNG.standard_normal((N, Q)) @ RNG.standard_normal((Q, D)) + 0.4 * RNG.standard_normal((N, D))
HOLEY = np.where(RNG.random((N, D)) < 0.3, np.nan, ROWS)
ADVICE = r"(?s:.*)Hint: (?s:.*)call fit again\. With checkpoint=, (?s:.*)continues from its last step"
LOST = "the Spark session was stopped, or the connection to it was lost" + ADVICE
DURING_EM = 6
"""Number of a fold in the iterations of a fit to rows with missing cells: some steps are done, and some are not."""


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    """Fits start from a sample of few rows, so that many steps are left for all rows."""
    small = partial(Settings, sample=SampleSize(cells=0, rows=60))
    monkeypatch.setattr("probpca.estimators.ppca.Settings", small)


def rows(session):
    session.sparkContext.setLogLevel("OFF")
    table = [[None if np.isnan(cell) else float(cell) for cell in row] for row in HOLEY]
    return open_spark(session.createDataFrame(table, "a double, b double, c double, d double, e double").coalesce(2))


def settings(**others):
    return {"n_components": Q, "random_state": 0, "tol": 1e-6, **others}


def raising(error):
    def act():
        raise error

    return act


@pytest.mark.parametrize("error", [DataError("no."), MemoryError("none")], ids=repr)
def test_errors_of_workers_are_named_without_java(spark, error):
    kind, words = (DataError, "^no.$") if isinstance(error, DataError) else (ClusterError, "out of memory" + ADVICE)
    with pytest.raises(kind, match=words) as caught:
        PPCA(**settings()).fit(disturbed(rows(spark), raising(error), DURING_EM))
    assert "java" not in str(caught.value).lower()
    assert kind is DataError or isinstance(caught.value.__cause__, MemoryError)


def test_workers_that_die_again_and_again_are_named(spark):
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ClusterError, match="Spark gave up a job (?s:.*)Python worker exited" + ADVICE) as caught:
        PPCA(**settings()).fit(disturbed(rows(spark), die, DURING_EM))
    assert "\tat " not in str(caught.value)  # no stack of Java
    assert type(caught.value.__cause__).__name__ == "Py4JJavaError"


def test_other_errors_of_tasks_are_not_changed(spark):
    from pyspark.errors import PythonException  # noqa: PLC0415

    with pytest.raises(PythonException, match="ZeroDivisionError: one"):
        PPCA(**settings()).fit(disturbed(rows(spark), raising(ZeroDivisionError("one")), DURING_EM))


def fit_and_stop(session, estimator, place):
    """Fit, and stop the session as soon as a worker is busy with a step."""
    pipe = place / "under way"
    os.mkfifo(pipe)
    name = str(pipe)

    def wait():
        with open(name, "w"):  # noqa: PTH123  until the reader is there
            pass
        Event().wait()

    def stop():
        with pipe.open():
            session.stop()

    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(stop)
        try:
            estimator.fit(disturbed(rows(session), wait, DURING_EM))
        finally:
            stopped.result()


def test_a_fit_whose_session_was_stopped_is_resumed_in_another(spark_builder, tmp_path):
    estimator = PPCA(**settings(checkpoint=tmp_path / "fit.ckpt")).fit(ROWS[:, :4])
    before, scores = dict(vars(estimator)), estimator.transform(ROWS[:, :4])
    with pytest.raises(ClusterError, match=LOST):
        fit_and_stop(spark_builder.getOrCreate(), estimator, tmp_path)
    assert vars(estimator) == before
    assert_array_equal(estimator.transform(ROWS[:, :4]), scores)
    saved = read_record(tmp_path / "fit.ckpt")[1]["trace"]
    estimator.fit(rows(spark_builder.getOrCreate()))
    calm = PPCA(**settings()).fit(rows(spark_builder.getOrCreate()))
    assert len(saved) > 0
    assert_array_equal(estimator.trace_[: len(saved)], saved)
    assert not (tmp_path / "fit.ckpt").exists()
    assert_allclose(estimator.log_likelihood_, calm.log_likelihood_, rtol=1e-9)
    assert_allclose(estimator.get_covariance(), calm.get_covariance(), rtol=1e-3)  # extrapolation lost its memory


def test_a_session_that_was_stopped_before_is_named(spark_builder):
    session = spark_builder.getOrCreate()
    frame = session.createDataFrame([[1.0, 2.0], [2.0, 3.0]], "a double, b double")
    session.stop()
    with pytest.raises(ClusterError, match=LOST):
        PPCA(1).fit(frame)
