"""``python -m probpca.cli.demo``: PPCA on a real table, holes and all, and what a person would ask of it."""

from __future__ import annotations

import numpy as np

from probpca.data import Fertility, load_fertility
from probpca.estimators import PPCA

UNUSUAL = 5
HOLED, FIRST, LAST = "Serbia", 1990, 1998


def main() -> None:
    """Fit the shipped table of fertility rates and print what there is to see."""
    table = load_fertility()
    _tell_table(table)
    ppca = PPCA(n_components=0.99, random_state=0).fit(table.values)
    print(ppca.summary(feature_names=table.years))
    _tell_axes(ppca, table)
    _tell_missing(ppca, table)
    _tell_outliers(ppca, table)
    _tell_forecast(ppca, table)
    _tell_neighbours(ppca, table)


def _tell_table(table: Fertility) -> None:
    n, d = table.values.shape
    missing = np.isnan(table.values)
    print(f"Births per woman, {n} countries, {table.years[0]}-{table.years[-1]} (World Bank, CC BY 4.0)")
    share = f"{missing.sum():,} of {n * d:,} cells are missing ({missing.mean():.1%})"
    print(f"{share}; {missing.all(axis=1).sum()} countries have no value at all and do not count\n")


def _tell_axes(ppca: PPCA, table: Fertility) -> None:
    latent = ppca.transform(table.values)
    print("\nWhere countries lie on the first components (posterior mean, in prior standard deviations)")
    for j in range(min(2, latent.shape[1])):
        order = np.argsort(latent[:, j])
        low = ", ".join(f"{table.countries[i]} {latent[i, j]:+.1f}" for i in order[:3])
        high = ", ".join(f"{table.countries[i]} {latent[i, j]:+.1f}" for i in order[:-4:-1])
        print(f"  {j + 1}: {low}  ...  {high}")


def _tell_missing(ppca: PPCA, table: Fertility) -> None:
    """Fill in some years of one country, given those that were recorded and how other countries went."""
    row = table.values[table.countries.index(HOLED)][None]
    low, high = ppca.impute_interval(row, 0.95)
    filled = ppca.impute(row)
    print(f"\n{HOLED}, {FIRST}-{LAST}: what was recorded, and what was filled in (with 95 % intervals)")
    for j, year in enumerate(table.years):
        if FIRST <= year <= LAST:
            missing = np.isnan(row[0, j])
            told = f"filled in: {low[0, j]:.2f} to {high[0, j]:.2f}" if missing else "recorded"
            print(f"  {year}: {filled[0, j]:.2f}  {told}")


def _tell_outliers(ppca: PPCA, table: Fertility) -> None:
    found = ppca.outliers(table.values)
    print("\nLeast believable countries (log10 of the p-value), and the year that is most to blame")
    for i in np.argsort(found.log10_p_value)[:UNUSUAL]:
        worst = int(np.nanargmax(np.abs(found.cell_scores[i])))
        score = found.cell_scores[i, worst]
        print(f"  {table.countries[i]:<24}{found.log10_p_value[i]:>9.1f}   {table.years[worst]}: {score:+.1f} sd")


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


if __name__ == "__main__":
    main()
