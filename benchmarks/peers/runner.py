"""What the runners in Python share: read the table, time the fit, write the model.

A runner is called as ``run_<peer>.py table.npy q effort out``. Effort is the number of iterations. It writes
``out.json`` (seconds of the fit, iterations, megabytes, version, noise variance or null) and ``out.bin`` (the mean,
then the columns of the loadings, as float64). A null noise variance says that the loadings are axes without a scale.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np


def run(package, fit):
    """``fit(x, q, effort)`` returns mean, loadings, noise variance and the number of iterations."""
    table, q, effort, out = sys.argv[1:]
    x = np.load(table)
    warnings.simplefilter("ignore")
    before = memory("VmRSS")
    start = time.perf_counter()
    mean, loadings, noise, iterations = fit(x, int(q), int(effort))
    answer = {
        "seconds": time.perf_counter() - start,
        "iterations": iterations,
        "memory": max(memory("VmHWM") - before, 0),
        "version": version(package),
        "noise_variance": None if noise is None else float(noise),
    }
    Path(out + ".json").write_text(json.dumps(answer), encoding="utf-8")
    np.concatenate([np.ravel(mean), np.ravel(loadings, order="F")]).astype(float).tofile(out + ".bin")


def memory(kind):
    """Megabytes resident now (VmRSS) or at the peak (VmHWM)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(kind + ":")[1].split()[0]) / 1024
