"""Commands and their options, with the help; imports nothing heavy, so that ``probpca --help`` is quick."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from probpca import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

SELECTION_RULES = ("parallel", "bic", "evidence", "cv", "ard", "gavish_donoho")

PROGRAM = """\
Probabilistic PCA of tables in files: principal components, imputation of missing cells,
outliers and forecasts, each with its uncertainty. Columns of numbers are detected, other
columns are kept as labels; a cell that is empty or NA is missing."""

ABOUT = {
    "fit": "fit a model to a table and print a summary",
    "impute": "fill in the missing cells of a table",
    "transform": "compute the scores of each row on the components",
    "score": "compute the log-likelihood of each row",
    "outliers": "find outlying rows, and the cells that make them so",
    "sample": "draw new rows from a model",
    "select": "compare criteria for the number of components",
    "forecast": "forecast a table whose rows are time steps",
    "report": "write a report on a table as one HTML page",
    "explorer": "write an interactive HTML page to explore the components",
    "demo": "run every command on a table of births in 219 countries",
}


def _examples(*lines: str) -> str:
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


EXAMPLES = {
    "probpca": _examples(
        "probpca fit table.csv",
        "probpca impute model.npz table.csv --out completed.csv",
        "probpca outliers model.npz table.csv",
        "probpca report model.npz table.csv",
        "probpca COMMAND --help",
    )
    + "\n\nexit codes: 0 done, 1 bad data or file, 2 bad usage, 130 interrupted",
    "fit": _examples(
        "probpca fit table.csv",
        "probpca fit table.csv --components 0.95 --standardize",
        "probpca fit table.parquet --components cv --id customer --out customers.npz",
        "probpca fit table.csv --bayesian --exclude year rank",
    ),
    "impute": _examples(
        "probpca impute model.npz table.csv",
        "probpca impute model.npz table.csv --out completed.csv",
        "probpca impute model.npz table.csv --intervals --level 0.9 --out completed.parquet",
    )
    + "\n\nWithout --out, the first cells that were filled in are shown with their intervals.",
    "transform": _examples(
        "probpca transform model.npz table.csv",
        "probpca transform model.npz table.csv --out components.csv",
    ),
    "score": _examples(
        "probpca score model.npz table.csv",
        "probpca score model.npz table.csv --out - | sort -t, -k2 -g | head",
    ),
    "outliers": _examples(
        "probpca outliers model.npz table.csv",
        "probpca outliers model.npz table.csv --top 50 --out suspects.csv",
        "probpca outliers model.npz table.csv --out all.parquet",
    )
    + """

D2 is the squared distance of a row from the model, T2 the part of it along the components and
residual the part off them. p_value is calibrated by the rows of the fit; model_p_value is that of
the fitted Gaussian (chi-square). Rows of the file that the model was fitted to are judged as if
each had been left out. For each row three cells are named, with the number of standard deviations
between them and their prediction from the other cells.""",
    "sample": _examples("probpca sample model.npz", "probpca sample model.npz -n 1000 --seed 7 --out new.csv"),
    "select": _examples(
        "probpca select table.csv",
        "probpca select table.csv --criteria bic cv --max-components 10 --plot choices.png",
    ),
    "forecast": _examples(
        "probpca forecast series.csv --steps 24",
        "probpca forecast series.csv --steps 12 --time month --components 3 --out next_year.csv",
    ),
    "report": _examples("probpca report model.npz table.csv", "probpca report model.npz table.csv --out page.html"),
    "explorer": _examples(
        "probpca explorer model.npz table.csv",
        "probpca explorer model.npz digits.npy --image-shape 8 8 --out digits.html",
    ),
    "demo": _examples("probpca demo", "probpca demo --out demo"),
}


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
    if args.command == "fit" and args.bayesian and isinstance(args.components, str | float):
        commands[args.command].error(
            "--bayesian removes components that the data do not support: --components is their largest number"
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
    """Usage with positional arguments first, because options that take several names would swallow them."""
    given = [str(action.metavar) for action in command._get_positional_actions()]  # noqa: SLF001
    return " ".join([command.prog, *given, "[options]"])


def _fit(command: Program) -> None:
    _table(command)
    about = f"a number, a share of variance such as 0.95, or one of {', '.join(SELECTION_RULES)} (default: parallel)"
    command.add_argument("--components", type=_as_components, metavar="N|SHARE|RULE", help=about)
    command.add_argument("--bayesian", action="store_true", help="Bayesian PCA, for many columns or many missing cells")
    command.add_argument("--standardize", action="store_true", help="scale columns to unit variance first")
    _max_iter(command)
    _columns(command)
    _out(command, "the file to write the model to (model.npz)", "model.npz")
    _seed(command)
    _jobs(command)


def _impute(command: Program) -> None:
    _model_and_table(command)
    command.add_argument("--intervals", action="store_true", help="add columns NAME_low and NAME_high at the end")
    for name, least in (("--min-value", "smallest"), ("--max-value", "largest")):
        about = f"{least} value that may be filled in, for all columns or for some"
        command.add_argument(
            name, nargs="+", action="extend", default=[], type=_as_bound, metavar="V|COLUMN=V", help=about
        )
    _level(command)
    _table_out(command)


def _transform(command: Program) -> None:
    _model_and_table(command)
    _table_out(command)


def _outliers(command: Program) -> None:
    _model_and_table(command)
    command.add_argument("--top", type=_as_count, metavar="N", help="only the N most outlying rows, the worst first")
    _table_out(command)


def _sample(command: Program) -> None:
    _model(command)
    command.add_argument("-n", "--rows", type=_as_count, default=10, metavar="N", help="number of rows (10)")
    _seed(command)
    _table_out(command)


def _select(command: Program) -> None:
    _table(command)
    command.add_argument(
        "--criteria", nargs="+", choices=SELECTION_RULES, metavar="RULE", help=f"any of {', '.join(SELECTION_RULES)}"
    )
    command.add_argument("--max-components", type=_as_count, metavar="N", help="largest number to consider")
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
    shape: dict[str, Any] = {"nargs": 2, "type": _as_count, "metavar": ("HEIGHT", "WIDTH")}
    command.add_argument("--image-shape", help="show rows as images of this size", **shape)


def _forecast(command: Program) -> None:
    _table(command)
    command.add_argument("--steps", type=_as_count, required=True, metavar="N", help="number of steps to forecast")
    command.add_argument("--components", type=_as_states, metavar="N|bic|cv", help="number of states (default: bic)")
    _max_iter(command)
    command.add_argument("--time", metavar="COLUMN", help="the column that holds the time stamps (default: detected)")
    command.add_argument(
        "--exclude", nargs="+", action="extend", metavar="COLUMN", default=[], help="columns to leave out"
    )
    _numbers(command)
    _level(command)
    _table_out(command)
    _seed(command)


def _demo(command: Program) -> None:
    command.add_argument("--out", metavar="DIR", help="the folder for the files (default: a new temporary one)")


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


def _table(command: Program) -> None:
    formats = ".csv, .tsv, .txt, .csv.gz, .parquet, .feather, .npy, .xlsx, .xls or .ods; - is standard input"
    command.add_argument("table", metavar="TABLE", help=formats)
    _table_format(command)


def _table_format(command: Program) -> None:
    """Options for what cannot be detected in a file; a model remembers them, and later commands use them again."""
    group = command.add_argument_group("how the table is read (a model remembers this)")
    switch: dict[str, Any] = {"action": argparse.BooleanOptionalAction, "default": None}
    group.add_argument(
        "--missing",
        nargs="*",
        action="extend",
        metavar="CODE",
        help="codes of missing cells, such as -999 or unknown, beside an empty cell, NA and the like",
    )
    group.add_argument("--decimal", choices=[",", "."], metavar=",|.", help="decimal mark (default: detected)")
    group.add_argument(
        "--thousands",
        choices=[",", ".", "'", "space", "none"],
        metavar=",|.|'|space",
        help="separator between groups of three digits (default: none)",
    )
    group.add_argument(
        "--skip-rows", type=_as_seed, metavar="N", help="lines above the line of names (default: detected)"
    )
    group.add_argument("--header", help="whether there is a line of names (default: yes)", **switch)
    group.add_argument("--sheet", metavar="NAME|NUMBER", help="sheet of a workbook (default: the first with cells)")
    group.add_argument("--transpose", help="features are rows of the file, and samples are columns", **switch)
    group.add_argument("--parse-units", help="read 28.8 yr, $779.45 and 12%% as numbers", **switch)


def _model(command: Program) -> None:
    command.add_argument("model", metavar="MODEL", help="a model that probpca fit wrote")


def _model_and_table(command: Program) -> None:
    _model(command)
    _table(command)
    command.add_argument(
        "--id", metavar="COLUMN", help="the column that names rows (default: the first without numbers)"
    )
    _jobs(command)


def _columns(command: Program) -> None:
    command.add_argument("--id", metavar="COLUMN", help="the column that names rows, which is left out")
    command.add_argument(
        "--exclude", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns to leave out"
    )
    _numbers(command)


def _numbers(command: Program) -> None:
    command.add_argument(
        "--numbers",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns to use as numbers although they look like codes, such as 00123, or number the rows",
    )


def _out(command: Program, about: str, default: str | None = None) -> None:
    command.add_argument("--out", "-o", metavar="FILE", default=default, help=about)
    command.add_argument("--force", action="store_true", help="overwrite the file")


def _table_out(command: Program) -> None:
    _out(command, "the file to write: .csv, .tsv, .csv.gz, .parquet, .feather or .npy; - prints CSV")


def _seed(command: Program) -> None:
    command.add_argument("--seed", type=_as_seed, default=0, metavar="N", help="seed of the random numbers (0)")


def _max_iter(command: Program) -> None:
    command.add_argument(
        "--max-iter", type=_as_count, default=1000, metavar="N", help="largest number of steps of a fit (1000)"
    )


def _jobs(command: Program) -> None:
    command.add_argument("--jobs", type=_as_jobs, metavar="N", help="number of threads; -1 is all cores")


def _level(command: Program) -> None:
    command.add_argument("--level", type=_as_share, default=0.95, metavar="P", help="probability of intervals (0.95)")


def _as_components(text: str) -> int | float | str:
    """A number of components, a share of variance, or a rule."""
    if text in SELECTION_RULES:
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    return _as_share(
        text, f"must be a number of components, a share between 0 and 1, or one of {', '.join(SELECTION_RULES)}"
    )


def _as_states(text: str) -> int | str:
    """A number of states, or a rule."""
    return text if text in ("bic", "cv") else _as_count(text)


def _as_count(text: str) -> int:
    """A whole number, 1 or more."""
    if not (text.isdecimal() and int(text) > 0):
        msg = f"must be a whole number, 1 or more; got {text}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _as_bound(text: str) -> tuple[str, float]:
    """A bound of the values that are filled in, and the column that it is for; empty for all columns."""
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if value != value:  # noqa: PLR0124
        msg = f"must be a number, or COLUMN=NUMBER; got {text}"
        raise argparse.ArgumentTypeError(msg)
    return name, value


def _as_seed(text: str) -> int:
    """A whole number, 0 or more."""
    return 0 if text == "0" else _as_count(text)


def _as_jobs(text: str) -> int:
    """A number of threads, or -1 for all cores."""
    if text.startswith("-") and text[1:].isdecimal() and int(text):
        return int(text)
    return _as_count(text)


def _as_share(text: str, needed: str = "must lie between 0 and 1") -> float:
    """A number between 0 and 1."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < 1:
        msg = f"{needed}; got {text}"
        raise argparse.ArgumentTypeError(msg)
    return found
