"""Largest eigenpairs of a symmetric matrix, computed directly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dormqr, dstemr, dsytrd

if TYPE_CHECKING:
    from probpca.typing import Array

BLOCK = 32
"""Number of columns that LAPACK treats at a time, for the size of its workspaces."""
ORTHOGONAL = 1e-12
"""Largest inner product of two eigenvectors that are accepted as orthogonal."""


def largest_eigenpairs(matrix: Array, k: int, tiny: int = 64) -> tuple[Array, Array]:
    """Largest ``k`` eigenvalues of a symmetric matrix (m, m), largest first, and eigenvectors: (k,) and (m, k).

    Up to the size ``tiny``, or if a quarter of the eigenpairs is wanted, all are computed, which is faster than
    computing some. Other matrices are reduced to tridiagonal form, of which k eigenpairs are computed by LAPACK's
    relatively robust representations: scipy's driver for a part of them uses bisection and inverse iteration, which
    take longer.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.linalg.eigenpairs import largest_eigenpairs
    >>> values, vectors = largest_eigenpairs(np.diag([2.0, 5.0, 3.0]), 2)
    >>> values, np.abs(vectors)
    (array([5., 3.]), array([[0., 0.],
           [1., 0.],
           [0., 1.]]))
    """
    m = len(matrix)
    if m <= tiny or k > m / 4:
        values, vectors = np.linalg.eigh(matrix)
        return values[: -k - 1 : -1], vectors[:, : -k - 1 : -1]
    found = _of_tridiagonal(matrix, k)
    if found is None:
        found = eigh(matrix, subset_by_index=[m - k, m - 1], check_finite=False)
    return found[0][::-1], found[1][:, ::-1]


def _of_tridiagonal(matrix: Array, k: int) -> tuple[Array, Array] | None:
    """Largest eigenpairs, smallest of them first; None if they are not accurate."""
    m = len(matrix)
    reflectors, diagonal, beside, tau, _ = dsytrd(matrix, lower=1, lwork=BLOCK * m)
    count, values, vectors, failed = dstemr(diagonal, np.append(beside, 0.0), 2, 0.0, 0.0, m - k + 1, m)
    vectors = np.asfortranarray(vectors[:, :k])
    # Among eigenvalues that are equal up to rounding, vectors may be NaN without any report.
    if failed or count != k or not np.abs(vectors.T @ vectors - np.eye(k)).max() < ORTHOGONAL:
        return None
    # The first row is not reflected.
    vectors[1:], _, _ = dormqr("L", "N", reflectors[1:, :-1], tau, vectors[1:], lwork=BLOCK * k)
    return values[:k], vectors
