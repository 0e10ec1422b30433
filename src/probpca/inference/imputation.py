"""Missing cells, filled in with what the observed ones say about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.inference.intervals import central_interval
from probpca.inference.observed import seen
from probpca.inference.sampling import explore
from probpca.linalg.packed import doubled_sides, identity, inverse, outer_products, packed_size
from probpca.rows import as_block
from probpca.rows.block import dense_values

if TYPE_CHECKING:
    from probpca.inference.observed import Seen
    from probpca.models import LinearGaussian
    from probpca.rows import Rows
    from probpca.typing import Array, Index


class Imputed(NamedTuple):
    """A completed table, and the standard deviation of every cell: 0 where it was observed."""

    values: Array  # (n, d)
    std: Array  # (n, d)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends, (n, d) each, that hold each missing value with probability ``level``."""
        return central_interval(self.values, self.std, level)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ParameterDoubt:
    r"""How well the parameters of each feature are known: :math:`[w_j; \mu_j]` has covariance :math:`\Sigma_j`.

    The variance of a cell is then, with t = [z; 1] and :math:`\psi_j` the noise variance without what doubt adds,

    .. math:: \psi_j + w_j^\top P w_j + \operatorname{tr}(\Sigma_j E[t t^\top])
    """

    noise: Array  # psi: () or (d,)
    spread: Array  # Sigma_j, packed by rows: (., d), or (., 1) if all are the same

    @classmethod
    def of_fit(cls, model: LinearGaussian, information: Array, inflation: float) -> ParameterDoubt:
        r"""The doubt that maximum likelihood leaves.

        Given the latents it is :math:`\Sigma_j = \psi_j A_j^{-1}`, with ``information``
        :math:`A_j = \sum_{i \in R_j} E[t_i t_i^\top]`; and the noise variance that maximises the likelihood is too
        small by the share of degrees of freedom that the parameters took, ``inflation``.
        """
        noise = np.asarray(inflation * model.noise_variance)
        known = information[-1] > 0
        spread = noise * inverse(np.where(known, information, identity(model.n_components + 1)))
        return cls(noise, spread).without(np.flatnonzero(~known))

    def without(self, unknown: Index) -> ParameterDoubt:
        """Of some features nothing was ever observed: their mean may be anything."""
        if unknown.size == 0:
            return self
        spread = self.spread.copy()
        spread[:, unknown] = 0.0
        spread[-1, unknown] = np.inf
        return ParameterDoubt(self.noise, spread)


def impute(model: LinearGaussian, x: Rows) -> Array:
    r"""Rows with every missing cell replaced by its conditional mean: (n, d).

    .. math:: E[x_j \mid x_O] = \mu_j + w_j^\top m

    Observed cells are returned bit for bit.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca import LinearGaussian, impute
    >>> model = LinearGaussian(np.zeros(2), [[2.0], [1.0]], 0.5)
    >>> impute(model, [[4.5, np.nan]])
    array([[4.5, 2. ]])
    """
    block = as_block(x, model.n_features)
    out = dense_values(block)
    for part in seen(model, block):
        _fill(out, part, part.predicted(part.latents.mean))
    return out


def impute_with_doubt(model: LinearGaussian, x: Rows, doubt: ParameterDoubt | None = None) -> Imputed:
    r"""The same, with the standard deviation of every cell that was filled in.

    .. math:: \operatorname{Var}[x_j \mid x_O] = \sigma^2 + w_j^\top P w_j

    and, if it is said how well the parameters are known, what doubt about them adds.
    """
    block = as_block(x, model.n_features)
    values = dense_values(block)
    std = np.zeros(values.shape)
    noise = model.noise_variance if doubt is None else doubt.noise
    for part in seen(model, block):
        variance = part.doubt() * np.square(part.scale) + noise
        if doubt is not None:
            # The last entry is that of the mean; of a feature that was never seen it is infinite.
            moments = doubled_sides(_second_moments(part))
            variance = variance + moments[:-1].T @ doubt.spread[:-1] + doubt.spread[-1]
        _fill(std, part, np.sqrt(variance), where=values)
        _fill(values, part, part.predicted(part.latents.mean))
    return Imputed(values, std)


def draw_missing(model: LinearGaussian, x: Rows, *, rng: np.random.Generator) -> Array:
    """Rows with every missing cell drawn from its distribution given the observed ones: (n, d)."""
    block = as_block(x, model.n_features)
    values = dense_values(block)
    drawn = explore(model, block, 1, rng=rng)[0]
    return np.where(np.isnan(values), drawn, values)


def _second_moments(part: Seen) -> Array:
    """Entries of E[t t'], t = [z; 1], packed by rows: ((q + 1)(q + 2) / 2, b)."""
    q, b = part.latents.mean.shape
    t = np.vstack([part.latents.mean, np.ones(b)])
    moments = outer_products(t)
    moments[: packed_size(q)] += part.covariance
    return moments


def _fill(out: Array, part: Seen, answer: Array, where: Array | None = None) -> None:
    """Write an answer into the missing cells of the part."""
    missing = np.isnan((out if where is None else where)[part.rows])
    rows, columns = np.nonzero(missing)
    out[part.rows[rows], columns] = answer[rows, columns]
