"""The judge of all contenders: the log-likelihood of the observed cells, in NumPy alone, row by row.

``log_likelihood`` takes a model as it is. ``calibrated`` is for peers that give axes without a scale: the best
model with their mean and their axes, found by EM over the covariance along the axes and the noise variance.
"""

from __future__ import annotations

import numpy as np

CELLS = 10_000_000  # held at once


def log_likelihood(x, mean, loadings, noise):
    """Sum over the rows of x, where NaN is a missing cell."""
    return sum(part[0] for part in parts(x, mean, loadings, noise))


def calibrated(x, mean, axes, steps=200):
    """Loadings and noise variance that explain x best among all models with these axes and this mean."""
    basis = np.linalg.qr(axes)[0]
    d, q = basis.shape
    observed = np.count_nonzero(~np.isnan(x))
    noise = np.nanmean((x - mean) ** 2)
    loadings = basis * np.sqrt(noise * d / q)
    value = -np.inf
    for _ in range(steps):
        before = value
        value, second, residual = (sum(part) for part in zip(*parts(x, mean, loadings, noise), strict=True))
        if value - before < 1e-8 * observed:
            break
        loadings = loadings @ np.linalg.cholesky(second / len(x))
        noise = residual / observed
    return loadings, noise


def parts(x, mean, loadings, noise):
    """Of each chunk of rows: log-likelihood, sum of E[zz'], expected squares of the residuals."""
    d, q = loadings.shape
    squares = (loadings[:, :, None] * loadings[:, None, :]).reshape(d, q * q)
    size = max(1, CELLS // max(d, q * q))
    for start in range(0, len(x), size):
        rows = x[start : start + size]
        seen = ~np.isnan(rows)
        centred = np.where(seen, rows - mean, 0)
        count = seen.sum(axis=1)
        gram = (seen.astype(float) @ squares).reshape(-1, q, q)
        inner = gram + noise * np.eye(q)
        inverse = np.linalg.inv(inner)
        scores = (inverse @ (centred @ loadings)[:, :, None])[:, :, 0]
        error = ((centred - np.where(seen, scores @ loadings.T, 0)) ** 2).sum(axis=1)
        logdet = (count - q) * np.log(noise) + np.linalg.slogdet(inner)[1]
        value = -0.5 * (count * np.log(2 * np.pi) + logdet + error / noise + (scores**2).sum(axis=1)).sum()
        second = noise * inverse.sum(axis=0) + scores.T @ scores
        yield value, second, error.sum() + noise * (inverse * gram).sum()
