"""What is left after things went wrong, and honesty about unfinished work."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from oracles import spiked_rows
from probpca import PPCA, DataError, ShapeError, SourceError
from probpca.inference import outliers
from probpca.learning import Settings
from probpca.learning.complete import krylov


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 60, 6, 2)


def test_a_failed_fit_is_no_fit(x):
    broken = x.copy()
    broken[3, 2] = np.inf
    ppca = PPCA(2)
    with pytest.raises(DataError, match="infinity"):
        ppca.fit(broken)
    with pytest.raises(NotFittedError):
        ppca.transform(x)
    ppca.fit(x)
    with pytest.raises(DataError, match="infinity"):
        ppca.fit(broken[:, :4])
    with pytest.raises(NotFittedError):
        ppca.transform(x)


def test_eigenpairs_that_were_not_finished_are_not_called_exact(rng, monkeypatch):
    x = rng.standard_normal((500, 450))
    original = krylov.block_krylov
    monkeypatch.setattr(krylov, "block_krylov", lambda *a, **k: original(*a, **k, max_products=1))
    with pytest.warns(ConvergenceWarning):
        ppca = PPCA(3, solver="krylov", random_state=0).fit(x)
    assert not ppca.converged_
    assert ppca.log_likelihood_ < PPCA(3, solver="svd").fit(x).log_likelihood_ - 1


def test_no_tolerance_ends_at_rounding(rng):
    x = spiked_rows(rng, 700, 600, 3)
    ppca = PPCA(3, solver="krylov", tol=0, random_state=0).fit(x)
    assert ppca.converged_
    assert ppca.n_iter_ < 40


def test_parts_of_a_cell_that_are_stored_apart_are_added(rng):
    dense = spiked_rows(rng, 50, 8, 2) * (rng.random((50, 8)) < 0.6)
    once = sparse.csr_array(dense)
    rows = np.repeat(np.arange(50), np.diff(once.indptr))
    places = (np.concatenate([rows, rows]), np.concatenate([once.indices, once.indices]))
    twice = sparse.coo_array((np.concatenate([3 * once.data, -2 * once.data]), places), shape=once.shape)
    apart = sparse.csr_array((50, 8))
    order = np.argsort(places[0], kind="stable")
    apart.data, apart.indices = twice.data[order], places[1][order]
    apart.indptr = 2 * once.indptr
    for solver in ("krylov", "covariance", "svd"):
        found = PPCA(2, solver=solver, random_state=0).fit(apart)
        assert_allclose(found.noise_variance_, PPCA(2).fit(dense).noise_variance_, rtol=1e-6)


def test_the_criterion_does_not_choose_a_model_without_noise(rng):
    few = rng.standard_normal((6, 5))
    found = PPCA().fit(np.repeat(few, 10, axis=0))
    assert found.converged_
    assert found.n_components_ < 5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p, _: p.condition([0], [["a"]] * 2), ValueError, "could not convert"),
        (lambda p, _: p.condition([0], [[np.nan]]), ValueError, "NaN"),
        (lambda p, _: p.inverse_transform([[np.nan, 0.0]]), ValueError, "NaN"),
        (lambda p, _: p.sample(-1), ShapeError, "must not be negative"),
        (lambda p, _: p.summary(feature_names=["one"]), ShapeError, "all 6 features"),
        (lambda p, x: p.fit_transform(iter([x])), SourceError, "read once"),
        (lambda p, x: p.fit(x, sample_weight=["a"] * 60), DataError, "must be numbers"),
        (lambda *_: Settings("pxem"), DataError, "solver must be one of"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(x, call, error, message):
    with pytest.raises(error, match=message):
        call(PPCA(2).fit(x), x)


def test_one_known_column_may_be_given_by_its_number(x):
    ppca = PPCA(2).fit(x)
    assert_allclose(ppca.condition(0, x[:3, :1]).mean, ppca.condition([0], x[:3, :1]).mean)
    assert_allclose(ppca.condition(0, x[:3, :1]).features, np.arange(1, 6))


def test_a_row_beyond_all_bounds_has_no_probability(x):
    with np.errstate(over="ignore"):
        found = outliers(PPCA(2).fit(x).model_, np.full((1, 6), 1e200))
    assert found.p_value[0] == 0
    assert found.log10_p_value[0] == -np.inf


def test_a_shared_covariance_is_not_written_out_for_every_row(x):
    belief = PPCA(2).fit(x).posterior(np.zeros((1000, 6)))
    assert belief.covariance.strides[0] == 0
    assert not belief.covariance.flags.writeable
