"""Positive definite block-tridiagonal matrices with small blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.linalg.lapack import dpbtrf, dpbtrs, dtbtrs

from probpca.cached_property import cached_property
from probpca.linalg.packed import inverse_root, row_order

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.typing import Array, Index


class InverseBlocks(NamedTuple):
    """Diagonal and first off-diagonal blocks of the inverse of a block-tridiagonal matrix."""

    diagonal: Array  # blocks (t, t): (q, q, n)
    beside: Array  # blocks (t, t + 1); zero where t and t + 1 are not linked: (q, q, n)


@final
@dataclass(frozen=True, eq=False)
class BlockTridiagonal:
    """Cholesky factor of a block-tridiagonal M = L L' with n diagonal blocks of size q, computed in O(n q^3)."""

    band: Array  # L in banded storage, each column from the diagonal down: (n, q, 2 q)

    @classmethod
    def factor(cls, diagonal: Array, below: Array, touching: npt.NDArray[np.bool_]) -> BlockTridiagonal | None:
        """Factor the matrix with diagonal blocks (entries, n), packed by rows, and one common block below each.

        The block below is zero where ``touching`` is false. Returns None if the matrix is not positive definite.
        """
        n, q = diagonal.shape[1], len(below)
        band = np.zeros((n, q, 2 * q))
        for entry, i, j in zip(diagonal, *row_order(q), strict=True):
            band[:, j, i - j] = entry
        for j in range(q):
            band[:, j, q - j : 2 * q - j] = below[:, j]
        alone = np.append(np.flatnonzero(~touching), n - 1)
        for j in range(q):
            band[alone, j, q - j :] = 0.0
        factored, failed = dpbtrf(band.reshape(n * q, 2 * q).T, lower=1, overwrite_ab=1)
        return None if failed else cls(factored.T.reshape(n, q, 2 * q))

    @property
    def pivots(self) -> Array:
        """Diagonal of L: (n, q)."""
        return self.band[:, :, 0]

    @property
    def logdet(self) -> float:
        """Log-determinant of M."""
        return 2.0 * float(np.log(self.pivots).sum())

    @property
    def _columns(self) -> Array:
        n, q, width = self.band.shape
        return self.band.reshape(n * q, width).T

    def solve(self, right: Array, many: int = 32) -> Array:
        """Solution M^{-1} h for one right-hand side (n, q) or several (k, n, q).

        From ``many`` right-hand sides on, a loop over blocks is faster than LAPACK's banded solver and is used.
        """
        k = len(right) if right.ndim == 3 else 1
        if k >= many:
            return self._solve_many(right)
        found, _ = dpbtrs(self._columns, right.reshape(k, -1).T, lower=1)
        return found.T.reshape(right.shape)

    def _solve_many(self, right: Array) -> Array:
        """Solve by block substitution for all right-hand sides at once."""
        n = len(self.band)
        root, below = (np.ascontiguousarray(np.moveaxis(blocks, -1, 0)) for blocks in self._blocks)  # (n, q, q)
        turned = np.swapaxes(root, 1, 2)
        down, up = root[1:] @ below[:-1], turned @ np.swapaxes(below, 1, 2)
        x = root @ np.ascontiguousarray(right.transpose(1, 2, 0))  # (n, q, k)
        for t in range(1, n):
            x[t] -= down[t - 1] @ x[t - 1]
        x = turned @ x
        for t in range(n - 2, -1, -1):
            x[t] -= up[t] @ x[t + 1]
        return np.ascontiguousarray(x.transpose(2, 0, 1))

    def backward(self, right: Array) -> Array:
        """Solution L'^{-1} h for several right-hand sides: (k, n, q)."""
        k = len(right)
        found, _ = dtbtrs(self._columns, right.reshape(k, -1).T, uplo="L", trans="T")
        return np.ascontiguousarray(found.T).reshape(right.shape)

    @cached_property
    def diagonal_roots(self) -> Array:
        """Diagonal blocks of L: (q, q, n)."""
        n, q, _ = self.band.shape
        out = np.zeros((q, q, n))
        for j in range(q):
            out[j:, j] = self.band[:, j, : q - j].T
        return out

    @cached_property
    def _blocks(self) -> tuple[Array, Array]:
        """Blocks L_tt^{-1} and L_{t+1,t}: (q, q, n) each."""
        n, q, _ = self.band.shape
        below = np.empty((q, q, n))
        for j in range(q):
            below[:, j] = self.band[:, j, q - j : 2 * q - j].T
        return inverse_root(self.diagonal_roots, 1.0 / self.pivots.T), below

    def last_roots(self, ends: Index) -> Array:
        """Square roots of the diagonal blocks of the inverse at blocks with no link to the next: (k, q, q)."""
        roots = np.moveaxis(self.diagonal_roots[:, :, ends], -1, 0)
        return np.swapaxes(np.linalg.inv(roots), 1, 2)

    def inverse_blocks(self) -> InverseBlocks:
        r"""Diagonal and first off-diagonal blocks of the inverse.

        .. math::
            \Sigma_t = (L_{tt} L_{tt}^\top)^{-1} + G_t \Sigma_{t+1} G_t^\top, \qquad
            G_t = -L_{tt}^{-\top} L_{t+1,t}^\top, \qquad \Sigma_{t,t+1} = G_t \Sigma_{t+1}

        Every term is a square, so that the blocks stay symmetric and positive definite.
        """
        root, below = self._blocks
        gain = -np.einsum("cin,jcn->ijn", root, below)
        return accumulated(gain, np.einsum("cin,cjn->ijn", root, root))


def solve_bidiagonal(gain: Array, right: Array) -> Array:
    """Solve x_t = G_t x_{t-1} + r_t with x_1 = r_1, for gains (n, q, q): (n, q)."""
    n, q = right.shape
    band = np.zeros((n, q, 2 * q))
    for j in range(q):
        band[:-1, j, q - j : 2 * q - j] = -gain[1:, :, j]
    found, _ = dtbtrs(band.reshape(n * q, 2 * q).T, right.reshape(-1, 1), uplo="L", diag="U")
    return found.reshape(n, q)


def accumulated(gain: Array, own: Array) -> InverseBlocks:
    """Blocks Sigma_t = S_t + G_t Sigma_{t+1} G_t' and the off-diagonal blocks G_t Sigma_{t+1}."""
    diagonal = accumulate(gain, own)
    following = np.zeros_like(diagonal)
    following[:, :, :-1] = diagonal[:, :, 1:]
    return InverseBlocks(diagonal, times(gain, following))


def times(a: Array, b: Array) -> Array:
    """Product A B of every pair of matrices, with the batch on the last axis."""
    return np.einsum("icn,cjn->ijn", a, b)


def _turned(a: Array, b: Array) -> Array:
    """Product A B A' of every pair of matrices, for symmetric B."""
    return np.einsum("icn,jcn->ijn", times(a, b), a)


def accumulate(gain: Array, own: Array, lane_steps: tuple[int, int] = (8, 64)) -> Array:
    r"""Solve :math:`\Sigma_t = S_t + G_t \Sigma_{t+1} G_t'` from the last t to the first.

    Time is cut into lanes that are processed in parallel, each from its end to its start. The value that enters a
    lane from the next one is computed first, from as many steps of that next lane as still influence it.
    """
    q, _, n = gain.shape
    lanes = max(n // int(np.clip(np.sqrt(n), *lane_steps)), 1)
    steps = -(-n // lanes)
    shape = (q, q, lanes, steps)
    G, S = np.zeros((q, q, lanes * steps)), np.zeros((q, q, lanes * steps))
    G[:, :, :n], S[:, :, :n] = gain, own
    # The step axis comes first, so that one step of all lanes is contiguous: (steps, q, q, lanes)
    G, S = (np.ascontiguousarray(x.reshape(shape).transpose(3, 0, 1, 2)) for x in (G, S))
    state = _entering(G, S) if lanes > 1 else np.zeros((q, q, lanes))
    for t in range(steps - 1, -1, -1):
        S[t] += _turned(G[t], state)
        state = S[t]
    return np.ascontiguousarray(S.transpose(1, 2, 3, 0)).reshape(q, q, -1)[:, :, :n]


def _entering(G: Array, S: Array) -> Array:
    """Sigma at the start of the lane that follows each lane: (q, q, lanes)."""
    steps, q, _, lanes = G.shape
    gain = np.broadcast_to(np.eye(q)[:, :, None], (q, q, lanes)).copy()
    total = np.zeros((q, q, lanes))  # accumulated over the first steps of each lane
    forgotten = 1e-10  # the square of so small a gain is below rounding error
    for t in range(steps):
        total += _turned(gain, S[t])
        gain = times(gain, G[t])
        if t % 8 == 7 and np.abs(gain).max() < forgotten:
            break
    else:  # the influence lasts longer than a lane: combine the lanes one after the other
        for k in range(lanes - 2, -1, -1):
            total[:, :, k] += gain[:, :, k] @ total[:, :, k + 1] @ gain[:, :, k].T
    following = np.zeros_like(total)
    following[:, :, :-1] = total[:, :, 1:]
    return following
