"""scikit-learn estimators around the learning and inference functions."""

from probpca.estimators.bayesian_pca import BayesianPCA
from probpca.estimators.component_selection import select_n_components
from probpca.estimators.factor_analysis import FactorAnalysis
from probpca.estimators.imputer import PPCAImputer
from probpca.estimators.linear_dynamical_system import LinearDynamicalSystem
from probpca.estimators.mixture_ppca import MixturePPCA
from probpca.estimators.ppca import PPCA

__all__ = [
    "PPCA",
    "BayesianPCA",
    "FactorAnalysis",
    "LinearDynamicalSystem",
    "MixturePPCA",
    "PPCAImputer",
    "select_n_components",
]
