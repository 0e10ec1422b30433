"""
How much each component holds
=============================

A scree plot on a logarithmic axis: a component that is no larger than the noise would rest on the dashed line. Bars are
95 % intervals, percentages say what the components hold together, and the upright lines are the choices of criteria.

The table: 13 chemical measurements of 178 wines, from scikit-learn, each column scaled to unit variance.
"""

from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from probpca import PPCA, ScreeDisplay, select_n_components

X = StandardScaler().fit_transform(load_wine().data)
ppca = PPCA(n_components=10).fit(X)
choices = select_n_components(X, ["bic", "cv", "parallel"], random_state=0)
display = ScreeDisplay.from_estimator(ppca, selection=choices, uncertainty=ppca.uncertainty())

# %%
# There is no elbow to be seen: from the third component on, neighbouring intervals overlap. Parallel analysis keeps
# what is larger than anything that noise would show; the others ask what describes the table best, and that is more.
