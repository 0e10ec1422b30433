"""Estimates with standard errors and intervals, and how they print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy.special import stdtrit

from probpca.errors import DataError, ShapeError
from probpca.result_tables import (
    Column,
    ResultTable,
    Section,
    default_names,
    frame_of,
    number_format,
    numbers,
    rest,
    shown_as_table,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from probpca.typing import Array, Index


def largest_first(loadings: Array, most: int) -> Index:
    """Positions of the ``most`` loadings that are largest in magnitude: (most,)."""
    return np.argsort(-np.abs(loadings), kind="stable")[:most]


def table_of(
    sure: ParameterUncertainty, names: list[str], components: list[int], level: float, most: int
) -> ResultTable:
    """Variances with their intervals, then the loadings of some components."""
    loadings = (_component(sure, names, j, level, most) for j in components)
    return ResultTable((_variances(sure, components, level), *loadings))


def _variances(sure: ParameterUncertainty, components: list[int], level: float) -> Section:
    """Variance of each component and of the noise, and what is known about the method."""
    how = f"{sure.n_draws} bootstrap fits" if sure.n_draws else "large-sample formulas"
    aligned = "; loadings rotated towards those of the fit" if sure.align == "procrustes" else ""
    variance, noise = sure.explained_variance, sure.noise_variance
    value, error, low, high = (
        np.append(np.asarray(left)[components], right)
        for left, right in zip(
            (variance.value, variance.standard_error, *variance.interval(level)),
            (noise.value, noise.standard_error, *noise.interval(level)),
            strict=True,
        )
    )
    columns = words("", [*(sure.component_name(j) for j in components), "noise"]), numbers("variance", value)
    heading = f"Uncertainty of the fit: {100 * level:.4g}% intervals by {how}{aligned}"
    return Section(heading, (*columns, *_errors(error, low, high)), (*_stability(sure),))


def _stability(sure: ParameterUncertainty) -> Iterator[str]:
    stable = sure.stability
    if stable is not None:
        yield (
            f"Angle between the fitted subspace and those of the bootstrap fits: median {stable.median:.1f} degrees, "
            f"95% are below {stable.upper:.1f}."
        )
    if sure.n_unconverged:
        yield f"{sure.n_unconverged} of {sure.n_draws} bootstrap fits stopped before they had converged."
    if sure.note:
        yield f"Note: {sure.note}"


def _component(sure: ParameterUncertainty, names: list[str], j: int, level: float, most: int) -> Section:
    """The largest loadings of one component; a star marks intervals without zero."""
    loadings, error = sure.loadings.value[:, j], sure.loadings.standard_error[:, j]
    low, high = (end[:, j] for end in sure.loadings.interval(level))
    shown = largest_first(loadings, most)
    columns = (
        words("feature", [names[i] for i in shown]),
        numbers("loading", loadings[shown], signed=True),
        *_errors(error[shown], low[shown], high[shown], signed=True),
        words("", ["*" if low[i] > 0 or high[i] < 0 else "" for i in shown]),
    )
    heading = f"Loadings of {sure.component_name(j)} (* interval without zero)"
    return Section(heading, columns, rest(loadings.size - shown.size, "smaller loading"))


def _errors(error: Array, low: Array, high: Array, *, signed: bool = False) -> tuple[Column, Column]:
    """Columns of standard errors, with two digits each, and of intervals."""
    form = ("+" if signed else "") + number_format(np.concatenate([low, high]))
    ends = Column("interval", [f"{a:{form}} to {b:{form}}" for a, b in zip(low, high, strict=True)])
    return Column("std. error", [f"{value:.2g}" for value in error]), ends


LARGEST_EXPONENT = 700.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    r"""Estimated number, or array of numbers, with its standard error and confidence intervals.

    .. math:: \hat\theta - b \pm t_\nu s, \qquad (\hat\theta - b) \exp(\pm t_\nu s / (\hat\theta - b))

    The first interval is for numbers of any sign, the second for variances. If the bias is more than half of a
    variance, it is subtracted only in part: :math:`\hat\theta - b` is replaced by :math:`\hat\theta^2 / 4 b`, so that
    both ends are positive.

    Attributes
    ----------
    value : ndarray
        The estimate.
    standard_error : ndarray
        Standard error s, of the same shape.
    df : float
        Degrees of freedom nu of Student's t distribution.
    bias : ndarray or float
        Bias b of the estimate: how much too large it is on average.
    positive : bool
        Whether the estimate is a variance.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.learning import Estimate
    >>> variance = Estimate(np.array(4.0), np.array(0.4), df=99, positive=True)
    >>> low, high = variance.interval(0.95)
    >>> float(low.round(3)), float(high.round(3))
    (3.28, 4.878)
    """

    value: Array
    standard_error: Array
    df: float
    bias: Array | float = 0.0
    positive: bool = False

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends of the confidence interval at ``level``, shaped like ``value``."""
        if not 0 < level < 1:
            msg = f"level must lie between 0 and 1; got {level}."
            raise DataError(msg)
        width = stdtrit(max(self.df, 1.0), 0.5 + level / 2) * self.standard_error
        if not self.positive:
            centre = self.value - self.bias
            return centre - width, centre + width
        value = self.value
        large = np.maximum(self.bias, value / 2)  # beyond this the bias is subtracted in part
        centre = np.where(self.bias < value / 2, value - self.bias, value * (value / (4 * large)))
        factor = np.exp(np.minimum(width / centre, LARGEST_EXPONENT))
        with np.errstate(over="ignore"):  # an interval without an upper end
            return centre / factor, centre * factor


class Stability(NamedTuple):
    """Distribution of the largest angle between the fitted subspace and those of resampled rows, in degrees."""

    median: float
    upper: float  # 95% quantile


@shown_as_table
@final
@dataclass(frozen=True, slots=True, eq=False)
class ParameterUncertainty:
    """Standard errors and intervals of everything that a fit has estimated.

    ``PPCA.uncertainty`` makes it. ``print`` and a notebook show variances and loadings, largest first, with standard
    errors and intervals; ``to_frame()`` has all loadings. If columns were standardised, everything but the mean
    describes the scaled columns; the mean is in the units of the data.

    Attributes
    ----------
    method : str
        "asymptotic" or "bootstrap".
    explained_variance : Estimate
        Variance along each component: (q,).
    noise_variance : Estimate
        Noise variance.
    loadings : Estimate
        Loadings W along principal axes: (d, q).
    components : Estimate
        Principal axes, one per row: (q, d).
    mean : Estimate
        Mean of each feature: (d,).
    n_draws : int
        Number of bootstrap draws; 0 for "asymptotic".
    subspace_angles : ndarray of shape (n_draws, q) or None
        Principal angles between the subspace of each draw and that of the fit, in degrees, largest first.
    align : str or None
        How bootstrap draws were aligned: "signs" or "procrustes".
    n_unconverged : int
        Number of bootstrap fits that did not converge.
    feature_names : tuple of str or None
        Names of the features.
    note : str
        Warning about the accuracy of the intervals; empty if there is none.
    component_names : tuple of str or None
        Names of the components; None for PC1, PC2, ...
    backend : str or None
        Dataframe library of the training data, if it was a dataframe.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import PPCA
    >>> ppca = PPCA(n_components=2, random_state=0).fit(load_iris().data)
    >>> sure = ppca.uncertainty()
    >>> sure.method
    'asymptotic'
    >>> sure.explained_variance.value.round(2), sure.explained_variance.standard_error.round(2)
    (array([4.2 , 0.24]), array([0.48, 0.03]))
    >>> sure.table(load_iris().feature_names, component=0, most=2)
    Uncertainty of the fit: 95% intervals by large-sample formulas
           variance  std. error        interval
    PC1       4.200        0.48  3.370 to 5.303
    noise     0.051      0.0041  0.044 to 0.061
    <BLANKLINE>
    Loadings of PC1 (* interval without zero)
    feature            loading  std. error          interval
    petal length (cm)   +1.745         0.1  +1.542 to +1.948  *
    sepal length (cm)   +0.736       0.053  +0.632 to +0.840  *
    ... and 2 smaller loadings
    """

    method: str
    explained_variance: Estimate
    noise_variance: Estimate
    loadings: Estimate
    components: Estimate
    mean: Estimate
    n_draws: int = 0
    subspace_angles: Array | None = None
    align: str | None = None
    n_unconverged: int = 0
    feature_names: tuple[str, ...] | None = None
    note: str = ""
    component_names: tuple[str, ...] | None = None
    backend: str | None = None

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.loadings.value.shape[0]

    @property
    def n_components(self) -> int:
        """Number of components q."""
        return self.loadings.value.shape[1]

    @property
    def stability(self) -> Stability | None:
        """Median and 95% quantile of the largest angle between subspaces over the draws; None without draws."""
        if self.subspace_angles is None:
            return None
        return Stability(*np.quantile(self.subspace_angles[:, 0], [0.5, 0.95]).tolist())

    def names(self, feature_names: Any = None) -> list[str]:
        """Names of the features: those given, those of the fit, or x0, x1, ..."""
        given = self.feature_names if feature_names is None else feature_names
        if given is None:
            return default_names(self.n_features)
        names = [str(name) for name in given]
        if len(names) != self.n_features:
            msg = f"feature_names must name all {self.n_features} features; got {len(names)} names."
            raise ShapeError(msg)
        return names

    def component_name(self, j: int) -> str:
        """Name of a component, counted from 0."""
        return f"PC{j + 1}" if self.component_names is None else self.component_names[j]

    def chosen(self, component: int | Sequence[int] | None) -> list[int]:
        """Positions of the given components, counted from 0; all of them for None."""
        if component is None:
            return list(range(self.n_components))
        asked = [int(j) for j in np.atleast_1d(component)]
        unknown = [j for j in asked if not 0 <= j < self.n_components]
        if unknown or not asked:
            msg = f"component must be one of 0 .. {self.n_components - 1}, or several; got {component}."
            raise ShapeError(msg)
        return asked

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Loadings as columns, a line for each component and feature, with standard errors and intervals."""
        q, d = self.n_components, self.n_features
        low, high = self.loadings.interval(level)
        parts = {
            "loading": self.loadings.value,
            "standard_error": self.loadings.standard_error,
            "low": low,
            "high": high,
        }
        components = np.array([self.component_name(j) for j in range(q)], dtype=object)
        features = np.array(self.names(), dtype=object)
        lines = {"component": components.repeat(d), "feature": np.tile(features, q)}
        return lines | {name: np.ravel(values, order="F") for name, values in parts.items()}

    def to_frame(self, level: float = 0.95, *, backend: str | None = None) -> Any:
        """Return ``to_dict`` as a dataframe: of the library of the rows, or of ``backend``; pandas for arrays."""
        return frame_of(self.to_dict(level), backend or self.backend)

    def table(
        self, feature_names: Any = None, component: Any = None, *, level: float = 0.95, most: int = 10
    ) -> ResultTable:
        """Variances and loadings with standard errors and intervals, the ``most`` largest loadings of each component.

        ``component`` is one position, counted from 0, or several; None for all. A star marks loadings whose interval
        does not contain zero.
        """
        return table_of(self, self.names(feature_names), self.chosen(component), level, most)
