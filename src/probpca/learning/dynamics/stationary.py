"""Fit of factors that are stationary by construction, alone or beside own components of the features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.optimize import minimize

from probpca.available_memory import require_memory
from probpca.cached_property import cached_property
from probpca.errors import ShapeError
from probpca.inference.time_series.kalman import series_log_likelihood
from probpca.learning.complete.spectrum import NOISE_FLOOR
from probpca.learning.dynamics.em import expect_series
from probpca.learning.dynamics.fit import SeriesResult, require_series
from probpca.learning.dynamics.start import starts
from probpca.learning.loop import Iterated, Monitor
from probpca.learning.result import Status
from probpca.linalg.rotations import fix_signs, symmetric_root
from probpca.models import Gaussian, StateSpace
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from probpca.blocks import Sequences
    from probpca.learning.dynamics.em import SeriesSums
    from probpca.learning.settings import Settings
    from probpca.typing import Array, Floats, Index

MOST = 0.985
"""Largest singular value of A in a starting point."""
LEAST_UNIT = 1e-3
"""Smallest unit of loadings, as a share of the standard deviation of a feature."""
FARTHEST = 1e10
"""Minus the objective where parameters have no model."""


def contraction(S: Array) -> Array:
    r"""Matrix with singular values below 1 for any matrix: :math:`A = S (I + S^\top S)^{-1/2}`."""
    U, s, V = np.linalg.svd(S)
    return np.asarray((U * (s / np.sqrt(1 + s * s))) @ V)


def expansion(A: Floats, most: float = MOST) -> Array:
    """Inverse of ``contraction``; singular values above ``most`` are cut."""
    U, s, V = np.linalg.svd(A)
    s = np.minimum(s, most)
    return np.asarray((U * (s / np.sqrt(1 - s * s))) @ V)


def pull_back(S: Array, gradient: Array) -> Array:
    r"""Gradient with respect to S, from that with respect to :math:`A = f(S)`.

    With :math:`S = U s V^\top`, the derivative of f acts on the symmetric part of :math:`U^\top dS V` by the divided
    differences :math:`(f_i - f_j) / (s_i - s_j)`, and on the rest by :math:`(f_i + f_j) / (s_i + s_j)`.
    """
    U, s, V = np.linalg.svd(S)
    f, slope = s / np.sqrt(1 + s * s), (1 + s * s) ** -1.5
    apart, total = s[:, None] - s, s[:, None] + s
    near = np.abs(apart) <= 1e-7 * (1 + total)
    middle = (slope[:, None] + slope) / 2
    even = np.where(near, middle, (f[:, None] - f) / np.where(near, 1.0, apart))
    odd = np.divide(f[:, None] + f, total, out=np.ones_like(total), where=total > 1e-12)
    G = U.T @ gradient @ V.T
    turned = even * (G + G.T) / 2 + odd * (G - G.T) / 2
    return np.asarray(U @ turned @ V)


def in_stationary_units(model: StateSpace) -> StateSpace:
    """Equivalent system whose states have the stationary covariance I; for a system without own states."""
    P = model.stationary().covariance
    root = symmetric_root(P)
    A = np.linalg.solve(root, model.transition @ root)
    return stationary_system(model, contraction(expansion(A, 1 - 1e-12)), model.emission.loadings @ root)


def stationary_system(model: StateSpace, A: Array, loadings: Array) -> StateSpace:
    """The same system with other factors, of stationary covariance I: N(0, I) at first, and process noise I - A A'."""
    if model.layout is None:
        q = len(A)
        Q = np.eye(q) - A @ A.T
        initial, emission = Gaussian(np.zeros(q), np.eye(q)), replace(model.emission, loadings=loadings)
        return replace(model, initial=initial, transition=A, process_noise=(Q + Q.T) / 2, emission=emission)
    some = model.layout.factors
    F, Q, C = model.transition.copy(), model.process_noise.copy(), model.emission.loadings.copy()
    block = np.ix_(some, some)
    own = np.eye(len(A)) - A @ A.T
    F[block], Q[block], C[:, some] = A, (own + own.T) / 2, loadings
    return replace(model, transition=F, process_noise=Q, emission=replace(model.emission, loadings=C))


def in_canonical_coordinates(model: StateSpace) -> StateSpace:
    r"""Equivalent system whose factors are turned so that :math:`C^\top R^{-1} C` is diagonal and decreases."""
    some = _factors(model)
    loadings = model.emission.loadings[:, some]
    noise = np.broadcast_to(model.emission.noise_variance, (len(loadings),))
    U, _, rotation = np.linalg.svd(loadings / np.sqrt(noise)[:, None], full_matrices=len(loadings) < some.size)
    signs = np.ones(some.size)
    signs[: len(U.T)] = np.sign(np.einsum("jk,jk->k", fix_signs(U), U))
    T = rotation * signs[:, None]
    A = T @ model.transition[np.ix_(some, some)] @ T.T
    return stationary_system(model, A, loadings @ T.T)


def _factors(model: StateSpace) -> Index:
    return np.arange(model.n_components) if model.layout is None else model.layout.factors


@final
@dataclass(frozen=True, eq=False)
class StationaryFactors:
    r"""Log-likelihood of a system with stationary factors, and its exact gradient, as functions of a vector.

    The vector holds S, with :math:`A = S (I + S^\top S)^{-1/2}` and :math:`Q = I - A A^\top`, so that every vector is
    a stationary model; the loadings and, without own components, the offset, in units of the noise; log noise
    variances; and the logarithms of the variances of own components that are not zero. The gradient is that of the
    expected log density of rows and states (Fisher's identity), and costs one E-step.
    """

    like: StateSpace  # gives what is not in the vector
    rows: Sequences
    unit: Array  # standard deviation of each feature: (d,)
    floor: Array  # smallest noise variance of each feature: (d,)

    @cached_property
    def scale(self) -> Array:
        """Units of loadings and offset, of which the likelihood knows about as much as of other entries: (d,)."""
        noise = np.broadcast_to(self.like.emission.noise_variance, self.unit.shape)
        return np.maximum(np.sqrt(noise), LEAST_UNIT * self.unit)

    @property
    def factors(self) -> Index:
        """Positions of the factors among the states."""
        return _factors(self.like)

    @property
    def moving(self) -> Index:
        """Positions of own states whose variances are estimated."""
        layout = self.like.layout
        if layout is None:
            return np.zeros(0, np.intp)
        return np.flatnonzero(~layout.is_factor & (np.diagonal(self.like.process_noise) > 0))

    @property
    def shared_noise(self) -> bool:
        """Whether all features have one noise variance."""
        return self.like.emission.noise_variance.ndim == 0

    def flatten(self, model: StateSpace) -> Array:
        """Vector of a model."""
        some, emission = self.factors, model.emission
        parts = [
            expansion(model.transition[np.ix_(some, some)], 1 - 1e-9),
            emission.loadings[:, some] / self.scale[:, None],
        ]
        if self.like.layout is None:
            parts.append((emission.mean - self.like.emission.mean) / self.scale)
        parts += [np.log(emission.noise_variance), np.log(np.diagonal(model.process_noise)[self.moving])]
        return np.concatenate([np.ravel(part) for part in parts])

    def split(self, vector: Array) -> list[Array]:
        """The vector cut into S, loadings, shift of the offset, log noise variances and log variances of own states."""
        q, d = self.factors.size, self.like.n_features
        shift = d if self.like.layout is None else 0
        sizes = np.cumsum([q * q, d * q, shift, 1 if self.shared_noise else d])
        S, C, c, noise, own = np.split(vector, sizes)
        return [S.reshape(q, q), C.reshape(d, q), c, noise, own]

    def place(self, vector: Array) -> StateSpace:
        """Model of a vector."""
        S, C, shift, noise, own = self.split(vector)
        like, emission = self.like, self.like.emission
        variance = np.exp(noise)
        emission = replace(emission, noise_variance=variance[0] if self.shared_noise else variance)
        if like.layout is None:
            emission = replace(emission, mean=emission.mean + shift * self.scale)
        Q = like.process_noise.copy()
        Q[self.moving, self.moving] = np.exp(own)
        model = stationary_system(replace(like, emission=emission), contraction(S), C * self.scale[:, None])
        Q[np.ix_(self.factors, self.factors)] = model.process_noise[np.ix_(self.factors, self.factors)]
        return replace(model, process_noise=Q)

    def value_and_gradient(self, vector: Array) -> tuple[float, Array]:
        """Log-likelihood and its gradient."""
        model = self.place(vector)
        sums = expect_series(model, self.rows)
        return sums.log_likelihood, self.gradient(vector, model, sums)

    def gradient(self, vector: Array, model: StateSpace, sums: SeriesSums) -> Array:
        """Gradient of the log-likelihood, from the sums of an E-step at the model."""
        some, q = self.factors, model.n_components
        noise = np.broadcast_to(model.emission.noise_variance, (model.n_features,))
        score = sums.emission.score / noise * self.scale  # (q + 1, d)
        by_noise = (sums.emission.squares / noise - self.rows.counts) / 2
        F, n = model.transition, sums.n_moves
        past, cross, now = sums.moves[:q, :q], sums.moves[q:, :q], sums.moves[q:, q:]
        A = F[np.ix_(some, some)]
        S00, S10, S11 = (part[np.ix_(some, some)] for part in (past, cross, now))
        S = self.split(vector)[0]
        precision = np.eye(some.size) + S @ S.T  # of the process noise I - A A'
        rest = S11 - A @ S10.T - S10 @ A.T + A @ S00 @ A.T
        by_A = precision @ (S10 - A @ S00) + (n * precision - precision @ rest @ precision) @ A
        k = self.moving
        own = now[k, k] - 2 * np.einsum("ij,ij->i", F[k], cross[k]) + np.einsum("ij,jl,il->i", F[k], past, F[k])
        by_own = (own / np.diagonal(model.process_noise)[k] - n) / 2
        parts = [pull_back(S, by_A), score[some].T]
        if self.like.layout is None:
            parts.append(score[-1])
        parts += [by_noise.sum() if self.shared_noise else by_noise, by_own]
        return np.concatenate([np.ravel(part) for part in parts])

    def fit(self, start: StateSpace, settings: Settings) -> Iterated[StateSpace]:
        """Climb from a starting model to the maximum of the likelihood, by L-BFGS."""
        monitor = Monitor(settings.tol, settings.max_iter, settings.watch, steady=False)
        vector = self.flatten(start)
        last: dict[bytes, float] = {}

        def loss(vector: Array) -> tuple[float, Array]:
            value, gradient = self.value_and_gradient(vector)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return FARTHEST, np.zeros_like(vector)
            last[vector.tobytes()] = value
            return -value, -gradient

        def watch(vector: Array) -> None:
            value = last.get(vector.tobytes())
            if monitor.record(monitor.trace[-1] if value is None else value) or little_left():
                raise StopIteration

        def little_left() -> bool:
            """Whether twice the gain of the last ten steps, or of all if they are fewer, is below the tolerance."""
            trace = monitor.trace
            return len(trace) > 2 and 2 * (trace[-1] - trace[max(len(trace) - 11, 0)]) < settings.tol

        monitor.record(-loss(vector)[0])
        options = {"maxiter": settings.max_iter, "ftol": 1e-14, "gtol": 1e-5, "maxcor": 20}
        found = minimize(
            loss, vector, jac=True, method="L-BFGS-B", bounds=self._bounds(vector), callback=watch, options=options
        )
        unfinished = len(monitor.trace) > settings.max_iter and not little_left()
        ended = Status.SERIES_MAX_ITER if unfinished else Status.CONVERGED
        return Iterated(self.place(found.x), ended, tuple(monitor.trace))

    def _bounds(self, vector: Array) -> list[tuple[float | None, float | None]]:
        """Bounds of each entry: variances have a smallest and a largest one."""
        S, C, shift, *_ = self.split(vector)
        free: list[tuple[float | None, float | None]] = [(None, None)] * (S.size + C.size + shift.size)
        floor = np.atleast_1d(self.floor.mean() if self.shared_noise else self.floor)
        top = np.log(np.square(self.unit).max()) + 10
        least = np.log(floor)
        layout = self.like.layout
        if layout is None:
            return [*free, *((low, top) for low in least)]
        units = np.log(np.square(self.unit[layout.features[self.moving]]))
        return [*free, *((low, top) for low in least), *((u - 23.0, u + 3.0) for u in units)]


def noise_floor(rows: Sequences) -> Array:
    """Smallest noise variance of each feature: (d,)."""
    return NOISE_FLOOR * np.square(spread(rows))


def spread(rows: Sequences) -> Array:
    """Standard deviation of each feature, and a usual one for features that do not vary: (d,)."""
    variance = rows.squares / np.maximum(rows.counts, 1.0)
    return np.sqrt(np.where(variance > 0, variance, max(float(variance.mean()), 1e-300)))


def climb_stationary(rows: Sequences, q: int, settings: Settings, rng: np.random.Generator) -> Iterated[StateSpace]:
    """System of q stationary factors, from the best of several starting points."""
    guesses = [_start_of(guess, rows) for guess in starts(rows, q, rng)]
    guesses.sort(key=lambda guess: -series_log_likelihood(guess, rows))
    while len(guesses) < settings.n_init:
        C = guesses[0].emission.loadings
        moved = C + np.sqrt(np.square(C).mean()) * rng.standard_normal(C.shape)
        guesses.append(replace(guesses[0], emission=replace(guesses[0].emission, loadings=moved)))
    problem = StationaryFactors(guesses[0], rows, spread(rows), noise_floor(rows))
    best = max((problem.fit(guess, settings) for guess in guesses[: settings.n_init]), key=lambda one: one.trace[-1])
    return best._replace(state=in_canonical_coordinates(best.state))


def _start_of(guess: StateSpace, rows: Sequences) -> StateSpace:
    """Starting system in stationary units, with a noise variance for each feature."""
    noise = np.maximum(np.broadcast_to(guess.emission.noise_variance, (rows.n_features,)), noise_floor(rows))
    return in_stationary_units(replace(guess, emission=replace(guess.emission, noise_variance=noise)))


def fit_stationary(rows: Sequences, q: int, settings: Settings, rng: np.random.Generator) -> SeriesResult:
    r"""Fit a system of q factors that is stationary by construction, by maximum likelihood.

    Every stationary system has coordinates with stationary covariance I. Then :math:`Q = I - A A^\top`, so that the
    singular values of A must not exceed 1, which :math:`A = S (I + S^\top S)^{-1/2}` ensures for any matrix S.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.blocks import as_sequences
    >>> from probpca.learning import Settings
    >>> from probpca.learning.dynamics import fit_stationary
    >>> rng = np.random.default_rng(0)
    >>> y = np.cumsum(rng.standard_normal((200, 1)), axis=0) @ [[1.0, 0.5]] + rng.standard_normal((200, 2))
    >>> model = fit_stationary(as_sequences(y), 1, Settings(), rng).model
    >>> bool(model.spectral_radius < 1), np.round(model.transition @ model.transition.T + model.process_noise, 12)
    (True, array([[1.]]))
    """
    if q < 1:
        msg = f"n_components must be at least 1; got {q}."
        raise ShapeError(msg)
    require_memory(f"{q:,} states", 4 * 8 * q * q, "use fewer n_components")
    require_series(rows)
    with one_blas_thread():
        ended = climb_stationary(rows, q, settings, rng)
    trace = (*ended.trace[:-1], series_log_likelihood(ended.state, rows))
    empty, observed = np.flatnonzero(rows.counts == 0), int(rows.counts.sum())
    return SeriesResult(ended.state, ended.status, trace[-1], trace, len(trace) - 1, observed, empty)
