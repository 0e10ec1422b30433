"""
Scree plot: variance of the components
======================================

A scree plot on a logarithmic axis. The dashed line is the noise variance, and a component on this line would be noise.
Bars are 95% intervals, and percentages are cumulative shares of the variance. Below are the curves of three rules for
the number of components, each on its own scale; rings and vertical lines are their choices.

The table: 13 chemical measurements of 178 wines, from scikit-learn, standardized.
"""

from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from probpca import PPCA, ScreeDisplay, select_n_components

X = StandardScaler().fit_transform(load_wine().data)
ppca = PPCA(n_components=10).fit(X)
choices = select_n_components(X, ["bic", "cv", "parallel"], random_state=0)
display = ScreeDisplay.from_estimator(ppca, selection=choices, uncertainty=ppca.uncertainty())

# %%
# There is no clear elbow: from the third component on, neighbouring intervals overlap. Parallel analysis keeps the
# components that are larger than chance, with a ratio above 1. The other two rules ask which number describes the table
# best; both rise up to 7 components and fall from there on.
#
# By default BIC is drawn, because it costs nothing for complete rows, up to the number of components of the fit. With
# ``standardize=True`` the table can stay in its own units: variances, shares and noise are those of the scaled columns.

ppca = PPCA(n_components=10, standardize=True).fit(load_wine().data)
display = ScreeDisplay.from_estimator(ppca)

# %%
# The classical scree plot shows percent of the variance for all components. Those that the fit keeps are dark.

ppca = PPCA(standardize=True).fit(load_wine().data)
display = ScreeDisplay.from_estimator(ppca, load_wine().data, units="percent")
