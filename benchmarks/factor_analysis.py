"""Factor analysis beside scikit-learn, statsmodels, factor_analyzer and R: likelihood, time, rotations, coverage.

``python benchmarks/factor_analysis.py`` (about an hour on two cores) measures

- ``complete``: log-likelihood and time on complete tables, beside scikit-learn, statsmodels, factor_analyzer (if it is
  installed) and, where R has them, factanal and psych::fa;
- ``missing``: the same with missing cells beside lavaan, and an E-step beside that of PPCA;
- ``rotations``: differences from R's varimax and promax and from GPArotation, and times;
- ``coverage``: how often 95 % intervals of loadings, uniquenesses and factor correlations contain the truth;
- ``number``: how often the rules find the number of factors, and what they take on real tables;
- ``imputation``: error and coverage of hidden cells by PPCAImputer beside scikit-learn's IterativeImputer, on tables of
  Python's packages and of R's.

Name some of them to measure only those. Times are processor seconds of one thread, the best of several runs in turns;
R is timed in its own process. One function computes the log-likelihood of all (benchmarks/peers/factor_models.py). The
questionnaires bfi and spi come from R's packages psych and psychTools, and are left out without them. Each part writes
docs/benchmarks/factor_analysis_<name>.md, the numbers go to factor_analysis.json. ``--quick`` takes a few tables and
data sets and prints the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations
from multiprocessing import get_context
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one for each process

import numpy as np
from complete import OUT, peak_memory
from defaults import factors, items, noise_alone, real_tables, simple
from peers.factor_models import Solution, by_factor_analyzer, by_scikit_learn, by_statsmodels, quietly, value_of
from peers.r_tables import LEAST_ROWS, tables_of_r
from sklearn import datasets
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

import probpca.learning.em.m_step
import probpca.learning.missing.fit
from peers import factor_models
from probpca import FactorAnalysis, PPCAImputer, select_n_components
from probpca.blocks import observe
from probpca.learning.em.e_step import expect
from probpca.models import LinearGaussian, rotate
from probpca.sources import open_source
from probpca.statistics import Moments

if TYPE_CHECKING:
    from collections.abc import Callable

STORE = OUT / "factor_analysis.json"
ROTATIONS = Path(__file__).parent.parent / "tests" / "peers" / "rotations.R"
LEVEL, HIDDEN = 0.95, 0.2
LONG = 3.0  # seconds from which on a fit is not repeated


# Times


def timed(work):
    """Result of some work and its processor seconds."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def best_times(contenders, rounds, least=0.1):
    """Best processor seconds of each contender, in turns; quick ones are repeated until a turn takes ``least``."""
    times = dict.fromkeys(contenders, np.inf)
    for _ in range(rounds):
        for name, work in contenders.items():
            spent = 0.0
            while spent < least:
                seconds = timed(work)[1]
                times[name], spent = min(times[name], seconds), spent + seconds
    return times


# Complete rows


@dataclass(frozen=True)
class Table:
    """A table of complete rows."""

    read: Callable[[], np.ndarray | None]
    q: int
    goal: float | None = None  # times as fast as scikit-learn's default
    few: bool = False  # rows, so that only scikit-learn applies
    long: bool = False  # many cells: scikit-learn alone, and the moments


def simulated(n, d, q):
    """Rows of a factor model, with a noise variance for each column."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((d, q))
    return rng.standard_normal((n, q)) @ loadings.T + rng.standard_normal((n, d)) * rng.uniform(0.5, 3.0, d)


def varying(x):
    return x[:, x.std(axis=0) > 0]


@cache
def questionnaire(name):
    """Items of bfi or spi, with their missing cells; None without R and its packages."""
    return factor_models.table_of_r({"bfi": "psych::bfi[, 1:25]", "spi": "psychTools::spi[, 11:145]"}[name])


def complete_rows(name):
    x = questionnaire(name)
    return None if x is None else x[~np.isnan(x).any(axis=1)]


def shipped(name):
    return real_tables()[name]


TABLES = {
    "iris": Table(lambda: datasets.load_iris().data, 1),
    "wine": Table(lambda: datasets.load_wine().data, 3),
    "breast cancer": Table(lambda: datasets.load_breast_cancer().data, 5, goal=4),
    "diabetes": Table(lambda: datasets.load_diabetes().data, 3),
    "digits": Table(lambda: varying(datasets.load_digits().data), 10),
    "macrodata": Table(partial(shipped, "macrodata"), 3),
    "star98": Table(partial(shipped, "star98"), 5),
    "elnino": Table(partial(shipped, "elnino"), 2),
    "simulated": Table(partial(simulated, 1_000, 30, 3), 3, goal=4),
    "bfi": Table(partial(complete_rows, "bfi"), 5, goal=4),
    "spi": Table(partial(complete_rows, "spi"), 10, goal=4),
    "simulated, few rows": Table(partial(simulated, 200, 5_000, 5), 5, few=True),
    "simulated, many rows": Table(partial(simulated, 100_000, 100, 10), 10, goal=20, long=True),
}
TIGHT = {"svd_method": "lapack", "tol": 1e-6, "max_iter": 20_000}
PEERS = {
    "scikit-learn": by_scikit_learn,
    "scikit-learn, lapack": partial(by_scikit_learn, svd_method="lapack"),
    "scikit-learn, tight": partial(by_scikit_learn, **TIGHT),
    "statsmodels": by_statsmodels,
    "factor_analyzer": by_factor_analyzer,
}
IN_R = ("factanal", "psych")
ACCURATE = 1e-3  # nats in all: peers in Python that come so near are compared by their time


def fit(x, q, **options):
    return FactorAnalysis(q, n_jobs=1, random_state=0, **options).fit(x)


def solution(found):
    return Solution(found.loadings_, found.noise_variance_, found.mean_)


def complete_of(name, rounds):
    """Log-likelihood and time of everyone on one table, its columns standardised."""
    table = TABLES[name]
    x, q = table.read(), table.q
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    ours, tight = quietly(fit, x, q), quietly(fit, x, q, tol=1e-9)
    value = value_of(solution(ours), x)
    found = {"shape": [*x.shape, q], "value": value, "tight": value_of(solution(tight), x) - value, "peers": {}}
    found |= {"iterations": ours.n_iter_, "heywood": int(ours.heywood_features_.size), "status": ours.status_.name}
    peers = dict(list(PEERS.items())[:3] if table.few or table.long else PEERS)
    if not factor_models.has("factor_analyzer"):
        peers.pop("factor_analyzer", None)
    runs = {peer: timed(partial(quietly, by, x, q)) for peer, by in peers.items()}
    solved = {peer: result for peer, (result, _) in runs.items()}
    works = {peer: partial(quietly, by, x, q) for peer, by in peers.items() if runs[peer][1] < LONG}
    works = {"ours": partial(quietly, fit, x, q)} | works
    if table.long:
        works["moments"] = lambda: open_source(x, n_jobs=1).fold(Moments.of)
    times = {peer: seconds for peer, (_, seconds) in runs.items()} | best_times(works, rounds)
    for peer in () if table.few or table.long else IN_R:
        solved[peer], story = factor_models.in_r(peer, x, q)
        times["ours"] = min(times["ours"], best_times({"ours": works["ours"]}, 1)["ours"])
        solved[peer], times[peer] = solved[peer] or story, story.get("seconds")
    found |= {"seconds": times["ours"], "moments": times.get("moments")}
    for peer, result in solved.items():
        if not isinstance(result, Solution):
            found["peers"][peer] = result
            continue
        apart = quietly(value_of, factor_models.with_floor(result, x), x)
        found["peers"][peer] = {"seconds": times[peer], "gain": apart - value}
    if table.few:
        found["memory"] = {peer: alone(name, peer) for peer in ("ours", "scikit-learn")}
    return found


def alone(name, who):
    """Peak memory of a fit above its input in a fresh process, in megabytes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(memory_of, name, who).result()


def memory_of(name, who):
    x, q = TABLES[name].read(), TABLES[name].q
    return peak_memory(partial(quietly, fit if who == "ours" else by_scikit_learn, x, q))


def complete(_, *, quick):
    """All tables, or the small ones."""
    names = ["iris", "wine", "breast cancer", "simulated"] if quick else TABLES
    found = {}
    for name in names:
        if TABLES[name].read() is None:
            continue
        found[name] = complete_of(name, 2 if quick else 5)
        print(name, json.dumps(found[name]), flush=True)
    return found


def of_scikit_learn(row):
    """How many times as fast as scikit-learn's default we are."""
    return row["peers"]["scikit-learn"]["seconds"] / row["seconds"]


def complete_page(found):
    names = [*PEERS, *IN_R]
    lines = [
        "Processor time of a fit in ms, and in brackets by how many nats its log-likelihood is above ours (negative:",
        "below). *Tight*: what `tol=1e-9` adds to ours. Noise variances of peers below our floor, 1e-6, are raised to",
        "it; psych searches with a floor of 0.005.",
        "",
        f"| table | rows x columns, factors | ours | tight | {' | '.join(names)} |",
        "|---" * (len(names) + 4) + "|",
    ]
    for name, row in found.items():
        n, d, q = row["shape"]
        cells = [told(row["peers"].get(peer)) for peer in names]
        star = f", {row['heywood']} Heywood" if row["heywood"] else ""
        head = f"{name} | {n:,} x {d:,}, {q}{star} | {1e3 * row['seconds']:.3g} | {row['tight']:+.1g}"
        lines.append(f"| {head} | {' | '.join(cells)} |")
    lines += ["", "| goal | measured | reached |", "|---|---|---|", *complete_goals(found)]
    return "\n".join(lines)


def told(peer):
    if peer is None:
        return ""
    if peer.get("seconds") is None or "gain" not in peer:
        return "fails"
    return f"{1e3 * peer['seconds']:.3g} ({peer['gain']:+.2g})"


def goal(what, measured, *, reached):
    return f"| {what} | {measured} | {'yes' if reached else '**no**'} |"


def complete_goals(found):
    """Lines of the table of goals."""
    gains = {}
    for name, row in found.items():
        for peer, told_of in row["peers"].items():
            if "gain" in told_of:
                gains[name, peer] = told_of["gain"] - row["tight"]
    (name, peer), worst = max(gains.items(), key=lambda item: item[1])
    best = f"highest peer {worst:+.1g} nats ({name}, {peer})"
    yield goal("no peer above our likelihood at `tol=1e-9`, same floor, by 1e-6 nats", best, reached=worst < 1e-6)
    for name, row in found.items():
        wanted = TABLES[name].goal
        if wanted:
            short = row["peers"]["scikit-learn"]["gain"]
            exact = row["peers"]["scikit-learn, lapack"]
            measured = f'{of_scikit_learn(row):.1f} times ({short:+.2g} nats); with `svd_method="lapack"` '
            measured += f"{exact['seconds'] / row['seconds']:.0f} times ({exact['gain']:+.2g} nats)"
            what = f"{name}: {wanted:g} times as fast as scikit-learn's default"
            yield goal(what, measured, reached=of_scikit_learn(row) >= wanted)
    for name, row in found.items():
        if row["moments"]:
            ratio = row["seconds"] / row["moments"]
            yield goal(f"{name}: 1.5 times the moments alone", f"{ratio:.2f} times", reached=ratio <= 1.5)
        if "memory" in row:
            d = row["shape"][1]
            matrix, ours = 8 * d * d / 2**20, row["memory"]["ours"]
            measured = f"peak {ours:.0f} MB, scikit-learn {row['memory']['scikit-learn']:.0f} MB"
            yield goal(f"{name}: less memory than a d x d matrix, {matrix:.0f} MB", measured, reached=ours < matrix)
    ratios = {name: row["seconds"] / fastest_accurate(row) for name, row in found.items()}
    slower = ", ".join(f"{name} ({ratio:.2f} times its time)" for name, ratio in ratios.items() if ratio > 1)
    yield goal(f"no Python peer within {ACCURATE:g} nats of ours is faster", slower or "none", reached=not slower)


def fastest_accurate(row):
    """Seconds of the fastest peer in Python that ends near our likelihood, or above it."""
    peers = [row["peers"].get(peer, {}) for peer in PEERS]
    return min((peer["seconds"] for peer in peers if peer.get("gain", -np.inf) > -ACCURATE), default=np.inf)


# Missing cells


LAVAAN = -112_815.30012764  # log-likelihood of bfi with its missing cells, 5 factors
HOLED = {"bfi": 5, "500 x 12, 20 % missing": 2}
STEPS = [(n, d, q) for n, d in ((2_000, 50), (20_000, 100)) for q in (5, 10)]


def holed_table(name):
    if name == "bfi":
        return questionnaire("bfi")
    rng = np.random.default_rng(0)
    x = simple(500, 12, 2, rng)
    return np.where(rng.random(x.shape) < HIDDEN, np.nan, x)


def counted_fit(x, q, tol):
    """A fit and its E-steps: in the iterations, and in units of all rows with those that look for saddle points."""
    places = probpca.learning.em.m_step, probpca.learning.missing.fit
    rows = {place: [] for place in places}

    def counting(place, model, block):
        rows[place].append(block.n_rows)
        return expect(model, block)

    for place in places:
        place.expect = partial(counting, place)
    try:
        found = quietly(fit, x, q, tol=tol)
    finally:
        for place in places:
            place.expect = expect
    return found, [sum(rows[places[1]]) / len(x), sum(map(sum, rows.values())) / len(x)]


def missing_of(name, rounds):
    """Log-likelihood, E-steps and time of ours, and of lavaan."""
    x, q = holed_table(name), HOLED[name]
    found = {"shape": [*x.shape, q], "missing": float(np.isnan(x).mean())}
    for tol in (1e-3, 1e-9):
        ours, steps = counted_fit(x, q, tol)
        seconds = best_times({"ours": partial(quietly, fit, x, q, tol=tol)}, rounds)["ours"]
        found[f"{tol:g}"] = {"value": value_of(solution(ours), x), "steps": steps, "seconds": seconds}
    for method in ("lavaan", "lavaan_alone"):
        result, story = factor_models.in_r(method, x, q, seconds=5.0)
        found[method] = story if result is None else story | {"value": value_of(result, x)}
    again = best_times({"ours": partial(quietly, fit, x, q)}, rounds)["ours"]
    found["0.001"]["seconds"] = min(found["0.001"]["seconds"], again)
    return found


def step_of(n, d, q, rounds):
    """Seconds of an E-step of PPCA and of factor analysis on the same rows."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((d, q))
    x = rng.standard_normal((n, q)) @ loadings.T + rng.standard_normal((n, d))
    x[rng.random((n, d)) < HIDDEN] = np.nan
    rows = open_source(x, n_jobs=1).keep(partial(observe, centre=np.zeros(d)))
    noises = {"PPCA": np.asarray(1.0), "factor analysis": rng.uniform(0.5, 1.5, d)}
    models = {name: LinearGaussian(np.zeros(d), loadings, noise) for name, noise in noises.items()}
    return best_times({name: partial(rows.fold, partial(expect, model)) for name, model in models.items()}, rounds)


def missing(_, *, quick):
    """Tables with missing cells beside lavaan, and E-steps beside those of PPCA."""
    names = [name for name in HOLED if holed_table(name) is not None]
    tables = {name: missing_of(name, 2 if quick else 5) for name in names}
    steps = {f"{n:,} x {d}, {q}": step_of(n, d, q, 3 if quick else 15) for n, d, q in STEPS}
    return {"tables": tables, "steps": steps}


def missing_page(found):
    lines = [
        "| table, factors | fit | log-likelihood | E-steps | processor seconds |",
        "|---|---|---|---|---|",
    ]
    for name, row in found["tables"].items():
        n, d, q = row["shape"]
        title = f"{name}, {q}" if name.startswith(str(n)) else f"{name} {n:,} x {d}, {100 * row['missing']:.1f} %, {q}"
        for tol in ("0.001", "1e-09"):
            one = row[tol]
            steps = "{:.0f}, {:.1f} with the test for saddle points".format(*one["steps"])
            lines.append(f"| {title} | ours, `tol={tol}` | {one['value']:.8f} | {steps} | {one['seconds']:.4f} |")
        for method, label in (("lavaan", "lavaan"), ("lavaan_alone", "lavaan, this model alone")):
            one = row[method]
            if "value" in one:
                times = one["seconds"] / row["0.001"]["seconds"]
                story = f"{one['value']:.8f} | {one['iterations']} iterations | {one['seconds']:.2f}, {times:.0f} times"
                lines.append(f"| {title} | {label} | {story} |")
    lines += ["", "| goal | measured | reached |", "|---|---|---|", *missing_goals(found)]
    return "\n".join(lines)


def missing_goals(found):
    """Lines of the table of goals."""
    for name, row in found["tables"].items():
        truth = LAVAAN if name == "bfi" else row["lavaan"].get("value", np.nan)
        apart = row["1e-09"]["value"] - truth
        yield goal(f"{name}: log-likelihood of lavaan to 1e-6", f"{apart:+.1g}", reached=apart > -1e-6)
        steps = row["0.001"]["steps"][0]
        yield goal(f"{name}: at most 20 E-steps at `tol=1e-3`", f"{steps:.0f}", reached=steps <= 20)
        if "seconds" in row["lavaan"] and name == "bfi":
            times = row["lavaan"]["seconds"] / row["0.001"]["seconds"]
            yield goal(f"{name}: 20 times as fast as lavaan", f"{times:.0f} times", reached=times >= 20)
    for name, times in found["steps"].items():
        ratio = times["factor analysis"] / times["PPCA"]
        what = f"E-step, {name} factors, 20 % missing: 1.2 times PPCA's"
        yield goal(what, f"{1e3 * times['factor analysis']:.3g} ms, {ratio:.2f} times", reached=ratio <= 1.2)


# Rotations


METHODS = {
    "varimax": ("varimax", {}),
    "quartimax": ("quartimax", {}),
    "equamax": ("equamax", {}),
    "promax": ("promax", {}),
    "oblimin": ("oblimin", {}),
    "oblimin-kaiser": ("oblimin", {"kaiser": True}),
    "geomin": ("geomin", {}),
    "geomin-orthogonal": ("geomin_orthogonal", {}),
}


def aligned(L, Phi):
    """Factors in our order and with our signs."""
    order = np.argsort(-np.diag(Phi @ L.T @ L))
    signs = np.where(L.sum(axis=0) < 0, -1.0, 1.0)
    return (L * signs)[:, order], (Phi * np.outer(signs, signs))[np.ix_(order, order)]


def rotations_of(name, rounds):
    """Differences of loadings and factor correlations from R, and seconds of both at their default tolerances."""
    table, q = {"bfi": ("psych::bfi[, 1:25]", 5), "spi": ("psychTools::spi[, 11:145]", 10)}[name]
    with tempfile.TemporaryDirectory() as folder:
        words = [which("Rscript"), str(ROTATIONS), table, str(q), "timed"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1]}
        files = {path.name: np.loadtxt(path) for path in Path(folder).iterdir()}
    A, found = files["unrotated"], {}
    for label, (method, options) in METHODS.items():
        ours = rotate(A, method, **options, tol=1e-11)
        L, Phi = aligned(files[label], files[f"{label}-correlations"])
        apart = [float(np.abs(ours.loadings - L).max()), float(np.abs(ours.correlations - Phi).max())]
        kept = float(np.abs(ours.loadings @ ours.correlations @ ours.loadings.T - A @ A.T).max())
        plain = best_times({"ours": partial(rotate, A, method, **options)}, rounds)["ours"]
        spent = float(files[f"{label}-seconds"])
        found[label] = {"apart": apart, "kept": kept, "seconds": plain, "R": spent, "iterations": ours.n_iter}
        if label.startswith("geomin"):
            found[label]["criteria"] = [ours.criterion, geomin(L)]
    return found


def geomin(L, delta=0.01):
    """Sum of the geometric means of the squared loadings of each row."""
    return float(np.exp(np.log(np.square(L) + delta).mean(axis=1)).sum())


def is_lower(row):
    """Whether R has ended in a higher minimum than ours."""
    ours, theirs = row.get("criteria", (0.0, 0.0))
    return ours < theirs - 1e-6


def rotations(_, *, quick):
    """Both questionnaires, where R has them."""
    names = ["bfi"] if quick else ["bfi", "spi"]
    return {} if which("Rscript") is None else {name: rotations_of(name, 2 if quick else 5) for name in names}


def rotations_page(found):
    lines = [
        "R's functions at tolerances of 1e-9 (1e-15 for varimax and promax) for the differences, and of 1e-5, their",
        "default, for the times; geomin is ours from ten starts.",
        "",
        "| loadings | rotation | largest difference from R: loadings | factor correlations | ours, ms | R, ms |",
        "|---|---|---|---|---|---|",
    ]
    sizes = {"bfi": "bfi, 25 x 5", "spi": "spi, 135 x 10"}
    for name, methods in found.items():
        for label, row in methods.items():
            apart = " | ".join(f"{part:.0e}" if part else "0" for part in row["apart"])
            if is_lower(row):
                apart = "R ends in another minimum, {1:.4f} where ours is {0:.4f} | ".format(*row["criteria"])
            times = f"{1e3 * row['seconds']:.2g} | {1e3 * row['R']:.2g}"
            lines.append(f"| {sizes[name]} | {label} | {apart} | {times} |")
    lines += ["", "| goal | measured | reached |", "|---|---|---|"]
    every = {(name, label): row for name, methods in found.items() for label, row in methods.items()}
    if every:
        lines += rotation_goals(every)
    return "\n".join(lines)


def rotation_goals(every):
    """Lines of the table of goals."""
    flat = ("bfi", "quartimax")
    worst, where = max((max(row["apart"]), key) for key, row in every.items() if key != flat and not is_lower(row))
    what = "loadings and factor correlations of R to 1e-6 (quartimax on bfi 2e-6)"
    flat_one = max(every[flat]["apart"])
    measured = f"{worst:.0e} ({', '.join(where)}), {flat_one:.1e}"
    yield goal(what, measured, reached=worst <= 1e-6 and flat_one <= 2e-6)
    kept = max(row["kept"] for row in every.values())
    yield goal("the covariance that factors explain stays to 1e-12", f"{kept:.0e}", reached=kept <= 1e-12)
    slowest = max(row["seconds"] for (name, _), row in every.items() if name == "bfi")
    yield goal("bfi: each in 25 ms", f"slowest {1e3 * slowest:.0f} ms", reached=slowest <= 0.025)


# Coverage of standard errors


TRUE_CORRELATIONS = 0.3
COVERED = {
    "complete, oblimin": ("oblimin", 0.0),
    "complete, promax": ("promax", 0.0),
    "complete, varimax": ("varimax", 0.0),
    "20 % missing, oblimin": ("oblimin", 0.2),
}


def true_factors(method):
    """Standardised loadings, factor correlations and uniquenesses of 9 columns, 3 for each of 3 factors."""
    oblique = method in ("oblimin", "promax")
    pattern = np.zeros((9, 3))
    for k, sizes in enumerate(([0.85, 0.75, 0.8], [0.7, 0.6, 0.75], [0.55, 0.7, 0.6])):
        pattern[3 * k : 3 * k + 3, k] = sizes
    pattern[[0, 4, 8], [1, 2, 0]] = 0.15
    Phi = np.full((3, 3), TRUE_CORRELATIONS if oblique else 0.0)
    np.fill_diagonal(Phi, 1.0)
    psi = 1 - np.einsum("jk,kl,jl->j", pattern, Phi, pattern)
    truth = rotate(pattern @ np.linalg.cholesky(Phi), method, tol=1e-12)
    return truth, psi


def covered(case, n, seed):
    """Which intervals contain the truth in one data set: loadings, uniquenesses, factor correlations."""
    method, share = COVERED[case]
    truth, psi = true_factors(method)
    L, Phi = truth.loadings, truth.correlations
    rng = np.random.default_rng([seed, n, list(COVERED).index(case)])
    z = rng.standard_normal((n, 3)) @ np.linalg.cholesky(Phi).T
    x = z @ L.T + rng.standard_normal((n, 9)) * np.sqrt(psi)
    x[rng.random(x.shape) < share] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sure = FactorAnalysis(3, rotation=method, tol=1e-6, n_jobs=1).fit(x).uncertainty(x)
    found = sure.loadings.value
    tries = [(list(order), np.sign((found[:, list(order)] * L).sum(axis=0))) for order in permutations(range(3))]
    order, signs = min(tries, key=lambda one: np.square(found[:, one[0]] * one[1] - L).sum())
    low, high = np.sort([end[:, order] * signs for end in sure.loadings.interval(LEVEL)], axis=0)
    loadings = (low <= L) & (high >= L)
    below, above = sure.uniquenesses.interval(LEVEL)
    flips = np.outer(signs, signs)
    ends = np.sort([end[np.ix_(order, order)] * flips for end in sure.factor_correlations.interval(LEVEL)], axis=0)
    pairs = np.tril_indices(3, -1)
    correlations = ((ends[0] <= Phi) & (ends[1] >= Phi))[pairs] if truth.is_oblique else np.empty(0)
    return [part.astype(float).ravel().tolist() for part in (loadings, (below <= psi) & (psi <= above), correlations)]


def coverage(workers, *, quick):
    """Share of intervals that contain the truth, with its standard error over data sets, and the lowest entry."""
    sets, n, found = 20 if quick else 500, 500, {}
    for case in COVERED:
        runs = list(workers.map(partial(covered, case, n), range(sets), chunksize=4))
        found[case] = {"sets": sets}
        for k, name in enumerate(("loadings", "uniquenesses", "correlations")):
            inside = np.array([run[k] for run in runs])
            if inside.size:
                error = float(inside.mean(axis=1).std(ddof=1) / sets**0.5)
                each = inside.mean(axis=0)
                found[case][name] = [float(inside.mean()), error, float(each.min()), float(each.max())]
        print(case, found[case], flush=True)
    return found


BANDS = {"loadings": (0.93, 0.97), "uniquenesses": (0.93, 0.97), "correlations": (0.92, 0.97)}


def coverage_page(found):
    names = {"loadings": "loadings", "uniquenesses": "uniquenesses", "correlations": "factor correlations"}
    lines = [
        "500 rows of 9 columns with 3 factors. In brackets the standard error of the mean; then the lowest and the",
        "highest of the single parameters.",
        "",
        f"| data, rotation | {' | '.join(names.values())} | data sets |",
        "|---|---|---|---|---|",
    ]
    for case, row in found.items():
        cells = []
        for name in names:
            mean, error, low, high = (100 * part for part in row.get(name, [np.nan] * 4))
            cells.append(f"{mean:.1f} ({error:.1f}), {low:.1f} to {high:.1f}" if name in row else "")
        lines.append(f"| {case} | {' | '.join(cells)} | {row['sets']} |")
    lines += ["", "| goal | measured | reached |", "|---|---|---|"]
    for name, (low, high) in BANDS.items():
        means = [row[name][0] for row in found.values() if name in row]
        measured = f"{100 * min(means):.1f} to {100 * max(means):.1f} %"
        what = f"95 % intervals of {names[name]} cover {100 * low:.0f} to {100 * high:.0f} %"
        lines.append(goal(what, measured, reached=low <= min(means) and max(means) <= high))
    return "\n".join(lines)


# Number of factors


SHAPES = [(100, 20), (300, 20), (1000, 20), (200, 50), (100, 200)]
COUNTED = {
    **{f"{n:,} x {d}, uneven noise": (partial(factors, n, d, 3.0, 0.0), 3, 0.95) for n, d in SHAPES},
    **{f"{n:,} x {d}, uneven noise, 20 % missing": (partial(factors, n, d, 3.0, 0.2), 3, 0.9) for n, d in SHAPES},
    "groups of columns, 300 x 30": (partial(simple, 300, 30, 5), 5, None),
    "items of five points, 300 x 25": (partial(items, 300, 25, 5), 5, 0.95),
    "items of five points, 2,000 x 25": (partial(items, 2000, 25, 5), 5, 0.95),
    "noise alone, 100 x 20": (partial(noise_alone, 100, 20), 0, 0.9),
    "noise alone, 1,000 x 20": (partial(noise_alone, 1000, 20), 0, 0.9),
}
RULES = ("parallel", "bic", "aic")
CHANCE = "chance"  # in the note of a fit whose columns are not correlated


def chosen(x, rule):
    """Number of factors by a rule; 0 if parallel analysis finds no correlations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = FactorAnalysis(rule, n_jobs=1, random_state=0).fit(x)
    return 0 if any(CHANCE in note for note in found.notes_) else found.n_components_


def chosen_of(case, few, seed):
    x = COUNTED[case][0](rng=np.random.default_rng([seed, list(COUNTED).index(case)]))
    rules = ("parallel",) if np.isnan(x).any() and seed >= few else RULES
    return {rule: chosen(x, rule) for rule in rules}


def chosen_on_tables(item):
    name, x = item
    return name, {"shape": list(x.shape), **{rule: chosen(x, rule) for rule in RULES}}


def number(workers, *, quick):
    """How often each rule finds the number of factors, its choice on real tables, and the time of a choice."""
    sets, few, found = 8 if quick else 100, 2 if quick else 10, {}
    for case, (_, truth, _) in COUNTED.items():
        runs = list(workers.map(partial(chosen_of, case, few), range(sets), chunksize=4))
        columns = {rule: np.array([run[rule] for run in runs if rule in run]) for rule in RULES}
        found[case] = {
            rule: [float((counts == right).mean()), float((counts - right).mean()), int(counts.size)]
            for rule, counts in columns.items()
            for right in [truth if rule == "parallel" else max(truth, 1)]  # the others choose at least one
        }
        print(case, found[case], flush=True)
    some = {name: x for name, x in real_tables().items() if x.shape[1] > 2 and (not quick or x.size < 3000)}
    for name in () if quick else ("bfi", "spi"):
        some |= {} if questionnaire(name) is None else {name: complete_rows(name)}
    tables = dict(workers.map(chosen_on_tables, some.items()))
    return {"cases": found, "tables": tables, "seconds": {} if quick else choice_times()}


def choice_times():
    """Processor seconds of parallel analysis on two large tables."""
    x = np.random.default_rng(0).standard_normal((200, 20_000))
    holed = np.random.default_rng(0).standard_normal((2_000, 1_000))
    holed[np.random.default_rng(1).random(holed.shape) < HIDDEN] = np.nan
    tables = {"200 x 20,000": x, "2,000 x 1,000, 20 % missing": holed}
    works = {name: partial(select_n_components, y, "parallel", n_jobs=1) for name, y in tables.items()}
    return best_times(works, 3)


def number_page(found):
    sets = sorted({count for row in found["cases"].values() for _, _, count in row.values()})
    lines = [
        f"{sets[-1]} data sets each; for bic and aic with missing cells {sets[0]}. Where there is noise alone,",
        "parallel analysis is right if it reports no factor, and the others if they choose one, the least",
        "that they can.",
        "",
        f"| table | {' | '.join(RULES)} |",
        "|---|---|---|---|",
    ]
    for case, row in found["cases"].items():
        cells = [f"{100 * share:.0f} % ({bias:+.1f})" for share, bias, _ in row.values()]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    lines += ["", f"| real table | rows x columns | {' | '.join(RULES)} |", "|---|---|---|---|---|"]
    for name, row in found["tables"].items():
        n, d = row["shape"]
        lines.append(f"| {name} | {n:,} x {d} | {' | '.join(str(row[rule]) for rule in RULES)} |")
    lines += ["", "| goal for parallel analysis | measured | reached |", "|---|---|---|", *number_goals(found)]
    return "\n".join(lines)


def number_goals(found):
    """Lines of the table of goals."""
    kinds = {
        "strong factors, uneven noise, complete: 95 %": lambda case: case.endswith("uneven noise"),
        "the same with 20 % missing: 90 %": lambda case: case.endswith("missing"),
        "items of five points: 95 %": lambda case: case.startswith("items"),
        "noise alone: 90 % without a factor": lambda case: case.startswith("noise alone"),
    }
    for what, belongs in kinds.items():
        shares = {case: row["parallel"][0] for case, row in found["cases"].items() if belongs(case)}
        case = min(shares, key=shares.get)
        wanted = COUNTED[case][2]
        yield goal(what, f"lowest {100 * shares[case]:.0f} % ({case})", reached=shares[case] >= wanted)
    tables = found["tables"]
    if "bfi" in tables:
        yield goal("bfi: 5 factors", tables["bfi"]["parallel"], reached=tables["bfi"]["parallel"] == 5)
    most = [name for name, row in tables.items() if row["parallel"] >= row["shape"][1] - 1]
    yield goal("never d - 1 factors on a real table", ", ".join(most) or "none", reached=not most)
    for (name, seconds), wanted in zip(found["seconds"].items(), (1.0, 3.0), strict=False):
        yield goal(f"{name}: counted in {wanted:g} s", f"{seconds:.2f} s", reached=seconds <= wanted)


# Imputation


IMPUTED = ("anes96", "ccard", "fair", "grunfeld", "modechoice", "randhie", "statecrime", "linnerud")
ROWS = 500  # at most, of each table
CELLS = 200  # hidden in all draws on a table, at least: the coverage of fewer would be mostly chance
MANY = 9  # tables of a package that gets a line of its own
IMPUTERS = {
    "PPCAImputer()": partial(PPCAImputer, n_jobs=1, random_state=0),
    'PPCAImputer(model="ppca")': partial(PPCAImputer, model="ppca", n_jobs=1, random_state=0),
    "IterativeImputer()": partial(IterativeImputer, random_state=0),
}
OURS, ISOTROPIC, RIVAL = IMPUTERS


class Filled(NamedTuple):
    """What became of the hidden cells of a table."""

    error: float  # root mean square of the error in standard deviations, relative to imputing the mean
    seconds: float
    coverage: float | None = None  # of 95 % intervals
    count: int | None = None  # of factors or components


def imputed_of(item):
    """Each imputer on a table with a fifth of its observed cells hidden; None if a column loses all of them."""
    (name, x), seed = item
    rng = np.random.default_rng([seed, crc32(name.encode())])
    x = (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0)
    hidden = (rng.random(x.shape) < HIDDEN) & ~np.isnan(x)
    holed = np.where(hidden, np.nan, x)
    if np.isnan(holed).all(axis=0).any():
        return name, None
    return name, {label: filled_by(make(), x, holed, hidden) for label, make in IMPUTERS.items()}


def filled_by(imputer, x, holed, hidden):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled, seconds = timed(partial(imputer.fit_transform, holed))
        error = float(np.sqrt(np.mean(np.square(filled - x)[hidden]) / np.mean(np.square(x)[hidden])))
        if not isinstance(imputer, PPCAImputer):
            return Filled(error, seconds)
        low, high = imputer.estimator_.impute_interval(holed, LEVEL)
    inside = float(((low <= x) & (x <= high))[hidden].mean())
    return Filled(error, seconds, inside, imputer.estimator_.n_components_)


def imputation(workers, *, quick):
    """Draws of hidden cells on tables of Python's packages and of R's, more of them on small tables."""
    of_python = {name: real_tables()[name] for name in (IMPUTED[:3] if quick else IMPUTED)}
    of_python = {name: x[:: -(-len(x) // ROWS)] for name, x in of_python.items()}
    of_r = tables_of_r(ROWS)
    of_r = dict(list(of_r.items())[::40]) if quick else of_r
    found = {}
    for kind, tables in (("python", of_python), ("r", of_r)):
        draws = {name: int(np.ceil(CELLS / (HIDDEN * np.count_nonzero(~np.isnan(x))))) for name, x in tables.items()}
        items = [(item, seed) for item in tables.items() for seed in range(draws[item[0]])]
        runs = {}
        for name, row in workers.map(imputed_of, items):
            if row is not None:
                runs.setdefault(name, []).append(row)
        found[kind] = {name: averaged(rows) for name, rows in runs.items()}
    return found


def imputation_page(found):
    """Lines for the tables of Python's packages, and for the packages of R."""
    few, many = (
        {name: {label: Filled(*one) for label, one in row.items()} for name, row in found[kind].items()}
        for kind in ("python", "r")
    )
    lines = [
        "A fifth of the cells of tables of statsmodels and scikit-learn hidden, in as many draws as it takes for",
        f"{CELLS} cells of a table, which has at most {ROWS} rows: error relative to imputing the mean, coverage of",
        "95 % intervals, and in brackets the number of factors or components.",
        "",
        f"| table | {' | '.join(f'`{label}`' for label in IMPUTERS)} |",
        "|---" * (len(IMPUTERS) + 1) + "|",
    ]
    for name, row in few.items():
        lines.append(f"| {name} | {' | '.join(map(told_of_cells, row.values()))} |")
    if many:
        lines += ["", *lines_of_packages(many)]
    lines += ["", "| goal for `PPCAImputer()` | measured | reached |", "|---|---|---|"]
    lines += imputation_goals(few | many)
    return "\n".join(lines)


def averaged(runs):
    """Mean of each number over the draws, of errors and seconds the geometric one."""
    out = {}
    for label in IMPUTERS:
        error, seconds, *rest = zip(*(run[label] for run in runs), strict=True)
        rest = [None if None in values else float(np.mean(values)) for values in rest]
        out[label] = Filled(geometric(error), geometric(seconds), *rest)
    return out


def geometric(values):
    return float(np.exp(np.mean(np.log(values))))


def told_of_cells(one):
    return f"{one.error:.3f}" + ("" if one.coverage is None else f", {100 * one.coverage:.1f} % ({one.count:.3g})")


def compared(rows):
    """Ratios of errors to those of the others, coverages, and how many times as fast as scikit-learn."""
    errors = {label: np.array([row[label].error for row in rows]) for label in IMPUTERS}
    times = geometric([row[RIVAL].seconds / row[OURS].seconds for row in rows])
    coverage = {label: np.array([row[label].coverage for row in rows]) for label in (OURS, ISOTROPIC)}
    return {label: errors[OURS] / errors[label] for label in (ISOTROPIC, RIVAL)}, coverage, times


def lines_of_packages(rows):
    """Summary of the tables of each package of R, those with few tables together."""
    package = {name: name.split("::")[0] for name in rows}
    counts = Counter(package.values())
    groups = {}
    for name, row in rows.items():
        small = counts[package[name]] < MANY
        groups.setdefault("others" if small else package[name], []).append(row)
    order = sorted(groups, key=lambda group: (group == "others", -len(groups[group]), group))
    yield f"{len(rows)} tables of {len(counts)} packages of R, all that are installed here, by a rule: 4 to 60 numeric"
    yield f"columns with at least {LEAST_ROWS} observed cells that are not all equal, and at most {ROWS} rows, evenly"
    yield "spaced. Cells are hidden as before. Errors are geometric means of ratios, in brackets the share of tables"
    yield "with a smaller error; coverage of 95 % intervals is the mean over tables, in brackets the lowest. Times"
    yield "compare processor seconds with `IterativeImputer()`."
    yield ""
    names = f"error / `{ISOTROPIC}` | error / `{RIVAL}` | coverage | coverage of PPCA"
    yield f"| package | tables | {names} | times as fast |"
    yield "|---|---|---|---|---|---|---|"
    for group in [*order, "**all**"]:
        chosen = list(rows.values()) if group == "**all**" else groups[group]
        ratios, coverage, times = compared(chosen)
        cells = [f"{geometric(ratio):.3f} ({100 * (ratio < 1).mean():.0f} %)" for ratio in ratios.values()]
        cells += [f"{100 * one.mean():.1f} % ({100 * one.min():.0f} %)" for one in coverage.values()]
        yield f"| {group} | {len(chosen)} | {' | '.join(cells)} | {times:.1f} |"


def imputation_goals(rows):
    """Lines of the table of goals, over all tables."""
    ratios, coverage, times = compared(list(rows.values()))
    for label, ratio in ratios.items():
        mean = geometric(ratio)
        measured = f"{mean:.3f} times, smaller on {100 * (ratio < 1).mean():.0f} % of the tables"
        yield goal(f"error at most that of `{label}`", measured, reached=mean <= 1)
    shares = coverage[OURS]
    yield goal("95 % intervals cover 92 % on average", f"{100 * shares.mean():.1f} %", reached=shares.mean() >= 0.92)
    lowest = sorted(rows, key=lambda name: rows[name][OURS].coverage)[:3]
    which = ", ".join(f"{100 * rows[name][OURS].coverage:.0f} % ({name})" for name in lowest)
    below = int((shares < 0.8).sum())
    measured = f"{below} of {shares.size} tables below; lowest {which}"
    yield goal("95 % intervals cover 80 % on every table", measured, reached=not below)
    yield goal(f"faster than `{RIVAL}`", f"{times:.1f} times", reached=times > 1)


PARTS = {
    "complete": (complete, complete_page),
    "missing": (missing, missing_page),
    "rotations": (rotations, rotations_page),
    "coverage": (coverage, coverage_page),
    "number": (number, number_page),
    "imputation": (imputation, imputation_page),
}


def in_lines(store):
    """JSON with each list of numbers on one line."""
    return re.sub(r"\[[^][{}]*\]", lambda found: re.sub(r"\s+", " ", found[0]), json.dumps(store, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure (everything)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="only write the pages")
    parser.add_argument("--quick", action="store_true", help="a few tables and data sets, printed and not stored")
    options = parser.parse_args()
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    with ProcessPoolExecutor(options.workers) as workers:
        for name in options.parts or PARTS:
            measure, page = PARTS[name]
            if not options.report:
                found = measure(workers, quick=options.quick)
                if options.quick:
                    print(page(found), flush=True)
                    continue
                store[name] = found
                STORE.write_text(in_lines(store) + "\n", encoding="utf-8")
            (OUT / f"factor_analysis_{name}.md").write_text(page(store[name]) + "\n", encoding="utf-8")
            print(name, "done", flush=True)


if __name__ == "__main__":
    main()
