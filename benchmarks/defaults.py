"""Are the defaults right? Simulated tables, so that the truth is known, and real ones.

``python benchmarks/defaults.py`` (about half an hour on two cores) measures

- ``number``: how often each criterion finds the number of components of simulated tables: noise that is equal, unequal
  or very unequal between columns, complete or with 20 or 50 % of the cells missing; tables without noise, items of five
  points, a general factor with two group factors, noise alone;
- ``tables``: what each criterion takes on the numeric tables that scikit-learn and statsmodels ship;
- ``intervals``: coverage of 95 % intervals of hidden cells, and their error, with the defaults of each estimator;
- ``outliers``: share of rows flagged by calibrated and by chi-square p-values, in the table of the fit and in rows held
  out, on Gaussian and on real tables, and the share of planted rows that is found;
- ``bayesian``: the error of ``BayesianPCA`` by the number of components asked for.

Name some of them to measure only those. Each writes docs/benchmarks/defaults_<name>.md, the numbers go to
defaults.json. ``--quick`` takes a few data sets and prints the pages.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import kstest
from sklearn import datasets
from threadpoolctl import threadpool_limits

from probpca import PPCA, BayesianPCA, PPCAImputer, select_n_components
from probpca.errors import ProbpcaError

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
QUICK = ["parallel", "bic", "evidence", "gavish_donoho"]
SLOW = ["cv", "ard"]
SHAPES = [(50, 20), (100, 20), (300, 20), (1000, 20), (200, 50), (100, 200)]
NOISE = {"equal": 1.0, "1/3 to 3": 3.0, "1/30 to 30": 30.0}  # largest noise variance over the geometric mean
MISSING = {"complete": 0.0, "20 % missing": 0.2, "50 % missing": 0.5}
STRENGTH = np.array([12.0, 9.0, 6.0])  # variance of components in units of the least that can be detected
LEVEL, HIDDEN, RARE = 0.95, 0.2, 0.001


# Simulated tables


def factors(n, d, spread, share, rng):
    """Three strong components along random axes, and noise whose variance differs between columns."""
    noise = rng.permutation(np.geomspace(1 / spread, spread, d))
    axes = np.linalg.qr(rng.standard_normal((d, 3)))[0]
    latent = rng.standard_normal((n, 3)) * np.sqrt(STRENGTH * np.sqrt(d / n))
    x = (latent @ axes.T + rng.standard_normal((n, d))) * np.sqrt(noise)
    return np.where(rng.random((n, d)) < share, np.nan, x)


def exact(n, d, rank, share, rng):
    """A table of exactly low rank."""
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + rng.standard_normal(d)
    return np.where(rng.random((n, d)) < share, np.nan, x)


def simple(n, d, q, rng):
    """Groups of columns, one for each of q factors that correlate by 0.3, with uniquenesses of 0.3 to 0.7."""
    root = np.linalg.cholesky(np.full((q, q), 0.3) + 0.7 * np.eye(q))
    loading = np.sqrt(rng.uniform(0.3, 0.7, d))
    common = (rng.standard_normal((n, q)) @ root.T)[:, np.arange(d) % q] * loading
    return common + rng.standard_normal((n, d)) * np.sqrt(1 - loading**2)


def items(n, d, q, rng):
    """The same in answers from 1 to 5."""
    return 1.0 + np.digitize(simple(n, d, q, rng), [-1.2, -0.4, 0.4, 1.2])


def general(n, d, rng):
    """One factor that all columns share, and two of a half of them each."""
    shared = rng.standard_normal((n, 1)) * rng.uniform(0.5, 0.9, d)
    group = rng.standard_normal((n, 2))[:, np.arange(d) % 2] * rng.uniform(0.3, 0.6, d)
    return shared + group + 0.5 * rng.standard_normal((n, d))


def noise_alone(n, d, rng):
    return rng.standard_normal((n, d)) * np.sqrt(rng.permutation(np.geomspace(1 / 3, 3, d)))


STRONG = {
    f"{n:,} x {d}, noise {noise}, {missing}": (partial(factors, n, d, spread, share), 3)
    for missing, share in MISSING.items()
    for noise, spread in NOISE.items()
    for n, d in SHAPES
}
OTHERS = {
    "no noise, 200 x 20, rank 3": (partial(exact, 200, 20, 3, 0.0), 3),
    "no noise, 40 x 100, rank 5": (partial(exact, 40, 100, 5, 0.0), 5),
    "no noise, 200 x 20, rank 3, 20 % missing": (partial(exact, 200, 20, 3, 0.2), 3),
    "groups of columns, 300 x 30, 5 factors": (partial(simple, 300, 30, 5), 5),
    "items of five points, 300 x 25, 5 factors": (partial(items, 300, 25, 5), 5),
    "items of five points, 2,000 x 25, 5 factors": (partial(items, 2000, 25, 5), 5),
    "general factor and 2 groups, 500 x 20": (partial(general, 500, 20), 3),
    "noise alone, 100 x 20 (1 is right)": (partial(noise_alone, 100, 20), 1),
    "noise alone, 1,000 x 20 (1 is right)": (partial(noise_alone, 1000, 20), 1),
}
CASES = STRONG | OTHERS


def choices_of(case, few, seed):
    """What each criterion chooses; the slow ones only for the first ``few`` data sets."""
    make, _ = CASES[case]
    x = make(rng=np.random.default_rng([seed, list(CASES).index(case)]))
    names = ["parallel"] if np.isnan(x).any() else QUICK
    if seed < few:
        names = [*names, *(["bic", *SLOW] if np.isnan(x).any() else SLOW)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return select_n_components(x, names, random_state=seed, n_jobs=1).choices


def number(workers, *, quick):
    """How often each criterion finds the number of components."""
    sets, few = (8, 0) if quick else (40, 4)
    found = {}
    for case, (_, truth) in CASES.items():
        results = list(workers.map(partial(choices_of, case, few), range(sets), chunksize=2))
        columns = {name: [r[name] for r in results if name in r] for name in [*QUICK, *SLOW]}
        found[case] = {
            name: [float(np.mean(np.equal(chosen, truth))), float(np.mean(chosen) - truth), len(chosen)]
            for name, chosen in columns.items()
            if chosen
        }
        print(case, {name: shares[0] for name, shares in found[case].items()}, flush=True)
    return found


def number_page(found):
    names = [*QUICK, *SLOW]
    head = [f"| table | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    lines = [f"| {case} | {' | '.join(_share(shares.get(name)) for name in names)} |" for case, shares in found.items()]
    return "\n".join([*head, *lines])


def _share(found):
    return "" if found is None else f"{100 * found[0]:.0f} % ({found[1]:+.1f})"


# Real tables


def real_tables():
    """Complete rows of the numeric tables that scikit-learn and statsmodels ship, at most 3,000 rows of each."""
    import statsmodels.api as sm  # noqa: PLC0415

    linnerud = datasets.load_linnerud()
    tables = {
        "iris": datasets.load_iris().data,
        "wine": datasets.load_wine().data,
        "breast cancer": datasets.load_breast_cancer().data,
        "digits": datasets.load_digits().data,
        "diabetes": datasets.load_diabetes().data,
        "linnerud": np.hstack([linnerud.data, linnerud.target]),
    }
    named = ["anes96", "ccard", "copper", "cpunish", "elnino", "fair", "grunfeld", "longley", "macrodata", "modechoice"]
    named += ["randhie", "scotland", "stackloss", "star98", "statecrime"]
    for name in named:
        frame = getattr(sm.datasets, name).load_pandas().data.select_dtypes("number").dropna()
        tables[name] = frame.drop(columns=["YEAR"], errors="ignore").to_numpy(np.float64)
    rng = np.random.default_rng(0)
    thinned = {name: x[np.sort(rng.permutation(len(x))[:3000])] for name, x in tables.items()}
    return {name: x[:, x.std(axis=0) > 0] for name, x in thinned.items()}


def chosen_of(item):
    name, x = item
    names = [*QUICK, *SLOW] if x.size <= 30_000 else QUICK
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {}
        for criterion in names:
            try:
                found |= select_n_components(x, criterion, standardize=True, random_state=0, n_jobs=1).choices
            except ProbpcaError:  # it does not apply
                continue
    return name, {"shape": list(x.shape), **found}


def tables(workers, *, quick):
    """What each criterion takes on real tables, their columns standardised."""
    some = {name: x for name, x in real_tables().items() if not quick or x.size < 3000}
    return dict(workers.map(chosen_of, some.items()))


def tables_page(found):
    names = [*QUICK, *SLOW]
    lines = [f"| table | rows x columns | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for name, row in found.items():
        n, d = row["shape"]
        choices = (row.get(criterion) for criterion in names)
        lines.append(f"| {name} | {n:,} x {d} | {' | '.join('' if c is None else str(c) for c in choices)} |")
    return "\n".join(lines)


# Intervals of hidden cells


def intervals_of(item):
    """Coverage and error of hidden cells, in units of the standard deviations of columns, for each estimator."""
    (name, x), seed = item
    rng = np.random.default_rng([seed, len(x)])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    hidden = rng.random(x.shape) < HIDDEN
    holed = np.where(hidden, np.nan, x)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = {
            "PPCA()": PPCA(standardize=True, random_state=0, n_jobs=1).fit(holed),
            'PPCA("bic"), PPCAImputer()': PPCAImputer(random_state=0, n_jobs=1).fit(holed).estimator_,
            "BayesianPCA()": BayesianPCA(standardize=True, random_state=0, n_jobs=1).fit(holed),
        }
        for label, fit in fits.items():
            filled, (low, high) = fit.impute(holed), fit.impute_interval(holed, LEVEL)
            inside = ((low <= x) & (x <= high))[hidden].mean()
            error = np.sqrt(np.mean(np.square(filled - x)[hidden]) / np.mean(np.square(x)[hidden]))
            found[label] = [float(inside), float(error), fit.n_components_]
    return name, found


def intervals(workers, *, quick):
    """Coverage of 95 % intervals with defaults, on real tables with a fifth of the cells hidden.

    Without digits, whose pixels at the edge are constant but for a few cells.
    """
    some = {name: x[:600] for name, x in real_tables().items() if x.shape[1] > 4 and len(x) >= 40 and name != "digits"}
    some = dict(list(some.items())[:4]) if quick else some
    out = {name: {} for name in some}
    for name, found in workers.map(intervals_of, [(item, seed) for item in some.items() for seed in range(2)]):
        for label, numbers in found.items():
            out[name].setdefault(label, []).append(numbers)
    return {
        name: {label: np.mean(runs, axis=0).tolist() for label, runs in found.items()} for name, found in out.items()
    }


def intervals_page(found):
    labels = list(next(iter(found.values())))
    lines = [f"| table | {' | '.join(labels)} |", "|---" * (len(labels) + 1) + "|"]
    for name, row in found.items():
        cells = [f"{100 * row[label][0]:.1f} %, {row[label][1]:.3f} ({row[label][2]:.3g})" for label in labels]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    numbers = {label: np.array([row[label] for row in found.values()]) for label in labels}
    means = [f"{100 * v[:, 0].mean():.1f} %, {np.exp(np.log(v[:, 1]).mean()):.3f}" for v in numbers.values()]
    worst = [f"{100 * v[:, 0].min():.1f} %" for v in numbers.values()]
    return "\n".join([*lines, f"| **mean** | {' | '.join(means)} |", f"| **lowest coverage** | {' | '.join(worst)} |"])


# Outliers


GAUSSIAN = {  # rows, columns, components, share of missing cells: data sets
    (1000, 20, 3, 0.0): 10,
    (200, 10, 2, 0.0): 40,
    (100, 30, 3, 0.0): 40,
    (60, 20, 3, 0.0): 60,
    (64, 500, 4, 0.0): 40,
    (200, 10, 2, 0.2): 20,
    (60, 20, 3, 0.2): 20,
}
KINDS = ("calibrated, in", "calibrated, out", "chi-square, in", "chi-square, out")


def gaussian_of(shape, seed):
    """p-values of the rows of a fit and of as many new ones: four arrays."""
    n, d, q, share = shape
    rng = np.random.default_rng([seed, n, d])
    loadings = rng.standard_normal((d, q)) * 2.0
    x = rng.standard_normal((2 * n, q)) @ loadings.T + rng.standard_normal((2 * n, d))
    x[rng.random(x.shape) < share] = np.nan
    return p_values(PPCA(q, random_state=0, n_jobs=1).fit(x[:n]), x[:n], x[n:])


def p_values(fit, rows, new):
    inside, outside = fit.outliers(rows, training=True), fit.outliers(new)
    return [inside.p_value, outside.p_value, inside.model_p_value, outside.model_p_value]


def flagged_of(item):
    """Share of rows below 0.1 and below 1 %, in the table of the fit and, by five folds, out of it."""
    name, x = item
    order = np.random.default_rng(0).permutation(len(x))
    pooled = [[], [], [], []]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = PPCA("bic", standardize=True, random_state=0, n_jobs=1).fit(x)
        pooled[0], pooled[2] = [whole.outliers(x, training=True).p_value], [whole.outliers(x).model_p_value]
        for fold in range(5):
            new = order[fold::5]
            fit = PPCA("bic", standardize=True, random_state=0, n_jobs=1).fit(np.delete(x, new, axis=0))
            found = fit.outliers(x[new])
            pooled[1].append(found.p_value)
            pooled[3].append(found.model_p_value)
    return name, [[float((np.concatenate(p) < level).mean()) for level in (RARE, 0.01)] for p in pooled]


def planted_of(share, seed):
    """Share of planted rows with a p-value below 0.001, by each of the two: 500 x 20."""
    rng = np.random.default_rng([seed, 7])
    x = rng.standard_normal((500, 3)) @ rng.standard_normal((3, 20)) + rng.standard_normal((500, 20))
    bad = np.arange(500) < round(500 * share)
    x[bad] += 3.0 * rng.standard_normal((bad.sum(), 20))
    found = PPCA(3, random_state=0, n_jobs=1).fit(x).outliers(x, training=True)
    return [float((p[bad] < RARE).mean()) for p in (found.p_value, found.model_p_value)]


def outliers(workers, *, quick):
    """How well p-values keep what they promise, and how many planted rows they find."""
    gaussian = {}
    for shape, sets in GAUSSIAN.items():
        runs = list(workers.map(partial(gaussian_of, shape), range(max(sets // 10, 2) if quick else sets)))
        pooled = [np.concatenate(parts) for parts in zip(*runs, strict=True)]
        n, d, q, share = shape
        holes = f", {100 * share:.0f} % missing" if share else ""
        gaussian[f"{n:,} x {d}, {q} components{holes}"] = [
            [float(kstest(p, "uniform").statistic), float((p < 0.01).mean())] for p in pooled
        ]
    some = {name: x for name, x in real_tables().items() if len(x) >= 40 and (not quick or x.size < 3000)}
    planted = {}
    for share in (0.02, 0.05, 0.1, 0.2):
        runs = list(workers.map(partial(planted_of, share), range(3 if quick else 15)))
        planted[f"{100 * share:.0f} %"] = np.mean(runs, axis=0).tolist()
    return {"gaussian": gaussian, "tables": dict(workers.map(flagged_of, some.items())), "planted": planted}


def outliers_page(found):
    parts = [f"| Gaussian rows | {' | '.join(KINDS)} |", "|---" * 5 + "|"]
    for name, numbers in found["gaussian"].items():
        parts.append(f"| {name} | {' | '.join(f'{ks:.3f} / {100 * low:.2f} %' for ks, low in numbers)} |")
    parts += ["", f"| real table | {' | '.join(KINDS)} |", "|---" * 5 + "|"]
    for name, numbers in found["tables"].items():
        parts.append(f"| {name} | {' | '.join(f'{100 * a:.2f} / {100 * b:.2f} %' for a, b in numbers)} |")
    medians = np.median(list(found["tables"].values()), axis=0)
    parts.append(f"| **median** | {' | '.join(f'{100 * a:.2f} / {100 * b:.2f} %' for a, b in medians)} |")
    parts += ["", "| planted rows | found by calibrated p-values | by chi-square |", "|---|---|---|"]
    parts += [f"| {name} | {100 * a:.0f} % | {100 * b:.0f} % |" for name, (a, b) in found["planted"].items()]
    return "\n".join(parts)


# BayesianPCA


def bayesian_of(work):
    """Relative error of hidden cells, components kept, bound and seconds."""
    (name, x), asked, seed = work
    rng = np.random.default_rng([seed, x.shape[1]])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    hidden = rng.random(x.shape) < HIDDEN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        fit = BayesianPCA(asked, random_state=0, n_jobs=1).fit(np.where(hidden, np.nan, x))
        seconds = time.perf_counter() - start
    filled = fit.impute(np.where(hidden, np.nan, x))
    error = np.sqrt(np.mean(np.square(filled - x)[hidden]) / np.mean(np.square(x)[hidden]))
    return name, asked, [float(error), fit.n_components_, fit.lower_bound_, seconds]


def bayesian(workers, *, quick):
    """The error by the number of components asked for, d - 1 the largest."""
    names = (
        ["wine", "elnino"]
        if quick
        else ["wine", "elnino", "star98", "macrodata", "diabetes", "breast cancer", "anes96"]
    )
    work = []
    for name, x in real_tables().items():
        if name in names:
            d = x.shape[1]
            counts = sorted({*np.unique(np.linspace(2, d - 1, 4 if quick else 6).astype(int)).tolist(), d - 1})
            work += [((name, x[:600]), asked, seed) for asked in counts for seed in range(1 if quick else 3)]
    out = {}
    for name, asked, numbers in workers.map(bayesian_of, work):
        out.setdefault(name, {}).setdefault(str(asked), []).append(numbers)
    return {name: {asked: np.mean(runs, axis=0).tolist() for asked, runs in row.items()} for name, row in out.items()}


def bayesian_page(found):
    lines = [
        "| table | components asked for: relative error (components kept) | d - 1 over the best |",
        "|---|---|---|",
    ]
    for name, row in found.items():
        cells = ", ".join(f"{asked}: {error:.3f} ({kept:.3g})" for asked, (error, kept, *_) in row.items())
        errors = [numbers[0] for numbers in row.values()]
        lines.append(f"| {name} | {cells} | {errors[-1] / min(errors):.3f} |")
    return "\n".join(lines)


PARTS = {
    "number": (number, number_page),
    "tables": (tables, tables_page),
    "intervals": (intervals, intervals_page),
    "outliers": (outliers, outliers_page),
    "bayesian": (bayesian, bayesian_page),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure (everything)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few data sets, printed and not stored")
    options = parser.parse_args()
    path = OUT / "defaults.json"
    store = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    with ProcessPoolExecutor(options.workers, initializer=threadpool_limits, initargs=(1,)) as workers:
        for name in options.parts or PARTS:
            measure, page = PARTS[name]
            found = measure(workers, quick=options.quick)
            if options.quick:
                print(page(found), flush=True)
                continue
            store[name] = found
            path.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
            (OUT / f"defaults_{name}.md").write_text(page(found) + "\n", encoding="utf-8")
            print(name, "done", flush=True)


if __name__ == "__main__":
    main()
