"""``probpca fit`` and ``probpca select``: a model of a table, and the number of its components."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from probpca.cli.run import format_options, given_format, place_for, print_json, shown_progress, write_model
from probpca.cli.table import Survey, Surveyed, Table, open_table, require_columns, survey
from probpca.cli.text import clip, is_terminal, note, screen_width, several, wrap
from probpca.errors import SourceError
from probpca.estimators import PPCA, BayesianPCA, select_n_components
from probpca.learning.describe import about_units
from probpca.sources.files import Stamp

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.learning import Status
    from probpca.learning.selection.result import Selection


def run(args: Any) -> None:
    """Run one of the two commands."""
    (_fit if args.command == "fit" else _select)(args)


def _fit(args: Any) -> None:
    """Fit, write the model, and print what was found."""
    out = place_for(args.out, force=args.force, reads=[args.table], suffixes=(".npz",))
    estimator = (BayesianPCA if args.bayesian else PPCA)(
        args.components,
        standardize=args.standardize,
        max_iter=args.max_iter,
        n_jobs=args.jobs,
        verbose=is_terminal(),
        random_state=args.seed,
    )
    table, found, rows = _surveyed(args)
    stamp = Stamp.of_table(table.place) if table.stored else None
    estimator.fit(rows)
    # Progress and threads belong to the terminal, not to the model.
    write_model(estimator.set_params(verbose=False, n_jobs=None), out, stamp, given_format(args))
    for text in _remarks(table, found):
        note(text)
    if args.json:
        print_json({"command": "fit", **_facts(table, found), **_model_facts(estimator, table), "out": out})
        return
    print(_about_table(table, found))
    print()
    print(on_screen(_summary(estimator, table), estimator.status_))
    print()
    print(_next_steps(args, table, found, out))


def _surveyed(args: Any) -> Surveyed:
    """Open the table, choose its columns, and read all rows once."""
    table = open_table(args.table, given_format(args)).choose(args.id, args.exclude, args.numbers)
    require_columns(table)
    with shown_progress() as watch:
        surveyed = survey(table, args.jobs, watch)
    require_columns(surveyed.table)
    return surveyed


def _facts(table: Table, found: Survey) -> dict[str, Any]:
    """The table in numbers."""
    return {
        "table": table.place,
        "rows": found.n_rows,
        "columns": table.numbers,
        "labels": table.others,
        "missing_share": found.missing_share,
        "missing": dict(zip(table.numbers, (found.n_rows - found.observed).tolist(), strict=True)),
        "empty_rows": found.n_empty,
    }


def _model_facts(estimator: Any, table: Table) -> dict[str, Any]:
    bayesian, scale = isinstance(estimator, BayesianPCA), estimator.scale_
    return {
        "model": type(estimator).__name__,
        "rule": estimator.rule_,
        "notes": [*estimator.notes_, *about_units(estimator.column_std_, table.numbers, "--standardize")],
        "n_components": estimator.n_components_,
        "explained_variance": estimator.explained_variance_,
        "explained_variance_ratio": estimator.explained_variance_ratio_,
        "components": [dict(zip(table.numbers, axis.tolist(), strict=True)) for axis in estimator.components_],
        "noise_variance": estimator.noise_variance_,
        "scale": None if scale is None else dict(zip(table.numbers, scale.tolist(), strict=True)),
        **({"lower_bound": estimator.lower_bound_} if bayesian else {"log_likelihood": estimator.log_likelihood_}),
        "converged": estimator.converged_,
        "status": estimator.status_.value,
        "n_iter": estimator.n_iter_,
    }


def _remarks(table: Table, found: Survey) -> list[str]:
    """Remarks on columns that may have been overlooked."""
    constant = [f"{name} is the same in every row." for name in found.constants(table.numbers)[:5]]
    return constant + table.about_labels()


def _summary(estimator: Any, table: Table) -> str:
    """Summary of the fit; its note on units names the option instead of the parameter."""
    text, std, names = estimator.summary(table.numbers), estimator.column_std_, table.numbers
    for said in about_units(std, names, "standardize=True"):
        text = text.replace(said, *about_units(std, names, "--standardize"))
    return text


def _about_table(table: Table, found: Survey) -> str:
    lines = [
        f"{table.place}: {several(found.n_rows, 'row')}, {several(len(table.numbers), 'column')} of numbers",
        f"{'missing':<18}{_missing(table, found)}",
    ]
    labels = [f"{name or repr(name)} ({why.split(':')[0]})" for name, why in table.others.items()]
    if labels:
        lines.append(f"{'labels':<18}{', '.join(labels)}")
    return "\n".join(wrap(line, " " * 18) for line in lines)


def _missing(table: Table, found: Survey) -> str:
    lacking = found.n_rows - found.observed
    if not lacking.any():
        return "nothing"
    worst = int(lacking.argmax())
    cells = found.n_rows * found.observed.size
    text = f"{lacking.sum():,} of {cells:,} cells ({found.missing_share:.1%})"
    text += f"; {table.numbers[worst]} lacks most ({lacking[worst] / found.n_rows:.1%})"
    return text + (f"; {several(found.n_empty, 'row')} without any number" if found.n_empty else "")


def on_screen(summary: str, ended: Status) -> str:
    """Summary of a fit in lines of the screen: tables are cut off at its edge, sentences are broken.

    The status speaks of options instead of parameters; the rest may hold names of columns and is left alone.
    """
    status = ended.value
    told = status.replace("max_iter", "--max-iter").replace(" or loosen tol", "").replace("fix it, or take", "take")
    told = told.replace("; for complete rows use solver='closed_form'", "")
    width = screen_width()
    lines = []
    for line in summary.replace(status, told).splitlines():
        if line[:1] == " ":
            lines.append(line if len(line) <= width else f"{line[: width - 3]}...")
        else:
            lines.append(wrap(line, " " * 18) if line else "")
    return "\n".join(lines)


def _next_steps(args: Any, table: Table, found: Survey, out: Path) -> str:
    model, rows = shlex.quote(str(out)), shlex.quote(str(table.place)) if table.stored else "-"
    ident = f" --id {shlex.quote(args.id)}" if args.id else ""
    steps = [f"probpca impute {model} {rows}{ident} --out completed.csv"] if found.missing_share else []
    steps += [
        f"probpca outliers {model} {rows}{ident}",
        f"probpca transform {model} {rows}{ident} --out components.csv",
        f"probpca report {model} {rows}{ident} --out report.html",
    ]
    return "\n".join([f"The model is in {clip(str(out), 200)}. Next steps:", *(f"  {step}" for step in steps)])


def _select(args: Any) -> None:
    """Compute the criteria, and print what they choose."""
    plot = None if args.plot is None else _place_for_plot(args)
    table, found, rows = _surveyed(args)
    selection = select_n_components(
        rows,
        args.criteria,
        max_components=args.max_components,
        standardize=args.standardize,
        n_jobs=args.jobs,
        verbose=is_terminal(),
        random_state=args.seed,
    )
    if plot is not None:
        _draw(selection, plot)
    limit = [name for name, choice in selection.choices.items() if choice == args.max_components]
    if limit:
        note(f"{', '.join(limit)} chose the largest number that was considered; raise --max-components.")
    for text in _remarks(table, found):
        note(text)
    if args.json:
        print_json({"command": "select", **_facts(table, found), **_selection_facts(selection), "plot": plot})
        return
    width = screen_width()
    for line in str(selection).splitlines():
        print(line if len(line) <= width or line[:1] == " " else wrap(line, "  "))
    best = _best(selection.choices)
    if best is not None:
        print(f"\n  probpca fit {shlex.quote(args.table)} --components {best}{_same_options(args)}")
    if plot is not None:
        print(f"\n{plot}: the curves")


def _best(choices: dict[str, int]) -> int | None:
    """Number to try first: the choice of parallel analysis, of cross-validation, or of most criteria."""
    if "cv" in choices or "parallel" in choices:
        return choices.get("parallel", choices.get("cv"))
    return Counter(choices.values()).most_common(1)[0][0] if choices else None


def _same_options(args: Any) -> str:
    """Options that choose and scale columns, for the next command."""
    parts = ["--standardize"] if args.standardize else []
    parts += ["--id", args.id] if args.id else []
    parts += ["--exclude", *args.exclude] if args.exclude else []
    parts += ["--numbers", *args.numbers] if args.numbers else []
    parts += format_options(given_format(args))
    return "".join(f" {shlex.quote(part)}" for part in parts)


def _selection_facts(selection: Selection) -> dict[str, Any]:
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
    place = place_for(args.plot, force=args.force, reads=[args.table], suffixes=(".png", ".svg", ".pdf"))
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
