"""Fit of linear dynamical systems to time series."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.available_memory import require_memory
from probpca.errors import DataError, ShapeError
from probpca.inference.time_series.kalman import series_log_likelihood
from probpca.learning.complete.spectrum import NOISE_FLOOR
from probpca.learning.dynamics.em import SeriesEM
from probpca.learning.dynamics.start import starts
from probpca.learning.dynamics.structure import SeriesCoordinates, Structure
from probpca.learning.loop import Anderson, Monitor, accelerate, iterate
from probpca.learning.result import Status
from probpca.models import Gaussian, LinearGaussian, StateSpace
from probpca.sources.engines.local import one_blas_thread

if TYPE_CHECKING:
    from probpca.blocks import Sequences
    from probpca.learning.loop import Iterated
    from probpca.learning.settings import Settings
    from probpca.typing import Array, Index


class SeriesResult(NamedTuple):
    """Result of a fit of a linear dynamical system.

    Attributes
    ----------
    model : StateSpace
        The fitted system.
    status : Status
        How the fit ended.
    log_likelihood : float
        Total log-likelihood of all sequences.
    trace : tuple of float
        Objective before each iteration: the log-likelihood, plus the log prior if there is a ridge penalty.
    n_iter : int
        Number of iterations.
    n_observed : int
        Number of observed cells.
    empty : ndarray of int
        Positions of features without observed cells.
    """

    model: StateSpace
    status: Status
    log_likelihood: float
    trace: tuple[float, ...]
    n_iter: int
    n_observed: int
    empty: Index


def fit_series(
    rows: Sequences, q: int, settings: Settings, rng: np.random.Generator, structure: Structure | None = None
) -> SeriesResult:
    """Fit a linear dynamical system with q states by EM, from the best of several starting points.

    Parameters
    ----------
    rows : Sequences
        One or several time series, as made by ``probpca.blocks.as_sequences``.
    q : int
        Number of states.
    settings : Settings
        Tolerance, number of iterations and of starts.
    rng : numpy.random.Generator
        Random number generator.
    structure : Structure or None
        Which parameters are estimated, and in which form; None for the defaults.

    Returns
    -------
    SeriesResult
        The fitted system. It is in canonical form, with process noise Q = I, unless a parameter is constrained in a
        way that fixes the coordinates of the state.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.blocks import as_sequences
    >>> from probpca.learning import Settings, fit_series
    >>> rng = np.random.default_rng(0)
    >>> y = np.cumsum(rng.standard_normal((200, 1)), axis=0) @ [[1.0, 0.5]] + rng.standard_normal((200, 2))
    >>> result = fit_series(as_sequences(y), 1, Settings(), rng)
    >>> result.status.converged, result.model.transition.round(1)
    (True, array([[1.]]))
    """
    structure = structure or Structure()
    require_memory(f"{q:,} states", 4 * 8 * q * q, "use fewer n_components")
    _require_structure(rows, q, structure)
    shrunk = structure.any_basis and structure.ridge > 0  # the ridge is defined in coordinates with Q = I
    inner = replace(structure, process_noise="identity") if shrunk else structure
    problem = _Problem.of(rows, q, settings, rng, inner)
    with one_blas_thread():  # products are small, and waiting threads would slow them down
        ended = problem.best()
    model = ended.state
    if structure.any_basis:
        model = model.canonical()
    empty, observed = np.flatnonzero(rows.counts == 0), int(rows.counts.sum())
    value = ended.trace[-1] - problem.em(ended.state).log_prior(ended.state)
    status = Status.SERIES_MAX_ITER if ended.status is Status.MAX_ITER else ended.status
    return SeriesResult(model, status, value, ended.trace, len(ended.trace) - 1, observed, empty)


def _require_structure(rows: Sequences, q: int, structure: Structure) -> None:
    if q < 1:
        msg = f"n_components must be at least 1; got {q}."
        raise ShapeError(msg)
    structure.check(q, rows.n_features)
    _require_room(structure)
    require_series(rows)


def require_series(rows: Sequences) -> None:
    """Raise ``DataError`` if the rows have too few steps, no observed cell, or nothing that varies."""
    seen = ~np.isnan(rows.values)
    if not seen.any():
        msg = "at least one cell must be observed; all cells of all sequences are missing."
        raise DataError(msg)
    if rows.n_steps - len(rows.lengths) < 2:
        msg = (
            f"a dynamical system needs sequences with at least two steps after the first; got {len(rows.lengths)} "
            f"sequences with {rows.n_steps} steps in total (n_samples = 1 step is not enough)."
        )
        raise DataError(msg)
    first = np.nanmin(np.where(seen, rows.values, np.inf), axis=0)
    if (np.where(seen, rows.values, first) == first).all():
        msg = "all observed values of each column are identical: there is no variation to explain."
        raise DataError(msg)


def _require_room(structure: Structure) -> None:
    """Raise ``DataError`` if a fixed singular process noise makes the other parameters impossible to estimate."""
    Q = structure.fixed("process_noise")
    if Q is None:
        return
    if not Q.any() and structure.fixed("initial_covariance") is None:
        msg = "with process_noise fixed at zero, initial_covariance must be given as an array too."
        raise DataError(msg)
    singular = np.linalg.eigvalsh(Q)[0] <= 1e-13 * np.abs(Q).max()
    if singular and (structure.says("transition", "diagonal") or structure.ridge > 0):
        msg = "a diagonal transition or a ridge needs a process_noise that is not singular; the one given is singular."
        raise DataError(msg)


@final
@dataclass(frozen=True, eq=False)
class _Problem:
    rows: Sequences
    settings: Settings
    rng: np.random.Generator
    structure: Structure
    floor: Array  # smallest noise variance of each feature: (d,)
    learn_initial_covariance: bool
    guesses: tuple[StateSpace, ...]  # the best first

    @classmethod
    def of(
        cls, rows: Sequences, q: int, settings: Settings, rng: np.random.Generator, structure: Structure
    ) -> _Problem:
        variance = rows.squares / np.maximum(rows.counts, 1.0)
        floor = NOISE_FLOOR * np.where(variance > 0, variance, variance.mean())
        learn = structure.learns_initial_covariance(q, len(rows.lengths))
        fitting = partial(_impose, structure=structure, floor=floor, rows=rows)
        guesses = [fitting(guess) for guess in starts(rows, q, rng)]
        guesses.sort(key=lambda guess: -series_log_likelihood(guess, rows))
        return cls(rows, settings, rng, structure, floor, learn, tuple(guesses))

    def best(self) -> Iterated[StateSpace]:
        """Best of ``n_init`` fits, the first from the best starting point, the others from further or random ones."""
        runs = [self.run(guess) for guess in self.guesses[: self.settings.n_init]]
        while len(runs) < self.settings.n_init:
            runs.append(self.run(self._moved(self.guesses[0])))
        return max(runs, key=lambda ended: ended.trace[-1])

    def run(self, start: StateSpace) -> Iterated[StateSpace]:
        settings = self.settings
        monitor = Monitor(settings.tol, settings.max_iter, settings.watch)
        em = self.em(start)
        step = partial(em.step, rows=self.rows)
        if settings.solver == "em":
            return iterate(step, start, monitor)
        coordinates = SeriesCoordinates.around(start, em)
        return accelerate(step, start, monitor, Anderson(coordinates))

    def em(self, start: StateSpace) -> SeriesEM:
        """EM with the limits of variances derived from a starting model."""
        size = np.sqrt(np.diagonal(start.initial.covariance) + np.diagonal(start.process_noise))
        root = np.diag(np.sqrt(self.structure.process_floor) * size)
        given = any(self.structure.fixed(name) is not None for name in ("process_noise", "initial_covariance"))
        tied = not self.learn_initial_covariance and not given
        ratio = _ratio(start.initial.covariance, start.process_noise) if tied else None
        return SeriesEM(self.structure, self.floor, root, ratio, self.learn_initial_covariance)

    def _moved(self, model: StateSpace) -> StateSpace:
        C = model.emission.loadings
        moved = C + np.sqrt(np.square(C).mean()) * self.rng.standard_normal(C.shape)
        other = replace(model, emission=replace(model.emission, loadings=moved))
        return _impose(other, structure=self.structure, floor=self.floor, rows=self.rows)


def _impose(model: StateSpace, *, structure: Structure, floor: Array, rows: Sequences) -> StateSpace:
    """Starting model changed to the given structure."""
    q = model.n_components
    if structure.any_basis or structure.says("process_noise", "identity"):
        model = model.whiten()
    A, Q, emission = model.transition, model.process_noise, model.emission
    if structure.says("transition", "diagonal"):
        A = np.diag(np.clip(np.diagonal(A), -0.99, 0.99))
    if structure.says("process_noise", "diagonal"):
        Q = np.diag(np.diagonal(Q))
    A = A if structure.fixed("transition") is None else structure.transition
    Q = Q if structure.fixed("process_noise") is None else structure.process_noise
    draft = replace(model, transition=A, process_noise=Q, emission=_emission(emission, structure, floor))
    P = draft.stationary().covariance if draft.is_stationary else model.initial.covariance
    if structure.says("initial_covariance", "identity"):
        P = draft.process_noise
    elif structure.fixed("initial_covariance") is not None:
        P = structure.initial_covariance
    elif structure.fixed("process_noise") is None:
        P = _ratio(P, draft.process_noise) * draft.process_noise
    mean = np.zeros(q) if structure.fixed("initial_mean") is None else structure.initial_mean
    B = None if rows.inputs is None else np.zeros((q, rows.inputs.shape[1]))
    return replace(draft, initial=Gaussian(mean, P), input_loadings=B)


def _ratio(covariance: Array, process_noise: Array) -> float:
    """Average ratio of a covariance to the process noise over all directions."""
    return float(np.trace(np.linalg.solve(process_noise, covariance))) / len(covariance)


def _emission(model: LinearGaussian, structure: Structure, floor: Array) -> LinearGaussian:
    noise = np.broadcast_to(model.noise_variance, floor.shape)
    if structure.says("noise", "isotropic"):
        noise = np.asarray(max(float(noise.mean()), float(floor.mean())))
    elif structure.fixed("noise") is not None:
        noise = structure.noise
    else:
        noise = np.maximum(noise, floor)
    loadings = model.loadings if structure.fixed("loadings") is None else structure.loadings
    offset = model.mean if structure.fixed("offset") is None else structure.offset
    return LinearGaussian(offset, loadings, noise)
