"""Results of choosing the number of components, and how they print."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.learning.components import RULES

if TYPE_CHECKING:
    from probpca.typing import Array, Index

NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
SHOWN = 12
"""Numbers of components that are always shown; beyond, only those around a choice."""
MORE = {
    "bic": "it takes noise that is not isotropic for components",
    "evidence": "it takes noise that is not isotropic for components",
    "cv": "weak directions help to predict cells before they can be told from noise one by one",
    "ard": "it keeps every direction that a little evidence speaks for",
    "parallel": "noise varies between columns, which it alone allows for",
    "gavish_donoho": "it takes noise that is not isotropic for components",
}
FEWER = {
    "bic": "its penalty leaves out weak components when rows are few",
    "evidence": "it leaves out weak components when rows are few",
    "cv": "more of them do not predict held-out cells clearly better",
    "ard": "weak components shrink to nothing when rows are few",
    "parallel": "strong components hide weak ones from it",
    "gavish_donoho": "it leaves out components that a reconstruction is better without",
}


def agreement_of(choices: dict[str, int]) -> str:
    """One sentence about what the criteria choose, and what to make of it."""
    if not choices:
        return "No criterion applies."
    if len(choices) == 1:
        name, choice = next(iter(choices.items()))
        return f"{name} chooses {choice}; other criteria were not asked."
    (common, votes), *_ = Counter(choices.values()).most_common()
    if votes == len(choices):
        both = "Both" if votes == 2 else f"All {NUMBERS[votes]}"
        return f"{both} criteria choose {common}."
    if 2 * votes > len(choices):
        others = [_dissent(name, choice, common) for name, choice in choices.items() if choice != common]
        return f"Most choose {common}; {'; '.join(others)}."
    return f"They disagree, from {min(choices.values())} to {max(choices.values())}: {_advice(choices)}."


def _dissent(name: str, choice: int, common: int) -> str:
    why = MORE if choice > common else FEWER
    return f"{name} chooses {choice}: {why[name]}"


def _advice(choices: dict[str, int]) -> str:
    """Advice on which of the choices suits which purpose."""
    advice = []
    if "cv" in choices:
        advice.append(f"take {choices['cv']} (cv) to predict or to impute")
    if "parallel" in choices:
        advice.append(f"take {choices['parallel']} (parallel) to interpret components one by one")
    largest = max(choices, key=lambda name: choices[name])
    if largest not in ("cv", "parallel"):
        advice.append(f"{largest} wants most: {MORE[largest]}")
    return "; ".join(advice) or "look at the curves"


def printed(selection: Selection) -> str:
    """A table of all curves, the choices marked by a star, and what to make of them."""
    drawn = [c for c in selection.criteria if c.score.size]
    columns = [["components", "", *(f"{q}" if q else "..." for q in _lines(selection))]]
    columns += [_column(c, _lines(selection)) for c in drawn]
    widths = [max(len(cell) for cell in column) for column in columns]
    rows = f"{selection.n_samples:,.12g} rows x {selection.n_features:,} features{selection.note}"
    padded = ([cell.rjust(width) for cell in column] for column, width in zip(columns, widths, strict=True))
    body = ["   ".join(cells).rstrip() for cells in zip(*padded, strict=True)]
    endings = [_ending(c) for c in selection.criteria if c.note or not c.score.size]
    return "\n".join([f"Number of components: {rows}", "", *body, "", *endings, selection.agreement])


def _lines(selection: Selection) -> list[int]:
    """Numbers of components to show; 0 is a gap."""
    longest = max((c.n_components.size for c in selection.criteria), default=0)
    around = {q + step for q in selection.choices.values() for step in (-1, 0, 1)}
    shown = [q for q in range(1, longest + 1) if q <= min(SHOWN, max(around, default=0) + 2) or q in around]
    out: list[int] = []
    for q in shown:
        if out and q > out[-1] + 1:
            out.append(0)
        out.append(q)
    return out


def _column(criterion: Criterion, lines: list[int]) -> list[str]:
    shown = criterion.shown
    places = {"nats": 1, "nats a cell": 4}.get(criterion.unit, 2)
    cells = []
    for q in lines:
        there = 0 < q <= shown.size
        star = "*" if there and q == criterion.choice else " "
        cells.append(f"{shown[q - 1] + 0.0:,.{places}f}{star}" if there else " ")
    return [f"{criterion.name} ", f"{criterion.unit} ", *cells]


def _ending(criterion: Criterion) -> str:
    chosen = "" if criterion.choice is None else f"chooses {criterion.choice}"
    return f"{criterion.name}: {'; '.join(filter(None, (chosen, criterion.note)))}"


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
        """Name of the criterion in words."""
        return RULES[self.name]

    @property
    def unit(self) -> str:
        """Unit of the scores."""
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
    """Choices and curves of several criteria for the number of components.

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
