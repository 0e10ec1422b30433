"""Fits whose Dask cluster is lost: a named error, the estimator as before, and a fit that can be resumed."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from interruptions import disturbed
from probpca import PPCA, BayesianPCA, ClusterError, DataError
from probpca.learning import Settings
from probpca.learning.settings import SampleSize
from probpca.models.serialization import read_record
from probpca.sources.engines.cluster_errors import causes, losses_named
from probpca.sources.engines.dask import _loss, open_dask
from probpca.statistics import Moments

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:distributed", "ignore::ResourceWarning")

N, D, Q = 1200, 6, 2
RNG = np.random.default_rng(23)
ROWS = RNG.standard_normal((N, Q)) @ RNG.standard_normal((Q, D)) + 0.4 * RNG.standard_normal((N, D))
HOLEY = np.where(RNG.random((N, D)) < 0.4, np.nan, ROWS)
ADVICE = r"(?s:.*)Hint: (?s:.*)call fit again\. With checkpoint=, (?s:.*)continues from its last step"
LOST = "the Dask cluster was stopped or restarted, or the connection to it was lost" + ADVICE
DURING_EM = 7
"""Number of a fold in the iterations of a fit to rows with missing cells: some steps are done, and some are not."""


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    """Fits start from a sample of few rows, so that many steps are left for all rows."""
    for module in ("ppca", "bayesian_pca"):
        small = partial(Settings, sample=SampleSize(cells=0, rows=60))
        monkeypatch.setattr(f"probpca.estimators.{module}.Settings", small)


@pytest.fixture
def cluster():
    """A cluster that a test may destroy, with a client."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def rows(x=HOLEY):
    return open_dask(da.from_array(x, chunks=(300, D)))


def settings(**others):
    return {"n_components": Q, "random_state": 0, "tol": 1e-9, **others}


def waiting_for_the_end():
    """A function that says that the fit is under way, and waits until its worker is gone."""

    def wait():  # a local function: workers cannot import this module
        distributed.Event("under way").set()
        distributed.Event("never set").wait()

    return wait


def fit_while(act, estimator, fold=DURING_EM):
    """Fit, and act as soon as a worker is busy with the given fold."""

    def watch():
        assert distributed.Event("under way").wait(timeout=60)
        act()

    with ThreadPoolExecutor(1) as pool:
        acted = pool.submit(watch)
        try:
            return estimator.fit(disturbed(rows(), waiting_for_the_end(), fold))
        finally:
            acted.result()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def exceed():
    """Take more memory than a worker may have, and wait until its nanny notices."""
    held = np.ones(2**26)  # 512 MiB
    distributed.Event("never set").wait()
    return held


def raising(error):
    def act():
        raise error

    return act


LOSSES = {
    "restart": lambda cluster: cluster.get_client().restart(),
    "cluster closed": lambda cluster: cluster.close(),
    "client closed": lambda _: distributed.default_client().close(),
}


@pytest.mark.parametrize("fold", [1, DURING_EM])
@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_a_cluster_that_is_lost_during_a_fit_is_named(cluster, lose, fold):
    with pytest.raises(ClusterError, match=LOST) as caught:
        fit_while(partial(lose, cluster), PPCA(**settings()), fold)
    assert type(caught.value.__cause__).__module__.startswith("distributed.")


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_kept_blocks_that_went_with_their_cluster_are_named(cluster, scheduler):
    kept = rows(ROWS).keep()
    kept.fold(Moments.of)
    cluster.close()
    with dask.config.set(scheduler=scheduler), pytest.raises(ClusterError, match=LOST) as caught:
        kept.fold(Moments.of)
    assert isinstance(caught.value.__cause__, ValueError)  # of the local scheduler, which does not find them


@pytest.fixture
def scheduler(tmp_path):
    """The process of a scheduler with one worker, and a client that soon gives up waiting for an answer."""
    file = str(tmp_path / "scheduler.json")
    local = ["--host", "127.0.0.1", "--no-dashboard"]
    begin = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", *local]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", *local]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        subprocess.Popen([*begin, "--scheduler-file", file], **quiet) as scheduler,  # noqa: S603
        subprocess.Popen([*worker, "--scheduler-file", file], cwd=tmp_path, **quiet) as worker,  # noqa: S603
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
    ):
        try:
            with distributed.Client(scheduler_file=file, timeout="10s") as client:
                client.wait_for_workers(1, timeout=60)
                yield scheduler
        finally:
            worker.kill()
            scheduler.kill()


def test_a_scheduler_that_is_killed_during_a_fit_is_named(scheduler):
    with pytest.raises(ClusterError, match=LOST):
        fit_while(scheduler.kill, PPCA(**settings()))


def test_a_scheduler_that_does_not_answer_is_named(scheduler):
    array = da.from_array(HOLEY, chunks=(300, D))
    scheduler.kill()
    scheduler.wait()
    with pytest.raises(ClusterError, match=LOST):
        PPCA(**settings()).fit(array)


def test_a_connection_that_times_out_is_named():
    """The error is then a plain OSError, known as one of the scheduler's library by the place where it was raised."""
    with pytest.raises(ClusterError, match=LOST) as caught, losses_named(partial(_loss, ())):
        asyncio.run(distributed.comm.connect("tcp://127.0.0.1:1", timeout=0))
    assert all(type(cause).__module__ == "builtins" for cause in causes(caught.value.__cause__))


def refused():
    """A coroutine with which the scheduler's library tries to connect to a port that nobody listens to."""
    return distributed.comm.tcp.BaseTCPConnector.client.connect("127.0.0.1", 1)


async def within(seconds, waiting):
    return await distributed.utils.wait_for(waiting, seconds)


@pytest.mark.parametrize("seconds", [0, 0.01])
def test_an_answer_that_is_waited_for_in_vain_is_named(seconds):
    """The error is raised by asyncio, for the library."""
    with pytest.raises(ClusterError, match=LOST) as caught, losses_named(partial(_loss, ())):
        asyncio.run(within(seconds, asyncio.sleep(60)))
    assert isinstance(caught.value.__cause__, TimeoutError)


def test_a_connection_that_is_refused_is_named():
    """The error is raised by tornado, for the library."""
    with pytest.raises(ClusterError, match=LOST) as caught, losses_named(partial(_loss, ())):
        asyncio.run(within(60, refused()))
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("end", [die, exceed])
def test_workers_that_die_again_and_again_are_named(end):
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, memory_limit="500MB") as cluster,
        distributed.Client(cluster),
        pytest.raises(ClusterError, match="workers died again and again" + ADVICE) as caught,
    ):
        PPCA(**settings()).fit(disturbed(rows(), end, DURING_EM))
    assert isinstance(caught.value.__cause__, distributed.KilledWorker)


@pytest.fixture(params=["threads", "cluster"])
def engine(request):
    if request.param == "threads":
        with dask.config.set(scheduler="threads"):
            yield
    else:
        yield request.getfixturevalue("client")


@pytest.mark.usefixtures("engine")
def test_a_task_without_memory_is_named():
    with pytest.raises(ClusterError, match="a Dask task ran out of memory" + ADVICE) as caught:
        PPCA(**settings()).fit(disturbed(rows(), raising(MemoryError()), DURING_EM))
    assert isinstance(caught.value.__cause__, MemoryError)


@pytest.mark.parametrize("error", [DataError("no."), ZeroDivisionError("one"), OSError("none")], ids=repr)
@pytest.mark.usefixtures("engine")
def test_other_errors_of_tasks_are_not_changed(error):
    with pytest.raises(type(error), match=f"^{error}$") as caught:
        PPCA(**settings()).fit(disturbed(rows(), raising(error), DURING_EM))
    assert type(caught.value) is type(error)


def wait_in_vain():
    asyncio.run(asyncio.wait_for(asyncio.sleep(60), 0.01))


def call_nobody():
    socket.create_connection(("127.0.0.1", 1))


@pytest.mark.parametrize(("connect", "kind"), [(wait_in_vain, TimeoutError), (call_nobody, ConnectionRefusedError)])
@pytest.mark.usefixtures("engine")
def test_errors_of_connections_that_a_task_makes_are_not_changed(connect, kind):
    with pytest.raises(kind):
        PPCA(**settings()).fit(disturbed(rows(), connect, DURING_EM))


def test_an_interrupt_is_not_changed():
    with dask.config.set(scheduler="synchronous"), pytest.raises(KeyboardInterrupt):
        PPCA(**settings()).fit(disturbed(rows(), raising(KeyboardInterrupt()), DURING_EM))


@pytest.mark.parametrize("make", [PPCA, BayesianPCA])
def test_after_a_loss_the_estimator_is_as_before_and_fits_again(cluster, make):
    former = pd.DataFrame(ROWS[:, :4], columns=list("abcd"))
    estimator = make(Q, random_state=0).fit(former)
    before = dict(vars(estimator))
    scores = estimator.transform(former)
    with pytest.raises(ClusterError):
        fit_while(cluster.close, estimator)
    assert vars(estimator) == before
    assert_array_equal(estimator.transform(former), scores)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as another,
        distributed.Client(another),
    ):
        estimator.fit(rows())
    with dask.config.set(scheduler="threads"):
        calm = make(Q, random_state=0).fit(rows())
    assert estimator.n_features_in_ == D
    assert_allclose(estimator.get_covariance(), calm.get_covariance(), rtol=1e-12)


@pytest.mark.parametrize("solver", ["em", "px_em"])
def test_a_fit_resumed_on_another_cluster_ends_like_an_undisturbed_one(cluster, tmp_path, solver):
    estimator = PPCA(**settings(solver=solver, checkpoint=tmp_path / "fit.ckpt"))
    with pytest.raises(ClusterError):
        fit_while(cluster.close, estimator)
    saved = read_record(tmp_path / "fit.ckpt")[1]["trace"]
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as another,
        distributed.Client(another),
    ):
        estimator.fit(rows())
    with dask.config.set(scheduler="threads"):
        calm = PPCA(**settings(solver=solver)).fit(rows())
    assert len(saved) > 0
    assert_array_equal(estimator.trace_[: len(saved)], saved)
    assert not (tmp_path / "fit.ckpt").exists()
    # The last steps are not those of the undisturbed fit where extrapolation has lost its memory.
    assert_allclose(estimator.log_likelihood_, calm.log_likelihood_, rtol=1e-12)
    assert_allclose(estimator.get_covariance(), calm.get_covariance(), rtol=1e-9 if solver == "em" else 1e-5)
    if solver == "em":
        assert estimator.n_iter_ == calm.n_iter_
