"""Maximum-likelihood factor analysis of standardised complete rows by other libraries, and a judge of all of them.

Each peer is a function of rows (n, d) of mean 0 and variance 1 and of the number of factors, and returns loadings
(d, q), noise variances (d,) and means (d,). R runs in a process of its own and is timed there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from peers.judge import log_likelihood
from sklearn.decomposition import FactorAnalysis
from statsmodels.multivariate.factor import Factor

RUNNER = Path(__file__).parent / "run_factor_analysis.R"
FLOOR = 1e-6


class Solution(NamedTuple):
    """Parameters that a peer has found."""

    loadings: np.ndarray
    noise: np.ndarray
    mean: np.ndarray


def by_scikit_learn(x, q, **options):
    peer = FactorAnalysis(q, **options).fit(x)
    return Solution(peer.components_.T, peer.noise_variance_, peer.mean_)


def by_statsmodels(x, q):
    """It has no floor."""
    peer = Factor(x, n_factor=q, method="ml").fit()
    return Solution(np.asarray(peer.loadings), np.asarray(peer.uniqueness), np.zeros(x.shape[1]))


def by_factor_analyzer(x, q):
    """With our floor. Version 0.5.1 calls scikit-learn by a name that it no longer has."""
    from factor_analyzer import factor_analyzer  # noqa: PLC0415
    from sklearn.utils import check_array  # noqa: PLC0415

    def check(rows, *, force_all_finite=True, **options):
        return check_array(rows, ensure_all_finite=force_all_finite, **options)

    factor_analyzer.check_array = check
    peer = factor_analyzer.FactorAnalyzer(q, rotation=None, method="ml", bounds=(FLOOR, 1)).fit(x)
    return Solution(peer.loadings_, np.asarray(peer.get_uniquenesses()), np.zeros(x.shape[1]))


def has(package):
    return find_spec(package) is not None


def in_r(method, x, q, seconds=0.5):
    """Solution of a method of run_factor_analysis.R, and its story; None and the error where it fails."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return None, {"error": "R is not installed"}
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "table.npy", Path(folder) / "out"
        np.save(path, np.ascontiguousarray(x))
        words = [rscript, str(RUNNER), method, str(path), str(q), str(seconds), str(out)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            return None, {"error": done.stderr.strip().splitlines()[-1]}
        d = x.shape[1]
        values = np.fromfile(f"{out}.bin")
        loadings, noise, mean = np.split(values, [d * q, d * (q + 1)])
        story = json.loads(Path(f"{out}.json").read_text(encoding="utf-8"))
        return Solution(loadings.reshape(q, d).T, noise, mean), story


def table_of_r(expression):
    """A table of R as an array; None if R or its package is not installed."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        code = f"write.table({expression}, '{path}', sep = ',', row.names = FALSE, col.names = FALSE, na = 'nan')"
        done = subprocess.run([rscript, "-e", code], capture_output=True, check=False)  # noqa: S603
        return np.loadtxt(path, delimiter=",") if done.returncode == 0 else None


def value_of(found, x):
    """Log-likelihood of rows with or without missing cells; NaN if a noise variance is not positive."""
    if found.noise.min() <= 0:
        return float("nan")
    root = np.sqrt(found.noise)
    observed = (~np.isnan(x)).sum(axis=0)
    white = log_likelihood(x / root, found.mean / root, found.loadings / root[:, None], 1.0)
    return float(white - observed @ np.log(root))


def with_floor(found, x, floor=FLOOR):
    """The solution if no noise variance is below the floor, else the best loadings for those raised to it."""
    if found.noise.min() >= floor * (1 - 1e-9):
        return found
    psi = np.maximum(found.noise, floor)
    S = (x.T @ x / len(x)) / np.sqrt(np.outer(psi, psi))
    q = found.loadings.shape[1]
    values, axes = np.linalg.eigh(S)
    scale = np.sqrt(np.maximum(values[-q:] - 1, 0.0))
    return Solution(np.sqrt(psi)[:, None] * axes[:, -q:] * scale, psi, found.mean)


def quietly(function, *arguments, **options):
    """Result of a function, without its warnings and divisions by zero; None where it fails."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*arguments, **options)
        except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
