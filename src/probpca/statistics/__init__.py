"""Summary statistics of rows that can be computed block by block and merged, in any order and for any block sizes."""

from probpca.statistics.moments import ColumnSummary, Moments, subtract_mean
from probpca.statistics.pairs import Pairs
from probpca.statistics.regression import Regression
from probpca.statistics.sample import Both, Distinct, Sample, Spread
from probpca.statistics.sketch import Root, Sketch
from probpca.statistics.sums import Stack, Sum

__all__ = [
    "Both",
    "ColumnSummary",
    "Distinct",
    "Moments",
    "Pairs",
    "Regression",
    "Root",
    "Sample",
    "Sketch",
    "Spread",
    "Stack",
    "Sum",
    "subtract_mean",
]
