"""One loop and small solvers."""

from probpca.learning.choice.selection import Criterion, Selection
from probpca.learning.dual import PrincipalCoordinates, principal_coordinates
from probpca.learning.dynamics import SeriesResult, Structure, fit_series
from probpca.learning.estimates import Estimate, ParameterUncertainty
from probpca.learning.fit import fit_ppca
from probpca.learning.gradient import Gradient, value_and_gradient
from probpca.learning.results import SOLVERS, FitResult, Settings, Status
from probpca.learning.variational import BeliefResult, fit_variational

__all__ = [
    "SOLVERS",
    "BeliefResult",
    "Criterion",
    "Estimate",
    "FitResult",
    "Gradient",
    "ParameterUncertainty",
    "PrincipalCoordinates",
    "Selection",
    "SeriesResult",
    "Settings",
    "Status",
    "Structure",
    "fit_ppca",
    "fit_series",
    "fit_variational",
    "principal_coordinates",
    "value_and_gradient",
]
