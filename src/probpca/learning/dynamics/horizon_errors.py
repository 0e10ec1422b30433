"""Errors of forecasts over several steps within the training rows, to which the width of intervals is fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.inference.time_series.square_root_filter import FilteredTrajectory

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from probpca.blocks import Sequences
    from probpca.learning.dynamics.own import Systems
    from probpca.models import StateSpace
    from probpca.typing import Array

LARGEST_HORIZON = 8
"""Steps ahead whose errors are looked at; a whole season if there is one."""
CHUNK = 2**22
"""Numbers in the covariances that are in memory at a time."""


def excess(systems: Systems, parts: Sequence[tuple[Array, npt.NDArray[np.bool_]]], unscored: int, period: int) -> Array:
    r"""Mean squared error of forecasts in units of their variances, averaged over horizons; at least 1: (d,).

    Errors of one step have mean square 1 by the choice of scale. If those of more steps are larger than the model
    expects, its intervals are too narrow, and all of its variances are multiplied by this factor. Errors of h steps
    overlap: n of them are worth about n / h independent ones, and count :math:`1 + h / n` times.

    Parameters
    ----------
    systems : Systems
        One system for each feature.
    parts : sequence of (array, array)
        Sequences (n, d) in the units of the systems, and masks of their observed cells.
    unscored : int
        Number of first rows of each sequence that are not looked at.
    period : int
        Number of steps of a season; 1 if there is none.
    """
    d, m = systems.loadings.shape
    sums = [np.zeros((0, d)), np.zeros((0, d))]
    for X, seen in parts:
        horizon = min(max(period, LARGEST_HORIZON), (len(X) - unscored) // 3)
        if horizon < 1:
            continue
        width = max(CHUNK // (len(X) * m * m), 1)
        cut = [slice(start, start + width) for start in range(0, d, width)]
        found = [_squares(systems.some(some), X[:, some], seen[:, some], unscored, horizon) for some in cut]
        both = (np.hstack([one[k] for one in found]) for k in (0, 1))  # (horizon, d) each
        sums = [_added(one, two) for one, two in zip(sums, both, strict=True)]
    squares, counts = sums
    known = counts > 0
    overlap = 1 + np.arange(1, len(squares) + 1)[:, None] / np.maximum(counts, 1.0)
    mean = overlap * np.divide(squares, counts, out=np.zeros_like(squares), where=known)
    return np.maximum(mean.sum(axis=0) / np.maximum(known.sum(axis=0), 1), 1.0)


def _added(one: Array, two: Array) -> Array:
    """Sum of two arrays of different lengths."""
    out = np.zeros((max(len(one), len(two)), two.shape[1]))
    out[: len(one)] += one
    out[: len(two)] += two
    return out


def _squares(
    systems: Systems, X: Array, seen: npt.NDArray[np.bool_], unscored: int, horizon: int
) -> tuple[Array, Array]:
    """Sums of squared standardised errors at each horizon, and their numbers: (horizon, c) each."""
    mean, covariance = filter_each(systems, X, seen)
    mean, covariance, X, seen = mean[unscored:], covariance[unscored:], X[unscored:], seen[unscored:]
    F, c = systems.transition, X.shape[1]
    row, noise = systems.loadings[:, None], systems.noise.copy()  # z' F^h: (c, 1, m)
    squares, counts = np.zeros((horizon, c)), np.zeros((horizon, c))
    for h in range(horizon):
        k = len(X) - h
        expected = np.einsum("cm,ncm->nc", row[:, 0], mean[:k])
        variance = np.einsum("cm,ncmk,ck->nc", row[:, 0], covariance[:k], row[:, 0], optimize=True) + noise
        errors = np.where(seen[h:], np.square(X[h:] - expected) / variance, 0.0)
        squares[h], counts[h] = errors.sum(axis=0), seen[h:].sum(axis=0)
        noise = noise + (np.square(row[:, 0]) * systems.process_noise).sum(axis=1)
        row = row @ F
    return squares, counts


def filter_each(systems: Systems, X: Array, seen: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Mean and covariance of the state before each row, each column (n, c) by a system of its own.

    The means have shape (n, c, m), the covariances (n, c, m, m).
    """
    F, Z, Q = systems.transition, systems.loadings, systems.process_noise
    (c, m), n = Z.shape, len(X)
    turned, diagonal = np.swapaxes(F, 1, 2), np.arange(m)
    means, covariances = np.empty((n, c, m)), np.empty((n, c, m, m))
    P, state = np.zeros((c, m, m)), np.zeros((c, m))
    P[:, diagonal, diagonal] = systems.initial
    values = np.where(seen, X, 0.0)
    first = seen.argmax(axis=0)
    state[:, 0] = values[first, np.arange(c)]
    for t in range(n):
        means[t], covariances[t] = state, P
        PZ = (P @ Z[:, :, None])[:, :, 0]
        K = PZ * (seen[t] / ((PZ * Z).sum(axis=1) + systems.noise))[:, None]
        state = state + K * (values[t] - (state * Z).sum(axis=1))[:, None]
        state = (F @ state[:, :, None])[:, :, 0]
        P = F @ (P - K[:, :, None] * PZ[:, None]) @ turned
        P[:, diagonal, diagonal] += Q
    return means, covariances


def excess_of(model: StateSpace, rows: Sequences, unscored: int) -> float:
    """Mean squared error of forecasts of several steps in units of their variances, over all features; at least 1."""
    found = FilteredTrajectory.of(model, rows).found
    C, noise = model.emission.loadings, np.broadcast_to(model.emission.noise_variance, (model.n_features,))
    ratios = []
    for start, length in zip(rows.starts + unscored, rows.lengths - unscored, strict=True):
        if length < 3:
            continue
        mean, root = (x[start : start + length] for x in (found.predicted, found.predicted_root))
        covariance, values = root @ np.swapaxes(root, 1, 2), rows.values[start : start + length] - model.emission.mean
        ahead, spread = C, noise  # C A^h: (d, q)
        for h in range(min(LARGEST_HORIZON, length // 3)):
            k = length - h
            variance = np.einsum("dq,nqk,dk->nd", ahead, covariance[:k], ahead, optimize=True) + spread
            errors = np.square(values[h:] - mean[:k] @ ahead.T) / variance
            if not np.isnan(errors).all():
                ratios.append((1 + (h + 1) / k) * np.nanmean(errors))
            spread = spread + np.einsum("dq,qk,dk->d", ahead, model.process_noise, ahead)
            ahead = ahead @ model.transition
    return max(float(np.mean(ratios)), 1.0) if ratios else 1.0
