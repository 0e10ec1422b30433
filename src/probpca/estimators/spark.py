"""PPCA with the conventions of pyspark.ml: ``probpca.spark.PPCA``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.ml import Estimator, Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasFeaturesCol, HasInputCols, HasMaxIter, HasOutputCol, HasSeed, HasSolver, HasTol
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql.functions import array, coalesce, lit, pandas_udf

from probpca.inference.posteriors import posterior_mean
from probpca.learning import Settings, Status, fit_ppca
from probpca.learning.settings import SampleSize
from probpca.models import LinearGaussian
from probpca.sources.engines.local import one_blas_thread, quietly
from probpca.sources.engines.spark import as_list, open_spark

if TYPE_CHECKING:
    from typing import Self

    from probpca.learning import FitResult
    from probpca.typing import Array


class _Columns(HasFeaturesCol, HasInputCols, HasOutputCol):  # type: ignore[misc]
    """Parameters for the names of input and output columns."""

    def setFeaturesCol(self, value: str) -> Self:  # noqa: N802
        """Name of a column of vectors, or of arrays of numbers."""
        return self._set(featuresCol=value)

    def setInputCols(self, value: list[str]) -> Self:  # noqa: N802
        """Names of columns of numbers, instead of one of vectors; null and NaN are missing cells."""
        return self._set(inputCols=value)

    def setOutputCol(self, value: str) -> Self:  # noqa: N802
        """Name of the column of posterior means."""
        return self._set(outputCol=value)

    def _numbers(self, dataset: Any) -> Any:
        """Select the columns that hold the rows."""
        names = self.getInputCols() if self.isSet(self.inputCols) else [self.getFeaturesCol()]
        return dataset.select([f"`{name}`" for name in names])


class PPCA(Estimator, _Columns, HasTol, HasMaxIter, HasSolver, HasSeed, DefaultParamsReadable, DefaultParamsWritable):  # type: ignore[misc]
    """Probabilistic PCA of the rows of a Spark DataFrame with or without missing cells.

    Parameters are those of ``probpca.PPCA`` in Spark's spelling. Rows are a column of vectors or arrays
    (``featuresCol``), or columns of numbers (``inputCols``), in which null and NaN are missing cells.
    Rows stay on the executors; the driver receives sums.
    """

    nComponents: Any = Param(  # noqa: N815
        Params._dummy(),  # noqa: SLF001
        "nComponents",
        "number of components, share of variance that they must hold, or a rule: 'parallel', 'bic', 'evidence'",
    )
    standardize: Any = Param(
        Params._dummy(),  # noqa: SLF001
        "standardize",
        "whether to fit to columns scaled to unit variance",
        TypeConverters.toBoolean,
    )

    def __init__(
        self,
        *,
        nComponents: float | str | None = None,
        featuresCol: str | None = None,
        inputCols: list[str] | None = None,
        outputCol: str | None = None,
        tol: float | None = None,
        maxIter: int | None = None,
        solver: str | None = None,
        standardize: bool | None = None,
        seed: int | None = None,
    ) -> None:
        """Store the parameters; ``fit`` checks them."""
        super().__init__()
        self._setDefault(nComponents="parallel", tol=1e-3, maxIter=1000, solver="auto", standardize=False, seed=0)
        given = {"nComponents": nComponents, "featuresCol": featuresCol, "inputCols": inputCols}
        given |= {"outputCol": outputCol, "tol": tol, "maxIter": maxIter, "solver": solver}
        given |= {"standardize": standardize, "seed": seed}
        self._set(**{name: value for name, value in given.items() if value is not None})

    def setNComponents(self, value: float | str) -> Self:  # noqa: N802
        """Number of components, the share of variance that they must hold, or the name of a rule."""
        return self._set(nComponents=value)

    def setTol(self, value: float) -> Self:  # noqa: N802
        """Stop when the log-likelihood, summed over the rows, is estimated to rise by less than this."""
        return self._set(tol=value)

    def setMaxIter(self, value: int) -> Self:  # noqa: N802
        """Largest number of steps of an iterative solver."""
        return self._set(maxIter=value)

    def setSolver(self, value: str) -> Self:  # noqa: N802
        """A solver of ``probpca.PPCA``."""
        return self._set(solver=value)

    def setStandardize(self, value: bool) -> Self:  # noqa: FBT001, N802
        """Whether to scale columns to unit variance; loadings and noise are then those of the scaled columns."""
        return self._set(standardize=value)

    def setSeed(self, value: int) -> Self:  # noqa: N802
        """Seed of the starting vectors of iterative solvers."""
        return self._set(seed=value)

    def getNComponents(self) -> Any:  # noqa: N802
        """The number of components, or the rule that chooses it."""
        return self.getOrDefault(self.nComponents)

    def getStandardize(self) -> bool:  # noqa: N802
        """Whether columns are scaled to unit variance."""
        return bool(self.getOrDefault(self.standardize))

    def _fit(self, dataset: Any) -> PPCAModel:
        sample = SampleSize(calibration=0)  # models of Spark have no p-values: no rows need to travel for them
        settings = Settings(self.getSolver(), self.getTol(), self.getMaxIter(), sample=sample)
        rng = np.random.default_rng(self.getSeed())
        rows, standardize = open_spark(self._numbers(dataset)), self.getStandardize()
        result = fit_ppca(rows, self.getNComponents(), settings, rng, standardize=standardize)
        return self._copyValues(PPCAModel(result))


def _fitted(name: str, doc: str, converter: Any) -> Any:
    return Param(Params._dummy(), name, doc, converter)  # noqa: SLF001


class PPCAModel(Model, _Columns, DefaultParamsReadable, DefaultParamsWritable):  # type: ignore[misc]
    """A fitted model; its numbers are parameters of Spark, and are saved as such.

    If columns were standardised, ``loadings`` and ``noiseVariance`` are those of the columns divided by ``scale``,
    which is set only then.
    """

    mean: Any = _fitted("mean", "mean of the rows", TypeConverters.toListFloat)
    scale: Any = _fitted("scale", "standard deviations that columns were divided by", TypeConverters.toListFloat)
    loadings: Any = _fitted("loadings", "loadings along the principal axes", TypeConverters.toListListFloat)
    noiseVariance: Any = _fitted("noiseVariance", "noise variance", TypeConverters.toFloat)  # noqa: N815
    logLikelihood: Any = _fitted("logLikelihood", "of all training rows", TypeConverters.toFloat)  # noqa: N815
    status: Any = _fitted("status", "how the fit ended", TypeConverters.toString)

    def __init__(self, result: FitResult | None = None) -> None:
        """Store the numbers of a fit; Spark sets them itself when it reads a saved model."""
        super().__init__()
        if result is not None:
            scaled = result.scaled_model
            self._set(mean=result.model.mean.tolist(), loadings=scaled.loadings.tolist())
            self._set(noiseVariance=float(scaled.noise_variance))
            if result.scale is not None:
                self._set(scale=result.scale.tolist())
            self._set(logLikelihood=float(result.log_likelihood), status=result.status.name)

    @property
    def linear_gaussian(self) -> LinearGaussian:
        """The fitted model in the units of the data, for the functions of ``probpca.inference``."""
        mean, loadings = np.array(self.getOrDefault(self.mean)), np.array(self.getOrDefault(self.loadings))
        noise = np.array(self.getOrDefault(self.noiseVariance))
        if not self.isSet(self.scale):
            return LinearGaussian(mean, loadings, noise)
        scale = np.array(self.getOrDefault(self.scale))
        return LinearGaussian(mean, loadings * scale[:, None], noise * np.square(scale))

    def getLogLikelihood(self) -> float:  # noqa: N802
        """Total over the training rows."""
        return float(self.getOrDefault(self.logLikelihood))

    def getStatus(self) -> Status:  # noqa: N802
        """How the fit ended."""
        return Status[self.getOrDefault(self.status)]

    def _transform(self, dataset: Any) -> Any:
        model = self.linear_gaussian
        nothing = array(*[lit(None).cast("double")] * model.n_features)
        rows = coalesce(as_list(self._numbers(dataset).schema), nothing)
        means = pandas_udf(_posterior_means(model), "array<double>")
        return dataset.withColumn(self.getOutputCol(), array_to_vector(means(rows)))


def _posterior_means(model: LinearGaussian) -> Any:
    _ = model.covariance.whitened  # once, before executors would each compute it

    def means(lists: pd.Series) -> pd.Series:
        if not len(lists):
            return lists
        with one_blas_thread():
            rows: Array = np.vstack(lists.to_numpy())
            return pd.Series(list(quietly(partial(posterior_mean, model), rows)))

    means.__annotations__ = {"lists": pd.Series, "return": pd.Series}  # Spark reads types, not their names
    return means
