"""Linear-Gaussian state-space models: a latent state with linear dynamics, observed with noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.linalg import solve_discrete_are

from probpca.cached_property import cached_property
from probpca.errors import DataError, ShapeError, require_finite, require_shape
from probpca.linalg.rotations import fix_signs, symmetric_root
from probpca.models.gaussian import Gaussian, LinearGaussian, standard_normal
from probpca.models.layout import Layout

if TYPE_CHECKING:
    import numpy.typing as npt

    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, eq=False)
class StateSpace:
    r"""Linear-Gaussian state-space model (linear dynamical system) with state x, observations y and inputs u.

    .. math::
        x_1 \sim N(p_1, P_1), \qquad x_{t+1} = A x_t + B u_t + w_t, \quad w_t \sim N(0, Q), \qquad
        y_t = C x_t + c + v_t, \quad v_t \sim N(0, R)

    R is diagonal, with one variance for all features or one for each. The observation equation (C, c, R) is a
    :class:`LinearGaussian`. With A = 0 and Q = P_1 = I the rows are independent and the system is that model: PPCA
    or factor analysis. Roweis & Ghahramani (1999).

    Attributes
    ----------
    initial : Gaussian
        Distribution of the first state, with mean p_1 (q,) and covariance P_1 (q, q).
    transition : ndarray of shape (q, q)
        Transition matrix A.
    process_noise : ndarray of shape (q, q)
        Covariance Q of the process noise.
    emission : LinearGaussian
        Observation equation: loadings C (d, q), mean c (d,) and noise variance R.
    input_loadings : ndarray of shape (q, u) or None
        Effect B of the inputs on the next state; None if there are no inputs.
    layout : Layout or None
        What each state is: a common factor, or the level, slope or season of one feature. None: all are factors.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.models import Gaussian, LinearGaussian, StateSpace
    >>> emission = LinearGaussian(np.zeros(2), [[1.0], [0.5]], 0.1)
    >>> system = StateSpace(Gaussian([0.0], [[1.0]]), [[0.9]], [[0.19]], emission)
    >>> system.time_constants.round(2), system.stationary().covariance.round(3)
    (array([9.49]), array([[1.]]))
    """

    initial: Gaussian
    transition: Array
    process_noise: Array
    emission: LinearGaussian
    input_loadings: Array | None = None
    layout: Layout | None = None

    def __post_init__(self) -> None:
        """Convert the arrays to read-only float64 and check their shapes and values."""
        q = self.emission.n_components
        for name in ("transition", "process_noise", "input_loadings"):
            value = getattr(self, name)
            if value is not None:
                array = np.array(value, dtype=np.float64)
                array.setflags(write=False)
                require_finite(name, array)
                object.__setattr__(self, name, array)
        require_shape("transition", self.transition, (q, q))
        require_shape("process_noise", self.process_noise, (q, q))
        require_shape("initial mean", self.initial.mean, (q,))
        B = self.input_loadings
        if B is not None and (B.ndim != 2 or len(B) != q or B.shape[1] < 1):
            msg = f"input_loadings must be a matrix ({q}, u) with u >= 1; got shape {B.shape}."
            raise ShapeError(msg)
        states = None if self.layout is None else self.layout.features
        if states is not None and (len(states) != q or states.max(initial=-1) >= self.n_features):
            msg = (
                f"the layout must describe {q} states of {self.n_features} features; got {len(states)} states of "
                f"features up to {states.max(initial=-1)}."
            )
            raise ShapeError(msg)
        _require_covariance("process_noise", self.process_noise)
        _require_covariance("initial covariance", self.initial.covariance)

    @property
    def n_features(self) -> int:
        """Number of observed features d."""
        return self.emission.n_features

    @property
    def n_components(self) -> int:
        """Dimension q of the state."""
        return self.emission.n_components

    @property
    def n_factors(self) -> int:
        """Number of states that are common factors: all of them, if there is no layout."""
        return self.n_components if self.layout is None else self.layout.n_factors

    @property
    def has_own_states(self) -> bool:
        """Whether some states are the level, slope or season of a single feature."""
        return self.n_factors < self.n_components

    @property
    def n_inputs(self) -> int:
        """Number of inputs u."""
        return 0 if self.input_loadings is None else self.input_loadings.shape[1]

    @classmethod
    def memoryless(cls, model: LinearGaussian) -> StateSpace:
        """State-space form of PPCA or factor analysis, with independent rows: A = 0 and Q = P_1 = I."""
        q = model.n_components
        return cls(standard_normal(q), np.zeros((q, q)), np.eye(q), model)

    @cached_property
    def eigenvalues(self) -> npt.NDArray[np.complex128]:
        """Eigenvalues of the transition matrix A of the factors, by decreasing modulus: (n_factors,)."""
        some = slice(None) if self.layout is None else self.layout.factors
        values = np.linalg.eigvals(self.transition[some][:, some]).astype(np.complex128)
        return values[np.lexsort((-values.imag, -values.real, -np.abs(values).round(12)))]

    @property
    def spectral_radius(self) -> float:
        """Largest modulus of the eigenvalues of the transition matrix A of the factors; 0 without factors."""
        return float(np.abs(self.eigenvalues).max(initial=0.0))

    @property
    def is_stationary(self) -> bool:
        """Whether the process is stationary in the long run: all eigenvalues of A have modulus below 1.

        A system with levels, slopes or seasons of single features is not: it does not return to a mean.
        """
        return not self.has_own_states and self.spectral_radius < 1

    @property
    def time_constants(self) -> Array:
        """Steps in which each mode of the factors decays to 1/e, ``-1 / log(abs(eigenvalue))``: (n_factors,).

        Infinite without decay.
        """
        modulus = np.abs(self.eigenvalues)
        with np.errstate(divide="ignore"):
            rate = -np.log(modulus)
        return np.divide(1.0, rate, out=np.full(rate.shape, np.inf), where=rate > 0)

    def stationary(self) -> Gaussian:
        """Stationary distribution N(0, P) of the state without inputs, with P = A P A' + Q.

        P is the sum of A^k Q A'^k, of which every step doubles the number of terms: a sum of squares, also where the
        linear equations of P are close to singular. Raises ``DataError`` if the process is not stationary.
        """
        if self.has_own_states:
            msg = "no stationary distribution exists: levels, slopes and seasons of features do not return to a mean."
            raise DataError(msg)
        if not self.is_stationary:
            msg = (
                "no stationary distribution exists: the eigenvalues of the transition matrix A must have modulus "
                f"below 1; the largest is {self.spectral_radius:.6g}."
            )
            raise DataError(msg)
        P, power, added = self.process_noise, self.transition, self.process_noise
        while np.abs(added).max() > np.finfo(np.float64).eps * np.abs(P).max():
            added = power @ P @ power.T
            P, power = P + added, power @ power
        return Gaussian(np.zeros(self.n_components), (P + P.T) / 2)

    def steady_state(self) -> Array:
        """Limit of the covariance of the state given all earlier rows, for a long series of complete rows: (q, q).

        Solves the Riccati equation P = A P A' - A P H' (I + H P H')^{-1} H P A' + Q with H'H = C' R^{-1} C, whose
        size q does not depend on d. With states of single features, which may have no noise, the equation is iterated
        from the initial covariance, for at most ten thousand steps.
        """
        H = np.asarray(np.linalg.qr(_in_noise_units(self.emission), mode="r"))
        if self.has_own_states:
            return self._iterated(H)
        P = solve_discrete_are(self.transition.T, H.T, self.process_noise, np.eye(len(H)))
        return np.asarray((P + P.T) / 2)

    def _iterated(self, H: Array, most: int = 10_000) -> Array:
        A, P = self.transition, self.initial.covariance
        for _ in range(most):
            PH = P @ H.T
            after = A @ (P - PH @ np.linalg.solve(np.eye(len(H)) + H @ PH, PH.T)) @ A.T + self.process_noise
            after = (after + after.T) / 2
            if np.abs(after - P).max() <= 1e-14 * np.abs(after).max():
                break
            P = after
        return after

    def change_basis(self, basis: Array) -> StateSpace:
        """Equivalent system whose state is T x, with T the invertible matrix ``basis`` (q, q).

        A becomes T A T^{-1}, C becomes C T^{-1}, Q becomes T Q T' and B becomes T B. The distribution of the
        observations does not change.
        """
        T = np.asarray(basis, dtype=np.float64)
        require_shape("basis", T, self.transition.shape)
        inverse = np.linalg.inv(T)
        P1 = T @ self.initial.covariance @ T.T
        Q = T @ self.process_noise @ T.T
        return StateSpace(
            Gaussian(T @ self.initial.mean, (P1 + P1.T) / 2),
            T @ self.transition @ inverse,
            (Q + Q.T) / 2,
            replace(self.emission, loadings=self.emission.loadings @ inverse),
            None if self.input_loadings is None else T @ self.input_loadings,
            self.layout,
        )

    def parts(self) -> list[Part] | None:
        """Split the system into independent systems of one feature each; None if features share states.

        Without factors, features do not know each other, so that questions cost the sum and not the cube of the
        numbers of their states.
        """
        layout = self.layout
        if layout is None or layout.n_factors or self.n_features == 1 or self.input_loadings is not None:
            return None
        return [self._part(layout, j, np.flatnonzero(layout.features == j)) for j in range(self.n_features)]

    def _part(self, layout: Layout, j: int, states: Index) -> Part:
        emission = self.emission
        block = np.ix_(states, states)
        noise = np.broadcast_to(emission.noise_variance, (self.n_features,))[j]
        own = Layout(
            tuple(layout.roles[k] for k in states), np.zeros(states.size, np.intp), layout.period, layout.unscored
        )
        system = StateSpace(
            Gaussian(self.initial.mean[states], self.initial.covariance[block]),
            self.transition[block],
            self.process_noise[block],
            LinearGaussian(emission.mean[j : j + 1], emission.loadings[j : j + 1, states], noise[None]),
            layout=own,
        )
        return Part(j, states, system)

    def whiten(self) -> StateSpace:
        r"""Equivalent system in coordinates of the state in which Q = I.

        With :math:`Q = E \Lambda E^\top` the new state is :math:`\Lambda^{-1/2} E^\top x`, so that C becomes
        :math:`C E \Lambda^{1/2}`. Raises ``DataError`` if Q is singular.
        """
        if self.has_own_states:
            msg = "states that belong to a single feature have no other coordinates."
            raise DataError(msg)
        values, axes = np.linalg.eigh(self.process_noise)
        if values[0] <= 1e-10 * values[-1]:
            msg = "process_noise is singular: no change of basis makes it the identity."
            raise DataError(msg)
        whitened = self.change_basis((axes / np.sqrt(values)).T)
        return replace(whitened, process_noise=np.eye(self.n_components))

    def canonical(self) -> StateSpace:
        """Equivalent system in canonical form: Q = I and C' R^{-1} C diagonal with decreasing entries.

        Signs are chosen so that the largest loading of each component is positive.
        """
        system = self.whiten()
        unseen = self.n_features < self.n_components
        axes, _, rotation = np.linalg.svd(_in_noise_units(system.emission), full_matrices=unseen)
        signs = np.ones(self.n_components)  # directions that no feature depends on keep their signs
        signs[: len(axes.T)] = np.sign(np.einsum("jk,jk->k", fix_signs(axes), axes))
        turned = system.change_basis(rotation * signs[:, None])
        return replace(turned, process_noise=np.eye(self.n_components))

    def marginal(self) -> LinearGaussian:
        """Marginal distribution of a single row of a stationary series, as a ``LinearGaussian``."""
        root = symmetric_root(self.stationary().covariance)
        return replace(self.emission, loadings=self.emission.loadings @ root)

    def pushes(self, inputs: Array | None, n: int) -> Array:
        """Shift B u_t of the next state by the inputs of each of ``n`` steps; zero without inputs: (n, q)."""
        if inputs is None or self.input_loadings is None:
            return np.zeros((n, self.n_components))
        return inputs @ self.input_loadings.T


class Part(NamedTuple):
    """System of one feature that shares no state with others."""

    feature: int
    states: Index  # positions of its states in the whole system
    model: StateSpace


def _in_noise_units(emission: LinearGaussian) -> Array:
    """Loadings in units of the noise standard deviations, R^{-1/2} C: (d, q)."""
    noise = emission.noise_variance
    return emission.loadings / np.sqrt(noise if noise.ndim == 0 else noise[:, None])


def _require_covariance(name: str, value: Array) -> None:
    """Raise ``DataError`` unless a matrix is symmetric and positive semidefinite up to rounding."""
    size = float(np.abs(value).max(initial=0.0))
    if np.abs(value - value.T).max(initial=0.0) > 1e-8 * size:
        msg = f"{name} must be symmetric; got a matrix that differs from its transpose."
        raise DataError(msg)
    least = float(np.linalg.eigvalsh(value)[0])
    if least < -1e-10 * size:
        msg = f"{name} must not have negative variances; its smallest eigenvalue is {least:.3g}."
        raise DataError(msg)
