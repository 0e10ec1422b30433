"""Factor analysis: maximum likelihood with a noise variance for each column, whatever is missing or rotated."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from oracles import dense_observed_log_likelihood, dense_observed_posterior, largest_fall, punched
from probpca import PPCA, DataError, FactorAnalysis, ShapeError, SourceError
from probpca.blocks import observe
from probpca.learning import Settings, fit_factor_analysis, value_and_gradient
from probpca.learning.components import Count
from probpca.learning.describe import describe
from probpca.learning.missing.fit import fit_missing
from probpca.models import LinearGaussian
from probpca.sources import open_source

N, D, Q = 120, 8, 2
ORTHOGONAL = ["varimax", "quartimax", "equamax", "geomin_orthogonal"]
OBLIQUE = ["promax", "oblimin", "geomin"]
NAMES = [f"test {j}" for j in range(D)]


def simulated(seed=0, n=N, d=D, q=Q):
    rng = np.random.default_rng(seed)
    W = rng.uniform(0.9, 1.8, (d, q)) * (np.arange(d)[:, None] % q == np.arange(q))
    noise = rng.uniform(0.3, 1.5, d)
    return 3.0 + rng.standard_normal((n, q)) @ W.T + rng.standard_normal((n, d)) * np.sqrt(noise)


@pytest.fixture(params=[0.0, 0.15], ids=["complete", "missing"])
def x(request):
    return punched(np.random.default_rng(1), simulated(), request.param) if request.param else simulated()


def fitted(x, **options):
    return FactorAnalysis(**{"n_components": Q, "tol": 1e-8, "random_state": 0, **options}).fit(x)


def test_the_log_likelihood_is_that_of_the_dense_gaussian(x):
    factors = fitted(x)
    densities = dense_observed_log_likelihood(factors.model_, x)
    assert_allclose(factors.log_likelihood_, densities.sum(), rtol=1e-10)
    assert_allclose(factors.score_samples(x), densities, rtol=1e-9)
    assert_allclose(factors.trace_[-1], factors.log_likelihood_, rtol=1e-12)


def test_the_fit_is_a_stationary_point(x):
    factors = fitted(x)
    rows = open_source(x).keep(partial(observe, centre=factors.mean_))
    _, gradient = value_and_gradient(factors.model_, rows)
    for slope in gradient:
        assert np.abs(slope).max() < 1e-3 * N
    assert largest_fall(factors.trace_) < 1e-12
    assert factors.converged_


def test_em_and_newton_find_the_same_maximum():
    x, rng = simulated(), np.random.default_rng(0)
    settings = Settings(tol=1e-9, noise="per_feature")
    by_newton = fit_factor_analysis(x, Q, settings, rng)
    by_em = fit_missing(describe(open_source(x), rng), Count(Q), settings, rng)
    assert_allclose(by_em.log_likelihood, by_newton.log_likelihood, atol=1e-6)
    assert_allclose(by_em.model.noise_variance, by_newton.model.noise_variance, rtol=1e-3)
    assert_allclose(by_em.model.loadings, by_newton.model.loadings, atol=1e-3)


def test_units_change_nothing_but_units(x):
    unit = 10.0 ** np.random.default_rng(2).uniform(-6, 6, D)
    here, there = fitted(x, rotation="oblimin"), fitted(x * unit, rotation="oblimin")
    tolerance = {"rtol": 1e-3, "atol": 1e-4}  # of fits that stop at a tolerance in nats
    observed = (~np.isnan(x)).sum(axis=0)
    assert_allclose(there.log_likelihood_, here.log_likelihood_ - observed @ np.log(unit), atol=1e-6)
    assert_allclose(there.standardized_loadings_, here.standardized_loadings_, **tolerance)
    assert_allclose(there.loadings_ / unit[:, None], here.loadings_, **tolerance)
    assert_allclose(there.noise_variance_ / unit**2, here.noise_variance_, **tolerance)
    assert_allclose(there.factor_correlations_, here.factor_correlations_, **tolerance)
    assert_allclose(there.transform(x * unit), here.transform(x), **tolerance)
    assert_allclose(there.impute(x * unit) / unit, here.impute(x), **tolerance)


def test_a_column_of_nothing_but_noise_is_as_good_as_missing():
    x, model = simulated(n=5), fitted(simulated()).model_
    noisy = LinearGaussian(model.mean, model.loadings, np.append(model.noise_variance[:-1], 1e14))
    without = x.copy()
    without[:, -1] = np.nan
    found, wanted = dense_observed_posterior(noisy, x), dense_observed_posterior(model, without)
    assert_allclose(found.mean, wanted.mean, atol=1e-10)
    assert_allclose(found.covariance, wanted.covariance, atol=1e-10)


@pytest.mark.parametrize("method", [*ORTHOGONAL, *OBLIQUE])
def test_a_rotation_changes_the_factors_and_no_other_answer(x, method):
    plain = fitted(x)
    rotated = plain.rotate(method)
    L, Phi, T = rotated.loadings_, rotated.factor_correlations_, rotated.rotation_matrix_
    assert_allclose(L @ Phi @ L.T + np.diag(rotated.noise_variance_), plain.get_covariance(), rtol=1e-10)
    assert_allclose(rotated.score_samples(x), plain.score_samples(x))
    assert_allclose(rotated.impute(x), plain.impute(x))
    assert_allclose(np.diag(Phi), 1.0)
    assert_allclose(Phi, T.T @ T, atol=1e-12)
    if method in ORTHOGONAL:
        assert_allclose(Phi, np.eye(Q), atol=1e-12)
    assert_allclose(rotated.transform(x), plain.transform(x) @ T, atol=1e-12)
    assert_allclose(rotated.inverse_transform(rotated.transform(x)), plain.inverse_transform(plain.transform(x)))
    assert_allclose(rotated.structure_, rotated.standardized_loadings_ @ Phi)
    assert_allclose(rotated.communalities_ + rotated.uniquenesses_, 1.0)
    assert_allclose(rotated.explained_variance_.sum(), plain.communalities_.sum())
    assert plain.rotation is None
    assert rotated.get_params()["rotation"] == method


def test_posteriors_are_those_of_correlated_factors(x):
    factors = fitted(x, rotation="oblimin")
    L, Phi, psi = factors.loadings_, factors.factor_correlations_, factors.noise_variance_
    found = factors.posterior(x)
    for i in (0, 7):
        o = ~np.isnan(x[i])
        C = L[o] @ Phi @ L[o].T + np.diag(psi[o])
        gain = Phi @ L[o].T @ np.linalg.inv(C)
        assert_allclose(found.mean[i], gain @ (x[i, o] - factors.mean_[o]), atol=1e-10)
        assert_allclose(found.covariance[i], Phi - gain @ L[o] @ Phi, atol=1e-10)
    joint = factors.joint().covariance
    assert_allclose(joint[D:, D:], Phi, atol=1e-12)
    assert_allclose(joint[:D, D:], L @ Phi, atol=1e-12)


@pytest.mark.parametrize("rotation", [None, "promax"])
def test_bartlett_scores_minimise_the_weighted_residuals(x, rotation):
    factors = fitted(x, rotation=rotation, scores="bartlett")
    L, psi = factors.loadings_, factors.noise_variance_
    for i in (0, 7):
        o = ~np.isnan(x[i])
        white = L[o] / np.sqrt(psi[o])[:, None]
        wanted = np.linalg.lstsq(white, (x[i, o] - factors.mean_[o]) / np.sqrt(psi[o]))[0]
        assert_allclose(factors.transform(x[i : i + 1])[0], wanted, atol=1e-9)


def test_bartlett_scores_of_a_row_with_too_few_cells_have_smallest_norm():
    factors = fitted(simulated(), scores="bartlett")
    row = np.full((1, D), np.nan)
    assert_allclose(factors.transform(row), 0.0)
    row[0, 3] = 5.0
    w = factors.loadings_[3]
    assert_allclose(factors.transform(row)[0], w * (5.0 - factors.mean_[3]) / (w @ w), rtol=1e-10)


def test_batches_give_the_fit_to_all_rows():
    x = simulated()
    whole, streamed = fitted(x, rotation="varimax"), FactorAnalysis(Q, tol=1e-8, rotation="varimax")
    for batch in np.array_split(x, 7):
        streamed.partial_fit(batch)
    first, second = (FactorAnalysis(Q, tol=1e-8, rotation="varimax").partial_fit(rows) for rows in (x[:50], x[50:]))
    for found in (streamed, first.merge(second)):
        assert_allclose(found.get_covariance(), whole.get_covariance(), rtol=1e-10)
        assert_allclose(found.loadings_, whole.loadings_, atol=1e-8)


def test_online_em_comes_near_the_fit_to_all_rows():
    x = punched(np.random.default_rng(3), simulated(n=4000), 0.2)
    whole, streamed = fitted(x), FactorAnalysis(Q, random_state=0)
    for batch in np.array_split(x, 40):
        streamed.partial_fit(batch)
    lost = whole.score(x) - streamed.score(x)
    assert 0 <= lost < 0.01
    assert_allclose(streamed.noise_variance_, whole.noise_variance_, rtol=0.2)


@pytest.mark.filterwarnings("ignore:the noise variance:UserWarning")
@pytest.mark.parametrize("floor", [1e-6, 0.01])
def test_a_stream_with_missing_cells_has_the_attributes_of_a_fit(floor):
    rng = np.random.default_rng(15)
    x = np.column_stack([load_iris().data[rng.integers(0, 150, 2000)], np.full(2000, 7.0)])
    x = punched(rng, x, 0.1)  # one factor explains the length of petals
    whole, streamed = FactorAnalysis(1, floor=floor).fit(x), FactorAnalysis(1, floor=floor)
    for batch in np.array_split(x, 10):
        streamed.partial_fit(batch)
    assert_array_equal(streamed.heywood_features_, [2])
    assert_array_equal(whole.heywood_features_, [2])
    assert_allclose(streamed.uniquenesses_, whole.uniquenesses_, rtol=0.2)
    assert streamed.uniquenesses_[2] > floor / 2
    assert "Heywood cases, which the factors explain completely: x2." in streamed.summary()
    plain = FactorAnalysis(2).partial_fit(punched(rng, simulated(n=1000), 0.1))
    assert plain.heywood_features_.size == 0
    assert "Heywood" not in plain.summary()


@pytest.mark.filterwarnings("ignore:the noise variance:UserWarning")
def test_weights_of_rows_are_frequencies(x):
    times = np.random.default_rng(4).integers(0, 4, N)
    weighted = FactorAnalysis(Q, tol=1e-8, random_state=0).fit(x, sample_weight=times)
    repeated = fitted(np.repeat(x, times, axis=0))
    assert_allclose(weighted.log_likelihood_, repeated.log_likelihood_, atol=1e-6)
    assert_allclose(weighted.get_covariance(), repeated.get_covariance(), atol=1e-3)


def test_a_common_factor_of_the_weights_of_cells_changes_only_the_unit_of_the_noise():
    x, rng = simulated(), np.random.default_rng(5)
    weight = rng.uniform(0.3, 3.0, x.shape)
    models = [FactorAnalysis(Q, tol=1e-8, random_state=0).fit(x, cell_weight=c * weight) for c in (1.0, 1e-9)]
    assert_allclose(models[0].log_likelihood_, models[1].log_likelihood_, rtol=1e-9)
    assert_allclose(models[0].loadings_, models[1].loadings_, atol=1e-6)
    assert_allclose(models[0].noise_variance_, models[1].noise_variance_ * 1e9, rtol=1e-6)
    assert_allclose(models[0].standardized_loadings_, models[1].standardized_loadings_, atol=1e-6)
    assert_allclose(models[0].uniquenesses_, models[1].uniquenesses_, rtol=1e-6)


@pytest.mark.parametrize("rotation", [None, "oblimin"])
def test_a_file_holds_all_of_the_fit(x, tmp_path, rotation):
    frame, weight = pd.DataFrame(x, columns=NAMES), np.random.default_rng(12).uniform(1.0, 9.0, x.shape)
    options = {"gamma": 0.0} if rotation else None
    factors = FactorAnalysis(
        Q, rotation=rotation, rotation_options=options, n_parameter_draws=2, scores="bartlett", random_state=0
    ).fit(frame, cell_weight=weight)
    factors.to_file(tmp_path / "factors.npz")
    again = FactorAnalysis.from_file(tmp_path / "factors.npz")
    assert again.get_params() == factors.get_params()
    for name in ("loadings_", "factor_correlations_", "standardized_loadings_", "heywood_features_", "trace_"):
        assert_allclose(getattr(again, name), getattr(factors, name), rtol=1e-14, atol=1e-14)
    assert_allclose(again.transform(frame), factors.transform(frame), rtol=1e-13)
    assert_allclose(again.impute_draws(frame, 2, random_state=0), factors.impute_draws(frame, 2, random_state=0))
    assert again.summary() == factors.summary()


def test_numbers_and_texts_of_numpy_are_parameters_that_a_file_holds(tmp_path):
    options = {"gamma": np.float32(-0.5), "n_init": np.int64(2), "kaiser": np.bool_(True)}
    factors = fitted(simulated(), rotation=np.str_("oblimin"), rotation_options=options)
    factors.to_file(tmp_path / "factors.npz")
    again = FactorAnalysis.from_file(tmp_path / "factors.npz")
    assert again.get_params() == factors.get_params()
    assert_array_equal(again.loadings_, factors.loadings_)
    assert_array_equal(again.uncertainty().loadings.standard_error, factors.uncertainty().loadings.standard_error)


def test_a_heywood_case_is_flagged_by_name():
    x = simulated()
    x[:, 1] = x[:, 0] * 2 + 1e-6 * x[:, 3]
    frame = pd.DataFrame(x, columns=NAMES)
    with (
        pytest.warns(ConvergenceWarning, match="Degenerate"),
        pytest.warns(UserWarning, match=r"noise variance of \d columns? is at its floor(?s:.*)test [01]"),
    ):
        factors = fitted(frame)
    assert {0, 1} & set(factors.heywood_features_.tolist())
    assert np.isfinite(factors.log_likelihood_)
    assert "Heywood" in factors.summary()


@pytest.mark.filterwarnings("ignore:the noise variance:UserWarning")
@pytest.mark.parametrize("seed", range(2))
def test_a_heywood_case_is_flagged_with_missing_cells_too(seed):
    x = load_iris().data  # one factor explains the length of petals
    complete, holey = (
        fitted(rows, n_components=1, tol=1e-3) for rows in (x, punched(np.random.default_rng(seed), x, 0.1))
    )
    assert_array_equal(complete.heywood_features_, [2])
    assert_array_equal(holey.heywood_features_, [2])
    assert largest_fall(holey.trace_) < 1e-10


@pytest.mark.filterwarnings("ignore:the noise variance:UserWarning")
def test_a_repeated_column_is_flagged_with_missing_cells_too():
    x = simulated(q=3, d=9)
    rows = punched(np.random.default_rng(14), np.column_stack([x, 5 * x[:, 4]]), 0.1)
    with pytest.warns(ConvergenceWarning, match="Drop the columns that repeat others"):
        factors = fitted(rows, n_components=3, tol=1e-3)  # two columns without noise, and room for three
    assert_array_equal(factors.heywood_features_, [4, 9])
    assert fitted(rows[:, :9], n_components=3, tol=1e-3).converged_


@pytest.mark.filterwarnings("ignore:the noise variance:UserWarning")
@pytest.mark.parametrize("seed", [1, 4, 51, 81, 101, 110, 148])
def test_heywood_cases_do_not_depend_on_the_tolerance(seed):
    rng = np.random.default_rng(seed)
    d, q = int(rng.integers(5, 12)), int(rng.integers(1, 4))
    W = rng.standard_normal((d, q)) * (rng.random((d, q)) < 0.6)
    x = rng.standard_normal((80, q)) @ W.T + rng.standard_normal((80, d)) * rng.uniform(0.4, 1.2, d)
    loose, tight = (fitted(x, n_components=q, tol=tol) for tol in (1e-3, 1e-8))
    assert_array_equal(loose.heywood_features_, tight.heywood_features_)
    assert largest_fall(loose.trace_) < 1e-12


def test_the_noise_stays_above_the_floor_of_each_column(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        factors = fitted(x, floor=0.6)
    share = factors.noise_variance_ / np.nanvar(x, axis=0)
    assert share.min() >= 0.6 * (1 - 1e-9)
    assert_array_equal(np.flatnonzero(share < 0.6 * 1.001), factors.heywood_features_)


def test_constant_and_empty_columns_have_no_loadings():
    x = punched(np.random.default_rng(6), simulated(), 0.1)
    x[:, 2], x[:, 5] = 7.0, np.nan
    with pytest.warns(UserWarning, match="no observed cells"):
        factors = fitted(x)
    assert_allclose(factors.loadings_[[2, 5]], 0.0, atol=1e-6)
    assert_array_equal(factors.empty_features_, [5])
    assert 2 not in factors.heywood_features_
    rest = [0, 1, 3, 4, 6, 7]
    others = fitted(x[:, rest])
    assert_allclose(factors.get_covariance()[np.ix_(rest, rest)], others.get_covariance(), atol=1e-3)


@pytest.mark.parametrize("make", [partial(PPCA, Q), partial(FactorAnalysis, Q)], ids=["PPCA", "FactorAnalysis"])
def test_draws_and_intervals_cover_held_out_cells(make):
    whole = simulated(7, n=400)
    x = punched(np.random.default_rng(8), whole, 0.2)
    model = make(random_state=0, n_parameter_draws=10).fit(x)
    low, high = model.impute_interval(x, level=0.9)
    held = np.isnan(x)
    covered = ((whole >= low) & (whole <= high))[held].mean()
    assert abs(covered - 0.9) < 6 * np.sqrt(0.9 * 0.1 / held.sum()) + 0.02
    drawn = model.impute_draws(x, 10, random_state=0)
    assert_array_equal(drawn[0][~held], x[~held])
    inside = ((drawn >= low) & (drawn <= high))[:, held].mean()
    assert abs(inside - 0.9) < 0.03


def test_too_many_factors_are_refused(x):
    with pytest.raises(ShapeError, match="n_components must"):
        FactorAnalysis(D).fit(x)
    with pytest.raises(ShapeError, match=r"at most n_samples - 2 = 3"):
        FactorAnalysis(4).fit(simulated()[:5])
    with pytest.raises(DataError, match="rotation"):
        FactorAnalysis(Q, rotation="sideways").fit(x)


def test_more_factors_than_the_bound_of_ledermann_are_noted(x):
    factors = FactorAnalysis(6, random_state=0, max_iter=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        factors.fit(x)
    assert any("Ledermann" in note for note in factors.notes_)


@pytest.mark.parametrize("rule", [None, "parallel", "bic", "aic"])
def test_rules_find_the_number_of_factors(rule):
    x = simulated(9, n=1000, d=12, q=3)
    complete = FactorAnalysis(rule, random_state=0).fit(x)
    holey = FactorAnalysis(rule, random_state=0).fit(punched(np.random.default_rng(10), x, 0.1))
    assert complete.n_components_ == holey.n_components_ == 3
    assert complete.rule_.split()[0].lower() in {"parallel", "bic", "aic"}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("rule", ["bic", "aic"])
def test_rules_find_the_factors_of_repeated_columns_and_of_tables_without_noise(rule):
    rng, x = np.random.default_rng(11), simulated(9, n=1000, d=12, q=3)
    repeated = punched(rng, np.column_stack([x, 2 * x[:, 0]]), 0.1)  # a factor that is the repeated column, and noise
    assert FactorAnalysis(rule, random_state=0).fit(repeated).n_components_ == 4
    exact = punched(rng, rng.standard_normal((200, 3)) @ rng.standard_normal((3, 20)), 0.1)
    assert FactorAnalysis(rule, random_state=0).fit(exact).n_components_ == 3


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_constant_and_empty_columns_do_not_change_the_number_of_factors():
    """Each would make a further factor dearer by log n / 2, if its loadings counted as parameters."""
    x = punched(np.random.default_rng(13), simulated(1, n=80, d=10, q=3), 0.1)
    wide = np.column_stack([x, np.full((80, 12), 3.0), np.full((80, 3), np.nan)])
    factors = FactorAnalysis("bic", random_state=0)
    assert factors.fit(x).n_components_ == factors.fit(wide).n_components_ == 3


def test_the_summary_names_factors_loadings_and_correlations():
    wine = load_wine(as_frame=True).data
    text = FactorAnalysis(3, rotation="oblimin").fit(wine).summary()
    for words in (
        "FactorAnalysis: 178 rows x 13 features, 3 factors (as given), rotation oblimin",
        "F3",
        "correlations",
    ):
        assert words in text
    assert max(map(len, text.splitlines()[:8])) <= 88


@pytest.mark.parametrize("ask", ["summary", "fit_indices", "uncertainty", "sample", "get_covariance"])
def test_before_a_fit_there_is_nothing_to_tell(ask):
    with pytest.raises(NotFittedError):
        getattr(FactorAnalysis(), ask)()
    with pytest.raises(NotFittedError):
        FactorAnalysis().rotate("varimax")


def test_fit_indices_follow_from_the_moments_or_the_rows(x, tmp_path):
    factors = fitted(x)
    missing = bool(np.isnan(x).any())
    if missing:
        with pytest.raises(DataError, match="needs the training rows"):
            factors.fit_indices()
        assert "RMSEA" not in factors.summary()
    found = factors.fit_indices(x)
    if not missing:
        alone = fitted(x).fit_indices()
        assert_allclose(alone.numbers(), found.numbers(), rtol=1e-6, atol=1e-6)
    assert "RMSEA" in factors.summary()
    factors.to_file(tmp_path / "factors.npz")
    again = FactorAnalysis.from_file(tmp_path / "factors.npz")
    assert_allclose(again.fit_indices().numbers(), found.numbers())
    assert again.summary() == factors.summary()


def test_fit_indices_come_from_any_kind_of_rows_and_name_columns(tmp_path):
    x = punched(np.random.default_rng(3), simulated(), 0.1)
    x[:, 1] = 2.0
    frame = pd.DataFrame(x, columns=NAMES)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    expected = fitted(frame).fit_indices(frame)
    assert "left out: test 1." in expected.note
    for rows in (tmp_path / "rows.csv", [frame[:50], frame[50:]], iter([frame[:50], frame[50:]])):
        found = fitted(frame).fit_indices(rows)
        assert_allclose(found.numbers(), expected.numbers(), rtol=1e-6, atol=1e-6)
        assert found.note == expected.note
    kept = fitted(frame, keep_source=True)
    assert_allclose(kept.fit_indices().numbers(), expected.numbers(), rtol=1e-6, atol=1e-6)
    assert "RMSEA" in kept.summary()
    with pytest.raises(DataError, match=r"fit_indices\(\) needs the training rows"):
        fitted(frame).fit_indices()
    with pytest.raises(DataError, match="X must be the training rows"):
        fitted(frame).fit_indices([frame[:50]])
    with pytest.raises(SourceError, match=r"fit_indices\(\) needs rows in memory if they have weights"):
        fitted(frame).fit_indices([frame], sample_weight=np.ones(N))
    complete = pd.DataFrame(np.column_stack([simulated(), np.ones(N)]), columns=[*NAMES, "flat"])
    assert "left out: flat." in fitted(complete).fit_indices().note


def test_the_summary_says_what_is_doubtful_about_fit_indices():
    wine = load_wine().data
    with pytest.warns(UserWarning, match="Heywood"):
        few, many = FactorAnalysis(4).fit(wine), FactorAnalysis(9).fit(wine)  # nine leave nothing to test
    doubt = "chi-square are not to be trusted"
    assert doubt in few.summary()
    assert doubt not in many.summary()
    for share, missing in ((0.02, False), (0.1, True)):
        x = punched(np.random.default_rng(16), wine, share)
        factors = FactorAnalysis(2).fit(x)
        assert "of the cells are missing" not in factors.summary()
        note = factors.fit_indices(x).note
        assert ("of the cells are missing" in factors.summary()) == missing
        assert not missing or f"note              {note}" in factors.summary()


def test_the_summary_says_if_nothing_is_tested_or_the_rotation_has_not_converged():
    with pytest.warns(ConvergenceWarning, match="rotation 'geomin' did not converge"):
        factors = fitted(simulated(d=4), rotation="geomin", rotation_options={"max_iter": 1})
    text = factors.summary()
    assert "no test: -1 degrees of freedom are left" in text
    assert "nan" not in text
    assert "The rotation geomin had not converged after 1 iteration: its loadings are approximate." in text
    assert "had not converged" not in factors.rotate("varimax").summary()


def test_streamed_moments_give_fit_indices_too():
    x = simulated()
    streamed = FactorAnalysis(Q, tol=1e-8).partial_fit(x[:50]).partial_fit(x[50:])
    assert_allclose(streamed.fit_indices().numbers(), fitted(x).fit_indices().numbers(), rtol=1e-6)


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
def test_standard_errors_agree_with_refits_to_simulated_rows(rotation):
    truth = fitted(simulated(n=400), rotation=rotation)
    sure = truth.uncertainty()
    assert sure.information == "expected"
    drawn = []
    for seed in range(60):
        again = FactorAnalysis(Q, rotation=rotation, random_state=0).fit(truth.sample(400, random_state=seed))
        match = truth.standardized_loadings_.T @ again.standardized_loadings_
        order = np.abs(match).argmax(axis=1)
        drawn.append(again.standardized_loadings_[:, order] * np.sign(match[np.arange(Q), order]))
    ratio = np.std(drawn, axis=0) / sure.loadings.standard_error
    assert abs(np.log(ratio).mean()) < 0.15  # 60 draws give a standard deviation to 9%, and 16 loadings average


def test_standard_errors_with_missing_cells_need_the_rows_and_grow():
    whole = simulated(n=300)
    x = punched(np.random.default_rng(11), whole, 0.3)
    holey = fitted(x, rotation="oblimin")
    with pytest.raises(DataError, match="training rows"):
        holey.uncertainty()
    sure = holey.uncertainty(x)
    assert sure.information == "observed"
    kept = fitted(x, rotation="oblimin", keep_source=True).uncertainty()
    assert_allclose(kept.loadings.standard_error, sure.loadings.standard_error, rtol=1e-4)
    complete = fitted(whole, rotation="oblimin").uncertainty()
    assert np.median(sure.loadings.standard_error / complete.loadings.standard_error) > 1.1
    low, high = sure.factor_correlations.interval()
    assert (low <= holey.factor_correlations_ + 1e-12).all()
    assert (high >= holey.factor_correlations_ - 1e-12).all()
    assert_allclose(np.diag(low), 1.0)


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_the_unit_of_weights_of_cells_changes_neither_standard_errors_nor_fit_indices(x, weight):
    plain = fitted(x, rotation="varimax")
    missing = bool(np.isnan(x).any())
    cells = np.full(x.shape, weight)
    weighted = FactorAnalysis(Q, rotation="varimax", tol=1e-8, random_state=0).fit(x, cell_weight=cells)
    wanted = plain.uncertainty(x) if missing else plain.uncertainty()
    found = weighted.uncertainty(x, cell_weight=cells)
    assert_allclose(found.loadings.value, weighted.standardized_loadings_, atol=1e-12)
    assert_allclose(found.uniquenesses.value, weighted.uniquenesses_, atol=1e-12)
    assert_allclose(found.loadings.standard_error, wanted.loadings.standard_error, rtol=0.02, atol=1e-4)
    indices = weighted.fit_indices(x, cell_weight=cells)
    assert_allclose(indices.chi_square, plain.fit_indices(x).chi_square, rtol=1e-4)
    for question in (weighted.fit_indices, weighted.uncertainty):
        if weighted.information_.shape[1] > 1 or question == weighted.fit_indices:
            with pytest.raises(DataError, match="had weights"):
                question(x)


def test_a_rotated_stream_goes_on():
    x = simulated()
    rotated = FactorAnalysis(Q, tol=1e-8).partial_fit(x[:60]).rotate("varimax")
    rotated.partial_fit(x[60:])
    assert rotated.n_samples_ == N
    assert_allclose(rotated.loadings_, fitted(x, rotation="varimax").loadings_, atol=1e-6)


@pytest.mark.parametrize("options", [{"gama": 1}, {"gamma": 0.5}, {"start": 1}, {"max_iter": 0}])
def test_wrong_options_of_a_rotation_are_refused_before_the_fit(options, monkeypatch):
    x = simulated()
    rotated = fitted(x, rotation="varimax")
    monkeypatch.setattr("probpca.estimators.factor_analysis.fit_rows", lambda *_: pytest.fail("fitted"))
    for act in (
        lambda: FactorAnalysis(Q, rotation="varimax", rotation_options=options).fit(x),
        lambda: FactorAnalysis(Q, rotation="varimax", rotation_options=options).partial_fit(x),
        lambda: rotated.rotate("varimax", **options),
    ):
        with pytest.raises((DataError, ShapeError)):
            act()


def test_the_kind_of_scores_can_be_changed_after_the_fit(x):
    factors, bartlett = fitted(x), fitted(x, scores="bartlett")
    assert_allclose(factors.set_params(scores="bartlett").transform(x), bartlett.transform(x))
    assert_allclose(factors.project(x), bartlett.transform(x))
    assert_allclose(factors.reconstruct(x), factors.project(x) @ factors.components_ + factors.mean_, rtol=1e-8)


def test_standard_errors_belong_to_the_rotation_of_the_fit():
    factors = fitted(simulated(), rotation="varimax", rotation_options={"kaiser": False})
    wanted = factors.uncertainty().loadings.standard_error
    factors.set_params(rotation="oblimin", rotation_options={"gamma": 0.1})
    assert_allclose(factors.uncertainty().loadings.standard_error, wanted)


def test_a_rotation_that_does_not_converge_is_mentioned():
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        fitted(simulated()).rotate("geomin", max_iter=1)
