"""PPCA with the conventions of pyspark.ml."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probpca import PPCA, DataError
from probpca.inference.posteriors import posterior_mean
from probpca.learning import Status
from probpca.sources import open_source

pytest.importorskip("pyspark")
pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("default")  # Spark warns of what pandas and Python will do one day

N, D, Q = 900, 5, 2
RNG = np.random.default_rng(8)
ROWS = RNG.standard_normal((N, Q)) @ RNG.standard_normal((Q, D)) + 0.3 * RNG.standard_normal((N, D)) + 1
HOLEY = np.where(RNG.random((N, D)) < 0.2, np.nan, ROWS)
HOLEY[3] = np.nan  # nothing observed
NAMES = list("abcde")


@pytest.fixture(scope="module")
def ml(spark):  # noqa: ARG001
    return pytest.importorskip("probpca.estimators.spark")


@pytest.fixture(scope="module")
def table(spark):
    """Rows with nulls in columns, complete rows in vectors, and a number that says which is which."""
    from pyspark.ml.functions import array_to_vector  # noqa: PLC0415

    rows = [
        [i, *(None if np.isnan(cell) else float(cell) for cell in holey), [float(cell) for cell in row]]
        for i, (holey, row) in enumerate(zip(HOLEY, ROWS, strict=True))
    ]
    frame = spark.createDataFrame(rows, "id int, a double, b double, c double, d double, e double, x array<double>")
    return frame.withColumn("features", array_to_vector("x")).drop("x").repartition(3).cache()


def local(rows, **settings):
    return PPCA(Q, random_state=0, **settings).fit(open_source([rows]))


def outputs(frame, name):
    """The vectors of a column, in the order of the rows they belong to."""
    found = sorted((row.id, row[name].toArray()) for row in frame.select("id", name).collect())
    assert [i for i, _ in found] == list(range(N))
    return np.array([vector for _, vector in found])


def test_a_column_of_vectors_is_fitted_and_transformed(ml, table):
    model = ml.PPCA(nComponents=Q, outputCol="z").fit(table)
    wanted = local(ROWS)
    assert_allclose(model.linear_gaussian.loadings, wanted.loadings_, rtol=1e-9)
    assert_allclose(model.getLogLikelihood(), wanted.log_likelihood_, rtol=1e-12)
    assert model.getStatus() is Status.EXACT
    found = model.transform(table)
    assert found.columns == [*table.columns, "z"]
    assert_allclose(outputs(found, "z"), wanted.transform(ROWS), rtol=1e-9, atol=1e-9)


def test_nulls_are_missing_cells(ml, table):
    model = ml.PPCA(nComponents=Q, inputCols=NAMES, outputCol="z", tol=1e-8).fit(table)
    wanted = local(HOLEY, tol=1e-8)
    assert_allclose(model.linear_gaussian.loadings, wanted.loadings_, rtol=1e-7)
    means = outputs(model.transform(table), "z")
    assert_allclose(means, posterior_mean(model.linear_gaussian, HOLEY), rtol=1e-9, atol=1e-9)
    assert_allclose(means[3], 0.0, atol=1e-12)


def test_columns_of_different_units_can_be_standardized(ml, table):
    model, wanted = ml.PPCA(nComponents=Q, standardize=True, outputCol="z").fit(table), local(ROWS, standardize=True)
    assert_allclose(model.getOrDefault("scale"), wanted.scale_, rtol=1e-9)
    assert_allclose(model.getOrDefault("loadings"), wanted.loadings_, rtol=1e-9)
    assert_allclose(model.getOrDefault("noiseVariance"), wanted.noise_variance_, rtol=1e-9)
    for name in ("mean", "loadings", "noise_variance"):
        assert_allclose(getattr(model.linear_gaussian, name), getattr(wanted.model_, name), rtol=1e-9)
    assert_allclose(outputs(model.transform(table), "z"), wanted.transform(ROWS), rtol=1e-9, atol=1e-9)
    assert not ml.PPCA(nComponents=Q).fit(table).isSet("scale")


def test_parameters_are_set_and_got(ml, table):
    ppca = ml.PPCA()
    assert ppca.getNComponents() == "parallel"
    assert (
        ppca.fit(table).linear_gaussian.n_components
        == local(ROWS).set_params(n_components="bic").fit(ROWS).n_components_
    )
    ppca.setNComponents(3).setTol(1e-5).setMaxIter(7).setSolver("em").setStandardize(True).setSeed(4)
    ppca.setFeaturesCol("x").setInputCols(NAMES).setOutputCol("z")
    assert (ppca.getNComponents(), ppca.getTol(), ppca.getMaxIter(), ppca.getSolver()) == (3, 1e-5, 7, "em")
    assert (ppca.getStandardize(), ppca.getSeed(), ppca.getFeaturesCol()) == (True, 4, "x")
    assert (ppca.getInputCols(), ppca.getOutputCol()) == (NAMES, "z")
    assert ppca.copy({ppca.tol: 0.5}).getTol() == 0.5
    assert "nComponents" in ppca.explainParams()


def test_a_parameter_map_of_the_call_wins(ml, table):
    ppca = ml.PPCA(nComponents=1)
    assert ppca.fit(table, {ppca.nComponents: 3}).linear_gaussian.n_components == 3


def test_a_text_column_is_named(ml, table):
    with pytest.raises(DataError, match="column 'word' has type string"):
        ml.PPCA(inputCols=["a", "word"]).fit(table.selectExpr("a", "'x' as word"))


def test_an_estimator_and_a_model_are_saved_and_loaded(ml, table, tmp_path):
    ppca = ml.PPCA(nComponents=Q, inputCols=NAMES, outputCol="z", standardize=True)
    ppca.save(str(tmp_path / "estimator"))
    loaded = ml.PPCA.load(str(tmp_path / "estimator"))
    assert loaded.extractParamMap().keys() == ppca.extractParamMap().keys()
    assert (loaded.uid, loaded.getNComponents(), loaded.getInputCols()) == (ppca.uid, Q, NAMES)
    model = ppca.fit(table)
    model.save(str(tmp_path / "model"))
    again = ml.PPCAModel.load(str(tmp_path / "model"))
    for name in ("mean", "loadings", "noise_variance"):
        assert (getattr(again.linear_gaussian, name) == getattr(model.linear_gaussian, name)).all()
    assert (again.getStatus(), again.getLogLikelihood()) == (model.getStatus(), model.getLogLikelihood())
    assert_allclose(outputs(again.transform(table), "z"), outputs(model.transform(table), "z"), rtol=1e-12)


def test_a_pipeline_is_saved_and_loaded(ml, table, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel  # noqa: PLC0415
    from pyspark.ml.feature import StandardScaler  # noqa: PLC0415

    scaler = StandardScaler(inputCol="features", outputCol="scaled", withMean=True)
    pipeline = Pipeline(stages=[scaler, ml.PPCA(nComponents=Q, featuresCol="scaled", outputCol="z")])
    pipeline.save(str(tmp_path / "pipeline"))
    fitted = Pipeline.load(str(tmp_path / "pipeline")).fit(table)
    fitted.save(str(tmp_path / "fitted"))
    means = outputs(PipelineModel.load(str(tmp_path / "fitted")).transform(table), "z")
    scaled = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0, ddof=1)
    assert_allclose(means, local(scaled).transform(scaled), rtol=1e-8, atol=1e-8)
