"""Results of fits of mixtures: the model, how the fit ended, and the criteria that chose its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.result_tables import Column, ResultTable, Section, frame_of, numbers, rest, several, shown_as_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from probpca.learning.describe import Units
    from probpca.learning.result import Status
    from probpca.models import Mixture
    from probpca.sources import Source
    from probpca.typing import Array, Index

RULES = {"bic": "BIC", "icl": "ICL"}
"""Criteria that choose the numbers of clusters and components, with their names in words."""
SHOWN = 30
"""Lines of the table of criteria that are shown."""


class Score(NamedTuple):
    """Scores of one fit of a mixture."""

    n_clusters: int
    n_components: int
    log_likelihood: float
    n_parameters: int
    bic: float
    icl: float
    degenerate: bool


@shown_as_table
@final
@dataclass(frozen=True, slots=True, eq=False)
class MixtureCriteria:
    r"""Criteria for the numbers of clusters and components, one line for each mixture that was fitted.

    .. math::
        \text{BIC} = \log L - \tfrac12 p \log n, \qquad
        \text{ICL} = \text{BIC} + \sum_{ik} r_{ik} \log r_{ik}

    in nats: larger is better. Here p is the number of parameters and n the number of rows, of which a row with half of
    its cells observed counts as half. BIC judges the density of the rows; ICL subtracts the entropy of the
    responsibilities, and so prefers clusters that do not overlap (Biernacki, Celeux & Govaert 2000).

    Attributes
    ----------
    n_clusters, n_components : ndarray of int, shape (m,)
        Numbers of clusters, and of components of each.
    log_likelihood : ndarray of shape (m,)
        Log-likelihood of the rows.
    n_parameters : ndarray of int, shape (m,)
        Number of free parameters p.
    bic, icl : ndarray of shape (m,)
        The criteria.
    degenerate : ndarray of bool, shape (m,)
        Whether a cluster has no noise left, or too few rows. Such a mixture is chosen only if all are like that.
    """

    n_clusters: Index
    n_components: Index
    log_likelihood: Array
    n_parameters: Index
    bic: Array
    icl: Array
    degenerate: Any

    @classmethod
    def of(cls, scores: Iterable[Score]) -> MixtureCriteria:
        """Make the table of some scores."""
        kinds = (np.intp, np.intp, np.float64, np.intp, np.float64, np.float64, np.bool_)
        columns = zip(*scores, strict=True)
        return cls(*(np.array(values, kind) for values, kind in zip(columns, kinds, strict=True)))

    def best(self, rule: str) -> int:
        """Position of the mixture that a criterion prefers, "bic" or "icl"."""
        values = np.where(self.degenerate, -np.inf, getattr(self, rule))
        return int(np.argmax(values if np.isfinite(values).any() else getattr(self, rule)))

    def passed_over(self, rule: str) -> str:
        """Note on a degenerate mixture that a criterion would have preferred to its choice; empty if there is none."""
        best = int(np.argmax(getattr(self, rule)))
        if best == self.best(rule):
            return ""
        size = f"{several(self.n_clusters[best], 'cluster')} of {several(self.n_components[best], 'component')}"
        return (
            f"{RULES[rule]} of {size} is larger, but some of these clusters have too few rows, or no noise left in "
            "some columns, such as columns that are constant within a cluster. Leave such columns out, use "
            "noise='shared', or give n_clusters and n_components."
        )

    def to_dict(self) -> dict[str, Any]:
        """Columns of the table by name."""
        return {name: getattr(self, name) for name in Score._fields}

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return the table as a dataframe of pandas, or of the library called ``backend``."""
        return frame_of(self.to_dict(), backend)

    def table(self, most: int = SHOWN) -> ResultTable:
        """The first ``most`` lines, with a star at the choice of each criterion."""
        lines = range(min(most, self.bic.size))
        stars = {name: self.best(name) for name in RULES}
        columns = (
            Column("clusters", [f"{self.n_clusters[i]}" for i in lines]),
            Column("components", [f"{self.n_components[i]}" for i in lines]),
            numbers("log-likelihood", self.log_likelihood[: len(lines)]),
            Column("parameters", [f"{self.n_parameters[i]:,}" for i in lines]),
            *(
                Column(f"{name.upper()} ", [f"{getattr(self, name)[i]:,.1f}{'*' if i == star else ' '}" for i in lines])
                for name, star in stars.items()
            ),
            Column("", ["degenerate" if self.degenerate[i] else "" for i in lines], right=False),
        )
        heading = "Mixtures: in nats, larger is better, * marks the choice"
        return ResultTable((Section(heading, columns, rest(self.bic.size - most, "more mixture")),))


class MixtureResult(NamedTuple):
    """Result of a fit of a mixture.

    Attributes
    ----------
    model : Mixture
        The fitted mixture in the units of the data, with its clusters in order of weight.
    status : Status
        How the fit ended.
    log_likelihood : float
        Total log-likelihood of the data.
    trace : tuple of float
        Total log-likelihood before each iteration and at the end.
    n_iter : int
        Number of iterations.
    weight : float
        Total weight of the rows.
    cells : float
        Total weight of the observed cells.
    rule : str
        How the numbers of clusters and components were chosen.
    criteria : MixtureCriteria
        Criteria of all mixtures that were fitted.
    information : ndarray of shape (K, (q + 1)(q + 2) / 2, d)
        For each cluster the sum of r E[t t'] with t = [z; 1] over the rows in which a feature was observed, packed.
    empty : ndarray of int
        Positions of features without observed cells.
    degenerate : ndarray of bool, shape (K,)
        Whether a cluster has no noise left, or too few rows to be learned.
    column_std : ndarray of shape (d,)
        Standard deviation of each column, 0 if it is constant.
    notes : tuple of str
        Remarks on the fit.
    sample : Source or None
        Rows in memory, all or a sample, if the data of the fit were not in memory.
    floor : ndarray of shape () or (d,), or None
        Smallest noise variance of a cluster; None if the fit was read from a file.
    """

    model: Mixture
    status: Status
    log_likelihood: float
    trace: tuple[float, ...]
    n_iter: int
    weight: float
    cells: float
    rule: str
    criteria: MixtureCriteria
    information: Array
    empty: Index
    degenerate: Any
    column_std: Array
    notes: tuple[str, ...] = ()
    sample: Source | None = None
    floor: Array | None = None

    def in_units(self, units: Units) -> MixtureResult:
        """Convert a fit of columns divided by ``units.scale`` to the units of the data."""
        shift = -units.log_volume
        old = self.criteria
        criteria = MixtureCriteria(
            old.n_clusters,
            old.n_components,
            old.log_likelihood + shift,
            old.n_parameters,
            old.bic + shift,
            old.icl + shift,
            old.degenerate,
        )
        return self._replace(
            model=self.model.rescale(units.scale),
            log_likelihood=self.log_likelihood + shift,
            trace=tuple(value + shift for value in self.trace),
            criteria=criteria,
            column_std=self.column_std * units.scale,
            sample=None if self.sample is None else self.sample.scaled(units.scale),
            floor=None if self.floor is None else self.floor * np.square(units.scale),
        )

    def in_precision_unit(self, unit: float) -> MixtureResult:
        """Convert a fit with precisions of cells divided by ``unit`` to the precisions as given."""
        floor = None if self.floor is None else self.floor * unit
        return self._replace(model=self.model.in_precision_unit(unit), information=self.information * unit, floor=floor)
