"""Atomic writing: a file appears under its name only once it is complete, and is as private as the file it replaces."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
import time
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from tempfile import mkstemp
from typing import TYPE_CHECKING

from probpca.errors import SourceError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator

ABANDONED_SECONDS = 24 * 3600
"""Age from which a temporary file counts as abandoned on file systems that cannot lock files."""
MOST_LINKS = 40
"""Number of links that Linux follows to find a file."""


@contextmanager
def appearing(place: Path) -> Iterator[Path]:
    """Yield an empty temporary file to write to, and rename it to ``place`` on success.

    The temporary file lies beside ``place`` and has the permissions, and if possible the owner and the group, of the
    file that it replaces. If the block raises, it is deleted and ``place`` is left as it was. A process that is killed
    leaves it behind; the next process that writes to ``place`` deletes it.

    A pipe, a character device or an open descriptor (``/dev/stdout``) is not replaced: on success the bytes are copied
    into it from a file in the folder for temporary files. Raises ``SourceError`` if ``place`` cannot be written, for
    example because it is read-only.
    """
    _require_file_or_stream(place)
    if is_stream(place):
        with _copied_into(place) as part:
            yield part
        return
    goal = _goal(place)
    remove_abandoned(place)
    part = goal.with_name(f"{_prefix(goal)}{token_hex(8)}.part")
    try:
        with _created(part, goal):
            yield part
            part.replace(goal)
    except OSError as error:
        if error.errno and part.name in f"{error.filename} {error}":
            raise OSError(error.errno, os.strerror(error.errno), str(place)) from error
        raise


def require_writable(place: Path) -> None:
    """Raise ``SourceError`` if ``place`` cannot be written, before any time is spent on its contents.

    A pipe is not opened, because that would wait for its reader.
    """
    _require_file_or_stream(place)
    if is_stream(place):
        return
    goal = _goal(place)
    if not goal.parent.is_dir():
        msg = f"there is no folder {goal.parent} to write {goal.name} to.\nHint: create the folder first."
        raise SourceError(msg)
    try:
        with _created(goal.with_name(f"{_prefix(goal)}{token_hex(8)}.part"), goal):
            pass
    except OSError as error:
        raise _refusal_after(error, place) from error


def is_stream(place: Path) -> bool:
    """Whether ``place`` passes bytes on and keeps none: a pipe, a character device or an open descriptor."""
    if descriptor(place) is not None:
        return True
    try:
        mode = place.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def descriptor(place: Path) -> int | None:
    """Number of the open descriptor of this process that a name such as /dev/stdout or /dev/fd/3 means, or None."""
    folders = (os.path.realpath("/proc/self/fd"), "/dev/fd")
    for _ in range(MOST_LINKS):
        if place.name.isdecimal() and os.path.realpath(place.parent) in folders:
            return int(place.name)
        if not os.path.islink(place):  # noqa: PTH114  # unlike Path.is_symlink it never raises
            return None
        place = place.parent / place.readlink()
    return None


def remove_abandoned(place: Path) -> None:
    """Delete temporary files of ``place`` that processes have left behind, but none whose writer is alive.

    A writer holds a lock on its temporary file, which the operating system releases when the process ends.
    """
    goal = _goal(place)
    ours = re.compile(rf"{re.escape(_prefix(goal))}[0-9a-f]{{16}}\.part")
    with suppress(OSError):
        for name in filter(ours.fullmatch, os.listdir(goal.parent)):  # noqa: PTH208  # faster for large folders
            with suppress(OSError):  # also BlockingIOError: its writer is alive
                _remove_if_abandoned(goal.with_name(name))


def _remove_if_abandoned(part: Path) -> None:
    file = os.open(part, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        if _lock(file, wait=False) or time.time() - os.fstat(file).st_mtime > ABANDONED_SECONDS:
            part.unlink()
    finally:
        os.close(file)


def _goal(place: Path) -> Path:
    """The file to replace: the target of a link, not the link."""
    return Path(os.path.realpath(place)) if place.is_symlink() else place


def _prefix(goal: Path) -> str:
    """How the names of the temporary files of ``goal`` begin, in fewer than 120 bytes."""
    return f"{goal.name[:24]}.{blake2b(os.fsencode(goal.name), digest_size=8).hexdigest()}"


def _require_file_or_stream(place: Path) -> None:
    """Raise ``SourceError`` if something that is not to be replaced bears the name, or nothing can bear it."""
    try:
        mode = place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise _refusal_after(error, place) from error
    another = "choose another name"
    if stat.S_ISDIR(mode):
        raise _refusal(place, "it is a folder", "give the name of a file in it")
    if descriptor(place) is not None:
        return
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        raise _refusal(place, f"it is a {'socket' if stat.S_ISSOCK(mode) else 'block device'}", another)
    # Root may write to every file, but the owner has said that this one shall not change.
    if not mode & 0o222 or not os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise _refusal(place, "it is read-only", f"{another}, or make it writable first, as with chmod u+w")


def _refusal(place: Path, why: str, hint: str) -> SourceError:
    return SourceError(f"{place} cannot be written: {why}.\nHint: {hint}.")


def _refusal_after(error: OSError | ValueError, place: Path) -> SourceError:
    number = error.errno if isinstance(error, OSError) else None
    hints = {
        errno.ELOOP: "it is a link that leads back to itself; delete the link, or choose another name",
        errno.ENAMETOOLONG: "choose a shorter name",
    }
    why = os.strerror(number) if number else str(error)
    return _refusal(place, why, hints.get(number or 0, "choose another folder"))


@contextmanager
def _created(part: Path, goal: Path) -> Iterator[None]:
    """Create an empty file that is as private as ``goal``, hold a lock on it, and delete it at the end."""
    exists, lock = goal.exists(), -1
    try:
        while lock < 0:
            lock = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 if exists else 0o666)
            # Before the lock was held, another process may have taken the file for abandoned and deleted it.
            if _lock(lock, wait=True) and not os.fstat(lock).st_nlink:
                os.close(lock)
                lock = -1
        if exists:
            _make_alike(part, goal)
        if sys.platform == "win32":  # which does not rename open files
            os.close(lock)
            lock = -1
        yield
    finally:
        part.unlink(missing_ok=True)
        if lock >= 0:
            os.close(lock)


def _lock(file: int, *, wait: bool) -> bool:
    """Lock an open file; False if it cannot be locked here, ``BlockingIOError`` if another process holds the lock."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _make_alike(part: Path, goal: Path) -> None:
    """Give an empty private file the owner, group, permissions and access list of ``goal``, as far as allowed."""
    old = goal.stat()
    if hasattr(os, "chown"):
        for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
            with suppress(OSError):
                os.chown(part, owner, group)
    with suppress(OSError):
        if part.stat().st_gid == old.st_gid:
            shutil.copystat(goal, part)
        else:  # another group may do what everybody may
            mode = stat.S_IMODE(old.st_mode)
            part.chmod(mode & 0o707 | (mode & 0o007) << 3)
        os.utime(part)  # copystat has set the time of the old file


@contextmanager
def _copied_into(place: Path) -> Iterator[Path]:
    """Yield a temporary file, and copy it into a stream if the block succeeds; wait for the reader of a pipe."""
    number, name = mkstemp(prefix="probpca-", suffix=".part")
    os.close(number)
    part = Path(name)
    try:
        yield part
        try:
            with part.open("rb") as file, os.fdopen(_open_stream(place), "wb") as stream:
                shutil.copyfileobj(file, stream)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(place)) from error
    finally:
        part.unlink(missing_ok=True)


def _open_stream(place: Path) -> int:
    """Open a stream for writing; an open descriptor is not opened again, which would begin at its start."""
    number = descriptor(place)
    if number is None:
        return os.open(place, os.O_WRONLY | getattr(os, "O_NOCTTY", 0))
    if number == 1 and sys.stdout is not None:
        sys.stdout.flush()  # what was printed before comes before
    return os.dup(number)
