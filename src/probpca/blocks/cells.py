"""The observed cells of some rows, in the form that multiplies fastest.

Four forms, one contract: omega are the precisions of the cells, 0 where nothing was observed, and y their values
less some centre. Each form has both as operators, matrices known by their products: arrays with a column per
feature become arrays with a column per row, and moments with a column per row become sums with a column per feature.
Everything that missing cells ask of a solver is in these two products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

import numpy as np
from scipy import sparse

from probpca.blocks.block import mixed, row_of_cell, share, transposed, with_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from probpca.blocks.block import Block
    from probpca.scratch import Workspace
    from probpca.typing import Array, Floats, Index

    Mask = npt.NDArray[np.bool_]


class Operator(Protocol):
    """A matrix M of b rows, or patterns of rows, and d features."""

    def products(self, by_feature: Array) -> Array:
        """Sum over features of M times (p, d): (p, b)."""
        ...

    def add_sums(self, moments: Array, out: Array) -> None:
        """Add the sum over rows of M times (p, b) to ``out``: (p, d)."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Every entry is stored, as small as it may be; products are in double precision."""

    entries: Any  # M', uint8, float32 or float64: (d, b)
    name: str  # of the buffer for entries in double precision
    work: Workspace | None = None  # the workspace that has this buffer; None: fresh memory each time
    whole_cells: int = 2**20  # size up to which entries are made double once for several products
    slab_cells: int = 2**17  # cells of the features that are multiplied at a time in a larger matrix

    def ready(self, work: Workspace | None = None) -> Dense:
        """Entries in double precision if they are not many, else converted slab by slab at every product."""
        if self.entries.dtype == np.float64:
            return self
        if self.entries.size > self.whole_cells:
            return replace(self, work=work)
        return Dense(self._floats(slice(None), work), self.name, work)

    def products(self, by_feature: Array) -> Array:
        """Sum over features."""
        if self.entries.size <= self.whole_cells:
            return by_feature @ self._floats(slice(None), self.work)
        first, *others = self._slabs()
        out = by_feature[:, first] @ self._floats(first, self.work)
        for slab in others:
            out += by_feature[:, slab] @ self._floats(slab, self.work)
        return out

    def add_sums(self, moments: Array, out: Array) -> None:
        """Sum over rows."""
        if self.entries.size <= self.whole_cells:
            out += moments @ self._floats(slice(None), self.work).T
            return
        for slab in self._slabs():
            out[:, slab] += moments @ self._floats(slab, self.work).T

    def _slabs(self) -> Iterator[slice]:
        d, b = self.entries.shape
        step = max(self.slab_cells // b, 1)
        yield from (slice(start, min(start + step, d)) for start in range(0, d, step))

    def _floats(self, slab: slice, work: Workspace | None) -> Array:
        if self.entries.dtype == np.float64:
            return self.entries[slab]
        entries = self.entries[slab]
        if work is None:
            return entries.astype(np.float64)
        out = work.array(self.name, entries.shape)
        np.copyto(out, entries, casting="safe")
        return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Entries that are not zero, in compressed rows."""

    entries: Any  # CSR (b, d), float64

    def products(self, by_feature: Array) -> Array:
        """Sum over features."""
        return np.ascontiguousarray((self.entries @ np.ascontiguousarray(by_feature.T)).T)

    def add_sums(self, moments: Array, out: Array) -> None:
        """Sum over rows."""
        out += (transposed(self.entries) @ np.ascontiguousarray(moments.T)).T


@final
@dataclass(frozen=True, slots=True, eq=False)
class Complement:
    """One everywhere, less what is stored."""

    holes: Any  # 1 at the holes: CSR (b, d), float64

    def products(self, by_feature: Array) -> Array:
        """Sum over features."""
        return by_feature.sum(axis=1)[:, None] - Stored(self.holes).products(by_feature)

    def add_sums(self, moments: Array, out: Array) -> None:
        """Sum over rows."""
        Stored(self.holes).add_sums(-moments, out)
        out += moments.sum(axis=1)[:, None]


class Cells(Protocol):
    """The observed cells of some rows. A *pattern* is a set of observed features."""

    @property
    def pattern(self) -> Index | None:
        """Pattern of each row, rows sorted by it: (b,); None: each row has its own."""
        ...

    @property
    def mask(self) -> Operator:
        """Omega, of each row or of each pattern."""
        ...

    @property
    def values(self) -> Operator:
        """Omega y, of each row."""
        ...

    def ready(self, work: Workspace | None = None) -> Cells:
        """These cells in double precision; cells stored smaller are converted, into a workspace if one is given."""
        ...

    def observed(self) -> Array:
        """Number of observed cells of each row: (b,)."""
        ...

    def log_precision(self) -> Array | float:
        """Sum of log omega over the observed cells of each row: (b,), or 0 for all."""
        ...

    def square_sums(self, weight: Array) -> Array:
        """Sum over rows of w omega y^2: (d,)."""
        ...

    def residual(self, left: Array, right: Array) -> Residual:
        """Omega (y - left' right) of the observed cells, left (r, d) and right (r, b)."""
        ...


class Residual(Protocol):
    """Residuals of the observed cells after subtracting a prediction."""

    def row_squares(self) -> Array:
        """Sum over features of omega r^2: (b,)."""
        ...

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        ...

    def sums(self, moments: Array) -> Array:
        """Sum over rows of omega r times (p, b): (p, d)."""
        ...

    def dense(self) -> Array:
        """Omega r, zero where nothing was observed: (b, d)."""
        ...


@final
@dataclass(frozen=True, slots=True)
class FormSettings:
    """Sizes and shares that decide which rows go into which form; all are measured, none changes an answer."""

    small_cells: int = 2**10  # cells of a block so small that one form for all rows is quicker than any choice
    group_cells: int = 2**20  # cells of one group
    group_rows: tuple[int, int] = (128, 4096)  # fewest and most rows of one group
    stored_cells: int = 2**21  # cells of a group of stored cells: sums over rows are what costs it most
    sparse_slice: int = 2**24  # cells of the slices in which a sparse matrix is made dense
    few: float = 0.07  # share of cells below which sparse products, ten times as slow a cell, are quicker
    dense: float = 0.15  # share of stored cells from which on a sparse matrix is better handled as a dense one
    own_rows: int = 64  # rows that are worth a form of their own
    own_share: float = 1 / 8  # and their share of all rows
    common: int = 4  # rows that share a pattern from which on it is handled as one
    glance: int = 512  # rows that are compared first, to see whether patterns recur


FORM_SETTINGS = FormSettings()
FORMS = ("patterns", "holes", "stored", "masked")


@final
@dataclass(frozen=True, eq=False)
class StoredCells:
    """The observed cells in compressed rows: costs and memory grow with their number alone."""

    stored: Any  # omega y: CSR (b, d)
    precision: Array | None = None  # omega of the stored cells: (stored,); None: 1
    pattern: None = None

    @property
    def mask(self) -> Stored:
        """Precisions omega of the cells."""
        data = np.ones(self.stored.nnz) if self.precision is None else self.precision
        return Stored(with_data(self.stored, data))

    @property
    def values(self) -> Stored:
        """Values of the cells times their precisions, omega y."""
        return Stored(self.stored)

    def ready(self, work: Workspace | None = None) -> StoredCells:  # noqa: ARG002
        """These cells in double precision."""
        return self if self.stored.dtype == np.float64 else StoredCells(self.stored.astype(np.float64), self.precision)

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return np.diff(self.stored.indptr).astype(np.float64)

    def log_precision(self) -> Array | float:
        """Sum of log omega."""
        if self.precision is None:
            return 0.0
        return np.asarray(
            np.bincount(row_of_cell(self.stored), np.log(self.precision), self.stored.shape[0]), np.float64
        )

    def square_sums(self, weight: Array) -> Array:
        """Sum of w omega y^2."""
        return StoredResidual(self.stored.data.astype(np.float64), self).column_squares(weight)

    def residual(self, left: Array, right: Array) -> StoredResidual:
        """Residuals omega (y - left' right) of the observed cells."""
        fitted = np.empty(self.stored.nnz)
        rows, columns = row_of_cell(self.stored), self.stored.indices
        by_feature, by_row = np.ascontiguousarray(left.T), np.ascontiguousarray(right.T)
        step = 2**18  # cells whose parameters and latents, gathered, fit a cache
        for start in range(0, fitted.size, step):
            some = slice(start, start + step)
            fitted[some] = np.einsum("ck,ck->c", by_feature[columns[some]], by_row[rows[some]])
        if self.precision is not None:
            fitted *= self.precision
        return StoredResidual(self.stored.data - fitted, self)


@final
@dataclass(frozen=True, eq=False)
class StoredResidual:
    """A residual for every stored cell."""

    weighted: Array  # omega r: (stored,)
    cells: StoredCells

    def row_squares(self) -> Array:
        """Sum over features of omega r^2: (b,)."""
        n = self.cells.stored.shape[0]
        return np.asarray(np.bincount(row_of_cell(self.cells.stored), self._squares, n), np.float64)

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        values = self.cells.stored
        by_cell = self._squares * np.repeat(weight, np.diff(values.indptr))
        return np.asarray(np.bincount(values.indices, by_cell, values.shape[1]), np.float64)

    def sums(self, moments: Array) -> Array:
        """Sum over rows of omega r times (p, b): (p, d)."""
        return (transposed(self._matrix()) @ np.ascontiguousarray(moments.T)).T

    def dense(self) -> Array:
        """Omega r: (b, d)."""
        return self._matrix().toarray()

    def _matrix(self) -> Any:
        return with_data(self.cells.stored, self.weighted)

    @cached_property
    def _squares(self) -> Array:
        precision = 1.0 if self.cells.precision is None else self.cells.precision
        return self.weighted**2 / precision


@final
@dataclass(frozen=True, slots=True, eq=False)
class DenseResidual:
    """A residual for every cell, zero at those that were not observed."""

    weighted: Array  # omega r: (d, b)
    precision: Array | None  # omega: (d, b); None: 1 or 0

    def row_squares(self) -> Array:
        """Sum over features of omega r^2: (b,)."""
        return np.einsum("db,db->b", self.weighted, self._plain())

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        if (weight == 1.0).all():
            return np.einsum("db,db->d", self.weighted, self._plain(), dtype=np.float64)  # values may be float32
        return np.einsum("db,db,b->d", self.weighted, self._plain(), weight)

    def sums(self, moments: Array) -> Array:
        """Sum over rows of omega r times (p, b): (p, d)."""
        return moments @ self.weighted.T

    def dense(self) -> Array:
        """Omega r: (b, d)."""
        return self.weighted.T

    def _plain(self) -> Array:
        if self.precision is None:
            return self.weighted
        return self.weighted / np.where(self.precision > 0, self.precision, 1.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class MaskedCells:
    """A mask and zero-filled values: two dense matrix products each way."""

    mask: Dense  # observed or not, or omega
    values: Dense  # omega y
    binary: bool  # is omega 1 or 0?
    pattern: None = None

    @classmethod
    def of(cls, mask: Any, values: Floats) -> MaskedCells:
        """From arrays with a column per row: (d, b)."""
        return cls(Dense(mask, "mask"), Dense(values, "values"), mask.dtype == np.uint8)

    @property
    def precision(self) -> Array | None:
        """Omega; None: 1 or 0."""
        return None if self.binary else self.mask.entries

    def ready(self, work: Workspace | None = None) -> MaskedCells:
        """These cells in double precision."""
        return MaskedCells(self.mask.ready(work), self.values.ready(work), self.binary)

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return np.count_nonzero(self.mask.entries, axis=0).astype(np.float64)

    def log_precision(self) -> Array | float:
        """Sum of log omega."""
        if self.precision is None:
            return 0.0
        return np.log(np.where(self.precision > 0, self.precision, 1.0)).sum(axis=0)

    def square_sums(self, weight: Array) -> Array:
        """Sum of w omega y^2."""
        return DenseResidual(self.values.entries, self.precision).column_squares(weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """Residuals omega (y - left' right) of the observed cells."""
        fitted = left.T @ right
        fitted *= self.mask.entries
        weighted = np.subtract(self.values.entries, fitted, out=fitted)
        return DenseResidual(weighted, self.precision)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Holes:
    """Few cells are missing: products with all of them, less those with the holes."""

    mask: Complement
    values: Dense  # y, zero at the holes
    pattern: None = None

    @classmethod
    def of(cls, holes: Any, values: Floats) -> Holes:
        """From a sparse matrix (b, d) that stores 1 at the holes, and values with a column per row: (d, b)."""
        return cls(Complement(holes), Dense(values, "values"))

    def ready(self, work: Workspace | None = None) -> Holes:
        """These cells in double precision."""
        return Holes(self.mask, self.values.ready(work))

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return float(self.mask.holes.shape[1]) - np.diff(self.mask.holes.indptr)

    def log_precision(self) -> float:
        """Zero: all cells have the same precision."""
        return 0.0

    def square_sums(self, weight: Array) -> Array:
        """Sum of w y^2."""
        return DenseResidual(self.values.entries, None).column_squares(weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """Residuals omega (y - left' right) of the observed cells."""
        fitted = left.T @ right
        weighted = np.subtract(self.values.entries, fitted, out=fitted)
        weighted.T[self.mask.holes.nonzero()] = 0.0
        return DenseResidual(weighted, None)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Many rows with few patterns, complete rows above all: what depends on the mask is done once a pattern."""

    mask: Dense  # of each pattern
    values: Dense  # y of each row, zero where nothing was observed
    pattern: Index  # ascending: (b,)

    @classmethod
    def of(cls, masks: Array, values: Floats, pattern: Index) -> Patterns:
        """From arrays with a column per pattern, and per row."""
        return cls(Dense(masks, "mask"), Dense(values, "values"), pattern)

    def ready(self, work: Workspace | None = None) -> Patterns:
        """These cells in double precision."""
        return Patterns(self.mask, self.values.ready(work), self.pattern)

    def observed(self) -> Array:
        """Number of observed cells of each row."""
        return self.mask.entries.sum(axis=0)[self.pattern]

    def log_precision(self) -> float:
        """Zero: all cells have the same precision."""
        return 0.0

    def square_sums(self, weight: Array) -> Array:
        """Sum of w y^2."""
        return DenseResidual(self.values.entries, None).column_squares(weight)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """Residuals omega (y - left' right) of the observed cells."""
        fitted = left.T @ right
        if not self.mask.entries.all():
            fitted *= self.mask.entries[:, self.pattern]
        return DenseResidual(np.subtract(self.values.entries, fitted, out=fitted), None)


@final
@dataclass(frozen=True, eq=False)
class Group:
    """Some rows of a block in one form."""

    cells: Cells
    index: Index  # positions of the rows in the block: (b,)
    weight: Array  # w: (b,)
    observed: Array  # number of observed cells: (b,)
    log_precision: Array | float  # sum of log omega over them: (b,)

    @classmethod
    def of(cls, cells: Cells, index: Index, weight: Array) -> Group:
        """Sum once what no iteration changes."""
        return cls(cells, index, weight, cells.observed(), cells.log_precision())

    @cached_property
    def total_weight(self) -> float:
        """Sum of w over rows."""
        return float(self.weight.sum())

    @cached_property
    def n_cells(self) -> float:
        """Number of observed cells, each counted w times."""
        return float(self.weight @ self.observed)

    @cached_property
    def squares(self) -> Array:
        """Sum over rows of w omega y^2: (d,)."""
        return self.cells.square_sums(self.weight)

    @property
    def place(self) -> Index | slice:
        """Positions of the rows, as a slice if they are next to each other and in order."""
        return _as_slice(self.index)

    def reweighted(self, weight: Array) -> Group:
        """Copy of the group with other row weights: (b,)."""
        return replace(self, weight=weight)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """A block with missing cells: its rows in groups, each in the form that suits it, less a centre."""

    centre: Array  # (d,)
    groups: tuple[Group, ...]
    n_rows: int

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.centre.size

    def reweighted(self, weight: Array) -> Observed:
        """Copy of the block with other row weights: (n_rows,)."""
        return replace(self, groups=tuple(group.reweighted(weight[group.index]) for group in self.groups))


def observe(
    block: Block,
    centre: Array,
    *,
    keep_empty: bool = False,
    form: str | None = None,
    settings: FormSettings = FORM_SETTINGS,
) -> Observed:
    """Prepare a block; rows with nothing observed say nothing and are left out unless ``keep_empty``.

    ``form`` imposes one of ``FORMS`` on all rows; by default each row goes where it costs least.
    """
    weight = block.weights
    how = _How(keep_empty, form, settings)
    thin = block.is_sparse and block.values.nnz < settings.dense * block.n_rows * max(block.n_features, 1)
    if thin and block.unstored_missing and (form or "stored") == "stored":
        found = _stored_groups(block, centre, how)
    else:
        found = (_sliced_groups if block.is_sparse else _dense_groups)(block, centre, how)
    return Observed(centre, tuple(Group.of(cells, index, weight[index]) for cells, index in found), block.n_rows)


class _How(NamedTuple):
    """How a block is to be prepared."""

    keep_empty: bool
    form: str | None
    settings: FormSettings


def _stored_groups(block: Block, centre: Array, how: _How) -> Iterator[tuple[Cells, Index]]:
    """Groups of rows of a sparse matrix whose unstored cells are missing."""
    for piece in block.stored_pieces(how.settings.stored_cells):
        part = block.take(piece)
        rows = np.arange(piece.start, piece.stop)
        cells = _stored(part.values, part.precision, centre)
        kept = np.arange(rows.size) if how.keep_empty else np.flatnonzero(cells.observed())
        if kept.size < rows.size:
            cells = StoredCells(cells.stored[kept], cells.precision)  # empty rows have no precisions
        if kept.size:
            yield cells, rows[kept]


def _stored(values: Any, precision: Array | None, centre: Array) -> StoredCells:
    y = values.data - centre.astype(values.dtype)[values.indices]
    seen = ~np.isnan(y) if precision is None else ~np.isnan(y) & (precision > 0)
    indices, indptr = values.indices, values.indptr
    if not seen.all():
        indptr = np.concatenate([[0], np.cumsum(seen)])[indptr].astype(indices.dtype)
        y, indices, precision = y[seen], indices[seen], None if precision is None else precision[seen]
    if precision is not None:
        y = y * precision
    return StoredCells(share(sparse.csr_array(values.shape, dtype=y.dtype), y, indices, indptr), precision)


def _sliced_groups(block: Block, centre: Array, how: _How) -> Iterator[tuple[Cells, Index]]:
    """Sparse rows made dense, some at a time."""
    step = max(how.settings.sparse_slice // max(block.n_features, 1), how.settings.group_rows[0])
    for start in range(0, block.n_rows, step):
        some = block.take(slice(start, min(start + step, block.n_rows)))
        for cells, rows in _dense_groups(some, centre, how):
            yield cells, rows + start


def _dense_groups(block: Block, centre: Array, how: _How) -> Iterator[tuple[Cells, Index]]:
    mask, (keep_empty, form, settings) = _mask_of(block), how
    count = np.count_nonzero(mask, axis=1)
    rows = np.arange(block.n_rows) if keep_empty else np.flatnonzero(count)
    if form is None and block.precision is None and mask.size <= settings.small_cells and not block.is_sparse:
        if rows.size:
            yield _few_cells(block, mask[rows], centre, rows), rows
        return
    present = mask[rows] if rows.size < block.n_rows else mask
    pattern, common = patterns(present, settings, certain=form == "patterns")
    if block.precision is not None:
        groups = {"masked": rows}
    elif form is not None:
        groups = {form: rows[np.argsort(pattern, kind="stable")] if form == "patterns" else rows}
    else:
        groups = _groups(rows, pattern, common, count / max(block.n_features, 1), settings)
    by_row = np.empty(block.n_rows, np.intp)
    by_row[rows] = pattern
    for name, members in groups.items():
        cells = int(count[members].sum()) if name == "stored" else members.size * block.n_features
        for some in _cut(members, cells, settings):
            yield _dense_cells(name, block, mask[some], centre, some, by_row[some]), some


def _few_cells(block: Block, mask: Mask, centre: Array, rows: Index) -> MaskedCells:
    """Cells of a small block, in double precision from the start."""
    y = np.where(mask, block.values[rows] - centre, 0.0)
    seen, values = (np.ascontiguousarray(array.T, dtype=np.float64) for array in (mask, y))
    return MaskedCells(Dense(seen, "mask"), Dense(values, "values"), binary=True)


def _groups(rows: Index, pattern: Index, common: Mask, share_seen: Array, settings: FormSettings) -> dict[str, Index]:
    """Positions of the rows that go into each form."""
    alike = common[pattern]
    seen = share_seen[rows]
    holes = ~alike & (seen > 1 - settings.few)
    stored = ~alike & (seen < settings.few)
    groups = {"holes": rows[holes], "stored": rows[stored], "masked": rows[~(alike | holes | stored)]}
    least = max(settings.own_rows, settings.own_share * rows.size)
    for name in ("holes", "stored"):  # too few for a form of their own
        if groups[name].size < least:
            groups["masked"] = np.sort(np.concatenate([groups["masked"], groups.pop(name)]))
    shared = rows[alike]
    return {"patterns": shared[np.argsort(pattern[alike], kind="stable")], **groups}


def _cut(members: Index, cells: int, settings: FormSettings) -> Iterator[Index]:
    """Parts of about equal size, given how many cells there are to multiply with."""
    most = int(np.clip(settings.group_cells * members.size // max(cells, 1), *settings.group_rows))
    count = -(-members.size // most)
    yield from (some for some in np.array_split(members, max(count, 1)) if some.size)


def _mask_of(block: Block) -> Mask:
    values = block.values
    if not block.is_sparse:
        mask = ~np.isnan(values)
        return mask if block.precision is None else mask & (block.precision > 0)
    mask = np.full(values.shape, not block.unstored_missing)
    seen = ~np.isnan(values.data)
    mask[row_of_cell(values), values.indices] = seen if block.precision is None else seen & (block.precision > 0)
    return mask


def _gathered(values: Any, mask: Mask, centre: Array, rows: Index) -> StoredCells:
    """The observed cells of dense rows."""
    row, column = np.nonzero(mask)
    y = values[rows[row], column] - centre.astype(values.dtype)[column]
    pointers = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    return StoredCells(share(sparse.csr_array(mask.shape, dtype=y.dtype), y, column, pointers))


def _dense_cells(name: str, block: Block, mask: Mask, centre: Array, rows: Index, pattern: Index) -> Cells:
    if name == "stored" and not block.is_sparse:
        return _gathered(block.values, mask, centre, rows)
    if block.precision is not None:
        omega = np.where(mask, _precision(block, rows), 0.0).T
        return MaskedCells.of(np.ascontiguousarray(omega), _turned(block, mask, centre, rows) * omega)
    if name == "stored":
        matrix = sparse.csr_array(mask.astype(block.values.dtype))
        matrix.data = _turned(block, mask, centre, rows).T[mask]
        return StoredCells(matrix)
    values = _turned(block, mask, centre, rows)
    if name == "holes":
        return Holes.of(sparse.csr_array((~mask).astype(np.float64)), values)
    if name == "patterns":
        _, first, local = np.unique(pattern, return_index=True, return_inverse=True)
        return Patterns.of(np.ascontiguousarray(mask[first].T, dtype=np.float64), values, local.astype(np.intp))
    return MaskedCells.of(np.ascontiguousarray(mask.T).view(np.uint8), values)


def _as_slice(rows: Index) -> Index | slice:
    """Positions as a slice if they are next to each other and in order; those sorted by pattern need not be."""
    first, last = int(rows[0]), int(rows[-1])
    in_order = last - first == rows.size - 1 and bool((rows[1:] > rows[:-1]).all())
    return slice(first, last + 1) if in_order else rows


def _turned(block: Block, mask: Mask, centre: Array, rows: Index) -> Any:
    """Some rows less the centre, zero where nothing was observed, a column per row: (d, b)."""
    centre = centre.astype(block.values.dtype)
    place = _as_slice(rows)
    if not block.is_sparse and block.values.flags.f_contiguous and isinstance(place, slice):
        out = block.values.T[:, place] - centre[:, None]
        np.copyto(out, 0.0, where=~mask.T)
        return out
    out = np.empty((block.n_features, rows.size), block.values.dtype)
    for start in range(0, rows.size, 32):  # few rows at a time, so that their columns stay in a cache
        some = slice(start, start + 32)
        values = block.values[rows[some]]
        values = (values.toarray() if block.is_sparse else values) - centre
        values[~mask[some]] = 0.0
        out[:, some] = values.T
    return out


def _precision(block: Block, rows: Index) -> Array:
    if not block.is_sparse:
        return block.precision[rows]
    return with_data(block.values, block.precision)[rows].toarray()


def _recur(mask: Mask, glance: int) -> bool:
    """Whether some rows share their patterns, as far as a glance at them tells."""
    if len(mask) < glance:
        return True
    some = mask[:: max(len(mask) // glance, 1)]
    return np.unique(np.packbits(some, axis=1), axis=0).shape[0] < 0.98 * len(some)


def patterns(mask: Mask, settings: FormSettings = FORM_SETTINGS, *, certain: bool) -> tuple[Index, Mask]:
    """Number of each row's pattern, and which patterns are common; a glance decides, unless it must be ``certain``."""
    if not (certain or _recur(mask, settings.glance)):
        return np.arange(len(mask)), np.zeros(len(mask), np.bool_)
    bits = np.packbits(mask, axis=1)
    wide = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    wide[:, : bits.shape[1]] = bits
    keys = mixed(wide.view(np.uint64).T)
    _, first, pattern, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    if not np.array_equal(bits, bits[first[pattern]]):  # two patterns with one key: very rare
        _, pattern, counts = np.unique(bits, axis=0, return_inverse=True, return_counts=True)
    return pattern.astype(np.intp), counts >= settings.common
