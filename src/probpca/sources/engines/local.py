"""Threads of this process that run functions on blocks, with BLAS limited to one thread each."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial, reduce
from itertools import chain, islice
from threading import RLock, get_ident, local
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController

from probpca.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from probpca.sources.files import Stamp
    from probpca.sources.source import M, Watch

T = TypeVar("T")
Item = TypeVar("Item")


@cache
def _blas() -> tuple[Any, ...]:
    # Finding the BLAS libraries takes milliseconds, and they do not change.
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _pool(n_jobs: int) -> ThreadPoolExecutor:
    # One pool per number of threads, for the lifetime of the process: starting threads costs more than a small
    # fold, and threads keep their scratch buffers, a few megabytes each. It holds no rows and no results.
    return ThreadPoolExecutor(n_jobs, thread_name_prefix="probpca")


class _Worker(local):
    """Whether the current thread belongs to a pool."""

    busy = False


_worker = _Worker()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of the nested or concurrent callers has left.

    The limit applies to the whole process: if concurrent fits each saved and restored it, the last one would restore
    the limit of another. Loops that alternate between folds and small linear algebra need it too, because idle BLAS
    threads keep spinning for a while after a call and take cores from the fold.
    """
    libraries, holder = _blas(), object()
    with _limit.lock:
        if not _limit.holders:
            _limit.threads = tuple(library.num_threads for library in libraries)
            _set_threads(1 for _ in libraries)
        _limit.holders[holder] = get_ident()
    try:
        yield
    finally:
        with _limit.lock:
            _release(holder)


def _set_threads(counts: Iterable[int]) -> None:
    """Set the number of threads of each BLAS library, from whichever thread holds the lock.

    threadpoolctl 3.8 lets only the first thread that sets a limit change it until that thread releases it, so that
    the last fit to leave could not undo the limit of the first. The control is therefore taken over here, from a
    caller's own limit too.
    """
    for library, count in zip(_blas(), counts, strict=True):
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)
        library.set_num_threads(count)
        if release is not None:
            release()


class _Limit:
    """Callers that limit BLAS to one thread, and the number of threads of each library before."""

    # A signal handler may fork while its own thread holds the lock.
    lock = RLock()

    def __init__(self) -> None:
        self.holders: dict[object, int] = {}  # with the thread that entered
        self.threads: tuple[int, ...] = ()


_limit = _Limit()


def _release(*holders: object) -> None:
    """Remove callers, and set BLAS to its former number of threads if there were some and none is left."""
    limited = bool(_limit.holders)
    for holder in holders:
        _limit.holders.pop(holder, None)
    if limited and not _limit.holders:
        _set_threads(_limit.threads)


def _after_fork_in_child() -> None:
    """Forget the pools and end the limits of threads that a forked child does not have."""
    try:
        _pool.cache_clear()
        _release(*(holder for holder, thread in _limit.holders.items() if thread != get_ident()))
    finally:
        _limit.lock.release()


if sys.platform != "win32":
    # Forking waits until no other thread is changing the limit: a child could never release a lock of such a thread.
    os.register_at_fork(
        before=_limit.lock.acquire, after_in_parent=_limit.lock.release, after_in_child=_after_fork_in_child
    )


def resolve_jobs(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: None means as many as BLAS may use now, -1 all cores, -2 all but one."""
    if n_jobs is None:
        threads = _limit.threads if _limit.holders else (library.num_threads for library in _blas())
        return max(threads, default=1)
    if n_jobs == 0:
        msg = "n_jobs must be None, a positive number of threads, or -1 for all cores; got 0."
        raise SourceError(msg)
    return n_jobs if n_jobs > 0 else max((os.cpu_count() or 1) + 1 + n_jobs, 1)


def map_blocks(function: Callable[[Item], T], blocks: Iterable[Item], n_jobs: int) -> Iterator[T]:
    """Apply ``function`` to each block, in order; at most ``n_jobs + 1`` blocks are held at a time."""
    blocks = iter(blocks)
    head = list(islice(blocks, 2))
    # A worker that waited for its own pool would wait forever.
    if n_jobs == 1 or len(head) < 2 or _worker.busy:
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


def merged(summaries: Iterable[M]) -> M | None:
    """Merge all summaries from left to right; None if there are none."""
    summaries = iter(summaries)
    first = next(summaries, None)
    return None if first is None else reduce(lambda left, right: left.merge(right), summaries, first)


def itself(block: Item) -> Item:
    """Return the block unchanged, for passes that only read."""
    return block


def alone(block: Item) -> tuple[Item]:
    """Return a tuple of one block, for parts that are blocks already."""
    return (block,)


def join(answers: list[Any]) -> Any:
    """Concatenate the results of successive blocks: arrays, or named tuples of arrays, common text and None.

    The list is emptied, so that no field of a tuple is held twice while the others are concatenated.
    """
    first = answers[0]
    if len(answers) == 1 or isinstance(first, str | None):
        found = first
    elif isinstance(first, tuple):
        fields = list(map(list, zip(*answers, strict=True)))
        answers.clear()
        found = type(first)(*map(join, fields))
    else:
        found = np.concatenate(answers)
    answers.clear()
    return found


@final
@dataclass(frozen=True, eq=False)
class LocalEngine:
    """Engine whose threads each take a part, read it block by block, and apply a function to the blocks.

    Reading and computing overlap, and each thread holds one block at a time. Every pass compares the stamps of the
    files before its first part and after its last, so that no result mixes two versions of a file.
    """

    parts: Iterable[Any]  # iterated once in every pass
    read: Callable[[Any], Iterable[Any]] = alone  # yields the blocks of a part
    n_jobs: int = 1
    watch: Watch | None = None
    held: Sequence[Any] | None = None  # all rows in as few blocks as possible, if they are in memory
    stamps: tuple[Stamp, ...] = ()  # of the files that are read

    def keep(self, prepare: Callable[[Any], Any]) -> None:
        """Return None: blocks of files are prepared whenever they are read, and not stored."""

    def fold(self, summarise: Callable[[Any], M]) -> M | None:
        """Summarise parts in threads and merge the summaries in order; None if there are no rows."""
        if self.held is not None and len(self.held) == len(self.parts) == 1:  # type: ignore[arg-type]
            return quietly(summarise, self.held[0])
        found = self._work(partial(_summarised, summarise))
        return merged(summary for summary in found if summary is not None)

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Apply a row-wise function in threads and concatenate the results; None if there are no rows."""
        found = list(chain.from_iterable(self._work(partial(_answered, function))))
        return join(found) if found else None

    def answers(self, function: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield the results of a row-wise function block by block, in order."""
        return self._unchanged(map_blocks(function, self._blocks(), self.n_jobs))

    def hold(self) -> list[Any]:
        """List of all blocks, in memory."""
        return list(self._unchanged(self._blocks()) if self.held is None else self.held)

    def load(self, most: int) -> list[Any] | None:
        """List of all blocks, read by the threads; None if they take more than ``most`` bytes."""
        found, size = list[Any](), 0
        for blocks in self._work(partial(_answered, itself)):
            found += blocks
            size += sum(block.values.nbytes for block in blocks)
            if size > most:
                return None
        return found

    def has_missing(self) -> bool:
        """Whether the first block has missing cells."""
        first = next(self._unchanged(self._blocks()), None)
        return first is not None and not first.is_complete

    def _work(self, work: Callable[[Callable[[Any], Iterable[Any]], Any], Any]) -> Iterator[Any]:
        """Apply a function to parts, or to their blocks if there are fewer parts than threads."""
        if isinstance(self.parts, Sequence) and len(self.parts) < self.n_jobs:
            found = map_blocks(partial(work, alone), self._blocks(), self.n_jobs)
        else:
            found = self._watched(map_blocks(partial(work, self.read), self.parts, self.n_jobs))
        return self._unchanged(found)

    def _blocks(self) -> Iterator[Any]:
        return chain.from_iterable(self._watched(map(self.read, self.parts)))

    def _unchanged(self, passing: Iterable[T]) -> Iterator[T]:
        """Raise ``SourceError`` if a file has changed before or during a pass, whatever else went wrong then."""
        self._check()
        try:
            yield from passing
        except Exception:
            self._check()  # a change explains errors such as a truncated file or a cell that is not a number
            raise
        self._check()

    def _check(self) -> None:
        for stamp in self.stamps:
            stamp.check()

    def _watched(self, passing: Iterable[T]) -> Iterator[T]:
        """Call the progress callback for each part when the next one is requested."""
        total = len(self.parts) if isinstance(self.parts, Sequence) else 0
        for done, found in enumerate(passing, 1):
            yield found
            if self.watch is not None and total:
                self.watch(done, total)


def _summarised(summarise: Callable[[Any], M], read: Callable[[Any], Iterable[Any]], part: Any) -> M | None:
    return merged(summarise(block) for block in read(part))


def _answered(function: Callable[[Any], Any], read: Callable[[Any], Iterable[Any]], part: Any) -> list[Any]:
    return [function(block) for block in read(part)]


def _work(function: Callable[[Item], T], block: Item) -> T:
    _worker.busy = True
    return quietly(function, block)


def quietly(function: Callable[[Item], T], block: Item) -> T:
    """Call a function without numpy's warnings: infinite values are found and reported when sums are checked."""
    with np.errstate(all="ignore"):
        return function(block)
