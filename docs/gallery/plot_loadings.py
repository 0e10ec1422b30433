"""
How sure the loadings are
=========================

Loadings are estimates: other rows would have given others. Each dot here is a loading, each line its 95 % interval from
200 fits to rows drawn with replacement; what is pale cannot be told from zero.

The table: 178 wines of three Italian cultivars, from scikit-learn.
"""

from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from probpca import PPCA, LoadingsDisplay

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)
ppca = PPCA(n_components=2, random_state=0).fit(X)
names = [name.split("/")[0].replace("_", " ") for name in wine.feature_names]
sure = ppca.uncertainty(X)
display = LoadingsDisplay.from_uncertainty(sure, feature_names=names)

# %%
# The angle between the plane of these two components and that of a resampled table says how stable they are together:
print(f"half of the draws turn the plane by less than {sure.stability.median:.0f} degrees")
