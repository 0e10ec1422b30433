"""What a fit returns: the model, its status and how it was found."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from probpca.learning.components import EXACT_RANK
from probpca.linalg.packed import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.learning.components import Components
    from probpca.learning.describe import Description, Units
    from probpca.learning.settings import Settings
    from probpca.models import LinearGaussian
    from probpca.sources import Source
    from probpca.typing import Array, Index


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
        "max_iter was reached first; the fit is kept as it is. Raise max_iter or loosen tol; if the process noise of a "
        "state keeps shrinking towards zero, fix it, or use fewer components."
    )
    BOUND_CONVERGED = "The estimated remaining gain of the lower bound fell below tol."
    BOUND_MAX_ITER = "max_iter was reached first; the fit is kept as it is. Raise max_iter or loosen tol."
    NOISE_COLLAPSED = (
        "The components explain the data completely, so the noise variance has no maximum-likelihood "
        "value above zero and was set to 1e-12 of the mean variance. Use fewer components or more rows."
    )

    LOW_RANK = (
        "The columns are exact combinations of these components: no noise is left, and its variance was set to 1e-12 "
        "of the mean variance."
    )

    @classmethod
    def _missing_(cls, value: object) -> Status | None:
        """Find a member by its name too: ``Status("EXACT")``."""
        return cls.__members__.get(value) if isinstance(value, str) else None

    def __reduce__(self) -> tuple[type[Status], tuple[str]]:
        """Store the name: pickles stay readable when a sentence changes, and skops reads this form alone."""
        return Status, (self.name,)

    def __reduce_ex__(self, protocol: object) -> tuple[type[Status], tuple[str]]:
        """Store the name, whatever the protocol of pickle."""
        return self.__reduce__()

    @property
    def converged(self) -> bool:
        """Is the model the optimum that was asked for?"""
        good = (Status.EXACT, Status.CONVERGED, Status.BOUND_CONVERGED, Status.SKETCHED, Status.ONLINE, Status.LOW_RANK)
        return self in good


def collapsed_status(rule: str) -> Status:
    """How a fit ended that leaves no noise: as it should if its components were chosen by the rank of the table."""
    return Status.LOW_RANK if rule == EXACT_RANK else Status.NOISE_COLLAPSED


class FitResult(NamedTuple):
    """A fitted model and how it came about."""

    model: LinearGaussian  # in the units of the data
    status: Status
    log_likelihood: float  # total over the data, at the model
    trace: tuple[float, ...]  # total log-likelihood before each step; closed form: its maximum
    n_iter: int  # steps taken; closed form: products of the data with a block of vectors
    weight: float  # number of rows, as their weights count them
    rule: str  # how the number of components was chosen
    cells: float | None = None  # number of observed cells, where some are missing
    information: Array | None = None  # sum of E[t t'] over rows that saw a feature, t = [z; 1], packed: (., d)
    empty: Index | None = None  # features of which nothing was observed
    notes: tuple[str, ...] = ()  # sentences about the choice of the number of components
    column_std: Array | None = None  # of each column, 0 if constant; None if standardised, or not known: (d,)
    scale: Array | None = None  # what columns were divided by before the fit: (d,); None if they were not
    sample: Source | None = None  # rows in memory, all or some, if those of the fit were not

    def in_units(self, units: Units) -> FitResult:
        """Convert a fit of columns that were divided by ``units.scale`` to the units of the data.

        Latent axes stay the principal axes of the scaled columns.
        """
        shift = -units.log_volume
        return self._replace(
            model=self.model.rescale(units.scale),
            log_likelihood=self.log_likelihood + shift,
            trace=tuple(value + shift for value in self.trace),
            scale=units.scale,
            column_std=None,
            sample=None if self.sample is None else self.sample.scaled(units.scale),
        )

    @property
    def scaled_model(self) -> LinearGaussian:
        """The model of the columns as the fit saw them, divided by ``scale``: it has one noise variance then."""
        return self.model if self.scale is None else self.model.rescale(1 / self.scale).isotropic()


def complete_information(weight: float, q: int) -> Array:
    """Sum of E[t t'], t = [z; 1], over complete rows at the maximum, where latents have moments 0 and I: (., 1)."""
    return weight * pack(np.eye(q + 1))[:, None]


Solver: TypeAlias = "Callable[[Description, Components, Settings, np.random.Generator], FitResult]"
"""A function that fits a table that was described."""
