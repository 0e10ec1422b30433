"""``python -m adversarial``: run the campaign and print what came of it; ``make test-adversarial`` calls it."""

import argparse
import os
import secrets
import sys
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # before numpy is loaded
    os.environ.setdefault(name, "1")

from adversarial.runner import Case, Part, judge, run  # noqa: E402

PARTS = (
    Part("ppca", "tables: PPCA, all solvers", "adversarial.fits:ppca", 2000, 0.3),
    Part("factors", "tables: FactorAnalysis", "adversarial.fits:factors", 500, 0.08),
    Part("bayesian", "tables: BayesianPCA", "adversarial.fits:bayesian", 800, 0.12),
    Part("imputer", "tables: PPCAImputer", "adversarial.fits:imputer", 600, 0.08),
    Part("select", "tables: select_n_components", "adversarial.selections:select", 120, 0.08),
    Part("system", "sequences: LinearDynamicalSystem", "adversarial.dynamics:system", 200, 0.1),
    Part("file", "hostile files", "adversarial.files:file", 3000, 0.08),
    Part("byte", "model files: one byte changed", "adversarial.forgeries:byte", 1500, 0.02),
    Part("cut", "model files: cut, or with more at the end", "adversarial.forgeries:cut", 500, 0.01),
    Part("entry", "model files: one field changed", "adversarial.forgeries:entry", 1500, 0.02),
    Part("resumed", "fits killed three times", "adversarial.kills:resumed", 4, 0.05),
    Part("written", "writers killed", "adversarial.kills:written", 30, 0.05),
    Part("model-file", "one model file, readers and a writer", "adversarial.concurrency:model_file", 15, 0.02),
    Part("table-file", "one table, replaced while it is fitted", "adversarial.concurrency:table_file", 40, 0.02),
    Part("threads", "threads that fit at once", "adversarial.concurrency:threads", 30, 0.02),
    Part("fork", "forks while a thread fits", "adversarial.concurrency:fork", 20, 0.02),
    Part("stream", "streams of single rows", "adversarial.streams:stream", 20, 0.08),
)
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "testing.md"
BEGIN, END = (
    "<!-- the table of the last run, written by: make test-adversarial WRITE_DOCS=1 -->\n",
    "<!-- end of the table -->\n",
)
SHOWN = 10
"""Wrong cases whose words are printed in full."""


def arguments():
    parser = argparse.ArgumentParser(prog="python -m adversarial", description=__doc__)
    parser.add_argument("--seed", type=int, help="0, or a new one if there is a budget")
    parser.add_argument("--budget", type=float, help="seconds; without it the number of cases is fixed")
    parser.add_argument("--parts", nargs="*", choices=[part.name for part in PARTS], help="some parts only")
    parser.add_argument("--case", type=Case.parse, help="judge one case, PART:SEED:NUMBER, in this process")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table into {PAGE.name}")
    return parser.parse_args()


def table(tallies):
    """Lines of a Markdown table."""
    rows = [tally.row for tally in tallies]
    totals = ["all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])]
    cells = [["part", "tried", "right", "named error", "wrong"], *([str(c) for c in row] for row in (*rows, totals))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(_aligned(row, widths)) + " |" for row in cells]
    lines.insert(
        1, "|" + "|".join("-" * (w + 2) if j == 0 else "-" * (w + 1) + ":" for j, w in enumerate(widths)) + "|"
    )
    return lines


def _aligned(row, widths):
    return [cell.ljust(w) if j == 0 else cell.rjust(w) for j, (cell, w) in enumerate(zip(row, widths, strict=True))]


def report(tallies, seed, seconds):
    """Print what was wrong, the table, and the line that counts."""
    wrong = [found for tally in tallies for found in tally.wrong]
    for shown, (case, words) in enumerate(wrong):
        sys.stdout.write(f"\nwrong: make test-adversarial CASE={case}\n")
        if shown < SHOWN:
            sys.stdout.writelines(f"    {line}\n" for line in words)
    sys.stdout.write("\n" + "\n".join(table(tallies)) + f"\n\nSEED={seed}, {seconds:.0f} s\n")
    tried = sum(tally.row[1] for tally in tallies)
    sys.stdout.write(f"{tried - len(wrong)} passed, {len(wrong)} failed\n")
    return int(bool(wrong))


def write_docs(tallies, seed, seconds):
    """Put the table of this run into the page on testing."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    words = f"The last run had SEED={seed} and took {seconds:.0f} s:\n\n"
    PAGE.write_text(before + BEGIN + words + "\n".join(table(tallies)) + "\n" + END + after)


def main():
    options = arguments()
    if options.case:
        verdict = judge(next(part for part in PARTS if part.name == options.case.part), options.case)
        sys.stdout.write("\n".join([f"{options.case}: {verdict.kind}", *verdict.words]) + "\n")
        return int(verdict.kind == "wrong")
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6) if options.budget else 0
    sys.stdout.write(f"SEED={seed}\n")
    chosen = [part for part in PARTS if not options.parts or part.name in options.parts]
    began, tallies = time.monotonic(), []
    for part in chosen:
        share = part.share / sum(other.share for other in chosen)
        tallies.append(run(part, seed, None if options.budget is None else share * options.budget))
        title, tried, *_, wrong = tallies[-1].row
        sys.stdout.write(f"{title}: {tried} tried, {wrong} wrong, {tallies[-1].seconds:.0f} s\n")
        sys.stdout.flush()
    seconds = time.monotonic() - began
    if options.write_docs:
        write_docs(tallies, seed, seconds)
    return report(tallies, seed, seconds)


if __name__ == "__main__":
    sys.exit(main())
