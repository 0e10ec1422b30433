"""Fitting linear dynamical systems by expectation-maximisation."""

from probpca.learning.dynamics.fit import SeriesResult, fit_series
from probpca.learning.dynamics.selection import Chosen, choose_states
from probpca.learning.dynamics.stationary import fit_stationary
from probpca.learning.dynamics.structure import Structure, n_parameters
from probpca.learning.dynamics.structured import fit_structured

__all__ = [
    "Chosen",
    "SeriesResult",
    "Structure",
    "choose_states",
    "fit_series",
    "fit_stationary",
    "fit_structured",
    "n_parameters",
]
