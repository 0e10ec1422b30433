"""
Factor correlations: matrix and path diagram
============================================

An oblique rotation, such as oblimin or promax, allows the factors to be correlated. The matrix shows the correlation of
each pair with its 95% interval; pale numbers cannot be distinguished from zero.

The table: 13 chemical measurements of 178 wines, from scikit-learn.
"""

from sklearn.datasets import load_wine

from probpca import FactorAnalysis, FactorCorrelationsDisplay

wine = load_wine()
names = [name.split("/")[0].replace("_", " ") for name in wine.feature_names]
factors = FactorAnalysis(n_components=3, rotation="oblimin").fit(wine.data)
sure = factors.uncertainty()
display = FactorCorrelationsDisplay.from_estimator(factors, uncertainty=sure)

# %%
# The path diagram shows which columns make each factor. Lines are the wider the larger the correlation, and red if it
# is negative.

display = FactorCorrelationsDisplay.from_estimator(factors, kind="network", feature_names=names)
