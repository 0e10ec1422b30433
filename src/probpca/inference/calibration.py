"""Reference distributions of squared distances: chi-square, and a scaled F distribution fitted to the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, floor, inf, isinf, log
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.special import betainc, betaincinv, betaln, gammaincc, gammainccinv, gammaln

from probpca.errors import DataError
from probpca.models.schema import SMALLEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.typing import Array

RARE = 0.001
"""The p-value below which displays, the report and the command line call a row unusual."""
SMALLEST_TAIL = 1e-200
"""Probabilities below this are computed on a logarithmic scale."""
INVERTED_TAIL = 1e-30
"""Probabilities below this are inverted on a logarithmic scale."""


def probability(log10_p: float) -> str:
    """Format a probability given its base-10 logarithm: 0.034, 0.00021, 3.4e-12, 1.5e-400."""
    if log10_p >= -4 or log10_p == -inf:
        return f"{10**log10_p:.2g}"
    lead, _, power = f"{10 ** (log10_p % 1):.1e}".partition("e")
    return f"{lead}e{floor(log10_p) + int(power):03d}"


class Distances(NamedTuple):
    """Squared distances of rows from a model, D2 = T2 + Q, with their degrees of freedom."""

    inside: Array  # T2, within the principal subspace: (n,)
    outside: Array  # Q, orthogonal to the subspace, in units of the noise: (n,)
    degrees: Array  # degrees of freedom of D2, the number k of observed cells: (n,)
    rank: Array  # degrees of freedom of T2: (n,)

    @classmethod
    def empty(cls, n: int) -> Distances:
        """Uninitialised arrays for the distances of ``n`` rows."""
        return cls(np.empty(n), np.empty(n), np.empty(n), np.empty(n))

    @property
    def whole(self) -> Array:
        """Squared distance D2 = T2 + Q of each row: (n,)."""
        return self.inside + self.outside

    def left_out(self, n: float | Array, most_leverage: float = 0.95, least_noise: float = 0.2) -> Distances:
        r"""Leave-one-out distances: of each training row from a model fitted without it, to first order.

        ``n`` is the number of training rows, or one for each row; with missing cells, the average number of rows in
        which a feature was observed.

        .. math::
            T^2_{-i} = \frac{n}{n - 1} \frac{T_i^2}{1 - T_i^2 / (n - 1)}, \qquad
            Q_{-i} = \frac{Q_i}{(1 - h_i)^2 s_i}, \qquad
            h_i = \frac{1 + T_i^2}{n}, \quad
            s_i = \frac{n f_i - Q_i / (1 - h_i)}{(n - 1) f_i}

        Here h is the leverage of the row, f = k - rank its degrees of freedom orthogonal to the subspace, and s the
        noise variance without the row relative to that with it. The formula for :math:`T^2` is exact for the mean and
        the covariance of the latent variables. Leverage and noise variance are bounded by ``most_leverage`` and
        ``least_noise``, beyond which a first-order formula is not reliable.
        """
        least = float(np.min(np.asarray(n, dtype=np.float64), initial=np.inf))
        if not least > 1:
            msg = f"leave-one-out distances need a fit to more than 1 row; got n={least:g}."
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

    With :math:`\nu = \infty` this is a chi-square distribution scaled by a. With a = 1 as well, it is the distribution
    under the fitted Gaussian itself, which ignores that parameters were estimated and that the data may have heavier
    tails. ``calibrate`` chooses a and :math:`\nu` to match the training rows.

    Attributes
    ----------
    scale : float
        The scale a.
    degrees : float
        Denominator degrees of freedom nu; infinite for chi-square.
    extreme : float
        Share of the training rows with ``model_p_value`` below 0.001.
    obstacle : str
        Reason why no distribution could be matched, so that the reference is chi-square; otherwise empty.

    Examples
    --------
    >>> from probpca.inference import Calibration
    >>> Calibration().tail(20.0, 4)  # chi-square
    array(0.00049...)
    >>> Calibration(scale=1.2, degrees=8.0).tail(20.0, 4)
    array(0.0409...)
    """

    scale: float = 1.0
    degrees: float = inf
    extreme: float = 0.0
    obstacle: str = ""

    def __post_init__(self) -> None:
        """Check that scale and degrees of freedom are positive, and that half of the degrees is not rounded to 0."""
        if not (0 < self.scale < inf and self.degrees >= SMALLEST):
            msg = (
                f"scale and degrees must be positive, scale finite and degrees at least {SMALLEST:.2g}; "
                f"got {self.scale} and {self.degrees}."
            )
            raise DataError(msg)

    def tail(self, distance: Array | float, degrees: Array | float) -> Array:
        """Tail probability P(D2 > distance) of squared distances with k = ``degrees`` observed cells; 1 if k = 0."""
        x = np.asarray(distance, dtype=np.float64) / self.scale
        return chi2_tail(x, degrees) if isinf(self.degrees) else f_tail(x, degrees, self.degrees)

    def log10_tail(self, distance: Array | float, degrees: Array | float, tail: Array | None = None) -> Array:
        """Base-10 logarithm of P(D2 > distance), accurate far below the smallest float.

        ``tail`` is the result of ``Calibration.tail`` if it has been computed already, which saves time.
        """
        x = np.asarray(distance, dtype=np.float64) / self.scale
        if isinf(self.degrees):
            return log10_chi2_tail(x, degrees, tail)
        return log10_f_tail(x, degrees, self.degrees, tail)

    def exceeded(self, p: Array | float, degrees: Array | float) -> Array:
        """Squared distance that is exceeded with probability ``p``, the inverse of ``tail``; 0 if ``degrees`` is 0."""
        return self.scale * _exceeded(p, np.asarray(degrees, dtype=np.float64), self.degrees)

    @property
    def note(self) -> str:
        """Warning about the p-values: not calibrated, or calibrated to very heavy tails; empty if there is none."""
        if self.obstacle:
            return f"p_value is the same as model_p_value: {self.obstacle}."
        if self.degrees >= HEAVY.degrees and self.extreme <= HEAVY.extreme:
            return ""
        many = f"{100 * self.extreme:.1f}% of the training rows have model_p_value < {RARE}. "
        return (
            f"{many if self.extreme else ''}The training rows have heavier tails than the model, and p_value allows "
            "for that. If some of them are outliers, they may hide each other (masking): check model_p_value too."
        )


@final
@dataclass(frozen=True, slots=True)
class HeavyTails:
    """Thresholds beyond which ``Calibration.note`` warns that outliers may mask each other."""

    degrees: float = 5.0  # degrees of freedom nu below which the tails are very heavy
    extreme: float = 0.05  # largest share of rows with model_p_value < RARE without a warning


HEAVY = HeavyTails()


@final
@dataclass(frozen=True, slots=True)
class Matching:
    """Options of matching a reference distribution to distances."""

    upper: float = 0.9  # the quantile that is matched besides the median
    fewest: float = 20.0  # smallest total weight of rows with observed cells
    heaviest: float = 1.0  # smallest degrees of freedom nu
    lightest: float = 1e5  # above this nu, F is indistinguishable from chi-square
    steps: int = 30  # steps of bisection on log nu


def matched(
    found: Distances, n: float | Array, weight: Array | None = None, matching: Matching = Matching()
) -> Calibration:
    r"""Match the reference distribution of squared distances to the leave-one-out distances of training rows.

    The scale a and the degrees of freedom nu are chosen so that the median and the 90% quantile agree with those of
    :math:`a k F(k, \nu)`: for each nu the medians determine a, and nu is found by bisection. If the tails are no
    heavier than those of a Gaussian, nu is infinite.

    ``found`` holds the distances of all training rows or of a sample, with frequencies ``weight``; ``n`` is the
    number of training rows, or one for each row, as in ``Distances.left_out``. Rows without observed cells are ignored.
    """
    seen = np.isfinite(found.whole) & (found.degrees > 0)
    w = np.ones(seen.size) if weight is None else weight
    w, n, found = w[seen], np.broadcast_to(n, seen.shape)[seen], Distances(*(part[seen] for part in found))
    if min(n.max(initial=0.0), np.count_nonzero(w), w.sum()) < matching.fewest:
        return Calibration(
            obstacle=f"fewer than {matching.fewest:g} training rows, counted by weight, have observed cells"
        )
    extreme = float(w[chi2_tail(found.whole, found.degrees) < RARE].sum() / w.sum())
    distance = found.left_out(n).whole
    if not weighted_quantile(distance, w, 0.5) > 0:
        return Calibration(obstacle="half of the training rows lie at the mean")
    scale, nu = _Matched(distance, found.degrees, w, matching).find()
    return Calibration(scale, nu, extreme)


def median_scaled(found: Distances, n: float, weight: Array | None, share: float) -> Calibration:
    """Scaled chi-square whose quantile ``share`` is the median of the leave-one-out distances of training rows.

    ``found``, ``n`` and ``weight`` are those of ``matched``. Robust fits use it for the rows that they used: it does
    not depend on the rows that they left out.
    """
    seen = np.isfinite(found.whole) & (found.degrees > 0)
    w = np.ones(seen.size) if weight is None else weight
    seen &= w > 0
    if not (n > 1 and seen.any()):
        return Calibration()
    ratio = found.left_out(n).whole[seen] / _exceeded(1.0 - share, found.degrees[seen], inf)
    scale = weighted_quantile(ratio, w[seen], 0.5)
    return Calibration(scale) if 0 < scale < inf else Calibration()


class _Matched:
    """Search for the scaled F distribution whose quantiles agree with those of given distances."""

    def __init__(self, distance: Array, degrees: Array, weight: Array, matching: Matching) -> None:
        self.distance, self.weight, self.matching = distance, weight, matching
        self.sizes, self.which = np.unique(degrees, return_inverse=True)

    def find(self) -> tuple[float, float]:
        """Scale a and degrees of freedom nu of the matched distribution."""
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
        """Log ratio of the scales at the upper quantile and at the median: positive if the tails are heavier."""
        return log(self.ratio(self.matching.upper, nu) / self.ratio(0.5, nu))

    def ratio(self, share: float, nu: float) -> float:
        """Scale a at which the quantile ``share`` agrees for nu degrees of freedom."""
        return weighted_quantile(self.distance / _exceeded(1.0 - share, self.sizes, nu)[self.which], self.weight, share)


def weighted_quantile(values: Array, weight: Array, share: float) -> float:
    """Weighted quantile: the value at position 1 + ``share`` (n - 1), with weights as frequencies."""
    order = np.argsort(values)
    cumulative = np.cumsum(weight[order])
    place = 1.0 + share * (cumulative[-1] - 1.0)
    below = np.floor(place)
    where = np.searchsorted(cumulative, np.array([below, below + 1.0]) * (1 - 1e-12))
    first, second = values[order[np.minimum(where, order.size - 1)]]
    return float(first + (place - below) * (second - first))


def chi2_tail(distance: Array | float, degrees: Array | float) -> Array:
    """Tail probability P(chi2 > distance) with the given degrees of freedom; 1 for zero degrees of freedom."""
    half = 0.5 * np.asarray(degrees)
    return np.where(half > 0, gammaincc(np.where(half > 0, half, 1.0), 0.5 * np.asarray(distance)), 1.0)


def f_tail(distance: Array | float, degrees: Array | float, nu: float) -> Array:
    """Tail probability P(k F > distance) for F with k = ``degrees`` and nu degrees of freedom; 1 if k = 0."""
    half = 0.5 * np.asarray(degrees)
    share = nu / (nu + np.asarray(distance))  # follows a beta distribution
    return np.where(half > 0, betainc(0.5 * nu, np.where(half > 0, half, 1.0), share), 1.0)


def log10_chi2_tail(distance: Array, degrees: Array | float, tail: Array | None = None) -> Array:
    """Base-10 logarithm of P(chi2 > distance), accurate far below the smallest float; ``tail`` if known already."""
    tail = chi2_tail(distance, degrees) if tail is None else tail
    return _log10(tail, distance, degrees, _log_upper_gamma)


def log10_f_tail(distance: Array, degrees: Array | float, nu: float, tail: Array | None = None) -> Array:
    """Base-10 logarithm of P(k F > distance), accurate far below the smallest float; ``tail`` if known already."""

    def far(half_degrees: Array, half_distance: Array) -> Array:
        return _log_lower_beta(0.5 * nu, half_degrees, half_distance / (0.5 * nu))

    return _log10(f_tail(distance, degrees, nu) if tail is None else tail, distance, degrees, far)


def _log10(tail: Array, distance: Array, degrees: Array | float, far: Callable[[Array, Array], Array]) -> Array:
    """Base-10 logarithm of tails; ``far`` computes those too small for a float from half the degrees and distances."""
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
    """Log of the regularised incomplete beta function at y = 1 / (1 + odds), by Lentz's continued fraction.

    Accurate for y well below the mean of the beta distribution.
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
    """Value that k F(k, nu) exceeds with probability p; 0 if k = 0."""
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
    """Odds at which ``_log_lower_beta`` equals ``log_tail``, far below zero, by Newton's method on a log scale."""
    log_odds = -(log_tail + np.log(a) + betaln(a, b)) / a  # start: the tail as a power of the odds
    for _ in range(steps):
        odds = np.exp(np.minimum(log_odds, 700.0))
        found = _log_lower_beta(a, b, odds)
        slope = np.exp(-a * np.log1p(odds) - b * np.log1p(1.0 / odds) - betaln(a, b) - found)
        log_odds = log_odds + (found - log_tail) / slope
    return np.asarray(np.exp(np.where(log_odds < 700.0, log_odds, np.inf)))
