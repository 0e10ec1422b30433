"""Choice of the trend and the season of each feature, by BIC among a grid of candidates that are filtered together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.inference.likelihood import LOG_2PI
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

    from probpca.blocks import Sequences
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True)
class Grid:
    """Candidates for the trend and the season of a feature, in units of the variance of one step."""

    shares: tuple[float, ...] = (0.0, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # of the level in level + noise
    slopes: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 0.05, 0.2)  # variances of the slope
    dampings: tuple[float, ...] = (0.8, 0.9, 0.97)
    autoregressions: tuple[float, ...] = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
    ar_shares: tuple[float, ...] = (0.1, 0.3, 0.6, 0.9, 1.0)  # of the deviation "ar" in deviation + noise
    seasons: tuple[float, ...] = (0.0, 1e-4, 1e-3, 1e-2, 0.05)  # variances of each seasonal state; 0: a fixed season
    least_scale: float = 1e-10  # smallest variance of one step, relative to that of the feature
    most_steps: int = 600  # of each sequence; the last ones are used
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

    def components(self, scale: float, start: float) -> OwnComponents:
        """The same in units of the data, given the variance of one step."""
        own = self.trend == "ar"
        return OwnComponents(
            trend=self.trend,
            noise=max(1 - self.share, LEAST_NOISE) * scale,
            level=0.0 if own else self.share * scale,
            slope=self.slope * scale,
            damping=self.damping,
            season=None if self.season is None else self.season * scale,
            unit=scale,
            start=start,
        )


def trend_candidates(trends: Sequence[str] = TRENDS, grid: Grid = GRID) -> list[Candidate]:
    """Candidates without a season."""
    rows: list[Candidate] = []
    for a in grid.shares:
        rows.append(Candidate("constant", a, 0.0, 0.0, None, 1) if a == 0 else Candidate("level", a, 0.0, 0.0, None, 2))
        rows.append(Candidate("drift", a, 1.0, 0.0, None, 2 + (a > 0)))
        rows += [Candidate("damped", a, phi, r, None, 4) for phi in grid.dampings for r in grid.slopes[1:]]
        rows += [Candidate("slope", a, 1.0, r, None, 3) for r in grid.slopes]
    each = product(grid.autoregressions, grid.ar_shares)
    rows += [Candidate("ar", a, phi, a * (1 - phi**2), None, 3) for phi, a in each]
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
        """Assemble the systems; candidates either all have a season, or none has."""
        seasonal = candidates[0].season is not None
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
            Q[:, 2:] = np.array([c.season for c in candidates])[:, None]
        return cls(F, Z, Q, np.maximum(1 - share, LEAST_NOISE), P)


class Scored(NamedTuple):
    """Sums over the scored cells of one pattern of observed cells, for g candidates and c columns."""

    squares: Array  # of standardised errors: (g, c)
    logs: Array  # of their variances: (g,)
    count: int


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

    @property
    def chosen(self) -> Index:
        """Best candidate of each feature."""
        return self.value.argmax(axis=0)


def try_all(
    candidates: Sequence[Candidate], parts: Sequence[tuple[Array, Array]], period: int, grid: Grid = GRID
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
                squares[np.ix_(some, columns)] += found.squares
                logs[np.ix_(some, columns)] += found.logs[:, None]
            counts[columns] += found.count
    free = np.array([c.free for c in candidates], dtype=np.float64)[:, None]
    n = np.maximum(counts, 1.0)
    mean = np.maximum(squares / n, grid.least_scale)
    value = -0.5 * (counts * (np.log(mean) + 1 + LOG_2PI) + logs) - 0.5 * np.log(np.maximum(counts, 2.0)) * free
    scale = np.maximum(mean * n / np.maximum(n - free, 1.0), grid.least_scale)
    return Own(list(candidates), value, scale)


def with_seasons(candidates: Sequence[Candidate], seasons: Sequence[float]) -> list[Candidate]:
    """Each candidate with each season."""
    return [c._replace(season=s, free=c.free + (s > 0)) for c, s in product(candidates, seasons)]
