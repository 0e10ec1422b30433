"""How sure a fitted PPCA is of itself."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from oracles import spiked_rows
from probpca import PPCA, DataError, ShapeError, SourceError
from probpca.learning import ParameterUncertainty

FEW = 12
"""Draws that are enough to see that there are some."""


def with_holes(x, rng, share=0.2):
    return np.where(rng.random(x.shape) < share, np.nan, x)


@pytest.fixture
def x(rng):
    return spiked_rows(rng, 40, 6, 2, noise=0.5)


def test_estimates_are_the_attributes_of_the_fit(x):
    ppca = PPCA(2, random_state=0).fit(x)
    for method in ("asymptotic", "bootstrap"):
        found = ppca.uncertainty(x, method=method, n_draws=FEW)
        assert isinstance(found, ParameterUncertainty)
        assert found.method == method
        for name in ("explained_variance", "noise_variance", "loadings", "components", "mean"):
            estimate = getattr(found, name)
            assert_allclose(estimate.value, getattr(ppca, f"{name}_"), atol=1e-12)
            assert estimate.standard_error.shape == estimate.value.shape


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("holes", [False, True])
def test_every_kind_of_fit_can_be_resampled(x, rng, holes, standardize):
    x = with_holes(x, rng) if holes else x
    ppca = PPCA(2, standardize=standardize, random_state=0).fit(x)
    found = ppca.uncertainty(x, n_draws=FEW)
    assert found.method == "bootstrap"
    assert found.noise_variance.standard_error.shape == np.shape(ppca.noise_variance_)
    assert (found.loadings.standard_error > 0).all()


def test_a_fit_that_was_freed_of_bias_is_resampled_so(x):
    ppca = PPCA(2, bias_correction=True, random_state=0).fit(x)
    for method in ("asymptotic", "bootstrap"):
        found = ppca.uncertainty(x, method=method, n_draws=FEW)
        assert not np.any(found.noise_variance.bias)
        assert_allclose(found.noise_variance.value, ppca.noise_variance_)


def test_formulas_are_taken_where_they_hold_and_there_are_rows_enough(x):
    assert PPCA(2).fit(x[:30]).uncertainty().method == "asymptotic"
    with pytest.raises(DataError, match="29 rows are fewer than 5 for each of 6 features"):
        PPCA(2).fit(x[:29]).uncertainty()
    assert PPCA(2, keep_source=True, random_state=0).fit(x[:29]).uncertainty(n_draws=FEW).method == "bootstrap"
    assert (
        PPCA(2, random_state=0).fit(x).uncertainty(x, n_draws=FEW).method == "bootstrap"
    )  # rows that are given are used


def test_formulas_are_refused_where_they_do_not_hold(x, rng):
    with pytest.raises(
        DataError, match=r"do not apply: cells were missing, or weighted\.\nHint: use method='bootstrap'"
    ):
        PPCA(2).fit(with_holes(x, rng)).uncertainty(method="asymptotic")
    with pytest.raises(DataError, match="do not apply: columns were scaled"):
        PPCA(2, standardize=True).fit(x).uncertainty(method="asymptotic")
    with pytest.raises(DataError, match="cells were missing, or weighted"):
        PPCA(2).fit(x, cell_weight=np.ones_like(x)).uncertainty(method="asymptotic")
    with pytest.raises(DataError, match=r"needs the training rows: columns were scaled.*\nHint: pass them as X"):
        PPCA(2, standardize=True).fit(x).uncertainty()


def test_kept_rows_are_those_that_are_passed(x, rng):
    x = with_holes(x, rng)
    weight = rng.integers(1, 3, len(x))
    ppca = PPCA(2, keep_source=True, random_state=0).fit(x, sample_weight=weight)
    kept = ppca.uncertainty(n_draws=FEW)
    given = ppca.uncertainty(x, sample_weight=weight, n_draws=FEW)
    assert_array_equal(kept.loadings.standard_error, given.loadings.standard_error)


def test_random_state_decides(x):
    ppca = PPCA(2, random_state=3).fit(x)
    first, again = (ppca.uncertainty(x, n_draws=FEW) for _ in range(2))
    other = ppca.uncertainty(x, n_draws=FEW, random_state=4)
    assert_array_equal(first.subspace_angles, again.subspace_angles)
    assert not np.array_equal(first.subspace_angles, other.subspace_angles)
    more = ppca.uncertainty(x, n_draws=2 * FEW)
    assert_array_equal(more.subspace_angles[:FEW], first.subspace_angles)


def test_cell_weights_count(x, rng):
    weight = rng.uniform(0.2, 5.0, x.shape)
    ppca = PPCA(2, random_state=0).fit(x, cell_weight=weight)
    with_weight = ppca.uncertainty(x, cell_weight=weight, n_draws=FEW)
    kept = PPCA(2, random_state=0, keep_source=True).fit(x, cell_weight=weight).uncertainty(n_draws=FEW)
    assert_allclose(with_weight.mean.standard_error, kept.mean.standard_error, rtol=1e-6)


def test_names_of_columns_are_shown(x):
    names = ["height", "width", "depth", "mass", "age", "price"]
    frame = pd.DataFrame(x, columns=names)
    ppca = PPCA(2, random_state=0).fit(frame)
    found = ppca.uncertainty(frame, n_draws=FEW)
    assert found.feature_names == tuple(names)
    assert "height" in str(found)
    assert "x0" in PPCA(2).fit(x).uncertainty().table().text()
    assert "eins" in found.table(["eins", "b", "c", "d", "e", "f"]).text()
    with pytest.raises(ValueError, match="feature names"):
        ppca.uncertainty(frame.rename(columns={"age": "years"}), n_draws=FEW)


def test_components_of_a_table_are_counted_from_zero(x):
    found = PPCA(3).fit(x).uncertainty()
    assert "PC2" in found.table(component=1).text()
    assert "PC1" not in found.table(component=1).text()
    assert found.table(component=[2, 0]).text().index("PC3") < found.table(component=[2, 0]).text().index("PC1")
    for wrong in (3, -1, []):
        with pytest.raises(ShapeError, match=r"one of 0 \.\. 2, or several"):
            found.table(component=wrong)
    with pytest.raises(ShapeError, match="name all 6 features; got 2 names"):
        found.table(["a", "b"])


def test_a_stream_and_a_file_know_how_sure_they_are(x, tmp_path):
    fitted = PPCA(2).fit(x)
    streamed = PPCA(2).partial_fit(x[:25]).partial_fit(x[25:])
    fitted.to_file(tmp_path / "ppca.npz")
    for other in (streamed, PPCA.from_file(tmp_path / "ppca.npz")):
        assert_allclose(other.uncertainty().loadings.standard_error, fitted.uncertainty().loadings.standard_error)
        assert other.uncertainty(x, n_draws=FEW, random_state=0).method == "bootstrap"


def test_other_rows_than_those_of_the_fit_are_refused(x, rng):
    ppca = PPCA(2, random_state=0).fit(x)
    with pytest.raises(DataError, match=r"the training rows, which had 40 rows; got 39\."):
        ppca.uncertainty(x[:39])
    with pytest.raises(DataError, match=r"which had 40 rows; got 80\.\nHint: pass the table of the fit"):
        ppca.uncertainty(x, sample_weight=np.full(40, 2.0))
    with pytest.raises(DataError, match=r"which had 240 observed cells; got 239\."):
        ppca.uncertainty(np.where(np.arange(240).reshape(40, 6) == 7, np.nan, x))
    with pytest.raises(DataError, match="need the rows that they belong to"):
        ppca.uncertainty(sample_weight=np.ones(40), method="bootstrap")
    with pytest.raises(ValueError, match="6 features"):
        ppca.uncertainty(x[:, :5])
    with pytest.raises(SourceError, match="needs rows in memory"):
        ppca.uncertainty([x[:20], x[20:]])
    holed = with_holes(x, rng)
    holed[0] = np.nan  # a row that says nothing is none
    assert PPCA(2, random_state=0).fit(holed).uncertainty(holed, n_draws=FEW).mean.df == 38


def test_rows_are_needed_for_resampling(x):
    with pytest.raises(DataError, match=r"the bootstrap needs the training rows\.\nHint: pass them as X"):
        PPCA(2).fit(x).uncertainty(method="bootstrap")


def test_what_is_asked_for_must_exist(x):
    ppca = PPCA(2).fit(x)
    with pytest.raises(DataError, match="auto, asymptotic, bootstrap; got 'jackknife'"):
        ppca.uncertainty(method="jackknife")
    for wrong in (1, 2.5, None):
        with pytest.raises(ShapeError, match="n_draws must be a whole number, at least 2"):
            ppca.uncertainty(x, n_draws=wrong)
    with pytest.raises(DataError, match="align must be one of signs, procrustes"):
        ppca.uncertainty(x, align="up")
    with pytest.raises(NotFittedError):
        PPCA(2).uncertainty()


def test_cells_that_are_not_stored(x, rng):
    thin = sparse.csr_array(np.where(rng.random(x.shape) < 0.8, x, 0.0))
    ppca = PPCA(2, missing="unstored", random_state=0).fit(thin)
    dense = PPCA(2, random_state=0).fit(np.where(thin.toarray() == 0, np.nan, x))
    found = ppca.uncertainty(thin, n_draws=FEW)
    expected = dense.uncertainty(np.where(thin.toarray() == 0, np.nan, x), n_draws=FEW)
    assert_allclose(found.mean.standard_error, expected.mean.standard_error, rtol=1e-2)


def test_a_bar_counts_draws(x, capsys):
    ppca = PPCA(2, random_state=0).fit(x)
    ppca.uncertainty(x, n_draws=FEW)
    assert not capsys.readouterr().err
    ppca.set_params(verbose=True).uncertainty(x, n_draws=FEW)
    assert "12/12" in capsys.readouterr().err


@pytest.mark.parametrize("standardize", [False, True])
def test_of_a_column_that_was_never_observed_nothing_is_known(x, standardize):
    holes = np.column_stack([x, np.full(len(x), np.nan)])
    with pytest.warns(UserWarning, match="no observed cells in 1 of"):
        ppca = PPCA(2, standardize=standardize).fit(holes)
    sure = ppca.uncertainty(holes, n_draws=3)
    for estimate in (sure.loadings.standard_error, sure.components.standard_error.T, sure.mean.standard_error):
        assert np.isinf(estimate[-1]).all()
        assert np.isfinite(estimate[:-1]).all()
    low, high = sure.mean.interval()
    assert (low[-1], high[-1]) == (-np.inf, np.inf)
    assert "x6" in sure.table(most=99).text()
