"""Missing cells, filled in with what the observed ones say about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from probpca.inference.intervals import central_interval
from probpca.inference.observed import seen
from probpca.inference.sampling import explore
from probpca.linalg.packed import inverse, packed_size, row_order
from probpca.rows import as_block
from probpca.rows.block import dense_values

if TYPE_CHECKING:
    from probpca.inference.observed import Seen
    from probpca.models import LinearGaussian
    from probpca.rows import Rows
    from probpca.typing import Array


class Imputed(NamedTuple):
    """A completed table, and the standard deviation of every cell: 0 where it was observed."""

    values: Array  # (n, d)
    std: Array  # (n, d)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends, (n, d) each, that hold each missing value with probability ``level``."""
        return central_interval(self.values, self.std, level)


@final
@dataclass(frozen=True, eq=False)
class ParameterDoubt:
    r"""How well the rows of a fit determine the parameters of each feature.

    Given the latents, :math:`[w_j; \mu_j]` has covariance :math:`\sigma^2 A_j^{-1}`, with
    :math:`A_j = \sum_{i \in R_j} E[t_i t_i^\top]`, and the noise variance that maximises the likelihood is
    too small by the share of degrees of freedom that the parameters took.
    """

    information: Array  # A_j, packed by rows: (., d), or (., 1) if all are the same
    inflation: float  # of the noise variance: residual cells over degrees of freedom

    def entries(self) -> Array:
        """Entries of A_j^{-1} such that a sum over packed moments is the trace: (., d or 1)."""
        q = int(np.sqrt(2 * len(self.information)))
        rows, columns = row_order(q)
        known = self.information[-1] > 0
        safe = np.where(known, self.information, np.where(rows == columns, 1.0, 0.0)[:, None])
        entries = inverse(safe) * np.where(rows == columns, 1.0, 2.0)[:, None]
        return np.where(known, entries, np.where(np.arange(len(rows)) == len(rows) - 1, np.inf, 0.0)[:, None])


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
    factor = 1.0 if doubt is None else doubt.inflation
    entries = None if doubt is None else doubt.entries()
    for part in seen(model, block):
        variance = part.doubt() + factor * part.noise
        if entries is not None:
            # The last entry is that of the mean; of a feature that was never seen it is infinite.
            moments = _second_moments(part)
            variance = variance + factor * part.noise * (moments[:-1].T @ entries[:-1] + entries[-1])
        _fill(std, part, np.sqrt(variance) * part.scale, where=values)
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
    rows, columns = row_order(q + 1)
    moments = t[rows] * t[columns]
    moments[: packed_size(q)] += part.covariance
    return moments


def _fill(out: Array, part: Seen, answer: Array, where: Array | None = None) -> None:
    """Write an answer into the missing cells of the part."""
    missing = np.isnan((out if where is None else where)[part.rows])
    rows, columns = np.nonzero(missing)
    out[part.rows[rows], columns] = answer[rows, columns]
