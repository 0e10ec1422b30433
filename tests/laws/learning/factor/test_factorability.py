"""The Kaiser-Meyer-Olkin measure and Bartlett's test, by regressions and determinants."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

from factor_oracles import factor_rows
from oracles import punched
from probpca.blocks import Block
from probpca.errors import DataError
from probpca.learning.factor.factorability import factorability, grade
from probpca.learning.factor.unrestricted_gaussian import unrestricted_gaussian
from probpca.statistics import Moments


def measures(R, partial):
    """The textbook's ratio, for all features and for each."""
    d = len(R)
    off = ~np.eye(d, dtype=bool)
    r, a = (R * off) ** 2, (partial * off) ** 2
    return r.sum() / (r + a).sum(), r.sum(axis=1) / (r + a).sum(axis=1)


def partial_correlations(x):
    """Correlation of what two features have left after their regression on all others, pair by pair."""
    n, d = x.shape
    out = np.eye(d)
    for j, k in combinations(range(d), 2):
        others = np.column_stack([np.ones(n), np.delete(x, [j, k], axis=1)])
        left = x[:, [j, k]] - others @ np.linalg.lstsq(others, x[:, [j, k]])[0]
        out[j, k] = out[k, j] = np.corrcoef(left.T)[0, 1]
    return out


def test_the_measure_uses_partial_correlations(rng):
    x = factor_rows(rng)
    found = factorability(x)
    overall, each = measures(np.corrcoef(x.T), partial_correlations(x))
    assert_allclose(found.kmo, overall, rtol=1e-9)
    assert_allclose(found.feature_kmo, each, rtol=1e-9)


def test_bartlett_compares_the_determinant_with_one(rng):
    x = factor_rows(rng, n=120, d=6)
    found = factorability(x)
    statistic = -(120 - 1 - 17 / 6) * np.linalg.slogdet(np.corrcoef(x.T))[1]
    assert_allclose(found.chi_square, statistic, rtol=1e-9)
    assert found.df == 15
    assert_allclose(found.p_value, chi2.sf(statistic, 15), rtol=1e-8)


def test_bartlett_holds_its_level_if_features_are_independent(rng):
    p = [factorability(rng.standard_normal((40, 8))).p_value for _ in range(400)]
    assert abs(np.mean(np.array(p) < 0.1) - 0.1) < 4 * np.sqrt(0.09 / 400)


def test_missing_cells_are_integrated_out(rng):
    x = punched(rng, factor_rows(rng), 0.2)
    found, free = factorability(x), unrestricted_gaussian(x)
    P = np.linalg.inv(free.correlations)
    overall, each = measures(free.correlations, -P / np.sqrt(np.outer(np.diag(P), np.diag(P))))
    assert_allclose(found.kmo, overall, rtol=1e-9)
    assert_allclose(found.feature_kmo, each, rtol=1e-9)
    assert_allclose(found.chi_square, 2 * (free.log_likelihood - free.baseline_log_likelihood))
    assert "approximate" in found.note


def test_units_moments_and_order_do_not_matter(rng):
    x = factor_rows(rng)
    found = factorability(x)
    assert_allclose(factorability(Moments.of(Block(x * 1e5 - 3))).kmo, found.kmo, rtol=1e-8)
    assert_allclose(factorability(x[:, ::-1]).feature_kmo, found.feature_kmo[::-1], rtol=1e-9)


def test_two_features_are_all_that_they_share(rng):
    found = factorability(factor_rows(rng, d=2))  # partial correlations are the correlations
    assert_allclose([found.kmo, *found.feature_kmo], 0.5)


def test_features_without_any_correlation_have_no_measure():
    x = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=float)
    assert np.isnan(factorability(x).kmo)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_full_rank_is_needed(rng, share):
    with pytest.raises(DataError, match="rank"):
        factorability(punched(rng, factor_rows(rng, n=7, d=10), share))
    with pytest.raises(DataError, match="at least two features that vary; got 1"):
        factorability(np.column_stack([np.arange(9.0), np.ones(9)]))


def test_it_prints_the_least_suitable_features_first(rng):
    pandas = pytest.importorskip("pandas")
    x = np.column_stack([factor_rows(rng, d=5), rng.standard_normal(200)])
    found = factorability(pandas.DataFrame(x, columns=[*"abcde", "noise"]))
    lines = str(found).splitlines()
    assert lines[0] == "Factorability: 200 rows x 6 features"
    assert lines[lines.index("Features with the smallest measures") + 2].startswith("noise")
    assert found.to_frame()["feature"].tolist() == [*"abcde", "noise"]


def test_grades_are_those_of_kaiser():
    values = (0.95, 0.85, 0.75, 0.65, 0.55, 0.45)
    words = ("marvelous", "meritorious", "middling", "mediocre", "miserable", "unacceptable")
    assert tuple(map(grade, values)) == words
