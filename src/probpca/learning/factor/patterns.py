"""Rows grouped by their observed features, and the E-step of a Gaussian with any covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.linalg.lapack import dtrtrs

from probpca.blocks.block import dense_values
from probpca.errors import DataError
from probpca.inference.likelihood import LOG_2PI
from probpca.statistics import Sum

if TYPE_CHECKING:
    from probpca.blocks import Block
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """Sums over rows whose missing cells are distributed as a Gaussian predicts them from the observed cells.

    Attributes
    ----------
    weight : float
        Sum of the weights w of the rows.
    log_likelihood : float
        Log-likelihood of the observed cells.
    shift : ndarray of shape (k,)
        Sum of w E[x - mu].
    squares : ndarray of shape (k, k)
        Sum of w E[(x - mu)(x - mu)'].
    """

    weight: float
    log_likelihood: float
    shift: Array
    squares: Array

    def merge(self, other: Filled) -> Filled:
        """Sums over both sets of rows."""
        return Filled(
            self.weight + other.weight,
            self.log_likelihood + other.log_likelihood,
            self.shift + other.shift,
            self.squares + other.squares,
        )


class Pattern(NamedTuple):
    """Rows with the same observed features, in units of standard deviations."""

    seen: Index  # observed features: (o,)
    unseen: Index  # missing features: (m,)
    weight: float
    mean: Array  # mean of the observed cells: (o,)
    root: Array  # H, whose H'H is the scatter matrix of the observed cells: (r, o)

    @classmethod
    def of(cls, seen: Array, x: Array, w: Array) -> Pattern:
        """Pattern of rows (n, k) with weights (n,), given which features are observed."""
        observed, missing = np.flatnonzero(seen), np.flatnonzero(np.logical_not(seen))
        x, weight = x[:, observed], float(w.sum())
        mean = w @ x / weight
        root = np.sqrt(w)[:, None] * (x - mean) if len(x) > 1 else np.empty((0, observed.size))
        if len(root) > observed.size:
            root = np.asarray(np.linalg.qr(root, mode="r"))
        return cls(observed, missing, weight, mean, root)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Rows of a block, grouped by their observed features; rows without observed cells are left out."""

    patterns: tuple[Pattern, ...]
    n_rows: int
    n_features: int

    @classmethod
    def of(cls, features: Index, mean: Array, std: Array, block: Block) -> Patterns:
        """Group rows, with each of some features shifted by its mean and divided by its standard deviation."""
        require_equal_precision(block)
        x, w = (dense_values(block)[:, features] - mean) / std, block.weights
        seen = ~np.isnan(x)
        used = seen.any(axis=1) & (w > 0)
        x, w, seen = x[used], w[used], seen[used]
        which = np.unique(np.packbits(seen, axis=1), axis=0, return_inverse=True)[1].ravel()
        order = np.argsort(which, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(which[order])) + 1) if order.size else []
        patterns = (Pattern.of(seen[rows[0]], x[rows], w[rows]) for rows in groups)
        return cls(tuple(patterns), block.n_rows, features.size)

    def pairs(self) -> Sum:
        """Total weight of the rows in which two features are both observed: (k, k)."""
        counts = np.zeros((self.n_features, self.n_features))
        for pattern in self.patterns:
            counts[np.ix_(pattern.seen, pattern.seen)] += pattern.weight
        return Sum(counts)


def expect_filled(mean: Array, covariance: Array, rows: Patterns) -> Filled:
    r"""E-step of a Gaussian with any mean and covariance: expected sums, and the log-likelihood of the observed cells.

    With L the Cholesky factor of :math:`C_{oo}`, missing cells have the mean :math:`\mu_m + G' L^{-1} (x_o - \mu_o)`
    and the covariance :math:`C_{mm} - G' G`, where :math:`G = L^{-1} C_{om}`.
    """
    value, weight, filled = 0.0, 0.0, [np.empty((0, mean.size))]
    squares, shift = np.zeros(covariance.shape), np.zeros(mean.size)
    for pattern in rows.patterns:
        seen, unseen, w = pattern.seen, pattern.unseen, pattern.weight
        o, order = seen.size, np.concatenate([seen, unseen])
        C = covariance[order[:, None], order]
        L = np.linalg.cholesky(C[:o, :o])
        deviations = np.concatenate([pattern.root, np.sqrt(w) * (pattern.mean - mean[seen])[None]])  # (r + 1, o)
        white = dtrtrs(L.T, np.concatenate([C[:o, o:], deviations.T], axis=1), trans=1)[0]
        G, distances = white[:, : unseen.size], white[:, unseen.size :]
        whole = np.empty((len(deviations), mean.size))
        whole[:, seen], whole[:, unseen] = deviations, distances.T @ G
        filled.append(whole)
        shift += np.sqrt(w) * whole[-1]
        squares[unseen[:, None], unseen] += w * (C[o:, o:] - G.T @ G)
        value -= 0.5 * w * (o * LOG_2PI + 2 * float(np.log(L.diagonal()).sum()))
        value -= 0.5 * float(np.vdot(distances, distances))
        weight += w
    together = np.vstack(filled)
    return Filled(weight, value, shift, squares + together.T @ together)


def require_equal_precision(block: Block) -> None:
    """Raise ``DataError`` if observed cells have different weights, which only a model with noise can take."""
    if block.precision is None:
        return
    positive = block.precision[block.precision > 0]
    if positive.size and positive.min() < positive.max():
        msg = (
            "the unrestricted Gaussian needs cells of equal weight, because weights of cells scale the noise of a "
            f"model, which it does not have; they lie between {positive.min():.4g} and {positive.max():.4g}.\n"
            "Hint: pass the rows without cell_weight; a weight of 0 may stay, as NaN."
        )
        raise DataError(msg)
