"""How a function runs on the parts of a source: threads, Dask, Spark."""
