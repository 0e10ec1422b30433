"""float32 rows get float32 answers: computed in double precision, and rounded once."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from probpca import PPCA, BayesianPCA, LinearDynamicalSystem, PPCAImputer

RNG = np.random.default_rng(5)
X = (RNG.standard_normal((60, 2)) @ RNG.standard_normal((2, 5)) + 0.3 * RNG.standard_normal((60, 5))).astype(np.float32)
GAPS = np.where(RNG.random(X.shape) < 0.15, np.float32(np.nan), X)
TABLES = [PPCA(2, random_state=0, keep_source=True), PPCA(2, standardize=True), BayesianPCA(3, random_state=0)]
ROUNDED = {
    "transform": lambda e, x: e.transform(x),
    "project": lambda e, x: e.project(x),
    "reconstruct": lambda e, x: e.reconstruct(x),
    "impute": lambda e, x: e.impute(x),
    "impute training rows": lambda e, x: e.impute(x, training=True),
    "impute with std": lambda e, x: np.stack(e.impute(x, return_std=True)),
    "impute_interval": lambda e, x: np.stack(e.impute_interval(x)),
    "explore": lambda e, x: e.explore(x, 2, random_state=0),
}


@pytest.mark.parametrize("estimator", TABLES, ids=["PPCA", "standardize", "BayesianPCA"])
@pytest.mark.parametrize("rows", [X, GAPS], ids=["complete", "missing"])
def test_single_precision_is_double_precision_rounded_once(estimator, rows):
    estimator.fit(GAPS)
    for name, question in ROUNDED.items():
        single, double = question(estimator, rows), question(estimator, rows.astype(np.float64))
        assert (single.dtype, double.dtype) == (np.float32, np.float64), name
        assert_array_equal(single, double.astype(np.float32), err_msg=name)
    latent = estimator.transform(rows)
    back = estimator.inverse_transform(latent)
    assert back.dtype == np.float32
    assert_array_equal(back, estimator.inverse_transform(latent.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.float16, bool])
def test_other_numbers_get_double_precision(kind):
    rows = np.round(10 * X).astype(kind)
    estimator = PPCA(2).fit(X)
    assert {question(estimator, rows).dtype for question in ROUNDED.values()} == {np.dtype(np.float64)}
    assert estimator.inverse_transform(np.ones((3, 2), int)).dtype == np.float64


def test_observed_cells_come_back_bit_for_bit():
    seen = ~np.isnan(GAPS)
    for filled in (
        PPCA(2).fit(GAPS).impute(GAPS),
        PPCA(2, keep_source=True).fit(GAPS).impute_draws(GAPS, 1)[0],
        PPCAImputer().fit_transform(GAPS),
        LinearDynamicalSystem(1, tol=1e6).fit(GAPS).impute(GAPS),
    ):
        assert filled.dtype == np.float32
        assert_array_equal(filled[seen].view(np.int32), GAPS[seen].view(np.int32))


def test_likelihoods_and_posteriors_stay_in_double_precision():
    ppca = PPCA(2).fit(GAPS)
    assert ppca.score_samples(GAPS).dtype == ppca.posterior(GAPS).mean.dtype == ppca.outliers(GAPS).p_value.dtype
    assert ppca.score_samples(GAPS).dtype == np.float64


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_single_precision_come_back_as_such(library):
    frame = pd.DataFrame(GAPS, columns=list("abcde"))
    frame = frame if library == "pandas" else pl.from_pandas(frame)
    system = LinearDynamicalSystem(1, tol=1e6)
    for estimator in (PPCA(2), BayesianPCA(2), system):
        estimator.set_output(transform=library).fit(frame)
        low, high = estimator.impute_interval(frame)
        for answer in (estimator.transform(frame), estimator.impute(frame), low, high):
            assert {str(kind).lower() for kind in answer.dtypes} == {"float32"}
    mixed = frame.assign(a=1.0) if library == "pandas" else frame.with_columns(pl.lit(1.0).alias("a"))
    assert {str(kind).lower() for kind in PPCA(2).fit(frame).impute(mixed).dtypes} == {"float64"}
    assert {str(kind).lower() for kind in system.impute(mixed).dtypes} == {"float64"}


def test_rows_keep_their_precision_wherever_they_are(tmp_path):
    ppca = PPCA(2).fit(GAPS)
    expected = ppca.transform(GAPS)
    np.save(tmp_path / "rows.npy", GAPS)
    for rows in ([GAPS[:30], GAPS[30:]], tmp_path / "rows.npy"):
        found = ppca.transform(rows)
        assert found.dtype == np.float32
        assert_array_equal(found, expected)
    ppca.transform(GAPS, out=tmp_path / "latent.npy")  # files take what was computed
    assert_array_equal(np.load(tmp_path / "latent.npy"), ppca.transform(GAPS.astype(np.float64)))
    assert ppca.transform(sparse.csr_array(X)).dtype == np.float32


def test_sequences_have_the_precision_of_their_own():
    system = LinearDynamicalSystem(1, tol=1e6).fit([GAPS[:30], GAPS[30:].astype(np.float64)])
    for question in (system.transform, system.impute):
        first, second = question([GAPS[:30], GAPS[30:].astype(np.float64)])
        assert (first.dtype, second.dtype) == (np.float32, np.float64)
    assert system.inverse_transform(np.ones((3, 1), np.float32)).dtype == np.float32


def in_npy(x, folder):
    path = folder / f"{x.dtype}.npy"
    np.save(path, x)
    return path


def in_parquet(x, folder):
    path = folder / f"{x.dtype}.parquet"
    pl.DataFrame(x).with_columns(pl.all().fill_nan(None)).write_parquet(path)
    return path


PLACES = {
    "array": lambda x, _: x,
    "array by columns": lambda x, _: np.asfortranarray(x),
    "frame": lambda x, _: pd.DataFrame(x),
    "sparse": lambda x, _: sparse.csr_array(x),
    "npy": in_npy,
    "parquet": in_parquet,
    "batches": lambda x, _: np.array_split(x, 4),
    "iterator": lambda x, _: iter(np.array_split(x, 4)),
}
FITS = {
    "PPCA": lambda: PPCA(2, standardize=True, random_state=0),
    "svd": lambda: PPCA(2, standardize=True, random_state=0, solver="svd"),
    "px_em": lambda: PPCA(2, standardize=True, random_state=0, solver="px_em"),
    "BayesianPCA": lambda: BayesianPCA(2, standardize=True, random_state=0),
}


def far_rows(offset, *, missing):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((90, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((90, 5))
    x = (np.geomspace(0.1, 100, 5) * (x + offset)).astype(np.float32)
    return np.where(rng.random(x.shape) < 0.1, np.float32(np.nan), x) if missing else x


@pytest.mark.parametrize("offset", [1e0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_standardized_fit_of_single_precision_is_that_of_the_same_numbers(tmp_path, fit, place, missing, offset):
    if missing and fit is FITS["svd"]:
        pytest.skip("the solver is for complete rows")
    x = far_rows(offset, missing=missing)
    single, double = (fit().fit(place(rows, tmp_path)) for rows in (x, x.astype(np.float64)))
    wanted = double.get_covariance()
    assert_allclose(single.get_covariance(), wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())
    assert_allclose(single.mean_, double.mean_, rtol=1e-12)
    assert single.status_ == double.status_


@pytest.mark.parametrize("offset", [1e0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_fit_of_single_precision_with_missing_cells_is_that_of_the_same_numbers(kind, offset):
    x = far_rows(offset, missing=True)
    single, double = (PPCA(2, random_state=0, tol=1e-9).fit(kind(rows)) for rows in (x, x.astype(np.float64)))
    wanted = double.get_covariance()
    assert_allclose(single.get_covariance(), wanted, rtol=0, atol=1e-7 * np.abs(wanted).max())
    assert_allclose(single.log_likelihood_, double.log_likelihood_, rtol=1e-11)


@pytest.mark.parametrize("standardize", [False, True])
def test_a_table_of_low_rank_is_recognised_in_single_precision(standardize):
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((60, 2)) @ rng.standard_normal((2, 8)) + 3).astype(np.float32)
    ppca = PPCA(standardize=standardize).fit(x)
    assert ppca.n_components_ == 2
    assert "exact rank of the table" in str(ppca.summary())


@pytest.mark.parametrize("make", [lambda: PPCA(2, random_state=0, keep_source=True), lambda: BayesianPCA(2)])
def test_answers_beyond_the_range_of_single_precision_stay_in_double_precision(make):
    rows = (GAPS * np.float32(3.2e38 / np.nanmax(np.abs(GAPS)))).astype(np.float32)
    estimator = make().fit(rows)
    far = np.full((2, 2), 1e38 / np.abs(estimator.loadings_).max() * 10, np.float32)
    questions = {
        "explore": lambda e, x: e.explore(x, 60, random_state=0),
        "impute_draws": lambda e, x: e.impute_draws(x, 60, random_state=0),
        "impute_interval": lambda e, x: np.stack(e.impute_interval(x, 0.9999)),
        "in batches": lambda e, x: np.stack(e.impute_interval(np.array_split(x, 3), 0.9999)),
        "inverse_transform": lambda e, x: e.inverse_transform(far.astype(x.dtype)),
    }
    for name, question in questions.items():
        found, wanted = question(estimator, rows), question(estimator, rows.astype(np.float64))
        assert np.abs(wanted).max() > np.finfo(np.float32).max, name
        assert found.dtype == np.float64, name
        assert_allclose(found, wanted, rtol=1e-6, err_msg=name)
    assert estimator.impute_draws(rows[:1], 2, random_state=0).dtype == np.float32
