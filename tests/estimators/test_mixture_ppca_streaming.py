"""Mixtures of rows that arrive in batches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from oracles import punched
from probpca import MixturePPCA
from probpca.estimators import mixture_ppca
from probpca.inference import sample_mixture
from probpca.learning import Status
from probpca.learning.settings import OnlineSettings, Settings
from probpca.models import LinearGaussian, Mixture

D = 4


@pytest.fixture
def truth(rng):
    clusters = (
        LinearGaussian(5 * rng.standard_normal(D), rng.standard_normal((D, 1)), rng.uniform(0.2, 0.6, D))
        for _ in range(2)
    )
    return Mixture([0.65, 0.35], tuple(clusters))


@pytest.fixture
def _small_start(monkeypatch):
    """Begin online EM after a few rows."""
    online = OnlineSettings(first_rows=(200, 200), chunk_rows=(50, 50))
    monkeypatch.setattr(mixture_ppca, "Settings", lambda **options: Settings(online=online, **options))


def streamed(x, size=60, **options):
    mixture = MixturePPCA(2, 1, n_init=3, random_state=0, **options)
    for start in range(0, len(x), size):
        mixture.partial_fit(x[start : start + size])
    return mixture


def test_few_rows_are_fitted_as_a_table(truth, rng):
    x = punched(rng, sample_mixture(truth, 150, rng=rng)[0], 0.2)
    batches, whole = streamed(x), MixturePPCA(2, 1, n_init=3, random_state=0).fit(x)
    assert batches.log_likelihood_ == pytest.approx(whole.log_likelihood_, abs=1e-2)
    assert_array_equal(batches.predict(x), whole.labels_)
    assert not hasattr(batches, "labels_")


@pytest.mark.usefixtures("_small_start")
@pytest.mark.parametrize("noise", ["per_feature", "shared"])
def test_later_rows_lead_near_the_fit_to_all_rows(truth, rng, noise):
    x = punched(rng, sample_mixture(truth, 3000, rng=rng)[0], 0.2)
    online, whole = streamed(x, noise=noise), MixturePPCA(2, 1, noise=noise, n_init=3, random_state=0).fit(x)
    assert online.status_ is Status.ONLINE
    assert online.score(x) > whole.score(x) - 0.01
    assert online.score(x) > streamed(x[:200], noise=noise).score(x)
    assert_allclose(online.weights_, whole.weights_, atol=0.02)
    assert_allclose(online.means_, whole.means_, atol=0.1)
    assert online.n_samples_ == pytest.approx(whole.n_samples_)
    assert online.n_observed_ == pytest.approx(whole.n_observed_)
    assert_array_equal(online.predict(x[:50]), whole.predict(x[:50]))
    for one, other in zip(online.impute(x[:20], return_std=True), whole.impute(x[:20], return_std=True), strict=True):
        assert_allclose(one, other, atol=0.3)
    assert "partial_fit" in online.outliers(x[:5]).note


@pytest.mark.usefixtures("_small_start")
@pytest.mark.parametrize("noise", ["per_feature", "shared"])
def test_a_cluster_of_equal_rows_keeps_the_noise_of_the_floor_and_is_flagged(rng, noise):
    x = rng.standard_normal((1500, D))
    x[::5] = [9.0, 8.0, 7.0, 6.0]
    online, first = streamed(x, noise=noise), streamed(x[:180], noise=noise)
    assert first.status_ is Status.DEGENERATE_CLUSTERS
    assert online.status_ is Status.ONLINE
    assert_array_equal(online.degenerate_clusters_, [1])
    assert online.criteria_.degenerate.all()
    assert_allclose(online.noise_variance_[1], first.noise_variance_[1], rtol=0.5)


@pytest.mark.usefixtures("_small_start")
def test_with_a_half_life_the_mixture_follows_the_rows(truth, rng):
    early, late = (sample_mixture(truth, 1500, rng=rng)[0] for _ in range(2))
    late += 2.0
    forgetful, faithful = (streamed(np.vstack([early, late]), half_life=life) for life in (200.0, None))
    assert forgetful.score(late) > faithful.score(late)
    assert_allclose(np.sort(forgetful.means_[:, 0]), np.sort(truth.means[:, 0] + 2.0), atol=0.3)


@pytest.mark.usefixtures("_small_start")
def test_a_column_that_comes_later_is_learned(truth, rng):
    x = sample_mixture(truth, 2000, rng=rng)[0]
    hidden = x.copy()
    hidden[:600, 2] = np.nan
    found = streamed(hidden)
    assert_allclose(np.sort(found.means_[:, 2]), np.sort(truth.means[:, 2]), atol=0.6)
    assert found.empty_features_.size == 0


@pytest.mark.usefixtures("_small_start")
def test_a_stream_can_be_stored(truth, rng, tmp_path):
    found = streamed(sample_mixture(truth, 600, rng=rng)[0])
    found.to_file(tmp_path / "stream.npz")
    back = MixturePPCA.from_file(tmp_path / "stream.npz")
    assert_array_equal(back.means_, found.means_)
    assert back.summary() == found.summary()


def test_too_few_rows_are_not_fitted_yet(truth, rng):
    mixture = MixturePPCA(2, 1).partial_fit(sample_mixture(truth, 1, rng=rng)[0])
    with pytest.raises(NotFittedError, match="rows are needed"):
        mixture.predict(np.zeros((1, D)))
