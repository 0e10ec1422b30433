"""Choice of the trend and the season of each feature, by BIC among a grid of candidates that are filtered together."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.blocks.sequences import Sequences
from probpca.errors import DataError
from probpca.inference.likelihood import LOG_2PI
from probpca.learning.dynamics.horizon_errors import excess
from probpca.models.components import (
    DIFFUSE,
    LEAST_NOISE,
    SLOPED,
    TRENDS,
    OwnComponents,
    seasonal_block,
    unscored_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True)
class Grid:
    """Candidates for the trend and the season of a feature, in units of the variance of one step."""

    shares: tuple[float, ...] = (0.0, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # of the level
    slopes: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 0.05, 0.2)  # variances of the slope
    dampings: tuple[float, ...] = (0.8, 0.9, 0.97)
    autoregressions: tuple[float, ...] = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
    ar_shares: tuple[float, ...] = (0.1, 0.3, 0.6, 0.9, 1.0)  # of the deviation "ar" in deviation + noise
    seasons: tuple[float, ...] = (0.0, 1e-4, 1e-3, 1e-2, 0.05)  # variances of each seasonal state; 0: a fixed season
    least_scale: float = 1e-10  # smallest variance of one step, relative to that of the feature
    most_steps: int = 600  # of each sequence; the last ones are used
    leaders: int = 3  # trends of a feature whose best candidate is refined
    steady: float = 1e-9  # change of all covariances in one step below which they are kept


GRID = Grid()


class Candidate(NamedTuple):
    """Trend and season, in units of the variance of one step."""

    trend: str
    share: float
    damping: float
    slope: float
    season: float | None
    free: int  # number of parameters, the scale included
    place: tuple[int, int, int, int] = (0, 0, 0, 0)  # positions of share, damping, slope and season in the grid

    def components(self, scale: float, start: float) -> OwnComponents:
        """The same in units of the data, given the variance of one step."""
        own = self.trend == "ar"
        return OwnComponents(
            trend=self.trend,
            noise=max(1 - self.share, LEAST_NOISE) * scale,
            level=0.0 if own else self.share * scale,
            slope=self.slope * scale,
            damping=self.damping,
            season=None if self.season is None else float(self.season * scale),
            unit=scale,
            start=start,
        )


def trend_candidates(trends: Sequence[str] = TRENDS, grid: Grid = GRID) -> list[Candidate]:
    """Candidates without a season."""
    rows: list[Candidate] = []
    for i, a in enumerate(grid.shares):
        kind = "constant" if a == 0 else "level"
        rows.append(Candidate(kind, a, 0.0, 0.0, None, 1 + (a > 0), (i, 0, 0, 0)))
        rows.append(Candidate("drift", a, 1.0, 0.0, None, 2 + (a > 0), (i, 0, 0, 0)))
        slopes = list(enumerate(grid.slopes))
        both = product(enumerate(grid.dampings), slopes[1:])
        rows += [Candidate("damped", a, phi, r, None, 4, (i, j, k, 0)) for (j, phi), (k, r) in both]
        rows += [Candidate("slope", a, 1.0, r, None, 3, (i, 0, k, 0)) for k, r in slopes]
    each = product(enumerate(grid.autoregressions), enumerate(grid.ar_shares))
    rows += [Candidate("ar", a, phi, a * (1 - phi**2), None, 3, (i, j, 0, 0)) for (j, phi), (i, a) in each]
    return [row for row in rows if row.trend in trends]


@final
@dataclass(frozen=True, eq=False)
class Systems:
    """Systems of one feature with states [level, slope or deviation, season ..]: one for each candidate."""

    transition: Array  # (g, m, m)
    loadings: Array  # (g, m)
    process_noise: Array  # variances: (g, m)
    noise: Array  # (g,)
    initial: Array  # variances of the first state: (g, m)

    @classmethod
    def of(cls, candidates: Sequence[Candidate], period: int) -> Systems:
        """Assemble the systems; the states of a season that a candidate does not have stay zero."""
        seasonal = any(c.season is not None for c in candidates)
        G, z = seasonal_block(period) if seasonal else (np.zeros((0, 0)), np.zeros(0))
        trend = np.array([c.trend for c in candidates])
        share, phi, slope = (np.array([c[k] for c in candidates]) for k in (1, 2, 3))
        g, m, own = len(candidates), 2 + len(z), trend == "ar"
        F, Z, Q, P = np.zeros((g, m, m)), np.zeros((g, m)), np.zeros((g, m)), np.zeros((g, m))
        F[:, 0, 0], F[:, 0, 1], F[:, 1, 1], F[:, 2:, 2:] = 1.0, np.isin(trend, SLOPED), phi, G
        Z[:, 0], Z[:, 1], Z[:, 2:] = 1.0, own, z
        Q[:, 0], Q[:, 1] = np.where(own, 0.0, share), slope
        P[:, 0] = P[:, 2:] = DIFFUSE
        P[:, 1] = np.where(np.isin(trend, ("drift", "slope")), DIFFUSE, slope / np.maximum(1 - phi**2, 1e-12))
        if seasonal:
            Q[:, 2:] = np.array([c.season or 0.0 for c in candidates])[:, None]
            P[[c.season is None for c in candidates], 2:] = 0.0
        return cls(F, Z, Q, np.maximum(1 - share, LEAST_NOISE), P)

    def some(self, places: slice) -> Systems:
        """Some of the systems."""
        return Systems(*(getattr(self, field.name)[places] for field in fields(self)))


class Scored(NamedTuple):
    """Sums over the scored cells of one pattern of observed cells, for g candidates and c columns."""

    squares: Array  # of standardised errors: (g, c)
    logs: Array  # of their variances: (g,)
    n: int


def filter_all(systems: Systems, X: Array, seen: npt.NDArray[np.bool_], unscored: int, steady: float) -> Scored:
    """Filter all columns (n, c), which miss the same cells, by all candidates; the first cells are not scored."""
    F, Z, Q, R = systems.transition, systems.loadings, systems.process_noise, systems.noise
    (g, m), c, turned = Z.shape, X.shape[1], np.swapaxes(F, 1, 2)
    P, state = np.zeros((g, m, m)), np.zeros((g, m, c))
    diagonal = np.arange(m)
    P[:, diagonal, diagonal] = systems.initial
    places = np.flatnonzero(seen)
    state[:, 0] = X[places[0]]
    squares, logs, count, met, is_steady = np.zeros((g, c)), np.zeros(g), 0, 0, False
    S, gain = np.ones(g), np.zeros((g, m, 1))
    for t in range(places[0], places[-1] + 1):
        if not seen[t]:
            state, P, is_steady = F @ state, F @ P @ turned, False
            P[:, diagonal, diagonal] += Q
            continue
        error = X[t] - (Z[:, None] @ state)[:, 0]
        if not is_steady:
            PZ = (P @ Z[:, :, None])[:, :, 0]
            S = (PZ * Z).sum(axis=1) + R
            K = PZ / S[:, None]
            after = F @ (P - K[:, :, None] * PZ[:, None]) @ turned
            after[:, diagonal, diagonal] += Q
            is_steady = met > unscored and t % 8 == 0 and float(np.abs(after - P).max()) < steady
            P, gain = after, F @ K[:, :, None]
        state = F @ state + gain * error[:, None]
        if met >= unscored:
            squares += error * error / S[:, None]
            logs += np.log(S)
            count += 1
        met += 1
    return Scored(squares, logs, count)


@final
@dataclass(frozen=True, eq=False)
class Own:
    """What the grid says about each feature."""

    candidates: list[Candidate]
    value: Array  # log-likelihood of the scored cells less the penalty of BIC: (g, d)
    scale: Array  # variance of one step, relative to that of the feature: (g, d)
    counts: Array  # number of scored cells: (d,)


def try_all(
    candidates: Sequence[Candidate],
    parts: Sequence[tuple[Array, npt.NDArray[np.bool_]]],
    period: int,
    grid: Grid = GRID,
) -> Own:
    """Value of each candidate for each feature, given standardised sequences and their masks."""
    d, g, unscored = parts[0][0].shape[1], len(candidates), unscored_rows(period)
    squares, logs, counts = np.zeros((g, d)), np.zeros((g, d)), np.zeros(d)
    groups: dict[object, list[int]] = {}
    for i, c in enumerate(candidates):  # those that come to a steady state together, or never do
        groups.setdefault((c.season, c.share == 0 and c.slope == 0), []).append(i)
    systems = {key: Systems.of([candidates[i] for i in some], period) for key, some in groups.items()}
    for X, seen in parts:
        patterns, which = np.unique(seen, axis=1, return_inverse=True)
        for k, pattern in enumerate(patterns.T):
            columns = np.flatnonzero(which.ravel() == k)
            if not pattern.any():
                continue
            for key, some in groups.items():
                found = filter_all(systems[key], X[:, columns], pattern, unscored, grid.steady)
                at = np.ix_(np.array(some), columns)
                squares[at] += found.squares
                logs[at] += found.logs[:, None]
            counts[columns] += found.n
    free = np.array([c.free for c in candidates], dtype=np.float64)[:, None]
    n = np.maximum(counts, 1.0)
    mean = squares / n
    # Of candidates that all predict to the last digit, the simplest is the best, whatever their variances are.
    log_variance = np.maximum(np.log(np.maximum(mean, np.finfo(float).tiny)) + logs / n, np.log(grid.least_scale))
    value = -0.5 * counts * (log_variance + 1 + LOG_2PI) - 0.5 * np.log(np.maximum(counts, 2.0)) * free
    # The variance of a t distribution with n - free degrees of freedom, as the variance of one step is estimated, and
    # of new rows, which did not choose the parameters (Akaike's final prediction error).
    scale = np.maximum(mean * (n + free) / np.maximum(n - free - 2, 1.0), grid.least_scale)
    return Own(list(candidates), value, scale, counts)


def with_seasons(candidates: Sequence[Candidate], seasons: Sequence[float]) -> list[Candidate]:
    """Each candidate with each season."""
    return [
        c._replace(season=s, free=c.free + (s > 0), place=(*c.place[:3], k))
        for c, (k, s) in product(candidates, enumerate(seasons))
    ]


def coarse(candidates: Sequence[Candidate], grid: Grid = GRID) -> npt.NDArray[np.bool_]:
    """Whether each candidate is one of the few that are tried first: every other position, and the ends of the grid."""
    last, last_slope, last_ar = len(grid.shares) - 1, len(grid.slopes) - 1, len(grid.ar_shares) - 1
    out = []
    for c in candidates:
        i, j, k, s = c.place
        own = c.trend == "ar"
        share = i in (1, last_ar) if own else i % 2 == 0 or i == last
        damping = j % 2 == 1 or c.trend not in ("ar", "damped")
        slope = k % 2 == 1 or k == last_slope or c.trend not in ("damped", "slope")
        out.append(share and damping and slope and s % 2 == 0)
    return np.array(out, dtype=bool)


def beside(candidates: Sequence[Candidate], best: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Whether each candidate has the trend of one of the best ones and lies beside it in the grid."""
    place, trend = np.array([c.place for c in candidates]), np.array([c.trend for c in candidates])
    out = np.zeros(len(candidates), dtype=bool)
    for g in best:
        out |= (trend == trend[g]) & (np.abs(place - place[g]).max(axis=1) <= 1)
    return out


def climb(
    candidates: Sequence[Candidate],
    parts: Sequence[tuple[Array, npt.NDArray[np.bool_]]],
    period: int,
    allowed: npt.NDArray[np.bool_],
    grid: Grid = GRID,
) -> Own:
    """Value of some candidates for each feature: a coarse selection, then those beside the best, until none is better.

    ``allowed`` (g, d) are the candidates that count for each feature. Others, and those not tried, have value -inf.
    """
    d, g = parts[0][0].shape[1], len(candidates)
    value, scale, counts = np.full((g, d), -np.inf), np.ones((g, d)), np.zeros(d)

    def fill(some: npt.NDArray[np.bool_], columns: Index) -> None:
        places = np.flatnonzero(some)
        if not places.size or not columns.size:
            return
        part = [(X[:, columns], seen[:, columns]) for X, seen in parts]
        found = try_all([candidates[i] for i in places.tolist()], part, period, grid)
        at = np.ix_(places, columns)
        value[at] = np.where(allowed[at], found.value, -np.inf)
        scale[at], counts[columns] = found.scale, found.counts

    first = coarse(candidates, grid)
    fill(first, np.arange(d))
    patterns = np.concatenate([seen for _, seen in parts])
    _, which = np.unique(patterns, axis=1, return_inverse=True)
    for k in range(which.max(initial=-1) + 1):
        columns, tried, more = np.flatnonzero(which.ravel() == k), first.copy(), grid.leaders
        while True:
            new = beside(candidates, _leaders(candidates, value[:, columns], more)) & ~tried
            if not new.any():
                break
            fill(new, columns)
            tried, more = tried | new, 1
    return Own(list(candidates), value, scale, counts)


def _leaders(candidates: Sequence[Candidate], value: Array, most: int) -> list[int]:
    """Best candidate of each of the best trends of each feature."""
    trend, out = np.array([c.trend for c in candidates]), set[int]()
    for column in value.T:
        best = [np.flatnonzero(trend == kind) for kind in np.unique(trend)]
        tops = sorted((int(some[column[some].argmax()]) for some in best), key=lambda g: -column[g])
        out |= {g for g in tops[:most] if np.isfinite(column[g])}
    return sorted(out)


class OwnChoice(NamedTuple):
    """Trend and season of each feature, in units of the data."""

    components: list[OwnComponents]
    offset: Array  # mean of each feature, to which starts are relative: (d,)
    period: int  # 1 if there is no season among the candidates
    value: Array  # of the chosen candidate: log-likelihood of the scored cells less the penalty of BIC: (d,)
    n_tried: int  # number of candidates


def choose_own(
    rows: Sequences,
    trend: str | Sequence[str] = "auto",
    seasonal: str | None = "auto",
    period: int = 1,
    grid: Grid = GRID,
) -> OwnChoice:
    """Choose trend and season of each feature by BIC, among the candidates of a grid.

    All candidates predict the same cells, those after the ones that determine unknown starts, so that the number of
    unknown starts needs no penalty: prediction itself charges it.

    Parameters
    ----------
    rows : Sequences
        One or several time series.
    trend : str or sequence of str
        "auto", or the kind of trend of all features or of each: "constant", "ar", "level", "drift", "damped", "slope".
    seasonal : "auto", "fixed", "stochastic" or None
        Kind of season; "auto" chooses for each feature, no season included.
    period : int
        Number of steps of a season.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.blocks import as_sequences
    >>> from probpca.learning.dynamics.own import choose_own
    >>> t = np.arange(60)
    >>> noise = np.random.default_rng(0).standard_normal((60, 2))
    >>> y = np.column_stack([t + 3 * np.sin(2 * np.pi * t / 12), 0 * t]) + noise
    >>> [(own.trend, own.season) for own in choose_own(as_sequences(y), period=12).components]
    [('drift', 0.0), ('constant', None)]
    """
    d = rows.n_features
    words = [trend] * d if isinstance(trend, str) else list(trend)
    count = rows.counts
    spread = np.sqrt(rows.squares / np.maximum(count, 1.0))
    usual = float(np.median(spread[spread > 0])) if (spread > 0).any() else 1.0
    unit = np.where(spread > 1e-12 * (np.abs(rows.centre) + usual), spread, usual)
    parts = [(part - rows.centre) / unit for part in rows.split(rows.values)]
    first = _first_values(parts, d)
    season = period > 1 and seasonal is not None
    if season and seasonal != "auto" and count.max() <= period:
        msg = (
            f"a season of {period:,} steps needs more rows than that, twice as many if it is to be told from a trend; "
            f"got {int(count.max()):,}.\nHint: pass more rows, or seasonal=None."
        )
        raise DataError(msg)
    least = 2 * period + 5  # cells from which on a season can be seen
    wanted = (count >= least) | (seasonal in ("fixed", "stochastic"))
    period = period if season and wanted.any() else 1
    candidates = _candidates(words, seasonal, period, grid)
    recent = [(part[-grid.most_steps :], ~np.isnan(part[-grid.most_steps :])) for part in parts]  # as recent_rows
    allowed = _allowed(candidates, words, seasonal, wanted)
    found = climb(candidates, recent, period, allowed, grid)
    value = found.value
    chosen = value.argmax(axis=0)
    best = [candidates[g] for g in chosen]
    scale = found.scale[chosen, np.arange(d)]
    in_steps = [(X / np.sqrt(scale), seen) for X, seen in recent]
    scale = scale * excess(Systems.of(best, period), in_steps, unscored_rows(period), period)
    out = [own.components(s, start) for own, s, start in zip(best, scale, first, strict=True)]
    scored = found.counts >= 2  # fewer say nothing about the variance of one step
    out = [own if scored[j] else _unknown(own, count[j], first[j]) for j, own in enumerate(out)]
    reached = np.where(scored, value[chosen, np.arange(d)] - found.counts * np.log(unit), 0.0)
    components = [in_units(own, u) for own, u in zip(out, unit, strict=True)]
    return OwnChoice(components, rows.centre, period, reached, len(candidates))


def recent_rows(rows: Sequences, grid: Grid = GRID) -> Sequences:
    """Last rows of each sequence, which the choice looks at."""
    parts = [part[-grid.most_steps :] for part in rows.split(rows.values)]
    return Sequences(np.vstack(parts), np.array([len(part) for part in parts], dtype=np.intp))


def in_units(own: OwnComponents, unit: float) -> OwnComponents:
    """Components of a feature multiplied by ``unit``."""
    square = unit * unit
    return replace(
        own,
        noise=own.noise * square,
        level=own.level * square,
        slope=own.slope * square,
        season=None if own.season is None else float(own.season * square),
        unit=own.unit * square,
        start=own.start * unit,
    )


def _unknown(own: OwnComponents, count: float, start: float) -> OwnComponents:
    """Components of a feature with too few cells to score: a constant level and the variance of its cells."""
    trend = own.trend if own.trend == "constant" else "level"
    scale = max(count, 2.0) / max(count - 1.0, 1.0)
    level = 0.0 if trend == "constant" else scale
    return OwnComponents(trend, scale, level=level, season=own.season, unit=scale, start=start)


def _first_values(parts: Sequence[Array], d: int) -> Array:
    """Average over the sequences of the first observed value of each feature: (d,)."""
    out = np.zeros(d)
    for j in range(d):
        firsts = [part[~np.isnan(part[:, j]), j][:1] for part in parts]
        known = np.concatenate(firsts)
        out[j] = known.mean() if known.size else 0.0
    return out


def _candidates(words: Sequence[str], seasonal: str | None, period: int, grid: Grid) -> list[Candidate]:
    """All candidates for some feature."""
    trends = trend_candidates(TRENDS if "auto" in words else tuple(words), grid)
    if period == 1:
        return trends
    seasons = {"fixed": (0.0,), "stochastic": grid.seasons[1:]}.get(str(seasonal), grid.seasons)
    return [*trends, *with_seasons(trends, seasons)]


def _allowed(
    candidates: Sequence[Candidate], words: Sequence[str], seasonal: str | None, wanted: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Whether each candidate may be chosen for each feature: (g, d)."""
    trend, plain = np.array([c.trend for c in candidates]), np.array([c.season is None for c in candidates])
    kinds = np.array([[word in ("auto", kind) for word in words] for kind in trend])
    if seasonal in ("fixed", "stochastic") and not plain.all():
        return np.asarray(kinds & ~plain[:, None])
    return np.asarray(kinds & (plain[:, None] | wanted))
