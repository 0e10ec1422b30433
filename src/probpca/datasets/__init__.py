"""Example data: ``load_fertility`` returns a real table with missing cells."""

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
    shown_as_table,
    words,
)

if TYPE_CHECKING:
    from probpca.typing import Array

__all__ = ["Fertility", "load_fertility"]


@shown_as_table
class Fertility(NamedTuple):
    """Total fertility rate (births per woman) by country and year.

    The result of ``load_fertility``. ``print`` and a notebook show the first countries; ``to_frame()`` returns a
    dataframe of all.

    Attributes
    ----------
    countries : tuple of str
        Names of the countries and regions, one for each row.
    years : tuple of int
        The years, one for each column.
    values : ndarray of shape (n_countries, n_years)
        Births per woman; NaN if there is no record.

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
        """Return the part of the table without missing cells: the countries that have a value in every year."""
        kept = np.flatnonzero(np.isfinite(self.values).all(axis=1))
        return Fertility(tuple(self.countries[i] for i in kept), self.years, self.values[kept])

    def to_frame(self, *, backend: str = "pandas") -> Any:
        """Return a dataframe with one row for each country and one column for each year, named "1960" to "2011".

        Parameters
        ----------
        backend : "pandas", "polars" or "pyarrow", default="pandas"
            Library of the dataframe. Countries are the index of a pandas dataframe, and a column of the others.
        """
        years = {str(year): self.values[:, j] for j, year in enumerate(self.years)}
        if backend != "pandas":
            return frame_of({"country": list(self.countries)} | years, backend)
        return frame_of(years, backend, list(self.countries)).rename_axis("country")

    def table(self, most: int = FIRST_ROWS) -> ResultTable:
        """First ``most`` countries and some of the years, as a table that prints as text or HTML."""
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


def _births(year: str, values: Array) -> Column:
    return Column(year, ["" if np.isnan(value) else f"{value:.2f}" for value in values])


def load_fertility() -> Fertility:
    """Load the total fertility rate (births per woman) of 219 countries and regions, 1960 to 2011.

    1,104 of 11,388 cells are missing: 192 countries are complete, and nine have no value at all.

    Returns
    -------
    Fertility
        ``countries``, ``years`` and ``values`` of shape (219, 52); ``to_frame()`` returns a dataframe.

    Notes
    -----
    Source: The World Bank, World Development Indicators, series SP.DYN.TFRT.IN "Fertility rate, total
    (births per woman)", licence CC BY 4.0, as distributed with statsmodels (data set ``fertility``), without
    its last two years, which are empty.

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
