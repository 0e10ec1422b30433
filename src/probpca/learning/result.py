"""What a fit returns: the model and its story."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.linalg.packed import pack, turn
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from probpca.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from probpca.learning.loop import Watch
    from probpca.models import LinearGaussian
    from probpca.typing import Array, Index

Regime: TypeAlias = Literal["covariance", "gram", "krylov", "svd"]
Iterative: TypeAlias = Literal["em", "px_em", "em_zero_noise", "gradient", "incremental", "incremental_zero_noise"]
ZERO_NOISE = ("em_zero_noise", "incremental_zero_noise")
SOLVERS = ("auto", "closed_form", *get_args(Regime), *get_args(Iterative))


@dataclass(frozen=True, slots=True)
class Settings:
    """How to fit: which solver, how far, and who watches."""

    solver: str = "auto"
    tol: float = 1e-3
    max_iter: int = 1000
    watch: Watch | None = None
    n_init: int = 1
    checkpoint: Path | None = None  # where a long fit leaves what it has
    bias_correction: bool = False  # free variances of the bias that many columns bring

    def __post_init__(self) -> None:
        """Refuse a solver that does not exist."""
        if self.solver not in SOLVERS:
            msg = f"solver must be one of {', '.join(SOLVERS)}; got {self.solver!r}."
            raise DataError(msg)


class Status(Enum):
    """How a fit ended, in words that say what to do."""

    EXACT = "The closed form was computed: this is the maximum of the likelihood."
    CONVERGED = "The estimated remaining gain in log-likelihood fell below tol."
    SKETCHED = (
        "Rows with many columns were boiled down to a sketch as they came; its error is bounded. "
        "Use fit if they can be read again."
    )
    ONLINE = (
        "Rows with missing cells were read once, by online EM: the model is near the maximum of the likelihood. "
        "Use fit if they can be read again."
    )
    MAX_ITER = (
        "max_iter was reached first; the fit is kept as it is. Raise max_iter or loosen tol; "
        "for complete rows use solver='closed_form'."
    )
    SERIES_MAX_ITER = (
        "max_iter was reached first; the fit is kept as it is. Raise max_iter or loosen tol; a state that moves "
        "without surprises has a process noise that shrinks for ever: fix it, or take fewer components."
    )
    BOUND_CONVERGED = "The estimated remaining gain of the lower bound fell below tol."
    BOUND_MAX_ITER = "max_iter was reached first; the fit is kept as it is. Raise max_iter or loosen tol."
    NOISE_COLLAPSED = (
        "The components explain the data completely, so the noise variance has no maximum-likelihood "
        "value above zero and was set to 1e-12 of the mean variance. Use fewer components or more rows."
    )

    @property
    def converged(self) -> bool:
        """Is the model the optimum that was asked for?"""
        return self in (Status.EXACT, Status.CONVERGED, Status.BOUND_CONVERGED, Status.SKETCHED, Status.ONLINE)


class FitResult(NamedTuple):
    """A fitted model and how it came about."""

    model: LinearGaussian
    status: Status
    log_likelihood: float  # total over the data, at the model
    trace: tuple[float, ...]  # total log-likelihood before each step; closed form: its maximum
    n_iter: int  # steps taken; closed form: products of the data with a block of vectors
    weight: float  # number of rows, as their weights count them
    rule: str  # how the number of components was chosen
    cells: float | None = None  # number of observed cells, where some are missing
    information: Array | None = None  # sum of E[t t'] over rows that saw a feature, t = [z; 1], packed: (., d)
    empty: Index | None = None  # features of which nothing was observed


def complete_information(weight: float, q: int) -> Array:
    """Sum of E[t t'], t = [z; 1], over complete rows at the maximum, where latents have moments 0 and I: (., 1)."""
    return weight * pack(np.eye(q + 1))[:, None]


def turned_information(information: Array, rotation: Array) -> Array:
    """The information about the parameters of a model whose latent axes are turned, z' = R' z."""
    basis = np.eye(len(rotation) + 1)
    basis[:-1, :-1] = rotation
    return turn(information, basis)
