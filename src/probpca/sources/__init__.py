"""Where rows live: the one seam between learning and the outside."""

from probpca.sources.open import open_source
from probpca.sources.readers.batches import Batches
from probpca.sources.source import InMemory, Source, scaled

__all__ = ["Batches", "InMemory", "Source", "open_source", "scaled"]
