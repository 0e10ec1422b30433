"""What a user calls a random state."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from probpca.errors import DataError


def generator(random_state: Any) -> np.random.Generator:
    """A numpy generator from whatever scikit-learn calls a random state; None is numpy's global one."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or random_state is np.random:
        return np.random.default_rng(np.random.randint(2**31 - 1))  # noqa: NPY002
    if isinstance(random_state, Integral):
        random_state = np.random.RandomState(int(random_state))
    if not isinstance(random_state, np.random.RandomState):
        msg = f"random_state must be a whole number, a RandomState, a Generator or None; got {random_state!r}."
        raise DataError(msg)
    return np.random.default_rng(random_state.randint(2**31 - 1))
