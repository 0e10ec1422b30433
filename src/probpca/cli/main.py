"""``probpca``: from a table in a file to answers about it.

Nothing heavy is imported before a command runs, so that ``probpca --help`` is quick.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from probpca.cli.parser import parse
from probpca.cli.screen import discard_output, flush_output, hold_standard_descriptors, print_message
from probpca.printable_text import printable_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

QUIET_SECONDS = 2.0
"""Seconds of a command before a progress bar appears."""
INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after SIGINT and SIGTERM, as those of shells: 128 and the number of the signal."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM."""


@contextmanager
def orderly_termination() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that unfinished files are deleted as after an interrupt with Ctrl-C.

    Leaves alone a program that calls a command in another thread, or that handles or ignores the signal itself.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the deletion of unfinished files
    raise Terminated


@orderly_termination()
def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code of the process."""
    args = None
    hold_standard_descriptors()
    try:
        args = parse(argv)
        flush_output()  # which fails at once if it is closed
        run_command(args)
        flush_output()
    except KeyboardInterrupt as end:
        what, code = ("terminated", TERMINATED) if isinstance(end, Terminated) else ("interrupted", INTERRUPTED)
        print_message(f"probpca: {what}; no file was left half written.")
        return code
    except BrokenPipeError:  # the reader has seen enough
        discard_output()
        return 0
    except Exception as error:
        discard_output()
        if args is not None and args.debug:
            raise
        print_message(error_text(error, () if args is None else args.written))
        return 1
    return 0


def run_command(args: Any) -> None:
    """Run the command that was parsed; it raises an exception if it fails."""
    import warnings  # noqa: PLC0415

    from probpca.cli.text import note  # noqa: PLC0415
    from probpca.learning.progress import QUIET_UNTIL  # noqa: PLC0415

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if issubclass(category, UserWarning) and category.__name__ != "ConvergenceWarning":  # the status says it
            note(with_options(str(message)))

    modules = {
        "fit": "fit_commands",
        "select": "fit_commands",
        "forecast": "forecast_command",
        "report": "page_commands",
        "explorer": "page_commands",
        "demo": "demo",
    }
    command = import_module(f"probpca.cli.{modules.get(args.command, 'row_commands')}")
    quiet = QUIET_UNTIL.set(time.monotonic() + QUIET_SECONDS)
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = show
        try:
            command.run(args)
        finally:
            QUIET_UNTIL.reset(quiet)


def error_text(error: Exception, written: Sequence[Path] = ()) -> str:
    """Describe an error in one line, and its hint, if it has one, in another; ``written`` are complete files."""
    match error:
        case FileNotFoundError(filename=str(name)):
            text = f"there is no file {name}.\nHint: check the name and the folder."
        case OSError(strerror=str(why)):
            text = f"{error.filename}: {why}." if error.filename else f"{why}."
        case ImportError(name=str(name)):
            text = f"this command needs {name}.\nHint: pip install 'probpca[cli]'."
        case OSError():
            text = str(error)
        case ValueError() if type(error).__name__ != "LinAlgError":  # which is never the user's mistake
            text = str(error)
        case MemoryError():
            text = f"there is not enough memory: {error}.\nHint: use fewer components, or --jobs 1."
        case _:
            text = f"{type(error).__name__}: {error}.\nHint: this is a bug in probpca; --debug shows where."
    what, *hint = text.split("\nHint: ")
    lines = [f"probpca: error: {_line(what)}{_about(written)}", *(f"Hint: {_line(line)}" for line in hint)]
    return "\n".join(lines)


def _about(written: Sequence[Path]) -> str:
    """A sentence that names the files that a command has completed before it failed; empty if there are none."""
    names = printable_line(", ".join(map(str, written)))
    return f" {names} {'was' if len(written) == 1 else 'were'} written before." if written else ""


def with_options(text: str) -> str:
    """A message of the library that speaks of the number of components, in terms of options.

    Only where the parameter is assigned, required or to be reduced: elsewhere the same word is a name in the data.
    """
    text = re.sub(r"^(\w+)(?= does not apply to )|^image_shape(?= must )|(?<=\()(skip_rows)(?=\))", _option, text)
    text = re.sub(r"(?<![\w'\"])n_components='?([\w.]+?)'?(?=[\s,.;]|$)( or '(\w+)')?", _assigned, text)
    return re.sub(r"^n_components(?= must )|(?<=\bfewer )n_components", "--components", text)


def _option(found: re.Match[str]) -> str:
    return f"--{found[0].replace('_', '-')}"


def _assigned(found: re.Match[str]) -> str:
    return f"--components {found[1]}" + (f" or {found[3]}" if found[3] else "")


def _line(text: str) -> str:
    """One line with one full stop, because messages of other libraries come with their own."""
    return with_options(re.sub(r"(\.\.\.|\.)\.$", r"\1", " ".join(text.split())))


if __name__ == "__main__":
    sys.exit(main())
