"""Summaries of fitted estimators as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.errors import ShapeError
from probpca.inference.calibration import log10_chi2_tail, probability
from probpca.learning.describe import about_units
from probpca.learning.factor.fit_indices import MANY_MISSING, about_missing
from probpca.models.components import seasons_of, trends_of
from probpca.printable_text import printable, printable_line
from probpca.result_tables import WIDTH, clip, default_names, number_format, several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.learning.factor.fit_indices import FitIndices
    from probpca.models import StateSpace
    from probpca.typing import Array

MOST_LINES = 8
"""Components, or modes of a dynamical system, that are listed."""
MOST_LOADINGS = 6
"""Loadings of a component that are listed, if the line has room for them."""


def table_summary(estimator: Any, objective: tuple[str, float], feature_names: Any = None, width: int = WIDTH) -> str:
    """Describe the size of the table, the variance of each component, and how the fit ended.

    Lines of the table of components have at most ``width`` letters; sentences are not broken.
    """
    names = _names(estimator, feature_names)
    rows = f"{estimator.n_samples_:,.12g} rows x {estimator.n_features_in_:,} features"
    rows += "" if estimator.scale_ is None else " scaled to unit variance"
    lines = [
        f"{type(estimator).__name__}: {rows}, {several(estimator.n_components_, 'component')} ({estimator.rule_})",
        "",
        *_components(estimator, names, width),
        "",
        *_robust(estimator),
        *_ending(estimator, objective, estimator.n_samples_, "row"),
    ]
    notes = [*estimator.notes_, *about_units(estimator.column_std_, names, "standardize=True")]
    return printable("\n".join([*lines, *(f"{'note':<18}{printable_line(text)}" for text in notes)]))


def factor_summary(estimator: Any, feature_names: Any = None, width: int = WIDTH) -> str:
    """Describe the factors of factor analysis, their correlations, how good the fit is, and how it ended.

    Lines of the table of factors have at most ``width`` letters; sentences are not broken.
    """
    rows = f"{estimator.n_samples_:,.12g} rows x {estimator.n_features_in_:,} features"
    names = _names(estimator, feature_names)
    method = estimator.rotation_.method
    rotation = "" if method == "none" else f", rotation {method}"
    lines = [
        f"FactorAnalysis: {rows}, {several(estimator.n_components_, 'factor')} ({estimator.rule_}){rotation}",
        "",
        *_components(estimator, names, width, estimator.standardized_loadings_),
        *_factor_correlations(estimator),
        "",
        f"{'uniquenesses':<18}{_range_of(estimator.uniquenesses_, names)}",
        *_indices(estimator),
        *_robust(estimator),
        *_ending(estimator, ("log-likelihood", estimator.log_likelihood_), estimator.n_samples_, "row")[1:],
    ]
    notes = [*estimator.notes_, *about_factors(estimator, names)]
    return printable("\n".join([*lines, *(f"{'note':<18}{printable_line(text)}" for text in notes)]))


def _factor_correlations(estimator: Any) -> list[str]:
    """Correlations of oblique factors, as the lower triangle of their matrix; nothing for uncorrelated factors."""
    shown, Phi = _shown(estimator.n_components_), estimator.factor_correlations_
    if not estimator.rotation_.is_oblique or estimator.n_components_ == 1:
        return []
    names = estimator.get_feature_names_out()[:shown]
    head = "".join(f"{name:>7}" for name in names)
    rows = (f"{name:<14}" + "".join(f"{Phi[j, k]:>7.2f}" for k in range(j + 1)) for j, name in enumerate(names))
    return ["", f"{'correlations':<14}{head}", *rows]


def _indices(estimator: Any) -> list[str]:
    """Chi-square, the usual fit indices and criteria, each in a line; nothing if they are not known."""
    found = _known_indices(estimator)
    if found is None:
        return []
    freedom = several(found.df, "degree")
    p = probability(float(log10_chi2_tail(np.array(found.chi_square), found.df))) if found.df > 0 else ""
    low, high = found.rmsea_interval
    test = f"{found.chi_square:,.2f}, {freedom} of freedom, p = {p}"
    fit = f"RMSEA {found.rmsea:.3f} [{low:.3f}, {high:.3f}], CFI {found.cfi:.3f}, TLI {found.tli:.3f}, "
    return [
        f"{'chi-square':<18}{test if p else f'no test: {freedom} of freedom are left'}",
        f"{'fit':<18}{fit if p else ''}SRMR {found.srmr:.3f}",
        f"{'criteria':<18}AIC {found.aic:,.1f}, BIC {found.bic:,.1f}",
    ]


def _known_indices(estimator: Any) -> FitIndices | None:
    """Fit indices of the rows of the fit; None if they are not known, or do not exist."""
    found: FitIndices | None = estimator._state.indices  # noqa: SLF001
    return None if found is None or not np.isfinite(found.chi_square) else found


def _range_of(values: Array, names: list[str]) -> str:
    """Smallest and largest value with the names of their features."""
    low, high = int(np.argmin(values)), int(np.argmax(values))
    return f"{values[low]:.3g} ({printable_line(names[low])}) to {values[high]:.3g} ({printable_line(names[high])})"


def about_factors(estimator: Any, names: Sequence[str]) -> list[str]:
    """Notes that name the features without noise, say what fit indices mean, and that a rotation did not converge."""
    return [*_about_heywood_cases(estimator, names), *_about_indices(estimator), *_about_rotation(estimator)]


def _about_indices(estimator: Any) -> list[str]:
    """Note on fit indices if many cells are missing."""
    found = _known_indices(estimator)
    return [] if found is None or found.df <= 0 or found.missing <= MANY_MISSING else [about_missing(found.missing)]


def _about_rotation(estimator: Any) -> list[str]:
    rotation = estimator.rotation_
    if rotation.converged:
        return []
    after = f"had not converged after {several(rotation.n_iter, 'iteration')}"
    return [f"The rotation {rotation.method} {after}: its loadings are approximate. Another rotation may converge."]


def _about_heywood_cases(estimator: Any, names: Sequence[str]) -> list[str]:
    """Note that names the features without noise; empty if there are none."""
    heywood = estimator.heywood_features_
    if not heywood.size:
        return []
    which = whole_items([names[j] for j in heywood], 60)
    said = f"Heywood cases, which the factors explain completely: {which}. Use fewer factors or more rows."
    found = _known_indices(estimator)
    doubt = " The p-value and the indices that use chi-square are not to be trusted."
    return [said if found is None or found.df <= 0 else said + doubt]


def mixture_summary(estimator: Any, feature_names: Any = None, width: int = WIDTH) -> str:
    """Describe the clusters of a mixture, their sizes and the columns in which they differ most, and how it ended.

    Lines of the table of clusters have at most ``width`` letters; sentences are not broken.
    """
    names, model = _names(estimator, feature_names), estimator.model_
    rows = f"{estimator.n_samples_:,.12g} rows x {estimator.n_features_in_:,} features"
    size = f"{several(model.n_clusters, 'cluster')} of {several(model.n_components, 'component')} ({estimator.rule_})"
    heading = f"{'cluster':<9}{'weight':>7}{'rows':>9}{'explained':>11}  "
    std = estimator.column_std_
    with np.errstate(over="ignore"):
        shift = np.divide(model.means - model.mean, std, out=np.zeros(model.means.shape), where=std > 0)
    lines = [f"{type(estimator).__name__}: {rows}, {size}", "", f"{heading}mean, in sd from that of all rows"]
    shown, rows_of = _shown(model.n_clusters), model.weights * estimator.n_samples_  # expected numbers
    for k, explained in enumerate(model.explained[:shown]):
        first, *below = _largest(names, shift[k], "+.2g", width - len(heading)) if shift.any() else ["the same"]
        lines.append(f"{f'C{k}':<9}{model.weights[k]:>7.1%}{rows_of[k]:>9,.0f}{explained:>11.1%}  {first}")
        lines += [" " * len(heading) + text for text in below]
    if model.n_clusters > shown:
        lines.append(f"... and {model.n_clusters - shown} more")
    value, noise = estimator.log_likelihood_, model.noise_variance
    each = f", one per {'feature and cluster' if noise.ndim > 1 else 'cluster'}"
    lines += [
        "",
        f"{'noise variance':<18}{noise.min():.4g} to {noise.max():.4g}{each}",
        f"{'log-likelihood':<18}{value:,.2f}  ({value / estimator.n_samples_:.4f} per row)",
        f"{'criteria':<18}BIC {estimator.bic_:,.2f}, ICL {estimator.icl_:,.2f} (larger is better)",
        f"{'status':<18}{estimator.status_.value}",
    ]
    return printable("\n".join([*lines, *(f"{'note':<18}{printable_line(text)}" for text in estimator.notes_)]))


def dynamics_summary(
    estimator: Any, objective: tuple[str, float], feature_names: Any = None, width: int = WIDTH
) -> str:
    """Describe the modes of a dynamical system, the loadings of its states, and how the fit ended.

    Lines of tables have at most ``width`` letters; sentences are not broken.
    """
    names, model = _names(estimator, feature_names), estimator.model_
    absent = f" ({estimator.n_inserted_:,} without a row)" if estimator.n_inserted_ else ""
    steps = f"{several(estimator.n_steps_, 'step')}{absent} x {several(estimator.n_features_in_, 'feature')}"
    if model.layout is None:
        what = [several(estimator.n_components_, "state")]
    else:
        factors = [several(estimator.n_components_, "factor")] if estimator.n_components_ else []
        what = [*factors, "own components of each feature"]
    lines = [f"{type(estimator).__name__}: {steps}, {' and '.join(what)} ({estimator.rule_})"]
    if model.layout is not None:
        lines += ["", *_own_components(model, names, width)]
    if estimator.n_components_:
        lines += ["", *_modes(estimator), "", *_states(estimator, names, width)]
    return printable("\n".join([*lines, "", *_ending(estimator, objective, estimator.n_steps_, "step")]))


def _modes(estimator: Any) -> list[str]:
    """A line for each eigenvalue of the transition matrix of the factors."""
    lines = ["mode   modulus   time constant   period"]
    for j, value in enumerate(estimator.eigenvalues_[: _shown(estimator.n_components_)]):
        angle = abs(np.angle(value))
        period = f"{2 * np.pi / angle:.4g} steps" if angle > 1e-9 else "none"
        lines.append(f"{j + 1:>4}   {abs(value):<7.4f}   {estimator.time_constants_[j]:<8.4g} steps  {period}")
    return lines


def _states(estimator: Any, names: list[str], width: int) -> list[str]:
    """The largest loadings of each factor."""
    lines, loadings = ["state   largest loadings"], estimator.factors_[1]
    shown, size = _shown(estimator.n_components_), np.abs(loadings)
    loadings = np.where(size < 1e-12 * size.max(initial=0.0), 0.0, loadings)  # rounding errors
    for j in range(shown):
        largest, *below = _largest(names, loadings[:, j], "+.3g", width - 8)
        lines += [f"{f'F{j + 1}':<5}   {largest}", *(" " * 8 + text for text in below)]
    left = estimator.n_components_ - shown
    return [*lines, f"...     and {left} more"] if left else lines


TREND_SENTENCES = {
    "constant": "constant",
    "ar": "constant, with deviations that fade",
    "level": "level that moves (random walk)",
    "drift": "level with a fixed slope",
    "damped": "level with a slope that fades",
    "slope": "level with a slope that moves",
}
"""What each kind of trend is, in words."""


def _own_components(model: StateSpace, names: list[str], width: int) -> list[str]:
    """Trend, season and standard deviations of the changes of each feature, a line for each."""
    layout, rows = model.layout, []
    if layout is None:
        return []
    trends, seasons, shown = trends_of(model), seasons_of(model), _shown(len(names))
    std = np.sqrt(np.diagonal(model.process_noise))
    noise = np.sqrt(np.broadcast_to(model.emission.noise_variance, (model.n_features,)))
    for j in range(shown):
        season = {None: "none", "fixed": f"{layout.period} steps", "stochastic": f"{layout.period} steps, changing"}
        found = (layout.of(role, feature=j)[:1] for role in ("level", "slope", "ar"))
        moves = [
            f"{role} {std[k[0]]:.3g}" for role, k in zip(("level", "slope", "deviation"), found, strict=True) if k.size
        ]
        moves = [text for text in moves if not text.endswith(" 0")]
        changes = ", ".join([*moves, f"noise {noise[j]:.3g}"])
        rows.append((printable_line(names[j]), TREND_SENTENCES[trends[j]], season[seasons[j]], changes))
    head = ("feature", "trend", "season", "standard deviation of a step")
    rest = len(names) - shown
    room = [max(len(row[k]) for row in [head, *rows]) for k in range(3)]
    room[0] = max(min(room[0], width - sum(room[1:]) - 34), 7)
    lines = [
        "  ".join([f"{clip(cell, size):<{size}}" for cell, size in zip(row, room, strict=False)] + [row[3]])
        for row in [head, *rows]
    ]
    return [*lines, f"... and {rest} more"] if rest else lines


def whole_items(items: Sequence[str], width: int) -> str:
    """Join as many items as fit into ``width`` letters by commas; only an item that is alone is shortened."""
    text = items[0] if items else ""
    for item in items[1:]:
        if len(text) + len(item) + 2 > width:
            break
        text = f"{text}, {item}"
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _robust(estimator: Any) -> list[str]:
    """How many rows and cells a robust fit used; nothing after other fits."""
    rows, cells = estimator.row_weight_, estimator.cell_weight_
    if rows is None:
        return []
    used = rows > 0
    text = f"{np.count_nonzero(used):,} of {several(used.size, 'row')} used"
    if cells is not None:
        observed = int(np.count_nonzero(cells[used] > 0))
        text += f", and {np.count_nonzero(cells[used] > 0.5):,} of their {several(observed, 'observed cell')}"
    return [f"{'robust':<18}{text}"]


def _ending(estimator: Any, objective: tuple[str, float], count: float, unit: str) -> list[str]:
    """Noise variance, objective and status."""
    label, value = objective
    return [
        f"{'noise variance':<18}{_noise(estimator.noise_variance_)}",
        f"{label:<18}{'not computed' if np.isnan(value) else f'{value:,.2f}  ({value / count:.4f} per {unit})'}",
        f"{'status':<18}{estimator.status_.value}",
    ]


def _components(estimator: Any, names: list[str], width: int, shown_loadings: Array | None = None) -> list[str]:
    ratio, variance = estimator.explained_variance_ratio_, estimator.explained_variance_
    components = estimator.get_feature_names_out()
    heading = f"{'component' if shown_loadings is None else 'factor':<9}  variance   explained  cumulative  "
    lines, shown = [f"{heading}largest loadings"], _shown(len(ratio))
    for j, name in enumerate(components[:shown]):
        loadings = (estimator.loadings_ if shown_loadings is None else shown_loadings)[:, j]
        largest, *below = _largest(names, loadings, f"+{number_format(loadings, 2)}", width - len(heading))
        together = ratio[: j + 1].sum()
        lines.append(f"{name:<9}  {variance[j]:<9.4g}  {ratio[j]:>9.1%}  {together:>10.1%}  {largest}")
        lines += [" " * len(heading) + text for text in below]
    if len(ratio) > shown:
        more = f"... and {len(ratio) - shown} more".ljust(len("component  variance   explained  "))
        lines.append(f"{more}{ratio.sum():>10.1%}")
    return lines


def _shown(count: int) -> int:
    """Number of components to list: all, or a few if there are more than fit."""
    return count if count <= MOST_LINES else MOST_LINES - 1


def _names(estimator: Any, given: Any) -> list[str]:
    if given is None:
        given = getattr(estimator, "feature_names_in_", None)
    names = default_names(estimator.n_features_in_) if given is None else [str(name) for name in given]
    if len(names) != estimator.n_features_in_:
        msg = f"feature_names must name all {estimator.n_features_in_} features; got {len(names)} names."
        raise ShapeError(msg)
    return names


def _largest(names: list[str], axis: Array, form: str, width: int) -> list[str]:
    """Largest loadings with the names of their features in one line, or in two if one has room for one only.

    Loadings below a twentieth of the largest one are left out. Only a name that is too long for a line is shortened.
    """
    order = np.argsort(-np.abs(axis), kind="stable")[:MOST_LOADINGS]
    order = order[np.abs(axis[order]) >= 0.05 * np.abs(axis[order[0]])]
    first, *items = [_loading(names[j], f" {axis[j]:{form}}", width) for j in order]
    lines = [first]
    for k, item in enumerate(items, 1):
        if len(lines[-1]) + len(item) + 2 <= width:
            lines[-1] += f", {item}"
        elif k == 1:
            lines.append(item)
        else:
            break
    return lines


def _loading(name: str, value: str, width: int) -> str:
    """One loading in at most ``width`` letters."""
    name, room = printable_line(name), width - len(value)
    return f"{name if len(name) <= room else f'{name[: max(room - 3, 1)]}...'}{value}"


def _noise(noise: Any) -> str:
    if np.size(noise) == 1:
        return f"{np.ravel(noise)[0]:.6g}"
    return f"{np.min(noise):.4g} to {np.max(noise):.4g}, one per feature"
