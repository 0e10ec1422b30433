"""Where rows live: the one seam between learning and the outside."""

from probpca.sources.batches import Batches
from probpca.sources.memory import InMemory
from probpca.sources.opening import open_source
from probpca.sources.protocol import Source
from probpca.sources.scaled import Scaled

__all__ = ["Batches", "InMemory", "Scaled", "Source", "open_source"]
