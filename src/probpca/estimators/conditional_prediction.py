"""Predictions of some columns from others, in the form of the known columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np

from probpca.errors import ShapeError
from probpca.estimators.base import names_for
from probpca.result_tables import (
    FIRST_ROWS,
    ResultTable,
    frame_of,
    interval_table,
    several,
    shown_as_table,
)

if TYPE_CHECKING:
    from probpca.inference.conditioning import Predictive
    from probpca.linalg.low_rank import DiagPlusLowRank
    from probpca.typing import Array, Index


@shown_as_table
class ConditionalPrediction:
    r"""Columns predicted from other columns of the same rows, with their uncertainty.

    .. math:: x_u \mid x_o \sim N(\mu_u + W_u m, \; W_u P W_u^\top + \Psi_u)

    The result of ``PPCA.condition`` and ``BayesianPCA.condition``. :math:`x_o` are the known columns, :math:`x_u` the
    predicted ones; m and P are the posterior mean and covariance of the latent variables. If the known columns are a
    dataframe, means and intervals are dataframes too, with the same index and the names of the predicted columns.
    ``print`` and a notebook show the first rows; ``to_frame()`` has all.

    Attributes
    ----------
    features : ndarray of int (u,)
        Positions of the predicted columns.
    mean : array or dataframe (n, u)
        Predicted values.
    std : ndarray (u,)
        Standard deviation of each predicted column, the same for all rows.
    covariance : DiagPlusLowRank (u, u)
        Covariance of the predicted columns, the same for all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probpca import PPCA
    >>> iris = load_iris(as_frame=True).data
    >>> ppca = PPCA(n_components=2).fit(iris)
    >>> known = iris.loc[[5, 100], ["petal length (cm)", "petal width (cm)"]]
    >>> low, high = ppca.condition(known).interval()
    >>> low.round(1)
         sepal length (cm)  sepal width (cm)
    5                  4.2               2.5
    100                6.0               2.1
    """

    def __init__(self, found: Predictive, X: Any, names: list[str]) -> None:
        """Store the prediction, the known columns ``X`` and the names of all columns."""
        self._found, self._names = found, names_for(X, [names[j] for j in found.features])

    @property
    def features(self) -> Index:
        """Positions of the predicted columns: (u,)."""
        return self._found.features

    @property
    def mean(self) -> Any:
        """Predicted values of each row: an array or dataframe (n, u)."""
        return self._names.matrix(self._found.mean)

    @property
    def std(self) -> Array:
        """Standard deviation of each predicted column, the same for all rows: (u,)."""
        return self._found.std

    @property
    def covariance(self) -> DiagPlusLowRank:
        """Covariance of the predicted columns, the same for all rows: (u, u)."""
        return self._found.covariance

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Prediction intervals of each cell.

        Parameters
        ----------
        level : float, default=0.95
            Probability that an interval contains the true value.

        Returns
        -------
        low, high : arrays or dataframes of shape (n, u)
            Lower and upper ends.
        """
        low, high = self._found.interval(level)
        return self._names.matrix(low), self._names.matrix(high)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Return the predictions as columns with one entry for each predicted cell.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        dict of str to array
            Columns "row", "feature", "mean", "std", "low" and "high", each of length n * u.
        """
        mean = self._found.mean
        low, high = self._found.interval(level)
        std = np.broadcast_to(self.std, mean.shape)
        return self._names.long_columns("row", mean=mean, std=std, low=low, high=high)

    def to_frame(self, level: float = 0.95, *, backend: str | None = None) -> Any:
        """Return a dataframe with one line for each predicted cell: row, feature, mean, std, low and high.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.
        backend : "pandas", "polars", "pyarrow" or None, default=None
            Library of the dataframe. None: that of the known columns, or pandas if they are an array.
        """
        return frame_of(self.to_dict(level), backend or self._names.backend)

    def table(self, most: int = FIRST_ROWS, *, level: float = 0.95) -> ResultTable:
        """Predicted values and intervals of the first ``most`` rows, as a table that prints as text or HTML."""
        n, u = self._found.mean.shape
        heading = f"Prediction of {several(u, 'column')} for {several(n, 'row')}: mean and {100 * level:.4g}% interval"
        ends = self._found.interval(level)
        return interval_table(heading, ("row", "row"), self._names, (self._found.mean, *ends), most)


def known_columns(features: Any, values: Any, names: list[str] | None) -> tuple[Any, Any]:
    """The known features and their values: without ``values``, ``features`` is a dataframe of known columns.

    Columns of a dataframe are found by name if the fit knew names; otherwise they are taken in their order.
    """
    if values is None:
        if not nw.dependencies.is_into_dataframe(features):
            msg = (
                "condition() needs a dataframe of the known columns, or their names and values; got one argument of "
                f"type {type(features).__name__}.\nHint: condition(features, values)."
            )
            raise ShapeError(msg)
        if names is None:
            msg = (
                "condition() finds the columns of a dataframe by name; the fit had no names of columns.\n"
                "Hint: condition(positions, values)."
            )
            raise ShapeError(msg)
        return list(nw.from_native(features, eager_only=True).columns), features
    return features, values


def chosen_columns(positions: list[int], values: Any, names: list[str] | None) -> Any:
    """The columns of a dataframe at some positions of the fit, found by name; other values as they are."""
    if names is None or not nw.dependencies.is_into_dataframe(values):
        return values
    frame = nw.from_native(values, eager_only=True)
    wanted = [names[j] for j in positions]
    lacking = [name for name in wanted if name not in frame.columns]
    if lacking:
        msg = f"values must have a column for each known feature; {lacking[0]!r} is not among {frame.columns}."
        raise ShapeError(msg)
    return frame.select(wanted).to_native()
