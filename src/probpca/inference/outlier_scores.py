"""Outlier scores: distances of rows from a model, with p-values that are accurate far in the tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probpca.blocks import as_block
from probpca.blocks.block import dense_precision, dense_values
from probpca.errors import DataError
from probpca.inference.calibration import (
    RARE,
    Calibration,
    Distances,
    chi2_tail,
    log10_chi2_tail,
    matched,
    probability,
)
from probpca.inference.masked_rows import group_posteriors
from probpca.result_tables import (
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
from probpca.scratch import workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from probpca.blocks import Block, Rows
    from probpca.models import LinearGaussian
    from probpca.typing import Array, Index

CHI_SQUARE = Calibration(obstacle="no calibration was given")
"""Reference distribution without training rows: that of the fitted Gaussian itself."""


@shown_as_table
class Outliers(NamedTuple):
    r"""Distances of rows from the model, with p-values and the contribution of every cell.

    .. math:: D^2 = (x - \mu)^\top C^{-1} (x - \mu) = T^2 + Q

    ``print`` and a notebook show the rows with the smallest p-values, each with the cells that contribute most to its
    distance. ``to_frame()`` has a line for every row; ``to_frame("contributions")`` has the cells.

    ``p_value`` compares distances with a distribution that was matched to the training rows: it is valid for data with
    heavier tails than a Gaussian, and if rows are not many more than columns. For training rows it is based on the
    leave-one-out distance. ``model_p_value`` treats the fitted Gaussian as known and exact. Distances, contributions
    and cell scores are not corrected.

    Only observed cells count: k is their number, and r the number of latent directions that they determine, at most
    q. A row without observed cells has p-values of 1.

    Attributes
    ----------
    distance : ndarray of shape (n,)
        Squared Mahalanobis distance D2 = T2 + Q, with k degrees of freedom.
    latent_distance : ndarray of shape (n,)
        T2, the part within the principal subspace, with r degrees of freedom.
    residual_distance : ndarray of shape (n,)
        Q, the part orthogonal to the subspace in units of the noise, with k - r degrees of freedom.
    p_value : ndarray of shape (n,)
        Probability of a distance at least this large, calibrated to the training rows.
    log10_p_value : ndarray of shape (n,)
        Base-10 logarithm of ``p_value``, also for values too small for a float.
    model_p_value : ndarray of shape (n,)
        Probability of a distance at least this large under the fitted Gaussian (chi-square).
    log10_model_p_value : ndarray of shape (n,)
        Base-10 logarithm of ``model_p_value``.
    latent_p_value : ndarray of shape (n,)
        Calibrated p-value of ``latent_distance``.
    residual_p_value : ndarray of shape (n,)
        Calibrated p-value of ``residual_distance``.
    contributions : ndarray of shape (n, d)
        Signed contribution of each cell to D2; each row sums to ``distance``.
    cell_scores : ndarray of shape (n, d)
        Difference of each cell from its conditional mean given the other cells, in standard deviations; NaN if missing.
    note : str
        Warning that outliers may mask each other, or that p-values are not calibrated; empty if there is none.
    names : Names or None
        Names of the rows and features, for tables and dataframes.

    Examples
    --------
    >>> from probpca import PPCA
    >>> from probpca.datasets import load_fertility
    >>> table = load_fertility().complete().to_frame()
    >>> PPCA(n_components=3).fit(table).outliers(table, training=True).table(most=3)
    Outliers: 192 rows x 52 features, 0 rows with p < 0.001 (0.19 expected by chance)
    row               p-value  distance  most unusual cells (sd from expected)
    Kuwait              0.013     471.2  1991 -6.7, 1992 -6.4, 1990 -6.4
    Macao SAR, China    0.022     347.3  1960 +6.8, 1961 +6.0, 1962 +4.9
    Yemen, Rep.         0.029     264.2  2011 -4.3, 2010 -3.9, 1974 -3.7
    ... and 189 more rows
    Note: 16.7% of the training rows have model_p_value < 0.001. The training rows have
    heavier tails than the model, and p_value allows for that. If some of them are outliers,
    they may hide each other (masking): check model_p_value too.
    """

    distance: Array
    latent_distance: Array
    residual_distance: Array
    p_value: Array
    log10_p_value: Array
    model_p_value: Array
    log10_model_p_value: Array
    latent_p_value: Array
    residual_p_value: Array
    contributions: Array
    cell_scores: Array
    note: str = ""
    names: Names | None = None

    def to_dict(self) -> dict[str, Any]:
        """Distances and p-values of each row, by name, and ``top_feature``, whose cell contributes most."""
        return row_fields(self, ROW_FIELDS)

    def to_frame(self, part: str = "rows", *, backend: str | None = None) -> Any:
        """Return a dataframe with a line for every row, in the library of the input (pandas for arrays).

        ``part`` is "rows" for distances and p-values, or "contributions" or "cell_scores" for a column of each feature.
        ``backend`` names another library: "pandas", "polars" or "pyarrow". The index of a pandas input is kept.
        """
        names = self.names or NO_NAMES
        if part == "rows":
            return names.frame(self.to_dict(), backend)
        if part not in ("contributions", "cell_scores"):
            msg = f"part must be rows, contributions or cell_scores; got {part!r}."
            raise DataError(msg)
        values = np.asarray(getattr(self, part))
        columns = zip(names.column_names(values.shape[1]), values.T, strict=True)
        return names.frame(dict(columns), backend)

    def table(self, most: int = FIRST_ROWS, *, cells: int = 3) -> ResultTable:
        """The ``most`` least likely rows, each with the ``cells`` that contribute most to its distance."""
        values: Any = self.contributions
        if not isinstance(values, np.ndarray):  # a Dask array that has not been computed
            d = values.shape[1]
            return ResultTable((Section(f"Outliers: rows x {several(d, 'feature')}, not computed yet"),))
        return table_of_outliers(self, lambda order: numbers("distance", self.distance[order]), most, cells)


def row_fields(found: Any, fields: Sequence[str]) -> dict[str, Any]:
    """Fields of outlier scores by name, and ``top_feature``, whose cell contributes most to the distance of a row."""
    features = np.array((found.names or NO_NAMES).column_names(found.contributions.shape[1]), dtype=object)
    values = {name: getattr(found, name) for name in fields}
    return values | {"top_feature": features[np.asarray(found.contributions).argmax(axis=1)]}


def table_of_outliers(found: Any, column: Callable[[Index], Column], most: int, cells: int) -> ResultTable:
    """The ``most`` least likely rows with their p-values, a ``column`` of their own and their most unusual cells."""
    n, d = found.contributions.shape
    names, order = found.names or NO_NAMES, np.argsort(found.log10_p_value, kind="stable")[:most]
    features = names.column_names(d)
    causes = (_causes(found.cell_scores[i], features, cells) for i in order)
    columns = (
        words("row", names.row_names(order)),
        Column("p-value", [probability(found.log10_p_value[i]) for i in order]),
        column(order),
        words("most unusual cells (sd from expected)", causes, longest=None),
    )
    rare = int(np.count_nonzero(found.p_value < RARE))
    heading = (
        f"Outliers: {several(n, 'row')} x {several(d, 'feature')}, {several(rare, 'row')} with p < {RARE:g} "
        f"({RARE * n:.2g} expected by chance)"
    )
    note = (f"Note: {found.note}",) if found.note else ()
    return ResultTable((Section(heading, columns, (*rest(n - order.size, "more row"), *note)),))


def _causes(scores: Array, features: list[str], most: int) -> str:
    """Cells of a row that differ most from their conditional means, in standard deviations."""
    largest = np.argsort(-np.nan_to_num(np.abs(scores), nan=-1.0), kind="stable")[:most]
    return ", ".join(f"{features[j]} {scores[j]:+.1f}" for j in largest if not np.isnan(scores[j]))


ROW_FIELDS = (
    "distance",
    "latent_distance",
    "residual_distance",
    "p_value",
    "log10_p_value",
    "model_p_value",
    "log10_model_p_value",
    "latent_p_value",
    "residual_p_value",
)
"""Fields of ``Outliers`` with one number for each row."""


def outliers(
    model: LinearGaussian, x: Rows, calibration: Calibration = CHI_SQUARE, *, left_out_of: float | None = None
) -> Outliers:
    r"""Outlier scores of rows: squared Mahalanobis distances, p-values and contributions of cells.

    .. math:: D^2 = (x - \mu)^\top C^{-1} (x - \mu) = T^2 + Q, \qquad D^2 / (a k) \sim F(k, \nu)

    The scale a and the degrees of freedom :math:`\nu` are those of ``calibration``, as made by ``calibrate``; without
    it ``p_value`` equals ``model_p_value``. If the rows were part of the training data, ``left_out_of`` is the number
    of training rows (with missing cells: the average number of rows in which a feature was observed), and p-values are
    based on leave-one-out distances.

    With :math:`g = C^{-1}(x - \mu)` the contribution of cell j is :math:`(x - \mu)_j g_j`, and
    :math:`g_j / \sqrt{[C^{-1}]_{jj}}` is its z-score given the other cells, standard normal under the model. Costs
    O(d q) per row.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import Calibration, outliers
    >>> from probpca.models import LinearGaussian
    >>> model = LinearGaussian(np.zeros(3), [[1.0], [1.0], [1.0]], 0.1)
    >>> rows = [[1.0, 1.0, 1.0], [1.0, 1.0, -2.0]]
    >>> found = outliers(model, rows)
    >>> found.p_value.round(4)
    array([0.8091, 0.    ])
    >>> int(found.contributions[1].argmax())
    2
    >>> outliers(model, rows, Calibration(scale=1.5, degrees=6.0)).p_value.round(4)
    array([0.8825, 0.0046])
    """
    block = as_block(x, model.n_features)
    found = _of_complete(model, block) if block.is_complete else _of_observed(model, block)
    inside, outside, k, rank = found.distances
    distance, judged, whole = found.whole, found.distances, found.whole
    if left_out_of is not None and not calibration.obstacle:
        judged = judged.left_out(left_out_of)
        whole = judged.whole
    p, model_p = calibration.tail(whole, k), chi2_tail(distance, k)
    return Outliers(
        distance,
        inside,
        outside,
        p,
        calibration.log10_tail(whole, k, p),
        model_p,
        log10_chi2_tail(distance, k, model_p),
        calibration.tail(judged.inside, rank),
        calibration.tail(judged.outside, k - rank),
        found.contributions,
        found.scores,
        calibration.note,
    )


def calibrate(model: LinearGaussian, x: Rows) -> Calibration:
    """Match the reference distribution of p-values to the rows ``x`` that the model was fitted to.

    See ``Calibration`` for the distribution. Estimators calibrate themselves at the end of a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from probpca.inference import calibrate, outliers
    >>> from probpca.learning import fit_ppca
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6)) + rng.standard_normal((300, 6))
    >>> rows *= np.sqrt(rng.chisquare(8, (300, 1)))  # heavy tails
    >>> model = fit_ppca(rows, 2).model
    >>> found = outliers(model, rows, calibrate(model, rows), left_out_of=300)
    >>> int((found.model_p_value < 0.001).sum()), int((found.p_value < 0.001).sum())
    (5, 0)
    """
    block = as_block(x, model.n_features)
    found = _of_complete(model, block) if block.is_complete else _of_observed(model, block)
    w, k = block.weights, found.distances.degrees
    return matched(found.distances, float(w @ k) / block.n_features, block.weight)


class _Scores(NamedTuple):
    distances: Distances
    whole: Array  # D2, which is more precise than T2 + Q if cells hardly determine a latent direction: (n,)
    contributions: Array  # (n, d)
    scores: Array  # (n, d)

    @classmethod
    def empty(cls, n: int, d: int) -> _Scores:
        return cls(Distances.empty(n), np.empty(n), np.empty((n, d)), np.empty((n, d)))


def _of_complete(model: LinearGaussian, block: Block) -> _Scores:
    d = model.n_features
    out = _Scores.empty(block.n_rows, d)
    inside, outside, degrees, rank = out.distances
    degrees[:], rank[:] = d, min(model.n_components, d)
    roots = np.sqrt(model.covariance.inverse_diag())  # (d,)
    with workspace() as work:
        for rows in block.pieces():
            centred = block.centred(rows, model.mean, work=work)
            coordinates = model.covariance.coordinates(centred)
            inside[rows], outside[rows] = model.covariance.split_distance_at(*coordinates)
            weighted = model.covariance.solve_at(*coordinates)  # g: (rows, d)
            out.contributions[rows] = centred * weighted
            out.scores[rows] = weighted / roots
    out.whole[:] = out.distances.whole
    return out


def _of_observed(model: LinearGaussian, block: Block) -> _Scores:
    """Distances of the observed cells of each row, with as many degrees of freedom as cells."""
    out = _Scores.empty(block.n_rows, model.n_features)
    inside, outside, degrees, rank = out.distances
    centred, omega = dense_values(block) - model.mean, dense_precision(block)
    for found in group_posteriors(model, block):
        index, parameters, cells = found.index, found.parameters, found.cells
        best = found.least_squares()
        ones = np.ones((1, index.size))
        inside[index], out.whole[index] = best.distance, found.distance()
        left = cells.residual(parameters.loadings, np.vstack([best.latent, ones])).row_squares() / found.noise
        rank[index], degrees[index] = best.rank, found.group.observed
        outside[index] = np.where(found.group.observed > best.rank, left, 0.0)
        weighted = found.latents.residual(parameters, cells).dense() / found.noise  # g: (b, d)
        out.contributions[index] = np.nan_to_num(centred[index] / found.scale) * weighted
        precise = omega[index] / found.noise
        diagonal = precise * np.maximum(1.0 - precise * found.signal_variance(), 1e-15)  # of C^{-1}
        out.scores[index] = weighted / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    out.scores[np.isnan(centred)] = np.nan
    return out
