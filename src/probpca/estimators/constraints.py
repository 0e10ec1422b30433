"""What the parameters of estimators may be."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from probpca.learning import SOLVERS
from probpca.learning.components import RULES

COMPONENTS: list[Any] = [
    Interval(Integral, 1, None, closed="left"),
    Interval(Real, 0, 1, closed="neither"),
    StrOptions(set(RULES)),
    None,
]

FIT_CONSTRAINTS: dict[str, list[Any]] = {
    "standardize": ["boolean"],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "missing": [StrOptions({"nan", "unstored"})],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
    "random_state": ["random_state", np.random.Generator],
}
"""Of every estimator that fits rows."""

PPCA_CONSTRAINTS: dict[str, list[Any]] = {
    **FIT_CONSTRAINTS,
    "n_components": COMPONENTS,
    "solver": [StrOptions(set(SOLVERS))],
    "n_init": [Interval(Integral, 1, None, closed="left")],
    "keep_source": ["boolean"],
    "n_parameter_draws": [Interval(Integral, 0, None, closed="left")],
    "checkpoint": [str, PathLike, None],
    "bias_correction": ["boolean"],
    "half_life": [Interval(Real, 0, None, closed="neither"), None],
}

BAYESIAN_CONSTRAINTS: dict[str, list[Any]] = {
    **FIT_CONSTRAINTS,
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
}
