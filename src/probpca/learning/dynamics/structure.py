"""What of a dynamical system is to be learned, and in what form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.errors import DataError, ShapeError, require_finite

if TYPE_CHECKING:
    from probpca.typing import Array

CHOICES = {
    "transition": ("free", "diagonal", "stable"),
    "process_noise": ("free", "diagonal", "identity"),
    "noise": ("diagonal", "isotropic"),
    "loadings": ("free",),
    "offset": ("free",),
    "initial_mean": ("free",),
    "initial_covariance": ("auto", "free", "stationary", "identity"),
}


@final
@dataclass(frozen=True, eq=False)
class Structure:
    """Each parameter in words, or as an array that is kept as it is.

    ``initial_covariance="auto"`` learns it where sequences are many. Where they are few it is a fixed multiple of the
    process noise, as "stationary" and "identity" (the multiple is 1) ask for it: with a single sequence its
    maximum-likelihood value is zero, which is approached for ever, by way of the coordinates of the state if need be.
    ``ridge`` adds as many transitions, from each unit vector to zero, to those seen: a prior that holds A back, in
    coordinates in which the process noise is the identity.
    """

    transition: Any = "free"
    process_noise: Any = "free"
    noise: Any = "diagonal"
    loadings: Any = "free"
    offset: Any = "free"
    initial_mean: Any = "free"
    initial_covariance: Any = "auto"
    ridge: float = 0.0

    def __post_init__(self) -> None:
        """Refuse words that do not exist; make arrays of the rest."""
        for name, words in CHOICES.items():
            value = getattr(self, name)
            if isinstance(value, str):
                if value not in words:
                    msg = f"{name} must be {', '.join(map(repr, words))} or an array to be kept; got {value!r}."
                    raise DataError(msg)
                continue
            array = np.array(value, dtype=np.float64)
            require_finite(name, array)
            object.__setattr__(self, name, array)
        if not self.ridge >= 0:
            msg = f"ridge must not be negative; got {self.ridge}."
            raise DataError(msg)

    def fixed(self, name: str) -> Array | None:
        """The array that a parameter is kept at, if it is."""
        value = getattr(self, name)
        return None if isinstance(value, str) else value

    @property
    def any_basis(self) -> bool:
        """May the state be told in other coordinates? Not if one of the parameters says what they are."""
        names = ("loadings", "initial_mean", "initial_covariance")
        given = any(self.fixed(name) is not None for name in names)
        return not given and self.says("transition", "free", "stable") and self.says("process_noise", "free")

    def says(self, name: str, *words: str) -> bool:
        """Is a parameter described by one of these words?"""
        value = getattr(self, name)
        return isinstance(value, str) and value in words

    def check(self, q: int, d: int) -> None:
        """Do the arrays have the shapes that q states and d features ask for?"""
        shapes: dict[str, list[tuple[int, ...]]] = {
            "transition": [(q, q)],
            "process_noise": [(q, q)],
            "noise": [(), (d,)],
            "loadings": [(d, q)],
            "offset": [(d,)],
            "initial_mean": [(q,)],
            "initial_covariance": [(q, q)],
        }
        for name, allowed in shapes.items():
            value = self.fixed(name)
            if value is not None and value.shape not in allowed:
                wanted = " or ".join(map(str, allowed))
                msg = f"{name} must have shape {wanted} for {q} components and {d} features; got {value.shape}."
                raise ShapeError(msg)
