"""Levels, slopes and seasons of single features, as blocks of a linear dynamical system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.models.gaussian import Gaussian, LinearGaussian
from probpca.models.layout import Layout
from probpca.models.state_space import StateSpace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.typing import Array

TRENDS = ("constant", "ar", "level", "drift", "damped", "slope")
"""Kinds of trends, from the one that moves least."""
SLOPED = ("drift", "damped", "slope")
"""Kinds of trends that have a slope."""
HARMONICS = 6
"""Largest number of frequencies of a season."""
DIFFUSE = 1e6
"""Variance of an unknown start, in units of the variance of one step."""
LEAST_NOISE = 1e-6
"""Smallest noise variance of an observation, in the same units."""


@final
@dataclass(frozen=True, slots=True)
class OwnComponents:
    r"""Trend and season of one feature, with variances in units of its data.

    .. math::
        y_t = l_t + s_t + v_t, \quad l_{t+1} = l_t + b_t + N(0, q_l), \quad b_{t+1} = \phi b_t + N(0, q_b), \quad
        s_{t+1} = G s_t + N(0, q_s I)

    G turns each pair of seasonal states by :math:`2 \pi k / p`, k = 1, 2, ..., and y sees the first of each pair.
    For the trend "ar" the level is constant, and y also sees :math:`a_{t+1} = \phi a_t + N(0, q_b)`.

    Attributes
    ----------
    trend : str
        "constant", "ar", "level", "drift", "damped" or "slope".
    noise : float
        Variance of the observation noise v.
    level : float
        Variance q_l of the changes of the level.
    slope : float
        Variance q_b of the changes of the slope, or of the deviation "ar".
    damping : float
        Factor phi of the slope, 1 if it is not damped, or of the deviation "ar".
    season : float or None
        Variance q_s of the changes of the season; None if there is none.
    unit : float
        Variance of one step: unknown starts have this variance times 1e6.
    start : float
        Expected level at the first step.
    """

    trend: str
    noise: float
    level: float = 0.0
    slope: float = 0.0
    damping: float = 1.0
    season: float | None = None
    unit: float = 1.0
    start: float = 0.0


def seasonal_block(period: int) -> tuple[Array, Array]:
    """Transition (m, m) and loadings (m,) of a trigonometric season with at most six frequencies."""
    blocks: list[Array] = []
    for k in range(1, min(period // 2, HARMONICS) + 1):
        c, s = np.cos(2 * np.pi * k / period), np.sin(2 * np.pi * k / period)
        blocks.append(np.array([[-1.0]]) if 2 * k == period else np.array([[c, s], [-s, c]]))
    m, i = sum(map(len, blocks)), 0
    G, z = np.zeros((m, m)), np.zeros(m)
    for block in blocks:
        G[i : i + len(block), i : i + len(block)], z[i] = block, 1.0
        i += len(block)
    return G, z


def unscored_rows(period: int) -> int:
    """Number of first rows that determine all unknown starts of a feature: one more than its states."""
    return 3 + (len(seasonal_block(period)[1]) if period > 1 else 0)


def assemble(
    components: Sequence[OwnComponents],
    offset: Array,
    period: int = 1,
    *,
    transition: Array | None = None,
    loadings: Array | None = None,
) -> StateSpace:
    r"""One linear dynamical system of the own components of each feature, and common factors beside them.

    The factors have the transition A with singular values below 1, the process noise :math:`I - A A^\top` and the
    stationary covariance I.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.models.components import OwnComponents, assemble
    >>> walk, line = OwnComponents("level", 0.5, level=0.1), OwnComponents("slope", 0.5, slope=0.01)
    >>> model = assemble([walk, line], np.zeros(2))
    >>> model.layout.roles, model.transition[1:, 1:].tolist()
    (('level', 'level', 'slope'), [[1.0, 1.0], [0.0, 1.0]])
    """
    q = 0 if transition is None else len(transition)
    G, z = seasonal_block(period) if period > 1 else (np.zeros((0, 0)), np.zeros(0))
    sizes = [1 + (c.trend in (*SLOPED, "ar")) + (0 if c.season is None else len(z)) for c in components]
    size, d = q + sum(sizes), len(components)
    F, Q, P, C = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size)), np.zeros((d, size))
    mean, roles, features = np.zeros(size), ["factor"] * q, [-1] * q
    if transition is not None:
        F[:q, :q], P[:q, :q] = transition, np.eye(q)
        Q[:q, :q], C[:, :q] = np.eye(q) - transition @ transition.T, loadings
    at = q
    for j, (c, width) in enumerate(zip(components, sizes, strict=True)):
        wide = DIFFUSE * c.unit
        F[at, at], Q[at, at], P[at, at], C[j, at], mean[at] = 1.0, c.level, wide, 1.0, c.start
        roles += ["level"]
        k = at + 1
        if c.trend in (*SLOPED, "ar"):
            F[k, k], Q[k, k], F[at, k], C[j, k] = c.damping, c.slope, c.trend != "ar", c.trend == "ar"
            P[k, k] = c.slope / (1 - c.damping**2) if c.damping < 1 else wide
            roles += ["ar" if c.trend == "ar" else "slope"]
            k += 1
        if c.season is not None:
            some = np.arange(k, at + width)
            F[np.ix_(some, some)], C[j, some], Q[some, some], P[some, some] = G, z, c.season, wide
            roles += ["season"] * len(z)
        features += [j] * width
        at += width
    noise = np.array([c.noise for c in components])
    layout = Layout(tuple(roles), np.array(features), period, unscored_rows(period))
    return StateSpace(Gaussian(mean, P), F, Q, LinearGaussian(offset, C, noise), layout=layout)


def trends_of(model: StateSpace) -> list[str]:
    """Kind of the trend of each feature; "constant" without a layout."""
    layout, out = model.layout, []
    if layout is None:
        return ["constant"] * model.n_features
    for j in range(model.n_features):
        slope, level = layout.of("slope", feature=j), layout.of("level", feature=j)
        if slope.size:
            damping, noise = model.transition[slope[0], slope[0]], model.process_noise[slope[0], slope[0]]
            out.append("damped" if damping < 1 else "slope" if noise > 0 else "drift")
        elif layout.of("ar", feature=j).size:
            out.append("ar")
        else:
            out.append("level" if level.size and model.process_noise[level[0], level[0]] > 0 else "constant")
    return out


def seasons_of(model: StateSpace) -> list[str | None]:
    """Season of each feature: "fixed" if it repeats itself, "stochastic" if it changes, None if there is none."""
    layout, out = model.layout, list[str | None]()
    for j in range(model.n_features):
        season = np.zeros(0, np.intp) if layout is None else layout.of("season", feature=j)
        moves = season.size and model.process_noise[season[0], season[0]] > 0
        out.append(None if not season.size else "stochastic" if moves else "fixed")
    return out
