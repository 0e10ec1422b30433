"""Has a file changed behind our back?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from probpca.errors import SourceError

if TYPE_CHECKING:
    from pathlib import Path


class Stamp(NamedTuple):
    """What a file looked like when it was opened."""

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Look at a file."""
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Raise ``SourceError`` if the file is not what it was."""
        if not self.path.exists() or Stamp.of(self.path) != self:
            msg = f"{self.path} has changed since it was opened.\nHint: open it again, and leave it alone meanwhile."
            raise SourceError(msg)
