"""``probpca report`` and ``probpca explorer``: HTML pages about a table and its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.run import Opened, open_both, place_for, print_facts, shown_progress
from probpca.cli.screen import print_answer
from probpca.cli.table import require_column
from probpca.cli.text import note, wrap
from probpca.displays.inputs import numbers_in, text_of
from probpca.errors import DataError
from probpca.result_tables import several
from probpca.sources.engines.local import itself
from probpca.sources.files import is_identifier, is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

HELD_CELLS = 2**25
"""Largest number of cells on a page; of larger tables every second, fourth, ... row is shown."""
MISSING_MARKS = frozenset({"NA", "N/A", "NaN", "nan", "NULL", "null"})
"""Text that means a missing cell in a column of categories."""
FEW_VALUES = 12
"""Number of distinct numbers up to which a column of numbers holds categories."""


class Gathered(NamedTuple):
    """Rows that are held in memory."""

    values: Any  # (n, d)
    numbers: Any  # in the file, counted from 1: (n,)
    others: dict[str, Any]  # columns that the model does not see, by name: (n,) each
    every: int  # one row in this many was kept


class Labels(NamedTuple):
    """What the other columns of a table say about its rows."""

    names: Any  # of the rows; None if no column names them
    groups: dict[str, Any]  # columns that colour the rows; the one to show first comes first


def run(args: Any) -> None:
    """Write the page, and print its name."""
    out = place_for(args.out, force=args.force, reads=[args.model, args.table], suffixes=(".html", ".htm"))
    opened = open_both(args)
    if args.command == "explorer" and opened.fitted.is_mixture:
        msg = (
            f"the explorer needs components that all rows share; {args.model} holds a mixture, with components "
            "of its own in each cluster.\nHint: probpca report shows the clusters of the rows."
        )
        raise DataError(msg)
    if args.color_by is not None:
        require_column(opened.table, args.color_by)
    with shown_progress() as watch:
        rows = _gather(opened, watch)
    title = args.title or opened.table.place.name
    if rows.every > 1:
        note(f"the table is large: the page shows one row in {rows.every:,}.")
        title = args.title or f"{title}: one row in {rows.every:,}"
    labels = _labels(opened, rows, args)
    options = {"labels": labels.names, "groups": labels.groups, "row_numbers": rows.numbers, "title": title}
    options["feature_names"] = list(opened.fitted.features)
    if args.command == "explorer":
        options["image_shape"] = None if args.image_shape is None else tuple(args.image_shape)
    else:
        options["training"] = opened.training
    page = _writer(args.command)(opened.fitted.estimator, rows.values, out, **options)
    args.written.append(page)
    _answer(args, page, rows, labels, opened)


def _answer(args: Any, page: Path, rows: Gathered, labels: Labels, opened: Opened) -> None:
    if args.json:
        facts = {} if args.command == "explorer" else {"training": opened.training}
        groups = list(labels.groups)
        print_facts({"command": args.command, "rows": len(rows.values), **facts, "groups": groups, "out": page})
        return
    print_answer(
        wrap(f"The {args.command} on {several(len(rows.values), 'row')} was written to {page}: open it in a browser.")
    )
    if labels.groups:
        print_answer(wrap(f"Rows can be coloured by {', '.join(labels.groups)}."))
    if args.command == "report":
        print_answer(wrap(opened.judged))


def _labels(opened: Opened, rows: Gathered, args: Any) -> Labels:
    """Which column names the rows, and which columns group them.

    A column with different values in most rows names rows and groups none; ``--id`` and ``--color-by`` overrule this.
    """
    groups = {name: rows.others[name] for name in opened.others if _is_group(name, rows.others[name], rows.numbers)}
    names = opened.label
    if args.id is None:
        naming = [*filter(None, [names]), *(name for name, values in rows.others.items() if numbers_in(values) is None)]
        names = next((name for name in naming if _tells_apart(rows.others[name])), None)
    if names is not None:
        groups.pop(names, None)
    if args.color_by is not None:
        groups = {args.color_by: _column(opened, rows, args.color_by), **groups}
    return Labels(None if names is None else [_whole(value) for value in rows.others[names]], groups)


def _whole(value: Any) -> Any:
    """A number that names a row, such as a year, without a decimal mark if it is whole."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _column(opened: Opened, rows: Gathered, name: str) -> Any:
    """A column that colours the rows: one that the model does not see, or one of its features."""
    return rows.others[name] if name in rows.others else rows.values[:, opened.features.index(name)].tolist()


def _is_group(name: str, values: Sequence[Any], row_numbers: Any) -> bool:
    """Whether a column groups rows: text or numbers that repeat, or numbers that may be drawn on a scale."""
    numbers = numbers_in(values)
    texts = [text for value in values if (text := text_of(value))]
    distinct = len(set(texts))
    if distinct < 2:
        return False
    if numbers is None or distinct <= FEW_VALUES:
        return 2 * distinct <= len(texts)
    counts_rows = (np.diff(numbers) == np.diff(row_numbers)).all()
    return not counts_rows and not is_identifier(name)


def _tells_apart(values: Sequence[Any]) -> bool:
    """Whether a column has different values in most rows."""
    texts = [text for value in values if (text := text_of(value))]
    return 2 * len(set(texts)) > len(texts)


def _writer(command: str) -> Callable[..., Path]:
    """The function that writes the page; its libraries are imported for this command only."""
    if command == "explorer":
        from probpca.pages.explorer import explorer  # noqa: PLC0415

        return explorer
    from probpca.pages.report import report  # noqa: PLC0415

    return report


def _gather(opened: Opened, watch: Any) -> Gathered:
    """Hold the rows; whenever they become too many, drop every second one."""
    every, parts = 1, list[Gathered]()
    carried = dict.fromkeys([*opened.others, *filter(None, [opened.label])])
    for answer in opened.ask(itself, watch):
        others = {name: answer.block.others.column(name).to_pylist() for name in carried}
        parts.append(_thinned(Gathered(answer.found, answer.row_numbers, others, 1), every))
        while sum(part.values.size for part in parts) > HELD_CELLS:
            every *= 2
            parts = [_thinned(part, every) for part in parts]
    values, numbers = (np.concatenate(found) for found in ([p.values for p in parts], [p.numbers for p in parts]))
    numeric = {column.name for column in opened.table.columns if column.kind == "numbers" and not column.why}
    others = {name: [value for part in parts for value in part.others[name]] for name in carried}
    others = {name: _as_numbers(column) if name in numeric else _as_text(column) for name, column in others.items()}
    return Gathered(values, numbers, others, every)


def _as_numbers(column: list[Any]) -> list[Any]:
    """Numbers in a column of text; the column as it is if one of its cells is not a number."""
    texts = [value for value in column if isinstance(value, str) and value.strip()]
    if not texts or not all(map(is_number, texts)):
        return column
    return [float(value) if text_of(value) else None for value in column]


def _as_text(column: list[Any]) -> list[Any]:
    """A column without marks of missing cells, which become None."""
    return [None if isinstance(value, str) and value.strip() in MISSING_MARKS else value for value in column]


def _thinned(part: Gathered, every: int) -> Gathered:
    kept = np.flatnonzero((part.numbers - 1) % every == 0)
    others: Mapping[str, Any] = {name: [column[i] for i in kept] for name, column in part.others.items()}
    return Gathered(part.values[kept], part.numbers[kept], dict(others), every)
