"""Kill a fit with a checkpoint, start it again, and so on: it must end as if nobody had disturbed it.

The processes fit files with missing cells, .npy or Parquet, and are killed at random moments. A process that is done
before its moment has come is checked, and its fit begun anew. The adversarial campaign calls it with other seeds.
"""

import io
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from probpca.inference import sample
from probpca.learning import Settings, fit_ppca
from probpca.learning.settings import SampleSize
from probpca.models import LinearGaussian
from probpca.models.serialization import read_record
from probpca.sources import open_source, source as memory
from probpca.sources.readers import npy

N, D, Q = 3000, 6, 2
ROWS_READ_AT_ONCE, ROWS_TO_BEGIN_WITH = 500, 60
LONGEST, AFTER_A_STEP = 0.3, 0.8
"""Seconds within which a process is killed after its start or, so often, after its first step."""
PAUSE = 0.004
"""Seconds that a part of the rows takes longer than it must."""
CLOSE = 1e-6
"""Nats for each nat by which two fits of the same rows may differ."""
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "pyarrow.parquet",
        "scipy.linalg",
        "probpca.learning.fit",
        "probpca.sources.readers.arrow",
        "probpca.sources.readers.csv",
    ]
)


class Ended(NamedTuple):
    """What a process that came to its end left behind."""

    log_likelihood: float
    trace: np.ndarray


class Story(NamedTuple):
    """What happened to one file."""

    kills: int
    finished: int  # processes that were done before their moment had come
    resumed: int  # processes that found a checkpoint
    late: int  # kills after the checkpoint was removed, and before the result was there
    scraps: int  # checkpoints that were half written when the moment came
    trace: np.ndarray  # of the last process, from the very first step on
    broken: tuple[str, ...]  # laws that did not hold


def write_rows(folder, kind):
    """A table with weak components and missing cells, over which EM takes many steps."""
    rng = np.random.default_rng(11)
    truth = LinearGaussian(rng.standard_normal(D), 0.4 * rng.standard_normal((D, Q)), 1.0)
    x = sample(truth, N, rng=rng)
    x[rng.random(x.shape) < 0.3] = np.nan
    path = Path(folder) / f"rows.{kind}"
    if kind == "npy":
        np.save(path, x)
    else:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415

        table = pa.table({f"c{j}": column for j, column in enumerate(x.T)})
        parquet.write_table(table, path, row_group_size=N // 4)
    return path


def fit_file(path, checkpoint=None, pause=0.0):
    """Plain EM, part by part, with a little rest after each."""
    small = patch.multiple(npy, SMALL_BLOCK=ROWS_READ_AT_ONCE * 8 * D, PART_BLOCKS=1)
    read_again = patch.object(memory, "HELD_BYTES", 0)
    poor = SampleSize(cells=0, rows=ROWS_TO_BEGIN_WITH)  # from here there is far to go
    settings = Settings("em", 1e-6, 5000, None, 1, checkpoint, sample=poor)
    with small, read_again:
        source = open_source(path, n_jobs=1, watch=lambda *_: time.sleep(pause))
        return fit_ppca(source, Q, settings, np.random.default_rng(0))


def child(path, checkpoint, out, line):
    """What a process does that is to be killed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server of forks ignores it
    sys.stderr = io.StringIO()  # nobody wants to read where it was interrupted
    line.send("here I am")
    found = fit_file(path, checkpoint, PAUSE)
    unfinished = out.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        np.savez(file, value=found.log_likelihood, trace=found.trace)
    unfinished.replace(out)


class Trial:
    """A file of rows, the fit that nobody disturbs, and the fit that is killed again and again."""

    def __init__(self, folder, kind, signals=(signal.SIGKILL,)):
        self.signals = signals
        self.rows = write_rows(folder, kind)
        self.checkpoint, self.out = Path(folder) / "checkpoint", Path(folder) / "out.npz"
        self.wanted = fit_file(self.rows)
        self.finished = self.resumed = self.late = 0
        self.known = np.empty(0)  # trace of the last checkpoint that was seen
        self.broken = []

    def survive(self, kills, rng):
        """Kill so many processes, then let one come to its end."""
        done = 0
        while done < kills:
            deadly = self.signals[int(rng.integers(len(self.signals)))]
            if self._run(rng.uniform(0, LONGEST), deadly, after_a_step=rng.random() < AFTER_A_STEP):
                self._check_end()
                self.finished += 1
            else:
                done += 1
                self._check_checkpoint()
        self._run(None, signal.SIGKILL, after_a_step=False)
        ended = self._check_end()
        self._expect(self.late <= 1 + kills / 10, "checkpoints vanish")
        scraps = len(list(self.checkpoint.parent.glob("checkpoint.*")))
        return Story(kills, self.finished, self.resumed, self.late, scraps, ended.trace, tuple(self.broken))

    def _run(self, moment, deadly, *, after_a_step):
        """Start a process and kill it, or not; did it come to its end?"""
        before = self._stamp()
        self.resumed += self.checkpoint.exists()
        ours, theirs = SERVER.Pipe()
        process = SERVER.Process(target=child, args=(self.rows, self.checkpoint, self.out, theirs))
        process.start()
        ours.recv()
        while after_a_step and process.is_alive() and self._stamp() == before:
            time.sleep(0.001)
        process.join(moment)
        if process.is_alive():
            os.kill(process.pid, deadly)
        process.join()
        if process.exitcode not in (0, -deadly, 1 if deadly == signal.SIGINT else 0):
            self.broken.append(f"a process ended with code {process.exitcode}")
        return process.exitcode == 0

    def _stamp(self):
        return self.checkpoint.stat().st_mtime_ns if self.checkpoint.exists() else 0

    def _check_checkpoint(self):
        """It is whole, and goes on from the one before."""
        if not self.checkpoint.exists():
            self.late += self.known.size > 0
            self.known = np.empty(0)
            return
        header, arrays = read_record(self.checkpoint)
        trace = arrays["trace"]
        self._expect(header["kind"] == "checkpoint", "a checkpoint is something else")
        self._expect(_is_continued(self.known, trace), "a checkpoint lost steps of the one before")
        self._expect(_is_continued(trace, self.wanted.trace), "a checkpoint is not on the way of the undisturbed fit")
        self.known = trace

    def _check_end(self):
        """The same maximum as that of the undisturbed fit, and the whole of the way to it."""
        with np.load(self.out) as stored:
            ended = Ended(float(stored["value"]), stored["trace"])
        gap = abs(ended.log_likelihood - self.wanted.log_likelihood)
        self._expect(gap <= CLOSE * abs(self.wanted.log_likelihood), f"the maximum differs by {gap:.2g} nats")
        self._expect(_is_continued(self.known, ended.trace), "steps before the kill are missing at the end")
        self._expect((np.diff(ended.trace) >= -1e-9 * abs(ended.trace[-1])).all(), "the trace falls")
        self._expect(not self.checkpoint.exists(), "a checkpoint is left behind by a fit that is done")
        self.out.unlink()
        self.known = np.empty(0)
        return ended

    def _expect(self, law, words):
        if not law:
            self.broken.append(words)


def _is_continued(trace, other):
    """Does the other trace begin with this one? Two traces that are both at their end may differ in length."""
    shared = min(len(trace), len(other))
    same = np.allclose(trace[:shared], other[:shared], rtol=1e-12, atol=0)
    return same and len(trace) <= len(other) + 10


def survive(kills, kind="npy", seed=0, signals=(signal.SIGKILL,)):
    """The story of one file and so many kills."""
    with tempfile.TemporaryDirectory() as folder:
        return Trial(folder, kind, signals).survive(kills, np.random.default_rng(seed))
