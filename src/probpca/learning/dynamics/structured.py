"""Fit of systems in which each feature has its own trend and season."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.available_memory import require_memory
from probpca.inference.time_series.kalman import series_log_likelihood
from probpca.learning.dynamics.fit import SeriesResult, require_series
from probpca.learning.dynamics.own import choose_own
from probpca.learning.dynamics.selection import Chosen
from probpca.learning.result import Status
from probpca.models.components import assemble
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probpca.blocks import Sequences


def fit_structured(
    rows: Sequences, trend: str | Sequence[str] = "auto", seasonal: str | None = "auto", period: int = 1
) -> Chosen:
    """Fit a system without factors: trend and season of each feature, chosen by BIC where they are left open.

    Parameters
    ----------
    rows : Sequences
        One or several time series, as made by ``probpca.blocks.as_sequences``.
    trend : str or sequence of str, default="auto"
        Kind of the trend of all features or of each: "auto", "constant", "ar", "level", "drift", "damped", "slope".
    seasonal : "auto", "fixed", "stochastic" or None, default="auto"
        Kind of the season.
    period : int, default=1
        Number of steps of a season; 1 if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.blocks import as_sequences
    >>> from probpca.learning.dynamics import fit_structured
    >>> y = np.cumsum(np.random.default_rng(0).standard_normal((200, 1)), axis=0)
    >>> chosen = fit_structured(as_sequences(y))
    >>> chosen.result.model.layout.roles, chosen.rule
    (('level',), 'trend by BIC among 220 candidates')
    """
    require_series(rows)
    with one_blas_thread():
        own = choose_own(rows, trend, seasonal, period)
        states = rows.n_features * (2 + 2 * own.period)
        require_memory(f"about {states:,} states of {rows.n_features:,} features", 8 * 8 * states * states, "use fewer")
        model = assemble(own.components, own.offset, own.period)
        value = series_log_likelihood(model, rows)
    empty, observed = np.flatnonzero(rows.counts == 0), int(rows.counts.sum())
    result = SeriesResult(model, Status.GRID, value, (value, value), 1, observed, empty)
    what = [
        name for name, given in (("trend", trend), ("season", seasonal if own.period > 1 else None)) if given == "auto"
    ]
    rule = f"{' and '.join(what)} by BIC among {own.n_tried:,} candidates" if what else "as given"
    return Chosen(result, rule, {0: float(own.value.sum())})
