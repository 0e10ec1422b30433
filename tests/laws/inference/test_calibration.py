"""Tails of a scaled F distribution, how it is matched to distances, and p-values that keep what they promise."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, f as fisher, kstest

from oracles import spiked_rows
from probpca import PPCA, DataError
from probpca.inference import Calibration, calibrate, outliers
from probpca.inference.calibration import RARE, SMALLEST_TAIL, Distances, f_tail, log10_f_tail, matched, probability
from probpca.learning import fit_ppca

DEGREES = [1, 2, 7, 50, 1000]
NU = [1.0, 2.5, 5.0, 20.0, 1e3, 1e6]


def whole(distance, degrees):
    """Distances that lie within the subspace, so that nothing is corrected for a large n."""
    k = np.broadcast_to(np.asarray(degrees, float), distance.shape)
    return Distances(distance, np.zeros(distance.shape), k, k)


# Tails


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("nu", NU)
def test_tails_are_those_of_the_f_distribution(k, nu):
    ratio = np.array([0.0, 0.1, 1.0, 3.0, 10.0, 100.0])
    assert_allclose(Calibration(1.7, nu).tail(1.7 * k * ratio, k), fisher.sf(ratio, k, nu), rtol=1e-9, atol=1e-300)
    assert_allclose(Calibration(1.7).tail(1.7 * k * ratio, k), chi2.sf(k * ratio, k), rtol=1e-9, atol=1e-300)


def precise_log10_tail(distance, k, nu):
    """The incomplete beta function by its series, in extended precision."""
    with mpmath.workdps(40):
        a, b = mpmath.mpf(nu) / 2, mpmath.mpf(k) / 2
        y = 1 / (1 + mpmath.mpf(distance) / nu)
        term = total = mpmath.mpf(1)
        for j in range(3000):
            term *= (a + b + j) / (a + 1 + j) * y
            total += term
            if term < total * mpmath.mpf(10) ** -25:
                break
        log = a * mpmath.log(y) + b * mpmath.log(1 - y) + mpmath.log(total / a)
        log += mpmath.loggamma(a + b) - mpmath.loggamma(a) - mpmath.loggamma(b)
        return float(log / mpmath.log(10))


@pytest.mark.parametrize("k", DEGREES)
@pytest.mark.parametrize("nu", [*NU[:-1], 1e4])
@pytest.mark.parametrize("times", [100, 1e4, 1e12])
def test_tiny_probabilities_are_right_in_extended_precision(k, nu, times):
    assert_allclose(log10_f_tail(np.array([times * k]), k, nu), precise_log10_tail(times * k, k, nu), rtol=1e-9)


def test_the_logarithm_does_not_jump_where_the_formula_changes():
    for k, nu in ((3, 400.0), (60, 2000.0)):
        edge = Calibration(1.0, nu).exceeded(SMALLEST_TAIL, k)
        distance = edge * (1 + np.linspace(-1e-6, 1e-6, 21))
        tail, values = f_tail(distance, k, nu), log10_f_tail(distance, k, nu)
        assert tail[0] > SMALLEST_TAIL > tail[-1]
        slopes = np.diff(values)
        assert_allclose(slopes, slopes.mean(), rtol=1e-3)
        assert (slopes < 0).all()


@pytest.mark.parametrize("nu", [3.0, np.inf])
def test_nothing_observed_has_probability_one_and_infinity_none(nu):
    reference = Calibration(2.0, nu)
    far = np.array([0.0, 5.0, np.inf])
    assert_array_equal(reference.tail(far, 0), 1.0)
    assert_array_equal(reference.log10_tail(far, 0), 0.0)
    assert_array_equal(reference.exceeded(np.array([0.5, 1e-3]), 0), 0.0)
    assert_array_equal(reference.log10_tail(np.array([0.0, np.inf]), 3), [0.0, -np.inf])


@pytest.mark.parametrize("nu", [1.0, 7.0, 1e5, np.inf])
def test_limits_are_exceeded_with_their_probability(nu):
    p, k = np.array([0.9, 0.5, 0.1, RARE, 1e-12, 1e-200]), np.array([[1.0], [9.0], [5000.0]])
    reference = Calibration(0.3, nu)
    limits = reference.exceeded(p, k)
    assert (np.diff(limits, axis=1) > 0).all()
    inside = np.isfinite(limits)  # with one degree of freedom the last is beyond all numbers
    assert inside[:, :-1].all()
    assert_allclose(reference.tail(limits, k)[inside], np.broadcast_to(p, (3, 6))[inside], rtol=1e-6)


def test_infinite_degrees_are_the_limit_of_many():
    distance = np.linspace(0, 60, 13)
    assert_allclose(Calibration(1.0, 1e9).tail(distance, 8), Calibration().tail(distance, 8), rtol=1e-6)


@pytest.mark.parametrize(
    "wrong", [{"scale": 0.0}, {"scale": np.inf}, {"scale": np.nan}, {"degrees": -1.0}, {"degrees": 5e-324}]
)
def test_numbers_that_are_no_distribution_are_refused(wrong):
    with pytest.raises(DataError, match="scale and degrees must be positive"):
        Calibration(**wrong)


def test_probabilities_are_written_as_people_write_them():
    logs = [0.0, np.log10(0.034), np.log10(0.00021), np.log10(3.44e-12), -399.83, np.log10(9.99e-8), -np.inf]
    assert [probability(log) for log in logs] == ["1", "0.034", "0.00021", "3.4e-12", "1.5e-400", "1.0e-07", "0"]


# Matching


@pytest.mark.parametrize(("scale", "nu"), [(1.0, 4.0), (0.6, 12.0), (2.5, 40.0)])
def test_scale_and_degrees_of_simulated_distances_are_recovered(scale, nu):
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        k = rng.integers(3, 30, 4000)  # rows with different numbers of observed cells
        found.append(matched(whole(scale * k * rng.f(k, nu), k), 1e12))
    numbers = np.array([[c.scale, 1 / c.degrees] for c in found])
    error = numbers.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(numbers.mean(axis=0) - [scale, 1 / nu]) < 4 * error).all()
    assert (error < [0.02 * scale, 0.05 / nu + 0.001]).all()


def test_tails_no_heavier_than_those_of_a_gaussian_have_infinite_degrees(rng):
    for distance in (rng.chisquare(10, 500) ** 0.5, np.full(50, 3.0), rng.uniform(1, 2, 100)):
        found = matched(whole(distance, 10), 1e12)
        assert found.degrees == np.inf
        assert_allclose(found.tail(np.median(distance), 10), 0.5, atol=1e-6)


def test_half_of_the_rows_lie_beyond_the_median_and_a_tenth_beyond_the_upper_quantile(rng):
    distance = 12 * rng.f(12, 5, 1001)
    p = matched(whole(distance, 12), 1e12).tail(distance, 12)
    assert_allclose([np.mean(p < 0.5), np.mean(p < 0.1)], [0.5, 0.1], atol=1.5e-3)


def test_a_weight_counts_rows(rng):
    distance, k = 6 * rng.f(6, 5, 80), np.repeat([6, 4], 40)
    weight = rng.integers(1, 4, 80)
    once = matched(whole(np.repeat(distance, weight), np.repeat(k, weight)), 1e9)
    counted = matched(whole(distance, k), 1e9, weight.astype(float))
    assert_allclose([counted.scale, counted.degrees, counted.extreme], [once.scale, once.degrees, once.extreme])


def test_rows_without_observed_cells_do_not_count(rng):
    distance, k = rng.chisquare(5, 60), np.full(60, 5.0)
    empty = whole(np.append(distance, np.zeros(40)), np.append(k, np.zeros(40)))
    assert matched(empty, 60) == matched(whole(distance, k), 60)


@pytest.mark.parametrize(
    ("distance", "n", "said"),
    [
        (np.ones(19), 100, "fewer than 20 training rows"),
        (np.ones(30), 5, "fewer than 20"),
        (np.zeros(30), 30, "lie at the mean"),
    ],
)
def test_where_nothing_can_be_matched_the_reference_is_chi_square_and_says_why(distance, n, said):
    found = matched(whole(distance, 3), n)
    assert (found.scale, found.degrees) == (1.0, np.inf)
    assert said in found.obstacle
    assert found.note == f"p_value is the same as model_p_value: {found.obstacle}."


def test_rows_of_large_weight_may_all_lie_at_the_mean():
    weight = np.where(np.arange(40) < 15, 100.0, 1.0)
    found = matched(whole(np.where(np.arange(40) < 15, 0.0, 2.0), 3), 1525, weight)
    assert "lie at the mean" in found.obstacle


def test_the_note_warns_of_outliers_that_hide_each_other():
    assert Calibration(1.0, 6.0, 0.04).note == ""
    for heavy in (Calibration(1.0, 4.9, 0.01), Calibration(1.0, 9.0, 0.06), Calibration(2.0, np.inf, 0.2)):
        assert f"{100 * heavy.extreme:.1f}% of the training rows" in heavy.note
        assert "masking" in heavy.note
        assert "model_p_value" in heavy.note


# Rows that are left out


def test_the_part_within_is_exact_for_a_mean_and_a_covariance(rng):
    x = rng.standard_normal((25, 3)) @ rng.standard_normal((3, 3))

    def squared(rows, row):
        centred = row - rows.mean(axis=0)
        return centred @ np.linalg.solve(np.cov(rows.T, bias=True), centred)

    inside = np.array([squared(x, row) for row in x])
    wanted = [squared(np.delete(x, i, axis=0), x[i]) for i in range(25)]
    assert_allclose(whole(inside, 3).left_out(25).inside, wanted, rtol=1e-9)


def refitted_without(x, q):
    """Distance of each row from the model of all others."""
    models = [PPCA(q, random_state=0, tol=1e-6).fit(np.delete(x, i, axis=0)).model_ for i in range(len(x))]
    return np.array([outliers(model, x[i : i + 1]).distance[0] for i, model in enumerate(models)])


def distances_of(model, x):
    found = outliers(model, x)
    k = np.isfinite(x).sum(axis=1).astype(float)
    return Distances(found.latent_distance, found.residual_distance, k, np.minimum(k, model.n_components))


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_left_out_distances_are_near_those_of_refits_without_the_row(rng, holes):
    """First order: what a row loses by its own leverage, 20% and more at 60 x 8, is made up to a few percent."""
    x = spiked_rows(rng, 60, 8, 2, noise=0.5)
    x[rng.random(x.shape) < holes] = np.nan
    as_is = distances_of(PPCA(2, random_state=0, tol=1e-6).fit(x).model_, x)
    exact, corrected = refitted_without(x, 2), as_is.left_out(np.isfinite(x).sum() / 8).whole
    assert np.median(np.abs(exact / as_is.whole - 1)) > 0.05
    assert np.median(np.abs(exact / corrected - 1)) < (0.015 if holes == 0 else 0.03)
    assert np.quantile(np.abs(exact / corrected - 1), 0.95) < (0.06 if holes == 0 else 0.15)


def test_leverage_and_noise_are_bounded_where_first_order_says_too_little():
    found = Distances(np.array([19.0, 0.0]), np.array([5.0, 1e9]), np.full(2, 8.0), np.full(2, 2.0)).left_out(20)
    assert np.isfinite(found.whole).all()
    assert (found.whole > 0).all()


# p-values that keep what they promise


def draw(rng, n, d, q, holes):
    x = rng.standard_normal((n, q)) @ (2 * rng.standard_normal((q, d))) + rng.standard_normal((n, d))
    x[rng.random((n, d)) < holes] = np.nan
    return x


def pooled(n, d, q, holes, seeds):
    """p-values of rows of the fit and of new rows, and those of chi-square."""
    found = []
    for seed in range(seeds):
        x = draw(np.random.default_rng([seed, n, d]), 2 * n, d, q, holes)
        ppca = PPCA(q, random_state=0).fit(x[:n])
        inside, outside = ppca.outliers(x[:n], training=True), ppca.outliers(x[n:])
        found.append([inside.p_value, outside.p_value, outside.model_p_value])
    return [np.concatenate(part) for part in zip(*found, strict=True)]


@pytest.mark.parametrize(
    ("n", "d", "q", "holes", "seeds", "most"),
    [(200, 10, 2, 0.0, 15, 0.02), (60, 20, 3, 0.0, 30, 0.02), (64, 500, 4, 0.0, 15, 0.04), (100, 10, 2, 0.2, 20, 0.03)],
)
def test_p_values_are_uniform_in_and_out_of_the_table(n, d, q, holes, seeds, most):
    """``most`` is what the method may be off; chance adds the 95% point of Kolmogorov's distribution."""
    inside, outside, plain = pooled(n, d, q, holes, seeds)
    chance = 1.36 / np.sqrt(n * seeds)
    for p in (inside, outside):
        assert kstest(p, "uniform").statistic < most + chance
        assert abs(np.mean(p < 0.05) - 0.05) < 0.012 + 4 * np.sqrt(0.05 * 0.95 / (n * seeds))
    if n < 5 * d:
        assert kstest(plain, "uniform").statistic > 2 * (most + chance)  # what was to be mended


def test_rows_with_heavy_tails_are_not_flagged_by_the_dozen(rng):
    x = draw(rng, 2000, 12, 2, 0.0) * np.sqrt(6 / rng.chisquare(6, (2000, 1)))
    ppca = PPCA(2).fit(x[:1000])
    for found in (ppca.outliers(x[:1000], training=True), ppca.outliers(x[1000:])):
        assert np.mean(found.model_p_value < RARE) > 0.02
        assert np.mean(found.p_value < RARE) < 0.006


def test_planted_rows_are_found():
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = draw(rng, 500, 20, 3, 0.0)
        x[:25] += 3 * rng.standard_normal((25, 20))
        found.append(PPCA(3).fit(x).outliers(x, training=True).p_value[:25] < RARE)
    assert np.mean(found) >= 0.95


def test_units_and_the_order_of_rows_do_not_matter(rng):
    x = draw(rng, 150, 6, 2, 0.1)
    reference = calibrate(fit_ppca(x, 2).model, x)
    order = rng.permutation(150)
    for rows in (1e6 * x, 1e-9 * x, x[order], x[:, ::-1]):
        again = calibrate(fit_ppca(rows, 2).model, rows)
        assert_allclose([again.scale, again.degrees], [reference.scale, reference.degrees], rtol=1e-3)
