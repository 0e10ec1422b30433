"""
Clusters with missing cells
===========================

Chemical measurements of 178 wines, a tenth of them missing, and a mixture of three clusters that does not know that the
wines come from three cultivars. The plane is the one that separates the clusters best; an ellipse contains 95% of the
model of its cluster, and rings mark wines that may belong to several.
"""

import numpy as np
from sklearn.datasets import load_wine

from probpca import ClustersDisplay, MixturePPCA, SelectionDisplay

wine = load_wine(as_frame=True)
X = wine.data.mask(np.random.default_rng(0).random(wine.data.shape) < 0.1)
mixture = MixturePPCA(n_clusters=3, n_components=2, random_state=0).fit(X)
display = ClustersDisplay.from_estimator(mixture, X)

# %%
# Two columns can be the axes instead, in their own units. Missing cells are drawn at their conditional means.

display = ClustersDisplay.from_estimator(mixture, X, features=["flavanoids", "color_intensity"], level=0.8)

# %%
# Without ``n_clusters`` the number is chosen by BIC. The curves are those of the best mixture with each number; ICL
# prefers clusters that do not overlap.

display = SelectionDisplay.from_estimator(MixturePPCA(random_state=0).fit(X))
