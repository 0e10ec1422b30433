"""The local fold: threads over blocks, with BLAS limited to one thread each."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from itertools import islice
from threading import Lock, local
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController

from probpca.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from probpca.blocks import Block
    from probpca.sources.source import M

T = TypeVar("T")
Item = TypeVar("Item")


@cache
def _controller() -> ThreadpoolController:
    # Looking for the BLAS libraries takes milliseconds, and they do not change.
    return ThreadpoolController()


@cache
def _pool(n_jobs: int) -> ThreadPoolExecutor:
    # Kept for the life of the process: its threads keep their scratch buffers, a few megabytes each.
    return ThreadPoolExecutor(n_jobs, thread_name_prefix="probpca")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork

_worker = local()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to the thread that calls it, until the last of those who asked for it is done.

    The limit is one for the whole process: were it saved and restored by each of several fits in
    threads, the last one would restore what another had set. Also for loops that alternate between
    folds and small algebra: BLAS workers that have just been used keep spinning for a while, and
    take the cores away from the fold.
    """
    with _limit.lock:
        if _limit.holders == 0:
            _limit.threads = _blas_threads()
            _limit.limiter = _controller().limit(limits=1, user_api="blas")
        _limit.holders += 1
    try:
        yield
    finally:
        with _limit.lock:
            _limit.holders -= 1
            if _limit.holders == 0:
                _limit.limiter.restore_original_limits()


class _Limit:
    """Who holds BLAS to one thread, and what it had before."""

    lock = Lock()
    holders = 0
    threads = 1
    limiter: Any = None


_limit = _Limit()


def _blas_threads() -> int:
    return max((lib["num_threads"] for lib in _controller().info() if lib["user_api"] == "blas"), default=1)


def resolve_jobs(n_jobs: int | None) -> int:
    """Number of threads: None is as many as BLAS may use now, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return _limit.threads if _limit.holders else _blas_threads()
    if n_jobs == 0:
        msg = "n_jobs must be None, a positive number of threads, or -1 for all cores; got 0."
        raise SourceError(msg)
    return n_jobs if n_jobs > 0 else max((os.cpu_count() or 1) + 1 + n_jobs, 1)


def map_blocks(function: Callable[[Item], T], blocks: Iterable[Item], n_jobs: int) -> Iterator[T]:
    """Apply ``function`` to each block, in order; at most ``n_jobs + 1`` blocks are held at a time."""
    blocks = iter(blocks)
    head = list(islice(blocks, 2))
    # A worker that waited for its own pool would wait for ever.
    if n_jobs == 1 or len(head) < 2 or getattr(_worker, "busy", False):
        for block in (*head, *blocks):
            yield quietly(function, block)
        return
    pool = _pool(n_jobs)
    with one_blas_thread():
        waiting: deque[Future[T]] = deque()
        try:
            for block in (*head, *islice(blocks, n_jobs - 1)):
                waiting.append(pool.submit(_work, function, block))
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(_work, function, block) for block in islice(blocks, 1))
        finally:
            for future in waiting:
                future.cancel()


def fold_blocks(summarise: Callable[[Block], M], blocks: Iterable[Block], n_jobs: int) -> M:
    """Summarise blocks in threads and merge the summaries from left to right."""
    return cast("M", merged(map_blocks(summarise, blocks, n_jobs)))


def merged(summaries: Iterable[M]) -> M | None:
    """All summaries in one, from left to right; None if there are none."""
    summaries = iter(summaries)
    first = next(summaries, None)
    return None if first is None else reduce(lambda left, right: left.merge(right), summaries, first)


def _work(function: Callable[[Item], T], block: Item) -> T:
    _worker.busy = True
    return quietly(function, block)


def quietly(function: Callable[[Item], T], block: Item) -> T:
    """Call without numpy's warnings: values out of range are found in the sums, and named there."""
    with np.errstate(all="ignore"):
        return function(block)
