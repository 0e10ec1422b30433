"""Where results go: the screen, a file, or a program that reads JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.atomic_write import require_writable
from probpca.errors import SourceError
from probpca.sources.files import arrow_module, format_of
from probpca.sources.write import write_tables

if TYPE_CHECKING:
    from probpca.sources.source import Watch

SCREEN = "-"


def note(text: str) -> None:
    """Say something that is not part of the result."""
    print(f"note: {text}", file=sys.stderr)


def is_watched() -> bool:
    """Does somebody look at a terminal?"""
    return sys.stderr.isatty()


def place_for(out: str, *, force: bool, reads: Iterable[str] = (), suffixes: tuple[str, ...] = ()) -> Path:
    """The file to write, before anything is computed; ``suffixes`` are allowed, by default those of tables."""
    place = Path(out)
    if place.is_dir():
        msg = f"{place} is a folder, and cannot be written as a file.\nHint: --out {place / 'answer.csv'}"
        raise SourceError(msg)
    if not suffixes:
        format_of(place)
    elif place.suffix.lower() not in suffixes:
        msg = f"the name of {place} should end in {' or '.join(suffixes)}."
        raise SourceError(msg)
    if any(place.exists() and Path(read).exists() and place.samefile(read) for read in reads):
        msg = f"{place} is read by this command, and will not be overwritten.\nHint: give --out another name."
        raise SourceError(msg)
    if place.exists() and not force:
        msg = f"{place} exists already, and was left alone.\nHint: --force overwrites it."
        raise SourceError(msg)
    require_writable(place)
    return place


def place_for_table(args: Any) -> Path | None:
    """The file for the answer of a command; None: it goes to the screen."""
    if args.out is None or args.out == SCREEN:
        return None
    reads = [name for name in (getattr(args, "model", None), getattr(args, "table", None)) if name]
    place = place_for(args.out, force=args.force, reads=reads)
    if format_of(place) == "npy":
        note(f"{place} will hold the columns of numbers only: .npy has no text and no names.")
    return place


def deliver(batches: Iterable[Any], place: Path | None) -> None:
    """Write record batches as they come, to a file or as CSV to the screen."""
    if place is not None:
        write_tables(place, batches)
        return
    sys.stdout.flush()
    arrow_module("probpca.sources.arrow_writing").write_batches(sys.stdout.buffer, "csv", batches)
    sys.stdout.buffer.flush()


def print_json(found: Mapping[str, Any]) -> None:
    """One object; numbers in full, and null for those that are not finite."""
    print(json.dumps(plain(found), allow_nan=False, ensure_ascii=False, default=str))


def plain(value: Any) -> Any:
    """The same in what JSON knows."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def watching(bar: Any) -> Watch | None:
    """Somebody who is told how far a pass has come, if a terminal is there."""
    watch: Watch = bar.parts
    return watch if is_watched() else None
