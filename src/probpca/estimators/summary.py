"""Summaries of fitted estimators as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.errors import ShapeError
from probpca.learning.describe import about_units

if TYPE_CHECKING:
    from probpca.typing import Array

MOST_LINES = 12


def table_summary(estimator: Any, objective: tuple[str, float], feature_names: Any = None) -> str:
    """Describe the size of the table, the variance of each component, and how the fit ended."""
    names = _names(estimator, feature_names)
    rows = f"{estimator.n_samples_:,.12g} rows x {estimator.n_features_in_:,} features"
    rows += "" if estimator.scale_ is None else " scaled to unit variance"
    lines = [
        f"{type(estimator).__name__}: {rows}, {_counted(estimator.n_components_, 'component')} ({estimator.rule_})",
        "",
        *_components(estimator, names),
        "",
        *_ending(estimator, objective, "one per feature", estimator.n_samples_, "row"),
    ]
    notes = [*estimator.notes_, *about_units(estimator.column_std_, names, "standardize=True")]
    return "\n".join([*lines, *(f"{'note':<18}{text}" for text in notes)])


def dynamics_summary(estimator: Any, objective: tuple[str, float], feature_names: Any = None) -> str:
    """Describe the modes of a dynamical system, their loadings, and how the fit ended."""
    names = _names(estimator, feature_names)
    steps = f"{estimator.n_steps_:,} steps x {estimator.n_features_in_:,} features"
    lines = [
        f"{type(estimator).__name__}: {steps}, {_counted(estimator.n_components_, 'state')} ({estimator.rule_})",
        "",
        "mode   modulus   time constant   period",
    ]
    for j, value in enumerate(estimator.eigenvalues_[:MOST_LINES]):
        angle = abs(np.angle(value))
        period = f"{2 * np.pi / angle:.4g} steps" if angle > 1e-9 else "none"
        lines.append(f"{j + 1:>4}   {abs(value):<7.4f}   {estimator.time_constants_[j]:<8.4g} steps  {period}")
    lines += ["", "state   largest loadings"]
    for j in range(min(estimator.n_components_, MOST_LINES)):
        lines.append(f"{j + 1:>5}   {_largest(names, estimator.loadings_[:, j], '+.3g')}")
    return "\n".join([*lines, "", *_ending(estimator, objective, "one per feature", estimator.n_steps_, "step")])


def _ending(estimator: Any, objective: tuple[str, float], several: str, count: float, unit: str) -> list[str]:
    """Noise variance, objective and status; ``several`` explains a noise variance for each feature."""
    label, value = objective
    return [
        f"{'noise variance':<18}{_noise(estimator.noise_variance_, several)}",
        f"{label:<18}{value:,.2f}  ({value / count:.4f} a {unit})",
        f"{'status':<18}{estimator.status_.value}",
    ]


def _components(estimator: Any, names: list[str]) -> list[str]:
    ratio = estimator.explained_variance_ratio_
    variance = estimator.explained_variance_
    lines = ["component   variance    share   together   largest loadings"]
    for j in range(min(len(ratio), MOST_LINES)):
        together = ratio[: j + 1].sum()
        largest = _largest(names, estimator.components_[j])
        lines.append(f"{j + 1:>9}   {variance[j]:<9.4g}  {ratio[j]:>6.1%}   {together:>8.1%}   {largest}")
    if len(ratio) > MOST_LINES:
        lines.append(f"      ...   and {len(ratio) - MOST_LINES} more, together {ratio.sum():.1%}")
    return lines


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _names(estimator: Any, given: Any) -> list[str]:
    if given is None:
        given = getattr(estimator, "feature_names_in_", None)
    names = [f"x{j}" for j in range(estimator.n_features_in_)] if given is None else [str(name) for name in given]
    if len(names) != estimator.n_features_in_:
        msg = f"feature_names must name all {estimator.n_features_in_} features; got {len(names)} names."
        raise ShapeError(msg)
    return names


def _largest(names: list[str], axis: Array, form: str = "+.2f") -> str:
    best = np.argsort(-np.abs(axis))[:3]
    return ", ".join(f"{names[j]} {axis[j]:{form}}" for j in best)


def _noise(noise: Any, why: str) -> str:
    if np.ndim(noise) == 0:
        return f"{noise:.6g}"
    return f"{np.min(noise):.4g} .. {np.max(noise):.4g}, {why}"
