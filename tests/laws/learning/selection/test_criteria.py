"""How many components: every curve equals its brute-force twin, and finds what was planted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition._pca import _assess_dimension

from oracles import closed_form_oracle, spiked_rows
from probpca import DataError, ShapeError
from probpca.learning import Settings, fit_ppca
from probpca.learning.complete.closed_form import choose_components
from probpca.learning.complete.spectrum import Spectrum
from probpca.learning.components import Components
from probpca.learning.describe import describe
from probpca.learning.selection.criteria import Curve, evidence, n_parameters
from probpca.sources import open_source

SETTINGS = Settings("auto", 1e-9)


def choose(x, rule, settings=SETTINGS, weight=None):
    source, rng = open_source(x, weight=weight), np.random.default_rng(0)
    return choose_components(describe(source, rng), Components.parse(rule, source.n_features), settings, rng)


@pytest.mark.parametrize(("d", "q"), [(5, 1), (5, 4), (9, 3)])
def test_parameters_are_counted_by_the_dimension_of_the_model(d, q):
    """Loadings up to a rotation, one noise variance, a mean: the rank of the map from (W, s2) to C, plus d."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((d, q))
    derivatives = [np.eye(d).ravel()]
    for i, j in np.ndindex(d, q):
        J = np.zeros((d, q))
        J[i, j] = 1.0
        derivatives.append((J @ W.T + W @ J.T).ravel())
    # With q = d - 1 every covariance can be had: the count is that of symmetric matrices.
    assert n_parameters(d, q) == np.linalg.matrix_rank(derivatives) + d


@pytest.mark.parametrize(("n", "d"), [(100, 8), (12, 30)])
def test_bic_equals_one_fit_after_the_other(rng, n, d):
    x = spiked_rows(rng, n, d, 3)
    chosen = choose(x, "bic")
    most = min(d - 1, n - 2) if n > d else chosen.curve.best + 2  # with few rows it ends after two falls
    assert chosen.curve.n_components.tolist() == list(range(1, most + 1))
    for q, score in zip(*chosen.curve, strict=True):
        free = d * q - q * (q - 1) / 2 + 1 + d
        assert_allclose(score, closed_form_oracle(x, q).log_likelihood - 0.5 * free * np.log(n), rtol=1e-8)
    assert chosen.n_components == chosen.curve.best
    assert chosen.rule == "BIC"


def test_no_rule_is_parallel_analysis(rng):
    x = spiked_rows(rng, 100, 8, 3)
    default, named = choose(x, None), choose(x, "parallel")
    assert (default.n_components, default.rule) == (named.n_components, "parallel analysis")


def test_the_evidence_equals_that_of_scikit_learn(rng):
    n, d = 90, 8
    x = spiked_rows(rng, n, d, 3)
    chosen = choose(x, "evidence")
    values = closed_form_oracle(x, 1).values
    wanted = [_assess_dimension(values, k, n) for k in range(1, d)]
    assert_allclose(chosen.curve.score, wanted, rtol=1e-9)
    assert chosen.curve.n_components.tolist() == list(range(1, d))


def test_with_fewer_rows_than_features_the_evidence_is_that_of_the_space_they_span(rng):
    n, d = 20, 50
    x = spiked_rows(rng, n, d, 2)
    values = closed_form_oracle(x, 1).values[: n - 1]
    chosen = choose(x, "evidence")
    wanted = [_assess_dimension(values, k, n) for k in chosen.curve.n_components]
    assert_allclose(chosen.curve.score, wanted, rtol=1e-8)
    assert chosen.curve.n_components.tolist() == [1, 2, 3, 4]
    assert chosen.n_components == 2


@pytest.mark.parametrize(("n", "d"), [(20, 100), (30, 60), (40, 100)])
@pytest.mark.parametrize("signal", [0, 3])
def test_bic_does_not_use_up_few_rows(rng, n, d, signal):
    x = rng.standard_normal((n, 3)) @ (signal * rng.standard_normal((3, d))) + rng.standard_normal((n, d))
    assert choose(x, "bic").n_components == max(signal, 1)


@pytest.mark.parametrize("rule", ["bic", "evidence"])
@pytest.mark.parametrize("q", [1, 2, 4])
def test_strong_directions_are_counted_exactly(rng, rule, q):
    assert choose(spiked_rows(rng, 500, 12, q, noise=0.05), rule).n_components == q


@pytest.mark.parametrize("seed", range(5))
def test_pure_noise_has_as_few_components_as_may_be(seed):
    assert choose(np.random.default_rng(seed).standard_normal((200, 10)), "bic").n_components == 1


@pytest.mark.parametrize("rule", ["bic", "evidence", 0.8])
@pytest.mark.parametrize("unit", [1e-50, 1e-3, 1e50])
def test_units_do_not_matter(rng, rule, unit):
    x = spiked_rows(rng, 60, 9, 3, noise=1.0)
    plain, scaled = choose(x, rule), choose(x * unit, rule)
    assert plain.n_components == scaled.n_components


def test_weights_count_as_rows(rng):
    x, times = spiked_rows(rng, 60, 9, 3), rng.integers(1, 4, 60)
    for rule in ("bic", "evidence"):
        weighted, repeated = choose(x, rule, weight=times), choose(np.repeat(x, times, axis=0), rule)
        assert_allclose(weighted.curve.score, repeated.curve.score, rtol=1e-8)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99, 0.999999])
@pytest.mark.parametrize(("n", "d"), [(60, 9), (12, 30), (200, 120)])
def test_a_share_of_variance_takes_the_fewest_components_that_hold_it(rng, share, n, d):
    x = spiked_rows(rng, n, d, 3, noise=0.5)
    values = closed_form_oracle(x, 1).values
    held = np.cumsum(values) / values.sum()
    wanted = min(int(np.argmax(held >= share)) + 1, d - 1)
    chosen = choose(x, share)
    assert chosen.n_components == wanted
    reached = held[wanted - 1]
    said = (
        f"at least {share:.4g} of the variance"
        if reached >= share
        else f"{reached:.4g} of the variance instead of {share:.4g}"
    )
    assert chosen.rule.startswith(said)


@pytest.mark.parametrize("rule", ["bic", "evidence", 0.8, 3])
@pytest.mark.parametrize("form", [lambda x: np.array_split(x, 4), lambda x: iter(np.array_split(x, 4))])
def test_batches_choose_as_one_table(rng, rule, form):
    x = spiked_rows(rng, 60, 9, 3, noise=1.0)
    assert choose(form(x), rule).n_components == choose(x, rule).n_components


@pytest.mark.parametrize("solver", ["px_em", "gradient", "svd", "krylov"])
def test_every_solver_can_be_told_the_rule(rng, solver):
    x = spiked_rows(rng, 100, 9, 3)
    found = fit_ppca(open_source(x), "bic", Settings(solver), np.random.default_rng(0))
    assert found.model.n_components == choose(x, "bic").n_components
    assert found.rule == "BIC"


@pytest.mark.parametrize("number", [np.int64(3), np.int32(3), np.uint8(3)])
@pytest.mark.parametrize("solver", ["auto", "em"])
def test_numbers_of_numpy_are_numbers(rng, number, solver):
    found = fit_ppca(open_source(spiked_rows(rng, 40, 7, 3)), number, Settings(solver), rng)
    assert found.model.n_components == 3
    assert choose(spiked_rows(rng, 40, 7, 3), np.float32(0.5)).n_components >= 1


@pytest.mark.parametrize("wrong", ["best", True, 1.5, 0.0, 1.0, -0.5, [2], 2.0])
@pytest.mark.parametrize("solver", ["auto", "em"])
def test_what_is_no_number_of_components_is_refused(rng, wrong, solver):
    with pytest.raises(ShapeError, match="n_components must be an int from 1 to n_features - 1"):
        fit_ppca(open_source(rng.standard_normal((20, 5))), wrong, Settings(solver), rng)


def test_one_direction_is_too_few_for_the_evidence():
    one = Spectrum(20.0, 20, np.zeros(4), np.array([2.0, 0.0, 0.0]), np.eye(4)[:, :3], 0.0, 1e-14)
    with pytest.raises(DataError, match="at least two directions"):
        evidence(one)


def test_the_best_of_a_curve_is_its_largest_score():
    assert Curve(np.array([1, 2, 3]), np.array([-5.0, -1.0, -2.0])).best == 2
