"""Reference distributions of squared distances: chi-square, and a scaled F that is matched to the rows of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, floor, inf, isinf, log
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.special import betainc, betaincinv, betaln, gammaincc, gammainccinv, gammaln

from probpca.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.typing import Array

RARE = 0.001
"""p-value below which a row is called unusual: by displays, by the report and by the command line."""
SMALLEST_TAIL = 1e-200
"""Probabilities below this are computed by their logarithms."""
INVERTED_TAIL = 1e-30
"""Probabilities below this are inverted by their logarithms."""


def probability(log10_p: float) -> str:
    """A probability as text, from its logarithm: 0.034, 0.00021, 3.4e-12, 1.5e-400."""
    if log10_p >= -4 or log10_p == -inf:
        return f"{10**log10_p:.2g}"
    lead, _, power = f"{10 ** (log10_p % 1):.1e}".partition("e")
    return f"{lead}e{floor(log10_p) + int(power):03d}"


class Distances(NamedTuple):
    """Squared distances of rows from a model in two parts, and how many degrees of freedom each of them has."""

    inside: Array  # T2, within the principal subspace: (n,)
    outside: Array  # Q, off the subspace, in units of the noise: (n,)
    degrees: Array  # of freedom of D2 = T2 + Q, the number of observed cells k: (n,)
    rank: Array  # degrees of freedom of T2: (n,)

    @classmethod
    def empty(cls, n: int) -> Distances:
        """Room for the distances of n rows."""
        return cls(np.empty(n), np.empty(n), np.empty(n), np.empty(n))

    @property
    def whole(self) -> Array:
        """D2: (n,)."""
        return self.inside + self.outside

    def left_out(self, n: float, most_leverage: float = 0.95, least_noise: float = 0.2) -> Distances:
        r"""Distances of rows of a fit to ``n`` rows from the model of the other rows, to first order.

        If cells are missing n is the number of rows in which a feature was observed, on average.

        .. math::
            T^2_{-i} = \frac{n}{n - 1} \frac{T_i^2}{1 - T_i^2 / (n - 1)}, \qquad
            Q_{-i} = \frac{Q_i}{(1 - h_i)^2 s_i}, \qquad
            h_i = \frac{1 + T_i^2}{n}, \quad
            s_i = \frac{n f_i - Q_i / (1 - h_i)}{(n - 1) f_i}

        h is the leverage of the row, f = k - rank its degrees of freedom off the subspace, and s the noise variance
        without the row, as a share of that with it. The formula for :math:`T^2` is exact for the mean and the
        covariance of the latent variables; leverage and noise are bounded where first order says too little.
        """
        if not n > 1:
            msg = f"a row can be left out of a fit to more than 1 row; got n={n:g}."
            raise DataError(msg)
        free = np.maximum(self.degrees - self.rank, 1.0)
        kept = 1.0 - np.minimum((1.0 + self.inside) / n, most_leverage)
        noise = np.maximum((n * free - self.outside / kept) / ((n - 1.0) * free), least_noise)
        alone = np.maximum(1.0 - self.inside / (n - 1.0), 1.0 - most_leverage)
        return self._replace(inside=self.inside * (n / (n - 1.0)) / alone, outside=self.outside / (kept**2 * noise))


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    r"""Reference distribution of the squared distance of a row with k observed cells.

    .. math:: D^2 / (a k) \sim F(k, \nu)

    With :math:`\nu = \infty` it is the chi-square distribution scaled by a; with a = 1 besides, that of the fitted
    Gaussian itself, which ignores that parameters were estimated and that rows may have heavier tails.

    Examples
    --------
    >>> from probpca.inference import Calibration
    >>> Calibration().tail(20.0, 4)  # chi-square
    array(0.00049...)
    >>> Calibration(scale=1.2, degrees=8.0).tail(20.0, 4)
    array(0.0409...)
    """

    scale: float = 1.0  # a
    degrees: float = inf  # nu
    extreme: float = 0.0  # share of the rows of the fit that have model_p_value < RARE
    obstacle: str = ""  # why no distribution was matched: then the reference is chi-square

    def __post_init__(self) -> None:
        """Check the numbers once."""
        if not (0 < self.scale < inf and self.degrees > 0):
            msg = f"scale and degrees must be positive, and the scale finite; got {self.scale} and {self.degrees}."
            raise DataError(msg)

    def tail(self, distance: Array | float, degrees: Array | float) -> Array:
        """P(D2 > distance), degrees of freedom k being one for all or one each; 1 when there are none."""
        x = np.asarray(distance, dtype=np.float64) / self.scale
        return chi2_tail(x, degrees) if isinf(self.degrees) else f_tail(x, degrees, self.degrees)

    def log10_tail(self, distance: Array | float, degrees: Array | float, tail: Array | None = None) -> Array:
        """Log10 of P(D2 > distance), accurate far beyond the smallest float; ``tail`` if it is known already."""
        x = np.asarray(distance, dtype=np.float64) / self.scale
        if isinf(self.degrees):
            return log10_chi2_tail(x, degrees, tail)
        return log10_f_tail(x, degrees, self.degrees, tail)

    def exceeded(self, p: Array | float, degrees: Array | float) -> Array:
        """The distance that is exceeded with probability p: the inverse of ``tail``; 0 at zero degrees of freedom."""
        return self.scale * _exceeded(p, np.asarray(degrees, dtype=np.float64), self.degrees)

    @property
    def note(self) -> str:
        """What to be careful about; empty if there is nothing."""
        if self.obstacle:
            return f"p_value is the same as model_p_value: {self.obstacle}."
        if self.degrees >= HEAVY.degrees and self.extreme <= HEAVY.extreme:
            return ""
        degrees = f"{self.degrees:.2g}" if self.degrees < 100 else f"{self.degrees:,.0f}"
        shape = "chi-square" if isinf(self.degrees) else f"F with {degrees} degrees of freedom"
        many = f"{100 * self.extreme:.1f} % of the rows of the fit have model_p_value < {RARE}. "
        return (
            f"{many if self.extreme else ''}p_value is calibrated by the rows of the fit ({shape}, scale "
            f"{self.scale:.2g}), so outliers among them may hide each other (masking): look at model_p_value too."
        )


@final
@dataclass(frozen=True, slots=True)
class HeavyTails:
    """From when on rows of a fit may be hiding each other."""

    degrees: float = 5.0  # of freedom of the F distribution below which its tails are very heavy
    extreme: float = 0.05  # share of rows with model_p_value < RARE above which they are many


HEAVY = HeavyTails()


@final
@dataclass(frozen=True, slots=True)
class Matching:
    """How a reference distribution is matched to distances."""

    upper: float = 0.9  # the quantile, beside the median, that has to agree
    fewest: float = 20.0  # rows with observed cells that are needed, as weights count them
    heaviest: float = 1.0  # fewest degrees of freedom nu
    lightest: float = 1e5  # nu from which on F is chi-square: no table is large enough to tell them apart
    steps: int = 30  # of bisection on log nu


def matched(found: Distances, n: float, weight: Array | None = None, matching: Matching = Matching()) -> Calibration:
    r"""Match the reference distribution to the distances of rows of a fit, each as if its row had been left out.

    The median of the left-out distances and their 90 % quantile are to agree with those of
    :math:`a k F(k, \nu)`: for each nu, a makes the medians agree, and nu is found by bisection. Where tails are no
    heavier than those of a Gaussian, nu is infinite.

    ``n`` is that of ``Distances.left_out``. ``found`` may be some of the rows of the fit, and ``weight`` counts them.
    Rows without observed cells say nothing.
    """
    seen = np.isfinite(found.whole) & (found.degrees > 0)
    w = np.ones(seen.size) if weight is None else weight
    w, found = w[seen], Distances(*(part[seen] for part in found))
    if min(n, np.count_nonzero(w), w.sum()) < matching.fewest:
        return Calibration(
            obstacle=f"fewer than {matching.fewest:g} rows of the fit, as weights count them, can be judged"
        )
    extreme = float(w[chi2_tail(found.whole, found.degrees) < RARE].sum() / w.sum())
    distance = found.left_out(n).whole
    if not _quantile(distance, w, 0.5) > 0:
        return Calibration(obstacle="half of the rows of the fit lie at the mean")
    scale, nu = _Matched(distance, found.degrees, w, matching).find()
    return Calibration(scale, nu, extreme)


class _Matched:
    """Distances whose quantiles are to agree with those of a scaled F distribution."""

    def __init__(self, distance: Array, degrees: Array, weight: Array, matching: Matching) -> None:
        self.distance, self.weight, self.matching = distance, weight, matching
        self.sizes, self.which = np.unique(degrees, return_inverse=True)

    def find(self) -> tuple[float, float]:
        """Scale a and degrees of freedom nu."""
        low, high = log(self.matching.heaviest), log(self.matching.lightest)
        if self.excess(inf) <= 0:
            return self.ratio(0.5, inf), inf
        if self.excess(exp(low)) >= 0:
            return self.ratio(0.5, exp(low)), exp(low)
        for _ in range(self.matching.steps):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.excess(exp(middle)) < 0 else (low, middle)
        return self.ratio(0.5, exp(low)), exp(low)

    def excess(self, nu: float) -> float:
        """Log of the scale at the upper quantile over that at the median: positive where tails are heavier."""
        return log(self.ratio(self.matching.upper, nu) / self.ratio(0.5, nu))

    def ratio(self, share: float, nu: float) -> float:
        """The scale a at which a quantile agrees."""
        return _quantile(self.distance / _exceeded(1.0 - share, self.sizes, nu)[self.which], self.weight, share)


def _quantile(values: Array, weight: Array, share: float) -> float:
    """The value at place 1 + ``share`` (n - 1) of n in order, where a value of weight 2 stands twice."""
    order = np.argsort(values)
    cumulative = np.cumsum(weight[order])
    place = 1.0 + share * (cumulative[-1] - 1.0)
    below = np.floor(place)
    where = np.searchsorted(cumulative, np.array([below, below + 1.0]) * (1 - 1e-12))
    first, second = values[order[np.minimum(where, order.size - 1)]]
    return float(first + (place - below) * (second - first))


def chi2_tail(distance: Array | float, degrees: Array | float) -> Array:
    """P(chi2 > distance), degrees of freedom being one for all or one each; 1 when there are none."""
    half = 0.5 * np.asarray(degrees)
    return np.where(half > 0, gammaincc(np.where(half > 0, half, 1.0), 0.5 * np.asarray(distance)), 1.0)


def f_tail(distance: Array | float, degrees: Array | float, nu: float) -> Array:
    """P(k F > distance) for F distributed with k = ``degrees`` and nu degrees of freedom; 1 when k is 0."""
    half = 0.5 * np.asarray(degrees)
    share = nu / (nu + np.asarray(distance))  # beta distributed
    return np.where(half > 0, betainc(0.5 * nu, np.where(half > 0, half, 1.0), share), 1.0)


def log10_chi2_tail(distance: Array, degrees: Array | float, tail: Array | None = None) -> Array:
    """Log10 of P(chi2 > distance), accurate far beyond the smallest float; ``tail`` if it is known already."""
    tail = chi2_tail(distance, degrees) if tail is None else tail
    return _log10(tail, distance, degrees, _log_upper_gamma)


def log10_f_tail(distance: Array, degrees: Array | float, nu: float, tail: Array | None = None) -> Array:
    """Log10 of P(k F > distance), accurate far beyond the smallest float; ``tail`` if it is known already."""

    def far(half_degrees: Array, half_distance: Array) -> Array:
        return _log_lower_beta(0.5 * nu, half_degrees, half_distance / (0.5 * nu))

    return _log10(f_tail(distance, degrees, nu) if tail is None else tail, distance, degrees, far)


def _log10(tail: Array, distance: Array, degrees: Array | float, far: Callable[[Array, Array], Array]) -> Array:
    """Log10 of tails; ``far`` has the logarithms of those that are too small, from half the degrees and distances."""
    degrees = np.broadcast_to(np.asarray(degrees, dtype=np.float64), distance.shape)
    tiny = tail < SMALLEST_TAIL
    out = np.array(np.log10(np.where(tiny, 1.0, tail)))
    known = tiny & np.isfinite(distance)
    out[tiny] = -np.inf
    out[known] = far(0.5 * degrees[known], 0.5 * distance[known]) / np.log(10.0)
    return out


def _log_upper_gamma(a: Array, x: Array, terms: int = 200) -> Array:
    """Log of Gamma(a, x) / Gamma(a) for x well above a, by Lentz's continued fraction."""
    b = x + 1.0 - a
    c = np.full_like(x, 1e300)
    d = 1.0 / b
    h = d.copy()
    for i in range(1, terms):
        factor = -i * (i - a)
        b = b + 2.0
        d = 1.0 / (factor * d + b)
        c = b + factor / c
        h *= d * c
    return np.asarray(a * np.log(x) - x - gammaln(a) + np.log(h))


def _log_lower_beta(a: float, b: Array, odds: Array, terms: int = 200) -> Array:
    """Log of the regularised incomplete beta function at y = 1 / (1 + odds), well below its mean.

    By Lentz's continued fraction.
    """
    y = 1.0 / (1.0 + odds)
    c = np.ones_like(y)
    d = 1.0 / (1.0 - (a + b) * y / (a + 1.0))
    h = d.copy()
    for i in range(1, terms):
        for factor in (
            i * (b - i) * y / ((a + 2 * i - 1.0) * (a + 2 * i)),
            -(a + i) * (a + b + i) * y / ((a + 2 * i) * (a + 2 * i + 1.0)),
        ):
            d = 1.0 / (1.0 + factor * d)
            c = 1.0 + factor / c
            h *= d * c
    return np.asarray(-a * np.log1p(odds) - b * np.log1p(1.0 / odds) - np.log(a) - betaln(a, b) + np.log(h))


def _exceeded(p: Array | float, degrees: Array, nu: float) -> Array:
    """The value that k F(k, nu) exceeds with probability p; 0 when k is 0."""
    half = np.where(degrees > 0, 0.5 * degrees, 1.0)
    if isinf(nu):
        return np.where(degrees > 0, 2.0 * gammainccinv(half, p), 0.0)
    share = betaincinv(0.5 * nu, half, np.maximum(p, INVERTED_TAIL))
    value = np.asarray(nu * (1.0 - share) / share)
    tiny = np.broadcast_to(np.asarray(p) < INVERTED_TAIL, value.shape)
    if tiny.any():
        tails, halves = np.broadcast_to(p, value.shape)[tiny], np.broadcast_to(half, value.shape)[tiny]
        value[tiny] = nu * _far_odds(np.log(tails), 0.5 * nu, halves)
    return np.where(degrees > 0, value, 0.0)


def _far_odds(log_tail: Array, a: float, b: Array, steps: int = 12) -> Array:
    """Odds at which ``_log_lower_beta`` has a value far below zero, by Newton's method on a logarithmic scale."""
    log_odds = -(log_tail + np.log(a) + betaln(a, b)) / a  # where the tail is a power of the odds
    for _ in range(steps):
        odds = np.exp(np.minimum(log_odds, 700.0))
        found = _log_lower_beta(a, b, odds)
        slope = np.exp(-a * np.log1p(odds) - b * np.log1p(1.0 / odds) - betaln(a, b) - found)
        log_odds = log_odds + (found - log_tail) / slope
    return np.asarray(np.exp(np.where(log_odds < 700.0, log_odds, np.inf)))
