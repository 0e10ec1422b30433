"""Standard output and standard error: everything that a command prints passes through this module.

It replaces characters of labels and names that a terminal would obey, and raises an error for an answer that does not
reach standard output. It imports nothing heavy, so that ``probpca --help`` is quick.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probpca.printable_text import printable, printable_json

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD_OUTPUT = "standard output"


def print_answer(text: str = "", end: str = "\n") -> None:
    """Print a part of the answer on standard output; characters that it cannot encode are replaced."""
    with standard_output() as stream:
        code = stream.encoding or "utf-8"
        stream.write(printable(f"{text}{end}").encode(code, "replace").decode(code))


def print_json(found: Any) -> None:
    """Print a value of types that JSON knows, in one line."""
    with standard_output() as stream:
        is_unicode = codecs.lookup(stream.encoding or "utf-8").name.startswith("utf")
        text = json.dumps(found, allow_nan=False, ensure_ascii=not is_unicode, default=str)
        stream.write(f"{printable_json(text)}\n")


def print_message(text: str) -> None:
    """Print something beside the answer on standard error; it is lost if that is closed or full."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def is_terminal() -> bool:
    """Whether a person watches a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def standard_output() -> Iterator[Any]:
    """Yield the stream; an ``OSError`` names it if it is closed or cannot be written to."""
    if sys.stdout is None:
        why = "closed; send it to a file, or to /dev/null if it is not wanted"
        raise OSError(errno.EBADF, why, STANDARD_OUTPUT)
    try:
        yield sys.stdout
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from error


@contextmanager
def table_output() -> Iterator[Any]:
    """Yield a binary stream for a table: exact bytes for a file or a program, printable text for a terminal."""
    with standard_output() as stream:
        stream.flush()
        yield _Printed() if stream.isatty() else stream.buffer
        stream.flush()


class _Printed(io.RawIOBase):
    """Binary stream that prints UTF-8 text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        print_answer(self._decoder.decode(data), end="")
        return len(data)


def flush_output() -> None:
    """Write what was printed so far."""
    with standard_output() as stream:
        stream.flush()


def discard_output() -> None:
    """Discard what cannot be written to standard output, so that the process does not try again when it ends."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            _discard(sys.stdout)


def _discard(stream: Any) -> None:
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())


def hold_standard_descriptors() -> None:
    """Open the null device where a standard stream is closed, lest the next file take its number and its output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
