"""Many small symmetric matrices at once, each packed into a column.

A symmetric matrix of size q is stored as its q (q + 1) / 2 entries on and below the diagonal, and b
of them as an array (entries, b): the batch comes last, so that each step of a factorisation is one
operation along it, and so that the array can be the result, or the operand, of a matrix product.

Two orders are in use. *By rows*, (0,0), (1,0), (1,1), (2,0), ..., is the order of sums and of results. *By columns*,
(0,0), (1,0), ..., (q-1,0), (1,1), ..., is the order in which a factorisation reads a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isqrt
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.linalg.lapack import dposv

from probpca.scratch import Workspace, workspace

if TYPE_CHECKING:
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Sizes of batches, and what counts as rounding."""

    chunk_cells: int = 2**19  # entries of the factors of one chunk, which stay in a cache
    small_cells: int = 2**12  # entries so few that fewer calls matter more than memory
    few_rows: int = 8  # matrices, for each of their rows, that LAPACK factors sooner than steps along the batch
    pivot: float = 1e-14  # share of a diagonal entry below which what is left of it is rounding
    well_conditioned: float = 1e8  # size of entries, in units of what is added to the diagonal, without such pivots


BATCH = BatchSettings()


def packed_size(q: Any) -> Any:
    """Number of entries on and below the diagonal."""
    return q * (q + 1) // 2


@cache
def row_order(q: int) -> tuple[Index, Index]:
    """Rows and columns of the packed entries, by rows."""
    return np.tril_indices(q)


@cache
def by_columns(q: int) -> Index:
    """Positions, in the order by rows, of the entries in the order by columns."""
    columns, rows = np.triu_indices(q)
    return np.asarray(packed_size(rows) + columns)


@cache
def by_rows(q: int) -> Index:
    """Positions, in the order by columns, of the entries in the order by rows."""
    return np.argsort(by_columns(q))


@cache
def _whole(q: int) -> Index:
    """Positions of the entries of a whole matrix: (q, q)."""
    i, j = np.indices((q, q))
    return np.asarray(packed_size(np.maximum(i, j)) + np.minimum(i, j))


def pack(matrices: Array) -> Array:
    """Pack (..., q, q), by rows: (entries, ...)."""
    rows, columns = row_order(matrices.shape[-1])
    return np.moveaxis(matrices[..., rows, columns], -1, 0)


def unpack(packed: Array) -> Array:
    """The matrices themselves: (..., q, q)."""
    q = _size(packed)
    if packed.ndim == 1:
        return packed[_whole(q)]
    rows, columns = row_order(q)
    out = np.empty((*packed.shape[1:], q, q))
    entries = np.moveaxis(packed, 0, -1)
    out[..., rows, columns] = entries
    out[..., columns, rows] = entries
    return out


def identity(q: int) -> Array:
    """The identity: (q (q + 1) / 2, 1)."""
    return pack(np.eye(q))[:, None]


def multiply(packed: Array, vectors: Array) -> Array:
    """A v for each matrix and its vector, (entries, 1 or b) and (q, b): (q, b)."""
    q = vectors.shape[0]
    if packed.shape[1] == 1:
        return unpack(packed[:, 0]) @ vectors
    if packed.size <= BATCH.small_cells:
        return np.einsum("ijb,jb->ib", packed[_whole(q)], vectors)
    out = np.zeros(vectors.shape)
    for entry, i, j in zip(packed, *row_order(q), strict=True):
        out[i] += entry * vectors[j]
        if i != j:
            out[j] += entry * vectors[i]
    return out


def traces(left: Array, right: Array) -> Array:
    """The trace of A B for each pair of matrices, both packed by rows: (b,)."""
    return np.einsum("pb,pb->b", left, doubled_sides(right))


def doubled_sides(packed: Array) -> Array:
    """Entries such that their products with packed ones sum to a trace: those beside the diagonal count twice."""
    rows, columns = row_order(_size(packed))
    return packed * np.where(rows == columns, 1.0, 2.0)[:, None]


def outer_products(vectors: Array) -> Array:
    """Entries of v v' for each vector, packed by rows: (q (q + 1) / 2, b)."""
    rows, columns = row_order(len(vectors))
    return vectors[rows] * vectors[columns]


def turn(packed: Array, basis: Array) -> Array:
    """B'M B of every matrix, packed by rows as it is: one product of the entries."""
    if packed.shape[1] == 1:
        return pack(basis.T @ unpack(packed[:, 0]) @ basis)[:, None]
    i, j = row_order(len(basis))
    outer = basis[np.ix_(i, i)] * basis[np.ix_(j, j)] + basis[np.ix_(j, i)] * basis[np.ix_(i, j)]
    return (outer * np.where(i == j, 0.5, 1.0)[:, None]).T @ packed


def scaled_outer_products(left: Array, right: Array) -> Array:
    """Entries of l r' for each pair of proportional vectors, packed by columns: (q (q + 1) / 2, b)."""
    q, b = left.shape
    out, start = np.empty((packed_size(q), b)), 0
    for j in range(q):
        np.multiply(left[j:], right[j], out=out[start : start + q - j])
        start += q - j
    return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """M = L L' of every matrix, and what follows from it."""

    root: Array  # L^{-1}, and below it the solution x = M^{-1} h if there is a right-hand side: (q or q + 1, q, b)
    half: Array  # L^{-1} h, whose squares sum to h' M^{-1} h; means nothing without an h: (q, b)
    logdet: Array  # log |M|: (b,)

    @property
    def solution(self) -> Array:
        """M^{-1} h: (q, b)."""
        return self.root[-1]


def solve(packed: Array, right: Array) -> Array:
    """M^{-1} h for each positive matrix, packed by rows, and its right-hand side: (q, b)."""
    q, b = right.shape
    if b <= BATCH.few_rows and (few := _solve_few(packed, right)) is not None:
        return few
    out = np.empty((q, b))
    with workspace() as work:
        for chunk in chunks(b, q):
            L, inverse_pivots = _cholesky(_reordered(packed[:, chunk], work), right[:, chunk], 0.0, work)
            x = out[:, chunk]
            x[:] = L[q]
            for j in reversed(range(q)):  # L' x = L^{-1} h, from below
                x[j] -= np.einsum("cb,cb->b", L[j + 1 : q, j], x[j + 1 :])
                x[j] *= inverse_pivots[j]
    return out


def _solve_few(packed: Array, right: Array) -> Array | None:
    """Solve for few matrices, one after the other, by LAPACK; None if a pivot is nothing but rounding."""
    M, out = unpack(packed), np.empty(right.shape)
    for j, matrix in enumerate(M):
        L, out[:, j], failed = dposv(matrix, right[:, j], lower=1)
        if failed or (np.square(L.diagonal()) <= BATCH.pivot * matrix.diagonal()).any():
            return None
    return out


def inverse(packed: Array) -> Array:
    """M^{-1} for each positive matrix, packed by rows as it is."""
    out = np.empty(packed.shape)
    with workspace() as work:
        for chunk in chunks(packed.shape[1], _size(packed)):
            inner_products(factor(_reordered(packed[:, chunk], work), work=work).root, out[:, chunk])
    return out


def log_determinants(packed: Array) -> Array:
    """The log-determinant of each positive matrix, packed by rows: (b,)."""
    out = np.empty(packed.shape[1])
    with workspace() as work:
        for chunk in chunks(packed.shape[1], _size(packed)):
            inverse_pivots = _cholesky(_reordered(packed[:, chunk], work), None, 0.0, work)[1]
            out[chunk] = -2.0 * np.log(inverse_pivots).sum(axis=0)
    return out


def _size(packed: Array) -> int:
    """Size q of matrices with q (q + 1) / 2 entries."""
    return isqrt(2 * len(packed))


def _reordered(packed: Array, work: Workspace) -> Array:
    """Entries by columns of matrices packed by rows."""
    if packed.size <= BATCH.small_cells:
        return packed[by_columns(_size(packed))]
    out = work.array("by columns", packed.shape)
    for entry, place in zip(out, by_columns(_size(packed)), strict=True):
        entry[:] = packed[place]
    return out


def chunks(b: int, q: int) -> list[slice]:
    """Parts of a batch whose factors stay in a cache."""
    step = max(BATCH.chunk_cells // (q * (q + 1)), 16)
    return [slice(start, min(start + step, b)) for start in range(0, b, step)]


def factor(matrices: Array, right: Array | None = None, add: float = 0.0, work: Workspace | None = None) -> Factored:
    """Cholesky factors of M + ``add`` I, packed by columns and overwritten; in a workspace if one is given."""
    q, b = _size(matrices), matrices.shape[1]
    if q == 2 and right is not None and matrices.size <= BATCH.small_cells:
        return _factor_pairs(matrices, right, add)
    few = b <= BATCH.few_rows * q
    if few and np.abs(matrices).max(initial=0.0) < BATCH.well_conditioned * add:
        return _factor_few(matrices, right, add)
    L, inverse_pivots = _cholesky(matrices, right, add, work or Workspace())
    root = inverse_root(L, inverse_pivots, work)
    return Factored(root, L[-1], -2.0 * np.log(inverse_pivots).sum(axis=0))


def _factor_pairs(matrices: Array, right: Array, add: float) -> Factored:
    """Factors of some matrices of two rows, written out: two components are what people look at first."""
    (a, b, c), (h, k) = matrices, right
    a += add
    c += add
    inner = 1.0 / np.sqrt(a)
    side = b * inner
    outer = 1.0 / np.sqrt(np.maximum(c - side * side, BATCH.pivot * c))
    root, half = np.empty((3, 2, b.size)), np.empty((2, b.size))
    np.multiply(h, inner, out=half[0])
    np.multiply(k - side * half[0], outer, out=half[1])
    root[0, 0], root[0, 1], root[1, 1] = inner, 0.0, outer
    np.multiply(side * inner, -outer, out=root[1, 0])
    np.multiply(half[1], outer, out=root[2, 1])
    np.multiply(half[0] - side * root[2, 1], inner, out=root[2, 0])
    return Factored(root, half, -2.0 * (np.log(inner) + np.log(outer)))


def _factor_few(matrices: Array, right: Array | None, add: float) -> Factored:
    """Factors of few positive matrices M + ``add`` I, by LAPACK: fewer calls than steps along the batch."""
    q, b = _size(matrices), matrices.shape[1]
    M = matrices[by_rows(q)[_whole(q)]]  # (q, q, b)
    M[np.arange(q), np.arange(q)] += add
    L = np.linalg.cholesky(M.transpose(2, 0, 1))
    G = np.linalg.inv(L)
    root = np.empty((q if right is None else q + 1, q, b))
    root[:q] = G.transpose(1, 2, 0)
    half = root[q - 1]
    if right is not None:
        half = np.einsum("ijb,jb->ib", root[:q], right)
        np.einsum("ijb,ib->jb", root[:q], half, out=root[q])
    return Factored(root, half, 2.0 * np.log(L.diagonal(axis1=1, axis2=2)).sum(axis=1))


def _cholesky(matrices: Array, right: Array | None, add: float, work: Workspace) -> tuple[Array, Array]:
    """L and, below it, L^{-1} h if there is an h; and the inverse of its diagonal, which it lacks: (q, b).

    Left-looking, so that a column is written once. A pivot that is nothing but rounding is replaced
    by the smallest that is not: the answer is then that of a matrix as near as makes no difference.
    """
    q, b = _size(matrices), matrices.shape[1]
    r = q if right is None else q + 1
    L, inverse_pivots = work.array("cholesky", (r, q, b)), work.array("pivots", (q, b))
    products = work.array("cholesky products", (r, b))
    start = 0
    for j in range(q):
        column, start = matrices[start : start + q - j], start + q - j
        column[0] += add
        h = None if right is None else right[j]
        if j:
            least = BATCH.pivot * column[0]
            found = np.einsum("icb,cb->ib", L[j:, :j], L[j, :j], out=products[: r - j])
            column -= found[: q - j]
            np.maximum(column[0], least, out=column[0])
            h = None if h is None else np.subtract(h, found[-1], out=found[-1])
        np.sqrt(column[0], out=column[0])
        np.divide(1.0, column[0], out=inverse_pivots[j])
        np.multiply(column[1:], inverse_pivots[j], out=L[j + 1 : q, j])
        if h is not None:
            np.multiply(h, inverse_pivots[j], out=L[q, j])
    return L, inverse_pivots


def inverse_root(L: Array, inverse_pivots: Array, work: Workspace | None = None) -> Array:
    """L^{-1}; if L has one row u more than columns, the solution of L' x = u stands below it."""
    q = len(inverse_pivots)
    G = np.empty(L.shape) if work is None else work.array("inverse root", L.shape)
    negative = -inverse_pivots
    for i in range(q):
        G[i, i] = inverse_pivots[i]
        if i:
            np.einsum("cb,cjb->jb", L[i, :i], G[:i, :i], out=G[i, :i])
            G[i, :i] *= negative[i]
        G[:i, i] = 0.0
    if len(L) > q:
        np.einsum("cb,cjb->jb", L[q], G[:q], out=G[q])
    return G


def inner_products(root: Array, out: Array) -> Array:
    """G'G of every matrix G (r, q, b) whose first q rows are lower triangular, packed by rows."""
    start = 0
    for a in range(root.shape[1]):
        np.einsum("cb,cjb->jb", root[a:, a], root[a:, : a + 1], out=out[start : start + a + 1])
        start += a + 1
    return out


def turn_bordered(packed: Array, rotation: Array) -> Array:
    """B'M B of every matrix (q + 1, q + 1), with B = diag(R, 1): the border is rotated along, its corner stays."""
    basis = np.eye(len(rotation) + 1)
    basis[:-1, :-1] = rotation
    return turn(packed, basis)
