"""Fits that outlying rows and cells cannot bend: PPCA and FactorAnalysis with ``robust``."""

import warnings
from contextlib import nullcontext, suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, kstest

from oracles import random_rotation
from probpca import PPCA, DataError, FactorAnalysis, SourceError
from probpca.learning.robust.consistency import trimming_factor
from probpca.learning.robust.fit import DenseRows
from probpca.sources import open_source

BOTH = pytest.mark.parametrize("kind", [PPCA, FactorAnalysis])
METHODS = pytest.mark.parametrize("robust", ["rows", "cells"])
N, D, Q = 150, 10, 2


class Simulated:
    """Rows of two components with 10 % missing cells; 20 % of the rows, or of the cells, are something else."""

    def __init__(self, seed=0, *, rows=0.0, cells=0.0, missing=0.1):
        rng = np.random.default_rng(seed)
        self.loadings = rng.standard_normal((D, Q)) * [2.0, 1.5]
        self.clean = self.draw(rng, N)
        self.x, self.bad, self.wild = self.clean.copy(), np.arange(N) < rows * N, rng.random((N, D)) < cells
        away = rng.standard_normal(D)
        away -= self.loadings @ np.linalg.lstsq(self.loadings, away)[0]
        self.x[self.bad] += 15 * away / np.linalg.norm(away)
        size = 6 * np.sqrt(np.square(self.loadings).sum(axis=1) + 1)
        self.x = np.where(self.wild, self.x + rng.choice([-1, 1], (N, D)) * size, self.x)
        self.x[rng.random((N, D)) < missing] = np.nan
        self.fresh = self.draw(rng, 500)

    def draw(self, rng, n):
        return rng.standard_normal((n, Q)) @ self.loadings.T + rng.standard_normal((n, D)) + 3.0

    def angle(self, model):
        bases = (np.linalg.qr(part)[0] for part in (self.loadings, model.model_.loadings))
        return np.degrees(np.arccos(min(np.linalg.svd(next(bases).T @ next(bases))[1].min(), 1.0)))


@BOTH
@METHODS
def test_a_cluster_of_a_fifth_of_the_rows_does_not_bend_the_fit(kind, robust):
    rows = Simulated(rows=0.2)
    plain, model = kind(Q).fit(rows.x), kind(Q, robust=robust, random_state=0).fit(rows.x)
    assert rows.angle(plain) > 30
    assert rows.angle(model) < 10
    assert model.converged_
    assert model.row_weight_[rows.bad].mean() < (0.01 if robust == "rows" else 0.1)
    assert model.row_weight_[~rows.bad].mean() > 0.9
    assert_allclose(np.mean(model.noise_variance_), 1.0, atol=0.15)
    assert (model.outliers(rows.x).p_value[rows.bad] < 1e-6).all()


@pytest.mark.filterwarnings("ignore:the noise variance of:UserWarning")  # of the ordinary fit
@BOTH
def test_wild_cells_in_most_rows_do_not_bend_the_fit(kind):
    rows = Simulated(cells=0.2)
    plain, model = kind(Q).fit(rows.x), kind(Q, robust="cells", random_state=0).fit(rows.x)
    seen = ~np.isnan(rows.x)
    assert (rows.wild & seen).any(axis=1).mean() > 0.8
    assert rows.angle(plain) > 30
    assert rows.angle(model) < 12
    assert (model.cell_weight_[rows.wild & seen] < 0.5).mean() > 0.98
    assert (model.cell_weight_[~rows.wild & seen] < 0.5).mean() < 0.02
    assert_array_equal(model.cell_weight_ == 0, ~seen)


@BOTH
@METHODS
def test_clean_data_are_fitted_as_ever(kind, robust):
    rows = Simulated(1)
    plain, model = kind(Q).fit(rows.x), kind(Q, robust=robust, random_state=0).fit(rows.x)
    assert abs(rows.angle(model) - rows.angle(plain)) < 1.5
    assert_allclose(np.mean(model.noise_variance_), np.mean(plain.noise_variance_), rtol=0.05)
    assert kstest(model.outliers(rows.fresh).p_value, "uniform").statistic < 0.1
    found, scale = model.outliers(rows.x, training=True), model.calibration_.scale
    k = (~np.isnan(rows.x)).sum(axis=1)
    assert model.calibration_.degrees == np.inf
    assert 0.9 < scale < 1.3
    assert_allclose(found.p_value, chi2.sf(found.distance / scale, k), rtol=1e-9)
    assert_allclose(found.model_p_value, chi2.sf(found.distance, k), rtol=1e-9)


@METHODS
def test_p_values_hold_with_few_rows(robust):
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        loadings = 1.5 * rng.standard_normal((2, 30))
        x, fresh = (rng.standard_normal((n, 2)) @ loadings + rng.standard_normal((n, 30)) for n in (60, 400))
        x[:6] += 5 * rng.standard_normal(30)
        model = PPCA(2, robust=robust, random_state=0).fit(x)
        assert model.row_weight_[6:].mean() > 0.8
        assert (model.outliers(x).p_value[:6] < 0.001).all()
        shares.append((model.outliers(fresh).p_value < 0.05).mean())
    assert 0.02 < np.mean(shares) < 0.12  # model_p_value: 0.2 and more


@BOTH
@pytest.mark.parametrize("weighted", [False, True])
def test_with_all_rows_kept_it_is_the_ordinary_fit(kind, weighted):
    rows = Simulated(rows=0.1)
    weight = np.random.default_rng(3).integers(0, 3, N) if weighted else None
    plain = kind(Q, random_state=0).fit(rows.x, sample_weight=weight)
    model = kind(Q, robust="rows", keep=1, random_state=0).fit(rows.x, sample_weight=weight)
    assert_array_equal(model.get_covariance(), plain.get_covariance())
    assert_array_equal(model.row_weight_, np.ones(N) if weight is None else weight > 0)
    assert model.log_likelihood_ == plain.log_likelihood_
    assert plain.row_weight_ is None
    assert plain.cell_weight_ is None


@BOTH
def test_it_is_the_ordinary_fit_to_the_rows_that_are_used_but_for_one_factor(kind):
    rows = Simulated(rows=0.2, missing=0.0)
    model = kind(Q, robust="rows", random_state=0).fit(rows.x)
    plain = kind(Q).fit(rows.x, sample_weight=model.row_weight_)
    factor = trimming_factor(np.full(N, float(D)), model.row_weight_, 0.975)
    assert 1 < factor < 1.1
    assert_allclose(model.get_covariance(), factor * plain.get_covariance(), rtol=1e-8)
    assert_allclose(model.mean_, plain.mean_)
    used = model.row_weight_ > 0
    assert_allclose(model.log_likelihood_, model.score_samples(rows.x[used]).sum(), rtol=1e-10)
    assert model.n_samples_ == used.sum()
    assert model.n_observed_ == D * used.sum()


def test_the_likelihood_after_a_fit_of_cells_is_that_of_the_cells_that_are_used():
    rows = Simulated(cells=0.1, rows=0.1)
    for kind in (PPCA, FactorAnalysis):
        model = kind(Q, robust="cells", random_state=0).fit(rows.x)
        tame = np.where(model.cell_weight_ > 0.5, rows.x, np.nan)[model.row_weight_ == 1]
        assert_allclose(model.log_likelihood_, model.score_samples(tame).sum(), rtol=1e-10)
        assert model.n_observed_ == (~np.isnan(tame)).sum()


@pytest.mark.filterwarnings("ignore:the noise variance of:UserWarning")
def test_factor_analysis_does_not_depend_on_the_units_of_columns():
    rows, scale = Simulated(cells=0.05, rows=0.1), 2.0 ** np.arange(-5, 5)
    shift = 64.0 * np.arange(D)
    one, two = (FactorAnalysis(Q, robust="cells", random_state=0).fit(x) for x in (rows.x, rows.x * scale + shift))
    assert_allclose(two.get_covariance() / np.outer(scale, scale), one.get_covariance(), atol=0.003)
    assert_allclose(two.row_weight_, one.row_weight_)


@METHODS
def test_standardized_columns_do_not_depend_on_their_units(robust):
    rows, scale = Simulated(cells=0.05, rows=0.1), 2.0 ** np.arange(-5, 5)
    one, two = (PPCA(Q, standardize=True, robust=robust, random_state=0).fit(x) for x in (rows.x, rows.x * scale))
    assert_allclose(two.components_, one.components_, atol=1e-5)
    assert_allclose(two.scale_, one.scale_ * scale, rtol=1e-5)
    assert_allclose(two.noise_variance_, one.noise_variance_, rtol=1e-5)
    # The scaled columns have a variance of about 1.
    assert_allclose(np.diag(one.get_covariance()).mean(), np.mean(one.scale_**2), rtol=0.1)


def test_trimmed_rows_turn_with_the_axes():
    rows = Simulated(rows=0.2, missing=0.0)
    turn = random_rotation(np.random.default_rng(0), D)
    one, two = (PPCA(Q, robust="rows", random_state=0).fit(x) for x in (rows.x, rows.x @ turn.T))
    assert_array_equal(one.row_weight_, two.row_weight_)
    assert_allclose(two.get_covariance(), turn @ one.get_covariance() @ turn.T, atol=1e-6)


def test_keep_decides_how_many_outliers_a_fit_survives():
    rows = Simulated(2, rows=0.42)
    assert rows.angle(PPCA(Q, robust="rows", random_state=0).fit(rows.x)) > 20
    half = PPCA(Q, robust="rows", keep=0.5, random_state=0).fit(rows.x)
    assert rows.angle(half) < 12
    assert half.row_weight_[rows.bad].sum() == 0


def test_no_row_is_left_out_if_all_are_kept():
    rows = Simulated(rows=0.1, cells=0.05)
    model = PPCA(Q, robust="cells", keep=1, random_state=0).fit(rows.x)
    assert_array_equal(model.row_weight_, np.ones(N))
    assert (model.cell_weight_ < 0.5).any()


@METHODS
def test_the_same_random_state_gives_the_same_bits(robust):
    rows = Simulated(rows=0.2)
    one, two = (PPCA(Q, robust=robust, random_state=7).fit(rows.x) for _ in range(2))
    assert_array_equal(one.get_covariance(), two.get_covariance())
    assert_array_equal(one.row_weight_, two.row_weight_)


@METHODS
@pytest.mark.parametrize("rule", [None, 0.6])
def test_outliers_do_not_decide_how_many_components_there_are(robust, rule):
    rows = Simulated(rows=0.2)
    model = PPCA(rule, robust=robust, random_state=0).fit(rows.x)
    assert model.n_components_ == PPCA(rule).fit(rows.x[~rows.bad]).n_components_


@METHODS
def test_weights_of_cells_are_relative_precisions(robust):
    rows = Simulated(rows=0.1, cells=0.02 if robust == "cells" else 0.0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, rows.x.shape)
    one, two = (PPCA(Q, robust=robust, random_state=0).fit(rows.x, cell_weight=c * weight) for c in (1.0, 4.0))
    assert rows.angle(one) < 12
    assert_allclose(two.noise_variance_, 4 * one.noise_variance_, rtol=1e-6)
    assert_allclose(two.loadings_, one.loadings_, atol=1e-6)
    missing = np.where(np.isnan(rows.x), 0.0, 1.0)
    filled = PPCA(Q, robust=robust, random_state=0).fit(np.nan_to_num(rows.x, nan=99.0), cell_weight=missing)
    wanted = PPCA(Q, robust=robust, random_state=0).fit(rows.x).get_covariance()
    assert_allclose(filled.get_covariance(), wanted, atol=0.01)


@METHODS
def test_tables_batches_and_files_are_the_same_rows(robust, tmp_path):
    rows = Simulated(rows=0.2)
    np.save(tmp_path / "rows.npy", rows.x)
    wanted = PPCA(Q, robust=robust, random_state=0).fit(rows.x)
    frame = pd.DataFrame(rows.x, columns=[f"c{j}" for j in range(D)])
    for given in (frame, tmp_path / "rows.npy", iter(np.array_split(rows.x, 4))):
        found = PPCA(Q, robust=robust, random_state=0).fit(given)
        assert_allclose(found.get_covariance(), wanted.get_covariance(), rtol=1e-6)


def test_rows_in_a_cluster_are_refused():
    class Elsewhere:
        """An engine that is not of this process."""

    source = open_source(Simulated().x)
    with pytest.raises(SourceError, match="these are in a cluster"):
        DenseRows.of(replace(source, engine=Elsewhere()))


@BOTH
@METHODS
def test_files_hold_what_was_used(kind, robust, tmp_path):
    rows = Simulated(rows=0.2)
    model = kind(Q, robust=robust, keep=0.7, random_state=0).fit(rows.x)
    model.to_file(tmp_path / "model.npz")
    again = kind.from_file(tmp_path / "model.npz")
    assert (again.robust, again.keep) == (robust, 0.7)
    assert_array_equal(again.row_weight_, model.row_weight_)
    assert_array_equal(np.array(again.cell_weight_), np.array(model.cell_weight_))
    assert_array_equal(again.outliers(rows.x, training=True).p_value, model.outliers(rows.x, training=True).p_value)
    assert again.status_ == model.status_


@METHODS
def test_empty_rows_and_columns_are_neither_used_nor_wrong(robust):
    rows = Simulated(rows=0.1)
    rows.x[5] = np.nan
    rows.x[:, 3] = np.nan
    with pytest.warns(UserWarning, match="no observed cells"):
        model = PPCA(Q, robust=robust, random_state=0).fit(rows.x)
    assert_array_equal(model.empty_features_, [3])
    assert_array_equal(model.loadings_[3], 0.0)
    assert model.row_weight_[5] == 0
    assert np.isfinite(model.get_covariance()).all()


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"robust": "columns"}, "robust"),
        ({"robust": "rows", "keep": 0.4}, "keep"),
        ({"robust": "rows", "keep": 1.2}, "keep"),
        ({"robust": "rows", "bias_correction": True}, "bias_correction"),
        ({"robust": "cells", "bias_correction": True}, "bias_correction"),
        ({"robust": "rows", "checkpoint": "file"}, "checkpoint"),
        ({"robust": "rows", "keep_source": True}, "keep_source=True is for draws"),
        ({"robust": "cells", "n_parameter_draws": 5}, "n_parameter_draws=5 is for draws"),
        ({"robust": "cells", "solver": "svd"}, "solver='svd' cannot"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, match):
    with pytest.raises(DataError, match=match):
        PPCA(Q, **parameters).fit(Simulated(missing=0.0).x)


def test_streams_and_uncertainty_need_ordinary_fits():
    x = Simulated().x
    for kind in (PPCA, FactorAnalysis):
        with pytest.raises(AttributeError) as caught:
            kind(Q, robust="rows").partial_fit(x)
        assert "reads each row once" in str(caught.value.__cause__)
        model = kind(Q, robust="rows", random_state=0).fit(x)
        for question in (model.uncertainty, lambda m=model: m.impute_draws(x, 2)):
            with pytest.raises(DataError, match="this one is robust"):
                question()
    with pytest.raises(DataError, match=r"fit_indices\(\) is for ordinary fits"):
        model.fit_indices()


def test_identical_rows_that_are_most_of_the_table_are_named():
    x = np.vstack([np.ones((30, 3)), np.random.default_rng(0).standard_normal((5, 3))])
    with pytest.raises(DataError, match="the 30 rows that agree best are identical"):
        PPCA(1, robust="rows", random_state=0).fit(x)


@pytest.mark.parametrize("shape", [(100, 6), (200, 8)])
def test_columns_that_are_mostly_zero_are_no_reason_to_doubt_the_reading_of_the_data(shape):
    rng = np.random.default_rng(0)
    x = rng.poisson(3.0, shape) * (rng.random(shape) < 0.1)
    for kind in (PPCA, FactorAnalysis):
        with pytest.raises(DataError, match=r"(?s)robust='cells' needs cells that agree and still vary.*robust='rows'"):
            kind(1, robust="cells", random_state=0).fit(x)


@pytest.mark.filterwarnings("ignore:the noise variance of:UserWarning")
def test_a_start_with_one_more_factor_stays_within_what_the_rows_allow():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 3)) @ rng.standard_normal((3, 12)) + rng.standard_normal((7, 12))
    assert FactorAnalysis("aic", robust="cells", random_state=0).fit(x).n_components_ <= 5


def test_a_few_rows_whose_cells_all_look_wild_are_refused_with_a_reason():
    rng = np.random.default_rng(7)
    loadings = 2 * rng.standard_normal((5, 2))
    x = rng.standard_normal((4, 2)) @ loadings.T + rng.standard_normal((4, 5))
    with pytest.raises(DataError, match="needs cells that agree"):
        FactorAnalysis(robust="cells", random_state=0).fit(x)


def test_small_tables_are_fitted_or_refused_with_a_reason():
    rng = np.random.default_rng(0)
    for n in (2, 3, 6):
        for robust in ("rows", "cells"):
            model, x = PPCA(1, robust=robust, random_state=0), rng.standard_normal((n, 4))
            with warnings.catch_warnings(), suppress(DataError) if n < 5 else nullcontext():
                warnings.simplefilter("ignore", UserWarning)
                assert np.isfinite(model.fit(x).get_covariance()).all()


@METHODS
def test_the_summary_says_what_was_used(robust):
    rows = Simulated(rows=0.2)
    for kind in (PPCA, FactorAnalysis):
        model = kind(Q, robust=robust, random_state=0).fit(rows.x)
        used = int(model.row_weight_.sum())
        assert f"robust            {used} of 150 rows used" in model.summary()
        assert ("observed cells" in model.summary()) == (robust == "cells")
    assert "robust" not in PPCA(Q).fit(rows.x).summary()


@METHODS
def test_hidden_wild_cells_are_imputed_from_the_others(robust):
    rows = Simulated(cells=0.1, missing=0.0)
    model = PPCA(Q, robust=robust, random_state=0).fit(rows.x)
    if robust == "rows":
        assert model.cell_weight_ is None
        return
    filled = model.impute(np.where(model.cell_weight_ < 0.5, np.nan, rows.x))
    error = np.sqrt(np.mean(np.square(filled - rows.clean)[rows.wild]))
    assert error < 1.5  # the noise has a standard deviation of 1
