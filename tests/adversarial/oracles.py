"""Dense computations that judge the campaign: full covariances, many digits, plain EM, and bounds of rounding errors.

Nothing here calls the library. A model is whatever has ``mean`` (d,), ``loadings`` (d, q) and ``noise_variance``.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import mpmath
import numpy as np

EPS = np.finfo(float).eps
DIGITS = 50
TRUSTED = 1e4
"""Condition number of the covariance up to which float64 Cholesky factors are more precise than what they judge."""
SMALLEST = 1e-160
"""Numbers below this have no square in float64, and lose their digits."""
LOG_2PI = np.log(2 * np.pi)


class Model(NamedTuple):
    """Parameters of x = W z + mu + noise, with a noise variance for each feature."""

    mean: np.ndarray  # (d,)
    loadings: np.ndarray  # (d, q)
    noise: np.ndarray  # (d,)

    @classmethod
    def of(cls, model):
        mean = np.asarray(model.mean)
        return cls(mean, np.asarray(model.loadings), np.broadcast_to(model.noise_variance, mean.shape))

    @property
    def covariance(self):
        return self.loadings @ self.loadings.T + np.diag(self.noise)

    @property
    def condition(self):
        """Condition number of the covariance in units of the noise, 1 + |Psi^-1/2 W|^2."""
        return 1.0 + np.linalg.norm(self.loadings / np.sqrt(self.noise)[:, None], 2) ** 2


@dataclass(frozen=True)
class Answers:
    """What the observed cells of each row say, or bounds of the errors of such answers."""

    log_likelihood: np.ndarray  # (n,)
    distance: np.ndarray  # squared Mahalanobis distance: (n,)
    mean: np.ndarray  # posterior mean of z: (n, q)
    covariance: np.ndarray  # posterior covariance of z: (n, q, q)
    predicted: np.ndarray  # mu + W E[z | x]: (n, d)
    signal: np.ndarray  # variance of W z given the row: (n, d)
    contributions: np.ndarray  # of each cell to the distance: (n, d)

    def take(self, rows):
        return Answers(*(getattr(self, field.name)[rows] for field in fields(self)))


def dense(model, x):
    """Answers from the full covariance of the observed cells of each row, (d, d), by Cholesky factors."""
    seen = ~np.isnan(x)
    root = np.sqrt(model.noise)
    V = np.where(seen[:, :, None], (model.loadings / root[:, None])[None], 0.0)  # (n, d, q)
    r = np.where(seen, (x - model.mean) / root, 0.0)  # (n, d)
    C = V @ V.transpose(0, 2, 1) + np.eye(x.shape[1])
    L = np.linalg.cholesky(C)
    g = np.linalg.solve(C, r[:, :, None])[:, :, 0]
    distance = (r * g).sum(axis=1)
    volume = 2 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1) + (seen * np.log(model.noise)).sum(axis=1)
    mean = np.einsum("ijk,ij->ik", V, g)
    P = np.eye(V.shape[2]) - V.transpose(0, 2, 1) @ np.linalg.solve(C, V)
    return Answers(
        -0.5 * (seen.sum(axis=1) * LOG_2PI + volume + distance),
        distance,
        mean,
        P,
        model.mean + mean @ model.loadings.T,
        np.einsum("jk,ikl,jl->ij", model.loadings, P, model.loadings),
        r * g,
    )


def precise(model, x):
    """The same with arithmetic of fifty digits."""
    with mpmath.workdps(DIGITS):
        found = [_precise_row(model, row) for row in x]
    return Answers(*(np.stack(part) for part in zip(*found, strict=True)))


exact = np.vectorize(mpmath.mpf, otypes=[object])


def _precise_row(model, row):
    seen = np.flatnonzero(~np.isnan(row))
    W, all_loadings, mu = exact(model.loadings[seen]), exact(model.loadings), exact(model.mean)
    q, r = all_loadings.shape[1], exact(row[seen]) - mu[seen]
    if seen.size == 0:
        P, m, g, logdet = exact(np.eye(q)), exact(np.zeros(q)), r, mpmath.mpf(0)
    else:
        C = W @ W.T + np.diag(exact(model.noise[seen]))
        solved, logdet = solve(C, np.column_stack([r, W]))
        g, m = solved[:, 0], W.T @ solved[:, 0]
        P = exact(np.eye(q)) - W.T @ solved[:, 1:]
    contributions = np.zeros(row.size)
    contributions[seen] = (r * g).astype(float)
    distance = (r * g).sum() if seen.size else mpmath.mpf(0)
    return (
        float(-(seen.size * mpmath.log(2 * mpmath.pi) + logdet + distance) / 2),
        float(distance),
        m.astype(float),
        P.astype(float),
        (mu + all_loadings @ m).astype(float),
        ((all_loadings @ P) * all_loadings).sum(axis=1).astype(float),
        contributions,
    )


def solve(C, B):
    """C^-1 B and log |C| of a positive definite matrix, by elimination."""
    table, d, logdet = np.hstack([C, B]), len(C), mpmath.mpf(0)
    for k in range(d):
        logdet += mpmath.log(table[k, k])
        table[k + 1 :] -= np.multiply.outer(table[k + 1 :, k] / table[k, k], table[k])
    out = table[:, d:].copy()
    for k in reversed(range(d)):
        out[k] = (out[k] - table[k, k + 1 : d] @ out[k + 1 :]) / table[k, k]
    return out, logdet


def answers(model, x, rng, most_precise=3):
    """Rows that are judged, with their answers and bounds: all rows in float64, or some of them in fifty digits."""
    if model.condition <= TRUSTED:
        rows = np.arange(len(x))
        found = dense(model, x)
        return rows, found, bounds(model, x, found)
    rows = np.sort(rng.permutation(len(x))[:most_precise])
    found = precise(model, x[rows])
    return rows, found, bounds(model, x[rows], found)


def bounds(model, x, found):
    r"""How far answers of a stable algorithm in float64 may be from the truth, to first order in the rounding unit.

    In units of the noise, V = Psi^-1/2 W and r = Psi^-1/2 (x - mu), the posterior solves (I + V'V) m = V'r. Rounding
    perturbs that matrix by eps |V|^2 and its right-hand side by eps |V| |r|, and the posterior covariance P carries
    both over to m. The distance is the minimum over z of |r - V z|^2 + |z|^2, so that errors of m enter it squared;
    what enters directly are errors of the residual r - V m, eps (|r| + |V| |m|). The numbers of the table and of the
    mean count as known up to their last digit, so that |r| stands for |r| + Psi^-1/2 (|x| + |mu|). ``own`` is the
    condition number of the oracle where it is float64 itself.
    """
    own = model.condition if model.condition <= TRUSTED else 0.0
    seen = ~np.isnan(x)
    d, q = model.loadings.shape
    unit = 10.0 * (d + q) * EPS
    root = np.sqrt(model.noise)
    V = np.where(seen[:, :, None], (model.loadings / root[:, None])[None], 0.0)
    s = np.linalg.norm(V, 2, axis=(1, 2))
    r = np.linalg.norm(np.where(seen, (x - model.mean) / root, 0.0), axis=1)
    r = r + np.linalg.norm(np.where(seen, (np.abs(x) + np.abs(model.mean)) / root, 0.0), axis=1)
    m, P = np.linalg.norm(found.mean, axis=1), np.linalg.norm(found.covariance, 2, axis=(1, 2))
    # residual in units of the noise, from D2 = |r - V m|^2 + |m|^2
    g = np.sqrt(np.maximum(found.distance - m**2, 0.0)) + unit * (r + s * m)
    gain = np.minimum(1.0, s * P) + 1.0 / (1.0 + s)
    solved = s**2 * m + s * r  # of the equations of m, to be multiplied by P
    mean = unit * (P * solved + m + gain * own * g)
    distance = unit * (2 * g * (r + s * m) + found.distance + own * g**2) + (unit * solved) ** 2 * P
    volume = unit * (d + s**2 * P + np.abs(np.log(model.noise)).sum() + own)
    leverage = np.linalg.norm(np.einsum("ikl,jl->ijk", found.covariance, model.loadings), axis=2)  # |P w_j|: (n, d)
    size = np.linalg.norm(model.loadings, axis=1)
    predicted = unit * (np.abs(model.mean) + size * m[:, None] + leverage * solved[:, None])
    predicted = predicted + size * (unit * gain * own * g)[:, None] + SMALLEST
    covariance = unit * (P + P**2 * s**2 + gain**2 * own)
    signal = unit * (leverage**2 * (s**2)[:, None] + size**2 * (P + gain**2 * own)[:, None])
    # A contribution is (x - mu) times the residual in units of the noise, which takes over the error of m once.
    cells = unit * r * (r + s * m + gain * solved + own * g)
    ones = np.ones_like(found.predicted)
    return Answers(
        0.5 * (volume + distance),
        distance,
        mean[:, None] * np.ones_like(found.mean),
        covariance[:, None, None] * np.ones_like(found.covariance),
        predicted,
        signal,
        cells[:, None] * ones,
    )


def split_error(model, x):
    """Error of T2 + Q to first order: the subspace of the components is known up to eps |V| over its smallest value.

    Directions below 1e-6 of the largest count as not observed: near that the split is arbitrary, and Q ignores that
    they explain a share s^2 / (1 + s^2) of what they hold.
    """
    seen, root = ~np.isnan(x), np.sqrt(model.noise)
    V = np.where(seen[:, :, None], (model.loadings / root[:, None])[None], 0.0)
    r = np.linalg.norm(np.where(seen, (np.abs(x) + np.abs(model.mean)) / root, 0.0), axis=1)
    s = np.linalg.svd(V, compute_uv=False)
    least = np.where(s > 0.5e-6 * s[:, :1], s, np.inf).min(axis=1)
    least = np.where(np.isfinite(least), least, 1.0)
    condition = s[:, 0] / least
    error = 10 * sum(model.loadings.shape) * EPS * condition * (1 + condition) * r**2
    ignored = np.square(np.where(s < 2e-6 * s[:, :1], s, 0.0).max(axis=1))
    return np.where(condition < 1e5, error + ignored / (1 + ignored) * r**2, np.inf)


def tail(distance, degrees, scale=1.0, nu=np.inf):
    """P(scale * k F(k, nu) > distance) and its base-10 logarithm, with fifty digits."""
    with mpmath.workdps(DIGITS):
        x, k = mpmath.mpf(float(distance)) / mpmath.mpf(float(scale)), mpmath.mpf(int(degrees))
        if degrees == 0:
            p = mpmath.mpf(1)
        elif np.isinf(nu):
            p = mpmath.gammainc(k / 2, x / 2, regularized=True)
        else:
            p = mpmath.betainc(mpmath.mpf(nu) / 2, k / 2, 0, mpmath.mpf(nu) / (mpmath.mpf(nu) + x), regularized=True)
        return float(p), float(mpmath.log10(p)) if p > 0 else -np.inf


# Likelihood of a table with weights of rows and precisions of cells


class Sample(NamedTuple):
    """Rows of a fit: values with NaN for missing cells, frequencies of rows and precisions of cells."""

    x: np.ndarray  # (n, d)
    weight: np.ndarray  # (n,)
    precision: np.ndarray  # (n, d); 0 where a cell is missing

    @classmethod
    def of(cls, x, weight=None, precision=None):
        weight = np.ones(len(x)) if weight is None else np.asarray(weight, dtype=float)
        precision = np.ones(x.shape) if precision is None else np.asarray(precision, dtype=float)
        present = weight > 0
        omega = np.where(np.isnan(x), 0.0, precision)[present]
        return cls(np.where(omega > 0, x[present], 0.0), weight[present], omega)

    @property
    def complete(self):
        return bool((self.precision > 0).all() and np.ptp(self.precision) == 0)

    def scaled(self, scale):
        return self._replace(x=self.x / scale)


def posteriors(model, sample):
    """Posterior mean (n, q) and covariance (n, q, q) of z, and the log-likelihood (n,), row by row."""
    omega, seen = sample.precision, sample.precision > 0
    noise = model.noise / np.where(seen, omega, 1.0)
    V = np.where(seen[:, :, None], model.loadings / np.sqrt(noise)[:, :, None], 0.0)
    r = np.where(seen, (sample.x - model.mean) / np.sqrt(noise), 0.0)
    M = np.eye(V.shape[2]) + V.transpose(0, 2, 1) @ V
    P = np.linalg.inv(M)
    m = np.linalg.solve(M, np.einsum("ijk,ij->ik", V, r)[:, :, None])[:, :, 0]
    rest = r - np.einsum("ijk,ik->ij", V, m)
    volume = np.linalg.slogdet(M)[1] + np.where(seen, np.log(noise), 0.0).sum(axis=1)
    distance = np.square(rest).sum(axis=1) + np.square(m).sum(axis=1)
    return m, P, -0.5 * (seen.sum(axis=1) * LOG_2PI + volume + distance)


def total_log_likelihood(model, sample):
    """Weighted log-likelihood of the observed cells, with the bound of ``bounds`` for its error.

    Where no cell is missing it may come from eigenvalues, which are determined up to eps times the largest one.
    """
    m, P, found = posteriors(model, sample)
    unit = 10 * sum(model.loadings.shape) * EPS
    root = np.sqrt(sample.precision / model.noise)  # 0 where a cell is missing
    s = np.sqrt((model.condition - 1) * sample.precision.max())
    r = np.linalg.norm((np.abs(sample.x - model.mean) + np.abs(sample.x) + np.abs(model.mean)) * root, axis=1)
    rest = np.linalg.norm((sample.x - model.mean - m @ model.loadings.T) * root, axis=1)
    volume = s**2 * (1.0 if sample.complete else np.linalg.norm(P, 2, axis=(1, 2)))
    size = r + s * np.linalg.norm(m, axis=1)
    error = unit * (np.abs(found) + volume + rest * size) + (unit * size) ** 2
    return float(found @ sample.weight), float(error @ sample.weight)


def plain_em(model, sample, steps=200, floor=None):
    """Expectation-maximisation as in a textbook, with one noise variance for all features.

    With a ``floor`` (d,) each feature has its own, which stays above it.
    """
    w, omega = sample.weight, sample.precision
    least = 1e-6 * model.noise.min()
    for _ in range(steps):
        m, P, _ = posteriors(model, sample)
        t = np.column_stack([m, np.ones(len(m))])  # (n, q + 1)
        T = t[:, :, None] * t[:, None, :]
        T[:, :-1, :-1] += P
        sure = w[:, None] * omega  # (n, d)
        A = np.einsum("ij,ikl->jkl", sure, T)
        centred = sample.x - model.mean  # so that large means cost no digits
        b = np.einsum("ij,ij,ik->jk", sure, np.where(omega > 0, centred, 0.0), t)
        known = omega.any(axis=0)
        theta = np.zeros(b.shape)
        theta[known] = (np.linalg.pinv(A[known], hermitian=True) @ b[known][:, :, None])[:, :, 0]
        W, shift = theta[:, :-1], theta[:, -1]
        rest = np.square(centred - m @ W.T - shift) + np.einsum("jk,ikl,jl->ij", W, P, W)
        counts = w @ (omega > 0)
        if floor is not None:
            own = np.divide((sure * rest).sum(axis=0), counts, out=model.noise.copy(), where=counts > 0)
            model = Model(model.mean + shift, W, np.maximum(own, floor))
            continue
        noise = (sure * rest).sum() / counts.sum()
        if noise < least:
            break  # it falls without end
        model = Model(model.mean + shift, W, np.full(len(shift), noise))
    return model


class Maximum(NamedTuple):
    """The largest likelihood of complete rows, in closed form (Tipping & Bishop 1999)."""

    log_likelihood: float
    noise: float
    condition: float  # largest over smallest variance


def closed_form(sample, q):
    """From the singular values of the centred rows; None if no noise is left."""
    n, d = sample.weight.sum(), sample.x.shape[1]
    centred = sample.x - np.average(sample.x, axis=0, weights=sample.weight)
    centred -= np.average(centred, axis=0, weights=sample.weight)  # what rounding left
    singular = np.linalg.svd(centred * np.sqrt(sample.weight)[:, None], compute_uv=False)
    values = np.zeros(d)
    values[: singular.size] = np.square(singular) / n
    noise = values[q:].mean()
    if not noise > 1e-10 * values.mean():
        return None
    total = -0.5 * n * (d * LOG_2PI + np.log(values[:q]).sum() + (d - q) * np.log(noise) + d)
    return Maximum(float(total), float(noise), float(values[0] / noise))


def shared_correction(model, n_rows, n_cells, empty):
    """Factor by which one noise variance is corrected for the degrees of freedom of the parameters."""
    d, q = model.loadings.shape
    residual = max(n_cells - n_rows * q, 0.1 * n_cells)
    free = max(residual - (q + 1) * (d - len(empty) - q), 0.1 * residual)
    return residual / free


def own_corrections(model, information, n_cells, empty):
    """Factors by which the noise variances of the features are corrected for their own parameters: (d,)."""
    d, q = model.loadings.shape
    share = np.broadcast_to(information[-1], d)
    cells = share * n_cells / share.sum()
    known = np.setdiff1d(np.arange(d), empty)
    factors = np.ones(d)
    factors[known] = cells[known] / np.maximum(cells[known] - q - 1, 0.1 * cells[known])
    return factors


def parameter_covariances(model, information, correction, empty):
    """Covariance of [w_j; mu_j] of each feature of a fit, (d, q + 1, q + 1), and the corrected noise variance (d,).

    With the information A_j, the sum of E[t t'] over the rows in which feature j was observed, it is the noise
    variance times A_j^-1.
    """
    d, q = model.loadings.shape
    noise = model.noise * correction
    rows, columns = np.tril_indices(q + 1)
    A = np.zeros((information.shape[1], q + 1, q + 1))
    A[:, rows, columns] = A[:, columns, rows] = information.T
    A = np.broadcast_to(A, (d, q + 1, q + 1)).copy()
    A[empty] = np.eye(q + 1)
    covariance = noise[:, None, None] * np.linalg.pinv(A, hermitian=True)
    condition = np.linalg.cond(A).max()
    return covariance, noise, condition
