"""The array types that the signatures speak of."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
"""What the library computes: float64."""

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
"""What may come in: float32 or float64."""

Index: TypeAlias = npt.NDArray[np.intp]
