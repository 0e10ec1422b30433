"""Constraints on the parameters of estimators: types, bounds and names, which are checked when a fit begins."""

from __future__ import annotations

import math
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from probpca.errors import DataError
from probpca.learning import SOLVERS
from probpca.learning.components import FACTOR_RULES, RULES
from probpca.models.rotation import METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping


@runtime_checkable
class SupportsArray(Protocol):
    """Whatever numpy can turn into an array: arrays, and the columns and tables of dataframe libraries."""

    def __array__(self) -> Any:
        """Return the values as an array."""
        ...


class Option(NamedTuple):
    """Values that a parameter may have: instances of some types, within an interval or among some names."""

    words: str
    types: tuple[type, ...]
    interval: tuple[str, float, float, str] | None = None  # brackets around two bounds, as mathematics has them
    names: tuple[str, ...] | None = None


Constraint: TypeAlias = tuple[Option, ...]
"""The value must be one of these options."""


def whole(least: float = -math.inf, most: float = math.inf) -> Option:
    """Allow whole numbers, Python's or numpy's, from ``least`` to ``most``."""
    end = ")" if most == math.inf else "]"
    return Option(f"an int in the range [{least}, {most}{end}", (Integral,), ("[", least, most, end))


def number(left: str, low: float, high: float, right: str) -> Option:
    """Allow the real numbers of an interval, such as ``number("[", 0, 1, ")")``; NaN is in none."""
    return Option(f"a float in the range {left}{low}, {high}{right}", (Real,), (left, low, high, right))


def one_of(*names: str) -> Option:
    """Allow some names."""
    return Option(f"a str among {{{', '.join(map(repr, sorted(names)))}}}", (str,), names=names)


def nothing() -> Option:
    """Constraint that allows None only."""
    return Option("None", (type(None),))


def boolean() -> Option:
    """Allow True and False, Python's or numpy's."""
    return Option("a bool", (bool, np.bool_))


def array() -> Option:
    """Allow arrays, nested lists, and dataframes."""
    return Option("an array-like", (list, tuple, SupportsArray))


def iteration_constraints() -> dict[str, Constraint]:
    """Return the constraints of the parameters that every estimator has."""
    random = Option("a RandomState or a Generator", (np.random.RandomState, np.random.Generator))
    return {
        "tol": (number("[", 0, math.inf, ")"),),
        "max_iter": (whole(1),),
        "verbose": (whole(0), boolean()),
        "random_state": (whole(0, 2**32 - 1), random, nothing()),
    }


def table_constraints() -> dict[str, Constraint]:
    """Return the constraints of the parameters that every estimator of tables has."""
    return {
        "standardize": (boolean(),),
        "missing": (one_of("nan", "unstored"),),
        "n_jobs": (whole(1), whole(-1, -1), nothing()),
        **iteration_constraints(),
    }


def ppca_constraints() -> dict[str, Constraint]:
    """Return the constraints of the parameters of ``PPCA``."""
    return {
        "n_components": (whole(1), number("(", 0, 1, ")"), one_of(*RULES), nothing()),
        "solver": (one_of(*SOLVERS),),
        "n_init": (whole(1),),
        "keep_source": (boolean(),),
        "n_parameter_draws": (whole(0),),
        "checkpoint": (Option("a path", (str, PathLike)), nothing()),
        "bias_correction": (boolean(),),
        "half_life": (number("(", 0, math.inf, ")"), nothing()),
        "robust": (one_of("rows", "cells"), nothing()),
        "keep": (number("[", 0.5, 1, "]"),),
        **table_constraints(),
    }


def factor_constraints() -> dict[str, Constraint]:
    """Return the constraints of the parameters of ``FactorAnalysis``."""
    shared = ("n_init", "keep_source", "n_parameter_draws", "checkpoint", "half_life", "robust", "keep")
    ppca = ppca_constraints()
    return {
        "n_components": (whole(1), one_of(*FACTOR_RULES), nothing()),
        "rotation": (one_of(*METHODS), nothing()),
        "rotation_options": (Option("a dict", (dict,)), nothing()),
        "scores": (one_of("regression", "bartlett"),),
        "floor": (number("(", 0, 1, ")"),),
        "missing": ppca["missing"],
        "n_jobs": ppca["n_jobs"],
        **{name: ppca[name] for name in shared},
        **iteration_constraints(),
    }


def mixture_constraints() -> dict[str, Constraint]:
    """Return the constraints of the parameters of ``MixturePPCA``."""
    ppca = ppca_constraints()
    return {
        "n_clusters": (whole(1), one_of("bic", "icl"), nothing()),
        "n_components": (whole(1), nothing()),
        "noise": (one_of("per_feature", "shared"),),
        "half_life": ppca["half_life"],
        "n_init": ppca["n_init"],
        "missing": ppca["missing"],
        "n_jobs": ppca["n_jobs"],
        **iteration_constraints(),
    }


def check_parameters(estimator: Any, constraints: Mapping[str, Constraint]) -> None:
    """Raise ``DataError`` if a parameter of the estimator has a value that its constraint does not allow."""
    for name, options in constraints.items():
        value = getattr(estimator, name)
        for option in options:
            if _allows(option, value):
                break
        else:
            words, kind = " or ".join(option.words for option in options), type(estimator).__name__
            msg = f"The {name!r} parameter of {kind} must be {words}. Got {value!r} instead."
            raise DataError(msg)


def _allows(option: Option, value: Any) -> bool:
    if not isinstance(value, option.types):
        return False
    if option.interval is None:
        return option.names is None or value in option.names
    left, low, high, right = option.interval
    number: Any = value
    above = number >= low if left == "[" else number > low
    return bool(above and (number <= high if right == "]" else number < high))
