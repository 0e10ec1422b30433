"""Rows, wherever they live: the one seam between learning and the outside."""

from probpca.sources.open import open_source
from probpca.sources.source import Info, Source

__all__ = ["Info", "Source", "open_source"]
