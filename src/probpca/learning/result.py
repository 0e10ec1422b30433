"""Results of fits: the model, and how the fit ended."""

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
    from probpca.statistics import Moments
    from probpca.typing import Array, Index


class Status(Enum):
    """How a fit ended; the value of each member is a sentence that explains it and says what to do.

    Examples
    --------
    >>> from probpca.learning import Status
    >>> Status.CONVERGED.converged, Status.CONVERGED.value
    (True, 'Converged: the log-likelihood is estimated to be within tol of its maximum.')
    """

    EXACT = "Exact maximum-likelihood solution, computed in closed form."
    CONVERGED = "Converged: the log-likelihood is estimated to be within tol of its maximum."
    SKETCHED = (
        "Approximate: rows with many columns were read only once and summarised by a sketch with a known error bound. "
        "Use fit() if the rows can be read more than once."
    )
    ONLINE = (
        "Approximate: the rows were read once, by online EM, which ends near the maximum of the likelihood. "
        "Use fit() if they can be read more than once."
    )
    MAX_ITER = (
        "Not converged: max_iter was reached first. Raise max_iter or loosen tol; "
        "for PPCA of complete rows use solver='closed_form'."
    )
    SERIES_MAX_ITER = (
        "Not converged: max_iter was reached first. Raise max_iter or loosen tol; if the process noise of a state "
        "keeps shrinking towards zero, fix it, or use fewer components."
    )
    MIXTURE_MAX_ITER = (
        "Not converged: max_iter was reached first. Raise max_iter or loosen tol; if that does not help, use fewer "
        "clusters or components."
    )
    GRID = "Exact search: each feature has the best of all candidates; nothing had to be iterated."
    BOUND_CONVERGED = "Converged: the lower bound of the log evidence is estimated to be within tol of its maximum."
    BOUND_MAX_ITER = "Not converged: max_iter was reached first. Raise max_iter or loosen tol."
    NOISE_COLLAPSED = (
        "No noise is left: the components explain the data completely, so the likelihood has no maximum, and the noise "
        "variance was set to 1e-12 of the mean variance. Use fewer components or more rows."
    )

    DEPENDENT_COLUMNS = (
        "Degenerate: some columns are exact combinations of others and of the factors, so the likelihood has no "
        "maximum, and their noise variances were set to the smallest allowed value. Drop the columns that repeat "
        "others, or use fewer factors or more rows."
    )

    ROBUST_CONVERGED = "Converged: the weights of cells and rows, and the model that follows from them, agree."
    ROBUST_MAX_ITER = (
        "Not converged: the choice of rows, or the weights of cells, still changed after the largest number of steps. "
        "The table may have no majority of rows that agree; look at the report, or use robust=None."
    )

    DEGENERATE_CLUSTERS = (
        "Degenerate: some clusters have no noise left or too few rows, so the likelihood has no maximum, and noise "
        "variances were set to the smallest allowed value. Use fewer clusters or components, or drop repeated rows and "
        "columns."
    )

    LOW_RANK = (
        "Exact fit: the columns are exact combinations of these components. No noise is left, and its variance was set "
        "to 1e-12 of the mean variance."
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
        """Whether the fit reached its optimum: the closed form, or an iteration that converged."""
        good = (
            Status.EXACT,
            Status.CONVERGED,
            Status.BOUND_CONVERGED,
            Status.SKETCHED,
            Status.ONLINE,
            Status.LOW_RANK,
            Status.GRID,
            Status.ROBUST_CONVERGED,
        )
        return self in good


def collapsed_status(rule: str) -> Status:
    """Status of a fit that leaves no noise: expected if the number of components is the rank of the table."""
    return Status.LOW_RANK if rule == EXACT_RANK else Status.NOISE_COLLAPSED


class FitResult(NamedTuple):
    """Result of a fit of PPCA or factor analysis: the model, and how the fit ended.

    Attributes
    ----------
    model : LinearGaussian
        The fitted model, in the units of the data.
    status : Status
        How the fit ended.
    log_likelihood : float
        Total log-likelihood of the data.
    trace : tuple of float
        Total log-likelihood before each iteration; for the closed form, its maximum.
    n_iter : int
        Number of iterations; for the closed form, number of products of the data with a block of vectors.
    weight : float
        Total weight of the rows.
    rule : str
        How the number of components was chosen.
    cells : float or None
        Total weight of the observed cells if some are missing.
    information : ndarray or None
        Sum of E[t t'] with t = [z; 1] over the rows in which each feature was observed, packed: (., d or 1).
    empty : ndarray of int or None
        Positions of features without observed cells.
    notes : tuple of str
        Remarks on the choice of the number of components.
    column_std : ndarray of shape (d,) or None
        Standard deviation of each column, 0 if it is constant; None after standardising, or if unknown.
    scale : ndarray of shape (d,) or None
        Standard deviations that the columns were divided by; None without standardising.
    moments : Moments or None
        Moments of complete rows, from which fit indices of factor analysis follow; None if there are many columns.
    precision_unit : float
        Geometric mean of the precisions of cells; 1 if cells have no weights.
    sample : Source or None
        Rows in memory, all or a sample, if the data of the fit were not in memory.
    heywood : ndarray of int or None
        Positions of the features whose noise variance is at its floor in factor analysis, constant features left out;
        None for PPCA.
    row_weight : ndarray of shape (n,) or None
        Share of each row that a robust fit used, 0 or 1 for nearly all rows; None for ordinary fits.
    cell_weight : ndarray of shape (n, d) or None
        Weight of each cell in a robust fit with weights of cells, 0 if it is missing; None for other fits.
    """

    model: LinearGaussian
    status: Status
    log_likelihood: float
    trace: tuple[float, ...]
    n_iter: int
    weight: float
    rule: str
    cells: float | None = None
    information: Array | None = None
    empty: Index | None = None
    notes: tuple[str, ...] = ()
    column_std: Array | None = None
    scale: Array | None = None
    sample: Source | None = None
    heywood: Index | None = None
    moments: Moments | None = None
    precision_unit: float = 1.0
    row_weight: Array | None = None
    cell_weight: Array | None = None

    def in_units(self, units: Units) -> FitResult:
        """Convert a fit of columns divided by ``units.scale`` to the units of the data.

        Latent axes remain the principal axes of the scaled columns.
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

    def in_precision_unit(self, unit: float) -> FitResult:
        """Convert a fit with precisions of cells divided by ``unit`` to the precisions as given.

        The likelihood depends on the ratio of noise variance and precision alone, and does not change.
        """
        information = None if self.information is None else self.information * unit
        model = self.model.in_precision_unit(unit)
        return self._replace(model=model, information=information, precision_unit=unit)

    @property
    def scaled_model(self) -> LinearGaussian:
        """Model of the columns divided by ``scale``, which has a single noise variance."""
        return self.model if self.scale is None else self.model.rescale(1 / self.scale).isotropic()


def complete_information(weight: float, q: int) -> Array:
    """Sum of E[t t'] with t = [z; 1] over complete rows at the maximum of the likelihood, packed: (., 1)."""
    return weight * pack(np.eye(q + 1))[:, None]


Solver: TypeAlias = "Callable[[Description, Components, Settings, np.random.Generator], FitResult]"
"""Function that fits a described table."""
