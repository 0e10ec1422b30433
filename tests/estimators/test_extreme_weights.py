"""Weights of any size give finite answers, and no warning of NumPy's reaches the user."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from probpca import PPCA, BayesianPCA, PPCAImputer
from probpca.errors import DataError

QUESTIONS = {
    "transform": lambda e, x: e.transform(x),
    "posterior": lambda e, x: e.posterior(x).covariance,
    "reconstruct": lambda e, x: e.reconstruct(x),
    "score": lambda e, x: e.score(x),
    "impute": lambda e, x: np.stack(e.impute(x, return_std=True)),
    "impute_interval": lambda e, x: np.stack(e.impute_interval(x)),
    "outliers": lambda e, x: e.outliers(x).p_value,
    "explore": lambda e, x: e.explore(x, 2, random_state=0),
    "get_precision": lambda e, _: e.get_precision(),
    "sample": lambda e, _: e.sample(3, random_state=0),
}
ESTIMATORS = {
    "PPCA": lambda q: PPCA(q, random_state=0, max_iter=40),
    "standardize": lambda q: PPCA(q, standardize=True, random_state=0, max_iter=40),
    "gradient": lambda q: PPCA(q, solver="gradient", random_state=0, max_iter=40),
    "BayesianPCA": lambda q: BayesianPCA(q, random_state=0, max_iter=40),
}


def rows(rng, share):
    n, d, q = 55, 11, int(rng.integers(6, 10))
    x = 300 * (rng.standard_normal((n, 7)) @ rng.standard_normal((7, d)) + 0.01 * rng.standard_normal((n, d)))
    x[:, 3] = 7.3
    x[rng.random(x.shape) < share] = np.nan
    return x, q


def fitted(estimator, x, **weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(x, **weights)


def assert_answers(estimator, x, **weights):
    fitted(estimator, x, **weights)
    for name, question in QUESTIONS.items():
        assert np.isfinite(question(estimator, x)).all(), name


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_precisions_of_cells_may_differ_by_many_orders_of_magnitude(make, share, seed):
    rng = np.random.default_rng(seed)
    x, q = rows(rng, share)
    assert_answers(make(q), x, cell_weight=10.0 ** rng.uniform(-2, 12, x.shape))


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("size", [1e12, 1e150, 1e298])
def test_frequencies_of_rows_may_be_huge(make, share, size):
    rng = np.random.default_rng(3)
    x, q = rows(rng, share)
    weight = size * rng.uniform(0.5, 2, len(x))
    assert_answers(make(q), x, sample_weight=weight)
    cell_weight = np.full(x.shape, 1e10)
    if size < 1e280:
        assert_answers(make(q), x, sample_weight=weight, cell_weight=cell_weight)
    else:
        with pytest.raises(DataError, match=r"below 1e\+280(?s:.*)Hint: divide cell_weight by its mean"):
            make(q).fit(x, sample_weight=weight, cell_weight=cell_weight)
    imputer = fitted(PPCAImputer(q, random_state=0, max_iter=40), x, sample_weight=weight)
    assert np.isfinite(imputer.transform(x)).all()


def test_rows_whose_posterior_is_almost_certain_in_some_directions_can_be_explored():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 4)) @ rng.standard_normal((4, 6))
    x[rng.random(x.shape) < 0.5] = np.nan
    with pytest.warns(ConvergenceWarning):
        ppca = PPCA(5, random_state=0).fit(x)
    drawn = ppca.explore(x, 400, random_state=0)
    seen = ~np.isnan(x)
    np.testing.assert_allclose(drawn.mean(axis=0)[seen], x[seen], atol=1e-4)


@pytest.mark.parametrize("size", [1e303, 1e306, 1e308])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_frequencies_of_rows_whose_sums_would_overflow_are_refused(share, size):
    x, q = rows(np.random.default_rng(3), share)
    for make in ESTIMATORS.values():
        with pytest.raises(DataError, match=r"sample_weight must sum to at most 1e\+303"):
            make(q).fit(x, sample_weight=np.full(len(x), size))


@pytest.mark.parametrize("holes", [False, True])
def test_streams_take_frequencies_of_rows_that_are_huge(holes):
    x = rows(np.random.default_rng(3), 0.2 * holes)[0]
    weight = np.random.default_rng(4).uniform(1, 2, len(x))
    plain, huge = PPCA(2, tol=1e-8, random_state=0), PPCA(2, random_state=0)  # tol is in nats of all rows
    for batch in np.array_split(np.arange(len(x)), 3):
        plain.partial_fit(x[batch], sample_weight=weight[batch])
        huge.partial_fit(x[batch], sample_weight=1e250 * weight[batch])
    covariance = plain.get_covariance()
    np.testing.assert_allclose(huge.get_covariance(), covariance, atol=1e-5 * np.abs(covariance).max())


def test_a_stream_whose_sums_overflow_says_so_and_nothing_else():
    x = rows(np.random.default_rng(3), 0.0)[0]
    ppca = PPCA(2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in np.array_split(1e160 * x, 3):
            ppca.partial_fit(batch)
        with pytest.raises(NotFittedError, match="change the units of the data"):
            ppca.transform(x)


@pytest.mark.parametrize("make", [PPCA, BayesianPCA])
@pytest.mark.parametrize("seed", [3, 14, 23, 25, 32])
def test_components_that_rounding_makes_dependent_are_refused_by_name(make, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((30, 6))
    x[rng.random(x.shape) < 0.4] = np.nan
    weight = 10.0 ** rng.uniform(-45, 45, x.shape)
    try:
        assert_answers(make(3, random_state=0, max_iter=40), x, cell_weight=weight)
    except DataError as error:
        assert "Hint: use fewer components, or weights that differ less" in str(error)  # noqa: PT017


@pytest.mark.parametrize("solver", ["auto", "em", "gradient"])
@pytest.mark.parametrize("seed", [3, 20])
def test_frequencies_of_rows_may_differ_by_forty_orders_of_magnitude(solver, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((300, 5))
    x[rng.random(x.shape) < 0.6] = np.nan
    x[0] = np.nan  # a sample of one row would have nothing
    weight = np.where(rng.random(300) < 0.5, 1e-20, 1e20)
    heavy = weight > 1
    every, some = (PPCA(1, solver=solver, random_state=0, max_iter=40) for _ in range(2))
    assert_answers(every, x, sample_weight=weight)
    fitted(some, x[heavy], sample_weight=weight[heavy])
    np.testing.assert_allclose(every.get_covariance(), some.get_covariance(), atol=0.02)
