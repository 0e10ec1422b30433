"""Large-sample standard errors against simulated eigendecompositions."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t as student, wishart

from oracles import MONTE_CARLO, dense_covariance, random_model
from probpca import DataError
from probpca.learning import Estimate
from probpca.learning.uncertainty.asymptotic import asymptotic_uncertainty, axis_variances, bias_of_variances
from probpca.models import LinearGaussian

N, REPEATS = 2000, 3000


def spiked(signal, d, rng, noise=0.7):
    axes = np.linalg.qr(rng.standard_normal((d, len(signal))))[0]
    return LinearGaussian(rng.standard_normal(d), axes * np.sqrt(signal), noise)


def dense_fits(covariances, q):
    """Variances, noise variances, axes and loadings of many sample covariances."""
    values, vectors = np.linalg.eigh(covariances)
    noise = values[:, :-q].mean(axis=1)
    lam, axes = values[:, : -q - 1 : -1], vectors[:, :, : -q - 1 : -1]
    return lam, noise, axes, axes * np.sqrt(lam - noise[:, None])[:, None, :]


@pytest.fixture(scope="module")
def simulated():
    """A model, and what fits to many samples from it find, signs as the model has them."""
    rng = np.random.default_rng(5)
    model = spiked([9.0, 4.0, 2.0], 7, rng).principal()
    samples = wishart(N - 1, dense_covariance(model) / N).rvs(REPEATS, random_state=rng)
    lam, noise, axes, loadings = dense_fits(samples, 3)
    signs = np.sign(np.einsum("rdj,dj->rj", axes, model.principal_axes[0]))[:, None, :]
    return model, {
        "explained_variance": lam,
        "noise_variance": noise,
        "components": np.swapaxes(axes * signs, 1, 2),
        "loadings": loadings * signs,
    }


@pytest.mark.parametrize("name", ["explained_variance", "noise_variance", "components", "loadings"])
def test_standard_errors_are_the_spread_of_simulated_fits(simulated, name):
    model, found = simulated
    error = getattr(asymptotic_uncertainty(model, N), name).standard_error
    # The standard deviation of R values is known to 1 / sqrt(2 R); the formula leaves out terms of order 1 / n.
    assert_allclose(found[name].std(axis=0) / error, 1.0, atol=MONTE_CARLO / np.sqrt(2 * REPEATS) + 0.01)


def test_standard_error_of_the_mean_is_that_of_independent_rows(rng):
    model = random_model(rng)
    error = asymptotic_uncertainty(model, 50).mean.standard_error
    assert_allclose(error, np.sqrt(np.diag(dense_covariance(model)) / 50))


def test_axes_turn_towards_all_other_eigenvectors_of_the_covariance(rng):
    model = spiked([9.0, 4.0, 2.0], 7, rng)
    values, vectors = np.linalg.eigh(dense_covariance(model))
    values, vectors = values[::-1], vectors[:, ::-1]
    for j in range(3):
        others = np.arange(7) != j
        weight = values[j] * values[others] / (values[others] - values[j]) ** 2 / N
        dense = (vectors[:, others] * weight) @ vectors[:, others].T
        axes, singular = model.principal_axes
        found = axis_variances(axes, singular**2 + 0.7, 0.7, N)[:, j]
        assert_allclose(found, np.diag(dense), rtol=1e-8)


def test_variances_of_few_rows_are_biased_as_the_formula_says(rng):
    n, d, repeats = 60, 20, 4000
    model = spiked([6.0], d, rng, noise=1.0)
    samples = wishart(n - 1, dense_covariance(model) / n).rvs(repeats, random_state=rng)
    lam, noise, *_ = dense_fits(samples, 1)
    bias = bias_of_variances(np.array([7.0]), 1.0, n, d)
    for drawn, truth, expected in (lam[:, 0], 7.0, bias.explained_variance[0]), (noise, 1.0, bias.noise_variance):
        error = MONTE_CARLO * drawn.std() / np.sqrt(repeats)
        assert abs(drawn.mean() - truth - expected) < error + 0.1 * abs(expected)
        assert abs(drawn.mean() - truth) > error + 0.1 * abs(expected)  # so there is something to correct


@pytest.mark.parametrize("unit", [1e-140, 1e-100, 5.0, 1e100, 1e140])
def test_units_change_standard_errors_as_they_change_estimates(rng, unit):
    model = random_model(rng).principal()
    plain, scaled = asymptotic_uncertainty(model, 90), asymptotic_uncertainty(model.rescale(np.float64(unit)), 90)
    powers = {"explained_variance": 2, "noise_variance": 2, "loadings": 1, "mean": 1, "components": 0}
    for name, power in powers.items():
        left, right = getattr(scaled, name), getattr(plain, name)
        assert_allclose(left.value, right.value * unit**power)
        assert_allclose(left.standard_error, right.standard_error * unit**power)
        assert_allclose(left.interval(0.9), np.array(right.interval(0.9)) * unit**power)


def test_latent_axes_do_not_matter(rng):
    model = random_model(rng)
    turned = model.rotate(np.linalg.qr(rng.standard_normal((3, 3)))[0])
    left, right = asymptotic_uncertainty(model, 90), asymptotic_uncertainty(turned, 90)
    assert_allclose(left.loadings.value, right.loadings.value, atol=1e-12)
    assert_allclose(left.loadings.standard_error, right.loadings.standard_error)


def test_equal_variances_leave_axes_open_and_nothing_else(rng):
    axes = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    found = asymptotic_uncertainty(LinearGaussian(np.zeros(6), 2.0 * axes, 1.0), 100)
    assert_allclose(found.components.standard_error, 1.0)  # an entry of a unit vector
    assert_allclose(found.explained_variance.standard_error, 5 * np.sqrt(2 / 100))
    assert np.isfinite(found.loadings.standard_error).all()


def test_a_component_within_the_noise_has_finite_intervals():
    loadings = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    found = asymptotic_uncertainty(LinearGaussian(np.zeros(3), loadings, 1.0), 50)
    for name in ("explained_variance", "noise_variance", "loadings", "components", "mean"):
        assert np.isfinite(getattr(found, name).interval(0.95)).all(), name


def test_one_noise_variance_is_needed(rng):
    with pytest.raises(DataError, match=r"one noise variance.*\nHint: use method='bootstrap'"):
        asymptotic_uncertainty(random_model(rng, noise="diagonal"), 100)


def test_ends_of_variances_are_as_many_times_too_small_as_too_large(rng):
    found = asymptotic_uncertainty(random_model(rng), 100)
    for estimate in (found.explained_variance, found.noise_variance):
        low, high = estimate.interval(0.95)
        assert_allclose(low * high, (estimate.value - estimate.bias) ** 2)


def test_few_rows_are_noted(rng):
    model = random_model(rng)
    assert "13 rows for 7 features" in asymptotic_uncertainty(model, 13).note
    assert not asymptotic_uncertainty(model, 14).note


def test_intervals_are_those_of_student():
    value, error = np.array([1.0, -3.0]), np.array([0.5, 2.0])
    plain = Estimate(value, error, df=11, bias=0.25)
    assert_allclose(plain.interval(0.8), student.interval(0.8, 11, value - 0.25, error))
    variance = Estimate(np.array(4.0), np.array(0.6), df=11, bias=1.0, positive=True)
    assert_allclose(np.log(variance.interval(0.8)), student.interval(0.8, 11, np.log(3.0), 0.6 / 3.0))


@pytest.mark.parametrize("bias", [-2.0, 0.0, 0.3, 0.9, 1.0, 1.5, 40.0])
def test_ends_of_a_variance_are_positive_whatever_its_bias(bias):
    low, high = Estimate(np.array([1.0, 1e-3]), np.array([0.4, 2e-4]), df=20, bias=bias, positive=True).interval(0.95)
    assert (low > 0).all()
    assert (low < high).all()
    assert (high < np.inf).all()


def test_a_larger_bias_makes_a_variance_smaller():
    sure = [Estimate(np.array(1.0), np.array(1e-9), df=20, bias=b, positive=True) for b in np.linspace(-1, 3, 41)]
    assert (np.diff([one.interval(0.5)[0] for one in sure]) < 0).all()


def test_noise_of_many_features_and_few_rows_has_positive_ends(rng):
    model = random_model(rng, d=60, q=2)
    found = asymptotic_uncertainty(model, 5)
    assert (np.array(found.explained_variance.interval(0.95)) > 0).all()


def test_a_variance_of_which_nothing_is_known_has_an_interval_all_the_same():
    low, high = Estimate(np.array(1.0), np.array(1e6), df=5, positive=True).interval(0.95)
    assert 0 < low < high < np.inf


@pytest.mark.parametrize("level", [0, 1, 95])
def test_levels_are_probabilities(level):
    with pytest.raises(DataError, match=f"level must lie between 0 and 1; got {level}"):
        Estimate(np.array(1.0), np.array(1.0), df=5).interval(level)


def test_the_table_marks_what_is_not_zero_and_shows_what_is_largest():
    model = LinearGaussian(np.zeros(4), np.array([[0.01], [3.0], [-2.0], [0.5]]), 1.0)
    sure = asymptotic_uncertainty(model, 400)
    loadings = sure.table(["a", "b", "c", "d"], most=3).sections[1]
    assert loadings.heading.startswith("Loadings of PC1")
    assert list(loadings.columns[0].cells) == ["b", "c", "d"]
    assert list(loadings.columns[-1].cells) == ["*"] * 3
    assert loadings.remarks == ("... and 1 smaller loading",)
    complete = sure.table(["a", "b", "c", "d"], most=4).sections[1]
    assert (complete.columns[0].cells[3], complete.columns[-1].cells[3], complete.remarks) == ("a", "", ())
    assert "Note:" not in str(sure)
    assert "Note: careful" in str(replace(sure, note="careful"))
    assert str(sure).splitlines()[0] == "Uncertainty of the fit: 95% intervals by large-sample formulas"
