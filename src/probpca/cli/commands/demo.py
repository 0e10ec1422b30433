"""``probpca demo``: every command on a real table, and what it prints."""

from __future__ import annotations

import csv
import shlex
import sys
from contextlib import chdir
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from probpca.cli import story
from probpca.cli.models import open_model
from probpca.cli.output import note
from probpca.datasets import load_fertility
from probpca.errors import SourceError

TABLE, COMPLETE, SERIES, MODEL = "fertility.csv", "complete.csv", "series.csv", "model.npz"
SOME = ("India", "Brazil", "Kenya", "Japan")
COMMANDS = (
    "fit fertility.csv --components 0.99",
    "select complete.csv --criteria bic evidence parallel gavish_donoho",
    "impute model.npz fertility.csv",
    "impute model.npz fertility.csv --intervals --out completed.csv",
    "transform model.npz fertility.csv",
    "score model.npz fertility.csv",
    "outliers model.npz fertility.csv --top 5",
    "sample model.npz -n 3",
    "forecast series.csv --steps 5 --components 2 --time year",
    "report model.npz fertility.csv --out report.html",
    "explorer model.npz fertility.csv --out explorer.html",
)
NEEDS = {"report": "altair"}
"""Commands that need a library that may not be there."""


def run(args: Any) -> None:
    """Run the commands in a folder of their own."""
    folder = Path(mkdtemp(prefix="probpca-demo-")) if args.out is None else Path(args.out)
    if args.out is not None:
        _require_empty(folder)
        folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder):
        _write_tables()
        for command in COMMANDS:
            _show(command)
        print("In Python there is more to ask, as of single rows:\n")
        story.tell(open_model(MODEL).estimator)
    print(f"\nTables, model and pages are in {folder}")


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{folder} exists already and is not empty.\nHint: --out takes a new folder."
        raise SourceError(msg)


def _write_tables() -> None:
    """The table with a row for each country, its complete rows, and some of it with a row for each year."""
    text = files("probpca.datasets").joinpath(TABLE).read_text(encoding="utf-8")
    Path(TABLE).write_text(text, encoding="utf-8")
    table = load_fertility()
    years = f"{table.years[0]}-{table.years[-1]}"
    print(f"Births per woman, {len(table.countries)} countries, {years} (World Bank, CC BY 4.0)\n")
    header, *rows = text.splitlines()
    complete = [header, *(row for row in rows if ",," not in f"{row},")]
    Path(COMPLETE).write_text("\n".join(complete) + "\n", encoding="utf-8")
    places = [table.countries.index(country) for country in SOME]
    with Path(SERIES).open("w", newline="", encoding="utf-8") as file:
        series = csv.writer(file)
        series.writerow(["year", *SOME])
        series.writerows([year, *table.values[places, j]] for j, year in enumerate(table.years))


def _show(command: str) -> None:
    """Print a command, run it, and leave a line."""
    from probpca.cli.main import main  # noqa: PLC0415

    name, *_ = command.split()
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        note(f"probpca {name} is left out: it needs {NEEDS[name]}, pip install 'probpca[report]'.")
        return
    print(f"$ probpca {command}", flush=True)
    code = main(shlex.split(command))
    sys.stdout.flush()
    print()
    if code == 130:
        raise KeyboardInterrupt
    if code:
        msg = f"probpca {command} failed."
        raise SourceError(msg)
