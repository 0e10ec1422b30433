"""``probpca demo``: a short tour on a real table, from a fit to a report."""

from __future__ import annotations

import shlex
from contextlib import chdir
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from probpca.cli.parser import parse
from probpca.cli.screen import flush_output, print_answer
from probpca.cli.text import note, wrap
from probpca.errors import SourceError
from probpca.printable_text import printable_line


class Step(NamedTuple):
    """One step of the tour."""

    heading: str
    why: str
    command: str
    remark: str = ""  # what the output shows


TABLE = "fertility.csv"
SERIES = "series.csv"
COUNTRIES = ("India", "Brazil", "Kenya")
"""Countries of the forecast."""

STEPS = (
    Step(
        "Fit a model",
        "One row per country, one column per year, a tenth of the cells missing. The model keeps the few patterns "
        "that the years have in common, and treats the rest as noise.",
        f"fit {TABLE}",
        "Two numbers per country replace 52 years and keep 97% of the variance.",
    ),
    Step(
        "What the components are",
        "The countries at both ends of a component show what it measures.",
        f"transform model.npz {TABLE} --out scores.csv",
        "PC1 is the level of births: few in Germany and Japan, many in Niger. PC2 is the decline since 1960: steep in "
        "Mongolia and Algeria, none in Chad and the Democratic Republic of the Congo.",
    ),
    Step(
        "Impute the missing cells",
        "The observed years of a country, and the patterns of all countries, predict its missing years.",
        f"impute model.npz {TABLE} --intervals --out completed.csv",
        "With --intervals, each imputed cell comes with the range that holds the true value with 95% probability.",
    ),
    Step(
        "Find outliers",
        "Which countries do not follow the common patterns, and in which years?",
        f"outliers model.npz {TABLE} --top 3",
        "Births in Oman rose until the 1980s and then fell faster than anywhere else; in Timor-Leste they fell in the "
        "war of the late 1970s and recovered.",
    ),
    Step(
        "Forecast",
        f"The years of {', '.join(COUNTRIES[:-1])} and {COUNTRIES[-1]} as time series: each continues with a trend of "
        "its own, as far as the data show one.",
        f"forecast {SERIES} --steps 3 --time year",
        "The line that begins with backtest compares such forecasts of earlier years with what came: they were off by "
        "less than half as much as repeating the last value.",
    ),
    Step(
        "Write a report",
        "All of this on one page, with charts, to read in a browser or to send to others.",
        f"report model.npz {TABLE} --out report.html",
    ),
)


def run(args: Any) -> None:
    """Run the steps in a folder of their own."""
    folder = Path(mkdtemp(prefix="probpca-demo-")) if args.out is None else Path(args.out)
    if args.out is not None:
        _require_empty(folder)
        folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder):
        text = files("probpca.datasets").joinpath(TABLE).read_text(encoding="utf-8")
        Path(TABLE).write_text(text, encoding="utf-8")
        Path(SERIES).write_text(_series(text), encoding="utf-8")
        args.written.append(folder)
        print_answer("Births per woman in 219 countries, 1960-2011 (World Bank, CC BY 4.0)")
        for number, step in enumerate(STEPS, 1):
            _show(number, step)
    print_answer(f"\nThe files are in {printable_line(str(folder))}")
    print_answer("Next, on a table of your own: probpca fit table.csv")
    print_answer("All commands and their options: probpca --help")


def _series(text: str) -> str:
    """A table with a row for each year and a column for each country of the forecast."""
    first, *rows = (line.split(",") for line in text.splitlines())
    some = [("year", *first[1:]), *((name, *cells) for name, *cells in rows if name in COUNTRIES)]
    return "".join(f"{','.join(line)}\n" for line in zip(*some, strict=True))


def _require_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{folder} already exists and is not empty.\nHint: --out takes a new folder."
        raise SourceError(msg)


def _show(number: int, step: Step) -> None:
    """Print the heading and the command, run it, and say what its output shows."""
    from probpca.cli.main import run_command  # noqa: PLC0415

    name, *_ = step.command.split()
    needed = {"report": "altair"}.get(name)
    if needed is not None and find_spec(needed) is None:
        note(f"probpca {name} is left out because it needs {needed}: pip install 'probpca[report]'.")
        return
    print_answer(f"\n== {number}. {step.heading} ==\n{wrap(step.why)}\n$ probpca {step.command}")
    flush_output()
    run_command(parse(shlex.split(step.command)))
    if step.remark:
        print_answer(f"\n{wrap(step.remark)}")
