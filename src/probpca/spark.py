"""PPCA for Spark's DataFrames, with the conventions of pyspark.ml."""

from probpca.estimators.spark import PPCA, PPCAModel

__all__ = ["PPCA", "PPCAModel"]
