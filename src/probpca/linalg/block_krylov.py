"""Largest eigenpairs of a symmetric operator, from products with blocks of vectors alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.typing import Array, Floats

Apply: TypeAlias = "Callable[[Floats], Floats]"
Finished: TypeAlias = "Callable[[Array, Array], bool]"


class Ritz(NamedTuple):
    """Approximate eigenpairs, largest first."""

    values: Array  # theta: (k,)
    vectors: Floats  # orthonormal columns, in the precision of the start: (d, k)
    residuals: Array  # |S v - theta v|: (k,)
    n_products: int  # how often the operator was applied to a block
    finished: bool  # whether the caller's test was met, or the basis became invariant


def block_krylov(  # noqa: PLR0913
    apply: Apply,
    start: Floats,
    k: int,
    finished: Finished,
    *,
    scale: float = 1.0,
    max_products: int = 500,
    max_basis: int = 1500,
) -> Ritz:
    r"""Top ``k`` eigenpairs by block Lanczos with full reorthogonalisation.

    The basis after s products spans :math:`[Q, S Q, \dots, S^{s-1} Q]`; Rayleigh-Ritz on it needs
    O(log(1/eps) / sqrt(gap)) products where subspace iteration needs O(log(1/eps) / gap)
    (Musco & Musco 2015), and gives the residual norm of every pair at no extra cost.

    After each product ``finished(values, residuals)`` receives the top k + 1 pairs and returns whether to stop.
    ``scale``, a number of the size of the largest eigenvalue, avoids overflow. Beyond ``max_basis`` vectors the
    iteration restarts from the best ones. All vectors have the precision of ``start``. Each step costs one product
    and O(d m b), with m the width of the basis and b that of a block.
    """
    space = _Space(np.linalg.qr(start)[0])
    n_products = 0
    while n_products < max_products:
        n_products += 1
        exhausted = space.extend(apply(space.newest) / scale, k + 1)
        values, rotation, residuals = space.ritz()
        done = values.size > k and finished(scale * values[: k + 1], scale * residuals[: k + 1])
        if done or exhausted:
            break
        if space.width > max_basis:
            space.restart(values, rotation, k)
    vectors = space.basis @ rotation[:, :k].astype(start.dtype)
    return Ritz(scale * values[:k], vectors, scale * residuals[:k], n_products, done or exhausted)


@final
class _Space:
    """A Krylov basis Q_1 .. Q_s, the operator projected on it, and the block to multiply next."""

    def __init__(self, start: Floats) -> None:
        d, b = start.shape
        self._store: Any = np.empty((12 * b, d), start.dtype)  # one vector per row; untouched memory costs nothing
        self._used = 0  # vectors whose product is known
        self._next = 0  # all vectors
        self._append(start)
        self.projected: Array = np.empty((0, 0))  # basis' S basis
        self.coupling: Array = np.empty((0, 0))  # coefficients of the last block's product outside the basis

    @property
    def basis(self) -> Floats:
        return self._store[: self._used].T

    @property
    def newest(self) -> Floats:
        return self._store[self._used : self._next].T

    def extend(self, image: Floats, at_least: int) -> bool:
        """Extend the basis by the product of the newest block; return whether it now spans an invariant subspace."""
        image = image.astype(self._store.dtype, copy=False)
        self._used = self._next
        coefficients = self.basis.T @ image
        self.projected = _bordered(self.projected, coefficients.astype(np.float64))
        following, self.coupling = self._directions(image - self.basis @ coefficients)
        if following.shape[1] == 0 and self._used < min(at_least, len(image)):
            following = self._elsewhere(image.shape[1])
        self._append(following)
        return following.shape[1] == 0

    def ritz(self) -> tuple[Array, Array, Array]:
        """Ritz values, their coefficients in the basis, and the norms of their residuals."""
        values, rotation = _ranked(self.projected)
        tail = rotation[-self.coupling.shape[1] :]  # share of each Ritz vector in the last block
        return values, rotation, np.linalg.norm(self.coupling @ tail, axis=0)

    @property
    def width(self) -> int:
        """Number of basis vectors, including those of the newest block."""
        return self._next

    def restart(self, values: Array, rotation: Array, k: int) -> None:
        """Replace the basis by its best Ritz vectors and the newest block."""
        following = self.newest.copy()
        keep = min(values.size, k + following.shape[1])
        self._store[:keep] = (self.basis @ rotation[:, :keep].astype(self._store.dtype)).T
        self.projected = np.diag(values[:keep])
        self._used = self._next = keep
        self._append(following)

    def _elsewhere(self, width: int) -> Floats:
        """Random directions to continue with when the basis spans an invariant subspace that is too small."""
        d = self._store.shape[1]
        random = np.random.default_rng(self._used).standard_normal((d, min(width, d - self._used)))
        random = random.astype(self._store.dtype)
        return self._directions(random - self.basis @ (self.basis.T @ random))[0]

    def _append(self, block: Floats) -> None:
        end = self._next + block.shape[1]
        if end > len(self._store):
            grown = np.empty((max(end, 2 * self._next), self._store.shape[1]), self._store.dtype)
            grown[: self._next] = self._store[: self._next]
            self._store = grown
        self._store[self._next : end] = block.T
        self._next = end

    def _directions(self, rest: Floats) -> tuple[Floats, Array]:
        """Orthonormal directions Q of ``rest`` outside the basis, and ``coupling`` with rest = Q coupling.

        Directions at the level of rounding error are dropped, so that the iteration ends when the basis spans an
        invariant subspace.
        """
        basis = self.basis
        eps = float(np.finfo(rest.dtype).eps)
        directions, coupling = _normalised(rest, floor=50 * eps)
        room = basis.shape[0] - basis.shape[1]
        directions, coupling = directions[:, :room], coupling[:room]
        # One round of Gram-Schmidt leaves eps * |image| of the basis in the rest, which matters once
        # the rest is small; a second round on unit vectors removes it.
        directions = directions - basis @ (basis.T @ directions)
        directions, again = _normalised(directions, floor=0.5)
        return directions, again @ coupling


def _bordered(projected: Array, coefficients: Array) -> Array:
    """Append the newest block's columns (and by symmetry its rows) to the projected operator."""
    m, b = coefficients.shape
    grown = np.empty((m, m))
    grown[: m - b, : m - b] = projected
    grown[:, m - b :] = coefficients
    grown[m - b :, : m - b] = coefficients[: m - b].T
    corner = coefficients[m - b :]
    grown[m - b :, m - b :] = 0.5 * (corner + corner.T)
    return grown


def _ranked(symmetric: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(symmetric)
    return values[::-1], vectors[:, ::-1]


def _normalised(block: Floats, floor: float) -> tuple[Floats, Array]:
    """Orthonormal columns Q, longest direction first, and R with block = Q R, from the eigenpairs of block'block."""
    squares, rotation = _ranked((block.T @ block).astype(np.float64))
    eps = float(np.finfo(block.dtype).eps)
    kept = squares > max(floor**2, 50 * eps * squares.max(initial=0.0))
    lengths = np.sqrt(squares[kept])
    rotation = rotation[:, kept]
    return block @ (rotation / lengths).astype(block.dtype), lengths[:, None] * rotation.T
