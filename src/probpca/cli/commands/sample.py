"""``probpca sample``: new rows, drawn from a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from probpca.cli.gathering import finish, told_written
from probpca.cli.models import Fitted, open_model
from probpca.cli.output import place_for_table
from probpca.sources.files import arrow_module

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 100_000
"""Rows that are drawn at a time."""


def run(args: Any) -> None:
    """Draw rows and write or show them."""
    place = place_for_table(args)
    fitted = open_model(args.model)
    head = finish(args, place, _draws(fitted, args.rows, args.seed), lambda: {"seed": args.seed})
    if head is not None:
        print(told_written(place, head.n_rows) if place else head.text())


def _draws(fitted: Fitted, n: int, seed: int) -> Iterator[Any]:
    """Pieces of a long sample have seeds of their own; the first is that of the library."""
    arrow = arrow_module("probpca.sources.arrow_tables")
    for k, start in enumerate(range(0, n, PIECE)):
        rows = fitted.estimator.sample(min(PIECE, n - start), random_state=(seed + k * 7919) % 2**32)
        yield arrow.batch_of(dict(zip(fitted.features, rows.T, strict=True)))
