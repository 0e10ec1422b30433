"""``probpca select``: how many components?"""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from probpca.cli.commands.fit import facts, remarks, require_columns
from probpca.cli.output import is_watched, note, place_for, print_json, watching
from probpca.cli.survey import look_at
from probpca.cli.tables import open_table
from probpca.cli.text import screen_width, wrap
from probpca.errors import SourceError
from probpca.estimators import select_n_components
from probpca.learning.progress import ProgressBar

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.learning.selection.result import Selection

FIGURES = (".png", ".svg", ".pdf")


def run(args: Any) -> None:
    """Ask the criteria, and print what they say."""
    plot = None if args.plot is None else _place_for_plot(args)
    table = open_table(args.table).choose(args.id, args.exclude, args.numbers)
    require_columns(table)
    with ProgressBar(enabled=is_watched()) as bar:
        table, found, rows = look_at(table, args.jobs, watching(bar))
        require_columns(table)
    selection = select_n_components(
        rows,
        args.criteria,
        max_components=args.max_components,
        standardize=args.standardize,
        n_jobs=args.jobs,
        verbose=is_watched(),
        random_state=args.seed,
    )
    if plot is not None:
        _draw(selection, plot)
    limit = [name for name, choice in selection.choices.items() if choice == args.max_components]
    if limit:
        note(f"{', '.join(limit)} took the largest number that was looked at; raise --max-components.")
    for text in remarks(table, found):
        note(text)
    if args.json:
        print_json({"command": "select", **facts(table, found), **_told(selection), "plot": plot})
        return
    print(_on_screen(str(selection)))
    best = _best(selection.choices)
    if best is not None:
        print(f"\n  probpca fit {shlex.quote(args.table)} --components {best}{_same_options(args)}")
    if plot is not None:
        print(f"\n{plot}: the curves")


def _best(choices: dict[str, int]) -> int | None:
    """What to try first: what predicts, what can be interpreted, or what most of them say."""
    if "cv" in choices or "parallel" in choices:
        return choices.get("cv", choices.get("parallel"))
    return Counter(choices.values()).most_common(1)[0][0] if choices else None


def _same_options(args: Any) -> str:
    """Options that choose columns, for the next command."""
    parts = ["--standardize"] if args.standardize else []
    parts += ["--id", args.id] if args.id else []
    parts += ["--exclude", *args.exclude] if args.exclude else []
    return "".join(f" {shlex.quote(part)}" for part in parts)


def _on_screen(text: str) -> str:
    """Sentences broken into lines; the table is left alone."""
    width = screen_width()
    return "\n".join(line if len(line) <= width or line[:1] == " " else wrap(line, "  ") for line in text.splitlines())


def _told(selection: Selection) -> dict[str, Any]:
    criteria = {
        criterion.name: {
            "choice": criterion.choice,
            "n_components": criterion.n_components,
            "score": criterion.score,
            "standard_error": criterion.standard_error,
            "unit": criterion.unit,
            "note": criterion.note,
        }
        for criterion in selection.criteria
    }
    return {"criteria": criteria, "choices": selection.choices, "agreement": selection.agreement}


def _place_for_plot(args: Any) -> Path:
    place = place_for(args.plot, force=args.force, reads=[args.table], suffixes=FIGURES)
    try:
        from probpca.displays.selection_display import SelectionDisplay  # noqa: F401, PLC0415
    except ImportError as error:
        msg = "--plot needs matplotlib.\nHint: pip install 'probpca[plot]'."
        raise SourceError(msg) from error
    return place


def _draw(selection: Selection, place: Path) -> None:
    from probpca.atomic_write import appearing  # noqa: PLC0415
    from probpca.displays.selection_display import SelectionDisplay  # noqa: PLC0415

    figure = SelectionDisplay.from_selection(selection).figure_
    with appearing(place) as part:
        figure.savefig(part, format=place.suffix[1:].lower(), dpi=150)
