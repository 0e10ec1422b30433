"""
What stands in the holes
========================

Each panel is a country of which few years were recorded. The model has seen how fertility fell elsewhere, fills in the
other years, and says how sure it is: intervals are narrow between recorded years and wide before the first.
"""

from probpca import PPCA, ImputationDisplay
from probpca.datasets import load_fertility

table = load_fertility()
ppca = PPCA(n_components=3, random_state=0).fit(table.values)
display = ImputationDisplay.from_estimator(
    ppca,
    table.values,
    rows=["Serbia", "Seychelles", "Greenland", "Bermuda"],
    labels=table.countries,
    positions=table.years,
    value_name="births per woman",
)

# %%
# Features that have no common scale stand one below the other, in standard deviations from their means: two wines, a
# fifth of whose measurements were removed.

import numpy as np
from sklearn.datasets import load_wine

wine = load_wine()
holed = np.where(np.random.default_rng(0).random(wine.data.shape) < 0.2, np.nan, wine.data)
ppca = PPCA(n_components=3, standardize=True, random_state=0).fit(holed)
wines = [f"wine {i}" for i in range(len(holed))]
display = ImputationDisplay.from_estimator(
    ppca, holed, rows=["wine 3", "wine 100"], labels=wines, feature_names=wine.feature_names
)
