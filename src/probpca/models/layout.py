"""What the states of a structured dynamical system are: common factors, and own components of each feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.cached_property import cached_property
from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.typing import Index

ROLES = ("factor", "level", "slope", "ar", "season")
"""What a state can be; ``ar`` is a stationary deviation of a feature from its level."""


@final
@dataclass(frozen=True, eq=False)
class Layout:
    """Role of each state of a dynamical system, and the feature that it belongs to.

    Attributes
    ----------
    roles : tuple of str
        "factor", "level", "slope", "ar" or "season", for each state.
    features : ndarray of int (q,)
        Feature that each state belongs to; -1 for factors, which all features share.
    period : int
        Number of steps of a season; 1 if there is none.
    unscored : int
        Number of rows at the beginning of each sequence that determine unknown starts and do not count in
        likelihoods.

    Examples
    --------
    >>> from probpca.models import Layout
    >>> layout = Layout(("factor", "level", "slope"), [-1, 0, 0])
    >>> layout.n_factors, layout.of("level"), layout.names(["births"])
    (1, array([1]), ['F1', 'births level', 'births slope'])
    """

    roles: tuple[str, ...]
    features: Index
    period: int = 1
    unscored: int = 0

    def __post_init__(self) -> None:
        """Convert the features to a read-only array and check the roles."""
        features = np.array(self.features, dtype=np.intp)
        features.setflags(write=False)
        object.__setattr__(self, "roles", tuple(self.roles))
        object.__setattr__(self, "features", features)
        if features.shape != (len(self.roles),):
            msg = f"features must have one entry for each of the {len(self.roles)} roles; got {features.shape}."
            raise ShapeError(msg)
        unknown = set(self.roles) - set(ROLES)
        if unknown:
            msg = f"roles must be {', '.join(ROLES)}; got {', '.join(sorted(unknown))}."
            raise DataError(msg)
        if ((features < 0) != self.is_factor).any():
            msg = "every state but a factor must belong to a feature, and factors to none (-1)."
            raise DataError(msg)
        if self.period < 1 or self.unscored < 0:
            msg = f"period must be at least 1 and unscored at least 0; got {self.period} and {self.unscored}."
            raise DataError(msg)

    @property
    def is_factor(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each state is a factor: (q,)."""
        return np.array([role == "factor" for role in self.roles], dtype=bool)

    @cached_property
    def factors(self) -> Index:
        """Positions of the factors."""
        return self.of("factor")

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return self.factors.size

    def of(self, *roles: str, feature: int | None = None) -> Index:
        """Positions of the states of some roles, of one feature or of all."""
        found = np.array([role in roles for role in self.roles], dtype=bool)
        return np.flatnonzero(found if feature is None else found & (self.features == feature))

    def names(self, feature_names: Sequence[str]) -> list[str]:
        """Name of each state: F1, F2, ... for factors, and the name of its feature and its role for others."""
        out, seen = [], dict[tuple[str, int], int]()
        for role, j in zip(self.roles, self.features.tolist(), strict=True):
            seen[role, j] = seen.get((role, j), 0) + 1
            if role == "factor":
                out.append(f"F{seen[role, j]}")
            else:
                out.append(f"{feature_names[j]} {role}" + (f" {seen[role, j]}" if role == "season" else ""))
        return out
