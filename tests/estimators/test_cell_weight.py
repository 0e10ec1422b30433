import numpy as np
import pytest
from scipy.stats import multivariate_normal

from probpca import PPCA, BayesianPCA
from probpca.errors import DataError

FACTORS = (1e-200, 1e-12, 1e-6, 1e-3, 1e6, 1e12, 1e200)


@pytest.fixture(params=["complete", "missing"])
def rows(request):
    rng = np.random.default_rng(0)
    x = 2 * rng.standard_normal((80, 2)) @ rng.standard_normal((2, 5)) + 0.5 * rng.standard_normal((80, 5))
    if request.param == "missing":
        x[rng.random(x.shape) < 0.1] = np.nan
    return x


@pytest.fixture
def weight(rows):
    return np.random.default_rng(1).uniform(0.2, 5, rows.shape)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("solver", ["auto", "px_em", "gradient", "incremental"])
def test_a_common_factor_of_the_weights_changes_only_the_unit_of_the_noise(rows, weight, solver, standardize, factor):
    wanted, found = (
        PPCA(2, solver=solver, standardize=standardize, random_state=0).fit(rows, cell_weight=c * weight)
        for c in (1.0, factor)
    )
    assert found.status_ == wanted.status_
    np.testing.assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-8)
    np.testing.assert_allclose(found.loadings_, wanted.loadings_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.noise_variance_ / factor, wanted.noise_variance_, rtol=1e-5)
    np.testing.assert_allclose(found.information_ / factor, wanted.information_, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("factor", FACTORS)
def test_a_common_factor_of_the_weights_does_not_change_the_belief(rows, weight, factor):
    wanted, found = (BayesianPCA(3, random_state=0).fit(rows, cell_weight=c * weight) for c in (1.0, factor))
    np.testing.assert_allclose(found.lower_bound_, wanted.lower_bound_, rtol=1e-8)
    np.testing.assert_allclose(found.loadings_, wanted.loadings_, rtol=1e-4, atol=1e-5)


def uncertainty(rows, weight, factor, **options):
    ppca = PPCA(2, random_state=0, **options).fit(rows, cell_weight=factor * weight)
    return ppca.uncertainty(rows, cell_weight=factor * weight, n_draws=10)


@pytest.mark.parametrize("factor", [1e-100, 1e-12, 1e12, 1e100])
@pytest.mark.parametrize("standardize", [False, True])
def test_a_common_factor_of_the_weights_does_not_change_the_standard_errors(rows, weight, standardize, factor):
    wanted, found = (uncertainty(rows, weight, c, standardize=standardize) for c in (1.0, factor))
    for name in ("loadings", "components", "mean"):
        errors = (getattr(sure, name).standard_error for sure in (found, wanted))
        np.testing.assert_allclose(*errors, rtol=1e-4, err_msg=name)
    for part in ("standard_error", "bias"):
        noise = (getattr(sure.noise_variance, part) for sure in (found, wanted))
        np.testing.assert_allclose(next(noise) / factor, next(noise), rtol=1e-4, err_msg=part)


def test_the_bias_of_the_variances_follows_the_unit_of_the_noise(rows, weight):
    """The variance along a component is that of the loadings plus that of the noise, in the unit of the weights."""
    none, one, two = (uncertainty(rows, weight, c).explained_variance.bias for c in (1e-12, 1.0, 2.0))
    np.testing.assert_allclose(two - one, one - none, rtol=1e-5)


@pytest.mark.parametrize("rule", ["bic", "cv"])
def test_a_common_factor_of_the_weights_does_not_change_the_number_of_components(rows, weight, rule):
    wanted, found = (PPCA(rule, random_state=0).fit(rows, cell_weight=c * weight) for c in (1.0, 1e-9))
    assert found.n_components_ == wanted.n_components_
    np.testing.assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-8)


def test_the_reported_log_likelihood_is_that_of_the_dense_gaussian_with_the_noise_of_every_cell(rows, weight):
    ppca = PPCA(2, random_state=0).fit(rows, cell_weight=1e-7 * weight)
    W, mu, s2 = ppca.loadings_, ppca.mean_, ppca.noise_variance_
    total = 0.0
    for x, omega in zip(rows, 1e-7 * weight, strict=True):
        seen = ~np.isnan(x)
        if seen.any():
            covariance = W[seen] @ W[seen].T + np.diag(s2 / omega[seen])
            total += multivariate_normal(mu[seen], covariance).logpdf(x[seen])
    np.testing.assert_allclose(ppca.log_likelihood_, total, rtol=1e-8)


@pytest.mark.parametrize("estimator", [PPCA(2), BayesianPCA(2)])
def test_weights_of_absurd_ratios_are_refused(rows, estimator):
    weight = 10.0 ** np.random.default_rng(0).uniform(-100, 100, rows.shape)
    with pytest.raises(DataError, match="at most 1e\\+100 times the smallest positive one"):
        estimator.fit(rows, cell_weight=weight)


@pytest.mark.parametrize("make", [PPCA, BayesianPCA])
@pytest.mark.parametrize(("unit", "factor"), [(1.0, 5e-324), (1e-140, 1e-100), (1e140, 1e100)])
def test_a_noise_variance_that_no_number_holds_is_refused_by_name(rows, make, unit, factor):
    with pytest.raises(DataError, match=r"noise variance of a cell of weight 1(?s:.*)Hint: divide cell_weight by"):
        make(2, random_state=0).fit(unit * rows, cell_weight=np.full(rows.shape, factor))


@pytest.mark.parametrize("make", [PPCA, BayesianPCA])
def test_weights_whose_sums_overflow_are_refused_by_name(rows, make):
    with pytest.raises(DataError, match=r"below 1e\+280(?s:.*)Hint: divide cell_weight by its mean"):
        make(2, random_state=0).fit(rows, cell_weight=np.full(rows.shape, 1e307))
