"""Threads, nested folds and the limit on BLAS threads."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info

from probpca import PPCA
from probpca.sources import open_source
from probpca.sources.engines.local import one_blas_thread, resolve_jobs
from probpca.statistics import ColumnSummary


def total_of_inner_fold(rows, block):
    inner = open_source([rows, rows], n_jobs=2).fold(ColumnSummary.of)
    return np.full(block.n_rows, inner.total_weight)


def test_a_map_within_a_map_does_not_wait_for_itself(rng):
    x = rng.standard_normal((40, 3))
    answer = open_source([x, x, x, x], n_jobs=2).map(partial(total_of_inner_fold, x))
    assert_allclose(answer, 80.0)


def test_the_limit_on_blas_ends_with_the_last_who_asked_for_it():
    before = resolve_jobs(None)
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert resolve_jobs(None) == before, "a fit that starts meanwhile still uses all threads"
    second.__exit__(None, None, None)
    assert resolve_jobs(None) == before


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.skipif(resolve_jobs(None) == 1, reason="BLAS has one thread")
def test_any_thread_can_set_the_limit_on_blas_and_another_can_end_it():
    before = blas_threads()
    with one_blas_thread():  # the thread of this test has set a limit
        pass
    limit = one_blas_thread()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(limit.__enter__).result()
        assert set(blas_threads()) == {1}
        other.submit(limit.__exit__, None, None, None).result()
        assert blas_threads() == before


def test_fits_in_threads_give_the_same_answers_and_leave_blas_as_it_was(rng):
    before = resolve_jobs(None)
    tables = [rng.standard_normal((3000, 6)) + k for k in range(6)]
    together = Barrier(3)

    def fit(x):
        together.wait(timeout=60)
        return PPCA(2, solver="krylov", n_jobs=2, random_state=0).fit(x).log_likelihood_

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(fit, tables))
    assert_allclose(found, [PPCA(2).fit(x).log_likelihood_ for x in tables], atol=2e-3)
    assert resolve_jobs(None) == before


def test_the_number_of_threads_asked_for_is_kept_in_every_regime(rng, monkeypatch):
    from probpca.learning.complete import dense as direct  # noqa: PLC0415

    seen = []
    original = direct.map_blocks
    monkeypatch.setattr(direct, "map_blocks", lambda f, items, jobs: seen.append(jobs) or original(f, items, jobs))
    PPCA(2, solver="gram", n_jobs=1).fit(rng.standard_normal((10, 30)))
    assert set(seen) == {1}


class Doubled(NamedTuple):
    values: np.ndarray
    squares: np.ndarray


def test_results_of_several_arrays_are_joined_one_array_at_a_time(rng):
    x = rng.standard_normal((20_000, 20))
    source = open_source([x] * 5, n_jobs=1)
    tracemalloc.start()
    try:
        found = source.map(lambda block: Doubled(2 * block.values, block.values**2))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_allclose(found.squares, np.tile(x, (5, 1)) ** 2)
    assert_allclose(found.values, np.tile(x, (5, 1)) * 2)
    assert peak < 3.5 * found.values.nbytes, "all arrays are held twice"
