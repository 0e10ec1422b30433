"""Where rows live: the one seam between learning and the outside."""

from probpca.sources.batches import Batches
from probpca.sources.memory import InMemory
from probpca.sources.opening import open_source
from probpca.sources.prepared import scaled
from probpca.sources.protocol import Source

__all__ = ["Batches", "InMemory", "Source", "open_source", "scaled"]
