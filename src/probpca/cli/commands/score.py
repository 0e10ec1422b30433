"""``probpca score``: the log-likelihood of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probpca.cli.answering import Batch, Opened, open_both
from probpca.cli.gathering import Least, finish, told_written
from probpca.cli.output import is_watched, place_for_table, watching
from probpca.cli.text import numbers, table, words
from probpca.learning.progress import ProgressBar
from probpca.sources.files import arrow_module

if TYPE_CHECKING:
    from collections.abc import Iterator

LOWEST = 5


@dataclass
class Scores:
    """Sums over all rows, and the least probable of them."""

    opened: Opened
    least: Least
    total: float = 0.0
    n_rows: int = 0

    def question(self, batch: Batch) -> Any:
        """Of one batch."""
        return batch, self.opened.fitted.estimator.score_samples(batch.values)

    def answers(self, asked: Iterator[Any]) -> Iterator[Any]:
        """Labels and scores."""
        arrow = arrow_module("probpca.sources.arrow_tables")
        name = self.opened.fresh(["log_likelihood"])[0]
        for batch, scores in asked:
            labels = self.opened.labels(batch)
            self.least.take(scores, labels.__getitem__)
            self.total += float(scores.sum())
            self.n_rows += len(scores)
            yield arrow.with_columns(self.opened.others(batch), {name: scores})

    def facts(self) -> dict[str, Any]:
        """What programs are told."""
        return {"log_likelihood": self.total, "mean_log_likelihood": self.total / self.n_rows}


def run(args: Any) -> None:
    """Write the score of each row, or say how the table does as a whole."""
    place = place_for_table(args)
    opened = open_both(args)
    scores = Scores(opened, Least(LOWEST))
    with ProgressBar(enabled=is_watched()) as bar:
        batches = scores.answers(opened.ask(scores.question, watching(bar)))
        head = finish(args, place, batches, scores.facts)
    if head is None:
        return
    print(f"{'log-likelihood':<18}{scores.total:,.2f}  ({scores.total / scores.n_rows:.4f} a row)")
    print("\nThe least probable rows")
    print(table([words("row", scores.least.kept), numbers("log-likelihood", scores.least.scores)]))
    if place:
        print(f"\n{told_written(place, head.n_rows)}")
