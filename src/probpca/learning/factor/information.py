"""Information about the loadings and noise variances of a factor model, and its generalised inverse."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.linalg import solve_triangular

from probpca.errors import DataError
from probpca.linalg.rotations import cholesky_or_none
from probpca.models import LinearGaussian
from probpca.result_tables import several
from probpca.statistics.moments import TINY

if TYPE_CHECKING:
    from probpca.typing import Array, Index

ModelGradient: TypeAlias = Callable[[LinearGaussian], Any]
"""Function from a model to the derivatives of its log-likelihood with respect to mu (d,), W (d, q) and log psi (d,)."""


def expected_information(model: LinearGaussian, weight: float) -> Array:
    r"""Expected information of (W by rows, log psi) in complete rows with total weight n: (d q + d, d q + d).

    With :math:`P = C^{-1}`, the entries :math:`\tfrac n2 \operatorname{tr}(P \, \partial C \, P \, \partial C)` are

    .. math::
        I(w_{ik}, w_{jl}) = n \big[P_{ij} (W^\top P W)_{kl} + (P W)_{il} (P W)_{jk}\big], \quad
        I(w_{ik}, \log \psi_j) = n \psi_j P_{ij} (P W)_{jk}, \quad
        I(\log \psi_i, \log \psi_j) = \tfrac n2 \psi_i \psi_j P_{ij}^2

    The mean is orthogonal to both.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.learning.factor.information import expected_information
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(3), np.ones((3, 1)), np.ones(3))
    >>> expected_information(model, weight=10).shape
    (6, 6)
    """
    W, psi = model.loadings, model.noise_variance
    d, q = W.shape
    P, PW = model.covariance.dense_inverse(), model.covariance.solve(W.T).T
    both = np.einsum("ij,kl->ikjl", P, W.T @ PW) + np.einsum("il,jk->ikjl", PW, PW)
    cross = np.einsum("ij,jk,j->ikj", P, PW, psi).reshape(d * q, d)
    return weight * np.block([[both.reshape(d * q, d * q), cross], [cross.T, 0.5 * np.square(P) * np.outer(psi, psi)]])


def observed_information(model: LinearGaussian, gradient: ModelGradient, step: float = 1e-5) -> Array:
    """Observed information of (W by rows, log psi), with the mean profiled out: (d q + d, d q + d).

    Central differences of the gradient of the log-likelihood, in 2 d (q + 2) evaluations.
    """
    (d, q), p = model.loadings.shape, model.loadings.size
    point = np.concatenate([model.loadings.ravel(), np.log(model.noise_variance), model.mean])

    def slope(at: Array) -> Array:
        moved = LinearGaussian(at[p + d :], at[:p].reshape(d, q), np.exp(at[p : p + d]))
        of_mean, of_loadings, of_log_noise = gradient(moved)
        return np.concatenate([np.ravel(of_loadings), of_log_noise, of_mean])

    H = np.array([slope(point - move) - slope(point + move) for move in step * np.eye(point.size)]) / (2 * step)
    H, k = 0.5 * (H + H.T), p + d
    return H[:k, :k] - H[:k, k:] @ np.linalg.solve(H[k:, k:], H[k:, :k])


def rotations_of(loadings: Array) -> Array:
    """Directions in which W moves if two factors rotate, for each pair of them: (q (q - 1) / 2, d, q)."""
    d, q = loadings.shape
    moves = np.zeros((q * (q - 1) // 2, d, q))
    for move, (j, k) in zip(moves, combinations(range(q), 2), strict=True):
        move[:, j], move[:, k] = -loadings[:, k], loadings[:, j]
    return moves


def covariance_root(information: Array, loadings: Array, fixed: Index, least_pivot: float = 1e-11) -> Array:
    """Matrix B with B B' a generalised inverse of the information of (W, log psi): (d q + d, m).

    The rotations of the factors, along which the information is zero, are filled with ones before it is inverted.
    Features at the positions ``fixed`` keep their noise variance, and those without loadings all of their parameters:
    these parameters have rows of zeros.
    """
    (d, q), p = loadings.shape, loadings.size
    linked = loadings.any(axis=1)
    kept = np.concatenate([np.repeat(linked, q), linked])
    kept[p + fixed] = False
    free = np.flatnonzero(kept)
    unit = 1 / np.sqrt(np.maximum(np.abs(np.diag(information)[free]), TINY))  # the matrix is scaled to a unit diagonal
    null = np.zeros((q * (q - 1) // 2, p + d))
    null[:, :p] = rotations_of(loadings).reshape(-1, p)
    # Rounding could hide this in information from differences.
    count, m = free.size - len(null), int(linked.sum())
    if count > m * (m + 1) // 2:
        msg = (
            f"the information about the parameters is singular: {count} parameters of {several(q, 'factor')} are more "
            f"than the {m * (m + 1) // 2} variances and covariances of {several(m, 'feature')}.\n"
            "Hint: use fewer factors."
        )
        raise DataError(msg)
    basis = np.linalg.qr((null[:, free] / unit).T)[0]
    L = cholesky_or_none(information[np.ix_(free, free)] * np.outer(unit, unit) + basis @ basis.T)
    if L is None or np.diag(L).min() ** 2 < least_pivot:
        msg = (
            "the information about the parameters is singular: the rows do not determine them, or the model is not at "
            "a maximum of the likelihood.\nHint: use fewer factors, or fit with a smaller tol."
        )
        raise DataError(msg)
    root = np.zeros((p + d, free.size))
    root[free] = unit[:, None] * solve_triangular(L, np.eye(free.size), lower=True).T
    return root
