"""Rubin's rules: by hand, from print, and as often right as they say."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, t

from oracles import assert_within_errors
from probpca import DataError, ShapeError
from probpca.inference import pool

# SAS/STAT User's Guide, The MIANALYZE Procedure, first example: means of oxygen intake, time and pulse of 31 runners
# in five imputed tables, and their standard errors.
MEANS = [
    [47.0120, 10.4441, 171.216],
    [47.2407, 10.5040, 171.244],
    [47.4995, 10.5922, 171.909],
    [47.1485, 10.5279, 171.146],
    [47.0042, 10.4913, 172.072],
]
ERRORS = [
    [0.95984, 0.28520, 1.59910],
    [0.93540, 0.26661, 1.75638],
    [1.00766, 0.26302, 1.85795],
    [0.95439, 0.26405, 1.75011],
    [0.96528, 0.27275, 1.84807],
]


@pytest.fixture
def tables(rng):
    """Estimates of 3 x 2 numbers from 7 tables, and their variances."""
    return rng.standard_normal((7, 3, 2)), rng.uniform(0.1, 2.0, (7, 3, 2))


def by_hand(estimates, variances, df_complete=None):
    """Estimate, variance, degrees of freedom and fraction missing of one number, in exact fractions."""
    m = len(estimates)
    q, u = [Fraction(value) for value in estimates], [Fraction(value) for value in variances]
    mean, within = sum(q) / m, sum(u) / m
    between = sum((value - mean) ** 2 for value in q) / (m - 1)
    increase = (1 + Fraction(1, m)) * between / within  # r
    degrees = (m - 1) * (1 + 1 / increase) ** 2
    if df_complete is not None:
        # Barnard & Rubin's harmonic mean with what the observed part of a complete table would have.
        observed = Fraction(df_complete + 1, df_complete + 3) * df_complete / (1 + increase)
        degrees = degrees * observed / (degrees + observed)
    missing = (increase + 2 / (degrees + 3)) / (increase + 1)
    return mean, within + (1 + Fraction(1, m)) * between, degrees, missing


def test_two_tables_by_hand():
    pooled = pool([1.0, 3.0], [1.0, 1.0])
    assert_allclose(pooled, [2, 4, 16 / 9, 147 / 172], rtol=1e-14)
    assert pooled.std_error == 2
    assert_allclose(pool([1.0, 3.0], [1.0, 1.0], df_complete=9).degrees, 240 / 263, rtol=1e-14)


@pytest.mark.parametrize("df_complete", [None, 1, 12, 1000])
@pytest.mark.parametrize("m", [2, 3, 10])
def test_exact_fractions_agree(rng, m, df_complete):
    estimates, variances = rng.integers(-20, 20, m).tolist(), rng.integers(1, 50, m).tolist()
    assert_allclose(
        pool(estimates, variances, df_complete), [float(v) for v in by_hand(estimates, variances, df_complete)]
    )


def test_a_published_example():
    pooled = pool(MEANS, np.square(ERRORS), df_complete=30)
    assert_allclose(pooled.estimate, [47.180993, 10.511906, 171.517500], rtol=1e-6)
    assert_allclose(pooled.std_error, [0.990266, 0.276910, 1.828591], rtol=1e-5)
    assert_allclose(pooled.degrees, [26.298, 26.503, 25.463], atol=1e-3)
    low, high = pooled.interval()
    assert_allclose(low, [45.1466, 9.9432, 167.7549], atol=2e-4)
    assert_allclose(high, [49.2154, 11.0806, 175.2801], atol=2e-4)
    # The guide takes the fraction of missing information from the degrees of freedom before their correction.
    assert_allclose(pool(MEANS, np.square(ERRORS)).fraction_missing, [0.051977, 0.047147, 0.070759], rtol=5e-4)


@pytest.mark.parametrize("df_complete", [None, 25])
def test_many_estimates_are_pooled_one_by_one(tables, df_complete):
    together = pool(*tables, df_complete)
    for index in np.ndindex(3, 2):
        alone = pool(*(table[:, *index] for table in tables), df_complete)
        assert_allclose([part[index] for part in together], alone, rtol=1e-14)
        assert_allclose([end[index] for end in together.interval()], alone.interval(), rtol=1e-14)


def test_neither_order_nor_units_nor_origin_matter(tables):
    estimates, variances = tables
    plain, shuffled = pool(*tables, 25), pool(estimates[::-1], variances[::-1], 25)
    assert_allclose(np.stack(shuffled), np.stack(plain), rtol=1e-12)
    moved = pool(10 * estimates + 5, 100 * variances, 25)
    assert_allclose(moved.estimate, 10 * plain.estimate + 5, rtol=1e-12)
    assert_allclose(moved.std_error, 10 * plain.std_error, rtol=1e-12)
    assert_allclose(moved.degrees, plain.degrees, rtol=1e-9)
    assert_allclose(moved.fraction_missing, plain.fraction_missing, rtol=1e-9)


def test_tables_that_agree_leave_the_complete_data_answer(tables):
    variances = tables[1]
    same = pool(np.ones((7, 3, 2)), variances)
    assert_array_equal(same.degrees, np.inf)
    assert_array_equal(same.fraction_missing, 0)
    assert_allclose(same.variance, variances.mean(axis=0))
    low, high = same.interval(0.9)
    assert_allclose(high - low, 2 * norm.ppf(0.95) * same.std_error, rtol=1e-6)
    # Barnard & Rubin count a complete table slightly lower than it counts itself.
    assert_allclose(pool(np.ones((7, 3, 2)), variances, 12).degrees, 13 / 15 * 12)


def test_estimates_without_variances_have_only_what_lies_between(tables):
    estimates = tables[0]
    pooled = pool(estimates, np.zeros_like(estimates))
    assert_allclose(pooled.variance, 8 / 7 * estimates.var(axis=0, ddof=1))
    assert_allclose(pooled.degrees, 6)
    assert_array_equal(pooled.fraction_missing, 1)
    nothing = pool(np.ones(3), np.zeros(3))
    assert nothing.std_error == 0
    assert nothing.interval() == (1, 1)


def test_the_correction_takes_degrees_away_and_fades_with_the_sample(tables):
    plain = pool(*tables).degrees
    corrected = np.array([pool(*tables, df).degrees for df in (5, 50, 500, 1e12)])
    assert (np.diff(corrected, axis=0) > 0).all()
    assert (corrected[:3] < np.minimum(plain, np.reshape([5, 50, 500], (3, 1, 1)))).all()
    assert_allclose(corrected[-1], plain, rtol=1e-8)


def test_more_tables_add_no_doubt(tables):
    once, thrice = pool(*tables), pool(*(np.tile(table, (3, 1, 1)) for table in tables))
    assert (thrice.variance < once.variance).all()
    assert (thrice.degrees > once.degrees).all()


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_interval_ends_are_quantiles_of_student(tables, level):
    pooled = pool(*tables, 25)
    low, high = pooled.interval(level)
    assert_allclose(t.cdf((high - pooled.estimate) / pooled.std_error, pooled.degrees), (1 + level) / 2, rtol=1e-9)
    assert_allclose(pooled.estimate - low, high - pooled.estimate, rtol=1e-9)


@pytest.mark.parametrize(
    ("estimates", "variances", "df_complete", "error", "message"),
    [
        ([1.0], [1.0], None, ShapeError, r"at least 2 estimates(.|\n)*\(1,\) and \(1,\)"),
        (1.0, 1.0, None, ShapeError, "at least 2 estimates"),
        ([], [], None, ShapeError, "at least 2 estimates"),
        ([1.0, 2.0], [1.0, 1.0, 1.0], None, ShapeError, "a variance for each"),
        ([1.0, np.nan], [1.0, 1.0], None, DataError, "must be finite"),
        ([1.0, 2.0], [1.0, np.inf], None, DataError, "must be finite"),
        ([1.0, 2.0], [1.0, -1.0], None, DataError, "not negative"),
        ([1.0, 2.0], [1.0, 1.0], 0, DataError, "df_complete must be positive; got 0"),
        ([1.0, 2.0], [1.0, 1.0], np.nan, DataError, "df_complete must be positive"),
    ],
)
def test_what_cannot_be_pooled_is_refused(estimates, variances, df_complete, error, message):
    with pytest.raises(error, match=message):
        pool(estimates, variances, df_complete)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, -0.1, np.nan])
def test_a_level_that_is_no_probability_is_refused(level):
    with pytest.raises(DataError, match="level must lie between 0 and 1"):
        pool([1.0, 2.0], [1.0, 1.0]).interval(level)


def test_a_complete_table_may_have_endless_degrees(tables):
    assert_allclose(pool(*tables, np.inf).degrees, pool(*tables).degrees)


def test_without_variances_within_a_small_sample_still_has_an_interval():
    low, high = pool([1.0, 1.2], [0.0, 0.0], df_complete=10).interval()
    assert low < 1.1 < high


def imputed_means(rng, n_tables, n_rows, n_seen, m):
    """Means and their variances in m proper imputations of each of many normal samples, part of them seen."""
    seen = rng.standard_normal((n_tables, n_seen))
    square = seen.var(axis=1, ddof=1)
    variance = (n_seen - 1) * square / rng.chisquare(n_seen - 1, (m, n_tables))
    mean = seen.mean(axis=1) + np.sqrt(variance / n_seen) * rng.standard_normal((m, n_tables))
    drawn = rng.standard_normal((m, n_tables, n_rows - n_seen)) * np.sqrt(variance)[..., None] + mean[..., None]
    table = np.concatenate([np.broadcast_to(seen, (m, *seen.shape)), drawn], axis=-1)
    return table.mean(axis=-1), table.var(axis=-1, ddof=1) / n_rows


@pytest.mark.parametrize(("n_rows", "n_seen"), [(20, 10), (20, 16), (60, 30)])
def test_pooled_intervals_cover_a_normal_mean_as_often_as_they_say(rng, n_rows, n_seen):
    n_tables = 4000
    means, variances = imputed_means(rng, n_tables, n_rows, n_seen, 20)
    low, high = pool(means, variances, df_complete=n_rows - 1).interval(0.9)
    assert_within_errors(((low < 0) & (high > 0)).mean(), 0.9, np.sqrt(0.9 * 0.1 / n_tables))
    low, high = means[0] + norm.ppf([[0.05], [0.95]]) * np.sqrt(variances[0])  # one table, taken for the truth
    assert ((low < 0) & (high > 0)).mean() < 0.87
