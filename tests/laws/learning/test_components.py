"""What users may write for ``n_components`` is understood in one place."""

import numpy as np
import pytest

from oracles import spiked_rows_with_holes
from probpca import PPCA, DataError, ShapeError
from probpca.inference import explained_variance_ratio
from probpca.learning import Settings, fit_ppca
from probpca.learning.components import FACTOR_RULES, RULES, Components, Count, Rule, Share


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (3, Count(3)),
        (np.int32(3), Count(3)),
        (0.9, Share(0.9)),
        (np.float64(0.9), Share(0.9)),
        (None, Rule("parallel")),
        *((name, Rule(name)) for name in RULES),
    ],
)
def test_what_may_be_written(written, wanted):
    assert Components.parse(written, 5) == wanted
    assert Components.parse(eval(wanted.asked), 5) == wanted  # noqa: S307


@pytest.mark.parametrize("written", [True, 1.0, 0.0, 1.5, -0.5, np.nan, "mle", [2], np.bool_(1), 0, -1, 5])
def test_what_may_not(written):
    with pytest.raises(ShapeError, match="n_components"):
        Components.parse(written, 5)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [(3, Count(3)), (np.int32(3), Count(3)), (None, Rule("parallel")), *((name, Rule(name)) for name in FACTOR_RULES)],
)
def test_what_may_be_written_for_factors(written, wanted):
    assert Components.parse_factors(written, 5) == wanted
    assert wanted.asked == str(3) or wanted.words == FACTOR_RULES[wanted.name]


@pytest.mark.parametrize("written", [True, 0.9, 1.0, np.nan, "mle", "evidence", "cv", [2], np.bool_(1), 0, -1, 5])
def test_what_may_not_be_written_for_factors(written):
    with pytest.raises(ShapeError, match="n_components"):
        Components.parse_factors(written, 5)


def test_a_share_of_variance_for_factors_is_refused_with_a_reason():
    with pytest.raises(ShapeError, match="a share of variance does not determine their number"):
        Components.parse_factors(0.9, 5)


@pytest.mark.parametrize("name", sorted(FACTOR_RULES.keys() - RULES.keys()))
def test_rules_of_factor_analysis_alone_are_not_offered_for_components(name):
    with pytest.raises(ShapeError, match="or None; got 'aic'") as refused:
        Components.parse(name, 5)
    assert str(refused.value).count("aic") == 1


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_whether_it_needs_complete_rows(name):
    Rule(name).require_complete("")
    if Rule(name).complete_only:
        with pytest.raises(DataError, match="needs complete rows; a cell is missing"):
            Rule(name).require_complete("a cell is missing")
    else:
        Rule(name).require_complete("a cell is missing")


@pytest.mark.parametrize("rows", ["complete", "with holes"])
def test_a_share_that_no_model_can_hold_is_not_claimed(rng, rows):
    x = spiked_rows_with_holes(rng, 30, 5, 2, noise=3.0)
    x = np.nan_to_num(x) if rows == "complete" else x
    result = fit_ppca(x, 0.99999, Settings(max_iter=50), rng)
    held = explained_variance_ratio(result.model).sum()
    assert held < 0.999
    assert result.rule.startswith(f"{held:.3g}"[:4])
    assert "instead of 1: " in result.rule


def test_a_share_that_is_held_is_claimed(rng):
    x = spiked_rows_with_holes(rng, 80, 6, 2, noise=0.1)
    ppca = PPCA(0.9, random_state=0).fit(x)
    assert ppca.explained_variance_ratio_.sum() >= 0.9
    assert ppca.rule_ == "at least 0.9 of the variance"
