"""
Rows and features in one plane
==============================

A row far along an arrow has much of that feature. Bars at the tips are 95 % intervals of the loadings, here told as
correlations of the features with the components, as suits features in different units.

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
# Phenols part Barbera from Barolo along the first component; alcohol, colour and proline part Grignolino from both.
