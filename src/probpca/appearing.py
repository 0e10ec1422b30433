"""Files that appear when they are complete, and not at all if something goes wrong."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def appearing(place: Path) -> Iterator[Path]:
    """Where to write what will be at ``place``: a name beside it that nobody else uses."""
    part = place.with_name(f"{place.name}.{uuid4().hex}.part")
    try:
        yield part
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
