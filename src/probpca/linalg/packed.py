"""Many small symmetric matrices at once, each packed into a column.

A symmetric matrix of size q is stored as its q (q + 1) / 2 entries on and below the diagonal, and b
of them as an array (entries, b): the batch comes last, so that each step of a factorisation is one
operation along it, and so that the array can be the result, or the operand, of a matrix product.

Two orders are in use. *By rows*: (0,0), (1,0), (1,1), (2,0), ...; that of sums and of results.
*Bordered, by columns*: (0,0), (1,0), ..., (q-1,0), h_0, (1,1), ...: what the factorisation reads,
a right-hand side h being carried along as one more row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.scratch import scratch

if TYPE_CHECKING:
    from probpca.typing import Array, Index

PIVOT = 1e-14
"""Share of a diagonal entry below which what is left of it is rounding."""
CHUNK_CELLS = 2**19


def packed_size(q: Any) -> Any:
    """Number of entries on and below the diagonal."""
    return q * (q + 1) // 2


@cache
def row_order(q: int) -> tuple[Index, Index]:
    """Rows and columns of the packed entries, by rows."""
    return np.tril_indices(q)


@cache
def bordered_order(q: int) -> tuple[Index, Index]:
    """Rows and columns of the packed entries with their border, row q, by columns."""
    columns, rows = np.triu_indices(q + 1)
    return rows[:-1], columns[:-1]


@cache
def _from_rows_to_border(q: int) -> Index:
    """Where the bordered order finds its entries in [packed by rows; border]."""
    rows, columns = bordered_order(q)
    return np.where(rows < q, packed_size(rows) + columns, packed_size(q) + columns)


def pack(matrices: Array) -> Array:
    """Pack (..., q, q), by rows: (entries, ...)."""
    rows, columns = row_order(matrices.shape[-1])
    return np.moveaxis(matrices[..., rows, columns], -1, 0)


def unpack(packed: Array) -> Array:
    """The matrices themselves: (..., q, q)."""
    q = int(np.sqrt(2 * packed.shape[0]))
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
    rows, columns = row_order(int(np.sqrt(2 * len(packed))))
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


@final
@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """M = L L' of every matrix, and what follows from it."""

    root: Array  # L^{-1}, with the solution x = M^{-1} h as one more row: (q + 1, q, b)
    half: Array  # L^{-1} h, whose squares sum to h' M^{-1} h: (q, b)
    logdet: Array  # log |M|: (b,)

    @property
    def solution(self) -> Array:
        """M^{-1} h: (q, b)."""
        return self.root[-1]


def solve(packed: Array, right: Array) -> Array:
    """M^{-1} h for each positive matrix, packed by rows, and its right-hand side: (q, b)."""
    q, b = right.shape
    out = np.empty((q, b))
    for chunk in chunks(b, q):
        L, inverse_pivots = _cholesky(_bordered(packed[:, chunk], right[:, chunk]), q)
        part = out[:, chunk]
        part[:] = L[q]
        for j in reversed(range(q)):  # L' x = L^{-1} h, from below
            part[j] -= np.einsum("cb,cb->b", L[j + 1 : q, j], part[j + 1 :])
            part[j] *= inverse_pivots[j]
    return out


def inverse(packed: Array) -> Array:
    """M^{-1} for each positive matrix, packed by rows as it is."""
    b = packed.shape[1]
    q = int(np.sqrt(2 * packed.shape[0]))
    out = np.empty(packed.shape)
    nothing = np.zeros((q, b))
    for chunk in chunks(b, q):
        inner_products(factor(_bordered(packed[:, chunk], nothing[:, chunk]), q).root[:q], out[:, chunk])
    return out


def log_determinants(packed: Array) -> Array:
    """The log-determinant of each positive matrix, packed by rows: (b,)."""
    b = packed.shape[1]
    q = int(np.sqrt(2 * packed.shape[0]))
    out = np.empty(b)
    nothing = np.zeros((q, b))
    for chunk in chunks(b, q):
        inverse_pivots = _cholesky(_bordered(packed[:, chunk], nothing[:, chunk]), q)[1]
        out[chunk] = -2.0 * np.log(inverse_pivots).sum(axis=0)
    return out


def _bordered(packed: Array, right: Array) -> Array:
    """Packed by rows to bordered, by columns, in this thread's scratch."""
    q, k = len(right), len(packed)
    out = scratch("bordered", (k + q, packed.shape[1]), np.float64)
    for entry, place in zip(out, _from_rows_to_border(q), strict=True):
        entry[:] = packed[place] if place < k else right[place - k]
    return out


def chunks(b: int, q: int) -> list[slice]:
    """Parts of a batch whose factors stay in a cache."""
    step = max(CHUNK_CELLS // (q * (q + 1)), 16)
    return [slice(start, min(start + step, b)) for start in range(0, b, step)]


def factor(bordered: Array, q: int, add: float = 0.0) -> Factored:
    """Cholesky factors of M + ``add`` I, in this thread's scratch; ``bordered`` is overwritten."""
    L, inverse_pivots = _cholesky(bordered, q, add)
    root = inverse_root(L, inverse_pivots)
    return Factored(root, L[q], -2.0 * np.log(inverse_pivots).sum(axis=0))


def _cholesky(bordered: Array, q: int, add: float = 0.0) -> tuple[Array, Array]:
    """L and, below it, L^{-1} h: (q + 1, q, b); and the inverse of its diagonal, which it lacks: (q, b).

    Left-looking, so that a column is written once. A pivot that is nothing but rounding is replaced
    by the smallest that is not: the answer is then that of a matrix as near as makes no difference.
    """
    b = bordered.shape[1]
    L, inverse_pivots = scratch("cholesky", (q + 1, q, b), np.float64), scratch("pivots", (q, b), np.float64)
    products = scratch("cholesky products", (q + 1, b), np.float64)
    start = 0
    for j in range(q):
        column = bordered[start : start + q + 1 - j]
        start += q + 1 - j
        column[0] += add
        if j:
            least = PIVOT * column[0]
            column -= np.einsum("icb,cb->ib", L[j:, :j], L[j, :j], out=products[: q + 1 - j])
            np.maximum(column[0], least, out=column[0])
        np.sqrt(column[0], out=column[0])
        np.divide(1.0, column[0], out=inverse_pivots[j])
        np.multiply(column[1:], inverse_pivots[j], out=L[j + 1 :, j])
    return L, inverse_pivots


def inverse_root(L: Array, inverse_pivots: Array) -> Array:
    """L^{-1}, and below it the solution of L' x = u, u being the last row of L."""
    q, b = inverse_pivots.shape
    G = scratch("inverse root", (q + 1, q, b), np.float64)
    negative = scratch("cholesky products", (b,), np.float64)
    for i in range(q):
        G[i, i] = inverse_pivots[i]
        if i:
            np.einsum("cb,cjb->jb", L[i, :i], G[:i, :i], out=G[i, :i])
            G[i, :i] *= np.negative(inverse_pivots[i], out=negative)
        G[:i, i] = 0.0
    np.einsum("cb,cjb->jb", L[q], G[:q], out=G[q])
    return G


def inner_products(root: Array, out: Array) -> Array:
    """G'G of every matrix G (r, q, b) whose first q rows are lower triangular, packed by rows."""
    start = 0
    for a in range(root.shape[1]):
        np.einsum("cb,cjb->jb", root[a:, a], root[a:, : a + 1], out=out[start : start + a + 1])
        start += a + 1
    return out
