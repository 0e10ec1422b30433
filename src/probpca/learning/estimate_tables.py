"""Estimates as text, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from probpca.learning.estimates import ParameterUncertainty
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
    if noise.value.ndim == 0:
        text = f"{noise.value:.4g}, standard error {noise.standard_error:.2g}, {low:.4g} .. {high:.4g}"
    else:
        relative = np.median(noise.standard_error / noise.value)
        text = f"one per feature; median relative standard error {relative:.2g}"
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
