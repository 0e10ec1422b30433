"""Constraints on the parameters of estimators: a test, and its words for the error message."""

from __future__ import annotations

import math
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.learning import SOLVERS
from probpca.learning.components import RULES

if TYPE_CHECKING:
    from collections.abc import Callable


class Constraint(NamedTuple):
    """The values that a parameter may have."""

    words: str
    allows: Callable[[Any], bool]

    def __or__(self, other: Constraint) -> Constraint:
        """Allow the values of both."""
        return Constraint(f"{self.words} or {other.words}", lambda value: self.allows(value) or other.allows(value))


def whole(least: float = -math.inf) -> Constraint:
    """Allow whole numbers, Python's or numpy's, from ``least`` on."""
    words = "an int" if least == -math.inf else f"an int in the range [{least}, inf)"
    return Constraint(words, lambda value: isinstance(value, Integral) and int(value) >= least)


def at_least(low: float) -> Constraint:
    """Allow finite real numbers from ``low`` on."""
    words = f"a float in the range [{low}, inf)"
    return Constraint(words, lambda value: isinstance(value, Real) and low <= float(value) < math.inf)


def between(low: float, high: float = math.inf) -> Constraint:
    """Allow real numbers between two bounds that are not allowed themselves."""
    words = f"a float in the range ({low}, {high})"
    return Constraint(words, lambda value: isinstance(value, Real) and low < float(value) < high)


def number() -> Constraint:
    """Allow real numbers, infinity included."""
    return Constraint("a float", lambda value: isinstance(value, Real) and not math.isnan(value))


def one_of(*names: str) -> Constraint:
    """Allow some strings."""
    words = f"a str among {{{', '.join(map(repr, sorted(names)))}}}"
    return Constraint(words, lambda value: isinstance(value, str) and value in names)


def instance(words: str, *kinds: type) -> Constraint:
    """Allow instances of some classes."""
    return Constraint(words, lambda value: isinstance(value, kinds))


def array_like() -> Constraint:
    """Allow whatever numpy reads as an array with at least one axis."""
    return Constraint(
        "array-like",
        lambda value: not np.isscalar(value) and (hasattr(value, "__len__") or hasattr(value, "__array__")),
    )


def nothing() -> Constraint:
    """Allow None."""
    return Constraint("None", lambda value: value is None)


def boolean() -> Constraint:
    """Allow True and False, Python's or numpy's."""
    return instance("a bool", bool, np.bool_)


def search(*names: str) -> dict[str, Constraint]:
    """Return the constraints of the parameters that steer an iterative fit: ``names`` of them, or all."""
    constraints = {
        "tol": at_least(0),
        "max_iter": whole(1),
        "n_init": whole(1),
        "verbose": whole(0) | boolean(),
        "random_state": whole(0)
        | instance("a RandomState, a Generator", np.random.RandomState, np.random.Generator)
        | nothing(),
    }
    return {name: constraints[name] for name in names or constraints}


def table_constraints() -> dict[str, Constraint]:
    """Return the constraints of the parameters that every estimator of tables has."""
    return {
        "standardize": boolean(),
        "missing": one_of("nan", "unstored"),
        "n_jobs": whole() | nothing(),
        **search("tol", "max_iter", "verbose", "random_state"),
    }


def ppca_constraints() -> dict[str, Constraint]:
    """Return the constraints of the parameters of ``PPCA``."""
    return {
        "n_components": whole(1) | between(0, 1) | one_of(*RULES) | nothing(),
        "solver": one_of(*SOLVERS),
        "keep_source": boolean(),
        "n_parameter_draws": whole(0),
        "checkpoint": instance("a path", str, PathLike) | nothing(),
        "bias_correction": boolean(),
        "half_life": between(0) | nothing(),
        **table_constraints(),
        **search("n_init"),
    }
