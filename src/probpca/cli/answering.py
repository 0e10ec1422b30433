"""Questions to a model about the rows of a file, batch by batch, with what goes along with them."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.cli.models import Fitted, open_model
from probpca.cli.output import note
from probpca.cli.tables import Table, matched, open_table, row_names
from probpca.displays.inputs import text_of
from probpca.errors import DataError
from probpca.sources.engines.local import map_blocks, resolve_jobs
from probpca.sources.files import arrow_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from probpca.sources.source import Watch
    from probpca.typing import Floats


class Batch(NamedTuple):
    """Some rows of a file."""

    start: int  # rows before them
    columns: Any  # a record batch: everything, as it stands there
    values: Floats  # what the model sees: (b, d)


class Opened(NamedTuple):
    """A model and a table that belong together."""

    fitted: Fitted
    table: Table
    rows: Any  # ArrowTable
    label: str | None  # the column that names rows

    def ask(self, question: Callable[[Batch], Any], watch: Watch | None = None) -> Iterator[Any]:
        """Ask of every batch, in threads; the answers in order."""
        jobs = resolve_jobs(self.fitted.estimator.n_jobs)
        _ = self.fitted.estimator.model_.covariance.whitened  # once, before workers would each compute it
        return map_blocks(partial(_asked, self, question), _numbered(self.rows.batches(watch), self), jobs)

    def others(self, batch: Batch) -> Any:
        """The columns that go along."""
        return batch.columns.select(self.rows.others)

    def labels(self, batch: Batch) -> list[Any]:
        """Names of rows; their numbers, counted from 1, where they have none."""
        found = enumerate(self.given_labels(batch), batch.start + 1)
        return [label if text_of(label) else f"row {number:,}" for number, label in found]

    def given_labels(self, batch: Batch) -> list[Any]:
        """Names of rows as they stand in the table; None for all if there is no column of them."""
        if self.label is None:
            return [None] * len(batch.values)
        found: list[Any] = batch.columns.column(self.label).to_pylist()
        return found

    def fresh(self, names: Sequence[str]) -> list[str]:
        """Names of new columns that no column of the table has."""
        return fresh(names, self.rows.schema.names)


def fresh(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names, longer where that is needed for each to be there once."""
    known, out = set(taken), []
    for name in names:
        while name in known:
            name += "_"  # noqa: PLW2901
        known.add(name)
        out.append(name)
    return out


def open_both(args: Any) -> Opened:
    """The model and the table of a command."""
    fitted = open_model(args.model, args.jobs)
    table = open_table(args.table)
    names = matched(table, fitted.names, fitted.estimator.model_.n_features)
    if (fitted.names is None) == table.named:
        which = "the table" if fitted.names else "the model"
        note(f"columns of {which} have no names; they are taken in their order.")
    rows = arrow_module("probpca.sources.arrow_tables").ArrowTable.of(table.place, names)
    return Opened(fitted, table, rows, row_names(table, names, args.id))


def _numbered(batches: Iterator[Any], opened: Opened) -> Iterator[tuple[int, Any]]:
    first = next(batches, None)
    if first is None:
        msg = f"{opened.table.place} has no rows."
        raise DataError(msg)
    start = 0
    for batch in chain([first], batches):
        yield start, batch
        start += batch.num_rows


def _asked(opened: Opened, question: Callable[[Batch], Any], numbered: tuple[int, Any]) -> Any:
    start, columns = numbered
    values = opened.rows.values(columns)
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        row, column = infinite[0]
        name = opened.rows.layout.names[column]
        msg = (
            f"{opened.table.place}, row {start + row + 1:,}, column {name!r} holds an infinite number.\n"
            "Hint: leave the cell empty if it is missing."
        )
        raise DataError(msg)
    return question(Batch(start, columns, values))
