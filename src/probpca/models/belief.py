"""Gaussian posterior of the parameters of a linear-Gaussian model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from probpca.cached_property import cached_property
from probpca.errors import require_finite, require_positive, require_shape
from probpca.linalg.packed import by_columns, packed_size, turn, unpack
from probpca.models.gaussian import LinearGaussian

if TYPE_CHECKING:
    from probpca.typing import Array, Index


@final
@dataclass(frozen=True, eq=False)
class ParameterBelief:
    r"""Posterior distribution of the loadings and the mean of Bayesian PCA.

    The parameters of each feature, :math:`\theta_j = [w_j; \mu_j]`, have an independent Gaussian posterior, and the
    loadings of component k the prior :math:`w_{jk} \sim N(0, 1 / \alpha_k)`:

    .. math:: \theta_j \mid X \sim N(\hat\theta_j, \Sigma_j)

    A large precision :math:`\alpha_k` means that the loadings of component k are all near zero: the component is
    irrelevant (automatic relevance determination, Bishop 1999).

    Attributes
    ----------
    centre : LinearGaussian
        Model at the posterior means of W and mu, with the noise variance.
    covariance : ndarray of shape ((q + 1)(q + 2) / 2, d or 1)
        Posterior covariance Sigma_j of the parameters of each feature: its lower triangle, row by row. One column if
        all features share it.
    precision : ndarray of shape (q,)
        Prior precision alpha of the loadings of each component.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca.learning import fit_variational
    >>> belief = fit_variational(load_iris().data, 2).belief
    >>> belief.n_components, belief.centre.loadings.shape, belief.variances.shape
    (2, (4, 2), (3, 1))
    """

    centre: LinearGaussian
    covariance: Array
    precision: Array

    def __post_init__(self) -> None:
        """Convert the arrays to read-only float64 and check their shapes and values."""
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
        """Sum over the features of the expected squared loadings of each component, E|w_k|^2: (q,)."""
        return np.square(self.centre.loadings).sum(axis=0) + self.loading_variance

    @property
    def loading_variance(self) -> Array:
        """Sum over the features of the posterior variances of the loadings of each component: (q,)."""
        return np.diag(self.summed_covariance)

    @cached_property
    def summed_covariance(self) -> Array:
        """Sum over the features of the posterior covariances of their loadings: (q, q)."""
        each = self.centre.n_features / self.covariance.shape[1]
        return each * unpack(self.covariance[: packed_size(self.n_components)].sum(axis=1))

    @cached_property
    def cell_information(self) -> Array:
        """Expected precision E[w_j w_j'] / psi_j that an observed cell of feature j adds to the posterior of z.

        The lower triangle of each matrix is packed by columns: (q (q + 1) / 2, d). Computed once per object.
        """
        out, noise = self.centre.cell_information.copy(), self.centre.noise_variance
        for k, place in enumerate(by_columns(self.n_components)):
            out[k] += self.covariance[place] / noise
        return out

    @property
    def n_known(self) -> int:
        """Number of features with at least one observed cell; the covariance of the others is zero."""
        return self.centre.n_features if self.covariance.shape[1] == 1 else int(np.count_nonzero(self.covariance[-1]))

    @property
    def variances(self) -> Array:
        """Posterior variance of each parameter of each feature, the mean last: (q + 1, d or 1)."""
        return self.covariance[packed_size(np.arange(1, self.n_components + 2)) - 1]

    def predictive(self) -> LinearGaussian:
        r"""Gaussian approximation of the predictive distribution of a new row.

        It has the exact mean and covariance of a new row, including the uncertainty of the parameters:

        .. math:: E[x] = \mu, \qquad
            \operatorname{Cov}[x] = W W^\top + \operatorname{diag}(\psi_j + \operatorname{tr} \Sigma_j)

        Parameters of different features are independent, so that their uncertainty adds to the noise variances.
        """
        extra = self.variances.sum(axis=0)  # (d,) or (1,)
        noise = self.centre.noise_variance + (extra if extra.size > 1 else extra[0])
        return replace(self.centre, noise_variance=noise)

    def turned(self, basis: Array) -> ParameterBelief:
        """Posterior of the transformed parameters B'theta, with updated precisions; B has shape (q + 1, q + 1)."""
        theta = np.column_stack([self.centre.loadings, self.centre.mean]) @ basis
        centre = LinearGaussian(theta[:, -1], theta[:, :-1], self.centre.noise_variance)
        transformed = ParameterBelief(centre, turn(self.covariance, basis), self.precision)
        return transformed.with_best_precision()

    def with_best_precision(self) -> ParameterBelief:
        """Copy with the precisions that maximise the evidence bound given the loadings, alpha_k = d / E|w_k|^2."""
        return replace(self, precision=self.n_known / np.maximum(self.energy, self.n_known * np.finfo(float).tiny))

    def principal(self) -> ParameterBelief:
        """Copy with latent axes along the principal axes of the mean loadings, largest first, with fixed signs."""
        basis = np.eye(self.n_components + 1)
        basis[:-1, :-1] = self.centre.principal_rotation
        return self.turned(basis)

    def keep(self, components: Index) -> ParameterBelief:
        """Copy with only the given components; those left out have zero loadings."""
        rows, columns = np.tril_indices(components.size + 1)
        chosen = np.append(components, self.n_components)
        covariance = self.covariance[packed_size(chosen[rows]) + chosen[columns]]
        centre = replace(self.centre, loadings=self.centre.loadings[:, components])
        return ParameterBelief(centre, covariance, self.precision[components])

    def muted(self, variance_share: float = 1e-12) -> ParameterBelief:
        """Copy in which no component is relevant: zero loadings, with ``variance_share`` of the noise as variance."""
        rows, columns = np.tril_indices(self.n_components + 1)
        variance = variance_share * np.mean(self.centre.noise_variance)
        covariance = np.where((rows == columns)[:, None], variance, 0.0) * (self.covariance[-1] > 0)
        covariance[-1] = self.covariance[-1]
        centre = replace(self.centre, loadings=np.zeros(self.centre.loadings.shape))
        return ParameterBelief(centre, covariance, np.full(self.n_components, 1 / variance))

    def rescale(self, scale: Array) -> ParameterBelief:
        """Posterior for the rows ``scale * x``, with each feature multiplied by a constant: (d,)."""
        scaled = ParameterBelief(self.centre.rescale(scale), self.covariance * np.square(scale), self.precision)
        return scaled.with_best_precision()
