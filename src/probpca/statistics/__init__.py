"""Mergeable sums: small, and the same whatever the order and the cuts."""

from probpca.statistics.columns import Columns, ColumnSummary, Spread
from probpca.statistics.moments import Moments
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
