"""The largest eigenpairs of a symmetric operator that is only known by its products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, final

import numpy as np

from probpca.linalg.rotations import orthonormal

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.typing import Array

Apply: TypeAlias = "Callable[[Array], Array]"
Finished: TypeAlias = "Callable[[Array, Array], bool]"

MAX_BASIS = 1500
"""Columns of the basis beyond which the iteration restarts from its best vectors."""


class Ritz(NamedTuple):
    """Approximate eigenpairs, largest first."""

    values: Array  # theta: (k,)
    vectors: Array  # orthonormal columns: (d, k)
    residuals: Array  # |S v - theta v|: (k,)
    n_products: int  # how often the operator was applied to a block
    finished: bool  # did the caller's test say so, or the space run out?


@final
@dataclass(slots=True, eq=False)
class _Space:
    """A Krylov basis with the operator projected on it."""

    basis: Array  # orthonormal: (d, m)
    projected: Array  # basis' S basis: (m, m)
    newest: Array  # the block whose product comes next: (d, b)


def block_krylov(
    apply: Apply, start: Array, k: int, finished: Finished, *, scale: float = 1.0, max_products: int = 500
) -> Ritz:
    r"""Top ``k`` eigenpairs by block Lanczos with full reorthogonalisation.

    The basis after s products spans :math:`[Q, S Q, \dots, S^{s-1} Q]`; Rayleigh-Ritz on it needs
    O(log(1/eps) / sqrt(gap)) products where subspace iteration needs O(log(1/eps) / gap)
    (Musco & Musco 2015), and comes with the exact residual norms of every pair for free.
    ``finished(values, residuals)`` sees the top k + 1 pairs after each product and decides;
    ``scale``, a number of the size of the largest eigenvalue, keeps squares within range.
    Costs one product and O(d m b) a step, m being the width of the basis.
    """
    block = orthonormal(start)  # (d, b)
    space = _Space(block, np.empty((0, 0)), block)
    n_products = 0
    while True:
        image = apply(space.newest) / scale
        n_products += 1
        coefficients = space.basis.T @ image
        rest = image - space.basis @ coefficients
        space.projected = _bordered(space.projected, coefficients)
        following, coupling = _new_directions(space.basis, rest)
        values, rotation = _ranked(space.projected)
        tail = rotation[-space.newest.shape[1] :]  # share of each Ritz vector in the newest block
        residuals = np.linalg.norm(coupling @ tail, axis=0)
        exhausted = following.shape[1] == 0
        done = values.size > k and finished(scale * values[: k + 1], scale * residuals[: k + 1])
        if done or exhausted or n_products >= max_products:
            top = rotation[:, :k]
            pairs = scale * values[:k], space.basis @ top, scale * residuals[:k]
            return Ritz(*pairs, n_products, done or exhausted)
        if space.basis.shape[1] + following.shape[1] > MAX_BASIS:
            keep = min(values.size, k + following.shape[1])
            space.basis = space.basis @ rotation[:, :keep]
            space.projected = np.diag(values[:keep])
        space.basis = np.hstack([space.basis, following])
        space.newest = following


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


def _new_directions(basis: Array, rest: Array) -> tuple[Array, Array]:
    """Orthonormal directions Q of ``rest`` outside ``basis``, and ``coupling`` with rest = Q coupling.

    Directions at the level of rounding are noise and are dropped, so that the iteration ends when
    the basis holds an invariant subspace instead of wandering off.
    """
    directions, coupling = _normalised(rest, floor=1e-14)
    room = basis.shape[0] - basis.shape[1]
    directions, coupling = directions[:, :room], coupling[:room]
    # One round of Gram-Schmidt leaves eps * |image| of the basis in the rest, which matters once
    # the rest is small; a second round on unit vectors removes it.
    directions -= basis @ (basis.T @ directions)
    directions, again = _normalised(directions, floor=0.5)
    return directions, again @ coupling


def _normalised(block: Array, floor: float) -> tuple[Array, Array]:
    """Orthonormal columns Q, longest direction first, and R with block = Q R, by products alone."""
    squares, rotation = _ranked(block.T @ block)
    kept = squares > max(floor**2, 1e-14 * squares.max(initial=0.0))
    lengths = np.sqrt(squares[kept])
    rotation = rotation[:, kept]
    return block @ (rotation / lengths), lengths[:, None] * rotation.T
