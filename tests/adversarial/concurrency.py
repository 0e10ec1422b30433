"""Readers and writers of one file, threads that fit at once, and forks in the middle of a fit."""

import os
import select
import signal
import tempfile
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from adversarial.judgement import Judge, named
from probpca import PPCA, SourceError

PATIENCE = 30.0
"""Seconds after which a forked process counts as one that hangs."""


def rows(rng, missing=0.1):
    x = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((60, 5))
    x[rng.random(x.shape) < missing] = np.nan
    return x


def fit(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PPCA(2, random_state=0).fit(x)


def model_file(rng):
    """One thread writes two models by turns under one name, others read it."""
    models, judge, done = [fit(rows(rng)) for _ in range(2)], Judge(), threading.Event()
    known = {model.noise_variance_ for model in models}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        models[0].to_file(path)

        def read():
            while not done.is_set():
                try:
                    judge.holds(PPCA.from_file(path).noise_variance_ in known, "a model that nobody wrote")
                except Exception as error:  # noqa: BLE001
                    judge.complaints.append(f"{type(error).__name__}: {error}")

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read) for _ in range(2)]
            for k in range(40):
                models[k % 2].to_file(path)
            done.set()
            for reader in readers:
                reader.result()
    return judge.verdict


def table_file(rng):
    """A table is replaced by another of the same size while it is fitted: the old one, the new one, or an error."""
    x, judge, done = [rng.standard_normal((4000, 4)) + 5 * k for k in range(2)], Judge(), threading.Event()
    suffix = str(rng.choice(["npy", "csv"]))
    known = [fit(one).mean_ for one in x]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{suffix}"
        contents = [_bytes(one, Path(folder) / f"part.{suffix}") for one in x]
        path.write_bytes(contents[0])

        def write():
            k = 0
            while not done.is_set():
                k = 1 - k
                other = path.with_suffix(".new")
                other.write_bytes(contents[k])
                other.replace(path)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(5):
                _judge_fit(judge, path, known)
        finally:
            done.set()
            writer.join()
    return judge.verdict


def _judge_fit(judge, path, known):
    try:
        found = fit(path).mean_
    except SourceError:
        return
    except Exception as error:  # noqa: BLE001
        judge.holds(named(error), f"{type(error).__name__}: {error}")
        return
    judge.holds(any(np.allclose(found, mean, rtol=1e-9) for mean in known), f"a mixture of two tables: {found}")


def _bytes(x, path):
    """The table as bytes of equal length whatever the numbers."""
    if path.suffix == ".npy":
        np.save(path, x)
    else:
        lines = ["a,b,c,d", *(",".join(f"{value:+.15e}" for value in row) for row in x)]
        path.write_text("\n".join(lines) + "\n")
    content = path.read_bytes()
    path.unlink()
    return content


def threads(rng):
    """Four threads fit different tables at once; each must find what it finds alone."""
    tables, judge = [rows(rng) for _ in range(8)], Judge()
    alone = [fit(x) for x in tables]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, tables))
    for one, other in zip(alone, together, strict=True):
        judge.holds(np.array_equal(one.loadings_, other.loadings_), "another model than alone")
        judge.holds(one.log_likelihood_ == other.log_likelihood_, "another likelihood than alone")
    return judge.verdict


def fork(rng):
    """Fork while threads fit; the child fits, too."""
    x, judge, done = rows(rng), Judge(), threading.Event()
    want = fit(x).log_likelihood_

    def work():
        while not done.is_set():
            fit(x)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(5):
            _judge_child(judge, x, want)
    finally:
        done.set()
        worker.join()
    return judge.verdict


def _judge_child(judge, x, want):
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks with threads; that is the point
        child = os.fork()
    if child == 0:
        try:
            os.write(theirs, repr(float(fit(x).log_likelihood_)).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    ready, _, _ = select.select([ours], [], [], PATIENCE)
    answer = os.read(ours, 100) if ready else None
    os.close(ours)
    if answer is None:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    judge.holds(answer is not None, "a forked process hangs")
    judge.holds(answer is None or answer == repr(float(want)).encode(), f"a forked process finds {answer}, not {want}")
