"""
Biplot: rows and columns in one picture
=======================================

Each point is a row and each arrow a column. Rows in the direction of an arrow have high values in this column. Bars at
the tips are 95% intervals of the loadings. They are shown as correlations of columns and components, because the
columns have different units.

The table: 178 wines of three Italian cultivars, from scikit-learn.
"""

import numpy as np
from sklearn.datasets import load_wine

from probpca import PPCA, BiplotDisplay

wine = load_wine()
X = wine.data
ppca = PPCA(n_components=2, standardize=True, random_state=0).fit(X)
names = [name.split("/")[0].replace("_", " ") for name in wine.feature_names]
cultivar = np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
display = BiplotDisplay.from_estimator(
    ppca, X, uncertainty=ppca.uncertainty(X), units="correlation", feature_names=names, groups=cultivar
)

# %%
# The first component separates Barbera (few phenols) from Barolo (many); alcohol, colour and proline separate
# Grignolino from both.
