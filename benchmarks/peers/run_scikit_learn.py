"""scikit-learn's IterativeImputer: each column regressed on the others, in rounds.

Taken are the mean and the principal axes of the imputed table, which the closed form of PPCA has too.
"""

import numpy as np
from runner import run
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer


def fit(x, q, effort):
    imputer = IterativeImputer(max_iter=effort, tol=0.0, random_state=0)
    filled = imputer.fit_transform(x)
    mean = filled.mean(axis=0)
    axes = np.linalg.svd(filled - mean, full_matrices=False)[2][:q].T
    return mean, axes, None, int(imputer.n_iter_)


run("scikit-learn", fit)
