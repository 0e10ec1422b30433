"""The masked cells of a NumPy masked array are missing: it is the same table as one with NaN there."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import probpca
from probpca import PPCA, BayesianPCA, LinearDynamicalSystem, PPCAImputer, select_n_components
from probpca.blocks import as_block
from probpca.displays.inputs import table_of, taken
from probpca.errors import DataError, ProbpcaError
from probpca.sources import open_source

ROWS, COLUMNS = 40, 5
UNDER_THE_MASK = [1e300, np.inf, np.nan, 0.0]


def numbers(rng, kind=np.float64):
    x = rng.standard_normal((ROWS, 2)) @ rng.standard_normal((2, COLUMNS)) + 0.3 * rng.standard_normal((ROWS, COLUMNS))
    return np.round(8 * x).astype(kind)


def table_pair(rng, kind=np.float64, under=1e300):
    """A masked table, with an empty row and junk under its mask, and the same table with NaN."""
    x, mask = numbers(rng, kind), rng.random((ROWS, COLUMNS)) < 0.2
    mask[:2] = False
    mask[3] = True
    dirty = x.copy()
    dirty[mask] = under if kind is np.float64 else 99
    holder = kind if np.issubdtype(kind, np.floating) else np.float64
    return np.ma.array(dirty, mask=mask), np.where(mask, np.nan, x).astype(holder)


@pytest.fixture
def pair(rng):
    return table_pair(rng)


def flat(found):
    """Whatever a method returns, as a list of arrays."""
    if isinstance(found, list | tuple):
        return [array for part in found for array in flat(part)]
    if hasattr(found, "mean") and hasattr(found, "covariance"):
        return [found.mean, found.covariance]
    return [found]


def assert_same(found, expected):
    for one, other in zip(flat(found), flat(expected), strict=True):
        if isinstance(one, np.ndarray):
            assert type(one) is np.ndarray
        assert_array_equal(one, other)


TABLE_QUESTIONS = {
    "transform": lambda e, x: e.transform(x),
    "posterior": lambda e, x: e.posterior(x),
    "project": lambda e, x: e.project(x),
    "reconstruct": lambda e, x: e.reconstruct(x),
    "score": lambda e, x: e.score(x),
    "score_samples": lambda e, x: e.score_samples(x),
    "outliers": lambda e, x: tuple(e.outliers(x))[:4],
    "training outliers": lambda e, x: tuple(e.outliers(x, training=True))[:4],
    "impute": lambda e, x: e.impute(x, return_std=True),
    "training impute": lambda e, x: e.impute(x, training=True),
    "impute_interval": lambda e, x: e.impute_interval(x),
    "impute_draws": lambda e, x: e.impute_draws(x, 2, random_state=0),
    "explore": lambda e, x: e.explore(x, 2, random_state=0),
    "fit_transform": lambda e, x: e.fit_transform(x),
    "a few rows as a list": lambda e, x: e.impute(list(x[:6].astype(np.float64))),
}


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize(
    "estimator",
    [PPCA(2, random_state=0, keep_source=True), PPCA(2, standardize=True, keep_source=True), BayesianPCA(3)],
    ids=["PPCA", "standardize", "BayesianPCA"],
)
def test_every_question_about_a_masked_table_is_that_of_the_table_with_nan(rng, estimator, kind):
    masked, plain = table_pair(rng, kind)
    estimator.set_params(random_state=0)
    mine, theirs = clone(estimator).fit(masked), clone(estimator).fit(plain)
    for question in TABLE_QUESTIONS.values():
        assert_same(question(mine, masked), question(theirs, plain))


@pytest.mark.parametrize("under", UNDER_THE_MASK)
def test_what_is_under_the_mask_never_matters(rng, under):
    masked, plain = table_pair(rng, under=under)
    assert_array_equal(PPCA(2).fit(masked).impute(masked), PPCA(2).fit(plain).impute(plain))
    assert_array_equal(as_block(masked).values, plain)


SOURCES = {
    "batches": lambda x: [x[:15], x[15:]],
    "an iterator": lambda x: iter([x[:15], x[15:]]),
    "a list of rows": list,
    "a tuple of rows": tuple,
    "a source": open_source,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_masked_rows_are_learned_wherever_they_come_from(pair, kind):
    models = [PPCA(2, random_state=0) for _ in pair]
    for model, x in zip(models, pair, strict=True):
        rows = SOURCES[kind](x)
        if kind == "an iterator":
            for batch in rows:
                model.partial_fit(batch)
        else:
            model.fit(rows)
    assert_array_equal(models[0].loadings_, models[1].loadings_)
    assert models[0].n_observed_ == np.isfinite(pair[1]).sum()


def test_masks_without_masked_cells_and_masked_columns(rng):
    x = numbers(rng)
    for mask in (np.ma.nomask, False, np.zeros(x.shape, bool)):
        assert_array_equal(PPCA(2).fit(np.ma.array(x, mask=mask)).loadings_, PPCA(2).fit(x).loadings_)
    masked = np.ma.array(x)
    masked[:, 1] = np.ma.masked
    with pytest.warns(UserWarning, match="no observed cells in 1 of 5"):
        ppca = PPCA(2).fit(masked)
    assert_array_equal(ppca.empty_features_, [1])


def test_only_text_under_the_mask_may_be_no_number(rng):
    x = np.ma.array(numbers(rng).astype(object))
    x[5, 2] = "not a number"
    with pytest.raises(DataError, match="rows must be numbers"):
        as_block(x)
    x[5, 2] = np.ma.masked
    assert np.isnan(as_block(x).values[5, 2])
    for kind in (complex, "datetime64[s]", [("a", float), ("b", float)]):
        with pytest.raises(ProbpcaError):
            as_block(np.ma.zeros((3, 2), kind))


def test_the_imputer_fills_masked_cells(pair):
    masked, plain = pair
    for imputer in (PPCAImputer(add_indicator=True), make_pipeline(FunctionTransformer(), PPCAImputer())):
        assert_same(imputer.fit(masked).transform(masked), imputer.fit(plain).transform(plain))


def test_latent_and_conditioning_values_must_not_be_masked(pair):
    ppca = PPCA(2).fit(pair[0])
    hole = np.ma.array(np.zeros((3, 2)), mask=np.eye(3, 2))
    for ask in (ppca.inverse_transform, lambda z: ppca.condition([0, 1], z)):
        with pytest.raises(ValueError, match="contains NaN"):
            ask(hole)


def test_masked_weights_are_an_error(rng):
    x = numbers(rng)
    weight = np.ma.array(np.ones(ROWS), mask=np.arange(ROWS) == 3)
    for call in (PPCA(2).fit, PPCA(2).partial_fit, PPCAImputer().fit, BayesianPCA(2).fit):
        with pytest.raises(DataError, match=r"entry 3 is masked.\nHint: 0 leaves a row out"):
            call(x, sample_weight=weight)
    with pytest.raises(DataError, match="entry 0 is masked"):
        PPCA(2).partial_fit(x, sample_weight=np.ma.array(np.ones(ROWS), mask=True))
    with pytest.raises(DataError, match="entry 3 is masked"):
        PPCA(2).fit(x).score(x, sample_weight=weight)
    with pytest.raises(DataError, match="cell_weight must be finite"):
        PPCA(2).fit(x, cell_weight=np.ma.array(np.ones(x.shape), mask=x > 1))


SERIES_QUESTIONS = {
    "transform": lambda e, x: e.transform(x),
    "score": lambda e, x: e.score(x),
    "score_samples": lambda e, x: e.score_samples(x),
    "smooth": lambda e, x: e.smooth(x),
    "impute": lambda e, x: e.impute(x, return_std=True),
    "impute_interval": lambda e, x: e.impute_interval(x),
    "anomalies": lambda e, x: e.anomalies(x),
    "sample_states": lambda e, x: e.sample_states(x, 2, random_state=0),
    "forecast": lambda e, x: [one.mean for one in np.atleast_1d(np.array(e.forecast(2, x), dtype=object))],
}


@pytest.mark.parametrize("cut", [lambda x: x, lambda x: [x[:15], x[15:]], lambda x: x.reshape(2, 20, 5)])
@pytest.mark.parametrize("kind", [np.float64, np.int16])
def test_masked_steps_of_a_series_are_missing(rng, cut, kind):
    masked, plain = (cut(x) for x in table_pair(rng, kind))
    system = LinearDynamicalSystem(1, max_iter=5, tol=1e6, random_state=0)
    mine, theirs = clone(system).fit(masked), clone(system).fit(plain)
    for question in SERIES_QUESTIONS.values():
        assert_same(question(mine, masked), question(theirs, plain))


def test_inputs_of_a_series_must_not_be_masked(rng):
    x, u = numbers(rng), np.ma.array(np.ones((ROWS, 1)))
    u[::2] = 0
    system = LinearDynamicalSystem(1, max_iter=5, tol=1e6).fit(x, inputs=u)
    u[3] = np.ma.masked
    with pytest.raises(DataError, match="inputs of sequence 0 must be finite"):
        LinearDynamicalSystem(1).fit(x, inputs=u)
    with pytest.raises(DataError, match="future inputs must be finite"):
        system.forecast(5, future=u[1:5])
    with pytest.raises(DataError, match="inputs must be finite"):
        system.sample(ROWS, inputs=u)
    with pytest.raises(DataError, match="offset must be finite"):
        LinearDynamicalSystem(1, offset=np.ma.array(np.zeros(COLUMNS), mask=True)).fit(x)


def test_the_number_of_components_displays_and_the_report_see_the_mask(pair, tmp_path):
    masked, plain = pair
    chosen = [select_n_components(x, ["bic", "cv"], random_state=0) for x in pair]
    assert str(chosen[0]) == str(chosen[1])
    assert_array_equal(table_of(masked), plain)
    assert_array_equal(table_of(taken(list(masked), [0, 4])), plain[[0, 4]])
    assert_array_equal(table_of(taken(masked, [0, 4])), plain[[0, 4]])
    ppca = PPCA(2).fit(plain)
    shown = [probpca.MissingnessDisplay.from_estimator(ppca, x).missing for x in pair]
    assert_array_equal(*shown)
    pages = [probpca.report(ppca, x, tmp_path / f"{k}.html") for k, x in enumerate(pair)]
    assert len({(tmp_path / f"{k}.html").read_text() for k in range(len(pages))}) == 1
