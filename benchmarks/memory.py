"""Peak memory of fits and commands on files of 200,000 x 50 numbers (80 MB) with missing cells.

``python benchmarks/memory.py`` writes the table as .npy, Parquet and CSV to a temporary folder, measures, and writes a
table and the raw numbers to docs/benchmarks. Every case runs in a process of its own, whose peak of resident memory
counts; "imports" is a process that only imports the library. ``--quick`` measures 100,000 rows and stores nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
FORMATS = ("npy", "parquet", "csv")
MOST = 1.2
"""Largest ratio of the peaks of ``probpca fit`` and ``PPCA.fit``."""
OTHERS = {
    "impute": ["--out", "{folder}/completed.{format}"],
    "outliers": ["--out", "{folder}/outliers.{format}"],
    "transform": ["--out", "{folder}/scores.{format}"],
    "score": [],
    "report": ["--out", "{folder}/{format}.html"],
}
"""Commands that take a model and a table, and their options."""
TABLES = """
import sys
import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

n, d, folder = int(sys.argv[1]), 50, sys.argv[2]
rng = np.random.default_rng(0)
x = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + 0.5 * rng.standard_normal((n, d))
x[rng.random(x.shape) < 0.05] = np.nan
np.save(f"{folder}/table.npy", x)
table = pa.table({f"c{j}": pa.array(x[:, j], from_pandas=True) for j in range(d)})
parquet.write_table(table, f"{folder}/table.parquet")
csv.write_csv(table, f"{folder}/table.csv")
"""
IMPORTS = "import probpca.cli.fit_commands, probpca.cli.row_commands, pyarrow.csv, pyarrow.dataset, pyarrow.parquet"
LIBRARY = "import sys, probpca; probpca.PPCA(3, max_iter=5, random_state=0).fit(sys.argv[1])"
COMMAND = "import sys; from probpca.cli.main import main; code = main(sys.argv[1:]); assert code == 0, code"
PEAK = "\nimport resource, sys; sys.stderr.write(f'\\npeak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}')"


def peak(code, *arguments):
    """Peak of resident memory of a process that runs Python code, in MB.

    This process imports nothing large, because a child inherits the peak of its parent.
    """
    command = [sys.executable, "-W", "ignore", "-c", code + PEAK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr)
    kilobytes = int(done.stderr.rsplit("peak ", 1)[1])
    return kilobytes * 1024 / 1e6 if sys.platform != "darwin" else kilobytes / 1e6


def measured(folder, kind):
    """Peaks for one format: the library, and all commands."""
    table, model = f"{folder}/table.{kind}", f"{folder}/{kind}.npz"
    found = {"PPCA.fit": peak(LIBRARY, table)}
    fit = ["fit", table, "--components", "3", "--max-iter", "5", "--seed", "0", "--out", model]
    found["probpca fit"] = peak(COMMAND, *fit)
    for command, options in OTHERS.items():
        given = [option.format(folder=folder, format=kind) for option in options]
        found[f"probpca {command}"] = peak(COMMAND, command, model, table, *given)
    return found


def measure(n_rows):
    """Peaks of all formats, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", TABLES, str(n_rows), folder], check=True)  # noqa: S603
        found = {kind: measured(folder, kind) for kind in FORMATS}
    return {"rows": n_rows, "imports": peak(IMPORTS), "peaks": found}


def report(store):
    """The peaks as a table, and whether ``probpca fit`` needs little more than ``PPCA.fit``."""
    peaks, rows = store["peaks"], store["rows"]
    size = f"{rows:,} x 50 numbers ({rows * 400 / 1e6:.0f} MB), 5 % of them missing"
    lines = [
        f"Peak of resident memory in MB, for {size}; imports alone take {store['imports']:.0f} MB.",
        "",
        "| | " + " | ".join(f".{kind}" for kind in FORMATS) + " |",
        "|---|" + "---|" * len(FORMATS),
    ]
    lines += [f"| `{name}` | " + " | ".join(f"{peaks[k][name]:.0f}" for k in FORMATS) + " |" for name in peaks["npy"]]
    worst = max(peaks[kind]["probpca fit"] / peaks[kind]["PPCA.fit"] for kind in FORMATS)
    goal = f"`probpca fit` needs at most {worst:.2f} times as much as `PPCA.fit` (goal: {MOST})."
    return "\n".join([*lines, "", goal, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="half the rows, printed and not stored")
    options = parser.parse_args()
    store = measure(100_000 if options.quick else 200_000)
    text = report(store)
    if not options.quick:
        (OUT / "memory.json").write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
        (OUT / "memory.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
