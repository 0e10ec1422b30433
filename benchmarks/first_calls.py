"""The calls that people make first: what they cost beside one fit of given settings, or beside reading the file.

``python benchmarks/first_calls.py`` measures

- ``calls``: searches for the number of components, imputation and Bayesian PCA with their defaults, on tables with
  missing cells and unequal noise, beside one fit of the right rank and beside other packages;
- ``decisions``: how often the searches for the number of components, which compare rough fits, choose as searches by
  full fits do;
- ``files``: fits of wide and tall text files, in Python and on the command line, beside pyarrow's reader and the fit of
  the same numbers in memory.

Name some of them to measure only those. Times are processor seconds with one thread for BLAS, the best of several runs
in turns in one process. Each part writes docs/benchmarks/first_calls_<name>.md, the numbers go to first_calls.json.
``--quick`` takes smaller tables and fewer runs, and prints the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from multiprocessing import TimeoutError as OutOfTime, get_context
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import pyarrow as pa
import quick
from complete import OUT
from factor_analysis import LONG, best_times, goal, timed
from pyarrow import csv, parquet
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from probpca import PPCA, BayesianPCA, PPCAImputer, select_n_components
from probpca.cli.main import main as command
from probpca.learning import Settings, fit_factor_analysis, fit_ppca
from probpca.learning.settings import FoldSettings, SearchLimits

STORE = OUT / "first_calls.json"


# Calls with defaults on tables with missing cells


SIZES = {"2,000 x 50": (2_000, 50), "20,000 x 100": (20_000, 100), "300 x 200": (300, 200)}
RANK, HIDDEN, MANY = 5, 0.2, 20
"""Factors of the tables, share of missing cells, and more components than the tables have."""
MOST_COLUMNS = 50
"""Columns of tables that miceforest completes in minutes."""
SEEDS = 5
"""Tables and random states whose steps are counted; fewer for tables of more rows than the first."""
DRAWN, DRAW = (500, 30), 0.005
"""Size of the table of multiple imputation, and most seconds of a draw."""
PATIENCE = 180
"""Seconds after which a package that completes a table is stopped."""
NAMES = {
    "PPCA()": "the default",
    'PPCA("bic")': "",
    'PPCA("cv")': "",
    "PPCA(20)": "more components than the table has",
    "BayesianPCA(20)": "",
    "PPCAImputer()": "factor analysis, number of factors by BIC",
    "select_n_components": "all rules",
}
GOALS = {"PPCA()": 3, "PPCAImputer()": 12, "BayesianPCA(20)": 15, 'PPCA("cv")': 30, 'PPCA("bic")': 12}
"""Largest ratios to one fit: of the chosen rank for rules of PPCA, of the right rank for the others."""
OWN_RANK = ("PPCA()", 'PPCA("bic")', 'PPCA("cv")', "select_n_components")
GOALS["select_n_components"] = 30


def uneven(n, d, seed=0):
    """Rows of a factor model whose noise differs sixfold between columns, complete, and with missing cells."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((d, RANK))
    noise = rng.uniform(0.5, 3.0, d)
    x = rng.standard_normal((n, RANK)) @ loadings.T + rng.standard_normal((n, d)) * noise
    return x, np.where(rng.random((n, d)) < HIDDEN, np.nan, x)


def fits(x, state=0):
    """What is timed, by name."""
    fixed = {"random_state": state, "n_jobs": 1}
    return {
        "PPCA()": lambda: PPCA(**fixed).fit(x),
        'PPCA("bic")': lambda: PPCA("bic", **fixed).fit(x),
        'PPCA("cv")': lambda: PPCA("cv", **fixed).fit(x),
        "PPCA(20)": lambda: PPCA(MANY, **fixed).fit(x),
        "BayesianPCA(20)": lambda: BayesianPCA(MANY, **fixed).fit(x),
        "PPCAImputer()": lambda: PPCAImputer(**fixed).fit(x),
        "select_n_components": lambda: select_n_components(x, **fixed),
    }


def by_ours(x):
    return PPCAImputer(random_state=0, n_jobs=1).fit_transform(x)


def by_chained_ridge(x):
    return IterativeImputer(random_state=0).fit_transform(x)


def by_neighbours(x):
    return KNNImputer().fit_transform(x)


def by_vbpca(x):
    from vbpca_py import VBPCA  # noqa: PLC0415

    model = VBPCA(MANY, random_state=0, num_cpu=1).fit(x)
    return np.where(np.isnan(x), model.reconstruction_, x)


def by_miceforest(x):
    import miceforest  # noqa: PLC0415

    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])
    kernel = miceforest.ImputationKernel(frame, num_datasets=1, random_state=0)
    kernel.mice(5, num_threads=1)
    return kernel.complete_data(0).to_numpy()


FOREST = "miceforest, 1 table"
IMPUTERS = {
    "PPCAImputer": by_ours,
    "IterativeImputer": by_chained_ridge,
    "KNNImputer": by_neighbours,
    "vbpca-py, 20 components": by_vbpca,
    FOREST: by_miceforest,
}
"""Functions that complete a table. Each runs in a process of its own: packages may take long, fail or be missing."""


def completed(name, x, rounds):
    """Table that a package completed and its processor seconds; without a table, why there is none."""
    with get_context("spawn").Pool(1) as pool:  # the process is ended with the pool
        try:
            return pool.apply_async(best_completion, (name, x, rounds)).get(PATIENCE)
        except OutOfTime:
            return None, f"more than {PATIENCE // 60} minutes"
        except Exception as error:  # noqa: BLE001
            return None, f"failed: {type(error).__name__}"


def best_completion(name, x, rounds):
    """Completed table and processor seconds, in the process that does it."""
    warnings.simplefilter("ignore")
    return once_or_best({name: partial(IMPUTERS[name], x)}, rounds)[name]


def once_or_best(works, rounds):
    """Results and processor seconds of works; those that take long are not repeated."""
    runs = {name: timed(work) for name, work in works.items()}
    short = {name: works[name] for name, (_, seconds) in runs.items() if seconds < LONG}
    times = {name: seconds for name, (_, seconds) in runs.items()} | best_times(short, rounds)
    return {name: (result, times[name]) for name, (result, _) in runs.items()}


def of_size(n, d, rounds):
    """Times of the calls beside those of one fit, and of imputers with their errors."""
    truth, x = uneven(n, d)
    one = once_or_best({"one": lambda: PPCA(RANK, random_state=0, n_jobs=1).fit(x)}, rounds)["one"][1]
    found = {"one": one, "calls": {}, "imputers": {}}
    for name, (result, seconds) in once_or_best(fits(x), rounds).items():
        model = getattr(result, "estimator_", result)
        q, same = getattr(model, "n_components_", None), one
        if name in OWN_RANK:
            q = q or max(result.choices["bic"], result.choices["cv"])
            same = once_or_best({"": lambda q=q: PPCA(q, random_state=0, n_jobs=1).fit(x)}, rounds)[""][1]
        found["calls"][name] = {"seconds": seconds, "q": int(q), "same": same}
    holes, scale = np.isnan(x), truth.std(axis=0)
    for name in IMPUTERS:
        if name == FOREST and d > MOST_COLUMNS:
            continue
        filled, told = completed(name, x, rounds)
        if filled is None:
            found["imputers"][name] = {"none": told}
            continue
        error = float(np.sqrt(np.mean(np.square(((filled - truth) / scale)[holes]))))
        found["imputers"][name] = {"seconds": told, "error": error}
    print(n, d, json.dumps(found), flush=True)
    return found


def draw_seconds(n, d, count=20):
    """Processor seconds of a completed table of multiple imputation, with parameters drawn for it."""
    x = uneven(n, d)[1]
    model = PPCA(RANK, random_state=0, n_jobs=1, keep_source=True).fit(x)
    return best_times({"": partial(model.impute_draws, x, count, random_state=0)}, 5)[""] / count


def calls(*, quick_cases):
    """Times of all sizes, and the steps of fits with too many components over tables and random states."""
    sizes = dict(list(SIZES.items())[::2]) if quick_cases else SIZES
    found = {name: of_size(n, d, 1 if quick_cases else 3) for name, (n, d) in sizes.items()}
    steps = {}
    for name, (n, d) in sizes.items():
        few = quick_cases or n > 2_000
        tables = [uneven(n, d, seed)[1] for seed in range(1 if few else SEEDS)]
        states = {"PPCA(20)": range(2 if few else SEEDS), "BayesianPCA(20)": range(1 if few else 2)}
        steps[name] = {
            label: [[fits(x, state)[label]().n_iter_ for state in states[label]] for x in tables] for label in states
        }
    return {"sizes": found, "steps": steps, "draw": draw_seconds(*DRAWN)}


def calls_page(found):
    sizes = found["sizes"]
    lines = [
        f"Tables of {RANK} factors with noise that differs sixfold between columns, {HIDDEN:.0%} of the cells missing.",
        "Processor seconds, one thread; in brackets the number of components, and the ratio to one fit of five, or for",
        "rules of PPCA of as many components as they choose (PPCA describes unequal noise by more of them).",
        "",
        f"| call | {' | '.join(sizes)} |",
        "|---" * (len(sizes) + 1) + "|",
        f"| `PPCA({RANK})` | {' | '.join('{one:.3g}'.format(**size) for size in sizes.values())} |",
    ]
    for name, note in NAMES.items():
        cells = [size["calls"][name] for size in sizes.values()]
        told = [f"{cell['seconds']:.3g} ({cell['q']}, {ratio(cell):.1f} times)" for cell in cells]
        lines.append(f"| `{name}`{note and ', ' + note} | {' | '.join(told)} |")
    everyone = dict.fromkeys(name for size in sizes.values() for name in size["imputers"])
    lines += ["", "Completing the table: processor seconds, and the error in standard deviations of a column.", ""]
    lines += [f"| package | {' | '.join(sizes)} |", "|---" * (len(sizes) + 1) + "|"]
    for name in everyone:
        cells = [size["imputers"].get(name) for size in sizes.values()]
        told = ["" if cell is None else told_of_imputer(cell) for cell in cells]
        lines.append(f"| {name} | {' | '.join(told)} |")
    lines += ["", "Steps of fits with too many components: fewest, median and most over tables and random states.", ""]
    lines += [f"| fit | {' | '.join(sizes)} |", "|---" * (len(sizes) + 1) + "|"]
    for name in ("PPCA(20)", "BayesianPCA(20)"):
        cells = [np.ravel(found["steps"][size][name]) for size in sizes]
        told = [f"{cell.min()}, {np.median(cell):.0f}, {cell.max()}" for cell in cells]
        lines.append(f"| `{name}` | {' | '.join(told)} |")
    lines += ["", "| goal | measured | reached |", "|---|---|---|"]
    for name, most in GOALS.items():
        for label, size in sizes.items():
            measured = ratio(size["calls"][name])
            lines.append(goal(f"{label}: `{name}` {most} times", f"{measured:.1f} times", reached=measured <= most))
    for label, size in sizes.items():
        ours, theirs = size["imputers"]["PPCAImputer"], size["imputers"]["IterativeImputer"]
        what = f"{label}: imputation 5 times as fast as IterativeImputer, error no larger"
        if "none" in theirs:
            lines.append(goal(what, f"IterativeImputer: {theirs['none']}", reached=ours["seconds"] <= PATIENCE / 5))
            continue
        faster = theirs["seconds"] / ours["seconds"]
        reached = faster >= 5 and ours["error"] <= theirs["error"]
        measured = f"{faster:.1f} times as fast, error {ours['error'] / theirs['error']:.3f} times"
        lines.append(goal(what, measured, reached=reached))
    what = "{:,} x {}: a draw of `impute_draws` under {:.0f} ms".format(*DRAWN, 1e3 * DRAW)
    lines.append(goal(what, f"{1e3 * found['draw']:.2f} ms", reached=found["draw"] < DRAW))
    return "\n".join(lines)


def told_of_imputer(cell):
    return cell.get("none") or f"{cell['seconds']:.3g} ({cell['error']:.4f})"


def ratio(cell):
    return cell["seconds"] / cell["same"]


# Decisions of rough and of full searches


N_TABLES = 200
SAME = 0.98
"""Smallest share of tables for which a rough search chooses as a full one does."""
RULES = {
    "PPCA, BIC": partial(fit_ppca, n_components="bic"),
    "factor analysis, BIC": partial(fit_factor_analysis, n_components="bic"),
    "factor analysis, AIC": partial(fit_factor_analysis, n_components="aic"),
    "PPCA, cross-validation": partial(fit_ppca, n_components="cv"),
}
KINDS = ("equal noise", "noise that differs sixfold", "little noise", "factors of falling strength", "heavy tails")


def simulated(seed):
    """Kind and rows of a table: 80 to 800 rows, 8 to 40 columns, 1 to 6 factors, 2 to 40 % of the cells missing."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, d = (int(np.exp(rng.uniform(*np.log(bounds)))) for bounds in ((80, 800), (8, 40)))
    q = int(rng.integers(1, 1 + min(6, d // 3)))
    loadings = rng.standard_normal((d, q)) * rng.uniform(0.4, 1.5)
    if kind == "factors of falling strength":
        loadings *= 0.7 ** np.arange(q)
    noise = np.full(d, 0.1) if kind == "little noise" else np.ones(d)
    if kind == "noise that differs sixfold":
        noise = rng.uniform(0.5, 3.0, d)
    x = rng.standard_normal((n, q)) @ loadings.T + rng.standard_normal((n, d)) * noise
    if kind == "heavy tails":
        x *= np.sqrt(5 / rng.chisquare(5, (n, 1)))
    return kind, np.where(rng.random((n, d)) < rng.uniform(0.02, 0.4), np.nan, x)


def decided(rule, x, settings):
    """Number of components that a rule chooses, and the processor seconds it takes."""
    result, seconds = timed(lambda: RULES[rule](x, settings=settings, rng=np.random.default_rng(0)))
    return result.model.n_components, seconds


def decisions(*, quick_cases):
    """Choices and times of rough and of full searches for every rule and table."""
    found = {rule: [] for rule in RULES}
    for seed in range(10 if quick_cases else N_TABLES):
        kind, x = simulated(seed)
        # Cross-validation counts its tolerance in nats per row.
        folds = FoldSettings(tolerance=1e-3 / len(x), max_iter=5000, gain=-np.inf)
        full = Settings(search=SearchLimits(tolerance=0.0), folds=folds)
        for rule, rows in found.items():
            (q, seconds), (best, longer) = decided(rule, x, Settings()), decided(rule, x, full)
            rows.append({"kind": kind, "rough": q, "full": best, "seconds": seconds, "full_seconds": longer})
    return found


def decisions_page(found):
    count = len(next(iter(found.values())))
    lines = [
        f"{count} simulated tables: 80 to 800 rows, 8 to 40 columns, 1 to 6 factors, 2 to 40 % of the cells missing.",
        "How often a search that compares rough fits chooses as many components as one whose fits all reach the",
        "tolerance of a single fit, and their processor seconds together.",
        "",
        f"| rule | the same choice | {' | '.join(KINDS)} | searches | full searches |",
        "|---" * (len(KINDS) + 4) + "|",
    ]
    for rule, rows in found.items():
        by_kind = [agreement([row for row in rows if row["kind"] == kind]) for kind in KINDS]
        seconds, longer = (sum(row[key] for row in rows) for key in ("seconds", "full_seconds"))
        cells = [f"{share:.1%}" for share in (agreement(rows), *by_kind)]
        lines.append(f"| {rule} | {' | '.join(cells)} | {seconds:.0f} s | {longer:.0f} s |")
    lines += ["", "| goal | measured | reached |", "|---|---|---|"]
    for rule, rows in found.items():
        share = agreement(rows)
        lines.append(goal(f"{rule}: {SAME:.0%} the same", f"{share:.1%}", reached=share >= SAME))
    return "\n".join(lines)


def agreement(rows):
    return float(np.mean([row["rough"] == row["full"] for row in rows]))


# Files


FILES = {
    "wide.csv": (200, 20_000, 0.05),
    "wide, complete.csv": (200, 20_000, 0.0),
    "wide.parquet": (200, 20_000, 0.05),
    "tall.csv": (200_000, 30, 0.05),
}
"""Rows, columns and share of missing cells of each file; the fits have five components."""
MOST = 1.3
"""Largest ratio of the fit of a file to its reading and the fit in memory together."""


READ, LARGE = "read by pyarrow", "in blocks of 32 MB"


def write(path, x):
    """Write a table with named columns; a missing cell is empty."""
    columns = {f"x{j}": pa.array(column, from_pandas=True) for j, column in enumerate(x.T.copy())}
    (csv.write_csv if path.suffix == ".csv" else parquet.write_table)(pa.table(columns), path)


def run(*arguments):
    """Run a command without a word on the screen."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
        code = command([*map(str, arguments)])
    if code:
        raise RuntimeError(said.getvalue())


def of_file(path, x, rounds):
    """Processor seconds of what is done with one file."""
    model, out = path.with_suffix(".npz"), path.with_suffix(".out.csv")
    fitted = PPCA(5, random_state=0).fit(path)
    given = "--components", 5, "--out", model, "--force"
    work = {
        "fit in memory": lambda: PPCA(5, random_state=0).fit(x),
        "PPCA(5).fit(path)": lambda: PPCA(5, random_state=0).fit(path),
        "transform(path)": lambda: fitted.transform(path),
        "impute(path, out=...)": lambda: fitted.impute(path, out=out),
        "probpca fit": lambda: run("fit", path, *given),
        "probpca outliers": lambda: run("outliers", model, path),
        "probpca impute --out": lambda: run("impute", model, path, "--out", out, "--force"),
    }
    return best_times(readers(path) | work, rounds)


def readers(path):
    """Ways in which pyarrow reads a file.

    The default blocks of 1 MB hold so few rows of a wide table that cutting them into columns takes most of the time.
    """
    if path.suffix != ".csv":
        return {READ: partial(parquet.read_table, path)}
    large = csv.ReadOptions(block_size=2**25)
    return {READ: partial(csv.read_csv, path), LARGE: partial(csv.read_csv, path, read_options=large)}


def files(*, quick_cases):
    """Times of all files."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (n, d, missing) in FILES.items():
            if quick_cases:
                n, d = min(n, 20_000), min(d, 4_000)  # noqa: PLW2901
            x, path = quick.table(n, d, 5, missing), Path(folder) / name
            write(path, x)
            found[f"{name}, {n:,} x {d:,}"] = of_file(path, x, 2 if quick_cases else 5)
            path.unlink()
    return found


def files_page(found):
    names = list(next(iter(found.values())))
    shown = [f"`{name}`" if "(" in name or name.startswith("probpca") else name for name in names]
    lines = [
        "Processor seconds, one thread for BLAS; 5 % of the cells missing unless the table is complete.",
        "",
        f"| file | {' | '.join(shown)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for name, times in found.items():
        cells = [f"{times[label]:.3g}" if label in times else "" for label in names]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| goal | measured | reached |", "|---|---|---|"]
    for name, times in found.items():
        both = min(times[READ], times.get(LARGE, times[READ])) + times["fit in memory"]
        for label in ("PPCA(5).fit(path)", "probpca fit"):
            ratio = times[label] / both
            what = f"{name}: `{label}` {MOST} times the faster reading and the fit in memory"
            lines.append(goal(what, f"{ratio:.2f} times", reached=ratio <= MOST))
    return "\n".join(lines)


PARTS = {
    "calls": (calls, calls_page),
    "decisions": (decisions, decisions_page),
    "files": (files, files_page),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure (everything)")
    parser.add_argument("--report", action="store_true", help="only write the pages")
    parser.add_argument("--quick", action="store_true", help="smaller tables and fewer runs, printed and not stored")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    for name in options.parts or PARTS:
        measure, page = PARTS[name]
        if not options.report:
            found = measure(quick_cases=options.quick)
            if options.quick:
                print(page(found), flush=True)
                continue
            store[name] = found
            STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
        (OUT / f"first_calls_{name}.md").write_text(page(store[name]) + "\n", encoding="utf-8")
        print(name, "done", flush=True)


if __name__ == "__main__":
    main()
