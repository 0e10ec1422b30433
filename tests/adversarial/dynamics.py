"""Linear dynamical systems of short sequences, compared with the Gaussian of the whole trajectory in fifty digits."""

from typing import NamedTuple

import mpmath
import numpy as np

from adversarial import oracles, tables
from adversarial.judgement import Judge, fingerprint, judged_error, quiet
from probpca import LinearDynamicalSystem

CELLS = 50
"""Cells of the longest sequence: the oracle inverts the covariance of all of them at once."""
JUDGED = 1e12
"""Largest condition number at which answers have digits that can be compared."""


def system(rng):
    """One sequence or several, with one to three states."""
    judge, several = Judge(), rng.random() < 0.3
    d = int(rng.integers(1, 6))
    rows = [_sequence(rng, d) for _ in range(int(rng.integers(1, 4)) if several else 1)]
    given = rows if several else rows[0]
    estimator = LinearDynamicalSystem(
        int(rng.integers(1, min(3, d) + 1)),
        noise=str(rng.choice(["diagonal", "isotropic"])),
        transition=str(rng.choice(["free", "diagonal", "stable"])),
        max_iter=60,
        random_state=0,
    )
    before = [fingerprint(row) for row in rows]
    with quiet(judge):
        try:
            estimator.fit(given)
        except Exception as error:  # noqa: BLE001
            return judged_error(error, allowed=not _sound(rows, estimator.n_components))
        try:
            _ask(judge, estimator, given, rows, several=several)
        except Exception as error:  # noqa: BLE001
            judge.complaints.extend(judged_error(error, allowed=False).words)
    judge.holds(before == [fingerprint(row) for row in rows], "the input was changed")
    return judge.verdict


def _sequence(rng, d):
    tags = []
    x = tables.values(rng, int(rng.integers(1, CELLS // d + 1)), d, tags)
    if rng.random() < 0.5:
        x = np.cumsum(x, axis=0)
    tables.holes(rng, x, tags)
    return x


def _sound(rows, q):
    x = np.vstack(rows)
    varied = sum(np.ptp(column[~np.isnan(column)]) > 0 for column in x.T if not np.isnan(column).all())
    return len(rows[0]) >= 8 and varied >= max(q, 1) and (~np.isnan(x)).sum() > 0.5 * x.size


def _ask(judge, estimator, given, rows, *, several):
    answers = [estimator.smooth(given), estimator.score_samples(given), estimator.impute(given)]
    answers = answers if several else [[one] for one in answers]
    seen = [~np.isnan(x) for x in rows]
    for x, full, here in zip(rows, answers[2], seen, strict=True):
        judge.holds(np.array_equal(full[here], x[here]), "impute changed an observed cell")
    total = estimator.log_likelihood(given)
    judge.close("sum of score_samples", sum(s.sum() for s in answers[1]), total, 1e-9 * (1 + abs(total)))
    which = int(np.argmax([len(x) for x in rows]))
    smoothed, scores, full = (one[which] for one in answers)
    want = series(estimator.model_, rows[which])
    if want.condition > JUDGED:
        return
    emission, x = estimator.model_.emission, rows[which]
    unit = 10 * x.size * oracles.EPS * want.condition
    size, steps = np.sqrt(np.linalg.norm(want.covariance, 2)), np.arange(len(x))
    error = unit * (np.abs(want.mean).max() + size * (1 + want.distance**0.5))
    judge.close("smoothed mean", smoothed.mean, want.mean, error)
    own = want.covariance.reshape(len(x), want.mean.shape[1], len(x), -1)[steps, :, steps, :]
    judge.close("smoothed covariance", smoothed.covariance, own, unit * size**2)
    nats = unit * (x.size + want.distance)
    judge.close("score_samples", scores.sum(), want.log_likelihood, nats + 1e-12 * abs(want.log_likelihood))
    predicted = emission.mean + want.mean @ emission.loadings.T
    bound = error * np.linalg.norm(emission.loadings, axis=1) + 1e-14 * np.abs(emission.mean)
    holes = ~seen[which]
    judge.close("impute", full[holes], predicted[holes], np.broadcast_to(bound, x.shape)[holes])


class Series(NamedTuple):
    """What the observed cells of a sequence say about its states."""

    log_likelihood: float
    distance: float  # squared Mahalanobis distance of all cells
    mean: np.ndarray  # (T, q)
    covariance: np.ndarray  # of all states: (T q, T q)
    condition: float  # of that covariance, and of the covariance of the states without any cell


def series(model, y):
    """Condition the Gaussian of a whole trajectory on its observed cells, in fifty digits."""
    exact, steps, q = oracles.exact, len(y), model.n_components
    with mpmath.workdps(oracles.DIGITS):
        A, Q, C = map(exact, (model.transition, model.process_noise, model.emission.loadings))
        means, P = [exact(model.initial.mean)], [exact(model.initial.covariance)]
        rows = [[P[0]]]
        for t in range(1, steps):
            means.append(A @ means[-1])
            P.append(A @ P[-1] @ A.T + Q)
            rows.append([A @ block for block in rows[-1]] + [P[t]])
        prior = np.block([[rows[s][t] if t <= s else rows[t][s].T for t in range(steps)] for s in range(steps)])
        seen = np.flatnonzero(~np.isnan(np.ravel(y)))
        mean = np.concatenate(means)
        noise = np.tile(np.broadcast_to(model.emission.noise_variance, (len(C),)), steps)[seen]
        offset = np.tile(model.emission.mean, steps)[seen]
        cross = np.concatenate([C @ prior[t * q : (t + 1) * q] for t in range(steps)])[seen]  # (m, T q)
        if seen.size == 0:
            return Series(0.0, 0.0, mean.astype(float).reshape(steps, q), prior.astype(float), _condition(prior, prior))
        V = np.concatenate([cross[:, t * q : (t + 1) * q] @ C.T for t in range(steps)], axis=1)[:, seen]
        V = V + np.diag(exact(noise))
        predicted = np.concatenate([C @ state for state in means])[seen]
        e = exact(np.ravel(y)[seen]) - exact(offset) - predicted
        solved, logdet = oracles.solve(V, np.column_stack([e, cross]))
        distance = e @ solved[:, 0]
        density = -(seen.size * mpmath.log(2 * mpmath.pi) + logdet + distance) / 2
        found, covariance = mean + cross.T @ solved[:, 0], prior - cross.T @ solved[:, 1:]
    return Series(
        float(density),
        float(distance),
        found.astype(float).reshape(steps, q),
        covariance.astype(float),
        _condition(prior, covariance),
    )


def _condition(prior, covariance):
    """Condition number of the equations that the states solve: largest variance before, smallest variance after."""
    prior, covariance = prior.astype(float), covariance.astype(float)
    if not np.isfinite(prior).all():
        return np.inf
    least = max(np.linalg.eigvalsh(covariance)[0], np.finfo(float).tiny)
    return float(np.linalg.norm(prior, 2) / least)
