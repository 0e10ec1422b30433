"""Learning linear dynamical systems by expectation-maximisation."""

from probpca.learning.dynamics.fit import SeriesResult, fit_series
from probpca.learning.dynamics.structure import Structure

__all__ = ["SeriesResult", "Structure", "fit_series"]
