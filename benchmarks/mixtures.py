"""Mixtures beside ppca-rs and scikit-learn: likelihood and time, held-out density, intervals, numbers of clusters.

``python benchmarks/mixtures.py`` (about an hour on two cores) measures

- ``speed``: time and log-likelihood with a fifth of the cells missing beside the mixture of ppca-rs, and the cost of a
  step beside E-steps of PPCA;
- ``density``: log density of held-out rows of complete tables, several splits, beside scikit-learn's GaussianMixture;
- ``coverage``: how often 95 % intervals of missing cells contain the truth;
- ``choice``: how often BIC and ICL find the numbers of clusters and components of simulated tables;
- ``starts``: how far the default fit is from the best of 30 starts.

Name some of them to measure only those. Times are processor seconds of one thread. Each part writes
docs/benchmarks/mixtures_<name>.md, the numbers go to mixtures.json. ``--quick`` takes a few data sets and prints the
pages.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one for each process
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

import numpy as np
from sklearn import datasets
from sklearn.mixture import GaussianMixture

from probpca import MixturePPCA
from probpca.blocks import observe
from probpca.inference import sample_mixture
from probpca.learning.em.e_step import expect
from probpca.learning.mixture.em import MixtureEM
from probpca.models import LinearGaussian, Mixture
from probpca.sources import open_source

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
STORE = OUT / "mixtures.json"
LEVEL = 0.95


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def random_mixture(rng, d, q, weights, *, distance, noise=(0.3, 1.0)):
    """A mixture whose means have the given standard deviation, with noise of each column between two bounds."""
    clusters = [
        LinearGaussian(distance * rng.standard_normal(d), rng.standard_normal((d, q)), rng.uniform(*noise, d))
        for _ in weights
    ]
    return Mixture(np.array(weights), tuple(clusters))


def rows_of(mixture, n, share, rng):
    x, _ = sample_mixture(mixture, n, rng=rng)
    return x, np.where(rng.random(x.shape) < share, np.nan, x)


# Speed


class Shape(NamedTuple):
    """Size of a table with clusters."""

    n: int
    d: int
    q: int
    k: int


SHAPES = (Shape(2000, 30, 3, 3), Shape(5000, 50, 5, 4))
STEP_SHAPES = ((4000, 50, 4, 5, 0.2), (4000, 100, 10, 4, 0.3), (20000, 20, 2, 8, 0.1), (4000, 50, 4, 5, 0.0))
RACE = (
    "Mixture of PPCA, a fifth of the cells missing, one thread, the sizes given. ppca-rs starts from its own "
    "initialisation and stops when its log-likelihood is within 1 nat of ours, or after"
)
FACTOR = 40  # ppca-rs stops after so many times our time


def tipping_rows(shape, seed):
    rng = np.random.default_rng(seed)
    weights = np.arange(shape.k, 0, -1) / np.arange(shape.k + 1).sum()
    mixture = random_mixture(rng, shape.d, shape.q, weights, distance=1.0, noise=(0.5, 0.5))
    return rows_of(mixture, shape.n, 0.2, rng)[1]


def race_of(shape, seed):
    """Processor seconds and log-likelihood of a fit, and those of ppca-rs until it is as good, or gives up."""
    x = tipping_rows(shape, seed)
    started = time.process_time()
    ours = quietly(MixturePPCA(shape.k, shape.q, noise="shared", n_jobs=1, random_state=0).fit, x)
    seconds = time.process_time() - started
    found = {"seconds": seconds, "log_likelihood": ours.log_likelihood_}
    try:
        from ppca_rs import Dataset, PPCAMix  # noqa: PLC0415
    except ImportError:
        return found
    rows = Dataset(x)
    started, steps = time.process_time(), 0
    theirs = PPCAMix.init(shape.k, shape.q, rows)
    value = -np.inf
    while time.process_time() - started < FACTOR * seconds and value < ours.log_likelihood_ - 1.0:
        for _ in range(5):
            theirs = theirs.iterate(rows)
        steps += 5
        value = theirs.llk(rows)
    spent = time.process_time() - started
    return found | {"their_seconds": spent, "their_log_likelihood": value, "their_steps": steps}


def step_of(n, d, q, k, share):
    """Processor seconds of one EM step of a mixture, and of k E-steps of PPCA on the same prepared rows."""
    rng = np.random.default_rng(0)
    mixture = random_mixture(rng, d, q, np.full(k, 1 / k), distance=1.0, noise=(0.5, 0.5))
    single = Mixture(mixture.weights, tuple(LinearGaussian(c.mean, c.loadings, 0.5) for c in mixture.clusters))
    x = rows_of(mixture, n, share, rng)[1]
    rows = open_source(x, n_jobs=1).keep(partial(observe, centre=np.nanmean(x, axis=0)))
    em = MixtureEM(np.asarray(1e-6), q + 2)
    best = {"mixture": np.inf, "single": np.inf}
    for _ in range(5):
        for kind, work in (
            ("mixture", partial(em.step, single, rows)),
            ("single", partial(rows.fold, partial(expect, single.clusters[0]))),
        ):
            started = time.process_time()
            work()
            best[kind] = min(best[kind], time.process_time() - started)
    return best


def speed(_, *, quick=False):
    races = [[*shape, [race_of(shape, 0)]] for shape in SHAPES[: 1 if quick else 2]]
    return {"races": races, "steps": [[*shape, step_of(*shape)] for shape in STEP_SHAPES]}


def speed_page(found):
    lines = [
        f"{RACE} {FACTOR} times our time:",
        "",
        "| rows x columns, q, K | probpca: s, log-likelihood | ppca-rs: s, nats below ours | times as long |",
        "|---|---|---|---|",
    ]
    for n, d, q, k, races in found["races"]:
        for race in races:
            theirs, ratio = "not installed", ""
            if "their_seconds" in race:
                below = race["log_likelihood"] - race["their_log_likelihood"]
                theirs = f"{race['their_seconds']:.1f} ({race['their_steps']} steps), {below:,.0f}"
                at_least = "at least " if below > 1 else ""
                ratio = f"{at_least}{race['their_seconds'] / race['seconds']:.0f}"
            ours = f"{race['seconds']:.2f}, {race['log_likelihood']:,.1f}"
            lines.append(f"| {n:,} x {d}, {q}, {k} | {ours} | {theirs} | {ratio} |")
    lines += [
        "",
        "One step of EM, beside K E-steps of one PPCA on the same rows:",
        "",
        "| rows x columns, q, K, missing | step of the mixture | K E-steps of PPCA | ratio |",
        "|---|---|---|---|",
    ]
    for n, d, q, k, share, best in found["steps"]:
        mixture, single = 1e3 * best["mixture"], 1e3 * k * best["single"]
        lines.append(
            f"| {n:,} x {d}, {q}, {k}, {share:.0%} | {mixture:.0f} ms | {single:.0f} ms | {mixture / single:.1f} |"
        )
    return "\n".join(lines)


# Density of held-out rows


TABLES = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
}
SPLITS = {"iris": 10, "wine": 10, "breast_cancer": 4}
HELD_OUT = (
    "Mean log density of held-out rows (larger is better), with its standard error over the splits, and processor "
    "seconds of the fit with the choice of its size. Half of the rows are fitted, in units of standard deviations:"
)
NUMBERS = (1, 2, 3, 5, 8, 12)


def split_of(name, seed):
    """Halves of a table in units of standard deviations of the first, without columns that are constant there."""
    x = TABLES[name]().data.astype(float)
    order = np.random.default_rng(seed).permutation(len(x))
    first, second = x[order[: len(x) // 2]], x[order[len(x) // 2 :]]
    varies = first.std(axis=0) > 0
    mean, std = first[:, varies].mean(axis=0), first[:, varies].std(axis=0)
    return (first[:, varies] - mean) / std, (second[:, varies] - mean) / std


def by_scikit_learn(kind, first, second):
    """The best of several numbers of components by BIC."""
    fits = [
        quietly(GaussianMixture(k, covariance_type=kind, reg_covar=1e-3, n_init=2, random_state=0).fit, first)
        for k in NUMBERS
        if k < len(first)
    ]
    return min(fits, key=lambda fit: fit.bic(first)).score(second)


def density_of(job):
    name, seed = job
    first, second = split_of(name, seed)
    found = {}
    for kind in ("full", "tied", "diag"):
        started = time.process_time()
        found[kind] = [by_scikit_learn(kind, first, second), time.process_time() - started]
    for noise in ("shared", "per_feature"):
        started = time.process_time()
        fit = quietly(MixturePPCA(noise=noise, n_jobs=1, random_state=0).fit, first)
        seconds = time.process_time() - started
        found[noise] = [fit.score(second), seconds, fit.n_clusters_, fit.n_components_]
    return found


def density(workers, *, quick=False):
    tables = ("iris", "wine") if quick else tuple(TABLES)
    jobs = [(name, seed) for name in tables for seed in range(2 if quick else SPLITS[name])]
    found = list(workers.map(density_of, jobs))
    return {name: [one for job, one in zip(jobs, found, strict=True) if job[0] == name] for name in tables}


def density_page(found):
    kinds = ("full", "tied", "diag", "shared", "per_feature")
    titles = ("full", "tied", "diag", 'MixturePPCA, noise="shared"', "MixturePPCA")
    lines = [
        HELD_OUT,
        "",
        f"| table | {' | '.join(titles)} |",
        "|---" * (len(titles) + 1) + "|",
    ]
    for name, splits in found.items():
        scores = {kind: np.array([one[kind][0] for one in splits]) for kind in kinds}
        best = max(kinds, key=lambda kind: scores[kind].mean())
        cells = []
        for kind in kinds:
            mean, seconds = scores[kind].mean(), np.mean([one[kind][1] for one in splits])
            error = scores[kind].std(ddof=1) / np.sqrt(len(splits)) if len(splits) > 1 else 0.0
            star = "**" if kind == best else ""
            cells.append(f"{star}{mean:.2f}{star} ± {error:.2f} ({seconds:.1f} s)")
        lines.append(f"| {name}, {len(splits)} splits | {' | '.join(cells)} |")
    return "\n".join(lines)


# Coverage


class Design(NamedTuple):
    """Size of a simulated table, and its share of missing cells."""

    n: int
    d: int
    q: int
    k: int
    share: float


DESIGNS = (
    Design(600, 8, 2, 3, 0.25),
    Design(300, 12, 2, 2, 0.2),
    Design(2000, 8, 2, 3, 0.25),
    Design(1000, 15, 3, 4, 0.3),
)
INSIDE = (
    "for the rows of the fit and for new rows of the same mixture; for new rows also the interval of 1.96 standard "
    "deviations:"
)
COVERAGE_SEEDS = 8


def covered(mixture, truth, x):
    low, high = mixture.impute_interval(x, LEVEL)
    hole = np.isnan(x)
    inside = (low <= truth) & (truth <= high)
    return float(inside[hole].mean()), float((high - low)[hole].mean())


def coverage_of(job):
    design, seed = Design(*job[0]), job[1]
    rng = np.random.default_rng([seed, design.n])
    truth = random_mixture(rng, design.d, design.q, np.full(design.k, 1 / design.k), distance=1.0)
    x, holes = rows_of(truth, design.n, design.share, rng)
    fresh, fresh_holes = rows_of(truth, 2000, design.share, rng)
    fit = quietly(MixturePPCA(design.k, design.q, n_jobs=1, random_state=0).fit, holes)
    missing = np.isnan(fresh_holes)
    values, std = fit.impute(fresh_holes, return_std=True)
    normal = float((np.abs(values - fresh) <= 1.96 * std)[missing].mean())
    return [covered(fit, x, holes)[0], covered(fit, fresh, fresh_holes)[0], normal]


def coverage(workers, *, quick=False):
    seeds = 2 if quick else COVERAGE_SEEDS
    jobs = [(list(design), seed) for design in DESIGNS for seed in range(seeds)]
    found = list(workers.map(coverage_of, jobs))
    return [
        [list(design), [one for job, one in zip(jobs, found, strict=True) if job[0] == list(design)]]
        for design in DESIGNS
    ]


def coverage_page(found):
    lines = [
        f"Share of missing cells inside their {LEVEL:.0%} interval, {INSIDE}",
        "",
        "| rows x columns, q, K, missing | rows of the fit | new rows | mean ± 1.96 sd | data sets |",
        "|---|---|---|---|---|",
    ]
    for (n, d, q, k, share), rows in found:
        means = np.mean(rows, axis=0)
        cells = " | ".join(f"{100 * value:.1f} %" for value in means)
        lines.append(f"| {n:,} x {d}, {q}, {k}, {share:.0%} | {cells} | {len(rows)} |")
    return "\n".join(lines)


# Numbers of clusters and components


class Table(NamedTuple):
    """A simulated table with clusters."""

    name: str
    n: int
    d: int
    q: int
    weights: tuple[float, ...]
    distance: float
    share: float
    noise: tuple[float, float]


SIMULATED = (
    Table("one cluster", 400, 10, 2, (1.0,), 1.0, 0.1, (0.3, 1.0)),
    Table("two, apart", 400, 10, 1, (0.6, 0.4), 2.0, 0.1, (0.3, 1.0)),
    Table("three, apart", 600, 8, 2, (0.5, 0.3, 0.2), 2.0, 0.2, (0.3, 1.0)),
    Table("four, complete", 800, 12, 1, (0.4, 0.3, 0.2, 0.1), 1.5, 0.0, (0.3, 1.0)),
    Table("two, overlapping", 600, 8, 2, (0.6, 0.4), 0.7, 0.1, (0.3, 1.0)),
    Table("three, equal noise", 600, 8, 1, (0.4, 0.35, 0.25), 1.5, 0.1, (0.5, 0.5)),
)
RIGHT = (
    "Share of simulated tables for which both numbers are right, in parentheses that of clusters and of components, "
    "with a noise variance per feature; the search ends as BIC says, and ICL takes the best of the same fits:"
)
CHOICE_SEEDS = 10


def choice_of(job):
    table, seed = Table(*job[0]), job[1]
    rng = np.random.default_rng([seed, table.n, table.d, len(table.weights)])
    mixture = random_mixture(rng, table.d, table.q, table.weights, distance=table.distance, noise=table.noise)
    x = rows_of(mixture, table.n, table.share, rng)[1]
    started = time.process_time()
    fit = quietly(MixturePPCA(n_jobs=1, random_state=0).fit, x)
    seconds = time.process_time() - started
    criteria, out = fit.criteria_, {"seconds": seconds}
    for rule in ("bic", "icl"):
        best = criteria.best(rule)
        out[rule] = [int(criteria.n_clusters[best]), int(criteria.n_components[best])]
    return out


def choice(workers, *, quick=False):
    tables, seeds = (SIMULATED[:3], 2) if quick else (SIMULATED, CHOICE_SEEDS)
    jobs = [(list(table), seed) for seed in range(seeds) for table in tables]
    found = list(workers.map(choice_of, jobs))
    return [
        [list(table), [one for job, one in zip(jobs, found, strict=True) if job[0] == list(table)]] for table in tables
    ]


def choice_page(found):
    lines = [
        RIGHT,
        "",
        "| table | rows x columns, q, missing | BIC | ICL | seconds | data sets |",
        "|---|---|---|---|---|---|",
    ]
    for entries, results in found:
        table = Table(*entries)
        truth, cells = np.array([len(table.weights), table.q]), []
        for rule in ("bic", "icl"):
            right = np.array([result[rule] for result in results]) == truth
            cells.append(f"{right.all(axis=1).mean():.0%} ({right[:, 0].mean():.0%}, {right[:, 1].mean():.0%})")
        seconds = np.mean([result["seconds"] for result in results])
        size = f"{table.n:,} x {table.d}, {table.q}, {table.share:.0%}"
        lines.append(f"| {table.name} | {size} | {' | '.join(cells)} | {seconds:.1f} | {len(results)} |")
    return "\n".join(lines)


# Starts


GAPS = (
    "Log-likelihood of fits with the default of ten starts, below the best of all fits to the table (also with thirty "
    "starts), a tenth of the cells missing:"
)
STARTED = (("breast_cancer", 3, 2), ("wine", 3, 2), ("iris", 3, 1))


def start_of(job):
    name, k, q, noise, seed = job
    x = TABLES[name]().data
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    x = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    default, best = (
        quietly(MixturePPCA(k, q, noise=noise, n_init=count, n_jobs=1, random_state=state).fit, x).log_likelihood_
        for count, state in ((10, seed), (30, 1000 + seed))
    )
    return [default, best]


def starts(workers, *, quick=False):
    tables, seeds = (STARTED[1:], 2) if quick else (STARTED, 6)
    jobs = [(*table, noise, seed) for table in tables for noise in ("shared", "per_feature") for seed in range(seeds)]
    found = list(workers.map(start_of, jobs))
    names = list(dict.fromkeys(job[:4] for job in jobs))
    return [[list(name), [one for job, one in zip(jobs, found, strict=True) if job[:4] == name]] for name in names]


def starts_page(found):
    lines = [
        GAPS,
        "",
        "| table, K, q | noise | within 2 nats | mean gap in nats | largest | fits |",
        "|---|---|---|---|---|---|",
    ]
    for (name, k, q, noise), values in found:
        both = np.array(values)
        gap = both.max() - both[:, 0]
        near = f"{(gap < 2).mean():.0%}"
        lines.append(f"| {name}, {k}, {q} | {noise} | {near} | {gap.mean():.1f} | {gap.max():.1f} | {len(gap)} |")
    return "\n".join(lines)


PARTS = {
    "speed": (speed, speed_page),
    "density": (density, density_page),
    "coverage": (coverage, coverage_page),
    "choice": (choice, choice_page),
    "starts": (starts, starts_page),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure (everything)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="only write the pages")
    parser.add_argument("--quick", action="store_true", help="a few data sets, printed and not stored")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as workers:
        for part in options.parts or PARTS:
            measure, page = PARTS[part]
            if options.quick:
                print(page(measure(workers, quick=True)), flush=True)
                continue
            store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
            if not options.report:
                store[part] = measure(workers)
                STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
            (OUT / f"mixtures_{part}.md").write_text(page(store[part]) + "\n", encoding="utf-8")
            print(part, "done", flush=True)


if __name__ == "__main__":
    main()
