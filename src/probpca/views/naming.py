"""What rows and columns are called: by their names, and rows without one by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probpca.errors import ShapeError

if TYPE_CHECKING:
    from probpca.typing import Index

MISSING = {"", "nan", "nat", "none", "<na>"}
"""How values that are not text read if there is none."""
WHOLE = 2**53
"""Scripts know smaller whole numbers only."""


def text_of(value: Any) -> str:
    """A name as text; nothing if it is missing or blank."""
    if isinstance(value, tuple):  # of an index with several levels
        return ", ".join(map(str, value))
    text = str(value)
    blank = not text.strip() or (not isinstance(value, str) and text.lower() in MISSING)
    return "" if blank else text


def labels_of(X: Any, given: Any, n: int, what: str = "labels") -> list[str | None]:
    """Names of rows: those given, or those of the index of pandas; None for rows without one."""
    names = given
    if given is None:
        index = _index_of(X)
        if index is None or _counted(index) is not None:
            return [None] * n
        names = index.astype(str) if getattr(index.dtype, "kind", "") == "M" else index  # dates without hours
    found = [text_of(name) or None for name in names]
    if len(found) != n:
        msg = f"{what} must be {n} names; got {len(found)}."
        raise ShapeError(msg)
    return found


def numbers_of(X: Any, given: Any, n: int) -> Index:
    """Numbers by which people know rows: those given, those of the index of pandas, or the places from 0: (n,)."""
    if given is None:
        index = _index_of(X)
        known = None if index is None else _counted(index)
        return np.arange(n) if known is None else known
    numbers = np.asarray(given)
    if numbers.shape != (n,) or numbers.dtype.kind not in "iu" or np.unique(numbers).size != n:
        msg = f"row_numbers must be {n} whole numbers, each of them once; got {given!r}."
        raise ShapeError(msg)
    return numbers.astype(np.int64)


def row_names(X: Any, given: Any, n: int) -> list[str]:
    """Names of rows, or their numbers where they have none."""
    names, numbers = labels_of(X, given, n, "names"), numbers_of(X, None, n)
    return [name or str(number) for name, number in zip(names, numbers, strict=True)]


def _index_of(X: Any) -> Any:
    """The index of a pandas dataframe, if this is one."""
    index = getattr(X, "index", None)
    return None if index is None or callable(index) else index


def _counted(index: Any) -> Index | None:
    """An index of whole numbers that differ; other ones are names."""
    if getattr(index.dtype, "kind", "") not in ("i", "u") or not index.is_unique or index.hasnans:
        return None
    numbers = np.asarray(index, dtype=np.float64)
    return None if (np.abs(numbers) >= WHOLE).any() else numbers.astype(np.int64)
