"""Mergeable sums: small, and the same whatever the order and the cuts."""

from probpca.statistics.columns import Columns
from probpca.statistics.distinct import Distinct
from probpca.statistics.moments import Moments, Spread
from probpca.statistics.regression import Regression
from probpca.statistics.roots import Root
from probpca.statistics.sample import Sample
from probpca.statistics.sketch import Sketch
from probpca.statistics.stack import Stack
from probpca.statistics.sums import Both, Sum

__all__ = ["Both", "Columns", "Distinct", "Moments", "Regression", "Root", "Sample", "Sketch", "Spread", "Stack", "Sum"]
