"""What the tests of inference share."""

import pytest

from oracles import random_model


@pytest.fixture(params=[0.3, "diagonal"], ids=["isotropic", "diagonal"])
def model(request, rng, shape):
    """A model of the shape that the test file asks for, with one noise variance or one per feature."""
    return random_model(rng, *shape, noise=request.param)
