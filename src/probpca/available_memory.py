"""Memory that this process can still use, and an error for requests that need more."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from probpca.errors import NotEnoughMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import resource

MODEST_BYTES = 2**26
"""Requests up to this size are not compared with the available memory, which takes about a millisecond to find."""
OBJECT_BYTES = 1000
"""Memory that a small object with a few arrays, such as a model or a generator, needs in addition to its numbers."""


def require_memory(what: str, n_bytes: int, hint: str, *, share: float = 1.0) -> None:
    """Raise ``NotEnoughMemoryError`` if ``n_bytes`` are more than a share of the available memory.

    To be called before any time is spent on work whose result could not be stored. ``what`` is the subject of the
    message, in the plural, and ``hint`` says what to do. The share is smaller than 1 for a result that is of no use
    without room to compute with it.
    """
    if n_bytes <= MODEST_BYTES:
        return
    available = available_memory()
    if n_bytes > share * available:
        needed = f"{n_bytes / 1e9:,.1f} GB of memory{'' if share == 1 else ', and room to compute with them'}"
        msg = f"{what} need {needed}; {available / 1e9:,.1f} GB are available.\nHint: {hint}."
        raise NotEnoughMemoryError(msg)


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that this process can still use: the least that machine, control groups and ``ulimit -v`` leave it.

    ``sys.maxsize`` if the operating system does not say. ``root`` is the folder with ``proc`` and ``sys`` of Linux.
    """
    return max(0, min(_left_by_machine(root), *_left_by_groups(root), _left_by_limit(root)))


def _left_by_machine(root: Path) -> int:
    """Unused or reclaimable memory and free swap; all memory where only that is known."""
    fields = _fields(root / "proc/meminfo")
    if "MemAvailable" in fields:
        return 1024 * (fields["MemAvailable"] + fields.get("SwapFree", 0))
    if sys.platform == "win32":
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_by_groups(root: Path) -> Iterator[int]:
    """What each control group (version 1 or 2) of the process leaves; containers and batch systems set their limits."""
    yield sys.maxsize
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, most, used, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            most, used, cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        inner = top / path.lstrip("/")
        for folder in (inner, *(parent for parent in inner.parents if parent.is_relative_to(top))):
            limit = _text(folder / most).strip()
            if limit.isdecimal():  # it is "max" without a limit
                reclaimable = _fields(folder / "memory.stat").get(cache, 0)
                yield int(limit) - int(_text(folder / used) or 0) + reclaimable


def _left_by_limit(root: Path) -> int:
    """What the limit of the address space leaves."""
    if sys.platform == "win32":
        return sys.maxsize
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return limit - int((_text(root / "proc/self/statm") or "0").split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _fields(path: Path) -> dict[str, int]:
    """Lines such as ``MemAvailable: 12345 kB`` as numbers by name."""
    return {name: int(number) for name, number in re.findall(r"^(\w+):?\s+(\d+)", _text(path), re.MULTILINE)}


def _text(path: Path) -> str:
    """Text of a file of the operating system; empty if there is none."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
