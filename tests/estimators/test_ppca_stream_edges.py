"""Streams, incremental EM and checkpoints at their edges."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from oracles import dense_observed_log_likelihood, largest_fall, punched, spiked_rows, spiked_rows_with_holes
from probpca import PPCA, DataError, ProbpcaError
from probpca.learning import Settings, fit_ppca
from probpca.learning.missing.fit import Steps
from probpca.sources import open_source


def aged(n, h):
    return 2.0 ** (-np.arange(n)[::-1] / h)


def test_online_follows_a_jump_as_a_weighted_fit_does():
    rng = np.random.default_rng(20240229)
    x = punched(rng, spiked_rows(rng, 6000, 10, 2, noise=0.5), 0.2)
    x[3000:] += 10.0
    p = PPCA(2, random_state=0, half_life=200.0)
    for s in range(0, 6000, 100):
        p.partial_fit(x[s : s + 100])
    w = PPCA(2, random_state=0).fit(x, sample_weight=aged(6000, 200))
    assert_allclose(p.mean_, w.mean_, atol=0.5)
    assert p.score(x[5000:]) > w.score(x[5000:]) - 0.05


@pytest.mark.parametrize(("n", "d", "q"), [(12, 20, 2), (10, 8, 3)])
def test_incremental_with_few_cells_reaches_the_maximum(n, d, q):
    x = punched(np.random.default_rng(4), spiked_rows(np.random.default_rng(3), n, d, q), 0.2)
    a, b = (PPCA(q, solver=s, tol=1e-6, max_iter=20000, random_state=0).fit(x) for s in ("incremental", "px_em"))
    assert_allclose(a.log_likelihood_, b.log_likelihood_, atol=1e-3)


class Stopped(Exception):  # noqa: N818
    """Somebody pulled the plug."""


def run(x, path, *, q=2, solver="auto", max_iter=5000, at=None, **kw):
    def watch(p):
        if p.iteration == at:
            raise Stopped

    return fit_ppca(open_source(x, **kw), q, Settings(solver, 1e-7, max_iter, watch, 1, path), np.random.default_rng(0))


def interrupted(x, path, at=6, **kw):
    with pytest.raises(Stopped):
        run(x, path, at=at, **kw)


@pytest.fixture
def x():
    return spiked_rows_with_holes(np.random.default_rng(1), 120, 8, 2, noise=0.5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ck"


def test_a_checkpoint_of_another_number_of_components_is_not_taken_for_this_one(x, path):
    interrupted(x, path, q=2)
    try:
        found = run(x, path, q=3)
    except ProbpcaError:
        return
    assert found.model.n_components == 3


def test_incremental_trace_is_monotone_across_the_break(x, path):
    interrupted(x, path, at=5, solver="incremental")
    assert largest_fall(run(x, path, solver="incremental").trace) <= 1e-9


def test_infinity_is_refused_and_leaves_the_state():
    y = spiked_rows(np.random.default_rng(0), 100, 8, 2)
    p = PPCA(2).partial_fit(y)
    bad = y[:5].copy()
    bad[2, 3] = np.inf
    with pytest.raises(DataError, match="infinity"):
        p.partial_fit(bad)
    assert np.isfinite(p.noise_variance_)


def test_half_life_counts_among_the_first_rows_too():
    rng = np.random.default_rng(0)
    y = punched(rng, spiked_rows(rng, 1900, 10, 2, noise=0.5), 0.2)
    y[1000:] += 10
    p = PPCA(2, half_life=50.0, random_state=0)
    for b in np.array_split(y, 19):
        p.partial_fit(b)
    assert_allclose(p.mean_, PPCA(2, random_state=0).fit(y, sample_weight=aged(1900, 50)).mean_, atol=0.1)


def test_one_large_first_batch_with_half_life():
    rng = np.random.default_rng(0)
    y = punched(rng, spiked_rows(rng, 5000, 10, 2, noise=0.5), 0.2)
    y[3000:] += 10
    p = PPCA(2, half_life=50.0, random_state=0).partial_fit(y)
    assert_allclose(p.mean_, PPCA(2, random_state=0).fit(y, sample_weight=aged(5000, 50)).mean_, atol=1.0)


def test_unstored_cells_are_missing_in_batches_too():
    s = sparse.random_array((300, 8), density=0.5, random_state=1, format="csr")
    a, b = (
        PPCA(2, missing="unstored", random_state=0).partial_fit(s),
        PPCA(2, missing="unstored", random_state=0).fit(s),
    )
    assert_allclose(a.noise_variance_, b.noise_variance_, rtol=1e-2)


def test_a_stream_forgets_the_source_and_draws_of_a_fit(x):
    p = PPCA(2, keep_source=True, random_state=0).fit(x).partial_fit(np.nan_to_num(x[:50]))
    assert not hasattr(p, "source_")
    p = PPCA(2, n_parameter_draws=2, random_state=0).fit(x).partial_fit(np.nan_to_num(x[:50]))
    assert not hasattr(p, "parameter_draws_")


def test_many_empty_rows_never_raise():
    PPCA(2).partial_fit(np.full((2500, 8), np.nan))


def test_log_likelihood_is_that_of_the_model_when_max_iter_is_used_up(x, path):
    interrupted(x, path)
    found = run(x, path, max_iter=3)
    assert_allclose(found.log_likelihood, dense_observed_log_likelihood(found.model, x).sum(), rtol=1e-10)


def test_em_keeps_max_iter_across_the_break(x, path):
    interrupted(x, path, solver="em")
    assert run(x, path, solver="em", max_iter=10).n_iter <= 10


def test_other_rows_with_the_same_means_are_refused(x, path):
    other = lambda x: np.nanmean(x, axis=0) + 3 * (x - np.nanmean(x, axis=0))  # noqa: E731
    interrupted(x, path)
    with pytest.raises(DataError):
        run(other(x), path)


def test_online_with_half_life_counts_the_rows_that_count():
    rng = np.random.default_rng(0)
    y = punched(rng, spiked_rows(rng, 4000, 10, 2, noise=0.5), 0.2)
    p = PPCA(2, half_life=100.0, random_state=0)
    for b in np.array_split(y, 40):
        p.partial_fit(b)
    w = PPCA(2, random_state=0).fit(y, sample_weight=aged(4000, 100))
    assert_allclose(p.n_samples_, w.n_samples_, rtol=0.1)
    assert_allclose(p.information_[-1], w.information_[-1], rtol=0.2)


def test_too_many_components_are_an_error_that_says_so():
    y = spiked_rows(np.random.default_rng(0), 100, 8, 2)
    with pytest.raises(ProbpcaError, match="components"):
        PPCA(9).partial_fit(y).transform(y)


def test_offset_1e8_keeps_the_digits_that_fit_keeps():
    y = spiked_rows(np.random.default_rng(1), 300, 8, 2) + 1e8
    assert_allclose(PPCA(2).partial_fit(y).noise_variance_, PPCA(2).fit(y).noise_variance_, rtol=1e-10)


def test_a_single_row_of_weight_zero_is_not_there():
    y = spiked_rows(np.random.default_rng(0), 100, 8, 2)
    PPCA(2).partial_fit(y).partial_fit(y[:1], sample_weight=[0.0])


def test_the_checkpoint_stays_until_the_fit_is_done(x, path, monkeypatch):
    def gone(*_):
        assert path.exists()
        raise Stopped

    monkeypatch.setattr(Steps, "sums_at", gone)
    with pytest.raises(Stopped):
        run(x, path, solver="incremental")


def test_centred_rows_are_known_again_by_another_number_of_threads(path):
    y = spiked_rows_with_holes(np.random.default_rng(1), 20000, 8, 2, noise=0.5)
    y -= np.nanmean(y, axis=0)
    y -= np.nanmean(y, axis=0)
    interrupted(y, path, at=2, n_jobs=1)
    run(y, path, n_jobs=2)


def test_halves_with_columns_in_another_order_are_not_merged(rng):
    table = pd.DataFrame(rng.standard_normal((40, 4)), columns=list("abcd"))
    one, other = PPCA(1).partial_fit(table[:20]), PPCA(1).partial_fit(table[list("dcba")][20:])
    with pytest.raises(DataError, match="same columns in the same order"):
        one.merge(other)


@pytest.mark.parametrize("parameters", [{"n_components": "evidence"}, {"n_components": 2, "solver": "closed_form"}])
def test_what_missing_cells_do_not_go_with_is_said_when_the_stream_begins(rng, parameters):
    x = rng.standard_normal((3000, 5))
    x[rng.random(x.shape) < 0.1] = np.nan
    with pytest.raises(DataError):
        PPCA(**parameters).partial_fit(x)


def test_the_error_of_a_sketch_survives_a_file(rng, tmp_path):
    wide = rng.standard_normal((300, 2100))
    fitted = PPCA(2, random_state=0).partial_fit(wide)
    fitted.to_file(tmp_path / "sketch.npz")
    assert fitted.sketch_error_ > 0
    assert PPCA.from_file(tmp_path / "sketch.npz").sketch_error_ == fitted.sketch_error_


@pytest.mark.parametrize(
    "parameters",
    [{"solver": "gradient"}, {"n_init": 2}, {"n_components": "bic", "max_iter": 30, "tol": 1.0}],
    ids=["gradient", "starts", "rule"],
)
def test_a_checkpoint_that_is_not_written_is_said(rng, tmp_path, parameters):
    x = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    with pytest.warns(UserWarning, match="no checkpoint is written"):
        PPCA(**({"n_components": 1} | parameters), checkpoint=tmp_path / "fit.ckpt", random_state=0).fit(x)


def test_a_checkpoint_without_a_folder_is_refused_at_once(rng, tmp_path):
    x = rng.standard_normal((30, 4))
    x[0, 0] = np.nan
    with pytest.raises(DataError, match=r"folder of the checkpoint .* does not exist"):
        PPCA(1, checkpoint=tmp_path / "nowhere" / "fit.ckpt").fit(x)
