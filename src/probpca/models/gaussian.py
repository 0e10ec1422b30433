"""Gaussian distributions with a dense covariance, and the linear-Gaussian model x = W z + mu + noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.special import ndtri

from probpca.cached_property import cached_property
from probpca.errors import DataError, ShapeError, require_finite, require_positive, require_shape
from probpca.linalg.low_rank import DiagPlusLowRank
from probpca.linalg.packed import scaled_outer_products
from probpca.linalg.rotations import cholesky_or_none, fix_signs
from probpca.result_tables import (
    FIRST_COLUMNS,
    FIRST_ROWS,
    NO_NAMES,
    Column,
    Names,
    ResultTable,
    Section,
    numbers,
    rest,
    several,
    shown_as_table,
    words,
)

if TYPE_CHECKING:
    from probpca.typing import Array, Index


@shown_as_table
@final
@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    r"""A Gaussian distribution :math:`N(m, P)`, or one for each row.

    ``print`` and a notebook show means and standard deviations; ``to_frame()`` has them for every row.

    Attributes
    ----------
    mean : ndarray of shape (k,) or (n, k)
        Mean, or one mean per row.
    covariance : ndarray of shape (k, k) or (n, k, k)
        Covariance, or one per row; rows may share one matrix as a read-only view.
    names : Names or None
        Names of the rows and variables, for tables and dataframes.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.models import Gaussian
    >>> belief = Gaussian(np.zeros(2), np.diag([1.0, 4.0]))
    >>> belief.std
    array([1., 2.])
    >>> belief
    Gaussian of 2 variables: mean and standard deviation (sd)
    variable  mean  sd
    x0           0   1
    x1           0   2

    The posterior of the components of some rows:

    >>> from sklearn.datasets import load_iris
    >>> from probpca import PPCA
    >>> X = load_iris(as_frame=True).data
    >>> PPCA(n_components=2).fit(X).posterior(X).table(most=2)
    Gaussian of 2 variables, 150 rows: mean and standard deviation (sd)
    row  PC1 mean  PC1 sd  PC2 mean  PC2 sd
    0      -1.302  0.1099    0.5781  0.4585
    1      -1.316  0.1099   -0.3204  0.4585
    ... and 148 more rows
    """

    mean: Array
    covariance: Array
    names: Names | None = None

    def __post_init__(self) -> None:
        """Convert the arrays to read-only float64 and check their shapes and values."""
        mean, covariance = _read_only(self.mean), _read_only(self.covariance)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", covariance)
        k = mean.shape[-1] if mean.ndim else 0
        wanted = (*mean.shape[:-1], k, k)
        if mean.ndim not in (1, 2) or covariance.shape != wanted:
            msg = (
                f"mean must be (k,) or (n, k) and covariance (k, k) or (n, k, k); "
                f"got {mean.shape} and {covariance.shape}."
            )
            raise ShapeError(msg)
        require_finite("mean", mean)
        require_finite("covariance", covariance)

    @property
    def std(self) -> Array:
        """Standard deviation of each variable, shaped like ``mean``."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))

    def to_dict(self) -> dict[str, Array]:
        """Mean and standard deviation of each variable, under its name and its name with ``_std``."""
        names = (self.names or NO_NAMES).column_names(self.mean.shape[-1])
        mean, std = np.atleast_2d(self.mean), np.atleast_2d(self.std)
        parts = ({name: mean[:, j], f"{name}_std": std[:, j]} for j, name in enumerate(names))
        return {name: values for part in parts for name, values in part.items()}

    def to_frame(self, *, backend: str | None = None) -> Any:
        """Return a dataframe with the mean and standard deviation of each variable, a line for every row.

        The dataframe is of the library of the input, with its index if that is pandas; pandas for arrays.
        ``backend`` names another library: "pandas", "polars" or "pyarrow".
        """
        return (self.names or NO_NAMES).frame(self.to_dict(), backend)

    def table(self, most: int = FIRST_ROWS) -> ResultTable:
        """Means and standard deviations of the first ``most`` rows, or of the variables of a single Gaussian."""
        names, k = self.names or NO_NAMES, self.mean.shape[-1]
        variables, shown = names.column_names(k), min(k, FIRST_COLUMNS)
        what = f"Gaussian of {several(k, 'variable')}"
        if self.mean.ndim == 1:
            columns: tuple[Column, ...] = (
                words("variable", variables[:most]),
                numbers("mean", self.mean[:most]),
                numbers("sd", self.std[:most]),
            )
            left, hidden = rest(k - most, "more variable"), 0
        else:
            rows, mean, std = range(min(most, len(self.mean))), self.mean[:most], self.std[:most]
            parts = [
                (numbers(f"{variables[j]} mean", mean[:, j]), numbers(f"{variables[j]} sd", std[:, j]))
                for j in range(shown)
            ]
            columns = (words("row", names.row_names(rows)), *(column for part in parts for column in part))
            what += f", {several(len(self.mean), 'row')}"
            left, hidden = rest(len(self.mean) - most, "more row"), 2 * (k - shown)
        return ResultTable((Section(f"{what}: mean and standard deviation (sd)", columns, left, hidden),))


def standard_normal(k: int) -> Gaussian:
    """Standard normal distribution N(0, I) of k variables, the prior of the latent variables.

    Examples
    --------
    >>> from probpca.models import standard_normal
    >>> standard_normal(2).covariance
    array([[1., 0.],
           [0., 1.]])
    """
    return Gaussian(np.zeros(k), np.eye(k))


def _read_only(value: Array) -> Array:
    """Read-only float64 view, not a copy, because distributions of many rows are large."""
    view = np.asarray(value, dtype=np.float64).view()
    view.setflags(write=False)
    return view


@final
@dataclass(frozen=True, eq=False)
class LinearGaussian:
    r"""Linear-Gaussian latent variable model: probabilistic PCA or factor analysis.

    .. math:: x = W z + \mu + \varepsilon, \qquad z \sim N(0, I_q), \quad \varepsilon \sim N(0, \Psi)

    With a single noise variance, :math:`\Psi = \sigma^2 I`, this is probabilistic PCA; with one per feature, factor
    analysis. Rows are distributed as :math:`N(\mu, W W^\top + \Psi)`.

    Attributes
    ----------
    mean : ndarray of shape (d,)
        Mean mu.
    loadings : ndarray of shape (d, q)
        Loadings W.
    noise_variance : ndarray of shape () or (d,)
        Noise variance sigma2 of PPCA, or one per feature, psi, for factor analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(mean=np.zeros(3), loadings=[[2.0], [1.0], [0.0]], noise_variance=0.5)
    >>> model.n_features, model.n_components
    (3, 1)
    >>> model.covariance.dense()
    array([[4.5, 2. , 0. ],
           [2. , 1.5, 0. ],
           [0. , 0. , 0.5]])
    """

    mean: Array
    loadings: Array
    noise_variance: Array

    def __post_init__(self) -> None:
        """Convert the arrays to read-only float64 and check their shapes and values."""
        for name in ("mean", "loadings", "noise_variance"):
            value = np.array(getattr(self, name), dtype=np.float64)
            value.setflags(write=False)
            require_finite(name, value)
            object.__setattr__(self, name, value)
        if self.loadings.ndim != 2 or min(self.loadings.shape) < 1:
            msg = f"loadings must be a matrix (d, q) with d, q >= 1; got shape {self.loadings.shape}."
            raise ShapeError(msg)
        d = self.loadings.shape[0]
        require_shape("mean", self.mean, (d,))
        require_shape("noise_variance", self.noise_variance, (), (d,))
        require_positive("noise_variance", self.noise_variance)

    @property
    def n_features(self) -> int:
        """Number of observed features d."""
        return self.loadings.shape[0]

    @property
    def n_components(self) -> int:
        """Number of components q."""
        return self.loadings.shape[1]

    @cached_property
    def covariance(self) -> DiagPlusLowRank:
        """Model covariance C = W W' + Psi, stored in O(d q) memory; ``covariance.dense()`` is the matrix (d, d)."""
        return DiagPlusLowRank(self.noise_variance, self.loadings)

    @cached_property
    def cell_information(self) -> Array:
        """Precision w_j w_j' / psi_j that an observed cell of feature j adds to the posterior of z.

        The lower triangle of each matrix is packed by columns: (q (q + 1) / 2, d). Computed once per object.
        """
        return scaled_outer_products(self.loadings.T, self.loadings.T / self.noise_variance)

    def prepare(self) -> None:
        """Compute the decomposition that questions about rows share, before several threads would do so."""
        _ = self.covariance.whitened

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parameters only, without cached decompositions."""
        return LinearGaussian, (self.mean, self.loadings, self.noise_variance)

    def restrict(self, features: Index) -> LinearGaussian:
        """Marginal model of the features at the given positions."""
        noise = self.noise_variance
        kept = noise if noise.ndim == 0 else noise[features]
        return LinearGaussian(self.mean[features], self.loadings[features], kept)

    def rotate(self, rotation: Array) -> LinearGaussian:
        """Equivalent model with rotated latent axes, z' = R'z with R orthogonal (q, q)."""
        return replace(self, loadings=self.loadings @ rotation)

    def whiten(self, latent: Gaussian) -> LinearGaussian:
        r"""Model with standard normal latent variables that has the same distribution of x as this one with N(m, Q).

        With :math:`Q = L L^\top` the change of variables :math:`z = L z' + m` gives
        :math:`W' = W L` and :math:`\mu' = \mu + W m`.
        """
        mean, loadings = whitened(self.mean, self.loadings, latent)
        return replace(self, mean=mean, loadings=loadings)

    def principal(self) -> LinearGaussian:
        """Equivalent model with latent axes along the principal axes, W = U diag(s), largest first, signs fixed."""
        # W V, not U diag(s): rows of very different size keep their digits.
        return self.rotate(self.principal_rotation)

    @property
    def principal_rotation(self) -> Array:
        """Orthogonal matrix that rotates the latent axes to the principal axes: (q, q)."""
        axes, _, rotation = self._decomposition
        return rotation.T * np.sign(np.einsum("jk,jk->k", fix_signs(axes), axes))

    @property
    def principal_axes(self) -> tuple[Array, Array]:
        """Principal axes U (d, q) and singular values (q,) of W, with fixed signs."""
        axes, singular, _ = self._decomposition
        return fix_signs(axes), singular

    def canonical(self) -> LinearGaussian:
        r"""Equivalent model with the latent axes of factor analysis, where :math:`W^\top \Psi^{-1} W` is diagonal.

        Its entries fall, and the loading of largest magnitude of each axis, in units of the standard deviations of the
        features, is positive. For a single noise variance these are the principal axes.

        Examples
        --------
        >>> import numpy as np
        >>> from probpca.models import LinearGaussian
        >>> loadings = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> model = LinearGaussian(np.zeros(4), loadings, [0.5, 0.2, 0.1, 0.4]).canonical()
        >>> W, psi = model.loadings, model.noise_variance
        >>> (W.T @ (W / psi[:, None])).round(6) + 0.0
        array([[13.108495,  0.      ],
               [ 0.      ,  8.391505]])
        """
        return self.rotate(self.canonical_rotation)

    @property
    def canonical_rotation(self) -> Array:
        r"""Orthogonal matrix that makes :math:`W^\top \Psi^{-1} W` diagonal: right singular vectors, (q, q)."""
        if self.noise_variance.ndim == 0:
            return self.principal_rotation
        rotation = self.covariance.whitened.rotation
        standardised = (self.loadings @ rotation) / np.sqrt(self.covariance.diag())[:, None]
        return rotation * np.where(np.einsum("jk,jk->k", fix_signs(standardised), standardised) < 0, -1.0, 1.0)

    @cached_property
    def _decomposition(self) -> tuple[Array, Array, Array]:
        return np.linalg.svd(self.loadings, full_matrices=False)

    def rescale(self, scale: Array) -> LinearGaussian:
        """Model of the rows ``scale * x``, for one scale per feature (d,) or a single number."""
        factor = np.broadcast_to(np.asarray(scale, dtype=np.float64), (self.n_features,))
        noise = self.noise_variance * np.square(scale)
        return LinearGaussian(self.mean * factor, self.loadings * factor[:, None], noise)

    def in_precision_unit(self, unit: float) -> LinearGaussian:
        """Model of the same cells with all of their relative precisions multiplied by a constant."""
        if unit == 1:
            return self
        with np.errstate(over="ignore", under="ignore"):
            noise = self.noise_variance * unit
        if not (np.isfinite(noise).all() and (noise >= np.finfo(np.float64).tiny).all()):
            msg = (
                "the noise variance of a cell of weight 1 must lie between 1e-307 and 1e308; with these cell_weight it "
                f"is about 1e{np.log10(self.noise_variance).mean() + np.log10(unit):+.0f}.\n"
                "Hint: divide cell_weight by its mean, which changes only the unit of the noise variance."
            )
            raise DataError(msg)
        return replace(self, noise_variance=noise)

    def isotropic(self) -> LinearGaussian:
        """Model with a single noise variance, the mean of those of the features."""
        return replace(self, noise_variance=self.noise_variance.mean())


def whitened(mean: Array, loadings: Array, latent: Gaussian) -> tuple[Array, Array]:
    """Mean and loadings for standard normal latent variables, equivalent to the given ones with N(m, Q)."""
    root = latent_root(latent)
    return mean + loadings @ latent.mean, loadings @ root


def latent_root(latent: Gaussian) -> Array:
    """Lower Cholesky factor of the covariance of latent variables; raises ``DataError`` if they are dependent."""
    root = cholesky_or_none(latent.covariance)
    if root is None:
        msg = (
            "the components cannot be told apart in double precision: weights of cells or rows differ too much, or "
            "rows are too few or repeated.\nHint: use fewer components, or weights that differ less."
        )
        raise DataError(msg)
    return root


def central_interval(mean: Array, std: Array, level: float) -> tuple[Array, Array]:
    """Lower and upper ends of the central interval that contains each value with probability ``level``."""
    if not 0 < level < 1:
        msg = f"level must lie between 0 and 1; got {level}."
        raise DataError(msg)
    width = ndtri(0.5 + level / 2) * std
    return mean - width, mean + width
