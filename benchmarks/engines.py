"""Rows on Dask workers beside local rows, on one worker and on two, and beside the PCA of dask-ml and of Spark.

``python benchmarks/engines.py`` writes tables and the raw numbers to docs/benchmarks; it needs dask[distributed].
``--peers`` runs dask-ml and pyspark.ml instead (needs both, and Java); ``--folder`` says where tables go and stay.
``--quick`` prints the overhead of Dask on smaller tables.
Both sides of a ratio run in one process, after each other; numbers are the best of several rounds.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from complete import OUT, best_of
from dask import array as da, delayed
from streams import CHUNK, D, N, Q, as_npy, as_parquet

from distributed import Client, LocalCluster, wait
from probpca import PPCA
from probpca.learning import Settings, fit_ppca
from probpca.sources import open_source
from probpca.statistics import Sum

STORE = OUT / "engines.json"
ROUNDS = 4
NETWORK = 1e9  # bytes a second between workers: assumed, there is one machine here


@contextmanager
def workers(count):
    """Dask workers of one thread, each a process."""
    options = {"n_workers": count, "threads_per_worker": 1, "silence_logs": logging.ERROR}
    with LocalCluster(processes=True, **options) as cluster, Client(cluster):
        yield


def mapped(path, start, stop):
    """Some rows of a .npy file, as the file has them."""
    return np.load(path, mmap_mode="r")[start:stop]


def drawn(seed, n, d, missing):
    """Rows drawn where they are wanted."""
    rng = np.random.default_rng(seed)
    loadings = np.random.default_rng(0).standard_normal((d, Q))
    x = rng.standard_normal((n, Q)) @ loadings.T + 0.5 * rng.standard_normal((n, d))
    x[rng.random(x.shape) < missing] = np.nan
    return x


def on_dask(parts, shapes):
    return da.concatenate([da.from_delayed(p, shape, float) for p, shape in zip(parts, shapes, strict=True)])


def in_memory(n, d, missing, part):
    """A Dask array whose rows the workers already hold."""
    count = n // part
    table = on_dask([delayed(drawn)(k, part, d, missing) for k in range(count)], [(part, d)] * count).persist()
    wait(table)
    return table


def iteration(rows):
    """Seconds of an iteration with missing cells: the best of the first few."""
    times = []
    settings = Settings(tol=1e-9, max_iter=5, watch=lambda _: times.append(time.perf_counter()))
    fit_ppca(open_source(rows), Q, settings, np.random.default_rng(0))
    return float(np.diff(times).min())


def in_turns(works):
    """Best seconds of each work, one after the other in every round: other guests of the machine come and go."""
    rounds = [[best_of(work, 2) for work in works] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def measure_complete(path, n, d, part):
    """Complete rows of a file, read by threads and by workers, and held by both."""
    found = {}
    with workers(2):
        parts = [delayed(mapped)(str(path), start, start + part) for start in range(0, n, part)]
        table = on_dask(parts, [(part, d)] * len(parts))
        found["file"] = in_turns([partial(PPCA(Q).fit, rows) for rows in (path, table)])
        table = table.map_blocks(np.array, dtype=float).persist()
        wait(table)
        found["memory"] = in_turns([partial(PPCA(Q).fit, rows) for rows in (np.load(path), table)])
    return found


def measure_overhead(folder, n=5_000_000, d=50, part=250_000):
    """The same rows, local with two threads and on two Dask workers."""
    path = as_npy(folder / "dask.npy", n, d)
    found = measure_complete(path, n, d, part)
    holes = np.vstack([drawn(k, part, d, 0.1) for k in range(n // part)])
    found["iteration"] = [iteration(holes)]
    found["missing"] = [best_of(partial(PPCA(Q, random_state=0).fit, holes), 2)]
    del holes
    with workers(2):
        table = in_memory(n, d, 0.1, part)
        found["iteration"].append(iteration(table))
        found["missing"].append(best_of(lambda: PPCA(Q, random_state=0).fit(table), 2))
    return found


def count(block):
    """Do next to nothing."""
    return Sum(np.array([block.n_rows]))


def measure_scaling(part=100_000, d=100, wide=1_000):
    """Seconds of a complete fit and of an iteration with missing cells, on one worker and on two."""
    found = {"strong": [], "weak": [], "start": [], "wide": []}
    for m in (1, 2):
        with workers(m):
            for name, n in (("strong", 2_000_000), ("weak", 1_000_000 * m)):
                table = in_memory(n, d, 0.0, part)
                complete = best_of(lambda rows=table: PPCA(Q).fit(rows), ROUNDS)
                if name == "strong":
                    found["start"].append(best_of(lambda rows=table: open_source(rows).fold(count), 10))
                del table
                table = in_memory(n, d, 0.1, part)
                found[name].append({"workers": m, "n": n, "complete": complete, "iteration": iteration(table)})
                del table
            table = in_memory(100_000, wide, 0.1, 10_000)
            found["wide"].append({"workers": m, "n": 100_000, "d": wide, "iteration": iteration(table)})
            del table
    return found


def measure_peers(folder):
    """The table of two million rows: ours from its .npy file, dask-ml, pyspark.ml, each with what it reads best."""
    from dask_ml.decomposition import PCA as DaskPCA  # noqa: PLC0415, N811
    from pyspark.ml.feature import PCA as SparkPCA, VectorAssembler  # noqa: PLC0415, N811
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from probpca.spark import PPCA as OurSparkPPCA  # noqa: PLC0415, N811

    path = as_npy(folder / "complete.npy", N, D)
    found = {"ours": best_of(lambda: PPCA(Q).fit(path), ROUNDS)}
    table = da.from_array(np.load(path, mmap_mode="r"), chunks=(CHUNK, D))
    found["dask-ml"] = best_of(lambda: DaskPCA(Q, svd_solver="randomized", random_state=0).fit(table), 2)
    found["ours on Dask's threads"] = best_of(lambda: PPCA(Q).fit(table), 2)
    parquet = as_parquet(folder / "complete.parquet", N, D, 0.0)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.parquet(str(parquet))
    names = frame.columns
    vectors = VectorAssembler(inputCols=names, outputCol="features").transform(frame)
    found["pyspark.ml"] = best_of(lambda: SparkPCA(k=Q, inputCol="features", outputCol="z").fit(vectors), 2)
    ours = OurSparkPPCA(nComponents=Q, inputCols=names, outputCol="z")
    found["ours on Spark"] = best_of(lambda: ours.fit(frame), 2)
    spark.stop()
    found["ours again"] = best_of(lambda: PPCA(Q).fit(path), ROUNDS)
    return found


def model(store):
    """Seconds of an iteration on m workers: what one was measured to do, shared out, and statistics up a tree."""
    wide = store["scaling"]["wide"][0]
    start = max(store["scaling"]["start"])
    cell = (wide["iteration"] - start) / (wide["n"] * wide["d"])
    p = (Q + 1) * (Q + 2) // 2
    for text, n, d in (("UK Biobank's shape, 488,363 x 146,671", 488_363, 146_671), ("10^9 x 1,000", 10**9, 1_000)):
        times = [n * d * cell / m + math.log2(m) * 8 * d * p / NETWORK + start for m in (1, 10, 100, 1_000)]
        yield text, times


def overhead_table(store):
    texts = {
        "file": "complete, from a .npy file",
        "memory": "complete, in memory",
        "iteration": "10 % missing, in memory, an iteration",
        "missing": "10 % missing, in memory, the whole fit",
    }
    yield "| 5,000,000 x 50, 10 components | two local threads | two Dask workers | more |"
    yield "|---|---|---|---|"
    for name, text in texts.items():
        local, dask = store["overhead"][name]
        yield f"| {text} | {local:.2f} s | {dask:.2f} s | {dask / local - 1:.0%} |"


def scaling_table(store):
    yield "| seconds | 1 worker | 2 workers | times as fast, of 2 |"
    yield "|---|---|---|---|"
    for name, gain in (("strong", 1), ("weak", 2)):
        one, two = store["scaling"][name]
        for what, text in (("complete", "complete, a fit"), ("iteration", "10 % missing, an iteration")):
            size = f"{one['n']:,}" if gain == 1 else f"{one['n']:,} a worker"
            speed = gain * one[what] / two[what]
            yield f"| {name}, {size} x 100, {text} | {one[what]:.2f} | {two[what]:.2f} | {speed:.2f} |"
    one, two = store["scaling"]["wide"]
    yield (
        f"| strong, {one['n']:,} x {one['d']:,}, 10 % missing, an iteration | {one['iteration']:.2f} "
        f"| {two['iteration']:.2f} | {one['iteration'] / two['iteration']:.2f} |"
    )


def model_table(store):
    yield "| seconds an iteration, 10 components, 10 % missing | 1 worker | 10 | 100 | 1,000 |"
    yield "|---|---|---|---|---|"
    for text, times in model(store):
        yield f"| {text} | " + " | ".join(f"{t:,.0f}" if t > 20 else f"{t:.1f}" for t in times) + " |"


def peers_table(store):
    found = store["peers"]
    best = min(found["ours"], found["ours again"])
    yield "| 2,000,000 x 100, complete, 10 components | seconds | times ours from the file |"
    yield "|---|---|---|"
    for name, spent in found.items():
        yield f"| {name} | {spent:.2f} | {spent / best:.1f} |"


PAGES = {"overhead": overhead_table, "scaling": scaling_table, "model": model_table, "peers": peers_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="smaller tables, printed and not stored")
    options = parser.parse_args()
    if options.quick:
        with tempfile.TemporaryDirectory() as temporary:
            found = measure_overhead(Path(temporary), n=100_000, d=50, part=25_000)
        for name, (local, dask) in found.items():
            print(f"{name:12}{1e3 * local:10.1f} ms local{1e3 * dask:10.1f} ms on two Dask workers")
        return
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if options.peers:
            store["peers"] = measure_peers(folder)
        elif not options.report:
            store["overhead"] = measure_overhead(folder)
            store["scaling"] = measure_scaling()
    STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
    for name, lines in PAGES.items():
        if (name if name != "model" else "scaling") in store:
            text = "\n".join(lines(store)) + "\n"
            (OUT / f"engines_{name}.md").write_text(text, encoding="utf-8")
            print(text)


if __name__ == "__main__":
    main()
