"""Results of choosing the number of components, and how they print."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.learning.components import SELECTION_RULES
from probpca.result_tables import Column, ResultTable, Section, frame_of, several, shown_as_table, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from probpca.typing import Array, Index

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
SHOWN = 8
"""Numbers of components that are shown: those that criteria choose, their neighbours, and the first ones."""
PURPOSES = {
    "parallel": "interpretation: components that stand out from chance",
    "bic": "the best fit, if all columns have the same noise",
    "evidence": "the best fit, if all columns have the same noise",
    "cv": "prediction and imputation, judged by held-out cells",
    "ard": "prediction: components that a Bayesian fit keeps",
    "gavish_donoho": "denoising, if all columns have the same noise",
    "fa_bic": "FactorAnalysis: the best fit, with a noise variance for each column",
    "fa_aic": "FactorAnalysis: predicting new rows, with weaker factors too",
    "mixture_bic": "MixturePPCA: the best density of the rows",
    "mixture_icl": "MixturePPCA: clusters that do not overlap",
}
"""Purpose of each criterion."""
LONGEST_REMARK = 200
"""Letters of a remark on a criterion."""
EQUAL_NOISE = ("bic", "evidence", "gavish_donoho")
"""Criteria that count noise that differs between columns as components."""
OF_FACTORS = ("fa_bic", "fa_aic")
"""Criteria of factor analysis; the other ones are of PPCA, or of both."""
OF_MIXTURES = ("mixture_bic", "mixture_icl")
"""Criteria for the number of clusters of a mixture, which ``MixturePPCA`` computes."""


def agreement_of(choices: dict[str, int]) -> str:
    """Sentences that compare the choices of the criteria and recommend one for each purpose."""
    if not choices:
        return "No criterion applies."
    if len(choices) == 1:
        name, choice = next(iter(choices.items()))
        return f"{name} chooses {choice}; no other criterion was computed."
    least, most = min(choices.values()), max(choices.values())
    if least == most:
        both = "Both" if len(choices) == 2 else f"All {NUMBERS[len(choices)]}"
        return f"{both} criteria choose {most}."
    return " ".join([f"The criteria choose between {least} and {most}.", *_advice(choices)])


def _advice(choices: dict[str, int]) -> Iterator[str]:
    """Sentences on which of the choices suits which purpose."""
    if "parallel" in choices:
        yield f"To interpret components, use {choices['parallel']} (parallel)."
    if "cv" in choices:
        yield f"To predict or impute cells, use {choices['cv']} (cv)."
    careful = max((choices[name] for name in ("parallel", "cv", "fa_bic") if name in choices), default=None)
    more = [name for name in EQUAL_NOISE if careful is not None and choices.get(name, 0) > careful]
    if more:
        names = " and ".join(filter(None, (", ".join(more[:-1]), more[-1])))
        counts = "counts" if len(more) == 1 else "count"
        yield f"{names} also {counts} noise that differs between columns as components."
    for name in [name for name in OF_FACTORS if name in choices][:1]:
        fit = "fits" if choices[name] == 1 else "fit"
        yield f"With a noise variance for each column, {several(choices[name], 'factor')} {fit} best ({name})."


def table_of(selection: Selection) -> ResultTable:
    """Choices of all criteria, what to make of them, and the curves with a star at each choice."""
    rows = f"{selection.n_samples:,.12g} rows x {several(selection.n_features, 'feature')}{selection.note}"
    choices = (
        words("criterion", [c.name for c in selection.criteria]),
        Column("choice", ["-" if c.choice is None else f"{c.choice}" for c in selection.criteria]),
        words("best for", map(_remark, selection.criteria), longest=LONGEST_REMARK),
    )
    notes = (f"{c.name}: {c.note}" for c in selection.criteria if c.note and c.choice is not None)
    first = Section(f"Number of components: {rows}", choices, (*notes, selection.agreement))
    return ResultTable((first, *_curves(selection, "components"), *_curves(selection, "factors")))


def _curves(selection: Selection, counted: str) -> Iterator[Section]:
    """Curves of the criteria that count components, or factors; nothing if there are none."""
    asked = [c for c in selection.criteria if c.counts == counted]
    drawn = [c for c in asked if c.score.size]
    if not drawn:
        return
    lines = _lines(asked)
    counts = Column(counted, [f"{q}" if q else "..." for q in lines])
    of = " of FactorAnalysis" if counted == "factors" else ""
    yield Section(f"Scores{of}: higher is better, * marks the choice", (counts, *(_column(c, lines) for c in drawn)))


def _lines(criteria: Sequence[Criterion]) -> list[int]:
    """Numbers of components to show; 0 is a gap."""
    longest = max(c.n_components.size for c in criteria)
    chosen = sorted({c.choice for c in criteria if c.choice is not None})
    around = [q + step for step in (1, -1) for q in chosen]
    wanted = dict.fromkeys(q for q in [*chosen, 1, *around, *range(2, longest)] if 1 <= q <= longest)
    out: list[int] = []
    for q in sorted(list(wanted)[: max(SHOWN, len(chosen))]):
        if out and q > out[-1] + 1:
            out.append(0)
        out.append(q)
    return out


def _column(criterion: Criterion, lines: list[int]) -> Column:
    shown = criterion.shown
    places = {"nats": 1, "nats per cell": 4}.get(criterion.unit, 2)
    places = 0 if shown.size and np.abs(shown).max() >= 1e5 else places
    cells = []
    for q in lines:
        there = 0 < q <= shown.size
        star = "*" if there and q == criterion.choice else " "
        cells.append(f"{shown[q - 1] + 0.0:,.{places}f}{star}" if there else " ")
    return Column(f"{criterion.name} ", cells, unit=f"{criterion.unit} ")


def _remark(criterion: Criterion) -> str:
    """Purpose of a criterion, or the reason why it does not apply."""
    if criterion.choice is not None:
        return criterion.purpose
    known = criterion.note.lower().startswith(criterion.rule.lower())
    return criterion.note[len(criterion.rule) :].strip() if known else criterion.note


UNITS = {
    "parallel": "x chance",
    "bic": "nats",
    "evidence": "nats",
    "cv": "nats per cell",
    "ard": "",
    "gavish_donoho": "x threshold",
    "fa_bic": "nats",
    "fa_aic": "nats",
    "mixture_bic": "nats",
    "mixture_icl": "nats",
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """One criterion for the number of components: its scores and its choice.

    Larger scores are better. They are in nats for "bic", "evidence", "fa_bic" and "fa_aic", and in nats per cell for
    "cv"; for "parallel" and "gavish_donoho" they are ratios of an eigenvalue or singular value to its largest value by
    noise alone, and components with ratios above 1 are kept. "ard" has no scores.

    Attributes
    ----------
    name : str
        Name of the criterion.
    choice : int or None
        Chosen number of components; None if the criterion does not apply.
    n_components : ndarray of shape (m,)
        Numbers of components that were tried.
    score : ndarray of shape (m,)
        Score of each number of components.
    standard_error : ndarray of shape (m,) or None
        Standard error of the difference of each score from the best.
    note : str
        Why the criterion does not apply, or a remark on the choice.
    """

    name: str
    choice: int | None = None
    n_components: Index = field(default_factory=lambda: np.empty(0, np.intp))
    score: Array = field(default_factory=lambda: np.empty(0))
    standard_error: Array | None = None
    note: str = ""

    @property
    def rule(self) -> str:
        """Name of the criterion in words."""
        return SELECTION_RULES[self.name]

    @property
    def purpose(self) -> str:
        """Purpose of the criterion."""
        return PURPOSES[self.name]

    @property
    def counts(self) -> str:
        """What the criterion counts: "factors" of factor analysis, "clusters" of a mixture, or "components"."""
        if self.name in OF_MIXTURES:
            return "clusters"
        return "factors" if self.name in OF_FACTORS else "components"

    @property
    def unit(self) -> str:
        """Unit of the scores."""
        return UNITS[self.name]

    @property
    def in_nats(self) -> bool:
        """Whether scores are in nats, so that only their differences are meaningful."""
        return self.unit.startswith("nats")

    @property
    def shown(self) -> Array:
        """Scores for display: differences from the best if they are in nats, ratios otherwise: (m,)."""
        return self.score - self.score.max() if self.in_nats and self.score.size else self.score


@shown_as_table
@final
@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Choices and curves of several criteria for the number of components.

    ``select_n_components`` returns it. ``selection["bic"]`` is one criterion, ``choices`` holds the choice of each, and
    ``agreement`` compares them in words. ``print`` and a notebook show the choices and the scores; ``to_frame()`` has
    the scores as a dataframe.

    Attributes
    ----------
    criteria : tuple of Criterion
        The criteria.
    n_samples : float
        Total weight of the rows that were used.
    n_features : int
        Number of columns.
    note : str
        " (a sample)" if only a sample of the rows was used; otherwise empty.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import select_n_components
    >>> select_n_components(load_iris().data, ["bic", "parallel"])
    Number of components: 150 rows x 4 features
    criterion  choice  best for
    bic             3  the best fit, if all columns have the same noise
    parallel        1  interpretation: components that stand out from chance
    parallel: The first component is so large that parallel analysis may miss weaker ones:
    compare other criteria.
    The criteria choose between 1 and 3. To interpret components, use 1 (parallel). bic also
    counts noise that differs between columns as components.
    <BLANKLINE>
    Scores: higher is better, * marks the choice
    components    bic   parallel
                 nats   x chance
             1  -78.2       2.26*
             2  -20.0       0.82
             3    0.0*      0.15
    """

    criteria: tuple[Criterion, ...]
    n_samples: float
    n_features: int
    note: str = ""

    def __getitem__(self, name: str) -> Criterion:
        """Return a criterion by its name."""
        for criterion in self.criteria:
            if criterion.name == name:
                return criterion
        msg = f"{name!r} was not among the criteria: {', '.join(c.name for c in self.criteria)}."
        raise KeyError(msg)

    @property
    def choices(self) -> dict[str, int]:
        """Choice of each criterion that applies, by name."""
        return {c.name: c.choice for c in self.criteria if c.choice is not None}

    @property
    def agreement(self) -> str:
        """Sentences that compare the choices of the criteria and recommend one for each purpose."""
        return agreement_of(self.choices)

    def to_dict(self) -> dict[str, Any]:
        """Curves as columns: ``n_components``, and the scores and standard errors of each criterion; NaN for none."""
        longest = max((c.n_components.size for c in self.criteria), default=0)
        counts = np.arange(1, longest + 1)
        columns: dict[str, Any] = {"n_components": counts}
        for criterion in self.criteria:
            columns[criterion.name] = _spread(criterion.score, criterion.n_components, longest)
            if criterion.standard_error is not None:
                error = _spread(criterion.standard_error, criterion.n_components, longest)
                columns[f"{criterion.name}_standard_error"] = error
        return columns

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return the curves as a dataframe of pandas, or of another library: "polars" or "pyarrow"."""
        return frame_of(self.to_dict(), backend)

    def table(self) -> ResultTable:
        """Choices of all criteria and their curves, with a star at each choice."""
        return table_of(self)


def _spread(values: Array, counts: Index, longest: int) -> Array:
    out = np.full(longest, np.nan)
    out[counts - 1] = values
    return out
