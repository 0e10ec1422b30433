"""A real table to try things on."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Array


class Fertility(NamedTuple):
    """Births per woman, by country and year; NaN where nothing was recorded."""

    countries: tuple[str, ...]  # 219 names
    years: tuple[int, ...]  # 1960 .. 2011
    values: Array  # (219, 52)

    def complete(self) -> Fertility:
        """The countries for which every year was recorded."""
        kept = np.flatnonzero(np.isfinite(self.values).all(axis=1))
        return Fertility(tuple(self.countries[i] for i in kept), self.years, self.values[kept])


def load_fertility() -> Fertility:
    """Total fertility rate of 219 countries and regions, 1960 to 2011.

    Source: The World Bank, World Development Indicators, series SP.DYN.TFRT.IN "Fertility rate, total
    (births per woman)", licence CC BY 4.0, as distributed with statsmodels (data set ``fertility``), from
    which the two empty last years were left out. 192 countries are complete, nine have no value at all.

    Examples
    --------
    >>> from probpca.datasets import load_fertility
    >>> table = load_fertility()
    >>> table.values.shape, len(table.complete().countries)
    ((219, 52), 192)
    """
    text = files(__package__).joinpath("fertility.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    values = np.array([[float(cell) if cell else np.nan for cell in row[1:]] for row in rows])
    return Fertility(tuple(row[0] for row in rows), tuple(int(year) for year in header[1:]), values)
