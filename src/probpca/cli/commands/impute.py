"""``probpca impute``: a table with its missing cells filled in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.answering import Batch, Opened, open_both
from probpca.cli.gathering import finish, told_written
from probpca.cli.output import SCREEN, is_watched, place_for_table, watching
from probpca.cli.text import numbers, several, table, words, wrap
from probpca.learning.progress import ProgressBar
from probpca.sources.files import arrow_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.typing import Array

SHOWN, OF_A_ROW = 20, 3
"""Cells that are shown without --out, and those of one row."""


class Cell(NamedTuple):
    """One cell that was filled in."""

    row: Any
    column: str
    value: float
    low: float
    high: float


class Completed(NamedTuple):
    """A batch of completed rows."""

    batch: Batch
    values: Array  # (b, d)
    low: Array | None
    high: Array | None


@dataclass
class Filling:
    """Fills in, and remembers the first cells and how many there were."""

    opened: Opened
    level: float
    unsure: bool  # are intervals wanted?
    n_cells: int = 0
    n_rows: int = 0  # with a cell that was missing
    cells: list[Cell] = field(default_factory=list)

    def question(self, batch: Batch) -> Completed:
        """Of one batch."""
        estimator = self.opened.fitted.estimator
        low, high = estimator.impute_interval(batch.values, self.level) if self.unsure else (None, None)
        return Completed(batch, estimator.impute(batch.values), low, high)

    def answers(self, asked: Iterator[Completed], *, intervals: bool) -> Iterator[Any]:
        """All columns in their places, and intervals behind them."""
        arrow = arrow_module("probpca.sources.arrow_tables")
        names, kept = self.opened.rows.layout.names, self.opened.rows.complete()
        ends = self.opened.fresh([f"{name}_{end}" for name in names for end in ("low", "high")]) if intervals else []
        for done in asked:
            self._remember(done)
            columns = {name: values for name, values in zip(names, done.values.T, strict=True) if name not in kept}
            batch = arrow.filled(done.batch.columns, columns, self.opened.rows.schema)
            if ends and done.low is not None and done.high is not None:
                lows, highs = zip(ends[::2], done.low.T, strict=True), zip(ends[1::2], done.high.T, strict=True)
                batch = arrow.with_columns(batch, dict([*lows, *highs])).select([*batch.schema.names, *ends])
            yield batch

    def facts(self) -> dict[str, Any]:
        """What programs are told."""
        return {"filled_cells": self.n_cells, "filled_rows": self.n_rows}

    def _remember(self, done: Completed) -> None:
        missing = np.isnan(done.batch.values)
        self.n_cells += int(missing.sum())
        self.n_rows += int(missing.any(axis=1).sum())
        if done.low is None or done.high is None or len(self.cells) >= SHOWN:
            return
        labels, names = self.opened.labels(done.batch), self.opened.rows.layout.names
        some = missing & (np.cumsum(missing, axis=1) <= OF_A_ROW)
        for i, j in np.argwhere(some)[: SHOWN - len(self.cells)]:
            ends = done.low[i, j], done.high[i, j]
            self.cells.append(Cell(labels[i], names[j], done.values[i, j], *map(float, ends)))


def run(args: Any) -> None:
    """Write the completed table, or show what was filled in."""
    place = place_for_table(args)
    opened = open_both(args)
    shown = place is None and args.out != SCREEN and not args.json
    filling = Filling(opened, args.level, unsure=args.intervals or shown)
    with ProgressBar(enabled=is_watched()) as bar:
        asked = opened.ask(filling.question, watching(bar))
        head = finish(args, place, filling.answers(asked, intervals=args.intervals), filling.facts)
    if head is None:
        return
    share = filling.n_cells / (head.n_rows * len(opened.rows.layout.names))
    cells = f"{several(filling.n_cells, 'cell')} of {several(filling.n_rows, 'row')}"
    print(wrap(f"{cells} filled in ({share:.1%} of all)"))
    if place:
        print(told_written(place, head.n_rows))
    elif filling.cells:
        print(f"\n{_told(filling)}")


def _told(filling: Filling) -> str:
    rows, columns, values, low, high = zip(*filling.cells, strict=True)
    level = f"{100 * filling.level:g} %"
    shown = [words("row", rows), words("column", columns), numbers("filled in", values)]
    text = table([*shown, numbers(f"{level} from", low), numbers("to", high)])
    left = filling.n_cells - len(filling.cells)
    more = f"... and {several(left, 'more cell')}\n" if left else ""
    return f"{text}\n{more}{wrap('--out FILE writes the completed table, with --intervals the intervals too')}"
