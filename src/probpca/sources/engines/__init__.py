"""Engines that run functions on the parts of a source: threads, Dask and Spark."""
