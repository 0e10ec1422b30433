"""``probpca``: from a table in a file to answers about it.

Nothing heavy is imported before a command runs, so that ``probpca --help`` is quick.
"""

from __future__ import annotations

import os
import re
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from probpca.cli.parser import parse
from probpca.cli.wording import in_words_of_the_shell

if TYPE_CHECKING:
    from collections.abc import Sequence

OK, FAILED, INTERRUPTED = 0, 1, 130
PATIENCE = 2.0
"""Seconds of a command before a progress bar appears."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code of the process."""
    args = parse(argv)
    try:
        _run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("probpca: interrupted; nothing was left half written.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if args.debug:
            raise
        print(told(error), file=sys.stderr)
        return FAILED
    return OK


def _run(args: Any) -> None:
    import warnings  # noqa: PLC0415

    from probpca.cli.output import note  # noqa: PLC0415
    from probpca.learning.progress import QUIET_UNTIL  # noqa: PLC0415

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, UserWarning) and category.__name__ != "ConvergenceWarning":  # the status says it
            note(in_words_of_the_shell(str(message)))

    command = import_module(f"probpca.cli.commands.{args.module}")
    quiet = QUIET_UNTIL.set(time.monotonic() + PATIENCE)
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = show
        try:
            command.run(args)
        finally:
            QUIET_UNTIL.reset(quiet)


def told(error: Exception) -> str:
    """What went wrong in one line, and if there is one the hint in another."""
    match error:
        case FileNotFoundError(filename=str(name)):
            text = f"there is no file {name}."
        case OSError(strerror=str(why)):
            text = f"{error.filename}: {why}." if error.filename else f"{why}."
        case ImportError(name=str(name)):
            text = f"this command needs {name}.\nHint: pip install 'probpca[cli]'."
        case MemoryError():
            text = f"there is not enough memory: {error}.\nHint: fewer components, or --jobs 1."
        case OSError():
            text = str(error)
        case ValueError() if type(error).__name__ != "LinAlgError":  # whose cause is never the reader's
            text = str(error)
        case _:
            text = f"{type(error).__name__}: {error}.\nHint: this is a bug in probpca; --debug shows where."
    what, *hint = text.split("\nHint: ")
    lines = [f"probpca: error: {_line(what)}", *(f"Hint: {_line(line)}" for line in hint)]
    return in_words_of_the_shell("\n".join(lines))


def _line(text: str) -> str:
    """One line with one full stop, for messages of other libraries come with their own."""
    return re.sub(r"(\.\.\.|\.)\.$", r"\1", " ".join(text.split()))


if __name__ == "__main__":
    sys.exit(main())
