"""Starting points for the fit of linear dynamical systems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.inference.posteriors import posterior_mean
from probpca.learning.fit import fit_ppca
from probpca.learning.settings import Settings
from probpca.models import Gaussian, LinearGaussian, StateSpace
from probpca.sources import open_source

if TYPE_CHECKING:
    from probpca.blocks import Sequences
    from probpca.typing import Array, Floats


@final
@dataclass(frozen=True, slots=True)
class StartSettings:
    """Options of the starting points."""

    largest_radius: float = 0.995  # largest modulus of an eigenvalue of A
    lags: tuple[int, ...] = (5, 10)  # numbers of lags of the block Hankel matrices that are tried
    axes: int = 3  # number of principal axes per state that subspace identification uses
    noise_share: float = 0.05  # smallest share of a feature's variance that is noise
    collinear: float = 1e-3  # share of the largest singular value below which states determine no transition
    ppca: Settings = field(default_factory=lambda: Settings(tol=1.0, max_iter=20))  # of the fit of PPCA


START = StartSettings()


def starts(rows: Sequences, q: int, rng: np.random.Generator) -> list[StateSpace]:
    """Starting systems, by subspace identification and by regression of principal components on earlier ones."""
    filled = interpolated(rows)
    guesses = [by_subspace(rows, filled, q, lags) for lags in START.lags]
    if q < rows.n_features and rows.n_steps > q + 2:
        guesses.append(by_components(rows, q, rng))
    found = [guess for guess in guesses if guess is not None]
    return found or [_from_states(filled, _padded(filled, q, rng), rows)]


def interpolated(rows: Sequences) -> Array:
    """Fill in missing cells by interpolation in time within each sequence, or by the mean if that is impossible."""
    values = rows.values
    missing = np.isnan(values)
    if not missing.any():
        return values
    out = values.copy()
    for start, length in zip(rows.starts, rows.lengths, strict=True):
        time = np.arange(length)
        for j in np.flatnonzero(missing[start : start + length].any(axis=0)):
            column = out[start : start + length, j]
            seen = ~np.isnan(column)
            column[:] = np.interp(time, time[seen], column[seen]) if seen.any() else rows.centre[j]
    return out


def by_subspace(rows: Sequences, filled: Array, q: int, lags: int) -> StateSpace | None:
    r"""Stochastic subspace identification (Ho & Kalman) on leading principal components.

    Covariances :math:`\Lambda_h = \operatorname{Cov}(s_{t+h}, s_t) = C A^{h-1} G` of neighbouring times, arranged as a
    block Hankel matrix, have rank q; its left factor holds C, C A, C A^2, ..., from which A follows by a shift.
    None if sequences are too short.
    """
    centred = filled - filled.mean(axis=0)
    r = min(START.axes * q, rows.n_features)
    _, _, axes = np.linalg.svd(centred if len(centred) < 4 * r else _square_root(centred), full_matrices=False)
    axes = axes[:r].T  # (d, r)
    scores = centred @ axes
    lags = max(lags, -(-(q + 1) // r) + 1)
    longest = int(rows.lengths.max())
    if longest <= 2 * lags + 1:
        return None
    covariances = [_lagged(scores, rows, h) for h in range(2 * lags)]
    hankel = np.block([[covariances[i + j + 1] for j in range(lags)] for i in range(lags)])
    left, singular, _ = np.linalg.svd(hankel)
    if singular[min(q, len(singular)) - 1] <= 1e-12 * singular[0] or len(singular) < q:
        return None
    observability = left[:, :q] * np.sqrt(singular[:q])
    A = _shrunk(np.linalg.lstsq(observability[:-r], observability[r:])[0])
    C = observability[:r]
    return _with_covariance(rows, centred, axes @ C, A, covariances[0], C)


def by_components(rows: Sequences, q: int, rng: np.random.Generator) -> StateSpace:
    """Starting system by PPCA, followed by a regression of each state on the one before it."""
    if rows.missing is None:
        model = _principal_components(rows, q)
    else:
        seen = ~rows.missing.all(axis=1)
        model = fit_ppca(open_source(rows.values[seen]), q, START.ppca, rng).model
    states = posterior_mean(model, rows.values)
    return _from_states(None, states, rows, model)


def _principal_components(rows: Sequences, q: int) -> LinearGaussian:
    """Fit PPCA to complete rows from their singular values."""
    centred = rows.values - rows.centre
    _, singular, axes = np.linalg.svd(_square_root(centred), full_matrices=False)
    values = np.square(singular) / rows.n_steps
    noise = max(float(values[q:].sum()) / (rows.n_features - q), 1e-12 * float(values.mean()))
    return LinearGaussian(rows.centre, axes[:q].T * np.sqrt(np.maximum(values[:q] - noise, 0.0)), np.asarray(noise))


def _from_states(
    filled: Array | None, states: Array, rows: Sequences, model: LinearGaussian | None = None
) -> StateSpace:
    q = states.shape[1]
    before, after = states[:-1][rows.linked], states[1:][rows.linked]
    A = np.linalg.lstsq(before, after, rcond=START.collinear)[0].T if len(before) else np.zeros((q, q))
    A = _shrunk(np.asarray(A))
    rest = after - before @ A.T
    scale = np.square(states).mean(axis=0)
    scale = np.maximum(scale, 1e-3 * scale.max() + 1e-300)
    Q = rest.T @ rest / max(len(rest), 1) + np.diag(0.1 * scale)
    if model is None:
        loadings, offset = np.zeros((rows.n_features, q)), rows.centre
        loadings[: min(q, rows.n_features), : min(q, rows.n_features)] = np.eye(min(q, rows.n_features))
        variance = np.square((rows.values if filled is None else filled) - offset).mean(axis=0)
        model = LinearGaussian(offset, loadings, np.maximum(variance / 2, 1e-12 * variance.max() + 1e-300))
    draft = StateSpace(Gaussian(np.zeros(q), np.diag(scale)), A, Q, model)
    return StateSpace(Gaussian(np.zeros(q), draft.stationary().covariance), A, Q, model)


def _padded(filled: Array, q: int, rng: np.random.Generator) -> Array:
    """Pad the centred features with small random columns to q states."""
    centred = filled - filled.mean(axis=0)
    scale = np.sqrt(np.square(centred).mean()) + 1e-12
    return np.hstack([centred, 0.1 * scale * rng.standard_normal((len(centred), q))])[:, :q]


def _with_covariance(rows: Sequences, centred: Array, C: Array, A: Array, own: Array, inner: Array) -> StateSpace:
    """Complete a starting system with noise covariances, from the covariances at lags zero and one."""
    variance = np.square(centred).mean(axis=0)
    back = np.linalg.pinv(inner)
    P = _positive(back @ own @ back.T)
    explained = np.einsum("dq,qr,dr->d", C, P, C)
    most = 1 - START.noise_share
    explained = np.minimum(explained, most * variance)  # before the division, which could overflow
    share = np.divide(explained, variance, out=np.full(variance.shape, most), where=variance > 0)
    noise = np.maximum(variance * (1 - share), 1e-12 * variance.max() + 1e-300)
    Q = _positive(P - A @ P @ A.T)
    draft = StateSpace(Gaussian(np.zeros(len(A)), P), A, Q, LinearGaussian(rows.centre, C, noise))
    return StateSpace(Gaussian(np.zeros(len(A)), draft.stationary().covariance), A, Q, draft.emission)


def _lagged(scores: Array, rows: Sequences, h: int) -> Array:
    """Covariance of rows that are h steps apart, over all sequences."""
    if h == 0:
        return scores.T @ scores / len(scores)
    sequences = [s for s in np.split(scores, rows.starts[1:]) if len(s) > h]
    total: Array = np.sum([s[h:].T @ s[:-h] for s in sequences], axis=0)
    return total / sum(len(s) - h for s in sequences)


def _square_root(centred: Array) -> Array:
    return np.asarray(np.linalg.qr(centred, mode="r")) if centred.shape[1] <= len(centred) else centred


def _shrunk(A: Floats) -> Array:
    """Scale a transition matrix so that all its modes decay."""
    radius = float(np.abs(np.linalg.eigvals(A)).max())
    return np.asarray(A * min(1.0, START.largest_radius / radius) if radius > 0 else A, dtype=np.float64)


def _positive(covariance: Array) -> Array:
    values, axes = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((axes * np.maximum(values, 0.01 * max(values[-1], 1e-300))) @ axes.T)
