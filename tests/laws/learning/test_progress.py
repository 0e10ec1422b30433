"""What somebody who watches a fit is told."""

import re

import numpy as np
import pytest

from oracles import spiked_rows
from probpca import PPCA, BayesianPCA
from probpca.learning.loop import Progress
from probpca.learning.progress import ProgressBar


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


def test_no_time_left_is_promised_for_steps_that_may_not_be_made(capsys):
    with ProgressBar(enabled=True) as bar:
        for step in range(5):
            bar(Progress(step, -1.0, 0.1, max_iter=500))
    last = capsys.readouterr().err.split("\r")[-1]
    assert last.startswith("step 4 of at most 500 [")
    assert not re.search(r"\d\d<", last)
