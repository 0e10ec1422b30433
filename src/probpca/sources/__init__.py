"""Data sources: the same interface to rows in memory, in files, in Dask and in Spark."""

from probpca.sources.open import open_source
from probpca.sources.source import Info, Source
from probpca.sources.table_format import TableFormat

__all__ = ["Info", "Source", "TableFormat", "open_source"]
