"""Errors of this library: each message says what was needed, what came and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Floats


class ProbpcaError(ValueError):
    """Base of every error that this library raises on purpose."""


class ShapeError(ProbpcaError):
    """An array, or a number of components, does not fit the others."""


class DataError(ProbpcaError):
    """The values themselves cannot be used: not numbers, not finite, no variation."""


class SourceError(ProbpcaError):
    """Rows could not be read, or not read again."""


class FileFormatError(ProbpcaError):
    """A file is not a probpca file, is damaged, or was written by a newer version."""


def require_shape(name: str, value: Floats, *allowed: tuple[int, ...]) -> None:
    """Raise ``ShapeError`` unless ``value`` has one of the allowed shapes."""
    if value.shape not in allowed:
        wanted = " or ".join(str(shape) for shape in allowed)
        msg = f"{name} must have shape {wanted}; got {value.shape}."
        raise ShapeError(msg)


def require_finite(name: str, value: Floats) -> None:
    """Raise ``DataError`` if ``value`` holds NaN or infinity."""
    if value.ndim and value.strides[0] == 0:
        value = value[:1]  # a broadcast view: one copy stands for all
    if not np.isfinite(value).all():
        bad = int(np.size(value) - np.isfinite(value).sum())
        msg = f"{name} must be finite; got {bad} entries that are NaN or infinite."
        raise DataError(msg)


def require_positive(name: str, value: Floats) -> None:
    """Raise ``DataError`` unless every entry of ``value`` is above zero."""
    if not (value > 0).all():
        msg = f"{name} must be positive; the smallest value given is {np.min(value)!s}."
        raise DataError(msg)
