"""Many complete rows, as few that say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probpca.learning.checks import require_usable
from probpca.sources import open_source
from probpca.statistics import Root

if TYPE_CHECKING:
    from probpca.sources import Source

LARGEST_ROOT = 2000
"""Features up to which rows are boiled down to a square root of their scatter before iterating."""


def boiled_down(source: Source) -> Source:
    """Complete rows are worth as many as there are features to any of these solvers: one pass."""
    many = source.n_rows is None or source.n_rows > 2 * source.n_features
    if not many or source.n_features > LARGEST_ROOT:
        return source
    root = source.fold(Root.of)
    require_usable(source, root.count, root.mean, root.energy)
    rows, weight = root.as_rows()
    return open_source(rows, weight=weight, n_jobs=source.n_jobs)
