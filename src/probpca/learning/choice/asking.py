"""From the words of a user to the criteria, and back."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.errors import DataError, ShapeError
from probpca.learning.choice.judging import select
from probpca.learning.missing import repeatable
from probpca.learning.progress import StageBar
from probpca.learning.selection import RULES
from probpca.learning.units import units
from probpca.sources import open_source, scaled

if TYPE_CHECKING:
    from probpca.learning.choice.selection import Selection
    from probpca.sources import Source


def open_rows(X: Any, sample_weight: Any, missing: str, n_jobs: int | None) -> Source:
    """Make a source of whatever holds rows."""
    if missing not in ("nan", "unstored"):
        msg = f"missing must be 'nan' or 'unstored'; got {missing!r}."
        raise DataError(msg)
    return open_source(X, weight=sample_weight, unstored_missing=missing == "unstored", n_jobs=n_jobs)


def ask(
    source: Source, criteria: Any, rng: np.random.Generator, *, largest: Any, standardize: bool, verbose: Any
) -> Selection:
    """Ask the criteria of these names, one name, or with None all of them."""
    names = _names(criteria)
    _check_largest(largest)
    if standardize:
        source = repeatable(source)
        source = scaled(source, 1 / units(source)[0])
    with StageBar(enabled=bool(verbose)) as bar:
        return select(source, names, rng, largest=largest, tell=bar)


def _names(criteria: Any) -> list[str] | None:
    if criteria is None:
        return None
    names = [criteria] if isinstance(criteria, str) else list(criteria)
    unknown = [name for name in names if name not in RULES]
    if unknown or not names:
        what = repr(unknown[0]) if unknown else "none of them"
        msg = f"criteria must be among {', '.join(map(repr, RULES))}; got {what}."
        raise DataError(msg)
    return names


def _check_largest(largest: Any) -> None:
    number = isinstance(largest, Integral) and not isinstance(largest, bool | np.bool_)
    if largest is not None and not (number and largest >= 1):
        msg = f"max_components must be a whole number, 1 or more, or None; got {largest!r}."
        raise ShapeError(msg)
