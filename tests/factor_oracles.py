"""Slow twins of factor analysis: dense likelihoods, one row after the other, and their maxima."""

import numpy as np
from scipy.optimize import minimize

from probpca.models import LinearGaussian


def dense_gaussian(mean, covariance, x, weight=None):
    """Log-likelihood of the observed cells, and its derivatives by the mean and by every entry of the covariance."""
    value, of_mean, of_covariance = 0.0, np.zeros(mean.size), np.zeros(covariance.shape)
    for row, w in zip(x, np.ones(len(x)) if weight is None else weight, strict=True):
        seen = np.flatnonzero(~np.isnan(row))
        P = np.linalg.inv(covariance[np.ix_(seen, seen)])
        e = P @ (row[seen] - mean[seen])
        value += 0.5 * w * (np.linalg.slogdet(P)[1] - seen.size * np.log(2 * np.pi) - e @ (row[seen] - mean[seen]))
        of_mean[seen] += w * e
        of_covariance[np.ix_(seen, seen)] += 0.5 * w * (np.outer(e, e) - P)
    return value, of_mean, of_covariance


def dense_value_and_gradient(model, x, weight=None):
    """Log-likelihood of a factor model, and its derivatives by mu, W and log psi."""
    W, psi = model.loadings, model.noise_variance
    value, of_mean, of_covariance = dense_gaussian(model.mean, W @ W.T + np.diag(psi), x, weight)
    return value, (of_mean, 2 * of_covariance @ W, np.diag(of_covariance) * psi)


def dense_fit(x, q, weight=None):
    """Factor analysis by quasi-Newton steps on the dense likelihood, polished by Newton's method."""
    d, p = x.shape[1], x.shape[1] * q

    def model_at(v):
        return LinearGaussian(v[p + d :], v[:p].reshape(d, q), np.exp(v[p : p + d]))

    def objective(v):
        value, (of_mean, of_loadings, of_noise) = dense_value_and_gradient(model_at(v), x, weight)
        return -value, -np.concatenate([of_loadings.ravel(), of_noise, of_mean])

    std, rng = np.nanstd(x, axis=0), np.random.default_rng(1)
    start = [(0.5 * std[:, None] * rng.standard_normal((d, q))).ravel(), np.log(0.5 * std**2), np.nanmean(x, axis=0)]
    found = minimize(objective, np.concatenate(start), jac=True, method="L-BFGS-B", options={"maxiter": 5000}).x
    for _ in range(3):
        steps = 1e-5 * np.eye(found.size)
        H = np.array([objective(found + h)[1] - objective(found - h)[1] for h in steps]) / 2e-5
        found = found - np.linalg.pinv(H, rcond=1e-8) @ objective(found)[1]
    assert np.abs(objective(found)[1]).max() < 1e-6
    return model_at(found)


def factor_rows(rng, n=200, d=6, q=2):
    """Rows of a factor model whose features have different units."""
    W = rng.uniform(-1, 1, (d, q)) + 0.3
    x = rng.standard_normal((n, q)) @ W.T + rng.standard_normal((n, d)) * rng.uniform(0.4, 1.0, d)
    return x * np.geomspace(0.1, 10, d) + np.arange(d)
