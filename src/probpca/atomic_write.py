"""Atomic writing: a file appears under its name only once it is complete."""

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
    """Yield a temporary path beside ``place`` to write to, and rename it to ``place`` on success.

    If the block raises, the temporary file is deleted and ``place`` is left as it was.
    """
    goal = place.resolve() if place.is_symlink() else place  # replace the target of a link, not the link
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
    """Raise ``SourceError`` if a file cannot be written to ``place``, before any time is spent on its contents."""
    if not place.parent.is_dir():
        msg = f"there is no folder {place.parent} to write {place.name} to.\nHint: create the folder first."
        raise SourceError(msg)
    if place.is_dir():
        msg = f"{place} cannot be written: it is a folder.\nHint: give the name of a file in it."
        raise SourceError(msg)
    part = _beside(place)
    try:
        part.touch(exist_ok=False)
        part.unlink()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        msg = f"{place} cannot be written: {why}.\nHint: choose another folder."
        raise SourceError(msg) from error


def _beside(place: Path) -> Path:
    return place.with_name(f"{place.name}.{uuid4().hex}.part")
