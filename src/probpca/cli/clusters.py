"""The cluster of each row, with its probability: ``probpca transform`` for a mixture."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.cli.run import Least, finish, shown_progress, written
from probpca.cli.screen import print_answer
from probpca.cli.text import counts, numbers, table, words, wrap
from probpca.result_tables import several
from probpca.sources.write import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from probpca.cli.run import Head, Opened
    from probpca.typing import Floats

SURE = 0.9
"""Rows whose most probable cluster has a smaller probability may belong to several."""
UNSURE_ROWS = 5
"""Rows that are shown as those with the least certain cluster."""


@dataclass
class Assignment:
    """Clusters of rows, block by block; the sizes of the clusters and the least certain rows are remembered."""

    opened: Opened
    unsure: Least = field(default_factory=partial(Least, UNSURE_ROWS))
    names: list[str] = field(init=False)  # of the columns that are added
    sizes: Any = field(init=False)  # rows of each cluster: (K,)
    n_unsure: int = 0

    def __post_init__(self) -> None:
        """Find names that the table does not have."""
        estimator = self.opened.fitted.estimator
        chances = [f"C{k}" for k in range(estimator.n_clusters_)]
        self.names = self.opened.fresh(["cluster", *chances, *estimator.get_feature_names_out()])
        self.sizes = np.zeros(estimator.n_clusters_, dtype=np.intp)

    def question(self, values: Floats) -> tuple[Any, Any]:
        """Probabilities of the clusters, and scores in them."""
        estimator = self.opened.fitted.estimator
        return estimator.predict_proba(values), estimator.transform(values)

    def batches(self, watch: Any) -> Iterator[Any]:
        """Record batches of labels, clusters, their probabilities, and scores in each cluster."""
        for answer in self.opened.ask(self.question, watch):
            share, scores = answer.found
            cluster, largest = share.argmax(axis=1), share.max(axis=1)
            self.sizes += np.bincount(cluster, minlength=self.sizes.size)
            self.n_unsure += int((largest < SURE).sum())
            labels = self.opened.labels(answer)
            self.unsure.offer(largest, list(zip(labels, share, strict=True)))
            found = [cluster, *share.T, *scores.T]
            yield batch_of({**self.opened.carried(answer.block), **dict(zip(self.names, found, strict=True))})

    def first_rows(self, head: Head) -> str:
        """Clusters of the first rows, with their probabilities; files have the scores too."""
        cluster, *chances = self.names[: 1 + self.sizes.size]
        label = self.opened.label
        shown = {} if label is None or label not in head.columns else {label: self.opened.shown(head.columns[label])}
        shown[cluster] = [f"C{k}" for k in head.columns[cluster]]
        shown |= {name: [f"{share:.3f}" for share in head.columns[name]] for name in chances}
        return replace(head, columns=shown).text()

    def facts(self) -> dict[str, Any]:
        """Facts for programs."""
        return {
            "n_clusters": self.sizes.size,
            "n_components": self.opened.fitted.estimator.n_components_,
            "cluster_rows": self.sizes,
            "unsure_rows": self.n_unsure,
            "unsure_below": SURE,
        }

    def summary(self) -> str:
        """Sizes of the clusters, and the rows whose cluster is least certain."""
        weights = self.opened.fitted.estimator.weights_
        sizes = table(
            [
                words("cluster", [f"C{k}" for k in range(self.sizes.size)]),
                words("weight", [f"{weight:6.1%}" for weight in weights]),
                counts("rows", self.sizes.tolist()),
            ]
        )
        rows = int(self.sizes.sum())
        if not self.n_unsure:
            sure = f"Each of {several(rows, 'row')} belongs to its cluster with a probability of {SURE:g} or more."
            return f"{sizes}\n\n{wrap(sure)}"
        unsure = (
            f"{self.n_unsure:,} of {several(rows, 'row')} may belong to several clusters: the largest probability is "
            f"below {SURE:g}. The least certain:"
        )
        shown = [(label, share) for label, share in self.unsure.kept if share.max() < SURE]
        best = [np.argsort(-share, kind="stable")[:2] for _, share in shown]
        columns = [words("row", [label for label, _ in shown])]
        for place, title in enumerate(("most probable", "next")):
            columns += [
                words(title, [f"C{order[place]}" for order in best]),
                numbers("probability", [share[order[place]] for (_, share), order in zip(shown, best, strict=True)]),
            ]
        return f"{sizes}\n\n{wrap(unsure)}\n{table(columns)}"


def assign(args: Any, place: Path | None, opened: Opened) -> None:
    """Write the cluster of each row, its probabilities and scores, or show some of them."""
    assignment = Assignment(opened)
    with shown_progress() as watch:
        head = finish(args, place, assignment.batches(watch), assignment.facts)
    if head is None:
        return
    if not place:
        print_answer(assignment.first_rows(head), end="\n\n")
    print_answer(assignment.summary())
    if place:
        print_answer(f"\n{written(place, head.n_rows)}")
