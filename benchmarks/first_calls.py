"""The calls that people make first: what they cost beside one fit of given settings, or beside reading the file.

``python benchmarks/first_calls.py`` measures

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
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyarrow as pa
import quick
from complete import OUT
from factor_analysis import best_times, goal
from pyarrow import csv, parquet
from sklearn.exceptions import ConvergenceWarning

from probpca import PPCA
from probpca.cli.main import main as command

STORE = OUT / "first_calls.json"


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
