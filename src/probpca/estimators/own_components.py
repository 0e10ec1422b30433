"""The parameters ``trend``, ``seasonal`` and ``seasonal_periods`` of ``LinearDynamicalSystem``, checked together."""

from __future__ import annotations

from typing import Any, NamedTuple

from probpca.errors import DataError, ShapeError
from probpca.models.components import TRENDS

TREND_WORDS = ("auto", *TRENDS)
SEASON_WORDS = ("auto", "fixed", "stochastic")
PLAIN = {
    "process_noise": "free",
    "noise": "diagonal",
    "loadings": "free",
    "offset": "free",
    "initial_mean": "free",
    "initial_covariance": "auto",
    "ridge": 0.0,
    "solver": "auto",
}
"""Parameters of a system of states that all features share, and what they are if nothing is asked for."""


class Asked(NamedTuple):
    """Own components that a user asked for."""

    trend: str | tuple[str, ...]
    seasonal: str | None
    period: int


def is_stationary(estimator: Any, *, inputs: bool) -> bool:
    """Whether factors alone are fitted in the form that is stationary by construction."""
    shared = shared_parameter(estimator, inputs=inputs)
    if (
        isinstance(estimator.transition, str)
        and estimator.transition == "stationary"
        and shared
        and not shared.startswith("n_components")
    ):
        msg = f"transition='stationary' cannot be combined with {shared}.\nHint: use transition='stable'."
        raise DataError(msg)
    return not shared or shared.startswith("n_components")


def asked_components(estimator: Any, n_features: int, period: int, *, inputs: bool) -> Asked | None:
    """Return what is asked of the trend and the season of each feature; None if all states are common.

    ``period`` is the season that the time index suggests.
    """
    trend, seasonal = estimator.trend, estimator.seasonal
    words = _words(trend, n_features)
    given = estimator.seasonal_periods
    period = period if given is None or isinstance(given, str) else int(given)
    wanted = _explicit(estimator)
    if seasonal in ("fixed", "stochastic") and period == 1:
        msg = (
            f"seasonal={seasonal!r} needs the number of steps of a season, which the rows do not tell.\n"
            "Hint: give it as seasonal_periods, such as 12 for months, or pass a dataframe with a time index."
        )
        raise DataError(msg)
    shared = shared_parameter(estimator, inputs=inputs)
    if wanted and shared:
        msg = (
            f"{wanted} gives each feature components of its own, which cannot be combined with {shared}.\n"
            f"Hint: omit one of them."
        )
        raise DataError(msg)
    if shared or (trend is None and not wanted and estimator.n_components != 0):
        return None
    return Asked(words, seasonal, period)


def _words(trend: Any, n_features: int) -> str | tuple[str, ...]:
    """Trends in words: one for all features, or a tuple of one for each."""
    if trend is None:
        return "constant"
    if isinstance(trend, str):
        return trend
    words = tuple("constant" if word is None else str(word) for word in trend)
    wrong = [word for word in words if word not in TREND_WORDS]
    if wrong:
        msg = f"trend must be {', '.join(map(repr, TREND_WORDS))} or None for each feature; got {wrong[0]!r}."
        raise DataError(msg)
    if len(words) != n_features:
        msg = f"trend must be one word, or one for each of the {n_features} features; got {len(words)}."
        raise ShapeError(msg)
    return words


def _explicit(estimator: Any) -> str:
    """The parameter that asks for own components by name; empty if none does."""
    trend, seasonal, period = estimator.trend, estimator.seasonal, estimator.seasonal_periods
    if trend is not None and not (isinstance(trend, str) and trend == "auto"):
        return f"trend={trend!r}"
    if seasonal in ("fixed", "stochastic"):
        return f"seasonal={seasonal!r}"
    asks = seasonal is not None and period is not None and not isinstance(period, str) and period > 1
    return f"seasonal_periods={period}" if asks else ""


def shared_parameter(estimator: Any, *, inputs: bool) -> str:
    """The first parameter that is about common states alone; empty if there is none."""
    transition = estimator.transition
    if not isinstance(transition, str):
        return "transition"
    if transition not in ("auto", "stationary"):
        return f"transition={transition!r}"
    for name, default in PLAIN.items():
        value = getattr(estimator, name)
        if type(value) is not type(default) and not (isinstance(value, int) and name == "ridge"):
            return name
        if value != default:
            return f"{name}={value!r}"
    if inputs:
        return "inputs"
    return "n_components='cv'" if estimator.n_components == "cv" else ""
