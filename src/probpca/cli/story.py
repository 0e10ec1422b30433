"""What else a person would ask of the table of the demo: questions that take a line of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.datasets import Fertility, load_fertility

if TYPE_CHECKING:
    from probpca.estimators import PPCA

HOLED, FIRST, LAST = "Serbia", 1990, 1998


def tell(ppca: PPCA) -> None:
    """Ask about single countries."""
    table = load_fertility()
    _tell_missing(ppca, table)
    _tell_forecast(ppca, table)
    _tell_neighbours(ppca, table)


def _tell_missing(ppca: PPCA, table: Fertility) -> None:
    """Fill in some years of one country, given those that were recorded and how other countries went."""
    row = table.values[table.countries.index(HOLED)][None]
    low, high = ppca.impute_interval(row, 0.95)
    filled = ppca.impute(row)
    print(f"{HOLED}, {FIRST}-{LAST}: what was recorded, and what was filled in (with 95 % intervals)")
    for j, year in enumerate(table.years):
        if FIRST <= year <= LAST:
            missing = np.isnan(row[0, j])
            told = f"filled in: {low[0, j]:.2f} to {high[0, j]:.2f}" if missing else "recorded"
            print(f"  {year}: {filled[0, j]:.2f}  {told}")


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
