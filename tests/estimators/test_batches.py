"""Rows that come in batches: what counts as one, names of columns, cells that are not stored."""

from collections import deque
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from oracles import spiked_rows
from probpca import PPCA, ShapeError, SourceError
from probpca.learning.complete.closed_form import choose_by_spectrum
from probpca.learning.complete.spectrum import Spectrum
from probpca.learning.components import Share
from probpca.learning.settings import SampleSize, Settings
from probpca.sources import open_source
from probpca.sources.open import kind_of
from probpca.statistics import Moments

NAMES = list("abcde")
ROWS = spiked_rows(np.random.default_rng(4), 300, 5, 2, noise=0.3) + 2
PARTS = ROWS[:100], ROWS[100:110], ROWS[110:]
FRAMES = [pd.DataFrame(part, columns=NAMES) for part in PARTS]


class Afresh:
    """Batches that can be read again and again; it knows how many of them are being read."""

    def __init__(self, parts=PARTS):
        self.parts, self.reading = parts, 0

    def __iter__(self):
        self.reading += 1
        try:
            yield from self.parts
        finally:
            self.reading -= 1


BATCHES = {
    "list": lambda: list(PARTS),
    "tuple": lambda: PARTS,
    "deque": lambda: deque(PARTS),
    "sparse": lambda: [sparse.csr_array(part) for part in PARTS],
    "nested lists": lambda: [part.tolist() for part in PARTS],
    "an empty one first": lambda: [ROWS[:0], *PARTS],
    "one batch": lambda: [ROWS],
    "afresh": Afresh,
    "iterator": lambda: iter(PARTS),
    "dataframes": lambda: FRAMES,
    "polars": lambda: [pl.DataFrame(part, schema=NAMES) for part in PARTS],
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_batches_are_fitted_and_asked_as_one_table(make):
    wanted, found = PPCA(2).fit(ROWS), PPCA(2).fit(make())
    assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-12)
    assert_allclose(found.transform(make()), wanted.transform(ROWS), rtol=1e-9)
    assert_allclose(found.score(make()), wanted.score(ROWS), rtol=1e-12)
    assert_allclose(found.impute(make()), ROWS, rtol=1e-15)


def test_batches_that_can_be_read_again_are_read_as_often_as_it_takes():
    wanted = PPCA(2, standardize=True).fit_transform(ROWS)
    assert_allclose(PPCA(2, standardize=True).fit_transform(list(PARTS)), wanted, rtol=1e-9)
    assert_allclose(PPCA(2, standardize=True).fit_transform(Afresh()), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([[1, 2], [3, 4]], "matrix"),
        ([np.ones(2), np.ones(2)], "matrix"),
        ([(1, 2), (3, 4)], "matrix"),
        ([1, 2], "matrix"),
        ([[]], "matrix"),
        (np.ones((2, 2, 2)), "matrix"),
        (pd.Series([1.0, 2.0]), "matrix"),
        ([ROWS], "batches"),
        ([[[1, 2]], [[3, 4]]], "batches"),
        (FRAMES, "batches"),
        ([], "batches"),
        ({"a": [1, 2]}, "nothing"),
        ({1, 2}, "nothing"),
        (b"rows", "nothing"),
        (None, "nothing"),
        ("rows.npy", "file"),
        (FRAMES[0], "frame"),
        (open_source(ROWS), "source"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_list_of_rows_is_a_matrix_and_a_list_of_matrices_is_not(rows, kind):
    assert kind_of(rows) == kind


def test_what_only_takes_a_matrix_says_so_of_batches():
    with pytest.raises(SourceError, match="takes a matrix of rows"):
        PPCA(2).fit(ROWS).explore(list(PARTS))


def test_dataframes_that_follow_may_have_their_columns_in_another_order():
    turned = [FRAMES[0], FRAMES[1][NAMES[::-1]], FRAMES[2][list("bdeca")]]
    for batches in (turned, iter(turned)):
        found = PPCA(2).fit(batches)
        assert found.feature_names_in_.tolist() == NAMES
        assert_allclose(found.loadings_, PPCA(2).fit(ROWS).loadings_, rtol=1e-9)
    assert_allclose(found.transform([frame[NAMES[::-1]] for frame in FRAMES]), found.transform(turned), rtol=1e-12)
    assert_allclose(found.transform(pd.concat(FRAMES)), found.transform(turned), rtol=1e-12)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (FRAMES[1].rename(columns={"c": "sea"}), "'c' is missing"),
        (FRAMES[1].assign(f=1.0), "got 6 columns"),
        (FRAMES[1].drop(columns="e"), "'e' is missing"),
    ],
    ids=["renamed", "one more", "one less"],
)
def test_dataframes_with_other_columns_are_refused(second, words):
    with pytest.raises(
        ShapeError, match=rf"same columns as the first ones, a, b, c, d, e, in any order; {words}(.|\n)*Hint"
    ):
        PPCA(2).fit(iter([FRAMES[0], second]))


def test_columns_that_are_counted_have_no_names():
    frames = [pd.DataFrame(part) for part in PARTS]
    for rows in (frames, open_source(pd.concat(frames))):
        found = PPCA(2).fit(rows)
        assert not hasattr(found, "feature_names_in_")
        assert_allclose(found.transform(pd.concat(frames)), PPCA(2).fit_transform(ROWS), rtol=1e-9)


def test_cells_of_dataframes_that_come_in_batches_may_be_null():
    frames = [frame.astype("Float64") for frame in FRAMES]
    frames[1].iloc[2, 3] = pd.NA
    holed = np.concatenate(PARTS)
    holed[102, 3] = np.nan
    assert_array_equal(open_source(frames).map(lambda block: block.raw(slice(None))), holed)


def test_what_was_opened_to_look_at_the_first_batch_is_closed():
    batches = Afresh()
    source = open_source(batches)
    assert batches.reading == 0
    source.fold(Moments.of)
    assert batches.reading == 0


def ratings():
    rng = np.random.default_rng(8)
    x = spiked_rows(rng, 600, 6, 2, noise=0.5) + 3
    x[rng.random(x.shape) < 0.4] = 0
    return x, sparse.csr_array(x)


@pytest.mark.parametrize("form", [list, iter, Afresh], ids=["list", "iterator", "afresh"])
def test_cells_that_batches_do_not_store_are_missing_if_that_is_asked_for(form):
    x, thin = ratings()
    batches = [thin[:250], thin[250:251], thin[251:]]
    wanted = PPCA(2, missing="unstored", tol=1e-8, random_state=0).fit(thin)
    found = PPCA(2, missing="unstored", tol=1e-8, random_state=0).fit(form(batches))
    assert found.n_observed_ == wanted.n_observed_ == np.count_nonzero(x)
    assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-9)
    assert_allclose(found.transform(form(batches)), found.transform(thin), atol=1e-9)
    assert_allclose(found.impute(form(batches)), found.impute(thin), atol=1e-9)


def test_a_source_that_takes_them_for_zeros_is_refused():
    _, thin = ratings()
    fitted = PPCA(2, missing="unstored").fit(thin)
    for source in (open_source(thin), open_source([thin, thin])):
        for ask in (PPCA(2, missing="unstored").fit, fitted.transform):
            with pytest.raises(
                SourceError, match=r"opened with unstored cells as zeros(.|\n)*Hint.*unstored_missing=True"
            ):
                ask(source)
    source = open_source(thin, unstored_missing=True)
    assert_allclose(PPCA(2, missing="unstored").fit(source).log_likelihood_, fitted.log_likelihood_, rtol=1e-6)
    PPCA(2, missing="unstored").fit(open_source(ROWS))


@pytest.fixture
def small_samples(monkeypatch):
    small = partial(Settings, sample=SampleSize(cells=2400, rows=300))
    monkeypatch.setattr("probpca.estimators.ppca.Settings", small)


@pytest.mark.usefixtures("small_samples")
def test_rows_of_few_kinds_are_sampled_as_often_as_they_came(tmp_path):
    rng = np.random.default_rng(2)
    latent = rng.standard_normal((5000, 2)) @ rng.standard_normal((2, 8))
    x = (latent + 0.3 * rng.standard_normal(latent.shape) > 0.5).astype(float)
    x[rng.random(len(x)) < 0.1, 3] = np.nan
    np.save(tmp_path / "x.npy", x)
    wanted = PPCA("bic", random_state=0).fit(x)
    for seed in (1, 2):
        found = PPCA("bic", random_state=seed).fit(tmp_path / "x.npy")
        assert found.rule_ == "BIC, in a sample of 5,000 rows"
        assert found.n_components_ == wanted.n_components_
        assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-6)


@pytest.mark.usefixtures("small_samples")
def test_a_sample_of_few_kinds_of_rows_varies(tmp_path):
    rng = np.random.default_rng(3)
    kinds = np.array([[0.0, 1, 2, 3], [4, 0, 1, 7], [2, 2, 5, 1], [0, 3, 3, np.nan]])
    x = kinds[rng.integers(0, 4, 9000)]
    np.save(tmp_path / "x.npy", x)
    found = PPCA(1, random_state=0).fit(tmp_path / "x.npy")
    assert_allclose(found.log_likelihood_, PPCA(1, random_state=0).fit(x).log_likelihood_, rtol=1e-6)


def test_a_share_that_cannot_be_held_is_not_claimed(rng):
    axes = np.linalg.qr(rng.standard_normal((40, 3)))[0]
    sketch = Spectrum(600.0, 600, np.zeros(40), np.array([3.0, 2.0, 1.0]), axes, 4.0, 1e-12)
    few, enough = (choose_by_spectrum(sketch, Share(share), 3, "the sketch has no more").rule for share in (0.95, 0.5))
    assert few == "0.6 of the variance instead of 0.95: the sketch has no more"
    assert enough == "at least 0.5 of the variance"
    narrow = PPCA(0.95).fit(rng.standard_normal((50, 2)))
    assert narrow.n_components_ == 1
    assert "of the variance instead of 0.95" in narrow.rule_
