"""Do intervals hold what they promise? Simulated tables, so that the truth is known.

``python benchmarks/intervals.py`` (some ten minutes on two cores) measures how often 95 % intervals cover

- cells that were held out: 20 features, 3 components, 20 % missing, tables of 40 to 2,000 rows, with the
  intervals of ``impute_interval``, with plug-in intervals that take the parameters for known, and with the
  spread of 100 ``impute_draws``;
- the mean of a column, pooled over the tables of ``impute_draws``, 30 % missing, 2,000 data sets; beside it
  what the complete rows alone, and a single imputed table taken for complete, would have claimed.

The table goes to docs/benchmarks/coverage.md, the numbers to coverage.json. ``--quick`` prints the table for a
fiftieth of the data sets.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import norm, t as student

from probpca import PPCA
from probpca.inference import pool
from probpca.inference.imputation import impute_with_uncertainty

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
LEVEL = 0.95
CELLS = {40: 500, 60: 500, 200: 200, 2000: 20}  # rows: data sets
MEANS = 2000
DRAWS = 20


def table(seed, n, d, q, share):
    """A complete table from a random model, the same with holes, and the true mean."""
    rng = np.random.default_rng(seed)
    loadings, mean = rng.standard_normal((d, q)), rng.standard_normal(d)
    complete = rng.standard_normal((n, q)) @ loadings.T + mean + 0.7 * rng.standard_normal((n, d))
    holed = np.where(rng.random((n, d)) < share, np.nan, complete)
    return complete, holed, mean


def cells_of(n, seed):
    """Share of held-out cells that each kind of interval covers, in one data set."""
    complete, holed, _ = table(seed, n, 20, 3, 0.2)
    ppca = PPCA(3, random_state=seed, n_jobs=1, keep_source=True).fit(holed)
    held_out = np.isnan(holed)
    inside = lambda ends: float(((ends[0] <= complete) & (complete <= ends[1]))[held_out].mean())  # noqa: E731
    found = {
        "impute_interval": inside(ppca.impute_interval(holed, LEVEL)),
        "plug-in": inside(impute_with_uncertainty(ppca.model_, holed).interval(LEVEL)),
    }
    if n <= 200:
        draws = ppca.impute_draws(holed, 100)
        half = norm.ppf(0.5 + LEVEL / 2) * draws.std(axis=0, ddof=1) * np.sqrt(1 + 1 / len(draws))
        found["impute_draws"] = inside((draws.mean(axis=0) - half, draws.mean(axis=0) + half))
    return found


def means_of(seed):
    """Share of columns whose true mean each kind of interval covers, in one data set of 100 rows."""
    n, d = 100, 8
    _, holed, mean = table(10_000 + seed, n, d, 2, 0.3)
    ppca = PPCA(2, random_state=seed, n_jobs=1, keep_source=True).fit(holed)
    draws = ppca.impute_draws(holed, DRAWS)
    pooled = pool(draws.mean(axis=1), draws.var(axis=1, ddof=1) / n, df_complete=n - 1).interval(LEVEL)
    inside = lambda ends: float(((ends[0] <= mean) & (mean <= ends[1])).mean())  # noqa: E731
    filled, complete = ppca.impute(holed), holed[~np.isnan(holed).any(axis=1)]
    found = {"pooled impute_draws": inside(pooled), "filled table taken for complete": inside(classical(filled))}
    if len(complete) > 2:
        found["complete rows alone"] = inside(classical(complete))
    return found


def classical(x):
    """The t interval of each column mean."""
    half = student.ppf(0.5 + LEVEL / 2, len(x) - 1) * x.std(axis=0, ddof=1) / np.sqrt(len(x))
    return x.mean(axis=0) - half, x.mean(axis=0) + half


def averaged(results):
    """Mean over data sets and its standard error, for each kind of interval."""
    kinds = dict.fromkeys(kind for result in results for kind in result)
    columns = {kind: np.array([r[kind] for r in results if kind in r]) for kind in kinds}
    return {k: [float(v.mean()), float(v.std(ddof=1) / np.sqrt(v.size)), int(v.size)] for k, v in columns.items()}


def line(what, kind, mean, error, count):
    return f"| {what} | {kind} | {100 * mean:.1f} % | {100 * error:.1f} | {count:,} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few data sets, printed and not stored")
    options = parser.parse_args()
    less = 50 if options.quick else 1
    found = {}
    with ProcessPoolExecutor(options.workers) as workers:
        for n, repeats in CELLS.items():
            work = workers.map(partial(cells_of, n), range(max(repeats // less, 2)), chunksize=5)
            found[f"held-out cells, {n:,} x 20"] = averaged(list(work))
            print(n, found[f"held-out cells, {n:,} x 20"], flush=True)
        found["mean of a column, 100 x 8"] = averaged(list(workers.map(means_of, range(MEANS // less), chunksize=10)))
        print(found["mean of a column, 100 x 8"])
    lines = [line(what, kind, *numbers) for what, kinds in found.items() for kind, numbers in kinds.items()]
    head = ["| what | interval | covered | standard error | data sets |", "|---|---|---|---|---|"]
    if options.quick:
        print(*head, *lines, sep="\n")
        return
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "coverage.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (OUT / "coverage.md").write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
