"""Small problems beside scikit-learn's PCA in one process: how much a call costs before any arithmetic.

``python benchmarks/small.py`` prints the time of ours and of scikit-learn's PCA (always on complete rows) for each
problem. The two take turns, and the best of many runs counts; ``--quick`` makes fewer runs. ``--json`` prints seconds
for programs: ``benchmarks/compare.py`` reads them.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from sklearn.decomposition import PCA

from probpca import PPCA

REPEATS = 300


def problems():
    """Two components: the fit of 150 x 4 and the latent variables of one row, complete and with NaN."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 4)) + 0.3 * rng.standard_normal((150, 4))
    holed = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    row, holed_row = x[:1], np.where([False, True, False, False], np.nan, x[:1])
    ours, ours_holed, theirs = PPCA(2).fit(x), PPCA(2).fit(holed), PCA(2).fit(x)
    return {
        "fit 150 x 4": (lambda: PPCA(2).fit(x), lambda: PCA(2).fit(x)),
        "fit 150 x 4, 10 % NaN": (lambda: PPCA(2).fit(holed), lambda: PCA(2).fit(x)),
        "transform one row": (lambda: ours.transform(row), lambda: theirs.transform(row)),
        "transform one row with NaN": (lambda: ours_holed.transform(holed_row), lambda: theirs.transform(row)),
    }


def best_times(contenders, repeats=REPEATS):
    """Best seconds of each contender, in turns."""
    best = [float("inf")] * len(contenders)
    for _ in range(repeats):
        for k, work in enumerate(contenders):
            start = time.perf_counter()
            work()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--json", action="store_true", help="seconds as JSON")
    options = parser.parse_args()
    repeats = REPEATS // 10 if options.quick else REPEATS
    found = {name: best_times(contenders, repeats) for name, contenders in problems().items()}
    if options.json:
        print(json.dumps(found))
        return
    for name, (ours, theirs) in found.items():
        print(f"{name:30}{1e3 * ours:8.3f} ms{1e3 * theirs:10.3f} ms scikit-learn{ours / theirs:8.2f} times")


if __name__ == "__main__":
    main()
