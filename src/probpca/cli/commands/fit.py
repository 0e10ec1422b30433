"""``probpca fit``: a model of a table, and what there is to say about it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.cli.output import is_watched, note, place_for, print_json, watching
from probpca.cli.survey import Survey, constants, identifiers, look_at
from probpca.cli.tables import CODES, Table, open_table
from probpca.cli.text import clip, screen_width, several, wrap
from probpca.cli.wording import in_words_of_the_shell
from probpca.errors import DataError
from probpca.estimators import PPCA, BayesianPCA
from probpca.learning.progress import ProgressBar

if TYPE_CHECKING:
    from pathlib import Path

LOUD = 100
"""How much more than most a column varies to be noticed."""


def run(args: Any) -> None:
    """Fit, write the model, print what was found."""
    out = place_for(args.out, force=args.force, reads=[args.table], suffixes=(".npz",))
    table = open_table(args.table).choose(args.id, args.exclude, args.numbers)
    require_columns(table)
    estimator = _estimator(args)
    with ProgressBar(enabled=is_watched()) as bar:
        table, found, rows = look_at(table, args.jobs, watching(bar))
        require_columns(table)
        estimator.fit(rows)
    estimator.set_params(verbose=False, n_jobs=None).to_file(out)  # these are of this terminal, not of the model
    for text in [*remarks(table, found), *_about_units(estimator, table)]:
        note(text)
    if args.json:
        print_json({"command": "fit", **facts(table, found), **_model_facts(estimator, table), "out": out})
        return
    print(_about_table(table, found))
    print()
    print(fitted_to_screen(estimator.summary(table.numbers)))
    print()
    print(_next_steps(args, table, found, out))


def require_columns(table: Table) -> None:
    """Raise ``DataError`` unless there are two columns of numbers."""
    if len(table.numbers) >= 2:
        return
    if all(column.kind == "empty" for column in table.columns):
        msg = f"{table.place} has a line of names, and nothing below."
        raise DataError(msg)
    found = [f"{name!r} ({why})" for name, why in table.others.items()]
    others = f" The others: {', '.join(found[:5])}{', ...' if len(found) > 5 else ''}." if found else ""
    count = "no column" if not table.numbers else "one column"
    msg = f"{table.place} has {count} of numbers; two or more are needed.{others}"
    raise DataError(msg)


def _estimator(args: Any) -> Any:
    shared = {
        "standardize": args.standardize,
        "max_iter": args.max_iter,
        "n_jobs": args.jobs,
        "verbose": is_watched(),
        "random_state": args.seed,
    }
    return (BayesianPCA if args.bayesian else PPCA)(args.components, **shared)


def facts(table: Table, found: Survey) -> dict[str, Any]:
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
    bound = "lower_bound" if hasattr(estimator, "lower_bound_") else "log_likelihood"
    return {
        "model": type(estimator).__name__,
        "rule": estimator.rule_,
        "n_components": estimator.n_components_,
        "explained_variance": estimator.explained_variance_,
        "explained_variance_ratio": estimator.explained_variance_ratio_,
        "components": [dict(zip(table.numbers, axis.tolist(), strict=True)) for axis in estimator.components_],
        "noise_variance": estimator.noise_variance_,
        bound: getattr(estimator, f"{bound}_"),
        "converged": estimator.converged_,
        "status": estimator.status_.value,
        "n_iter": estimator.n_iter_,
    }


def remarks(table: Table, found: Survey) -> list[str]:
    """What a person may have overlooked about a table."""
    said = [
        f"{name} looks like an identifier; --id {shlex.quote(name)} leaves it out."
        for name in identifiers(found, table.numbers)
    ]
    said += [f"{name} is the same in every row." for name in constants(found, table.numbers)[:5]]
    said += [
        f"{name} is taken for a label: {cell}{_way_back(name, kind)}."
        for name, (kind, _, cell) in ((name, why.partition(": ")) for name, why in table.others.items())
        if cell
    ]
    return said


def _way_back(name: str, kind: str) -> str:
    return f"; --numbers {shlex.quote(name)} takes it for numbers" if kind == CODES else ""


def _about_units(estimator: Any, table: Table) -> list[str]:
    """One column that varies far more than the others decides the components."""
    scale = np.sqrt(estimator.model_.covariance.diag())
    most = int(scale.argmax())
    times = scale[most] / np.median(scale)
    if estimator.standardize or not times > LOUD:
        return []
    told = f"{table.numbers[most]} varies {times:,.0f} times as much as most columns, and decides the components"
    return [f"{told}; --standardize gives all columns the same say."]


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


def fitted_to_screen(summary: str) -> str:
    """Loadings may be cut off at the end of a line; sentences are broken."""
    lines = in_words_of_the_shell(summary).splitlines()
    return "\n".join(clip_line(line) if line[:1] == " " else wrap(line, " " * 18) if line else "" for line in lines)


def clip_line(line: str) -> str:
    """A line of the screen, its blanks kept."""
    width = screen_width()
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _next_steps(args: Any, table: Table, found: Survey, out: Path) -> str:
    model, rows = shlex.quote(str(out)), shlex.quote(str(table.place))
    ident = f" --id {shlex.quote(args.id)}" if args.id else ""
    steps = [f"probpca impute {model} {rows}{ident} --out completed.csv"] if found.missing_share else []
    steps += [
        f"probpca outliers {model} {rows}{ident}",
        f"probpca transform {model} {rows}{ident} --out components.csv",
        f"probpca report {model} {rows}{ident} --out report.html",
    ]
    return "\n".join([f"The model is in {clip(str(out), 200)}. What to do next:", *(f"  {step}" for step in steps)])
