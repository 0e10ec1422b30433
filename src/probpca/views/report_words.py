"""What a report says in words."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.learning.results import Status
from probpca.views.pages.asking import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.views.pages.asking import Table
    from probpca.views.report_rows import RowFacts

ODD = 0.01
"""Rows with a smaller p-value are called unusual."""
RAISED = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
MOST_ODD = 15
"""Rows in the table of unusual ones."""


def share(part: float) -> str:
    """A share in percent, which is nothing or everything only if it really is."""
    if 0 < part < 5e-4:
        return "less than 0.1 %"
    if 0.9995 <= part < 1:
        return "more than 99.9 %"
    return f"{100 * part:.1f} %"


def probability(log10_p: float) -> str:
    """A p-value as people read it, however small."""
    if log10_p >= -4:
        return f"{10**log10_p:.2g}"
    lead, _, power = f"{10 ** (log10_p % 1):.1e}".partition("e")
    return f"{lead} \u00d7 10{str(int(np.floor(log10_p)) + int(power)).translate(RAISED)}"


def facts_in_short(estimator: Any, table: Table, rows: RowFacts) -> Iterator[tuple[str, str]]:
    """Pairs of a name and a value, for those who know what they look for."""
    n, d = table.cells.shape
    bounded = hasattr(estimator, "lower_bound_")
    total = estimator.lower_bound_ if bounded else estimator.log_likelihood_
    yield "rows", f"{n:,}"
    yield "columns", f"{d:,}"
    yield "cells missing", share(float(np.isnan(table.cells).mean()))
    yield "components", f"{table.model.n_components}"
    yield "variance they hold", share(float(estimator.explained_variance_ratio_.sum()))
    yield "noise variance", _noise(estimator.noise_variance_)
    yield ("lower bound of the evidence" if bounded else "log-likelihood of the fit"), _signed(f"{total:,.2f}")
    yield "log-likelihood of a row here", _signed(f"{rows.score:.4g}")
    yield f"unusual rows (p < {ODD})", f"{_odd(rows):,}"
    yield "fit", _ending(estimator)


def summary_sentences(estimator: Any, table: Table, rows: RowFacts) -> Iterator[str]:
    """What was fitted, how well it holds, and which rows stand out."""
    n, d = table.cells.shape
    yield _components(estimator, d)
    missing = int(np.isnan(table.cells).sum())
    if missing:
        yield (
            f"{missing:,} of {n * d:,} cells are missing ({share(missing / (n * d))}). They are filled in with what "
            "the other cells of their row say about them, and every filling has a 95 % interval"
            f"{_but_for(estimator, table)}."
        )
    else:
        yield "No cell is missing."
    yield (
        f"{counted(_odd(rows), 'row')} of {n:,} {'has' if _odd(rows) == 1 else 'have'} a p-value below {ODD}; "
        f"if all rows followed the model it would be about {_few(ODD * n)}."
    )
    yield f"The fit {'ended well' if estimator.converged_ else 'did not end well'}. {estimator.status_.value}"
    if rows.shown.size < n:
        half = rows.shown.size // 2
        yield (
            f"This page shows {rows.shown.size:,} of the {n:,} rows one by one: the {half:,} most unusual, and "
            f"{rows.shown.size - half:,} of the others, drawn at random. All counts are of all rows."
        )


def advice(estimator: Any, table: Table, rows: RowFacts) -> Iterator[str]:
    """What to look at next, given what was found; some row, if nothing was."""
    found = list(_findings(estimator, table, rows))
    yield from found or ["Nothing stands out. Choose any row to see where it lies, and how its cells go together."]


def _findings(estimator: Any, table: Table, rows: RowFacts) -> Iterator[str]:
    n = table.cells.shape[0]
    reach = np.fmax.reduce(table.cells) - np.fmin.reduce(table.cells)  # NaN if nothing was observed
    if estimator.status_ is Status.NOISE_COLLAPSED:
        yield "The components explain the data completely: use fewer of them, or more rows."
    elif not estimator.converged_:
        yield "The fit has not converged: let it go on before you rely on these numbers."
    if _odd(rows) > 3 * ODD * n + 3:
        yield (
            "Far more rows are unusual than the model expects. Look at the table of unusual rows: if one column is to "
            "blame in most of them, look at that column; if not, rows may be of several kinds, or have heavier tails."
        )
    elif _odd(rows):
        yield "Choose rows from the table of unusual rows, and see which cells make them so."
    scale = table.scale[reach > 0]
    if scale.size and scale.max() > 10 * scale.min() and np.ndim(estimator.noise_variance_) == 0:
        yield (
            "Columns differ more than tenfold in spread, so that those of large numbers decide the components. If "
            "units are arbitrary, fit with standardize=True."
        )
    same = int((reach == 0).sum()) if n > 1 else 0
    if same:
        yield f"{counted(same, 'column')} {'has' if same == 1 else 'have'} one value only, which tells no rows apart."
    empty = _empty(estimator)
    if len(empty):
        yield f"{counted(len(empty), 'column')} had no value at all in the fit; nothing can be said about their cells."
    if np.isnan(table.cells).any():
        yield "Choose a row with missing cells: long intervals are fillings that you should not lean on."
    noise = estimator.noise_variance_
    weak = 0 if np.ndim(noise) else int((estimator.explained_variance_ < 1.5 * noise).sum())
    if weak:
        yield f"The variance of {counted(weak, 'component')} is hardly above the noise: see whether fewer would do."


def unusual_rows(table: Table, rows: RowFacts) -> Iterator[str]:
    """Rows of an HTML table, the least believable first."""
    place = {int(i): k for k, i in enumerate(rows.shown)}
    found = rows.found
    for i in rows.unusual_first[:MOST_ODD]:
        scores = found.cell_scores[i]
        worst = None if np.isnan(scores).all() else int(np.nanargmax(np.abs(scores)))
        cells = [
            *([f"{table.numbers[i]:,}"] if table.named else []),
            f"{found.distance[i]:.4g}",
            f"{int(np.isfinite(table.cells[i]).sum())}",
            probability(found.log10_p_value[i]),
            _part(found.latent_p_value[i]),
            _part(found.residual_p_value[i]),
        ]
        tail = ["", ""] if worst is None else [table.features[worst], _signed(f"{scores[worst]:+.1f}")]
        called, column = escape(table.called(i)), escape(tail[0])
        button = f'<button type="button" data-row="{place[int(i)]}" title="{called}">{called}</button>'
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        yield (
            f'<tr><th scope="row">{button}</th>{numbers}<td class="word" title="{column}">{column}</td>'
            f"<td>{tail[1]}</td></tr>"
        )


def scree_note(noise: Any) -> str:
    """How to read the chart of the components."""
    told = "The variance of a row along each component, on a logarithmic scale."
    line = "the dashed line" if np.ndim(noise) == 0 else "its dashed line, for each column has noise of its own,"
    return f"{told} What rests on {line} is no more than noise."


def _components(estimator: Any, d: int) -> str:
    ratio = estimator.explained_variance_ratio_
    rule = f" ({estimator.rule_})" if getattr(estimator, "rule_", "") else ""
    first, total = share(float(ratio[0])), share(float(ratio.sum()))
    held = f"which holds {total}" if ratio.size == 1 else f"which together hold {total}"
    more = "" if ratio.size == 1 else f"; the first holds {first}"
    told = f"{type(estimator).__name__} explains {counted(d, 'column')} by {counted(ratio.size, 'component')}{rule}"
    return f"{told}, {held} of the variance{more}. The rest is taken for noise."


def _ending(estimator: Any) -> str:
    if estimator.status_ is Status.NOISE_COLLAPSED:
        return "no noise is left"
    return "converged" if estimator.converged_ else "not converged"


def _empty(estimator: Any) -> Any:
    """Positions of the columns that had no value in the fit."""
    return getattr(estimator, "empty_features_", np.empty(0, np.intp))


def _but_for(estimator: Any, table: Table) -> str:
    unknown = np.isnan(table.cells[:, _empty(estimator)]).any()
    return ", but for columns of which nothing was ever observed" if unknown else ""


def _part(p: float) -> str:
    return probability(np.log10(p)) if p > 0 else f"< 10{'-300'.translate(RAISED)}"


def _odd(rows: RowFacts) -> int:
    return int((rows.found.p_value < ODD).sum())


def _noise(noise: Any) -> str:
    return f"{noise:.4g}" if np.ndim(noise) == 0 else f"{np.min(noise):.3g} to {np.max(noise):.3g}"


def _few(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"


def _signed(number: str) -> str:
    return number.replace("-", "\u2212")
