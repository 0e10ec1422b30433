"""Chi-square scaled by the nearest rows: what is left out has no say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

from probpca.inference.calibration import Calibration, Distances, median_scaled


@pytest.mark.parametrize("share", [0.6, 0.975, 1.0])
def test_the_scale_of_the_nearest_rows_is_found(rng, share):
    k = rng.integers(3, 12, 40_000).astype(float)
    d2 = 1.7 * rng.chisquare(k)
    near = d2 / 1.7 <= chi2.ppf(share, k)
    nothing = np.zeros(int(near.sum()))
    found = Distances(nothing, d2[near], k[near], nothing)
    scaled = median_scaled(found, 1e9, None, 0.5 * share)
    assert_allclose(scaled.scale, 1.7, rtol=0.02)
    assert scaled.degrees == np.inf
    weight = rng.integers(0, 3, near.sum()).astype(float)
    repeated = Distances(*(np.repeat(part, weight.astype(int)) for part in found))
    assert_allclose(
        median_scaled(found, 1e9, weight, 0.5 * share).scale, median_scaled(repeated, 1e9, None, 0.5 * share).scale
    )


def test_without_rows_it_is_chi_square():
    nothing = np.zeros(3)
    assert median_scaled(Distances(nothing, nothing, nothing, nothing), 3.0, None, 0.5) == Calibration()
