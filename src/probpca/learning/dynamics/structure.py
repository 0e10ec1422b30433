"""Which parameters of a dynamical system are learned, and in which form."""

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
    """Each parameter in words, or as an array that is kept as it is.

    ``initial_covariance="auto"`` learns it where sequences are many. Where they are few it is a fixed multiple of the
    process noise, as "stationary" and "identity" (the multiple is 1) ask for it: with a single sequence its
    maximum-likelihood value is zero, which EM approaches without end, by way of the coordinates of the state if need
    be.
    ``ridge`` adds as many transitions, from each unit vector to zero, to those seen: a prior that holds A back, in
    coordinates in which the process noise is the identity.
    """

    transition: Any = "free"
    process_noise: Any = "free"
    noise: Any = "diagonal"
    loadings: Any = "free"
    offset: Any = "free"
    initial_mean: Any = "free"
    initial_covariance: Any = "auto"
    ridge: float = 0.0
    largest_radius: float = 0.999  # largest modulus of an eigenvalue of a transition that is to be "stable"
    process_floor: float = 1e-6  # smallest variance of the process noise, as a share of the state's in the first guess
    many_sequences: int = 10  # sequences a state from which on "auto" learns the initial covariance

    def __post_init__(self) -> None:
        """Refuse words that do not exist; make arrays of the rest."""
        for name, words in CHOICES.items():
            value = getattr(self, name)
            if isinstance(value, str):
                if value not in words:
                    msg = f"{name} must be {', '.join(map(repr, words))} or an array to be kept; got {value!r}."
                    raise DataError(msg)
                continue
            array = np.array(unmasked(value), dtype=np.float64)
            require_finite(name, array)
            object.__setattr__(self, name, array)
        if not self.ridge >= 0:
            msg = f"ridge must not be negative; got {self.ridge}."
            raise DataError(msg)

    def fixed(self, name: str) -> Array | None:
        """The array that a parameter is kept at, if it is."""
        value = getattr(self, name)
        return None if isinstance(value, str) else value

    @property
    def any_basis(self) -> bool:
        """Whether the coordinates of the state may change: not if a parameter that is kept fixes them."""
        names = ("loadings", "initial_mean", "initial_covariance")
        given = any(self.fixed(name) is not None for name in names)
        return not given and self.says("transition", "free", "stable") and self.says("process_noise", "free")

    def says(self, name: str, *words: str) -> bool:
        """Is a parameter described by one of these words?"""
        value = getattr(self, name)
        return isinstance(value, str) and value in words

    def learns_initial_covariance(self, q: int, n_sequences: int) -> bool:
        """Whether the covariance of the first state is learned; "auto" learns it from many sequences a state."""
        many = n_sequences >= self.many_sequences * q
        return self.says("initial_covariance", "free") or (self.says("initial_covariance", "auto") and many)

    def check(self, q: int, d: int) -> None:
        """Do the arrays have the shapes that q states and d features ask for?"""
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
    """Number of parameters that change the distribution of the data: the coordinates of the state do not count."""
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
    """Ways to tell the same system differently that the structure leaves open."""
    if any(structure.fixed(name) is not None for name in ("loadings", "initial_mean", "initial_covariance")):
        return 0
    turns = q * (q - 1) // 2
    loose = structure.says("transition", "free", "stable")
    if not loose and not structure.says("transition", "diagonal"):
        return 0
    match structure.process_noise:
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
    """Everything that EM may change, in units of the data; covariances by the logarithms of their Cholesky factors.

    What is constrained to be zero or constant stays so in every combination of vectors.
    """

    like: StateSpace
    em: SeriesEM
    unit: Array  # of each feature: (d,)

    @classmethod
    def around(cls, model: StateSpace, em: SeriesEM) -> SeriesCoordinates:
        """Units from a model of the same data."""
        noise = np.broadcast_to(model.emission.noise_variance, model.emission.mean.shape)
        size = np.square(model.emission.loadings) @ np.diagonal(model.process_noise)
        return cls(model, em, np.sqrt(noise + size))

    def pack(self, model: StateSpace) -> Array:
        """Model to vector, log R last."""
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
        """Vector to model; None if there is no such model, or not one of the structure that is asked for."""
        like, q, d = self.like, self.like.n_components, self.like.n_features
        if not np.abs(vector).max() < 1e8:  # far outside of anything that data in these units can mean
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
    """Cholesky factor with the logarithms of its diagonal: (q, q); a little is added to what is singular."""
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
