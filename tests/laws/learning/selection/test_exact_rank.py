"""Tables without noise: their rank is the number of components, whatever the criterion."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from probpca import PPCA, PPCAImputer, select_n_components
from probpca.learning import Status
from probpca.learning.components import EXACT_RANK, RULES


def low_rank(seed, n, d, rank):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + rng.standard_normal(d)


@pytest.mark.parametrize("rule", [None, *RULES])
@pytest.mark.parametrize(("n", "d", "rank"), [(200, 20, 3), (30, 60, 4), (200, 20, 17), (40, 6, 1)])
def test_every_rule_takes_the_rank_and_says_so(rule, n, d, rank):
    ppca = PPCA(rule, random_state=0).fit(low_rank(0, n, d, rank))
    assert (ppca.n_components_, ppca.rule_) == (rank, EXACT_RANK)
    assert ppca.status_ is Status.LOW_RANK
    assert ppca.converged_
    assert ppca.notes_[0].startswith(f"The columns are exact combinations of {'one' if rank == 1 else rank} component")


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


def test_few_rows_of_many_columns_do_not_make_a_rank(rng):
    assert PPCA().fit(rng.standard_normal((15, 40))).rule_ == "parallel analysis"


def test_a_little_noise_is_noise(rng):
    x = low_rank(3, 200, 20, 3)
    x += 1e-6 * rng.standard_normal(x.shape)
    ppca = PPCA("bic").fit(x)
    assert (ppca.n_components_, ppca.rule_) == (3, "BIC")


def test_the_comparison_of_criteria_says_so():
    found = select_n_components(low_rank(0, 200, 20, 3), random_state=0)
    assert found.choices == dict.fromkeys(RULES, 3)
    assert str(found).count(EXACT_RANK) == len(RULES)
    assert found.agreement == "All six criteria choose 3."


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_bic_takes_the_rank_though_cells_are_missing(rank):
    x = low_rank(4, 120, 15, rank)
    x[np.random.default_rng(0).random(x.shape) < 0.3] = np.nan
    ppca = PPCA("bic", random_state=0).fit(x)
    assert (ppca.n_components_, ppca.rule_, ppca.status_) == (rank, EXACT_RANK, Status.LOW_RANK)
    found = select_n_components(x, "bic", random_state=0)["bic"]
    assert (found.choice, found.note) == (rank, EXACT_RANK)


def test_too_few_cells_do_not_tell_a_rank(rng):
    x = rng.standard_normal((12, 8))
    x[rng.random(x.shape) < 0.5] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert PPCA("bic", random_state=0).fit(x).rule_ == "BIC"


@pytest.mark.parametrize("rank", [3, 5])
def test_an_imputer_recovers_a_table_of_low_rank(rank):
    """The table of scikit-learn's own test of its imputer: half of the cells missing, and as many new rows."""
    rng = np.random.RandomState(0)
    full = rng.rand(70, rank) @ rng.rand(rank, 70)
    holed = np.where(rng.rand(70, 70) < 0.5, np.nan, full)
    found = PPCAImputer(random_state=0).fit(holed[:35]).transform(holed[35:])
    with pytest.warns(ConvergenceWarning, match="explain the data completely"):
        given = PPCAImputer(rank, random_state=0).fit(holed[:35]).transform(holed[35:])
    assert_allclose(found, given, atol=1e-6)
    assert np.sqrt(np.mean((found - full[35:]) ** 2)) < 1e-3
