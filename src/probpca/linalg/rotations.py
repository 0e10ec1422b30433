"""Orthonormal bases, signs and square roots of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf

if TYPE_CHECKING:
    from probpca.typing import Array, Floats


def fix_signs(axes: Array, tie: float = 1e-6) -> Array:
    """Flip the signs of columns so that the entry of largest magnitude is positive.

    Among entries equally large up to a relative difference of ``tie``, the first one counts: the two entries of an
    axis of two standardised columns differ only by rounding, which must not determine the sign.
    """
    size = np.abs(axes)
    largest = (size >= (1 - tie) * size.max(axis=0)).argmax(axis=0)
    signs = np.sign(axes[largest, np.arange(axes.shape[1])])
    return axes * np.where(signs == 0, 1.0, signs)


def orthonormal(matrix: Array) -> Array:
    """Orthonormal basis of the column span, by Householder QR."""
    return np.linalg.qr(matrix)[0]


def symmetric_root(covariance: Array) -> Array:
    """Square root L with L L' = ``covariance`` of one or several matrices, which may be singular: (..., q, q)."""
    values, axes = np.linalg.eigh(covariance)
    return np.asarray(axes * np.sqrt(np.maximum(values, 0.0))[..., None, :])


def triangular_root(covariance: Array) -> Array:
    """Lower triangular L with L L' = ``covariance`` of several matrices, which may be singular: (..., q, q).

    It is the Cholesky factor, whose diagonal is not negative, computed so that rounding errors do not matter.
    """
    upper = np.linalg.qr(np.swapaxes(symmetric_root(covariance), -1, -2), mode="r")
    signs = np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return np.asarray(np.swapaxes(upper * signs[..., None], -1, -2))


def triangular(matrix: Array, right: Array) -> tuple[Array, Array]:
    """Upper triangular G with G'G = I + S'S, (n, k, k), and G'^{-1} S'e, (n, k, 1), by QR of [S, e; I, 0]."""
    n, q, k = matrix.shape
    stacked = np.zeros((n, q + k, k + 1))
    stacked[:, :q, :k], stacked[:, :q, k], stacked[:, q:, :k] = matrix, right, np.eye(k)
    upper = np.asarray(np.linalg.qr(stacked, mode="r"))
    return upper[:, :k, :k], upper[:, :k, k:]


def divided(left: Array, G: Array) -> Array:
    """Quotient L G^{-1} of each pair of matrices: (n, q, k)."""
    return np.swapaxes(np.linalg.solve(np.swapaxes(G, 1, 2), np.swapaxes(left, 1, 2)), 1, 2)


def applied(matrices: Array, vectors: Floats) -> Array:
    """Product M v of each matrix (n, q, k) with its vector (n, k): (n, q)."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0], dtype=np.float64)


def cholesky_or_none(matrix: Array) -> Array | None:
    """Lower Cholesky factor of a symmetric matrix, or None if the matrix is not positive definite."""
    root, failed = dpotrf(matrix, lower=1, clean=1)
    return None if failed else np.asarray(root, dtype=np.float64)
