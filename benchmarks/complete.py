"""Complete data, side by side with every solver of scikit-learn's PCA.

``python benchmarks/complete.py`` runs all cases (about a quarter of an hour on two cores) and writes a table,
a plot and the raw numbers to docs/benchmarks. Each case runs in a process of its own; within it all contenders
take turns, and the best of several rounds counts. Accuracy is the distance to the maximum of the log-likelihood,
in nats a row: of our model as it comes, of the best model with scikit-learn's axes for scikit-learn. Memory is
the peak above the input while fitting. ``--quick`` prints quick cases of ours alone in about a minute.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import quick
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.decomposition import PCA

from probpca import PPCA

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
ACCURATE = 1e-6
PAUSE = 0.1  # BLAS threads keep spinning for a while: none shall inherit those of the contender before


@dataclass(frozen=True)
class Case:
    """One table of data."""

    n: int
    d: int
    q: int
    spectrum: str  # "spikes", "hard" or "sparse"
    rivals: tuple[str, ...]  # solvers of scikit-learn that finish within a minute
    to_reach: float = 1.0  # how many times as fast as the fastest accurate rival


FAST = ("arpack", "randomized")
CASES = (
    Case(200_000, 200, 10, "spikes", ("covariance_eigh", "full", *FAST)),
    Case(1_000_000, 50, 5, "spikes", ("covariance_eigh", "full", *FAST)),
    Case(20_000, 1_000, 50, "spikes", ("covariance_eigh", "full", *FAST), 1.2),
    Case(5_000, 5_000, 20, "spikes", ("covariance_eigh", *FAST), 2.0),
    Case(5_000, 5_000, 20, "hard", FAST, 2.0),
    Case(2_000, 20_000, 20, "spikes", FAST, 2.0),
    Case(200, 50_000, 10, "spikes", ("full", *FAST)),
    Case(100_000, 10_000, 10, "sparse", ("arpack",)),
)


def rows(case, dtype):
    """Spikes 50 to 3 times the edge of the noise bulk, or eigenvalues 1/j, or sparse counts; far from zero."""
    rng = np.random.default_rng(0)
    n, d, q = case.n, case.d, case.q
    if case.spectrum == "sparse":
        return sparse_rows(rng, n, d, q).astype(dtype)
    if case.spectrum == "hard":
        axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
        x = rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1)) @ axes.T
        return (x + 3 * rng.standard_normal(d)).astype(dtype)
    gamma = d / n
    edge = (1 + np.sqrt(gamma)) ** 2
    seen = np.geomspace(50, 3, q) * edge  # what a spike looks like in the sample
    b = seen + 1 - gamma
    spikes = (b + np.sqrt(b * b - 4 * seen)) / 2
    axes = np.linalg.qr(rng.standard_normal((d, q)))[0]
    x = rng.standard_normal((n, d))
    x += (rng.standard_normal((n, q)) * np.sqrt(spikes - 1)) @ axes.T
    x += 3 * rng.standard_normal(d)
    return x.astype(dtype)


def sparse_rows(rng, n, d, q):
    """0.1 % filled: each row draws half of its cells from the columns of one of 2q topics."""
    per_row, topics = d // 1000, 2 * q
    topic = rng.integers(topics, size=n)
    anywhere = rng.integers(d, size=(n, per_row - per_row // 2))
    inside = topic[:, None] * 20 + rng.integers(20, size=(n, per_row // 2))
    columns = np.concatenate([anywhere, inside], axis=1).ravel()
    values = rng.exponential(size=columns.size) * (1 + np.repeat(topic, per_row) / topics)
    return sparse.csr_matrix((values, (np.repeat(np.arange(n), per_row), columns)), shape=(n, d))


def covariance(x):
    """The mean, and S as something that multiplies, in float64."""
    n, d = x.shape
    mean = np.asarray(x.mean(axis=0, dtype=np.float64)).ravel()
    if sparse.issparse(x):
        wide = x.astype(np.float64)

        def product(v):
            image = wide @ v - mean @ v
            return (wide.T @ image - mean * image.sum()) / n

        total = float(wide.power(2).sum()) / n - mean @ mean
        return mean, LinearOperator((d, d), matvec=product, dtype=np.float64), total
    centred = x - mean
    total = float(np.vdot(centred, centred)) / n
    if d <= n:
        return mean, centred.T @ centred / n, total
    return mean, LinearOperator((d, d), matvec=lambda v: centred.T @ (centred @ v) / n, dtype=np.float64), total


def best_value(S, x, total, q):
    """The maximum of the log-likelihood a row, by an independent eigensolver run to full accuracy."""
    n, d = x.shape
    if not sparse.issparse(x) and n < d:
        centred = x.astype(np.float64) - x.mean(axis=0, dtype=np.float64)
        S = centred @ centred.T / n
    start = np.random.default_rng(1).standard_normal(S.shape[0])
    return profile(eigsh(S, k=q, tol=0, v0=start, return_eigenvectors=False), total, d)


def profile(values, total, d):
    """Log-likelihood a row of the best model whose axes carry these variances."""
    q = len(values)
    noise = (total - values.sum()) / (d - q)
    return -0.5 * (d * np.log(2 * np.pi) + np.log(values).sum() + (d - q) * np.log(noise) + d)


def value_of_axes(axes, S, total):
    basis = np.linalg.qr(axes.astype(np.float64))[0]
    image = np.column_stack([S @ column for column in basis.T])
    return profile(np.linalg.eigvalsh(basis.T @ image), total, basis.shape[0])


def value_of_model(model, S, total):
    """Log-likelihood a row of a model as it is."""
    axes, singular = model.principal_axes
    noise = float(model.noise_variance)
    along = np.array([column @ (S @ column) for column in axes.T])
    eigenvalues = singular**2 + noise
    d, q = axes.shape
    logdet = np.log(eigenvalues).sum() + (d - q) * np.log(noise)
    return -0.5 * (d * np.log(2 * np.pi) + logdet + (along / eigenvalues).sum() + (total - along.sum()) / noise)


def peak_memory(function):
    """Megabytes of resident memory above the start, watched while the function runs."""
    page = 4096 / 2**20

    def resident():
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * page

    peak, running = [resident()], [True]

    def watch():
        while running[0]:
            peak.append(resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    start = resident()
    watcher.start()
    function()
    running[0] = False
    watcher.join()
    return max(peak) - start


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(case, dtype, rounds):
    """Time, accuracy and memory of all contenders on one table, and the floors."""
    x = rows(case, dtype)
    contenders = {"probpca": lambda: PPCA(case.q, random_state=0).fit(x)}
    for rival in case.rivals:
        contenders[rival] = lambda rival=rival: PCA(case.q, svd_solver=rival, random_state=0).fit(x)
    times = {name: [] for name in contenders}
    fitted, memory = {}, {}
    for name, run in contenders.items():
        memory[name] = peak_memory(lambda name=name, run=run: fitted.__setitem__(name, run()))
    spent = time.perf_counter()
    for number in range(rounds):
        for name, run in contenders.items():
            if number < 2 or min(times[name]) < 5:
                time.sleep(PAUSE)
                times[name].append(seconds(run))
        if time.perf_counter() - spent > 90:
            break
    floors = floor_times(case, x)
    _, S, total = covariance(x)
    optimum = best_value(S, x, total, case.q)
    table = []
    for name in contenders:
        if name == "probpca":
            value = value_of_model(fitted[name].model_, S, total)
        else:
            value = value_of_axes(fitted[name].components_.T, S, total)
        table.append({"name": name, "seconds": min(times[name]), "gap": optimum - value, "memory": memory[name]})
    return {**asdict(case), "dtype": dtype, "contenders": table, **floors}


def floor_times(case, x):
    """What nothing can beat: one read of the rows, and one product with as many vectors as there are components."""
    if sparse.issparse(x):
        vectors = np.random.default_rng(0).standard_normal((case.d, case.q)).astype(x.dtype)
        return {"read": best_of(x.data.sum), "product": best_of(lambda: x @ vectors), "gram": None}
    vectors = np.random.default_rng(0).standard_normal((case.d, case.q)).astype(x.dtype)
    gram = None if min(x.shape) > 2000 else best_of(lambda: x.T @ x if case.d <= case.n else x @ x.T)
    return {"read": best_of(x.sum), "product": best_of(lambda: x @ vectors), "gram": gram}


def best_of(function, rounds=3):
    return min(seconds(function) for _ in range(rounds))


def measure_scoring():
    """Scoring 20,000 rows of 5,000 features, and one row of 50."""
    case = Case(20_000, 5_000, 20, "spikes", ())
    x = rows(case, "float64")
    ours = PPCA(20, random_state=0).fit(x)
    theirs = PCA(20, svd_solver="randomized", random_state=0).fit(x)
    small = PPCA(5).fit(x[:, :50])
    small.score_samples(x[:1, :50])
    return {
        "ours": best_of(lambda: ours.score_samples(x)),
        "theirs": best_of(lambda: theirs.score_samples(x), 1),
        "read": best_of(x.sum),
        "one_row": best_of(lambda: small.score_samples(x[:1, :50]), 200),
    }


def fastest_accurate(result):
    accurate = [c for c in result["contenders"] if c["name"] != "probpca" and c["gap"] < ACCURATE]
    return min(accurate, key=lambda c: c["seconds"], default=None)


def ratio(result):
    ours, rival = result["contenders"][0], fastest_accurate(result)
    return None if rival is None or ours["gap"] > ACCURATE else rival["seconds"] / ours["seconds"]


def title(result):
    kind = {"spikes": "", "hard": ", l = 1/j", "sparse": ", 0.1 % filled"}[result["spectrum"]]
    return f"{result['n']:,} x {result['d']:,}, q {result['q']}{kind}, {result['dtype']}"


def report(results, scoring):
    """The page of the docs."""
    lines = [
        "Best of several rounds, all contenders in turn within one process, two threads each. *Ratio*: time of the",
        "fastest scikit-learn solver within 1e-6 nats a row of the maximum, over ours. *Gap*: nats a row below the",
        "maximum of the log-likelihood. *Memory*: peak above the input. *Floors*: one read of the table; one product",
        "with q vectors; the matrix of inner products, where a direct solver needs it.",
        "",
        "| data | solver | seconds | gap | memory MB | ratio | floors: read / product / inner products |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        floors = " / ".join("-" if result[k] is None else f"{result[k]:.3f}" for k in ("read", "product", "gram"))
        for c in result["contenders"]:
            ours = c["name"] == "probpca"
            reached = f"**{ratio(result):.2f}** (goal {result['to_reach']:g})" if ours and ratio(result) else ""
            cells = [
                title(result) if ours else "",
                c["name"],
                f"{c['seconds']:.3f}",
                f"{max(c['gap'], 0):.0e}",
                f"{c['memory']:.0f}",
                reached,
                floors if ours else "",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    if scoring:
        ours, theirs, read = scoring["ours"], scoring["theirs"], scoring["read"]
        lines += [
            "",
            f"Scoring 20,000 rows of 5,000 features, q 20: {ours:.3f} s against {theirs:.2f} s for scikit-learn's",
            f"`score_samples`, {theirs / ours:.0f} times as fast; one read of the rows takes {read:.3f} s.",
            f"Scoring one row of 50 features takes {1e6 * scoring['one_row']:.0f} microseconds.",
        ]
    return "\n".join(lines) + "\n"


def draw(results, path):
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = [result for result in results if ratio(result)]
    figure, ax = plt.subplots(figsize=(8, 0.42 * len(shown) + 1.2), layout="constrained")
    heights = np.arange(len(shown))[::-1]
    colours = ["#1b6ca8" if result["dtype"] == "float64" else "#86b6d9" for result in shown]
    ax.barh(heights, [ratio(result) for result in shown], color=colours)
    ax.plot([result["to_reach"] for result in shown], heights, "k|", markersize=14, label="goal")
    ax.axvline(1, color="0.6", linewidth=0.8)
    ax.set_yticks(heights, [title(result) for result in shown], fontsize=8)
    ax.set_xlabel("times as fast as scikit-learn's fastest solver of the same accuracy")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", type=int, help="run one case only, print its numbers as JSON")
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scoring", action="store_true", help="run the scoring case only")
    parser.add_argument("--quick", action="store_true", help="quick cases of ours alone, printed and not stored")
    options = parser.parse_args()
    if options.quick:
        quick.run("complete", options.rounds)
        return
    if options.case is not None:
        print(json.dumps(measure(CASES[options.case], options.dtype, options.rounds)))
        return
    if options.scoring:
        print(json.dumps(measure_scoring()))
        return
    results = []
    for number in range(len(CASES)):
        for dtype in ("float64", "float32"):
            results.append(run_alone("--case", str(number), "--dtype", dtype, "--rounds", str(options.rounds)))
            print(title(results[-1]), f"ratio {ratio(results[-1]) or float('nan'):.2f}", flush=True)
    scoring = run_alone("--scoring")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "complete.json").write_text(json.dumps({"cases": results, "scoring": scoring}, indent=1), encoding="utf-8")
    (OUT / "complete.md").write_text(report(results, scoring), encoding="utf-8")
    draw(results, OUT / "complete.png")


def run_alone(*arguments):
    """Run this file again in a fresh process, so that no case inherits the memory of another."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
