"""scikit-learn's verbs around the library; no formula lives here."""

from probpca.estimators.bayesian import BayesianPCA
from probpca.estimators.dynamics import LinearDynamicalSystem
from probpca.estimators.imputer import PPCAImputer
from probpca.estimators.ppca import PPCA
from probpca.estimators.selection import select_n_components

__all__ = ["PPCA", "BayesianPCA", "LinearDynamicalSystem", "PPCAImputer", "select_n_components"]
