"""Streams of single rows against the fit of all rows at once."""

import numpy as np

from adversarial.judgement import Judge, quiet
from adversarial.oracles import EPS
from probpca import PPCA


def stream(rng):
    """From a hundred to ten thousand rows, one after the other; one stream in twenty has a hundred thousand."""
    n = 100_000 if rng.random() < 0.05 else int(10 ** rng.uniform(2, 4))
    d, judge = int(rng.integers(2, 8)), Judge()
    q = int(rng.integers(1, d))
    x = rng.standard_normal((n, q)) @ rng.standard_normal((q, d)) + 0.5 * rng.standard_normal((n, d))
    offset = float(rng.choice([0.0, 10.0, 1e4, 1e6]))
    x = (x + offset).astype(rng.choice([np.float64, np.float32]) if offset < 1e4 else np.float64)
    weight = rng.choice([0.0, 1.0, 2.0, 0.5], n) if rng.random() < 0.3 else None
    standardize = bool(rng.random() < 0.3)
    estimator = PPCA(q, standardize=standardize, random_state=0)
    with quiet(judge):
        for i in range(n):
            estimator.partial_fit(x[i : i + 1], sample_weight=None if weight is None else weight[i : i + 1])
        batch = PPCA(q, standardize=standardize, random_state=0).fit(x.astype(float), sample_weight=weight)
        _compare(judge, estimator, batch, n, offset)
    return judge.verdict


def _compare(judge, found, want, n, offset):
    """Each row adds a rounding error to the sums; the distance of a row from the mean is known up to eps offset."""
    C = want.get_covariance()
    size = np.sqrt(np.diag(C))
    error = 10 * EPS * (n + offset / size.min()) * np.linalg.cond(C / np.outer(size, size))
    judge.close("mean_", found.mean_, want.mean_, 10 * EPS * n * (np.abs(want.mean_) + size))
    judge.close("covariance", found.get_covariance(), C, error * np.outer(size, size))
    nats = error * n + 1e-9 * abs(want.log_likelihood_)
    judge.close("log_likelihood_", found.log_likelihood_, want.log_likelihood_, nats)
    judge.close("n_samples_", found.n_samples_, want.n_samples_, 1e-9 * want.n_samples_)
