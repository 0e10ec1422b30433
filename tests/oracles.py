"""Slow twins of the library's formulas: dense, exact, and written without a look at the fast ones."""

from fractions import Fraction
from typing import NamedTuple

import mpmath
import numpy as np
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

from probpca.models import Gaussian, LinearGaussian, StateSpace

MONTE_CARLO = 6
"""Standard errors that a fair sample stays within, for all practical purposes."""


def random_model(rng, d=7, q=3, *, noise=0.3, mean=2.0):
    """A model without any structure; ``noise="diagonal"`` gives each feature a variance of its own."""
    variance = rng.uniform(0.1, 2.0, size=d) if noise == "diagonal" else noise
    return LinearGaussian(mean * rng.standard_normal(d), rng.standard_normal((d, q)), variance)


def random_rotation(rng, q):
    """An orthogonal matrix, by QR of a random one."""
    return np.linalg.qr(rng.standard_normal((q, q)))[0]


def random_covariance(rng, k):
    """A symmetric positive definite matrix with no zero in it."""
    factor = rng.standard_normal((k, k + 2))
    return factor @ factor.T / k + 0.1 * np.eye(k)


def spiked_rows(rng, n, d, q, *, noise=0.1, largest=10.0):
    """Rows with q well separated directions of variance ``largest`` down to 1, and noise around them."""
    axes = np.linalg.qr(rng.standard_normal((d, q)))[0]
    spread = np.sqrt(np.geomspace(largest, 1.0, q))
    centre = 3.0 * rng.standard_normal(d)
    return (rng.standard_normal((n, q)) * spread) @ axes.T + np.sqrt(noise) * rng.standard_normal((n, d)) + centre


def dense_covariance(model):
    """W W' + Psi as a full matrix."""
    return model.loadings @ model.loadings.T + np.diag(np.broadcast_to(model.noise_variance, model.mean.shape))


def dense_joint(model):
    """Mean and covariance of (x, z), as full arrays."""
    W, q = model.loadings, model.n_components
    covariance = np.block([[dense_covariance(model), W], [W.T, np.eye(q)]])
    return Gaussian(np.concatenate([model.mean, np.zeros(q)]), covariance)


def dense_condition(gaussian, known, values):
    """The other coordinates of a Gaussian given some of them: mean (n, u) and one covariance (u, u)."""
    known = np.asarray(known)
    unknown = np.setdiff1d(np.arange(gaussian.mean.size), known)
    cross = gaussian.covariance[np.ix_(unknown, known)]
    gain = cross @ np.linalg.inv(gaussian.covariance[np.ix_(known, known)])
    mean = gaussian.mean[unknown] + (np.atleast_2d(values) - gaussian.mean[known]) @ gain.T
    return mean, gaussian.covariance[np.ix_(unknown, unknown)] - gain @ cross.T


def dense_posterior(model, x):
    """Mean (n, q) and covariance (q, q) of z given each row, by conditioning the joint Gaussian."""
    return dense_condition(dense_joint(model), np.arange(model.n_features), x)


def dense_log_likelihood(model, x):
    """Log density of each row, from the full covariance."""
    return np.atleast_1d(multivariate_normal(model.mean, dense_covariance(model)).logpdf(x))


def kl_divergence(left, right):
    """KL(left || right) of two Gaussians (k,), in nats."""
    inverse = np.linalg.inv(right.covariance)
    shift = right.mean - left.mean
    ratio = np.linalg.slogdet(right.covariance)[1] - np.linalg.slogdet(left.covariance)[1]
    return 0.5 * (np.trace(inverse @ left.covariance) + shift @ inverse @ shift - shift.size + ratio)


class ClosedForm(NamedTuple):
    """The maximum-likelihood model, and what it is made of."""

    model: LinearGaussian
    values: np.ndarray  # all eigenvalues of S, largest first: (d,)
    log_likelihood: float  # total, in nats


def closed_form_oracle(x, q):
    """Probabilistic PCA by a dense eigendecomposition of the covariance over n (Tipping & Bishop 1999)."""
    n, d = x.shape
    mean = x.mean(axis=0)
    values, vectors = np.linalg.eigh((x - mean).T @ (x - mean) / n)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    noise = values[q:].mean()
    model = LinearGaussian(mean, vectors[:, :q] * np.sqrt(values[:q] - noise), noise)
    total = -0.5 * n * (d * np.log(2 * np.pi) + np.log(values[:q]).sum() + (d - q) * np.log(noise) + d)
    return ClosedForm(model, values, float(total))


def precise_log_likelihood(model, x, *, bits=200):
    """Log density of each row, by elimination on the full covariance in 60-digit fixed-point integers."""
    d = model.n_features
    W = fixed_point(model.loadings, bits // 2)  # so that W W' needs no rounding at all
    mu, rows = fixed_point(model.mean, bits), fixed_point(np.atleast_2d(x), bits)
    noise = fixed_point(np.broadcast_to(model.noise_variance, (d,)), bits)
    table = np.hstack([W.dot(W.T) + np.diag(noise), (rows - mu).T])  # [C, x - mu]
    logdet, squares = mpmath.mpf(0), np.zeros(len(rows), dtype=object)
    with mpmath.workprec(bits):
        for k in range(d):
            pivot, row = table[k, k], table[k, k + 1 :]
            squares += (row[d - k - 1 :] ** 2) // pivot
            table[k + 1 :, k + 1 :] -= np.multiply.outer((table[k + 1 :, k] << bits) // pivot, row) >> bits
            logdet += mpmath.log(mpmath.mpf(pivot)) - bits * mpmath.log(2)
        constant = d * mpmath.log(2 * mpmath.pi) + logdet
        return np.array([float(-(constant + mpmath.mpf(s) / 2**bits) / 2) for s in squares])


def fixed_point(array, bits):
    """The numbers of an array as exact integers, in units of 2**-bits."""
    return np.vectorize(lambda value: int(Fraction(float(value)) * 2**bits), otypes=[object])(array)


def assert_never_falls(trace):
    """A trace of log-likelihoods must not fall, not even once, by more than rounding."""
    gain = np.diff(trace)
    assert gain.min() >= -1e-9 * abs(trace[-1]), f"fell by {-gain.min():.3g} at step {gain.argmin()}"


def assert_within_errors(drawn, expected, standard_error):
    """Averages of draws must lie within ``MONTE_CARLO`` standard errors of what they estimate."""
    errors = np.abs(np.asarray(drawn) - expected) / standard_error
    assert errors.max() < MONTE_CARLO, f"off by {errors.max():.1f} standard errors"


def assert_moments_match(draws, mean, covariance):
    """Mean and covariance of draws (n, k) from a Gaussian, each entry within its own standard error."""
    n, variance = len(draws), np.diag(covariance)
    assert_within_errors(draws.mean(axis=0), mean, np.sqrt(variance / n))
    errors = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    assert_within_errors((draws - mean).T @ (draws - mean) / n, covariance, errors)


def punched(rng, x, share):
    """A copy with about that share of its cells missing at random."""
    x = np.array(x)
    x[rng.random(x.shape) < share] = np.nan
    return x


def spiked_rows_with_holes(rng, n, d, q, *, share=0.3, noise=0.1):
    """Spiked rows with missing cells, at least one cell observed of every row and every column."""
    x = spiked_rows(rng, n, d, q, noise=noise)
    hidden = rng.random((n, d)) < share
    hidden[np.arange(n), np.arange(n) % d] = False
    hidden[np.arange(d) % n, np.arange(d)] = False
    x[hidden] = np.nan
    return x


def observed_parts(model, x, precision=None):
    """Of each row: which cells were observed, and the Gaussian of those cells alone."""
    W, psi = model.loadings, np.broadcast_to(model.noise_variance, model.mean.shape)
    omega = np.ones(x.shape) if precision is None else precision
    for row, certain in zip(x, omega, strict=True):
        seen = np.flatnonzero(~np.isnan(row) & (certain > 0))
        yield seen, Gaussian(model.mean[seen], W[seen] @ W[seen].T + np.diag(psi[seen] / certain[seen]))


def dense_observed_log_likelihood(model, x, precision=None):
    """Log density of the observed cells of each row, from a full covariance of its own; 0 if there are none."""
    values = []
    for row, (seen, part) in zip(x, observed_parts(model, x, precision), strict=True):
        density = multivariate_normal(part.mean, part.covariance).logpdf(row[seen]) if seen.size else 0.0
        values.append(float(density))
    return np.array(values)


def dense_observed_posterior(model, x, precision=None):
    """Mean (n, q) and covariance (n, q, q) of z given the observed cells of each row."""
    W, q = model.loadings, model.n_components
    means, covariances = np.zeros((len(x), q)), np.tile(np.eye(q), (len(x), 1, 1))
    for i, (row, (seen, part)) in enumerate(zip(x, observed_parts(model, x, precision), strict=True)):
        gain = W[seen].T @ np.linalg.inv(part.covariance)
        means[i] = gain @ (row[seen] - part.mean)
        covariances[i] -= gain @ W[seen]
    return Gaussian(means, covariances)


def dense_variational_bound(belief, x, weight=None, precision=None):
    """E[log p(x, z, theta)] + H(q(z)) + H(q(theta)) of Bayesian PCA, one cell after the other.

    The latent variables have their best posterior; the prior density of a mean is 1.
    """
    x = x - belief.centre.mean
    theta, q = np.pad(belief.centre.loadings, ((0, 0), (0, 1))), belief.n_components  # [w_j; mu_j], with means 0 now
    spread = np.zeros((len(theta), q + 1, q + 1))  # covariance of [w_j; mu_j]
    rows, columns = np.tril_indices(q + 1)
    spread[:, rows, columns] = spread[:, columns, rows] = belief.covariance.T
    second = np.einsum("ji,jk->jik", theta, theta) + spread  # E[theta theta']
    weight, total = np.ones(len(x)) if weight is None else weight, 0.0
    omega = np.ones(x.shape) if precision is None else precision
    for row, w, certain in zip(x, weight, omega / belief.centre.noise_variance, strict=True):
        seen = np.flatnonzero(~np.isnan(row) & (certain > 0))
        tau = certain[seen]
        inverse = np.eye(q) + np.einsum("j,jik->ik", tau, second[seen, :q, :q])
        P = np.linalg.inv(inverse)
        m = P @ (tau @ (theta[seen, :q] * row[seen, None] - second[seen, :q, q]))
        t = np.append(m, 1.0)
        moment = np.outer(t, t)
        moment[:q, :q] += P
        square = (row[seen] - theta[seen] @ t) ** 2 + np.einsum("jik,ik->j", spread[seen], moment)
        square += np.einsum("ji,ik,jk->j", theta[seen, :q], P, theta[seen, :q])
        value = np.log(tau / (2 * np.pi)).sum() - tau @ square - np.trace(moment[:q, :q])
        total += 0.5 * w * (value + q - np.linalg.slogdet(inverse)[1]) if seen.size else 0.0
    for j in np.flatnonzero(spread.any(axis=(1, 2))):
        entropy = (q + 1) * (1 + np.log(2 * np.pi)) + np.linalg.slogdet(spread[j])[1]
        prior = np.log(belief.precision / (2 * np.pi)) - belief.precision * np.diagonal(second[j])[:q]
        total += 0.5 * (entropy + prior.sum())
    return float(total)


def dense_regression(model, x, weight=None, precision=None):
    """The sums of an E-step over observed cells, one row after the other."""
    d, q = model.loadings.shape
    theta = np.column_stack([model.loadings, model.mean])
    belief = dense_observed_posterior(model, x, precision)
    densities = dense_observed_log_likelihood(model, x, precision)
    omega = np.ones(x.shape) if precision is None else precision
    sums = {"weight": 0.0, "counts": np.zeros(d), "log_likelihood": 0.0, "latent": np.zeros((q + 1, q + 1))}
    gram, score, squares = np.zeros((d, q + 1, q + 1)), np.zeros((q + 1, d)), np.zeros(d)
    for i, w in enumerate(np.ones(len(x)) if weight is None else weight):
        t = np.append(belief.mean[i], 1.0)
        second = np.outer(t, t)
        second[:q, :q] += belief.covariance[i]
        seen = np.flatnonzero(~np.isnan(x[i]) & (omega[i] > 0))
        fitted, sure = theta[seen], w * omega[i, seen]
        gram[seen] += sure[:, None, None] * second
        score[:, seen] += sure * (np.outer(t, x[i, seen]) - second @ fitted.T)
        spread = np.einsum("jk,kl,jl->j", fitted, second, fitted)
        squares[seen] += sure * (x[i, seen] ** 2 - 2 * x[i, seen] * (fitted @ t) + spread)
        sums["counts"][seen] += w
        if seen.size:
            sums["weight"] += w
            sums["latent"] += w * second
            sums["log_likelihood"] += w * densities[i]
    lower = np.tril_indices(q + 1)
    packed = {"latent": sums["latent"][lower], "gram": gram[:, lower[0], lower[1]].T}
    return {**sums, **packed, "score": score, "squares": squares}


def largest_fall(trace):
    """How far a trace of log-likelihoods falls in its worst step, as a share of the last value."""
    return float(np.max(-np.diff(trace), initial=0.0)) / abs(trace[-1])


def random_system(rng, d=4, q=2, *, inputs=0, noise="diagonal", radius=0.8):
    """A dynamical system without any structure, whose transition has the given spectral radius."""
    transition = rng.standard_normal((q, q))
    transition *= radius / np.abs(np.linalg.eigvals(transition)).max()
    initial = Gaussian(rng.standard_normal(q), random_covariance(rng, q))
    loadings = rng.standard_normal((q, inputs)) if inputs else None
    emission = random_model(rng, d, q, noise=noise)
    return StateSpace(initial, transition, random_covariance(rng, q), emission, loadings)


class DenseSeries(NamedTuple):
    """What the observed cells of one sequence say about all of its states at once."""

    log_likelihood: float
    mean: np.ndarray  # (T, q)
    covariance: np.ndarray  # of every state with every other: (T, q, T, q)


def dense_trajectory(model, steps, inputs=None):
    """The Gaussian of all states and all rows of a sequence, (x_1 .. x_T, y_1 .. y_T), as full arrays."""
    A, q = model.transition, model.n_components
    reach = [
        [np.linalg.matrix_power(A, t - s) if s <= t else np.zeros((q, q)) for s in range(steps)] for t in range(steps)
    ]
    reach = np.block(reach)  # what a push at step s is at step t
    pushes = np.zeros((steps, q))
    pushes[0] = model.initial.mean
    if inputs is not None:
        pushes[1:] = inputs[: steps - 1] @ model.input_loadings.T
    sources = [model.initial.covariance, *[model.process_noise] * (steps - 1)]
    states = reach @ block_diag(*sources) @ reach.T
    C = np.kron(np.eye(steps), model.emission.loadings)
    noise = np.tile(np.broadcast_to(model.emission.noise_variance, (model.n_features,)), steps)
    mean = reach @ pushes.ravel()
    rows = C @ mean + np.tile(model.emission.mean, steps)
    covariance = np.block([[states, states @ C.T], [C @ states, C @ states @ C.T + np.diag(noise)]])
    return Gaussian(np.concatenate([mean, rows]), covariance)


def dense_series(model, y, inputs=None):
    """Condition the Gaussian of a whole trajectory on the observed cells of one sequence (T, d)."""
    steps, q = len(y), model.n_components
    joint, values = dense_trajectory(model, steps, inputs), np.ravel(y)
    states, seen = np.arange(steps * q), steps * q + np.flatnonzero(~np.isnan(values))
    values = values[~np.isnan(values)]
    if seen.size == 0:
        mean, covariance, density = joint.mean[states], joint.covariance[np.ix_(states, states)], 0.0
    else:
        part = np.concatenate([states, seen])
        known = Gaussian(joint.mean[part], joint.covariance[np.ix_(part, part)])
        mean, covariance = dense_condition(known, np.arange(states.size, part.size), values)
        density = multivariate_normal(joint.mean[seen], joint.covariance[np.ix_(seen, seen)]).logpdf(values)
    return DenseSeries(float(density), mean.reshape(steps, q), covariance.reshape(steps, q, steps, q))


def precise_series(model, y, *, digits=120):
    """What ``dense_series`` says, in so many digits that no noise is too small."""
    steps, exact = len(y), np.vectorize(mpmath.mpf, otypes=[object])
    with mpmath.workdps(digits):
        A, Q, C = map(exact, (model.transition, model.process_noise, model.emission.loadings))
        means, P = [exact(model.initial.mean)], {(0, 0): exact(model.initial.covariance)}
        for t in range(1, steps):
            means.append(A @ means[-1])
            for s in range(t):
                P[s, t] = P[s, t - 1] @ A.T
                P[t, s] = P[s, t].T
            P[t, t] = A @ P[t - 1, t - 1] @ A.T + Q
        mean, states = np.concatenate(means), np.block([[P[s, t] for t in range(steps)] for s in range(steps)])
        seen = np.flatnonzero(~np.isnan(np.ravel(y)))
        H = np.kron(np.eye(steps, dtype=int).astype(object), C)[seen]
        noise = exact(np.tile(np.broadcast_to(model.emission.noise_variance, C.shape[:1]), steps)[seen])
        error = exact(np.ravel(y)[seen]) - exact(np.tile(model.emission.mean, steps)[seen]) - H @ mean
        V = mpmath.matrix((H @ states @ H.T + np.diag(noise)).tolist())
        inverse = np.array(mpmath.inverse(V).tolist())
        density = -(seen.size * mpmath.log(2 * mpmath.pi) + mpmath.log(mpmath.det(V)) + error @ inverse @ error) / 2
        gain = states @ H.T @ inverse
        mean, covariance = (mean + gain @ error).astype(float), (states - gain @ H @ states).astype(float)
    return DenseSeries(float(density), mean.reshape(steps, -1), covariance.reshape(steps, -1, steps, len(A)))
