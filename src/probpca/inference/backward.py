"""Smoothing in square-root form: what comes later meets what the filter knew, and no noise is ever inverted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.inference.collapsed import collapse_roots
from probpca.linalg.roots import applied, divided, symmetric_root, triangular
from probpca.linalg.tridiagonal import InverseBlocks, solve_bidiagonal

if TYPE_CHECKING:
    from probpca.inference.recursion import Filtered
    from probpca.models import StateSpace
    from probpca.rows.sequences import Sequences
    from probpca.typing import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What rows say about a state x: N x = v, up to standard normal errors."""

    root: Array  # N: (n, q, q)
    value: Array  # v: (n, q)


def smooth_filtered(model: StateSpace, rows: Sequences, found: Filtered) -> tuple[Array, InverseBlocks]:
    """Smoothed means (n, q), covariances and lag-one covariances, from filtered ones and what was observed later."""
    from_here, later = look_ahead(model, rows)
    L, q = found.root, model.n_components
    error = later.value - applied(later.root, found.mean)
    G, g = triangular(later.root @ L, error)
    mean = found.mean + applied(L, np.linalg.solve(G, g)[:, :, 0])
    root = divided(L, G)
    n = len(mean)
    lag = np.zeros((n, q, q))
    after = np.flatnonzero(rows.linked)  # steps that have another after them
    both = np.concatenate([model.transition @ L[after], _spread(model, len(after))], axis=2)  # of x_{t+1}
    only = np.concatenate([L[after], np.zeros((len(after), q, q))], axis=2)  # of x_t
    joint, _ = triangular(from_here.root[after + 1] @ both, np.zeros((len(after), q)))
    lag[after] = divided(only, joint) @ np.swapaxes(divided(both, joint), 1, 2)
    covariance = root @ np.swapaxes(root, 1, 2)
    return mean, InverseBlocks(*(np.ascontiguousarray(np.moveaxis(x, 0, -1)) for x in (covariance, lag)))


def sample_filtered(model: StateSpace, rows: Sequences, found: Filtered, noise: Array) -> Array:
    """Whole trajectories given all rows, from standard normal ``noise`` (k, n, q): (k, n, q)."""
    from_here, later = look_ahead(model, rows)
    n, q = found.mean.shape
    # Each state given the one before it and what is still to come.
    L, before = _spread(model, n), model.pushes(rows.inputs, rows.n_steps)
    L[rows.starts] = found.root[rows.starts]
    N, value = from_here.root.copy(), from_here.value.copy()
    N[rows.starts], value[rows.starts] = later.root[rows.starts], later.value[rows.starts]
    axes, G = np.linalg.qr(np.concatenate([N @ L, np.broadcast_to(np.eye(q), (n, q, q))], axis=1))
    gain = L @ np.linalg.solve(G, np.swapaxes(axes[:, :q], 1, 2))
    keep = np.eye(q) - gain @ N
    pushed = np.zeros((n, q))
    pushed[1:] = before[:-1]
    pushed[rows.starts] = found.mean[rows.starts]
    F = keep @ model.transition
    F[rows.starts] = 0.0
    drift = applied(keep, pushed) + applied(gain, value)
    root = divided(L, G)
    return np.array([solve_bidiagonal(F, drift + applied(root, e)) for e in noise])


def look_ahead(model: StateSpace, rows: Sequences) -> tuple[Said, Said]:
    """What the rows from each step on say about its state, and what those after it say."""
    H, z = collapse_roots(model.emission, rows)
    n, q = z.shape
    here, later = Said(np.empty((n, q, q)), np.empty((n, q))), Said(np.zeros((n, q, q)), np.zeros((n, q)))
    order = np.argsort(-rows.lengths, kind="stable")
    ends, lengths = (rows.starts + rows.lengths - 1)[order], rows.lengths[order]
    pushes, noise = model.pushes(rows.inputs, rows.n_steps), symmetric_root(model.process_noise)
    for back in range(int(lengths[0])):
        now = ends[: np.searchsorted(-lengths, -back)] - back
        if back:
            N, value = here.root[now + 1], here.value[now + 1]
            spread = np.swapaxes(N @ noise, 1, 2)
            K, _ = triangular(spread, np.zeros((len(now), q)))  # K'K = I + N Q N'
            turned = np.swapaxes(K, 1, 2)
            later.root[now] = np.linalg.solve(turned, N @ model.transition)
            later.value[now] = np.linalg.solve(turned, (value - applied(N, pushes[now]))[:, :, None])[:, :, 0]
        stacked = np.empty((len(now), 2 * q, q + 1))
        stacked[:, :q, :q], stacked[:, :q, q] = later.root[now], later.value[now]
        stacked[:, q:, :q], stacked[:, q:, q] = H[now], z[now]
        upper = np.asarray(np.linalg.qr(stacked, mode="r"))
        here.root[now], here.value[now] = upper[:, :q, :q], upper[:, :q, q]
    return here, later


def _spread(model: StateSpace, n: int) -> Array:
    """A root of Q for each of n steps: (n, q, q)."""
    return np.repeat(symmetric_root(model.process_noise)[None], n, axis=0)
