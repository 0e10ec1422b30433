"""The largest eigenpairs of a symmetric matrix are those of a full decomposition, whatever the spectrum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probpca.linalg import eigenpairs
from probpca.linalg.eigenpairs import largest_eigenpairs


def spectrum(kind, d, rng):
    """Eigenvalues of d, some of which make eigensolvers fail."""
    return {
        "spread": rng.uniform(0.0, 3.0, d),
        "graded": np.geomspace(1.0, 1e-15, d),
        "equal": np.ones(d),
        "cluster": np.concatenate([5.0 + 1e-14 * rng.random(d // 4), rng.random(d - d // 4)]),
        "low rank": np.concatenate([[3.0, 2.0, 1.0], np.zeros(d - 3)]),
        "zero": np.zeros(d),
        "huge": 1e200 * rng.random(d),
        "subnormal squares": 1e-200 * rng.random(d),
        "negative": rng.uniform(-3.0, 1.0, d),
    }[kind]


KINDS = ["spread", "graded", "equal", "cluster", "low rank", "zero", "huge", "subnormal squares", "negative"]


@pytest.mark.parametrize("d", [5, 70, 130])
@pytest.mark.parametrize("kind", KINDS)
def test_they_are_those_of_a_full_decomposition(rng, kind, d):
    values = np.sort(spectrum(kind, d, rng))[::-1]
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    S = (Q * values) @ Q.T
    S = (S + S.T) / 2
    size = max(np.abs(values).max(), 1e-300)
    for k in {1, 3, 11, d // 2, d} - {11 if d < 11 else 0}:
        found, vectors = largest_eigenpairs(S, k)
        assert found.shape == (k,)
        assert vectors.shape == (d, k)
        assert_allclose(found / size, values[:k] / size, atol=1e-13)
        assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-12)
        assert_allclose((S / size) @ vectors, vectors * (found / size), atol=1e-12)


def test_the_matrix_is_not_changed(rng):
    S = np.cov(rng.standard_normal((80, 200)))
    before = S.copy()
    largest_eigenpairs(S, 3)
    assert (before == S).all()


def test_another_solver_takes_over_where_the_first_fails(rng, monkeypatch):
    S = np.cov(rng.standard_normal((80, 200)))
    wanted = largest_eigenpairs(S, 4)
    calls = []

    def failing(*arguments):
        calls.append(arguments)
        return 0, np.zeros(80), np.zeros((80, 4)), 1

    monkeypatch.setattr(eigenpairs, "dstemr", failing)
    values, vectors = largest_eigenpairs(S, 4)
    assert calls
    assert_allclose(values, wanted[0], rtol=1e-12)
    assert_allclose(np.abs(np.sum(vectors * wanted[1], axis=0)), 1.0, rtol=1e-10)
