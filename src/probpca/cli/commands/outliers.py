"""``probpca outliers``: the rows that are hard to believe, and the cells to blame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.cli.answering import Batch, Opened, open_both
from probpca.cli.gathering import LeastRows, finish, told_written
from probpca.cli.output import is_watched, place_for_table, watching
from probpca.cli.text import GAP, TextColumn, clip, counts, left_of, numbers, several, table, words, wrap
from probpca.learning.progress import ProgressBar
from probpca.sources.files import arrow_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.inference import Outliers

GUILTY = 3
"""Cells of a row that are named."""
SHOWN = 10
RARE = 0.001
NAMES = ("row", "D2", "T2", "residual", "p_value", "log10_p")


@dataclass
class Judging:
    """Judges rows, counts those that are rare, and remembers the worst."""

    opened: Opened
    worst: LeastRows
    names: list[str] = field(init=False)  # of the columns that are added
    n_rows: int = 0
    n_rare: int = 0

    def __post_init__(self) -> None:
        """Find names that the table does not have."""
        cells = [f"{what}_{k + 1}" for k in range(GUILTY) for what in ("cell", "z")]
        self.names = self.opened.fresh([*NAMES, *cells])

    def question(self, batch: Batch) -> Any:
        """Of one batch: row numbers and what was found, column by column."""
        found: Outliers = self.opened.fitted.estimator.outliers(batch.values)
        features = np.array(self.opened.fitted.features, dtype=object)
        rows = np.arange(batch.start + 1, batch.start + len(batch.values) + 1)
        columns: list[Any] = [rows, found.distance, found.latent_distance, found.residual_distance, found.p_value]
        columns.append(found.log10_p_value)
        blame = np.nan_to_num(np.abs(found.cell_scores), nan=-1.0)
        for place in np.argsort(-blame, axis=1, kind="stable")[:, :GUILTY].T:
            z = np.take_along_axis(found.cell_scores, place[:, None], axis=1)[:, 0]
            columns += [np.where(np.isnan(z), None, features[place]), z]
        return batch, dict(zip(self.names, columns, strict=False))

    def answers(self, asked: Iterator[Any]) -> Iterator[Any]:
        """Row numbers, labels and what was found, in the order of the table."""
        arrow = arrow_module("probpca.sources.arrow_tables")
        for batch, columns in asked:
            p, log_p = columns[self.names[4]], columns[self.names[5]]
            self.n_rows += len(p)
            self.n_rare += int((p < RARE).sum())
            numbered = arrow.batch_of({self.names[0]: columns[self.names[0]]})
            others = self.opened.others(batch)
            carried = {name: others.column(name) for name in others.schema.names}
            out = arrow.with_columns(numbered, {**carried, **columns})
            self.worst.take(log_p, out)
            yield out

    def facts(self) -> dict[str, Any]:
        """What programs are told."""
        return {"judged_rows": self.n_rows, "rare_rows": self.n_rare, "rare_below": RARE}


def run(args: Any) -> None:
    """Write what was found of each row, or show the worst."""
    place = place_for_table(args)
    opened = open_both(args)
    judging = Judging(opened, LeastRows(args.top or SHOWN))
    with ProgressBar(enabled=is_watched()) as bar:
        batches = judging.answers(opened.ask(judging.question, watching(bar)))
        head = finish(args, place, batches if args.top is None else _sorted(judging, batches), judging.facts)
    if head is None:
        return
    chance = RARE * judging.n_rows
    rare = f"{judging.n_rare:,} of {several(judging.n_rows, 'row')} have a p-value below {RARE}"
    print(wrap(f"{rare}; {chance:.2g} would by chance"), end="\n\n")
    print(_told(judging, SHOWN if place else judging.worst.count))
    if place:
        print(f"\n{told_written(place, head.n_rows)}")


def _sorted(judging: Judging, batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        pass
    yield judging.worst.rows


def _told(judging: Judging, most: int) -> str:
    """The worst rows as a table."""
    arrow, names = arrow_module("probpca.sources.arrow_tables"), judging.names
    rows = arrow.as_lists(judging.worst.rows.slice(0, most))
    label = judging.opened.label
    if label in judging.opened.fitted.features:
        label = None  # a feature that was asked for; its cell is among those that may be named
    shown = [counts(names[0], rows[names[0]])]
    shown += [words(label or "(no name)", rows[label])] if label is not None else []
    shown += [numbers(name, rows[name]) for name in (names[5], names[1])]
    blamed = _blamed([rows[name] for name in names[6:] if name in rows], left_of(shown))
    rest = [numbers(name, rows[name]) for name in names[2:4]]
    fit = sum(column.width + GAP for column in rest) <= left_of([*shown, blamed]) + GAP
    return table([*shown, blamed, *rest] if fit else [*shown, blamed])


def _blamed(columns: list[list[Any]], room: int) -> TextColumn:
    """The cells to blame for each row, as many as there is room for."""
    for most in range(GUILTY, 0, -1):
        blamed = [_cells(line[: 2 * most]) for line in zip(*columns, strict=True)]
        column = TextColumn("cells to blame (sd)", blamed, right=False)
        if column.width <= room:
            break
    return column


def _cells(line: tuple[Any, ...]) -> str:
    pairs = zip(line[::2], line[1::2], strict=True)
    return ", ".join(f"{clip(cell)} {z:+.1f}" for cell, z in pairs if cell is not None)
