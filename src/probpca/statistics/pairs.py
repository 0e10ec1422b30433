"""Sums over pairs of features, for covariances of incomplete rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy import sparse

from probpca.blocks.block import dense_values, deviations_or_zero, observed_cells, with_data

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Sums over the rows in which two features were both observed, for pairwise covariances.

    Attributes
    ----------
    counts : ndarray of shape (d, d)
        Sum of w over the rows in which both features were observed.
    products : ndarray of shape (d, d)
        Sum of w (x_j - c_j)(x_k - c_k) over the same rows, with c the centre that was given.
    """

    counts: Array
    products: Array

    @classmethod
    def of(cls, centre: Array, block: Block) -> Pairs:
        """Compute the sums over a block, with deviations taken from ``centre`` (d,)."""
        d = block.n_features
        total = cls(np.zeros((d, d)), np.zeros((d, d)))
        for rows in block.pieces(min_rows=d):
            part = block.take(rows)
            deviation = deviations_or_zero(centre, part).values
            total = total.merge(cls(_squared(_seen(part), part.weight), _squared(deviation, part.weight)))
        return total

    def merge(self, other: Pairs) -> Pairs:
        """Sums over both sets of rows."""
        return Pairs(self.counts + other.counts, self.products + other.products)


def _seen(block: Block) -> Any:
    """Matrix (b, d) with 1 in observed cells and 0 elsewhere; sparse if cells that are not stored are missing."""
    if block.is_sparse and block.unstored_missing:
        return with_data(block.values, observed_cells(block).astype(np.float64))
    return (~np.isnan(dense_values(block))).astype(np.float64)


def _squared(side: Any, weight: Array | None) -> Array:
    """Sum over rows of w a a': (d, d)."""
    if sparse.issparse(side):
        weighted = side if weight is None else sparse.diags_array(weight) @ side
        return np.asarray((weighted.T @ side).toarray())
    weighted = side if weight is None else side * weight[:, None]
    return np.asarray(weighted.T @ side)
