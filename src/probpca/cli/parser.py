"""Commands and their options, with the help; imports nothing heavy, so that ``probpca --help`` is quick."""

from __future__ import annotations

import argparse
import re
import sys
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from probpca import __version__
from probpca.cli.screen import flush_output, print_answer, print_message
from probpca.printable_text import printable_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PPCA_RULES = ("parallel", "bic", "evidence", "cv", "ard", "gavish_donoho")
SELECTION_RULES = (*PPCA_RULES, "fa_bic", "fa_aic")
ROTATIONS = ("varimax", "quartimax", "equamax", "promax", "oblimin", "geomin", "geomin_orthogonal", "none")


class Family(NamedTuple):
    """A family of models, and how the number of its components may be given."""

    needed: str  # what may be given beside rules
    rules: tuple[str, ...] = ()
    takes_share: bool = False  # of variance


FAMILIES = {
    "ppca": Family("a number of components, a share of variance between 0 and 1", PPCA_RULES, takes_share=True),
    "fa": Family("a number of factors", ("parallel", "bic", "aic")),
    "bayesian": Family("a whole number, the largest number of components"),
    "mixture": Family("a number of components of each cluster", ("bic",)),
}

PROGRAM = """\
Probabilistic PCA and factor analysis for tables in files: components, imputed
cells, outliers and forecasts, each with its uncertainty. Start with probpca fit,
which saves a MODEL that other commands use. Numeric columns are detected, other
columns are kept as labels; an empty cell or NA is missing."""

ABOUT = {
    "fit": "fit a model to a table and print a summary",
    "select": "compare rules for choosing the number of components",
    "impute": "fill in the missing cells of a table",
    "transform": "compute the scores of each row, and its cluster if there are some",
    "outliers": "find unusual rows, and the cells that make them unusual",
    "score": "compute the log-likelihood of each row under the model",
    "sample": "draw random rows from a model",
    "report": "write a report on a table as an HTML page",
    "explorer": "write an interactive HTML page to explore the components",
    "forecast": "forecast a table whose rows are time steps",
    "demo": "show what probpca does, using births per woman in 219 countries",
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
    + "\n\nexit codes: 0 success, 1 bad data or file, 2 wrong usage, 130 interrupted,\n143 terminated",
    "fit": _examples(
        "probpca fit table.csv --components 0.95 --standardize --robust rows",
        "probpca fit table.csv --model fa --components bic --rotation oblimin",
        "probpca fit table.parquet --clusters auto --id customer --out customers.npz",
        "probpca fit survey.xlsx --sheet 2 --missing -999 --exclude year rank",
    ),
    "impute": """\
Without --out, the first imputed cells are shown with their intervals.

"""
    + _examples(
        "probpca impute model.npz table.csv",
        "probpca impute model.npz table.csv --out completed.csv",
        "probpca impute model.npz table.csv --intervals --level 0.9 --out full.parquet",
    ),
    "transform": _examples(
        "probpca transform model.npz table.csv",
        "probpca transform model.npz table.csv --out scores.csv",
    ),
    "score": _examples(
        "probpca score model.npz table.csv",
        "probpca score model.npz table.csv --out - | sort -t, -k2 -g | head",
    ),
    "outliers": """\
p_value        probability that a row is at least this unusual by chance,
               calibrated on the training rows, each as if left out of the fit
model_p_value  the same, assuming that the Gaussian model is exact (chi-square)
D2             squared distance of the row from the model: the sum of
               T2 (along the components) and residual (away from them)
unusual cells  cells that differ most from what the other cells of the row
               predict, in standard deviations (sd)
cluster        of a mixture, the most probable one, from which D2 is measured

"""
    + _examples(
        "probpca outliers model.npz table.csv",
        "probpca outliers model.npz table.csv --top 50 --out suspects.csv",
        "probpca outliers model.npz table.csv --out all.parquet",
    ),
    "sample": _examples("probpca sample model.npz", "probpca sample model.npz -n 1000 --seed 7 --out new.csv"),
    "select": """\
parallel       parallel analysis: components that stand out from chance
bic            Bayesian information criterion
evidence       marginal likelihood of the model
cv             cross-validation: prediction of held-out cells
ard            components that Bayesian PCA keeps
gavish_donoho  optimal threshold for singular values
fa_bic         BIC of factor analysis, with a noise variance for each column
fa_aic         AIC of factor analysis

"""
    + _examples(
        "probpca select table.csv",
        "probpca select table.csv --criteria bic cv --plot choices.png",
    ),
    "forecast": _examples(
        "probpca forecast series.csv --steps 24 --plot forecast.png",
        "probpca forecast series.csv --steps 12 --time month --out next_year.csv",
    ),
    "report": _examples("probpca report model.npz table.csv", "probpca report model.npz table.csv --out page.html"),
    "explorer": _examples(
        "probpca explorer model.npz table.csv",
        "probpca explorer model.npz digits.npy --image-shape 8 8 --out digits.html",
    ),
    "demo": _examples("probpca demo", "probpca demo --out demo"),
}


class Help(argparse.RawDescriptionHelpFormatter):
    """Help that keeps its line breaks and names the values of an option once."""

    def __init__(self, prog: str) -> None:
        """Begin explanations in one column."""
        super().__init__(prog, max_help_position=24)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        names = ", ".join(sorted(action.option_strings, key=len, reverse=True))
        if not names or action.nargs == 0:
            return names or str(action.metavar)
        value = " ".join(action.metavar) if isinstance(action.metavar, tuple) else str(action.metavar)
        return f"{names} {value}{' ...' if action.nargs in ('+', '*') else ''}"


class Program(argparse.ArgumentParser):
    """A parser with options in groups, whose messages about mistakes suggest what may have been meant."""

    def __init__(self, **options: Any) -> None:
        """Accept options only if they are written in full."""
        super().__init__(formatter_class=Help, allow_abbrev=False, add_help=False, **options)

    def group(self, title: str) -> argparse._ArgumentGroup:
        """The group of options with this title; a new group comes last."""
        known = {group.title: group for group in self._action_groups}
        return known[title] if title in known else self.add_argument_group(title)

    @property
    def known_options(self) -> list[str]:
        """All options in their long and short forms."""
        return list(self._option_string_actions)

    @property
    def needs_model(self) -> bool:
        """Whether the command reads a model."""
        return any(action.dest == "model" for action in self._get_positional_actions())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the process, with a message on standard error if there is one."""
        if message:
            print_message(message)
        raise SystemExit(status)

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ARG002
        """Print the help or the version, which is the answer."""
        print_answer(message, end="")
        flush_output()

    def error(self, message: str) -> NoReturn:
        """Print the mistake in one line, and how to use the program in another; exit with code 2."""
        text = re.sub(r"^argument ([^:]+): ", r"\1 ", message)
        text = re.sub(r"^the following arguments are required: (--.*)", r"\1 must be given", text)
        if text == "the following arguments are required: TABLE" and self.needs_model:
            text = "MODEL and TABLE must both be given, before the options; probpca fit TABLE makes the model"
        text = re.sub(r"^the following arguments are required: (.*)", r"\1 must be given, before the options", text)
        text = re.sub(r"invalid choice: '(.*?)' \(choose from (.*)\)", r"must be one of \2; got \1", text)
        text = text.replace("expected one argument", "needs a value").replace(
            "expected at least one argument", "needs a value"
        )
        end = "" if text.endswith(("?", ".")) else "."
        usage = self.format_usage().strip()
        what = printable_line(f"{self.prog}: error: {text}{end}")
        self.exit(2, f"{what}\n{usage}; {self.prog} --help explains more")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the known word most similar to ``word``; empty if none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415

    bare = {name.lstrip("-"): name for name in known}
    word = word.lstrip("-")
    longer = [name for name in bare if word and name.startswith(word)]
    found = [*longer, *get_close_matches(word, bare, 1, 0.7)]
    return f" Did you mean {bare[found[0]]}?" if found else ""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Options of one command; help and mistakes end the process, with codes 0 and 2."""
    program, commands = _program()
    given = list(sys.argv[1:] if argv is None else argv)
    if not given:
        print_message(program.format_help().rstrip())
        raise SystemExit(2)
    _require_known_words(program, commands, given)
    args, left = program.parse_known_args(given)
    if left:
        commands[args.command].error(f"unexpected argument: {' '.join(left)}")
    if args.command == "fit":
        _choose_family(commands["fit"], args)
    args.written = []  # complete files, which an error afterwards names
    return args


def _choose_family(command: Program, args: argparse.Namespace) -> None:
    """Choose the family of the model and read the number of its components; end with code 2 if options conflict."""
    if args.bayesian and args.family not in (None, "bayesian"):
        command.error(f"--bayesian means --model bayesian; got --model {args.family} too. Leave one of them out")
    implied = "bayesian" if args.bayesian else "mixture" if args.clusters else "ppca"
    family = args.family = args.family or implied
    if args.clusters and family != "mixture":
        given = "--bayesian" if args.bayesian else f"--model {family}"
        command.error(f"--clusters means --model mixture; got {given} too. Leave one of them out")
    if args.rotation is not None and family != "fa":
        command.error(f"--rotation needs --model fa; got --model {family}. Add --model fa, or leave --rotation out")
    if args.standardize and family == "fa":
        why = "factors do not change with the units of the columns"
        command.error(f"--standardize does not apply to --model fa, because {why}. Leave it out")
    if args.standardize and family == "mixture":
        why = "clusters do not change with the units of the columns"
        command.error(f"--standardize does not apply to --clusters, because {why}. Leave it out")
    _require_robust(command, args)
    if args.components is not None:
        try:
            args.components = _as_components(args.components, family)
        except argparse.ArgumentTypeError as error:
            command.error(str(error))


def _require_robust(command: Program, args: argparse.Namespace) -> None:
    """End with code 2 unless the family of models has robust fits, and --keep is about one."""
    if args.robust and args.family not in ("ppca", "fa"):
        given = "--clusters" if args.clusters else f"--model {args.family}"
        command.error(f"--robust needs --model ppca or fa; got {given}. Leave one of them out")
    if args.keep is not None and args.robust is None:
        command.error("--keep is about robust fits; got no --robust. Add --robust rows, or leave --keep out")


def _require_known_words(program: Program, commands: dict[str, Program], given: list[str]) -> None:
    """End with code 2 at a command or long option that does not exist, before anything else is missed."""
    first, *rest = given
    if first.startswith("-"):
        if first not in program.known_options:
            program.error(f"a command must come before {first}")
        return
    if first not in commands:
        table = f" Did you mean probpca fit {first}?" if "." in first else did_you_mean(first, commands)
        program.error(f"there is no command {first}.{table}")
    for word in takewhile(lambda word: word != "--", rest):
        name, known = word.partition("=")[0], commands[first].known_options
        if _is_unknown_option(word, known):
            where = [f"probpca {other}" for other, command in commands.items() if name in command.known_options]
            elsewhere = f" {' and '.join(where)} {'have' if len(where) > 1 else 'has'} it." if where else ""
            file = f" If it is a file, write ./{word}." if "." in word or Path(word).exists() else ""
            commands[first].error(f"there is no option {name}.{elsewhere or file or did_you_mean(name, known)}")


def _is_unknown_option(word: str, known: Sequence[str]) -> bool:
    """Whether a word begins like an option that does not exist; ``-o`` may be followed by its value, but by no file.

    A negative number, and a word with a space in it, is a value.
    """
    if word.startswith("--"):
        return word.partition("=")[0] not in known
    if not word.startswith("-") or word == "-" or " " in word or re.match(r"-\.?\d", word):
        return False
    return word not in known and (word[:2] not in known or Path(word).exists())


def _program() -> tuple[Program, dict[str, Program]]:
    usage = "probpca COMMAND ..."
    program = Program(prog="probpca", usage=usage, description=PROGRAM, epilog=EXAMPLES["probpca"])
    room = program.add_subparsers(
        dest="command", required=True, metavar="COMMAND ...", title="commands", prog="probpca"
    )
    other = program.group("other")
    other.add_argument("--version", action="version", version=f"probpca {__version__}", help="show the version")
    _help(program)
    commands = {}
    for name, describe in OPTIONS.items():
        about = ABOUT[name]
        command = room.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=EXAMPLES[name]
        )
        describe(command)
        command.usage = _usage(command)
        if name != "demo":
            command.group("output").add_argument(
                "--json", action="store_true", help="print the results as JSON, in full precision"
            )
        command.group("other").add_argument(
            "--debug", action="store_true", help="show the Python traceback of an error"
        )
        _help(command)
        commands[name] = command
    return program, commands


def _help(program: Program) -> None:
    program.group("other").add_argument("-h", "--help", action="help", help="show this help")


def _usage(command: Program) -> str:
    """Usage with positional arguments first, because options that take several names would swallow them."""
    given = [str(action.metavar) for action in command._get_positional_actions()]  # noqa: SLF001
    return " ".join([command.prog, *given, "[options]"])


def _fit(command: Program) -> None:
    _table(command, " (saved with the model)")
    _columns(command)
    model = command.group("model")
    about = "ppca (default), fa (factors), bayesian, mixture"
    model.add_argument("--model", dest="family", type=_as_family, metavar="NAME", help=about)
    model.add_argument("--bayesian", action="store_true", help=argparse.SUPPRESS)
    first, *others = PPCA_RULES
    rules = f"{first} (default), {', '.join(others)}; for fa a number, {', '.join(FAMILIES['fa'].rules)}"
    about = f"number, share of variance such as 0.95, or a rule: {rules}"
    model.add_argument("--components", metavar="N|RULE", help=about)
    about = "number of clusters; auto chooses by BIC, icl by ICL"
    model.add_argument("--clusters", type=_as_clusters, metavar="K|auto", help=about)
    about = f"for fa: {', '.join(ROTATIONS[:-1])} (default: none)"
    model.add_argument("--rotation", type=_as_rotation, metavar="METHOD", help=about)
    _standardize(command)
    about = "a fit that outlying rows, or cells, cannot bend"
    model.add_argument("--robust", type=_as_robust, metavar="rows|cells", help=about)
    about = "share of the rows that it trusts (default: 0.75)"
    model.add_argument("--keep", type=_as_kept, metavar="P", help=about)
    _max_iter(command)
    _seed(command)
    _out(command, "file for the model (default: model.npz)", "model.npz")
    _jobs(command)


def _select(command: Program) -> None:
    _table(command)
    _columns(command)
    model = command.group("model")
    model.add_argument(
        "--criteria",
        nargs="+",
        type=_as_rule,
        metavar="RULE",
        help="rules to compare, of those listed below (default: all)",
    )
    model.add_argument("--max-components", type=_as_count, metavar="N", help="maximum number of components to consider")
    _standardize(command)
    _seed(command)
    _plot(command, "plot the criteria")
    _jobs(command)


def _impute(command: Program) -> None:
    _model_and_table(command)
    output = command.group("output")
    output.add_argument("--intervals", action="store_true", help="add columns NAME_low and NAME_high to the output")
    for name, least in (("--min-value", "minimum"), ("--max-value", "maximum")):
        about = f"{least} of imputed values, for all columns or one"
        output.add_argument(
            name, nargs="+", action="extend", default=[], type=_as_bound, metavar="V|COLUMN=V", help=about
        )
    _level(command)
    _table_out(command)
    _jobs(command)


def _transform(command: Program) -> None:
    _model_and_table(command)
    _table_out(command)
    _jobs(command)


def _outliers(command: Program) -> None:
    _model_and_table(command)
    command.group("output").add_argument(
        "--top", type=_as_count, metavar="N", help="keep only the N most unusual rows, in order"
    )
    _table_out(command)
    _jobs(command)


def _sample(command: Program) -> None:
    _model(command)
    output = command.group("output")
    output.add_argument(
        "-n", "--rows", type=_as_count, default=10, metavar="N", help="number of rows to draw (default: 10)"
    )
    _seed(command, "output")
    _table_out(command)


def _report(command: Program) -> None:
    name = f"{command.prog.split()[-1]}.html"
    _model_and_table(command)
    group = command.group("output")
    group.add_argument("--title", metavar="TEXT", help="title of the page (default: name of the file)")
    group.add_argument("--color-by", metavar="COLUMN", help="column that colours the rows (default: detected)")
    _out(command, f"file for the page (default: {name})", name)
    _jobs(command)


def _explorer(command: Program) -> None:
    _report(command)
    shape: dict[str, Any] = {"nargs": 2, "type": _as_count, "metavar": ("HEIGHT", "WIDTH")}
    command.group("output").add_argument(
        "--image-shape", help="show each row as an image of this size in pixels", **shape
    )


def _forecast(command: Program) -> None:
    _table(command)
    table = command.group("input")
    table.add_argument("--time", metavar="COLUMN", help="column that holds the time stamps (default: detected)")
    table.add_argument("--series", metavar="COLUMN", help="column that tells stacked series apart")
    table.add_argument("--step", metavar="LENGTH", help="time step: month, D, h, 15min, ... (default: detected)")
    _exclude(command)
    model = command.group("model")
    model.add_argument(
        "--components",
        type=_as_states,
        metavar="N|bic|cv",
        help="number of common states, or a rule that chooses it",
    )
    _max_iter(command)
    _seed(command)
    command.group("output").add_argument(
        "--steps", type=_as_count, required=True, metavar="N", help="number of time steps to forecast (required)"
    )
    _numbers(command)
    _level(command)
    _table_out(command)
    command.group("output").add_argument("--report", metavar="FILE", help="write an HTML report about the series")
    _plot(command, "plot the series and the forecast", force=False)


def _demo(command: Program) -> None:
    command.group("output").add_argument(
        "--out", metavar="DIR", help="new folder for the files (default: a temporary folder)"
    )


OPTIONS = {
    "fit": _fit,
    "select": _select,
    "impute": _impute,
    "transform": _transform,
    "outliers": _outliers,
    "score": _transform,
    "sample": _sample,
    "report": _report,
    "explorer": _explorer,
    "forecast": _forecast,
    "demo": _demo,
}


def _table(command: Program, remembered: str = "") -> None:
    formats = ".csv, .tsv, .csv.gz, .parquet, .feather, .npy, .xlsx, .ods, or - for standard input"
    command.group("input").add_argument("table", metavar="TABLE", help=formats)
    _table_format(command, f"how to read the table{remembered}")


def _table_format(command: Program, title: str) -> None:
    """Options for what cannot be detected in a file; a model remembers them, and later commands use them again."""
    group = command.group(title)
    group.add_argument(
        "--missing", nargs="*", action="extend", metavar="CODE", help="codes that mean a missing cell, such as -999"
    )
    group.add_argument("--decimal", choices=[",", "."], metavar=",|.", help="decimal mark (default: detected)")
    group.add_argument(
        "--thousands",
        choices=[",", ".", "'", "space", "none"],
        metavar="SIGN",
        help="thousands separator: , . ' or space (default: none)",
    )
    group.add_argument(
        "--skip-rows", type=_as_seed, metavar="N", help="lines above the column names (default: detected)"
    )
    _switch(group, "--no-header", "--header", "the file has no column names; use x0, x1, ...")
    group.add_argument("--sheet", metavar="NAME|N", help="sheet of a workbook (default: the first not empty)")
    _switch(group, "--transpose", "--no-transpose", "swap rows and columns: features are rows of the file")
    _switch(group, "--parse-units", "--no-parse-units", "read 28.8 yr, $779.45 and 12%% as numbers")


def _switch(group: argparse._ArgumentGroup, option: str, opposite: str, about: str) -> None:
    """An option and its opposite, which overrides what a model remembers and is not in the help."""
    name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
    for text, shown in ((option, about), (opposite, argparse.SUPPRESS)):
        value = not text.startswith("--no-")
        group.add_argument(text, dest=name, action="store_const", const=value, help=shown)


def _model(command: Program) -> None:
    command.group("input").add_argument("model", metavar="MODEL", help="a model saved by probpca fit")


def _model_and_table(command: Program) -> None:
    _model(command)
    _table(command, " (default: as in the fit)")
    command.group("input").add_argument(
        "--id", metavar="COLUMN", help="column that names the rows (default: the first label column)"
    )


def _columns(command: Program) -> None:
    command.group("input").add_argument(
        "--id", metavar="COLUMN", help="column that names the rows; not part of the model"
    )
    _exclude(command)
    _numbers(command)


def _numbers(command: Program) -> None:
    command.group("input").add_argument(
        "--numbers",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns to model even if they look like labels",
    )


def _exclude(command: Program) -> None:
    command.group("input").add_argument(
        "--exclude", nargs="+", action="extend", default=[], metavar="COLUMN", help="columns to leave out of the model"
    )


def _standardize(command: Program) -> None:
    command.group("model").add_argument(
        "--standardize", action="store_true", help="scale to unit variance; advised if units differ"
    )


def _out(command: Program, about: str, default: str | None = None) -> None:
    output = command.group("output")
    output.add_argument("--out", "-o", metavar="FILE", default=default, help=about)
    output.add_argument("--force", action="store_true", help="overwrite existing files")


def _table_out(command: Program) -> None:
    _out(command, "output file: .csv, .tsv, .csv.gz, .parquet, .feather or .npy; - prints CSV")
    command.group("output").add_argument(
        "--safe-cells",
        action="store_true",
        help="in CSV, put ' before text that a spreadsheet would run as a formula (=, +, -, @ at its start)",
    )


def _plot(command: Program, about: str, *, force: bool = True) -> None:
    output = command.group("output")
    output.add_argument("--plot", metavar="FILE", help=f"{about} in a .png, .svg or .pdf file")
    if force:
        output.add_argument("--force", action="store_true", help="overwrite existing files")


def _seed(command: Program, group: str = "model") -> None:
    command.group(group).add_argument("--seed", type=_as_seed, default=0, metavar="N", help="random seed (default: 0)")


def _max_iter(command: Program) -> None:
    command.group("model").add_argument(
        "--max-iter", type=_as_count, default=1000, metavar="N", help="maximum number of iterations (default: 1000)"
    )


def _jobs(command: Program) -> None:
    command.group("other").add_argument(
        "--jobs", type=_as_jobs, metavar="N", help="number of threads; -1 uses all cores"
    )


def _level(command: Program) -> None:
    command.group("output").add_argument(
        "--level",
        type=_as_share,
        default=0.95,
        metavar="P",
        help="probability that an interval holds the true value (default: 0.95)",
    )


def _as_components(text: str, family: str) -> int | float | str:
    """A number of components, a share of variance, or a rule, as far as a family of models has them."""
    needed, rules, takes_share = FAMILIES[family]
    if text in rules:
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    share = _share(text)
    if share is not None and takes_share:
        return share
    needed += f", or one of {', '.join(rules)}" if rules else ""
    given = {"ppca": "", "mixture": "with --clusters, "}.get(family, f"with --model {family}, ")
    others = [name for name, other in FAMILIES.items() if text in other.rules or (share and other.takes_share)]
    meant = f" --model {others[0]} takes it." if others else did_you_mean(text, rules)
    if text in SELECTION_RULES[len(PPCA_RULES) :]:  # as select calls it
        meant = f" Use --model fa --components {text.removeprefix('fa_')}."
    msg = f"{given}--components must be {needed}; got {text}.{meant}"
    raise argparse.ArgumentTypeError(msg)


def _as_rule(text: str) -> str:
    """A rule that chooses the number of components."""
    return _one_of(text, SELECTION_RULES, "one or more")


def _as_family(text: str) -> str:
    """A family of models."""
    return _one_of(text, FAMILIES)


def _as_clusters(text: str) -> int | str:
    """A number of clusters, or how it is chosen."""
    return text if text in ("auto", "icl") else _as_count(text, "must be a whole number, 1 or more, or auto or icl")


def _as_robust(text: str) -> str:
    """What a robust fit is protected from."""
    return _one_of(text, ("rows", "cells"))


def _as_kept(text: str) -> float:
    """A share of the rows, from 0.5 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0.5 <= value <= 1:
        msg = f"must be a number from 0.5 to 1; got {text}"
        raise argparse.ArgumentTypeError(msg)
    return value


def _as_rotation(text: str) -> str:
    """A method of rotation."""
    return _one_of(text, ROTATIONS)


def _one_of(text: str, known: Iterable[str], count: str = "one") -> str:
    """One of the known words."""
    if text not in known:
        msg = f"must be {count} of {', '.join(known)}; got {text}.{did_you_mean(text, known)}"
        raise argparse.ArgumentTypeError(msg)
    return text


def _as_states(text: str) -> int | str:
    """A number of states, or a rule."""
    return text if text in ("bic", "cv") else _as_count(text, "must be a whole number, 1 or more, or one of bic, cv")


def _as_count(text: str, needed: str = "must be a whole number, 1 or more") -> int:
    """A whole number, 1 or more."""
    if not (text.isdecimal() and int(text) > 0):
        msg = f"{needed}; got {text}"
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


def _as_share(text: str) -> float:
    """A number between 0 and 1."""
    found = _share(text)
    if found is None:
        msg = f"must be between 0 and 1, such as 0.95; got {text}."
        raise argparse.ArgumentTypeError(msg)
    return found


def _share(text: str) -> float | None:
    """The number between 0 and 1 that a text is; None for other texts."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < 1 else None
