"""Commands and their options; imports nothing but argparse."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from probpca import __version__
from probpca.cli import values
from probpca.cli.examples import ABOUT, EXAMPLES, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULES = {"report": "pages", "explorer": "pages"}
"""Commands whose module is not called as they are."""


class Program(argparse.ArgumentParser):
    """A parser whose help is printed as it was written."""

    def __init__(self, **options: Any) -> None:
        """Keep line breaks; take only options that are written out."""
        formatter = partial(argparse.RawDescriptionHelpFormatter, max_help_position=30)
        super().__init__(formatter_class=cast(Any, formatter), allow_abbrev=False, **options)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of one command; help and mistakes end the process, with codes 0 and 2."""
    program, commands = _program()
    given = sys.argv[1:] if argv is None else argv
    if not given:
        program.print_help(sys.stderr)
        raise SystemExit(2)
    args = program.parse_args(given)
    args.module = MODULES.get(args.command, args.command)
    if getattr(args, "bayesian", False) and isinstance(args.components, str | float):
        commands[args.command].error(
            "--bayesian removes the components that are not supported: --components takes the largest number of them"
        )
    return args


def _program() -> tuple[Program, dict[str, Program]]:
    usage = "probpca [-h] [--version] COMMAND ..."
    program = Program(prog="probpca", usage=usage, description=PROGRAM, epilog=EXAMPLES["probpca"])
    program.add_argument("--version", action="version", version=f"probpca {__version__}")
    room = program.add_subparsers(
        dest="command", required=True, metavar="COMMAND ...", title="commands", prog="probpca"
    )
    commands = {}
    for name, describe in OPTIONS.items():
        about = ABOUT[name]
        command = room.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=EXAMPLES[name]
        )
        describe(command)
        command.usage = _usage(command)
        if name != "demo":
            command.add_argument("--json", action="store_true", help="print one JSON object, numbers in full")
        command.add_argument("--debug", action="store_true", help="show where an error came from")
        commands[name] = command
    return program, commands


def _usage(command: Program) -> str:
    """What must be given stands first: options that take several names would swallow it."""
    given = [str(action.metavar) for action in command._get_positional_actions()]  # noqa: SLF001
    return " ".join([command.prog, *given, "[options]"])


def _fit(command: Program) -> None:
    _table(command)
    command.add_argument("--components", type=values.components, metavar="N|SHARE|RULE", help=COMPONENTS)
    command.add_argument("--bayesian", action="store_true", help="Bayesian PCA, for many columns or many missing cells")
    command.add_argument("--standardize", action="store_true", help="scale columns to unit variance first")
    _max_iter(command)
    _columns(command)
    _out(command, "the file for the model (model.npz)", "model.npz")
    _seed(command)
    _jobs(command)


def _impute(command: Program) -> None:
    _model_and_table(command)
    command.add_argument("--intervals", action="store_true", help="add columns NAME_low and NAME_high at the end")
    _level(command)
    _out(command, TABLE_OUT)


def _transform(command: Program) -> None:
    _model_and_table(command)
    _out(command, TABLE_OUT)


def _outliers(command: Program) -> None:
    _model_and_table(command)
    command.add_argument("--top", type=values.count, metavar="N", help="the N least believable rows, the worst first")
    _out(command, TABLE_OUT)


def _sample(command: Program) -> None:
    _model(command)
    command.add_argument("-n", "--rows", type=values.count, default=10, metavar="N", help="number of rows (10)")
    _seed(command)
    _out(command, TABLE_OUT)


def _select(command: Program) -> None:
    _table(command)
    command.add_argument(
        "--criteria", nargs="+", choices=values.RULES, metavar="RULE", help=f"some of {', '.join(values.RULES)}"
    )
    command.add_argument("--max-components", type=values.count, metavar="N", help="the largest number to look at")
    command.add_argument("--standardize", action="store_true", help="scale columns to unit variance first")
    _columns(command)
    command.add_argument("--plot", metavar="FILE", help="draw the curves to .png, .svg or .pdf")
    command.add_argument("--force", action="store_true", help="overwrite the file")
    _seed(command)
    _jobs(command)


def _report(command: Program) -> None:
    _model_and_table(command)
    command.add_argument("--title", metavar="TEXT", help="the title of the page")
    _out(command, f"the page ({command.prog.split()[-1]}.html)", f"{command.prog.split()[-1]}.html")


def _explorer(command: Program) -> None:
    _report(command)
    shape: dict[str, Any] = {"nargs": 2, "type": values.count, "metavar": ("HEIGHT", "WIDTH")}
    command.add_argument("--image-shape", help="rows are images of this size", **shape)


def _forecast(command: Program) -> None:
    _table(command)
    command.add_argument("--steps", type=values.count, required=True, metavar="N", help="how many steps to look ahead")
    command.add_argument(
        "--components", type=values.states, metavar="N|bic|cv", help="number of states; the default is bic"
    )
    _max_iter(command)
    command.add_argument("--time", metavar="COLUMN", help="the column that says when; found by its name or dates")
    command.add_argument(
        "--exclude", nargs="+", action="extend", metavar="COLUMN", default=[], help="leave columns out"
    )
    _level(command)
    _out(command, TABLE_OUT)
    _seed(command)


def _demo(command: Program) -> None:
    command.add_argument("--out", metavar="DIR", help="the folder for files; a new temporary one by default")


OPTIONS = {
    "fit": _fit,
    "impute": _impute,
    "transform": _transform,
    "score": _transform,
    "outliers": _outliers,
    "sample": _sample,
    "select": _select,
    "forecast": _forecast,
    "report": _report,
    "explorer": _explorer,
    "demo": _demo,
}
COMPONENTS = f"a number, a share of variance such as 0.95, or one of {', '.join(values.RULES)}; the default is bic"
TABLE_OUT = "the file for the answer: .csv, .tsv, .csv.gz, .parquet, .feather or .npy; - is CSV on the screen"


def _table(command: Program) -> None:
    command.add_argument("table", metavar="TABLE", help=".csv, .tsv, .csv.gz, .parquet, .feather or .npy")


def _model(command: Program) -> None:
    command.add_argument("model", metavar="MODEL", help="what probpca fit wrote")


def _model_and_table(command: Program) -> None:
    _model(command)
    _table(command)
    command.add_argument("--id", metavar="COLUMN", help="the column that names rows; the first that holds no numbers")
    _jobs(command)


def _columns(command: Program) -> None:
    command.add_argument("--id", metavar="COLUMN", help="a column of names of rows, which is left out")
    command.add_argument(
        "--exclude", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns to leave out"
    )
    command.add_argument(
        "--numbers",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns to take for numbers though they look like codes, as 00123",
    )


def _out(command: Program, about: str, default: str | None = None) -> None:
    command.add_argument("--out", "-o", metavar="FILE", default=default, help=about)
    command.add_argument("--force", action="store_true", help="overwrite the file")


def _seed(command: Program) -> None:
    command.add_argument("--seed", type=values.seed, default=0, metavar="N", help="decides what is left to chance (0)")


def _max_iter(command: Program) -> None:
    command.add_argument("--max-iter", type=values.count, default=1000, metavar="N", help="most steps of a fit (1000)")


def _jobs(command: Program) -> None:
    command.add_argument("--jobs", type=values.jobs, metavar="N", help="number of threads; -1 is all cores")


def _level(command: Program) -> None:
    command.add_argument(
        "--level", type=values.share, default=0.95, metavar="P", help="probability of intervals (0.95)"
    )
