"""Processes that are forked while another thread of the parent is fitting."""

import os
import subprocess
import sys
from textwrap import dedent

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

START = """
import os
import signal
import threading

import numpy as np
from threadpoolctl import threadpool_info

from probpca import PPCA
from probpca.cached_property import cached_property
from probpca.sources.engines import local

SECONDS = 60  # of waiting for a child: one that is still there then hangs
inside, leave = threading.Event(), threading.Event()
main = threading.current_thread()
rng = np.random.default_rng(0)
table = rng.standard_normal((60, 5))
table[rng.random(table.shape) < 0.1] = np.nan


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def wait_inside():
    if threading.current_thread() is not main:
        inside.set()
        leave.wait()


def start(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    assert inside.wait(SECONDS)
    return thread


def fitted():
    return PPCA(2, max_iter=20, n_jobs=2, random_state=0).fit(table).loadings_


def in_a_child(function):
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)  # ends a child that hangs
        try:
            ok = function()
        except BaseException as error:
            print(repr(error), flush=True)
            ok = False
        os._exit(0 if ok else 3)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, "the child hangs" if code == -signal.SIGALRM else "the child is wrong"
"""


def run(script):
    """Run a script in a process of its own, with two BLAS threads, so that a limit can be seen."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", START + dedent(script)],
        env=dict(os.environ, OPENBLAS_NUM_THREADS="2", MKL_NUM_THREADS="2", OMP_NUM_THREADS="2"),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_child_forked_while_a_thread_changes_the_limit_on_blas_can_fit():
    run("""
        expected, before = fitted(), blas_threads()
        set_threads = local._set_threads

        def held(counts):
            wait_inside()
            set_threads(counts)

        local._set_threads = held
        thread = start(fitted)
        os.register_at_fork(before=leave.set)  # runs before the function that the package has registered
        in_a_child(lambda: np.array_equal(fitted(), expected) and blas_threads() == before)
        thread.join()
        assert blas_threads() == before, "the limit remains in the parent"
    """)


def test_a_child_forked_while_a_thread_fits_has_all_blas_threads_again():
    run("""
        expected, before = fitted(), blas_threads()

        def limited():
            with local.one_blas_thread():
                wait_inside()

        thread = start(limited)
        assert set(blas_threads()) == {1}
        in_a_child(lambda: blas_threads() == before and np.array_equal(fitted(), expected) and blas_threads() == before)
        assert set(blas_threads()) == {1}, "the fit in the parent has lost its limit"
        leave.set()
        thread.join()
        assert blas_threads() == before
    """)


def test_a_child_forked_within_a_fit_keeps_the_limit_until_its_end():
    run("""
        before = blas_threads()

        def left():
            limit.__exit__(None, None, None)
            ended = blas_threads() == before
            with local.one_blas_thread():
                again = set(blas_threads()) == {1}
            return ended and again and blas_threads() == before

        limit = local.one_blas_thread()
        limit.__enter__()
        in_a_child(lambda: set(blas_threads()) == {1} and left())
        assert set(blas_threads()) == {1}
        assert left(), "the limit of the parent"
    """)


def test_a_child_forked_while_a_thread_computes_a_property_can_compute_it():
    run("""
        class Slow:
            @cached_property
            def value(self):
                wait_inside()
                return 7

        thread = start(lambda: Slow().value)
        in_a_child(lambda: Slow().value == 7)
        leave.set()
        thread.join()
    """)


def test_a_child_forked_while_a_thread_folds_can_fold_in_threads():
    run("""
        from probpca.sources import open_source
        from probpca.statistics import Moments

        rows = rng.standard_normal((40_000, 4))

        def mean():
            return open_source(rows, n_jobs=2).fold(Moments.of).mean

        def slow(block):
            inside.set()
            leave.wait()
            return Moments.of(block)

        thread = start(lambda: open_source(rows, n_jobs=2).fold(slow))
        in_a_child(lambda: np.allclose(mean(), rows.mean(axis=0)))
        leave.set()
        thread.join()
        assert np.allclose(mean(), rows.mean(axis=0))
    """)
