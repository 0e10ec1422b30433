"""Fitting models: PPCA, factor analysis, Bayesian PCA and dynamical systems, with settings and results."""

from probpca.learning.bayesian.fit import BeliefResult, fit_variational
from probpca.learning.complete.dense import PrincipalCoordinates, principal_coordinates
from probpca.learning.dynamics import SeriesResult, Structure, fit_series
from probpca.learning.em.gradient import Gradient, value_and_gradient
from probpca.learning.factor.factorability import Factorability
from probpca.learning.factor.fit import fit_factor_analysis
from probpca.learning.factor.fit_indices import FitIndices, fit_indices
from probpca.learning.factor.uncertainty import FactorUncertainty, TransformedEstimate
from probpca.learning.fit import fit_ppca
from probpca.learning.mixture.fit import fit_mixture
from probpca.learning.mixture.result import MixtureCriteria, MixtureResult
from probpca.learning.result import FitResult, Status
from probpca.learning.selection.result import Criterion, Selection
from probpca.learning.settings import SOLVERS, Settings
from probpca.learning.uncertainty.estimate import Estimate, ParameterUncertainty

__all__ = [
    "SOLVERS",
    "BeliefResult",
    "Criterion",
    "Estimate",
    "FactorUncertainty",
    "Factorability",
    "FitIndices",
    "FitResult",
    "Gradient",
    "MixtureCriteria",
    "MixtureResult",
    "ParameterUncertainty",
    "PrincipalCoordinates",
    "Selection",
    "SeriesResult",
    "Settings",
    "Status",
    "Structure",
    "TransformedEstimate",
    "fit_factor_analysis",
    "fit_indices",
    "fit_mixture",
    "fit_ppca",
    "fit_series",
    "fit_variational",
    "principal_coordinates",
    "value_and_gradient",
]
