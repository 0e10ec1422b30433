"""``probpca report`` and ``probpca explorer``: pages to look at."""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from probpca.cli.answering import Batch, Opened, open_both
from probpca.cli.output import is_watched, note, place_for, print_json, watching
from probpca.cli.text import several
from probpca.learning.progress import ProgressBar

HELD_CELLS = 2**25
"""Cells that a page is made of at most; of larger tables rows are left out at equal distances."""


class Gathered(NamedTuple):
    """Rows that are held in memory."""

    values: Any  # (n, d)
    numbers: Any  # in the file, counted from 1: (n,)
    labels: list[Any]  # None for rows without one
    every: int  # one of so many rows was kept


def run(args: Any) -> None:
    """Write the page, and say where it is."""
    out = place_for(args.out, force=args.force, reads=[args.model, args.table], suffixes=(".html", ".htm"))
    opened = open_both(args)
    with ProgressBar(enabled=is_watched()) as bar:
        rows = _gather(opened, watching(bar))
    title = args.title
    if rows.every > 1:
        note(f"the table is large: the page is made of one row in {rows.every:,}.")
        title = title or f"One row in {rows.every:,} of {opened.table.place.name}"
    options = {"labels": rows.labels, "row_numbers": rows.numbers, "title": title}
    options["feature_names"] = list(opened.fitted.features)
    if args.command == "explorer":
        options["image_shape"] = None if args.image_shape is None else tuple(args.image_shape)
    write = getattr(import_module(f"probpca.pages.{args.command}"), args.command)
    page = write(opened.fitted.estimator, rows.values, out, **options)
    if args.json:
        print_json({"command": args.command, "rows": len(rows.values), "out": page})
        return
    print(f"{page}: {several(len(rows.values), 'row')}, one file; open it in a browser")


def _gather(opened: Opened, watch: Any) -> Gathered:
    """The rows; whenever they become too many, every second one is dropped."""
    every, parts = 1, list[tuple[Any, list[Any], Any]]()

    def question(batch: Batch) -> tuple[Any, list[Any], Any]:
        return batch.values, opened.given_labels(batch), np.arange(batch.start, batch.start + len(batch.values))

    for part in opened.ask(question, watch):
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
