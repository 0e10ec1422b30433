"""The charts of a report in Vega-Lite; data sets are referred to by name.

Colours are variables of the style sheet, so that one chart serves light, dark and print. Fields have their own names:
names of columns could have a meaning in Vega, so only the scripts of the page know them, as ``names``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from probpca.learning.selection.parallel_analysis import Scree
    from probpca.typing import Array


@dataclass(frozen=True)
class ChartStyle:
    """Sizes of the charts, in pixels, and the numbers from which they are drawn in another way."""

    most_lines: int = 40  # features with a line each; more stand side by side
    crowd: int = 120  # features side by side from which on they are drawn smaller
    many_rows: int = 1_000  # rows from which on usual ones are drawn paler
    crowded_rows: int = 5_000  # rows from which on they are drawn smaller
    line: int = 18  # height of a line
    wide_line: int = 28  # height of a line where there are few
    most_causes: int = 12  # columns with a bar for their contribution
    height: int = 340  # of most charts
    plane: int = 400  # height of the biplot
    widest_name: int = 170  # of a feature beside a chart; longer names are cut
    scree: int = 170  # height of the chart of the variances
    most_bars: int = 30  # components in the chart of their variances
    most_named_bars: int = 15  # components up to which bars have a number


STYLE = ChartStyle()


def altair() -> Any:
    """Import altair, which only a report needs."""
    try:
        import altair as alt  # noqa: PLC0415
        import vl_convert  # noqa: F401, PLC0415
    except ImportError as error:
        msg = "the report needs altair and vl-convert, which are not installed."
        msg += "\nHint: pip install 'probpca[report]'"
        raise ImportError(msg) from error
    return alt


def drawing_script() -> str:
    """Vega, Vega-Lite and Vega-Embed, as one script that needs no network."""
    import vl_convert  # noqa: PLC0415

    version = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    bundle: Any = vl_convert.javascript_bundle  # its stub asks for a snippet that it does not need
    script: str = bundle(vl_version=version)
    return script.replace("\r\n", "\n").replace("</script", "<\\/script").replace("<!--", "<\\!--")


class ChartSizes(NamedTuple):
    """Numbers that the charts depend on."""

    n_rows: int
    n_columns: int  # of each row
    n_loadings: int  # of each component
    n_scores: int  # components with an interval


def charts(
    shares: Array, n_kept: int, sizes: ChartSizes, scree: Scree | None = None, noun: str = "component"
) -> dict[str, Any]:
    """All charts by name; ``shares`` are those of all components, and the first ``n_kept`` are in the model.

    ``scree`` are eigenvalues of correlations to draw in the place of shares; ``noun`` is what components are called.
    """
    alt = altair()
    drawn = {
        "scree": _scree(alt, shares, n_kept, noun) if scree is None else _eigenvalues(alt, scree, n_kept),
        "biplot": _biplot(alt, sizes.n_rows, noun),
        "scores": _scores(alt, sizes.n_scores, noun),
        "distances": _distances(alt, sizes.n_rows, noun),
        **common_charts(sizes, noun),
    }
    return {name: dressed(chart).to_dict() for name, chart in drawn.items()}


def common_charts(sizes: ChartSizes, noun: str) -> dict[str, Any]:
    """Charts that reports on components and on clusters have."""
    alt = altair()
    across = sizes.n_columns > STYLE.most_lines
    return {
        "loadings": _loadings(alt, sizes.n_loadings, noun),
        "cells": _cells_across(alt, sizes.n_columns) if across else _cells_down(alt, sizes.n_columns),
        "causes": _causes(alt, sizes.n_columns),
    }


# Components


def _scree(alt: Any, shares: Array, q: int, noun: str) -> Any:
    """Share of the variance of each component as a bar, and a line after the last that is kept."""
    together = np.cumsum(shares)
    rows = [
        {
            "k": k + 1,
            "share": float(shares[k]),
            "together": float(together[k]),
            "kind": "yes" if k < q else "no",
            "said": f"{100 * shares[k]:.0f}%" if k < q else "",
        }
        for k in range(bars_of(shares.size, q))
    ]
    labels = _ticks(len(rows))
    axis = alt.Axis(labelAngle=0, labelExpr=f"indexof({labels}, datum.value) < 0 ? '' : datum.label", ticks=False)
    x = alt.X("k:O", title=noun, axis=axis, scale=alt.Scale(paddingInner=0.2, paddingOuter=0.2))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=x,
        y=alt.Y(
            "share:Q",
            title="variance explained",
            axis=alt.Axis(labelExpr="format(100 * datum.value, '~g') + '%'", tickCount=4),
        ),
        tooltip=[
            alt.Tooltip("k:O", title=noun),
            alt.Tooltip("share:Q", title="variance explained", format=".1%"),
            alt.Tooltip("together:Q", title="cumulative", format=".1%"),
            alt.Tooltip("kind:N", title="in the model"),
        ],
    )
    colours = alt.Scale(domain=["yes", "no"], range=["var(--row)", "var(--faint)"])
    layers = [base.mark_bar().encode(color=alt.Color("kind:N", legend=None, scale=colours))]
    if len(rows) <= STYLE.most_named_bars:
        layers.append(base.mark_text(dy=-7, color="var(--muted)").encode(text="said:N"))
    if q < len(rows):
        layers += _chosen_number(alt, q)
    return alt.layer(*layers).properties(height=STYLE.scree, description=_scree_text(rows, q, noun))


def _eigenvalues(alt: Any, found: Scree, q: int) -> Any:
    """Eigenvalues of correlations as bars, the line that they exceed by chance, and a line after the last factor."""
    rows = [
        {"k": k + 1, "value": value, "chance": chance, "kind": "yes" if k < q else "no"}
        for k, (value, chance) in enumerate(zip(found.values.tolist(), found.by_chance.tolist(), strict=True))
    ]
    axis = alt.Axis(labelAngle=0, ticks=False)
    x = alt.X("k:O", title="factor", axis=axis, scale=alt.Scale(paddingInner=0.2, paddingOuter=0.2))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=x,
        tooltip=[
            alt.Tooltip("k:O", title="factor"),
            alt.Tooltip("value:Q", title="eigenvalue", format=".3f"),
            alt.Tooltip("chance:Q", title="95% of independent columns", format=".3f"),
            alt.Tooltip("kind:N", title="in the model"),
        ],
    )
    colours = alt.Scale(domain=["yes", "no"], range=["var(--row)", "var(--faint)"])
    height = alt.Y("value:Q", title="eigenvalue", axis=alt.Axis(tickCount=4))
    bars = base.mark_bar().encode(y=height, color=alt.Color("kind:N", legend=None, scale=colours))
    chance = base.mark_line(color="var(--odd)", strokeDash=[4, 3], strokeWidth=1.6, aria=False).encode(y="chance:Q")
    points = base.mark_point(filled=True, color="var(--odd)", size=16, aria=False).encode(y="chance:Q")
    layers = [bars, chance, points]
    if q < len(rows):
        layers += _chosen_number(alt, q)
    said = "; ".join(f"{row['k']}: {row['value']:.2f}" for row in rows[:8])
    words = f"Eigenvalues of the correlations: {said}. {found.n_above} exceed those of independent columns."
    return alt.layer(*layers).properties(height=STYLE.scree, description=words)


def _chosen_number(alt: Any, q: int) -> list[Any]:
    here = alt.Chart(alt.InlineData(values=[{"k": q, "said": f"{q} kept"}]))
    x = alt.X("k:O", bandPosition=1)
    line = here.mark_rule(color="var(--odd)", strokeDash=[5, 4], strokeWidth=1.5).encode(x=x)
    word = here.mark_text(align="left", dx=6, dy=8, color="var(--odd)", fontWeight=600)
    return [line, word.encode(x=x, y=alt.value(0), text="said:N")]


def _ticks(count: int, most: int = 15) -> list[int]:
    """Whole numbers from 1 on, at most ``most``."""
    return list(range(1, count + 1, -(-count // most)))


def bars_of(count: int, q: int) -> int:
    """Number of components with a bar if the model keeps q of ``count`` components."""
    return min(count, max(STYLE.most_bars, q + 3))


def _scree_text(rows: list[dict[str, Any]], q: int, noun: str) -> str:
    said = "; ".join(f"{noun} {row['k']}: {100 * row['share']:.1f}%" for row in rows[:8])
    return f"Share of the variance that each {noun} explains: {said}. The model keeps {q}."


def _loadings(alt: Any, count: int, noun: str) -> Any:
    """Loadings of one component as bars, with their intervals."""
    kinds = {"domain": ["more", "less"], "range": ["var(--row)", "var(--low)"]}
    axis = alt.Axis(labelExpr="names[datum.value]", labelLimit=STYLE.widest_name, ticks=False, domain=False)
    base = alt.Chart(alt.NamedData("loadings")).encode(
        y=alt.Y("j:O", title=None, sort=alt.EncodingSortField("k", op="min"), axis=axis),
        tooltip=[
            alt.Tooltip("name:N", title="column"),
            alt.Tooltip("said:N", title="loading"),
            alt.Tooltip("interval:N", title="95% interval"),
        ],
    )
    bars = base.mark_bar(size=11, aria=False).encode(
        x=alt.X("value:Q", title="loading", axis=alt.Axis(tickCount=5)),
        color=alt.Color("kind:N", legend=None, scale=alt.Scale(**kinds)),
        opacity=alt.condition("datum.sure", alt.value(1), alt.value(0.35)),
    )
    lines = base.mark_rule(color="var(--ink)", strokeWidth=1.4).encode(x="low:Q", x2="high:Q")
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color="var(--muted)").encode(x="zero:Q")
    words = f"Loadings of the chosen {noun} as bars, with their intervals."
    return alt.layer(bars, lines, zero).properties(height=STYLE.line * max(count, 4), description=words)


# Rows


def row_points(alt: Any, x: Any, y: Any, n_rows: int) -> Any:
    """All rows as points in the colours of their group, and a ring around the chosen one."""
    small = n_rows > STYLE.crowded_rows
    usual = 0.8 if n_rows <= STYLE.many_rows else 0.45
    rows = alt.Chart(alt.NamedData("points")).mark_point(filled=True, cursor="pointer", aria=False)
    rows = rows.encode(
        x=x,
        y=y,
        fill=alt.Fill("colour:N", scale=None),
        stroke=alt.Stroke("edge:N", scale=None),
        shape=alt.Shape("shape:N", scale=None),
        strokeWidth=alt.condition("datum.unusual", alt.value(1.8), alt.value(0)),
        size=alt.condition("datum.unusual", alt.value(64), alt.value(12 if small else 38)),
        opacity=alt.condition("datum.unusual", alt.value(0.95), alt.value(usual)),
        tooltip=[
            alt.Tooltip("name:N", title="row"),
            alt.Tooltip("group:N", title="group"),
            alt.Tooltip("said:N", title="p-value"),
        ],
    )
    chosen = alt.Chart(alt.NamedData("chosen")).mark_point(
        filled=False, size=220, strokeWidth=2.2, color="var(--chosen)"
    )
    return rows, chosen.encode(x=x, y=y)


def _biplot(alt: Any, n_rows: int, noun: str) -> Any:
    """Component scores of all rows, and the loadings of some features as arrows from the origin."""
    free = alt.Scale(zero=False, nice=False)
    x = alt.X("a:Q", scale=free, axis=alt.Axis(tickCount=7), title="PC1")
    y = alt.Y("b:Q", scale=free, axis=alt.Axis(tickCount=7), title="PC2")
    rows, chosen = row_points(alt, x, y, n_rows)
    region = {"color": "var(--chosen)", "strokeWidth": 1.6, "fill": "var(--chosen)", "fillOpacity": 0.07}
    ellipse = alt.Chart(alt.NamedData("ellipse")).mark_line(clip=True, **region).encode(x=x, y=y, order="k:Q")
    arrows = alt.Chart(alt.NamedData("arrows"))
    shaft = arrows.mark_rule(color="var(--arrow)", strokeWidth=1.6, aria=False).encode(
        x="x0:Q", y="y0:Q", x2="a:Q", y2="b:Q"
    )
    head = arrows.mark_point(shape="triangle-up", filled=True, size=62, color="var(--arrow)", opacity=1, aria=False)
    head = head.encode(x="a:Q", y="b:Q", angle=alt.Angle("angle:Q", scale=None))
    words = f"Biplot: {noun} scores of all rows as points, and the largest loadings as arrows."
    names = [layer for side in (-1, 1) for layer in _arrow_names(alt, side)]
    return alt.layer(ellipse, rows, chosen, shaft, head, *names).properties(height=STYLE.plane, description=words)


def _arrow_names(alt: Any, side: int) -> list[Any]:
    """Names at the tips of the arrows to one side, over a halo that keeps points away from the letters."""
    arrows = alt.Chart(alt.NamedData("arrows")).transform_filter(f"datum.side === {side}")
    style = {"align": "left" if side > 0 else "right", "dx": 5 * side, "fontSize": 12, "fontWeight": 600}
    halo = arrows.mark_text(stroke="var(--card)", strokeWidth=4, strokeJoin="round", opacity=0.85, aria=False, **style)
    text = arrows.mark_text(color="var(--arrow)", **style)
    tip = [alt.Tooltip("name:N", title="column"), alt.Tooltip("loadings:N", title="loadings")]
    place = {"x": "nameX:Q", "y": "nameY:Q", "text": "label:N"}
    return [halo.encode(**place), text.encode(**place, tooltip=tip)]


def _scores(alt: Any, count: int, noun: str) -> Any:
    """Component scores of the chosen row with their intervals, before those of most other rows."""
    y = alt.Y("name:N", title=None, sort=alt.EncodingSortField("k", op="min"), axis=alt.Axis(ticks=False, domain=False))
    base = alt.Chart(alt.NamedData("scores")).encode(y=y)
    title = f"{noun} score, in standard deviations"
    most = base.mark_bar(color="var(--faint)", opacity=0.45, height=14, aria=False)
    most = most.encode(x=alt.X("rowsLow:Q", title=title, axis=alt.Axis(tickCount=7)), x2="rowsHigh:Q")
    interval = base.mark_rule(color="var(--chosen)", strokeWidth=2.2).encode(x="low:Q", x2="high:Q")
    point = base.mark_point(filled=True, size=70, color="var(--chosen)", opacity=1).encode(
        x="value:Q",
        tooltip=[
            alt.Tooltip("name:N", title=noun),
            alt.Tooltip("said:N", title="score"),
            alt.Tooltip("range:N", title="95% interval"),
        ],
    )
    words = f"{noun.capitalize()} scores of the chosen row with 95% intervals"
    words += "; the bars behind them hold nine out of ten rows."
    return alt.layer(most, interval, point).properties(height=30 * count, description=words)


def _distances(alt: Any, n_rows: int, noun: str) -> Any:
    # Squared distances spread over powers of ten, and some are zero.
    root = alt.Scale(type="symlog", constant=1, nice=False, zero=False, padding=8)
    axis = alt.Axis(
        labelExpr="format(datum.value, datum.value < 1000 ? '.3~g' : '.3~s')", labelOverlap="greedy", labelSeparation=6
    )
    x = alt.X("inside:Q", scale=root, title=f"distance along the {noun}s (T\u00b2)", axis=axis)
    y = alt.Y("outside:Q", scale=root, title=f"distance away from the {noun}s (residual)", axis=axis)
    rows, chosen = row_points(alt, x, y, n_rows)
    words = f"Squared distance of rows from the model, along the {noun}s and away from them. The chosen row has a ring."
    return alt.layer(rows, chosen).properties(height=STYLE.height, description=words)


# Cells of one row


def _cells(alt: Any, along: dict[str, Any], value: str, mark: Any, size: float = 44) -> Any:
    """Intervals, reconstruction and cells of a row; ``value`` is the channel of the numbers."""
    measure = {"x": alt.X, "y": alt.Y}[value]
    kinds = {"domain": ["observed", "imputed"]}
    base = alt.Chart(alt.NamedData("cells")).encode(**along)
    free = alt.Scale(zero=False)
    ends = {value: measure("low:Q", scale=free, title="value", axis=alt.Axis(tickCount=7)), f"{value}2": "high:Q"}
    rule = base.mark_rule(color="var(--odd)", strokeWidth=2.5, opacity=0.6).encode(**ends)
    fitted = mark(base).encode(**{value: measure("fitted:Q", scale=free)})
    points = base.mark_point(opacity=1, strokeWidth=1.6, size=size, aria=False).encode(
        **{value: measure("value:Q", scale=free)},
        color=alt.Color("kind:N", legend=None, scale=alt.Scale(**kinds, range=["var(--row)", "var(--odd)"])),
        fill=alt.Fill("kind:N", legend=None, scale=alt.Scale(**kinds, range=["var(--row)", "var(--card)"])),
        shape=alt.Shape("kind:N", legend=None, scale=alt.Scale(**kinds, range=["circle", "diamond"])),
        tooltip=[
            alt.Tooltip("name:N", title="column"),
            alt.Tooltip("said:N", title="value"),
            alt.Tooltip("kind:N", title="cell"),
            alt.Tooltip("z:N", title="z-score"),
        ],
    )
    words = "Cells of the chosen row, observed or imputed with a 95% interval, and its reconstruction."
    return alt.layer(rule, fitted, points).properties(description=words)


def _cells_down(alt: Any, d: int) -> Any:
    axis = alt.Axis(labelExpr="names[datum.value]", labelLimit=STYLE.widest_name, grid=True, ticks=False, domain=False)
    y = alt.Y("at:O", title=None, axis=axis)
    chart = _cells(
        alt, {"y": y}, "x", lambda base: base.mark_tick(color="var(--muted)", thickness=2, size=12, aria=False)
    )
    return chart.properties(height=max(STYLE.line * d, min(STYLE.height, STYLE.wide_line * d)))


def _cells_across(alt: Any, d: int) -> Any:
    axis = alt.Axis(labelExpr="names[datum.value]", labelLimit=90, tickMinStep=1, grid=False, labelOverlap=True)
    x = alt.X("at:Q", title=None, axis=axis, scale=alt.Scale(domain=[0, d - 1], nice=False, padding=8))
    line = {"color": "var(--muted)", "strokeWidth": 1.5 if d <= STYLE.crowd else 0.6, "aria": False}
    size = 44 if d <= STYLE.crowd else 14
    chart = _cells(alt, {"x": x}, "y", lambda base: base.mark_line(**line), size)
    return chart.properties(height=STYLE.height)


def _causes(alt: Any, count: int) -> Any:
    kinds = {"domain": ["more", "less"], "range": ["var(--odd)", "var(--row)"]}
    axis = alt.Axis(labelExpr="names[datum.value]", labelLimit=STYLE.widest_name, ticks=False, domain=False)
    base = alt.Chart(alt.NamedData("causes")).encode(
        y=alt.Y("j:O", title=None, sort=alt.EncodingSortField("k", op="min"), axis=axis),
        tooltip=[
            alt.Tooltip("name:N", title="column"),
            alt.Tooltip("share:Q", title="contribution", format=".3~g"),
            alt.Tooltip("z:N", title="z-score"),
        ],
    )
    bars = base.mark_bar(size=14, aria=False).encode(
        x=alt.X("share:Q", title="contribution to the squared distance", axis=alt.Axis(tickCount=5)),
        color=alt.Color("kind:N", legend=None, scale=alt.Scale(**kinds)),
    )
    text = base.mark_text(align="left", dx=5, color="var(--muted)").encode(x="end:Q", text="z:N")
    words = "Columns with the largest contributions to the distance of the chosen row, each with its z-score."
    return alt.layer(bars, text).properties(height=STYLE.wide_line * min(count, STYLE.most_causes), description=words)


def dressed(chart: Any) -> Any:
    """A chart with text and lines in the colours of the page."""
    words = {"labelColor": "var(--muted)", "titleColor": "var(--muted)", "labelFontSize": 12, "titleFontSize": 12}
    lines = {"gridColor": "var(--line)", "domainColor": "var(--line)", "tickColor": "var(--line)"}
    return (
        chart.properties(width="container", background="transparent")
        .configure(font="system-ui, sans-serif", padding={"left": 2, "right": 12, "top": 6, "bottom": 2})
        .configure_axis(titleFontWeight="normal", **words, **lines)
        .configure_legend(labelColor="var(--muted)", labelFontSize=12, symbolStrokeWidth=0, orient="top")
        .configure_view(stroke=None)
        .configure_text(fontSize=12)
    )
