"""
Parallel analysis: scree plot for factor analysis
=================================================

How many factors? The points are the eigenvalues of the correlations between the columns. The dashed line shows what
chance alone gives: the 95% quantile of the eigenvalues of tables of the same size whose columns are independent.
Parallel analysis keeps the eigenvalues above the line. No fit is needed.

The table: 13 chemical measurements of 178 wines, from scikit-learn.
"""

import numpy as np
from sklearn.datasets import load_wine

from probpca import FactorAnalysis, ScreeDisplay

X = load_wine().data
display = ScreeDisplay.from_data(X)

# %%
# After a fit the plot shows the number of factors of the model. Rows with missing cells are used as they are: here one
# cell in ten is missing.

X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
factors = FactorAnalysis(rotation="oblimin").fit(X)
display = ScreeDisplay.from_estimator(factors, X)
