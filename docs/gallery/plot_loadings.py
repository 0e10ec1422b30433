"""
Loadings plot with confidence intervals
=======================================

Loadings are estimates: other rows would have given other values. Each dot is a loading and each line its 95% interval,
from 200 fits to rows drawn with replacement. Pale loadings cannot be distinguished from zero.

The table: 178 wines of three Italian cultivars, from scikit-learn.
"""

from sklearn.datasets import load_wine

from probpca import PPCA, LoadingsDisplay

wine = load_wine()
X = wine.data
ppca = PPCA(n_components=2, standardize=True, random_state=0).fit(X)
names = [name.split("/")[0].replace("_", " ") for name in wine.feature_names]
sure = ppca.uncertainty(X)
display = LoadingsDisplay.from_uncertainty(sure, feature_names=names)

# %%
# The angle between the plane of these two components and that of resampled rows measures how stable they are together:
print(f"half of the resampled fits rotate the plane by less than {sure.stability.median:.0f} degrees")
