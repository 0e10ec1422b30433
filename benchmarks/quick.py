"""Quick cases of the benchmarks: small enough that those of one benchmark take about a minute.

``python benchmarks/quick.py complete`` prints the best of seven rounds for each case of that benchmark; without names
it runs all benchmarks. ``benchmarks/compare.py`` runs the same cases on two checkouts in turn, so they use only what
every version of the library has: the estimators, called with arrays and files.

A case is a function that prepares its data in a folder and returns the work to be timed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from probpca import PPCA, LinearDynamicalSystem

ROUNDS = 7


def table(n, d, q, missing=0.0, dtype="float64"):
    """Rows of a model with q components and noise, far from zero, with cells missing completely at random."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((d, q)) * np.linspace(2, 0.7, q)
    x = rng.standard_normal((n, q)) @ loadings.T + 3 * rng.standard_normal(d) + 0.5 * rng.standard_normal((n, d))
    x[rng.random((n, d)) < missing] = np.nan
    return x.astype(dtype)


def slow_spectrum(n, d):
    """Rows whose covariance has the eigenvalues 1, 1/2, 1/3, ..."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1)) @ axes.T


def observed_cells(x):
    """The observed cells of a table as a CSR matrix."""
    rows, columns = np.nonzero(~np.isnan(x))
    return sparse.csr_matrix((x[rows, columns], (rows, columns)), shape=x.shape)


def fit(x, q, **options):
    return PPCA(q, random_state=0, **options).fit(x)


def fit_table(_, n, d, q, missing=0.0, dtype="float64", **options):
    return partial(fit, table(n, d, q, missing, dtype), q, **options)


def fit_slow_spectrum(_, n, d, q):
    return partial(fit, slow_spectrum(n, d), q)


def fit_sparse(_, n, d, q):
    return partial(fit, sparse.random(n, d, 0.002, "csr", rng=0), q)


def fit_unstored(_, n, d, q, missing):
    return partial(fit, observed_cells(table(n, d, q, missing)), q, missing="unstored")


def ask(_, question, n, d, q, missing=0.0):
    x = table(n, d, q, missing)
    return partial(getattr(fit(x[:2000], q), question), x)


def npy(folder, x):
    np.save(folder / "table.npy", x)
    return folder / "table.npy"


def parquet(folder, x):
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet as pq  # noqa: PLC0415

    columns = {f"x{j}": pa.array(column, from_pandas=True) for j, column in enumerate(x.T.copy())}
    pq.write_table(pa.table(columns), folder / "table.parquet", row_group_size=20_000)
    return folder / "table.parquet"


def csv(folder, x):
    lines = [",".join(f"x{j}" for j in range(x.shape[1]))]
    lines += [",".join("" if np.isnan(value) else f"{value:.6g}" for value in row) for row in x]
    (folder / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "table.csv"


def fit_file(folder, write, n, d, q, missing=0.0):
    return partial(fit, write(folder, table(n, d, q, missing)), q)


def transform_file(folder, n, d, q):
    path = npy(folder, table(n, d, q))
    return partial(fit(path, q).transform, path, out=folder / "out.npy")


def partial_fits(_, n, d, q, missing=0.0):
    batches = np.array_split(table(n, d, q, missing), 50)

    def run():
        ppca = PPCA(q, random_state=0)
        for batch in batches:
            ppca.partial_fit(batch)
        return ppca.components_

    return run


def series(t, d, q, missing=0.0, seed=0):
    """A stationary series with q states that turn and fade."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((q, q)))[0] * np.linspace(0.95, 0.5, q)
    state, states = np.zeros(q), np.empty((t, q))
    for step in range(t):
        state = turn @ state + rng.standard_normal(q)
        states[step] = state
    x = states @ np.random.default_rng(1).standard_normal((q, d)) + rng.standard_normal((t, d))
    x[rng.random((t, d)) < missing] = np.nan
    return x


def fit_system(x, q, **options):
    given = {"trend": None, "transition": "free", "random_state": 0}
    return LinearDynamicalSystem(q, **{**given, **options}).fit(x)


def fit_series(_, t, d, q, missing=0.0, **options):
    return partial(fit_system, series(t, d, q, missing), q, **options)


def fit_many_series(_, k, t, d, q):
    return partial(fit_system, [series(t, d, q, seed=seed) for seed in range(k)], q, max_iter=20)


def ask_series(_, question, t, d, q, missing=0.0):
    x = series(t, d, q, missing)
    return partial(getattr(fit_system(x[:300], q, max_iter=5), question), x)


def fit_factors(_, n, d, q, missing=0.0):
    from probpca import FactorAnalysis  # noqa: PLC0415 - an older checkout has none, and its other cases still run

    x = table(n, d, q, missing)
    return lambda: FactorAnalysis(q, random_state=0).fit(x)


def find_uncertainty(_, n, d, q):
    from probpca import FactorAnalysis  # noqa: PLC0415

    return FactorAnalysis(q, rotation="oblimin", random_state=0).fit(table(n, d, q)).uncertainty


BENCHMARKS = {
    "complete": {
        "fit 100,000 x 50, q 5": partial(fit_table, n=100_000, d=50, q=5),
        "fit 50,000 x 100, q 10, float32": partial(fit_table, n=50_000, d=100, q=10, dtype="float32"),
        "fit 5,000 x 500, q 20": partial(fit_table, n=5_000, d=500, q=20),
        "fit 3,000 x 3,000, q 20": partial(fit_table, n=3_000, d=3_000, q=20),
        "fit 2,000 x 2,000, q 20, eigenvalues 1/j": partial(fit_slow_spectrum, n=2_000, d=2_000, q=20),
        "fit 200 x 20,000, q 10": partial(fit_table, n=200, d=20_000, q=10),
        "fit 20,000 x 5,000, q 10, sparse": partial(fit_sparse, n=20_000, d=5_000, q=10),
        "fit 5,000 x 50, q 5, EM": partial(fit_table, n=5_000, d=50, q=5, solver="em"),
        "fit 1,000 x 20, q 3": partial(fit_table, n=1_000, d=20, q=3),
        "transform 50,000 x 100, q 10": partial(ask, question="transform", n=50_000, d=100, q=10),
        "score_samples 50,000 x 100, q 10": partial(ask, question="score_samples", n=50_000, d=100, q=10),
    },
    "missing": {
        "fit 10,000 x 100, q 5, 20 %": partial(fit_table, n=10_000, d=100, q=5, missing=0.2),
        "fit 20,000 x 200, q 10, 30 %": partial(fit_table, n=20_000, d=200, q=10, missing=0.3),
        "fit 4,000 x 1,000, q 5, 95 %": partial(fit_table, n=4_000, d=1_000, q=5, missing=0.95),
        "fit 4,000 x 1,000, q 5, 95 %, CSR": partial(fit_unstored, n=4_000, d=1_000, q=5, missing=0.95),
        "fit 200 x 4,000, q 5, 10 %": partial(fit_table, n=200, d=4_000, q=5, missing=0.1),
        "fit 2,000 x 30, q 3, 10 %, standardised": partial(
            fit_table, n=2_000, d=30, q=3, missing=0.1, standardize=True
        ),
        "fit 500 x 20, q 3, 10 %": partial(fit_table, n=500, d=20, q=3, missing=0.1),
        "impute 10,000 x 100, q 5, 20 %": partial(ask, question="impute", n=10_000, d=100, q=5, missing=0.2),
        "transform 20,000 x 50, q 5, 20 %": partial(ask, question="transform", n=20_000, d=50, q=5, missing=0.2),
        "score_samples 20,000 x 50, q 5, 20 %": partial(
            ask, question="score_samples", n=20_000, d=50, q=5, missing=0.2
        ),
    },
    "streams": {
        "fit .npy 300,000 x 50, q 5": partial(fit_file, write=npy, n=300_000, d=50, q=5),
        "fit Parquet 200,000 x 50, q 5": partial(fit_file, write=parquet, n=200_000, d=50, q=5),
        "fit Parquet 60,000 x 50, q 5, 10 %": partial(fit_file, write=parquet, n=60_000, d=50, q=5, missing=0.1),
        "fit CSV 20,000 x 20, q 3": partial(fit_file, write=csv, n=20_000, d=20, q=3),
        "fit CSV 10,000 x 20, q 3, 10 %": partial(fit_file, write=csv, n=10_000, d=20, q=3, missing=0.1),
        "transform .npy 200,000 x 50 to a file": partial(transform_file, n=200_000, d=50, q=5),
        "partial_fit 100,000 x 50 in 50 batches": partial(partial_fits, n=100_000, d=50, q=5),
        "partial_fit 20,000 x 50 in 50 batches, 10 %": partial(partial_fits, n=20_000, d=50, q=5, missing=0.1),
    },
    "dynamics": {
        "fit 2,000 x 10, q 3": partial(fit_series, t=2_000, d=10, q=3, max_iter=30),
        "fit 2,000 x 10, q 3, 20 %": partial(fit_series, t=2_000, d=10, q=3, missing=0.2, max_iter=30),
        "fit 300 x 200, q 5": partial(fit_series, t=300, d=200, q=5, max_iter=20),
        "fit 100 series of 100 x 10, q 3": partial(fit_many_series, k=100, t=100, d=10, q=3),
        "fit 150 x 5, q 2": partial(fit_series, t=150, d=5, q=2, max_iter=30),
        "score 5,000 x 10, q 3": partial(ask_series, question="score", t=5_000, d=10, q=3),
        "smooth 5,000 x 10, q 3": partial(ask_series, question="smooth", t=5_000, d=10, q=3),
        "smooth 5,000 x 10, q 3, 20 %": partial(ask_series, question="smooth", t=5_000, d=10, q=3, missing=0.2),
        "impute 5,000 x 10, q 3, 20 %": partial(ask_series, question="impute", t=5_000, d=10, q=3, missing=0.2),
    },
    "factor_analysis": {
        "fit 1,000 x 30, q 3": partial(fit_factors, n=1_000, d=30, q=3),
        "fit 4,000 x 130, q 10": partial(fit_factors, n=4_000, d=130, q=10),
        "fit 50,000 x 100, q 10": partial(fit_factors, n=50_000, d=100, q=10),
        "fit 200 x 5,000, q 5": partial(fit_factors, n=200, d=5_000, q=5),
        "fit 500 x 20, q 3, 10 %": partial(fit_factors, n=500, d=20, q=3, missing=0.1),
        "fit 10,000 x 50, q 5, 20 %": partial(fit_factors, n=10_000, d=50, q=5, missing=0.2),
        "uncertainty 1,000 x 20, q 3, oblimin": partial(find_uncertainty, n=1_000, d=20, q=3),
    },
}


def best_time(work, least=0.2):
    """Seconds of the fastest run; quick work is repeated for ``least`` seconds."""
    best, spent = np.inf, 0.0
    while spent < least:
        start = time.perf_counter()
        work()
        taken = time.perf_counter() - start
        best, spent = min(best, taken), spent + taken
    return best


def run(benchmark, rounds=ROUNDS):
    """Print the best time of each case of a benchmark."""
    for name, prepare in BENCHMARKS[benchmark].items():
        with tempfile.TemporaryDirectory() as folder:
            work = prepare(Path(folder))
            work()
            seconds = min(best_time(work) for _ in range(rounds))
        print(f"{benchmark:16}{name:46}{1e3 * seconds:10.2f} ms", flush=True)


def serve(benchmark, name):
    """Prepare one case, then time it once for each line that comes in, until there are no more."""
    with tempfile.TemporaryDirectory() as folder:
        work = BENCHMARKS[benchmark][name](Path(folder))
        work()
        print("ready", flush=True)
        for _ in sys.stdin:
            print(best_time(work), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", help=f"some of {', '.join(BENCHMARKS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)  # for compare.py: benchmark and case
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.serve:
        serve(*options.serve)
        return
    for benchmark in options.benchmarks or BENCHMARKS:
        run(benchmark, options.rounds)


if __name__ == "__main__":
    main()
