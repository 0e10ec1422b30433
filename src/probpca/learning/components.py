"""Parsing of ``n_components``: a number, a share of variance, or a rule that chooses."""

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
NFactors: TypeAlias = "int | np.integer[Any] | Literal['parallel', 'bic', 'aic'] | None"
RULES = {
    "parallel": "parallel analysis",
    "bic": "BIC",
    "evidence": "Minka's evidence",
    "cv": "cross-validation of cells",
    "ard": "automatic relevance determination",
    "gavish_donoho": "the threshold of Gavish and Donoho",
}
"""Rules that choose the number of components, with their names in words."""
FACTOR_RULES = {"parallel": "parallel analysis", "bic": "BIC", "aic": "AIC"}
"""Rules that choose the number of factors of factor analysis, with their names in words."""
SELECTION_RULES = RULES | {"fa_bic": "BIC of factor analysis", "fa_aic": "AIC of factor analysis"}
"""Rules that ``select_n_components`` compares, with their names in words: those of PPCA, and of factor analysis."""
EXACT_RANK = "exact rank of the table"
"""Name of the rule for a table without noise, for which every criterion chooses its rank."""


@dataclass(frozen=True, slots=True)
class Components:
    """Parsed value of ``n_components``: a ``Count``, a ``Share`` or a ``Rule``."""

    @staticmethod
    def parse(n_components: NComponents, n_features: int) -> Count | Share | Rule:
        """Parse ``n_components`` as given by a user; raise ``ShapeError`` if it is not valid."""
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

    @staticmethod
    def parse_factors(n_factors: NFactors | NComponents, n_features: int) -> Count | Rule:
        """Parse the number of factors as given by a user; raise ``ShapeError`` if it is not valid.

        Unlike principal components, factors change with their number and never explain all of the variance, so that a
        share of variance does not determine how many there are.
        """
        check_count(1, n_features)
        match n_factors.item() if isinstance(n_factors, np.generic) else n_factors:
            case None:
                return Rule("parallel")
            case int(q) if not isinstance(n_factors, bool | np.bool_):
                check_count(q, n_features)
                return Count(q)
            case str(name) if name in FACTOR_RULES:
                return Rule(name)
        raise not_of_factors(n_factors)

    @property
    @abstractmethod
    def asked(self) -> str:
        """Value of ``n_components`` as a user would write it."""


@final
@dataclass(frozen=True, slots=True)
class Count(Components):
    """A number of components, and how it was chosen."""

    q: int
    rule: str = "as given"
    notes: tuple[str, ...] = ()  # remarks on the choice

    @property
    def asked(self) -> str:
        """Number of components as text."""
        return str(self.q)


@final
@dataclass(frozen=True, slots=True)
class Share(Components):
    """Smallest number of components that explains at least this share of the variance."""

    share: float

    @property
    def asked(self) -> str:
        """Share of variance as text."""
        return repr(self.share)

    def rule(self, held: float, reason: str) -> str:
        """Description of the choice; ``reason`` tells why fewer than the requested share could be explained."""
        if held >= self.share * (1 - 1e-12):
            return f"at least {self.share:.4g} of the variance"
        return f"{held:.4g} of the variance instead of {self.share:.4g}: {reason}"


@final
@dataclass(frozen=True, slots=True)
class Rule(Components):
    """Criterion that chooses the number of components."""

    name: str

    @property
    def asked(self) -> str:
        """Name of the rule in quotes."""
        return repr(self.name)

    @property
    def words(self) -> str:
        """Name of the criterion in words."""
        return (SELECTION_RULES | FACTOR_RULES)[self.name]

    @property
    def by_rows(self) -> bool:
        """Whether the criterion needs the rows themselves, not only sums over them."""
        return self.name in ("cv", "ard")

    @property
    def complete_only(self) -> bool:
        """Whether the criterion is defined for complete rows only."""
        return self.name in ("evidence", "gavish_donoho")

    def require_complete(self, obstacle: str) -> None:
        """Raise ``DataError`` if the criterion needs complete rows; ``obstacle`` says why they are not, or is empty."""
        if self.complete_only and obstacle:
            name = self.words[0].upper() + self.words[1:]
            msg = f"{name} needs complete rows; {obstacle}.\nHint: n_components='parallel', 'bic' or 'cv'."
            raise DataError(msg)


def given_count(n_components: Any) -> int | None:
    """Number of components if one was given; None if a rule chooses it."""
    given = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    return int(n_components) if given else None


def check_count(q: int, d: int) -> None:
    """Raise ``ShapeError`` unless 1 <= q < d."""
    if d == 1:
        msg = "n_features must be at least 2; got 1 feature(s).\nHint: a single column has no components."
        raise ShapeError(msg)
    if q < 1 or q >= d:
        msg = (
            f"n_components must lie between 1 and n_features - 1 = {d - 1}; got {q}.\n"
            f"Hint: n_components={d - 1} is the most that {d} columns allow, because the noise needs a dimension."
        )
        raise ShapeError(msg)


def _unknown(n_components: object) -> ShapeError:
    return ShapeError(
        "n_components must be an int from 1 to n_features - 1, a share of variance between 0 and 1, "
        f"{', '.join(map(repr, RULES))} or None; got {n_components!r}."
    )


def not_of_factors(n_factors: object) -> ShapeError:
    """Error about a number of factors that is neither a count nor a rule of factor analysis."""
    msg = (
        "n_components of factor analysis must be an int from 1 to n_features - 1, "
        f"{', '.join(map(repr, FACTOR_RULES))} or None; got {n_factors!r}."
    )
    if isinstance(n_factors, float | np.floating):
        msg += (
            "\nHint: factors explain only the variance that columns share, so that a share of variance does not "
            "determine their number; use None for parallel analysis, or PPCA."
        )
    return ShapeError(msg)
