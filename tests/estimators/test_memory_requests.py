"""Small arguments that make huge results are refused before any work is done."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probpca import PPCA, BayesianPCA, LinearDynamicalSystem, NotEnoughMemoryError
from probpca.blocks import as_sequences
from probpca.inference import explore, sample, sample_latent, sample_series, sample_trajectories
from probpca.inference.imputation import draw_missing
from probpca.learning import Settings, fit_series

MANY = 10**12


@pytest.fixture
def holed(rng):
    x = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 4)) + 0.3 * rng.standard_normal((30, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


@pytest.fixture
def system(rng):
    y = np.cumsum(rng.standard_normal((40, 1)), axis=0) + rng.standard_normal((40, 3))
    return LinearDynamicalSystem(1, random_state=0), y


def refused(call, what):
    with pytest.raises(NotEnoughMemoryError, match=rf"1,000,000,000,000 {what}.* GB are available\.\nHint: ") as found:
        call()
    assert isinstance(found.value, ValueError)
    assert isinstance(found.value, MemoryError)


@pytest.mark.parametrize(
    "estimator", [PPCA(2, keep_source=True, random_state=0), PPCA(2, random_state=0), BayesianPCA(2, random_state=0)]
)
@pytest.mark.parametrize("kind", [int, np.int64])
def test_tables_that_do_not_fit_into_memory_are_refused_at_once(holed, estimator, kind):
    before = holed.copy()
    fitted = estimator.fit(holed)
    state = fitted._fitted
    refused(lambda: fitted.impute_draws(holed, kind(MANY)), "draws of 30 rows and 4 columns need 3,064,000")
    refused(lambda: fitted.explore(holed, kind(MANY)), "draws of 30 rows and 4 columns")
    refused(lambda: fitted.sample(kind(MANY)), "rows of 4 columns")
    assert fitted._fitted is state, "no parameters were drawn"
    assert_array_equal(holed, before)


def test_draws_that_would_fill_most_of_the_memory_are_refused_at_once(holed, monkeypatch):
    fitted = PPCA(2, keep_source=True, random_state=0).fit(holed)
    monkeypatch.setattr(type(fitted), "_parameters", None)
    monkeypatch.setattr("probpca.available_memory.available_memory", lambda: 5_000_000_000)
    with pytest.raises(NotEnoughMemoryError, match=r"1,000,000 draws .* need 3\.1 GB .*; 5\.0 GB are available"):
        fitted.impute_draws(holed, 10**6)


def test_draws_of_parameters_that_do_not_fit_into_memory_are_refused_before_the_fit(holed, monkeypatch):
    monkeypatch.setattr("probpca.estimators.ppca.fit_ppca", lambda *_, **__: pytest.fail("fitted"))
    refused(lambda: PPCA(2, n_parameter_draws=MANY).fit(holed), "draws of the parameters of 4 columns and 2 components")
    refused(lambda: PPCA("bic", n_parameter_draws=MANY).fit(holed), "draws of the parameters")


def test_bootstrap_samples_that_do_not_fit_into_memory_are_refused_at_once(holed):
    fitted = PPCA(2, random_state=0).fit(holed)
    refused(lambda: fitted.uncertainty(holed, n_draws=MANY), "bootstrap samples")


def test_series_that_do_not_fit_into_memory_are_refused_at_once(system):
    estimator, y = system
    fitted = estimator.fit(y)
    refused(lambda: fitted.sample(MANY), "steps of 3 columns")
    refused(lambda: fitted.sample_states(y, MANY), "trajectories of 40 steps and 1 states")
    refused(lambda: fitted.forecast(MANY), "steps need")


def test_functions_of_models_refuse_as_estimators_do(holed, system, rng):
    model = PPCA(2, random_state=0).fit(holed).model_
    refused(lambda: sample(model, MANY, rng=rng), "rows")
    refused(lambda: sample_latent(model, holed, MANY, rng=rng), "draws of 30 rows and 2 columns")
    refused(lambda: explore(model, holed, MANY, rng=rng), "draws of 30 rows and 4 columns")
    estimator, y = system
    states = estimator.fit(y).model_
    refused(lambda: fit_series(as_sequences(y), MANY, Settings(), rng), "states need")
    refused(lambda: sample_series(states, MANY, rng=rng), "steps")
    refused(lambda: sample_trajectories(states, y, MANY, rng=rng), "trajectories")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("family", [PPCA, BayesianPCA])
def test_each_table_is_drawn_from_its_own_parameters_with_one_stream_of_random_numbers(holed, dtype, family):
    keep = {"keep_source": True} if family is PPCA else {}
    fitted = family(2, random_state=0, **keep).fit(holed.astype(dtype))
    rng = np.random.default_rng(7)
    expected = [draw_missing(model, holed.astype(dtype), rng=rng).astype(dtype) for model in fitted._parameters(5)]
    tables = fitted.impute_draws(holed.astype(dtype), 5, random_state=np.random.default_rng(7))
    assert_allclose(tables, np.stack(expected), rtol=1e-6 if dtype == np.float32 else 1e-12)  # other deviations
    assert tables.dtype == dtype
