"""A Gaussian is a mean and a covariance that fit each other."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import random_covariance
from probpca import DataError, ShapeError
from probpca.models import Gaussian, standard_normal


@pytest.mark.parametrize(
    ("mean", "covariance", "error", "message"),
    [
        (np.zeros(2), np.eye(3), ShapeError, r"got \(2,\) and \(3, 3\)"),
        (np.zeros(2), np.ones(2), ShapeError, r"got \(2,\) and \(2,\)"),
        (0.0, 1.0, ShapeError, r"mean must be \(k,\) or \(n, k\)"),
        (np.zeros((4, 2)), np.eye(2), ShapeError, r"got \(4, 2\) and \(2, 2\)"),
        (np.zeros((1, 4, 2)), np.zeros((1, 4, 2, 2)), ShapeError, r"mean must be \(k,\) or \(n, k\)"),
        ([np.nan, 0.0], np.eye(2), DataError, "mean must be finite; got 1 entries"),
        (np.zeros(2), np.full((2, 2), np.inf), DataError, "covariance must be finite; got 4 entries"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(mean, covariance, error, message):
    with pytest.raises(error, match=message):
        Gaussian(mean, covariance)


def test_std_is_the_root_of_the_diagonal_for_one_and_for_many(rng):
    matrices = np.stack([random_covariance(rng, 3) for _ in range(4)])
    many = Gaussian(np.zeros((4, 3)), matrices)
    for row, matrix in zip(many.std, matrices, strict=True):
        assert_allclose(row, np.sqrt(np.diag(matrix)))
        assert_allclose(Gaussian(np.zeros(3), matrix).std, row)


def test_standard_normal_has_mean_zero_and_unit_covariance():
    prior = standard_normal(3)
    assert_array_equal(prior.mean, np.zeros(3))
    assert_array_equal(prior.covariance, np.eye(3))


@pytest.mark.parametrize("field", ["mean", "covariance"])
def test_a_gaussian_cannot_be_changed(field):
    arrays = {"mean": np.zeros(2), "covariance": np.eye(2)}
    belief = Gaussian(**arrays)
    with pytest.raises(FrozenInstanceError):
        setattr(belief, field, arrays[field])
    with pytest.raises(ValueError, match="read-only"):
        getattr(belief, field)[...] = 1.0
    arrays[field][...] = 2.0  # whoever gave the array may still write to it


def test_many_rows_may_share_one_covariance_without_a_copy():
    shared = np.broadcast_to(np.eye(2), (1000, 2, 2))
    assert np.shares_memory(Gaussian(np.zeros((1000, 2)), shared).covariance, shared)
