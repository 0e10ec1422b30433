"""Bayesian PCA: do its intervals hold, does it predict as well as maximum likelihood at any rank, how fast is it?

``python benchmarks/bayesian.py`` (some twenty minutes on two cores) measures

- coverage of 95 % intervals of held-out cells, and their root mean square error paired with that of PPCA at the same
  rank, on simulated tables (20 features, 3 components, 20 % missing, 40 to 200 rows; weak components; wide tables) and
  on real ones (fertility, wine, breast cancer, digits) of which 20 % of the cells are held out, 30 times;
- ratings with the margins of MovieLens 100k, 94 % missing: the error of held-out ratings as the number of
  components grows;
- time beside vbpca-py (``algorithm="vb"``, in an environment of its own) on 10,000 x 100 with 20 % missing and on the
  ratings. One judge for both: the lower bound of this library, at what each believes about loadings, mean and noise,
  with the best latents and precisions. The peer gets more and more iterations until it is within 1e-4 nats a cell of
  our bound, or stands still, or minutes have passed; what counts is the shortest time to where it ends.

``--only quality|ratings|speed`` is one part; ``--quick`` prints a few data sets and the time of one fit.
Tables go to docs/benchmarks/bayesian_*.md, numbers to bayesian.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import venv
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from complete import OUT, best_of, peak_memory
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from threadpoolctl import threadpool_limits

from probpca import PPCA, BayesianPCA
from probpca.blocks import observe
from probpca.datasets import load_fertility
from probpca.learning.bayesian.fit import divergence
from probpca.learning.em.e_step import expect_believed
from probpca.linalg.packed import pack
from probpca.models import LinearGaussian, ParameterBelief
from probpca.sources import open_source

STORE = OUT / "bayesian.json"
PEER = "vbpca-py==0.5.0"
NEAR, STILL, LIMIT = 1e-4, 1e-5, 600
RANKS = (1, 2, 3, 4, 6, 10)
SETS = 60
SIMULATED = {  # n, d, q, missing, size of loadings from the first to the last component
    "40 x 20, 3 components": (40, 20, 3, 0.2, (1.0, 1.0)),
    "60 x 20, 3 components": (60, 20, 3, 0.2, (1.0, 1.0)),
    "200 x 20, 3 components": (200, 20, 3, 0.2, (1.0, 1.0)),
    "60 x 20, 6 weak components": (60, 20, 6, 0.2, (0.5, 0.25)),
    "200 x 40, 8 weak components, 50 % missing": (200, 40, 8, 0.5, (0.4, 0.2)),
    "50 x 200, 4 components": (50, 200, 4, 0.2, (0.7, 0.35)),
}
REAL = ("fertility, 192 x 52", "wine, 178 x 13", "breast cancer, 569 x 30", "digits, 300 x 61")


def simulated(name, seed):
    """A complete table from a random model, and the same with holes."""
    n, d, q, share, sizes = SIMULATED[name]
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((d, q)) * np.linspace(*sizes, q)
    complete = rng.standard_normal((n, q)) @ loadings.T + rng.standard_normal(d) + 0.7 * rng.standard_normal((n, d))
    return complete, np.where(rng.random((n, d)) < share, np.nan, complete)


def real(name, seed):
    """A real table, its columns standardised unless they share a unit, and the same with holes."""
    rng = np.random.default_rng(seed)
    match name.split(",")[0]:
        case "fertility":
            x = load_fertility().complete().values
        case "wine":
            x = load_wine().data
        case "breast cancer":
            x = load_breast_cancer().data
        case _:
            x = load_digits().data[rng.permutation(1797)[:300]]
            x = x[:, x.std(axis=0) > 0][:, :61]
    if "fertility" not in name and "digits" not in name:
        x = (x - x.mean(axis=0)) / x.std(axis=0)
    return x, np.where(rng.random(x.shape) < 0.2, np.nan, x)


def quality_of(name, seed):
    """Coverage and error of held-out cells at each rank, Bayesian PCA and PPCA, in one data set."""
    complete, holed = (simulated if name in SIMULATED else real)(name, seed)
    held_out = np.isnan(holed)
    found = {}
    for q in (q for q in RANKS if q < min(holed.shape) - 2):
        for kind in (BayesianPCA, PPCA):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = kind(q, random_state=seed, n_jobs=1, max_iter=300, tol=1e-2).fit(holed)
            low, high = fitted.impute_interval(holed)
            inside = ((low <= complete) & (complete <= high))[held_out].mean()
            error = np.sqrt(np.square(fitted.impute(holed) - complete)[held_out].mean())
            found[f"{kind.__name__} {q}"] = [float(inside), float(error), int(fitted.n_components_)]
    return found


def quality(workers):
    """For each kind of table: coverage, and the paired difference of errors with its standard error, at each rank."""
    result = {}
    for name in (*SIMULATED, *REAL):
        repeats = SETS if name in SIMULATED else 30
        sets = list(workers.map(partial(quality_of, name), range(repeats), chunksize=2))
        result[name] = [summary_of(q, sets) for q in RANKS if f"PPCA {q}" in sets[0]]
        print(name, *result[name], sep="\n  ", flush=True)
    return result


def summary_of(q, sets):
    ours, theirs = (np.array([found[f"{kind} {q}"] for found in sets]) for kind in ("BayesianPCA", "PPCA"))
    difference, root = ours[:, 1] - theirs[:, 1], np.sqrt(len(sets))
    return {
        "rank": q,
        "kept": float(ours[:, 2].mean()),
        "covered": [float(ours[:, 0].mean()), float(ours[:, 0].std(ddof=1) / root)],
        "covered by PPCA": float(theirs[:, 0].mean()),
        "error": float(ours[:, 1].mean()),
        "error of PPCA": float(theirs[:, 1].mean()),
        "difference": [float(difference.mean()), float(difference.std(ddof=1) / root)],
        "sets": len(sets),
    }


def ratings(seed=0, n=1000, d=1700, cells=100_000, q=10):
    """Ratings with the margins of MovieLens 100k: a few users rate much, a few items are rated often."""
    rng = np.random.default_rng(seed)
    activity, popularity = rng.lognormal(0, 1, n), np.exp(-5 * np.arange(d) / d) + 0.004
    rate = np.outer(activity, popularity)
    low, high = 1e-9, 1e3
    while high / low > 1.0001:  # as many cells as were asked for
        middle = np.sqrt(low * high)
        low, high = (middle, high) if -np.expm1(-middle * rate).sum() < cells else (low, middle)
    seen = rng.random((n, d)) < -np.expm1(-high * rate)
    loadings = rng.standard_normal((d, q)) * 0.55 * 0.75 ** np.arange(q)
    x = 3.5 + 0.55 * rng.standard_normal(d) + rng.standard_normal((n, q)) @ loadings.T
    x += 0.85 * rng.standard_normal((n, d))
    rows, columns = seen.any(axis=1), seen.any(axis=0)
    return np.where(seen, x, np.nan)[np.ix_(rows, columns)]


def ratings_errors():
    """Error of held-out ratings with 5 .. 30 components."""
    result = []
    for seed in range(3):
        x = ratings(seed)
        rng = np.random.default_rng(100 + seed)
        held_out = ~np.isnan(x) & (rng.random(x.shape) < 0.1)
        training = np.where(held_out, np.nan, x)
        for q in (5, 10, 20, 30):
            for kind, most in ((BayesianPCA, 500), (PPCA, 60)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = kind(q, random_state=0, max_iter=most).fit(training)
                error = float(np.sqrt(np.square(fitted.impute(training) - x)[held_out].mean()))
                kept = int(fitted.n_components_)
                result.append({"seed": seed, "kind": kind.__name__, "rank": q, "kept": kept, "error": error})
                print(result[-1], flush=True)
    return result


def plain_table():
    """The table A of the missing-data benchmark."""
    rng = np.random.default_rng(0)
    n, d, q = 10_000, 100, 5
    x = rng.standard_normal((n, q)) @ (rng.standard_normal((d, q)) * np.linspace(2, 0.7, q)).T
    x += 3 * rng.standard_normal(d) + 0.5 * rng.standard_normal((n, d))
    return np.where(rng.random((n, d)) < 0.2, np.nan, x)


def bound_of(rows, belief):
    """The judge: the lower bound at a belief, with the best latents and precisions."""
    told = belief.with_best_precision()
    return rows.fold(partial(expect_believed, told)).log_likelihood - divergence(told)


def belief_of(file):
    """What the peer believes, as this library writes it."""
    found = np.load(file)
    d, q = found["loadings"].shape
    spread = np.zeros((d, q + 1, q + 1))
    spread[:, :q, :q], spread[:, q, q] = found["covariance"], found["mean_variance"]
    centre = LinearGaussian(found["mean"], found["loadings"], np.asarray(float(found["noise_variance"])))
    return ParameterBelief(centre, pack(spread), np.ones(q)), float(found["seconds"])


def speed(rounds):
    """Seconds to the bound, ours and the peer's."""
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        python = peer_environment(Path(folder))
        for name, x in (("10,000 x 100, 20 % missing", plain_table()), ("ratings, 1,000 x 1,700", ratings())):
            cells = int(np.count_nonzero(~np.isnan(x)))
            rows = open_source(x).keep(partial(observe, centre=np.nanmean(x, axis=0)))
            fitted = []
            memory = peak_memory(lambda x=x: fitted.append(fit(x)))  # noqa: B023
            bound = bound_of(rows, fitted[0].belief_) / cells
            ours = {"seconds": best_of(lambda x=x: fit(x), rounds), "memory": memory, "bound": bound}
            ours |= {"iterations": int(fitted[0].n_iter_), "kept": int(fitted[0].n_components_)}
            print(name, ours, flush=True)
            result[name] = {"cells": cells, "ours": ours, "peer": trail(python, x, rows, bound, Path(folder))}
    return result


def fit(x):
    return BayesianPCA(10, random_state=0).fit(x)


def trail(python, x, rows, goal, folder):
    """The peer with ever more iterations."""
    np.save(folder / "table.npy", x)
    cells, effort, steps = int(np.count_nonzero(~np.isnan(x))), 5, []
    while not steps or steps[-1]["seconds"] < LIMIT / 2:
        command = [str(python), str(Path(__file__).parent / "peers" / "run_vbpca_bayes.py")]
        arguments = [str(folder / "table.npy"), str(folder / "out.npz"), "10", str(effort)]
        subprocess.run(command + arguments, check=True, timeout=2 * LIMIT)  # noqa: S603
        belief, spent = belief_of(folder / "out.npz")
        steps.append({"effort": effort, "seconds": spent, "bound": bound_of(rows, belief) / cells})
        print(steps[-1], flush=True)
        gained = np.inf if len(steps) < 4 else steps[-1]["bound"] - steps[-2]["bound"]
        if steps[-1]["bound"] > goal - NEAR or 0 <= gained < STILL:
            break
        effort *= 2
    return steps


def peer_environment(folder):
    """An environment with the peer alone in it."""
    venv.create(folder / "peer", with_pip=True)
    python = folder / "peer" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", PEER], check=True)  # noqa: S603
    return python


def quality_table(found):
    yield "| table | rank asked | kept | covered | by PPCA | error / error of PPCA | difference (standard error) |"
    yield "|---|---|---|---|---|---|---|"
    for name, lines in found.items():
        for line in lines:
            (covered, _), (difference, error) = line["covered"], line["difference"]
            yield (
                f"| {name} | {line['rank']} | {line['kept']:.1f} | {100 * covered:.1f} % "
                f"| {100 * line['covered by PPCA']:.1f} % | {line['error']:.4f} / {line['error of PPCA']:.4f} "
                f"| {difference:+.4f} ({error:.4f}) |"
            )


def ratings_table(found):
    ranks = sorted({line["rank"] for line in found})
    yield "| error of held-out ratings | " + " | ".join(f"{q} components" for q in ranks) + " |"
    yield "|---" * (len(ranks) + 1) + "|"
    for kind in ("BayesianPCA", "PPCA"):
        errors = [np.mean([x["error"] for x in found if (x["kind"], x["rank"]) == (kind, q)]) for q in ranks]
        yield f"| {kind} | " + " | ".join(f"{error:.4f}" for error in errors) + " |"


def speed_table(found):
    yield "| table | probpca | bound a cell | vbpca-py | bound a cell | ratio |"
    yield "|---|---|---|---|---|---|"
    for name, line in found.items():
        ours, steps = line["ours"], line["peer"]
        end = max(step["bound"] for step in steps[-2:])  # where it stands still; on the way it may have been higher
        first = next(step for step in steps if abs(step["bound"] - end) < NEAR)
        reached = end > ours["bound"] - 10 * NEAR
        ratio = f"{first['seconds'] / ours['seconds']:.0f}" if reached else "does not get there"
        yield (
            f"| {name} | {ours['seconds']:.2f} s, {ours['iterations']} steps, {ours['memory']:.0f} MB "
            f"| {ours['bound']:.5f} | {first['seconds']:.1f} s, {first['effort']} steps "
            f"| {first['bound']:.5f} | {ratio} |"
        )


def print_quick(workers):
    """Coverage and errors in a few data sets, and the time of a fit."""
    with threadpool_limits(1), ProcessPoolExecutor(workers) as pool:
        for name in ("60 x 20, 3 components", "wine, 178 x 13"):
            sets = list(pool.map(partial(quality_of, name), range(4)))
            print(name, *(summary_of(q, sets) for q in RANKS), sep="\n  ", flush=True)
    x = plain_table()
    print(f"fit 10,000 x 100, 20 % missing: {best_of(lambda: fit(x), 7):.3f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("quality", "ratings", "speed"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a few data sets, printed and not stored")
    options = parser.parse_args()
    if options.quick:
        print_quick(options.workers)
        return
    found = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    if options.only in (None, "quality"):
        with threadpool_limits(1), ProcessPoolExecutor(options.workers) as workers:
            found["quality"] = quality(workers)
    if options.only in (None, "ratings"):
        found["ratings"] = ratings_errors()
    if options.only in (None, "speed"):
        time.sleep(1)
        found["speed"] = speed(options.rounds)
    STORE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for part, write in (("quality", quality_table), ("ratings", ratings_table), ("speed", speed_table)):
        if part in found:
            (OUT / f"bayesian_{part}.md").write_text("\n".join(write(found[part])) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
