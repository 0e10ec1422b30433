"""Small problems beside scikit-learn's PCA in one process: how much a call costs before any arithmetic.

``python benchmarks/small.py`` prints, as JSON, seconds of ours and of scikit-learn's PCA (always on complete rows) for
each problem; the contenders take turns and the best of many runs counts. ``benchmarks/compare.py`` calls it.
"""

from __future__ import annotations

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


def best_times(contenders):
    """Best seconds of each contender, in turns."""
    best = [float("inf")] * len(contenders)
    for _ in range(REPEATS):
        for k, work in enumerate(contenders):
            start = time.perf_counter()
            work()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    print(json.dumps({name: best_times(contenders) for name, contenders in problems().items()}))
