"""One loop and small solvers."""

from probpca.learning.dual import PrincipalCoordinates, principal_coordinates
from probpca.learning.dynamics import SeriesResult, Structure, fit_series
from probpca.learning.fit import fit_ppca
from probpca.learning.gradient import Gradient, value_and_gradient
from probpca.learning.results import SOLVERS, FitResult, Settings, Status

__all__ = [
    "SOLVERS",
    "FitResult",
    "Gradient",
    "PrincipalCoordinates",
    "SeriesResult",
    "Settings",
    "Status",
    "Structure",
    "fit_ppca",
    "fit_series",
    "principal_coordinates",
    "value_and_gradient",
]
