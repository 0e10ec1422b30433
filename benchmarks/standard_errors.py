"""Do intervals of the model itself hold what they promise? Simulated tables, so that the truth is known.

``python benchmarks/standard_errors.py`` (some ten minutes on two cores) measures how often 95 % intervals of
``PPCA.uncertainty`` cover the explained variances, the noise variance, the loadings and the mean: 3 components
with variances 11, 6 and 3 in noise of variance 1, tables of 50 to 1,000 rows, complete or with 20 % of the cells
missing. Beside them a table with two components of nearly the same variance, 6 and 5.5; one with half as many
features as rows; and one whose latent variables and noise have heavy tails (Student's t with 5 degrees of
freedom), which the large-sample formulas know nothing of. The true loadings of component j are those of the
component with the j-th largest variance, whatever axis the fit has found.

The table goes to docs/benchmarks/standard_errors.md, the numbers to standard_errors.json. ``--quick`` prints the
lines of a few data sets.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one for each process

import numpy as np

from probpca import PPCA

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
LEVEL, DRAWS = 0.95, 200
QUANTITIES = ("explained_variance", "noise_variance", "loadings", "mean")


class Design(NamedTuple):
    """Tables of one kind."""

    name: str
    n: int
    d: int
    repeats: int
    missing: float = 0.0
    signal: tuple[float, ...] = (10.0, 5.0, 2.0)
    heavy: bool = False


DESIGNS = [
    Design("50 x 10", 50, 10, 300),
    Design("200 x 10", 200, 10, 200),
    Design("50 x 20", 50, 20, 300),
    Design("200 x 20", 200, 20, 200),
    Design("1,000 x 20", 1000, 20, 150),
    Design("50 x 20, 20 % missing", 50, 20, 40, missing=0.2),
    Design("200 x 20, 20 % missing", 200, 20, 60, missing=0.2),
    Design("1,000 x 20, 20 % missing", 1000, 20, 30, missing=0.2),
    Design("200 x 20, variances nearly equal", 200, 20, 200, signal=(5.0, 4.5, 2.0)),
    Design("200 x 100", 200, 100, 100),
    Design("200 x 20, heavy tails", 200, 20, 200, heavy=True),
]


def covered(design, seed):
    """Share of the true values that the intervals of each method hold, in one data set."""
    rng = np.random.default_rng(seed)
    n, d, q = design.n, design.d, len(design.signal)
    axes = np.linalg.qr(rng.standard_normal((d, q)))[0]
    loadings, mean = axes * np.sqrt(design.signal), rng.standard_normal(d)
    normal = partial(rng.standard_t, 5) if design.heavy else rng.standard_normal
    unit = np.sqrt(3 / 5) if design.heavy else 1.0
    x = unit * (normal(size=(n, q)) @ loadings.T + normal(size=(n, d))) + mean
    x = np.where(rng.random((n, d)) < design.missing, np.nan, x)
    ppca = PPCA(q, random_state=seed, n_jobs=1).fit(x)
    signs = np.where(np.einsum("dj,dj->j", loadings, ppca.loadings_) < 0, -1.0, 1.0)
    truth = dict(zip(QUANTITIES, (np.array(design.signal) + 1, 1.0, loadings * signs, mean), strict=True))
    methods = ("bootstrap",) if design.missing else ("asymptotic", "bootstrap")
    return {method: _shares(ppca.uncertainty(x, method=method, n_draws=DRAWS), truth) for method in methods}


def _shares(sure, truth):
    ends = {name: getattr(sure, name).interval(LEVEL) for name in QUANTITIES}
    return {name: float(((low <= truth[name]) & (truth[name] <= high)).mean()) for name, (low, high) in ends.items()}


def averaged(results):
    """Mean over data sets and its standard error, for each method and quantity."""
    found = {}
    for method in results[0]:
        for name in QUANTITIES:
            shares = np.array([result[method][name] for result in results])
            found.setdefault(method, {})[name] = [float(shares.mean()), float(shares.std(ddof=1) / shares.size**0.5)]
    return found


def line(what, method, numbers, repeats):
    cells = " | ".join("{:.1f} ({:.1f})".format(*(100 * part for part in numbers[name])) for name in QUANTITIES)
    return f"| {what} | {method} | {cells} | {repeats} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--share", type=float, default=1.0, help="of the data sets")
    parser.add_argument("--quick", action="store_true", help="a few data sets, printed and not stored")
    options = parser.parse_args()
    share = 0.02 if options.quick else options.share
    found, lines = {}, []
    with ProcessPoolExecutor(options.workers) as workers:
        for design in DESIGNS:
            repeats = max(int(share * design.repeats), 4)
            found[design.name] = averaged(list(workers.map(partial(covered, design), range(repeats), chunksize=4)))
            lines += [line(design.name, method, part, repeats) for method, part in found[design.name].items()]
            print(*lines[-2:], sep="\n", flush=True)
    head = [
        "| rows x features | method | explained variance | noise variance | loadings | mean | data sets |",
        "|---|---|---|---|---|---|---|",
    ]
    if options.quick:
        return
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "standard_errors.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (OUT / "standard_errors.md").write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
