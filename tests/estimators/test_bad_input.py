"""What cannot be fitted is refused by name, with something to do about it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from probpca import PPCA, BayesianPCA, DataError, ProbpcaError, ShapeError, SourceError
from probpca.sources import open_source

ROWS = np.random.default_rng(0).standard_normal((20, 5))


def with_cell(value):
    x = ROWS.copy()
    x[3, 2] = value
    return x


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (
            with_cell(np.inf),
            DataError,
            r"infinity \(1 cell\), first in column 2(.|\n)*Hint: use NaN for missing values",
        ),
        (sparse.csr_array(with_cell(np.inf)), DataError, r"infinity \(1 cell\)"),
        (pd.DataFrame(with_cell(-np.inf)), DataError, r"infinity \(1 cell\)"),
        (np.where(np.eye(20, 5) > 0, np.nan, with_cell(np.inf)), DataError, r"infinity \(1 cell\)"),
        (iter([ROWS, with_cell(np.nan)]), DataError, r"NaN or infinity(.|\n)*Hint"),
        (np.full((6, 4), np.nan), DataError, "at least 2 rows with observed cells are needed"),
        (with_cell(1e200), DataError, "too large"),
        (np.array([["a", "b"], ["c", "d"]]), ValueError, "which are text"),
        (np.empty((0, 5)), ValueError, "0 sample"),
        (np.empty((5, 0)), ValueError, "0 feature"),
        (ROWS[:1], ValueError, "minimum of 2 is required"),
        (ROWS[:, :1], ValueError, "minimum of 2 is required"),
        (iter([ROWS[:1]]), DataError, "at least 2 rows"),
        (iter([ROWS[:, :1]]), ShapeError, "at least 2; got 1"),
        ([[1.0, 2.0], [3.0]], ShapeError, "same number of cells(.|\n)*Hint: use NaN"),
        (np.array([[1.0, [2.0]], [3.0, 4.0]], dtype=object), DataError, r"such as \[2.0\] in row 0, column 1"),
        (iter([ROWS, ROWS[:, :3]]), ShapeError, "every batch must have 5 columns"),
        (iter([]), SourceError, "at least one batch"),
        (ROWS[0], ValueError, "Expected 2D array, got 1D array"),
        (np.ones((4, 3)), DataError, "all rows are identical(.|\n)*Hint"),
        (ROWS + 1j, ValueError, "Complex data not supported"),
    ],
)
def test_rows_that_cannot_be_fitted(rows, error, message):
    with pytest.raises(error, match=message):
        PPCA(1).fit(rows)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "best", 0.0, 1.0, [2], 2.0])
def test_numbers_of_components_that_mean_nothing(wrong):
    with pytest.raises(DataError, match="'n_components' parameter of PPCA must be"):
        PPCA(wrong).fit(ROWS)


def test_true_is_no_number_of_components():
    with pytest.raises(ShapeError, match="got True"):
        PPCA(True).fit(ROWS)


@pytest.mark.parametrize("q", [5, 6, 50])
@pytest.mark.parametrize("solver", ["auto", "px_em"])
def test_more_components_than_a_gaussian_can_have(q, solver):
    with pytest.raises(ShapeError, match=rf"between 1 and n_features - 1 = 4; got {q}(.|\n)*Hint: n_components=4"):
        PPCA(q, solver=solver).fit(ROWS)


@pytest.mark.parametrize(
    "parameters",
    [{"solver": "magic"}, {"tol": -1.0}, {"max_iter": 0}, {"n_jobs": "two"}, {"random_state": "today"}],
    ids=str,
)
def test_other_parameters_that_mean_nothing(parameters):
    (name,) = parameters
    with pytest.raises(DataError, match=f"'{name}' parameter of PPCA"):
        PPCA(2, **parameters).fit(ROWS)


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (-np.ones(20), DataError, "not negative; entry 0 is -1"),
        (np.full(20, np.nan), DataError, "finite"),
        (np.zeros(20), DataError, "zero for every row"),
        (np.ones(19), ShapeError, "each of the 20 rows"),
        (np.eye(20)[0], DataError, "at least 2 rows"),
    ],
)
@pytest.mark.parametrize("kind", [PPCA, BayesianPCA])
def test_weights_that_make_no_sense(kind, weight, error, message):
    with pytest.raises(error, match=message):
        kind(2).fit(ROWS, sample_weight=weight)


def test_a_stream_takes_no_weights():
    with pytest.raises(SourceError, match="weights go with a matrix"):
        PPCA(2).fit(iter([ROWS]), sample_weight=np.ones(20))


def test_an_iterator_is_held_where_it_has_to_be_read_twice():
    found, wanted = (PPCA(2, standardize=True).fit(rows) for rows in (iter([ROWS[:7], ROWS[7:]]), ROWS))
    np.testing.assert_allclose(found.loadings_, wanted.loadings_, atol=1e-10)
    np.testing.assert_allclose(found.log_likelihood_, wanted.log_likelihood_, rtol=1e-12)


def test_a_source_cannot_be_read_twice():
    source = open_source(iter([ROWS]))
    PPCA(2).fit(source)
    with pytest.raises(SourceError, match=r"already read(.|\n)*Hint"):
        PPCA(2).fit(source)


@pytest.mark.parametrize("ask", ["transform", "score_samples", "score", "project", "outliers", "posterior"])
def test_questions_about_other_rows_than_were_fitted(ask):
    ppca = PPCA(2).fit(ROWS)
    with pytest.raises(ValueError, match="X has 3 features, but PPCA is expecting 5"):
        getattr(ppca, ask)(ROWS[:, :3])
    with pytest.raises(ValueError, match="contains infinity"):
        getattr(ppca, ask)(with_cell(np.inf))


def test_weights_of_a_score_are_checked():
    ppca = PPCA(2).fit(ROWS)
    with pytest.raises(DataError, match="not negative"):
        ppca.score(ROWS, sample_weight=-np.ones(20))


def test_latents_of_another_length_are_refused():
    with pytest.raises(ShapeError, match=r"matrix \(n, 2\), a column per component; got \(4, 3\)"):
        PPCA(2).fit(ROWS).inverse_transform(np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("weight", "no column is called 'weight'; the fitted columns are"),
        (["a", "z"], "no column is called 'z'"),
        ([7], "different positions 0 .. 4"),
        ([0, 0], "different positions"),
        ([], "at least one"),
        (list("abcde"), "left to predict"),
    ],
)
def test_features_that_cannot_be_conditioned_on(features, message):
    ppca = PPCA(2).fit(pd.DataFrame(ROWS, columns=list("abcde")))
    with pytest.raises(ShapeError, match=message):
        ppca.condition(features, np.zeros((1, len(features))))


def test_every_error_of_the_library_is_a_value_error():
    assert issubclass(ProbpcaError, ValueError)
    assert all(issubclass(kind, ProbpcaError) for kind in (DataError, ShapeError, SourceError))
