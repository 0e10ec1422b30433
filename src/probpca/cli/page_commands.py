"""``probpca report`` and ``probpca explorer``: HTML pages about a table and its model."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.run import Opened, open_both, place_for, print_json, shown_progress
from probpca.cli.text import note, wrap
from probpca.result_tables import several
from probpca.sources.engines.local import itself

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HELD_CELLS = 2**25
"""Largest number of cells on a page; of larger tables every second, fourth, ... row is shown."""


class Gathered(NamedTuple):
    """Rows that are held in memory."""

    values: Any  # (n, d)
    numbers: Any  # in the file, counted from 1: (n,)
    labels: list[Any]  # None for rows without one
    every: int  # one row in this many was kept


def run(args: Any) -> None:
    """Write the page, and print its name."""
    out = place_for(args.out, force=args.force, reads=[args.model, args.table], suffixes=(".html", ".htm"))
    opened = open_both(args)
    with shown_progress() as watch:
        rows = _gather(opened, watch)
    title = args.title
    if rows.every > 1:
        note(f"the table is large: the page shows one row in {rows.every:,}.")
        title = title or f"One row in {rows.every:,} of {opened.table.place.name}"
    options = {"labels": rows.labels, "row_numbers": rows.numbers, "title": title}
    options["feature_names"] = list(opened.fitted.features)
    if args.command == "explorer":
        options["image_shape"] = None if args.image_shape is None else tuple(args.image_shape)
    else:
        options["training"] = opened.training
    page = _writer(args.command)(opened.fitted.estimator, rows.values, out, **options)
    if args.json:
        facts = {} if args.command == "explorer" else {"training": opened.training}
        print_json({"command": args.command, "rows": len(rows.values), **facts, "out": page})
        return
    print(
        wrap(f"The {args.command} on {several(len(rows.values), 'row')} was written to {page}: open it in a browser.")
    )
    if args.command == "report":
        print(wrap(opened.judged))


def _writer(command: str) -> Callable[..., Path]:
    """The function that writes the page; its libraries are imported for this command only."""
    if command == "explorer":
        from probpca.pages.explorer import explorer  # noqa: PLC0415

        return explorer
    from probpca.pages.report import report  # noqa: PLC0415

    return report


def _gather(opened: Opened, watch: Any) -> Gathered:
    """Hold the rows; whenever they become too many, drop every second one."""
    every, parts = 1, list[tuple[Any, list[Any], Any]]()
    for answer in opened.ask(itself, watch):
        part = answer.found, opened.given_labels(answer.block), answer.row_numbers - 1
        parts.append(_thinned(part, every))
        while sum(values.size for values, _, _ in parts) > HELD_CELLS:
            every *= 2
            parts = [_thinned(kept, every) for kept in parts]
    values, labels, numbers = zip(*parts, strict=True)
    return Gathered(np.concatenate(values), 1 + np.concatenate(numbers), list(chain.from_iterable(labels)), every)


def _thinned(part: tuple[Any, list[Any], Any], every: int) -> tuple[Any, list[Any], Any]:
    values, labels, numbers = part
    kept = np.flatnonzero(numbers % every == 0)
    return values[kept], [labels[i] for i in kept], numbers[kept]
