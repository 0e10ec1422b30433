"""
Heat map of factor loadings after rotation
==========================================

Each line is a column of the table and each cell a standardized loading: the change of the column, in standard
deviations, when the factor rises by one. Columns stand with the others that load most on the same factor, so that a
simple structure shows as blocks. The uniqueness at the right is the share of the variance of a column that no factor
explains. Below the names of the factors is the share of the variance that each explains.

The table: 13 chemical measurements of 178 wines, from scikit-learn. Factor analysis needs no scaling of the columns.
"""

from sklearn.datasets import load_wine

from probpca import FactorAnalysis, LoadingsHeatmapDisplay

wine = load_wine()
names = [name.split("/")[0].replace("_", " ") for name in wine.feature_names]
factors = FactorAnalysis(n_components=3, rotation="varimax").fit(wine.data)
display = LoadingsHeatmapDisplay.from_estimator(factors, feature_names=names)

# %%
# Without a rotation columns load on several factors at once, and factors are hard to name.

display = LoadingsHeatmapDisplay.from_estimator(factors.rotate(None), feature_names=names)

# %%
# Loadings of principal components can be rotated too.

from probpca import PPCA
from probpca.models import rotate

ppca = PPCA(n_components=3, standardize=True).fit(wine.data)
rotated = rotate(ppca.loadings_, "varimax")
title = "Components of PCA, varimax rotation"
display = LoadingsHeatmapDisplay.from_loadings(rotated.loadings, feature_names=names, title=title)
