"""Answers about rows with missing cells belong to whoever asked."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from oracles import precise_log_likelihood, random_model
from probpca.blocks import Block, observe
from probpca.blocks.cells import FORMS, FormSettings
from probpca.errors import DataError
from probpca.inference import log_likelihood
from probpca.inference.masked_rows import (
    STIFF,
    Parameters,
    group_posteriors,
    latents,
    sample_latents,
    variational_posteriors,
)
from probpca.linalg.packed import packed_size, unpack
from probpca.models import LinearGaussian, ParameterBelief


@pytest.fixture
def model(rng):
    return random_model(rng, d=30, q=3)


def rows(rng, n=3000, dtype=np.float64):
    x = rng.standard_normal((n, 30))
    x[rng.random(x.shape) < 0.3] = np.nan
    x[: n // 3] = np.where(np.arange(30) < 24, x[: n // 3], np.nan)  # fewer cells: a group of their own
    x[-n // 6 :] = rng.standard_normal((n // 6, 30))
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_answers_about_all_groups_of_a_block_can_be_kept(model, rng, dtype):
    x = np.vstack([rows(rng, dtype=dtype) for _ in range(4)])
    kept = list(group_posteriors(model, Block(x)))
    assert len(kept) > 2
    covariances = [found.covariance for found in kept]
    for found, covariance in zip(kept, covariances, strict=True):
        for k in (0, -1):
            there = ~np.isnan(x[found.index[k]])
            W = model.loadings[there]
            precision = np.eye(3) + W.T @ W / model.noise_variance
            assert_allclose(unpack(covariance)[k], np.linalg.inv(precision), rtol=1e-6)
            h = W.T @ (x[found.index[k]][there] - model.mean[there]) / model.noise_variance
            assert_allclose(found.latents.mean[:, k], np.linalg.solve(precision, h), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("noise", [0.3, "diagonal"])
@pytest.mark.parametrize("shared", [False, True])
def test_latents_of_a_fit_whose_parameters_are_certain_are_those_of_the_model(rng, noise, shared):
    model, x = random_model(rng, d=30, q=3, noise=noise), rows(rng, 60)
    none = np.full((packed_size(4), 1 if shared else 30), 1e-300)
    pairs = zip(
        group_posteriors(model, Block(x)),
        variational_posteriors(ParameterBelief(model, none, np.ones(3)), Block(x)),
        strict=True,
    )
    for known, believed in pairs:
        assert_array_equal(believed.index, known.index)
        assert_allclose(believed.latents.mean, known.latents.mean, rtol=1e-10)
        assert_allclose(believed.covariance, known.covariance, rtol=1e-10)
        assert_allclose(believed.predicted(believed.latents.mean), known.predicted(known.latents.mean), rtol=1e-10)


@pytest.mark.parametrize("noise", [0.3, "diagonal", 1e-11])
@pytest.mark.parametrize("form", [*FORMS, "one pattern"])
def test_draws_of_latents_have_mean_and_covariance_of_their_posterior(rng, noise, form):
    model, x = random_model(rng, d=30, q=3, noise=noise), rows(rng, 60)
    if form == "one pattern":
        x[:, 3] = np.nan
        x, form = np.where(np.isnan(x[0]), np.nan, np.nan_to_num(x)), "patterns"
    parameters, centre = Parameters.of(model, model.mean - 0.1), model.mean - 0.1
    basis = np.concatenate([np.zeros((1, 3)), np.eye(3)])[:, :, None]
    for group in observe(Block(x), centre, form=form).groups:
        cells, found = group.cells.ready(), latents(parameters, group.cells.ready())
        mean, *moved = sample_latents(parameters, cells, basis * np.ones(group.index.size))
        assert_allclose(mean, found.mean, rtol=1e-6, atol=1e-9)
        roots = np.stack(moved) - mean  # (q, q, b), the effect of each standard normal number
        wanted = unpack(found.of_rows(found.covariance[: packed_size(3)]))
        size = np.abs(wanted).max()
        assert_allclose(np.einsum("kib,kjb->bij", roots, roots), wanted, rtol=1e-5, atol=1e-7 * size)


def test_groups_of_dense_rows_are_small_enough_to_keep_their_digits():
    """Larger groups are not computed by orthogonal transformations, however little noise there is."""
    assert max(FormSettings().group_cells, FormSettings().sparse_group_cells) <= STIFF.cells


def test_cell_weights_go_with_one_noise_variance(rng):
    belief = ParameterBelief(random_model(rng, d=30, q=3, noise="diagonal"), np.ones((packed_size(4), 1)), np.ones(3))
    with pytest.raises(DataError, match="one noise variance for all features"):
        next(variational_posteriors(belief, Block(rows(rng, 60), precision=np.full((60, 30), 2.0))))


def test_two_posteriors_share_no_memory(model, rng):
    x = rows(rng)
    first, second = (
        latents(Parameters.of(model, model.mean), group.cells.ready())
        for group in (observe(Block(half), model.mean, form="masked").groups[0] for half in (x[:500], x[500:1000]))
    )
    assert not np.shares_memory(first.covariance, second.covariance)


def test_prepared_cells_share_no_memory(model, rng):
    x = rows(rng, dtype=np.float32)
    one, other = (observe(Block(half), model.mean, form="masked").groups[0].cells.ready() for half in (x[:9], x[9:18]))
    assert not np.shares_memory(one.values.entries, other.values.entries)
    assert not np.shares_memory(one.mask.entries, other.mask.entries)


def test_centred_rows_belong_to_the_caller(rng):
    block = Block(rng.standard_normal((20, 3)))
    one, other = (block.centred(piece, np.zeros(3)) for piece in (slice(0, 10), slice(10, 20)))
    assert_array_equal(np.vstack([one, other]), block.values)


def test_a_pickled_model_carries_its_parameters_alone(model):
    small = len(pickle.dumps(model))
    assert model.cell_information.shape == (6, 30)
    assert len(pickle.dumps(model)) == small
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert_array_equal(again.loadings, model.loadings)
    assert not again.loadings.flags.writeable


@pytest.mark.parametrize("form", ["rows", "patterns", "weights"])
@pytest.mark.parametrize("noise", [1e-6, 1e-9, 1e-12, 1e-14])
def test_digits_are_kept_if_noise_is_tiny_and_cells_are_fewer_than_components(rng, form, noise):
    n, d, q = 150, 8, 5
    model = random_model(rng, d=d, q=q, noise=noise)
    z = rng.standard_normal((n, q))
    x = model.mean + z @ model.loadings.T + np.sqrt(noise) * rng.standard_normal((n, d))
    holes = np.broadcast_to(np.arange(d) % 3 > 0, x.shape) if form == "patterns" else rng.random(x.shape) < 0.6
    x[holes] = np.nan
    x[0] = np.nan
    omega = rng.uniform(0.5, 2, x.shape) if form == "weights" else np.ones(x.shape)
    block = Block(x, precision=omega if form == "weights" else None)
    found = log_likelihood(model, block)
    assert found[0] == 0
    for i in range(1, n, 5):
        row, certain, value = x[i], omega[i], found[i]
        seen = np.flatnonzero(~np.isnan(row))
        if not seen.size:
            continue
        part = LinearGaussian(model.mean[seen], model.loadings[seen], noise / certain[seen])
        assert_allclose(value, precise_log_likelihood(part, row[seen], bits=300)[0], rtol=1e-9, atol=1e-7)
