"""
How much each component holds
=============================

A scree plot on a logarithmic axis: a component that is no larger than the noise would rest on the dashed line. Bars are
95 % intervals, and percentages say what the components hold together. Below are the curves of three criteria, each on
a scale of its own; rings and upright lines are what they choose.

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
# what is larger than anything that noise would show, a ratio above 1; the others ask what describes the table best, and
# that is more: both rise up to 7 components and fall from there on.
#
# BIC costs nothing where the fit is exact, and is drawn by default, up to as many components as the fit has. With
# ``standardize=True`` the table can stay in its own units: variances, shares and noise are those of the scaled columns.

ppca = PPCA(n_components=10, standardize=True).fit(load_wine().data)
display = ScreeDisplay.from_estimator(ppca)
