"""Array types used in signatures."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
"""Array of float64, the precision of all results."""

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
"""Array of float32 or float64, as input data may be."""

Index: TypeAlias = npt.NDArray[np.intp]
