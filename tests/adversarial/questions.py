"""Every question that a fitted model of a table answers, compared with the dense Gaussian of its parameters."""

import numpy as np
from scipy.special import ndtri

from adversarial import oracles
from adversarial.oracles import EPS

SINGLE = float(np.finfo(np.float32).eps)
DRAWS = 2000
STANDARD_ERRORS = 6.5


class Asked:
    """A fitted estimator, the rows it is asked about, and what an oracle says about some of them."""

    def __init__(self, judge, estimator, table, rng):
        self.judge, self.estimator, self.given, self.x, self.rng = judge, estimator, table.given, table.x, rng
        self.model = oracles.Model.of(estimator.model_)
        self.rows, self.want, self.bound = oracles.answers(self.model, table.x, rng)
        self.rounding = SINGLE if table.single else 4 * EPS
        self.missing = np.isnan(table.x)

    def all(self):
        for question in (self.likelihood, self.latents, self.imputed, self.interval, self.outliers, self.condition):
            question()
        self.matrices()

    def likelihood(self):
        scores = self.estimator.score_samples(self.given)
        self.judge.close("score_samples", scores[self.rows], self.want.log_likelihood, self.bound.log_likelihood)
        mean = self.estimator.score(self.given)
        self.judge.close("score", mean, scores.mean(), 1e-12 * np.abs(scores).mean())

    def latents(self):
        found, size = np.asarray(self.estimator.transform(self.given)), np.abs(self.want.mean)
        self.judge.close("transform", found[self.rows], self.want.mean, self.bound.mean + self.rounding * size)
        posterior = self.estimator.posterior(self.given)
        self.judge.close("posterior mean", posterior.mean[self.rows], self.want.mean, self.bound.mean)
        self.judge.close(
            "posterior covariance", posterior.covariance[self.rows], self.want.covariance, self.bound.covariance
        )

    def imputed(self):
        filled = np.asarray(self.estimator.impute(self.given), dtype=float)
        seen = ~self.missing
        self.judge.holds(
            filled.shape == self.x.shape and np.array_equal(filled[seen], self.x[seen]),
            "impute changed an observed cell",
        )
        here = self.missing[self.rows]
        want, bound = self.want.predicted, self.bound.predicted + self.rounding * np.abs(self.want.predicted)
        self.judge.close("impute", filled[self.rows][here], want[here], bound[here])

    def interval(self):
        """Intervals of missing cells, with the uncertainty of the parameters."""
        fit, level = self.estimator, float(self.rng.uniform(0.5, 0.99))
        low, high = (np.asarray(end, dtype=float) for end in fit.impute_interval(self.given, level))
        self.judge.holds(
            np.array_equal(low[~self.missing], self.x[~self.missing]), "an interval moved an observed cell"
        )
        Sigma, noise, condition = parameter_uncertainty(fit, self.model)
        t = np.column_stack([self.want.mean, np.ones(len(self.rows))])
        T = t[:, :, None] * t[:, None, :]
        T[:, :-1, :-1] += self.want.covariance
        variance = noise + self.want.signal + np.einsum("jkl,ikl->ij", Sigma, T)
        size = np.linalg.norm(Sigma, 2, axis=(1, 2)) * np.square(t).sum(axis=1)[:, None]
        moved = self.bound.mean.max(axis=1) * np.sqrt(np.square(t).sum(axis=1))
        error = self.bound.signal + 1e3 * EPS * condition * (variance + size)
        error = (
            error
            + np.linalg.norm(Sigma, 2, axis=(1, 2)) * (2 * moved + self.bound.covariance.max(axis=(1, 2)))[:, None]
        )
        std, half = np.sqrt(variance), ndtri(0.5 + level / 2)
        bound = error / std + 4 * self.rounding * (np.abs(self.want.predicted) + std)
        std[:, fit.empty_features_] = np.inf
        here = self.missing[self.rows]
        self.judge.close("impute_interval", (high - low)[self.rows][here] / (2 * half), std[here], bound[here])

    def outliers(self):
        found, want, bound = self.estimator.outliers(self.given), self.want, self.bound
        self.judge.close("outliers.distance", found.distance[self.rows], want.distance, bound.distance)
        self.judge.close("contributions", found.contributions[self.rows], want.contributions, bound.contributions)
        parts = (found.latent_distance + found.residual_distance)[self.rows]
        error = bound.distance + oracles.split_error(self.model, self.x[self.rows])
        self.judge.close("T2 + Q", parts, want.distance, error)
        calibration = self.estimator.calibration_
        for i in self.rng.permutation(len(self.x))[:2]:
            degrees = int((~self.missing[i]).sum())
            for name, *reference in (("model_", 1.0, np.inf), ("", calibration.scale, calibration.degrees)):
                p, log10_p = oracles.tail(found.distance[i], degrees, *reference)
                self.judge.close(f"{name}p_value", getattr(found, f"{name}p_value")[i], p, 1e-9 * p + 1e-300)
                got = getattr(found, f"log10_{name}p_value")[i]
                self.judge.close(f"log10_{name}p_value", got, log10_p, 1e-8 * (1 + abs(log10_p)))

    def condition(self):
        """Predict some columns from the others."""
        d = self.x.shape[1]
        known = np.sort(self.rng.permutation(d)[: int(self.rng.integers(1, d))])
        rest = np.setdiff1d(np.arange(d), known)
        values = self.model.mean[known] + self.rng.standard_normal((2, len(known))) * np.sqrt(
            np.diag(self.model.covariance)[known]
        )
        found = self.estimator.condition(known.tolist(), values)
        row = np.full((2, d), np.nan)
        row[:, known] = values
        want = (oracles.dense if self.model.condition <= oracles.TRUSTED else oracles.precise)(self.model, row)
        bound = oracles.bounds(self.model, row, want)
        self.judge.close("condition.mean", found.mean, want.predicted[:, rest], bound.predicted[:, rest])
        variance = (want.signal[0] + self.model.noise)[rest]
        error = bound.signal[0][rest] + 8 * EPS * variance
        self.judge.close("condition.std", found.std**2, variance, error)

    def matrices(self):
        """Covariance and precision of the model."""
        C, scale = self.model.covariance, np.sqrt(np.diag(self.model.covariance))
        d, q = self.model.loadings.shape
        unit = 10 * (d + q) * EPS
        self.judge.close("get_covariance", self.estimator.get_covariance(), C, unit * np.outer(scale, scale))
        root = np.sqrt(self.model.noise)
        V = self.model.loadings / root[:, None]
        U, s, _ = np.linalg.svd(V, full_matrices=False)
        want = (np.eye(d) - (U * (s**2 / (1 + s**2))) @ U.T) / np.outer(root, root)
        self.judge.close("get_precision", self.estimator.get_precision(), want, 3 * unit / np.outer(root, root))

    def sample(self):
        """Moments of draws from the model, in coordinates in which they should be those of N(0, I)."""
        draws = self.estimator.sample(DRAWS, random_state=int(self.rng.integers(2**31)))
        rounding = EPS * np.abs(self.model.mean).max() / np.sqrt(self.model.noise.min())
        if rounding > 1e-3 or self.model.condition > 1e8:
            return  # the coordinates lose the digits that they should show
        L = np.linalg.cholesky(self.model.covariance)
        z = np.linalg.solve(L, (draws - self.model.mean).T).T
        error = 1 / np.sqrt(DRAWS)
        d = z.shape[1]
        self.judge.close("mean of draws", z.mean(axis=0), np.zeros(d), STANDARD_ERRORS * error + rounding)
        bound = STANDARD_ERRORS * error * np.sqrt(1 + np.eye(d)) + 3 * rounding
        self.judge.close("covariance of draws", z.T @ z / DRAWS, np.eye(d), bound)


def parameter_uncertainty(fit, model):
    """Covariance of [w_j; mu_j], the noise variance of an imputed cell, and a condition number of the former."""
    if hasattr(fit, "belief_"):
        belief, q = fit.belief_, fit.n_components_
        rows, columns = np.tril_indices(q + 1)
        Sigma = np.zeros((model.mean.size, q + 1, q + 1))
        Sigma[:, rows, columns] = Sigma[:, columns, rows] = np.asarray(belief.covariance).T
        return Sigma, np.broadcast_to(belief.centre.noise_variance, model.mean.shape), 1.0
    if hasattr(fit, "uniquenesses_"):
        correction = oracles.own_corrections(model, fit.information_, fit.n_observed_, fit.empty_features_)
    else:
        correction = oracles.shared_correction(model, fit.n_samples_, fit.n_observed_, fit.empty_features_)
    return oracles.parameter_covariances(model, fit.information_, correction, fit.empty_features_)
