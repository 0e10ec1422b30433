"""Reduction of each row to the information that its observed cells carry about the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.inference.likelihood import LOG_2PI
from probpca.inference.masked_rows import Parameters
from probpca.linalg.packed import by_rows, packed_size
from probpca.scratch import workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probpca.blocks import Observed, Sequences
    from probpca.blocks.cells import Group, Residual
    from probpca.models import LinearGaussian
    from probpca.typing import Array


@final
@dataclass(frozen=True, eq=False)
class Collapsed:
    """Likelihood of the state given each row, log p(y_t | x) = h_t' x - x' J_t x / 2 + constant."""

    information: Array  # J = sum over observed j of c_j c_j' / R_j, packed by rows: (entries, n)
    score: Array  # h = sum over observed j of c_j (y_j - offset_j) / R_j: (q, n)


def collapse(model: LinearGaussian, rows: Observed) -> Collapsed:
    """Information and score of each row; costs O(d q) per row, O(d q^2) for rows with missing cells."""
    parameters, q = Parameters.of(model, rows.centre), model.n_components
    information, score = np.empty((packed_size(q), rows.n_rows)), np.empty((q, rows.n_rows))
    with workspace() as work:
        for group in rows.groups:
            cells = group.cells.ready(work)
            J, score[:, group.place] = parameters.information_and_score(cells)
            if cells.pattern is not None and J.shape[1] > 1:  # a single pattern is broadcast
                J = J[:, cells.pattern]
            information[:, group.place] = J[by_rows(q)]
    return Collapsed(information, score)


def collapse_roots(model: LinearGaussian, rows: Sequences) -> tuple[Array, Array]:
    """Square roots H (n, q, q) of the information J = H'H, and z (n, q) with h = H'z.

    Computed by QR decompositions of the observed loadings, one per pattern of observed features, which stay
    accurate if the noise is tiny.
    """
    n, q = rows.n_steps, model.n_components
    scale = np.sqrt(np.broadcast_to(model.noise_variance, model.mean.shape))
    loadings, H, z = model.loadings / scale[:, None], np.empty((n, q, q)), np.empty((n, q))
    step = max(2**20 // loadings.size, 1)  # steps whose padded loadings fit into cache
    for start in range(0, n, step):
        some = slice(start, start + step)
        error = (rows.values[some] - model.mean) / scale
        seen = ~np.isnan(error)
        pattern, which = np.unique(seen, axis=0, return_inverse=True)
        padded = np.zeros((len(pattern), max(q, model.n_features), q))
        padded[:, : model.n_features] = pattern[:, :, None] * loadings
        axes, root = np.linalg.qr(padded)  # (patterns, d, q) and (patterns, q, q)
        H[some] = root[which]
        z[some] = np.einsum("ndq,nd->nq", axes[which, : model.n_features], np.where(seen, error, 0.0))
    return H, z


def squared_residuals(model: LinearGaussian, rows: Observed, state: Array) -> Array:
    """Squared residuals (y - c - C x)^2 of each feature at given states (q, n), summed over the rows: (d,)."""
    out = np.zeros(rows.n_features)
    for group, rest in _residuals(model, rows, state):
        out += rest.column_squares(group.weight)
    return out


def distances(model: LinearGaussian, rows: Observed, state: Array) -> Array:
    """Squared residuals (y - c - C x)^2 / R of each row at given states (q, n), summed over observed features: (n,)."""
    out = np.empty(rows.n_rows)
    noise = model.noise_variance
    for group, rest in _residuals(model, rows, state):
        out[group.index] = rest.row_squares() / noise if noise.ndim == 0 else np.square(rest.dense()) @ (1.0 / noise)
    return out


def _residuals(model: LinearGaussian, rows: Observed, state: Array) -> Iterator[tuple[Group, Residual]]:
    parameters = Parameters.of(model, rows.centre)
    known = np.vstack([state, np.ones(state.shape[1])])
    with workspace() as work:
        for group in rows.groups:
            yield group, group.cells.ready(work).residual(parameters.loadings, known[:, group.place])


def noise_constants(model: LinearGaussian, rows: Observed) -> Array:
    """Sum of log 2 pi R_j over the observed cells of each row: (n,)."""
    out = np.empty(rows.n_rows)
    noise = np.broadcast_to(model.noise_variance, (rows.n_features,))
    for group in rows.groups:
        logs = group.cells.mask.products(np.log(noise)[None] + LOG_2PI)[0]
        out[group.index] = logs if group.cells.pattern is None else logs[group.cells.pattern]
    return out
