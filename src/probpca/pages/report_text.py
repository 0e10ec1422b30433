"""The sentences, figures and tables of a report that need no script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.displays.inputs import has_factors, noise_along
from probpca.learning.describe import about_units
from probpca.learning.result import Status
from probpca.pages.page import counted, p_text, share, signed
from probpca.pages.report_charts import bars_of
from probpca.pages.report_components import meaning_in_words, meaning_of
from probpca.pages.report_factors import factor_details, factor_findings, factor_in_words
from probpca.pages.report_robust import used_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.pages.page import Table
    from probpca.pages.report_clusters import ClusterFacts
    from probpca.pages.report_components import ComponentSettings, Loadings, Shares
    from probpca.pages.report_factors import FactorFacts
    from probpca.pages.report_rows import RowFacts
    from probpca.typing import Array, Index


# Numbers in words


def _noise(noise: Any) -> str:
    return f"{noise:.4g}" if np.ndim(noise) == 0 else f"{np.min(noise):.3g} to {np.max(noise):.3g}"


def chance_of(count: float) -> str:
    """How many unusual rows chance alone would give, as a clause."""
    return f"chance alone would give about {f'{count:,.0f}' if count >= 10 else f'{count:.2g}'}"


def named_first(table: Table, rows: Index, most: int = 5) -> str:
    """Names of the first rows, and whether there are others."""
    first = [table.called(int(i)) for i in rows[:most]]
    return f"{', '.join(first)}{' and others' if len(rows) > len(first) else ''}"


def pair(tag: str, name: str, value: str) -> str:
    """HTML of a name and its value."""
    return f"<{tag}><dt>{escape(name)}</dt><dd>{escape(value)}</dd></{tag}>"


# The first screen


def warning(estimator: Any) -> str:
    """What is wrong with the fit; empty if it converged."""
    if estimator.converged_:
        return ""
    return f"Read the results on this page with care. {estimator.status_.value}"


def main_figures(estimator: Any, table: Table, rows: RowFacts) -> Iterator[tuple[str, str]]:
    """Names and values of the main figures."""
    n, d = table.cells.shape
    yield "rows", f"{n:,}"
    yield "columns", f"{d:,}"
    missing = float(np.isnan(table.cells).mean())
    yield "missing cells", share(missing) if missing else "none"
    yield f"{table.noun}s", f"{table.model.n_components}"
    yield "variance explained", share(float(estimator.explained_variance_ratio_.sum())).replace("more than", ">")
    yield "unusual rows", f"{rows.n_unusual:,}"


def about_cells(table: Table) -> str:
    """How large the table is, and how much of it is missing."""
    n, d = table.cells.shape
    missing = int(np.isnan(table.cells).sum())
    size = f"The model uses {counted(n, 'row')} and {counted(d, 'numeric column')}."
    if not missing:
        return f"{size} No cell is missing."
    cells = f"{missing:,} of their {n * d:,} cells are missing ({share(missing / (n * d))})."
    n_empty = int(np.isnan(table.cells).all(axis=1).sum())
    how = "Each was imputed from the other cells of its row." if missing > n_empty * d else ""
    empty = f"{counted(n_empty, 'row')} without any value got the column means." if n_empty else ""
    return " ".join(filter(None, [size, cells, how, empty]))


def about_components(estimator: Any, table: Table) -> str:
    """How many components there are, and how much of the variance they explain."""
    ratio = estimator.explained_variance_ratio_
    total = share(float(ratio.sum()))
    d = len(table.features)
    columns = f"the {counted(d, 'column')}" + ("" if estimator.scale_ is None else " (scaled to unit variance)")
    if ratio.size == 1:
        said = f"One component summarises {columns}: it explains {total} of the variance."
    else:
        said = f"{ratio.size} components summarise {columns}: together they explain {total} of the variance."
    return f"{said} The model treats the rest as noise."


def about_hidden_components(shares: Shares, n_kept: int) -> str:
    """How much the components without a bar explain; empty if all have one."""
    count = shares.values.size
    bars = bars_of(count, n_kept)
    if bars == count:
        return ""
    return (
        f"Components {bars + 1:,} to {count:,} have no bar; together they explain {share(shares.values[bars:].sum())}."
    )


def component_sentences(
    table: Table, ratio: Any, loadings: Loadings, settings: ComponentSettings
) -> Iterator[tuple[str, str, str]]:
    """Name, share of the variance and meaning of each component or factor."""
    for k, name in enumerate(table.components):
        meaning = meaning_of(loadings, k, settings)
        if table.noun == "factor":
            words = factor_in_words(meaning, loadings.values[:, k], table.features, settings)
        else:
            words = meaning_in_words(meaning, table.features, settings)
        yield name, share(float(ratio[k])), words


def about_unusual(table: Table, rows: RowFacts) -> str:
    """How many rows are unusual, which are the least probable, and how many chance alone would give."""
    count, settings = rows.n_unusual, rows.settings
    chance = chance_of(rows.by_chance)
    see = " Read the note on p-values below." if rows.found.note else ""
    if not count:
        return f"No row is unusual: none has a p-value below {settings.p:g} ({chance}).{see}"
    which = named_first(table, rows.unusual_first[:count])
    many = f"{count:,} of {counted(rows.found.distance.size, 'row')} {'is' if count == 1 else 'are'} unusual"
    return f"{many}, with a p-value below {settings.p:g} ({chance}): {which}.{see}"


def about_shown(table: Table, rows: RowFacts) -> str:
    """Which rows of a very large table the page shows; empty if it shows all of them."""
    n, shown = len(table.names), rows.shown.size
    if shown == n:
        return ""
    first = min(rows.settings.most_unusual, shown)
    which = f"the {first:,} most unusual rows and a random share of the others"
    return f"The charts show {shown:,} of the {n:,} rows: {which}. Text and tables describe all rows."


# What to do next


def advice(estimator: Any, table: Table, rows: RowFacts, factors: FactorFacts | None = None) -> Iterator[str]:
    """Sentences about what to look at next."""
    found = list(_findings(estimator, table, rows, factors))
    yield from found or [f"No problems were found. Choose any row to see its {table.noun} scores and values."]


def _findings(estimator: Any, table: Table, rows: RowFacts, factors: FactorFacts | None) -> Iterator[str]:
    yield from about_ending(estimator)
    if rows.n_unusual > 3 * rows.by_chance + 3:
        yield (
            "Far more rows are unusual than chance would give. Look at the table of unusual rows. If the same column "
            "stands out in most of them, check that column. If not, the table may mix several kinds of rows."
        )
    elif rows.n_unusual:
        yield "Choose a row from the table of unusual rows to see which columns make it unusual."
    if rows.found.note:
        yield "Read the note on p-values above the table of unusual rows, and compare both p-values there."
    yield from estimator.notes_
    if factors is not None:
        yield from factor_findings(table, factors, rows.settings.components)
    else:
        yield from about_units(estimator.column_std_, table.features, "fitting with standardize=True (--standardize)")
    yield from poor_columns(estimator, table)
    if np.isnan(table.cells).any():
        yield "Choose a row with missing cells to see its imputed values. Do not rely on those with wide intervals."
    weak = 0 if factors is not None else int((estimator.explained_variance_ < 1.5 * noise_along(estimator)).sum())
    if weak:
        names = f"{counted(weak, 'component')} {'is' if weak == 1 else 'are'}"
        yield f"{names} hardly larger than the noise: try fewer components."


def about_ending(estimator: Any) -> Iterator[str]:
    """What to do about a fit that has not converged."""
    remedies = {
        Status.DEPENDENT_COLUMNS: "Some columns are exact combinations of others: leave out those that repeat others, "
        "and fit again.",
        Status.NOISE_COLLAPSED: "The components explain the data completely: use fewer components, or more rows.",
        Status.ROBUST_MAX_ITER: "The rows and cells to use have not settled: compare with an ordinary fit, or try "
        "another keep.",
    }
    if not estimator.converged_:
        other = "The fit has not converged: raise max_iter before you rely on these numbers."
        yield remedies.get(estimator.status_, other)


def poor_columns(estimator: Any, table: Table) -> Iterator[str]:
    """Sentences about columns that hold one value only, or none."""
    reach = np.fmax.reduce(table.cells) - np.fmin.reduce(table.cells)  # NaN if nothing was observed
    same = int((reach == 0).sum()) if len(table.cells) > 1 else 0
    if same:
        verb, them = ("has", "it") if same == 1 else ("have", "them")
        yield f"{counted(same, 'column')} {verb} the same value in all rows: leave {them} out."
    empty = len(empty_columns(estimator))
    if empty:
        yield f"{counted(empty, 'column')} had no observed cell in the fit: imputed values there are meaningless."


def empty_columns(estimator: Any) -> Any:
    """Positions of the columns without any value in the fit."""
    return getattr(estimator, "empty_features_", np.empty(0, np.intp))


# Unusual rows


def how_calibrated(estimator: Any) -> str:
    """What the p-values are compared with."""
    if used_of(estimator) is not None:
        return "The p-value is of chi-square, scaled by the rows that the fit used; the model p-value is not scaled."
    return (
        "The p-value is calibrated on the training rows; the model p-value assumes that the fitted Gaussian model is "
        "exact."
    )


def how_judged(estimator: Any, rows: RowFacts | ClusterFacts) -> str:
    """Whether rows are those of the fit."""
    if rows.training and used_of(estimator) is not None:
        return "Rows that the fit did not use are judged like new ones."
    if rows.training:
        return "Each row was judged as if it had been left out of the fit."
    return "The rows are new to the model: it was not fitted to them."


def unusual_rows(table: Table, rows: RowFacts) -> Iterator[str]:
    """Lines of an HTML table of unusual rows, the least probable first."""
    found = rows.found
    for i in rows.unusual_first[: rows.settings.most_unusual]:
        cells = [
            p_text(found.log10_p_value[i]),
            p_text(found.log10_model_p_value[i]),
            f"{found.distance[i]:.4g}",
            f"{int(np.isfinite(table.cells[i]).sum()):,}",
        ]
        yield unusual_line(table, int(i), rows.shown, cells, found.cell_scores[i])


def unusual_line(table: Table, i: int, shown: Index, cells: list[str], scores: Array) -> str:
    """Line of an HTML table for row i: its name, some cells, and the column that agrees least with the others."""
    place = int(np.searchsorted(shown, i))
    tail = ["", "", ""]
    if not np.isnan(scores).all():
        worst = int(np.nanargmax(np.abs(scores)))
        tail = [table.features[worst], f"{table.cells[i, worst]:.4g}", f"{scores[worst]:+.1f}"]
    called, column = escape(table.called(i)), escape(tail[0])
    button = f'<button type="button" data-row="{place}" title="{called}">{called}</button>'
    number = [f"{table.numbers[i]:,}"] if table.named else []
    numbers = "".join(f"<td>{escape(cell)}</td>" for cell in [*number, *cells])
    return (
        f'<tr><th scope="row">{button}</th>{numbers}<td class="word" title="{column}">{column}</td>'
        f"<td>{signed(tail[1])}</td><td>{signed(tail[2])}</td></tr>"
    )


# Model details


def model_details(estimator: Any, table: Table, rows: RowFacts) -> Iterator[tuple[str, str]]:
    """Names and values of what a statistician wants to know about the fit."""
    bounded = hasattr(estimator, "lower_bound_")
    total = estimator.lower_bound_ if bounded else estimator.log_likelihood_
    rule = getattr(estimator, "rule_", "")
    yield "Model", type(estimator).__name__
    yield f"Number of {table.noun}s", " ".join([f"{estimator.n_components_}", *([f"({rule})"] if rule else [])])
    if estimator.notes_:
        yield "Notes on this number", " ".join(estimator.notes_)
    if has_factors(estimator):
        yield from factor_details(estimator, table.features)
    else:
        yield "Columns scaled to unit variance", "no" if estimator.scale_ is None else "yes"
        yield "Noise variance", _noise(estimator.noise_variance_)
    yield ("Lower bound of the log evidence" if bounded else "Log-likelihood of the fit"), signed(f"{total:,.2f}")
    yield "Mean log-likelihood of the rows on this page", signed(f"{rows.score:.4g}")
    used = used_of(estimator)
    if used is not None:
        yield "Rows used", f"{int(used.rows.sum()):,} of {used.rows.size:,}"
    yield "How the fit ended", estimator.status_.value
    yield "Iterations", f"{estimator.n_iter_:,}"
