"""Files that appear when they are complete, and not at all if something goes wrong."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from probpca.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def appearing(place: Path) -> Iterator[Path]:
    """Where to write what will be at ``place``: a name beside it that nobody else uses."""
    goal = place.resolve() if place.is_symlink() else place  # a link stays one
    part = _beside(goal)
    try:
        yield part
        part.replace(goal)
    except OSError as error:
        if error.errno and part.name in f"{error.filename} {error}":
            raise OSError(error.errno, os.strerror(error.errno), str(place)) from error
        raise
    finally:
        part.unlink(missing_ok=True)


def require_writable(place: Path) -> None:
    """Raise ``SourceError`` if no file can appear at ``place``: for those who would work for nothing."""
    if not place.parent.is_dir():
        msg = f"there is no folder {place.parent} to write {place.name} to."
        raise SourceError(msg)
    if place.is_dir():
        msg = f"{place} is a folder, and cannot be written as a file.\nHint: name a file in it."
        raise SourceError(msg)
    part = _beside(place)
    try:
        part.touch(exist_ok=False)
        part.unlink()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        msg = f"{place} cannot be written: {why}.\nHint: write it to another folder."
        raise SourceError(msg) from error


def _beside(place: Path) -> Path:
    return place.with_name(f"{place.name}.{uuid4().hex}.part")
