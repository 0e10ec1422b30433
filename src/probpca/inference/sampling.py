"""Random draws of new rows, of parameters, and of the latent variables of given rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probpca.available_memory import require_memory
from probpca.blocks import as_block
from probpca.inference.masked_rows import group_posteriors
from probpca.inference.posteriors import posterior_mean, posterior_root
from probpca.inference.projection import decode
from probpca.linalg.packed import unpack
from probpca.linalg.rotations import triangular_root
from probpca.models import LinearGaussian

if TYPE_CHECKING:
    from probpca.blocks import Rows
    from probpca.models import ParameterBelief
    from probpca.typing import Array


def sample(model: LinearGaussian, n: int, *, rng: np.random.Generator) -> Array:
    r"""Draw ``n`` independent rows from the model: (n, d).

    .. math:: z \sim N(0, I_q), \qquad x \mid z \sim N(W z + \mu, \Psi)

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import sample
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(3), np.ones((3, 1)), 0.1)
    >>> sample(model, 5, rng=np.random.default_rng(0)).shape
    (5, 3)
    """
    q, d = model.n_components, model.n_features
    require_memory(f"{n:,} rows of {d:,} columns", 8 * int(n) * (2 * d + q), "draw fewer rows at a time")
    return add_noise(model, decode(model, rng.standard_normal((n, q))), rng)


def sample_parameters(belief: ParameterBelief, *, rng: np.random.Generator) -> LinearGaussian:
    """Draw a model, with loadings and mean from their posterior and the noise variance of its centre."""
    theta = np.column_stack([belief.centre.loadings, belief.centre.mean])  # (d, q + 1)
    root = np.zeros((belief.covariance.shape[1], *[theta.shape[1]] * 2))
    known = belief.covariance[-1] > 0
    root[known] = _roots(unpack(belief.covariance[:, known]))
    noise = rng.standard_normal(theta.shape)
    theta += np.einsum("jab,jb->ja", np.broadcast_to(root, (*theta.shape, theta.shape[1])), noise)
    return LinearGaussian(theta[:, -1], theta[:, :-1], belief.centre.noise_variance)


def _roots(covariance: Array) -> Array:
    """Lower triangular roots of covariance matrices, (d, k, k), which rounding may have made singular."""
    std = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), np.finfo(float).tiny))
    correlation = covariance / std[:, :, None] / std[:, None, :]  # variances of extreme ratios keep their digits
    try:
        return np.asarray(np.linalg.cholesky(correlation) * std[:, :, None])
    except np.linalg.LinAlgError:
        return triangular_root(correlation) * std[:, :, None]


def sample_latent(model: LinearGaussian, x: Rows, n_draws: int, *, rng: np.random.Generator) -> Array:
    r"""Draw the latent variables of each row from their posterior: (n_draws, n, q).

    .. math:: z \sim N(m, P), \qquad P = (I + W^\top \Psi^{-1} W)^{-1}, \quad m = P \, W^\top \Psi^{-1} (x - \mu)

    Missing cells (NaN) are left out of the posterior.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import sample_latent
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[1.0], [0.0]], 1.0)
    >>> draws = sample_latent(model, [[3.0, 5.0]], 1000, rng=np.random.default_rng(0))
    >>> draws.shape, float(draws.mean().round(1)), float(draws.std().round(1))
    ((1000, 1, 1), 1.5, 0.7)
    """
    block = as_block(x, model.n_features)
    _require_memory(n_draws, block.n_rows, model.n_components)
    if block.is_complete:
        mean = posterior_mean(model, block)  # (n, q)
        return mean + rng.standard_normal((n_draws, *mean.shape)) @ posterior_root(model).T
    draws = rng.standard_normal((n_draws, block.n_rows, model.n_components))
    for found in group_posteriors(model, block):
        draws[:, found.index] = found.sample(draws[:, found.index])
    return draws


def explore(model: LinearGaussian, x: Rows, n_draws: int, *, rng: np.random.Generator) -> Array:
    r"""Draw plausible variations of each row from its posterior predictive distribution: (n_draws, n, d).

    .. math:: z \sim p(z \mid x), \qquad \tilde x \mid z \sim N(W z + \mu, \Psi)

    Each draw is a complete row with the same latent variables as x, up to their uncertainty, and with new noise.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import explore
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(2), [[2.0], [1.0]], 0.1)
    >>> explore(model, [[2.0, np.nan]], 5, rng=np.random.default_rng(0)).shape
    (5, 1, 2)
    """
    block = as_block(x, model.n_features)
    _require_memory(n_draws, block.n_rows, model.n_features)
    latent = sample_latent(model, block, n_draws, rng=rng)
    return add_noise(model, decode(model, latent), rng)


def add_noise(model: LinearGaussian, x: Array, rng: np.random.Generator) -> Array:
    """Add noise with the noise variance of the model to rows, in place."""
    noise = rng.standard_normal(x.shape)
    noise *= np.sqrt(model.noise_variance)
    x += noise
    return x


def _require_memory(n_draws: int, n: int, columns: int) -> None:
    """Raise ``NotEnoughMemoryError`` if draws and the random numbers that they are made of do not fit into memory."""
    what = f"{n_draws:,} draws of {n:,} rows and {columns:,} columns"
    require_memory(what, 2 * 8 * int(n_draws) * n * columns, "use fewer draws, or pass fewer rows at a time")
