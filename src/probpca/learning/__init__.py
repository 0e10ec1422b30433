"""One loop and small solvers."""

from probpca.learning.dual import PrincipalCoordinates, principal_coordinates
from probpca.learning.fit import fit_ppca
from probpca.learning.gradient import Gradient, value_and_gradient
from probpca.learning.results import SOLVERS, FitResult, Settings, Status

__all__ = [
    "SOLVERS",
    "FitResult",
    "Gradient",
    "PrincipalCoordinates",
    "Settings",
    "Status",
    "fit_ppca",
    "principal_coordinates",
    "value_and_gradient",
]
