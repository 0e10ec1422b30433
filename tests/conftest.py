"""How the tests run, wherever they run."""

import os

import hypothesis
import numpy as np
import pytest

pytest.register_assert_rewrite("oracles")

# Timings belong to benchmarks, so no deadline; in CI every run draws the same examples.
hypothesis.settings.register_profile("local", deadline=None, max_examples=25)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def rng():
    """The same stream for every test: what fails today fails tomorrow."""
    return np.random.default_rng(20240229)
