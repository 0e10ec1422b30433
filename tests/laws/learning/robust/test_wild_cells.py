"""Scores of cells that leave the cell out, and the weights that follow from them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from oracles import dense_covariance, random_model
from probpca.learning.robust.wild_cells import CellTable, Climbed, WildCells, fit_wild_cells, left_out, used_rows
from probpca.learning.settings import WildCellSettings
from probpca.linalg.packed import pack


@pytest.fixture(params=[0.4, "diagonal"], ids=["shared", "per_feature"])
def model(request, rng):
    return random_model(rng, 6, 2, noise=request.param)


@pytest.fixture
def x(rng):
    rows = 2 * rng.standard_normal((12, 6)) + 1
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows[0] = np.nan
    return rows


def table_of(x, precision=None):
    return CellTable.of(x, np.ones(len(x)), precision, np.zeros(x.shape[1]))


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_dense_predictions_from_all_other_cells(rng, model, x, weighted):
    given = rng.uniform(0.5, 2.0, x.shape) if weighted else None
    table = table_of(x, given)
    tame = rng.uniform(0.1, 1.0, x.shape).T
    omega = table.precision * tame
    residual, variance = left_out(table, model, omega, table.judge(model, omega))
    noise = np.broadcast_to(model.noise_variance, (6,))
    signal = model.loadings @ model.loadings.T
    for i, j in np.argwhere(~np.isnan(x)):
        others = np.flatnonzero(~np.isnan(x[i]) & (np.arange(6) != j))
        C = signal[np.ix_(others, others)] + np.diag(noise[others] / omega[others, i])
        gain = np.linalg.solve(C, signal[others, j]) if others.size else np.zeros(0)
        expected = model.mean[j] + gain @ (x[i] - model.mean)[others]
        wanted = signal[j, j] - gain @ signal[others, j] + noise[j] / table.precision[j, i]
        assert_allclose([residual[j, i], variance[j, i]], [x[i, j] - expected, wanted], rtol=1e-9)


def test_scores_leave_the_cell_out_of_the_regression_of_its_column(rng):
    # With loadings of zero the posteriors of the rows do not depend on the cells: only the column's regression does.
    n, d, q = 30, 3, 2
    model = replace(random_model(rng, d, q), loadings=np.zeros((d, q)), mean=np.zeros(d))
    x, omega = rng.standard_normal((n, d)), rng.uniform(0.2, 1.0, (d, n))
    table = table_of(x)
    judged = table.judge(model, omega)._replace(mean=rng.standard_normal((q, n)))
    t = np.vstack([judged.mean, np.ones(n)])
    gram = np.stack([pack((w * t) @ t.T) for w in omega], axis=1)
    theta = np.stack([np.linalg.solve((w * t) @ t.T, (w * t) @ x[:, j]) for j, w in enumerate(omega)])
    judged = judged._replace(residual=x.T - theta @ t)
    residual, variance = left_out(table, model, omega, judged, gram)
    for j, i in np.ndindex(d, n):
        w = omega[j] * (np.arange(n) != i)
        A = (w * t) @ t.T
        without = np.linalg.solve(A, (w * t) @ x[:, j])
        assert_allclose(residual[j, i], x[i, j] - without @ t[:, i], rtol=1e-8)
        assert_allclose(variance[j, i], float(model.noise_variance) * (1 + t[:, i] @ np.linalg.solve(A, t[:, i])))


def test_weights_are_the_posterior_of_the_two_kinds_of_cells(rng, model, x):
    table, wild = table_of(x), WildCells(0.1, 3.0)
    residual, variance = rng.standard_normal((6, 12)), rng.uniform(0.5, 2.0, (6, 12))
    kappa = 3.0 * np.diag(dense_covariance(model))
    for j, i in np.argwhere(table.seen):
        tame = 0.9 * np.exp(-0.5 * residual[j, i] ** 2 / variance[j, i]) / np.sqrt(variance[j, i])
        other = 0.1 * np.exp(-0.5 * (x[i, j] - model.mean[j]) ** 2 / kappa[j]) / np.sqrt(kappa[j])
        assert_allclose(wild.tame(table, model, residual, variance)[j, i], tame / (tame + other), rtol=1e-8)
    assert (wild.tame(table, model, residual, variance)[~table.seen] == 0).all()


def test_a_single_wild_cell_is_found_and_moves_nothing(rng):
    model = random_model(rng, 8, 2, noise=0.2)
    x = rng.standard_normal((200, 2)) @ model.loadings.T + model.mean + np.sqrt(0.2) * rng.standard_normal((200, 8))
    rows = {}
    for size in (20.0, 2000.0):
        x[7, 3] = size
        table = table_of(x)
        start = Climbed(model, table.seen.astype(float), np.ones(200), np.empty((0, 0)), 0, converged=False)
        gram = np.repeat(pack(200 * np.eye(3))[:, None], 8, axis=1)
        found = fit_wild_cells(table, start._replace(gram=gram), 1e-9, replace(WildCellSettings(), movement=1e-6))
        assert found.tame[3, 7] < 1e-6
        assert (found.tame > 0.5).sum() > 1590
        rows[size] = dense_covariance(found.model)
    assert_allclose(rows[20.0], rows[2000.0], rtol=0.01, atol=0.01)


def test_at_least_the_share_to_keep_is_used(rng, model):
    table = table_of(rng.standard_cauchy((40, 6)))
    judged = table.judge(model, table.precision)
    for keep in (0.5, 0.75, 0.9):
        used = used_rows(table, model, judged, np.square(judged.residual), WildCellSettings(), keep)
        assert set(np.unique(used)) <= {0.0, 1.0}
        assert used.mean() >= keep - 1 / 40
