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
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.cli.run import open_model
from probpca.cli.text import note
from probpca.datasets import load_fertility
from probpca.errors import SourceError
from probpca.inference.imputation import Imputed

if TYPE_CHECKING:
    from probpca.datasets import Fertility
    from probpca.estimators import PPCA

COMMANDS = (
    "fit fertility.csv --components 0.99",
    "select complete.csv --criteria parallel bic evidence gavish_donoho",
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
        print("In Python there is more to ask, for example about single rows:\n")
        tell(open_model("model.npz").estimator)
    print(f"\nTables, model and pages are in {folder}")


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{folder} exists already and is not empty.\nHint: --out takes a new folder."
        raise SourceError(msg)


def _write_tables() -> None:
    """The table with a row for each country, its complete rows, and some of it with a row for each year."""
    text = files("probpca.datasets").joinpath("fertility.csv").read_text(encoding="utf-8")
    Path("fertility.csv").write_text(text, encoding="utf-8")
    table = load_fertility()
    years = f"{table.years[0]}-{table.years[-1]}"
    print(f"Births per woman, {len(table.countries)} countries, {years} (World Bank, CC BY 4.0)\n")
    header, *rows = text.splitlines()
    complete = [header, *(row for row in rows if ",," not in f"{row},")]
    Path("complete.csv").write_text("\n".join(complete) + "\n", encoding="utf-8")
    some = ("India", "Brazil", "Kenya", "Japan")
    places = [table.countries.index(country) for country in some]
    with Path("series.csv").open("w", newline="", encoding="utf-8") as file:
        series = csv.writer(file)
        series.writerow(["year", *some])
        series.writerows([year, *table.values[places, j]] for j, year in enumerate(table.years))


def _show(command: str) -> None:
    """Print a command, run it, and leave a line."""
    from probpca.cli.main import main  # noqa: PLC0415

    name, *_ = command.split()
    needed = {"report": "altair"}.get(name)
    if needed is not None and find_spec(needed) is None:
        note(f"probpca {name} is left out: it needs {needed}, pip install 'probpca[report]'.")
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


def tell(ppca: PPCA) -> None:
    """Ask about single countries."""
    table = load_fertility()
    _tell_missing(ppca, table)
    _tell_forecast(ppca, table)
    _tell_neighbours(ppca, table)


def _tell_missing(ppca: PPCA, table: Fertility) -> None:
    """Fill in some years of one country, given those that were recorded and how other countries went."""
    first, last = 1990, 1998
    row = table.values[table.countries.index("Serbia")][None]
    imputed = Imputed(*ppca.impute(row, return_std=True))
    low, high = imputed.interval(0.95)
    print(f"Serbia, {first}-{last}: what was recorded, and what was filled in (with 95 % intervals)")
    for j, year in enumerate(table.years):
        if first <= year <= last:
            missing = np.isnan(row[0, j])
            told = f"filled in: {low[0, j]:.2f} to {high[0, j]:.2f}" if missing else "recorded"
            print(f"  {year}: {imputed.values[0, j]:.2f}  {told}")


def _tell_forecast(ppca: PPCA, table: Fertility) -> None:
    """Predict the last year from the years up to 2000, for one country, with an interval."""
    i = table.countries.index("India")
    known = [j for j, year in enumerate(table.years) if year <= 2000]
    predicted = ppca.condition(known, table.values[i : i + 1, known])
    low, high = predicted.interval(0.95)
    print(f"\nIndia in {table.years[-1]}, predicted from its years up to 2000, given how other countries went")
    told = f"{predicted.mean[0, -1]:.2f}  (95 %: {low[0, -1]:.2f} to {high[0, -1]:.2f})"
    print(f"  {told};  it was {table.values[i, -1]:.2f}")


def _tell_neighbours(ppca: PPCA, table: Fertility) -> None:
    i, d = table.countries.index("India"), len(table.years)
    draws = ppca.explore(table.values[i : i + 1], 200, random_state=0)[:, 0]
    print("\nPlausible neighbours of India (200 draws: mean and standard deviation)")
    for j in (0, d // 2, d - 1):
        print(f"  {table.years[j]}: {draws[:, j].mean():.2f} +- {draws[:, j].std():.2f}")
