"""Batches of small symmetric matrices, each packed into a column.

A symmetric matrix of size q is stored as its q (q + 1) / 2 entries on and below the diagonal, and a batch of b
matrices as an array (entries, b). The batch axis comes last, so that each step of a factorisation is one operation
along it, and so that the array can be the result, or an operand, of a matrix product.

Two orders are in use. *By rows*, (0,0), (1,0), (1,1), (2,0), ..., is the order of sums and results. *By columns*,
(0,0), (1,0), ..., (q-1,0), (1,1), ..., is the order in which a factorisation reads a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isqrt
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.scratch import Workspace, workspace

if TYPE_CHECKING:
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Batch sizes and tolerances of the factorisations."""

    chunk_cells: int = 2**19  # entries of the factors of one chunk, so that they stay in cache
    small_cells: int = 2**12  # below this number of entries, fewer calls matter more than memory
    small_products: int = 2**19  # up to this number of entries, whole matrices are multiplied
    small_turns: int = 2**14  # up to this number of entries, whole matrices change their basis
    few_rows: int = (
        8  # up to this many matrices per row of one, LAPACK factorises each faster than batched steps do all
    )
    few_solved: int = 64  # up to this many matrices, LAPACK solves for each faster than batched steps do for all
    pivot: float = 1e-14  # relative size below which a pivot is only rounding error
    well_conditioned: float = 1e8  # largest entry, relative to ``add``, for which no pivot can be rounding error


BATCH = BatchSettings()


def packed_size(q: Any) -> Any:
    """Number of entries on and below the diagonal of a matrix of size q, q (q + 1) / 2."""
    return q * (q + 1) // 2


@cache
def row_order(q: int) -> tuple[Index, Index]:
    """Row and column indices of the entries packed by rows."""
    return np.tril_indices(q)


@cache
def by_columns(q: int) -> Index:
    """Index that reorders entries packed by rows into the order by columns."""
    columns, rows = np.triu_indices(q)
    return np.asarray(packed_size(rows) + columns)


@cache
def by_rows(q: int) -> Index:
    """Index that reorders entries packed by columns into the order by rows."""
    return np.argsort(by_columns(q))


@cache
def _whole(q: int) -> Index:
    """Index that unpacks entries packed by rows into a full matrix: (q, q)."""
    i, j = np.indices((q, q))
    return np.asarray(packed_size(np.maximum(i, j)) + np.minimum(i, j))


def pack(matrices: Array) -> Array:
    """Pack symmetric matrices (..., q, q) by rows into (entries, ...)."""
    rows, columns = row_order(matrices.shape[-1])
    return np.moveaxis(matrices[..., rows, columns], -1, 0)


def unpack(packed: Array) -> Array:
    """Unpack entries packed by rows, (entries, ...), into full matrices (..., q, q)."""
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
    """Packed identity matrix of size q: (q (q + 1) / 2, 1)."""
    return pack(np.eye(q))[:, None]


def multiply(packed: Array, vectors: Array) -> Array:
    """Product A v of each matrix (entries, 1 or b), packed by rows, with its vector (q, b): (q, b)."""
    q = vectors.shape[0]
    if packed.shape[1] == 1:
        return unpack(packed[:, 0]) @ vectors
    if packed.size <= BATCH.small_products:
        return np.einsum("ijb,jb->ib", packed[_whole(q)], vectors)
    out = np.zeros(vectors.shape)
    for entry, i, j in zip(packed, *row_order(q), strict=True):
        out[i] += entry * vectors[j]
        if i != j:
            out[j] += entry * vectors[i]
    return out


def traces(left: Array, right: Array) -> Array:
    """Trace of A B for each pair of matrices, both packed by rows: (b,)."""
    return np.einsum("pb,pb->b", left, doubled_sides(right))


def doubled_sides(packed: Array) -> Array:
    """Double the off-diagonal entries, so that the inner product with another packed matrix is the trace of A B."""
    rows, columns = row_order(_size(packed))
    return packed * np.where(rows == columns, 1.0, 2.0)[:, None]


def outer_products(vectors: Array) -> Array:
    """Outer product v v' of each vector (q, b), packed by rows: (q (q + 1) / 2, b)."""
    rows, columns = row_order(len(vectors))
    return vectors[rows] * vectors[columns]


def turn(packed: Array, basis: Array) -> Array:
    """Change of basis B'M B of every matrix packed by rows; for many matrices as one matrix product of entries."""
    if packed.shape[1] == 1:
        return pack(basis.T @ unpack(packed[:, 0]) @ basis)[:, None]
    q, b = len(basis), packed.shape[1]
    if packed.size <= BATCH.small_turns:
        half = (basis.T @ packed[_whole(q)].reshape(q, q * b)).reshape(q, q, b)
        return np.matmul(basis.T, half)[row_order(q)]
    i, j = row_order(q)
    outer = basis[np.ix_(i, i)] * basis[np.ix_(j, j)] + basis[np.ix_(j, i)] * basis[np.ix_(i, j)]
    return (outer * np.where(i == j, 0.5, 1.0)[:, None]).T @ packed


def scaled_outer_products(left: Array, right: Array) -> Array:
    """Outer product l r' of each pair of proportional vectors, packed by columns: (q (q + 1) / 2, b)."""
    q, b = left.shape
    out, start = np.empty((packed_size(q), b)), 0
    for j in range(q):
        np.multiply(left[j:], right[j], out=out[start : start + q - j])
        start += q - j
    return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """Cholesky factors M = L L' of a batch of matrices, with solutions and log-determinants."""

    root: Array  # L^{-1}, followed by the row x = M^{-1} h if a right-hand side h was given: (q or q + 1, q, b)
    half: Array  # L^{-1} h, whose squares sum to h' M^{-1} h; undefined without h: (q, b)
    logdet: Array  # log |M|: (b,)

    @property
    def solution(self) -> Array:
        """Solution M^{-1} h: (q, b)."""
        return self.root[-1]


def solve(packed: Array, right: Array) -> Array:
    """Solution M^{-1} h for each positive definite matrix, packed by rows, and its right-hand side: (q, b)."""
    q, b = right.shape
    if b <= BATCH.few_solved and (few := _solve_few(packed, right)) is not None:
        return few
    out = np.empty((q, b))
    with workspace() as work:
        for chunk in chunks(b, q):
            L, inverse_pivots = _cholesky(_reordered(packed[:, chunk], work), right[:, chunk], 0.0, work)
            x = out[:, chunk]
            x[:] = L[q]
            for j in reversed(range(q)):  # back substitution, L' x = L^{-1} h
                x[j] -= np.einsum("cb,cb->b", L[j + 1 : q, j], x[j + 1 :])
                x[j] *= inverse_pivots[j]
    return out


def _solve_few(packed: Array, right: Array) -> Array | None:
    """Solve for a few matrices with LAPACK; None if a pivot is only rounding error."""
    M = unpack(packed)
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return None
    if (np.square(np.diagonal(L, axis1=1, axis2=2)) <= BATCH.pivot * np.diagonal(M, axis1=1, axis2=2)).any():
        return None
    half = np.linalg.solve(L, right.T[:, :, None])
    return np.asarray(np.linalg.solve(np.swapaxes(L, 1, 2), half)[:, :, 0].T)


def sample(packed: Array, right: Array, noise: Array) -> Array:
    """Draws from N(M^{-1} h, M^{-1}) for each positive definite matrix, packed by rows, and h (q, b): (k, q, b).

    They solve L' x = L^{-1} h + e, with M = L L' and standard normal numbers e, the ``noise`` (k, q, b).
    """
    q, b = right.shape
    out = np.empty(noise.shape)
    with workspace() as work:
        for chunk in chunks(b, q):
            L, inverse_pivots = _cholesky(_reordered(packed[:, chunk], work), right[:, chunk], 0.0, work)
            x = np.add(L[q], noise[:, :, chunk], out=out[:, :, chunk])
            for j in reversed(range(q)):
                x[:, j] -= np.einsum("cb,kcb->kb", L[j + 1 : q, j], x[:, j + 1 :])
                x[:, j] *= inverse_pivots[j]
    return out


def inverse(packed: Array) -> Array:
    """Inverse of each positive definite matrix; argument and result are packed by rows."""
    out = np.empty(packed.shape)
    with workspace() as work:
        for chunk in chunks(packed.shape[1], _size(packed)):
            inner_products(factor(_reordered(packed[:, chunk], work), work=work).root, out[:, chunk])
    return out


def log_determinants(packed: Array) -> Array:
    """Log-determinant of each positive definite matrix, packed by rows: (b,)."""
    out = np.empty(packed.shape[1])
    with workspace() as work:
        for chunk in chunks(packed.shape[1], _size(packed)):
            inverse_pivots = _cholesky(_reordered(packed[:, chunk], work), None, 0.0, work)[1]
            out[chunk] = -2.0 * np.log(inverse_pivots).sum(axis=0)
    return out


def all_zero_or_definite(packed: Array, rounding: float = 1e-9) -> bool:
    """Whether each matrix, packed by rows, is zero or positive definite, up to ``rounding`` of a unit diagonal.

    Subnormal numbers on the diagonal, whose inverses may be infinite, count as zero.
    """
    q = _size(packed)
    some = packed[:, np.flatnonzero(packed.any(axis=0))]
    diagonal = some[packed_size(np.arange(1, q + 1)) - 1]
    if not (diagonal >= np.finfo(np.float64).tiny).all():
        return False
    try:
        for chunk in chunks(some.shape[1], q):
            scale = 1.0 / np.sqrt(diagonal[:, chunk]).T  # (b, q)
            np.linalg.cholesky(unpack(some[:, chunk]) * scale[:, :, None] * scale[:, None, :] + rounding * np.eye(q))
    except np.linalg.LinAlgError:
        return False
    return True


def _size(packed: Array) -> int:
    """Size q of packed matrices with q (q + 1) / 2 entries."""
    return isqrt(2 * len(packed))


def _reordered(packed: Array, work: Workspace) -> Array:
    """Convert matrices packed by rows to the order by columns."""
    if packed.size <= BATCH.small_cells:
        return packed[by_columns(_size(packed))]
    out = work.array("by columns", packed.shape)
    for entry, place in zip(out, by_columns(_size(packed)), strict=True):
        entry[:] = packed[place]
    return out


def chunks(b: int, q: int) -> list[slice]:
    """Slices of a batch of b matrices of size q whose factors stay in cache."""
    step = max(BATCH.chunk_cells // (q * (q + 1)), 16)
    return [slice(start, min(start + step, b)) for start in range(0, b, step)]


def factor(matrices: Array, right: Array | None = None, add: float = 0.0, work: Workspace | None = None) -> Factored:
    """Cholesky factors of M + ``add`` I; ``matrices``, packed by columns, are overwritten.

    With a workspace, the factors are stored in it and are valid until it is used again.
    """
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
    """Cholesky factors of 2 x 2 matrices, written out: two components are a frequent case."""
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
    """Cholesky factors of a few positive definite matrices M + ``add`` I, by LAPACK."""
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
    """Return L without its diagonal, followed by the row L^{-1} h if h is given, and the inverse diagonal (q, b).

    Left-looking, so that each column is written once. A pivot that is only rounding error is raised to the
    smallest meaningful value, which solves for a matrix that is equal up to rounding.
    """
    q, b = _size(matrices), matrices.shape[1]
    if add == 0:
        _raise_diagonals(matrices)
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


def _raise_diagonals(matrices: Array) -> None:
    """Raise diagonal entries that rounding made zero or negative to the smallest meaningful value, in place."""
    q = _size(matrices)
    place = np.cumsum(np.arange(q + 1, 1, -1)) - q - 1  # of the diagonal, packed by columns
    diagonal = matrices[place]
    if not (diagonal > 0).all():
        least = BATCH.pivot * diagonal.max(axis=0)
        matrices[place] = np.where(diagonal > 0, diagonal, np.maximum(least, np.finfo(np.float64).tiny))


def inverse_root(L: Array, inverse_pivots: Array, work: Workspace | None = None) -> Array:
    """Inverse of lower triangular matrices L given the inverse of their diagonals, (q, q, b).

    If L has an additional last row u, the solution x of L' x = u is appended as a last row.
    """
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
    """Write G'G, packed by rows, of every matrix G (r, q, b) whose first q rows are lower triangular to ``out``."""
    start = 0
    for a in range(root.shape[1]):
        np.einsum("cb,cjb->jb", root[a:, a], root[a:, : a + 1], out=out[start : start + a + 1])
        start += a + 1
    return out


def turn_bordered(packed: Array, rotation: Array) -> Array:
    """Change of basis B'M B of every matrix (q + 1, q + 1), with B = diag(R, 1) and R a rotation (q, q)."""
    basis = np.eye(len(rotation) + 1)
    basis[:-1, :-1] = rotation
    return turn(packed, basis)
