"""``probpca fit`` and ``probpca select``: a model of a table, and the number of its components."""

from __future__ import annotations

import re
import shlex
import warnings
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.cli.identifiers import is_time
from probpca.cli.run import (
    format_options,
    given_format,
    place_for,
    place_for_plot,
    print_facts,
    shown_progress,
    write_figure,
    write_model,
)
from probpca.cli.screen import is_terminal, print_answer
from probpca.cli.table import Survey, Surveyed, Table, open_table, require_columns, survey
from probpca.cli.text import fact, listed, note, screen_width, shell_file, shell_word, wrap
from probpca.errors import DataError, ProbpcaError
from probpca.estimators import PPCA, BayesianPCA, FactorAnalysis, MixturePPCA, select_n_components
from probpca.estimators.summary import about_factors
from probpca.learning import Status
from probpca.learning.describe import about_units
from probpca.learning.selection.result import OF_FACTORS
from probpca.printable_text import printable_line
from probpca.result_tables import clip, several
from probpca.sources.files import Stamp
from probpca.statistics import ColumnSummary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from probpca.learning.factor.fit_indices import FitIndices
    from probpca.learning.selection.result import Selection


MOST_LABEL_REMARKS = 8
"""Columns that get a note of their own because a cell made them labels; the others are counted."""
MOST_WORK = 2e9
"""Largest product of rows and cubed columns for which fit indices of missing cells are computed: a few seconds."""


def run(args: Any) -> None:
    """Run one of the two commands."""
    (_fit if args.command == "fit" else _select)(args)


def _fit(args: Any) -> None:
    """Fit, write the model, and print what was found."""
    out = place_for(args.out, force=args.force, reads=[args.table], suffixes=(".npz",))
    table, found, rows = surveyed = _surveyed(args)
    stamp = Stamp.of_table(table.place) if table.stored else None
    estimator = _estimator(args)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the noise variance of .* is at its floor")  # the summary says so
        estimator.fit(rows)
    if _has_quick_fit_indices(estimator, surveyed):
        with suppress(ProbpcaError):
            estimator.fit_indices(rows)  # which the summary and the file show from now on
    # Progress and threads belong to the terminal, not to the model.
    write_model(estimator.set_params(verbose=False, n_jobs=None), out, stamp, given_format(args))
    args.written.append(out)
    for text in _remarks(table, found):
        note(text)
    if args.json:
        print_facts({"command": "fit", **_facts(table, found), **_model_facts(estimator, table), "out": out})
        return
    print_answer(_about_table(table, found))
    print_answer()
    print_answer(on_screen(_summary(estimator, table), estimator))
    print_answer()
    print_answer(_next_steps(args, table, found, out))


def _estimator(args: Any) -> Any:
    """The estimator of the chosen family."""
    options: dict[str, Any] = {
        "max_iter": args.max_iter,
        "n_jobs": args.jobs,
        "verbose": is_terminal(),
        "random_state": args.seed,
    }
    robust = {"robust": args.robust, "keep": 0.75 if args.keep is None else args.keep}
    if args.family == "fa":
        return FactorAnalysis(args.components, rotation=args.rotation, **robust, **options)
    if args.family == "mixture":
        n_clusters = {"auto": None}.get(args.clusters, args.clusters)
        n_components = None if args.components == "bic" else args.components
        return MixturePPCA(n_clusters, n_components, **options)
    if args.family == "bayesian":
        return BayesianPCA(args.components, standardize=args.standardize, **options)
    return PPCA(args.components, standardize=args.standardize, **robust, **options)


def _has_quick_fit_indices(estimator: Any, surveyed: Surveyed) -> bool:
    """Whether fit indices of missing cells can be computed in a few seconds; those of complete rows are known."""
    n, d = surveyed.found.n_rows, len(surveyed.table.numbers)
    is_factor_analysis = isinstance(estimator, FactorAnalysis) and estimator.robust is None
    return is_factor_analysis and surveyed.found.missing_share > 0 and surveyed.rows.in_memory and n * d**3 <= MOST_WORK


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
    """The model in numbers."""
    of_kind = _mixture_facts if isinstance(estimator, MixturePPCA) else _components_of
    return {
        "model": type(estimator).__name__,
        "rule": estimator.rule_,
        "n_components": estimator.n_components_,
        **of_kind(estimator, table),
        "converged": estimator.converged_,
        "status": estimator.status_.value,
        "n_iter": estimator.n_iter_,
        "robust": _robust_facts(estimator),
    }


def _robust_facts(estimator: Any) -> dict[str, Any] | None:
    """What a robust fit used; None after other fits."""
    rows, cells = getattr(estimator, "row_weight_", None), getattr(estimator, "cell_weight_", None)
    if rows is None:
        return None
    facts = {"method": estimator.robust, "keep": estimator.keep, "rows": rows.size, "rows_used": int((rows > 0).sum())}
    if cells is not None:
        used = cells[rows > 0]
        facts |= {"cells": int((used > 0).sum()), "cells_used": int((used > 0.5).sum())}
    return facts


def _mixture_facts(estimator: Any, table: Table) -> dict[str, Any]:
    """What only mixtures have."""
    names = table.numbers
    parts = zip(estimator.weights_, estimator.means_, estimator.loadings_, estimator.noise_variance_, strict=True)
    clusters = [
        {
            "weight": weight,
            "mean": _by_name(names, mean),
            "loadings": [_by_name(names, axis) for axis in loadings.T],
            "noise_variance": _by_name(names, noise),
        }
        for weight, mean, loadings, noise in parts
    ]
    return {
        "n_clusters": estimator.n_clusters_,
        "clusters": clusters,
        "notes": estimator.notes_,
        "criteria": estimator.criteria_.to_dict(),
        "degenerate_clusters": estimator.degenerate_clusters_,
        "log_likelihood": estimator.log_likelihood_,
        "bic": estimator.bic_,
        "icl": estimator.icl_,
    }


def _components_of(estimator: Any, table: Table) -> dict[str, Any]:
    """Components or factors, and how well they fit."""
    bayesian = isinstance(estimator, BayesianPCA)
    facts = _factor_facts if isinstance(estimator, FactorAnalysis) else _component_facts
    return {
        "explained_variance": estimator.explained_variance_,
        "explained_variance_ratio": estimator.explained_variance_ratio_,
        **facts(estimator, table),
        **({"lower_bound": estimator.lower_bound_} if bayesian else {"log_likelihood": estimator.log_likelihood_}),
    }


def _component_facts(estimator: Any, table: Table) -> dict[str, Any]:
    """What only models of principal components have."""
    names, scale = table.numbers, estimator.scale_
    return {
        "notes": [*estimator.notes_, *about_units(estimator.column_std_, names, "--standardize")],
        "components": [_by_name(names, axis) for axis in estimator.components_],
        "noise_variance": estimator.noise_variance_,
        "scale": None if scale is None else _by_name(names, scale),
    }


def _factor_facts(estimator: Any, table: Table) -> dict[str, Any]:
    """What only factor analysis has."""
    names, rotation = table.numbers, estimator.rotation_
    story = ("method", "matrix", "criterion", "converged", "n_iter")
    return {
        "notes": [*estimator.notes_, *about_factors(estimator, names)],
        "components": [_by_name(names, axis) for axis in estimator.components_],
        "standardized_loadings": [_by_name(names, factor) for factor in estimator.standardized_loadings_.T],
        "structure": [_by_name(names, factor) for factor in estimator.structure_.T],
        "factor_correlations": estimator.factor_correlations_,
        "rotation": {name: getattr(rotation, name) for name in story},
        "communalities": _by_name(names, estimator.communalities_),
        "uniquenesses": _by_name(names, estimator.uniquenesses_),
        "noise_variance": _by_name(names, estimator.noise_variance_),
        "heywood_columns": [names[j] for j in estimator.heywood_features_],
        "fit_indices": _index_facts(estimator),
    }


def _index_facts(estimator: Any) -> dict[str, Any] | None:
    """Fit indices; None if they are not known."""
    try:
        found: FitIndices = estimator.fit_indices()
    except DataError:
        return None
    return found.to_dict()


def _by_name(names: Sequence[str], values: Any) -> dict[str, float]:
    """Values of the columns by their names."""
    return dict(zip(names, values.tolist(), strict=True))


def _remarks(table: Table, found: Survey) -> list[str]:
    """Remarks on columns that may have been overlooked; those that --numbers names were not."""
    constants = found.constants(table.numbers)
    which = "columns {} have" if len(constants) > 1 else "column {} has"
    remarks = [f"{which.format(listed(constants))} the same value in every row."] if constants else []
    times = [name for name in table.numbers if is_time(name) and name not in table.chosen]
    if times:
        leave = shlex.join(["--exclude", *times])
        looks, it = ("look", "them") if len(times) > 1 else ("looks", "it")
        remarks.append(f"{listed(times)} {looks} like a date rather than a measurement; {leave} leaves {it} out.")
    for code, columns in found.coded(table.numbers).items():
        value = "value" if len(columns) == 1 else "values"
        remarks.append(f"{code} is the smallest {value} of {listed(columns)}; --missing {code} takes it as missing.")
    labels = table.about_labels()
    left = len(labels) - MOST_LABEL_REMARKS
    more = [f"{several(left, 'more column')} with such cells are used as labels."] if left > 0 else []
    return [*remarks, *labels[:MOST_LABEL_REMARKS], *more]


def _summary(estimator: Any, table: Table) -> str:
    """Summary of the fit; its note on units, if it has one, names the option instead of the parameter."""
    text = estimator.summary(table.numbers, width=screen_width())
    std, names = estimator.column_std_, table.numbers
    for said in about_units(std, names, "standardize=True"):
        text = text.replace(said, *about_units(std, names, "--standardize"))
    return text


def _about_table(table: Table, found: Survey) -> str:
    lines = [
        wrap(f"{table.place}: {several(found.n_rows, 'row')}, {several(len(table.numbers), 'numeric column')}"),
        fact("missing cells", _missing(table, found)),
    ]
    void = {column.name for column in table.columns if column.kind == "empty"}
    void |= {name for name, why in table.others.items() if why == "empty"}
    empty = [clip(name) for name in table.others if name in void and name]
    others = {name: why for name, why in table.others.items() if name not in void}
    unnamed = "" if "" not in table.names else f"column {table.names.index('') + 1}"
    labels = [f"{clip(name) or unnamed} ({why.split(':')[0]})" for name, why in others.items()]
    lines += [fact("label columns", listed(labels))] if labels else []
    lines += [fact("left out", f"{listed(empty)} (every cell is missing)")] if empty else []
    return "\n".join(lines)


def _missing(table: Table, found: Survey) -> str:
    lacking = found.n_rows - found.observed
    if not lacking.any():
        return "none"
    worst = int(lacking.argmax())
    cells = found.n_rows * found.observed.size
    text = f"{lacking.sum():,} of {cells:,} ({found.missing_share:.1%})"
    text += f", most in column {clip(table.numbers[worst])} ({lacking[worst] / found.n_rows:.1%})"
    return text + (f"; {several(found.n_empty, 'row')} without any value" if found.n_empty else "")


def on_screen(summary: str, estimator: Any) -> str:
    """Summary of a fit in lines of the screen, with a status that speaks of options instead of parameters.

    The rest may hold names of columns and is left alone.
    """
    summary = summary.replace(estimator.status_.value, _status(estimator))
    width, (first, *facts) = screen_width(), summary.splitlines()
    return "\n".join([wrap(first, "  "), *(line if len(line) <= width else wrap(line, " " * 18) for line in facts)])


def _status(estimator: Any) -> str:
    """How a fit ended, for people who give options on the command line."""
    status: Status = estimator.status_
    if status is Status.EXACT:
        return "exact maximum-likelihood solution"
    if status in (Status.CONVERGED, Status.BOUND_CONVERGED):
        return f"converged after {several(estimator.n_iter_, 'iteration')}"
    text = status.value.replace("max_iter", "--max-iter").replace(" or loosen tol", "")
    return text.replace("fix it, or use", "use").replace("; for PPCA of complete rows use solver='closed_form'", "")


def _next_steps(args: Any, table: Table, found: Survey, out: Path) -> str:
    model, rows = shell_file(out), shell_file(table.place) if table.stored else "-"
    ident = f" --id {shell_word(args.id)}" if args.id else ""
    steps = [f"probpca impute {model} {rows}{ident} --out completed.csv"] if found.missing_share else []
    steps += [f"probpca transform {model} {rows}{ident} --out clusters.csv"] if args.family == "mixture" else []
    steps += [
        f"probpca outliers {model} {rows}{ident}",
        f"probpca report {model} {rows}{ident} --out report.html",
    ]
    return "\n".join([f"The model was saved to {clip(str(out), 200)}. Next steps:", *(f"  {step}" for step in steps)])


def _select(args: Any) -> None:
    """Compute the criteria, and print what they choose."""
    plot = None if args.plot is None else place_for_plot(args)
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
        from probpca.displays.selection_display import SelectionDisplay  # noqa: PLC0415

        write_figure(SelectionDisplay.from_selection(selection).figure_, plot)
        args.written.append(plot)
    limit = [name for name, choice in selection.choices.items() if choice == args.max_components]
    if limit:
        note(f"{', '.join(limit)} chose the largest number considered; try a larger --max-components.")
    of_correlations = {c.name for c in selection.criteria} <= {"parallel", *OF_FACTORS}  # which have no units
    std = None if args.standardize or of_correlations else np.sqrt(rows.fold(ColumnSummary.of).variance)
    for text in [*_remarks(table, found), *about_units(std, table.numbers, "--standardize")]:
        note(text)
    if args.json:
        print_facts({"command": "select", **_facts(table, found), **_selection_facts(selection), "plot": plot})
        return
    print_answer("\n".join(map(_wrapped_choice, selection.table().text(screen_width()).splitlines())))
    best = _best(selection.choices)
    if best is not None:
        of_factors = selection.choices.keys() <= set(OF_FACTORS)
        options = f"{' --model fa' if of_factors else ''} --components {best}"
        options += _same_options(args, standardize=args.standardize and not of_factors)
        print_answer(f"\nNext step:\n  probpca fit {shell_word(args.table)}{options}")
    if plot is not None:
        print_answer(f"\nThe plot was saved to {printable_line(str(plot))}.")


def _wrapped_choice(line: str) -> str:
    """A line of the text of a selection; the sentence behind a criterion and its choice goes on below its start."""
    criterion = re.match(r"\w+ +(-|\d+)  (?=\S)", line)
    return line if line[:1] in ("", " ") else wrap(line, " " * (criterion.end() if criterion else 0))


def _best(choices: dict[str, int]) -> int | None:
    """Number to try first: the choice of parallel analysis, of cross-validation, or of most criteria."""
    if "cv" in choices or "parallel" in choices:
        return choices.get("parallel", choices.get("cv"))
    return Counter(choices.values()).most_common(1)[0][0] if choices else None


def _same_options(args: Any, *, standardize: bool) -> str:
    """Options that choose and scale columns, for the next command."""
    parts = ["--standardize"] if standardize else []
    parts += ["--id", args.id] if args.id else []
    parts += ["--exclude", *args.exclude] if args.exclude else []
    parts += ["--numbers", *args.numbers] if args.numbers else []
    parts += format_options(given_format(args))
    return "".join(f" {shell_word(part)}" for part in parts)


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
