"""Leading eigenvalue of a matrix that is known by its products with vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from probpca.typing import Array


def leading_eigenpair(
    apply: Callable[[Array], Array], start: Array, n_products: int, *, above: float, certainty: float = 1e4
) -> tuple[float, Array]:
    """Eigenvalue with the largest real part, and its unit eigenvector, estimated from at most ``n_products`` products.

    The matrix need not be symmetric; eigenvalues clearly above the others are found first (Arnoldi 1951). The products
    start from a random vector ``start``. They end early if they span an invariant subspace, or if an eigenvalue of
    ``above`` or more would have been found by now. If the others lie between 0 and r, k products amplify such an
    eigenvector by cosh(k arccosh(2 above / r - 1)), which must outweigh ``certainty`` times its expected share of a
    random vector.
    """
    size, least = min(n_products, start.size), certainty * np.sqrt(start.size)
    basis = np.zeros((size + 1, start.size))
    projected = np.zeros((size + 1, size))  # the matrix in the basis: upper Hessenberg
    basis[0] = start / np.linalg.norm(start)
    for k in range(1, size + 1):
        image = apply(basis[k - 1])
        for _ in range(2):  # once is not enough in floating point
            along = basis[:k] @ image
            image = image - along @ basis[:k]
            projected[:k, k - 1] += along
        rest = projected[k, k - 1] = np.linalg.norm(image)
        values, vectors = np.linalg.eig(projected[:k, :k])
        best = int(np.argmax(values.real))
        largest = float(values[best].real)
        # A negative estimate does not tell that all eigenvalues are negative, but how large the others are.
        bulk = float(np.abs(values).max())
        if rest <= 1e-8 * np.abs(projected).max() or _amplified(above, bulk, k) > least:
            break
        basis[k] = image / rest
    vector = vectors[:, best].real @ basis[:k]
    return largest, vector / np.linalg.norm(vector)


def _amplified(value: float, bulk: float, k: int) -> float:
    """Growth of the part of a vector that belongs to an eigenvalue above the others, which lie in [0, bulk]."""
    if value <= bulk:
        return 1.0
    ratio = 2 * value / max(bulk, 1e-3 * value) - 1
    return float(np.cosh(k * np.arccosh(ratio)))
