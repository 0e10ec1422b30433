"""Other programs for factor analysis end where ours does, or below."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.decomposition import FactorAnalysis

from oracles import random_model
from probpca.inference import sample
from probpca.learning import Settings
from probpca.learning.components import Count
from probpca.learning.factor.complete import fit_moments
from probpca.sources import open_source
from probpca.statistics import Moments

TABLES = {"iris": (load_iris, 1), "wine": (load_wine, 3), "breast cancer": (load_breast_cancer, 5)}
TABLES |= {"diabetes": (load_diabetes, 3), "diabetes, one factor": (load_diabetes, 1)}


def fit(x, q, tol=1e-9):
    moments = open_source(x).fold(Moments.of)
    return fit_moments(moments, Count(q), Settings(tol=tol), np.random.default_rng(0))


@pytest.mark.parametrize("name", TABLES)
def test_the_likelihood_is_not_below_that_of_scikit_learn(name):
    load, q = TABLES[name]
    x = load().data
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops before it has converged
        peer = FactorAnalysis(q, tol=1e-8, max_iter=500, svd_method="lapack").fit(x)
    assert fit(x, q, tol=1e-3).log_likelihood > peer.score(x) * len(x) - 1e-3


def test_the_solution_is_that_of_scikit_learn(rng):
    x = sample(random_model(rng, 9, 2, noise="diagonal"), 300, rng=rng)
    peer = FactorAnalysis(2, tol=1e-12, max_iter=5000, svd_method="lapack").fit(x)
    ours = fit(x, 2)
    assert_allclose(ours.log_likelihood, peer.score(x) * len(x), rtol=1e-9)
    assert_allclose(ours.model.noise_variance, peer.noise_variance_, rtol=1e-4)
    assert_allclose(ours.model.loadings @ ours.model.loadings.T, peer.components_.T @ peer.components_, atol=1e-3)


def test_the_solution_is_that_of_statsmodels(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        factor = pytest.importorskip("statsmodels.multivariate.factor")
    x = sample(random_model(rng, 9, 2, noise="diagonal"), 300, rng=rng)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rounding ends the search before its gradient is as small as wanted
        peer = factor.Factor(x, n_factor=2, method="ml").fit(opt={"gtol": 1e-9})
    ours = fit(x, 2)
    assert_allclose(ours.model.noise_variance, peer.uniqueness, atol=1e-5)
    assert_allclose(ours.model.loadings @ ours.model.loadings.T, peer.loadings @ peer.loadings.T, atol=1e-5)
