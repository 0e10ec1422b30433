"""Observed cells of incomplete rows, in the storage form whose matrix products are fastest.

Four forms (``FORMS``) share one protocol, ``Cells``. Throughout, omega is the relative precision of a cell, 0 where
it is missing, and y its value minus a centre. Each form offers omega and omega y as operators with two products:
arrays with a column per feature become arrays with a column per row, and moments with a column per row become sums
with a column per feature. Solvers need nothing else from incomplete rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

import numpy as np
from scipy import sparse

from probpca.blocks.block import mixed, row_of_cell, share, transposed, with_data
from probpca.cached_property import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from probpca.blocks.block import Block
    from probpca.scratch import Workspace
    from probpca.typing import Array, Floats, Index

    Mask = npt.NDArray[np.bool_]


class Operator(Protocol):
    """Protocol of a matrix M (b, d) with one row per row, or per pattern of rows, and one column per feature."""

    def products(self, by_feature: Array) -> Array:
        """Product of an array (p, d) with M', summed over the features: (p, b)."""
        ...

    def add_sums(self, moments: Array, out: Array) -> None:
        """Add the product of an array (p, b) with M, summed over the rows, to ``out`` (p, d)."""
        ...


@final
@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Operator that stores every entry, in the smallest type that holds it; products are in double precision.

    Values in float32 are stored as they are, and their centre is subtracted after conversion: their deviations from
    it would be rounded in float32.
    """

    entries: Any  # M', uint8, float32 or float64; with a centre, M' plus the centre: (d, b)
    name: str  # name of the workspace buffer for entries converted to double precision
    work: Workspace | None = None  # the workspace of this buffer; None allocates memory at every product
    centre: Array | None = None  # subtracted from entries that are not in double precision: (d,)
    whole_cells: int = 2**20  # up to this size, entries are converted once for several products
    slab_cells: int = 2**17  # larger matrices are converted in slabs of about this many cells

    def ready(self, work: Workspace | None = None) -> Dense:
        """Operator with entries in double precision; large ones are converted slab by slab at every product."""
        if self.entries.dtype == np.float64:
            return self
        if self.entries.size > self.whole_cells:
            return replace(self, work=work)
        return Dense(self._floats(slice(None), work), self.name, work)

    def products(self, by_feature: Array) -> Array:
        """Product of an array (p, d) with M', summed over the features: (p, b)."""
        if self.entries.size <= self.whole_cells:
            return by_feature @ self._floats(slice(None), self.work)
        first, *others = self.slabs()
        out = by_feature[:, first] @ self._floats(first, self.work)
        for slab in others:
            out += by_feature[:, slab] @ self._floats(slab, self.work)
        return out

    def add_sums(self, moments: Array, out: Array) -> None:
        """Add the product of an array (p, b) with M, summed over the rows, to ``out`` (p, d)."""
        if self.entries.size <= self.whole_cells:
            out += moments @ self._floats(slice(None), self.work).T
            return
        for slab in self.slabs():
            out[:, slab] += moments @ self._floats(slab, self.work).T

    def minus(self, fitted: Array) -> Array:
        """Difference of M' and an array (d, b), which is overwritten."""
        whole = self.entries.size <= self.whole_cells or self.entries.dtype == np.float64
        for slab in (slice(None),) if whole else self.slabs():
            np.subtract(self._floats(slab, self.work), fitted[slab], out=fitted[slab])
        return fitted

    def square_sums(self, weight: Array, precision: Array | None = None) -> Array:
        """Sum over rows of the squared entries, times w, over omega (d, b) if given: (d,)."""
        slabs = ((slab, None if precision is None else precision[slab]) for slab in self.slabs())
        parts = (DenseResidual(self._floats(slab, None), omega).column_squares(weight) for slab, omega in slabs)
        return np.concatenate(list(parts))

    def squared(self, precision: Array | None = None) -> Dense:
        """Operator with squared entries, over omega (d, b) if given."""
        if precision is None and self.entries.dtype == np.float64:
            return Dense(np.square(self.entries), self.name)
        out = np.empty(self.entries.shape)
        for slab in self.slabs():
            omega = None if precision is None else precision[slab]
            residual = DenseResidual(self._floats(slab, None), omega)
            np.multiply(residual.weighted, residual.plain(), out=out[slab])
        return Dense(out, self.name)

    def slabs(self) -> Iterator[slice]:
        """Slabs of features with few enough entries that a copy of them stays in cache."""
        d, b = self.entries.shape
        step = max(self.slab_cells // b, 1)
        yield from (slice(start, min(start + step, d)) for start in range(0, d, step))

    def _floats(self, slab: slice, work: Workspace | None) -> Array:
        if self.entries.dtype == np.float64:
            return self.entries[slab]
        entries = self.entries[slab]
        out = np.empty(entries.shape) if work is None else work.array(self.name, entries.shape)
        np.copyto(out, entries, casting="safe")
        if self.centre is not None:
            out -= self.centre[slab, None]
        return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Operator that stores the nonzero entries, in compressed rows."""

    entries: Any  # CSR (b, d), float64
    cached_cells: int = 2**20  # entries of (p, d) arrays up to which these stay in cache; more are used part by part

    def products(self, by_feature: Array) -> Array:
        """Product of an array (p, d) with M', summed over the features: (p, b)."""
        out = np.empty((len(by_feature), self.entries.shape[0]))
        for some in self._parts(len(by_feature)):
            out[some] = (self.entries @ np.ascontiguousarray(by_feature[some].T)).T
        return out

    def add_sums(self, moments: Array, out: Array) -> None:
        """Add the product of an array (p, b) with M, summed over the rows, to ``out`` (p, d)."""
        turned = transposed(self.entries)
        for some in self._parts(len(moments)):
            out[some] += (turned @ np.ascontiguousarray(moments[some].T)).T

    def _parts(self, p: int) -> Iterator[slice]:
        count = max(-(-p * self.entries.shape[1] // self.cached_cells), 1)
        step = max(-(-p // count), 8)
        return (slice(start, start + step) for start in range(0, p, step))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Complement:
    """Operator that is 1 everywhere except at the missing cells, which are stored.

    They are stored in slabs of features, so that the entries of an operand or a result that belong to a slab stay in
    cache: without slabs, products with many features take several times as long.
    """

    slabs: tuple[Any, ...]  # 1 at the missing cells of some features: CSR (b, width), float64; the last may be narrower
    turned: tuple[Any, ...]  # their transposes, which share their memory
    width: int  # number of features of a slab
    never: Index  # features that none of the rows has

    @classmethod
    def of(cls, mask: Mask, width: int) -> Complement:
        """Make the operator of a mask of observed cells (b, d)."""
        ones, slabs = np.ones(mask.size - np.count_nonzero(mask)), []
        for start in range(0, mask.shape[1], width):
            missing = ~mask[:, start : start + width]
            counts = np.count_nonzero(missing, axis=1)
            first = missing.shape[1] * np.arange(len(missing), dtype=np.int32)  # places of the first cells of the rows
            indices = np.flatnonzero(missing).astype(np.int32) - np.repeat(first, counts)
            indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
            slabs.append(share(sparse.csr_array(missing.shape), ones[: indices.size], indices, indptr))
        return cls(tuple(slabs), tuple(map(transposed, slabs)), width, np.flatnonzero(~mask.any(axis=0)))

    def products(self, by_feature: Array) -> Array:
        """Product of an array (p, d) with M', summed over the features: (p, b)."""
        missing = sum(slab @ np.ascontiguousarray(by_feature[:, place].T) for place, slab in self.placed(self.slabs))
        return np.asarray(by_feature.sum(axis=1)[:, None] - missing.T)

    def add_sums(self, moments: Array, out: Array) -> None:
        """Add the product of an array (p, b) with M, summed over the rows, to ``out`` (p, d)."""
        total, by_row = moments.sum(axis=1)[:, None], np.ascontiguousarray(moments.T)
        unchanged = out[:, self.never]  # the difference of two sums in different order need not be exactly zero
        for place, slab in self.placed(self.turned):
            some = out[:, place]
            some -= (slab @ by_row).T
            some += total
        out[:, self.never] = unchanged

    def placed(self, slabs: tuple[Any, ...]) -> Iterator[tuple[slice, Any]]:
        """Yield each slab, or its transpose, with the positions of its features."""
        return ((slice(k * self.width, (k + 1) * self.width), slab) for k, slab in enumerate(slabs))


class Cells(Protocol):
    """Protocol of the observed cells of some rows. A *pattern* is a set of observed features."""

    @property
    def pattern(self) -> Index | None:
        """Pattern number of each row, ascending: (b,); None if each row has its own pattern."""
        ...

    @property
    def mask(self) -> Operator:
        """Precisions omega, with one row per row or per pattern."""
        ...

    @property
    def presence(self) -> Operator:
        """1 in observed cells, whatever their precision, with one row per row or per pattern."""
        ...

    @property
    def values(self) -> Operator:
        """Values times precisions, omega y, with one row per row."""
        ...

    def ready(self, work: Workspace | None = None) -> Cells:
        """Copy in double precision; smaller types are converted, into a workspace if one is given."""
        ...

    def observed(self) -> Array:
        """Number of observed cells of each row: (b,)."""
        ...

    def counts(self, weight: Array) -> Array:
        """Sum of w over the observed cells of each feature: (d,)."""
        ...

    def log_precision(self) -> Array | float:
        """Sum of log omega over the observed cells of each row: (b,), or 0 if it is zero for all."""
        ...

    def square_sums(self, weight: Array) -> Array:
        """Sum over rows of w omega y^2: (d,)."""
        ...

    @property
    def squares(self) -> Operator:
        """Squared values times precisions, omega y^2, with one row per row; made anew for each use."""
        ...

    def residual(self, left: Array, right: Array) -> Residual:
        """Residuals omega (y - left' right) of the observed cells, with ``left`` (r, d) and ``right`` (r, b)."""
        ...


class Residual(Protocol):
    """Protocol of the residuals r of the observed cells after subtracting a prediction."""

    def row_squares(self, by_feature: Array | None = None) -> Array:
        """Sum over features of omega r^2, times a factor of each feature (d,) if given: (b,)."""
        ...

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        ...

    def sums(self, moments: Array) -> Array:
        """Product of an array (p, b) with omega r, summed over the rows: (p, d)."""
        ...

    def dense(self) -> Array:
        """Residuals omega r as a dense array, zero in missing cells: (b, d)."""
        ...


@final
@dataclass(frozen=True, slots=True)
class FormSettings:
    """Thresholds, found by measurement, that choose the form of each row. They affect speed, not results."""

    small_cells: int = 2**10  # up to this many cells, a block gets one form for all its rows
    group_cells: int = 2**20  # cells of one group
    sparse_group_cells: int = 2**23  # cells of one group of which few are observed, or missing
    group_rows: tuple[int, int] = (128, 4096)  # smallest and largest number of rows of one group
    stored_cells: int = 2**21  # cells of a group of stored cells, whose main cost are sums over rows
    sparse_slice: int = 2**24  # cells of the slices in which a sparse matrix is made dense
    few: float = 0.15  # share of observed, or of missing, cells below which sparse products with these are faster
    few_features: int = 64  # fewest features of a table for which that is so
    slab_features: int = 512  # number of features of the slabs in which missing cells are stored
    dense: float = 0.15  # share of stored cells above which a sparse matrix is handled as a dense one
    own_rows: int = 64  # smallest number of rows for a form of their own
    own_share: float = 1 / 8  # smallest share of all rows for a form of their own
    common: int = 4  # smallest number of rows with the same pattern for the pattern to be handled once
    glance: int = 512  # rows compared first, to see whether patterns recur


FORM_SETTINGS = FormSettings()
FORMS = ("patterns", "holes", "stored", "masked")


@final
@dataclass(frozen=True, eq=False)
class StoredCells:
    """Observed cells in compressed rows: time and memory are proportional to their number.

    Values in float32 are stored as they are, and their centre is subtracted after conversion.
    """

    stored: Any  # omega y, or y plus the centre if there is one: CSR (b, d)
    precision: Array | None = None  # omega of the stored cells: (stored,); None if all are 1
    pattern: None = None
    centre: Array | None = None  # subtracted from values that are not in double precision: (d,)

    @property
    def mask(self) -> Stored:
        """Precisions omega, with one row per row."""
        data = np.ones(self.stored.nnz) if self.precision is None else self.precision
        return Stored(with_data(self.stored, data))

    @property
    def presence(self) -> Stored:
        """1 in observed cells, whatever their precision, with one row per row."""
        return Stored(with_data(self.stored, np.ones(self.stored.nnz)))

    @property
    def values(self) -> Stored:
        """Values times precisions, omega y, with one row per row."""
        return Stored(self.ready().stored)

    def ready(self, work: Workspace | None = None) -> StoredCells:  # noqa: ARG002
        """Copy in double precision; smaller types are converted, into a workspace if one is given."""
        if self.stored.dtype == np.float64:
            return self
        data = self.stored.data.astype(np.float64)
        if self.centre is not None:
            data -= self.centre[self.stored.indices]
        return StoredCells(with_data(self.stored, data), self.precision)

    def observed(self) -> Array:
        """Number of observed cells of each row: (b,)."""
        return np.diff(self.stored.indptr).astype(np.float64)

    def counts(self, weight: Array) -> Array:
        """Sum of w over the observed cells of each feature: (d,)."""
        of_cell = np.repeat(weight, np.diff(self.stored.indptr))
        return np.asarray(np.bincount(self.stored.indices, of_cell, self.stored.shape[1]), np.float64)

    def log_precision(self) -> Array | float:
        """Sum of log omega over the observed cells of each row: (b,), or 0 if it is zero for all."""
        if self.precision is None:
            return 0.0
        return np.asarray(
            np.bincount(row_of_cell(self.stored), np.log(self.precision), self.stored.shape[0]), np.float64
        )

    def square_sums(self, weight: Array) -> Array:
        """Sum over rows of w omega y^2: (d,)."""
        return StoredResidual(self.ready().stored.data, self).column_squares(weight)

    @property
    def squares(self) -> Stored:
        """Squared values times precisions, omega y^2, with one row per row; made anew for each use."""
        weighted = self.ready().stored.data
        precision = 1.0 if self.precision is None else self.precision
        return Stored(with_data(self.stored, weighted**2 / precision))

    def residual(self, left: Array, right: Array) -> StoredResidual:
        """Residuals omega (y - left' right) of the observed cells, with ``left`` (r, d) and ``right`` (r, b)."""
        fitted = np.empty(self.stored.nnz)
        rows, columns = row_of_cell(self.stored), self.stored.indices
        by_feature, by_row = np.ascontiguousarray(left.T), np.ascontiguousarray(right.T)
        step = 2**18  # number of cells whose gathered parameters and latent variables fit into cache
        for start in range(0, fitted.size, step):
            some = slice(start, start + step)
            fitted[some] = np.einsum("ck,ck->c", by_feature[columns[some]], by_row[rows[some]])
        if self.precision is not None:
            fitted *= self.precision
        return StoredResidual(self.ready().stored.data - fitted, self)


@final
@dataclass(frozen=True, eq=False)
class StoredResidual:
    """Residuals of stored cells."""

    weighted: Array  # omega r: (stored,)
    cells: StoredCells

    def row_squares(self, by_feature: Array | None = None) -> Array:
        """Sum over features of omega r^2, times a factor of each feature (d,) if given: (b,)."""
        stored = self.cells.stored
        squares = self._squares if by_feature is None else self._squares * by_feature[stored.indices]
        return np.asarray(np.bincount(row_of_cell(stored), squares, stored.shape[0]), np.float64)

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        values = self.cells.stored
        by_cell = self._squares * np.repeat(weight, np.diff(values.indptr))
        return np.asarray(np.bincount(values.indices, by_cell, values.shape[1]), np.float64)

    def sums(self, moments: Array) -> Array:
        """Product of an array (p, b) with omega r, summed over the rows: (p, d)."""
        return (transposed(self._matrix()) @ np.ascontiguousarray(moments.T)).T

    def dense(self) -> Array:
        """Residuals omega r as a dense array, zero in missing cells: (b, d)."""
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
    """Residuals as a dense array, zero in missing cells."""

    weighted: Array  # omega r: (d, b)
    precision: Array | None  # omega: (d, b); None if every omega is 1 or 0

    def row_squares(self, by_feature: Array | None = None) -> Array:
        """Sum over features of omega r^2, times a factor of each feature (d,) if given: (b,)."""
        if by_feature is None:
            return np.einsum("db,db->b", self.weighted, self.plain())
        return by_feature @ (self.weighted * self.plain())

    def column_squares(self, weight: Array) -> Array:
        """Sum over rows of w omega r^2: (d,)."""
        if (weight == 1.0).all():
            return np.einsum("db,db->d", self.weighted, self.plain(), dtype=np.float64)  # values may be float32
        return np.einsum("db,db,b->d", self.weighted, self.plain(), weight)

    def sums(self, moments: Array) -> Array:
        """Product of an array (p, b) with omega r, summed over the rows: (p, d)."""
        return moments @ self.weighted.T

    def dense(self) -> Array:
        """Residuals omega r as a dense array, zero in missing cells: (b, d)."""
        return self.weighted.T

    def plain(self) -> Array:
        """Residuals r: (d, b)."""
        if self.precision is None:
            return self.weighted
        return self.weighted / np.where(self.precision > 0, self.precision, 1.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class MaskedCells:
    """Observed cells as a dense mask and zero-filled values."""

    mask: Dense  # omega
    values: Dense  # omega y
    binary: bool  # whether every omega is 1 or 0
    pattern: None = None

    @classmethod
    def of(cls, mask: Any, values: Floats, centre: Array | None = None) -> MaskedCells:
        """Make the cells of two transposed arrays (d, b), of precisions or a mask, and of values."""
        return cls(Dense(mask, "mask"), Dense(values, "values", centre=centre), mask.dtype == np.uint8)

    @property
    def precision(self) -> Array | None:
        """Precisions omega (d, b), or None if every omega is 1 or 0."""
        return None if self.binary else self.mask.entries

    @property
    def presence(self) -> Dense:
        """1 in observed cells, whatever their precision, with one row per row."""
        return self.mask if self.binary else Dense((self.mask.entries > 0).astype(np.float64), "presence")

    def ready(self, work: Workspace | None = None) -> MaskedCells:
        """Copy in double precision; smaller types are converted, into a workspace if one is given."""
        return MaskedCells(self.mask.ready(work), self.values.ready(work), self.binary)

    def observed(self) -> Array:
        """Number of observed cells of each row: (b,)."""
        return np.count_nonzero(self.mask.entries, axis=0).astype(np.float64)

    def counts(self, weight: Array) -> Array:
        """Sum of w over the observed cells of each feature: (d,)."""
        if self.binary and (weight == 1.0).all():
            return np.count_nonzero(self.mask.entries, axis=1).astype(np.float64)
        return np.concatenate([(self.mask.entries[slab] > 0).astype(np.float64) @ weight for slab in self.mask.slabs()])

    def log_precision(self) -> Array | float:
        """Sum of log omega over the observed cells of each row: (b,), or 0 if it is zero for all."""
        if self.precision is None:
            return 0.0
        return np.log(np.where(self.precision > 0, self.precision, 1.0)).sum(axis=0)

    def square_sums(self, weight: Array) -> Array:
        """Sum over rows of w omega y^2: (d,)."""
        return self.values.square_sums(weight, self.precision)

    @property
    def squares(self) -> Dense:
        """Squared values times precisions, omega y^2, with one row per row; made anew for each use."""
        return self.values.squared(self.precision)

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """Residuals omega (y - left' right) of the observed cells, with ``left`` (r, d) and ``right`` (r, b)."""
        fitted = left.T @ right
        fitted *= self.mask.entries
        return DenseResidual(self.values.minus(fitted), self.precision)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Holes:
    """Nearly complete rows: products with all cells, minus products with the missing ones."""

    mask: Complement
    values: Dense  # y, zero in missing cells
    pattern: None = None

    @classmethod
    def of(cls, mask: Mask, values: Floats, centre: Array | None, width: int) -> Holes:
        """Make the cells of a mask (b, d) and transposed values (d, b), with slabs of ``width`` features."""
        return cls(Complement.of(mask, width), Dense(values, "values", centre=centre))

    @property
    def presence(self) -> Complement:
        """1 in observed cells, with one row per row."""
        return self.mask

    def ready(self, work: Workspace | None = None) -> Holes:
        """Copy in double precision; smaller types are converted, into a workspace if one is given."""
        return Holes(self.mask, self.values.ready(work))

    def observed(self) -> Array:
        """Number of observed cells of each row: (b,)."""
        missing = sum(np.diff(slab.indptr) for slab in self.mask.slabs)
        return np.asarray(float(len(self.values.entries)) - missing)

    def counts(self, weight: Array) -> Array:
        """Sum of w over the observed cells of each feature: (d,)."""
        out = np.zeros((1, len(self.values.entries)))
        self.mask.add_sums(weight[None], out)
        return out[0]

    def log_precision(self) -> float:
        """Sum of log omega of each row: always 0, because all cells have precision 1."""
        return 0.0

    def square_sums(self, weight: Array) -> Array:
        """Sum over rows of w y^2: (d,)."""
        return self.values.square_sums(weight)

    @property
    def squares(self) -> Dense:
        """Squared values y^2, with one row per row; made anew for each use."""
        return self.values.squared()

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """Residuals omega (y - left' right) of the observed cells, with ``left`` (r, d) and ``right`` (r, b)."""
        rows_first = self.values.entries.flags.f_contiguous
        weighted = self.values.minus((right.T @ left).T if rows_first else left.T @ right)
        for place, slab in self.mask.placed(self.mask.slabs):
            weighted[place][slab.indices, row_of_cell(slab)] = 0.0
        return DenseResidual(weighted, None)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Rows that share few patterns, such as complete rows: computations with the mask are done once per pattern."""

    mask: Dense  # omega of each pattern
    values: Dense  # y of each row, zero in missing cells
    pattern: Index  # pattern number of each row, ascending: (b,)

    @classmethod
    def of(cls, masks: Array, values: Floats, pattern: Index, centre: Array | None = None) -> Patterns:
        """Make the cells of masks with a column per pattern, values with a column per row, and pattern numbers."""
        return cls(Dense(masks, "mask"), Dense(values, "values", centre=centre), pattern)

    @property
    def presence(self) -> Dense:
        """1 in observed cells, with one row per pattern."""
        return self.mask

    def ready(self, work: Workspace | None = None) -> Patterns:
        """Copy in double precision; smaller types are converted, into a workspace if one is given."""
        return Patterns(self.mask, self.values.ready(work), self.pattern)

    def observed(self) -> Array:
        """Number of observed cells of each row: (b,)."""
        return self.mask.entries.sum(axis=0)[self.pattern]

    def counts(self, weight: Array) -> Array:
        """Sum of w over the observed cells of each feature: (d,)."""
        return np.asarray(self.mask.entries @ np.bincount(self.pattern, weight, self.mask.entries.shape[1]))

    def log_precision(self) -> float:
        """Sum of log omega of each row: always 0, because all cells have precision 1."""
        return 0.0

    def square_sums(self, weight: Array) -> Array:
        """Sum over rows of w y^2: (d,)."""
        return self.values.square_sums(weight)

    @property
    def squares(self) -> Dense:
        """Squared values y^2, with one row per row; made anew for each use."""
        return self.values.squared()

    def residual(self, left: Array, right: Array) -> DenseResidual:
        """Residuals omega (y - left' right) of the observed cells, with ``left`` (r, d) and ``right`` (r, b)."""
        fitted = left.T @ right
        if not self.mask.entries.all():
            fitted *= self.mask.entries[:, self.pattern]
        return DenseResidual(self.values.minus(fitted), None)


@final
@dataclass(frozen=True, eq=False)
class Group:
    """Rows of a block that are stored in the same form."""

    cells: Cells
    index: Index  # positions of the rows in the block: (b,)
    weight: Array  # w: (b,)
    observed: Array  # number of observed cells of each row: (b,)
    log_precision: Array | float  # sum of log omega over the observed cells of each row: (b,)

    @classmethod
    def of(cls, cells: Cells, index: Index, weight: Array) -> Group:
        """Make a group of cells, computing once the sums that no iteration changes."""
        return cls(cells, index, weight, cells.observed(), cells.log_precision())

    @cached_property
    def total_weight(self) -> float:
        """Sum of the row weights w."""
        return float(self.weight.sum())

    @cached_property
    def counts(self) -> Array:
        """Sum of w over the observed cells of each feature: (d,)."""
        return self.cells.counts(self.weight)

    @cached_property
    def squares(self) -> Array:
        """Sum over rows of w omega y^2: (d,)."""
        return self.cells.square_sums(self.weight)

    @property
    def place(self) -> Index | slice:
        """Positions of the rows in the block, as a slice if they are consecutive."""
        return _as_slice(self.index)

    def reweighted(self, weight: Array) -> Group:
        """Copy of the group with other row weights: (b,)."""
        return replace(self, weight=weight)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """A block of incomplete rows minus a centre, in groups of rows that are each stored in a suitable form."""

    centre: Array  # subtracted from every row: (d,)
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
    """Prepare a block of incomplete rows for repeated products, with deviations taken from ``centre`` (d,).

    Rows without an observed cell are left out unless ``keep_empty`` is true. ``form`` stores all rows in one of
    ``FORMS``; by default each row gets the form that is fastest for it. For float32 rows the centre is rounded to
    float32.
    """
    weight, centre = block.weights, centre.astype(block.values.dtype).astype(np.float64)
    how = _How(keep_empty, form, settings)
    thin = block.is_sparse and block.values.nnz < settings.dense * block.n_rows * max(block.n_features, 1)
    if thin and block.unstored_missing and (form or "stored") == "stored":
        found = _stored_groups(block, centre, how)
    else:
        found = (_sliced_groups if block.is_sparse else _dense_groups)(block, centre, how)
    return Observed(centre, tuple(Group.of(cells, index, weight[index]) for cells, index in found), block.n_rows)


class _How(NamedTuple):
    """Options of ``observe``."""

    keep_empty: bool
    form: str | None
    settings: FormSettings


def _stored_groups(block: Block, centre: Array, how: _How) -> Iterator[tuple[Cells, Index]]:
    """Groups of the rows of a sparse matrix whose unstored cells are missing."""
    for piece in block.stored_pieces(how.settings.stored_cells):
        part = block.take(piece)
        rows = np.arange(piece.start, piece.stop)
        cells = _stored(part.values, part.precision, centre)
        kept = np.arange(rows.size) if how.keep_empty else np.flatnonzero(cells.observed())
        if kept.size < rows.size:
            cells = replace(cells, stored=cells.stored[kept])  # empty rows store no precisions
        if kept.size:
            yield cells, rows[kept]


def _stored(values: Any, precision: Array | None, centre: Array) -> StoredCells:
    kept = _kept_centre(values, centre) if precision is None else None
    y = values.data if kept is not None else values.data - centre[values.indices]
    seen = ~np.isnan(y) if precision is None else ~np.isnan(y) & (precision > 0)
    indices, indptr = values.indices, values.indptr
    if not seen.all():
        indptr = np.concatenate([[0], np.cumsum(seen)])[indptr].astype(indices.dtype)
        y, indices, precision = y[seen], indices[seen], None if precision is None else precision[seen]
    if precision is not None:
        y = y * precision
    stored = share(sparse.csr_array(values.shape, dtype=y.dtype), y, indices, indptr)
    return StoredCells(stored, precision, centre=kept)


def _sliced_groups(block: Block, centre: Array, how: _How) -> Iterator[tuple[Cells, Index]]:
    """Groups of the rows of a sparse matrix, made dense slice by slice."""
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
        groups = _groups(rows, pattern, common, count, block.n_features, settings)
    by_row = np.empty(block.n_rows, np.intp)
    by_row[rows] = pattern
    for name, members in groups.items():
        most = settings.sparse_group_cells if name in ("holes", "stored") else settings.group_cells
        for some in _cut(members, block.n_features, most, settings):
            found = _dense_cells(name, block, mask[some], centre, some, by_row[some], width=settings.slab_features)
            yield found, some


def _few_cells(block: Block, mask: Mask, centre: Array, rows: Index) -> MaskedCells:
    """Cells of a small block, stored in double precision."""
    y = np.where(mask, block.values[rows] - centre, 0.0)
    seen, values = (np.ascontiguousarray(array.T, dtype=np.float64) for array in (mask, y))
    return MaskedCells(Dense(seen, "mask"), Dense(values, "values"), binary=True)


def _groups(
    rows: Index, pattern: Index, common: Mask, count: Index, n_features: int, settings: FormSettings
) -> dict[str, Index]:
    """Positions of the rows to be stored in each form, given their numbers of observed cells."""
    alike = common[pattern]
    seen = count[rows] / max(n_features, 1)
    few = settings.few if n_features >= settings.few_features else 0.0
    holes = ~alike & (seen > 1 - few)
    stored = ~alike & (seen < few)
    groups = {"holes": rows[holes], "stored": rows[stored], "masked": rows[~(alike | holes | stored)]}
    least = max(settings.own_rows, settings.own_share * rows.size)
    for name in ("holes", "stored"):  # too few for a form of their own
        if groups[name].size < least:
            groups["masked"] = np.sort(np.concatenate([groups["masked"], groups.pop(name)]))
    shared = rows[alike]
    return {"patterns": shared[np.argsort(pattern[alike], kind="stable")], **groups}


def _cut(members: Index, n_features: int, most_cells: int, settings: FormSettings) -> Iterator[Index]:
    """Cut rows into parts of about equal size, so that each has about ``most_cells`` cells."""
    most = int(np.clip(most_cells // max(n_features, 1), *settings.group_rows))
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
    """Collect the observed cells of dense rows into compressed rows."""
    row, column = np.nonzero(mask)
    kept, y = _kept_centre(values, centre), values[rows[row], column]
    y = y - centre[column] if kept is None else y
    pointers = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    return StoredCells(share(sparse.csr_array(mask.shape, dtype=y.dtype), y, column, pointers), centre=kept)


def _kept_centre(values: Any, centre: Array) -> Array | None:
    """Centre to subtract from values after their conversion; None for float64, from which it is subtracted at once."""
    return None if values.dtype == np.float64 else centre


def _dense_cells(  # noqa: PLR0913
    name: str, block: Block, mask: Mask, centre: Array, rows: Index, pattern: Index, *, width: int
) -> Cells:
    if name == "stored" and not block.is_sparse:
        return _gathered(block.values, mask, centre, rows)
    if block.precision is not None:
        omega = np.where(mask, _precision(block, rows), 0.0).T
        double = replace(block, values=block.values.astype(np.float64, copy=False))
        return MaskedCells.of(np.ascontiguousarray(omega), _turned(double, mask, centre, rows) * omega)
    kept = _kept_centre(block.values, centre)
    as_it_is = name == "holes" and kept is None and not block.is_sparse and block.values.flags.c_contiguous
    values = _deviations(block.values, mask, centre, rows).T if as_it_is else _turned(block, mask, centre, rows)
    if name == "stored":
        matrix = sparse.csr_array(mask.astype(block.values.dtype))
        matrix.data = values.T[mask]
        return StoredCells(matrix, centre=kept)
    if name == "holes":
        return Holes.of(mask, values, kept, width)
    if name == "patterns":
        _, first, local = np.unique(pattern, return_index=True, return_inverse=True)
        masks = np.ascontiguousarray(mask[first].T, dtype=np.float64)
        return Patterns.of(masks, values, local.astype(np.intp), kept)
    return MaskedCells.of(np.ascontiguousarray(mask.T).view(np.uint8), values, kept)


def _as_slice(rows: Index) -> Index | slice:
    """Positions as a slice if they are consecutive and ascending; rows sorted by pattern need not be."""
    first, last = int(rows[0]), int(rows[-1])
    in_order = last - first == rows.size - 1 and bool((rows[1:] > rows[:-1]).all())
    return slice(first, last + 1) if in_order else rows


def _deviations(values: Array, mask: Mask, centre: Array, rows: Index) -> Array:
    """Selected rows minus the centre, zero in missing cells: (b, d)."""
    out, step = np.empty((rows.size, centre.size)), max(2**15 // centre.size, 1)
    for start in range(0, rows.size, step):  # few rows at a time, so that they stay in cache
        some = slice(start, start + step)
        np.subtract(values[_as_slice(rows[some])], centre, out=out[some])
        out[some].reshape(-1)[np.flatnonzero(~mask[some])] = 0.0
    return out


def _turned(block: Block, mask: Mask, centre: Array, rows: Index) -> Any:
    """Selected rows minus the centre, zero in missing cells, transposed: (d, b).

    In float32, the rows as they are, with the centre in missing cells.
    """
    none = np.zeros(centre.size, block.values.dtype)
    shift, fill = (centre, none) if _kept_centre(block.values, centre) is None else (none, centre.astype(none.dtype))
    place = _as_slice(rows)
    if not block.is_sparse and block.values.flags.f_contiguous and isinstance(place, slice):
        out = block.values.T[:, place] - shift[:, None]
        np.copyto(out, fill[:, None], where=~mask.T)
        return out
    out = np.empty((block.n_features, rows.size), block.values.dtype)
    in_order, step = isinstance(place, slice), max(2**15 // max(block.n_features, 1), 16)
    for start in range(0, rows.size, step):  # few rows at a time, so that their columns stay in cache
        some = slice(start, start + step)
        values = block.values[rows[start] : rows[start] + len(rows[some])] if in_order else block.values[rows[some]]
        values = values.toarray() if block.is_sparse else values
        out[:, some] = np.where(mask[some], values - shift, fill).T
    return out


def _precision(block: Block, rows: Index) -> Array:
    if not block.is_sparse:
        return block.precision[rows]
    return with_data(block.values, block.precision)[rows].toarray()


def _recur(mask: Mask, glance: int) -> bool:
    """Whether patterns recur among about ``glance`` rows spread over the block."""
    if len(mask) < glance:
        return True
    some = mask[:: max(len(mask) // glance, 1)]
    return np.unique(np.packbits(some, axis=1), axis=0).shape[0] < 0.98 * len(some)


def patterns(mask: Mask, settings: FormSettings = FORM_SETTINGS, *, certain: bool) -> tuple[Index, Mask]:
    """Pattern number of each row (b,), and whether each pattern is shared by enough rows to be handled once.

    Unless ``certain``, a few rows are compared first; if none of them share a pattern, none are looked for.
    """
    if not (certain or _recur(mask, settings.glance)):
        return np.arange(len(mask)), np.zeros(len(mask), np.bool_)
    bits = np.packbits(mask, axis=1)
    wide = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    wide[:, : bits.shape[1]] = bits
    keys = mixed(wide.view(np.uint64).T)
    _, first, pattern, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    if not np.array_equal(bits, bits[first[pattern]]):  # two patterns share a key: very rare
        _, pattern, counts = np.unique(bits, axis=0, return_inverse=True, return_counts=True)
    return pattern.astype(np.intp), counts >= settings.common
