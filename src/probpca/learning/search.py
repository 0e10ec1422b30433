"""How many components, where cells are missing: fits with ever more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probpca.inference.coding import explained_variance_ratio
from probpca.learning.closed_form import unknown_components
from probpca.learning.selection import Curve, check_count, n_parameters, need_complete_rows
from probpca.learning.spectral import spectral_start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.learning.closed_form import Components
    from probpca.learning.loop import Iterated
    from probpca.learning.problem import Problem
    from probpca.models import LinearGaussian

LARGEST_BY_BIC = 20
PATIENCE = 2
"""Numbers of components in a row that may be worse than the best one before the search ends."""


class Fitted(NamedTuple):
    """A fit, and how its number of components was chosen."""

    ended: Iterated[LinearGaussian]
    rule: str
    curve: Curve | None = None


def search(problem: Problem, n_components: Components) -> Fitted:
    """Fit with the given number of components, or with the one that a criterion prefers."""
    d, rows = problem.rows.n_features, int(problem.columns.count)
    match n_components.item() if isinstance(n_components, np.generic) else n_components:
        case None | "bic":
            return by_bic(problem, max(min(d - 1, rows - 2, LARGEST_BY_BIC), 1))
        case int(q) if not isinstance(q, bool):
            return Fitted(problem.best(first_model(problem, q)), "as given")
        case float(share) if 0 < share < 1:
            return _by_share(problem, share, max(min(d - 1, rows - 2), 1))
        case "evidence" | "parallel" | "gavish_donoho" as name:
            raise need_complete_rows(name)
    raise unknown_components(n_components)


def first_model(problem: Problem, q: int) -> LinearGaussian:
    """Where a fit with q components begins."""
    check_count(q, problem.rows.n_features)
    return spectral_start(problem.rows, problem.columns, q, problem.rng).model(q)


def by_bic(problem: Problem, most: int) -> Fitted:
    """Ever more components, each fit started from the one before, until BIC has fallen twice."""
    d = problem.rows.n_features
    # A row with half of its cells observed counts for half a row.
    penalty = 0.5 * np.log(max(problem.columns.observed.sum() / d, 2.0))
    best, scores = None, []
    for ended in _path(problem, most):
        q = ended.state.n_components
        collapsed = float(ended.state.noise_variance) <= 2 * problem.floor
        if collapsed and best is not None:
            break
        scores.append(ended.trace[-1] - penalty * n_parameters(d, q))
        if best is None or scores[-1] > max(scores[:-1]):
            best = ended
        if collapsed or q - best.state.n_components == PATIENCE:
            break
    curve = Curve(np.arange(1, len(scores) + 1), np.array(scores))
    return Fitted(best, "BIC", curve)  # type: ignore[arg-type]


def _by_share(problem: Problem, share: float, most: int) -> Fitted:
    """Ever more components until they hold the share of the model's variance."""
    for ended in _path(problem, most):
        if explained_variance_ratio(ended.state).sum() >= share:
            break
    return Fitted(ended, f"{share:.4g} of the variance")


def _path(problem: Problem, most: int) -> Iterator[Iterated[LinearGaussian]]:
    """Fits with 1, 2, ... components."""
    start = spectral_start(problem.rows, problem.columns, min(most, LARGEST_BY_BIC), problem.rng)
    ended = problem.best(start.model(1))
    yield ended
    for q in range(2, most + 1):
        if q > start.values.size:
            start = spectral_start(problem.rows, problem.columns, min(2 * q, most), problem.rng)
        ended = problem.best(start.grown(ended.state))
        yield ended
