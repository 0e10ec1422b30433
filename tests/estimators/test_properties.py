"""Whatever comes in: finite numbers out, or an error with a name."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.exceptions import ConvergenceWarning

from probpca import PPCA, ProbpcaError

ITERATIVE = ["em", "px_em", "em_zero_noise", "gradient"]
DIRECT = ["auto", "covariance", "gram", "krylov", "svd"]


@st.composite
def tables(draw):
    """Rows of any rank, scale, offset and precision that a table of numbers may have."""
    n, d = draw(st.integers(2, 30)), draw(st.integers(2, 20))
    rank = draw(st.integers(0, min(n, d)))
    single = draw(st.booleans())
    exponent = draw(st.integers(-15, 15) if single else st.integers(-100, 100))
    offset = draw(st.sampled_from([0.0, 1.0, 1e3, 1e8]))
    spread = draw(st.sampled_from([0.0, 3.0, 20.0]))  # of the scales of columns, as powers of ten
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + offset
    if draw(st.booleans()):
        x += draw(st.sampled_from([1e-12, 1e-6, 1.0])) * rng.standard_normal((n, d))
    x *= 10.0 ** (-spread * rng.random(d))
    if draw(st.booleans()):
        x[:, 0] = offset
    return (x * 10.0**exponent).astype(np.float32 if single else np.float64)


def assert_all_finite(ppca, x):
    numbers = [ppca.mean_, ppca.loadings_, ppca.components_, ppca.noise_variance_, ppca.explained_variance_]
    numbers += [ppca.explained_variance_ratio_, ppca.log_likelihood_, ppca.trace_, ppca.transform(x)]
    numbers += [ppca.score(x), ppca.score_samples(x), ppca.reconstruct(x), ppca.outliers(x).p_value]
    for number in numbers:
        assert np.isfinite(number).all()
    assert np.min(ppca.noise_variance_) > 0
    assert ppca.summary()


def fit_or_refuse(ppca, x):
    """Fit; None if that is refused with a message. Warnings other than about convergence are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return ppca.fit(x)
        except ProbpcaError:
            return None
        except ValueError as error:
            # scikit-learn refuses shapes and values by name before we see them; anything else is a slip.
            assert "PPCA" in str(error), error  # noqa: PT017
            return None


@given(
    x=tables(),
    solver=st.sampled_from(DIRECT),
    q=st.sampled_from([None, 1, 2, 5, 19, 0.5, 0.99, "bic", "evidence"]),
    standardize=st.booleans(),
)
@settings(max_examples=250)
def test_a_direct_fit_is_finite_or_refused(x, solver, q, standardize):
    ppca = fit_or_refuse(PPCA(q, solver=solver, standardize=standardize, random_state=0), x)
    if ppca is not None:
        assert_all_finite(ppca, x)


@given(x=tables(), solver=st.sampled_from(ITERATIVE), q=st.sampled_from([None, 1, 2, 5]), standardize=st.booleans())
@settings(max_examples=60)
def test_an_iterative_fit_is_finite_or_refused(x, solver, q, standardize):
    ppca = fit_or_refuse(PPCA(q, solver=solver, standardize=standardize, max_iter=25, random_state=0), x)
    if ppca is not None:
        assert_all_finite(ppca, x)


@given(x=tables(), q=st.integers(1, 5))
@settings(max_examples=60)
def test_what_is_reported_is_what_is_scored(x, q):
    ppca = fit_or_refuse(PPCA(q, random_state=0), x)
    if ppca is not None and ppca.converged_ and x.dtype == np.float64:
        gap = abs(ppca.score(x) * len(x) - ppca.log_likelihood_)
        # Rounding of cells of the size of the mean, squared, in units of the noise.
        rounding = x.size * 1e-30 * np.square(x).max() / ppca.noise_variance_
        assert gap <= 1e-6 * max(abs(ppca.log_likelihood_), 1.0) + 100 * rounding


@pytest.mark.parametrize("solver", ["covariance", "krylov", "svd"])
def test_threads_do_not_change_the_answer(rng, solver):
    x = rng.standard_normal((20_000, 5)) @ rng.standard_normal((5, 5))
    one, two = (PPCA(2, solver=solver, tol=1e-12, n_jobs=jobs, random_state=0).fit(x) for jobs in (1, 2))
    np.testing.assert_allclose(two.get_covariance(), one.get_covariance(), atol=1e-6 if solver == "krylov" else 1e-10)
    np.testing.assert_allclose(two.log_likelihood_, one.log_likelihood_, rtol=1e-10)
