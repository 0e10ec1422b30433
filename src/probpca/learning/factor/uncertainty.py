"""Standard errors and intervals of a factor solution, and how they print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import numpy as np
from scipy.special import expit, logit, ndtri

from probpca.errors import DataError, ShapeError
from probpca.learning.uncertainty.estimate import largest_first
from probpca.result_tables import (
    Column,
    ResultTable,
    Section,
    default_names,
    frame_of,
    number_format,
    numbers,
    rest,
    several,
    shown_as_table,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.typing import Array, Index

Scale: TypeAlias = Literal["identity", "fisher", "logit"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class TransformedEstimate:
    r"""Estimated numbers with their standard errors and Wald intervals, symmetric on a scale without bounds.

    .. math:: g^{-1}\big(g(\hat\theta) \pm z \, g'(\hat\theta) s\big)

    The scale g is the identity, Fisher's :math:`\operatorname{artanh} \theta` for correlations, or
    :math:`\log (\theta / (1 - \theta))` for shares of variance.

    Attributes
    ----------
    value : ndarray
        The estimates.
    standard_error : ndarray
        Standard errors s, of the same shape; 0 for numbers that are known, NaN if there is none.
    scale : str
        "identity", "fisher" or "logit".

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.learning.factor.uncertainty import TransformedEstimate
    >>> correlation = TransformedEstimate(np.array(0.9), np.array(0.05), "fisher")
    >>> low, high = correlation.interval(0.95)
    >>> float(low.round(3)), float(high.round(3))
    (0.743, 0.963)
    """

    value: Array
    standard_error: Array
    scale: Scale = "identity"

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of the confidence interval at ``level``, shaped like ``value``."""
        if not 0 < level < 1:
            msg = f"level must lie between 0 and 1; got {level}."
            raise DataError(msg)
        value, width = self.value, ndtri(0.5 + level / 2) * self.standard_error
        if self.scale == "identity":
            return value - width, value + width
        # Such as the diagonal of a correlation matrix, where the scale is infinite.
        known = (width == 0) | (np.abs(value) >= 1)
        inner = np.where(known, 0.5, value)
        if self.scale == "fisher":
            centre, width = np.arctanh(inner), width / (1 - inner**2)
            ends = np.tanh(centre - width), np.tanh(centre + width)
        else:
            centre, width = logit(inner), width / (inner * (1 - inner))
            ends = expit(centre - width), expit(centre + width)
        return np.where(known, value, ends[0]), np.where(known, value, ends[1])


@shown_as_table
@final
@dataclass(frozen=True, slots=True, eq=False)
class FactorUncertainty:
    """Standard errors and intervals of a factor solution, for columns scaled to unit variance.

    ``print`` and a notebook show the loadings of each factor, largest first, the factor correlations of oblique
    rotations, and the uniquenesses. ``to_frame()`` has all loadings.

    Attributes
    ----------
    loadings : TransformedEstimate
        Rotated loadings of the standardised columns: (d, q).
    factor_correlations : TransformedEstimate
        Correlations of the factors: (q, q).
    uniquenesses : TransformedEstimate
        Share of the variance of each feature that the factors do not explain: (d,).
    information : str
        "expected" for complete rows, "observed" if cells are missing.
    feature_names : tuple of str or None
        Names of the features.
    backend : str or None
        Dataframe library of the training data, if it was a dataframe.
    n_fixed : int
        Number of features whose noise variance is at its floor, and was held fixed.
    """

    loadings: TransformedEstimate
    factor_correlations: TransformedEstimate
    uniquenesses: TransformedEstimate
    information: str
    feature_names: tuple[str, ...] | None = None
    backend: str | None = None
    n_fixed: int = 0

    @property
    def note(self) -> str:
        """Warning about the standard errors; empty if there is none."""
        if not self.n_fixed:
            return ""
        return (
            f"No noise is left in {several(self.n_fixed, 'feature')} (Heywood case): they have no standard errors, and "
            "those of the others hold their noise variances fixed."
        )

    def names(self, feature_names: Any = None) -> list[str]:
        """Names of the features: those given, those of the fit, or x0, x1, ..."""
        given, d = self.feature_names if feature_names is None else feature_names, len(self.uniquenesses.value)
        if given is None:
            return default_names(d)
        if len(given) != d:
            msg = f"feature_names must name all {d} features; got {len(given)} names."
            raise ShapeError(msg)
        return [str(name) for name in given]

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Loadings as columns, a line for each factor and feature, with standard errors and intervals."""
        d, q = self.loadings.value.shape
        low, high = self.loadings.interval(level)
        values = self.loadings.value, self.loadings.standard_error, low, high
        factors = np.array([factor_name(k) for k in range(q)], dtype=object)
        lines = {"factor": factors.repeat(d), "feature": np.tile(np.array(self.names(), dtype=object), q)}
        titles = "loading", "standard_error", "low", "high"
        return lines | {title: np.ravel(v, order="F") for title, v in zip(titles, values, strict=True)}

    def to_frame(self, level: float = 0.95, *, backend: str | None = None) -> Any:
        """Return ``to_dict`` as a dataframe: of the library of the rows, or of ``backend``; pandas for arrays."""
        return frame_of(self.to_dict(level), backend or self.backend)

    def table(self, feature_names: Any = None, *, level: float = 0.95, most: int = 10) -> ResultTable:
        """The ``most`` largest loadings of each factor, factor correlations, and the smallest uniquenesses."""
        return _table_of(self, self.names(feature_names), level, most)


def factor_name(k: Any) -> str:
    """Name of a factor, counted from 0: F1, F2, ..."""
    return f"F{k + 1}"


def _table_of(sure: FactorUncertainty, names: list[str], level: float, most: int) -> ResultTable:
    q = sure.loadings.value.shape[1]
    loadings = (_of_factor(sure, k, names, level, most) for k in range(q))
    return ResultTable((_of_uniquenesses(sure, names, level, most), *_of_correlations(sure, level), *loadings))


def _of_uniquenesses(sure: FactorUncertainty, names: list[str], level: float, most: int) -> Section:
    """The smallest uniquenesses, and what is known about the method."""
    shown = np.argsort(sure.uniquenesses.value, kind="stable")[:most]
    columns = words("feature", [names[j] for j in shown]), *_columns("uniqueness", sure.uniquenesses, shown, level)
    heading = f"Uncertainty of the factors: {100 * level:.4g}% intervals by the {sure.information} information"
    note = (f"Note: {sure.note}",) if sure.note else ()
    return Section(heading, columns, (*rest(len(names) - shown.size, "more feature"), *note))


def _of_correlations(sure: FactorUncertainty, level: float) -> Iterator[Section]:
    """Correlations of each pair of factors, if they are free."""
    q = len(sure.factor_correlations.value)
    if q > 1 and sure.factor_correlations.standard_error.any():
        i, j = np.triu_indices(q, 1)
        pairs = [f"{factor_name(a)}, {factor_name(b)}" for a, b in zip(i, j, strict=True)]
        columns = _columns("correlation", sure.factor_correlations, i * q + j, level, signed=True)
        yield Section("Correlations of the factors", (words("factors", pairs), *columns))


def _of_factor(sure: FactorUncertainty, k: int, names: list[str], level: float, most: int) -> Section:
    """The largest loadings of one factor; a star marks intervals without zero."""
    d, q = sure.loadings.value.shape
    shown = largest_first(sure.loadings.value[:, k], most)
    low, high = (end[shown, k] for end in sure.loadings.interval(level))
    columns = (
        words("feature", [names[j] for j in shown]),
        *_columns("loading", sure.loadings, shown * q + k, level, signed=True),
        words("", ["*" if a > 0 or b < 0 else "" for a, b in zip(low, high, strict=True)]),
    )
    heading = f"Loadings of {factor_name(k)} (* interval without zero)"
    return Section(heading, columns, rest(d - shown.size, "smaller loading"))


def _columns(
    title: str, estimate: TransformedEstimate, places: Index, level: float, *, signed: bool = False
) -> tuple[Column, ...]:
    """Columns of some of the numbers of an estimate, counted row by row, with standard errors and intervals."""
    value, error, low, high = (
        np.ravel(v)[places] for v in (estimate.value, estimate.standard_error, *estimate.interval(level))
    )
    form = ("+" if signed else "") + number_format(np.concatenate([low, high]))
    ends = [f"{a:{form}} to {b:{form}}" if a <= b else "" for a, b in zip(low, high, strict=True)]
    errors = ["" if np.isnan(e) else f"{e:.2g}" for e in error]
    return numbers(title, value, signed=signed), Column("std. error", errors), Column("interval", ends)
