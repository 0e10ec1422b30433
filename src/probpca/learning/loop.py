"""The loop of all iterative solvers: trace, stopping rule and acceleration."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, final

import numpy as np

from probpca.learning.result import Status
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array

S = TypeVar("S")
Watch: TypeAlias = Callable[["Progress"], None]


@final
@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Options of the stopping rule besides ``tol``."""

    first_steps: int = 6  # steps in which slow convergence may be hidden by faster directions
    hidden: float = 0.95  # convergence rate that is assumed in these steps
    slowest: float = 0.99  # largest rate of an earlier step that is taken into account
    together: int = 3  # irregular gains of extrapolated steps are compared in sums of so many
    expected: float = 0.5  # share of ``tol`` below which the gain must be that a quadratic model expects


@final
@dataclass(frozen=True, slots=True)
class Acceleration:
    """Options of the extrapolation of steps."""

    memory: int = 5  # number of steps that an extrapolation combines
    farthest: float = 5.0  # largest accepted change of the log noise variance
    slow: float = 0.4  # convergence rate, the ratio of successive gains, above which steps are extrapolated


class Progress(NamedTuple):
    """State of an iteration after a step, as passed to ``watch``."""

    iteration: int
    log_likelihood: float
    remaining: float  # estimated remaining gain, in nats; infinite if it cannot be estimated
    max_iter: int
    tol: float  # remaining gain at which the iteration stops


class Iterated(NamedTuple, Generic[S]):
    """Result of the loop: the last state, how it ended, and the objective before each step."""

    state: S
    status: Status
    trace: tuple[float, ...]


class Monitor:
    r"""Record of the objective that decides when to stop.

    If gains :math:`\delta_k` shrink by the factor :math:`c = \delta_k / \delta_{k-1}` per step, the remaining gain
    is :math:`\delta_k c / (1 - c)` (Aitken). The last gain alone is not enough: a slow method gains little in each
    step and much in total. Nor is the last rate, if gains shrink fast towards a level above zero: the level,
    extrapolated from the last three gains, counts as a gain that shrinks slowly. If gains are irregular, as those of
    a quasi-Newton method, the estimate is twice the gain of the last ten steps. The iteration stops when the estimate
    is below ``tol`` twice in a row. In the first steps gains shrink fast while a slow direction is still hidden, and
    the iteration stops only if the estimate is below ``tol`` for a slow rate too.
    """

    def __init__(
        self,
        tol: float,
        max_iter: int,
        watch: Watch | None = None,
        *,
        steady: bool = True,
        trace: tuple[float, ...] = (),
        rule: StoppingRule = StoppingRule(),
    ) -> None:
        """Set the stopping rule and the trace to continue; ``steady`` methods have gains that shrink regularly."""
        self.trace: list[float] = list(trace)
        self.tol, self.max_iter, self.watch, self.steady, self.rule = tol, max_iter, watch, steady, rule
        self._below = 0
        self._slowest = 0.0  # largest rate so far: after extrapolation a slow direction may be hidden
        self.plain_steps = 0  # number of steps since the last extrapolation
        self.stopped = False
        self._expected = np.inf  # remaining gain that a quadratic model expected last
        self._expected_below = 0

    def record(self, log_likelihood: float, *, plain: bool = True) -> bool:
        """Append a value of the objective and return whether to stop; ``plain`` steps were not extrapolated."""
        self.trace.append(log_likelihood)
        self.plain_steps = self.plain_steps + 1 if plain else 0
        remaining = self.remaining()
        self._slowest = max(self._slowest, min(self._rate(), self.rule.slowest))
        self._below = self._below + 1 if remaining < self.tol else 0
        if self.watch is not None:
            shown = remaining if plain else min(remaining, self._expected)
            self.watch(Progress(len(self.trace) - 1, log_likelihood, shown, self.max_iter, self.tol))
        enough = self._below >= 2 and len(self.trace) > self.rule.first_steps
        self.stopped = enough or (self.steady and self.remaining(self.rule.hidden) < self.tol)
        return self.stopped

    def expect(self, remaining: float, *, plain: bool) -> bool:
        """Take note of the remaining gain that a quadratic model expects, and return whether to stop.

        The model may not know a slow direction, but the gains of the last steps then shrink slowly. Their sums are
        compared, because gains of extrapolated steps are irregular. The iteration stops if twice in a row after an
        extrapolated step both estimates are below a share of ``tol``.
        """
        self._expected = remaining
        if plain:
            return False
        estimate = max(remaining, self._remaining_by_sums())
        self._expected_below = self._expected_below + 1 if estimate < self.rule.expected * self.tol else 0
        self.stopped = self._expected_below >= 2
        return self.stopped

    def _remaining_by_sums(self) -> float:
        """Remaining gain if the gains of several steps together shrink at a constant rate; infinite if they grow."""
        k = self.rule.together
        if len(self.trace) < 2 * k + 1:
            return np.inf
        late, early = self.trace[-1] - self.trace[-1 - k], self.trace[-1 - k] - self.trace[-1 - 2 * k]
        return late * late / (early - late) if late < early else np.inf if late > 0 else 0.0

    def forget(self) -> None:
        """Discard earlier gains before a jump, because they do not predict the gains after it."""
        self._slowest, self._below = 0.0, 0
        self.plain_steps = -2  # the rate can be estimated again two steps after the jump

    def remaining(self, least_rate: float = 0.0) -> float:
        """Estimated remaining gain, in nats, for a convergence rate of at least ``least_rate``."""
        if not self.steady:
            return 2 * (self.trace[-1] - self.trace[-11]) if len(self.trace) > 10 else np.inf
        if len(self.trace) < 3 or self.plain_steps < 2:
            return np.inf
        last = self.trace[-1] - self.trace[-2]
        if last <= 1e-14 * abs(self.trace[-1]):
            return 0.0
        rate, slow = max(self._rate(), self._slowest, least_rate), self.rule.slowest
        return max(last * rate / (1 - rate), self._level() * slow / (1 - slow)) if rate < 1 else np.inf

    def _rate(self) -> float:
        """Convergence rate, the ratio of the last two gains of plain steps; infinite if gains grow."""
        if len(self.trace) < 3 or self.plain_steps < 2:
            return 0.0
        earlier, before, now = self.trace[-3:]
        return (now - before) / (before - earlier) if before > earlier else np.inf

    def _level(self) -> float:
        """Level that the gains of plain steps approach, extrapolated from the last three; 0 if they approach zero."""
        if len(self.trace) < 4 or self.plain_steps < 3:
            return 0.0
        first, second, third = np.diff(self.trace[-4:])
        if not third < second < first:
            return 0.0
        near, far = second / first, third / first
        return float(first * max(far - near**2, 0.0) / (1 - 2 * near + far)) if 1 - 2 * near + far > 0 else 0.0


def iterate(step: Callable[[S], tuple[S, float]], state: S, monitor: Monitor) -> Iterated[S]:
    """Repeat ``step``, which maps a state to the next one and the objective at the given one, until convergence."""
    while len(monitor.trace) < monitor.max_iter:
        following, objective = step(state)
        if monitor.record(objective):
            return Iterated(state, Status.CONVERGED, tuple(monitor.trace))
        state = following
    monitor.record(step(state)[1])
    return Iterated(state, Status.MAX_ITER, tuple(monitor.trace))


@final
@dataclass(frozen=True, slots=True)
class Coordinates:
    """Parameters of a model as a vector of numbers near 1: W and mu in units of the data, and the log noise variance.

    The noise variance is a single one or one for each feature, as that of the model that sets origin and units.
    """

    mean: Array  # (d,)
    unit: Array  # of each feature, or of all: (d,) or ()
    q: int
    shared: bool = True  # whether all features have the same noise variance
    floor: float | Array = 0.0  # smallest noise variance of an extrapolated model: () or (d,)

    @classmethod
    def around(cls, model: LinearGaussian, floor: float | Array) -> Self:
        """Coordinates with units and origin from a model of the same data."""
        variance = np.square(model.loadings).sum() / model.n_features + model.noise_variance.mean()
        unit = np.sqrt(variance)  # average standard deviation of a feature
        return cls(model.mean, unit, model.n_components, model.noise_variance.ndim == 0, floor)

    @classmethod
    def of_noise(cls, model: LinearGaussian) -> Self:
        """Coordinates with the origin of a model, in units of its noise."""
        noise = model.noise_variance
        return cls(model.mean, np.sqrt(noise), model.n_components, noise.ndim == 0)

    @property
    def n_noise(self) -> int:
        """Number of noise variances, which are last in a vector."""
        return 1 if self.shared else self.mean.size

    def log_noise(self, noise: float | Array) -> Array:
        """Convert noise variances to their entries of a vector: (n_noise,)."""
        return np.broadcast_to(np.log(noise / np.square(self.unit)), (self.n_noise,))

    def flatten(self, model: LinearGaussian) -> Array:
        """Convert a model to a vector: (d q + d + n_noise,)."""
        shift = (model.mean - self.mean) / self.unit
        return np.concatenate([(model.loadings.T / self.unit).T.ravel(), shift, self.log_noise(model.noise_variance)])

    def restore(self, vector: Array) -> LinearGaussian:
        """Convert a vector to a model."""
        d = self.mean.size
        loadings = (vector[: d * self.q].reshape(d, self.q).T * self.unit).T
        shift = vector[d * self.q : -self.n_noise] * self.unit
        log_noise = vector[-1] if self.shared else vector[-d:]
        return LinearGaussian(self.mean + shift, loadings, np.exp(log_noise) * np.square(self.unit))

    def place(self, vector: Array) -> LinearGaussian:
        """Convert an extrapolated vector to a model whose noise variance is not below the smallest one."""
        placed = self.restore(vector)
        return replace(placed, noise_variance=np.maximum(placed.noise_variance, self.floor))

    def flatten_gradient(self, mean: Array, loadings: Array, log_noise_variance: Array) -> Array:
        """Convert derivatives with respect to the parameters to those with respect to the vector."""
        by_unit = (loadings.T * self.unit).T.ravel()
        return np.concatenate([by_unit, mean * self.unit, np.atleast_1d(log_noise_variance)])


def iterate_accelerated(
    step: Callable[[LinearGaussian], tuple[LinearGaussian, float]],
    start: LinearGaussian,
    monitor: Monitor,
    floor: float | Array,
    relax: Callable[[LinearGaussian, LinearGaussian], LinearGaussian] | None = None,
) -> Iterated[LinearGaussian]:
    """Repeat ``step`` with extrapolation in W, mu and the log noise variance, which stays above ``floor``."""
    return accelerate(step, start, monitor, Anderson(Coordinates.around(start, floor)), relax)


class Extrapolation(Protocol[S]):
    """Protocol of methods that propose the next state from the steps so far."""

    begun: bool  # whether it has proposed a state
    expected: float  # remaining gain at the last state, by a quadratic model; infinite without one

    def append(self, state: S, following: S) -> None:
        """Take note of a state that was kept, and of the step from it."""
        ...

    def reject(self, state: S) -> S | None:
        """Take note of a state whose objective is lower than that of the state kept last; propose another, or None."""
        ...

    def propose(self, monitor: Monitor) -> S | None:
        """Propose a state beyond the next one; None to take the step itself."""
        ...


def accelerate(
    step: Callable[[S], tuple[S, float]],
    start: S,
    monitor: Monitor,
    extrapolation: Extrapolation[S],
    relax: Callable[[S, S], S] | None = None,
) -> Iterated[S]:
    """Repeat ``step``, or go to the states that ``extrapolation`` proposes.

    Until the first proposal, ``relax`` maps a state and the next one to a state farther ahead, which then counts as the
    step. An extrapolated or farther state with a lower log-likelihood is replaced by a nearer one, at last by that of
    the plain step, so that the trace never decreases. Extrapolated states decide when to stop only by the gain that is
    expected after them.
    """
    state, plain = start, True
    nearer: list[S] = []  # states to try if the log-likelihood falls, the plain step first
    if len(monitor.trace) > monitor.max_iter:  # an earlier process has used all iterations
        monitor.record(step(state)[1])
    while len(monitor.trace) <= monitor.max_iter:
        following, value = step(state)
        if nearer and not value >= monitor.trace[-1]:
            another = extrapolation.reject(state)
            plain = another is None
            state = nearer.pop() if another is None else another
            continue
        if monitor.record(value, plain=plain):
            return Iterated(state, Status.CONVERGED, tuple(monitor.trace))
        if len(monitor.trace) > monitor.max_iter:
            break  # keep the state whose value was recorded last
        nearer = [following] if relax is None or extrapolation.begun else [following, relax(state, following)]
        extrapolation.append(state, nearer[-1])
        proposed = extrapolation.propose(monitor)
        if proposed is not None and monitor.expect(extrapolation.expected, plain=plain):
            return Iterated(state, Status.CONVERGED, tuple(monitor.trace))
        plain = proposed is None
        state = nearer.pop() if proposed is None else proposed
    return Iterated(state, Status.MAX_ITER, tuple(monitor.trace))


def is_slow(monitor: Monitor, share: float) -> bool:
    """Whether the gains shrink so slowly that extrapolation is worthwhile."""
    if len(monitor.trace) < 3:
        return False
    earlier, middle, now = monitor.trace[-3:]
    before, last = middle - earlier, now - middle
    if monitor.plain_steps == 0:  # the last step was extrapolated: continue while gains are large enough
        return bool(last > monitor.tol)
    return bool(last > share * before and monitor.remaining() > monitor.tol)


class StateCoordinates(Protocol[S]):
    """Protocol of conversions between states and vectors, for extrapolation."""

    @property
    def n_noise(self) -> int:
        """Number of logarithms of noise variances at the end of a vector whose extrapolation is limited."""
        ...

    def flatten(self, state: S) -> Array:
        """Convert a state to a vector."""
        ...

    def place(self, vector: Array) -> S | None:
        """Convert a vector to a state; None if it is not valid."""
        ...


class Anderson(Generic[S]):
    r"""Extrapolation from the last steps while they converge slowly (Anderson 1965).

    With :math:`f_k = g(x_k) - x_k` the change by a step g, the next point is the combination of the last
    :math:`g(x_k)` whose combined :math:`f_k` is shortest. Each state is flattened once, when first needed.
    """

    def __init__(self, coordinates: StateCoordinates[S], how: Acceleration = Acceleration()) -> None:
        """Set the conversion of states to vectors and the options."""
        self.begun, self.expected = False, np.inf
        self._coordinates, self._how = coordinates, how
        self._fresh: list[tuple[S, S]] = []
        self._vectors: deque[tuple[Array, Array]] = deque(maxlen=how.memory + 1)

    def append(self, state: S, following: S) -> None:
        """Take note of a state that was kept, and of the step from it."""
        self._fresh = [*self._fresh[-self._how.memory :], (state, following)]

    def reject(self, state: S) -> S | None:
        """Forget the steps so far, which misled."""
        del state
        self._fresh = []
        self._vectors.clear()
        return None

    def propose(self, monitor: Monitor) -> S | None:
        """Propose an extrapolated state; None while steps converge quickly, or if there is none that is valid."""
        jump = self.extrapolated() if is_slow(monitor, self._how.slow) else None
        proposed = None if jump is None else self._coordinates.place(jump)
        self.begun = self.begun or proposed is not None
        return proposed

    def extrapolated(self) -> Array | None:
        """Extrapolated next point; None if only one step is known."""
        if len(self._vectors) + len(self._fresh) < 2:
            return None
        flatten = self._coordinates.flatten
        self._vectors.extend((flatten(point), flatten(image)) for point, image in self._fresh)
        self._fresh = []
        points, images = np.array(self._vectors).swapaxes(0, 1)
        changes = images - points
        differences = changes[1:] - changes[:-1]  # (m, N)
        norms = np.sqrt(np.einsum("mn,mn->m", differences, differences))
        norms[norms == 0] = 1.0
        scaled = differences / norms[:, None]
        weights = _least_squares(scaled @ scaled.T, scaled @ changes[-1]) / norms
        jump = np.asarray(images[-1] - weights @ (images[1:] - images[:-1]))
        if not np.isfinite(jump).all():
            return None
        change = (jump - images[-1])[-self._coordinates.n_noise :]
        return jump if (np.abs(change) < self._how.farthest).all() else None


def _least_squares(gram: Array, right: Array, rounding: float = 1e-10) -> Array:
    """Minimum-norm solution of normal equations; eigenvalues below ``rounding`` times the largest count as zero."""
    values, vectors = np.linalg.eigh(gram)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > rounding * values[-1])
    return np.asarray(vectors @ (inverse * (right @ vectors)))
