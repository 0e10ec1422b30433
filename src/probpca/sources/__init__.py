"""Rows, wherever they live: the one seam between learning and the outside."""

from probpca.sources.open import open_source
from probpca.sources.source import Info, Source
from probpca.sources.table_format import TableFormat

__all__ = ["Info", "Source", "TableFormat", "open_source"]
