"""A real table to try things on."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.result_tables import (
    FIRST_COLUMNS,
    FIRST_ROWS,
    Column,
    ResultTable,
    Section,
    frame_of,
    rest,
    several,
    words,
)

if TYPE_CHECKING:
    from probpca.typing import Array


class Fertility(NamedTuple):
    """Births per woman, by country and year; NaN where nothing was recorded.

    ``print`` and a notebook show the first countries; ``to_frame()`` has all as a dataframe.

    Examples
    --------
    >>> from probpca.datasets import load_fertility
    >>> load_fertility().table(most=3)
    Total fertility rate (births per woman): 219 countries x 52 years
    country      1960  1970  1980  1990  2000  2011
    Aruba        4.82  2.91  2.39  2.25  1.87  1.69
    Andorra
    Afghanistan  7.67  7.67  7.67  7.69  7.73  5.39
    ... and 46 more columns
    ... and 216 more rows
    1,104 of 11,388 cells are missing.
    """

    countries: tuple[str, ...]  # 219 names
    years: tuple[int, ...]  # 1960 .. 2011
    values: Array  # (219, 52)

    def complete(self) -> Fertility:
        """The countries for which every year was recorded."""
        kept = np.flatnonzero(np.isfinite(self.values).all(axis=1))
        return Fertility(tuple(self.countries[i] for i in kept), self.years, self.values[kept])

    def to_frame(self, *, backend: str = "pandas") -> Any:
        """Return a dataframe with a column for each year, named "1960" to "2011".

        Countries are the index of a pandas dataframe; with ``backend="polars"`` or "pyarrow" they are a column.
        """
        years = {str(year): self.values[:, j] for j, year in enumerate(self.years)}
        if backend != "pandas":
            return frame_of({"country": list(self.countries)} | years, backend)
        return frame_of(years, backend, list(self.countries)).rename_axis("country")

    def table(self, most: int = FIRST_ROWS) -> ResultTable:
        """The first ``most`` countries, with some of the years from the first to the last."""
        n, d = self.values.shape
        some = np.linspace(0, d - 1, min(d, FIRST_COLUMNS)).astype(int)
        columns = [_births(str(self.years[j]), self.values[:most, j]) for j in some]
        heading = f"Total fertility rate (births per woman): {n:,} countries x {several(d, 'year')}"
        missing = int(np.isnan(self.values).sum())
        left = (
            *rest(n - most, "more row"),
            f"{missing:,} of {n * d:,} cells are missing.",
        )
        return ResultTable(
            (Section(heading, (words("country", self.countries[:most]), *columns), left, d - some.size),)
        )

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _births(year: str, values: Array) -> Column:
    return Column(year, ["" if np.isnan(value) else f"{value:.2f}" for value in values])


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
