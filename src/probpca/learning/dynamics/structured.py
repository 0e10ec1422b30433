"""Fit of systems in which each feature has its own trend and season, and common factors where the data ask for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.available_memory import require_memory
from probpca.blocks.sequences import Sequences
from probpca.cached_property import cached_property
from probpca.inference.likelihood import LOG_2PI
from probpca.inference.time_series.kalman import believe, series_log_likelihood, smooth
from probpca.inference.time_series.prediction import innovations
from probpca.learning.dynamics.fit import SeriesResult, require_series
from probpca.learning.dynamics.horizon_errors import excess_of
from probpca.learning.dynamics.own import choose_own, recent_rows
from probpca.learning.dynamics.selection import Chosen
from probpca.learning.dynamics.stationary import (
    StationaryFactors,
    climb_stationary,
    in_canonical_coordinates,
    noise_floor,
    spread,
)
from probpca.learning.result import Status
from probpca.learning.settings import Settings
from probpca.models.components import OwnComponents, assemble, unscored_rows
from probpca.result_tables import several
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.learning.dynamics.own import OwnChoice
    from probpca.models import StateSpace
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True)
class FactorSearch:
    """Options of the search for factors beside, or instead of, the trends of single features."""

    largest_alone: int = 3  # largest number of factors of a single feature
    largest: int = 6  # largest number of factors of several features
    gain: float = 3.0  # least gain of the score, in nats: strong evidence for factors by the scale of Kass and Raftery
    steps: float = 3.0  # least number of scored steps for each parameter
    autoregression: int = 8  # largest order of the autoregressions that say whether factors are worth trying
    most_work: float = 5e5  # steps times squared states above which factors beside own trends are not tried
    loading: float = 0.5  # share of the standard deviation of a common error that is a factor at the start
    damping: float = 0.5  # transition of a factor at the start
    fit: Settings = field(default_factory=lambda: Settings(tol=0.5, max_iter=200))


SEARCH = FactorSearch()


class Fitted(NamedTuple):
    """A model with factors, and its score on the rows that all candidates predict."""

    model: StateSpace
    score: float
    free: int  # number of parameters
    status: Status
    trace: tuple[float, ...]


def fit_structured(  # noqa: PLR0913, PLR0917
    rows: Sequences,
    trend: str | Sequence[str] = "auto",
    seasonal: str | None = "auto",
    period: int = 1,
    n_factors: int | str | None = None,
    settings: Settings | None = None,
    rng: np.random.Generator | None = None,
) -> Chosen:
    """Fit a system in which each feature has a trend and a season, chosen by BIC where they are left open.

    Parameters
    ----------
    rows : Sequences
        One or several time series, as made by ``probpca.blocks.as_sequences``.
    trend : str or sequence of str, default="auto"
        Kind of the trend of all features or of each: "auto", "constant", "ar", "level", "drift", "damped", "slope".
    seasonal : "auto", "fixed", "stochastic" or None, default="auto"
        Kind of the season.
    period : int, default=1
        Number of steps of a season; 1 if there is none.
    n_factors : int, "bic" or None, default=None
        Number of common factors beside the trends or, if the trend is "auto" and BIC prefers it, instead of them.
        None: factors are tried instead of the trend of a single feature, and not for several features.
    settings : Settings or None
        Tolerance and number of iterations of the fit of factors.
    rng : numpy.random.Generator or None
        Random number generator, for starting points.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.blocks import as_sequences
    >>> from probpca.learning.dynamics import fit_structured
    >>> y = np.cumsum(np.random.default_rng(0).standard_normal((200, 1)), axis=0)
    >>> chosen = fit_structured(as_sequences(y))
    >>> chosen.result.model.layout.roles, chosen.rule
    (('level',), 'trend by BIC among 220 candidates')
    """
    require_series(rows)
    with one_blas_thread():
        own = choose_own(rows, trend, seasonal, period)
        states = rows.n_features * (2 + 2 * own.period)
        require_memory(f"about {states:,} states of {rows.n_features:,} features", 8 * 8 * states * states, "use fewer")
        settings = SEARCH.fit if settings is None else settings
        if not isinstance(n_factors, int):  # of several numbers of factors
            settings = replace(settings, tol=max(settings.tol, SEARCH.fit.tol), n_init=1)
        search = _Search(rows, own, trend, settings, rng or np.random.default_rng(0))
        best, scores = search.best(n_factors)
        model = search.without_factors() if best is None else search.with_honest_intervals(best)
        posterior = believe(model, rows)
        value = posterior.log_likelihood()
    status, trace = (Status.GRID, (value,)) if best is None else (best.status, best.trace)
    trace = (*trace[:-1], value) if len(trace) > 1 else (value, value)
    empty, observed = np.flatnonzero(rows.counts == 0), int(rows.counts.sum())
    result = SeriesResult(model, status, value, trace, len(trace) - 1, observed, empty)
    rule = _rule(own, trend, seasonal, scores, n_factors, model)
    if own.period < period and seasonal is not None:
        rule = f"{rule}, too few rows for a season of {period:,} steps"
    return Chosen(result, rule, scores, posterior.last_states())


def _rule(
    own: OwnChoice, trend: Any, seasonal: Any, scores: dict[int, float], n_factors: int | str | None, model: StateSpace
) -> str:
    """How the model was chosen, in words."""
    count = several(model.n_factors, "factor")
    if not model.has_own_states:
        return f"constant levels by BIC, {count} {'as given' if isinstance(n_factors, int) else 'by BIC'}"
    given = (("trend", trend), ("season", seasonal if own.period > 1 else None))
    what = [name for name, word in given if word == "auto"]
    rule = f"{' and '.join(what)} by BIC among {own.n_tried:,} candidates" if what else "as given"
    return f"{rule}, {count} by BIC" if len(scores) > 1 else rule


@final
@dataclass(frozen=True, eq=False)
class _Search:
    """Systems with factors, all scored on the same rows: those after the ones that determine unknown starts."""

    rows: Sequences
    own: OwnChoice
    trend: Any
    settings: Settings
    rng: np.random.Generator

    @property
    def unit(self) -> Array:
        """Standard deviation of each feature: (d,)."""
        return spread(self.rows)

    @cached_property
    def recent(self) -> Sequences:
        """The rows that systems are compared on: the last ones of each sequence."""
        return recent_rows(self.rows)

    @property
    def n(self) -> int:
        """Number of steps that are scored."""
        return max(self.recent.n_steps - unscored_rows(self.own.period) * len(self.rows.lengths), 2)

    def without_factors(self) -> StateSpace:
        """The system of own components alone."""
        return assemble(self.own.components, self.own.offset, self.own.period)

    def best(self, n_factors: int | str | None) -> tuple[Fitted | None, dict[int, float]]:
        """Best system with factors, None if none is better than own components alone; and the score of each number."""
        base, d = float(self.own.value.sum()), self.rows.n_features
        if n_factors == 0 or (n_factors is None and not self._may_have_cycles()):
            return None, {0: base}
        if isinstance(n_factors, int):
            found = self.fitted(n_factors)
            return found, {n_factors: found.score}
        best, scores = None, {0: base}
        least, most = (2, SEARCH.largest_alone) if d == 1 else (1, SEARCH.largest)  # "ar" is one factor of one feature
        for q in range(least, most + 1):
            if self.n < SEARCH.steps * (_factor_parameters(q, d) / d + 1):
                break
            found = self.fitted(q)
            margin = SEARCH.gain if best is None else 0.0
            worse, scores[q] = found.score <= max(scores.values()) + margin, found.score
            if not worse:
                best = found
            elif q > least or d == 1:
                break
        return best, scores

    @property
    def _may_replace_trends(self) -> bool:
        return self.trend == "auto"

    def _may_have_cycles(self) -> bool:
        """Whether an autoregression of order 2 or more predicts a single feature better than its own components.

        That takes a millisecond, and most series say no. Factors are not tried in place of a season.
        """
        if self.rows.n_features > 1 or not self._may_replace_trends or self.own.components[0].season is not None:
            return False
        if self.rows.missing is not None:
            return True
        unscored, most = unscored_rows(self.own.period), SEARCH.autoregression
        parts = [part[:, 0] for part in self.recent.split(self.recent.values) if len(part) > most]
        values = [_autoregression_score(parts, order, unscored, self.n) for order in range(2, most + 1)]
        return max(values) > float(self.own.value.sum()) + SEARCH.gain

    def fitted(self, q: int) -> Fitted:
        """Better one of the systems with q factors beside own trends, and with constant levels.

        Factors beside trends take seconds. They are tried if trends alone predict better than factors alone.
        """
        if not self._may_replace_trends:
            return self.beside(q)
        found = self.instead(q)
        work = self.rows.n_steps * (self.without_factors().n_components + q) ** 2
        if self.rows.n_features == 1 or work > SEARCH.most_work or found.score > float(self.own.value.sum()):
            return found
        return max((found, self.beside(q)), key=lambda one: one.score)

    def beside(self, q: int) -> Fitted:
        """System with q factors beside the own trends and seasons."""
        own, d = self.own, self.rows.n_features
        errors = np.nan_to_num(innovations(self.without_factors(), self.rows).residual / self.unit)
        axes = np.linalg.svd(errors, full_matrices=False)
        loadings = np.zeros((d, q))
        k = min(q, len(axes[1]))
        loadings[:, :k] = axes[2][:k].T * axes[1][:k] / np.sqrt(len(errors)) * SEARCH.loading
        loadings[:, k:] = 0.05 * self.rng.standard_normal((d, q - k))
        A = SEARCH.damping * np.eye(q)
        start = assemble(own.components, own.offset, own.period, transition=A, loadings=loadings * self.unit[:, None])
        free = sum(
            1 + (c.level > 0) + (c.slope > 0) + (c.damping not in (0.0, 1.0)) + bool(c.season) for c in own.components
        )
        layout = start.layout
        whole = replace(start, layout=None if layout is None else replace(layout, unscored=0))
        problem = StationaryFactors(whole, self.rows, self.unit, noise_floor(self.rows))
        ended = problem.fit(whole, replace(self.settings, tol=max(self.settings.tol, SEARCH.fit.tol)))
        model = replace(in_canonical_coordinates(ended.state), layout=layout)
        free_all = free + _factor_parameters(q, d)
        return Fitted(model, self._score(model, free, q), free_all, ended.status, ended.trace)

    def instead(self, q: int) -> Fitted:
        """System with q factors and constant levels, beside the own seasons."""
        rows, own = self.rows, self.own
        seasonal = [c.season is not None for c in own.components]
        rows = self._without_season() if any(seasonal) else rows
        found = climb_stationary(rows, q, self.settings, self.rng)
        model, d = found.state, rows.n_features
        free = d + sum(bool(c.season) for c in own.components)
        free_all = free + _factor_parameters(q, d)
        if any(seasonal):
            model = self._assembled(model)
            return Fitted(model, self._score(model, free, q), free_all, found.status, found.trace)
        some = self.recent
        first = [np.minimum(unscored_rows(own.period), part) for part in some.lengths]
        begun = Sequences(
            np.vstack([part[:k] for part, k in zip(some.split(some.values), first, strict=True)]), np.array(first)
        )
        value = series_log_likelihood(model, some) - series_log_likelihood(model, begun)  # of rows after the first ones
        penalty = 0.5 * float(np.log(self.n)) * (free_all + d)  # d levels
        return Fitted(model, value - penalty, free_all, found.status, found.trace)

    def _assembled(self, model: StateSpace) -> StateSpace:
        """Levels as unknown constants, the seasons of the features, and the factors of a system without them."""
        noise = np.broadcast_to(model.emission.noise_variance, (model.n_features,))
        levels = [
            OwnComponents("constant", float(r), season=c.season, unit=max(c.unit, float(u) ** 2), start=c.start)
            for c, r, u in zip(self.own.components, noise, self.unit, strict=True)
        ]
        A, C = model.transition, model.emission.loadings
        return assemble(levels, self.own.offset, self.own.period, transition=A, loadings=C)

    def _without_season(self) -> Sequences:
        """Rows minus the smoothed season of each feature."""
        model = self.without_factors()
        out = self.rows.values.copy()
        for part in model.parts() or []:
            j = part.feature
            out[:, j] -= _season(part.model, Sequences(self.rows.values[:, [j]], self.rows.lengths))
        if self.rows.n_features == 1:
            out[:, 0] -= _season(model, self.rows)
        return Sequences(out, self.rows.lengths)

    def _score(self, model: StateSpace, own_parameters: int, q: int) -> float:
        """Log-likelihood of the scored rows less the penalty of BIC."""
        value = series_log_likelihood(model, self.recent)
        return value - 0.5 * float(np.log(self.n)) * int(own_parameters + _factor_parameters(q, model.n_features))

    def with_honest_intervals(self, fitted: Fitted) -> StateSpace:
        """The same forecasts, with variances that include the number of parameters and the errors of several steps."""
        model, d = fitted.model, self.rows.n_features
        free = fitted.free / d
        uncertain = (self.n + free) / max(self.n - free - 2, 1.0)  # as for own components
        return scaled(model, uncertain * excess_of(model, self.recent, unscored_rows(self.own.period)))


def scaled(model: StateSpace, factor: float) -> StateSpace:
    """System with all variances multiplied by a factor: its expectations stay, its intervals change."""
    layout, emission = model.layout, model.emission
    emission = replace(emission, noise_variance=emission.noise_variance * factor)
    some = np.arange(model.n_components) if layout is None else layout.factors
    own = np.setdiff1d(np.arange(model.n_components), some)
    C, Q, P = emission.loadings.copy(), model.process_noise.copy(), model.initial.covariance.copy()
    C[:, some] *= np.sqrt(factor)
    Q[own] *= factor
    P[own] *= factor
    initial = replace(model.initial, covariance=P)
    return replace(model, initial=initial, process_noise=Q, emission=replace(emission, loadings=C))


def _factor_parameters(q: int, d: int) -> int:
    """Free parameters of q factors: transition and loadings, without rotations."""
    return q * q + d * q - q * (q - 1) // 2


def _autoregression_score(parts: Sequence[Array], order: int, unscored: int, n: int) -> float:
    """Log-likelihood of an autoregression of some order less the penalty of BIC, as if it had n scored rows."""
    first = max(unscored, order)
    past = [np.column_stack([part[first - k : len(part) - k] for k in range(1, order + 1)]) for part in parts]
    known = np.vstack([np.zeros((0, order)), *past])
    target = np.concatenate([np.zeros(0), *(part[first:] for part in parts)])
    if len(target) <= order + 1:
        return -np.inf
    known = np.column_stack([np.ones(len(known)), known])
    squares = np.square(target - known @ np.linalg.lstsq(known, target, rcond=None)[0]).mean()
    value = -0.5 * n * (np.log(max(squares, 1e-300)) + 1 + LOG_2PI)
    return float(value - 0.5 * np.log(n) * (order + 1))


def _season(model: StateSpace, rows: Sequences) -> Array:
    """Smoothed season of a single feature: (n,)."""
    some = np.zeros(0, np.intp) if model.layout is None else model.layout.of("season")
    if not some.size:
        return np.zeros(rows.n_steps)
    return np.asarray(smooth(model, rows).mean[:, some] @ model.emission.loadings[0, some])
