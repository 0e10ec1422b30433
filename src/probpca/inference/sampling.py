"""New rows, latent variables of given rows, and plausible neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.blocks import as_block
from probpca.inference.posteriors import posterior, posterior_mean, posterior_root
from probpca.inference.projection import decode
from probpca.linalg.packed import unpack
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.models import ParameterBelief
    from probpca.typing import Array


def sample(model: LinearGaussian, n: int, *, rng: np.random.Generator) -> Array:
    """Draw ``n`` rows from the model: (n, d).

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import sample
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(3), np.ones((3, 1)), 0.1)
    >>> sample(model, 5, rng=np.random.default_rng(0)).shape
    (5, 3)
    """
    return add_noise(model, decode(model, rng.standard_normal((n, model.n_components))), rng)


def sample_parameters(belief: ParameterBelief, *, rng: np.random.Generator) -> LinearGaussian:
    """Draw loadings and a mean from their posterior."""
    theta = np.column_stack([belief.centre.loadings, belief.centre.mean])  # (d, q + 1)
    root = np.zeros((belief.covariance.shape[1], *[theta.shape[1]] * 2))
    known = belief.covariance[-1] > 0
    root[known] = np.linalg.cholesky(unpack(belief.covariance[:, known]))
    noise = rng.standard_normal(theta.shape)
    theta += np.einsum("jab,jb->ja", np.broadcast_to(root, (*theta.shape, theta.shape[1])), noise)
    return LinearGaussian(theta[:, -1], theta[:, :-1], belief.centre.noise_variance)


def sample_latent(model: LinearGaussian, x: Rows, n_draws: int, *, rng: np.random.Generator) -> Array:
    """Draw latent variables of each row from their posterior: (n_draws, n, q)."""
    block = as_block(x, model.n_features)
    if block.is_complete:
        mean = posterior_mean(model, block)  # (n, q)
        return mean + rng.standard_normal((n_draws, *mean.shape)) @ posterior_root(model).T
    belief = posterior(model, block)
    noise = rng.standard_normal((n_draws, *belief.mean.shape))
    return belief.mean + np.einsum("nij,knj->kni", np.linalg.cholesky(belief.covariance), noise)


def explore(model: LinearGaussian, x: Rows, n_draws: int, *, rng: np.random.Generator) -> Array:
    """Draw plausible neighbours of each row: z from its posterior, then x~ from p(x | z): (n_draws, n, d)."""
    latent = sample_latent(model, x, n_draws, rng=rng)
    return add_noise(model, decode(model, latent), rng)


def add_noise(model: LinearGaussian, x: Array, rng: np.random.Generator) -> Array:
    """Add the model's noise to rows, in place."""
    x += rng.standard_normal(x.shape) * np.sqrt(model.noise_variance)
    return x
