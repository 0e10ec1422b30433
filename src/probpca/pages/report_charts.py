"""The charts of a report in Vega-Lite; data sets are referred to by name.

Colours are variables of the style sheet, so that one chart serves light, dark and print. Fields have their own names:
names of columns could have a meaning in Vega, so only the scripts of the page know them, as ``names``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Array


@dataclass(frozen=True)
class ChartStyle:
    """Sizes of the charts, in pixels, and the numbers from which they are drawn in another way."""

    most_lines: int = 40  # features with a line each; more stand side by side
    crowd: int = 120  # features side by side from which on they are drawn smaller
    many_rows: int = 1_000  # rows from which on usual ones are drawn paler
    line: int = 18  # height of a line
    height: int = 340  # of the other charts
    widest_name: int = 170  # of a feature beside a chart; longer names are cut
    most_ticks: int = 12  # numbered components


STYLE = ChartStyle()


def altair() -> Any:
    """Import altair, which only a report needs."""
    try:
        import altair as alt  # noqa: PLC0415
        import vl_convert  # noqa: F401, PLC0415
    except ImportError as error:
        msg = "the report is drawn by altair and vl-convert, which are not installed."
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


def charts(variance: Array, ratio: Array, noise: Any, d: int, n_rows: int) -> dict[str, Any]:
    """All charts by name, for ``n_rows`` rows of ``d`` columns."""
    alt = altair()
    drawn = {
        "scree": _scree(alt, variance, ratio, np.atleast_1d(noise)),
        "latent": _latent(alt, n_rows),
        "distances": _distances(alt, n_rows),
        "cells": _cells_down(alt, d) if d <= STYLE.most_lines else _cells_across(alt, d),
        "causes": _causes(alt),
    }
    return {name: _dressed(chart).to_dict() for name, chart in drawn.items()}


def _scree(alt: Any, variance: Array, ratio: Array, noise: Array) -> Any:
    together = np.cumsum(ratio)
    rows = [
        {"k": k + 1, "variance": float(v), "share": float(ratio[k]), "together": float(together[k])}
        for k, v in enumerate(variance)
    ]
    scale = alt.Scale(type="log", nice=False, padding=12)
    ticks = alt.Axis(format="~g", tickCount=5, grid=False, domain=True)
    whole = list(range(1, len(rows) + 1, 1 + len(rows) // STYLE.most_ticks))
    x = alt.X(
        "k:Q",
        title="component",
        axis=alt.Axis(values=whole, format="d", grid=False),
        scale=alt.Scale(padding=14, nice=False),
    )
    y = alt.Y("variance:Q", title="variance along it", scale=scale, axis=ticks)
    tooltip = [
        alt.Tooltip("k:Q", title="component"),
        alt.Tooltip("variance:Q", title="variance", format=".4~g"),
        alt.Tooltip("share:Q", title="share", format=".1%"),
        alt.Tooltip("together:Q", title="up to here", format=".1%"),
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y, tooltip=tooltip)
    line = base.mark_line(
        color="var(--row)", strokeWidth=1.5, point={"filled": True, "size": 60, "color": "var(--row)"}
    )
    floor = _noise_floor(alt, noise, len(rows), scale)
    return alt.layer(*floor, line).properties(height=240, description=_scree_words(rows, noise))


def _noise_floor(alt: Any, noise: Array, q: int, scale: Any) -> list[Any]:
    """One line of the noise for all components, or one for each."""
    low, high = np.arange(1, q + 1) - 0.4, np.arange(1, q + 1) + 0.4
    if noise.size == 1:
        low, high = low[:1], high[-1:]
    lines = [
        {"from": a, "to": b, "noise": v} for a, b, v in zip(low.tolist(), high.tolist(), noise.tolist(), strict=True)
    ]
    x, y = alt.X("from:Q", title="component"), alt.Y("noise:Q", scale=scale, title="variance along it")
    rule = alt.Chart(alt.InlineData(values=lines)).mark_rule(color="var(--muted)", strokeDash=[5, 4])
    word = alt.Chart(alt.InlineData(values=lines[-1:])).mark_text(
        text="noise", align="right", dx=-4, dy=9, color="var(--muted)"
    )
    rule = rule.encode(x=x, x2="to:Q", y=y) if noise.size > 1 else rule.encode(y=y)
    return [rule, word.encode(x=alt.value("width"), y=y)]


def _scree_words(rows: list[dict[str, Any]], noise: Array) -> str:
    said = "; ".join(f"component {row['k']}: {row['variance']:.3g}" for row in rows[:8])
    return f"Variance along each component: {said}. Noise: {noise.max():.3g}."


def _points(alt: Any, x: Any, y: Any, n_rows: int) -> Any:
    """All rows as points, and a ring around the chosen one."""
    kinds = {"domain": ["usual", "unusual"]}
    rows = alt.Chart(alt.NamedData("points")).mark_point(filled=True, cursor="pointer", aria=False)
    rows = rows.encode(
        x=x,
        y=y,
        color=alt.Color("kind:N", legend=None, scale=alt.Scale(**kinds, range=["var(--row)", "var(--odd)"])),
        shape=alt.Shape("kind:N", legend=None, scale=alt.Scale(**kinds, range=["circle", "triangle-up"])),
        size=alt.Size("kind:O", legend=None, scale=alt.Scale(**kinds, range=[34, 60])),
        opacity=alt.condition(
            "datum.kind === 'unusual'", alt.value(0.9), alt.value(0.7 if n_rows <= STYLE.many_rows else 0.35)
        ),
        tooltip=[alt.Tooltip("name:N", title="row"), alt.Tooltip("said:N", title="p")],
    )
    chosen = alt.Chart(alt.NamedData("chosen")).mark_point(filled=False, size=200, strokeWidth=2, color="var(--chosen)")
    return rows, chosen.encode(x=x, y=y)


def _latent(alt: Any, n_rows: int) -> Any:
    free = alt.Scale(zero=False, nice=True)
    x = alt.X("a:Q", scale=free, axis=alt.Axis(tickCount=7), title="component 1")
    y = alt.Y("b:Q", scale=free, title="component 2")
    rows, chosen = _points(alt, x, y, n_rows)
    ellipse = alt.Chart(alt.NamedData("ellipse")).mark_line(
        color="var(--chosen)", strokeWidth=1.8, fill="var(--chosen)", fillOpacity=0.12
    )
    ellipse = ellipse.encode(x=x, y=y, order="k:Q")
    words = "Rows in the space of two components. The chosen row has a ring and the ellipse that holds it with 95 %."
    return alt.layer(rows, ellipse, chosen).properties(height=STYLE.height, description=words)


def _distances(alt: Any, n_rows: int) -> Any:
    # Squared distances spread over powers of ten, and some are zero.
    root = alt.Scale(type="symlog", constant=1, nice=False, zero=False, padding=8)
    axis = alt.Axis(
        labelExpr="format(datum.value, datum.value < 1000 ? '.3~g' : '.3~s')", labelOverlap="greedy", labelSeparation=6
    )
    x = alt.X("inside:Q", scale=root, title="within the components (T\u00b2)", axis=axis)
    y = alt.Y("outside:Q", scale=root, title="off them (residual)", axis=axis)
    rows, chosen = _points(alt, x, y, n_rows)
    words = "Squared distance of rows from the mean, within the components and off them. The chosen row has a ring."
    return alt.layer(rows, chosen).properties(height=STYLE.height + 80, description=words)


def _cells(alt: Any, along: dict[str, Any], value: str, mark: Any, size: float = 44) -> Any:
    """Intervals, fitted values and cells of a row; ``value`` is the channel of the numbers."""
    measure = {"x": alt.X, "y": alt.Y}[value]
    kinds = {"domain": ["observed", "filled in"]}
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
            alt.Tooltip("z:N", title="z-score of the cell"),
        ],
    )
    words = "Cells of the chosen row: observed, or filled in with a 95 % interval, and what the model makes of them."
    return alt.layer(rule, fitted, points).properties(description=words)


def _cells_down(alt: Any, d: int) -> Any:
    axis = alt.Axis(labelExpr="names[datum.value]", labelLimit=STYLE.widest_name, grid=True, ticks=False, domain=False)
    y = alt.Y("j:O", title=None, axis=axis)
    chart = _cells(
        alt, {"y": y}, "x", lambda base: base.mark_tick(color="var(--muted)", thickness=2, size=12, aria=False)
    )
    return chart.properties(height=max(STYLE.line * d, STYLE.height))


def _cells_across(alt: Any, d: int) -> Any:
    axis = alt.Axis(labelExpr="names[datum.value]", labelLimit=90, tickMinStep=1, grid=False, labelOverlap=True)
    x = alt.X("j:Q", title=None, axis=axis, scale=alt.Scale(domain=[0, d - 1], nice=False, padding=8))
    line = {"color": "var(--muted)", "strokeWidth": 1.5 if d <= STYLE.crowd else 0.6, "aria": False}
    size = 44 if d <= STYLE.crowd else 14
    chart = _cells(alt, {"x": x}, "y", lambda base: base.mark_line(**line), size)
    return chart.properties(height=STYLE.height)


def _causes(alt: Any) -> Any:
    kinds = {"domain": ["more", "less"], "range": ["var(--odd)", "var(--row)"]}
    axis = alt.Axis(labelExpr="names[datum.value]", labelLimit=STYLE.widest_name, ticks=False, domain=False)
    base = alt.Chart(alt.NamedData("causes")).encode(
        y=alt.Y("j:O", title=None, sort=alt.EncodingSortField("k", op="min"), axis=axis),
        tooltip=[
            alt.Tooltip("name:N", title="column"),
            alt.Tooltip("share:Q", title="share in the distance", format=".3~g"),
            alt.Tooltip("z:N", title="z-score of the cell"),
        ],
    )
    bars = base.mark_bar(size=14, aria=False).encode(
        x=alt.X("share:Q", title="share in the squared distance", axis=alt.Axis(tickCount=5)),
        color=alt.Color("kind:N", legend=None, scale=alt.Scale(**kinds)),
    )
    text = base.mark_text(align="left", dx=5, color="var(--muted)").encode(x="end:Q", text="z:N")
    words = "Cells with the largest shares in the distance of the chosen row, each with its z-score."
    return alt.layer(bars, text).properties(height=STYLE.height, description=words)


def _dressed(chart: Any) -> Any:
    """A chart with text and lines in the colours of the page."""
    words = {"labelColor": "var(--muted)", "titleColor": "var(--muted)", "labelFontSize": 12, "titleFontSize": 12}
    lines = {"gridColor": "var(--line)", "domainColor": "var(--line)", "tickColor": "var(--line)"}
    return (
        chart.properties(width="container", background="transparent")
        .configure(font="system-ui, sans-serif", padding={"left": 2, "right": 12, "top": 6, "bottom": 2})
        .configure_axis(titleFontWeight="normal", **words, **lines)
        .configure_view(stroke=None)
        .configure_text(fontSize=12)
    )
