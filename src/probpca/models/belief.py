"""Gaussian posterior of the parameters of a linear-Gaussian model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.errors import require_finite, require_positive, require_shape
from probpca.linalg.packed import by_columns, packed_size, turn, unpack
from probpca.models.gaussian import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, eq=False)
class ParameterBelief:
    r"""A Gaussian for the loadings and the mean of each feature, :math:`\theta_j = [w_j; \mu_j]`.

    .. math:: \theta_j \sim N(\hat\theta_j, \Sigma_j), \qquad w_{jk} \sim N(0, 1 / \alpha_k) \text{ before any data}

    ``centre`` holds the means and the noise variance; the precision :math:`\alpha_k` of the loadings of a component
    tells how relevant it is: where it is large, they are all near zero.
    """

    centre: LinearGaussian  # posterior means of W and mu; sigma2
    covariance: Array  # Sigma_j, packed by rows: ((q + 1)(q + 2) / 2, d), or (., 1) if all features share it
    precision: Array  # alpha: (q,)

    def __post_init__(self) -> None:
        """Check shapes and values once; formulas trust them afterwards."""
        for name in ("covariance", "precision"):
            value = np.array(getattr(self, name), dtype=np.float64)
            value.setflags(write=False)
            require_finite(name, value)
            object.__setattr__(self, name, value)
        p, d = packed_size(self.centre.n_components + 1), self.centre.n_features
        require_shape("covariance", self.covariance, (p, d), (p, 1))
        require_shape("precision", self.precision, (self.centre.n_components,))
        require_positive("precision", self.precision)

    @property
    def n_components(self) -> int:
        """Number of components q."""
        return self.centre.n_components

    @cached_property
    def energy(self) -> Array:
        """Expected squared loadings of each component, summed over the features: (q,)."""
        return np.square(self.centre.loadings).sum(axis=0) + self.loading_variance

    @property
    def loading_variance(self) -> Array:
        """Variance of the loadings of each component, summed over the features: (q,)."""
        return np.diag(self.summed_covariance)

    @cached_property
    def summed_covariance(self) -> Array:
        """Covariance of the loadings of a feature, summed over the features: (q, q)."""
        each = self.centre.n_features / self.covariance.shape[1]
        return each * unpack(self.covariance[: packed_size(self.n_components)].sum(axis=1))

    @cached_property
    def cell_information(self) -> Array:
        """Expected precision that a cell of each feature adds to the posterior of z, E[w_j w_j'] / psi_j.

        Packed by columns, (q (q + 1) / 2, d), and computed once a belief.
        """
        out, noise = self.centre.cell_information.copy(), self.centre.noise_variance
        for k, place in enumerate(by_columns(self.n_components)):
            out[k] += self.covariance[place] / noise
        return out

    @property
    def n_known(self) -> int:
        """Number of features with an observed cell; the others have no covariance."""
        return self.centre.n_features if self.covariance.shape[1] == 1 else int(np.count_nonzero(self.covariance[-1]))

    @property
    def variances(self) -> Array:
        """Variance of each parameter of each feature: (q + 1, d or 1)."""
        return self.covariance[packed_size(np.arange(1, self.n_components + 2)) - 1]

    def predictive(self) -> LinearGaussian:
        r"""The Gaussian of a new row with its mean and covariance, including the uncertainty of the parameters.

        .. math:: E[x] = \mu, \qquad
            \operatorname{Cov}[x] = W W^\top + \operatorname{diag}(\psi_j + \operatorname{tr} \Sigma_j)

        Errors of the loadings of two features are independent: what they add is noise.
        """
        extra = self.variances.sum(axis=0)  # (d,) or (1,)
        noise = self.centre.noise_variance + (extra if extra.size > 1 else extra[0])
        return replace(self.centre, noise_variance=noise)

    def turned(self, basis: Array) -> ParameterBelief:
        """The belief for other latent axes, parameters B' theta, with the precisions that fit best."""
        theta = np.column_stack([self.centre.loadings, self.centre.mean]) @ basis
        centre = LinearGaussian(theta[:, -1], theta[:, :-1], self.centre.noise_variance)
        told = ParameterBelief(centre, turn(self.covariance, basis), self.precision)
        return told.with_best_precision()

    def with_best_precision(self) -> ParameterBelief:
        """The precisions that the loadings themselves suggest, d / E|w_k|^2."""
        return replace(self, precision=self.n_known / np.maximum(self.energy, np.finfo(float).tiny))

    def principal(self) -> ParameterBelief:
        """Latent axes along the principal axes of the mean loadings, largest first, signs fixed."""
        basis = np.eye(self.n_components + 1)
        basis[:-1, :-1] = self.centre.principal_rotation
        return self.turned(basis)

    def keep(self, components: Index) -> ParameterBelief:
        """Some of the components only; the loadings of the others are set to zero."""
        rows, columns = np.tril_indices(components.size + 1)
        chosen = np.append(components, self.n_components)
        covariance = self.covariance[packed_size(chosen[rows]) + chosen[columns]]
        centre = replace(self.centre, loadings=self.centre.loadings[:, components])
        return ParameterBelief(centre, covariance, self.precision[components])

    def muted(self, variance_share: float = 1e-12) -> ParameterBelief:
        """A belief without relevant components: loadings are zero, with a variance that is this share of the noise."""
        rows, columns = np.tril_indices(self.n_components + 1)
        variance = variance_share * np.mean(self.centre.noise_variance)
        covariance = np.where((rows == columns)[:, None], variance, 0.0) * (self.covariance[-1] > 0)
        covariance[-1] = self.covariance[-1]
        centre = replace(self.centre, loadings=np.zeros(self.centre.loadings.shape))
        return ParameterBelief(centre, covariance, np.full(self.n_components, 1 / variance))

    def rescale(self, scale: Array) -> ParameterBelief:
        """The belief for ``scale * x``: units changed feature by feature: (d,)."""
        told = ParameterBelief(self.centre.rescale(scale), self.covariance * np.square(scale), self.precision)
        return told.with_best_precision()
