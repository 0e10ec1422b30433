"""Processes killed at random moments: nothing half-written is left at a final name, and a fit goes on where it was."""

import io
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from adversarial.judgement import Judge, Verdict
from kill_resume import SERVER, survive
from probpca import PPCA
from probpca.cli.main import main

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LONGEST = {"model": 0.03, "table": 0.5, "command": 0.5}
"""Seconds within which a process that writes is killed."""


def resumed(rng):
    """A fit with a checkpoint, killed three times."""
    kind = str(rng.choice(["npy", "parquet"]))
    story = survive(3, kind, int(rng.integers(2**31)), SIGNALS)
    return Verdict("wrong", tuple(story.broken)) if story.broken else Verdict("right")


def written(rng):
    """A model or a completed table that is being written again and again under one name, in Python or by a command."""
    what = str(rng.choice(list(WORK), p=[0.5, 0.25, 0.25]))
    suffix = "npz" if what == "model" else str(rng.choice(["npy", "parquet", "feather", "csv"]))
    deadly, judge = SIGNALS[int(rng.integers(3))], Judge()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"out.{suffix}"
        ours, theirs = SERVER.Pipe()
        process = SERVER.Process(target=WORK[what], args=(path, int(rng.integers(2**31)), theirs))
        process.start()
        theirs.close()
        complete = ours.recv()  # the contents that the file may have
        process.join(rng.uniform(0, LONGEST[what]))
        if process.is_alive():
            os.kill(process.pid, deadly)
        process.join(20)
        judge.holds(not process.is_alive(), f"{what}: alive 20 s after signal {deadly}")
        process.kill()
        process.join()
        if path.exists():
            judge.holds(path.read_bytes() in complete, f"{what}: a half-written {path.name} after signal {deadly}")
    return judge.verdict


def _write_models(path, seed, line):
    """Two models by turns."""
    _prepare()
    models = [PPCA(1, random_state=0).fit(_rows(seed + k)) for k in range(2)]
    line.send([_content(model.to_file, path) for model in models])
    while True:
        for model in models:
            model.to_file(path)


def _write_tables(path, seed, line):
    """One completed table, again and again."""
    _prepare()
    x = np.tile(_rows(seed), (400, 1))
    x[::7, 0] = np.nan
    model = PPCA(1, random_state=0).fit(x)
    line.send([_content(lambda out: model.impute(x, out=out), path)])
    while True:
        model.impute(x, out=path)


def _run_commands(path, seed, line):
    """The same by ``probpca impute --out``."""
    _prepare()
    x = np.tile(_rows(seed), (400, 1))
    x[::7, 0] = np.nan
    model, table = path.with_name("fitted.npz"), path.with_name("table.parquet")
    parquet.write_table(pa.table({f"c{j}": column for j, column in enumerate(x.T)}), table)
    PPCA(1, random_state=0).fit(table).to_file(model)

    def command(out):
        code = main(["impute", str(model), str(table), "--out", str(out), "--force"])
        if code:
            sys.exit(code)

    line.send([_content(command, path)])
    while True:
        command(path)


def _prepare():
    """Be interrupted as a program is that was started by hand, and say nothing."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout = sys.stderr = io.StringIO()


def _rows(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((60, 5)) + rng.standard_normal((60, 1))


def _content(write, path):
    """What an undisturbed writer leaves."""
    other = path.with_name(f"undisturbed{path.suffix}")
    write(other)
    found = other.read_bytes()
    other.unlink()
    return found


WORK = {"model": _write_models, "table": _write_tables, "command": _run_commands}
