"""MixturePPCA: a clusterer and a density of scikit-learn, with answers about rows that have missing cells."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_clusterer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from oracles import punched
from probpca import PPCA, DataError, FactorAnalysis, MixturePPCA, ShapeError, SourceError
from probpca.inference import mixture_log_likelihood, responsibilities
from probpca.models import LinearGaussian, Mixture, load_model

NAMES = ["height", "width", "depth", "mass", "age"]
D = len(NAMES)
NOT_A_CLASSIFIER = dict.fromkeys(
    ["check_estimator_sparse_matrix", "check_estimator_sparse_array"],
    "takes predict_proba for that of a classifier with four classes",
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("noise", ["per_feature", "shared"], indirect=False)
def test_it_is_a_clusterer(noise):
    assert is_clusterer(MixturePPCA(2, noise=noise))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [MixturePPCA(2, 1, n_init=2, max_iter=20), MixturePPCA(2, 1, noise="shared", n_init=2, max_iter=20)],
    expected_failed_checks=lambda _: NOT_A_CLASSIFIER,
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def clustered():
    """Rows of three clusters, and their labels."""
    rng = np.random.default_rng(11)
    clusters = [
        LinearGaussian(6 * rng.standard_normal(D), rng.standard_normal((D, 1)), rng.uniform(0.2, 1.0, D))
        for _ in range(3)
    ]
    labels = rng.choice(3, 240, p=[0.5, 0.3, 0.2])
    noise = rng.standard_normal((240, D))
    x = np.stack([clusters[k].mean + clusters[k].loadings @ rng.standard_normal(1) for k in labels])
    x += noise * np.sqrt([clusters[k].noise_variance for k in labels])
    return punched(rng, x, 0.15), labels


@pytest.fixture(scope="module")
def x(clustered):
    return clustered[0]


@pytest.fixture(scope="module")
def fitted(x):
    return MixturePPCA(3, 1, random_state=0).fit(x)


def test_labels_are_those_of_the_clusters_largest_first(fitted, clustered):
    x, labels = clustered
    assert adjusted_rand_score(labels, fitted.labels_) > 0.95
    assert_array_equal(fitted.predict(x), fitted.labels_)
    assert_array_equal(MixturePPCA(3, 1, random_state=0).fit_predict(x), fitted.labels_)
    assert (np.diff(fitted.weights_) <= 0).all()
    assert_array_equal(fitted.predict_proba(x).argmax(axis=1), fitted.labels_)
    assert_allclose(fitted.predict_proba(x).sum(axis=1), 1.0)


def test_attributes_are_windows_on_the_model(fitted, x):
    model = fitted.model_
    assert isinstance(model, Mixture)
    assert_array_equal(fitted.means_, model.means)
    assert fitted.loadings_.shape == (3, D, 1)
    assert fitted.noise_variance_.shape == (3, D)
    assert_allclose(fitted.covariances_[1], model.clusters[1].covariance.dense())
    assert (fitted.n_clusters_, fitted.n_components_, fitted.n_features_in_) == (3, 1, D)
    assert fitted.n_observed_ == (~np.isnan(x)).sum()
    assert fitted.log_likelihood_ == pytest.approx(fitted.score_samples(x).sum())
    assert fitted.score(x) == pytest.approx(fitted.log_likelihood_ / len(x))
    assert fitted.rule_ == "as given"
    assert fitted.bic_ == fitted.criteria_.bic[0]
    assert fitted.icl_ <= fitted.bic_
    assert fitted.degenerate_clusters_.size == 0
    assert fitted.converged_
    assert fitted.trace_[-1] == fitted.log_likelihood_


def test_answers_are_those_of_the_functions(fitted, x):
    assert_allclose(fitted.score_samples(x), mixture_log_likelihood(fitted.model_, x))
    assert_allclose(fitted.predict_proba(x), responsibilities(fitted.model_, x))
    found = fitted.posterior(x)
    blocks = [found.responsibilities[:, [k]] * found.clusters[k].mean for k in range(3)]
    assert_allclose(fitted.transform(x), np.hstack(blocks))
    assert list(fitted.get_feature_names_out()) == ["C0_PC1", "C1_PC1", "C2_PC1"]


@pytest.mark.filterwarnings("ignore:the noise variance of 1 column:UserWarning")
@pytest.mark.parametrize(("noise", "other"), [("shared", PPCA), ("per_feature", FactorAnalysis)])
def test_one_cluster_answers_like_its_model(x, noise, other):
    mixture, single = MixturePPCA(1, 2, noise=noise, random_state=0).fit(x), other(2, random_state=0).fit(x)
    assert mixture.log_likelihood_ == pytest.approx(single.log_likelihood_, rel=1e-10)
    assert_allclose(mixture.transform(x), single.transform(x), atol=1e-8)
    assert_allclose(mixture.score_samples(x), single.score_samples(x), rtol=1e-9, atol=1e-9)
    for one, two in zip(mixture.impute(x, return_std=True), single.impute(x, return_std=True), strict=True):
        assert_allclose(one, two, rtol=1e-6, atol=1e-8)
    for one, two in zip(mixture.impute_interval(x, 0.9), single.impute_interval(x, 0.9), strict=True):
        assert_allclose(one, two, rtol=1e-6, atol=1e-6)
    assert_array_equal(mixture.labels_, 0)


def test_imputed_cells_lie_in_their_intervals(fitted, x):
    values, std = fitted.impute(x, return_std=True)
    low, high = fitted.impute_interval(x, 0.95)
    missing = np.isnan(x)
    assert_array_equal(values[~missing], x[~missing])
    assert (std[missing] > 0).all()
    assert (std[~missing] == 0).all()
    assert ((low <= high) | ~missing).all()
    narrow = fitted.impute_interval(x, 0.5)
    assert (low[missing] < narrow[0][missing]).all()


def test_draws_differ_in_missing_cells_only_and_spread_like_the_intervals(fitted, x):
    tables = fitted.impute_draws(x, 60, random_state=1)
    missing = np.isnan(x)
    assert tables.shape == (60, *x.shape)
    assert_array_equal(tables[:, ~missing], np.broadcast_to(x[~missing], (60, (~missing).sum())))
    values, std = fitted.impute(x, return_std=True)
    score = (tables[:, missing].mean(axis=0) - values[missing]) / (std[missing] / np.sqrt(60))
    assert abs(score.mean()) < 0.3
    assert np.sqrt((score**2).mean()) == pytest.approx(1.0, abs=0.3)
    assert_array_equal(fitted.impute_draws(x, 2, random_state=1), fitted.impute_draws(x, 2, random_state=1))
    with pytest.raises(ShapeError, match="n_draws"):
        fitted.impute_draws(x, 0)


def test_samples_come_with_their_clusters(fitted):
    rows, labels = fitted.sample(4000, random_state=0)
    assert rows.shape == (4000, D)
    assert_allclose(np.bincount(labels) / 4000, fitted.weights_, atol=0.05)
    assert (fitted.predict(rows) == labels).mean() > 0.97
    assert_array_equal(fitted.sample(3)[0], fitted.sample(3)[0])
    with pytest.raises(ShapeError, match="n_samples"):
        fitted.sample(-1)


def test_outliers_have_calibrated_p_values(fitted, x):
    fresh = fitted.sample(1000, random_state=5)[0]
    found = fitted.outliers(fresh)
    assert 0.0 <= (found.p_value < 0.01).mean() < 0.04
    assert fitted.calibration_.obstacle == ""
    training = fitted.outliers(x, training=True)
    assert 0.3 < np.median(training.p_value) < 0.7
    strange = np.full((1, D), 100.0)
    assert fitted.outliers(strange).log10_p_value[0] < -20
    with pytest.raises(DataError, match="training"):
        fitted.outliers(x, training="yes")
    table = pd.DataFrame(x, columns=NAMES, index=[f"row {i}" for i in range(len(x))])
    named = MixturePPCA(3, 1, random_state=0).fit(table).outliers(table, training=True)
    assert named.to_frame().index[0] == "row 0"
    assert "row " in str(named)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_dataframes_go_in_and_come_out(x, fitted, frame):
    table = frame(dict(zip(NAMES, x.T, strict=True)))
    mixture = MixturePPCA(3, 1, random_state=0).set_output(transform=frame.__module__.split(".")[0]).fit(table)
    assert list(mixture.transform(table).columns) == ["C0_PC1", "C1_PC1", "C2_PC1"]
    assert isinstance(mixture.impute(table), frame)
    assert list(mixture.impute_interval(table)[0].columns) == NAMES
    assert_allclose(mixture.means_, fitted.means_, rtol=1e-9)
    assert "C2_PC1" in mixture.posterior(table).to_frame().columns
    assert "height" in mixture.summary()


def test_rows_may_be_anywhere(x, fitted, tmp_path):
    np.save(tmp_path / "rows.npy", x)
    from_file = MixturePPCA(3, 1, random_state=0).fit(tmp_path / "rows.npy")
    assert from_file.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-2)
    assert_array_equal(from_file.predict(tmp_path / "rows.npy"), fitted.labels_)
    with pytest.raises(AttributeError, match="labels_"):
        _ = from_file.labels_
    assert_array_equal(MixturePPCA(3, 1, random_state=0).fit_predict(tmp_path / "rows.npy"), fitted.labels_)
    path = fitted.predict_proba(tmp_path / "rows.npy", out=tmp_path / "share.csv")
    assert_allclose(pd.read_csv(path)[["C0", "C1", "C2"]], fitted.predict_proba(x), atol=1e-9)
    completed = fitted.impute(tmp_path / "rows.npy", out=tmp_path / "full.npy")
    assert_allclose(np.load(completed), fitted.impute(x))
    with pytest.raises(SourceError, match="iterator"):
        MixturePPCA(2, 1).fit_predict(iter([x]))
    with pytest.raises(DataError, match="return_std"):
        fitted.impute(x, return_std=True, out=tmp_path / "both.npy")


def test_unstored_cells_of_sparse_rows_are_missing_on_request(x):
    seen = ~np.isnan(x)
    stored = sparse.csr_array((x[seen], np.nonzero(seen)), shape=x.shape)
    thin = MixturePPCA(3, 1, missing="unstored", random_state=0).fit(stored)
    dense = MixturePPCA(3, 1, random_state=0).fit(x)
    assert thin.log_likelihood_ == pytest.approx(dense.log_likelihood_, abs=1e-3)
    assert_array_equal(thin.labels_, dense.labels_)


def test_single_precision_stays_single(x, fitted):
    single = x.astype(np.float32)
    assert fitted.transform(single).dtype == fitted.impute(single).dtype == np.float32
    assert fitted.impute_draws(single, 1).dtype == np.float32


@pytest.mark.parametrize("noise", ["per_feature", "shared"])
def test_a_file_gives_the_same_answers_to_the_last_bit(x, noise, tmp_path):
    mixture = MixturePPCA(2, 1, noise=noise, n_init=2, random_state=0).fit(pd.DataFrame(x, columns=NAMES))
    mixture.to_file(tmp_path / "mixture.npz")
    back = MixturePPCA.from_file(tmp_path / "mixture.npz")
    table = pd.DataFrame(x, columns=NAMES)
    for name in ("transform", "predict", "predict_proba", "score_samples", "impute"):
        assert_array_equal(getattr(back, name)(table), getattr(mixture, name)(table))
    assert_array_equal(back.impute_draws(table, 2, random_state=0), mixture.impute_draws(table, 2, random_state=0))
    assert_array_equal(back.trace_, mixture.trace_)
    assert back.summary() == mixture.summary()
    assert str(back.criteria_) == str(mixture.criteria_)
    assert back.get_params() == mixture.get_params()
    assert back.status_ is mixture.status_
    assert_array_equal(load_model(tmp_path / "mixture.npz").means, mixture.means_)
    assert_array_equal(pickle.loads(pickle.dumps(mixture)).labels_, mixture.labels_)  # noqa: S301


def test_clusters_of_equal_rows_are_flagged_with_a_warning(x):
    rows = np.vstack([np.nan_to_num(x), np.full((12, D), 50.0)])
    with pytest.warns(ConvergenceWarning, match="clusters"):
        mixture = MixturePPCA(2, 1, noise="shared", random_state=0).fit(rows)
    assert_array_equal(mixture.degenerate_clusters_, [1])
    assert np.isfinite(mixture.log_likelihood_)
    assert not mixture.converged_


def test_a_cluster_without_rows_has_intervals():
    x = np.repeat([[0.0, 1.0, 2.0], [5.0, 3.0, 1.0]], 20, axis=0)
    with pytest.warns(ConvergenceWarning, match="Degenerate"):
        mixture = MixturePPCA(3, 1, noise="shared", random_state=0).fit(x)
    assert mixture.weights_[-1] < 1e-12
    gap = np.array([[0.0, np.nan, 2.0]])
    low, high = mixture.impute_interval(gap)
    assert low[0, 1] <= 1.0 <= high[0, 1]
    assert high[0, 1] - low[0, 1] < 0.1


def test_the_choice_is_reported(x):
    mixture = MixturePPCA(n_components=1, n_init=3, random_state=0).fit(x)
    assert mixture.n_clusters_ == 3
    assert mixture.rule_ == "clusters by BIC"
    table = mixture.criteria_
    assert_array_equal(table.n_clusters[:3], [1, 2, 3])
    assert table.to_frame()["bic"].idxmax() == table.best("bic")
    assert "*" in str(table)
    by_icl = MixturePPCA("icl", 1, n_init=3, random_state=0).fit(x)
    assert by_icl.rule_ == "clusters by ICL"
    components = MixturePPCA(3, n_init=2, random_state=0).fit(x)
    assert components.rule_ == "components by BIC"
    assert components.n_clusters_ == 3


def test_it_can_be_cloned_searched_and_asked_before_a_fit(x):
    mixture = clone(MixturePPCA(2, 1, noise="shared", random_state=3))
    assert mixture.get_params()["noise"] == "shared"
    with pytest.raises(NotFittedError):
        mixture.predict(x)
    search = GridSearchCV(MixturePPCA(n_components=1, n_init=2, random_state=0), {"n_clusters": [1, 3]}, cv=3).fit(x)
    assert search.best_params_ == {"n_clusters": 3}


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_clusters": 0},
        {"n_clusters": "aic"},
        {"n_components": 0},
        {"n_components": "bic"},
        {"noise": "own"},
        {"n_init": 0},
    ],
    ids=str,
)
def test_invalid_parameters_are_refused_by_name(x, wrong):
    with pytest.raises(DataError, match=next(iter(wrong))):
        MixturePPCA(**wrong).fit(x)


def test_too_many_components_are_refused(x):
    with pytest.raises(ShapeError, match="n_components"):
        MixturePPCA(2, D).fit(x)
