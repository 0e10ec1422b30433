"""``probpca transform``: the place of each row on the components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from probpca.cli.answering import Batch, Opened, open_both
from probpca.cli.gathering import Least, finish, told_written
from probpca.cli.output import is_watched, place_for_table, watching
from probpca.cli.text import clip, wrap
from probpca.learning.progress import ProgressBar
from probpca.sources.files import arrow_module

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDS, TOLD = 3, 3
"""Rows at each end of a component, and components of which the ends are told."""


class Ends(NamedTuple):
    """The rows at both ends of one component."""

    low: Least
    high: Least

    def __str__(self) -> str:
        low = ", ".join(
            f"{clip(name)} {score:+.1f}" for name, score in zip(self.low.kept, self.low.scores, strict=True)
        )
        high = ", ".join(
            f"{clip(name)} {-score:+.1f}" for name, score in zip(self.high.kept, self.high.scores, strict=True)
        )
        return f"{low}  ...  {high}"


def run(args: Any) -> None:
    """Write the components of each row, or show some of them."""
    place = place_for_table(args)
    opened = open_both(args)
    q = opened.fitted.estimator.n_components_
    ends = [Ends(Least(ENDS), Least(ENDS)) for _ in range(min(q, TOLD))]
    with ProgressBar(enabled=is_watched()) as bar:

        def question(batch: Batch) -> Any:
            return batch, opened.fitted.estimator.transform(batch.values)

        batches = _answers(opened, opened.ask(question, watching(bar)), ends)
        head = finish(args, place, batches, lambda: {"n_components": q})
    if head is None:
        return
    if not place:
        print(head.text(), end="\n\n")
    print(wrap("Where the components end (posterior mean, in standard deviations of the prior)"))
    for j, end in enumerate(ends, 1):
        print(wrap(f"  {j}: {end}", "     "))
    if place:
        print(f"\n{told_written(place, head.n_rows)}")


def _answers(opened: Opened, asked: Iterator[Any], ends: list[Ends]) -> Iterator[Any]:
    arrow = arrow_module("probpca.sources.arrow_tables")
    names = opened.fresh([f"component_{j + 1}" for j in range(opened.fitted.estimator.n_components_)])
    for batch, latent in asked:
        labels = opened.labels(batch)
        for end, z in zip(ends, latent.T, strict=False):
            end.low.take(z, labels.__getitem__)
            end.high.take(-z, labels.__getitem__)
        yield arrow.with_columns(opened.others(batch), dict(zip(names, latent.T, strict=True)))
