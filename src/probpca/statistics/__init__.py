"""Mergeable sums: small, and the same whatever the order and the cuts."""

from probpca.statistics.moments import Columns, ColumnSummary, Moments, Spread
from probpca.statistics.regression import Regression
from probpca.statistics.sample import Distinct, Sample
from probpca.statistics.sketch import Root, Sketch
from probpca.statistics.sums import Both, Stack, Sum

__all__ = [
    "Both",
    "ColumnSummary",
    "Columns",
    "Distinct",
    "Moments",
    "Regression",
    "Root",
    "Sample",
    "Sketch",
    "Spread",
    "Stack",
    "Sum",
]
