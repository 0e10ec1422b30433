"""Tables without noise: their rank is the number of components, whatever the criterion."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from probpca import PPCA, PPCAImputer, select_n_components
from probpca.learning import Status
from probpca.learning.components import EXACT_RANK, RULES, SELECTION_RULES


def low_rank(seed, n, d, rank):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + rng.standard_normal(d)


@pytest.mark.parametrize("rule", [None, *RULES])
@pytest.mark.parametrize(("n", "d", "rank"), [(200, 20, 3), (30, 60, 4), (200, 20, 15), (40, 6, 1)])
def test_every_rule_takes_the_rank_and_says_so(rule, n, d, rank):
    ppca = PPCA(rule, random_state=0).fit(low_rank(0, n, d, rank))
    assert (ppca.n_components_, ppca.rule_) == (rank, EXACT_RANK)
    assert ppca.status_ is Status.LOW_RANK
    assert ppca.converged_
    assert Status.LOW_RANK.value in ppca.summary()


@pytest.mark.parametrize("solver", ["svd", "em", "px_em", "gradient"])
def test_every_solver_takes_the_rank(solver):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gradients have no end where there is no noise
        ppca = PPCA("bic", solver=solver, random_state=0).fit(low_rank(1, 80, 9, 3))
    assert (ppca.n_components_, ppca.rule_) == (3, EXACT_RANK)


def test_a_stream_takes_the_rank():
    ppca = PPCA()
    for part in np.array_split(low_rank(2, 90, 9, 3), 4):
        ppca.partial_fit(part)
    assert (ppca.n_components_, ppca.rule_) == (3, EXACT_RANK)


def test_parts_that_add_up_to_a_whole_are_left_to_the_usual_rule(rng):
    for _ in range(3):
        parts = rng.dirichlet(np.full(6, 5.0), 200)
        for rule in (None, "bic", "evidence"):
            ppca = PPCA(rule).fit(parts)
            assert (ppca.rule_, ppca.status_) == (RULES[rule or "parallel"], Status.EXACT)


def test_constant_columns_do_not_make_a_rank(rng):
    x = rng.standard_normal((100, 6))
    x[:, [1, 4]] = 3.0
    assert PPCA().fit(x).rule_ == "parallel analysis"
    x[:, 0] = x[:, 2] + x[:, 3]  # of four columns that vary three are free: as parts of a whole
    assert PPCA().fit(x).rule_ == "parallel analysis"
    x[:, 5] = x[:, 2] - x[:, 3]
    assert PPCA().fit(x).n_components_ == 2
    assert PPCA().fit(x).rule_ == EXACT_RANK


def dummies(rng):
    """Two categories in columns of 0 and 1, each of which adds up to 1, beside ten columns of noise."""
    blocks = [np.eye(k)[rng.integers(0, k, 400)] for k in (5, 6)]
    return np.hstack([*blocks, rng.standard_normal((400, 10))])


def residuals(rng):
    """Few rows of many columns, less what a covariate explains of them."""
    x, covariate = rng.standard_normal((40, 500)), rng.standard_normal(40)
    return x - np.outer(covariate, covariate @ x) / (covariate @ covariate)


def repeated_row(rng):
    x = rng.standard_normal((20, 50))
    return np.vstack([x, x[:1]])


def copies(rng):
    x = rng.standard_normal((300, 8))
    return np.hstack([x, 2.54 * x[:, :2]])


@pytest.mark.parametrize("table", [dummies, residuals, repeated_row, copies])
def test_a_few_columns_or_rows_that_depend_on_others_do_not_make_a_low_rank(rng, table):
    for rule in (None, "bic"):
        assert PPCA(rule).fit(table(rng)).rule_ == RULES[rule or "parallel"]


def test_single_precision_is_rounded_as_such():
    for n, d in ((200, 20), (20, 10)):
        ppca = PPCA("bic").fit(low_rank(6, n, d, 3).astype(np.float32))
        assert (ppca.n_components_, ppca.rule_) == (3, EXACT_RANK)


def test_no_more_components_are_taken_than_were_asked_for():
    found = select_n_components(low_rank(0, 200, 20, 3), ["parallel", "bic"], max_components=2)
    assert found.choices == {"parallel": 2, "bic": 2}


def test_few_rows_of_many_columns_do_not_make_a_rank(rng):
    assert PPCA().fit(rng.standard_normal((15, 40))).rule_ == "parallel analysis"


def test_a_little_noise_is_noise(rng):
    x = low_rank(3, 200, 20, 3)
    x += 1e-6 * rng.standard_normal(x.shape)
    ppca = PPCA("bic").fit(x)
    assert (ppca.n_components_, ppca.rule_) == (3, "BIC")


def test_the_comparison_of_criteria_says_so():
    found = select_n_components(low_rank(0, 200, 20, 3), random_state=0)
    assert found.choices == dict.fromkeys(SELECTION_RULES, 3)
    assert str(found).count(EXACT_RANK) == len(SELECTION_RULES)
    assert found.agreement == "All eight criteria choose 3."


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_bic_takes_the_rank_though_cells_are_missing(rank):
    x = low_rank(4, 120, 15, rank)
    x[np.random.default_rng(0).random(x.shape) < 0.3] = np.nan
    ppca = PPCA("bic", random_state=0).fit(x)
    assert (ppca.n_components_, ppca.rule_, ppca.status_) == (rank, EXACT_RANK, Status.LOW_RANK)
    found = select_n_components(x, "bic", random_state=0)["bic"]
    assert (found.choice, found.note) == (rank, EXACT_RANK)


@pytest.mark.parametrize("rule", [None, "bic"])
def test_the_rank_of_a_file_with_missing_cells_is_a_good_end(tmp_path, rule):
    x = low_rank(7, 400, 8, 2)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    np.save(tmp_path / "x.npy", x)
    for rows in (x, tmp_path / "x.npy"):
        ppca = PPCA(rule, random_state=0).fit(rows)
        assert (ppca.n_components_, ppca.rule_, ppca.status_) == (2, EXACT_RANK, Status.LOW_RANK)


def test_too_few_cells_do_not_tell_a_rank(rng):
    x = rng.standard_normal((12, 8))
    x[rng.random(x.shape) < 0.5] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert PPCA("bic", random_state=0).fit(x).rule_ == "BIC"


@pytest.mark.parametrize("model", ["fa", "ppca"])
@pytest.mark.parametrize("rank", [3, 5])
def test_an_imputer_recovers_a_table_of_low_rank(rank, model):
    """The table of scikit-learn's own test of its imputer: half of the cells missing, and as many new rows."""
    rng = np.random.RandomState(0)
    full = rng.rand(70, rank) @ rng.rand(rank, 70)
    holed = np.where(rng.rand(70, 70) < 0.5, np.nan, full)
    imputer = PPCAImputer(model=model, random_state=0).fit(holed[:35])
    found = imputer.transform(holed[35:])
    assert (imputer.estimator_.rule_, imputer.estimator_.status_) == (EXACT_RANK, Status.LOW_RANK)
    with pytest.warns(ConvergenceWarning, match="explain the data completely"):
        given = PPCAImputer(rank, model="ppca", random_state=0).fit(holed[:35]).transform(holed[35:])
    assert_allclose(found, given, atol=1e-6)
    assert np.sqrt(np.mean((found - full[35:]) ** 2)) < 1e-3
