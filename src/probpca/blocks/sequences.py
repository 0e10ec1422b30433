"""One or several time series, stored one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from probpca.blocks.block import as_block, dense_values, unmasked
from probpca.blocks.cells import FORM_SETTINGS, Group, MaskedCells, Observed, Patterns
from probpca.cached_property import cached_property
from probpca.errors import DataError, ShapeError

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.blocks.block import Block
    from probpca.blocks.cells import Cells
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, eq=False)
class Sequences:
    """One or several sequences of rows in the order of time, stored one after the other; NaN is a missing cell."""

    values: Array  # rows of all sequences: (n, d)
    lengths: Index  # number of steps of each sequence: (k,)
    inputs: Array | None = None  # u_t, which shift the state at step t + 1: (n, u)

    @property
    def n_steps(self) -> int:
        """Total number of rows of all sequences."""
        return len(self.values)

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.values.shape[1]

    @cached_property
    def starts(self) -> Index:
        """Position of the first step of each sequence: (k,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.intp)

    @cached_property
    def linked(self) -> npt.NDArray[np.bool_]:
        """Whether row t + 1 belongs to the same sequence as row t: (n - 1,)."""
        linked = np.ones(max(self.n_steps - 1, 0), dtype=bool)
        linked[self.starts[1:] - 1] = False
        return linked

    @cached_property
    def missing(self) -> npt.NDArray[np.bool_] | None:
        """Whether each cell is missing: (n, d); None if no cell is."""
        return None if self._prepared.absent is None else self._prepared.absent.T

    @property
    def counts(self) -> Array:
        """Number of observed cells of each feature: (d,)."""
        return self._prepared.counts

    @cached_property
    def squares(self) -> Array:
        """Sum of squared deviations of each feature from its centre: (d,)."""
        cells = (group.cells.values.entries for group in self.observed.groups)  # type: ignore[attr-defined]
        return np.sum([np.einsum("db,db->d", values, values) for values in cells], axis=0)

    @property
    def centre(self) -> Array:
        """Mean of the observed cells of each feature, 0 for a feature without any: (d,)."""
        return self._prepared.observed.centre

    @property
    def observed(self) -> Observed:
        """Rows minus their centre, prepared for matrix products; empty rows are kept."""
        return self._prepared.observed

    @cached_property
    def _prepared(self) -> _Prepared:
        return _prepare(self.values)

    def split(self, rows: Any) -> list[Any]:
        """Split an array with one entry per step into one array per sequence."""
        return np.split(rows, self.starts[1:])

    def pieces(self, steps: int) -> list[Sequences]:
        """Pieces of about ``steps`` steps, each made of whole sequences."""
        first = np.concatenate([[True], np.diff(self.starts // steps) > 0])
        bounds = [*np.flatnonzero(first), len(self.lengths)]
        return [self._some(a, b) for a, b in pairwise(bounds)]

    def _some(self, first: int, last: int) -> Sequences:
        lengths = self.lengths[first:last]
        start = self.starts[first]
        return self.steps(slice(start, start + lengths.sum()), lengths)

    def steps(self, rows: slice, lengths: Index) -> Sequences:
        """Selected rows, as sequences of the given lengths."""
        inputs = None if self.inputs is None else self.inputs[rows]
        return replace(self, values=self.values[rows], lengths=lengths, inputs=inputs)


class _Prepared(NamedTuple):
    """Rows prepared for matrix products, and the missing cells found on the way."""

    observed: Observed
    counts: Array  # observed cells of each feature: (d,)
    absent: npt.NDArray[np.bool_] | None  # whether each cell is missing: (d, n); None if no cell is


def _prepare(values: Array) -> _Prepared:
    """Prepare rows for matrix products in the order of time, without a search for patterns."""
    n, d = values.shape
    turned = np.array(values.T, order="C")
    absent = np.isnan(turned)
    counts = n - np.count_nonzero(absent, axis=1).astype(np.float64)
    some_missing = bool(counts.sum() < n * d)
    if some_missing:
        turned = np.where(absent, 0.0, turned)
    centre = turned.sum(axis=1) / np.maximum(counts, 1.0)
    turned -= centre[:, None]
    if some_missing:
        turned *= ~absent
    step, groups = max(FORM_SETTINGS.group_cells // max(d, 1), FORM_SETTINGS.group_rows[0]), []
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        some = slice(start, start + rows.size)
        cells: Cells
        if some_missing:
            present = (~absent[:, some]).view(np.uint8)
            cells, seen = MaskedCells.of(present, turned[:, some]), present.sum(axis=0, dtype=np.float64)
        else:
            cells = Patterns.of(np.ones((d, 1)), turned[:, some], np.zeros(rows.size, np.intp))
            seen = np.full(rows.size, float(d))
        groups.append(Group(cells, rows, np.ones(rows.size), seen, 0.0))
    return _Prepared(Observed(centre, tuple(groups), n), counts, absent if some_missing else None)


def as_sequences(y: Any, n_features: int | None = None, inputs: Any = None) -> Sequences:
    """Make ``Sequences`` of one matrix (n, d), or of a list of matrices with the same number of columns.

    ``inputs`` are shaped alike, with u columns. The number of features is checked if ``n_features`` is given.
    """
    if isinstance(y, Sequences):
        if inputs is not None:
            msg = "inputs must be None if y is a Sequences object, which holds its own inputs.\nHint: omit inputs."
            raise ShapeError(msg)
        return y
    several = is_several(y)
    given = list(y) if several else [y]
    rows = [_one(sequence, n_features, k if several else None) for k, sequence in enumerate(given)]
    d = rows[0].shape[1]
    for k, sequence in enumerate(rows):
        if sequence.shape[1] != d:
            msg = f"all sequences must have the {d} columns of the first; got {sequence.shape[1]} in sequence {k}."
            raise ShapeError(msg)
    lengths = np.array([len(sequence) for sequence in rows], dtype=np.intp)
    joined = None if inputs is None else _joined_inputs(inputs, lengths, several=several)
    return Sequences(rows[0] if len(rows) == 1 else np.vstack(rows), lengths, joined)


def is_several(y: Any) -> bool:
    """Whether ``y`` is a list of matrices or a three-dimensional array, not a single matrix."""
    if isinstance(y, np.ndarray):
        return y.ndim == 3 and len(y) > 0
    if not isinstance(y, list | tuple) or len(y) == 0:
        return False
    first = y[0]
    nested = isinstance(first, list | tuple) and len(first) > 0 and isinstance(first[0], list | tuple | np.ndarray)
    return nested or getattr(first, "ndim", None) == 2 or hasattr(first, "columns")


def _one(sequence: Any, n_features: int | None, k: int | None) -> Array:
    name = "the sequence" if k is None else f"sequence {k}"
    block = as_block(sequence, n_features)
    values = np.asarray(block.values) if _is_plain(block) else dense_values(block)
    if values.size == 0:
        msg = f"{name} must have at least one time step; got none."
        raise ShapeError(msg)
    if np.isinf(values).any():
        msg = f"{name} must not contain infinite values.\nHint: use NaN for missing values."
        raise DataError(msg)
    return np.ascontiguousarray(values, dtype=np.float64)


def _is_plain(block: Block) -> bool:
    return not block.is_sparse and block.precision is None


def _joined_inputs(inputs: Any, lengths: Index, *, several: bool) -> Array:
    try:
        given = [np.asarray(unmasked(u), dtype=np.float64) for u in (list(inputs) if several else [inputs])]
    except (TypeError, ValueError) as error:
        msg = f"inputs must be numeric, one matrix per sequence; {error}."
        raise DataError(msg) from error
    if len(given) != len(lengths):
        msg = f"inputs must have one matrix for each of the {len(lengths)} sequences; got {len(given)}."
        raise ShapeError(msg)
    for k, (u, length) in enumerate(zip(given, lengths, strict=True)):
        if u.ndim != 2 or len(u) != length:
            msg = f"inputs of sequence {k} must be a matrix with {length} rows, one per step; got shape {u.shape}."
            raise ShapeError(msg)
        if not np.isfinite(u).all():
            msg = f"inputs of sequence {k} must be finite.\nHint: only observations may have missing values."
            raise DataError(msg)
    if len({u.shape[1] for u in given}) > 1:
        msg = (
            f"inputs of all sequences must have the same number of columns; got {sorted({u.shape[1] for u in given})}."
        )
        raise ShapeError(msg)
    return np.vstack(given)
