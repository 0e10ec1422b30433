"""``python -m probpca.cli.demo``: PPCA on a real table, and what a person would ask of it."""

from __future__ import annotations

import numpy as np

from probpca.data import Fertility, load_fertility
from probpca.estimators import PPCA

UNUSUAL = 5


def main() -> None:
    """Fit the shipped table of fertility rates and print what there is to see."""
    table = load_fertility().complete()
    n, d = table.values.shape
    print(f"Births per woman, {n} countries, {table.years[0]}-{table.years[-1]} (World Bank, CC BY 4.0)\n")
    ppca = PPCA(n_components=0.99, random_state=0).fit(table.values)
    print(ppca.summary(feature_names=table.years))
    _tell_axes(ppca, table)
    _tell_outliers(ppca, table)
    _tell_forecast(ppca, table)
    _tell_neighbours(ppca, table, d)


def _tell_axes(ppca: PPCA, table: Fertility) -> None:
    latent = ppca.transform(table.values)
    print("\nWhere countries lie on the first components (posterior mean, in prior standard deviations)")
    for j in range(min(2, latent.shape[1])):
        order = np.argsort(latent[:, j])
        low = ", ".join(f"{table.countries[i]} {latent[i, j]:+.1f}" for i in order[:3])
        high = ", ".join(f"{table.countries[i]} {latent[i, j]:+.1f}" for i in order[:-4:-1])
        print(f"  {j + 1}: {low}  ...  {high}")


def _tell_outliers(ppca: PPCA, table: Fertility) -> None:
    found = ppca.outliers(table.values)
    print("\nLeast believable countries (log10 of the p-value), and the year that is most to blame")
    for i in np.argsort(found.log10_p_value)[:UNUSUAL]:
        worst = int(np.abs(found.cell_scores[i]).argmax())
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


def _tell_neighbours(ppca: PPCA, table: Fertility, d: int) -> None:
    i = table.countries.index("India")
    draws = ppca.explore(table.values[i : i + 1], 200, random_state=0)[:, 0]
    shown = [0, d // 2, d - 1]
    print("\nPlausible neighbours of India (200 draws: mean and standard deviation)")
    for j in shown:
        print(f"  {table.years[j]}: {draws[:, j].mean():.2f} +- {draws[:, j].std():.2f}")


if __name__ == "__main__":
    main()
