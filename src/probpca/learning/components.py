"""The number of components as users may write it: a count, a share of variance, or a rule that chooses."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from probpca.errors import DataError, ShapeError

NComponents: TypeAlias = (
    "int | float | np.integer[Any] | np.floating[Any] "
    "| Literal['parallel', 'bic', 'evidence', 'cv', 'ard', 'gavish_donoho'] | None"
)
RULES = {
    "parallel": "parallel analysis",
    "bic": "BIC",
    "evidence": "Minka's evidence",
    "cv": "cross-validation of cells",
    "ard": "automatic relevance determination",
    "gavish_donoho": "the threshold of Gavish and Donoho",
}
"""Rules that choose the number of components, and how a fit names them."""
EXACT_RANK = "exact rank of the table"
"""How a fit names the choice of a table without noise, which every rule leaves to its rank."""


@dataclass(frozen=True, slots=True)
class Components:
    """What ``n_components`` asks for: a ``Count``, a ``Share`` or a ``Rule``."""

    @staticmethod
    def parse(n_components: NComponents, n_features: int) -> Count | Share | Rule:
        """Understand what a user wrote; everything else works with the result."""
        check_count(1, n_features)
        match n_components.item() if isinstance(n_components, np.generic) else n_components:
            case None:
                return Rule("parallel")
            case bool():
                raise _unknown(n_components)
            case int(q):
                check_count(q, n_features)
                return Count(q)
            case float(share) if 0 < share < 1:
                return Share(share)
            case str(name) if name in RULES:
                return Rule(name)
        raise _unknown(n_components)

    @property
    @abstractmethod
    def asked(self) -> str:
        """Text that a user would write for this request."""


@final
@dataclass(frozen=True, slots=True)
class Count(Components):
    """A number of components, and how it was chosen."""

    q: int
    rule: str = "as given"
    notes: tuple[str, ...] = ()  # sentences about the choice

    @property
    def asked(self) -> str:
        """The number as text."""
        return str(self.q)


@final
@dataclass(frozen=True, slots=True)
class Share(Components):
    """The smallest number of components that holds this share of the variance."""

    share: float

    @property
    def asked(self) -> str:
        """The share as text."""
        return repr(self.share)

    def rule(self, held: float, reason: str) -> str:
        """How the choice reads; where even the most components hold less than the share, ``reason`` says why."""
        if held >= self.share * (1 - 1e-12):
            return f"{self.share:.4g} of the variance"
        return f"{held:.4g} of the variance, not {self.share:.4g}: {reason}"


@final
@dataclass(frozen=True, slots=True)
class Rule(Components):
    """A criterion that chooses the number of components."""

    name: str

    @property
    def asked(self) -> str:
        """The name of the rule in quotes."""
        return repr(self.name)

    @property
    def words(self) -> str:
        """Name of the criterion in words."""
        return RULES[self.name]

    @property
    def by_rows(self) -> bool:
        """Whether the criterion looks at rows, not only at sums over them."""
        return self.name in ("cv", "ard")

    @property
    def complete_only(self) -> bool:
        """Whether the criterion is defined for complete rows only."""
        return self.name in ("evidence", "gavish_donoho")

    def require_complete(self, *, complete: bool) -> None:
        """Raise ``DataError`` where cells are missing and the criterion needs all of them."""
        if self.complete_only and not complete:
            name = self.words[0].upper() + self.words[1:]
            msg = f"{name} needs complete rows; cells are missing here.\nHint: n_components='parallel', 'bic' or 'cv'."
            raise DataError(msg)


def given_count(n_components: Any) -> int | None:
    """The number of components if one was given; None if a rule has to find it."""
    given = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    return int(n_components) if given else None


def check_count(q: int, d: int) -> None:
    """Raise ``ShapeError`` unless 1 <= q < d."""
    if d == 1:
        msg = "n_features must be at least 2; got 1 feature(s).\nHint: one column has no components to find."
        raise ShapeError(msg)
    if q < 1 or q >= d:
        msg = (
            f"n_components must lie between 1 and n_features - 1 = {d - 1}; got {q}.\n"
            f"Hint: n_components={d - 1} already fits every Gaussian; more leaves no noise to estimate."
        )
        raise ShapeError(msg)


def _unknown(n_components: object) -> ShapeError:
    return ShapeError(
        "n_components must be an int from 1 to n_features - 1, a share of variance between 0 and 1, "
        f"{', '.join(map(repr, RULES))} or None; got {n_components!r}."
    )
