"""What criteria say about the number of components, each by itself and together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.learning.choice.wording import agreement_of, printed
from probpca.learning.selection import RULES

if TYPE_CHECKING:
    from probpca.typing import Array, Index

UNITS = {
    "bic": "nats",
    "evidence": "nats",
    "cv": "nats a cell",
    "ard": "",
    "parallel": "of its quantile",
    "gavish_donoho": "of the threshold",
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """One criterion: its curve and what follows from it.

    Scores are the larger the better: nats for "bic" and "evidence", nats a cell for "cv", and for "parallel" and
    "gavish_donoho" how far an eigenvalue or singular value is above what noise alone would give, which is 1. "ard"
    has no curve.
    """

    name: str
    choice: int | None = None  # the number of components; None: does not apply
    n_components: Index = field(default_factory=lambda: np.empty(0, np.intp))  # 1, 2, ...: (m,)
    score: Array = field(default_factory=lambda: np.empty(0))  # (m,)
    standard_error: Array | None = None  # of the difference from the best score: (m,)
    note: str = ""  # why it does not apply, or what else there is to know

    @property
    def rule(self) -> str:
        """Its name in words."""
        return RULES[self.name]

    @property
    def unit(self) -> str:
        """What its scores are measured in."""
        return UNITS[self.name]

    @property
    def in_nats(self) -> bool:
        """Do only differences of its scores mean something?"""
        return self.unit.startswith("nats")

    @property
    def shown(self) -> Array:
        """Scores as a person wants them: differences from the best, or ratios: (m,)."""
        return self.score - self.score.max() if self.in_nats and self.score.size else self.score


@final
@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What several criteria say about the number of components.

    ``selection["bic"]`` is one of them, ``choices`` are their choices, ``agreement`` is a sentence about those,
    ``table()`` has all curves, and ``print(selection)`` shows everything.
    """

    criteria: tuple[Criterion, ...]
    n_samples: float  # rows that were looked at, as their weights count them
    n_features: int
    note: str = ""  # if the rows were a sample

    def __getitem__(self, name: str) -> Criterion:
        """One criterion, by its name."""
        for criterion in self.criteria:
            if criterion.name == name:
                return criterion
        msg = f"{name!r} was not among the criteria: {', '.join(c.name for c in self.criteria)}."
        raise KeyError(msg)

    @property
    def choices(self) -> dict[str, int]:
        """The choice of each criterion that applies."""
        return {c.name: c.choice for c in self.criteria if c.choice is not None}

    @property
    def agreement(self) -> str:
        """Do the criteria agree, and if not, what to make of it?"""
        return agreement_of(self.choices)

    def table(self) -> dict[str, Any]:
        """Columns of one table: numbers of components, and scores, NaN where there are none."""
        longest = max((c.n_components.size for c in self.criteria), default=0)
        counts = np.arange(1, longest + 1)
        columns: dict[str, Any] = {"n_components": counts}
        for criterion in self.criteria:
            columns[criterion.name] = _spread(criterion.score, criterion.n_components, longest)
            if criterion.standard_error is not None:
                error = _spread(criterion.standard_error, criterion.n_components, longest)
                columns[f"{criterion.name}_standard_error"] = error
        return columns

    def __str__(self) -> str:
        return printed(self)


def _spread(values: Array, counts: Index, longest: int) -> Array:
    out = np.full(longest, np.nan)
    out[counts - 1] = values
    return out
