"""Criteria that need eigenvalues alone: laws and slow twins."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition._pca import _assess_dimension

from oracles import random_rotation, spiked_rows
from probpca import DataError
from probpca.learning import Settings, fit_ppca
from probpca.learning.complete.spectrum import Spectrum
from probpca.learning.selection.choose import Table, judge
from probpca.learning.selection.criteria import (
    Curve,
    evidence,
    gavish_donoho,
    known_noise_factor,
    marchenko_pastur_median,
    n_above,
    threshold_factor,
)
from probpca.sources import open_source

SPECTRAL = ["bic", "evidence", "gavish_donoho", "parallel"]


def asked(x, name, *, weight=None, seed=0, largest=None):
    rng = np.random.default_rng(seed)
    return judge(Table.of(open_source(x, weight=weight), rng, largest=largest), name)


def spectrum_of(values, n):
    """All eigenvalues of a covariance, as a spectrum has them."""
    d = len(values)
    return Spectrum(float(n), int(n), np.zeros(d), np.array(values[:-1]), np.eye(d)[:, :-1], float(values[-1]), 0.0)


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.parametrize(("n", "d", "q"), [(400, 12, 3), (60, 90, 2)])
def test_strong_directions_of_equal_variance_are_counted_exactly(rng, name, n, d, q):
    assert asked(spiked_rows(rng, n, d, q, noise=0.02, largest=1.5), name).choice == q


@pytest.mark.parametrize("name", ["bic", "gavish_donoho", "parallel"])
@pytest.mark.parametrize("seed", range(4))
def test_noise_alone_has_one_component_and_says_so(name, seed):
    x = np.random.default_rng(seed).standard_normal((150, 20))
    found = asked(x, name, seed=seed)
    assert found.choice == 1 or found.score[found.choice - 1] < 1.05  # one table in twenty is allowed
    if found.score[0] < 1 and name != "bic":
        assert "minimum" in found.note or "the least there is" in found.note


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.parametrize("unit", [1e-40, 1e40])
def test_units_do_not_matter(rng, name, unit):
    x = spiked_rows(rng, 60, 9, 3, noise=0.5)
    plain, scaled = asked(x, name), asked(x * unit, name)
    assert plain.choice == scaled.choice
    assert_allclose(scaled.shown, plain.shown, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["bic", "evidence", "gavish_donoho"])
def test_rotating_the_columns_does_not_matter(rng, name):
    x = spiked_rows(rng, 60, 9, 3, noise=0.5)
    assert_allclose(asked(x @ random_rotation(rng, 9), name).score, asked(x, name).score, rtol=1e-8)


@pytest.mark.parametrize("name", SPECTRAL)
def test_the_order_of_rows_and_columns_does_not_matter(rng, name):
    x = spiked_rows(rng, 60, 9, 3, noise=0.5)
    mixed = x[rng.permutation(60)][:, rng.permutation(9)]
    assert_allclose(asked(mixed, name).score, asked(x, name).score, rtol=1e-8)


@pytest.mark.parametrize("name", SPECTRAL)
@pytest.mark.parametrize(("n", "d"), [(60, 9), (20, 30)])
def test_weights_are_repetitions(rng, name, n, d):
    x, times = spiked_rows(rng, n, d, 3, noise=0.5), rng.integers(1, 4, n)
    weighted, repeated = asked(x, name, weight=times), asked(np.repeat(x, times, axis=0), name)
    assert weighted.choice == repeated.choice
    m = min(weighted.score.size, repeated.score.size)  # repeated rows span no more directions
    assert_allclose(weighted.score[:m], repeated.score[:m], rtol=1e-8)


@pytest.mark.parametrize("name", SPECTRAL)
def test_no_more_components_are_looked_at_than_was_asked_for(rng, name):
    found = asked(spiked_rows(rng, 60, 9, 4, noise=0.05, largest=2), name, largest=2)
    assert found.n_components.tolist() == [1, 2]
    assert found.choice == 2


@pytest.mark.parametrize("name", ["evidence", "gavish_donoho"])
def test_missing_cells_are_refused_with_a_hint(rng, name):
    x = spiked_rows(rng, 60, 9, 3)
    x[3, 4] = np.nan
    hint = "Hint: n_components='parallel', 'bic' or 'cv'"
    with pytest.raises(DataError, match=rf"needs complete rows; cells are missing here.\n{hint}"):
        asked(x, name)
    with pytest.raises(DataError, match="needs complete rows"):
        fit_ppca(open_source(x), name, Settings(), rng)


@pytest.mark.parametrize(
    "values", [[3.0] * 6, [5.0, 3.0, 3.0, 1.0, 1.0, 1.0], [5.0, 5.0, 5.0, 0.0, 0.0, 0.0], [4, 1, 0, 0]]
)
def test_the_evidence_of_equal_and_of_zero_eigenvalues_is_finite(values):
    curve = evidence(spectrum_of(values, 100))
    assert np.isfinite(curve.score).all()


def test_the_evidence_does_not_part_eigenvalues_that_are_equal():
    """Formally the evidence of equal eigenvalues is infinite; it must not be what decides."""
    assert evidence(spectrum_of([5.0, 5.0, 1.0, 1.0, 1.0, 1.0], 200)).best == 2
    assert evidence(spectrum_of([5.0] * 6, 200)).best == 1


def test_the_evidence_is_that_of_scikit_learn_for_many_features_and_within_a_second(rng):
    d, n = 1000, 5000
    values = np.sort(rng.gamma(5.0, size=d))[::-1]
    start = time.perf_counter()
    curve = evidence(spectrum_of(values, n))
    assert time.perf_counter() - start < 1.0
    for k in (1, 2, 10):
        assert_allclose(curve.score[k - 1], _assess_dimension(values, k, n), rtol=1e-10)


def test_the_median_of_noise_is_that_of_marchenko_and_pastur(rng):
    for n, d in ((400, 400), (800, 200), (1000, 50)):
        values = np.linalg.svd(rng.standard_normal((n, d)), compute_uv=False) ** 2 / n
        assert_allclose(np.median(values), marchenko_pastur_median(d / n), rtol=0.02)


def test_a_known_threshold_of_a_square_table_is_four_over_root_three():
    assert_allclose(known_noise_factor(1.0), 4 / np.sqrt(3), rtol=1e-14)
    # Singular values of a square are spread over a quarter of a circle, of which this is half of the area.
    median = np.sqrt(marchenko_pastur_median(1.0))
    assert_allclose((median * np.sqrt(4 - median**2) / 2 + 2 * np.arcsin(median / 2)) / np.pi, 0.5, rtol=1e-9)
    # Gavish & Donoho (2014), table IV, which is good to three decimals, and their cubic approximation.
    assert_allclose(threshold_factor(1.0), 2.8582, atol=5e-4)
    assert_allclose(threshold_factor(0.5), 2.1711, atol=5e-4)
    for beta in np.linspace(0.02, 1.0, 9):
        assert_allclose(threshold_factor(beta), 0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43, atol=0.02)


@pytest.mark.parametrize(("n", "d"), [(300, 40), (41, 300)])
def test_singular_values_are_measured_by_their_median(rng, n, d):
    x = spiked_rows(rng, n, d, 3, noise=0.5)
    singular = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)[: min(n - 1, d)]
    sides = sorted([n - 1, d])
    wanted = singular / (threshold_factor(sides[0] / sides[1]) * np.median(singular))
    found = asked(x, "gavish_donoho")
    assert_allclose(found.score, wanted[: found.score.size], rtol=1e-7)


def test_the_threshold_needs_noise_in_half_of_the_directions():
    with pytest.raises(DataError, match=r"half of the singular values are zero(.|\n)*Hint"):
        gavish_donoho(spectrum_of([3.0, 2.0, 1.0, *[0.0] * 7], 50))


@pytest.mark.parametrize(
    ("scores", "count"), [([3.0, 1.2, 0.95, 2.0], 2), ([3.0, 1.2, 1.01], 3), ([0.95, 2.0], 1), ([2.0, 1.0], 1)]
)
def test_scores_above_one_are_counted_from_the_first(scores, count):
    assert n_above(Curve(np.arange(1, len(scores) + 1), np.array(scores))) == count


def test_the_threshold_of_a_spectrum_is_at_least_one_component(rng):
    curve = gavish_donoho(Table.of(open_source(rng.standard_normal((100, 10))), rng).spectrum)
    assert curve.score[0] < 1
    assert n_above(curve) == 1
