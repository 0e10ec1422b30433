"""
Which cells are missing
=======================

Rows that lack the same cells stand together, and the bars above say how much each column lacks. The table: births per
woman by country and year, of the countries whose record is not complete.
"""

import numpy as np

from probpca import MissingnessDisplay
from probpca.datasets import load_fertility

table = load_fertility()
some = np.isnan(table.values).any(axis=1)
display = MissingnessDisplay.from_data(table.values[some], feature_names=table.years)

# %%
# Cells are not missing at random: records begin late, and before they are yearly they are of single years, often five
# or ten apart. Nine countries have none.
#
# Large tables are averaged before they are drawn: here ten thousand rows and a hundred columns, in the order given. A
# sensor that fails for a time is seen at once; that later columns lack more cells, too.

rng = np.random.default_rng(0)
X = rng.standard_normal((10_000, 100))
X[rng.random(X.shape) < np.linspace(0, 0.3, 100)] = np.nan
X[3_000:4_500, 20:35] = np.nan
display = MissingnessDisplay.from_data(X, order="given")
