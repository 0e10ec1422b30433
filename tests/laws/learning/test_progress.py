"""What somebody who watches a fit is told."""

import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

from oracles import spiked_rows
from probpca import PPCA, BayesianPCA
from probpca.learning.loop import Progress
from probpca.learning.progress import ProgressBar, steps_left


@pytest.fixture
def holed(rng):
    x = spiked_rows(rng, 30, 6, 2)
    return np.where(rng.random(x.shape) < 0.1, np.nan, x)


@pytest.mark.parametrize(("kind", "said", "unsaid"), [(PPCA, "ll", "bound"), (BayesianPCA, "bound", "ll")])
def test_what_is_maximised_has_its_name(kind, said, unsaid, holed, capsys):
    fitted = kind(2, random_state=0, verbose=True).fit(holed)
    told = capsys.readouterr().err
    assert f"{said} {fitted.trace_[-1]:.6g}" in told
    assert f", {unsaid} " not in told


@given(rate=st.floats(0.01, 0.999), start=st.floats(1.0, 1e6), tol=st.floats(1e-6, 0.5))
def test_a_gain_that_shrinks_by_the_same_share_ends_when_it_is_said_to(rate, start, tol):
    before, now = (Progress(k, 0.0, start * rate**k, 10**9, tol) for k in (3, 8))
    left = steps_left(before, now)
    assert start * rate ** (8 + left) <= max(tol, now.remaining) * (1 + 1e-6)
    assert left == 0 or start * rate ** (8 + left) >= tol * (1 - 1e-6)


@pytest.mark.parametrize(("rate", "said"), [(0.5, "about"), (1.0, "at most")])
def test_time_left_is_told_by_a_gain_that_shrinks_or_by_the_last_step(capsys, rate, said):
    with ProgressBar(enabled=True) as bar:
        for step in range(5):
            bar(Progress(step, -1.0, rate**step, max_iter=500, tol=1e-3))
    last = capsys.readouterr().err.split("\r")[-1]
    assert last.startswith("step 4 of at most 500 [")
    assert re.search(rf"{said} \d\d:\d\d left\]", last)


@pytest.mark.parametrize("gains", [(1.0, 1.0), (1.0, 2.0), (np.inf, 1.0), (1.0, 0.0), (1.0, np.nan)])
def test_no_time_left_is_promised_where_nothing_is_known(gains):
    before, now = (Progress(k, 0.0, gain, 500, 1e-3) for k, gain in enumerate(gains))
    assert steps_left(before, now) is None
    assert steps_left(before._replace(remaining=2.0), now._replace(remaining=1.0, tol=0.0)) is None
    assert steps_left(before._replace(remaining=1.001), now._replace(remaining=1.0)) == 499  # it ends there anyway


@pytest.mark.parametrize("starts", [(0,), (500,), (300, 0)])
def test_time_left_is_that_of_the_steps_that_were_seen(starts, monkeypatch, capsys):
    """One second a step, whether the fit began here or goes on, and whatever came before it."""
    clock = iter(np.arange(100.0, 1e6))
    monkeypatch.setattr("probpca.learning.progress.time.monotonic", lambda: next(clock))
    with ProgressBar(enabled=True) as bar:
        for start in starts:  # of fits, one after the other
            for step in range(start, start + 3):
                bar(Progress(step, -1.0, 1.0, max_iter=1000, tol=1e-3))
    last = capsys.readouterr().err.split("\r")[-1]
    left = 1000 - (starts[-1] + 2)
    assert f"at most {left // 60:02d}:{left % 60:02d} left" in last
