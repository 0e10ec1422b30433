"""A standardised fit is the fit of the scaled columns; only means, rows and likelihoods have the units of the data."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from oracles import dense_covariance, dense_observed_log_likelihood, dense_observed_posterior, spiked_rows
from probpca import PPCA, BayesianPCA, DataError, LinearDynamicalSystem, PPCAImputer

N, D, Q = 60, 6, 2
UNITS = np.geomspace(1e-3, 1e3, D)
OF_SCALED = (
    "components_",
    "loadings_",
    "explained_variance_",
    "explained_variance_ratio_",
    "noise_variance_",
)
"""Attributes that belong to the scaled columns."""

ARRESTS = """
13.2 236 58 21.2  10.0 263 48 44.5   8.1 294 80 31.0   8.8 190 50 19.5   9.0 276 91 40.6
 7.9 204 78 38.7   3.3 110 77 11.1   5.9 238 72 15.8  15.4 335 80 31.9  17.4 211 60 25.8
 5.3  46 83 20.2   2.6 120 54 14.2  10.4 249 83 24.0   7.2 113 65 21.0   2.2  56 57 11.3
 6.0 115 66 18.0   9.7 109 52 16.3  15.4 249 66 22.2   2.1  83 51  7.8  11.3 300 67 27.8
 4.4 149 85 16.3  12.1 255 74 35.1   2.7  72 66 14.9  16.1 259 44 17.1   9.0 178 70 28.2
 6.0 109 53 16.4   4.3 102 62 16.5  12.2 252 81 46.0   2.1  57 56  9.5   7.4 159 89 18.8
11.4 285 70 32.1  11.1 254 86 26.1  13.0 337 45 16.1   0.8  45 44  7.3   7.3 120 75 21.4
 6.6 151 68 20.0   4.9 159 67 29.3   6.3 106 72 14.9   3.4 174 87  8.3  14.4 279 48 22.5
 3.8  86 45 12.8  13.2 188 59 26.9  12.7 201 80 25.5   3.2 120 80 22.9   2.2  48 32 11.2
 8.5 156 63 20.7   4.0 145 73 26.2   5.7  81 39  9.3   2.6  53 66 10.8   6.8 161 60 15.6
"""
"""Murder, Assault, UrbanPop and Rape in the 50 states of the USA in 1973: USArrests of R, McNeil (1977)."""


@pytest.fixture
def x(rng):
    return spiked_rows(rng, N, D, Q, noise=0.3) * UNITS + 5 * UNITS


@pytest.fixture
def holed(x, rng):
    return np.where(rng.random(x.shape) < 0.15, np.nan, x)


def svd_oracle(x, weight=None):
    """Scales, singular vectors and values of the centred and scaled rows, divided by n."""
    weight = np.ones(len(x)) if weight is None else weight
    n, mean = weight.sum(), np.average(x, axis=0, weights=weight)
    scale = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    _, values, axes = np.linalg.svd(np.sqrt(weight)[:, None] * (x - mean) / scale, full_matrices=False)
    largest = np.abs(axes).argmax(axis=1)
    axes *= np.sign(axes[np.arange(len(axes)), largest])[:, None]
    return mean, scale, values**2 / n, axes


def assert_is_the_svd(ppca, x, weight=None, tol=1e-8):
    mean, scale, lam, axes = svd_oracle(x, weight)
    q, d = ppca.n_components_, x.shape[1]
    noise = lam[q:].sum() / (d - q)
    wanted = {
        "mean_": mean,
        "scale_": scale,
        "components_": axes[:q],
        "explained_variance_": lam[:q],
        "explained_variance_ratio_": lam[:q] / d,
        "noise_variance_": noise,
        "loadings_": axes[:q].T * np.sqrt(lam[:q] - noise),
    }
    for name, value in wanted.items():
        assert_allclose(getattr(ppca, name), value, rtol=tol, atol=tol, err_msg=name)
    assert isinstance(ppca.noise_variance_, float)
    z = (x - mean) / scale
    assert_allclose(ppca.project(x), z @ axes[:q].T, atol=10 * tol)
    assert_allclose(ppca.transform(x), z @ axes[:q].T * np.sqrt(lam[:q] - noise) / lam[:q], atol=10 * tol)


def streamed(x, weight=None):
    ppca = PPCA(Q, standardize=True)
    for rows in np.array_split(np.arange(len(x)), 7):
        ppca.partial_fit(x[rows], sample_weight=None if weight is None else weight[rows])
    return ppca


WAYS = {
    "array": lambda x, w: PPCA(Q, standardize=True).fit(x, sample_weight=w),
    "dataframe": lambda x, w: PPCA(Q, standardize=True).fit(pd.DataFrame(x), sample_weight=w).fit(x, sample_weight=w),
    "sparse": lambda x, w: PPCA(Q, standardize=True).fit(sparse.csr_array(x), sample_weight=w),
    "stream": streamed,
    "svd": lambda x, w: PPCA(Q, standardize=True, solver="svd").fit(x, sample_weight=w),
    "krylov": lambda x, w: PPCA(Q, standardize=True, solver="krylov", tol=1e-12).fit(x, sample_weight=w),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_it_is_the_singular_value_decomposition_of_the_scaled_table(x, rng, way, weighted):
    weight = rng.integers(0, 4, N).astype(float) if weighted else None
    assert_is_the_svd(way(x, weight), x, weight)


def test_merged_streams_and_batches_are_the_decomposition_of_all_rows(x):
    assert_is_the_svd(streamed(x[:23]).merge(streamed(x[23:])), x)
    assert_is_the_svd(PPCA(Q, standardize=True).fit([x[:23], x[23:]]), x)


def test_with_fewer_rows_than_columns_too(rng):
    x = spiked_rows(rng, 12, 40, Q) * rng.uniform(0.01, 100, 40)
    assert_is_the_svd(PPCA(Q, standardize=True).fit(x), x)


def test_single_precision_is_the_decomposition_of_the_same_numbers(x):
    single = x.astype(np.float32)
    ppca, (_, _, lam, axes) = PPCA(Q, standardize=True).fit(single), svd_oracle(single.astype(np.float64))
    assert_allclose(ppca.explained_variance_, lam[:Q], rtol=1e-5)
    assert_allclose(ppca.components_, axes[:Q], atol=1e-5)
    assert_allclose(ppca.project(single), PPCA(Q, standardize=True).fit(x).project(x), atol=1e-4)


def test_the_published_components_of_violent_crime():
    x = np.array(ARRESTS.split(), dtype=float).reshape(50, 4)
    ppca = PPCA(3, standardize=True).fit(x)
    # prcomp(USArrests, scale. = TRUE) of R divides by n - 1: standard deviations, shares and the first axes.
    deviations = np.sqrt([*ppca.explained_variance_, ppca.noise_variance_])
    assert_allclose(deviations, [1.5748783, 0.9948694, 0.5971291, 0.4164494], rtol=1e-6)
    assert_array_equal((100 * ppca.explained_variance_ratio_).round(1), [62.0, 24.7, 8.9])
    assert_allclose(ppca.components_[0], [0.5358995, 0.5831836, 0.2781909, 0.5434321], atol=1e-6)
    assert_allclose(ppca.components_[1], [-0.4181809, -0.1879856, 0.8728062, 0.1673186], atol=1e-6)


def test_loadings_are_correlations_of_columns_and_components(x):
    ppca = PPCA(Q, standardize=True).fit(x)
    correlation = np.corrcoef(x.T, ppca.project(x).T)[:D, D:]
    signal = 1 - ppca.noise_variance_ / ppca.explained_variance_  # what the noise leaves of a variance
    assert_allclose(ppca.loadings_, correlation * np.sqrt(signal), atol=1e-10)


# The same as scaling first

FITS = {
    "PPCA": lambda x, **options: PPCA(Q, random_state=0, tol=1e-6, **options).fit(x),
    "BayesianPCA": lambda x, **options: BayesianPCA(4, random_state=0, tol=1e-6, **options).fit(x),
    "PPCAImputer": lambda x, **options: (
        PPCAImputer(Q, model="ppca", random_state=0, tol=1e-6, **options).fit(x).estimator_
    ),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("complete", [True, False])
def test_it_is_a_fit_after_a_scaler(x, holed, fit, complete):
    x = x if complete else holed
    scaler = StandardScaler(with_mean=False).fit(x)
    scaled = scaler.transform(x)
    found, wanted = fit(x, standardize=True), fit(scaled, standardize=False)
    assert_allclose(found.scale_, scaler.scale_, rtol=1e-12)
    assert wanted.scale_ is None
    for name in OF_SCALED:
        assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-8, atol=1e-8, err_msg=name)
    assert_allclose(found.mean_, scaler.scale_ * wanted.mean_, rtol=1e-9)
    for ask in ("transform", "project"):
        assert_allclose(getattr(found, ask)(x), getattr(wanted, ask)(scaled), rtol=1e-7, atol=1e-7, err_msg=ask)
    for ask in ("reconstruct", "impute"):
        answer = getattr(found, ask)(x)
        assert_allclose(answer / scaler.scale_, getattr(wanted, ask)(scaled), rtol=1e-7, atol=1e-7, err_msg=ask)
    assert_allclose(found.outliers(x).distance, wanted.outliers(scaled).distance, rtol=1e-7)
    std, others = found.impute(x, return_std=True)[1], wanted.impute(scaled, return_std=True)[1]
    assert_allclose(std / scaler.scale_, others, rtol=1e-6)
    if isinstance(found, BayesianPCA):
        assert_allclose(found.relevance_, wanted.relevance_, rtol=1e-8)
        assert isinstance(found.noise_variance_, float)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("complete", [True, False])
def test_units_change_the_mean_and_the_scales_and_nothing_else(x, holed, fit, complete):
    x = x if complete else holed
    by = np.array([1e4, 7.0, 1e-3, 1.0, 60.0, 0.2])
    plain, other = fit(x, standardize=True), fit(x * by, standardize=True)
    for name in OF_SCALED:
        assert_allclose(getattr(other, name), getattr(plain, name), rtol=1e-8, atol=1e-8, err_msg=name)
    assert_allclose(other.transform(x * by), plain.transform(x), rtol=1e-7, atol=1e-7)
    assert_allclose(other.project(x * by), plain.project(x), rtol=1e-7, atol=1e-7)
    assert_allclose(other.scale_, by * plain.scale_, rtol=1e-12)
    assert_allclose(other.mean_, by * plain.mean_, rtol=1e-9)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_the_model_has_the_units_of_the_data_and_the_axes_of_the_scaled_columns(holed, fit):
    holed = holed / UNITS * np.geomspace(0.1, 10, D)  # the oracle forms dense covariances
    found = fit(holed, standardize=True)
    assert_allclose(found.model_.loadings, found.scale_[:, None] * found.loadings_, rtol=1e-12)
    assert_allclose(found.transform(holed), dense_observed_posterior(found.model_, holed).mean, rtol=1e-7, atol=1e-7)
    assert_allclose(found.score_samples(holed), dense_observed_log_likelihood(found.model_, holed), rtol=1e-9)
    assert_allclose(found.get_covariance(), dense_covariance(found.model_), rtol=1e-9)
    # The posterior of a complete row has no correlations along principal axes.
    covariance = found.posterior(np.zeros((1, D))).covariance[0]
    assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9 if isinstance(found, PPCA) else 1e-3)


def test_variances_are_sorted_whatever_the_units():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((30, 8)) * rng.permutation(np.geomspace(0.1, 10, 8))
        ppca = PPCA(3, standardize=True).fit(x)
        assert (np.diff(ppca.explained_variance_) <= 0).all(), seed
        assert ppca.explained_variance_ratio_.sum() <= 1


# Between rows and coordinates


def test_coordinates_of_a_row_with_holes_are_those_of_the_nearest_point_in_scaled_space(x, holed):
    ppca = PPCA(Q, standardize=True).fit(x)
    z = (holed - ppca.mean_) / ppca.scale_
    found, nearest = ppca.project(holed), ppca.reconstruct(holed)
    for row, scores, point in zip(z, found, nearest, strict=True):
        seen = ~np.isnan(row)
        wanted = np.linalg.lstsq(ppca.components_[:, seen].T, row[seen])[0]
        assert_allclose(scores, wanted, atol=1e-9)
        assert_allclose(point, ppca.mean_ + ppca.scale_ * (wanted @ ppca.components_), rtol=1e-9)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_latent_variables_lead_back_to_the_units_of_the_data(holed, fit, rng):
    found = fit(holed, standardize=True)
    z = rng.standard_normal((5, found.n_components_))
    assert_allclose(found.inverse_transform(z), found.scale_ * (z @ found.loadings_.T) + found.mean_, rtol=1e-12)


# Edges


@pytest.mark.parametrize("sign", [1, -1])
def test_axes_and_loadings_of_two_columns_have_the_same_signs_in_all_units(rng, sign):
    x = rng.standard_normal((40, 1)) * [1.0, sign] + 0.3 * rng.standard_normal((40, 2))
    for units in np.exp(5 * rng.standard_normal((50, 2))):
        ppca = PPCA(1, standardize=True).fit(x * units)
        assert_allclose(ppca.components_, [[np.sqrt(0.5), sign * np.sqrt(0.5)]], rtol=1e-9)
        assert_allclose(np.sign(ppca.loadings_.T), np.sign(ppca.components_))
        assert ppca.transform(x * units)[:, 0] @ x[:, 0] > 0


def test_a_constant_column_and_an_empty_one_have_scale_one(x):
    x[:, 1], x[:, 4] = 3.0, np.nan
    with pytest.warns(UserWarning, match="no observed cells in 1"):
        ppca = PPCA(Q, standardize=True).fit(x)
    assert_array_equal(ppca.scale_[[1, 4]], 1.0)
    assert_allclose(ppca.loadings_[[1, 4]], 0, atol=1e-9)
    assert_allclose(ppca.scale_[[0, 2, 3, 5]], x.std(axis=0)[[0, 2, 3, 5]], rtol=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_a_share_of_variance_is_that_of_the_scaled_columns(x, holed, share):
    for rows in (x, holed):
        ppca = PPCA(share, standardize=True, random_state=0).fit(rows)
        together = np.cumsum(ppca.explained_variance_ratio_)
        assert together[-1] >= share
        assert ppca.rule_ == f"at least {share} of the variance"
        assert (together[:-1] < share + 0.01).all()
    lam = svd_oracle(x)[2]
    assert PPCA(share, standardize=True).fit(x).n_components_ == np.argmax(np.cumsum(lam) / D >= share) + 1


@pytest.mark.parametrize("kind", [PPCA, BayesianPCA, PPCAImputer])
@pytest.mark.parametrize("standardize", [True, False])
def test_a_file_keeps_the_scales(holed, tmp_path, kind, standardize):
    model = {"model": "ppca"} if kind is PPCAImputer else {}
    estimator = kind(Q, standardize=standardize, random_state=0, **model).fit(holed)
    estimator.to_file(tmp_path / "fit.npz")
    found, wanted = (getattr(one, "estimator_", one) for one in (kind.from_file(tmp_path / "fit.npz"), estimator))
    for name in (*OF_SCALED, "mean_"):
        assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert_array_equal(found.project(holed), wanted.project(holed))
    assert (found.scale_ is None) == (not standardize)
    if standardize:
        assert_array_equal(found.scale_, wanted.scale_)


def test_the_summary_says_that_columns_were_scaled(x):
    assert "60 rows x 6 features scaled to unit variance, 2 components" in PPCA(Q, standardize=True).fit(x).summary()
    assert "scaled" not in PPCA(Q).fit(x).summary()


# Uncertainty


@pytest.mark.parametrize("complete", [True, False])
def test_uncertainty_is_that_of_the_scaled_columns(x, holed, complete):
    x = x if complete else holed
    ppca = PPCA(Q, standardize=True, random_state=0).fit(x)
    sure = ppca.uncertainty(x, n_draws=20)
    for name in ("components", "loadings", "explained_variance", "noise_variance", "mean"):
        estimate = getattr(sure, name)
        assert_allclose(estimate.value, getattr(ppca, f"{name}_"), rtol=1e-9, atol=1e-12, err_msg=name)
        assert estimate.standard_error.shape == estimate.value.shape
    # Standard errors of loadings near 1 are below those of correlations of 0, about n^-1/2, in any units.
    assert sure.loadings.standard_error.max() < 3 / np.sqrt(N)


def test_loadings_of_scaled_columns_are_more_certain_than_those_of_scales(rng):
    # A correlation near 1 hardly varies from sample to sample, while a standard deviation varies by (2 n)^-1/2.
    x = rng.standard_normal((100, 1)) * np.array([3.0, 2.0, 1.0]) + 0.05 * rng.standard_normal((100, 3))
    scaled = PPCA(1, standardize=True, random_state=0).fit(x).uncertainty(x, n_draws=50).loadings
    plain = PPCA(1, random_state=0).fit(x).uncertainty(x, n_draws=50).loadings
    assert (scaled.standard_error[:, 0] < 0.005).all()
    assert (plain.standard_error[:, 0] / plain.value[:, 0] > 0.04).all()


def test_uncertainty_needs_one_noise_variance(x):
    system = LinearDynamicalSystem(1, transition="stable", random_state=0, tol=1.0).fit(x)
    with pytest.raises(DataError, match=r"one noise variance; this one has a noise variance for each feature\.\nHint"):
        system.to_ppca().uncertainty(x)
