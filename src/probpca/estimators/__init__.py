"""scikit-learn's verbs around the library; no formula lives here."""

from probpca.estimators.dynamics import LinearDynamicalSystem
from probpca.estimators.imputer import PPCAImputer
from probpca.estimators.ppca import PPCA

__all__ = ["PPCA", "LinearDynamicalSystem", "PPCAImputer"]
