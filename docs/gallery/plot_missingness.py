"""
Missing-data map: which cells are missing
=========================================

Rows that lack the same cells are drawn together, and the bars above show the missing share of each column. The table:
births per woman by country and year, for the countries with an incomplete record.
"""

import numpy as np

from probpca import MissingnessDisplay
from probpca.datasets import load_fertility

table = load_fertility()
some = np.isnan(table.values).any(axis=1)
display = MissingnessDisplay.from_data(table.values[some], feature_names=table.years)

# %%
# There are patterns: many records begin late, and early years are recorded only every five or ten years. Nine countries
# have no data.
#
# Large tables are averaged before they are drawn: here ten thousand rows and a hundred columns, in their original
# order. A sensor that fails for a time is visible at once, and so is the growing share of missing cells in later
# columns.

rng = np.random.default_rng(0)
X = rng.standard_normal((10_000, 100))
X[rng.random(X.shape) < np.linspace(0, 0.3, 100)] = np.nan
X[3_000:4_500, 20:35] = np.nan
display = MissingnessDisplay.from_data(X, order="given")
