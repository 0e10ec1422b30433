"""Time series, one or many, laid end to end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.errors import DataError, ShapeError
from probpca.rows.block import Block, as_block
from probpca.rows.observe import observe

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.rows.observe import Observed
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, eq=False)
class Sequences:
    """Rows in the order of time, sequence after sequence; NaN is a cell that was not observed."""

    values: Array  # (n, d)
    lengths: Index  # steps of each sequence: (k,)
    inputs: Array | None = None  # u_t, which enter what comes after step t: (n, u)

    @property
    def n_steps(self) -> int:
        """Number of rows of all sequences together."""
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
        """Is row t followed by another of the same sequence? (n - 1,)."""
        linked = np.ones(max(self.n_steps - 1, 0), dtype=bool)
        linked[self.starts[1:] - 1] = False
        return linked

    @cached_property
    def centre(self) -> Array:
        """Mean of the observed cells of each feature, 0 if there are none: (d,)."""
        seen = ~np.isnan(self.values)
        return np.where(seen, self.values, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)

    @cached_property
    def observed(self) -> Observed:
        """The rows less their centre, prepared for products; empty rows are kept."""
        return observe(Block(self.values), self.centre, keep_empty=True)

    def split(self, rows: Any) -> list[Any]:
        """Cut something with an entry per step back into sequences."""
        return np.split(rows, self.starts[1:])

    def pieces(self, steps: int) -> list[Sequences]:
        """Whole sequences, joined to pieces of about ``steps`` steps."""
        first = np.concatenate([[True], np.diff(self.starts // steps) > 0])
        bounds = [*np.flatnonzero(first), len(self.lengths)]
        return [self._some(a, b) for a, b in pairwise(bounds)]

    def _some(self, first: int, last: int) -> Sequences:
        lengths = self.lengths[first:last]
        start = self.starts[first]
        return self.steps(slice(start, start + lengths.sum()), lengths)

    def steps(self, rows: slice, lengths: Index) -> Sequences:
        """Some of the rows, as sequences of the given lengths."""
        inputs = None if self.inputs is None else self.inputs[rows]
        return replace(self, values=self.values[rows], lengths=lengths, inputs=inputs)


def as_sequences(y: Any, n_features: int | None = None, inputs: Any = None) -> Sequences:
    """Make sequences of one matrix (T, d) or of a list of them, which may differ in length."""
    if isinstance(y, Sequences):
        return y
    several = isinstance(y, list | tuple | np.ndarray) and len(y) > 0 and np.ndim(y[0]) == 2
    given = list(y) if several else [y]
    rows = [_one(sequence, n_features, k if several else None) for k, sequence in enumerate(given)]
    d = rows[0].shape[1]
    for k, sequence in enumerate(rows):
        if sequence.shape[1] != d:
            msg = f"all sequences must have {d} columns, as the first one; sequence {k} has {sequence.shape[1]}."
            raise ShapeError(msg)
    lengths = np.array([len(sequence) for sequence in rows], dtype=np.intp)
    joined = None if inputs is None else _joined_inputs(inputs, lengths, several=several)
    return Sequences(rows[0] if len(rows) == 1 else np.vstack(rows), lengths, joined)


def _one(sequence: Any, n_features: int | None, k: int | None) -> Array:
    name = "the sequence" if k is None else f"sequence {k}"
    block = as_block(sequence, n_features)
    values = block.values.toarray() if block.is_sparse else block.values
    if len(values) == 0:
        msg = f"{name} has no rows; a sequence needs at least one time step."
        raise ShapeError(msg)
    if np.isinf(values).any():
        msg = f"{name} must not hold infinite values.\nHint: NaN stands for a cell that was not observed."
        raise DataError(msg)
    return np.ascontiguousarray(values, dtype=np.float64)


def _joined_inputs(inputs: Any, lengths: Index, *, several: bool) -> Array:
    given = [np.asarray(u, dtype=np.float64) for u in (inputs if several else [inputs])]
    if len(given) != len(lengths):
        msg = f"inputs must come for each of the {len(lengths)} sequences; got {len(given)}."
        raise ShapeError(msg)
    for k, (u, length) in enumerate(zip(given, lengths, strict=True)):
        if u.ndim != 2 or len(u) != length:
            msg = f"inputs of sequence {k} must be a matrix with {length} rows, one a step; got shape {u.shape}."
            raise ShapeError(msg)
        if not np.isfinite(u).all():
            msg = f"inputs of sequence {k} must be finite.\nHint: only observations may be missing."
            raise DataError(msg)
    return np.vstack(given)
