"""Estimates with standard errors and intervals, and how they print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from scipy.special import stdtrit

from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.typing import Array, Index


def largest_first(loadings: Array, most: int) -> Index:
    """Positions of the ``most`` loadings that are largest in magnitude: (most,)."""
    return np.argsort(-np.abs(loadings), kind="stable")[:most]


def table_of(sure: ParameterUncertainty, names: list[str], components: list[int], level: float, most: int) -> str:
    """Loadings of some components with their intervals, then variances, noise and angles."""
    lines = [_headline(sure, level)]
    for j in components:
        lines += ["", *_component(sure, names, j, level, most)]
    return "\n".join([*lines, "", *_ending(sure, level)])


def _headline(sure: ParameterUncertainty, level: float) -> str:
    how = f"{sure.n_draws} resampled fits" if sure.n_draws else "large-sample formulas"
    aligned = "; loadings turned towards those of the fit" if sure.align == "procrustes" else ""
    return f"{100 * level:.4g} % intervals, by {how}{aligned}"


def _component(sure: ParameterUncertainty, names: list[str], j: int, level: float, most: int) -> list[str]:
    loadings, error = sure.loadings.value[:, j], sure.loadings.standard_error[:, j]
    low, high = (end[:, j] for end in sure.loadings.interval(level))
    shown = largest_first(loadings, most)
    width = max(len("loading of"), *(len(names[i]) for i in shown))
    variance = sure.explained_variance
    ends = "{:.4g} .. {:.4g}".format(*(end[j] for end in variance.interval(level)))
    lines = [
        f"component {j + 1}: variance {variance.value[j]:.4g}, standard error {variance.standard_error[j]:.2g}, {ends}",
        f"  {'loading of':<{width}}  {'estimate':>9}   {'std. error':>10}   {'interval':>10}",
    ]
    for i in shown:
        star = "*" if low[i] > 0 or high[i] < 0 else " "
        ends = f"{low[i]:+10.4g} .. {high[i]:+.4g}"
        lines.append(f"{star} {names[i]:<{width}}  {loadings[i]:+9.4g}   {error[i]:10.2g}   {ends}")
    hidden = loadings.size - shown.size
    return [*lines, f"  and {hidden} smaller ones"] if hidden > 0 else lines


def _ending(sure: ParameterUncertainty, level: float) -> list[str]:
    noise = sure.noise_variance
    low, high = noise.interval(level)
    text = f"{noise.value:.4g}, standard error {noise.standard_error:.2g}, {low:.4g} .. {high:.4g}"
    lines = [f"noise variance: {text}"]
    stable = sure.stability
    if stable is not None:
        lines.append(
            f"subspace: the largest angle to that of a draw has median {stable.median:.1f} degrees, "
            f"95 % are below {stable.upper:.1f}"
        )
    if sure.n_unconverged:
        lines.append(f"{sure.n_unconverged} of {sure.n_draws} resampled fits stopped before they had converged")
    return [*lines, f"note: {sure.note}"] if sure.note else lines


LARGEST_EXPONENT = 700.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    r"""A fitted number, or an array of them, and its sampling error.

    .. math:: \hat\theta - b \pm t_\nu s, \qquad (\hat\theta - b) \exp(\pm t_\nu s / (\hat\theta - b))

    are its intervals: the first of a number that may have any sign, the second of a variance. A bias of more than
    half of a variance is taken off in part, so that :math:`\hat\theta - b` is :math:`\hat\theta^2 / 4 b` at least,
    and both ends are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.learning import Estimate
    >>> variance = Estimate(np.array(4.0), np.array(0.4), df=99, positive=True)
    >>> low, high = variance.interval(0.95)
    >>> float(low.round(3)), float(high.round(3))
    (3.28, 4.878)
    """

    value: Array  # as the fit has it
    standard_error: Array  # s: of the same shape
    df: float  # nu: degrees of freedom of Student's t
    bias: Array | float = 0.0  # b: how much too large the value is on average
    positive: bool = False  # is it a variance?

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends, which in repeated samples hold the true value with probability ``level``."""
        if not 0 < level < 1:
            msg = f"level must lie between 0 and 1; got {level}."
            raise DataError(msg)
        width = stdtrit(max(self.df, 1.0), 0.5 + level / 2) * self.standard_error
        if not self.positive:
            centre = self.value - self.bias
            return centre - width, centre + width
        value = self.value
        large = np.maximum(self.bias, value / 2)  # the tangent of value - bias takes over from there
        centre = np.where(self.bias < value / 2, value - self.bias, value * (value / (4 * large)))
        factor = np.exp(np.minimum(width / centre, LARGEST_EXPONENT))
        return centre / factor, centre * factor


class Stability(NamedTuple):
    """The largest angle between the fitted subspace and those of resampled rows, in degrees."""

    median: float
    upper: float  # 95 of 100 are smaller


@final
@dataclass(frozen=True, slots=True, eq=False)
class ParameterUncertainty:
    """Standard errors and intervals of everything that a fit has estimated.

    If columns were standardised, all but the mean belongs to the scaled columns; the mean is in the units of the data.
    ``PPCA.uncertainty`` makes it; ``str`` shows the loadings, largest first, and the variances.

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
    """

    method: str  # "asymptotic" or "bootstrap"
    explained_variance: Estimate  # (q,)
    noise_variance: Estimate  # ()
    loadings: Estimate  # W in principal axes: (d, q)
    components: Estimate  # principal axes, one a row: (q, d)
    mean: Estimate  # (d,)
    n_draws: int = 0
    subspace_angles: Array | None = None  # of each draw with the fit, degrees, largest first: (n_draws, q)
    align: str | None = None  # how draws were made comparable
    n_unconverged: int = 0  # draws that stopped before they had converged
    feature_names: tuple[str, ...] | None = None
    note: str = ""  # what to be careful about

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
        """How far resampling turns the principal subspace; None where nothing was resampled."""
        if self.subspace_angles is None:
            return None
        return Stability(*np.quantile(self.subspace_angles[:, 0], [0.5, 0.95]).tolist())

    def names(self, feature_names: Any = None) -> list[str]:
        """Names of the features: those given, those of the fit, or x0, x1, ..."""
        given = self.feature_names if feature_names is None else feature_names
        if given is None:
            return [f"x{j}" for j in range(self.n_features)]
        names = [str(name) for name in given]
        if len(names) != self.n_features:
            msg = f"feature_names must name all {self.n_features} features; got {len(names)} names."
            raise ShapeError(msg)
        return names

    def chosen(self, component: int | Sequence[int] | None) -> list[int]:
        """Positions of the components that are meant, counted from 0; None: all."""
        if component is None:
            return list(range(self.n_components))
        asked = [int(j) for j in np.atleast_1d(component)]
        unknown = [j for j in asked if not 0 <= j < self.n_components]
        if unknown or not asked:
            msg = f"component must be one of 0 .. {self.n_components - 1}, or several; got {component}."
            raise ShapeError(msg)
        return asked

    def table(self, feature_names: Any = None, component: Any = None, *, level: float = 0.95, most: int = 10) -> str:
        """Loadings with their intervals, the ``most`` largest of each component first, and the variances, as text.

        A star marks loadings whose interval does not hold zero.
        """
        return table_of(self, self.names(feature_names), self.chosen(component), level, most)

    def __str__(self) -> str:
        return self.table()
