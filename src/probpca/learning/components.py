"""The number of components as users may write it, and the rules that can choose it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from probpca.errors import DataError, ShapeError

RULES = {
    "bic": "BIC",
    "evidence": "Minka's evidence",
    "cv": "cross-validation of cells",
    "ard": "automatic relevance determination",
    "parallel": "parallel analysis",
    "gavish_donoho": "the threshold of Gavish and Donoho",
}
"""Criteria, and what a fit calls them."""


COMPLETE_ONLY = ("evidence", "parallel", "gavish_donoho")


BY_ROWS = ("cv", "ard", "parallel")
"""Criteria that look at rows, not at sums of them."""


def is_by_rows(n_components: Any) -> bool:
    """Is this a criterion that has to look at the rows?"""
    return isinstance(n_components, str) and n_components in BY_ROWS


def need_complete_rows(name: str) -> DataError:
    """What to say where cells are missing and the criterion knows nothing of that."""
    rule = RULES[name]
    msg = f"{rule[0].upper()}{rule[1:]} needs complete rows; cells are missing here.\nHint: n_components='bic' or 'cv'."
    return DataError(msg)


def given_count(n_components: Any) -> int | None:
    """The number of components, if it is one and not a rule that has to find it."""
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


Components: TypeAlias = (
    "int | float | np.integer[Any] | np.floating[Any] "
    "| Literal['bic', 'evidence', 'cv', 'ard', 'parallel', 'gavish_donoho'] | None"
)


def unknown_components(n_components: object, words: str = f"{', '.join(map(repr, RULES))} or None") -> ShapeError:
    """What to say of a number of components that is none."""
    return ShapeError(
        "n_components must be an int from 1 to n_features - 1, a share of variance between 0 and 1, "
        f"{words}; got {n_components!r}."
    )
