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


ABILITIES = ("visual", "cubes", "lozenges", "paragraph", "sentence", "word", "addition", "counting", "capitals")
"""Names of the columns of ``correlated_abilities``."""


def correlated_abilities(rng, n=160, correlation=0.5):
    """Rows of three correlated factors with three columns each, in different units."""
    Phi = np.where(np.eye(3, dtype=bool), 1.0, correlation)
    L = np.zeros((9, 3))
    L[np.arange(9), np.repeat(np.arange(3), 3)] = [0.7, 0.5, 0.8, 0.9, 0.85, 0.8, 0.7, 0.75, 0.6]
    factors = rng.standard_normal((n, 3)) @ np.linalg.cholesky(Phi).T
    noise = rng.standard_normal((n, 9)) * np.sqrt(1 - np.square(L).sum(axis=1))
    return (factors @ L.T + noise) * [7.0, 4.7, 9.0, 3.5, 5.2, 7.7, 25.0, 20.0, 36.0] + np.arange(9)


def dense_factor_scores(estimator, row):
    """Posterior mean and covariance of the factors of one row, by conditioning their joint distribution."""
    joint, seen = estimator.joint(), np.flatnonzero(~np.isnan(row))
    d = row.size
    gain = np.linalg.solve(
        joint.covariance[np.ix_(seen, seen)], joint.covariance[np.ix_(seen, range(d, joint.mean.size))]
    ).T
    mean = gain @ (row[seen] - joint.mean[seen])
    return mean, joint.covariance[d:, d:] - gain @ joint.covariance[np.ix_(seen, range(d, joint.mean.size))]
