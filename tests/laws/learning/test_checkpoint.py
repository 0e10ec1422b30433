"""A fit that was interrupted goes on from what it left, and ends as if nobody had disturbed it."""

import os
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from forged_models import packed, unpacked
from kill_resume import survive
from oracles import dense_covariance, dense_observed_log_likelihood, largest_fall, spiked_rows, spiked_rows_with_holes
from probpca import PPCA, DataError, FileFormatError, ProbpcaError, SourceError
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.checkpoint import Checkpoint, Saved, Saver
from probpca.learning.missing import fit as missing
from probpca.learning.settings import SampleSize
from probpca.models import LinearGaussian, save_model
from probpca.models.serialization import read_record
from probpca.sources import open_source, source as memory
from probpca.sources.engines.local import one_blas_thread
from probpca.statistics import ColumnSummary

STANDARDIZED = partial(fit_ppca, standardize=True)

N, D, Q = 150, 8, 2
STEPS = 6
SAVING = ["em", "px_em", "auto"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """These matrices are small: threads would only wait for each other."""
    with one_blas_thread():
        yield


class InterruptedFitError(Exception):
    """Somebody pulls the plug."""


def plug_pulled_at(iteration):
    def watch(progress):
        if progress.iteration == iteration:
            raise InterruptedFitError

    return watch


@pytest.fixture
def x(rng):
    return spiked_rows_with_holes(rng, N, D, Q, noise=0.7)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def fit(  # noqa: PLR0913
    x, path=None, *, solver="auto", q=Q, tol=1e-7, watch=None, start=fit_ppca, sample=SampleSize(), **options
):
    settings = Settings(solver, tol, 5000, watch, 1, path, sample=sample)
    return start(open_source(x, **options), q, settings, np.random.default_rng(0))


def interrupted(x, path, at=STEPS, **options):
    """A fit that ends after so many steps, by an exception."""
    with pytest.raises(InterruptedFitError):
        fit(x, path, watch=plug_pulled_at(at), **options)
    assert path.exists()


def counted(x, path, **options):
    """A fit, and how many values it looked at by itself."""
    seen = []
    return fit(x, path, watch=seen.append, **options), len(seen)


def trace_in(path):
    return read_record(path)[1]["trace"]


# A fit that nobody disturbs


@pytest.mark.parametrize("solver", [*SAVING, "incremental"])
def test_a_checkpoint_changes_nothing_and_is_gone_at_the_end(x, path, solver):
    found, wanted = fit(x, path, solver=solver), fit(x, solver=solver)
    assert not path.exists()
    assert list(path.parent.iterdir()) == []
    assert_array_equal(found.trace, wanted.trace)
    assert_array_equal(found.model.loadings, wanted.model.loadings)
    assert (found.status, found.rule) == (wanted.status, wanted.rule)


def test_an_estimator_takes_the_name_of_a_file(x, path):
    found, wanted = PPCA(Q, checkpoint=str(path), random_state=0).fit(x), PPCA(Q, random_state=0).fit(x)
    assert_array_equal(found.loadings_, wanted.loadings_)
    assert not path.exists()


def test_complete_rows_leave_what_is_there_alone(rng, path):
    path.write_text("something else")
    x = spiked_rows(rng, N, D, Q)
    assert_array_equal(PPCA(Q, checkpoint=path).fit(x).loadings_, PPCA(Q).fit(x).loadings_)
    assert path.read_text() == "something else"


@pytest.mark.parametrize("solver", SAVING)
def test_after_each_step_there_is_a_model_to_go_on_from(x, path, solver):
    values = []

    def watch(progress):
        values.append(progress.log_likelihood)
        header, arrays = read_record(path)
        assert header["kind"] == "checkpoint"
        assert arrays["trace"][-1] == progress.log_likelihood
        assert_array_equal(arrays["trace"], values)
        model = LinearGaussian(arrays["mean"], arrays["loadings"], arrays["noise_variance"])
        following = dense_observed_log_likelihood(model, x[:60]).sum()
        assert following >= progress.log_likelihood - 1e-9 * abs(following)

    fit(x[:60], path, solver=solver, tol=0.05, watch=watch)
    assert len(values) > 2


# A fit that was interrupted


@pytest.mark.parametrize("at", [1, 4, 9])
@pytest.mark.parametrize("solver", SAVING)
def test_a_fit_goes_on_from_where_it_was_interrupted(x, path, solver, at):
    wanted, steps = counted(x, None, solver=solver)
    assert at < steps
    interrupted(x, path, at, solver=solver)
    earlier = trace_in(path)
    assert_array_equal(earlier, wanted.trace[: at + 1])
    found, further = counted(x, path, solver=solver)
    assert not path.exists()
    assert_array_equal(found.trace[: at + 1], earlier)
    assert largest_fall(found.trace) <= 1e-10
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)
    assert_allclose(dense_covariance(found.model), dense_covariance(wanted.model), atol=5e-3)
    assert_allclose(found.log_likelihood, dense_observed_log_likelihood(found.model, x).sum(), rtol=1e-10)
    assert (found.status, found.rule) == (Status.CONVERGED, "as given")
    assert len(found.trace) == at + 1 + further


def test_plain_em_takes_the_very_same_steps(x, path):
    wanted, steps = counted(x, None, solver="em")
    interrupted(x, path, 20, solver="em")
    found, further = counted(x, path, solver="em")
    shared = min(len(found.trace), len(wanted.trace))
    assert shared > 22
    assert_allclose(found.trace[:shared], wanted.trace[:shared], rtol=1e-13)
    assert further < steps - 15


def test_a_fit_may_be_interrupted_again_and_again(x, path):
    wanted = fit(x, solver="em")
    for at in (2, 7, 8, 15, 31):
        before = trace_in(path) if path.exists() else np.empty(0)
        interrupted(x, path, at, solver="em")
        assert_array_equal(trace_in(path)[: before.size], before)
        assert trace_in(path).size == at + 1
    found = fit(x, path, solver="em")
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-6)
    assert_array_equal(found.trace[:10], wanted.trace[:10])


def test_incremental_em_ends_at_the_same_maximum_after_an_interruption(x, path):
    interrupted(x, path, 3, solver="incremental")
    earlier = trace_in(path)
    found, wanted = fit(x, path, solver="incremental"), fit(x, solver="px_em")
    assert not path.exists()
    assert_array_equal(found.trace[: earlier.size], earlier)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)


@pytest.mark.parametrize(("other", "said"), [({"solver": "auto"}, "solver=em"), ({"tol": 1e-2}, "tol=")])
def test_other_settings_do_not_go_on_in_silence(x, path, other, said):
    interrupted(x, path, solver="em")
    before = path.read_bytes()
    with pytest.raises(DataError, match=rf"belongs to a fit with {said}(?s:.*)another name"):
        fit(x, path, **{"solver": "em", **other})
    assert path.read_bytes() == before


def test_a_standardized_fit_goes_on_too(x, path):
    x = x * np.geomspace(0.01, 100, D)
    wanted = fit(x, start=STANDARDIZED)
    interrupted(x, path, 4, start=STANDARDIZED)
    found, further = counted(x, path, start=STANDARDIZED)
    assert further == len(found.trace) - 5
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)
    assert_allclose(found.model.noise_variance, wanted.model.noise_variance, rtol=1e-4)


def test_a_weighted_fit_goes_on_too(x, path, rng):
    w = rng.integers(1, 4, N).astype(float)
    wanted = fit(x, weight=w)
    interrupted(x, path, 4, weight=w)
    found, further = counted(x, path, weight=w)
    assert further == len(found.trace) - 5
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)


@pytest.mark.parametrize("jobs", [1, 2])
def test_more_threads_may_go_on(x, path, jobs, monkeypatch):
    monkeypatch.setattr(memory, "PIECE_BYTES", 8)
    monkeypatch.setattr(memory, "FEW_ROWS", 1)  # so that rows are cut, and summed, in another way
    before, after = (open_source(x, n_jobs=n).fold(ColumnSummary.of).mean for n in (3 - jobs, jobs))
    assert (before != after).any()
    interrupted(x, path, 4, n_jobs=3 - jobs)
    found = fit(x, path, n_jobs=jobs)
    assert_allclose(found.log_likelihood, fit(x).log_likelihood, atol=1e-5)


def test_a_fit_to_a_file_goes_on_without_its_sample(x, path, tmp_path, monkeypatch):
    few = {"q": "bic", "sample": SampleSize(cells=0, rows=30)}
    np.save(tmp_path / "rows.npy", x)
    wanted = fit(tmp_path / "rows.npy", **few)
    interrupted(tmp_path / "rows.npy", path, 4, **few)
    monkeypatch.setattr(missing, "search", None)  # there is nothing to search for any more
    found = fit(tmp_path / "rows.npy", path, **few)
    assert found.rule == wanted.rule == "BIC, in a sample of 30 rows"
    assert found.model.n_components == wanted.model.n_components
    assert_allclose(found.log_likelihood, wanted.log_likelihood, atol=1e-5)


# What is not a checkpoint of this fit


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda x: x + 1e-3, id="moved"),
        pytest.param(lambda x: x[:-1], id="a row less"),
        pytest.param(lambda x: x[:, :-1], id="a column less"),
        pytest.param(lambda x: np.where(np.arange(x.size).reshape(x.shape) == 5, np.nan, x), id="a cell less"),
        pytest.param(lambda x: 2 * np.nanmean(x, axis=0) - x, id="mirrored"),
        pytest.param(lambda x: np.sort(x, axis=0), id="cells in other rows"),
    ],
)
def test_a_checkpoint_of_other_rows_is_refused_and_kept(x, path, changed):
    interrupted(x, path)
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"belongs to a fit to other rows(?s:.*)Hint: delete it"):
        fit(changed(x), path)
    assert path.read_bytes() == before
    assert fit(x, path).status is Status.CONVERGED


def an_array(x, path):
    with path.open("wb") as file:
        np.savez(file, x=x)


def cut_short(x, path):
    interrupted(x, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def damaged(x, path):
    interrupted(x, path)
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 20] = bytes(20)
    path.write_bytes(whole)


FOREIGN = {
    "a text": lambda _, path: path.write_text("height,width\n1,2\n"),
    "nothing": lambda _, path: path.write_bytes(b""),
    "an array": an_array,
    "a checkpoint cut short": cut_short,
    "a damaged checkpoint": damaged,
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_a_file_that_is_no_checkpoint_is_refused_and_kept(x, path, make):
    make(x, path)
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match=path.name):
        fit(x, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("asked", 5, "asked must be an object; got 5"),
        ("cells", "many", "cells must be a finite number from 0 on, below 2\\*\\*63 if it is whole; got 'many'"),
        ("rule", None, "rule must be text; got None"),
        ("trace", np.array(["x"]), "trace must hold float64 numbers; got <U1"),
        ("column_squares", np.ones(2), r"column_squares must have shape \(8\); got \(2,\)"),
        ("loadings", np.ones((D, 0)), "loadings must be a matrix"),
    ],
)
def test_a_checkpoint_with_a_field_that_is_wrong_names_it(x, path, name, value, needed):
    interrupted(x, path)
    header, arrays = unpacked(path.read_bytes())
    (header if name in header else arrays)[name] = value
    path.write_bytes(packed(header, arrays))
    with pytest.raises(FileFormatError, match=f"{path.name} holds no valid model: {needed}"):
        fit(x, path)


def test_a_pipe_is_no_checkpoint(x, path):
    os.mkfifo(path)
    with pytest.raises(DataError, match=r"must be a regular file(?s:.*)another name"):
        fit(x, path)
    assert path.is_fifo()


def test_a_read_only_checkpoint_is_refused_before_the_first_step(x, path):
    with pytest.raises(InterruptedFitError):
        fit(x, path, watch=plug_pulled_at(2))
    before = path.read_bytes()
    path.chmod(0o440)
    with pytest.raises(SourceError, match=r"cannot be written: it is read-only(?s:.*)chmod"):
        fit(x, path, watch=plug_pulled_at(0))
    assert path.read_bytes() == before


def test_a_model_is_no_checkpoint(x, path):
    save_model(fit(x).model, path)
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"is not a checkpoint but a LinearGaussian(?s:.*)another name"):
        fit(x, path)
    assert path.read_bytes() == before


def test_an_estimator_in_a_file_is_no_checkpoint(x, path):
    PPCA(Q).fit(x).to_file(path)
    with pytest.raises(ProbpcaError, match="is not a checkpoint"):
        PPCA(Q, checkpoint=path).fit(x)
    assert path.exists()


# What is written


@pytest.fixture
def columns(x):
    return open_source(x).fold(ColumnSummary.of)


def test_what_is_written_is_read_bit_for_bit(path, columns, rng):
    model = LinearGaussian(rng.standard_normal(D), rng.standard_normal((D, Q)), 0.1)
    saved = Saved(model, "BIC", tuple(-np.geomspace(2, 1, 5)))
    assert Checkpoint(path, columns).read() is None
    Checkpoint(path, columns).write(saved)
    found = Checkpoint(path, columns).read()
    assert_array_equal(found.model.loadings, model.loadings)
    assert_array_equal(found.model.mean, model.mean)
    assert found.model.noise_variance == model.noise_variance
    assert (found.rule, found.trace) == (saved.rule, saved.trace)
    Checkpoint(path, columns).remove()
    assert not path.exists()
    Checkpoint(path, columns).remove()


def test_a_write_that_fails_leaves_the_earlier_one(path, columns, rng, monkeypatch):
    model = LinearGaussian(rng.standard_normal(D), rng.standard_normal((D, Q)), 0.1)
    Checkpoint(path, columns).write(Saved(model, "as given", (-2.0,)))

    def full(file, **arrays):  # noqa: ARG001
        file.write(b"half of")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        Checkpoint(path, columns).write(Saved(model, "as given", (-2.0, -1.0)))
    monkeypatch.undo()
    assert Checkpoint(path, columns).read().trace == (-2.0,)
    assert list(path.parent.iterdir()) == [path]


def test_a_step_that_is_taken_back_is_not_saved(path, columns, rng):
    model, worse = (LinearGaussian(rng.standard_normal(D), rng.standard_normal((D, Q)), 0.1) for _ in range(2))
    saver = Saver(Checkpoint(path, columns), "as given")
    for following, value in [(model, -5.0), (worse, -7.0), (worse, np.nan)]:
        saver.save(following, value)
    found = Checkpoint(path, columns).read()
    assert found.trace == saver.trace == (-5.0,)
    assert_array_equal(found.model.loadings, model.loadings)


# Without a chance to say goodbye


def test_a_fit_killed_ten_times_ends_where_an_undisturbed_one_ends():
    story = survive(10, seed=1)
    assert story.broken == ()
    assert story.kills == 10
    assert story.resumed >= 5
    assert largest_fall(story.trace) <= 1e-10
