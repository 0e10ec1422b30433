"""
Imputed values with intervals
=============================

Each panel is a country with few recorded years. The model has learned from other countries how fertility fell, imputes
the missing years, and shows 95% intervals: narrow between recorded years, wide before the first one.
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
# Columns without a common scale are drawn below each other, in standard deviations from their means. Here a fifth of
# the measurements of the wines was removed, and two wines are shown.

import numpy as np
from sklearn.datasets import load_wine

wine = load_wine()
holed = np.where(np.random.default_rng(0).random(wine.data.shape) < 0.2, np.nan, wine.data)
ppca = PPCA(n_components=3, standardize=True, random_state=0).fit(holed)
wines = [f"wine {i}" for i in range(len(holed))]
display = ImputationDisplay.from_estimator(
    ppca, holed, rows=["wine 3", "wine 100"], labels=wines, feature_names=wine.feature_names
)
