"""Exceptions raised by probpca. Each message states what was required, what was received and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from probpca.typing import Floats


class ProbpcaError(ValueError):
    """Base class of all exceptions that probpca raises itself; a ``ValueError``."""


class ShapeError(ProbpcaError):
    """An array has the wrong shape, or a number of components does not fit the data."""


class DataError(ProbpcaError):
    """The data have the right shape but unusable values: not numeric, not finite, or without variation."""


class SourceError(ProbpcaError):
    """Data could not be read, could not be read a second time, or could not be written."""


class ClusterError(ProbpcaError):
    """A Dask or Spark cluster was stopped, or lost its workers or their memory, during a computation."""


class FileFormatError(ProbpcaError):
    """A file is not a probpca file, is damaged, or was written by an incompatible version."""


class NotEnoughMemoryError(ProbpcaError, MemoryError):
    """A result would need more memory than is available; raised before any work is done. Also a ``MemoryError``."""


def require_shape(name: str, value: Floats, *allowed: tuple[int, ...]) -> None:
    """Raise ``ShapeError`` unless ``value`` has one of the allowed shapes."""
    if value.shape not in allowed:
        wanted = " or ".join(str(shape) for shape in allowed)
        msg = f"{name} must have shape {wanted}; got {value.shape}."
        raise ShapeError(msg)


def require_finite(name: str, value: Floats) -> None:
    """Raise ``DataError`` if ``value`` holds NaN or infinity."""
    if value.ndim and value.strides[0] == 0:
        value = value[:1]  # a broadcast view: all entries along the first axis are the same memory
    if not np.isfinite(value).all():
        bad = int(np.size(value) - np.isfinite(value).sum())
        msg = f"{name} must be finite; got {bad} entries that are NaN or infinite."
        raise DataError(msg)


def require_positive(name: str, value: Floats) -> None:
    """Raise ``DataError`` unless every entry of ``value`` is positive."""
    if not (value > 0).all():
        msg = f"{name} must be positive; the smallest entry is {np.min(value)!s}."
        raise DataError(msg)
