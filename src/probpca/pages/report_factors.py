"""What a report says about factor analysis: loadings, correlations of factors, fit indices, Heywood cases."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.displays.inputs import by_structure, has_factors, rotation_of, scree_of_fit
from probpca.errors import DataError
from probpca.inference.calibration import log10_chi2_tail
from probpca.learning.uncertainty.estimate import largest_first
from probpca.pages.page import counted, p_text, share, signed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from probpca.learning.factor.fit_indices import FitIndices
    from probpca.learning.selection.parallel_analysis import Scree
    from probpca.pages.page import Table
    from probpca.pages.report_components import ComponentSettings, Meaning
    from probpca.typing import Array, Index


class FactorFacts(NamedTuple):
    """What the page says about the factors beyond what it says about components."""

    rotation: str  # in words
    is_oblique: bool
    is_rotated: bool  # false if the rotation has not converged
    loadings: Array  # of standardized columns: (d, q)
    correlations: Array  # of the factors: (q, q)
    explained: Array  # variance of the standardized columns: (q,)
    uniquenesses: Array  # (d,)
    heywood: Index
    indices: FitIndices | None  # if they are known
    scree: Scree | None  # if the rows of the fit are known


def factors_of(estimator: Any, X: Any, table: Table, *, training: bool) -> FactorFacts | None:
    """What the page says about the factors of an estimator; None if it has components."""
    if not has_factors(estimator):
        return None
    return FactorFacts(
        rotation_of(estimator),
        estimator.n_components_ > 1 and estimator.rotation_.is_oblique,
        estimator.rotation_.converged,
        estimator.standardized_loadings_,
        estimator.factor_correlations_,
        estimator.explained_variance_,
        estimator.uniquenesses_,
        estimator.heywood_features_,
        indices_of(estimator),
        _scree_of(estimator, X, table, training=training),
    )


def arrow_units(table: Table, facts: FactorFacts) -> Array:
    """Numbers by which loadings in standard deviations of the model are multiplied to get standardized ones: (d,).

    They differ from 1 if cells had weights: the model has cells of weight 1, and loadings are those of average cells.
    """
    lengths = np.linalg.norm(table.loadings / table.scale[:, None], axis=1)
    wanted = np.linalg.norm(facts.loadings, axis=1)
    return np.divide(wanted, lengths, out=np.ones(lengths.size), where=lengths > 0)


def indices_of(estimator: Any) -> FitIndices | None:
    """Fit indices of a factor analysis if they are known without its rows."""
    try:
        found: FitIndices = estimator.fit_indices()
    except DataError:
        return None
    return found


def _scree_of(estimator: Any, X: Any, table: Table, *, training: bool, most: int = 20) -> Scree | None:
    """Eigenvalues of the correlations of the rows of the fit, if it kept their moments or they are on the page."""
    count, n_seen = max(most, estimator.n_components_ + 3), int((~np.isnan(table.cells)).any(axis=1).sum())
    # Otherwise rows have weights, or are others.
    is_whole = training and np.isclose(estimator.n_samples_, [n_seen, len(table.cells)]).any()
    for rows in (None, *([X] if is_whole else [])):
        try:
            return scree_of_fit(estimator, rows, count)
        except DataError:
            continue
    return None


# Sentences


def about_factors(estimator: Any, table: Table, facts: FactorFacts) -> str:
    """How many factors there are, how much of the variance they explain, how they were rotated, and Heywood cases."""
    q, total = len(table.components), share(float(estimator.explained_variance_ratio_.sum()))
    columns = f"the {counted(len(table.features), 'column')}"
    who, they = ("One factor explains", "It accounts") if q == 1 else (f"{q} factors explain", "Together they account")
    said = f"{who} the correlations between {columns}. {they} for {total} of the variance of the standardized columns; "
    return " ".join([f"{said}the rest is unique to each column.", *_rotation(table, facts), *_heywood(table, facts)])


def _rotation(table: Table, facts: FactorFacts) -> Iterator[str]:
    """How the factors were rotated, and how strongly they are correlated; nothing about a single factor."""
    if not facts.rotation:
        return
    method = facts.rotation.removesuffix(" rotation")
    how = "They were not rotated" if method == "unrotated" else f"They were rotated by {method}"
    if not facts.is_oblique:
        yield f"{how} and are uncorrelated."
        return
    Phi = np.tril(facts.correlations, -1)
    j, k = np.unravel_index(int(np.abs(Phi).argmax()), Phi.shape)
    largest = signed(f"{Phi[j, k]:.2f}")
    yield f"{how} and are correlated; the largest correlation is {largest}, of {_name(table, k)} and {_name(table, j)}."


def _name(table: Table, k: Any) -> str:
    return table.components[int(k)]


def _heywood(table: Table, facts: FactorFacts) -> Iterator[str]:
    count = len(facts.heywood)
    if count:
        names = ", ".join(table.features[j] for j in facts.heywood[:5]) + (", ..." if count > 5 else "")
        what = "it completely, a Heywood case" if count == 1 else "them completely, Heywood cases"
        yield f"No noise is left in {counted(count, 'column')} ({names}): the factors explain {what}."


def factor_in_words(meaning: Meaning, w: Array, features: Sequence[str], settings: ComponentSettings) -> str:
    """What a factor is, by the columns that load on it and their loadings w."""
    if meaning.level:
        first = [int(j) for j in largest_first(w, 3)]
        said = f"a general factor: all {len(features):,} columns load on it"
        return f"{said}, most of all {_with_loadings(first, w, features)}"
    most, low = settings.most_named, meaning.low
    if not meaning.high and not low:
        return "no column stands out: none of its loadings clearly differs from zero"
    n_high = min(len(meaning.high), most - min(len(low), most // 3))
    sides = (meaning.high, n_high, "on it"), (low, min(len(low), most - n_high), "negatively")
    parts = [
        f"{_with_loadings(columns[:count], w, features, len(columns) - count)} {_load(columns)} {how}"
        for columns, count, how in sides
        if columns
    ]
    return " and ".join(parts)


def _load(columns: list[int]) -> str:
    return "loads" if len(columns) == 1 else "load"


def _with_loadings(columns: list[int], w: Array, features: Sequence[str], n_more: int = 0) -> str:
    """Columns with their loadings in parentheses, and how many more there are."""
    items = [f"{features[j]} ({signed(f'{w[j]:.2f}')})" for j in columns] + ([f"{n_more:,} more"] if n_more else [])
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def about_eigenvalues(table: Table, facts: FactorFacts) -> tuple[str, str]:
    """Title of the scree plot, and the note below it."""
    q, found = len(table.components), facts.scree
    if found is None:
        return "Variance explained", "The share of the variance of the standardized columns that each factor explains."
    above = (
        "Eigenvalues above the dashed curve are larger than in 95% of tables of the same size with independent columns"
    )
    counts = f"parallel analysis finds {counted(found.n_above, 'factor')}. The model has {q}."
    return "Eigenvalues of the correlations", f"{above}: {counts}"


def about_loadings(facts: FactorFacts) -> str:
    """What a standardized loading is, in a sentence."""
    others = " and the other factors stay the same" if facts.is_oblique else ""
    change = "A standardized loading is the change of a column, in standard deviations, when the factor rises by one"
    return f"{change}{others}."


def factor_findings(table: Table, facts: FactorFacts, settings: ComponentSettings) -> Iterator[str]:
    """Advice that follows from the factors."""
    if not facts.is_rotated:
        yield "The rotation has not converged, so that loadings are approximate: try another rotation."
    if len(facts.heywood):
        yield "Heywood cases: try fewer factors or more rows, or leave out columns that repeat others."
    indices = facts.indices
    if indices is not None and indices.rmsea > settings.poor_rmsea:
        yield (
            f"The factors leave correlations unexplained (RMSEA {indices.rmsea:.2f}; up to 0.05 is a close fit, above "
            f"{settings.poor_rmsea:g} a poor one): try more factors."
        )
    few = [_name(table, k) for k, w in enumerate(facts.loadings.T) if (np.abs(w) >= settings.small_loading).sum() < 3]
    if few and len(facts.loadings) > 2:
        has = "has" if len(few) == 1 else "have"
        least = f"loadings of {settings.small_loading:g} or more"
        yield f"{', '.join(few)} {has} fewer than three columns with {least}: such factors are rarely stable."


# Tables and details


def factor_tables(table: Table, facts: FactorFacts, settings: ComponentSettings, most: int) -> Iterator[str]:
    """HTML of the loadings of at most ``most`` columns, of the correlations of factors, and of the fit indices."""
    yield '<div class="grid factors spaced">'
    yield '<div class="card">'
    yield "<h3>Standardized loadings of all columns</h3>"
    yield f'<p class="note">{escape(_about_table(facts, most))}</p>'
    yield '<div class="scroll high"><table class="pattern">'
    heads = [*table.components, "communality", "uniqueness"]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    yield f'<thead><tr><th scope="col">column</th>{head}</tr></thead>'
    yield "<tbody>"
    yield from _loading_lines(table, facts, settings, most)
    yield "</tbody>"
    yield from _sums(facts)
    yield "</table></div>"
    yield "</div>"
    yield '<div class="stack">'
    yield from _correlation_card(table, facts)
    yield from _fit_card(facts.indices)
    yield "</div>"
    yield "</div>"
    yield ""


def _about_table(facts: FactorFacts, most: int) -> str:
    rotation = f"{facts.rotation.capitalize()}. " if facts.rotation else ""
    pattern = (
        "Loadings are the pattern: with correlated factors they are not correlations. " if facts.is_oblique else ""
    )
    hidden = len(facts.loadings) - most
    left = f" {counted(hidden, 'column')} with smaller loadings are left out." if hidden > 0 else ""
    return (
        f"{rotation}{pattern}Columns stand together with the others that load most on the same factor. The communality "
        "is the share of the variance of a column that the factors explain, the uniqueness the share that they do not."
        f"{left}"
    )


def _loading_lines(table: Table, facts: FactorFacts, settings: ComponentSettings, most: int) -> Iterator[str]:
    """Lines of the table of loadings, with a rule where the factor with the largest loading changes."""
    L, largest = facts.loadings, np.abs(facts.loadings).argmax(axis=1)
    order = by_structure(L, largest_first(np.abs(L).max(axis=1), most))
    for place, j in enumerate(order):
        begins = place > 0 and largest[j] != largest[order[place - 1]]
        name, psi = escape(table.features[j]), float(facts.uniquenesses[j])
        cells = "".join(_loading_cell(float(value), settings.small_loading) for value in L[j])
        mark = ' class="odd" title="Heywood case"' if j in facts.heywood else ""
        yield (
            f'<tr{" class=begins" if begins else ""}><th scope="row" title="{name}">{name}</th>{cells}'
            f"<td>{1 - psi:.2f}</td><td{mark}>{psi:.2f}</td></tr>"
        )


def _loading_cell(value: float, small: float) -> str:
    """A loading on a background that is the stronger the larger it is."""
    kind = "more" if value >= 0 else "less"
    kinds = kind if abs(value) >= small else f"{kind} small"
    return f'<td class="{kinds}" style="--size:{min(50 * abs(value), 60):.0f}%">{_two_digits(value)}</td>'


def _two_digits(value: float) -> str:
    return signed(f"{value:.2f}".replace("-0.00", "0.00"))


def _sums(facts: FactorFacts) -> Iterator[str]:
    """Lines below the table: variance that each factor explains, its share, and the cumulative share."""
    ratio = facts.explained / len(facts.loadings)
    lines = (
        ("variance explained", [f"{value:.2f}" for value in facts.explained]),
        ("share of variance", [share(float(part)) for part in ratio]),
        ("cumulative", [share(float(part)) for part in np.cumsum(ratio)]),
    )
    yield "<tfoot>"
    for name, values in lines:
        cells = "".join(f"<td>{value}</td>" for value in values)
        yield f'<tr><th scope="row">{name}</th>{cells}<td></td><td></td></tr>'
    yield "</tfoot>"


def _correlation_card(table: Table, facts: FactorFacts) -> Iterator[str]:
    """Lower triangle of the correlations of oblique factors."""
    if not facts.is_oblique:
        return
    yield '<div class="card"><h3>Correlations of the factors</h3>'
    yield '<div class="scroll"><table class="pattern" id="factor-correlations">'
    names = [escape(name) for name in table.components]
    heads = "".join(f'<th scope="col">{name}</th>' for name in names)
    yield f"<thead><tr><th></th>{heads}</tr></thead><tbody>"
    for j, name in enumerate(names):
        cells = [_loading_cell(float(value), 0.0) for value in facts.correlations[j, :j]]
        empty = "<td></td>" * (len(names) - j - 1)
        yield f'<tr><th scope="row">{name}</th>{"".join(cells)}<td>1</td>{empty}</tr>'
    yield "</tbody></table></div></div>"


def _fit_card(indices: FitIndices | None) -> Iterator[str]:
    """Fit indices, or how to have them."""
    yield '<div class="card"><h3>Fit of the factor model</h3>'
    if indices is None:
        why = "Fit indices are not known: with missing cells or many columns"
        yield f"<p>{why}, <code>fit_indices(X)</code> computes them.</p>"
    else:
        lines = "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in index_lines(indices))
        yield f'<dl class="details" id="fit-indices">{lines}</dl>'
        yield f'<p class="note">{escape(indices.note)}</p>' if indices.note else ""
    yield "</div>"


def index_lines(found: FitIndices) -> Iterator[tuple[str, str]]:
    """Names and values of the fit indices that have one."""
    low, high = found.rmsea_interval
    if np.isfinite(found.p_value):
        p = p_text(float(log10_chi2_tail(np.array(found.chi_square), found.df)))
        yield "Chi-square", f"{found.chi_square:,.2f}, {counted(found.df, 'degree')} of freedom, p = {p}"
        yield "RMSEA", f"{found.rmsea:.3f} (90% interval {low:.3f} to {high:.3f})"
    for name, value in (("CFI", found.cfi), ("TLI", found.tli), ("SRMR", found.srmr)):
        if np.isfinite(value):
            yield name, signed(f"{value:.3f}")
    yield "AIC", signed(f"{found.aic:,.1f}")
    yield "BIC", signed(f"{found.bic:,.1f}")


def factor_details(estimator: Any, features: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values of what a statistician wants to know about the factors."""
    rotation, psi = estimator.rotation_, estimator.uniquenesses_
    if estimator.n_components_ > 1:
        how = rotation_of(estimator)
        yield "Rotation", how if rotation.converged else f"{how}, not converged"
    low, high = int(psi.argmin()), int(psi.argmax())
    yield "Uniquenesses", f"{psi[low]:.3g} ({features[low]}) to {psi[high]:.3g} ({features[high]})"
    names = [features[j] for j in estimator.heywood_features_]
    yield "Heywood cases", ", ".join(names[:10]) + (", ..." if len(names) > 10 else "") if names else "none"
