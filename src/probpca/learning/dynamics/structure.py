"""Structure of a linear dynamical system: which parameters are estimated, and in which form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from probpca.blocks.block import unmasked
from probpca.errors import DataError, ShapeError, require_finite
from probpca.models import Gaussian, LinearGaussian

if TYPE_CHECKING:
    from probpca.learning.dynamics.em import SeriesEM
    from probpca.models import StateSpace
    from probpca.typing import Array

CHOICES = {
    "transition": ("free", "diagonal", "stable"),
    "process_noise": ("free", "diagonal", "identity"),
    "noise": ("diagonal", "isotropic"),
    "loadings": ("free",),
    "offset": ("free",),
    "initial_mean": ("free",),
    "initial_covariance": ("auto", "free", "stationary", "identity"),
}


@final
@dataclass(frozen=True, eq=False)
class Structure:
    """Structure of a linear dynamical system: which parameters are estimated, and under which constraints.

    Each parameter is given by a word that names its form, or by an array at which it is held fixed.

    Attributes
    ----------
    transition : "free", "diagonal", "stable" or array of shape (q, q)
        Transition matrix A.
    process_noise : "free", "diagonal", "identity" or array of shape (q, q)
        Covariance Q of the process noise.
    noise : "diagonal", "isotropic" or array of shape (d,) or ()
        Variances R of the observation noise.
    loadings : "free" or array of shape (d, q)
        Loadings C.
    offset : "free" or array of shape (d,)
        Mean c of the observations at state zero.
    initial_mean : "free" or array of shape (q,)
        Mean of the first state.
    initial_covariance : "auto", "free", "stationary", "identity" or array of shape (q, q)
        Covariance of the first state. "free" estimates it; "stationary" and "identity" make it a fixed multiple of the
        process noise (1 for "identity"); "auto" estimates it only if there are many sequences. With a single sequence
        its maximum-likelihood value is zero, which EM would approach indefinitely.
    ridge : float
        Strength of a Gaussian prior that shrinks A towards zero, in coordinates in which Q = I. It has the effect of
        that many additional transitions from each unit vector to zero.
    largest_radius : float
        Largest modulus of the eigenvalues of A if the transition is "stable".
    process_floor : float
        Smallest variance of the process noise, relative to the variance of the state in the starting model.
    many_sequences : int
        Number of sequences per state from which on "auto" estimates the initial covariance.

    Examples
    --------
    >>> from probpca.learning import Structure
    >>> structure = Structure(transition="diagonal", ridge=1.0)
    >>> structure.says("transition", "diagonal", "stable"), structure.fixed("loadings") is None
    (True, True)
    """

    transition: Any = "free"
    process_noise: Any = "free"
    noise: Any = "diagonal"
    loadings: Any = "free"
    offset: Any = "free"
    initial_mean: Any = "free"
    initial_covariance: Any = "auto"
    ridge: float = 0.0
    largest_radius: float = 0.999
    process_floor: float = 1e-6
    many_sequences: int = 10

    def __post_init__(self) -> None:
        """Raise ``DataError`` for unknown words, and convert other values to arrays."""
        for name, words in CHOICES.items():
            value = getattr(self, name)
            if isinstance(value, str):
                if value not in words:
                    msg = f"{name} must be {', '.join(map(repr, words))} or an array; got {value!r}."
                    raise DataError(msg)
                continue
            array = np.array(unmasked(value), dtype=np.float64)
            require_finite(name, array)
            object.__setattr__(self, name, array)
        if not self.ridge >= 0:
            msg = f"ridge must not be negative; got {self.ridge}."
            raise DataError(msg)

    def fixed(self, name: str) -> Array | None:
        """Array at which a parameter is held fixed; None if it is estimated."""
        value = getattr(self, name)
        return None if isinstance(value, str) else value

    @property
    def any_basis(self) -> bool:
        """Whether the coordinates of the state are arbitrary, because no parameter is fixed in a way that sets them."""
        names = ("loadings", "initial_mean", "initial_covariance")
        given = any(self.fixed(name) is not None for name in names)
        return not given and self.says("transition", "free", "stable") and self.says("process_noise", "free")

    def says(self, name: str, *words: str) -> bool:
        """Whether the form of the parameter ``name`` is given by one of ``words``."""
        value = getattr(self, name)
        return isinstance(value, str) and value in words

    def learns_initial_covariance(self, q: int, n_sequences: int) -> bool:
        """Whether the covariance of the first state is estimated, given the numbers of states and sequences."""
        many = n_sequences >= self.many_sequences * q
        return self.says("initial_covariance", "free") or (self.says("initial_covariance", "auto") and many)

    def check(self, q: int, d: int) -> None:
        """Raise ``ShapeError`` unless fixed arrays have the shapes for q states and d features."""
        shapes: dict[str, list[tuple[int, ...]]] = {
            "transition": [(q, q)],
            "process_noise": [(q, q)],
            "noise": [(), (d,)],
            "loadings": [(d, q)],
            "offset": [(d,)],
            "initial_mean": [(q,)],
            "initial_covariance": [(q, q)],
        }
        for name, allowed in shapes.items():
            value = self.fixed(name)
            if value is not None and value.shape not in allowed:
                wanted = " or ".join(map(str, allowed))
                msg = f"{name} must have shape {wanted} for {q} components and {d} features; got {value.shape}."
                raise ShapeError(msg)


def n_parameters(structure: Structure, q: int, d: int, inputs: int = 0, n_sequences: int = 1) -> int:
    """Number of free parameters, not counting those that only change the coordinates of the state."""
    square, triangle = q * q, q * (q + 1) // 2
    count = 0
    if structure.fixed("transition") is None:
        count += q if structure.says("transition", "diagonal") else square
    if structure.says("process_noise", "free", "diagonal"):
        count += q if structure.says("process_noise", "diagonal") else triangle
    count += d * q if structure.fixed("loadings") is None else 0
    count += d if structure.fixed("offset") is None else 0
    if structure.fixed("noise") is None:
        count += 1 if structure.says("noise", "isotropic") else d
    count += q if structure.fixed("initial_mean") is None else 0
    count += triangle if structure.learns_initial_covariance(q, n_sequences) else 0
    count += q * inputs
    return count - _coordinates(structure, q)


def _coordinates(structure: Structure, q: int) -> int:
    """Degrees of freedom of the coordinates of the state that the structure leaves open."""
    if any(structure.fixed(name) is not None for name in ("loadings", "initial_mean", "initial_covariance")):
        return 0
    turns = q * (q - 1) // 2
    loose = structure.says("transition", "free", "stable")
    if not loose and not structure.says("transition", "diagonal"):
        return 0
    match structure.process_noise if structure.fixed("process_noise") is None else None:
        case "free":
            return q * q if loose else q
        case "diagonal":
            return turns + q if loose else q
        case "identity":
            return turns if loose else 0
        case _:
            return 0


@final
@dataclass(frozen=True, slots=True, eq=False)
class SeriesCoordinates:
    """Conversion between systems and vectors of their parameters, for extrapolation.

    Parameters are in units of the data, and covariances are represented by Cholesky factors with logarithms on the
    diagonal. Constraints to zero or constant values hold for every combination of vectors.
    """

    like: StateSpace
    em: SeriesEM
    unit: Array  # standard deviation of each feature: (d,)

    @classmethod
    def around(cls, model: StateSpace, em: SeriesEM) -> SeriesCoordinates:
        """Coordinates with units from a model of the same data."""
        noise = np.broadcast_to(model.emission.noise_variance, model.emission.mean.shape)
        size = np.square(model.emission.loadings) @ np.diagonal(model.process_noise)
        return cls(model, em, np.sqrt(noise + size))

    @property
    def n_noise(self) -> int:
        """Number of noise variances whose extrapolation is limited: the last one, which shows that a jump is wild."""
        return 1

    def flatten(self, model: StateSpace) -> Array:
        """Convert a model to a vector with log R last."""
        emission = model.emission
        parts = [
            model.transition,
            _log_root(model.process_noise),
            emission.loadings / self.unit[:, None],
            (emission.mean - self.like.emission.mean) / self.unit,
            model.initial.mean,
            *([] if model.input_loadings is None else [model.input_loadings]),
            *([_log_root(model.initial.covariance)] if self.em.learn_initial_covariance else []),
            np.log(emission.noise_variance),
        ]
        return np.concatenate([np.ravel(part) for part in parts])

    def place(self, vector: Array) -> StateSpace | None:
        """Convert a vector to a model; None if it is not a valid model of the given structure."""
        like, q, d = self.like, self.like.n_components, self.like.n_features
        if not np.abs(vector).max() < 1e8:  # not plausible in units of the data
            return None
        rest = vector

        def take(*shape: int) -> Array:
            nonlocal rest
            size = int(np.prod(shape))
            part, rest = rest[:size].reshape(shape), rest[size:]
            return part

        A, Q, C, shift, mean = take(q, q), _from_log_root(take(q, q)), take(d, q), take(d), take(q)
        B = None if like.input_loadings is None else take(*like.input_loadings.shape)
        P = _from_log_root(take(q, q)) if self.em.learn_initial_covariance else like.initial.covariance
        if not (np.isfinite(Q).all() and np.isfinite(P).all()):
            return None
        structure, noise = self.em.structure, like.emission.noise_variance
        if structure.fixed("noise") is None:
            floor = self.em.floor if noise.ndim else self.em.floor.mean()
            noise = np.maximum(np.exp(np.minimum(rest, 300.0)).reshape(noise.shape), floor)
        loadings = C * self.unit[:, None] if structure.fixed("loadings") is None else like.emission.loadings
        emission = LinearGaussian(like.emission.mean + shift * self.unit, loadings, noise)
        Q = self.em.process_noise(like, Q)
        P = P if self.em.ratio is None else self.em.ratio * Q
        model = replace(
            like, initial=Gaussian(mean, P), transition=A, process_noise=Q, emission=emission, input_loadings=B
        )
        wild = structure.says("transition", "stable") and model.spectral_radius > structure.largest_radius
        return None if wild else model


def _log_root(covariance: Array) -> Array:
    """Cholesky factor with logarithms on the diagonal, (q, q); a small multiple of I is added to a singular matrix."""
    size = np.trace(covariance) / len(covariance)
    root = np.linalg.cholesky(covariance + 1e-14 * max(float(size), 1e-300) * np.eye(len(covariance)))
    i = np.arange(len(root))
    root[i, i] = np.log(root[i, i])
    return np.asarray(root, dtype=np.float64)


def _from_log_root(log_root: Array) -> Array:
    root = np.tril(log_root)
    i = np.arange(len(root))
    root[i, i] = np.exp(np.minimum(root[i, i], 300.0))
    return np.asarray(root @ root.T, dtype=np.float64)
